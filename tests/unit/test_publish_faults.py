# SPDX-License-Identifier: Apache-2.0
"""Publishing while the registry fails, lies, or somebody else publishes; and with attestations that are another image's."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

import registry_server
import small_base
from conftest import Project
from patchset import paths
from patchset.attest import attestation
from patchset.attest.attestation import INPUTS, PROVENANCE, SBOM, Attestation
from patchset.commands.artifacts import publish_command
from patchset.errors import MissingToolError, PatchsetError, UnavailableError
from patchset.image import thin
from patchset.publish import attached, push, sign
from patchset.publish.reproduce import reproduce
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse
from patchset.release import load
from patchset.series.patched_release import PatchedRelease
from registry_server import Fault, Network, host, network, own_places
from small_base import SITE, base, released
from test_publish import forge, goal
from test_thin import archive
from test_wheel import packaged

__all__ = ["base", "goal", "host", "network", "own_places", "packaged", "released"]

ARCHIVE = "build/images/v1.2.0-cuda-thin.oci.tar"


def through(goal: str, network: Network) -> Reference:
    """The same repository, reached over the faulty network."""
    return parse(goal.replace(goal.split("/")[0], network.host))


def build(project: Project, base: str) -> None:
    """As build-image, but in this process."""
    thin.build(PatchedRelease(load("v1.2.0")), "cuda", ["x86_64", "aarch64"], base)


def publish(project: Project, goal: Reference) -> push.Published:
    return push.publish(goal, [project.root / ARCHIVE], push.tags(load("v1.2.0"), "cuda"))


@pytest.mark.parametrize("fault", [503, ("cut", 0), ("deaf", 0)])
def test_a_copied_layer_whose_upload_fails_at_its_end_is_closed(
    released: Project, goal: str, network: Network, tmp_path: Path, fault: Fault
) -> None:
    """The registry has every byte: nothing is left to be asked of the base's registry."""
    faults: dict[str, Fault] = {}

    def plan(method: str, path: str) -> Fault:
        address = path.partition("?")[0]
        if method != "PUT" or "/uploads/" not in path or address in faults:
            return None
        return faults.setdefault(address, fault)

    network.plan = plan
    with registry_server.registry(tmp_path) as other:
        build(released, small_base.push(other, "official/vllm"))
        assert publish(released, through(goal, network)).parts == {"sent": 6}
    assert faults and not list((paths.build_dir() / "registry").glob("*.json"))
    (tmp_path / "pulled").mkdir()
    assert (small_base.pulled(f"{goal}:latest", tmp_path / "pulled") / SITE[1:] / "vllm/reader.py").is_file()


def test_a_manifest_waits_for_a_layer_that_the_registry_is_still_closing(
    released: Project, base: str, tmp_path: Path
) -> None:
    """A registry may answer MANIFEST_BLOB_UNKNOWN for a moment after an upload whose connection broke."""
    build(released, base)
    with registry_server.registry(tmp_path) as behind:
        slow, name = Network(behind), "team/slow"
        layers = tmp_path / "storage/docker/registry/v2/repositories" / name / "_layers"
        hidden: list[Path] = []

        def plan(method: str, path: str) -> Fault:
            if method == "PUT" and "/manifests/" in path:
                if not hidden:
                    hidden.append(layers.rename(tmp_path / "hidden"))
                elif not layers.exists():
                    hidden[0].rename(layers)
            return None

        slow.plan = plan
        publish(released, parse(f"{slow.host}/{name}"))
        slow.close()
    assert hidden


@pytest.mark.parametrize(
    "location", ["http://[", "ftp://127.0.0.1/x", "http://127.0.0.1:1/v2/", "\x7f", 5, None]
)
def test_a_stale_upload_of_an_earlier_run_is_thrown_away(
    released: Project, base: str, goal: str, network: Network, location: object
) -> None:
    build(released, base)
    network.plan = lambda method, path: "close" if method == "PATCH" else None
    with pytest.raises(UnavailableError):
        publish(released, through(goal, network))
    (begun,) = (paths.build_dir() / "registry").glob("*.json")
    begun.write_text(json.dumps({"location": location}))
    network.plan = lambda method, path: None
    assert publish(released, through(goal, network)).parts == {"sent": 6}


def test_an_upload_that_the_registry_refuses_is_not_taken_up_again(
    released: Project, base: str, goal: str, network: Network
) -> None:
    build(released, base)
    network.plan = lambda method, path: 400 if method == "PUT" and "/uploads/" in path else None
    with pytest.raises(PatchsetError, match="answers 400"):
        publish(released, through(goal, network))
    assert not list((paths.build_dir() / "registry").glob("*.json"))
    network.plan = lambda method, path: None
    publish(released, through(goal, network))


