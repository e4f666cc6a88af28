# SPDX-License-Identifier: Apache-2.0
"""A series as vLLM takes changes: git am makes the patched tree of it, and its tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import HEADER, Project, diff_line
from patchset.series.for_upstream import plain

SIGNER = ("--name", "Jane Doe", "--email", "jane@example.org")

MODULE = """\
diff --git a/pkg/reader.py b/pkg/reader.py
new file mode 100644
--- /dev/null
+++ b/pkg/reader.py
@@ -0,0 +1,42 @@
+def read():
+    return 1
""" + "".join(f"+# line {number}\n" for number in range(40))


def header(subject: str, reason: str = "a test needs it", proof: str = "test_one") -> str:
    return HEADER.format(subject=subject).replace("a test needs it", reason).replace("test_one", proof)


@pytest.fixture
def series(project: Project) -> Project:
    """A module, the hook that imports it, and a small change that stands alone."""
    for name, text in (
        ("test_module", '"""Reads (D4)."""\n\nfrom harness import call\n\nassert call\n'),
        ("test_server", "from serving import chat_chunks\n\nassert chat_chunks\n"),
        ("harness", "call = 1\n"),
    ):
        (project.root / "tests" / "patches" / f"{name}.py").write_text(
            f"# SPDX-License-Identifier: Apache-2.0\n{text}"
        )
    reason = (
        "It reads what others lose (docs/defects.md: D3 to D7; vLLM issues 34919, 33965), " + "word " * 20
    )
    project.add_patch(
        "module.diff", MODULE, header("Read it", reason + "before the patch hook.", "test_module")
    )
    hook = diff_line(20, "from pkg.reader import read")
    project.add_patch("hook.diff", hook, header("Use the reader", proof="test_server"))
    project.add_patch("small.diff", diff_line(5, "five"), header("Mend a line"))
    return project


def mails(project: Project) -> list[Path]:
    return sorted((project.root / "build" / "upstream" / "v1.2.0").glob("*.patch"))


def test_git_am_makes_the_patched_tree_and_its_tests(series: Project, tmp_path: Path) -> None:
    series.run("upstream", "v1.2.0", *SIGNER, "--no-check")
    stock = series.root / "build" / "trees" / "v1.2.0" / "stock"
    tree = tmp_path / "tree"
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
    subprocess.run(["git", "clone", "--quiet", stock, tree], check=True)
    subprocess.run(
        ["git", *identity, "am", "--quiet", "--keep-non-patch", *mails(series)], cwd=tree, check=True
    )
    for name in ("pkg/parser.py", "pkg/reader.py", "pkg/data.txt"):
        assert (tree / name).read_bytes() == (series.patched / name).read_bytes()
    log = subprocess.run(
        ["git", "log", "--reverse", "--format=%an %ae %s", "-3"], cwd=tree, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert log.stdout.splitlines() == [
        "Jane Doe jane@example.org [Bugfix][Frontend] Mend a line",
        "Jane Doe jane@example.org [Bugfix][Frontend] Read it",
        "Jane Doe jane@example.org [Bugfix][Frontend] Use the reader",
    ]
    tests = tree / "tests" / "parser" / "qwen_tool"
    assert {file.name for file in tests.iterdir()} == {
        "__init__.py",
        "harness.py",
        "test_module.py",
        "test_one.py",
    }
    moved = (tests / "test_module.py").read_text()
    assert "from tests.parser.qwen_tool.harness import call\n" in moved
    assert '"""Reads."""' in moved
    assert "Copyright contributors to the vLLM project" in moved


def test_a_test_comes_with_the_change_that_uses_the_code(series: Project) -> None:
    excepted = '[[test]]\nname = "tests/test_old.py::test_it"\nreason = "hook: reads another way"\n'
    (series.folder / "upstream-tests.toml").write_text(excepted)
    series.run("upstream", "v1.2.0", *SIGNER, "--no-check")
    small, module, hook = (file.read_text() for file in mails(series))
    assert "test_one.py" in small and "harness.py" not in small
    assert "qwen_tool" not in module
    assert "test_module.py" in hook and "harness.py" in hook
    letter = (mails(series)[0].parent / "cover-letter.md").read_text()
    assert "test_server.py" in letter and "test_module.py" not in letter
    assert "- `tests/test_old.py::test_it`: hook: reads another way." in letter


def test_the_message(series: Project) -> None:
    series.run("upstream", "v1.2.0", *SIGNER, "--no-check")
    message = mails(series)[1].read_text().partition("\n---\n")[0]
    assert "\nSigned-off-by: Jane Doe <jane@example.org>" in message
    assert "(#34919, #33965)" in message and "defects" not in message
    assert 'before "[Bugfix][Frontend] Use the reader".' in message
    assert max(map(len, message.split("\n\n", 1)[1].splitlines())) <= 72


def test_somebody_must_sign_off(series: Project) -> None:
    assert "--name" in series.run("upstream", "v1.2.0", "--email", "a@b.c", status=2).stderr
    done = series.run("upstream", "v1.2.0", "--name", "Jane", "--email", "nowhere", status=2)
    assert "nobody can sign off as Jane <nowhere>" in done.stderr
    assert not mails(series)


def test_plain() -> None:
    assert (
        plain("It is refused (400), as (D5) says (docs/defects.md: E8).") == "It is refused (400), as says."
    )
