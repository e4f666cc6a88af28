# SPDX-License-Identifier: Apache-2.0
"""The bundle's parts: cut, carried in any order, refused when wrong, joined; and the script that does it."""

import io
import random
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpu.bundle import content, parts
from gpu.host import store

MOST = 20_000


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[dict[str, Any], Path]:
    """A manifest and the folder of its parts: three files, one of which is larger than a part."""
    source = tmp_path / "source"
    source.mkdir()
    draw = random.Random(3)
    (source / "a.bin").write_bytes(draw.randbytes(3 * MOST))
    (source / "b.txt").write_text("text " * 5000)
    (source / "same.bin").write_bytes((source / "a.bin").read_bytes())
    items = [(f"folder/{file.name}", file) for file in sorted(source.iterdir())]
    cache, folder = tmp_path / "cache", tmp_path / "bundle"
    folder.mkdir()
    entries = parts.listed(items, cache)
    python = "{}.{}".format(*sys.version_info[:2])
    manifest = {
        "host": {"python": python, "pytest": ""},
        "releases": {},
        "files": entries,
        "parts": parts.split(entries, cache, folder, MOST),
    }
    parts.script(manifest, folder)
    return manifest, folder


def delivered(folder: Path, name: str, to: Path) -> Path:
    """A part on its own in a folder, as a host is given it."""
    to.mkdir(parents=True, exist_ok=True)
    (to / name).write_bytes((folder / name).read_bytes())
    return to


