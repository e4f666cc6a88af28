# SPDX-License-Identifier: Apache-2.0
"""What vLLM's build backend runs under in every mode: the same bytes anywhere, and no network."""

from __future__ import annotations

import os

from patchset.base.release import Release


def variables(release: Release) -> dict[str, str]:
    """Environment variables of a build whose result depends on its inputs alone (reproducible-builds.org)."""
    return {
        "VLLM_VERSION_OVERRIDE": release.built_version("cuda"),
        "SOURCE_DATE_EPOCH": str(release.source_date_epoch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        # Nothing is to be downloaded in a build: whatever tried would fail, and be seen.
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