def edited(content: bytes, *path: str | int, value: object) -> bytes:
    """JSON with one value changed, or removed where ``value`` is None."""
    found = at = json.loads(content)
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(found).encode()


OTHER = {"sha256": "0" * 64}
ALIEN = [{"name": "x", "digest": OTHER}]
ONE_MORE = [{"alg": "SHA-256", "content": "0" * 64}] * 2
HASHES = ("metadata", "component", "hashes")
#: What is put in place of an attestation, made from the right one and the one of another build; None takes it out.
FORGED: dict[str, Callable[[dict[Attestation, bytes], dict[Attestation, bytes]], dict[Attestation, bytes | None]]] = {
    "another image's inputs.lock": lambda ours, other: {INPUTS: other[INPUTS]},
    "another image's bill": lambda ours, other: {SBOM: other[SBOM]},
    "another image's provenance": lambda ours, other: {PROVENANCE: other[PROVENANCE]},
    "all of another image": lambda ours, other: {**other},
    "no inputs.lock": lambda ours, other: {INPUTS: None},
    "no bill": lambda ours, other: {SBOM: None},
    "no provenance": lambda ours, other: {PROVENANCE: None},
    "none": lambda ours, other: dict.fromkeys(ours),
    "a bill for a provenance": lambda ours, other: {PROVENANCE: ours[SBOM]},
    "a provenance for a bill": lambda ours, other: {SBOM: ours[PROVENANCE]},
    "no JSON": lambda ours, other: {SBOM: b"{"},
    "a list": lambda ours, other: {PROVENANCE: b"[]"},
    "too deep": lambda ours, other: {PROVENANCE: b"[" * 100_000},
    "empty": lambda ours, other: {INPUTS: b""},
    "two subjects": lambda ours, other: {
        PROVENANCE: edited(ours[PROVENANCE], "subject", value=[*json.loads(ours[PROVENANCE])["subject"], *ALIEN])
    },
    "an edited subject": lambda ours, other: {PROVENANCE: edited(ours[PROVENANCE], "subject", 0, "digest", value=OTHER)},
    "no subject": lambda ours, other: {PROVENANCE: edited(ours[PROVENANCE], "subject", value=None)},
    "two hashes in the bill": lambda ours, other: {SBOM: edited(ours[SBOM], *HASHES, value=ONE_MORE)},
    "no hash in the bill": lambda ours, other: {SBOM: edited(ours[SBOM], *HASHES, value=None)},
    "an inputs.lock with an edited sum": lambda ours, other: {
        INPUTS: edited(ours[INPUTS], "files", "patches/v1.2.0/series", value="0" * 64)
    },
    "an inputs.lock of another target": lambda ours, other: {INPUTS: edited(ours[INPUTS], "target", value="cpu")},
    "an inputs.lock of another version": lambda ours, other: {INPUTS: edited(ours[INPUTS], "version", value="1.2.0+mtp.9")},
    "an inputs.lock with a field too many": lambda ours, other: {INPUTS: edited(ours[INPUTS], "more", value=1)},
}  # fmt: skip


