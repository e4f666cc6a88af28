# SPDX-License-Identifier: Apache-2.0
"""Thin images on bases in a real registry, and whole ones by buildah.

They are built, published, pulled, and built again.
"""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from conftest import (
    APT,
    SITE,
    Project,
    StandIn,
    lay,
    ran,
    replaced,
    running,
    site_files,
    tar,
    until,
)
from patchset import files, paths, process
from patchset.errors import MissingToolError, NoSpaceError, PatchsetError, UsageError
from patchset.image import buildah, debian, labels, layout, sbom, skopeo
from patchset.inputs.lock import Locked
from patchset.release import Artifact, load
from registry import pulled, push, raw, registry


def said(run: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the words at the end of a command, by the first of each line."""
    lines = (line.partition(" ") for line in run.stdout.splitlines())
    return {name: rest.strip() for name, _, rest in lines}


def build(project: Project, base: str) -> dict[str, str]:
    return said(project.run("build-image", "--base", base))


def digest(reference: str) -> str | None:
    return skopeo.digest(skopeo.parse(reference))


def look(reference: str) -> layout.Image:
    return skopeo.look(skopeo.parse(reference))


@pytest.fixture
def built(released: Project, base: str) -> dict[str, str]:
    return build(released, base)


@pytest.fixture
def published(released: Project, built: dict[str, str], goal: str) -> str:
    """Make an image that was built and published; its digest."""
    return said(released.run("publish", goal))["digest"].rpartition("@")[2]


def first_patch_alone(project: Project) -> None:
    series = project.series
    series.write_text(series.read_text().splitlines()[0] + "\n")
    project.run("refresh")


def test_one_layer_of_what_differs(
    released: Project, base: str, built: dict[str, str], goal: str, tmp_path: Path
) -> None:
    """Pulled and unpacked by other programs, the image is the base with the patches."""
    done = said(released.run("publish", goal))["digest"]
    root = pulled(f"{goal}:v1.2.0-mtp.1", tmp_path)
    site = root / SITE
    (info,) = site.glob("*.dist-info")
    assert info.name == "vllm-1.2.0+mtp.1.dist-info"
    files = "INSTALLER METADATA RECORD REQUESTED WHEEL patchset.json top_level.txt"
    assert sorted(path.name for path in info.iterdir()) == files.split()
    assert not (site / "vllm/__pycache__/parser.cpython-312.pyc").exists()
    assert "five" in (site / "vllm/parser.py").read_text()
    assert (site / "vllm/reader.py").exists()
    compiled = "vllm/_C.abi3.so"
    assert (site / compiled).read_bytes() == site_files()[f"{SITE}/{compiled}"]
    assert os.access(root / "usr/local/bin/vllm-mtp-doctor", os.X_OK)
    for tag in ("v1.2.0", "latest"):
        assert done == f"{goal}@{digest(f'{goal}:{tag}')}"
    parts = look(f"{goal}:latest").parts
    assert [part.arch for part in parts] == ["x86_64", "aarch64"]
    # What was built here is in it as it was built.
    assert built["digest"] in [part.digest for part in parts]
    named = f"{base}@{digest(base)}"
    assert {part.labels[labels.BASE_NAME] for part in parts} == {named}
    for part in parts:
        assert part.config["config"]["User"] == "2000:0"
        assert part.labels["kept"] == "yes"
        assert len(part.config["history"]) == len(part.diff_ids) == 2


def test_another_folder_and_clock_make_the_same_digest(
    released: Project,
    base: str,
    built: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(released.root, other / "checkout")
    monkeypatch.setenv("PATCHSET_ROOT", str(other / "checkout"))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(other / "build"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = build(Project(other / "checkout", released.downloads), base)
    assert built["digest"] == second["digest"] and built["layer"] == second["layer"]
    bills = [(Path(made["image"]) / sbom.FILE).read_bytes() for made in (built, second)]
    assert bills[0] == bills[1]


def test_publishing_twice_never_moves_the_fixed_tag(
    released: Project, base: str, built: dict[str, str], goal: str
) -> None:
    first = said(released.run("publish", goal))
    assert said(released.run("publish", goal)) == first
    other = f"{goal}-base:v1"
    push(other, [tar(site_files()), tar({"etc/x": b""})], folder=released.root)
    build(released, other)
    released.run("publish", goal, status=1, err=("never moves", "v1.2.0-mtp.1"))
    assert f"{goal}@{digest(f'{goal}:latest')}" == first["digest"]
    replaced(released.pin, "revision = 1", "revision = 10")
    build(released, base)
    newer = said(released.run("publish", goal))
    replaced(released.pin, "revision = 10", "revision = 9")
    build(released, base)
    done = released.run(
        "publish",
        goal,
        out=(f"{goal}:v1.2.0-mtp.9",),
        err=("is not moved: 1.2.0+mtp.10 is newer than 1.2.0+mtp.9",),
    )
    assert "latest" not in done.stdout
    assert f"{goal}@{digest(f'{goal}:latest')}" == newer["digest"]


def test_the_image_is_built_again_from_its_labels(
    released: Project, published: str, goal: str
) -> None:
    shutil.rmtree(released.root / "build")
    assert said(released.run("reproduce", f"{goal}:latest"))["same"] == published
    # Another series: said before anything is built.
    first_patch_alone(released)
    released.run(
        "reproduce",
        f"{goal}:latest",
        status=1,
        out=("DIFFERS", "series-sha256", "not built"),
    )


def test_an_image_that_another_tool_pushed_is_not_called_different(
    released: Project, published: str, goal: str
) -> None:
    """As podman push, buildah push and a plain skopeo copy do it."""
    top = raw(f"{goal}:latest")
    for entry in top["manifests"]:
        manifest = raw(f"{goal}@{entry['digest']}")
        manifest["layers"][-1]["mediaType"] += "+gzip"
        content = layout.dump(manifest)
        put(goal, layout.digest(content), content, layout.MANIFEST)
        entry |= {"digest": layout.digest(content), "size": len(content)}
    put(goal, "other", layout.dump(top), layout.INDEX)
    found = released.run("reproduce", f"{goal}:other", status=1).stdout
    assert "pushed by another tool" in found and "layer 1" not in found


def put(goal: str, name: str, content: bytes, kind: str) -> None:
    """Give a registry a manifest that skopeo would refuse to make."""
    host, _, repository = goal.partition("/")
    request = urllib.request.Request(
        f"http://{host}/v2/{repository}/manifests/{name}",
        content,
        {"Content-Type": kind},
        method="PUT",
    )
    assert urllib.request.urlopen(request).status == 201


def test_an_index_with_two_manifests_of_one_platform_is_refused(
    released: Project, published: str, goal: str, tmp_path: Path
) -> None:
    """A foreign image before the genuine one, of the same platform."""
    foreign = push(f"{goal}:x", [tar({"evil": b""})], archs=["x86_64"], folder=tmp_path)
    top = raw(f"{goal}:latest")
    size = len(layout.dump(raw(f"{goal}:x")))
    top["manifests"].insert(0, {**top["manifests"][0], "digest": foreign, "size": size})
    put(goal, "forged", layout.dump(top), layout.INDEX)
    released.run(
        "reproduce", f"{goal}:forged", status=1, err=("two manifests for linux/amd64",)
    )


def test_forged_images_are_not_reproduced(
    released: Project, published: str, goal: str, tmp_path: Path
) -> None:
    forged = f"{goal}:forged"
    genuine = look(f"{goal}:latest").parts[0].labels
    evil = tar({"evil": b""})
    push(forged, [evil], archs=["x86_64"], labels=genuine, folder=tmp_path)
    released.run(
        "reproduce",
        forged,
        status=1,
        out=("DIFFERS  x86_64: layer 1", "x86_64: layer 2"),
    )
    # Labels of somebody else's making end in a message.
    for name, value, status in (
        (labels.RELEASE, "../x", 2),
        (labels.RELEASE, None, 1),
        (labels.TARGET, "tpu", 1),
        (labels.SERIES, "0" * 64, 1),
        (labels.BASE_DIGEST, "sha256:12", 1),
        (labels.BASE_DIGEST, f"sha256:{'0' * 64}", 1),
        (labels.BASE_DIGEST, None, 1),
        (labels.BASE_NAME, "--x", 1),
    ):
        other = {key: text for key, text in genuine.items() if key != name}
        other |= {} if value is None else {name: value}
        push(forged, [evil], archs=["x86_64"], labels=other, folder=tmp_path)
        run = released.run("reproduce", forged, status=status)
        assert "Traceback" not in run.stderr and "same" not in run.stdout


def test_bases_that_are_refused(
    released: Project, base: str, host: str, goal: str, tmp_path: Path
) -> None:
    def refused(*words: str, status: int) -> str:
        return released.run("build-image", *words, status=status).stderr

    assert "no image" in refused("--base", f"{host}/official/nothing:v1", status=1)
    single = f"{goal}-single:v1"
    push(single, [tar(site_files())], archs=["x86_64"], folder=tmp_path)
    assert "the base has no" in refused("--base", single, "--target", "cpu", status=1)
    other = f"{goal}-other:v1"
    push(other, [tar(site_files())], archs=["aarch64"], folder=tmp_path)
    assert "not for this machine" in refused("--base", other, status=2)
    assert build(released, single)["layer"].startswith("x86_64")
    released.run("publish", goal)
    own = refused("--base", f"{goal}:latest", status=1)
    assert "has patches of this project already" in own


def test_every_base_is_looked_into(
    released: Project, goal: str, tmp_path: Path
) -> None:
    def refused(*layers: bytes) -> str:
        push(f"{goal}:v1", layers, folder=tmp_path)
        return released.run("build-image", "--base", f"{goal}:v1", status=1).stderr

    lower = tar(site_files())
    for above in (
        {f"{SITE}/vllm/parser.py": b"another"},
        {f"{SITE}/vllm/.wh.parser.py": b""},
        {f"{SITE}/vllm/.wh..wh..opq": b""},
        {f"{SITE}/.wh.vllm": b""},
        {f"{SITE}/vllm": b"a file in the folder's place"},
    ):
        assert "differ from vLLM v1.2.0" in refused(lower, tar(above))
    # Engines follow links on the way to a file.
    site, link = SITE.replace("/lib/", "/lib64/"), tarfile.TarInfo("usr/local/lib64")
    link.type, link.linkname = tarfile.SYMTYPE, "lib"
    through = tar({f"{site}/vllm/parser.py": b"another"})
    assert "differ from" in refused(lower, tar({}, link), through)
    link.linkname = "/usr/local/../local/lib"
    assert "differ from" in refused(lower, tar({}, link), through)
    link.linkname = "lib64"
    assert "too many links" in refused(lower, tar({}, link), through)
    up = SITE.replace("/local/", "/share/../local/")
    upwards = tar({f"{up}/vllm/parser.py": b"another"})
    assert "leads elsewhere" in refused(lower, upwards)
    # Engines read every member of a gzip file.
    hidden = gzip.compress(tar({"x": b""})[:512]) + gzip.compress(
        tar({f"{SITE}/vllm/parser.py": b"another"})
    )
    assert "differ from vLLM v1.2.0" in refused(lower, hidden)
    assert "it is not vLLM 1.2.0" in refused(tar({"etc/passwd": b""}))
    # A layer may hide what it brings again.
    again = {f"{SITE}/vllm/.wh..wh..opq": b"", **site_files()}
    link.linkname = "lib"
    aside = tar({f"{site}/vllm/unknown.py": b"", "usr/local/lib64/x": b""}, link)
    push(f"{goal}:v1", [lower, tar(again), aside], folder=tmp_path)
    released.run("build-image", "--base", f"{goal}:v1")


def test_the_official_image_by_digest_stays_the_same(
    released: Project, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(reference: str) -> None:
        image = f'image = "{reference}"'
        released.pin.write_text(re.sub('image = ".*"', image, released.pin.read_text()))

    today = digest(base)
    other = f"{base}-other"
    push(other, [tar({"etc/passwd": b""})], folder=tmp_path)
    name(other)
    assert "it is not vLLM" in released.run("build-image", status=1).stderr
    name(base)
    tag = f"{base} is a tag; today it is {today}"
    released.run("build-image", "--base", "official", err=(tag,))
    name(f"{base}@{today}")
    before = build(released, "official")
    push(base, [tar(site_files()), tar({"etc/moved": b""})], folder=tmp_path)
    assert said(released.run("build-image"))["digest"] == before["digest"]
    name(base)
    assert build(released, "official")["digest"] != before["digest"]


def test_what_was_not_made_from_this_checkout_is_not_published(
    released: Project, built: dict[str, str], goal: str
) -> None:
    assert "names a tag" in released.run("publish", f"{goal}:x", status=2).stderr
    series = released.series.read_text()
    first_patch_alone(released)
    released.run(
        "publish",
        goal,
        status=1,
        err=("not made from this checkout", "build the image again"),
    )
    released.series.write_text(series)
    released.run("refresh")
    for blob in Path(built["image"], "image/blobs/sha256").iterdir():
        if b"diff_ids" in blob.read_bytes():
            blob.write_bytes(blob.read_bytes() + b" ")
    assert "digest mismatch" in released.run("publish", goal, status=1).stderr


def test_bill_of_materials(released: Project, built: dict[str, str]) -> None:
    made = Path(built["image"])
    bill = (made / sbom.FILE).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    document = json.loads(bill)
    components = {entry["bom-ref"]: entry for entry in document["components"]}

    def sum_of(component: dict[str, Any]) -> str:
        (found,) = component["hashes"]
        return f"sha256:{found['content']}"

    assert components["vllm-x86_64"]["purl"] == "pkg:pypi/vllm@1.2.0%2Bmtp.1"
    pedigree = components["vllm-x86_64"]["pedigree"]
    official = load("v1.2.0").wheel("cuda", "x86_64").sha256
    assert sum_of(pedigree["ancestors"][0]) == f"sha256:{official}"
    assert len(pedigree["patches"]) == 2
    image = layout.load(made / "image")
    bases = {part.labels[labels.BASE_DIGEST] for part in image.parts}
    assert sum_of(components["base-x86_64"]) in bases
    assert sum_of(document["metadata"]["component"]) == image.digest


def test_cosign_signs_by_digest_before_anything_has_a_tag(
    released: Project,
    built: dict[str, str],
    goal: str,
    tmp_path: Path,
    stand_in: StandIn,
) -> None:
    """A program in cosign's place notes its words, and fails at first."""
    assert "cosign is not" in released.run("publish", goal, "--sign", status=1).stderr
    assert digest(f"{goal}@{built['digest']}") is None, "nothing is pushed"
    stand_in("cosign", "exit 1")
    released.run("publish", goal, "--sign", status=1)
    assert digest(f"{goal}:v1.2.0") is None
    stand_in("cosign", f'echo "$*" >> {tmp_path}/said')
    done = said(released.run("publish", goal, "--sign"))["digest"]
    bill = released.root / "build/images/v1.2.0-cuda-published" / sbom.FILE
    assert done.rpartition("@sha256:")[2] in bill.read_text()
    lines = (tmp_path / "said").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["sign", "attest"]
    assert all(line.endswith(done) for line in lines)
    assert f"{goal}@{digest(f'{goal}:v1.2.0')}" == done


PASSWORD = "correct-horse"
#: What docker-registry knows of it (bcrypt).
HTPASSWD = "somebody:$2b$05$Qc00tDknwWtFolyFQDNVueIbhGJEMYniHDLrIaoC5o1NuxwA52yR.\n"


def test_publishing_needs_the_login_that_skopeo_has(
    released: Project, built: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    with registry(tmp_path / "own", HTPASSWD) as own:
        released.run(
            "publish",
            f"{own}/team/x",
            status=1,
            err=("authentication required", "skopeo login"),
        )
        argv = ["skopeo", "login", "--tls-verify=false", "-u", "somebody"]
        argv += ["--password-stdin", own]
        subprocess.run(argv, input=PASSWORD, text=True, check=True, capture_output=True)
        assert PASSWORD not in released.run("publish", f"{own}/team/x").stderr
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
        f"somebody:{PASSWORD}@host.example/x",
    ],
)
def test_references_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        skopeo.parse(text)
    assert PASSWORD not in f"{caught.value.message} {caught.value.hint}"


