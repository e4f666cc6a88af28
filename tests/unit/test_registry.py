# SPDX-License-Identifier: Apache-2.0
"""The client against a real registry, also through a network that fails."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import registry_server as servers
from patchset import paths
from patchset.errors import NotFoundError, PatchsetError, UnavailableError, UsageError
from patchset.registry import media, transport, upload
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse
from patchset.registry.transport import LoginError
from patchset.registry.upload import Blob
from registry_server import Fault, Network, host, network, own_places

__all__ = ["host", "network", "own_places"]


def repository(host: str, name: str | None = None) -> Repository:
    return Repository(Reference(host, name or f"test/{uuid.uuid4().hex[:12]}"), push=True)


def blob(content: bytes, *homes: str, opened: list[int] | None = None) -> Blob:
    @contextlib.contextmanager
    def opener(start: int) -> Iterator[Iterator[bytes]]:
        if opened is not None:
            opened.append(start)
        yield iter([content[at : at + 5000] for at in range(start, len(content), 5000)])

    return Blob(media.digest(content), len(content), opener, homes)


def content(size: int = 100_000, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def nothing(count: int) -> None:
    pass


@pytest.mark.parametrize(
    ("text", "api", "name", "wanted"),
    [
        ("vllm/vllm-openai:v1", "https://registry-1.docker.io/v2/", "vllm/vllm-openai", "v1"),
        ("debian", "https://registry-1.docker.io/v2/", "library/debian", "latest"),
        ("docker.io/vllm/x", "https://registry-1.docker.io/v2/", "vllm/x", "latest"),
        ("localhost:5000/a/b:t", "http://localhost:5000/v2/", "a/b", "t"),
        ("registry.example/x@sha256:" + "a" * 64, "https://registry.example/v2/", "x", "sha256:" + "a" * 64),
        (
            "registry.example:444/x:t@sha256:" + "a" * 64,
            "https://registry.example:444/v2/",
            "x",
            "sha256:" + "a" * 64,
        ),
    ],
)
def test_references(text: str, api: str, name: str, wanted: str) -> None:
    found = parse(text)
    assert (found.api, found.name, found.wanted) == (api, name, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A/b",
        "a.b/",
        "a.b/x:",
        "a.b/x@sha256:12",
        "a.b/../x",
        "a.b/x:t y",
        "evil@a.b/x",
        "a.b?/x",
        "a.b/x#y",
    ],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_a_blob_there_and_back(host: str) -> None:
    data = content(30_000_000)
    seen: list[int] = []
    with repository(host) as found:
        assert upload.put(found, blob(data), seen.append) == "sent"
        assert sum(seen) == len(data)
        assert upload.put(found, blob(data), nothing) == "there"
        for start in (0, 12_345_678):
            with found.open_blob(media.digest(data), len(data), start) as pieces:
                assert b"".join(pieces) == data[start:]
        with pytest.raises(NotFoundError), found.open_blob("sha256:" + "0" * 64, 5) as pieces:
            list(pieces)
    assert not list((paths.build_dir() / "registry").glob("*.json"))


def test_an_upload_that_was_closed_when_its_run_died_is_forgotten(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(started: object) -> None:
        raise KeyboardInterrupt

    with repository(host) as found:
        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(upload._Upload, "forget", die)
            upload.put(found, blob(content()), nothing)
        assert len(list((paths.build_dir() / "registry").glob("*.json"))) == 1
        assert upload.put(found, blob(content()), nothing) == "there"
    assert not list((paths.build_dir() / "registry").glob("*.json"))


def test_a_blob_is_mounted_from_its_home(host: str, network: Network) -> None:
    data = content()
    with repository(host) as home:
        upload.put(home, blob(data), nothing)
    with repository(network.host) as found:
        assert upload.put(found, blob(data, "test/nowhere", home.reference.name), nothing) == "mounted"
    assert network.count("PATCH") == 0
    with repository(network.host) as found:  # a home that has it not is not an error
        assert upload.put(found, blob(content(seed=9), home.reference.name), nothing) == "sent"


def test_an_upload_goes_on_within_one_run(
    host: str, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "CHUNK", 10_000)
    data, opened = content(), list[int]()
    faults: list[Fault] = [None, None, "close", None, 500, ("deaf", 0), None]
    network.plan = lambda method, path: faults.pop(0) if method == "PATCH" and faults else None
    with repository(network.host) as found:
        assert upload.put(found, blob(data, opened=opened), nothing) == "sent"
    # Where an answer was lost, docker-registry 2.8 has more than its address says, and refuses to go on.
    assert opened == [0, 20_000, 30_000, 0]
    assert network.count("POST") == 2


def test_an_upload_that_is_cut_in_a_chunk(
    host: str, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "CHUNK", 40_000)
    data = content()
    faults: list[Fault] = [None, ("cut", 20_000)]
    network.plan = lambda method, path: faults.pop(0) if method == "PATCH" and faults else None
    with repository(network.host) as found:
        assert upload.put(found, blob(data), nothing) == "sent"
        with found.open_blob(media.digest(data), len(data)) as pieces:
            assert b"".join(pieces) == data


def test_an_upload_goes_on_in_a_later_run(
    host: str, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "CHUNK", 10_000)
    data, opened = content(), list[int]()
    count = 0

    def plan(method: str, path: str) -> Fault:
        nonlocal count
        count += method == "PATCH"
        return "close" if count > 4 else None

    network.plan = plan
    with repository(network.host) as found:
        with pytest.raises(UnavailableError, match="could not be sent"):
            upload.put(found, blob(data), nothing)
        network.plan = lambda method, path: None
        assert upload.put(found, blob(data, opened=opened), nothing) == "sent"
    assert opened == [40_000]


@pytest.mark.parametrize("fault", [500, "close"])
def test_a_registry_that_never_works_is_given_up(network: Network, fault: Fault) -> None:
    network.plan = lambda method, path: fault
    start = time.monotonic()
    with repository(network.host) as found, pytest.raises(UnavailableError) as caught:
        upload.put(found, blob(content()), nothing)
    assert len(network.seen) == transport.TRIES and time.monotonic() - start < 10
    assert network.host in caught.value.message and f"tried {transport.TRIES} times" in caught.value.message
    assert caught.value.hint and "again" in caught.value.hint


def test_a_registry_that_takes_nothing_is_given_up(network: Network) -> None:
    network.plan = lambda method, path: 500 if method == "PATCH" else None
    with repository(network.host) as found, pytest.raises(UnavailableError, match="answers 500"):
        upload.put(found, blob(content()), nothing)
    assert network.count("PATCH") == transport.TRIES


@pytest.mark.parametrize("location", ["http://[", "ftp://127.0.0.1/x", "http://127.0.0.1:1/x", "\x7f"])
def test_an_address_that_leads_nowhere(
    network: Network, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = transport.Transport.ask

    def lying(self: transport.Transport, method: str, path: str, **rest: Any) -> Any:
        answer, content = ask(self, method, path, **rest)
        if method == "POST":
            answer.headers["Location"] = location
        return answer, content

    monkeypatch.setattr(transport.Transport, "ask", lying)
    with repository(network.host) as found, pytest.raises(PatchsetError):
        upload.put(found, blob(content()), nothing)


def test_manifests_by_tag_and_digest(host: str) -> None:
    config = b"{}"
    with repository(host) as found:
        assert found.digest_of("v1") is None
        with pytest.raises(NotFoundError):
            found.manifest("v1")
        upload.put(found, blob(config), nothing)
        manifest = media.dump(
            {
                "schemaVersion": 2,
                "mediaType": media.MANIFEST,
                "config": media.descriptor(config, media.CONFIG),
                "layers": [],
            }
        )
        found.put_manifest("v1", media.MANIFEST, manifest)
        assert found.digest_of("v1") == media.digest(manifest)
        assert found.manifest(media.digest(manifest)) == (media.digest(manifest), media.MANIFEST, manifest)


def test_referrers_without_the_api(host: str) -> None:
    with repository(host) as found:
        upload.put(found, blob(b"{}"), nothing)
        empty = media.descriptor(b"{}", media.EMPTY)
        subject = media.descriptor(b"{}", media.MANIFEST)
        for kind in ("a/one", "a/two", "a/one"):
            manifest = {
                "schemaVersion": 2,
                "mediaType": media.MANIFEST,
                "artifactType": kind,
                "config": empty,
                "layers": [empty],
            }
            found.attach(subject, manifest)
        assert sorted(entry["artifactType"] for entry in found.referrers(subject["digest"])) == [
            "a/one",
            "a/two",
        ]
        assert found.referrers("sha256:" + "0" * 64) == []


@pytest.mark.parametrize("size", [50, 5 << 20])
def test_what_is_not_of_its_digest_or_too_large_is_refused(host: str, tmp_path: Path, size: int) -> None:
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed")
    folder = tmp_path / "own"
    folder.mkdir()
    with servers.registry(folder) as own, repository(own) as found:
        data = content(1000)
        upload.put(found, blob(data), nothing)
        digest = media.digest(data)
        (stored,) = (folder / "storage").rglob(f"{digest.removeprefix('sha256:')}/data")
        stored.write_bytes(content(size, seed=2))
        with pytest.raises(PatchsetError, match=r"something else|more than 1000 bytes|ends"):
            found.blob(digest, len(data), 10_000)
        with pytest.raises(UnavailableError), found.open_blob(digest, len(data)) as pieces:
            list(pieces)


def test_a_login_of_docker_and_of_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed")
    # "user" with the password "secret", as htpasswd -nB writes it
    line = "user:$2y$05$FZP4IRsQJRgBErpp3KISeuDbvJo3WPALPUh09SwrAUO930XU9YbUy\n"
    with servers.registry(tmp_path, htpasswd=line) as host:
        with repository(host) as found, pytest.raises(LoginError) as caught:
            upload.put(found, blob(b"x"), nothing)
        assert caught.value.hint and f"docker login {host}" in caught.value.hint
        entry = json.dumps({"auths": {host: {"auth": servers.basic("user", "secret")}}})
        for file in (tmp_path / ".docker/config.json", tmp_path / "containers/auth.json"):
            file.parent.mkdir()
            file.write_text(entry)
            with repository(host) as found:
                assert upload.put(found, blob(b"x"), nothing) == "sent"
            file.unlink()
        helper = tmp_path / "programs/docker-credential-test"
        helper.parent.mkdir()
        helper.write_text(
            '#!/bin/sh\nread server\necho "{\\"Username\\": \\"user\\", \\"Secret\\": \\"secret\\"}"\n'
        )
        helper.chmod(0o755)
        monkeypatch.setenv("PATH", str(helper.parent), prepend=":")
        (tmp_path / ".docker/config.json").write_text(json.dumps({"credHelpers": {host: "test"}}))
        with repository(host) as found:
            assert upload.put(found, blob(b"x"), nothing) == "sent"
        (tmp_path / ".docker/config.json").write_text(
            entry.replace(servers.basic("user", "secret"), servers.basic("user", "no"))
        )
        with repository(host) as found, pytest.raises(LoginError) as caught:
            upload.put(found, blob(b"x"), nothing)
        assert (
            "no" not in caught.value.message.split()
            and servers.basic("user", "no") not in caught.value.message
        )
