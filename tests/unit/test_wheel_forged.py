# SPDX-License-Identifier: Apache-2.0
"""Wheels that somebody manipulated with care: RECORD is right again wherever it can be, and verify accepts none."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import wheels
from conftest import EPOCH, Project
from patchset.errors import PatchsetError
from patchset.release import load
from patchset.series.apply import PatchedRelease
from patchset.wheel import archive, overlay, record
from patchset.wheel.archive import Member, Wheel
from patchset.wheel.verify import verify
from wheels import NAME

INFO = "vllm-1.2.0+mtp.1.dist-info"
CENTRAL, LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
#: Indices of the fields of both headers.
C_SYSTEM, C_FLAGS, C_METHOD, C_TIME, C_INTERNAL, C_EXTERNAL = 1, 3, 4, 5, 14, 15
L_VERSION, L_FLAGS, L_METHOD, L_TIME, L_CRC, L_SIZE = 1, 2, 3, 4, 6, 8


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {info.filename: opened.read(info) for info in opened.infolist()}


def packed(
    wheel: Path, files: dict[str, bytes | None], *, mode: int = 0o644, order: int = 1
) -> None:
    """Write files into a wheel, or take them out, as its builder does, with a RECORD that is right."""
    found: dict[str, bytes | None] = {**contents(wheel), **files}
    lines = [
        record.line(name, data)
        for name, data in found.items()
        if data is not None and name != f"{INFO}/RECORD"
    ]
    if f"{INFO}/RECORD" not in files:
        found[f"{INFO}/RECORD"] = record.render(
            [*lines, record.Line(f"{INFO}/RECORD", "", "")]
        )
    with Wheel(wheel) as old:
        members = []
        for name, data in found.items():
            info = old.members.get(name)
            if (
                data is not None
                and info is not None
                and name not in files
                and "RECORD" not in name
            ):
                members.append(Member(name, info.external_attr >> 16, source=info))
            elif data is not None:
                members.append(Member(name, mode, data))
        archive.write(wheel.with_suffix(".new"), members[::order], old, EPOCH)
    wheel.with_suffix(".new").replace(wheel)


def raw(
    wheel: Path,
    edit: Callable[[bytearray, int, int], None],
    name: str = "vllm/parser.py",
) -> None:
    """Edit the bytes; ``edit`` hears where the headers of a member are, central and local."""
    data = bytearray(wheel.read_bytes())
    at = data.rindex(
        b"PK\x01\x02"
        + data[data.rindex(name.encode()) - 42 : data.rindex(name.encode())]
    )
    edit(data, at, CENTRAL.unpack_from(data, at)[16])
    wheel.write_bytes(data)


def field(number: int, value: int, *, local: bool = False) -> Callable[[Path], None]:
    """Change one field of a member's central or local header."""

    def edit(data: bytearray, central: int, start: int) -> None:
        header, at = (LOCAL, start) if local else (CENTRAL, central)
        values = list(header.unpack_from(data, at))
        assert values[number] != value
        values[number] = value
        header.pack_into(data, at, *values)

    return lambda wheel: raw(wheel, edit)