def test_references() -> None:
    assert str(skopeo.parse("vllm/vllm-openai:v1")) == "docker.io/vllm/vllm-openai:v1"
    assert str(skopeo.parse("debian")) == "docker.io/library/debian"
    both = skopeo.parse(f"[::1]:5000/a/b:v1@sha256:{'0' * 64}")
    assert both.tag == "v1" and both.digest == f"sha256:{'0' * 64}"
    assert both.words()[0] == "--tls-verify=false"
    # Plain http is for this machine alone.
    for host in ("127.0.0.1.example.org", "localhost.example.org", "10.0.0.1:5000"):
        assert skopeo.parse(f"{host}/a").words()[0] == "--tls-verify=true"


AMD64 = {"platform": {"os": "linux", "architecture": "amd64"}}


@pytest.mark.parametrize(
    "change",
    [
        {"config": None},
        {"layers": 5},
        {"layers": [{"digest": "sha256:12", "size": 1}]},
        {"layers": []},
        {"manifests": 5},
        {"manifests": ["x"]},
        {"manifests": [AMD64]},
        {"manifests": [{**AMD64, "digest": "x", "size": 1}]},
        {"of the configuration": {"config": {"Labels": {"a": 3}}}},
        {"of the configuration": {"rootfs": {"diff_ids": "x"}}},
        {"of the configuration": {"history": "x"}},
        {"of the configuration": {"os": []}},
        {"of the configuration": {"architecture": "riscv64"}},
    ],
)
def test_malformed_manifests_are_named(change: dict[str, Any]) -> None:
    def read(more: dict[str, Any]) -> layout.Image:
        settings = {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"diff_ids": ["x"]},
        }
        config = layout.dump({**settings, **more.get("of the configuration", {})})
        manifest = {
            "config": layout.descriptor(config, layout.CONFIG),
            "layers": [layout.descriptor(b"", layout.LAYER)],
            **more,
        }
        return layout.read(layout.dump(manifest), "the image", lambda *_: config)

    assert read({}).parts[0].arch == "x86_64"
    with pytest.raises(PatchsetError, match="the image"):
        read(change)
    for content in (b"", b"[]", b"[" * 100_000):
        with pytest.raises(PatchsetError, match="not a usable image"):
            layout.read(content, "the image", lambda *_: b"")


