# SPDX-License-Identifier: Apache-2.0
"""Locks: which lines hold, which wheel is chosen, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from unearth import Link

from patchset.errors import PatchsetError, UnavailableError
from patchset.locks import wheelhouse
from patchset.release import load, release_names

A, B = "a" * 64, "b" * 64


def lock(text: str, arch: str = "x86_64") -> list[wheelhouse.Locked]:
    return wheelhouse.read_lock(text, arch, origin="x.lock")  # type: ignore[arg-type]


def test_continued_lines_comments_and_several_hashes() -> None:
    (one,) = lock(
        f"# head\ntorch==2.13.0+cpu \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n    # via vllm\n"
    )
    assert (one.name, str(one.version), one.sha256) == ("torch", "2.13.0+cpu", frozenset({A, B}))


def test_markers_decide_by_the_images_machine() -> None:
    text = f"intel-openmp==1 ; platform_machine == 'x86_64' \\\n    --hash=sha256:{A}\n"
    assert len(lock(text)) == 1
    assert lock(text, "aarch64") == []


@pytest.mark.parametrize(
    "line",
    [
        "torch==2.13.0",
        f"torch>=2 --hash=sha256:{A}",
        f"torch==2.* --hash=sha256:{A}",
        "-e .",
        "torch==1 --hash=md5:00",
    ],
)
def test_an_unpinned_line_is_refused(line: str) -> None:
    with pytest.raises(PatchsetError, match=r"x\.lock"):
        lock(line + "\n")


def links(*names: str, digest: str = A) -> list[Link]:
    return [Link(f"https://x.example/{name}#sha256={digest}") for name in names]


def chosen(locked: wheelhouse.Locked, found: list[Link], arch: str = "x86_64") -> str | None:
    pair = wheelhouse.choose(locked, found, wheelhouse.image_tags(arch))  # type: ignore[arg-type]
    return pair and pair[0].filename


def test_the_wheel_for_the_images_python_and_machine_is_chosen() -> None:
    (numpy,) = lock(f"numpy==2.0 --hash=sha256:{A}\n")
    found = links(
        "numpy-2.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "numpy-2.0-cp311-cp311-manylinux_2_38_x86_64.whl",
        "numpy-2.0-cp311-cp311-musllinux_1_2_x86_64.whl",
        "numpy-2.0-cp311-cp311-manylinux_2_28_aarch64.whl",
        "numpy-2.0-py3-none-any.whl",
        "numpy-2.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "numpy-2.0.tar.gz",
    )
    assert chosen(numpy, found) == "numpy-2.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert chosen(numpy, found, "aarch64") == "numpy-2.0-cp311-cp311-manylinux_2_28_aarch64.whl"


def test_a_wheel_with_another_hash_or_version_is_never_chosen() -> None:
    (one,) = lock(f"a==1.0 --hash=sha256:{A}\n")
    assert chosen(one, links("a-1.0-py3-none-any.whl", digest=B)) is None
    assert chosen(one, links("a-1.0.1-py3-none-any.whl")) is None


def test_gather_takes_files_of_a_folder_and_refuses_changed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHSET_DOWNLOADS", str(tmp_path / "downloads"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("PATCHSET_FROM_DIR", str(folder))
    file = folder / "a_b-1.0-py3-none-any.whl"
    file.write_bytes(b"content")
    locks = lock(f"a-b==1.0 --hash=sha256:{hashlib.sha256(b'content').hexdigest()}\n")
    (got,) = wheelhouse.gather(locks, "x86_64")
    assert got.read_bytes() == b"content"
    assert got.parent == tmp_path / "downloads"
    file.write_bytes(b"changed")
    with pytest.raises(UnavailableError, match=r"a-b==1\.0"):
        wheelhouse.gather(locks, "x86_64")


def test_cpu_torch_leaves_out_what_cannot_be_imported_beside_it() -> None:
    text = "".join(
        f"{pin} --hash=sha256:{A}\n"
        for pin in ("torch==2.13.0+cpu", "torchaudio==2.11.0", "torchvision==0.28.0")
    )
    assert [locked.name for locked in wheelhouse.without_cuda_companions(lock(text))] == [
        "torch",
        "torchvision",
    ]
    assert lock(f"{text}# end") == lock(text)
    whole = lock(text.replace("+cpu", ""))
    assert wheelhouse.without_cuda_companions(whole) == whole


def test_every_lock_of_the_project_can_be_read() -> None:
    files = [file for name in release_names() for file in load(name).folder.glob("requirements.*.lock")]
    assert files
    for file in files:
        for arch in ("x86_64", "aarch64"):
            locks = lock(file.read_text(), arch)
            if "cpu-torch" not in file.name or arch == "x86_64":
                assert len(locks) > (40 if file.name == "requirements.build.lock" else 100)
            names = [locked.name for locked in locks]
            assert len(names) == len(set(names)), file
