# SPDX-License-Identifier: Apache-2.0
"""The README's example, and the documents' command lines."""

import json

import results
from conformance import before_after, documented
from conformance import case as cases


def test_the_readme_shows_an_example_that_the_suite_accepts() -> None:
    (case,) = cases.read(before_after.EXAMPLE)
    content = case.expected.calls[0].arguments["content"]
    assert content in case.output and "<function=bash>" in content
    readme = before_after.README.read_text(encoding="utf-8")
    assert f"```xml\n{case.output}\n```" in readme
    assert results.put(readme, "before and after", "") != readme


def test_what_went_wrong_is_remarked_and_what_is_right_is_not() -> None:
    def call(name: str, text: str) -> dict[str, str]:
        return {"name": name, "text": text}

    whole = json.dumps({"path": "x"})
    answers = {
        "one": {
            "calls": [call("write", whole[:-1]), call("bash", "{}")],
            "content": "left\n",
            "finish": "tool_calls",
        },
        "two": {"calls": [call("write", whole)], "content": ""},
    }
    one, two = before_after.shown(answers).split("from two:")
    assert (
        "not valid JSON" in one and "only quoted" in one and r'text    "left\n"' in one
    )
    assert "<-" not in two and "text    " not in two


def test_documented_lines_are_read_with_their_continuations_and_defaults() -> None:
    text = (
        "```console\n$ A=1 vllm serve M --x \\\n    --y '{\"a\": 1}'\n"
        "$ vllm bench\n```\n"
    )
    assert documented.lines(text) == [["M", "--x", "--y", '{"a": 1}']]
    assert documented.in_manifest("services: {v: {command: ['${MODEL:-M}', --x]}}") == [
        ["M", "--x"]
    ]
    run = (
        "$ docker run --rm \\\n  --ipc host localhost/vllm-mtp-patches:v1-cuda \\\n"
        "  M --x\n"
    )
    assert documented.lines(run) == [["M", "--x"]]
    assert documented.lines(run.replace("M --x", "MODEL FLAGS")) == []
    found = documented.documented()
    assert {
        "README.md",
        "docs/serving.md",
        "docker/compose.yaml",
        "docker/kubernetes/vllm.yaml",
    } <= set(found)
    assert all(
        "--tool-call-parser" in " ".join(line)
        for some in found.values()
        for line in some
    )