@pytest.mark.parametrize(
    ("point", "number"),
    [("push sha256:", signal.SIGKILL), ("Copying blob", signal.SIGINT)],
)
def test_a_push_that_was_killed_ends_right_when_run_again(
    released: Project,
    built: dict[str, str],
    goal: str,
    point: str,
    number: signal.Signals,
) -> None:
    argv = [sys.executable, "-u", "-m", "patchset", "publish", goal]
    stop(argv, point, number, cwd=released.root)
    assert until(lambda: not running("oci:image"))
    assert digest(f"{goal}:latest") is None
    done = said(released.run("publish", goal))["digest"]
    assert done == f"{goal}@{digest(f'{goal}:latest')}"


def stop(argv: list[str], point: str, number: signal.Signals, **options: Any) -> None:
    """Run a program until it says something, or has begun to sleep."""
    started = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, **options)
    assert started.stderr is not None
    if point == SLEEP:
        assert until(lambda: running(SLEEP))
    else:
        assert any(point in line for line in started.stderr), point
    started.send_signal(number)
    assert "Traceback" not in started.communicate(timeout=90)[1]
    assert started.returncode in (130, -9)


def instructions() -> list[str]:
    """Return instructions with their continued lines joined, without comments."""
    lines = (paths.project_root() / "docker/Dockerfile").read_text().splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = kept.replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if line.strip()]


