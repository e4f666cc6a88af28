# SPDX-License-Identifier: Apache-2.0
"""What the lane serves: wheels that are installed, a model, and how servers are started on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cpu.environment import Environment, installed_versions


@dataclass(frozen=True)
class Variant:
    """An installed wheel: ``folder`` has ``bin/python`` and ``bin/vllm``; ``wheel`` its file name and sha256."""

    folder: str
    wheel: dict[str, str]


@dataclass(frozen=True)
class Prepared:
    """Everything that a cell needs, in a JSON file that its process reads.

    ``checkpoint`` is the folder of the model that knows the transcripts; where it is None, ``model`` names real
    weights. ``arguments`` go to every server.
    """

    release: str
    variants: dict[str, Variant]
    checkpoint: str | None = None
    model: str | None = None
    revision: str | None = None
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    gpu: dict[str, Any] = field(default_factory=dict)
    soak: int = 0
    max_model_len: int | None = None

    @classmethod
    def load(cls, file: Path) -> Prepared:
        """Read what ``save`` wrote."""
        said = json.loads(file.read_text(encoding="utf-8"))
        variants = {
            name: Variant(**fields) for name, fields in said.pop("variants").items()
        }
        return cls(variants=variants, **said)

    def save(self, file: Path) -> None:
        """Write it for the cells' processes."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    def environment(self, variant: str) -> Environment:
        """The environment of a variant's server."""
        folder = Path(self.variants[variant].folder)
        return Environment(folder, installed_versions(folder))
