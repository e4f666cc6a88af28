# SPDX-License-Identifier: Apache-2.0
"""What a receipt may hold: what it says ends up in documents and on terminals."""

import unicodedata
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)


def _line(text: str) -> str:
    """Refuse what would end a table's cell or line, or is not seen."""
    if any(c == "|" or unicodedata.category(c) in _UNSEEN for c in text):
        raise ValueError("it has a control character or a |")
    return text


def _text(text: str) -> str:
    """Refuse what a terminal would obey."""
    if any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text):
        raise ValueError("it has a control character")
    return text


#: Unicode's categories of controls, formats, and separators of lines and paragraphs.
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")
Line = Annotated[str, StringConstraints(max_length=200), AfterValidator(_line)]
Text = Annotated[str, StringConstraints(max_length=8000), AfterValidator(_text)]
Hex = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{64}\z")]
#: ``NVIDIA H100 80GB HBM3, 79 GiB, sm_90``: a heading and a file are named by it.
Gpu = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z0-9 .,()/+_-]{1,100}\z")]
Count = Annotated[int, Field(ge=0, le=10**9)]
Figure = Annotated[float, Field(ge=0, le=1e9)]
Variant = Literal["stock", "patched"]
Kind = Literal["right", "form", "parser", "model", "request"]


class _Part(BaseModel):
    """Of exactly these keys and types."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Machine(_Part):
    cuda: Line | None
    rocm: Line | None
    gpus: list[Gpu] = Field(max_length=64)
    driver: Line | None
    cpu: Line
    python: Line
    official_image: bool
    versions: dict[Line, Line]


class Pace(_Part):
    streams: Count
    tokens_per_second: Figure
    p50_ms: Figure
    p99_ms: Figure


class Wrong(_Part):
    kind: Kind
    what: Text
    why: list[Text]


class _Asked(_Part):
    variant: Variant
    mtp: Annotated[int, Field(ge=0, le=15)]
    requests: Count
    right: Count
    complaints: list[Text]
    seconds: Count


class Server(_Asked):
    cell: Literal["cpu", "graphs", "prefix", "eager"]
    by_kind: dict[Kind, Count]
    wrong: list[Wrong]
    accepted_by_position: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        max_length=15
    )
    pace: Pace

    @model_validator(mode="after")
    def _counts(self) -> "Server":
        kinds = self.by_kind
        if sum(kinds.values()) != self.requests:
            raise ValueError("its kinds of answers are not as many as its requests")
        if kinds.get("right", 0) + kinds.get("form", 0) != self.right:
            raise ValueError("its right answers are not those of its kinds")
        return self


class Round(_Part):
    name: Literal["cold", "warm", "warm again", "off"]
    facts: Count
    missed: Count
    foreign: Count
    failed: Count
    hits: Count
    queries: Count
    shortest: Count
    longest: Count
    seconds: Count


class Recall(_Asked):
    """What came back from the prefix cache of one server, and of one without it."""

    cell: Literal["recall"]
    rounds: list[Round] = Field(max_length=8)
    runner: Literal["V1", "V2"]
    cache: dict[Line, Line]


class Receipt(_Part):
    format: int
    release: Annotated[str, StringConstraints(pattern=r"\Av[0-9a-z.]{1,30}\z")]
    target: Literal["cuda", "cpu"]
    commit: Annotated[str, StringConstraints(pattern=r"\A[0-9a-z-]{1,60}\z")]
    series: Hex
    program: Hex
    model: Line
    arguments: list[Text]
    at_once: Annotated[int, Field(ge=1, le=16)] = 1
    machine: Machine
    files: dict[str, Hex | None]
    kernels: dict[Variant, Text]
    taken: Annotated[str, StringConstraints(pattern=r"\A\d{4}-\d\d-\d\d\z")]
    seconds: Count
    servers: list[Server] = Field(max_length=100)
    recall: list[Recall] = Field(max_length=2, default=[])
    failures: dict[Line, Text]
    left: list[Line]
    sha256: Hex

    @model_validator(mode="after")
    def _one_row_each(self) -> "Receipt":
        rows = {(server.variant, server.cell, server.mtp) for server in self.servers}
        if len(rows) != len(self.servers):
            raise ValueError("a server is there twice")
        return self
