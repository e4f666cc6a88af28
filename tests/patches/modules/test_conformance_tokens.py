# SPDX-License-Identifier: Apache-2.0
"""The tokenizer is Qwen's, and text comes out as the incremental detokenizer gives
it.
"""

from typing import Any

import pytest

from conformance import case as cases
from conformance import tokens


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokens.load()


def test_ids_are_those_of_the_models(tokenizer: Any) -> None:
    # Qwen3's published ids; a wrong rank table or order of added tokens shows here.
    assert tokens.encode(
        tokenizer, "<tool_call></tool_call><think></think><|im_end|>"
    ) == [
        151657,
        151658,
        151667,
        151668,
        151645,
    ]
    assert tokens.encode(tokenizer, "Hello, world!\n") == [9707, 11, 1879, 4894]


def test_frame_tags_are_cut_where_they_are_in_production(tokenizer: Any) -> None:
    ids = tokens.encode(tokenizer, "</parameter>\n<parameter=path>")
    assert [tokenizer.decode([i]) for i in ids] == [
        "</",
        "parameter",
        ">\n",
        "<",
        "parameter",
        "=path",
        ">",
    ]


def test_an_unfinished_character_is_held_back(tokenizer: Any) -> None:
    ids = tokens.encode(tokenizer, "ab 𝔘")
    assert tokens.deltas(tokenizer, ids)[-3:] == ["", "", " 𝔘"]
    assert "".join(tokens.deltas(tokenizer, ids[:-1])) == "ab"


def test_every_case_survives_the_tokenizer(tokenizer: Any) -> None:
    for case in cases.load():
        for start in case.starts:
            ids = tokens.encode(tokenizer, case.run(start).output)
            assert "".join(tokens.deltas(tokenizer, ids)) == case.run(start).output, (
                case.name
            )
