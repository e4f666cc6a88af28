# SPDX-License-Identifier: Apache-2.0
"""Git, run so that no configuration of the user's machine changes what comes out."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from patchset import files, process
from patchset.errors import MissingToolError, PatchsetError, UnavailableError, tail

#: The committer in the trees. Fixed, so that equal trees have equal commit ids.
IDENTITY = ("vllm-mtp-patches", "vllm-mtp-patches@localhost")

_UNWRITTEN = re.compile(r"unable to|cannot|could ?n[o']t|failed to|write error", re.I)

#: What a repository begins with: no hooks, and what overrides ``.gitattributes``.
_TEMPLATE = Path(__file__).with_name("git_template")
#: Bound of one git command, in seconds.
TIMEOUT = 900.0

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
    # A remote that sends less than this for a minute is given up.
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    # The folders may be somebody else's, as in a container; they run nothing.
    ("safe.directory", "*"),
)


class GitError(PatchsetError):
    """A git command failed; ``stderr`` has its words."""

    def __init__(self, arguments: tuple[str, ...], stderr: str) -> None:
        words = tail(stderr, 2000) or "it said nothing"
        super().__init__(f"git {' '.join(arguments[:3])} failed: {words}")
        self.stderr = stderr


def run(
    folder: Path,
    *arguments: str,
    stdin: bytes | None = None,
    epoch: int | None = None,
) -> bytes:
    """Run git in ``folder`` and return what it prints.

    ``epoch`` (seconds since 1970) dates a commit that the command makes.

    Raises:
        MissingToolError: git is not installed.
        NoSpaceError: the disk is full.
        UnavailableError: it did not end in time.
        GitError: it exits with another status than 0.
    """
    status, out, err = _start(folder, arguments, stdin, epoch)
    if status != 0:
        raise failure(folder, arguments, err.decode(errors="replace"))
    return out


def commit(folder: Path, message: str, epoch: int) -> None:
    """Commit what is in the index, dated ``epoch``."""
    run(folder, "commit", "--quiet", "--no-verify", "-m", message, epoch=epoch)


def failure(folder: Path, arguments: tuple[str, ...], words: str) -> PatchsetError:
    """Return the error for a git command that failed, whose words may tell of a full
    disk.
    """
    # Git does not always say why it cannot write.
    unwritten = _UNWRITTEN.search(words) and shutil.disk_usage(folder).free < 1 << 20
    if unwritten or files.tells_of_no_space(words):
        return files.full_disk(folder)
    return GitError(arguments, words)


def attempt(
    folder: Path,
    *arguments: str,
    stdin: bytes | None = None,
    epoch: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run git, whatever its exit status."""
    status, *said = _start(folder, arguments, stdin, epoch)
    out, err = (words.decode(errors="replace") for words in said)
    return subprocess.CompletedProcess(arguments, status, out, err)


def text(folder: Path, *arguments: str) -> str:
    """Return what git prints, as text without the last newline."""
    return run(folder, *arguments).decode(errors="replace").removesuffix("\n")


def blob_id(content: bytes) -> str:
    """Return the name of a file's content in git's object store (sha1)."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _start(
    folder: Path,
    arguments: tuple[str, ...],
    stdin: bytes | None,
    epoch: int | None,
) -> tuple[int, bytes, bytes]:
    name, mail = IDENTITY
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("GIT_")
    } | {
        "GIT_TEMPLATE_DIR": str(_TEMPLATE),
        # Not ext:: and fd::, which run programs or wait for ever.
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
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
        date = f"@{epoch} +0000"
        environment |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    settings = [part for key, value in _SETTINGS for part in ("-c", f"{key}={value}")]
    try:
        child = subprocess.Popen(
            ["git", *settings, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            process_group=0,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if not folder.is_dir():
            raise PatchsetError(
                f"{folder} is not a folder", "run the command again"
            ) from error
        raise MissingToolError(
            "git is not installed", "install it: apt-get install git"
        ) from error
    with child:
        try:
            out, err = child.communicate(stdin, TIMEOUT)
        except BaseException as error:
            process.end(child)
            if isinstance(error, subprocess.TimeoutExpired):
                raise UnavailableError(
                    f"git {' '.join(arguments[:2])} did not end in {TIMEOUT:.0f} s",
                    "look at the remote or the disk, then run the same command again",
                ) from error
            raise
    return child.returncode, out, err
