# SPDX-License-Identifier: Apache-2.0
"""Registries, asked by skopeo: references, manifests, copies.

Logins are skopeo's own (``skopeo login``, ``REGISTRY_AUTH_FILE``). Only a registry on
this machine may be spoken to over plain http.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from patchset import process
from patchset.errors import (
    MissingToolError,
    NotFoundError,
    UnavailableError,
    UsageError,
)
from patchset.image import layout
from patchset.image.layout import DIGEST, Image

# OCI Distribution Specification, "Pulling manifests".
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_WORD = r"[A-Za-z0-9-]+"
_HOST = re.compile(rf"(?:{_WORD}(?:\.{_WORD})*|\[[0-9a-fA-F:]+\])(?::\d{{1,5}})?")
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")
#: Seconds for one question, and for one copy of an image.
_PATIENCE, _COPY_PATIENCE = 120, 12 * 3600
_FATAL = re.compile(r'level=fatal msg="(.*)"')
_DENIED = re.compile(r"unauthorized|denied|authentication required", re.I)
_NOT_THERE = re.compile(r"manifest unknown|name unknown|NAME_UNKNOWN|not found", re.I)


@dataclass(frozen=True)
class Reference:
    """``HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]``."""

    host: str
    name: str
    tag: str | None = None
    digest: str | None = None

    @property
    def repository(self) -> str:
        """``HOST/NAME``."""
        return f"{self.host}/{self.name}"

    @property
    def loopback(self) -> bool:
        """Whether the registry is on this machine."""
        return _LOOPBACK.fullmatch(self.host) is not None

    def at(self, digest: str) -> Reference:
        """The same repository by digest."""
        return replace(self, tag=None, digest=digest)

    def tagged(self, tag: str) -> Reference:
        """The same repository by tag."""
        return replace(self, tag=tag, digest=None)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"

    @property
    def _words(self) -> str:
        # skopeo takes a tag or a digest; of both, the digest decides.
        kept = replace(self, tag=None) if self.digest else self
        return f"docker://{kept}"

    @property
    def _verify(self) -> str:
        return "false" if self.loopback else "true"


def parse(text: str) -> Reference:
    """Read a reference; a name without a host is one of docker.io."""
    rest, at, digest = text.partition("@")
    first, slash, remainder = rest.partition("/")
    host = "docker.io"
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, rest = first, remainder
    name, colon, tag = rest.partition(":")
    if host == "docker.io" and "/" not in name:
        name = f"library/{name}"
    if (
        not _HOST.fullmatch(host)
        or not _NAME.fullmatch(name)
        or len(name) > 255
        or (colon and not _TAG.fullmatch(tag))
        or (at and not DIGEST.fullmatch(digest))
    ):
        # What precedes an @ may be a password.
        shown = "…@" + text.rpartition("@")[2] if at else text
        raise UsageError(
            f"{shown[-200:]!r} is not an image reference",
            "it looks like registry.example/team/vllm:v0.33.0",
        )
    return Reference(host, name, tag or None, digest or None)


def raw(reference: Reference) -> bytes:
    """Fetch the manifest or index that a reference names, as the registry holds it.

    Raises:
        NotFoundError: The registry has no such image.
        UnavailableError: The registry does not answer, or refuses.
    """
    content = _inspect(reference)
    if reference.digest and layout.digest(content) != reference.digest:
        raise UnavailableError(
            f"{reference.host} sends something else for {reference}",
            "try again; if it stays so, the registry or a proxy is corrupt",
        )
    return content


def look(reference: Reference) -> Image:
    """Read an image's manifests and configurations; no layer is fetched."""

    def config(manifest: str, _: str) -> bytes:
        return _inspect(reference.at(manifest), "--config")

    return layout.read(
        raw(reference), str(reference), lambda wanted: raw(reference.at(wanted)), config
    )


def digest(reference: Reference) -> str | None:
    """Return the digest that a tag names; None if there is no such tag."""
    try:
        return layout.digest(raw(reference))
    except NotFoundError:
        return None


def copy(
    source: Reference | str, target: Reference | str, *, cwd: Path | None = None
) -> None:
    """Copy an image, every architecture of it, without a change of digests.

    A text is a place in skopeo's words, such as ``oci:image:NAME``, relative to ``cwd``.
    Blobs that the target has are not read from the source.
    """
    _installed()
    argv = ["skopeo", f"--command-timeout={_COPY_PATIENCE}s", "copy", "--all"]
    argv += ["--preserve-digests", "--retry-times=3"]
    words = []
    for place, side in ((source, "src"), (target, "dest")):
        if isinstance(place, Reference):
            argv.append(f"--{side}-tls-verify={place._verify}")
        words.append(place._words if isinstance(place, Reference) else place)
    try:
        process.run([*argv, *words], prefix="skopeo", cwd=cwd)
    except process.ProgramError as error:
        said = _FATAL.search(error.tail)
        cause = _cause(said[1] if said else error.tail)
        hint = "run the same command again: it goes on where it was"
        if _DENIED.search(cause):
            hint = "log in: skopeo login REGISTRY"
        raise UnavailableError(
            f"skopeo could not copy {_shown(source)} to {_shown(target)}: {cause}", hint
        ) from error


def _shown(place: Reference | str) -> str:
    return str(place) if isinstance(place, Reference) else "the image"


def _inspect(reference: Reference, *more: str) -> bytes:
    _installed()
    argv = ["skopeo", f"--command-timeout={_PATIENCE}s", "inspect", "--raw", *more]
    argv += [f"--tls-verify={reference._verify}", reference._words]
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return done.stdout
    words = done.stderr.decode(errors="replace")
    said = _FATAL.search(words)
    cause = _cause(said[1] if said else words)
    if _NOT_THERE.search(cause):
        raise NotFoundError(f"there is no image {reference}", "check name and tag")
    raise UnavailableError(
        f"{reference.host} gives no {reference}: {cause}",
        "check the network and the login: skopeo login " + reference.host,
    )


def _cause(text: str) -> str:
    """The end of skopeo's message, where the cause is."""
    text = text.replace('\\"', '"').strip()
    return (
        text.removeprefix("Error parsing image name ").partition('": ')[2][-500:]
        or (text[-500:])
    )


def _installed() -> None:
    if shutil.which("skopeo") is None:
        raise MissingToolError(
            "skopeo is not installed", "install it: sudo apt-get install skopeo"
        )