def test_the_dockerfile_takes_nothing_from_the_network() -> None:
    for line in instructions():
        assert not re.search(r"https?://(?!127\.0\.0\.1)|curl|wget|apt-get", line), line
        if "uv pip install" in line:
            words = ("--offline", "--no-index", "--no-deps")
            assert all(word in line for word in words), line
        assert not re.match(r"(ARG|ENV)\b.*(?i:proxy|index|cert|token)", line), line
    (install,) = [line for line in instructions() if "requirements.lock" in line]
    assert "--require-hashes" in install
    assert {"USER 2000:0", 'ENTRYPOINT ["vllm", "serve"]'} <= set(instructions())


def test_the_context_holds_what_the_dockerfile_names(tmp_path: Path) -> None:
    names = ("rootfs.tar", "vllm-1-py3-none-any.whl", "a-1-py3-none-any.whl")
    lay(tmp_path, dict.fromkeys(names, ""))
    base, wheel, other = (tmp_path / name for name in names)
    context = tmp_path / "context"
    context.mkdir()
    packages = [
        Locked(name, "1", Artifact(project=name, file="x", sha256=name * 64, size=1))
        for name in ("b", "a")
    ]
    debian.fill(context, base, wheel, packages, [other])
    text = (context / "lock/requirements.lock").read_text()
    assert text.startswith(f"a==1 --hash=sha256:{'a' * 64}\nb==1 ")
    assert os.access(context / "setup/uv", os.X_OK)
    for line in instructions():
        for source in re.findall(r"type=bind,source=([\w./-]+)", line):
            assert (context / source).is_dir(), source
        if line.startswith(("ADD", "COPY")):
            copied = line.split()[-2].strip("/")
            # Wheels are mounted, never copied.
            assert (context / copied).exists() and "wheels" not in copied
        for script in re.findall(r"/mnt/(setup/[\w.-]+\w)(?![\w.$-])", line):
            assert (context / script).exists(), script


