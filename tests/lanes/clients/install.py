# SPDX-License-Identifier: Apache-2.0
"""Installs the pinned clients below a folder: npm's by package-lock.json, the Python
ones by hashed requirements.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from patchset import files, process
from patchset.errors import MissingToolError

HERE = Path(__file__).parent
#: In milliseconds. npm's own pauses are a quarter of an hour without a network.
NPM_PAUSES = {
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_fetch_retry_maxtimeout": "4000",
}
#: That of Qwen3.5's small models, which do not think unless asked; the large ones think
#: unless told not to.
TEMPLATE = HERE.parents[1] / "patches/templates/qwen35.jinja"
THINKING = "enable_thinking is defined and enable_thinking is true"
THINKING_UNLESS = "enable_thinking is not defined or enable_thinking is true"

#: Which thoughts it shows; all, if it is Qwen3.6's with ``preserve_thinking``.
SINCE_THE_QUESTION = "loop.index0 > last.query"


def install(folder: Path, environments: set[str], locks: Path = HERE) -> None:
    """Install what is not there yet: ``npm``, or a Python environment of that name,
    by the locks of a lane's folder.
    """
    for name in sorted(environments):
        lock = locks / ("package-lock.json" if name == "npm" else f"{name}.txt")
        digest = hashlib.sha256(lock.read_bytes()).hexdigest()
        place = folder / name
        mark = place / "installed"
        if mark.is_file() and mark.read_text() == digest:
            continue
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if name == "npm":
            if shutil.which("npm") is None:
                raise MissingToolError(
                    "npm is not installed",
                    "install Node.js 20 or newer, or name only Python clients",
                )
            for each in ("package.json", "package-lock.json"):
                shutil.copy(locks / each, place / each)
            # `npm ci` refuses a lock without the optional packages of other platforms;
            # `install` keeps to the lock, hashes included.
            command = "npm install --no-save --ignore-scripts --no-audit --no-fund"
            _run([*command.split(), "--loglevel=error"], place)
        else:
            _run([sys.executable, "-m", "venv", str(place)], place)
            pip = "install --quiet --no-deps --require-hashes"
            options = [*pip.split(), "--disable-pip-version-check", "-r", str(lock)]
            _run([str(place / "bin/pip"), *options], place)
        files.write_text(mark, digest)


def template(place: Path) -> None:
    text = TEMPLATE.read_text(encoding="utf-8").replace(THINKING, THINKING_UNLESS)
    files.write_text(place, text.replace(SINCE_THE_QUESTION, "true"))


def _run(argv: list[str], place: Path) -> None:
    print(f"installing into {place}: {' '.join(argv[:3])} …", flush=True)
    ours = ("PYTHONPATH", "PYTHONHOME")
    kept = {name: os.environ[name] for name in os.environ if name not in ours}
    process.run(argv, prefix=place.name, cwd=place, env=kept | NPM_PAUSES)
