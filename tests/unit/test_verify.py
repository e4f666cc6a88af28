# SPDX-License-Identifier: Apache-2.0
"""Forged wheels: verify names every deviation."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import (
    EPOCH,
    OFFICIAL_INFO,
    WHEEL,
    Project,
    official_files,
    pin_official,
    recorded,
)
from patchset.errors import PatchsetError
from patchset.release import load
from patchset.series.apply import PatchedRelease
from patchset.wheel import archive, overlay
from patchset.wheel.verify import verify

INFO = "vllm-1.2.0+mtp.1.dist-info"
NOTES = f"{INFO}/patchset.json"


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {info.filename: opened.read(info) for info in opened.infolist()}


def packed(wheel: Path, files: dict[str, bytes | None], mode: int = 0o644) -> None:
    """Write files into a wheel, or take them out, with a RECORD that is right."""
    found = {**contents(wheel), **files}
    kept = {name: data for name, data in found.items() if data is not None}
    if f"{INFO}/RECORD" not in files:
        del kept[f"{INFO}/RECORD"]
        kept = recorded(kept, INFO)
    with archive.Wheel(wheel) as old:
        members = [
            archive.Member(name, info.external_attr >> 16, source=info)
            if (info := old.members.get(name)) and data == old.read(name)
            else archive.Member(name, mode, data)
            for name, data in kept.items()
        ]
        archive.write(wheel.with_suffix(".new"), members, old, EPOCH)
    wheel.with_suffix(".new").replace(wheel)


def put(
    wheel: Path, name: str, content: bytes | None = b"x", mode: int = 0o644
) -> None:
    packed(wheel, {name: content}, mode)


def field(wheel: Path, at: int, form: str, value: int) -> None:
    """Change a field of the header that the archive's directory has of parser.py."""
    data = bytearray(wheel.read_bytes())
    start = data.rindex(b"vllm/parser.py") - 46
    assert data[start : start + 4] == b"PK\x01\x02"
    struct.pack_into(form, data, start + at, value)
    wheel.write_bytes(data)


def changed(wheel: Path, name: str, old: bytes, new: bytes) -> None:
    content = contents(wheel)[name]
    assert old in content
    packed(wheel, {name: content.replace(old, new, 1)})


def noted(wheel: Path, **more: object) -> None:
    notes = json.loads(contents(wheel)[NOTES]) | more
    packed(wheel, {NOTES: (json.dumps(notes, indent=1) + "\n").encode()})


def claimed(wheel: Path, name: str) -> None:
    """Put in an evil file that the wheel itself calls compiled, as mode source writes
    it.
    """
    packed(wheel, {name: b"evil"}, mode=0o755)
    noted(wheel, mode="source", compiled={name: overlay.sha256(b"evil")})


def unnamed(wheel: Path) -> None:
    field(wheel, 8, "<H", 0x800)  # names are UTF-8
    field(wheel, 46, "<B", 0xFF)


def far(wheel: Path) -> None:
    """Give parser.py an offset of 2**64 - 1, by an extra field of zip64."""
    data = bytearray(wheel.read_bytes())
    start = data.rindex(b"vllm/parser.py") - 46
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    struct.pack_into("<H", data, start + 30, len(extra))
    struct.pack_into("<L", data, start + 42, 0xFFFFFFFF)
    (size,) = struct.unpack_from("<L", data, len(data) - 10)
    struct.pack_into("<L", data, len(data) - 10, size + len(extra))
    end = start + 46 + len("vllm/parser.py")
    wheel.write_bytes(data[:end] + extra + data[end:])


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


