# SPDX-License-Identifier: Apache-2.0
"""Package indexes, as pip is configured for them (PEP 503 and PEP 691 pages, find-links folders)."""

from __future__ import annotations

import ast
import contextlib
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from pip._internal.models.index import PyPI
from unearth import Link, PackageFinder
from unearth.fetchers import PyPIClient

from patchset.base import files
from patchset.base.errors import MissingToolError, NotFoundError, UnavailableError
from patchset.base.steady import steady

#: Where pip looks when nothing is configured; pip's own constant, so that the two cannot differ.
DEFAULT_INDEX: str = PyPI.simple_url
_DEFAULT_TIMEOUT = 60.0
#: Bound of an index's page in bytes; PyPI's largest has some 30 MB.
MAX_PAGE = 128 << 20


@dataclass(frozen=True)
class PipSettings:
    """What pip would use: locations in pip's order, ``timeout`` in seconds, certificate files by path."""

    index_urls: tuple[str, ...]
    find_links: tuple[str, ...]
    trusted_hosts: tuple[str, ...]
    cert: str | None
    client_cert: str | None
    proxy: str | None
    timeout: float


@cache
def pip_settings() -> PipSettings:
    """Ask pip itself for its configuration: files and ``PIP_*`` variables, in pip's own precedence."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise MissingToolError(
            f"pip does not tell its configuration: {done.stderr.strip()[-300:]}",
            "install pip into the environment that runs this: python -m ensurepip",
        )
    values: dict[str, str] = {}
    for scope in ("global", "download", ":env:"):
        for line in done.stdout.splitlines():
            key, _, literal = line.partition("=")
            found_scope, _, name = key.rpartition(".")
            if found_scope == scope:
                values[name.replace("_", "-")] = str(ast.literal_eval(literal))
    words = {name: tuple(value.split()) for name, value in values.items()}
    indexes = (
        ()
        if "no-index" in values
        else words.get("index-url", (DEFAULT_INDEX,)) + words.get("extra-index-url", ())
    )
    return PipSettings(
        index_urls=tuple(_location(url) for url in indexes),
        find_links=tuple(_location(url) for url in words.get("find-links", ())),
        trusted_hosts=words.get("trusted-host", ()),
        cert=values.get("cert"),
        client_cert=values.get("client-cert"),
        proxy=values.get("proxy"),
        timeout=float(values.get("timeout", values.get("default-timeout", _DEFAULT_TIMEOUT))),
    )


def _location(text: str) -> str:
    """A location as pip reads it: an URL stays, a path becomes absolute."""
    return text if "://" in text else os.path.abspath(text)  # noqa: PTH100 - not resolved, as in pip


class _Client(PyPIClient):
    """Reads pages within bounds, and leaves http only for https."""

    def __init__(self, **options: Any) -> None:
        super().__init__(event_hooks={"response": [_stay_on_the_net]}, **options)

    def get(self, url: Any, **options: Any) -> Any:
        """A whole response, of bounded size and time."""
        with self.stream("GET", url, **options) as response:
            content = b"".join(steady(response.iter_bytes(), str(response.url), MAX_PAGE))
        headers = {
            name: value for name, value in response.headers.items() if name.lower() != "content-encoding"
        }
        return type(response)(
            response.status_code, headers=headers, content=content, request=response.request
        )


def _stay_on_the_net(response: Any) -> None:
    goal = response.headers.get("Location", "")
    scheme = goal.partition(":")[0].lower() if ":" in goal.partition("/")[0] else "https"
    if response.is_redirect and scheme not in ("http", "https"):
        raise UnavailableError(f"{response.request.url} leads to {goal[:200]}", "use another index")


class Index:
    """The configured indexes as one: what files a project has, and a client to fetch them with."""

    def __init__(self, settings: PipSettings | None = None) -> None:
        self.settings = settings or pip_settings()

    @cached_property
    def client(self) -> PyPIClient:
        """An HTTP client with pip's certificates, proxy and time limit."""
        settings = self.settings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            options: dict[str, Any] = {"proxy": settings.proxy} if settings.proxy else {}
            return _Client(
                trusted_hosts=settings.trusted_hosts,
                verify=settings.cert or True,
                cert=settings.client_cert,
                timeout=settings.timeout,
                follow_redirects=True,
                **options,
            )

    def files(self, project: str) -> Iterator[Link]:
        """All files of a project, whatever machine they are for; yanked ones too, since a pin outlives a yank."""
        finder = PackageFinder(
            session=self.client,  # type: ignore[arg-type]  # its own protocol is narrower than its client
            index_urls=self.settings.index_urls,
            # As in pip, a folder that is configured but not there is passed over.
            find_links=[
                place for place in self.settings.find_links if "://" in place or Path(place).exists()
            ],
            trusted_hosts=self.settings.trusted_hosts,
            ignore_compatibility=True,
        )
        try:
            for package in finder.find_all_packages(canonicalize_name(project), allow_yanked=True):
                yield package.link
        except _NO_ANSWER as error:
            raise UnavailableError(
                f"no package index answers for {project}: {error}",
                "check the network; 'pip config list' shows which indexes are asked",
            ) from error

    def link(self, project: str, file: str) -> Link:
        """Where one file of a project lies.

        Raises:
            NotFoundError: every configured index answered, and none has it.
            UnavailableError: none has it, and one of them did not answer.
        """
        with _silent_indexes() as silent:
            for link in self.files(project):
                if link.filename == file:
                    return link
        if silent:
            raise UnavailableError(f"a package index does not answer: {'; '.join(silent)}", _ASKED)
        raise NotFoundError(f"no configured package index has {file} of {project}", _ASKED)


def sha256(link: Link) -> str | None:
    """The sum that the index states for a file; one in a folder is summed here."""
    if stated := (link.hash_option or {}).get("sha256"):
        return stated[0]
    return files.sha256_file(link.file_path) if link.is_file else None


_ASKED = "'pip config list' shows which are asked; --from-dir DIR takes files from a folder instead"


@contextlib.contextmanager
def _silent_indexes() -> Iterator[list[str]]:
    """Collect which pages unearth could not get; it says so in its log alone. A missing project (404) is an answer."""
    silent: list[str] = []

    class Listener(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            words = entry.getMessage()
            if words.startswith("Failed to collect") and "(404)" not in words:
                silent.append(words.removeprefix("Failed to collect links from "))

    logger = logging.getLogger("unearth.collector")
    listener, before = Listener(logging.WARNING), logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield silent
    finally:
        logger.removeHandler(listener)
        logger.propagate = before


def _http_error() -> type[BaseException]:
    """The error class of whichever HTTP library unearth's client is built on."""
    for base in PyPIClient.__mro__:
        package = base.__module__.partition(".")[0]
        if package.startswith("httpx"):
            found: type[BaseException] = sys.modules[package].HTTPError
            return found
    return OSError


#: What a failing request may raise.
HTTP_ERRORS: tuple[type[BaseException], ...] = (_http_error(), OSError)
_NO_ANSWER: tuple[type[BaseException], ...] = (ValueError, *HTTP_ERRORS)
