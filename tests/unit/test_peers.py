# SPDX-License-Identifier: Apache-2.0
"""Sloppy frames, their judge, and the figures of other engines."""

import json
import re
from pathlib import Path

import pytest

import results
from conformance import guard
from conformance.case import Case, Run
from conformance.corpora import frames as corpus
from conformance.reading import ReadCall, Reading
from patchset.release import load
from peers import SUITE_VERSION, asking, counting, frames, table
from peers.asking import HERE, PEERS, Peer, question, version

MEANT = '{"command": "ls -la"}'
THIRD = '{"command": "ls"}'
OTHER = '{"command": "ls -la\\n</parameter>,"}'


@pytest.fixture(scope="module")
def every() -> dict[str, Case]:
    return {case.name: case for case in corpus.cases()}


@pytest.fixture
def case(every: dict[str, Case]) -> Case:
    return next(iter(every.values()))


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut outputs into words and single characters, as a tokenizer would."""

    def pieces(case: Case, run: Run) -> tuple[list[int], list[str]]:
        texts = [*re.findall(r"</?tool_call>|\w+|.", run.output, re.DOTALL), ""]
        return [*range(len(texts))], texts

    monkeypatch.setattr(asking, "pieces", pieces)


def read(*texts: str, name: str = "bash", finish: str = "") -> Reading:
    calls = [ReadCall(name, str(at), text) for at, text in enumerate(texts)]
    finish = finish or ("tool_calls" if texts else "stop")
    reading = Reading(calls=calls, finish=finish)
    reading.close()
    return reading


def test_frames_are_the_same_every_time_and_at_every_joint(
    every: dict[str, Case],
) -> None:
    assert list(corpus.cases()) == list(every.values())
    assert len({case.output for case in every.values()}) == len(every)
    assert {name.split(" / ")[1] for name in every} >= {
        "0, start and tool_call",
        "1, tool_call and function",
        "2, function and parameter",
        "5, /parameter and /function",
        "6, /function and /tool_call",
        "7, /tool_call and end",
    }
    assert {len(case.expected.calls) for case in every.values()} == {1, 2, 3}


@pytest.mark.parametrize(
    ("name", "output"),
    [
        (
            "bash / 2, function and parameter / comma / behind the tag",
            "<tool_call>|<function=bash>,|<parameter=command>|ls -la|</parameter>|"
            "</function>|</tool_call>",
        ),
        (
            "bash / around function / <invoke> / own line",
            "<tool_call>|<invoke>|<function=bash>|<parameter=command>|ls -la|"
            "</parameter>|</function>|</invoke>|</tool_call>",
        ),
        (
            "bash / </parameter> / space behind / / all",
            "<tool_call>|<function=bash>|<parameter=command>|ls -la|</ parameter>|"
            "</function>|</tool_call>",
        ),
        (
            "bash / gaps / one line / all",
            "<tool_call><function=bash><parameter=command>ls -la</parameter>"
            "</function></tool_call>",
        ),
    ],
)
def test_a_name_says_what_is_sloppy(
    every: dict[str, Case], name: str, output: str
) -> None:
    names = [each for each in every if each.startswith(name.rpartition(" / ")[0])]
    assert output.replace("|", "\n") in [every[each].output for each in names]


@pytest.mark.parametrize(
    ("ours", "others", "harm"),
    [
        (read(), [MEANT, MEANT], "lost"),
        (read(OTHER), [MEANT, MEANT], "bytes"),
        (read("{}"), [MEANT, MEANT], "refused"),
        (read(MEANT, MEANT), [MEANT, MEANT], "ran"),
        # Called, and the client is told that the output was cut.
        (read(MEANT, finish="stop"), [MEANT, MEANT], "lost"),
        (read(MEANT), [MEANT, MEANT], None),
        # What others agree on does more harm than ours, or as much.
        (read(), [OTHER, OTHER], None),
        (read(MEANT), [OTHER, OTHER], None),
        (read(THIRD), [OTHER, OTHER], None),
        # They agree on nothing that a client would run.
        (read(), [MEANT, OTHER], None),
        (read(), ["{}", "{}"], None),
        (read(), [MEANT], None),
    ],
)
def test_two_others_must_agree_on_less_harm(
    case: Case, ours: Reading, others: list[str], harm: str | None
) -> None:
    # Streamed alone is enough.
    by_name = {str(n): {"full": read(), "w1": read(t)} for n, t in enumerate(others)}
    finding = frames.judge(case, ours, by_name)
    assert (finding and finding.harm) == harm
    if finding:
        assert finding.others == (["0", "1"], "")
        assert f": right -> {harm}" in str(finding)


def test_an_engine_with_the_parser_of_another_is_no_second_one(
    case: Case,
) -> None:
    others = {name: {"full": read(MEANT)} for name in ("mlx-lm", "mlx-vlm")}
    assert frames.judge(case, read(), others) is None
    assert frames.judge(case, read(), others | {"sglang": {"full": read(MEANT)}})


def test_a_finding_has_the_reason_that_its_name_is_given(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = tmp_path / "guard.json"
    reasons.write_text(json.dumps({"bash / *": "an-anchor"}))
    monkeypatch.setattr(guard, "REASONS", reasons)
    others = {name: {"full": read(MEANT)} for name in "ab"}
    for ours, reason in ((read(), "an-anchor"), (read(MEANT, MEANT), "")):
        finding = frames.judge(case, ours, others)
        assert finding and finding.reason == reason


def test_every_peer_is_pinned_and_can_be_driven() -> None:
    engines = (HERE / "engines.py").read_text(encoding="utf-8")
    for name, (environment, _) in PEERS.items():
        assert re.fullmatch(r"\d+(\.\d+)+", version(name))
        assert environment == "npm" or f'"{name}": ' in engines


def test_a_peer_gets_what_a_server_has(case: Case, words: None) -> None:
    asked = question(case, ["full", "w1", "w3"])
    assert asked["pieces"]["full"] == [case.output]
    assert "<tool_call>" in asked["pieces"]["w1"]
    assert {"".join(pieces) for pieces in asked["pieces"].values()} == {case.output}
    assert asked["tools"][0]["function"]["name"] == "bash"


def test_a_peer_that_hangs_or_raises_loses_the_message(
    case: Case, words: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, {"messages": {"full": {"error": "KeyError: 'x'"}}}])
    monkeypatch.setattr(Peer, "__init__", lambda peer: None)
    monkeypatch.setattr(Peer, "ask", lambda peer, asked: next(answers))
    for why in ("hangs", "KeyError"):
        read = Peer().readings(case, ["full"])  # type: ignore[call-arg]
        assert why in read["full"].failed


def test_a_case_counts_by_the_worse_way_and_once() -> None:
    asked = counting.chosen(["calls/*"])
    case = next(case for case in asked if len(case.expected.calls) == 1)
    want = case.expected.calls[0]
    text = json.dumps(want.arguments)
    right = read(text, name=want.name)
    right.content = case.expected.content or ""
    lost = read()
    figures = counting.count([case], [(case.name, {"full": right, "w1": lost})])
    assert figures == {"core": {"lost": 1, "cases": 1, "burst_dependent": 0}}
    ways = {"full": right, "w1": right, "w3": lost}
    figures = counting.count([case], [(case.name, ways)])
    assert figures == {"core": {"right": 1, "cases": 1, "burst_dependent": 1}}


def test_a_parser_alone_is_not_asked_what_only_a_server_can_know() -> None:
    asked = counting.chosen([])
    assert {counting.group(case) for case in asked} >= {"core", "view", "real"}
    assert all(case.tools and not case.request for case in asked)
    assert not any(case.expected.reasoning for case in asked)


def test_the_table_begins_with_the_best_and_says_whose_the_suite_is(
    rows: Path,
) -> None:
    release = load()
    core = {"right": 1, "ran": 1, "cases": 2}
    for name, figures in (
        ("stock sglang", {"core": core, "cost": [2.5, None]}),
        ("patched", {"core": core | {"right": 2, "ran": 0}, "cost": [1.0, 1.0]}),
    ):
        row = {"title": name, "version": "1.0", **figures}
        results.keep(table.LANE, SUITE_VERSION, release.name, name, row)
    _, _, first, second, *_, last = table.table([release]).splitlines()
    assert first == "| patched 1.0 | 2/2 | 0 | 0 | 0 | 0 | 0 | – | – | 0 | 1; 1 |"
    assert second.startswith("| stock sglang 1.0 | 1/2 | 1 |")
    assert second.endswith("| 2.5; – |") and table.OURS in last
    assert table.table([]) == f"{results.NOT_RUN}\n"
