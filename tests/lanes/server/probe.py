#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ask a running server whether Qwen tool calls arrive whole: ``probe.py URL``.

One file on the standard library alone. It makes about 30 short requests and changes
nothing: twelve force the model, by a regular expression, to write a text that is known,
so that what must arrive is known too. A key is taken from ``OPENAI_API_KEY``, and is
sent to that URL alone. Exit status: 0 all arrived whole; 1 something did not; 3 nothing
could be judged.
"""

import argparse
import http.client
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import urlsplit

#: Bytes of an answer, seconds for it, requests at once.
MOST, PATIENCE, AT_ONCE = 8 << 20, 60, 4
#: Tokens of an answer; of one that is to be cut inside its second value.
LONG, CUT = 600, 45


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """Return a tool as a request has it; its properties are JSON schemas."""
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def written(name: str, **values: str) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


STRING = {"type": "string"}
EDITS = {"anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "null"}]}
TOOLS = [
    tool("write", path=STRING, content=STRING),
    tool("bash", command=STRING),
    tool("edit", edits=EDITS),
]
QUOTED = written("bash", command="rm -rf build")
PROSE = f"Write `{QUOTED}`, I think."
SEPARATOR = "\u2028"
#: What a line of a stream carries, but for its end; an error that breaks it off.
DATA = re.compile(r"(?m)^data:(?! ?\[DONE\])(.*\S)")
BROKEN = re.compile(rb'(?m)^data: ?(\{"error".*\S)')


class Case(NamedTuple):
    """What the model is made to write, and what must arrive.

    ``calls`` are names and arguments; None: a call that is cut, so that nothing that
    parses may arrive.
    """

    name: str
    text: str
    content: str
    calls: "list[tuple[str, dict[str, Any]]] | None"


def file(name: str, content: str) -> Case:
    text = written("write", path="a.md", content=content)
    return Case(name, text, "", [("write", {"path": "a.md", "content": content})])


CASES = [
    file("an ordinary call", f"one\ntwo{SEPARATOR}three"),
    file("a closing tag in a value", "Say </function> b, then\n</parameter> c."),
    file("a call quoted in a value", f"To clean up:\n{QUOTED}\nNever on a branch."),
    Case("a call quoted in an answer", PROSE, PROSE, []),
    Case(
        "a list of edits, with raw newlines",
        written("edit", edits='[{"old": "a\n b", "new": "c"}]'),
        "",
        [("edit", {"edits": [{"old": "a\n b", "new": "c"}]})],
    ),
    Case(
        "a call that max_tokens cuts",
        written("bash", command=f"rm -rf build/{'cache/' * 60}"),
        "",
        None,
    ),
]


#: What no answer raises, and one of another form.
NO_ANSWER = (
    OSError,
    http.client.HTTPException,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


class Answer(NamedTuple):
    content: str
    calls: list[tuple[str, str]]
    finish: str
    tokens: list[int]


class Server:
    """A server by its URL, without or with ``/v1``."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        secure = parts.scheme == "https"
        self.kind = (
            http.client.HTTPSConnection if secure else http.client.HTTPConnection
        )
        self.place = parts.netloc.rpartition("@")[2]
        self.base = parts.path.rstrip("/").removesuffix("/v1")
        self.headers = {"Content-Type": "application/json"}
        self.key = os.environ.get("OPENAI_API_KEY", "").strip()
        if self.key:
            self.headers["Authorization"] = f"Bearer {self.key}"
        self.model = ""

    def ask(self, path: str, body: "dict[str, Any] | None" = None) -> tuple[int, bytes]:
        """Return the status and the answer to a GET, or to a POST of ``body``."""
        connection = self.kind(self.place, timeout=PATIENCE)
        try:
            data = None if body is None else json.dumps({"model": self.model, **body})
            method = "GET" if body is None else "POST"
            connection.request(method, self.base + path, data, self.headers)
            response = connection.getresponse()
            return response.status, response.read(MOST)
        finally:
            connection.close()

    def json(self, path: str, body: "dict[str, Any] | None" = None) -> Any:
        """Return the object that answers with 200 as JSON; else an empty one."""
        status, answer = self.ask(path, body)
        try:
            told = json.loads(answer) if status == 200 else {}
        except (ValueError, RecursionError):
            told = {}
        return told if isinstance(told, dict) else {}


