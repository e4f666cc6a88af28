# SPDX-License-Identifier: Apache-2.0
"""Wheels that somebody manipulated: verify accepts none, and says what is wrong.

It compares the bytes with a wheel of its own, so what is wrong makes no difference; the
cases here are those of which it names the deviation in a way of its own.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import wheels
from conftest import EPOCH, Project
from patchset.errors import PatchsetError
from patchset.release import load
from patchset.series.apply import PatchedRelease
from patchset.wheel import archive, overlay
from patchset.wheel.archive import Member, Wheel
from patchset.wheel.verify import verify
from wheels import NAME

INFO = "vllm-1.2.0+mtp.1.dist-info"


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {info.filename: opened.read(info) for info in opened.infolist()}


def packed(wheel: Path, files: dict[str, bytes | None], mode: int = 0o644) -> None:
    """Write files into a wheel, or take them out, with a RECORD that is right."""
    found = {**contents(wheel), **files}
    kept = {name: data for name, data in found.items() if data is not None}
    if f"{INFO}/RECORD" not in files:
        del kept[f"{INFO}/RECORD"]
        kept = wheels.recorded(kept, INFO)
    with Wheel(wheel) as old:
        members = [
            Member(name, info.external_attr >> 16, source=info)
            if (info := old.members.get(name)) and data == old.read(name)
            else Member(name, mode, data)
            for name, data in kept.items()
        ]
        archive.write(wheel.with_suffix(".new"), members, old, EPOCH)
    wheel.with_suffix(".new").replace(wheel)


def put(name: str, content: bytes | None, mode: int = 0o644) -> Callable[[Path], None]:
    return lambda wheel: packed(wheel, {name: content}, mode)


def field(at: int, form: str, value: int) -> Callable[[Path], None]:
    """Change a field of the header that the archive's directory has of parser.py."""

    def act(wheel: Path) -> None:
        data = bytearray(wheel.read_bytes())
        start = data.rindex(b"vllm/parser.py") - 46
        assert data[start : start + 4] == b"PK\x01\x02"
        struct.pack_into(form, data, start + at, value)
        wheel.write_bytes(data)

    return act


