# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a real registry, a faulty network before it, and no pauses between tries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchset.registry import transport
from registry import servers
from registry.servers import Network


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a registry."""
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed (sudo apt-get install docker-registry)")
    with servers.registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def network(host: str) -> Iterator[Network]:
    """A network before the registry that fails as a test plans it."""
    found = Network(host)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses, no logins of whoever runs the tests, nothing written into the checkout."""
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(transport, "LONGEST_PAUSE", 0.02)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    for name in ("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
