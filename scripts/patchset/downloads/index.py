# SPDX-License-Identifier: Apache-2.0
"""Package indexes, as pip is configured for them (PEP 503 and PEP 691 pages, find-links folders)."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from packaging.tags import Tag
from packaging.utils import BuildTag, InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pip._internal.commands import create_command
from pip._internal.models.index import PyPI
from unearth import Link, PackageFinder
from unearth.fetchers import PyPIClient

from patchset import files
from patchset.errors import MissingToolError, NotFoundError, UnavailableError
from patchset.steady import steady

#: Where pip looks when nothing is configured; pip's own constant, so that the two cannot differ.
DEFAULT_INDEX: str = PyPI.simple_url
#: Bound of an index's page in bytes; PyPI's largest has some 30 MB.
MAX_PAGE = 128 << 20
#: The error class of whichever HTTP library unearth's client is built on.
HTTP_ERROR: type[Exception] = sys.modules[PyPIClient.__mro__[1].__module__.partition(".")[0]].HTTPError

_ASKED = "'pip config list' shows which are asked; --from-dir DIR takes files from a folder instead"


class PipSettings(NamedTuple):
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
    """Pip's configuration as pip itself reads it: files and ``PIP_*`` variables, in its own precedence."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            command = create_command("download")
            command.parser.set_defaults(timeout=60.0)
            options, _ = command.parse_args([])
    except SystemExit as error:
        raise MissingToolError(
            f"pip does not tell its configuration: {said.getvalue().strip()[-300:]}",
            "mend it; 'pip config debug' shows the files and variables that it is read from",
        ) from error
    indexes = [] if options.no_index else [options.index_url, *options.extra_index_urls]
    return PipSettings(
        _locations(indexes),
        _locations(options.find_links),
        tuple(options.trusted_hosts),
        options.cert,
        options.client_cert,
        options.proxy,
        options.timeout,
    )


def _locations(texts: list[str]) -> tuple[str, ...]:
    """Locations as pip reads them: an URL stays, a path becomes absolute."""
    # Links in it are not resolved, as in pip.
    return tuple(text if "://" in text else os.path.abspath(text) for text in texts)  # noqa: PTH100


class _Client(PyPIClient):
    def get(self, url: Any, **options: Any) -> Any:
        """A whole response, of bounded size and time."""
        with self.stream("GET", url, **options) as response:
            content = b"".join(steady(response.iter_bytes(), str(response.url), MAX_PAGE))
        response.headers.pop("content-encoding", None)
        return type(response)(
            response.status_code, headers=response.headers, content=content, request=response.request
        )


def _stay_on_the_net(response: Any) -> None:
    """Refuse a redirect to anything but http and https."""
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return _Client(
                trusted_hosts=self.settings.trusted_hosts,
                verify=self.settings.cert or True,
                cert=self.settings.client_cert,
                timeout=self.settings.timeout,
                proxy=self.settings.proxy,
                follow_redirects=True,
                event_hooks={"response": [_stay_on_the_net]},
            )

    def files(self, project: str) -> Iterator[Link]:
        """All files of a project, whatever machine they are for; yanked ones too, since a pin outlives a yank."""
        finder = PackageFinder(
            session=self.client,  # type: ignore[arg-type]  # its own protocol is narrower than its client
            index_urls=self.settings.index_urls,
            # As in pip, a folder that is configured but not there is passed over.
            find_links=[at for at in self.settings.find_links if "://" in at or Path(at).exists()],
            trusted_hosts=self.settings.trusted_hosts,
            ignore_compatibility=True,
        )
        try:
            for package in finder.find_all_packages(canonicalize_name(project), allow_yanked=True):
                yield package.link
        except (ValueError, OSError, HTTP_ERROR) as error:
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
        silent: list[str] = []

        def listen(entry: logging.LogRecord) -> bool:
            """unearth says only in its log which pages it could not get. A missing project (404) is an answer."""
            words = entry.getMessage()
            if words.startswith("Failed to collect") and "(404)" not in words:
                silent.append(words.removeprefix("Failed to collect links from "))
            return False

        logger = logging.getLogger("unearth.collector")
        logger.addFilter(listen)
        try:
            for link in self.files(project):
                if link.filename == file:
                    return link
        finally:
            logger.removeFilter(listen)
        if silent:
            raise UnavailableError(f"a package index does not answer: {'; '.join(silent)}", _ASKED)
        raise NotFoundError(f"no configured package index has {file} of {project}", _ASKED)


def sha256(link: Link) -> str | None:
    """The sum that the index states for a file; one in a folder is summed here."""
    if stated := (link.hash_option or {}).get("sha256"):
        return stated[0]
    return files.sha256_file(link.file_path) if link.is_file else None


def wheels(links: Iterable[Link]) -> Iterator[tuple[Link, Version, BuildTag, frozenset[Tag]]]:
    """The wheels among some files, and what their names say: version, build tag, tags. Other files are passed over."""
    for link in links:
        with contextlib.suppress(InvalidWheelFilename, InvalidVersion):
            _, version, build, tags = parse_wheel_filename(link.filename)
            yield link, version, build, tags
