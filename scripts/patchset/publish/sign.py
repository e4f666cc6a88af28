# SPDX-License-Identifier: Apache-2.0
"""Signing what is published, image and attestations, with cosign."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence

from patchset.attest import attestation, inputs
from patchset.attest.attestation import Contents
from patchset.base import console, files, paths, process
from patchset.base.errors import MissingToolError
from patchset.publish.push import Signer
from patchset.registry import media
from patchset.registry.reference import Reference

#: What cosign calls the provenance and the bill of materials.
KINDS = ("slsaprovenance1", "cyclonedx")


def signer(*, key: str | None, wanted: bool | None) -> Signer | None:
    """What signs, or None where nothing is to be signed; ``wanted`` None signs when a ``key`` is named."""
    if wanted is False or (wanted is None and key is None):
        return None
    _need("install it, or publish with --no-sign")

    def sign(reference: Reference, digest: str, held: Sequence[Contents]) -> None:
        options = ["--yes", *(["--key", key] if key is not None else [])]
        options += ["--allow-http-registry"] if reference.plain else []
        with (
            console.step(f"sign {reference.repository}@{digest}"),
            files.scratch(paths.build_dir()) as folder,
        ):
            _cosign("sign", "--recursive", *options, f"{reference.repository}@{digest}")
            for contents in held:
                image = inputs.read(contents[attestation.INPUTS], "inputs.lock").digest
                statement = media.parse(contents[attestation.PROVENANCE], "provenance")
                predicates = (json.dumps(statement["predicate"]).encode(), contents[attestation.SBOM])
                for kind, predicate in zip(KINDS, predicates, strict=True):
                    file = folder / f"{kind}.json"
                    file.write_bytes(predicate)
                    argv = ["--type", kind, "--predicate", str(file), *options]
                    _cosign("attest", *argv, f"{reference.repository}@{image}")

    return sign


def verify(image: Reference, parts: Sequence[str], signer: list[str]) -> None:
    """Ask cosign for the signature of an image, and of the attestations of its ``parts``."""
    _need("install it, or check without --key and --identity")
    options = [*signer, *(["--allow-http-registry"] if image.plain else [])]
    with console.step(f"verify the signatures of {image}"):
        _cosign("verify", *options, str(image))
        for part in parts:
            for kind in KINDS:
                _cosign("verify-attestation", "--type", kind, *options, part)


def _need(hint: str) -> None:
    if shutil.which("cosign") is None:
        raise MissingToolError("cosign is not installed", hint)


def _cosign(*argv: str) -> None:
    process.run(["cosign", *argv], prefix="cosign", env=dict(os.environ))
