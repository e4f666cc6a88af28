# SPDX-License-Identifier: Apache-2.0
"""Publishing to a real registry, pulling with an engine's own program, and making the image again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import registry_server
import small_base
from conftest import Project, diff_line
from patchset.attest import attestation, inputs
from patchset.errors import PatchsetError, UnavailableError
from patchset.image import debian_base
from patchset.publish import push
from patchset.registry import layout, media, transport, upload
from patchset.registry.client import Repository
from patchset.registry.reference import parse
from patchset.release import load
from patchset.series.patched_release import PatchedRelease
from registry_server import Fault, Network, host, network, own_places
from small_base import SITE, base, released
from test_thin import archive, build
from test_wheel import packaged

__all__ = ["base", "host", "network", "own_places", "packaged", "released"]


@pytest.fixture
def goal(host: str) -> str:
    return f"{host}/team/{uuid.uuid4().hex[:12]}"


def forge(place: Path, forged: dict[attestation.Attestation, bytes | None]) -> None:
    """Put other attestations into an archive, or take some out, and have its index name what it then holds."""
    with tarfile.open(place) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    index = json.loads(members.pop("index.json"))
    for kind, content in forged.items():
        del index["manifests"][0]["annotations"][kind.annotation]
        if content is not None:
            index["manifests"][0]["annotations"][kind.annotation] = media.digest(content)
            members[f"blobs/sha256/{media.digest(content).removeprefix('sha256:')}"] = content
    blobs = {f"sha256:{name.rpartition('/')[2]}": data for name, data in members.items() if "/" in name}
    layout.write(place, index, blobs, 0)


def publish(project: Project, goal: str, *arguments: str, status: int = 0) -> str:
    done = project.run("publish", goal, *arguments, status=status)
    return done.stderr if status else done.stdout


def attestations_of(reference: str) -> dict[str, dict[str, Any]]:
    parsed = parse(reference)
    found = {}
    with Repository(parsed) as repository:
        digest = repository.digest_of(parsed.wanted) or ""
        for entry in repository.referrers(digest):
            manifest = media.parse(repository.manifest(entry["digest"])[2], "paper")
            assert manifest["subject"]["digest"] == digest
            part = manifest["layers"][0]
            found[manifest["artifactType"]] = json.loads(
                repository.blob(part["digest"], part["size"], 1 << 20)
            )
    return found


def test_published_pulled_by_tag_and_digest_and_well(
    released: Project, base: str, goal: str, tmp_path: Path
) -> None:
    digest = build(released, base)["digest"]
    shown = publish(released, goal)
    assert "2 mounted, 4 sent" in shown and digest in shown
    for number, what in enumerate((":v1.2.0-mtp.1", ":v1.2.0", ":latest", f"@{digest}")):
        folder = tmp_path / str(number)
        folder.mkdir()
        site = small_base.pulled(goal + what, folder) / SITE[1:]
        assert {path.name for path in site.iterdir()} == {"vllm", "vllm-1.2.0+mtp.1.dist-info"}
        assert {path.name for path in (site / "vllm/__pycache__").iterdir()} == {"other.cpython-312.pyc"}
        assert "2 of 2 patches" in released.run("doctor", "--root", str(site)).stdout
    folder = tmp_path / "arm"
    folder.mkdir()
    site = small_base.pulled(f"{goal}:latest", folder, arch="arm64") / SITE[1:]
    assert "aarch64" in (site / "vllm-1.2.0+mtp.1.dist-info/WHEEL").read_text()


def test_an_engine_runs_the_doctor_on_it(released: Project, base: str, goal: str, tmp_path: Path) -> None:
    if shutil.which("buildah") is None or os.geteuid() != 0:
        pytest.skip("needs buildah, as root")
    build(released, base)
    publish(released, goal)
    engine = [
        "buildah",
        "--storage-driver",
        "vfs",
        "--root",
        str(tmp_path / "store"),
        "--runroot",
        str(tmp_path / "run"),
    ]

    def ask(*words: str) -> str:
        return subprocess.run([*engine, *words], capture_output=True, text=True, check=True).stdout.strip()

    container = ask("from", "--tls-verify=false", f"{goal}:v1.2.0-mtp.1")
    mounted = Path(ask("mount", container))
    assert "2 of 2 patches" in released.run("doctor", "--root", str(mounted / SITE[1:])).stdout
    assert os.access(mounted / "usr/local/bin/vllm-mtp-doctor", os.X_OK)
    ask("rm", container)


def test_a_fixed_tag_is_never_moved(released: Project, base: str, goal: str) -> None:
    first = build(released, base)["digest"]
    publish(released, goal)
    assert "6 there" in publish(released, goal)  # the same image again is not a fault
    released.add_patch("0003-more.diff", diff_line(30, "thirty", "vllm/parser.py"))
    second = build(released, base)["digest"]
    assert first != second
    message = publish(released, goal, status=1)
    assert f"{goal}:v1.2.0-mtp.1 is {first} already" in message and "raise revision" in message
    with Repository(parse(goal)) as repository:
        assert {repository.digest_of(tag) for tag in ("v1.2.0-mtp.1", "v1.2.0", "latest")} == {first}
    toml = released.folder / "release.toml"
    toml.write_text(toml.read_text().replace("revision = 1", "revision = 2"))
    assert "is 1.2.0+mtp.1 for cuda, not 1.2.0+mtp.2" in publish(released, goal, status=1)
    third = build(released, base)["digest"]
    publish(released, goal)
    with Repository(parse(goal)) as repository:
        found = [repository.digest_of(tag) for tag in ("v1.2.0-mtp.1", "v1.2.0-mtp.2", "v1.2.0", "latest")]
    assert found == [first, third, third, third]


def test_a_base_in_another_registry_is_copied(released: Project, goal: str, tmp_path: Path) -> None:
    with registry_server.registry(tmp_path) as other:
        build(released, small_base.push(other, "official/vllm"))
        assert "6 sent" in publish(released, goal)
    folder = tmp_path / "pulled"
    folder.mkdir()
    assert (small_base.pulled(f"{goal}:latest", folder) / SITE[1:] / "vllm/reader.py").is_file()


def test_a_push_that_is_cut_goes_on(
    released: Project, base: str, goal: str, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(released, base)
    place = released.root / "build/images/v1.2.0-cuda-thin.oci.tar"
    monkeypatch.setattr(upload, "CHUNK", 50_000)
    through = parse(goal.replace(goal.split("/")[0], network.host))
    names = push.tags(load("v1.2.0"), "cuda")
    left = 4

    def plan(method: str, path: str) -> Fault:
        nonlocal left
        left -= method == "PATCH"
        return "close" if left < 0 else None

    network.plan = plan
    with pytest.raises(UnavailableError):
        push.publish(through, [place], names)
    with Repository(parse(goal)) as repository:
        assert repository.digest_of("v1.2.0-mtp.1") is None  # nothing that can be pulled by tag
    network.plan = lambda method, path: None
    before = network.count("PATCH")
    done = push.publish(through, [place], names)
    assert done.parts["there"] >= 1
    sent = network.count("PATCH") - before
    whole = push.publish(parse(f"{goal}-whole"), [place], names)
    assert whole.digest == done.digest
    network.seen.clear()
    push.publish(parse(str(through) + "-count"), [place], names)
    assert sent <= network.count("PATCH") - 4


@pytest.mark.parametrize("fault", [500, "close"])
def test_a_failing_registry_ends_in_a_clear_error(
    released: Project, base: str, goal: str, network: Network, tmp_path: Path, fault: Fault
) -> None:
    build(released, base)
    place = released.root / "build/images/v1.2.0-cuda-thin.oci.tar"
    network.plan = lambda method, path: fault if "/manifests/v1.2.0" in path and method == "PUT" else None
    with pytest.raises(UnavailableError, match=rf"{network.host} .*tried {transport.TRIES} times"):
        push.publish(
            parse(goal.replace(goal.split("/")[0], network.host)),
            [place],
            push.tags(load("v1.2.0"), "cuda"),
        )
    assert network.count("PUT") < 40


def test_attestations_say_what_is_in_it_and_where_it_came_from(
    released: Project, base: str, goal: str
) -> None:
    digest = build(released, base)["digest"]
    publish(released, goal)
    found = attestations_of(f"{goal}:latest")
    bill = found["application/vnd.cyclonedx+json"]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    changes = {
        component["name"]: component["properties"][0]["value"]
        for component in bill["components"]
        if component["type"] == "file"
    }
    assert changes == {"vllm/parser.py": "modified", "vllm/reader.py": "added"}
    statement = found["application/vnd.in-toto+json"]
    assert statement["subject"][0]["digest"] == {"sha256": digest.removeprefix("sha256:")}
    named = {entry["name"] for entry in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {
        "pkg-1.2.0.tar.gz", "base", "base-x86_64", "base-aarch64", "patches/v1.2.0/series", "patches/v1.2.0/0001-first.diff",
        "vllm-1.2.0-cp38-abi3-manylinux_2_28_aarch64.whl", "patches/v1.2.0/release.toml", "image/deflate.py",
    } <= named  # fmt: skip


def test_reproduced_and_a_changed_input_is_named(
    released: Project, base: str, goal: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digest = build(released, base)["digest"]
    publish(released, goal, "--record")
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "fresh"))
    for what in (f"{goal}:v1.2.0-mtp.1", f"{goal}@{digest}", "v1.2.0-mtp.1"):
        assert f"same     {digest}" in released.run("reproduce", what).stdout
    patch = released.folder / "0001-first.diff"
    right = patch.read_text()
    patch.write_text(right.replace("+five", "+FIVE"))
    shown = released.run("reproduce", f"{goal}:v1.2.0-mtp.1", status=1).stdout
    assert "DIFFERS  patches/v1.2.0/0001-first.diff: sha256" in shown and shown.count("DIFFERS") == 1
    patch.write_text(right)
    toml = released.folder / "release.toml"
    sha = next(line for line in toml.read_text().splitlines() if line.startswith("sha256"))
    toml.write_text(toml.read_text().replace(sha, f'sha256 = "{"0" * 64}"', 1))
    shown = released.run("reproduce", f"{goal}:v1.2.0-mtp.1", status=1).stdout
    assert "DIFFERS  pkg-1.2.0.tar.gz" in shown and "DIFFERS  patches/v1.2.0/release.toml" in shown


def test_a_whole_image_is_made_again_from_the_snapshot_that_it_names(
    released: Project, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(released, base)
    thin = json.loads(attestation.read(archive(released))[attestation.INPUTS])
    (released.root / "docker").mkdir()
    full = {name: thin[name] for name in thin if name not in ("base", "tool")} | {
        "kind": "full",
        "engine": "buildah",
    }
    full |= {"archs": ["x86_64"], "tool": {}, "snapshot": "http://mirror.example/{}/20261120T000000Z"}
    pinned = PatchedRelease(load("v1.2.0"))
    full["files"] = inputs.checkout_files(pinned, "cuda", "full")
    full["sources"] = [s.model_dump() for s in inputs.sources(pinned.pin, "cuda", ["x86_64"])]
    full["sources"].append({"file": "debian.tar", "sha256": "0" * 64})
    place = released.root / "published/full.inputs.lock"
    place.parent.mkdir()
    place.write_text(json.dumps(full))
    shown = released.run("reproduce", "full", status=1).stdout
    assert f"made with PATCHSET_DEBIAN_SNAPSHOT={full['snapshot']} in the published image" in shown
    made = []
    monkeypatch.setenv("PATCHSET_DEBIAN_SNAPSHOT", full["snapshot"])
    monkeypatch.setattr(debian_base, "rootfs", lambda *arguments: made.append(arguments))
    assert "not the base that the image was made on" in released.run("reproduce", "full", status=1).stdout
    assert made == [("cuda", "x86_64", 1_700_000_000)]


def test_a_published_layer_that_nobody_can_make_is_named(
    released: Project, base: str, goal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody publishes another text in the layer, with an inputs.lock that claims to be of it."""
    build(released, base)
    honest = json.loads(attestation.read(archive(released))[attestation.INPUTS])
    evil = Project(tmp_path / "evil", released.downloads)
    shutil.copytree(released.root, evil.root)
    patch = evil.folder / "0002-new.diff"
    patch.write_text(patch.read_text().replace("READ = 1", "READ = 6"))
    monkeypatch.setenv("PATCHSET_ROOT", str(evil.root))
    build(evil, base)
    lock = json.loads(attestation.read(archive(evil))[attestation.INPUTS])
    forge(archive(evil).path, {attestation.INPUTS: json.dumps({**lock, "files": honest["files"]}).encode()})
    monkeypatch.setenv("PATCHSET_ROOT", str(released.root))
    publish(released, goal, "--archive", str(archive(evil).path))
    shown = released.run("reproduce", f"{goal}:latest", status=1).stdout
    assert f"DIFFERS  x86_64 layer, {SITE[1:]}/vllm/reader.py: differs" in shown
    assert "parser.py" not in shown


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("engine", "rm"), ("files", {"../../x": "0" * 64}), ("files", {"\x1b[2J": "0" * 64}), ("digest", "sha256:1"),
        ("sources", [{"file": "../x.tar", "sha256": "0" * 64}]), ("schema", 2), ("more", 1),
    ],
)  # fmt: skip
def test_an_inputs_lock_of_somebody_else_is_read_with_care(
    released: Project, base: str, field: str, value: object
) -> None:
    build(released, base)
    right = json.loads(attestation.read(archive(released))[attestation.INPUTS])
    inputs.read(json.dumps(right).encode(), "here")
    with pytest.raises(PatchsetError, match=r"here is not an inputs\.lock"):
        inputs.read(json.dumps({**right, field: value}).encode(), "here")


