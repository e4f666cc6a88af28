# SPDX-License-Identifier: Apache-2.0
"""Package indexes, as pip is configured for them (PEP 503, PEP 691), by http."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import netrc
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import httpx
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion

from patchset import console
from patchset.errors import (
    NotFoundError,
    PatchsetError,
    UnavailableError,
    redact,
)

DEFAULT_INDEX = "https://pypi.org/simple"
#: Largest index page in bytes; PyPI's largest has about 30 MB.
MAX_PAGE = 128 << 20

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)
#: After ``PATIENCE`` seconds, give up on a server that averages fewer bytes a second.
SLOWEST, PATIENCE = 1000, 60.0
_HTTP = re.compile(r"https?://")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SETTING = re.compile(r"(global|download|:env:)\.([a-z-]+)=(.+)")
_ASKED = "'pip config list' shows which are asked; --from-dir DIR uses a folder instead"


class Settings(NamedTuple):
    """Pip's settings: addresses in its order, certificate files, seconds to wait."""

    index_urls: tuple[str, ...] = (DEFAULT_INDEX,)
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = 60.0


class Link(NamedTuple):
    """A file that an index offers; ``sha256`` and ``size`` as far as it states them."""

    name: str
    url: str
    sha256: str | None = None
    size: int | None = None


