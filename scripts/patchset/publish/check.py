# SPDX-License-Identifier: Apache-2.0
"""Whether a published image has its attestations, and who signed them."""

from __future__ import annotations

from patchset.attest import attestation, inputs
from patchset.base.errors import NotFoundError, PatchsetError, UsageError
from patchset.publish import attached, sign
from patchset.registry.client import Repository
from patchset.registry.reference import parse


def verify(text: str, *, key: str | None, identity: str | None, issuer: str | None) -> list[str]:
    """What was found, one line each. ``key``, or ``identity`` and ``issuer``, say whose signature is asked for."""
    if (identity is None) != (issuer is None):
        raise UsageError("--identity and --issuer belong together")
    reference = parse(text)
    with Repository(reference) as repository:
        digest = repository.digest_of(reference.wanted)
        if digest is None:
            raise NotFoundError(f"{reference} does not exist", "check the name and the tag")
        held = attached.read(repository, digest)
    if missing := [kind.title for kind, contents in held.items() if not contents]:
        raise PatchsetError(
            f"{reference} has no {', '.join(missing)}",
            "publish it again with nox -s publish, which attaches them",
        )
    lines = [f"image   {reference.at(digest)}"]
    lines += [f"attest  {kind.title}: {len(contents)}" for kind, contents in held.items()]
    signer = ["--key", key] if key else []
    if identity and issuer:
        signer = ["--certificate-identity-regexp", identity, "--certificate-oidc-issuer", issuer]
    if not signer:
        return [*lines, "signed  not checked: --key FILE, or --identity REGEXP --issuer URL"]
    images = {inputs.read(content, "inputs.lock").digest for content in held[attestation.INPUTS]}
    sign.verify(reference.at(digest), [str(reference.at(image)) for image in sorted(images)], signer)
    return [*lines, "signed  image, provenance and bill of materials"]
