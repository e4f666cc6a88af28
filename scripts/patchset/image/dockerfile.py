# SPDX-License-Identifier: Apache-2.0
"""What a Dockerfile takes from its context, stage by stage (Dockerfile reference)."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from patchset.errors import PatchsetError

_FROM = re.compile(
    r"FROM\s+(?:--platform=\S+\s+)?(?P<base>\S+)(?:\s+AS\s+(?P<name>[\w.-]+))?\s*", re.IGNORECASE
)
_MOUNT = re.compile(r"--mount=(\S+)")


@dataclass
class Stage:
    """``needs`` are other stages, ``sources`` paths of the context, ``arguments`` names that ARG declares."""

    name: str
    needs: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    arguments: set[str] = field(default_factory=set)


def read(text: str) -> dict[str, Stage]:
    """The stages of a Dockerfile; what stands before the first is the stage ""."""
    stages = {"": (current := Stage(""))}
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in map(str.strip, "\n".join(lines).replace("\\\n", " ").splitlines()):
        word, _, rest = line.partition(" ")
        match word.upper():
            case "FROM" if found := _FROM.fullmatch(line):
                current = Stage(found["name"] or str(len(stages)), {found["base"]})
                stages[current.name] = current
            case "ARG":
                current.arguments |= {part.partition("=")[0] for part in rest.split()[:1]}
            case "COPY" | "ADD":
                if "<<" in rest or rest.lstrip().startswith("["):
                    raise PatchsetError(f"a COPY of a form that is not known here: {rest[:100]}")
                words = shlex.split(rest)
                flags = [word for word in words if word.startswith("--")]
                stage = [flag.partition("=")[2] for flag in flags if flag.startswith("--from=")]
                current.needs.update(stage)
                if not stage:
                    taken = [word for word in words if word not in flags][:-1]
                    current.sources.update(path for path in taken if "://" not in path)
            case "RUN":
                for mount in _MOUNT.findall(rest):
                    fields: dict[str, str] = dict(part.partition("=")[::2] for part in mount.split(","))
                    if "from" in fields:
                        current.needs.add(fields["from"])
                    elif fields.get("type", "bind") == "bind":
                        current.sources.add(fields.get("source", fields.get("src", ".")))
    return stages


def needed(stages: dict[str, Stage], target: str) -> list[Stage]:
    """The stages that a target is made of; a name with a variable in it stands for every stage that fits."""
    if target not in stages:
        raise PatchsetError(
            f"vLLM's Dockerfile has no stage {target}", "the bake file must learn the new name"
        )
    left, found = [target], dict[str, Stage]()
    while left:
        name = left.pop()
        pattern = re.sub(r"\\\$\\\{\w+\\\}", r"[\\w.-]+", re.escape(name))
        for other, stage in stages.items():
            if other and other not in found and re.fullmatch(pattern, other):
                found[other] = stage
                left += stage.needs
    return [stages[""], *found.values()]


def missing(stages: list[Stage], context: Path) -> list[str]:
    """What stages take from a context that it has not; patterns count when they match something."""
    wanted = {
        source.removeprefix("/").removeprefix("./") or "." for stage in stages for source in stage.sources
    }
    return sorted(source for source in wanted if source != "." and not any(context.glob(source)))


def with_version(text: str, stage: str, version: str) -> str:
    """A Dockerfile whose ``stage`` builds a wheel of ``version`` (``VLLM_VERSION_OVERRIDE`` in vLLM's setup.py)."""
    line = re.compile(rf"(?m)^(FROM\s+\S+\s+AS\s+{re.escape(stage)}\s*)$")
    text, count = line.subn(rf"\1\nENV VLLM_VERSION_OVERRIDE={version}", text)
    if count != 1:
        raise PatchsetError(f"vLLM's Dockerfile has no stage {stage}, in which the wheel is built")
    return text