@functools.cache
def pip_settings() -> Settings:
    """Read pip's configuration files and ``PIP_*`` variables by ``pip config list``."""
    command = [sys.executable, "-m", "pip", "--no-color", "config", "list"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise PatchsetError(
            f"pip does not show its configuration: {done.stderr.strip()[-300:]}",
            "fix it; 'pip config debug' names the files and variables it is read from",
        )
    values: dict[str, dict[str, str]] = {"global": {}, "download": {}, ":env:": {}}
    for line in done.stdout.splitlines():
        if match := _SETTING.fullmatch(line):
            with contextlib.suppress(ValueError, SyntaxError):
                key = match[2].removeprefix("default-")
                values[match[1]][key] = str(ast.literal_eval(match[3]))
    return _settings(values["global"] | values["download"] | values[":env:"])


def _settings(said: Mapping[str, str]) -> Settings:
    try:
        timeout = float(said.get("timeout") or 60.0)
    except ValueError as error:
        raise PatchsetError(
            f"pip's timeout is no number: {error}", "fix it in pip's configuration"
        ) from error
    indexes = [said.get("index-url") or DEFAULT_INDEX]
    indexes += said.get("extra-index-url", "").split()
    if said.get("no-index", "0").lower() in ("1", "true", "yes", "on", "y", "t"):
        indexes = []
    return Settings(
        tuple(indexes),
        tuple(said.get("trusted-host", "").split()),
        said.get("cert") or None,
        said.get("client-cert") or None,
        said.get("proxy") or None,
        timeout,
    )


class Index:
    """The configured indexes as one: files by project, and a client to fetch them."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or pip_settings()

    @functools.cached_property
    def client(self) -> httpx.Client:
        """An HTTP client with pip's certificates, proxy and time limit."""
        settings = self.settings
        try:
            verify: ssl.SSLContext | bool = True
            if settings.cert or settings.client_cert:
                verify = ssl.create_default_context(cafile=settings.cert)
                if settings.client_cert:
                    verify.load_cert_chain(settings.client_cert)
            trusted = {
                f"all://{host}": httpx.HTTPTransport(
                    verify=False,
                    proxy=settings.proxy,
                )
                for host in settings.trusted_hosts
            }
            return httpx.Client(
                verify=verify,
                proxy=settings.proxy,
                mounts=trusted,
                timeout=settings.timeout,
                follow_redirects=True,
            )
        except (OSError, ValueError) as error:
            where = settings.cert or settings.client_cert or settings.proxy
            raise PatchsetError(
                f"pip's certificates or proxy ({where}) cannot be used: {error}",
                "fix pip's configuration; 'pip config list' shows it",
            ) from error

    @contextlib.contextmanager
    def get(self, url: str, **headers: str) -> Iterator[httpx.Response]:
        """Stream a response, with credentials of the index or of ``~/.netrc``."""
        host = urlsplit(url)
        if "@" not in host.netloc:
            for index in map(urlsplit, self.settings.index_urls):
                if index.netloc.rpartition("@")[2] == host.netloc:
                    url = host._replace(netloc=index.netloc).geturl()
        auth: Any = httpx.USE_CLIENT_DEFAULT
        if "@" not in urlsplit(url).netloc:
            with contextlib.suppress(OSError, netrc.NetrcParseError):
                auth = httpx.NetRCAuth()
        try:
            with self.client.stream("GET", url, headers=headers, auth=auth) as response:
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            words = str(error) or type(error).__name__
            raise UnavailableError(f"{redact(url)}: {words}", _ASKED) from error

    def files(self, project: str) -> list[Link]:
        """All files of a project, for any machine; yanked ones too.

        Raises:
            UnavailableError: no index that answers has it, and some do not answer.
        """
        found, silent = self._ask(project)
        if silent and not found:
            raise UnavailableError(f"no index answers: {'; '.join(silent)}", _ASKED)
        for line in silent:
            console.note(f"  no answer, so not asked: {line}")
        return found

    def link(self, project: str, name: str) -> Link:
        """Find one file of a project.

        Raises:
            NotFoundError: every configured index answered, and none has it.
            UnavailableError: none has it, and one of them did not answer.
        """
        found, silent = self._ask(project)
        for link in found:
            if link.name == name:
                return link
        if silent:
            raise UnavailableError(f"no index answers: {'; '.join(silent)}", _ASKED)
        raise NotFoundError(
            f"no configured package index has {name} of {project}", _ASKED
        )

    def size(self, link: Link) -> int:
        """The size of a file in bytes, without downloading it."""
        if link.size is not None:
            return link.size
        asked = {"Accept-Encoding": "identity", "Range": "bytes=0-0"}
        with self.get(link.url, **asked) as response:
            response.raise_for_status()
            said = response.headers.get("Content-Range", "").rpartition("/")[2]
            said = said or response.headers.get("Content-Length", "")
        if not said.isdecimal():
            raise UnavailableError(
                f"the server does not say how large {link.name} is", "use another index"
            )
        return int(said)

    def _ask(self, project: str) -> tuple[list[Link], list[str]]:
        """The files that all indexes offer, and which do not answer."""
        name = canonicalize_name(project)
        found: list[Link] = []
        silent: list[str] = []
        for url in self.settings.index_urls:
            try:
                links = self._page(f"{url.rstrip('/')}/{name}/")
            except UnavailableError as error:
                silent.append(error.message)
            except ValueError as error:
                silent.append(redact(f"{url}: {error}"))
            else:
                found += [link for link in links if _project(link.name) == name]
        return found, silent

    def _page(self, url: str) -> list[Link]:
        """The links of one page; none if there is no such page."""
        if not _HTTP.match(url):
            raise UnavailableError(f"{redact(url)}: only http and https are read")
        with self.get(url, Accept=_ACCEPT) as response:
            if response.status_code in (404, 410):
                return []
            if response.status_code != 200:
                raise UnavailableError(
                    f"{redact(url)} answers {response.status_code}", _ASKED
                )
            content = b"".join(steady(response.iter_bytes(), redact(url), MAX_PAGE))
            kind = response.headers.get("Content-Type", "")
            where = str(response.url)
        links = _from_json(content, where) if "json" in kind else _html(content, where)
        return [link for link in links if _HTTP.match(link.url)]


def steady(
    pieces: Iterable[bytes], where: str, limit: int | None = None
) -> Iterator[bytes]:
    """Yield the pieces of a response until it is too large or too slow."""
    start, count = time.monotonic(), 0
    for piece in pieces:
        count += len(piece)
        seconds = time.monotonic() - start
        if limit is not None and count > limit:
            raise UnavailableError(f"{where} sends more than {limit} bytes")
        if seconds > PATIENCE and count < SLOWEST * seconds:
            raise UnavailableError(
                f"{where} sent {count} bytes in {seconds:.0f} s; gave up"
            )
        yield piece


def _from_json(content: bytes, where: str) -> list[Link]:
    """The links of a PEP 691 page; an entry that is not as it should be is left out."""
    try:
        page = json.loads(content)
        entries = page["files"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnavailableError(
            f"{redact(where)} is no index page: {error!r}"
        ) from error
    found: list[Link] = []
    for entry in entries if isinstance(entries, list) else []:
        match entry:
            case {"filename": str(name), "url": str(url)}:
                hashes, size = entry.get("hashes"), entry.get("size")
                sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
                size = size if type(size) is int and size > 0 else None
                found += _links(name, url, where, sha256, size)
    return found


class _Anchors(HTMLParser):
    """Collects the addresses of an HTML page (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an anchor's address, or the address that the others are relative to."""
        address = dict(attrs).get("href")
        if address and tag == "a":
            self.found.append(address)
        elif address and tag == "base" and self.base is None:
            self.base = address


def _html(content: bytes, where: str) -> list[Link]:
    page = _Anchors()
    page.feed(content.decode("utf-8", errors="replace"))
    base = urljoin(where, page.base or "")
    found: list[Link] = []
    for address in page.found:
        plain, _, fragment = address.partition("#")
        name = unquote(plain.partition("?")[0].rpartition("/")[2])
        found += _links(name, plain, base, fragment.removeprefix("sha256="), None)
    return found


def _links(
    name: str, url: str, base: str, sha256: object, size: int | None
) -> Iterator[Link]:
    """The link to a file of this name, unless its address cannot be read."""
    stated = sha256 if isinstance(sha256, str) and _SHA256.fullmatch(sha256) else None
    with contextlib.suppress(ValueError):
        yield Link(name, urljoin(base, url), stated, size)


def _project(name: str) -> str | None:
    """The project that a file name is of."""
    with contextlib.suppress(
        InvalidWheelFilename, InvalidSdistFilename, InvalidVersion
    ):
        if name.endswith(".whl"):
            return parse_wheel_filename(name)[0]
        return parse_sdist_filename(name)[0]
    return None
