"""All written cases."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Case
from conformance.writers import (
    cut,
    examples,
    frames,
    markup,
    prose,
    reasoning,
    requests,
    several,
    types,
    undeclared,
    values,
)


def every() -> Iterator[Case]:
    """The cases of all writers, in no particular order."""
    for module in (
        examples,
        types,
        values,
        markup,
        several,
        frames,
        prose,
        reasoning,
        cut,
        undeclared,
        requests,
    ):
        yield from module.cases()
