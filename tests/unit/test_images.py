# SPDX-License-Identifier: Apache-2.0
"""Thin images on bases in a real registry: built, published, pulled, built again."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import registry
from conftest import Project
from patchset.errors import PatchsetError, UsageError
from patchset.image import layout, sbom, skopeo, thin
from patchset.release import load
from registry import SITE, pulled, push, raw, site_files, tar

pytestmark = pytest.mark.usefixtures("host", "own_logins")


@pytest.fixture
def goal(host: str) -> str:
    return f"{host}/team/{uuid.uuid4().hex[:12]}"


def said(run: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the words at the end of a command, by the first of each line."""
    lines = (line.partition(" ") for line in run.stdout.splitlines())
    return {name: rest.strip() for name, _, rest in lines}


def build(project: Project, base: str, *more: str) -> dict[str, str]:
    return said(project.run("build-image", "--base", base, *more))


def test_one_layer_of_what_differs(
    released: Project, base: str, goal: str, tmp_path: Path
) -> None:
    """Pulled and unpacked by other programs, the image is the base with the patches."""
    made = build(released, base)
    assert said(released.run("publish", goal))["digest"] == f"{goal}@{made['digest']}"
    root = pulled(f"{goal}:v1.2.0-mtp.1", tmp_path)
    found = {
        path.relative_to(root / SITE.strip("/")).as_posix(): path.read_bytes()
        for path in (root / SITE.strip("/")).rglob("*")
        if path.is_file()
    }
    info = "vllm-1.2.0+mtp.1.dist-info"
    stock = site_files()
    assert {name for name in found if name.startswith(info)} == {
        f"{info}/{name}"
        for name in (
            "METADATA",
            "WHEEL",
            "RECORD",
            "INSTALLER",
            "REQUESTED",
            "patchset.json",
            "top_level.txt",
        )
    }
    assert not any(name.startswith("vllm-1.2.0.dist-info") for name in found)
    assert "vllm/__pycache__/parser.cpython-312.pyc" not in found
    assert b"five" in found["vllm/parser.py"] and "vllm/reader.py" in found
    compiled = "vllm/_C.abi3.so"
    assert found[compiled] == stock[f"{SITE[1:]}/{compiled}"]
    assert os.access(root / "usr/local/bin/vllm-mtp-doctor", os.X_OK)
    top = raw(f"{goal}:v1.2.0")
    platforms = [entry["platform"]["architecture"] for entry in top["manifests"]]
    assert platforms == ["amd64", "arm64"] and raw(f"{goal}:latest") == top
    image = skopeo.look(skopeo.parse(f"{goal}:latest"))
    for part in image.parts:
        assert (
            part.config["config"]["User"] == "2000:0" and part.labels["kept"] == "yes"
        )
        assert (
            len(part.config["history"]) == len(part.config["rootfs"]["diff_ids"]) == 2
        )