def test_archives_of_one_processor_each_become_one_image(
    released: Project, host: str, goal: str, tmp_path: Path
) -> None:
    """As full images are built, one archive on each machine; the engine's archives hold all their parts."""
    archives: list[str] = []
    for arch in ("x86_64", "aarch64"):
        single = small_base.push(host, f"official/{uuid.uuid4().hex[:8]}", (arch,), index=False)
        build(released, single, "--arch", arch)
        place = tmp_path / f"v1.2.0-cuda-{arch}.oci.tar"
        shutil.copyfile(released.root / "build/images/v1.2.0-cuda-thin.oci.tar", place)
        archives += ["--archive", str(place)]
    publish(released, goal, *archives)
    found = small_base.manifest_of(f"{goal}:latest")
    assert [entry["platform"]["architecture"] for entry in found["manifests"]] == ["amd64", "arm64"]
    shown = released.run("reproduce", f"{goal}:latest").stdout
    assert shown.count("same") == 2
    assert "different ones" in publish(released, goal, *archives[:2], *archives[:2], status=2)


def test_what_is_no_archive(released: Project, base: str, goal: str, tmp_path: Path) -> None:
    assert "there is no image of v1.2.0" in publish(released, goal, status=2)
    build(released, base)
    assert "names a tag" in publish(released, f"{goal}:v1", status=2)
    place = released.root / "build/images/v1.2.0-cuda-thin.oci.tar"
    content = bytearray(place.read_bytes())
    with tarfile.open(place) as tar:
        blob = max(tar.getmembers(), key=lambda member: member.size)
    content[blob.offset_data + 50] ^= 1
    place.write_bytes(content)
    message = publish(released, goal, status=1)
    assert "was changed" in message or "DIGEST_INVALID" in message
    place.write_bytes(b"no archive")
    assert "is not an OCI archive" in publish(released, goal, status=1)


def test_signing(
    released: Project, base: str, goal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = build(released, base)["digest"]
    if shutil.which("cosign") is None:
        assert "cosign is not installed" in publish(released, goal, "--sign", status=5)
    program = tmp_path / "programs/cosign"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert "signed" not in publish(released, goal)
    assert "signed  by cosign" in publish(released, goal, "--key", "k.pem")
    calls = (tmp_path / "said").read_text().splitlines()
    said = calls[0].split()
    assert said[0] == "sign" and said[-1] == f"{goal}@{digest}" and said[said.index("--key") + 1] == "k.pem"
    assert [words.split()[0:3] for words in calls[1:]] == [
        ["attest", "--type", "slsaprovenance1"],
        ["attest", "--type", "cyclonedx"],
    ]
