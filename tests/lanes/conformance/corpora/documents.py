# SPDX-License-Identifier: Apache-2.0
"""Real documents that hold the format's tags: an agent writes, edits, quotes and
thinks the files of the default release's own source.

No text of them is kept: without that release's stock tree there are no cases.
"""

import random
import re
from collections.abc import Callable, Iterator

from conformance.case import Call, Case, Tool
from conformance.corpora.case import BOOLEAN, STRING, TOOLS, followed, make, tool
from patchset import paths
from patchset.release import load

SUFFIXES = {".jinja", ".json", ".md", ".py", ".rs", ".txt", ".yaml"}
#: Longer files would say the same again, and take a server minutes.
MOST_BYTES = 24_000
#: Lines that an edit, a patch or a quote holds, at most.
HUNK = 12

_TAG = re.compile(r"</?(?:tool_call>|function[=>]|parameter\b)")
_NAMES = re.compile(r"<function=([A-Za-z_]\w{0,40})>")
_KEYS = re.compile(r"<parameter=([A-Za-z_]\w{0,40})>")
# A model that writes of the end token spells it out; the tokenizer would not.
_END_TOKENS = re.compile(r"<\|(im_end|endoftext)\|>")

OWN = (
    *TOOLS,
    tool(
        "multi_edit",
        {"file_path": STRING, "edits": {"type": "array", "items": {"type": "object"}}},
    ),
    tool("apply_patch", {"patch": STRING}),
    tool("grep", {"pattern": STRING}, path=STRING, ignore_case=BOOLEAN),
)
NEXT = Call("bash", {"command": "git status"})
DONE = "\n\nThat is how it stands now."


def documents() -> Iterator[tuple[str, str]]:
    root = paths.trees_dir(load().name) / "stock"
    for path in sorted(root.rglob("*")):
        if (
            path.suffix in SUFFIXES
            and path.is_file()
            and path.stat().st_size <= MOST_BYTES
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            if _TAG.search(text) and "\ufffd" not in text:
                name = path.relative_to(root).as_posix()
                yield name, _END_TOKENS.sub(r"<|\1 |>", text)


def hunk(text: str, rng: random.Random) -> str:
    """Return some lines around one of the tags."""
    lines = text.split("\n")
    at = rng.choice([i for i, line in enumerate(lines) if _TAG.search(line)])
    first = max(0, at - rng.randint(0, HUNK // 2))
    return "\n".join(lines[first : max(at + 1, first + rng.randint(1, HUNK))])


def _tools(text: str) -> tuple[Tool, ...]:
    """Return an agent's tools, and those that the text calls: its quotes could run."""
    names = sorted({*_NAMES.findall(text)} - {one.name for one in OWN})[:8]
    keys = list(dict.fromkeys(_KEYS.findall(text)))[:8]
    quoted = dict.fromkeys(keys, STRING)
    return (*OWN, *(tool(name, {}, **quoted) for name in names))


def _here(head: str, text: str) -> str:
    return f"{head} <<'END_OF_FILE'\n{text}\nEND_OF_FILE"


#: Operations that pass a file's text, or a part of it, to a tool.
CALLS: dict[str, Callable[[str, str, str], Call]] = {
    "write, last": lambda name, text, part: Call(
        "write", {"file_path": name, "content": text}
    ),
    "write, first": lambda name, text, part: Call(
        "write", {"content": text, "file_path": name}
    ),
    "edit, new": lambda name, text, part: Call(
        "edit", {"file_path": name, "old_string": "TODO", "new_string": part}
    ),
    "edit, old": lambda name, text, part: Call(
        "edit", {"file_path": name, "old_string": part, "new_string": "(removed)"}
    ),
    "edit, both, all": lambda name, text, part: Call(
        "edit",
        {
            "file_path": name,
            "old_string": part,
            "new_string": f"{part}\n\nSee above.",
            "replace_all": True,
        },
    ),
    "edits in a list": lambda name, text, part: Call(
        "multi_edit",
        {
            "file_path": name,
            "edits": [{"old": part, "new": ""}, {"old": "a", "new": part}],
        },
    ),
    "patch": lambda name, text, part: Call(
        "apply_patch",
        {
            "patch": f"--- a/{name}\n+++ b/{name}\n@@ -1,3 +1,4 @@\n"
            + "\n".join(
                f"{mark}{line}"
                for line, mark in zip(part.split("\n"), " +- +- +- +- +-", strict=False)
            )
            + "\n"
        },
    ),
    "heredoc, described": lambda name, text, part: Call(
        "bash",
        {"command": _here(f"cat > {name}", text), "description": f"Write {name}"},
    ),
    "append": lambda name, text, part: Call(
        "bash", {"command": _here(f"cat >> {name}", part)}
    ),
    "grep": lambda name, text, part: Call(
        "grep",
        {"pattern": _TAG.search(part)[0], "path": name},  # type: ignore[index]
    ),
    "grep, a line": lambda name, text, part: Call(
        "grep",
        {"pattern": next(x for x in part.split("\n") if _TAG.search(x)), "path": name},
    ),
    "commit": lambda name, text, part: Call(
        "bash",
        {
            "command": f"git commit -m 'Say it in {name}' -m \"{part}\"",
            "description": "Commit",
        },
    ),
    "note": lambda name, text, part: Call(
        "note", {"title": name, "body": part, "tags": "docs"}
    ),
}

FOLLOWS: dict[str, tuple[str, tuple[Call, ...]]] = {
    "end": ("", ()),
    "prose": (DONE, ()),
    "call": ("\n", (NEXT,)),
}


def cases() -> Iterator[Case]:
    """Yield each operation on each file; what follows it is drawn."""
    for name, text in documents():
        rng = random.Random(name)
        tools = _tools(text)
        for operation, build in CALLS.items():
            call = build(name, text, hunk(text, rng))
            follows, behind = rng.choice([*FOLLOWS.items()])
            title = f"{operation} / {name} / {follows}"
            yield followed(title, call.rendered(), call, behind, tools=tools)
        yield from _said(name, text, rng, tools)


def _said(
    name: str, text: str, rng: random.Random, tools: tuple[Tool, ...]
) -> Iterator[Case]:
    """Yield parts that the answer or the reasoning holds, and a real call behind."""
    part = hunk(text, rng)
    line = next(x for x in part.split("\n") if _TAG.search(x)).strip()
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", part))])
    shown = {
        "answered in a fence": f"{name} says:\n\n{fence}\n{part}\n{fence}",
        "answered in backticks": f"{name} says {fence}{line}{fence} there.",
        "answered in a quote": f"{name} says:\n\n"
        + "\n".join(f"> {each}" for each in part.split("\n")),
    }
    for operation, said in shown.items():
        for follows, calls in (("prose", ()), ("prose and call", (NEXT,))):
            yield make(
                f"{operation} / {name} / {follows}",
                f"{said}{DONE}" + "".join(f"\n\n{call.rendered()}" for call in calls),
                calls,
                tools=tools,
                content=said + DONE,
            )
    if "think>" in part:  # it would end the reasoning
        return
    for operation, thought in (
        ("thought", f"{name} has this:\n{part}\nSo I look."),
        ("thought in backticks", f"{name} has {fence}{line}{fence}. So I look."),
    ):
        yield make(
            f"{operation} / {name} / call",
            f"{thought}\n</think>\n\n{NEXT.rendered()}",
            (NEXT,),
            tools=tools,
            content="",
            reasoning=thought,
            in_reasoning=True,
        )