def test_only_debians_own_archives_of_the_suite_are_sources() -> None:
    targets = """
http://mirror.example/debian/ bookworm main Packages
http://mirror.example/debian/ bookworm contrib Packages
http://mirror.example/debian-security/ bookworm-security main Packages
http://mirror.example/debian/ trixie main Packages
https://deb.nodesource.example/node_20.x nodistro main Packages
"""
    signed = f"deb [signed-by={debian._KEYRING}]"
    assert debian.sources_from(targets) == [
        f"{signed} http://mirror.example/debian bookworm main",
        f"{signed} http://mirror.example/debian-security bookworm-security main",
    ]
    foreign = "http://mirror.example/ubuntu/ noble main Packages\n"
    assert debian.sources_from(foreign) == []


def test_the_base_is_made_once_from_the_same_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    """A program in mmdebstrap's place notes its arguments."""
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setattr(debian, "_KEYRING", tmp_path / "keyring")
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        with pytest.raises(MissingToolError) as caught:
            debian.refuse_missing()
    hint = caught.value.hint or ""
    assert "apt-get install buildah mmdebstrap" in hint and "keyring" in hint
    (tmp_path / "keyring").touch()
    stand_in("mmdebstrap", f'printf "%s\\n" "$@" >> {tmp_path}/arguments')
    first = debian.rootfs("cpu", "x86_64", 1)
    assert debian.rootfs("cpu", "x86_64", 1) == first
    assert debian.rootfs("cpu", "x86_64", 2) != first
    asked = (tmp_path / "arguments").read_text().splitlines()
    assert asked.count("--variant=minbase") == 2
    (included,) = {line for line in asked if line.startswith("--include=")}
    assert "libtcmalloc-minimal4" in included and "ibverbs" not in included