def attributes(change: Callable[[zipfile.ZipInfo], None]) -> Callable[[Path], None]:
    """Write every member anew by zipfile, with other attributes."""

    def act(wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as old:
            members = [(info, old.read(info)) for info in old.infolist()]
        with zipfile.ZipFile(wheel, "w") as new:
            for info, content in members:
                change(info)
                new.writestr(info, content)

    return act


def extra(block: bytes) -> Callable[[zipfile.ZipInfo], None]:
    def change(info: zipfile.ZipInfo) -> None:
        info.extra = block if info.filename == "vllm/parser.py" else info.extra

    return change


def inserted(at: Callable[[Path], int], piece: bytes) -> Callable[[Path], None]:
    """Put bytes in, and move what the archive says of places behind them."""

    def act(wheel: Path) -> None:
        start, data = at(wheel), bytearray(wheel.read_bytes())
        with zipfile.ZipFile(wheel) as opened:
            directory, place = opened.start_dir, opened.start_dir
        while data[place : place + 4] == b"PK\x01\x02":
            values = list(CENTRAL.unpack_from(data, place))
            values[16] += len(piece) if values[16] >= start else 0
            CENTRAL.pack_into(data, place, *values)
            place += CENTRAL.size + sum(values[10:13])
        struct.pack_into("<L", data, place + 16, directory + len(piece))
        wheel.write_bytes(data[:start] + piece + data[start:])

    return act


def start_of_directory(wheel: Path) -> int:
    with zipfile.ZipFile(wheel) as opened:
        return opened.start_dir


def put(**files: object) -> Callable[[Path], None]:
    return lambda wheel: packed(wheel, files["files"])  # type: ignore[arg-type]


def changed(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def act(wheel: Path) -> None:
        content = contents(wheel)[name]
        assert old in content
        packed(wheel, {name: content.replace(old, new, 1)})

    return act


def noted(**more: object) -> Callable[[Path], None]:
    def act(wheel: Path) -> None:
        notes = json.loads(contents(wheel)[f"{INFO}/patchset.json"])
        packed(
            wheel,
            {
                f"{INFO}/patchset.json": (
                    json.dumps({**notes, **more}, indent=1) + "\n"
                ).encode()
            },
        )

    return act


def claimed(name: str) -> Callable[[Path], None]:
    """An evil file that the wheel itself calls compiled, in the form that mode source writes."""

    def act(wheel: Path) -> None:
        evil = b"evil"
        packed(wheel, {name: evil}, mode=0o755)
        noted(mode="source", compiled={name: overlay.sha256(evil)})(wheel)

    return act


def renamed(name: str) -> Callable[[Path], str]:
    return lambda wheel: name


UNICODE_PATH = (
    struct.pack("<HHBL", 0x7075, 5 + 9, 1, zlib.crc32(b"vllm/parser.py")) + b"vllm/x.py"
)
FORGED: dict[str, Callable[[Path], object]] = {
    # the names of the file
    **{
        f"named {tags}": renamed(f"vllm-1.2.0+mtp.1-{tags}.whl")
        for tags in (
            "cp38-abi3-manylinux_2_17_x86_64",
            "cp38-abi3-linux_x86_64",
            "py3-none-any",
            "cp312-cp312-win_amd64",
            "1-cp38-abi3-manylinux_2_28_x86_64",
            "cp38-abi3-manylinux_2_28_x86_64.linux_x86_64",
        )
    },
    # bytes around the members
    "a byte at the end": lambda wheel: wheel.write_bytes(wheel.read_bytes() + b"\0"),
    "a program at the end": lambda wheel: wheel.write_bytes(
        wheel.read_bytes() + b"#!/bin/sh\n"
    ),
    "a byte at the start": lambda wheel: wheel.write_bytes(b"\0" + wheel.read_bytes()),
    "a comment": lambda wheel: wheel.write_bytes(wheel.read_bytes()[:-2] + b"\4\0more"),
    "bytes before the directory": inserted(start_of_directory, b"PK\3\4" + bytes(26)),
    "bytes before the first member": inserted(lambda wheel: 0, bytes(30)),
    # headers
    "a comment of a member": attributes(lambda info: setattr(info, "comment", b"x")),
    "another name in Unicode": attributes(extra(UNICODE_PATH)),
    "an extra field": attributes(extra(struct.pack("<HH", 0xCAFE, 0))),
    "another time": attributes(
        lambda info: setattr(info, "date_time", (2024, 1, 1, 0, 0, 0))
    ),
    "the time of one member": field(C_TIME, 1),
    "another time in the local header": field(L_TIME, 1, local=True),
    "another system": field(C_SYSTEM, 20),
    "a flag": field(C_FLAGS, 0x800),
    "an internal attribute": field(C_INTERNAL, 1),
    "an attribute of DOS": field(C_EXTERNAL, 0o100644 << 16 | 1),
    "a file that is run": field(C_EXTERNAL, 0o100755 << 16),
    "setuid": field(C_EXTERNAL, 0o104644 << 16),
    "a link": field(C_EXTERNAL, 0o120777 << 16),
    "a locked member": field(C_FLAGS, 1),
    "an unknown method": field(C_METHOD, 99),
    "another version in the local header": field(L_VERSION, 45, local=True),
    "a flag in the local header": field(L_FLAGS, 8, local=True),
    "another method in the local header": field(L_METHOD, 8, local=True),
    "another CRC in the local header": field(L_CRC, 7, local=True),
    "another size in the local header": field(L_SIZE, 7, local=True),
    "another name in the local header": lambda wheel: raw(
        wheel,
        lambda data, central, start: data.__setitem__(
            slice(start + 30, start + 44), b"vllm/evil_x.py"
        ),
    ),
    # members in another order, or packed in another way
    "another order": lambda wheel: packed(wheel, {}, order=-1),
    "everything stored": attributes(
        lambda info: setattr(info, "compress_type", zipfile.ZIP_STORED)
    ),
    "everything packed": attributes(
        lambda info: setattr(info, "compress_type", zipfile.ZIP_DEFLATED)
    ),
    # contents, with a RECORD that fits
    "another official file": changed("vllm/__init__.py", b"import", b"import os;"),
    "another binary": lambda wheel: packed(
        wheel, {"vllm/_C.abi3.so": b"\x7fELF"}, mode=0o755
    ),
    "another patched file": changed("vllm/parser.py", b"five", b"six6"),
    "another version": changed("vllm/_version.py", b"mtp.1", b"mtp.2"),
    "another dependency": changed(
        f"{INFO}/METADATA", b"Requires-Dist", b"Requires-Dist: evil\nRequires-Dist"
    ),
    "another text below METADATA": changed(f"{INFO}/METADATA", b"stays", b"goes "),
    "another tag": changed(f"{INFO}/WHEEL", b"Tag: cp38", b"Tag: cp39"),
    "purelib": changed(f"{INFO}/WHEEL", b"false", b"true"),
    "a new file": put(files={"vllm/evil.py": b"x"}),
    "a .pth file": put(files={"evil.pth": b"import os"}),
    "a script": put(files={"vllm-1.2.0+mtp.1.data/scripts/evil": b"#!python"}),
    "entry points": put(
        files={f"{INFO}/entry_points.txt": b"[console_scripts]\nvllm = evil:main\n"}
    ),
    "a stray file in .dist-info": put(files={f"{INFO}/direct_url.json": b"{}"}),
    "bytecode": put(files={"vllm/__pycache__/parser.cpython-311.pyc": b"x"}),
    "the name in capitals": put(files={"vllm/PARSER.py": b"x"}),
    "another distribution": put(files={"evil-1.dist-info/METADATA": b"x"}),
    "an official file less": put(files={"vllm/table.json": None}),
    "a new file of the series less": put(files={"vllm/reader.py": None}),
    "no patchset.json": put(files={f"{INFO}/patchset.json": None}),
    "a folder": put(files={"vllm/x/": b""}),
    "upwards": put(files={"vllm/../evil.py": b"x"}),
    "an absolute name": put(files={"/evil.py": b"x"}),
    "a backslash": put(files={"vllm\\evil.py": b"x"}),
    # RECORD
    "an empty RECORD": put(files={f"{INFO}/RECORD": b""}),
    "a RECORD that ends its lines in another way": lambda wheel: packed(
        wheel,
        {f"{INFO}/RECORD": contents(wheel)[f"{INFO}/RECORD"].replace(b"\n", b"\r\n")},
    ),
    "a RECORD with a line twice": lambda wheel: packed(
        wheel,
        {f"{INFO}/RECORD": contents(wheel)[f"{INFO}/RECORD"] + b"vllm/parser.py,,\n"},
    ),
    "a RECORD that is not text": put(files={f"{INFO}/RECORD": b"\xff\xfe"}),
    # what the wheel says of itself
    "modules of its own": claimed("vllm/_C.abi3.so"),
    "a new module": claimed("vllm/_evil.abi3.so"),
    "a module that hides a patched file": claimed("vllm/parser.abi3.so"),
    "a module that hides the package": claimed("vllm/__init__.abi3.so"),
    "a package that hides a patched file": put(
        files={"vllm/parser/__init__.py": b"evil"}
    ),
    "a file that is called compiled": claimed("vllm/table.json"),
    "compiled, with no files": noted(mode="source", compiled={}),
    "a vendored file": claimed("vllm/third_party/evil.py"),
    "another METADATA": changed(
        f"{INFO}/METADATA", b"Requires-Dist", b"Requires-Dist: evil\nRequires-Dist"
    ),
    "called source": noted(mode="source"),
    "a note more": noted(more=1),
    "notes that are none": put(files={f"{INFO}/patchset.json": b"[" * 50_000}),
}


#: What verify says of some of them.
SAID = {
    "a byte at the end": "right, but not byte for byte what is built",
    "bytes before the directory": "right, but not byte for byte what is built",
    "a file that is run": "py: has other permissions than the patched file",
    "setuid": "vllm/parser.py: has other permissions",
    "a link": "'vllm/parser.py' is not a plain file",
    "a cut name": "leads outside",
    "upwards": "leads outside",
    "one name twice": "is the name of two members",
    "a damaged member": "vllm/table.json: is not the official wheel's file",
    "another binary": "vllm/_C.abi3.so: is not the official wheel's file",
    "another patched file": "vllm/parser.py: is not the patched file",
    "another version": "vllm/_version.py: is not what build-wheel writes",
    "a new file": "evil.py: does not belong there",
    "an official file less": "vllm/table.json: missing; it is the official wheel's",
    "a note more": "patchset.json: is not what build-wheel writes",
    "py3-none-any": "built as vllm-1.2.0+mtp.1-cp38",
}


def verdict(wheel: Path) -> str:
    """Return what verify says; nothing of a wheel that it accepts."""
    try:
        return "\n".join(verify(wheel).deviations)
    except PatchsetError as error:
        return f"{error.message} {error.hint}"


def damaged(wheel: Path) -> None:
    """Flip one bit in the middle of a member, as it is compressed in the archive."""
    with Wheel(wheel) as opened:
        info = opened.members["vllm/table.json"]
    data = bytearray(wheel.read_bytes())
    data[info.header_offset + 45 + info.compress_size // 2] ^= 1
    wheel.write_bytes(data)


def twice(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as opened, pytest.warns(UserWarning):
        opened.writestr("vllm/parser.py", b"x")


def cut(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("vllm/evilX.py", b"x")
    wheel.write_bytes(wheel.read_bytes().replace(b"vllm/evilX.py", b"vllm/evil\0.py"))


FORGED |= {"a damaged member": damaged, "one name twice": twice, "a cut name": cut}


def test_no_forged_wheel_is_accepted(packaged: Project, tmp_path: Path) -> None:
    right = overlay.build(PatchedRelease(load("v1.2.0")), "cuda", "x86_64").read_bytes()
    found = []
    for name, forge in FORGED.items():
        wheel = tmp_path / NAME
        wheel.write_bytes(right)
        if isinstance(other := forge(wheel), str):
            wheel = wheel.rename(tmp_path / other)
        assert wheel.name != NAME or wheel.read_bytes() != right, name
        said = verdict(wheel)
        if not said or SAID.get(name.removeprefix("named "), "") not in said:
            found.append(f"{name}: {said}")
    assert found == [] and SAID.keys() - {"py3-none-any"} <= FORGED.keys()
    wheel = tmp_path / NAME
    wheel.write_bytes(right)
    assert not verdict(wheel)


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
        line.startswith(f"{name}: is not the official")
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
    official = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    notes = {"vllm-1.2.0.dist-info/patchset.json": b"{}"}
    toml = packaged.folder / "release.toml"
    toml.write_text(toml.read_text().split("[wheels.")[0])
    files = wheels.contents("vllm") | notes
    info = "vllm-1.2.0.dist-info/RECORD"
    lines = [record.line(name, data) for name, data in files.items() if name != info]
    files[info] = record.render([*lines, record.Line(info, "", "")])
    wheels.pin(packaged, "cuda", wheels.write(official, files))
    wheel = overlay.build(
        PatchedRelease(load("v1.2.0")), "cuda", "x86_64", out=tmp_path
    )
    assert not verdict(wheel)
    assert b'"release": "v1.2.0"' in contents(wheel)[f"{INFO}/patchset.json"]


def test_metadata_that_is_no_text_ends_in_a_message(packaged: Project) -> None:
    official = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    head = (packaged.folder / "release.toml").read_text().split("[wheels.")[0]
    for name in (
        "vllm-1.2.0.dist-info/METADATA",
        "vllm-1.2.0.dist-info/WHEEL",
        "vllm/_version.py",
    ):
        (packaged.folder / "release.toml").write_text(head)
        files = wheels.contents("vllm") | {name: b"\xff\xfe"}
        wheels.pin(packaged, "cuda", wheels.write(official, files))
        message = packaged.run("build-wheel", status=1).stderr
        assert name.rpartition("/")[2] in message and "Traceback" not in message
