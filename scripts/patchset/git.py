# SPDX-License-Identifier: Apache-2.0
"""Git, run so that no configuration of the user's machine changes what comes out."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from patchset import files
from patchset.errors import MissingToolError, PatchsetError

#: Who commits in the trees. Fixed, so that equal trees have equal commit ids everywhere.
IDENTITY = ("vllm-mtp-patches", "vllm-mtp-patches@localhost")

_SETTINGS = (
    ("core.autocrlf", "false"),
    ("core.quotePath", "false"),
    ("core.fileMode", "true"),
    ("commit.gpgSign", "false"),
    ("gc.auto", "0"),
    ("init.defaultBranch", "main"),
    ("advice.detachedHead", "false"),
    # Where git looks on its own, whatever GIT_CONFIG_GLOBAL says.
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    # Programs and views that the repository itself may ask for.
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("status.showUntrackedFiles", "normal"),
    # The checkout and the build folder may be somebody else's, as in a container; with the above they run nothing.
    ("safe.directory", "*"),
)


class GitError(PatchsetError):
    """A git command failed; ``stderr`` has its words."""

    def __init__(self, arguments: tuple[str, ...], stderr: str) -> None:
        super().__init__(f"git {' '.join(arguments[:3])} failed: {stderr.strip()[-2000:]}")
        self.stderr = stderr


def run(folder: Path, *arguments: str, stdin: bytes | None = None, epoch: int | None = None) -> bytes:
    """Run git in ``folder`` and return what it prints.

    ``epoch`` (seconds since 1970) dates a commit that the command makes.

    Raises:
        MissingToolError: git is not installed.
        PatchsetError: the disk is full.
        GitError: it exits with another status than 0.
    """
    done = _start(folder, arguments, stdin, epoch)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace")
        # Git does not say why it cannot write a file that it checks out: with less than 16 MiB free, the disk is full.
        unwritten = "unable to write file" in words and shutil.disk_usage(folder).free < 16 << 20
        if unwritten or files.tells_of_no_space(words):
            # A folder that is being made has a name of its own.
            raise files.full_disk(folder.parent if folder.name.startswith(files.TEMP_PREFIX) else folder)
        raise GitError(arguments, words)
    return done.stdout


def attempt(folder: Path, *arguments: str, stdin: bytes | None = None) -> tuple[int, str]:
    """Run git and return its exit status and what it says on standard error."""
    done = _start(folder, arguments, stdin)
    return done.returncode, done.stderr.decode(errors="replace")


def blob_id(content: bytes) -> str:
    """The name that git gives to a file's content (sha1, as in its object store)."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def name_remote(repository: Path, address: str) -> None:
    """Call a remote "origin" in a bare repository, or in a ``.git`` folder; an address with credentials would be seen by
    everybody as an argument of a program."""
    if any(ord(sign) < 32 for sign in address):
        raise PatchsetError("the address of a git remote has a control character", "mend it in release.toml")
    quoted = address.replace("\\", "\\\\").replace('"', '\\"')
    with (repository / "config").open("a", encoding="utf-8") as config:
        config.write(f'[remote "origin"]\n\turl = "{quoted}"\n')


def text(folder: Path, *arguments: str) -> str:
    """What git prints, as text without the last newline."""
    return run(folder, *arguments).decode().removesuffix("\n")


def _start(
    folder: Path, arguments: tuple[str, ...], stdin: bytes | None, epoch: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    name, mail = IDENTITY
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
    }
    if epoch is not None:
        environment |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{epoch} +0000")
    settings = [part for key, value in _SETTINGS for part in ("-c", f"{key}={value}")]
    try:
        return subprocess.run(
            ["git", *settings, *arguments], cwd=folder, input=stdin, capture_output=True, env=environment
        )
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise PatchsetError(f"{folder} is not a folder") from error
        raise MissingToolError("git is not installed", "install it: apt-get install git") from error