def test_a_disk_that_is_too_small_is_refused_with_headroom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path).free
    files.need_space({tmp_path / "not" / "there": free / 2})
    with pytest.raises(NoSpaceError, match="headroom included"):
        files.need_space({tmp_path: free * 0.99})
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setenv("PATCHSET_DOWNLOADS", str(tmp_path / "downloads"))
    for name, way in (
        ("build", "PATCHSET_BUILD_DIR"),
        ("downloads", "PATCHSET_DOWNLOADS"),
        ("store", "graphroot"),
    ):
        with pytest.raises(NoSpaceError) as caught:  # two folders on one disk
            files.need_space({tmp_path / name: free * 0.6, tmp_path / "x": free * 0.6})
        assert way in (caught.value.hint or "")


SLEEP = f"7{os.getpid():07}"
SLOW = f"""\
FROM scratch
COPY root /
RUN ["touch", "/first"]
RUN ["sleep", "{SLEEP}"]
"""
#: Builds, and says so when its last step runs; then writes the layout.
BUILD = """
import shutil
import sys
from pathlib import Path
import click
from patchset import files, run_command
from patchset.image import buildah

@click.command()
def command():
    images = Path(sys.argv[1]) / "images"
    with files.lock(images / "work"):
        buildah.clean(images)
        with files.scratch(images) as context:
            shutil.copytree(images / "context", context, dirs_exist_ok=True)
            buildah.build(images, context, "localhost/small:1", 0)
        with files.atomic_folder(images / "small") as made:
            buildah.store("localhost/small:1", made)

run_command.run(command, [])
"""


