"""Installs the pinned clients below a folder: npm's by package-lock.json, the Python ones by hashed requirements."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from patchset import files, process
from patchset.errors import MissingToolError, PatchsetError

HERE = Path(__file__).parent
DEFAULT_RELEASE = "v0.33.0"
"""Its source has both chat templates."""

NPM_PAUSES = {
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_fetch_retry_maxtimeout": "4000",
}
"""In milliseconds. npm's own pauses are a quarter of an hour without a network."""

THINKING = "enable_thinking is defined and enable_thinking is true"
"""The source's template is that of the small models, which do not think unless asked; the large ones think unless told not to."""


def install(folder: Path, *, npm: bool, environments: set[str]) -> None:
    """Install what is not there yet: npm's packages, and the named Python environments (``python``, ``aider``)."""
    folder.mkdir(parents=True, exist_ok=True)
    if npm:
        _npm(folder / "npm")
    for name in sorted(environments):
        _python(folder / name, HERE / f"{name}.txt")


def templates(folder: Path, stock: Path) -> None:
    """Write the models' chat templates, out of the stock tree of the default release."""
    sources = {
        "qwen3.5": stock / "rust/src/chat/tests/templates/qwen35.jinja",
        "qwen3-coder": stock / "examples/tool_chat_template_qwen3coder.jinja",
    }
    folder.mkdir(parents=True, exist_ok=True)
    for model, source in sources.items():
        if not source.is_file():
            raise PatchsetError(
                f"{source} is missing",
                f"nox -s apply -- {DEFAULT_RELEASE} unpacks the templates' source",
            )
        text = source.read_text(encoding="utf-8")
        if model == "qwen3.5":
            if text.count(THINKING) != 1:
                raise PatchsetError(
                    f"{source} is not the template that the lane knows",
                    f"see THINKING in {__file__}",
                )
            text = text.replace(
                THINKING, "enable_thinking is not defined or enable_thinking is true"
            )
        (folder / f"{model}.jinja").write_text(text, encoding="utf-8")


def _npm(place: Path) -> None:
    if _current(place, lock := HERE / "package-lock.json"):
        return
    if shutil.which("npm") is None:
        raise MissingToolError(
            "npm is not installed",
            "install Node.js 20 or newer, or name only Python clients",
        )
    _fresh(place)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, place / name)
    # `npm ci` refuses a lock that lacks optional packages of other platforms; `install` keeps to the lock, hashes included.
    _run(
        [
            "npm",
            "install",
            "--no-save",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ],
        place,
    )
    _done(place, lock)


def _python(place: Path, lock: Path) -> None:
    if _current(place, lock):
        return
    _fresh(place)
    _run([sys.executable, "-m", "venv", str(place)], place)
    _run(
        [
            str(place / "bin/pip"),
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--disable-pip-version-check",
            "-r",
            str(lock),
        ],
        place,
    )
    _done(place, lock)


def _fresh(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def _current(place: Path, lock: Path) -> bool:
    mark = place / "installed"
    return mark.is_file() and mark.read_text() == _digest(lock)


def _done(place: Path, lock: Path) -> None:
    files.write_text(place / "installed", _digest(lock))


def _run(argv: list[str], place: Path) -> None:
    print(f"installing into {place}: {' '.join(argv[:3])} …", flush=True)
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")
    } | NPM_PAUSES
    process.run(argv, prefix=place.name, cwd=place, env=environment)
