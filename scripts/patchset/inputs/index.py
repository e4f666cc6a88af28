# SPDX-License-Identifier: Apache-2.0
"""Package indexes, as pip is configured for them (PEP 503, PEP 691), by http."""

import ast
import contextlib
import functools
import json
import netrc
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx
from packaging.utils import canonicalize_name

from patchset import console
from patchset.errors import NotFoundError, PatchsetError, UnavailableError, hide, tail

DEFAULT_INDEX = "https://pypi.org/simple"
#: Largest index page in bytes; PyPI's largest has about 30 MB.
MAX_PAGE = 128 << 20
#: Longest time for one, and for pip to show its configuration, in seconds.
PAGE_TIME, PIP_TIME = 300, 60

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)
_HTTP = re.compile(r"https?://")
_ASKED = (
    "'pip config list' shows the indexes, of which those of http and https are asked; "
    "a file in build/downloads needs none"
)


class Settings(NamedTuple):
    """Pip's settings: addresses in its order, certificate files, seconds to wait."""

    index_urls: tuple[str, ...] = (DEFAULT_INDEX,)
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = 60.0


class Link(NamedTuple):
    """A file that an index offers; ``sha256`` and ``size`` if it states them."""

    name: str
    url: str
    sha256: object = None
    size: object = None


@functools.cache
def pip_settings() -> Settings:
    """Read pip's configuration files and ``PIP_*`` variables by ``pip config list``."""
    command = [sys.executable, "-m", "pip", "--no-color", "config", "list"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PIP_QUIET": "0"},
            timeout=PIP_TIME,
        )
    except subprocess.SubprocessError as error:
        words = tail(getattr(error, "stderr", "") or "", 300) or error
        raise PatchsetError(
            f"pip does not show its configuration: {words}",
            "fix it; 'pip config debug' names the files and variables it is read from",
        ) from error
    said: dict[str, str] = {}
    for section in ("global", "download", ":env:"):  # the later ones count
        setting = rf"(?m)^{section}\.(?:default-)?([a-z-]+)=(.+)$"
        for name, value in re.findall(setting, done.stdout):
            with contextlib.suppress(ValueError, SyntaxError):
                said[name] = str(ast.literal_eval(value))
    indexes = [said.get("index-url") or DEFAULT_INDEX]
    indexes += said.get("extra-index-url", "").split()
    if said.get("no-index", "0").lower() in ("1", "true", "yes", "on", "y", "t"):
        indexes = []
    for address in (*indexes, said.get("proxy") or ""):
        hide(address)
    return Settings(
        tuple(indexes),
        tuple(said.get("trusted-host", "").split()),
        said.get("cert") or None,
        said.get("client-cert") or None,
        said.get("proxy") or None,
        min(float(said.get("timeout") or 60.0), 3600.0),
    )


class Index:
    """The configured indexes as one: files by project, and a client to fetch them."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or pip_settings()
        #: Which indexes did not answer the last question, each with the reason.
        self.silent: list[str] = []

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
        try:
            host = urlsplit(url)
            if "@" not in host.netloc:
                for index in map(urlsplit, self.settings.index_urls):
                    if index.netloc.rpartition("@")[2] == host.netloc:
                        url = host._replace(netloc=index.netloc).geturl()
            auth: Any = httpx.USE_CLIENT_DEFAULT
            if "@" not in urlsplit(url).netloc:
                with contextlib.suppress(OSError, netrc.NetrcParseError):
                    auth = httpx.NetRCAuth()
            with self.client.stream("GET", url, headers=headers, auth=auth) as response:
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as e:
            words = str(e).partition("\n")[0] or type(e).__name__
            raise UnavailableError(f"{url}: {words}", _ASKED) from e

    def files(self, project: str) -> list[Link]:
        """Return all files on a project's pages, for any machine; yanked ones too.

        Folders among pip's indexes are not read.

        Raises:
            UnavailableError: no index that answers has it, and some do not answer.
        """
        found: list[Link] = []
        self.silent = []
        for url in filter(_HTTP.match, self.settings.index_urls):
            try:
                found += self._page(f"{url.rstrip('/')}/{canonicalize_name(project)}/")
            except UnavailableError as error:
                _tell_once(f"no answer from a package index: {error.message}")
                self.silent.append(error.message)
        if self.silent and not found:
            raise UnavailableError(
                f"no index answers: {'; '.join(self.silent)}", _ASKED
            )
        return found

    def links(self, project: str, name: str) -> list[Link]:
        """Find one file of a project, on each index that has it.

        Raises:
            NotFoundError: every configured index answered, and none has it.
            UnavailableError: none has it, and one of them did not answer.
        """
        if found := [link for link in self.files(project) if link.name == name]:
            return found
        kind = UnavailableError if self.silent else NotFoundError
        raise kind(f"no configured package index has {name} of {project}", _ASKED)

    def _page(self, url: str) -> list[Link]:
        with self.get(url, Accept=_ACCEPT) as response:
            if response.status_code in (404, 410):
                return []
            response.raise_for_status()
            content, end = bytearray(), time.monotonic() + PAGE_TIME
            for piece in response.iter_bytes():
                content += piece
                if len(content) > MAX_PAGE or time.monotonic() > end:
                    raise UnavailableError(
                        f"{url} sends more than {MAX_PAGE} bytes, or takes more than "
                        f"{PAGE_TIME} s",
                        _ASKED,
                    )
            kind = response.headers.get("Content-Type", "")
            where = str(response.url)
        try:
            links = (_from_json if "json" in kind else _from_html)(content)
            found = [link._replace(url=urljoin(where, link.url)) for link in links]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UnavailableError(
                f"{where} is not an index page: {error!r}", _ASKED
            ) from error
        return [link for link in found if _HTTP.match(link.url)]


@functools.cache
def _tell_once(line: str) -> None:
    console.note(f"  {line}")


def _from_json(content: bytearray) -> Iterator[Link]:
    for entry in json.loads(content)["files"]:
        match entry:
            case {"filename": str(name), "url": str(url), "hashes": dict(hashes)}:
                yield Link(name, url, hashes.get("sha256"), entry.get("size"))


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (url := dict(attrs).get("href")):
            self.urls.append(urldefrag(url).url)


def _from_html(content: bytearray) -> Iterator[Link]:
    page = _Anchors()
    page.feed(content.decode("utf-8", errors="replace"))
    for url in page.urls:
        yield Link(unquote(urlsplit(url).path.rpartition("/")[2]), url)
