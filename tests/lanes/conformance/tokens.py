"""Qwen's real byte-pair tokenizer, built from the ranks that the ``dashscope`` package
carries.

Cuts must fall where they fall in production: ``</`` + ``parameter`` + ``>\\n`` are
three tokens, ``<tool_call>`` is one, and an emoji is up to four. The ranks file is
turned into a ``tokenizers`` JSON once and cached by its content.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import json
import os
import re
from pathlib import Path
from typing import Any

RANKS_IN_PACKAGE = "dashscope/resources/qwen.tiktoken"
"""Where the vocabulary file stands in the distribution ``dashscope`` (any 1.x or
2.x).
"""

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""Qwen2's and Qwen3's pre-tokenizer expression."""

# Qwen3's added tokens, in the order of their ids (151643 ...). Only the first group is
# "special", that is, left out of decoded text; the tool and think tags are ordinary
# added tokens and appear in the text.
SPECIAL = (  # noqa: SIM905 - a list of 14 quoted words would hide their order
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"
).split()
ADDED = (  # noqa: SIM905
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>"
).split()
EOS = "<|im_end|>"

CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools><|im_end|>
{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% set last = messages[-1].content | string -%}
{%- if '[prompt:open]' in last %}<think>
{% elif '[prompt:closed]' in last %}<think>

</think>

{% endif -%}
{%- endif -%}
"""
"""What the prompt ends with is chosen by a mark in the last message, so that every
surface can ask for it.
"""


def cache_dir() -> Path:
    """Folder for built tokenizers (``CONFORMANCE_CACHE``, else below the user's
    cache folder).
    """
    root = os.environ.get("CONFORMANCE_CACHE")
    if root:
        return Path(root)
    return (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        / "vllm-mtp-patches"
        / "conformance"
    )


def ranks_file() -> Path:
    """The ranks file: ``QWEN_TIKTOKEN`` if set, else out of the installed
    ``dashscope``.

    Raises FileNotFoundError with what to install when there is none.
    """
    override = os.environ.get("QWEN_TIKTOKEN")
    if override:
        return Path(override)
    try:
        path = importlib.metadata.distribution("dashscope").locate_file(
            RANKS_IN_PACKAGE
        )
    except importlib.metadata.PackageNotFoundError:
        path = None
    if path is None or not Path(str(path)).is_file():
        raise FileNotFoundError(
            "no qwen.tiktoken: install the package `dashscope` (no dependencies) or set QWEN_TIKTOKEN"
        )
    return Path(str(path))


def _byte_alphabet() -> list[str]:
    """GPT-2's reversible byte-to-character table, as byte-level BPE vocabularies use
    it.
    """
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {b: chr(b) for b in keep}, 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + extra)
            extra += 1
    return [table[b] for b in range(256)]


def _split(ranks: dict[bytes, int], token: bytes) -> tuple[bytes, bytes]:
    """The two parts whose merge made ``token``: byte-pair encoding with only the
    ranks below its own.
    """
    parts, limit = [bytes([b]) for b in token], ranks[token]
    while len(parts) > 2:
        best = min(
            range(len(parts) - 1),
            key=lambda i: (
                r if (r := ranks.get(parts[i] + parts[i + 1], limit)) < limit else limit
            ),
        )
        if ranks.get(parts[best] + parts[best + 1], limit) >= limit:
            raise ValueError(f"rank table has no merge for {token!r}")
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts[0], parts[1]


def _build(raw: bytes) -> dict[str, Any]:
    """The ``tokenizer.json`` document for a ranks file's bytes."""
    ranks = {
        base64.b64decode(tok): int(rank)
        for tok, rank in (line.split() for line in raw.splitlines() if line)
    }
    letters = _byte_alphabet()

    def name(token: bytes) -> str:
        return "".join(letters[b] for b in token)

    vocab = {name(token): rank for token, rank in ranks.items()}
    merges = [
        [name(a), name(b)]
        for a, b in (
            _split(ranks, t)
            for t, _ in sorted(ranks.items(), key=lambda kv: kv[1])
            if len(t) > 1
        )
    ]
    first = len(ranks)
    added = [
        {
            "id": first + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": text in SPECIAL,
        }
        for i, text in enumerate([*SPECIAL, *ADDED])
    ]
    return {
        "version": "1.0",
        "added_tokens": added,
        # No NFC step: the model may *say* decomposed characters, and the script must
        # say exactly the case's text.
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": PATTERN},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": False,
                    "use_regex": False,
                },
            ],
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": False,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


def model_folder() -> Path:
    """A folder that a release can take for a model: configuration, tokenizer, chat
    template; no weights.

    Built once for each content of ranks file and template (about 10 s), then found by
    its digest.
    """
    raw = ranks_file().read_bytes()
    source = Path(__file__).read_bytes()
    folder = cache_dir() / hashlib.sha256(raw + source).hexdigest()[:16]
    if (folder / "done").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "tokenizer.json", json.dumps(_build(raw), ensure_ascii=False))
    _write(
        folder / "tokenizer_config.json",
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": EOS,
                "pad_token": "<|endoftext|>",
                "model_max_length": 262144,
                "clean_up_tokenization_spaces": False,
                "chat_template": CHAT_TEMPLATE,
            }
        ),
    )
    _write(folder / "chat_template.jinja", CHAT_TEMPLATE)
    _write(
        folder / "config.json",
        json.dumps(
            {
                "architectures": ["Qwen2ForCausalLM"],
                "model_type": "qwen2",
                "hidden_size": 64,
                "intermediate_size": 64,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "num_hidden_layers": 1,
                "vocab_size": 151936,
                "max_position_embeddings": 262144,
                "rope_theta": 10000.0,
                "tie_word_embeddings": True,
                "torch_dtype": "bfloat16",
                "eos_token_id": 151645,
                "bos_token_id": 151643,
                "transformers_version": "5.0.0",
            }
        ),
    )
    _write(folder / "done", "")
    return folder


def _write(path: Path, text: str) -> None:
    """Write by rename, so that two processes may build at once."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


@functools.cache
def load() -> Any:
    """The ``tokenizers.Tokenizer``."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(model_folder() / "tokenizer.json"))


def encode(tokenizer: Any, text: str, *, ordinary_tags: bool = False) -> list[int]:
    """Token ids of a model's output text, without the end token.

    ``ordinary_tags``: the tags are spelled out and no special tokens, as some models
    say them (issue 58105).

    Raises ValueError if they do not decode to exactly that text (a lone surrogate,
    say).
    """
    parts = (
        re.split(r"(?<=<)(?=/?(?:tool_call|think)>)", text) if ordinary_tags else [text]
    )
    ids = [
        i
        for part in parts
        for i in tokenizer.encode(part, add_special_tokens=False).ids
    ]
    if tokenizer.decode(ids, skip_special_tokens=False) != text:
        raise ValueError("the text does not survive the tokenizer")
    return ids


def deltas(tokenizer: Any, ids: list[int]) -> list[str]:
    """What each token adds to the text, by the incremental detokenizer's rule.

    An unfinished UTF-8 sequence is held back and arrives with the token that completes
    it; one that never ends is never sent (vLLM's fast detokenizer uses the same
    ``DecodeStream``).
    """
    from tokenizers.decoders import DecodeStream

    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(tokenizer, i) or "" for i in ids]
