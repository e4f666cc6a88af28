# SPDX-License-Identifier: Apache-2.0
"""Ways to break the kernels; each must be seen by the compiler or by a random batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """``old`` becomes ``new``; ``seen_by`` is "batches", or "compiler" for what only
    a GPU's types show.
    """

    name: str
    old: str
    new: str
    seen_by: str = "batches"


MUTANTS = (
    Mutant(
        "the type of a slot's index gets into a position",
        "                if token_id == implicit_end:\n                    last_end = i\n",
        "                if token_id == implicit_end:\n                    last_end = i + 0 * req_state_idx\n",
        "compiler",
    ),
    Mutant(
        "tokens that an earlier request left in the slot",
        "                    mask=offs < block_hi,\n                    other=-1,\n                )\n"
        "                end_match = end_match | (token_ids",
        "                    mask=offs >= 0,\n                    other=-1,\n                )\n"
        "                end_match = end_match | (token_ids",
    ),
    Mutant(
        "both ends are asked for in one place",
        "end_match = end_match | (token_ids == implicit_end)",
        "end_match = end_match & (token_ids == implicit_end)",
    ),
    Mutant(
        "a call among the committed tokens is not seen",
        "                if token_id == implicit_end:\n                    last_end = i\n",
        "                if token_id == implicit_end:\n                    last_end = last_end\n",
    ),
    Mutant(
        "the last draft is not seen",
        "        for i in tl.range(total_len, effective_len):",
        "        for i in tl.range(total_len, effective_len - 1):",
    ),
    Mutant(
        "an earlier end stands for the last",
        "(token_id == implicit_end) & (i > last_end)",
        "token_id == implicit_end",
    ),
    Mutant(
        "the batch's row for the request's slot",
        "    effective_len = total_len + local_pos\n    implicit_end = tl.load(implicit_end_token_ids_ptr + req_state_idx)",
        "    effective_len = total_len + local_pos\n    implicit_end = tl.load(implicit_end_token_ids_ptr + token_idx % 4)",
    ),
    Mutant(
        "a request without tools in the slot of one with",
        "        if self.implicit_end_token_ids.np[req_idx] != implicit_end:",
        "        if self.implicit_end_token_ids.np[req_idx] < implicit_end:",
    ),
    Mutant(
        "what the host wrote does not reach the device",
        "            self.implicit_end_token_ids.copy_to_uva()\n            self",
        "            self",
    ),
    Mutant(
        "tools do not matter",
        "if implicit_end is None or not sampling_params.tool_call_ends_thinking:",
        "if implicit_end is None:",
    ),
)


def source(path: Path, mutant: Mutant) -> str:
    """The file's text with the mutation.

    Raises:
        ValueError: what is to be mutated does not stand there exactly once.
    """
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"mutant {mutant.name!r}: its place is not in {path} exactly once; bring it up to date"
        )
    return text.replace(mutant.old, mutant.new)
