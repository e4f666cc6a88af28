# SPDX-License-Identifier: Apache-2.0
"""The plugin: its wheel, when vLLM loads it, and what the doctor says of it."""

import os
import shutil
import sys
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from conftest import lay, ran, run_doctor
from patchset import doctor, files, paths
from patchset.wheel import plugin, record
from patchset.wheel.verify import verify

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
KNOWN = "v0.26.0, v0.27.1, v0.31.0, v0.32.0, v0.33.0"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what the plugin is built of: a build may raise its version there."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("plugin", "modules", "releases/v0.33.0"):
        shutil.copytree(
            paths.patches_dir() / name,
            root / "patches" / name,
            copy_function=shutil.copyfile,
        )
    return root


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATCHSET_ROOT", str(checkout))
        return plugin.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def plugged(wheel: Path, tmp_path: Path) -> Path:
    """Make a folder with the plugin and a vLLM 0.33.0 that it knows."""
    shutil.unpack_archive(wheel, tmp_path, "zip")
    lay(tmp_path / "vllm", STAND_IN)
    digest = files.sha256_file(tmp_path / COMPARED)
    own = tmp_path / plugin.PACKAGE
    (own / "v0.33.0.sha256").write_text(f"{digest}  {COMPARED}\n")
    for listing, listed in (
        (installed(tmp_path), own.iterdir()),
        (tmp_path / "vllm-0.33.0.dist-info", [tmp_path / COMPARED]),
    ):
        listing.mkdir(exist_ok=True)
        lines = [
            record.line(str(file.relative_to(tmp_path)), file.read_bytes())
            for file in listed
        ]
        (listing / "RECORD").write_bytes(record.render(lines))
    return tmp_path


def installed(plugged: Path) -> Path:
    """Return what the installer wrote of the plugin."""
    return next(plugged.glob(f"{plugin.PACKAGE}-*.dist-info"))


def load(plugged: Path, *, name: str = "MainProcess", **environment: str) -> str:
    """Run the entry point as vLLM does; return what it says."""
    code = (
        "import multiprocessing, importlib.metadata as m\n"
        f"multiprocessing.current_process().name = {name!r}\n"
        "(point,) = m.entry_points(group='vllm.general_plugins', name='qwen_tools')\n"
        "point.load()()\n"
    )
    variables = os.environ | environment | {"PYTHONPATH": str(plugged)}
    return ran([sys.executable, "-c", code], env=variables).stderr


def test_the_bytes_depend_on_the_files_alone(
    wheel: Path, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = (checkout / "patches/plugin/version").read_text()
    here = (paths.patches_dir() / "plugin/version").read_text()
    assert last == here, (
        "nox -s build-wheel -- --mode plugin, then commit patches/plugin/version"
    )
    (checkout / "patches/plugin/vllm_qwen_tools/__pycache__").mkdir()
    monkeypatch.setenv("PATCHSET_ROOT", str(checkout))
    again = plugin.build(tmp_path)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_another_content_is_a_higher_version_and_takes_the_place(
    wheel: Path, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(checkout, tmp_path / "checkout")
    monkeypatch.setenv("PATCHSET_ROOT", str(tmp_path / "checkout"))
    made = [wheel]
    for _ in range(12):  # of digests alone, one in two would be lower
        module = tmp_path / "checkout/patches/modules/vllm/parser/qwen_tool_reader.py"
        module.write_text(module.read_text() + "# another\n")
        made.append(plugin.build(tmp_path / "wheels"))
        assert [*(tmp_path / "wheels").glob("*.whl")] == [made[-1]]
    versions = [parse_wheel_filename(each.name)[1] for each in made]
    assert versions == sorted(set(versions))


def test_pip_and_python_take_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".py")]
        for name in modules:
            text = archive.read(name).decode()
            compile(text, name, "exec")
            assert "vllm.parser.qwen" not in text or name.endswith("/__init__.py")
        assert archive.namelist()[-1].endswith(".dist-info/RECORD")
    assert f"{plugin.PACKAGE}/qwen_tool_reader.py" in modules


