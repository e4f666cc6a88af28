# SPDX-License-Identifier: Apache-2.0
"""What ``/metrics`` says about drafts: acceptance by position, and the width of the engine's bursts."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

#: Outside of these the model's drafts are too good or too bad to say anything about bursts.
LEAST_ACCEPTANCE, MOST_ACCEPTANCE = 0.40, 0.90
#: Only so many positions are judged: the deeper a draft, the rarer its last tokens are right.
_JUDGED = 5


@dataclass(frozen=True)
class Drafts:
    """Drafts since the server started; of ``by_position[i]`` token i was accepted."""

    drafts: int
    by_position: tuple[int, ...]

    @property
    def acceptance(self) -> float:
        """The share of accepted tokens in all drafted tokens."""
        return self._share(self.by_position)

    @property
    def acceptance_by_position(self) -> list[float]:
        """The share of drafts whose token at that position was accepted."""
        return [round(self._share([count]), 4) for count in self.by_position]

    def widths(self) -> dict[int, int]:
        """The number of bursts of each width: one token more than were accepted."""
        reached = [self.drafts, *self.by_position, 0]
        return {
            width: reached[width - 1] - reached[width]
            for width in range(1, len(reached))
        }

    def complaints(self) -> list[str]:
        """Why these drafts do not exercise what the lane is for."""
        found = []
        accepted = self._share(self.by_position[:_JUDGED])
        if not LEAST_ACCEPTANCE <= accepted <= MOST_ACCEPTANCE:
            found.append(
                f"acceptance is {accepted:.0%}, not {LEAST_ACCEPTANCE:.0%} to "
                f"{MOST_ACCEPTANCE:.0%}"
            )
        widths = self.widths()
        # Of the widths between, only some come up in a run; the widest is a draft that was right to its end.
        missing = [
            str(width)
            for width, count in widths.items()
            if not count and (width <= _JUDGED + 1 or width == len(widths))
        ]
        if missing:
            found.append(f"no burst of {', '.join(missing)} tokens")
        return found

    def _share(self, counts: list[int] | tuple[int, ...]) -> float:
        return sum(counts) / max(self.drafts * len(counts), 1)


def drafts(text: str, mtp: int) -> Drafts:
    """Read the counters of a server with ``mtp`` drafted tokens from the text of ``/metrics``."""
    made, by_position = 0, [0] * mtp
    for name, labels, value in _samples(text):
        if name == "vllm:spec_decode_num_drafts_total":
            made += int(value)
        elif name == "vllm:spec_decode_num_accepted_tokens_per_pos_total":
            by_position[int(labels["position"])] += int(value)
    return Drafts(made, tuple(by_position))


def running(text: str) -> int:
    """Requests that the engine works on or has waiting."""
    wanted = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    return int(sum(value for name, _, value in _samples(text) if name in wanted))


def _samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    families = text_string_to_metric_families(text)
    return [
        (sample.name, sample.labels, sample.value)
        for family in families
        for sample in family.samples
    ]