@pytest.fixture
def storage(tmp_path: Path, own_logins: None) -> Path:
    """Make a folder with a context, and a storage of its own for buildah."""
    if shutil.which("buildah") is None or os.geteuid() != 0:
        pytest.skip(f"{APT}buildah, as root")
    libraries = ran(["ldd", "/bin/sleep", "/bin/touch"]).stdout
    for path in {"/bin/sleep", "/bin/touch", *re.findall(r"\s(/\S+) \(", libraries)}:
        place = tmp_path / f"images/context/root{path}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (tmp_path / "images/context/Dockerfile").write_text(SLOW)
    return tmp_path


@pytest.mark.parametrize(
    ("point", "number"),
    [
        pytest.param("STEP 3/4", signal.SIGKILL, id="step"),
        pytest.param(SLEEP, signal.SIGINT, id="interrupted"),
        pytest.param(SLEEP, signal.SIGKILL, id="killed"),
        pytest.param("Copying blob", signal.SIGKILL, id="copy"),
    ],
)
def test_a_build_that_was_killed_ends_right_when_run_again(
    storage: Path, point: str, number: signal.Signals
) -> None:
    """Killed in an early step, in the image's program, while the layout is written."""
    quick = SLOW.replace(f'"sleep", "{SLEEP}"', '"touch", "/second"')
    dockerfile = storage / "images/context/Dockerfile"
    dockerfile.write_text(SLOW if point == SLEEP else quick)
    argv = [sys.executable, "-c", BUILD, str(storage)]
    stop(argv, point, number)
    assert until(lambda: not running(SLEEP))
    dockerfile.write_text(quick)
    ran(argv, timeout=90)
    assert len(layout.load(storage / "images/small/image").parts) == 1
    assert buildah._containers() == {}
    assert not list((storage / "images").glob(".tmp-*"))


def test_containers_of_somebody_else_stay(storage: Path) -> None:
    mine = ran(["buildah", "from", "scratch"]).stdout
    context = storage / "images/context"
    lay(context, {"Dockerfile": 'FROM scratch\nRUN ["/no-such-program"]\n'})
    with pytest.raises(process.ProgramError):
        buildah.build(context.parent, context, "localhost/small:1", 0)
    listed = ["buildah", "containers", "--format", "{{.ContainerName}}"]
    assert ran(listed).stdout == mine
