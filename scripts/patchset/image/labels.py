# SPDX-License-Identifier: Apache-2.0
"""The labels of an image: what it was made of, from which it can be made again."""

from datetime import UTC, datetime
from pathlib import Path

from patchset import files
from patchset.release import Release
from patchset.series.apply import PatchedRelease

_OCI = "org.opencontainers.image."
_OWN = "vllm-mtp-patches."
VERSION = _OCI + "version"
CREATED = _OCI + "created"
#: Of a thin image: its base, by the digest of its index, and the base's manifest for
#: the same architecture.
BASE_NAME = _OCI + "base.name"
BASE_DIGEST = _OCI + "base.digest"
RELEASE = _OWN + "release"
TARGET = _OWN + "target"
SERIES = _OWN + "series-sha256"
#: Of an image on Debian packages: the sha256 of the base's file and of the lock.
ROOTFS_SHA256 = _OWN + "rootfs-sha256"
LOCK_SHA256 = _OWN + "lock-sha256"


def created(release: Release) -> datetime:
    """Return the time that everything of a release carries, which is no clock's."""
    return datetime.fromtimestamp(release.source_date_epoch, UTC)


def tags(patched: PatchedRelease) -> list[str]:
    """Return the tags of an image: ``v0.33.0-mtp.1``, ``v0.33.0``, perhaps ``latest``.

    The first never moves. A CPU image's end in ``-cpu``.
    """
    release = patched.pin
    names = [f"{release.name}-mtp.{release.revision}", release.name]
    names += ["latest"] if release.default else []
    return [name + ("-cpu" if patched.target == "cpu" else "") for name in names]


def local(patched: PatchedRelease) -> str:
    """Return the name of an image in an engine's store here."""
    return f"localhost/vllm-mtp-patches:{tags(patched)[0]}"


def inputs(patched: PatchedRelease) -> dict[str, str]:
    """Return the labels that name the checkout's state."""
    return {
        VERSION: patched.version,
        _OCI + "revision": patched.pin.commit,  # of vLLM
        RELEASE: patched.pin.name,
        TARGET: patched.target,
        SERIES: patched.digest,
    }


def labels(patched: PatchedRelease, wheel: Path) -> dict[str, str]:
    """Return the labels that every image of a patched release has."""
    release = patched.pin
    return inputs(patched) | {
        _OCI + "title": "vllm-mtp-patches",
        _OCI + "description": f"vLLM {release.version}, patched, for {patched.target}",
        _OCI + "source": "https://github.com/vllm-project/vllm",
        _OCI + "licenses": "Apache-2.0",
        CREATED: created(release).strftime("%Y-%m-%dT%H:%M:%SZ"),
        _OWN + "wheel": wheel.name,
        _OWN + "wheel-sha256": files.sha256_file(wheel),
    }
