# SPDX-License-Identifier: Apache-2.0
"""Signing what is published with cosign, and checking that a published image has its attestations and signatures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence

from patchset import console, files, paths, process
from patchset.attest import attestation, inputs
from patchset.attest.attestation import Contents
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.publish import attached
from patchset.publish.push import Signer
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse

#: What cosign calls the provenance and the bill of materials.
KINDS = ("slsaprovenance1", "cyclonedx")


def signer(*, key: str | None, wanted: bool | None) -> Signer | None:
    """What signs, or None where nothing is to be signed; ``wanted`` None signs when a ``key`` is named."""
    if not (key is not None if wanted is None else wanted):
        return None
    _need("install it, or publish with --no-sign")

    def sign(reference: Reference, digest: str, held: Sequence[Contents]) -> None:
        options = ["--yes", *(["--key", key] if key is not None else []), *_plain(reference)]
        image = f"{reference.repository}@{digest}"
        with console.step(f"sign {image}"), files.scratch(paths.build_dir()) as folder:
            _cosign("sign", "--recursive", *options, image)
            for contents in held:
                part = inputs.read(contents[attestation.INPUTS], "inputs.lock").digest
                statement = media.parse(contents[attestation.PROVENANCE], "provenance")
                predicates = (json.dumps(statement["predicate"]).encode(), contents[attestation.SBOM])
                for kind, predicate in zip(KINDS, predicates, strict=True):
                    file = folder / f"{kind}.json"
                    file.write_bytes(predicate)
                    argv = ["--type", kind, "--predicate", str(file), *options]
                    _cosign("attest", *argv, f"{reference.repository}@{part}")

    return sign


def verify(text: str, *, key: str | None, identity: str | None, issuer: str | None) -> list[str]:
    """Whether a published image has its attestations, and who signed them: what was found, one line each.

    ``key``, or ``identity`` and ``issuer``, say whose signature is asked for.
    """
    if (identity is None) != (issuer is None):
        raise UsageError("--identity and --issuer belong together")
    reference = parse(text)
    with Repository(reference) as repository:
        digest = attached.digest(repository)
        held = attached.read(repository, digest)
    if missing := [kind.title for kind, contents in held.items() if not contents]:
        raise PatchsetError(
            f"{reference} has no {', '.join(missing)}",
            "publish it again with nox -s publish, which attaches them",
        )
    image = reference.at(digest)
    lines = [f"image   {image}", *(f"attest  {kind.title}: {len(found)}" for kind, found in held.items())]
    if identity and issuer:
        options = ["--certificate-identity-regexp", identity, "--certificate-oidc-issuer", issuer]
    elif key:
        options = ["--key", key]
    else:
        return [*lines, "signed  not checked: --key FILE, or --identity REGEXP --issuer URL"]
    _need("install it, or check without --key and --identity")
    options += _plain(reference)
    with console.step(f"verify the signatures of {image}"):
        _cosign("verify", *options, str(image))
        for part in sorted({inputs.read(lock, "inputs.lock").digest for lock in held[attestation.INPUTS]}):
            for kind in KINDS:
                _cosign("verify-attestation", "--type", kind, *options, str(reference.at(part)))
    return [*lines, "signed  image, provenance and bill of materials"]


def _need(hint: str) -> None:
    if shutil.which("cosign") is None:
        raise MissingToolError("cosign is not installed", hint)


def _plain(reference: Reference) -> list[str]:
    return ["--allow-http-registry"] if reference.plain else []


def _cosign(*argv: str) -> None:
    process.run(["cosign", *argv], prefix="cosign", env=dict(os.environ))
