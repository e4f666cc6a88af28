# SPDX-License-Identifier: Apache-2.0
"""Proof of in-place-detokenizer: no step copies the text before it."""

from types import SimpleNamespace

import pytest

from harness import copies_nothing, ids, wrapped_tokenizer

PROSE = "some words of an answer "


@pytest.mark.parametrize("stop", [None, ["never said"]])
def test_no_copies(stop: list[str] | None) -> None:
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.detokenizer import IncrementalDetokenizer

    request = SimpleNamespace(
        request_id="1",
        prompt_token_ids=ids("hello"),
        prompt_embeds=None,
        sampling_params=SamplingParams(stop=stop),
    )
    detokenizer = IncrementalDetokenizer.from_new_request(wrapped_tokenizer(), request)
    step = ids(PROSE)

    def grow() -> int:
        detokenizer.update(step * 10_000, False)
        assert detokenizer.get_next_output_text(False, True)
        size = len(detokenizer.output_text)
        assert size > 9_000 * len(PROSE)
        return size

    def update() -> None:
        detokenizer.update(step, False)
        assert len(detokenizer.get_next_output_text(False, True)) == len(PROSE)

    size = copies_nothing(grow, update)
    assert len(detokenizer.output_text) == size + 8 * len(PROSE)