def read(body: bytes, *, streamed: bool) -> Answer:
    """Read a chat completion; one of NO_ANSWER for another form."""
    text = body.decode("utf-8-sig", "replace")
    lines = DATA.findall(text) if streamed else [text]
    content, finish, tokens = "", "", list[int]()
    calls: dict[int, list[str]] = {}
    if not lines:
        raise ValueError
    for line in lines:
        for choice in json.loads(line)["choices"]:
            part = choice["delta" if streamed else "message"]
            content += part.get("content") or ""
            finish = choice.get("finish_reason") or finish
            tokens += choice.get("token_ids") or []
            for number, call in enumerate(part.get("tool_calls") or []):
                made = calls.setdefault(call.get("index", number), ["", ""])
                made[0] += call["function"].get("name") or ""
                made[1] += call["function"].get("arguments") or ""
    ordered = [(made[0], made[1]) for _, made in sorted(calls.items())]
    return Answer(content, ordered, finish, tokens)


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def faults(case: Case, answer: Answer) -> str:
    """Return what did not arrive whole, in words; nothing where all did."""
    calls = [(name, parsed(arguments)) for name, arguments in answer.calls]
    if case.calls is None:
        whole = [name for name, arguments in calls if arguments is not None]
        return f"half a call arrives as a whole one: {whole[0]}" if whole else ""
    names, wanted = [name for name, _ in calls], [name for name, _ in case.calls]
    if names != wanted:
        return f"calls {', '.join(names) or 'nothing'}, not {wanted or 'nothing'}"
    for number, (name, arguments) in enumerate(case.calls):
        if (got := calls[number][1]) != arguments:
            what = "is no JSON" if got is None else "has other arguments"
            return f"{name} {what}: {answer.calls[number][1][:90]!r}"
    if case.content.strip() != answer.content.strip():
        return f"the answer's text is {answer.content[:90]!r}"
    return ""


def judge(server: Server, case: Case, streamed: bool) -> tuple[str, str, bytes]:
    """Ask a case; return ``right``, ``WRONG`` or ``open``, why, and the answer."""
    order = "Write exactly the following text, and nothing else:\n\n"
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": order + case.text}],
        "tools": TOOLS,
        "temperature": 0,
        "max_tokens": CUT if case.calls is None else LONG,
        "stream": streamed,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    regex = re.sub(r"([\\.^$*+?{}()|\[\]])", r"\\\1", case.text)
    grammar = {"structured_outputs": {"regex": regex}}
    status, got = server.ask("/v1/chat/completions", {**body, **grammar})
    forced = status == 200
    if not forced:  # the model may still write what it is told to
        status, got = server.ask("/v1/chat/completions", body)
    if status != 200:
        # Some gateways say which key they refuse.
        said = got.decode(errors="replace").replace(server.key or "\0", "***")
        return "open", f"it answers {status}: {said[:150]}", got
    if broken := BROKEN.search(got):
        return (
            "WRONG",
            f"the stream ends: {broken[1][:150].decode(errors='replace')}",
            got,
        )
    answer = read(got, streamed=streamed)
    seen = server.json("/detokenize", {"tokens": answer.tokens}).get("prompt") or ""
    wrote = re.sub(r"(<\|\w+\|>\s*)+$", "", seen).rpartition("</think>")[2].strip()
    # Some servers say that a call is whole which max_tokens has cut.
    cut = wrote != case.text and case.text.startswith(wrote)
    if not (cut if case.calls is None else wrote in ("", case.text)) or not (
        wrote or forced
    ):
        return "open", f"the model was not forced, and wrote {wrote[:60]!r}", got
    why = faults(case, answer)
    return ("WRONG" if why else "right"), why, got