def test_parts_are_few_and_small(bundle: tuple[dict[str, Any], Path]) -> None:
    manifest, folder = bundle
    sizes = [part["size"] for part in manifest["parts"]]
    assert all(size <= MOST for size in sizes)
    assert len(sizes) == -(-sum(sizes) // MOST)
    assert sum(sizes) < 4 * MOST  # what is the same twice is packed once
    assert sizes == [(folder / part["name"]).stat().st_size for part in manifest["parts"]]


@pytest.mark.parametrize("blocks", range(1, 21))
def test_no_part_is_a_left_over(tmp_path: Path, blocks: int) -> None:
    """Whatever tar pads the archive to, it is cut into as many parts as it needs, of one size."""
    size = 512 * blocks
    (tmp_path / "file").write_bytes(bytes(size))
    found = parts.split([{"packed": "file", "packed_size": size}], tmp_path, tmp_path, 4096)
    sizes = [part["size"] for part in found]
    assert len(sizes) == -(-sum(sizes) // 4096)
    assert max(sizes) - min(sizes) < len(sizes)


def test_parts_in_any_order_one_at_a_time(bundle: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    manifest, folder = bundle
    names = [part["name"] for part in manifest["parts"]]
    kept = tmp_path / "store"
    for number, name in enumerate(reversed(names)):
        place = delivered(folder, name, tmp_path / "call" / str(number))
        assert store.accept(manifest, [place], kept) == names[: len(names) - number - 1]
        assert not (place / name).exists()  # moved
    files = store.unpack(manifest, kept)
    for file in manifest["files"]:
        assert store.sha256(files / file["path"]) == file["sha256"]
    assert not (kept / "parts").exists()
    assert store.missing(manifest, kept) == []  # also without its parts
    assert store.unpack(manifest, kept) == files


def test_a_wrong_part_is_named_and_the_others_kept(
    bundle: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    manifest, folder = bundle
    names = [part["name"] for part in manifest["parts"]]
    place = tmp_path / "call"
    for name in names:
        delivered(folder, name, place)
    broken = bytearray((place / names[1]).read_bytes())
    broken[100] ^= 1
    (place / names[1]).write_bytes(broken)
    kept = tmp_path / "store"
    with pytest.raises(store.HostError, match=names[1]):
        store.accept(manifest, [place], kept)
    assert store.missing(manifest, kept) == [names[1]]
    (place / names[1]).write_bytes((folder / names[1]).read_bytes())
    assert store.accept(manifest, [place], kept) == []
    store.unpack(manifest, kept)


def test_an_interrupted_unpacking_begins_anew(bundle: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    manifest, folder = bundle
    kept = tmp_path / "store"
    store.accept(manifest, [folder], kept)
    (kept / ".files.unfinished" / "packed").mkdir(parents=True)
    (kept / ".files.unfinished" / "left").write_text("of a killed run")
    files = store.unpack(manifest, kept)
    assert sorted(path.name for path in files.rglob("*") if path.is_file()) == ["a.bin", "b.txt", "same.bin"]


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/out.txt", "folder/../../out.txt"])
def test_a_path_that_leaves_the_store_is_refused(
    bundle: tuple[dict[str, Any], Path], tmp_path: Path, path: str
) -> None:
    manifest, folder = bundle
    manifest["files"][0]["path"] = path
    store.accept(manifest, [folder], tmp_path / "store")
    with pytest.raises(store.HostError, match="leaves the store"):
        store.unpack(manifest, tmp_path / "store")


def test_a_file_that_is_larger_than_said_is_refused(
    bundle: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    manifest, folder = bundle
    manifest["files"][1]["size"] -= 1
    store.accept(manifest, [folder], tmp_path / "store")
    with pytest.raises(store.HostError, match=r"b\.txt is not what the bundle has"):
        store.unpack(manifest, tmp_path / "store")


def script(folder: Path, kept: Path, *places: Path) -> subprocess.CompletedProcess[str]:
    """Run the bundle's script; its own folder holds nothing but it."""
    alone = kept.parent / "alone"
    alone.mkdir(exist_ok=True)
    (alone / parts.SCRIPT).write_bytes((folder / parts.SCRIPT).read_bytes())
    words = [*map(str, places), "--store", str(kept), "--out", str(kept.parent / "out"), "--seconds", "60"]
    return subprocess.run(
        [sys.executable, str(alone / parts.SCRIPT), *words], capture_output=True, text=True, check=False
    )


def test_the_script_says_what_is_missing_until_all_is_there(
    bundle: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    manifest, folder = bundle
    names = [part["name"] for part in manifest["parts"]]
    kept = tmp_path / "store"
    for number, name in enumerate(names[:-1]):
        said = script(folder, kept, delivered(folder, name, tmp_path / "call" / str(number)))
        assert said.returncode == 3, said.stderr
        assert (
            f"{len(names) - number - 1} of {len(names)} parts are missing: {names[number + 1]}" in said.stdout
        )
    said = script(folder, kept, delivered(folder, names[-1], tmp_path / "call" / "last"))
    assert "all parts are here" in said.stdout
    assert (kept / "files" / "folder" / "b.txt").is_file()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"python": "3.1"}, "the bundle is for 3.1"),
        ({"pytest": "0.1"}, "the bundle is for 0.1"),
        ({"no-such-package": "1.0"}, "this Python has no no-such-package"),
    ],
)
def test_a_host_that_does_not_fit_is_told_so(
    bundle: tuple[dict[str, Any], Path], tmp_path: Path, host: dict[str, str], words: str
) -> None:
    manifest, folder = bundle
    manifest["host"] |= host
    parts.script(manifest, folder)
    said = script(folder, tmp_path / "store", folder)
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert words in said.stderr


def test_the_overlay_holds_what_differs_and_no_more(tmp_path: Path) -> None:
    import zipfile

    old, new = tmp_path / "old.whl", tmp_path / "new.whl"
    for wheel, members in (
        (old, {"vllm/a.py": "1", "vllm/b.py": "2", "vllm/gone.py": "3", "vllm-1.dist-info/RECORD": "r"}),
        (new, {"vllm/a.py": "1", "vllm/b.py": "two", "vllm/c.py": "4", "vllm-1+m.dist-info/RECORD": "s"}),
    ):
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
    assert content.overlay(old, new, tmp_path / "o.tar") == ["vllm/gone.py"]
    with tarfile.open(tmp_path / "o.tar") as archive:
        assert archive.getnames() == ["vllm-1+m.dist-info/RECORD", "vllm/b.py", "vllm/c.py"]
        found = archive.extractfile("vllm/b.py")
        assert isinstance(found, io.BufferedReader) and found.read() == b"two"
