# SPDX-License-Identifier: Apache-2.0
"""Who made an image of what: an in-toto statement with a SLSA provenance (slsa.dev/provenance/v1)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from patchset.attest.inputs import Inputs
from patchset.base import console, git, paths
from patchset.base.errors import PatchsetError, UsageError
from patchset.base.release import Release

MEDIA_TYPE = "application/vnd.in-toto+json"
PREDICATE = "https://slsa.dev/provenance/v1"
#: Names the builder: continuous integration sets it to its own URI.
BUILDER_VARIABLE = "PATCHSET_BUILDER_ID"
_LOCAL_BUILDER = "urn:vllm-mtp-patches:builder:local"


def provenance(made: Inputs, release: Release) -> bytes:
    """The statement; every input is named by sha256."""
    builder = os.environ.get(BUILDER_VARIABLE) or _LOCAL_BUILDER
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+", builder):
        raise UsageError(f"{BUILDER_VARIABLE} is not a URI: {builder[:200]!r}")
    checkout = _checkout()[1]
    if checkout != "clean":
        console.note(f"  provenance: checkout: {checkout}; the image cannot be traced to a commit")
    base = {}
    if made.base is not None:
        base = {"base": made.base.reference, "site": made.base.site, "base-version": made.base.version}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {
                "name": f"vllm-mtp-patches:{made.release}-mtp.{release.revision}",
                "digest": {"sha256": made.digest.removeprefix("sha256:")},
            }
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"urn:vllm-mtp-patches:build-image:{made.kind}:1",
                "externalParameters": {
                    "release": made.release,
                    "target": made.target,
                    "architectures": made.archs,
                    **base,
                },
                "internalParameters": {"source-date-epoch": release.source_date_epoch, "checkout": checkout}
                | ({"engine": made.engine} if made.engine else {}),
                "resolvedDependencies": _dependencies(made, release),
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }
    return (json.dumps(statement, indent=1, ensure_ascii=False) + "\n").encode()


def _dependencies(made: Inputs, release: Release) -> list[dict[str, Any]]:
    found = []
    for source in made.sources:
        project = source.file.partition("-")[0].replace("_", "-")
        uri = f"pkg:pypi/{project}@{release.version}?file_name={quote(source.file, safe='')}"
        if source.file.endswith(".tar"):  # a root file system of Debian packages, made here
            uri = f"file:build/images/base/{source.file}"
        found.append(_entry(uri, source.sha256, source.file))
    if made.base is not None:
        found.append(_entry(f"oci:{made.base.reference}", made.base.digest.removeprefix("sha256:"), "base"))
        for arch, digest in sorted(made.base.manifests.items()):
            found.append(_entry(f"oci:{made.base.reference}", digest.removeprefix("sha256:"), f"base-{arch}"))
    found += [_entry(f"file:{path}", sha256, path) for path, sha256 in made.files.items()]
    found += [_entry(f"file:scripts/patchset/{path}", sha256, path) for path, sha256 in made.tool.items()]
    commit, _ = _checkout()
    if commit:
        found.append({"uri": "git+file:.", "digest": {"gitCommit": commit}, "name": "checkout"})
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


def _entry(uri: str, sha256: str, name: str) -> dict[str, Any]:
    return {"uri": uri, "digest": {"sha256": sha256}, "name": name}