def tried(server: Server, *asked: Any) -> tuple[str, str, bytes]:
    """Judge a case; one that gets no answer leaves the others theirs."""
    try:
        return judge(server, *asked)
    except NO_ANSWER as error:
        return "open", f"no answer that can be read: {type(error).__name__}", b""


def user(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


#: Requests that some patches make a server take, by the patch's name.
TAKEN = {
    "late-system-messages": (
        "/v1/chat/completions",
        {
            "messages": [user("a"), user("b", "assistant"), user("c", "system")],
            "max_tokens": 1,
        },
    ),
    "responses-message-parts": (
        "/v1/responses",
        {
            "input": [
                user("a"),
                user("", "assistant")
                | {"content": [{"type": "refusal", "refusal": "no"}]},
                user("b"),
            ],
            "max_output_tokens": 1,
        },
    ),
}


def what_runs(server: Server, escapes: bool) -> list[str]:
    """Return lines: the release, the drafts, and the patches that can be told."""
    version = str(server.json("/version").get("version") or "not said")
    ours = "; its wheel or image has the patches" if "+mtp." in version else ""
    metrics = server.ask("/metrics")[1].decode(errors="replace")
    positions = re.findall(r'(?m)^vllm:spec_decode.*per_pos.*position="(\d+)"', metrics)
    drafts = f"{max(map(int, positions)) + 1} a step" if positions else "none seen"
    taken = {name: server.ask(*request)[0] == 200 for name, request in TAKEN.items()}
    taken["sse-line-separators"] = escapes
    told = [f"{name} {'yes' if yes else 'no'}" for name, yes in taken.items()]
    return [
        f"release   vLLM {version}{ours}",
        f"drafts    {drafts}",
        f"patches   it behaves as with: {', '.join(told)}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", help="as http://127.0.0.1:8000, with or without /v1")
    parser.add_argument("--model", help="default: the first that it serves")
    given = parser.parse_args()
    try:
        server = Server(given.url)
        models = server.json("/v1/models").get("data") or [{"id": ""}]
        server.model = given.model or models[0]["id"]
        asked = [(case, streamed) for case in CASES for streamed in (False, True)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            told = list(pool.map(lambda one: tried(server, *one), asked))
    except NO_ANSWER as error:
        # Not what may hold a key or a password.
        why = repr(error) if isinstance(error, OSError) else type(error).__name__
        place = re.sub(r"^.*@|[?].*", "", given.url)
        print(f"{place} gives no answer that can be read: {why}", file=sys.stderr)
        return 3
    try:
        # A line separator of the first case is escaped, or is itself in the stream.
        escaped = told[1][0] == "right" and SEPARATOR.encode() not in told[1][2]
        lines = what_runs(server, escaped)
    except NO_ANSWER as error:
        lines = [f"release   no answer that can be read: {type(error).__name__}"]
    for number, (verdict, why, _) in enumerate(told):
        case, streamed = asked[number]
        how = "streamed" if streamed else "not streamed"
        lines.insert(number, f"{verdict:5}     {case.name}, {how}{why and ': '}{why}")
    right, wrong, left = (
        sum(verdict == kind for verdict, *_ in told)
        for kind in ("right", "WRONG", "open")
    )
    verdict = "calls do NOT arrive whole" if wrong else "calls arrive whole"
    verdict = verdict if right + wrong else "nothing could be judged"
    counts = f"{right} right, {wrong} wrong, {left} could not be forced"
    for line in (*lines, f"verdict   {verdict}: {counts}"):
        print("".join(c if " " <= c <= "~" else "?" for c in line))
    return 1 if wrong else 0 if right else 3


if __name__ == "__main__":
    sys.exit(main())
