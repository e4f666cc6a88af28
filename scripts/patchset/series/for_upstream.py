# SPDX-License-Identifier: Apache-2.0
"""A series as vLLM takes changes: ``git format-patch`` files, small changes first, proofs among vLLM's own tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from patchset import console, files, git, paths
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.release import Release
from patchset.series import order
from patchset.series.apply import ENTRY_TRAILER, STOCK_REF, locked_tree
from patchset.series.patch import Patch
from patchset.series.replay import index_over
from patchset.series.stock_tree import stock_tree

#: Where proofs go in vLLM's tests, and the one module that they share.
TESTS = "tests/parser/qwen_tool"
HARNESS = "harness"

#: What a proof uses that vLLM's tests cannot, and why.
STAYS = {
    "application": "sends requests to a server application with this project's scripted engine",
    "conformance": "sends requests to a server application with this project's scripted engine",
    "old_harness": "sends requests to a server application with this project's scripted engine",
    "serving": "makes serving objects without their constructors, which tests/AGENTS.md rules out",
    "budget": "stands in for the model runner, which tests/AGENTS.md rules out",
    "VLLM_TREE": "looks at a source tree from outside",
}

#: What vLLM asks a test file to begin with.
_COPYRIGHT = (
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# SPDX-FileCopyrightText: Copyright contributors to the vLLM project\n"
)
#: Codes of docs/defects.md and numbers of vLLM's issues, in brackets.
_REFERENCES = re.compile(r" \(((?:docs/defects\.md:|[DE]\d+|vLLM issues?|\d{4,6}|to|[,;]| )+)\)")
#: How a reason names another patch of the series.
_PATCH = re.compile(r"\bthe patch ([a-z][a-z0-9-]*[a-z0-9])")
_NAME = re.compile(r"^[^<>\s]([^<>\n\r\0]*[^<>\s\0])?$")
_EMAIL = re.compile(r"^[^<>@\s\0]+@[^<>@\s\0]+$")

#: Without its folder, ruff does not see that the new package is vLLM's.
_OWN = 'lint.isort.known-first-party = ["tests", "vllm"]'

#: vLLM's own checks that need no network; those that a release does not have are left out.
_CHECKS = (
    ("-m", "ruff", "check", "--quiet", "--output-format", "concise"),
    ("-m", "ruff", "format", "--quiet", "--check"),
    ("tools/pre_commit/check_spdx_header.py",),
    ("tools/pre_commit/check_forbidden_imports.py",),
    ("tools/pre_commit/mypy.py", "local"),
)


def write(release: Release, name: str, email: str) -> Path:
    """Write the series into ``build/upstream/<release>``; its ``cover-letter.md`` is for whoever sends it."""
    if not _NAME.match(name) or not _EMAIL.match(email):
        raise UsageError(
            f"nobody can sign off as {name} <{email}>", "--name 'Jane Doe' --email jane@example.org"
        )
    folder = paths.build_dir() / "upstream" / release.name
    signer = f"{name} <{email}>"
    who = f"{signer} {release.source_date_epoch} +0000"
    patches = order.read(release)
    titles = {patch.name: _title(patch) for patch in patches}
    stay: dict[str, str] = {}
    with locked_tree(release) as tree, index_over(tree) as index:

        def commit(message: str, *parent: str) -> str:
            content = git.text(index, "write-tree")
            above = "".join(f"parent {one}\n" for one in parent)
            text = f"tree {content}\n{above}author {who}\ncommitter {who}\n\n{message}"
            return _stored(index, "commit", text)

        git.run(index, "read-tree", git.text(tree, "rev-parse", STOCK_REF))
        head = first = commit(f"vLLM {release.version}\n")
        ordered, waiting = [], list[str]()
        for patch in _ordered(index, tree, patches):
            ordered.append(titles[patch.name])
            waiting += _moving(patch, stay)
            tests: list[str] = []
            # A change that only adds files changes nothing yet: its tests come with the next one that uses them.
            if not all(file.is_added_file for file in patch.files):
                tests, waiting = list(dict.fromkeys(waiting)), []
            blobs = ((test, _stored(index, "blob", _test(tree, test))) for test in tests)
            added = "".join(f"100644 blob {blob}\t{TESTS}/{test}.py\n" for test, blob in blobs)
            git.run(index, "update-index", "--index-info", stdin=added.encode())
            head = commit(_message(patch, titles, tests, signer), head)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic_folder(folder) as temp:
            git.run(
                index, "format-patch", "--quiet", "--no-signature", "--zero-commit", "--full-index",
                "--numbered", "--output-directory", str(temp), f"{first}..{head}",
            )  # fmt: skip
            files.write_text(temp / "cover-letter.md", _cover_letter(release, ordered, stay))
    return folder


def check(release: Release, folder: Path) -> Path:
    """Put the series onto the stock source with ``git am``; ask vLLM's own linters about every file that it changes.

    Returns the tree that came out.
    """
    place = folder / "tree"
    with locked_tree(release) as patched, files.atomic_folder(place) as tree:
        git.run(tree, "clone", "--quiet", "--local", "--no-tags", str(stock_tree(release)), ".")
        git.run(tree, "am", "--quiet", "--keep-non-patch", *sorted(map(str, folder.glob("*.patch"))))
        git.run(tree, "fetch", "--quiet", str(patched), "HEAD")
        if others := git.text(tree, "diff", "--name-only", "FETCH_HEAD", "HEAD", "--", f":!{TESTS}"):
            raise PatchsetError(f"git am does not make the patched tree of {release.name}: {others}")
        changed = ("diff", "--name-only", "--diff-filter=d", "origin/HEAD", "HEAD", "--", "*.py")
        modules = git.text(tree, *changed).split("\n")
        for command in _CHECKS:
            if command[0] == "-m" or (tree / command[0]).is_file():
                with console.step(" ".join(command)):
                    _python(tree, *command, *modules)
    return place


def plain(reason: str) -> str:
    """A text without codes of this project, its issue numbers as vLLM writes them."""

    def issues(match: re.Match[str]) -> str:
        numbers = re.findall(r"\d{4,6}", re.sub(r"[DE]\d+", "", match[1]))
        return f" ({', '.join(f'#{number}' for number in numbers)})" if numbers else ""

    return _REFERENCES.sub(issues, reason)


def _title(patch: Patch) -> str:
    """A patch's subject below the tags that vLLM sorts changes by."""
    kind = "Perf" if patch.name.startswith(("linear-", "counter-")) else "Bugfix"
    folders = {folder for path in patch.paths for folder in path.split("/")}
    area = "Core" if folders & {"v1", "config"} else "Frontend"
    if folders & {"parser", "tool_parsers", "reasoning"}:
        area = "Parser"
    return f"[{kind}][{area}] {patch.subject}"


