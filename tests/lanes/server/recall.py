# SPDX-License-Identifier: Apache-2.0
"""Prefix caching with real weights: facts of long prompts, with the cache and without.

Whether two answers are of the same tokens proves nothing: batches of other sizes round
otherwise. A state of another prefix, though, forgets facts, or knows those of another.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx

from conformance.surfaces import chat
from server.questions import MODEL_NAME
from server.report import recall_share
from server.vllm_serve import Server

#: Prompts, those that begin with the same history, and the facts of each prompt.
PROMPTS, SHARING, FACTS = 64, 8, 20
#: Facts of a history; the others follow in the prompt's own part.
_SHARED = 14
#: Words of a history and of a prompt's own part. With their facts and full stops they
#: are 6 to 12 thousand tokens of Qwen's, for which a plain English word is one.
_HISTORY, _OWN = (4600, 8400), (600, 1700)
#: Requests at a time, and the most tokens of an answer; its facts have about 300.
_AT_ONCE, _ANSWER = 16, 1000
_SEED = 33
_FIRST = (
    "Amber Birch Cedar Coral Ember Fern Flint Hazel Heron Ivory Jade Larch Linen Maple"
)
_SECOND = (
    "Anchor Barrel Beacon Candle Compass Ferry Harbour Kettle Lantern Mill Orchard "
    "Quarry"
)
_ADJECTIVES = (
    "old quiet narrow early broken heavy public distant warm common plain steady"
)
_NOUNS = (
    "road office letter river table window market bridge garden station report winter"
)
_VERBS = "followed crossed opened carried watched reached covered measured joined left"
_ASK = """

Above are notes with codes in them. Repeat all the codes of the notes, each once, in
the order in which they come, one a line, as NAME: CODE. Write nothing else."""
_CODE = re.compile(r"(?<!\d)\d{6}(?!\d)")
Round = dict[str, Any]


@dataclass(frozen=True)
class Prompt:
    text: str
    #: Its codes by name.
    facts: dict[str, str]


def prompts() -> list[Prompt]:
    """Return the prompts, in any run the same; of eight in turn each has another
    history.
    """
    random = Random(_SEED)
    names = [f"{a} {b}" for a in _FIRST.split() for b in _SECOND.split()]
    codes = iter(map(str, random.sample(range(10**5, 10**6), PROMPTS * FACTS)))
    histories = []
    for _ in range(PROMPTS // SHARING):
        chosen = random.sample(names, FACTS)
        facts = dict(zip(chosen[:_SHARED], codes, strict=False))
        histories.append((_notes(random, facts, _HISTORY), facts, chosen[_SHARED:]))
    made = []
    for _ in range(SHARING):
        for history, shared, rest in histories:
            own = dict(zip(rest, codes, strict=False))
            text = f"{history}\n\n{_notes(random, own, _OWN)}{_ASK}"
            made.append(Prompt(text, shared | own))
    return made


def _notes(random: Random, facts: dict[str, str], words: tuple[int, int]) -> str:
    """Return so many words of plain sentences, the facts among them."""
    most, count = random.randint(*words), 0
    sentences: list[str] = []
    while count < most:
        noun = [random.choice(_NOUNS.split()) for _ in range(2)]
        adjective = [random.choice(_ADJECTIVES.split()) for _ in range(2)]
        verb = random.choice(_VERBS.split())
        sentences.append(
            f"The {adjective[0]} {noun[0]} {verb} the {adjective[1]} {noun[1]}."
        )
        count += len(sentences[-1].split())
    positions = sorted(random.sample(range(len(sentences)), len(facts)), reverse=True)
    for position, (name, code) in zip(positions, reversed(facts.items()), strict=True):
        sentences.insert(position, f"The code of {name} is {code}.")
    return " ".join(sentences)


def missed(prompt: Prompt, answer: str) -> tuple[int, int]:
    """Return how many facts an answer lacks, and how many codes it has that the prompt
    lacks.

    A fact is a line with both its name and its code.
    """
    lines = answer.casefold().splitlines()
    found = [
        any(name.casefold() in line and code in line for line in lines)
        for name, code in prompt.facts.items()
    ]
    foreign = set(_CODE.findall(answer)) - set(prompt.facts.values())
    return found.count(False), len(foreign)


async def ask(
    server: Server, client: httpx.AsyncClient, name: str, asked: Sequence[Prompt]
) -> Round:
    """Ask all once: facts missed, codes of elsewhere, tokens found in the cache."""
    places, sizes = asyncio.Semaphore(_AT_ONCE), list[int]()
    counted = {"missed": 0, "foreign": 0, "failed": 0}

    async def one(prompt: Prompt) -> None:
        body = {
            "model": MODEL_NAME,
            "messages": [{"role": "user", "content": prompt.text}],
            "temperature": 0,
            "max_completion_tokens": _ANSWER,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        try:
            async with places:
                got = await client.post(chat.PATH, json=body)
            said = got.raise_for_status().json()
            answer = said["choices"][0]["message"]["content"] or ""
            sizes.append(said["usage"]["prompt_tokens"])
        except (httpx.HTTPError, LookupError, ValueError, TypeError):
            counted["failed"] += 1
            answer = ""
        for kind, count in zip(counted, missed(prompt, answer), strict=False):
            counted[kind] += count

    begun, before = time.monotonic(), _cached(server)
    await asyncio.gather(*map(one, asked))
    hits, queries = (
        now - was for now, was in zip(_cached(server), before, strict=True)
    )
    return {
        "name": name,
        "facts": sum(len(prompt.facts) for prompt in asked),
        **counted,
        "hits": round(hits),
        "queries": round(queries),
        "shortest": min(sizes, default=0),
        "longest": max(sizes, default=0),
        "seconds": round(time.monotonic() - begun),
    }


def _cached(server: Server) -> tuple[float, float]:
    """Return prompts' tokens that were found in the cache, and that were looked for."""
    hits, queries = (f"vllm:prefix_cache_{word}_total" for word in ("hits", "queries"))
    return server.total(hits), server.total(queries)


def complaints(rounds: Sequence[Round]) -> list[str]:
    """Return what the cache did wrong: warm rounds against the cold one, and one
    without it.
    """
    by_name = {one["name"]: one for one in rounds}
    cold, off = by_name["cold"], by_name["off"]
    found = [
        f"{one['name']}: {one['failed']} requests failed"
        for one in rounds
        if one["failed"]
    ]
    for name in ("warm", "warm again"):
        warm = by_name[name]
        for kind, what in (("missed", "facts missed"), ("foreign", "foreign codes")):
            if warm[kind] > max(cold[kind], off[kind]):
                others = f"cold {cold[kind]}, without the cache {off[kind]}"
                found.append(f"{name}: {warm[kind]} {what}; {others}")
        if recall_share(warm) <= recall_share(cold):
            found.append(f"{name}: no more was found in the cache than cold")
    return found
