# SPDX-License-Identifier: Apache-2.0
"""A byte-level BPE tokenizer with Qwen's special tokens, trained on the answers."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

VOCABULARY = 1280

#: How Qwen cuts text before merging: ``</``, ``parameter``, ``>\n`` become tokens.
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

#: As in Qwen's vocabulary: *special* ones are never part of the text, the tags are.
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)


def train(texts: Iterable[str], template: Path) -> PreTrainedTokenizerFast:
    """Return a tokenizer of at most ``VOCABULARY`` tokens plus the special ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces = [text for text in texts if text]
    for tag in (*_SPECIAL, *_TAGS):
        pieces = [piece for text in pieces for piece in text.split(tag)]
    tokenizer.train_from_iterator(pieces, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True) for token in _SPECIAL]
    )
    tokenizer.add_tokens(
        [AddedToken(token, special=False, normalized=False) for token in _TAGS]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = template.read_text(encoding="utf-8")
    return wrapped
