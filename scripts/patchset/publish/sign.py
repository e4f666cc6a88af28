# SPDX-License-Identifier: Apache-2.0
"""Signing what is published, image and attestations, with cosign."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchset.attest import attestation, inputs
from patchset.attest.attestation import Contents
from patchset.base import console, process
from patchset.base.errors import MissingToolError
from patchset.publish.push import Signer
from patchset.registry import media
from patchset.registry.reference import Reference


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
                image = inputs.read(contents[attestation.INPUTS], "inputs.lock").digest
                statement = media.parse(contents[attestation.PROVENANCE], "provenance")
                for kind, predicate in (
                    ("slsaprovenance1", json.dumps(statement["predicate"]).encode()),
                    ("cyclonedx", contents[attestation.SBOM]),
                ):
                    file = Path(folder) / f"{kind}.json"
                    file.write_bytes(predicate)
                    argv = ["--type", kind, "--predicate", str(file), *options]
                    _cosign("attest", *argv, f"{reference.repository}@{image}")

    return sign


def _cosign(*argv: str) -> None:
    process.run(["cosign", *argv], prefix="cosign", env=dict(os.environ))