def test_manipulated_attestations_are_not_published(
    released: Project, base: str, goal: str, tmp_path: Path
) -> None:
    """Each is put into the archive so that its index names it, and each byte of the right ones is protected as well."""
    build(released, base)
    other = dict(attestation.read(archive(released)))
    (released.folder / "0002-new.diff").write_text(
        (released.folder / "0002-new.diff").read_text().replace("READ = 1", "READ = 2")
    )
    build(released, base)
    place = archive(released).path
    ours, right = dict(attestation.read(archive(released))), place.read_bytes()
    published = []
    for name, forged in FORGED.items():
        place.write_bytes(right)
        forge(place, forged(ours, other))
        if CliRunner().invoke(publish_command, [goal, "v1.2.0", "--archive", str(place)]).exception is None:
            published.append(name)
    for kind, content in ours.items():
        for at in (0, len(content) // 2, len(content) - 2):
            place.write_bytes(right.replace(content, content[:at] + b"#" + content[at + 1 :]))
            if (
                CliRunner().invoke(publish_command, [goal, "v1.2.0", "--archive", str(place)]).exception
                is None
            ):
                published.append(f"{kind.title}, byte {at}")
    assert published == [] and len(FORGED) + 3 * len(ours) == 32
    with Repository(parse(goal)) as repository:
        assert repository.digest_of("v1.2.0-mtp.1") is None


def test_what_the_registry_holds_already_is_checked(released: Project, base: str, goal: str) -> None:
    """Somebody attached another image's attestation to this one, before it was published or after."""
    build(released, base)
    other = attestation.read(archive(released))
    (released.folder / "0002-new.diff").write_text(
        (released.folder / "0002-new.diff").read_text().replace("READ = 1", "READ = 2")
    )
    build(released, base)
    published = publish(released, parse(goal))
    subject = {"mediaType": media.INDEX, "digest": published.digest, "size": 1}
    with Repository(parse(goal), push=True) as repository:
        attached.attach(repository, subject, [other])
    for act in (lambda: publish(released, parse(goal)), lambda: reproduce(f"{goal}:latest")):
        with pytest.raises(PatchsetError, match=r"is of sha256:"):
            act()


@pytest.mark.parametrize("program", ["exit 1", "sleep 1; kill -9 $$", None])
def test_nothing_has_a_tag_before_it_is_signed(
    released: Project,
    base: str,
    goal: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str | None,
) -> None:
    build(released, base)
    if program is None:
        monkeypatch.setattr(shutil, "which", lambda name: None)
    else:
        cosign = tmp_path / "programs/cosign"
        cosign.parent.mkdir()
        cosign.write_text(f"#!/bin/sh\n{program}\n")
        cosign.chmod(0o755)
        monkeypatch.setenv("PATH", str(cosign.parent), prepend=":")
    arguments = [goal, "v1.2.0", "--key", "k.pem"]
    error = CliRunner().invoke(publish_command, arguments).exception
    assert isinstance(error, MissingToolError if program is None else PatchsetError)
    with Repository(parse(goal)) as repository:
        assert [repository.digest_of(tag) for tag in ("v1.2.0-mtp.1", "v1.2.0", "latest")] == [None] * 3


@pytest.mark.parametrize("conditional", [True, False])
def test_of_two_publishers_one_is_told(
    released: Project,
    base: str,
    goal: str,
    network: Network,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    conditional: bool,
) -> None:
    """The second sets the fixed tag after both saw that it was free."""
    build(released, base)
    first = tmp_path / "first.oci.tar"
    first.write_bytes((released.root / ARCHIVE).read_bytes())
    (released.folder / "0002-new.diff").write_text(
        (released.folder / "0002-new.diff").read_text().replace("READ = 1", "READ = 2")
    )
    build(released, base)
    both_asked, set_once = threading.Barrier(2, timeout=200), threading.Event()
    asked = threading.Event()
    monkeypatch.setattr(push, "SETTLE", 3.0)

    def plan(method: str, path: str) -> Fault:
        if method == "PUT" and path.endswith("/manifests/v1.2.0-mtp.1") and not asked.is_set():
            second = both_asked.wait()
            asked.set()
            if second:
                set_once.wait(60)
            else:
                threading.Timer(0.3, set_once.set).start()
        return None

    network.plan, network.conditional = plan, conditional
    names = push.tags(load("v1.2.0"), "cuda")
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(push.publish, through(goal, network), [place], names)
            for place in (first, released.root / ARCHIVE)
        ]
    errors = [run.exception() for run in runs]
    assert sorted(error is None for error in errors) == [False, True]
    (loser,) = (error for error in errors if error)
    assert isinstance(loser, PatchsetError) and "that tag never moves" in loser.message
    (winner,) = (run.result().digest for run in runs if run.exception() is None)
    with Repository(parse(goal)) as repository:
        assert repository.digest_of("v1.2.0-mtp.1") == winner


def test_a_published_image_is_verified_with_its_attestations_and_signer(
    released: Project, base: str, goal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(released, base)
    digest = publish(released, parse(goal)).digest
    said = sign.verify(f"{goal}:latest", key=None, identity=None, issuer=None)
    assert digest in said[0] and "not checked" in said[-1] and len(said) == 5
    cosign = tmp_path / "programs/cosign"
    cosign.parent.mkdir()
    cosign.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ntest "$1" != "$DENY"\n')
    cosign.chmod(0o755)
    monkeypatch.setenv("PATH", str(cosign.parent), prepend=":")
    assert sign.verify(f"{goal}:latest", key="k.pub", identity=None, issuer=None)[-1].startswith(
        "signed  image"
    )
    asked = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    assert [words[0] for words in asked] == ["verify", "verify-attestation", "verify-attestation"]
    assert all(words[-1] == f"{goal}@{digest}" and "k.pub" in words for words in asked)
    for denied in ("verify", "verify-attestation"):
        monkeypatch.setenv("DENY", denied)
        with pytest.raises(PatchsetError):
            sign.verify(f"{goal}:latest", key=None, identity="^https://x$", issuer="https://issuer")
    with Repository(parse(goal), push=True) as repository:
        repository.put_manifest("bare", *repository.manifest(small_base.push(goal.split("/")[0], goal.partition("/")[2]).rpartition(":")[2])[1:])  # fmt: skip
    with pytest.raises(PatchsetError, match="has no inputs"):
        sign.verify(f"{goal}:bare", key=None, identity=None, issuer=None)
