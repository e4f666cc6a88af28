# SPDX-License-Identifier: Apache-2.0
"""What ``/metrics`` says about drafts: acceptance by position, and how wide the engine's bursts were."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_DRAFTS = "vllm:spec_decode_num_drafts"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"

#: Outside of these the model's drafts are too good or too bad to say anything about bursts.
LEAST_ACCEPTANCE, MOST_ACCEPTANCE = 0.40, 0.90
#: Only so many positions are judged: the deeper a draft, the rarer its last tokens are right, whatever the model.
_JUDGED = 5


@dataclass(frozen=True)
class Drafts:
    """Counts since the server started; ``by_position[i]`` are the drafts whose token i was accepted."""

    drafts: int
    draft_tokens: int
    accepted: int
    by_position: tuple[int, ...]

    @property
    def acceptance(self) -> float:
        """Accepted drafted tokens of all drafted tokens."""
        return self.accepted / self.draft_tokens if self.draft_tokens else 0.0

    @property
    def acceptance_by_position(self) -> list[float]:
        """Of all drafts, those whose token at that position was accepted."""
        return [round(count / max(self.drafts, 1), 4) for count in self.by_position]

    def widths(self) -> dict[int, int]:
        """How many bursts had each width: one token more than were accepted."""
        reached = [self.drafts, *self.by_position, 0]
        return {
            width: reached[width - 1] - reached[width]
            for width in range(1, len(self.by_position) + 2)
        }

    def complaints(self) -> list[str]:
        """Why these drafts do not exercise what the lane is for; empty when they do."""
        found = []
        first = self.by_position[:_JUDGED]
        accepted = self.acceptance
        if len(self.by_position) > _JUDGED:
            accepted = sum(first) / max(self.drafts * _JUDGED, 1)
        if not LEAST_ACCEPTANCE <= accepted <= MOST_ACCEPTANCE:
            found.append(
                f"acceptance is {accepted:.0%}, not {LEAST_ACCEPTANCE:.0%} to {MOST_ACCEPTANCE:.0%}"
            )
        widths = self.widths()
        # Of the widths between, only some come up in a run; the widest is a draft that was right to its end.
        wanted = [
            width for width in widths if width <= _JUDGED + 1 or width == len(widths)
        ]
        missing = [str(width) for width in wanted if widths[width] == 0]
        if missing:
            found.append(f"no burst of {', '.join(missing)} tokens")
        return found


def drafts(text: str, mtp: int) -> Drafts:
    """Read the drafts' counters from the text of ``/metrics`` of a server with ``mtp`` drafted tokens."""
    totals = {_DRAFTS: 0, _DRAFT_TOKENS: 0, _ACCEPTED: 0}
    by_position = [0] * mtp
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removesuffix("_total")
            if name in totals:
                totals[name] += int(sample.value)
            elif name == _BY_POSITION and "position" in sample.labels:
                by_position[int(sample.labels["position"])] += int(sample.value)
    return Drafts(
        totals[_DRAFTS], totals[_DRAFT_TOKENS], totals[_ACCEPTED], tuple(by_position)
    )


def running(text: str) -> int:
    """Requests that the engine works on or has waiting."""
    wanted = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    return int(
        sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in wanted
        )
    )
