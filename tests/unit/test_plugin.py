# SPDX-License-Identifier: Apache-2.0
"""The plugin wheel: its bytes, and what it refuses, in processes of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from patchset import paths
from patchset.wheel import plugin

#: What the self-test needs of a vLLM, and one file that the plugin compares.
STAND_IN = {
    "__init__.py": '__version__ = "0.33.0"\n',
    "logger.py": """\
import logging
logging.basicConfig(level="INFO", format="%(levelname)s %(message)s")
def init_logger(name):
    return logging.getLogger(name)
""",
    "parser/__init__.py": "",
    "tool_parsers/__init__.py": "",
    "tool_parsers/utils.py": "def iter_response_function_tool_info(tool): ...\n",
    "renderers/__init__.py": "",
    "renderers/chat_utils.py": "make_tool_call_id = str\n",
    "entrypoints/__init__.py": "",
    "entrypoints/generate/__init__.py": "",
    "entrypoints/generate/base/__init__.py": "",
    "entrypoints/generate/base/protocol.py": """\
from pydantic import BaseModel
class FunctionCall(BaseModel):
    id: str | None = None
    name: str
    arguments: str
class DeltaFunctionCall(BaseModel):
    name: str | None = None
    arguments: str | None = None
class DeltaToolCall(BaseModel):
    id: str | None = None
    type: str | None = None
    index: int
    function: DeltaFunctionCall | None = None
class DeltaMessage(BaseModel):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = []
ToolCall = ExtractedToolCallInformation = FunctionCall
""",
}
COMPARED = "vllm/tool_parsers/__init__.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plugin.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def site(wheel: Path, tmp_path: Path) -> Path:
    """A folder with the plugin and a vLLM 0.33.0 that it knows."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for name, text in STAND_IN.items():
        file = tmp_path / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    digest = hashlib.sha256((tmp_path / COMPARED).read_bytes()).hexdigest()
    sums = tmp_path / plugin.PACKAGE / "v0.33.0.sha256"
    sums.write_text(f"{digest}  {COMPARED}\n")
    return tmp_path


def load(site: Path, *, name: str = "MainProcess", **environment: str) -> str:
    """Run the entry point as vLLM does; return what it says."""
    code = (
        "import multiprocessing, importlib.metadata as m\n"
        f"multiprocessing.current_process().name = {name!r}\n"
        "(point,) = m.entry_points(group='vllm.general_plugins', name='qwen_tools')\n"
        "point.load()()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_the_bytes_depend_on_the_files_alone(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    for name in ("plugin", "files", "v0.33.0"):
        shutil.copytree(
            paths.patches_dir() / name,
            checkout / "patches" / name,
            copy_function=shutil.copyfile,
        )
    monkeypatch.setenv("PATCHSET_ROOT", str(checkout))
    (checkout / "patches/plugin/vllm_qwen_tools/__pycache__").mkdir()
    again = plugin.build(tmp_path)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()

    with (checkout / "patches/files/vllm/parser/qwen_tool_reader.py").open("a") as file:
        file.write("# another\n")
    assert plugin.build(tmp_path).name != wheel.name


def test_pip_and_python_take_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for name in names:
            if name.endswith(".py"):
                text = archive.read(name).decode()
                compile(text, name, "exec")
                assert "vllm.parser.qwen" not in text or name.endswith("/__init__.py")
    assert f"{plugin.PACKAGE}/qwen_tool_reader.py" in names
    assert names[-1].endswith(".dist-info/RECORD")


def test_verify_names_what_differs(wheel: Path, tmp_path: Path) -> None:
    assert plugin.is_plugin(wheel.name)
    assert plugin.verify(wheel) == []
    forged = tmp_path / wheel.name
    shutil.copyfile(wheel, forged)
    with zipfile.ZipFile(forged, "a") as archive:
        archive.writestr("vllm_qwen_tools/more.py", "")
    assert plugin.verify(forged) == [
        "vllm_qwen_tools/more.py: not as this checkout builds it"
    ]
    other = wheel.with_name("vllm_qwen_tools-1-py3-none-any.whl")
    shutil.copyfile(wheel, other)
    assert plugin.verify(other) == [
        f"{other.name}: its files are right, its name or other bytes are not"
    ]


def test_another_version_stays_as_it_is(site: Path) -> None:
    (site / "vllm/__init__.py").write_text('__version__ = "0.33.1"\n')
    assert "does nothing: it knows v0.26.0" in (said := load(site))
    assert said.count("\n") == 1 and "not vLLM 0.33.1." in said


def test_a_build_of_the_release_is_known_by_its_files(site: Path) -> None:
    (site / "vllm/__init__.py").write_text('__version__ = "0.33.0+cpu"\n')
    (site / COMPARED).write_text("# mended by hand\n")
    assert f"does nothing: {COMPARED} is not the file of vLLM 0.33.0." in load(site)
    (site / COMPARED).unlink()
    assert f"does nothing: {COMPARED} is not" in load(site)


def test_a_patched_vllm_needs_no_plugin(site: Path) -> None:
    (site / "vllm/parser/qwen_tool_reader.py").touch()
    assert "does nothing: this vLLM is patched" in load(site)


def test_the_switch(site: Path) -> None:
    said = load(site, VLLM_QWEN_TOOL_READER="0")
    assert "does nothing: VLLM_QWEN_TOOL_READER=0." in said


def test_a_reader_that_reads_wrongly_is_not_installed(site: Path) -> None:
    with (site / plugin.PACKAGE / "qwen_tool_deltas.py").open("a") as module:
        module.write("def assemble(deltas):\n    return None, None, []\n")
    assert "does nothing: the self-test failed: 'So." in load(site)


def test_what_cannot_be_imported_leaves_vllm_as_it_is(site: Path) -> None:
    # The stand-in passes the self-test and has no serving code.
    said = load(site)
    assert "does nothing: it could not be loaded." in said
    assert "No module named 'vllm.entrypoints.anthropic'" in said


def test_only_processes_that_serve_say_something(site: Path) -> None:
    assert load(site, name="EngineCore_0") == ""
    assert "does nothing" in load(site, name="ApiServer_1")
