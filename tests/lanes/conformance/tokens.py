# SPDX-License-Identifier: Apache-2.0
"""Qwen's real byte-pair tokenizer, built from the ranks that the ``dashscope`` package
carries.

Cuts must fall where they fall in production: ``</`` + ``parameter`` + ``>\\n`` are
three tokens, ``<tool_call>`` is one, and an emoji is up to four. The ranks file is
turned into a tokenizer once and cached by its content.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

#: Where the vocabulary file stands in the distribution ``dashscope`` (any 1.x or 2.x).
RANKS_IN_PACKAGE = "dashscope/resources/qwen.tiktoken"

#: Qwen2's and Qwen3's pre-tokenizer expression.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Qwen3's added tokens, in the order of their ids (151643 ...). Only the first group is
# "special", that is, left out of decoded text; the tool and think tags are ordinary
# added tokens and appear in the text.
SPECIAL = (  # noqa: SIM905 - a list of 14 quoted words would hide their order
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> "
    "<|box_start|> <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> "
    "<|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"
).split()
ADDED = (  # noqa: SIM905
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> "
    "<|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>"
).split()
EOS = "<|im_end|>"

#: What the prompt ends with is chosen by a mark in the last message, so that every
#: surface can ask for it.
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


TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": EOS,
    "pad_token": "<|endoftext|>",
    "model_max_length": 262144,
    "clean_up_tokenization_spaces": False,
    "chat_template": CHAT_TEMPLATE,
}
CONFIG = {
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


def _build(ranks: Path) -> Any:
    """Return the tokenizer of a ranks file.

    It has no NFC step: the model may *say* decomposed characters, and the script must
    say exactly the case's text.
    """
    from tokenizers import AddedToken
    from transformers.convert_slow_tokenizer import TikTokenConverter

    made = TikTokenConverter(vocab_file=str(ranks), pattern=PATTERN).converted()
    for texts, special in ((SPECIAL, True), (ADDED, False)):
        added = [AddedToken(t, normalized=False, special=special) for t in texts]
        made.add_tokens(added)
    return made


def model_folder() -> Path:
    """Return a folder that a release can take for a model: configuration, tokenizer,
    chat template; no weights.

    Built once for each content of ranks file and template (about 10 s), then found by
    its digest.
    """
    package = importlib.metadata.distribution("dashscope")
    ranks = Path(str(package.locate_file(RANKS_IN_PACKAGE)))
    source = Path(__file__).read_bytes()
    digest = hashlib.sha256(ranks.read_bytes() + source).hexdigest()
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = caches / "vllm-mtp-patches" / "conformance" / digest[:16]
    if folder.is_dir():
        return folder
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    part.mkdir(parents=True)
    _build(ranks).save(str(part / "tokenizer.json"))
    (part / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    (part / "config.json").write_text(json.dumps(CONFIG))
    (part / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    with contextlib.suppress(OSError):  # another process was quicker
        part.rename(folder)
    shutil.rmtree(part, ignore_errors=True)
    return folder


@functools.cache
def load() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(model_folder() / "tokenizer.json"))


def encode(tokenizer: Any, text: str, *, ordinary_tags: bool = False) -> list[int]:
    """Return token ids of a model's output text, without the end token.

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


def ended(text: str) -> list[int]:
    """Return the token ids of an output that the model ended."""
    return [*encode(load(), text), load().token_to_id(EOS)]


def id_of(token: str) -> int:
    """Return a token's id by its text.

    Raises ValueError if the text is not one token.
    """
    (token_id,) = encode(load(), token)
    return token_id


def deltas(tokenizer: Any, ids: list[int]) -> list[str]:
    """Return what each token adds to the text, by the incremental detokenizer's rule.

    An unfinished UTF-8 sequence is held back and arrives with the token that completes
    it; one that never ends is never sent (vLLM's fast detokenizer uses the same
    ``DecodeStream``).
    """
    from tokenizers.decoders import DecodeStream

    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(tokenizer, i) or "" for i in ids]
