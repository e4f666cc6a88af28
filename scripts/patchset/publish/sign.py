# SPDX-License-Identifier: Apache-2.0
"""Signing what is published, image and attestations, with cosign."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchset import console
from patchset.errors import MissingToolError
from patchset.image import stream
from patchset.publish.push import Signer
from patchset.registry import media
from patchset.registry.reference import Reference
from patchset.supply import inputs, papers
from patchset.supply.papers import Contents


def signer(*, key: str | None, wanted: bool | None) -> Signer | None:
    """What signs, or None where nothing is to be signed; ``wanted`` None signs when a ``key`` is named.

    Raises:
        MissingToolError: it is wanted and cosign is not there.
    """
    if wanted is False or (wanted is None and key is None):
        return None
    if shutil.which("cosign") is None:
        raise MissingToolError("cosign is not installed", "install it, or publish with --no-sign")

    def sign(reference: Reference, digest: str, held: Sequence[Contents]) -> None:
        options = ["--yes", *(["--key", key] if key is not None else [])]
        options += ["--allow-http-registry"] if reference.plain else []
        with console.step(f"sign {reference.repository}@{digest}"), tempfile.TemporaryDirectory() as folder:
            _cosign("sign", "--recursive", *options, f"{reference.repository}@{digest}")
            for contents in held:
                image = inputs.read(contents[papers.INPUTS], "inputs.lock").digest
                statement = media.parse(contents[papers.PROVENANCE], "provenance")
                for kind, predicate in (
                    ("slsaprovenance1", json.dumps(statement["predicate"]).encode()),
                    ("cyclonedx", contents[papers.SBOM]),
                ):
                    file = Path(folder) / f"{kind}.json"
                    file.write_bytes(predicate)
                    words = ["--type", kind, "--predicate", str(file), *options]
                    _cosign("attest", *words, f"{reference.repository}@{image}")

    return sign


def _cosign(*words: str) -> None:
    stream.run(["cosign", *words], prefix="cosign", env=dict(os.environ))
