# SPDX-License-Identifier: Apache-2.0
"""Registries, asked by skopeo: references, manifests, copies.

Logins are skopeo's own (``skopeo login``, ``REGISTRY_AUTH_FILE``). Plain HTTP is
used only for a registry on this machine.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from patchset import console, process
from patchset.errors import (
    MissingToolError,
    NotFoundError,
    UnavailableError,
    UsageError,
    tail,
)
from patchset.image import layout

# OCI Distribution Specification, "Pulling manifests"; a host has a dot or a port.
_WORD = r"[A-Za-z0-9-]+"
_HOST = rf"(?:localhost|{_WORD}(?:\.{_WORD})+|{_WORD}(?=:)|\[[0-9a-fA-F:]+\])(?::\d+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:({_HOST})/)?({_PART}(?:/{_PART})*)"
    rf"(?::([A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}))?(?:@({layout.DIGEST}))?"
)
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")
#: Seconds for one question, and for one copy of an image.
_PATIENCE, _COPY_PATIENCE = 120, 12 * 3600
_FATAL = re.compile(r'level=fatal msg="(.*)"')
_NOT_THERE = re.compile(r"manifest unknown|name unknown|NAME_UNKNOWN|not found", re.I)


@dataclass(frozen=True)
class Reference:
    """``HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]``."""

    host: str
    name: str
    tag: str | None = None
    digest: str | None = None

    def at(self, digest: str) -> Self:
        """Return the same repository by digest."""
        return replace(self, tag=None, digest=digest)

    def tagged(self, tag: str | None) -> Self:
        """Return the same repository by tag."""
        return replace(self, tag=tag, digest=None)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.name}{tag}{digest}"

    def words(self, option: str = "") -> list[str]:
        """Return the arguments of skopeo that name it, and how it is spoken to."""
        # skopeo takes a tag or a digest; of both, the digest decides.
        kept = replace(self, tag=None) if self.digest else self
        # A registry on loopback needs no certificate.
        tls = "false" if _LOOPBACK.fullmatch(self.host) else "true"
        return [f"--{option}tls-verify={tls}", f"docker://{kept}"]


def parse(text: str) -> Reference:
    """Read a reference; a name without a host is one of docker.io."""
    found = _REFERENCE.fullmatch(text)
    if not found or len(found[2]) > 255:
        # What precedes an @ may be a password.
        shown = "…@" + text.rpartition("@")[2] if "@" in text else text
        raise UsageError(
            f"{shown[-200:]!r} is not an image reference",
            "it looks like registry.example/team/vllm:v0.33.0",
        )
    host, name, tag, digest = found.groups()
    if host in (None, "docker.io") and "/" not in name:
        name = f"library/{name}"
    return Reference(host or "docker.io", name, tag, digest)


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


def look(reference: Reference) -> layout.Image:
    """Read an image's manifests and configurations; no layer is fetched."""

    def fetch(manifest: str, wanted: str) -> bytes:
        more = [] if manifest == wanted else ["--config"]
        return _inspect(reference.at(manifest), *more)

    return layout.read(raw(reference), str(reference), fetch)


def digest(reference: Reference) -> str | None:
    """Return the digest that a tag names; None if there is no such tag."""
    try:
        return layout.digest(raw(reference))
    except NotFoundError:
        return None


def stored(name: str) -> str | None:
    """Return the digest of an image in the store of podman and buildah; None without
    one.
    """
    argv = _skopeo(_PATIENCE, "inspect", "--raw", f"containers-storage:{name}")
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL)
    return None if done.returncode else layout.digest(done.stdout)


def today(text: str) -> str | None:
    """Return the digest of what a reference names today; None, and a note, without
    answer.
    """
    try:
        return layout.digest(raw(parse(text)))
    except (UnavailableError, MissingToolError) as error:
        console.note(f"  {text} is pinned by its tag alone: {error.message}")
        return None


def copy(
    source: Reference | str,
    target: Reference | str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Copy an image, every architecture of it, without a change of digests.

    A text is a place in skopeo's words, such as ``oci:image``, relative to ``cwd``.
    Blobs that the target has are not read from the source.
    """
    argv = ["copy", "--all", "--preserve-digests", "--retry-times=3"]
    argv += source.words("src-") if isinstance(source, Reference) else [source]
    argv += target.words("dest-") if isinstance(target, Reference) else [target]
    try:
        process.run(_skopeo(_COPY_PATIENCE, *argv), prefix="skopeo", cwd=cwd, env=env)
    except process.ProgramError as error:
        raise UnavailableError(
            f"skopeo could not copy {source} to {target}: {_cause(error.tail)}",
            "check the login (skopeo login REGISTRY), then run the same command again",
        ) from error


def _inspect(reference: Reference, *more: str) -> bytes:
    argv = _skopeo(_PATIENCE, "inspect", "--raw", *more, *reference.words())
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return done.stdout
    cause = _cause(done.stderr.decode(errors="replace"))
    if _NOT_THERE.search(cause):
        raise NotFoundError(f"there is no image {reference}", "check name and tag")
    raise UnavailableError(
        f"cannot get {reference}: {cause}",
        "check the network and the login: skopeo login " + reference.host,
    )


def refuse_missing() -> None:
    """Say so if skopeo is not there."""
    if shutil.which("skopeo") is None:
        raise MissingToolError(
            "skopeo is not installed", "install it: sudo apt-get install skopeo"
        )


def _skopeo(patience: int, *arguments: str) -> list[str]:
    refuse_missing()
    return ["skopeo", f"--command-timeout={patience}s", *arguments]


def _cause(text: str) -> str:
    said = _FATAL.search(text)
    text = (said[1] if said else text).replace('\\"', '"').strip()
    return tail(text.partition('": ')[2] or text, 500)
