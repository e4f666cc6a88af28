# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself (OCI image annotations, and our own), and how its attestations write the same things."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from patchset import files
from patchset.release import Release, Target
from patchset.series.patched_release import PatchedRelease

#: Our own labels start so.
OWN = "vllm-mtp-patches."


def created(release: Release) -> str:
    """When everything of a release was made: its source-date-epoch, not the clock."""
    return datetime.fromtimestamp(release.source_date_epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def purl(project: str, version: str, file: str) -> str:
    """A file of a package index as a package URL."""
    return f"pkg:pypi/{project}@{quote(version, safe='')}?file_name={quote(file, safe='')}"


def written(attestation: object) -> bytes:
    """The one form in which an attestation is written as JSON."""
    return (json.dumps(attestation, indent=1, ensure_ascii=False) + "\n").encode()


def labels(patched: PatchedRelease, target: Target, wheel: Path) -> dict[str, str]:
    """The labels of an image of ``release``."""
    release = patched.pin
    return {
        "org.opencontainers.image.title": "vllm-mtp-patches",
        "org.opencontainers.image.description": f"vLLM {release.version} with the series of vllm-mtp-patches, for {target}",
        "org.opencontainers.image.version": release.built_version(target),
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.source": "https://github.com/vllm-project/vllm",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": created(release),
        OWN + "release": release.name,
        OWN + "target": target,
        OWN + "series-sha256": patched.digest,
        OWN + "wheel": wheel.name,
        OWN + "wheel-sha256": files.sha256_file(wheel),
    }
