# SPDX-License-Identifier: Apache-2.0
"""Schedules: how a token sequence is cut into bursts. A schedule is a list of widths
whose sum is the token count.
"""

import itertools
import random
import re
import zlib
from collections.abc import Iterable

#: Draft tokens: 1 to 5 of MTP, 7 and 15 of drafters that look further ahead.
MTP = (1, 2, 3, 4, 5, 7, 15)
#: Two-way splits a default run tries for each case and start; ``full`` tries all of
#: them.
NEAR_LIMIT = 4


def column(name: str) -> str:
    """Return the matrix column that a schedule's name belongs to (``not streamed`` for
    the whole response).
    """
    if name == "full":
        return "not streamed"
    if name == "w1":
        return "k=0"
    if match := re.match(r"mtp(\d+)", name):
        return f"k={match[1]}"
    return "split" if name.startswith("split") else "whole"


COLUMNS = ("not streamed", "k=0", *(f"k={k}" for k in MTP), "split", "whole")


def irregular(count: int, k: int, seed: int | str) -> tuple[int, ...]:
    """Return seeded widths 1..k+1, as speculative decoding delivers them."""
    rng, widths, left = random.Random(f"{k}/{seed}"), [], count
    while left:
        widths.append(min(left, rng.randint(1, k + 1)))
        left -= widths[-1]
    return tuple(widths)


def named(name: str, count: int) -> tuple[int, ...]:
    """Return the widths that a name stands for: ``w3``, ``whole``, ``split@17``,
    ``mtp4#0``, explicit ``cuts:1,4,2``, or ``full``, which is not streamed.

    Raises ValueError for a name that is none of these.
    """
    if name in ("full", "whole"):
        return (count,)
    if match := re.fullmatch(r"w(\d+)", name):
        full, rest = divmod(count, int(match[1]))
        return (int(match[1]),) * full + ((rest,) if rest else ())
    if match := re.fullmatch(r"split@(\d+)", name):
        at = int(match[1])
        if not 0 < at < count:
            raise ValueError(f"no split at {at} of {count} tokens")
        return at, count - at
    if match := re.fullmatch(r"mtp(\d+)#(.+)", name):
        return irregular(count, int(match[1]), match[2])
    if match := re.fullmatch(r"cuts:(\d+(?:,\d+)*)", name):
        widths = tuple(int(w) for w in match[1].split(","))
        if sum(widths) != count or 0 in widths:
            raise ValueError(f"the widths must add up to {count} tokens")
        return widths
    raise ValueError(f"unknown schedule {name!r}")


def parts(widths: Iterable[int]) -> list[slice]:
    """Return where a sequence is cut into these widths."""
    ends = itertools.accumulate(widths, initial=0)
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def _near(texts: list[str], key: str) -> list[int]:
    """Return split positions worth trying first: beside tokens that touch a tag, a line
    end, or an unfinished character.
    """
    hot = [bool(re.search(r"[<>/=\n]", t)) or t == "" for t in texts]
    places = [i for i in range(1, len(texts)) if hot[i - 1] or hot[i]]
    if len(places) > NEAR_LIMIT:
        # crc32 and not hash(): the choice must be the same in every process.
        places = sorted(
            random.Random(zlib.crc32(key.encode())).sample(places, NEAR_LIMIT)
        )
    return places


def schedules(
    texts: list[str], key: str, *, full: bool = False
) -> dict[str, tuple[int, ...]]:
    """Return all schedules of a case: their widths by name.

    ``texts`` is what each token adds; ``key`` seeds the choice of splits.

    Two names may have equal widths: the caller runs them once and counts them twice.
    """
    count = len(texts)
    if not count:
        return {"whole": ()}
    names = ["w1", "whole"]
    names += [f"split@{i}" for i in (range(1, count) if full else _near(texts, key))]
    names += [f"mtp{k}#0" for k in MTP]
    return {name: named(name, count) for name in names}
