# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself (OCI image annotations, and our own)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from patchset.base import files
from patchset.base.release import Target
from patchset.series.patched_release import PatchedRelease

#: Our own labels start so.
OWN = "vllm-mtp-patches."


def labels(patched: PatchedRelease, target: Target, wheel: Path) -> dict[str, str]:
    """The labels of an image of ``release``; ``created`` is the release's source-date-epoch, not the clock."""
    release = patched.pin
    created = datetime.fromtimestamp(release.source_date_epoch, UTC)
    return {
        "org.opencontainers.image.title": "vllm-mtp-patches",
        "org.opencontainers.image.description": f"vLLM {release.version} with the series of vllm-mtp-patches, for {target}",
        "org.opencontainers.image.version": release.built_version(target),
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.source": "https://github.com/vllm-project/vllm",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        OWN + "release": release.name,
        OWN + "target": target,
        OWN + "series-sha256": patched.digest,
        OWN + "wheel": wheel.name,
        OWN + "wheel-sha256": files.sha256_file(wheel),
    }
