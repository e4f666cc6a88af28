# SPDX-License-Identifier: Apache-2.0
"""What ``/metrics`` says about drafts."""

from __future__ import annotations

from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

#: Positions that are judged: the deeper a draft, the rarer its last tokens are right.
_JUDGED = 5


def accepted(text: str, mtp: int) -> list[float]:
    """The share of drafts whose token at each position was accepted."""
    drafts, by_position = 0.0, [0.0] * mtp
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            if name == "vllm:spec_decode_num_drafts_total":
                drafts += value
            elif name == "vllm:spec_decode_num_accepted_tokens_per_pos_total":
                by_position[int(labels["position"])] += value
    return [round(count / max(drafts, 1), 4) for count in by_position]


def complaints(shares: list[float]) -> list[str]:
    """Why drafts prove nothing: some number of tokens never came in a step."""
    # One comes where the first draft is wrong, two where only the second is, and so on.
    steps = pairwise([1.0, *shares[:_JUDGED], *[0.0] * (len(shares) <= _JUDGED)])
    return [
        f"no step gave {width} tokens"
        for width, (more, fewer) in enumerate(steps, 1)
        if more == fewer
    ]
