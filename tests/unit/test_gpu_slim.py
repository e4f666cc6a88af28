# SPDX-License-Identifier: Apache-2.0
"""What is left of a wheel and of a native library for one GPU, and the composite form of the checkpoint."""

import base64
import csv
import hashlib
import json
import struct
import zipfile
from pathlib import Path

import pytest

from gpu import composite
from gpu.bundle import fatbin, resolve, slim
from patchset.errors import PatchsetError

PTX, MACHINE = 1, 2


def entry(kind: int, arch: int, body: bytes) -> bytes:
    """An entry as nvcc lays it out: a header of 64 bytes, then the code in multiples of 8 bytes."""
    assert len(body) % 8 == 0
    header = struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(body), 0, 64, 0, 1, arch)
    return header + bytes(64 - len(header)) + body


def library(*containers: list[bytes]) -> bytes:
    """A small ELF file with the containers in ``.nv_fatbin``."""
    section = b""
    for entries in containers:
        body = b"".join(entries)
        section += struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body + bytes(8)
    names = b"\0.shstrtab\0.nv_fatbin\0"
    start = 64
    strings = start + len(section)
    table = strings + len(names) + (-(strings + len(names)) % 8)
    head = bytearray(64)
    head[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<Q", head, 0x28, table)
    struct.pack_into("<HHH", head, 0x3A, 64, 3, 1)

    def row(name: int, at: int, size: int) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 8, 0)

    made = bytes(head) + section + names
    made += bytes(table - len(made))
    return made + bytes(64) + row(1, strings, len(names)) + row(11, start, len(section))


A, B, C = b"a" * 64, b"b" * 128, b"c" * 32


def kept(made: bytes) -> list[list[tuple[int, int]]]:
    return [[(e.kind, e.arch) for e in found.entries] for found in fatbin.containers(made)]


def test_machine_code_of_the_gpu_is_kept_alone() -> None:
    whole = library(
        [entry(MACHINE, 80, A), entry(MACHINE, 90, B), entry(PTX, 80, C)], [entry(MACHINE, 90, C)]
    )
    made, gone = fatbin.thinned(whole, 90)
    assert kept(made) == [[(MACHINE, 90)], [(MACHINE, 90)]]
    assert len(made) == len(whole) and gone == len(A) + len(C) + 2 * 64
    first, second = fatbin.containers(made)
    assert made[first.entries[0].start + 64 :][: len(B)] == B
    assert made[second.entries[0].start :][: 64 + len(C)] == entry(MACHINE, 90, C)
    starts = [found.start for found in fatbin.containers(whole)]
    assert [first.start, second.start] == starts  # the library's code points at them


def test_ptx_is_kept_where_there_is_no_machine_code_for_the_gpu() -> None:
    whole = library([entry(MACHINE, 80, A), entry(PTX, 80, B), entry(PTX, 100, C)], [entry(MACHINE, 89, A)])
    made, _ = fatbin.thinned(whole, 90)
    assert kept(made)[0] == [(PTX, 80)]
    assert kept(made)[1] == [(MACHINE, 89)]  # nothing for the GPU: it stays a container like any other


def test_a_lower_minor_revision_runs_and_a_higher_does_not() -> None:
    whole = library([entry(MACHINE, 80, A), entry(MACHINE, 86, B), entry(MACHINE, 89, C)])
    assert kept(fatbin.thinned(whole, 86)[0]) == [[(MACHINE, 80), (MACHINE, 86)]]


def test_a_library_without_code_for_gpus_stays_as_it_is() -> None:
    whole = library()
    assert fatbin.thinned(whole, 90) == (whole, 0)


@pytest.mark.parametrize("at", [64, 64 + 4, 64 + 16, 64 + 16 + 29])
def test_what_is_laid_out_otherwise_is_refused(at: int) -> None:
    broken = bytearray(library([entry(MACHINE, 80, A), entry(MACHINE, 90, B)]))
    broken[at] ^= 0xFF
    with pytest.raises(fatbin.LayoutError):
        fatbin.thinned(bytes(broken), 90)
    with pytest.raises(fatbin.LayoutError):
        fatbin.thinned(b"no ELF file at all", 90)


def test_a_slim_wheel_says_what_it_is(tmp_path: Path) -> None:
    source, out = tmp_path / "x-1.whl", tmp_path / "out.whl"
    native = library([entry(MACHINE, 80, A), entry(MACHINE, 90, B)])
    members = {"x/a.py": b"1", "x/_C.so": native, "x/_fa2.so": b"\x7fELF", "x-1.dist-info/RECORD": b""}
    with zipfile.ZipFile(source, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    said = slim.wheel(source, out, ["x/_fa2*"], 90)
    assert said.left_out == ["x/_fa2.so"]
    assert said.thinned == {"x/_C.so": 64 + len(A)}
    with zipfile.ZipFile(out) as archive:
        assert sorted(archive.namelist()) == ["x-1.dist-info/RECORD", "x/_C.so", "x/a.py"]
        lines = list(csv.reader(archive.read("x-1.dist-info/RECORD").decode().splitlines()))
        for name, digest, size in lines[:-1]:
            content = archive.read(name)
            wanted = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={wanted}", str(len(content)))


def test_what_the_host_has(tmp_path: Path) -> None:
    file = tmp_path / "host.txt"
    file.write_text("# a comment\ntorch==2.11.0+cu130\n\nnumba  # some version\n")
    assert [str(found) for found in resolve.host(file)] == ["torch==2.11.0", "numba"]
    file.write_text("torch>=2; rm -rf\n")
    with pytest.raises(PatchsetError, match="neither NAME nor NAME==VERSION"):
        resolve.host(file)
    assert "torch==2.11.0" in [str(found) for found in resolve.host(None)]


def test_every_omission_has_a_reason() -> None:
    found = resolve.LeftOut.load()
    assert all(
        len(reason) > 3
        for reason in [*found.files.values(), *found.packages.values(), *found.unpinned.values()]
    )


def test_the_composite_checkpoint_holds_the_same_weights(tmp_path: Path) -> None:
    source, out = tmp_path / "text", tmp_path / "composite"
    source.mkdir()
    out.mkdir()
    data = bytes(range(64))
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "model.embed_tokens.weight": {"dtype": "U8", "shape": [32], "data_offsets": [0, 32]},
            "lm_head.weight": {"dtype": "U8", "shape": [16], "data_offsets": [32, 48]},
            "mtp.fc.weight": {"dtype": "U8", "shape": [16], "data_offsets": [48, 64]},
        }
    ).encode()
    (source / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    text = {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": 1289,
        "hidden_size": 192,
        "mtp_num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "eos_token_id": 1282,
        "pad_token_id": 1280,
        "dtype": "bfloat16",
    }
    (source / "config.json").write_text(json.dumps(text))
    (source / "answers.json").write_text("{}")
    composite.write(source, out)
    made = (out / "model.safetensors").read_bytes()
    length = int.from_bytes(made[:8], "little")
    names = json.loads(made[8 : 8 + length])
    assert length % 8 == 0 and made[8 + length :] == data
    assert names["model.language_model.embed_tokens.weight"]["data_offsets"] == [0, 32]
    assert {"lm_head.weight", "mtp.fc.weight", "__metadata__"} < set(names)
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    assert config["text_config"]["hidden_size"] == 192 and config["mtp_num_hidden_layers"] == 1
    assert (out / "answers.json").is_file()
