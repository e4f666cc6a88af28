# SPDX-License-Identifier: Apache-2.0
"""The corpora, and the judge of outputs that are cut anywhere."""

import pytest

from conformance import check, corpora
from conformance.__main__ import READER
from conformance.case import Call, Case
from conformance.corpora import CORPORA, fragments, ordinary, sloppy, spelling
from conformance.corpora.case import make
from conformance.corpora.reader import Reader, alone
from conformance.reading import ReadCall, Reading
from conformance.report import Report
from patchset import paths

WRITE = Call("write", {"file_path": "a", "content": "x\ny"})
BASH = Call("bash", {"command": "rm -rf build"})
READ = Call("read", {"file_path": "a", "limit": 1200})


#: Outputs that are cut, and those of others, which may write true as True.
APART = ("cuts", "ended", "canitoolcall", "real-outputs")


@pytest.fixture(scope="module")
def every() -> dict[str, list[Case]]:
    return {name: list(build()) for name, build in CORPORA.items()}


@pytest.mark.parametrize("name", ["holdout-fragments", "holdout-ordinary"])
def test_what_is_drawn_is_the_same_every_time(
    name: str, every: dict[str, list[Case]]
) -> None:
    assert list(CORPORA[name]()) == every[name]


def test_the_corpora_have_the_sizes_that_their_figures_are_quoted_with() -> None:
    corpora = (
        ordinary.first(),
        fragments.fragments(fragments.FIRST, 9),
        fragments.fragments(fragments.SECOND, 8),
        sloppy.omitted(),
        sloppy.stutter(),
        sloppy.spelled(spelling.CANONICAL),
    )
    assert [len(list(one)) for one in corpora] == [528, 117, 148, 50, 48, 28]


def test_names_are_unique_and_every_value_stands_in_its_output(
    every: dict[str, list[Case]],
) -> None:
    for name, cases in every.items():
        assert len({case.name for case in cases}) == len(cases), name
        for case in cases if name not in APART else ():
            made = case.expected.calls
            texts = [text for call in made for text in call.texts().values()]
            assert all(text in case.output for text in texts), (name, case.name)


CUT = make("", "", (READ,), cut=True)
BOTH = make("", "", (READ, BASH), (WRITE,), cut=True, whole=(1, 2))


WHOLE = '{"file_path": "a", "limit": 1200}'
RM = '{"command": "rm -rf build"}'


@pytest.mark.parametrize(
    ("case", "texts", "harm"),
    [
        # A cut call is right only if it is missing, or open and a beginning.
        (CUT, (), ""),
        (CUT, (("read", ""),), ""),
        (CUT, (("read", '{"file_path":"a"'),), ""),
        (CUT, (("read", '{"file_path": "a", "limit": '),), ""),
        (CUT, (("read", '{"file_path": "a", "limit": 120'),), "text"),
        (CUT, (("read", '{"file_path": "b'),), "text"),
        (CUT, (("read", WHOLE),), "ran"),
        (CUT, (("read", "{}"),), "refused"),
        (CUT, (("bash", RM),), "ran"),
        # The first is certain, the second may be whole.
        (BOTH, (), "lost"),
        (BOTH, (("read", WHOLE),), ""),
        (BOTH, (("read", WHOLE), ("bash", RM)), ""),
        (
            BOTH,
            (
                ("read", WHOLE),
                ("bash", '{"command": "rm -rf'),
            ),
            "",
        ),
        (
            BOTH,
            (
                ("read", WHOLE),
                ("bash", '{"command": "rm -rf"}'),
            ),
            "bytes",
        ),
        (
            BOTH,
            (("read", WHOLE), ("write", '{"file_path": "a", "content": ""}')),
            "ran",
        ),
        (BOTH, (("read", '{"file_path": "a'), ("bash", RM)), "lost"),
    ],
)
def test_an_output_that_is_cut_anywhere(
    case: Case, texts: tuple[tuple[str, str], ...], harm: str
) -> None:
    calls = [ReadCall(name, str(i), text) for i, (name, text) in enumerate(texts)]
    read = Reading(calls=calls, finish="length")
    read.close()
    want = case.expected.model_copy(update={"tools": case.tools})
    assert check.worst(check.problems(read, want)) == harm


def test_a_reader_alone_is_read_as_a_client_would() -> None:
    text = spelling.CANONICAL.write(READ)
    case = make("", f"Hi.\n{text}", (READ,), content="Hi.\n")
    reader = Reader(paths.patches_dir() / READER)
    read, order = reader.read(case, [case.output])
    assert check.problems(read, case.expected) == []
    assert order[1:3] == ["CONTENT", "CALL"]
    assert reader.read(case, list(case.output)) == (read, order)
    # A call that is cut is open, and its number is left out.
    cut = make("", text[: text.index("200")], (READ,), cut=True)
    (call,) = reader.read(cut, [cut.output])[0].calls
    assert (call.text, call.parsed) == ('{"file_path": "a"', None)


def test_corpora_are_counted_by_their_worst_response() -> None:
    def result(name: str, differs: bool = False, **harms: str) -> dict[str, object]:
        return {
            "case": name,
            "class": "implementation-defined" if "either" in name else "must",
            "right": ["full"],
            "wrong": {way: [harm, "why"] for way, harm in harms.items()},
            "differs": differs,
        }

    report = Report("tree", "patched", "again")
    report.results = [
        result("calls/one", w1="ran"),
        result("corpora/spelled: a/one", w1="text", mtp3="bytes"),
        result("corpora/spelled: b/one", w1="form"),
        result("corpora/spelled: b/either", differs=True),
        result("corpora/spelled: b/either too"),
    ]
    assert report.by_corpus() == {
        "spelled": {
            "all": 2,
            "right": 1,
            "bytes": 1,
            "form": 1,
            "ambiguous": 2,
            "as_meant": 1,
        }
    }


def test_cases_of_corpora_are_chosen_by_name() -> None:
    def names(*patterns: str, sample: int = 0) -> list[str]:
        return [case.name for case in corpora.load(patterns, sample)]

    assert names() == names("calls", "*") == []
    assert len(names("corpora/stutter")) == 48
    assert names("corpora/closers", sample=3) == names("corpora/closers", sample=3)
    assert len(names("corpora/closers", sample=3)) == 3
    (one,) = names("corpora/closers/</function> forgotten at the end")
    assert one in names("corpora/clo*")


def test_a_cut_is_as_wrong_as_the_whole() -> None:
    reader = Reader(paths.patches_dir() / READER)
    case = next(iter(CORPORA["ordinary"]()))
    expected = case.expected.model_copy(update={"content": "other"})
    wrong = case.model_copy(update={"expected": expected})
    for one, right in ((case, 3), (wrong, 0)):
        (result,) = next(alone(reader, [one], 2))["results"]
        assert len(result["right"]) == right and result["ordinary"] == case.ordinary
