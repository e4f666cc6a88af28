# SPDX-License-Identifier: Apache-2.0
"""Image references, as engines write them: ``HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from patchset.errors import UsageError

#: OCI Distribution Specification, "Pulling manifests": names and tags.
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HOST = re.compile(r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::\d{1,5})?")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: The registry that a reference without a host means.
_DEFAULT_HOST = "docker.io"


@dataclass(frozen=True)
class Reference:
    """``host`` with its port, ``name`` of the repository, and a ``tag``, a ``digest``, both or none."""

    host: str
    name: str
    tag: str | None = None
    digest: str | None = None

    @property
    def plain(self) -> bool:
        """Whether the registry is on this machine, where registries speak http."""
        return re.fullmatch(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?", self.host) is not None

    @property
    def api(self) -> str:
        """The address at which the registry's paths begin."""
        host = "registry-1.docker.io" if self.host == _DEFAULT_HOST else self.host
        return f"{'http' if self.plain else 'https'}://{host}/v2/"

    @property
    def repository(self) -> str:
        """``HOST/NAME``."""
        return f"{self.host}/{self.name}"

    @property
    def wanted(self) -> str:
        """What to ask the registry for: the digest, else the tag, else ``latest``."""
        return self.digest or self.tag or "latest"

    def at(self, digest: str) -> Reference:
        """The same repository by digest."""
        return replace(self, tag=None, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"


def parse(text: str) -> Reference:
    """Read a reference; ``docker.io`` and ``library/`` are added where engines add them."""
    rest, at, digest = text.partition("@")
    first, slash, remainder = rest.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, rest = first, remainder
    else:
        host = _DEFAULT_HOST
    name, colon, tag = rest.partition(":")
    if host in (_DEFAULT_HOST, "index.docker.io"):
        host, name = _DEFAULT_HOST, name if "/" in name else f"library/{name}"
    if (
        not _HOST.fullmatch(host)
        or not _NAME.fullmatch(name)
        or len(name) > 255
        or (colon and not _TAG.fullmatch(tag))
        or (at and not DIGEST.fullmatch(digest))
    ):
        raise UsageError(
            f"{text[:200]!r} is not an image reference",
            "it looks like registry.example/team/vllm:v0.33.0 or registry.example/team/vllm@sha256:<64 hex digits>",
        )
    return Reference(host, name, tag or None, digest or None)
