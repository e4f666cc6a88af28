# SPDX-License-Identifier: Apache-2.0
"""Who made an image of what: an in-toto statement with a SLSA provenance (slsa.dev/provenance/v1)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from patchset import console, git, paths
from patchset.attest import labels
from patchset.attest.inputs import Inputs
from patchset.errors import PatchsetError, UsageError
from patchset.release import Release

#: Names the builder: continuous integration sets it to its own URI.
BUILDER_VARIABLE = "PATCHSET_BUILDER_ID"


def provenance(made: Inputs, release: Release) -> bytes:
    """The statement; every input is named by sha256."""
    builder = os.environ.get(BUILDER_VARIABLE) or "urn:vllm-mtp-patches:builder:local"
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+", builder):
        raise UsageError(f"{BUILDER_VARIABLE} is not a URI: {builder[:200]!r}")
    commit, checkout = _checkout()
    if checkout != "clean":
        console.note(f"  provenance: checkout: {checkout}; the image cannot be traced to a commit")
    asked: dict[str, Any] = {"release": made.release, "target": made.target, "architectures": made.archs}
    if made.base is not None:
        asked |= {"base": made.base.reference, "site": made.base.site, "base-version": made.base.version}
    found = [
        {"uri": uri, "digest": {"sha256": digest.removeprefix("sha256:")}, "name": name}
        for uri, digest, name in _dependencies(made, release)
    ]
    if commit:
        found.append({"uri": "git+file:.", "digest": {"gitCommit": commit}, "name": "checkout"})
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {
                "name": f"vllm-mtp-patches:{made.release}-mtp.{release.revision}",
                "digest": {"sha256": made.digest.removeprefix("sha256:")},
            }
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"urn:vllm-mtp-patches:build-image:{made.kind}:1",
                "externalParameters": asked,
                "internalParameters": {"source-date-epoch": release.source_date_epoch, "checkout": checkout}
                | ({"engine": made.engine} if made.engine else {}),
                "resolvedDependencies": found,
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }
    return labels.written(statement)


def _dependencies(made: Inputs, release: Release) -> list[tuple[str, str, str]]:
    """The URI, digest and name of everything that an image was made of."""
    found = []
    for source in made.sources:
        uri = labels.purl(source.file.partition("-")[0].replace("_", "-"), release.version, source.file)
        if source.file.endswith(".tar"):  # a root file system of Debian packages, made here
            uri = f"file:build/images/base/{source.file}"
        found.append((uri, source.sha256, source.file))
    if made.base is not None:
        uri = f"oci:{made.base.reference}"
        found.append((uri, made.base.digest, "base"))
        found += [(uri, digest, f"base-{arch}") for arch, digest in sorted(made.base.manifests.items())]
    found += [(f"file:{path}", sha256, path) for path, sha256 in made.files.items()]
    found += [(f"file:scripts/patchset/{path}", sha256, path) for path, sha256 in made.tool.items()]
    return found


def _checkout() -> tuple[str, str]:
    """The commit of the checkout, and whether its files are that commit's: "clean", "dirty" or "no commit"."""
    root = paths.project_root()
    try:
        if Path(git.text(root, "rev-parse", "--show-toplevel")).resolve() != root:
            return "", "no commit"
        dirty = git.text(root, "status", "--porcelain")
        return git.text(root, "rev-parse", "HEAD"), "dirty" if dirty else "clean"
    except PatchsetError:
        return "", "no commit"