def test_verify_names_what_differs(wheel: Path, tmp_path: Path) -> None:
    assert verify(wheel).deviations == []
    forged = tmp_path / wheel.name
    shutil.copyfile(wheel, forged)
    with zipfile.ZipFile(forged, "a") as archive:
        archive.writestr("vllm_qwen_tools/more.py", "")
    assert verify(forged).deviations == [
        "vllm_qwen_tools/more.py: does not belong there (not of the series)"
    ]
    other = wheel.with_name("vllm_qwen_tools-1-py3-none-any.whl")
    shutil.copyfile(wheel, other)
    (said,) = verify(other).deviations
    assert "right, but not byte for byte" in said and wheel.name in said


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "vllm/__init__.py",
            '__version__ = "0.33.1"\n',
            f"0.33.1 does nothing: it knows {KNOWN}",
        ),
        (COMPARED, "# mended\n", f"{COMPARED} is not the file of vLLM 0.33.0."),
        (COMPARED, None, f"{COMPARED} is not the file of"),
        ("vllm/parser/qwen_tool_reader.py", "", "this vLLM is patched and"),
        (
            "vllm_qwen_tools/qwen_tool_deltas.py",
            "def assemble(deltas):\n    return None, None, []\n",
            "the self-test failed: 'So.",
        ),
    ],
)
def test_what_is_not_known_stays_as_it_is(
    plugged: Path, name: str, text: str | None, reason: str
) -> None:
    # A build of the release, such as that for the CPU, is known by its files.
    (plugged / "vllm/__init__.py").write_text('__version__ = "0.33.0+cpu"\n')
    if text is None:
        (plugged / name).unlink()
    else:
        with (plugged / name).open("a") as file:
            file.write(text)
    said = load(plugged)
    assert " does nothing: " in said and reason in said and said.count("\n") == 1


def test_what_cannot_be_imported_leaves_vllm_as_it_is(plugged: Path) -> None:
    # The stand-in passes the self-test and has no serving code.
    said = load(plugged)
    assert "does nothing: it could not be loaded." in said
    assert "No module named 'vllm.entrypoints.anthropic'" in said
    # Only processes that serve say something, and the switch is named.
    assert load(plugged, name="EngineCore_0") == ""
    said = load(plugged, name="ApiServer_1", VLLM_QWEN_TOOL_READER="0")
    assert "does nothing: VLLM_QWEN_TOOL_READER=0." in said


def doctor_says(plugged: Path, *, status: int, **environment: str) -> list[str]:
    """Return what the doctor says of the plugin, each with its status."""
    done = run_doctor(plugged, status=status, **environment)
    lines = [line.partition(" plugin: ") for line in done.stdout.splitlines()]
    return [f"{how.strip().lower()} {text}" for how, _, text in lines if text]


@pytest.mark.parametrize(
    ("added", "environment", "says"),
    [
        ("", {}, "ok vllm-qwen-tools-[0-9]*+files* is live: the files are v0.33.0's*"),
        ("", {"VLLM_QWEN_TOOL_READER": "0"}, "wrong *VLLM_QWEN_TOOL_READER*"),
        ("", {"VLLM_PLUGINS": "lora_resolver"}, "wrong *VLLM_PLUGINS*"),
        (
            "vllm/parser/qwen_tool_reader.py",
            {},
            "wrong *does nothing: this vLLM is patched",
        ),
    ],
)
def test_the_doctor_says_whether_the_plugin_is_live_and_what_switches_it_off(
    plugged: Path, added: str, environment: dict[str, str], says: str
) -> None:
    if added:
        (plugged / added).touch()
    (said,) = doctor_says(plugged, status=int(says.startswith("wrong ")), **environment)
    assert fnmatchcase(said, says)


def test_the_doctor_without_the_plugin_says_stock(plugged: Path) -> None:
    shutil.rmtree(installed(plugged))
    assert doctor_says(plugged, status=doctor.STOCK) == []


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("0.33.0", f"{COMPARED} is not the file of v0.33.0"),
        ("0.33.1", f"it knows {KNOWN}, not v0.33.1"),
    ],
)
def test_the_doctor_says_why_the_plugin_does_nothing(
    plugged: Path, version: str, reason: str
) -> None:
    (plugged / "vllm-0.33.0.dist-info").rename(plugged / f"vllm-{version}.dist-info")
    (plugged / COMPARED).write_text("# mended by hand\n")
    name = installed(plugged).stem.replace("_", "-")
    assert doctor_says(plugged, status=1) == [f"wrong {name} does nothing: {reason}"]