def test_another_folder_and_clock_make_the_same_digest(
    released: Project, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(released, base)
    other = tmp_path / "elsewhere"
    shutil.copytree(released.root, other / "checkout")
    monkeypatch.setenv("PATCHSET_ROOT", str(other / "checkout"))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(other / "build"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    second = build(Project(other / "checkout", released.downloads), base)
    assert first["digest"] == second["digest"] and first["layer"] == second["layer"]
    for name in sbom.KINDS.values():
        assert (Path(second["image"]) / name).is_file()
    bills = [(Path(made["image"]) / sbom.SBOM).read_bytes() for made in (first, second)]
    assert bills[0] == bills[1]


def test_publishing_twice_sends_nothing_and_never_moves_the_fixed_tag(
    released: Project, base: str, goal: str
) -> None:
    build(released, base)
    first = said(released.run("publish", goal))
    second = released.run("publish", goal)
    assert said(second) == first and "Copying blob" not in second.stderr
    other = f"{base.rpartition('/')[0]}/{uuid.uuid4().hex}:v1"
    push(other, [tar(site_files()), tar({"etc/x": b""})], folder=released.root)
    build(released, other)
    refused = released.run("publish", goal, status=1).stderr
    assert "never moves" in refused and "v1.2.0-mtp.1" in refused
    assert (
        f"{goal}@{layout.digest(layout.dump(raw(f'{goal}:latest')))}" == first["digest"]
    )


def test_the_image_is_built_again_from_its_labels(
    released: Project, base: str, goal: str
) -> None:
    made = build(released, base)
    released.run("publish", goal)
    shutil.rmtree(released.root / "build")
    assert said(released.run("reproduce", f"{goal}:latest"))["same"] == made["digest"]
    # Another series: said before anything is built.
    series = released.folder / "series"
    text = series.read_text()
    series.write_text(text.splitlines()[0] + "\n")
    released.run("refresh")
    found = released.run("reproduce", f"{goal}:latest", status=1).stdout
    assert "DIFFERS" in found and "series-sha256" in found and "not built" in found


def test_an_index_with_two_manifests_of_one_platform_is_refused(
    released: Project, base: str, goal: str, tmp_path: Path
) -> None:
    """A foreign image before the genuine one, of the same platform."""
    build(released, base)
    released.run("publish", goal)
    evil = f"{goal}:evil"
    digest = push(evil, [tar({"evil": b""})], archs=["x86_64"], folder=tmp_path)
    top = raw(f"{goal}:latest")
    size = len(layout.dump(raw(evil)))
    platform = {"architecture": "amd64", "os": "linux"}
    entry = {"mediaType": layout.MANIFEST, "digest": digest, "size": size}
    top["manifests"].insert(0, {**entry, "platform": platform})
    content = layout.dump(top)
    put(goal, "forged", content)
    message = released.run("reproduce", f"{goal}:forged", status=1).stderr
    assert "two manifests for linux/amd64" in message
    # In the place of the genuine one, the digests differ.
    del top["manifests"][1]
    top["manifests"][0]["platform"] = platform
    put(goal, "forged", layout.dump(top))
    assert (
        "has no label" in released.run("reproduce", f"{goal}:forged", status=1).stderr
    )


def put(repository: str, tag: str, content: bytes) -> None:
    """Store an index, which skopeo would refuse to make."""
    import urllib.request

    host, _, name = repository.partition("/")
    request = urllib.request.Request(
        f"http://{host}/v2/{name}/manifests/{tag}",
        content,
        {"Content-Type": layout.INDEX},
        method="PUT",
    )
    assert urllib.request.urlopen(request).status == 201


def forge(
    goal: str,
    folder: Path,
    change: Callable[[dict[str, Any]], None],
    extra: bytes = b"",
) -> None:
    """Push the genuine image with another configuration, and perhaps one more layer."""
    genuine = skopeo.look(skopeo.parse(f"{goal}:latest")).parts[0]
    config, manifest = json.loads(json.dumps([genuine.config, genuine.manifest]))
    change(config)
    if extra:
        config["rootfs"]["diff_ids"].append(layout.digest(extra))
        manifest["layers"].append(layout.descriptor(extra, layout.LAYER))
    written = layout.dump(config)
    manifest["config"] = layout.descriptor(written, layout.CONFIG)
    content = layout.dump(manifest)
    top = layout.descriptor(content, layout.MANIFEST)
    place = folder / uuid.uuid4().hex
    layout.write(place, top, "x", [extra, written, content])
    registry.skopeo(
        "copy",
        "--preserve-digests",
        "--dest-tls-verify=false",
        f"oci:{place}:x",
        f"docker://{goal}:forged",
    )


def test_forged_images_are_not_reproduced(
    released: Project, base: str, goal: str, tmp_path: Path
) -> None:
    build(released, base)
    released.run("publish", goal)
    forge(goal, tmp_path, lambda config: None, tar({"evil": b""}))
    found = released.run("reproduce", f"{goal}:forged", status=1).stdout
    assert "3 layers, 2 here" in found
    # Labels of somebody else's making end in a message.
    own, oci = "vllm-mtp-patches.", "org.opencontainers.image."
    for name, value, status in (
        (f"{own}release", "../x", 2),
        (f"{own}release", None, 1),
        (f"{own}target", "tpu", 1),
        (f"{own}series-sha256", "0" * 64, 1),
        (f"{oci}base.digest", "sha256:12", 1),
        (f"{oci}base.digest", f"sha256:{'0' * 64}", 6),
        (f"{oci}base.digest", None, 1),
        (f"{oci}base.name", None, 1),
    ):

        def change(
            config: dict[str, Any], name: str = name, value: str | None = value
        ) -> None:
            config["config"]["Labels"][name] = value
            if value is None:
                del config["config"]["Labels"][name]

        forge(goal, tmp_path, change)
        run = released.run("reproduce", f"{goal}:forged", status=status)
        assert "Traceback" not in run.stderr and "same" not in run.stdout


def test_bases_that_are_refused(
    released: Project, base: str, host: str, goal: str, tmp_path: Path
) -> None:
    def refused(*words: str, status: int) -> str:
        return released.run("build-image", *words, status=status).stderr

    assert "no image" in refused("--base", f"{host}/official/nothing:v1", status=6)
    assert "--base debian" in refused("--base", base, "--engine", "buildah", status=2)
    single = f"{host}/official/{uuid.uuid4().hex}:v1"
    push(single, [tar(site_files())], archs=["x86_64"], folder=tmp_path)
    wrong = refused("--base", single, "--arch", "aarch64", status=2)
    assert "is not for arm64" in wrong
    assert "layer x86_64" not in build(released, single).get("layer", "")
    released.run("publish", goal)
    wrong = refused("--base", f"{goal}:latest", status=1)
    assert "has patches of this project already" in wrong


def test_a_base_that_is_not_the_official_image_is_looked_into(
    released: Project, host: str, tmp_path: Path
) -> None:
    site = SITE.strip("/")

    def refused(*layers: bytes) -> str:
        reference = f"{host}/other/{uuid.uuid4().hex}:v1"
        push(reference, layers, folder=tmp_path)
        return released.run("build-image", "--base", reference, status=1).stderr

    lower = tar(site_files())
    for above in (
        {f"{site}/vllm/parser.py": b"another"},
        {f"{site}/vllm/.wh.parser.py": b""},
        {f"{site}/vllm/.wh..wh..opq": b""},
        {f"{site}/.wh.vllm": b""},
        {f"{site}/vllm": b"a file in the folder's place"},
    ):
        assert "other files than the release" in refused(lower, tar(above))
    # Engines read every member of a gzip file.
    hidden = gzip.compress(tar({"x": b""})[:512]) + gzip.compress(
        tar({f"{site}/vllm/parser.py": b"another"})
    )
    assert "other files than the release" in refused(lower, hidden)
    assert "it is not vLLM 1.2.0" in refused(tar({"etc/passwd": b""}))


def test_the_official_image_by_digest_stays_the_same(
    released: Project, host: str, base: str, tmp_path: Path
) -> None:
    pin = released.folder / "release.toml"

    def name(reference: str) -> None:
        pin.write_text(
            re.sub('image = ".*"', f'image = "{reference}"', pin.read_text())
        )

    name(base)
    digest = skopeo.digest(skopeo.parse(base))
    run = released.run("build-image", "--base", "official")
    assert f"{base} is a tag; today it is {digest}" in run.stderr
    assert thin.pin_digest(pin) == digest
    assert f'image = "{base}@{digest}"' in pin.read_text()
    assert thin.pin_digest(pin) is None
    before = build(released, "official")
    push(base, [tar(site_files()), tar({"etc/moved": b""})], folder=tmp_path)
    assert build(released, "official")["digest"] == before["digest"]
    assert said(released.run("build-image"))["digest"] == before["digest"]
    name(base)
    assert build(released, "official")["digest"] != before["digest"]
    name("127.0.0.1:1/x:v1")
    text = pin.read_text()
    assert thin.pin_digest(pin) is None and pin.read_text() == text


def test_without_a_registry_debian_is_said_in_one_line(
    released: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing listens at the pin's registry; no engine is here, so nothing is built."""
    pin = released.folder / "release.toml"
    text = re.sub('image = ".*"', 'image = "127.0.0.1:1/x:v1"', pin.read_text())
    pin.write_text(text)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("skopeo", "git"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(tools))
    message = released.run("build-image", status=5).stderr
    (line,) = [line for line in message.splitlines() if "--base debian" in line]
    assert "connection refused" in line
    assert (
        "connection refused"
        in released.run("build-image", "--base", "official", status=6).stderr
    )


def test_what_was_not_made_from_this_checkout_is_not_published(
    released: Project, base: str, goal: str
) -> None:
    made = Path(build(released, base)["image"])
    (made / sbom.SBOM).rename(made / "kept")
    assert "has no sbom.cdx.json" in released.run("publish", goal, status=1).stderr
    (made / "kept").rename(made / sbom.SBOM)
    series = released.folder / "series"
    text = series.read_text()
    series.write_text(text.splitlines()[0] + "\n")
    released.run("refresh")
    message = released.run("publish", goal, status=1).stderr
    assert (
        "not made from this checkout" in message and "build the image again" in message
    )
    series.write_text(text)
    released.run("refresh")
    for blob in (made / "image/blobs/sha256").iterdir():
        if b"diff_ids" in blob.read_bytes():
            blob.write_bytes(blob.read_bytes() + b" ")
    assert "digest mismatch" in released.run("publish", goal, status=1).stderr
    assert "nothing" not in released.run("publish", f"{goal}:x", status=2).stdout


def test_bill_and_provenance(released: Project, base: str) -> None:
    made = Path(build(released, base)["image"])
    bill = (made / sbom.SBOM).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    components = {entry["bom-ref"]: entry for entry in json.loads(bill)["components"]}
    official = components["vllm-x86_64"]["pedigree"]["ancestors"][0]
    pin = load("v1.2.0").wheel("cuda", "x86_64")
    assert official["hashes"] == [{"alg": "SHA-256", "content": pin.sha256}]
    assert {"file-vllm/parser.py", "file-vllm/reader.py", "base-x86_64"} <= set(
        components
    )
    image, _ = layout.load(made / "image")
    assert json.loads(bill)["metadata"]["component"]["hashes"][0]["content"] == (
        image.digest.removeprefix("sha256:")
    )
    predicate = json.loads((made / sbom.PROVENANCE).read_text())
    inputs = predicate["buildDefinition"]["resolvedDependencies"]
    sums = {entry["digest"].get("sha256") for entry in inputs}
    bases = {
        part.labels["org.opencontainers.image.base.digest"] for part in image.parts
    }
    assert {pin.sha256, *(found.removeprefix("sha256:") for found in bases)} <= sums
    assert predicate["runDetails"]["builder"]["id"].endswith(":local")


def test_cosign_signs_by_digest_before_anything_has_a_tag(
    released: Project,
    base: str,
    goal: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program in cosign's place notes its words, and whether the tag is there."""
    made = build(released, base)
    assert (
        "cosign is not installed"
        in released.run("publish", goal, "--sign", status=5).stderr
    )
    program = tmp_path / "tools" / "cosign"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/said\n'
        f"skopeo inspect --raw --tls-verify=false docker://{goal}:v1.2.0 >/dev/null 2>&1"
        f" && echo tagged >> {tmp_path}/said\nexit $(cat {tmp_path}/status)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    (tmp_path / "status").write_text("1")
    released.run("publish", goal, "--key", "the.key", status=1)
    assert skopeo.digest(skopeo.parse(f"{goal}:v1.2.0")) is None
    (tmp_path / "status").write_text("0")
    (tmp_path / "said").unlink()
    released.run("publish", goal, "--key", "the.key")
    lines = (tmp_path / "said").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["sign", "attest", "attest"]
    assert all(line.endswith(f"{goal}@{made['digest']}") for line in lines)
    assert all("--key the.key" in line for line in lines)


PASSWORD = "correct-horse"
#: What docker-registry knows of it (bcrypt).
HTPASSWD = "somebody:$2b$05$Qc00tDknwWtFolyFQDNVueIbhGJEMYniHDLrIaoC5o1NuxwA52yR.\n"


def own_address() -> str:
    """Return an address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def test_a_login_reaches_its_own_registry_alone(
    released: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By https alone, unless the registry is on this machine; and it is never shown."""
    heard: list[bytes] = []
    with socket.create_server(("0.0.0.0", 0)) as server:
        address = own_address()
        place = f"{address}:{server.getsockname()[1]}"

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(4096))

        threading.Thread(target=listen, daemon=True).start()
        import base64

        secret = base64.b64encode(f"somebody:{PASSWORD}".encode()).decode()
        auths = {name: {"auth": secret} for name in (place, "127.0.0.1:1")}
        (tmp_path / "auth.json").write_text(json.dumps({"auths": auths}))
        run = released.run("build-image", "--base", f"{place}/x/y:v1", status=6)
    assert heard and all(words[:1] == b"\x16" for words in heard)  # TLS, no HTTP
    assert PASSWORD not in run.stderr and secret not in run.stderr
    wrong = released.run("publish", f"somebody:{PASSWORD}@{place}/x", status=2).stderr
    assert PASSWORD not in wrong


def test_publishing_needs_the_login_that_skopeo_has(
    released: Project, base: str, tmp_path: Path
) -> None:
    build(released, base)
    (tmp_path / "own").mkdir()
    with registry.registry(tmp_path / "own", HTPASSWD) as own:
        denied = released.run("publish", f"{own}/team/x", status=6).stderr
        assert "authentication required" in denied and "skopeo login" in denied
        argv = ["skopeo", "login", "--tls-verify=false", "-u", "somebody"]
        argv += ["--password-stdin", own]
        subprocess.run(argv, input=PASSWORD, text=True, check=True, capture_output=True)
        run = released.run("publish", f"{own}/team/x")
        assert PASSWORD not in run.stderr
        assert said(released.run("reproduce", f"{own}/team/x:latest"))["same"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x y",
        "UPPER/x",
        "host.example/x:tag:tag",
        "host.example/x@sha256:12",
        "-/x",
        "host.example/x:",
        "host.example/" + "x" * 300,
        "host.example/a//b",
    ],
)
def test_references_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        skopeo.parse(text)


def test_references() -> None:
    assert str(skopeo.parse("vllm/vllm-openai:v1")) == "docker.io/vllm/vllm-openai:v1"
    assert str(skopeo.parse("debian")) == "docker.io/library/debian"
    digest = f"sha256:{'0' * 64}"
    both = skopeo.parse(f"[::1]:5000/a/b:v1@{digest}")
    assert both.loopback and both.tag == "v1" and both.digest == digest
    assert not skopeo.parse("127.0.0.1.example.org/a").loopback
    assert not skopeo.parse("localhost.example.org/a").loopback


AMD64 = {"platform": {"os": "linux", "architecture": "amd64"}}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"config": None}, "is malformed"),
        ({"layers": 5}, "is malformed"),
        ({"layers": [{"digest": "sha256:12", "size": 1}]}, "without a sha256 digest"),
        ({"layers": []}, "differ in their layers"),
        ({"manifests": 5}, "is malformed"),
        ({"manifests": ["x"]}, "is malformed"),
        ({"manifests": [AMD64]}, "is malformed: KeyError"),
        ({"manifests": [{**AMD64, "digest": "x", "size": 1}]}, "without a sha256"),
    ],
)
def test_malformed_manifests_are_named(change: dict[str, Any], complaint: str) -> None:
    config = layout.dump(
        {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"diff_ids": ["x"]},
        }
    )
    manifest = {
        "config": layout.descriptor(config, layout.CONFIG),
        "layers": [layout.descriptor(b"", layout.LAYER)],
    }
    read: Callable[[bytes], layout.Image] = lambda content: layout.read(  # noqa: E731
        content, "the image", lambda *_: config
    )
    assert read(layout.dump(manifest)).parts[0].arch == "x86_64"
    with pytest.raises(PatchsetError, match=complaint):
        read(layout.dump({**manifest, **change}))
    odd: list[dict[str, Any]] = [
        {"config": "x"},
        {"config": {"Labels": {"a": 3}}},
        {"rootfs": {"diff_ids": "x"}},
        {"history": "x"},
        {"os": []},
    ]
    for settings in odd:
        whole = config
        config = layout.dump({**json.loads(whole), **settings})
        manifest["config"] = layout.descriptor(config, layout.CONFIG)
        with pytest.raises(PatchsetError):
            read(layout.dump(manifest))
        config = whole
    for content in (b"", b"[]", b"[" * 100_000, b" " * (layout.MAX_BYTES + 1)):
        with pytest.raises(PatchsetError):
            read(content)


