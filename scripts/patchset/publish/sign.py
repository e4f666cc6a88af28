# SPDX-License-Identifier: Apache-2.0
"""Signing what was published, with cosign where it is installed."""

from __future__ import annotations

import os
import shutil

from patchset import console
from patchset.errors import MissingToolError
from patchset.image import stream
from patchset.registry.reference import Reference


def sign(reference: Reference, digest: str, *, key: str | None, wanted: bool | None) -> bool:
    """Sign an image by digest; whether that was done.

    ``wanted`` None signs when cosign is installed and a ``key`` is named: without one it asks somebody to log in.

    Raises:
        MissingToolError: it is wanted and cosign is not there.
        ProgramError: cosign failed.
    """
    if wanted is False or (wanted is None and (key is None or shutil.which("cosign") is None)):
        return False
    if shutil.which("cosign") is None:
        raise MissingToolError("cosign is not installed", "install it, or publish with --no-sign")
    words = ["cosign", "sign", "--yes", "--recursive"]
    if key is not None:
        words += ["--key", key]
    if reference.plain:
        words.append("--allow-http-registry")
    with console.step(f"sign {reference.repository}@{digest}"):
        stream.run([*words, f"{reference.repository}@{digest}"], prefix="cosign", env=dict(os.environ))
    return True