def _message(patch: Patch, titles: Mapping[str, str], tests: list[str], signer: str) -> str:
    """Title, reason, tests and sign-off; ``titles`` by the names of patches."""
    reason = plain(patch.header.get("Reason") or "")
    reason = _PATCH.sub(lambda match: f'"{titles.get(match[1], match[1])}"', reason)
    reason = textwrap.fill(reason, 72, break_on_hyphens=False)
    named = "\n".join(f"Test: {TESTS}/{test}.py" for test in tests if test.startswith("test_"))
    parts = [titles[patch.name], reason, named, f"Signed-off-by: {signer}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _ordered(index: Path, tree: Path, patches: list[Patch]) -> Iterator[Patch]:
    """Put the patches into the index: a small one before a large one, none before what it needs."""
    trailer = f"%(trailers:key={ENTRY_TRAILER},valueonly,separator=%x20)"
    listing = git.text(tree, "log", f"--format={trailer} %H", f"{STOCK_REF}..HEAD").splitlines()
    by_entry = dict(line.split(" ") for line in listing)
    left = sorted(patches, key=lambda patch: len(patch.diff))
    while left:
        now = git.text(index, "write-tree")
        for patch in left:
            if not any(_needs(patch, other) for other in left if other is not patch):
                git.run(index, "read-tree", now)
                diff = git.run(tree, "diff-tree", "-p", "--full-index", by_entry[patch.entry])
                if git.attempt(index, "apply", "--cached", "--3way", "-", stdin=diff)[0] == 0:
                    break
        else:
            raise PatchsetError(f"no order fits {', '.join(patch.name for patch in left)}")
        left.remove(patch)
        yield patch
    made, wanted = git.text(index, "write-tree"), git.text(tree, "rev-parse", "HEAD^{tree}")
    if others := git.text(index, "diff-tree", "-r", "--name-only", made, wanted, "--", ".", f":!{TESTS}"):
        raise PatchsetError(f"small patches first do not make the patched tree: {others}")


def _needs(patch: Patch, other: Patch) -> bool:
    """Whether a patch changes or imports a file that the other one adds."""
    added = {file.path for file in other.files if file.is_added_file}
    modules = (path.removesuffix(".py").replace("/", ".") for path in added)
    return not added.isdisjoint(patch.paths) or any(f"from {name} import" in patch.diff for name in modules)


def _moving(patch: Patch, stay: dict[str, str]) -> Iterator[str]:
    """The proofs of a patch that vLLM's tests can hold, with the modules that they need; others ``stay``, and why."""
    for proof in patch.header.proofs:
        place = paths.project_root() / proof
        nodes = list(ast.walk(ast.parse(place.read_text(encoding="utf-8"))))
        # The modules that it imports from, and its strings.
        words = {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        words |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
        if why := next((why for word, why in STAYS.items() if word in words), None):
            stay[proof] = why
        else:
            yield from ("__init__", *({HARNESS} & words), place.stem)


def _test(tree: Path, name: str) -> str:
    """A test as vLLM's ruff formats it."""
    if name == "__init__":
        return _COPYRIGHT
    source = (paths.project_root() / "tests" / "patches" / f"{name}.py").read_text(encoding="utf-8")
    package = TESTS.replace("/", ".")
    text = _COPYRIGHT + plain(source.partition("\n")[2])
    text = re.sub(rf"^from {HARNESS} import", f"from {package}.{HARNESS} import", text, flags=re.M)
    given = ("--quiet", "--stdin-filename", str(tree / TESTS / f"{name}.py"), "-")
    for command in (("check", "--fix-only", "--select", "I", "--config", _OWN), ("format",)):
        text = _python(tree, "-m", "ruff", *command, *given, stdin=text)
    return text


def _stored(index: Path, kind: str, text: str) -> str:
    """Store an object; its name."""
    return git.run(index, "hash-object", "-t", kind, "-w", "--stdin", stdin=text.encode()).decode().strip()


def _python(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run a module or script with this Python; what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, input=stdin, capture_output=True, text=True, check=False
    )
    if "No module named" in done.stderr:
        raise MissingToolError(done.stderr.strip(), "nox -s upstream installs what vLLM checks with")
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-4000:]
        raise PatchsetError(f"vLLM's own {' '.join(arguments[:3])} finds:\n{said}")
    return done.stdout


def _cover_letter(release: Release, titles: Sequence[str], stay: Mapping[str, str]) -> str:
    changes = "\n".join(f"{number}. {title}" for number, title in enumerate(titles, start=1))
    kept = "\n".join(f"- `{proof}`: it {why}." for proof, why in stay.items())
    place = release.folder / "upstream-tests.toml"
    tests = tomllib.loads(place.read_text(encoding="utf-8"))["test"] if place.is_file() else []
    contradicted = "\n".join(f"- `{test['name']}`: {test['reason']}." for test in tests)
    return f"""\
# {len(titles)} changes to vLLM {release.version}

Made for the sources of v{release.version}; `git am --keep-non-patch *.patch` puts them on. A change comes after those
that it needs, else a small one before a large one: each of the first ones can go as a pull request of its own.

{changes}

## Tests

`pytest {TESTS}` runs the tests that came along. The ones below stay in this project; what only they prove needs a test
through a real server before it is sent, as vLLM's `tests/AGENTS.md` asks:

{kept or "None."}

These tests of vLLM's own contradict the changes, and have to change with them:

{contradicted or "None."}

## Before you send one

vLLM's `AGENTS.md` asks whoever sends a change to look for one that is open already, to understand and answer for every
line, to run the tests and an evaluation of a model, and to say where AI helped.
"""