def changed(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def act(wheel: Path) -> None:
        content = contents(wheel)[name]
        assert old in content
        packed(wheel, {name: content.replace(old, new, 1)})

    return act


def noted(**more: object) -> Callable[[Path], None]:
    def act(wheel: Path) -> None:
        notes = json.loads(contents(wheel)[f"{INFO}/patchset.json"]) | more
        text = json.dumps(notes, indent=1) + "\n"
        packed(wheel, {f"{INFO}/patchset.json": text.encode()})

    return act


def claimed(name: str) -> Callable[[Path], None]:
    """An evil file that the wheel itself calls compiled, as mode source writes it."""

    def act(wheel: Path) -> None:
        packed(wheel, {name: b"evil"}, mode=0o755)
        noted(mode="source", compiled={name: overlay.sha256(b"evil")})(wheel)

    return act


def damaged(wheel: Path) -> None:
    """Flip one bit of a large member, as it is compressed in the archive."""
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 1
    wheel.write_bytes(data)


def twice(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as opened, pytest.warns(UserWarning):
        opened.writestr("vllm/parser.py", b"x")


def cut(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("vllm/evilX.py", b"x")
    wheel.write_bytes(wheel.read_bytes().replace(b"vllm/evilX.py", b"vllm/evil\0.py"))


#: What is done to a wheel, and what verify says of it.
BYTES = "right, but not byte for byte what is built"
FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte at the end": (lambda w: w.write_bytes(w.read_bytes() + b"\0"), BYTES),
    "a comment": (lambda w: w.write_bytes(w.read_bytes()[:-2] + b"\1\0x"), BYTES),
    "the time of one member": (field(12, "<H", 1), BYTES),
    "setuid": (
        field(38, "<L", 0o104644 << 16),
        "vllm/parser.py: has other permissions",
    ),
    "a program": (
        field(38, "<L", 0o100755 << 16),
        "vllm/parser.py: has other permissions",
    ),
    "a link": (
        field(38, "<L", 0o120777 << 16),
        "vllm/parser.py: has other permissions, or is no plain",
    ),
    "a locked member": (field(8, "<H", 1), "vllm/parser.py: has other content"),
    "an unknown method": (field(10, "<H", 99), "vllm/parser.py: has other content"),
    "a damaged member": (damaged, "vllm/_C.abi3.so: has other content"),
    "one name twice": (twice, "vllm/parser.py: has other permissions"),
    "a cut name": (cut, "vllm/evil: does not belong there"),
    "upwards": (put("vllm/../evil.py", b"x"), "does not belong there"),
    "an absolute name": (put("/evil.py", b"x"), "does not belong there"),
    "a backslash": (put("vllm\\evil.py", b"x"), "does not belong there"),
    "a folder": (put("vllm/x/", b""), "does not belong there"),
    "another binary": (
        put("vllm/_C.abi3.so", b"\x7fELF", 0o755),
        "vllm/_C.abi3.so: has other content",
    ),
    "another patched file": (
        changed("vllm/parser.py", b"five", b"six6"),
        "vllm/parser.py: has other content (patched)",
    ),
    "another version": (
        changed("vllm/_version.py", b"mtp.1", b"mtp.2"),
        "vllm/_version.py: has other content (not of the series)",
    ),
    "another dependency": (
        changed(
            f"{INFO}/METADATA", b"Requires-Dist", b"Requires-Dist: x\nRequires-Dist"
        ),
        "METADATA: has other content",
    ),
    "a new file": (put("vllm/evil.py", b"x"), "vllm/evil.py: does not belong there"),
    "a file less": (put("vllm/reader.py", None), "vllm/reader.py: missing"),
    "no RECORD": (put(f"{INFO}/RECORD", b""), "RECORD: has other content"),
    "modules of its own": (claimed("vllm/_C.abi3.so"), "has other content"),
    "a note more": (noted(more=1), "patchset.json: has other content"),
    "notes that are none": (
        put(f"{INFO}/patchset.json", b"[" * 50_000),
        "has other content",
    ),
}


def verdict(wheel: Path) -> str:
    """Return what verify says; nothing of a wheel that it accepts."""
    try:
        return "\n".join(verify(wheel).deviations)
    except PatchsetError as error:
        return f"{error.message} {error.hint}"


def test_no_forged_wheel_is_accepted(packaged: Project, tmp_path: Path) -> None:
    right = overlay.build(PatchedRelease(load("v1.2.0")), "cuda", "x86_64").read_bytes()
    wheel = tmp_path / NAME
    found = []
    for name, (forge, expected) in FORGED.items():
        wheel.write_bytes(right)
        forge(wheel)
        if expected not in (said := verdict(wheel)):
            found.append(f"{name}: {said}")
    assert found == []
    wheel.write_bytes(right)
    assert not verdict(wheel)
    other = wheel.rename(tmp_path / "vllm-1.2.0+mtp.1-py3-none-any.whl")
    assert f"built as {NAME}" in verdict(other)


def test_a_wheel_of_an_older_series_or_another_target(
    packaged: Project, tmp_path: Path
) -> None:
    release = load("v1.2.0")
    cpu = overlay.build(PatchedRelease(release), "cpu", "x86_64")
    wheel = tmp_path / NAME
    wheel.write_bytes(cpu.read_bytes())
    assert verdict(wheel)
    wheel.write_bytes(
        overlay.build(PatchedRelease(release), "cuda", "x86_64").read_bytes()
    )
    (packaged.folder / "series").write_text("0001-first.diff\n")
    assert verdict(wheel)


def test_compiled_modules_are_taken_only_when_asked_for(
    packaged: Project, tmp_path: Path
) -> None:
    name = "vllm/_C.abi3.so"
    wheel = overlay.build(
        PatchedRelease(load("v1.2.0")), "cuda", "x86_64", out=tmp_path
    )
    claimed(name)(wheel)
    assert any(
        line.startswith(f"{name}: has other content")
        for line in verify(wheel).deviations
    )
    report = verify(wheel, allow_compiled=True)
    assert report.changed[name] == "compiled" and not report.deviations
    for other in (
        "vllm/parser.abi3.so",
        "vllm/__init__.abi3.so",
        "vllm/_new.abi3.so",
        "vllm/table.json",
    ):
        claimed(other)(wheel)
        assert verify(wheel, allow_compiled=True).deviations


def test_an_official_wheel_that_has_notes_already(
    packaged: Project, tmp_path: Path
) -> None:
    notes = {f"{wheels.INFO}/patchset.json": b"{}"}
    wheels.official(packaged, wheels.contents("vllm") | notes)
    wheel = overlay.build(
        PatchedRelease(load("v1.2.0")), "cuda", "x86_64", out=tmp_path
    )
    assert not verdict(wheel)
    assert b'"release": "v1.2.0"' in contents(wheel)[f"{INFO}/patchset.json"]


def test_metadata_that_is_no_text_ends_in_a_message(packaged: Project) -> None:
    for name in (f"{wheels.INFO}/METADATA", "vllm/_version.py"):
        wheels.official(packaged, wheels.contents("vllm") | {name: b"\xff\xfe"})
        message = packaged.run("build-wheel", status=1).stderr
        assert name.rpartition("/")[2] in message and "Traceback" not in message
