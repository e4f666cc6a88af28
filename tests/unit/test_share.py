# SPDX-License-Identifier: Apache-2.0
"""One diff for several releases, where it makes the same of each."""

from __future__ import annotations

import pytest

from conftest import HEADER, PARSER, Project, diff_line, make_sdist, release_toml

HEAD = "new first line\n"


@pytest.fixture
def three(project: Project) -> Project:
    """v1.2.0, v1.3.0 with four more lines before the hook, and v1.4.0 whose context is another; own diffs in each."""
    project.add_patch("hook.diff", diff_line(20, "twenty"), HEADER.format(subject="hook"))
    for version, parser, diff in (
        ("1.3.0", HEAD * 4 + PARSER, diff_line(20, "twenty").replace("-17,7 +17,7", "-21,7 +21,7")),
        (
            "1.4.0",
            PARSER.replace("line 22\n", "their 22\n"),
            diff_line(20, "twenty").replace(" line 22\n", " their 22\n"),
        ),
    ):
        sdist = make_sdist(project.downloads, {"pkg/parser.py": parser}, version)
        folder = project.root / "patches" / f"v{version}"
        folder.mkdir()
        (folder / "release.toml").write_text(release_toml(sdist, version, default=False))
        (folder / "hook.diff").write_text(HEADER.format(subject="hook") + "\n" + diff)
        (folder / "series").write_text("hook.diff\n")
    project.run("refresh", "--all")
    return project


def series(project: Project) -> list[str]:
    return [(project.root / f"patches/v1.{n}.0/series").read_text().strip() for n in (2, 3, 4)]


def sums(project: Project) -> list[str]:
    return [(project.root / f"patches/v1.{n}.0/patched-files.sha256").read_text() for n in (2, 3, 4)]


def test_releases_share_a_diff_that_makes_the_same(three: Project) -> None:
    before = sums(three)
    done = three.run("share", "hook", "--dry-run")
    assert done.stdout.splitlines() == ["hook: one diff for v1.4.0", "hook: one diff for v1.2.0, v1.3.0"]
    assert series(three) == ["hook.diff"] * 3
    three.run("share")
    assert series(three) == ["extra/hook.diff", "extra/hook.diff", "hook.diff"]
    assert "\nReleases: v1.2.0, v1.3.0\n" in (three.root / "patches/extra/hook.diff").read_text()
    assert not (three.folder / "hook.diff").exists()
    assert sums(three) == before
    three.run("lint")
    for release in ("v1.2.0", "v1.3.0", "v1.4.0"):
        three.run("apply", release)
    assert not three.run("refresh", "--all").stdout


def test_less_context_fits_more_releases(three: Project) -> None:
    three.run("share", "hook", "--context", "1")
    assert series(three) == ["extra/hook.diff"] * 3
    assert "Releases: v1.2.0 to v1.4.0" in (three.root / "patches/extra/hook.diff").read_text()
    three.run("apply", "v1.4.0")


def test_several_shared_diffs_are_told_apart_by_their_oldest_release(three: Project) -> None:
    sdist = make_sdist(
        three.downloads, {"pkg/parser.py": HEAD + PARSER.replace("line 22\n", "their 22\n")}, "1.5.0"
    )
    folder = three.root / "patches/v1.5.0"
    folder.mkdir()
    (folder / "release.toml").write_text(release_toml(sdist, "1.5.0", default=False))
    (folder / "series").write_text("hook.diff\n")
    (folder / "hook.diff").write_bytes((three.root / "patches/v1.4.0/hook.diff").read_bytes())
    three.run("refresh", "--all")
    three.run("share", "hook")
    assert series(three) == ["extra/hook-v1.2.0.diff"] * 2 + ["extra/hook-v1.4.0.diff"]
    three.run("apply", "v1.5.0", "--upto", "hook")
    three.run("lint")


def test_unknown_patch(three: Project) -> None:
    assert "no release has a patch called nonsense" in three.run("share", "nonsense", status=2).stderr