BYTES = "right, but not byte for byte what is built"
MODES = "vllm/parser.py: has other permissions"
PARSER = "vllm/parser.py: has other content"
STRANGE = "does not belong there"
DEPENDENCY = b"Requires-Dist: x\nRequires-Dist"
#: What is done to a wheel, and what verify says of it.
FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte at the end": (lambda w: w.write_bytes(w.read_bytes() + b"\0"), BYTES),
    "a cut wheel": (
        lambda w: w.write_bytes(w.read_bytes()[:1000]),
        "is not a readable wheel",
    ),
    "a comment": (lambda w: w.write_bytes(w.read_bytes()[:-2] + b"\1\0x"), BYTES),
    "the time of one member": (lambda w: field(w, 12, "<H", 1), BYTES),
    "setuid": (lambda w: field(w, 38, "<L", 0o104644 << 16), MODES),
    "a program": (lambda w: field(w, 38, "<L", 0o100755 << 16), MODES),
    "a link": (
        lambda w: field(w, 38, "<L", 0o120777 << 16),
        f"{MODES}, or is not a plain",
    ),
    "a locked member": (lambda w: field(w, 8, "<H", 1), PARSER),
    "an unknown method": (lambda w: field(w, 10, "<H", 99), PARSER),
    "a name that is no text": (unnamed, "is not a readable wheel"),
    "beyond the end": (far, PARSER),
    "a damaged member": (damaged, "vllm/_C.abi3.so: has other content"),
    "one name twice": (twice, MODES),
    "a cut name": (cut, f"vllm/evil: {STRANGE}"),
    "upwards": (lambda w: put(w, "vllm/../evil.py"), STRANGE),
    "an absolute name": (lambda w: put(w, "/evil.py"), STRANGE),
    "a backslash": (lambda w: put(w, "vllm\\evil.py"), STRANGE),
    "a folder": (lambda w: put(w, "vllm/x/", b""), STRANGE),
    "another binary": (
        lambda w: put(w, "vllm/_C.abi3.so", b"\x7fELF", 0o755),
        "vllm/_C.abi3.so: has other content",
    ),
    "another patched file": (
        lambda w: changed(w, "vllm/parser.py", b"five", b"six6"),
        f"{PARSER} (patched)",
    ),
    "another version": (
        lambda w: changed(w, "vllm/_version.py", b"mtp.1", b"mtp.2"),
        "vllm/_version.py: has other content (not of the series)",
    ),
    "another dependency": (
        lambda w: changed(w, f"{INFO}/METADATA", b"Requires-Dist", DEPENDENCY),
        "METADATA: has other content",
    ),
    "a new file": (lambda w: put(w, "vllm/evil.py"), f"vllm/evil.py: {STRANGE}"),
    "a file less": (
        lambda w: put(w, "vllm/reader.py", None),
        "vllm/reader.py: missing",
    ),
    "no RECORD": (
        lambda w: put(w, f"{INFO}/RECORD", b""),
        "RECORD: has other content",
    ),
    "a name of two lines": (
        lambda w: put(w, "x\nx.whl: 0 deviations", b""),
        "x x.whl: 0 deviations: does not belong there",
    ),
    "modules of its own": (
        lambda w: claimed(w, "vllm/_C.abi3.so"),
        "has other content",
    ),
    "a note more": (lambda w: noted(w, more=1), "patchset.json: has other content"),
    "notes that are none": (
        lambda w: put(w, NOTES, b"[" * 50_000),
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
    right = overlay.build(PatchedRelease(load("v1.2.0")), "x86_64").read_bytes()
    wheel = tmp_path / WHEEL
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
    assert f"built as {WHEEL}" in verdict(other)


def test_a_wheel_of_an_older_series_or_another_target(
    packaged: Project, tmp_path: Path
) -> None:
    release = load("v1.2.0")
    cpu = overlay.build(PatchedRelease(release, "cpu"), "x86_64")
    wheel = tmp_path / WHEEL
    wheel.write_bytes(cpu.read_bytes())
    assert verdict(wheel)
    wheel.write_bytes(overlay.build(PatchedRelease(release), "x86_64").read_bytes())
    packaged.series.write_text("0001-first v1.2.0\n")
    assert verdict(wheel)


def test_compiled_modules_are_taken_only_when_asked_for(packaged: Project) -> None:
    name = "vllm/_C.abi3.so"
    wheel = overlay.build(PatchedRelease(load("v1.2.0")), "x86_64")
    claimed(wheel, name)
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
        claimed(wheel, other)
        assert verify(wheel, allow_compiled=True).deviations


def test_an_official_wheel_that_has_notes_already(packaged: Project) -> None:
    notes = {f"{OFFICIAL_INFO}/patchset.json": b"{}"}
    pin_official(packaged, official_files("vllm") | notes)
    wheel = overlay.build(PatchedRelease(load("v1.2.0")), "x86_64")
    assert not verdict(wheel)
    assert b'"release": "v1.2.0"' in contents(wheel)[f"{INFO}/patchset.json"]