@pytest.mark.parametrize(
    ("point", "number"),
    [
        ("push sha256:", signal.SIGKILL),
        ("Copying blob", signal.SIGINT),
        ("Writing manifest", signal.SIGKILL),
    ],
)
def test_a_push_that_was_killed_ends_right_when_run_again(
    released: Project, base: str, goal: str, point: str, number: signal.Signals
) -> None:
    made = build(released, base)
    started = subprocess.Popen(
        [sys.executable, "-m", "patchset", "publish", goal],
        cwd=released.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert started.stderr is not None
    assert any(point in line for line in started.stderr), point
    started.send_signal(number)
    words = started.communicate(timeout=60)[1]
    assert "Traceback" not in words
    assert started.returncode in (130, -9)
    wait_for_nobody(released.root)
    if point != "Writing manifest":
        assert skopeo.digest(skopeo.parse(f"{goal}:latest")) is None
    assert said(released.run("publish", goal))["digest"].endswith(made["digest"])


def wait_for_nobody(folder: Path) -> None:
    """Wait until no program that works in a folder, or on it, is left."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                inside = (place / "cwd").readlink().is_relative_to(folder)
            except OSError:
                continue
            if inside and int(place.name) != os.getpid():
                found.append(place)
        if not found:
            return
        time.sleep(0.1)
    raise AssertionError(found)
