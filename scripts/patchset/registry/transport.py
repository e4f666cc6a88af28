# SPDX-License-Identifier: Apache-2.0
"""Requests to one registry: logging in when it asks for that, trying again when it fails, and no more than so often."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any, Self

import httpx

from patchset import console
from patchset.errors import NotFoundError, PatchsetError, UnavailableError
from patchset.registry import auth, media
from patchset.registry.reference import Reference
from patchset.steady import steady

#: How often a request is sent before it is given up, and the first pause in seconds (doubled each time).
TRIES = 5
FIRST_PAUSE = 1.0
#: The longest pause that a registry's Retry-After is granted, in seconds.
LONGEST_PAUSE = 60.0
#: What a registry is given to answer, and to take a connection, in seconds.
_PATIENCE, _CONNECT = 60.0, 20.0
_AGAIN = (408, 429, 500, 502, 503, 504)
#: What an error message shows of an answer, in bytes.
_SHOWN = 2000


class LoginError(PatchsetError):
    """The registry does not let this user do that."""


class Transport:
    """HTTP to the registry of one repository; ``push`` asks for the right to write."""

    def __init__(self, reference: Reference, *, push: bool = False) -> None:
        self.reference = reference
        self._scopes = [f"repository:{reference.name}:{'pull,push' if push else 'pull'}"]
        self._authorization: str | None = None
        # A proxy of the environment has no business between a machine and itself.
        self.http = httpx.Client(
            timeout=httpx.Timeout(_PATIENCE, connect=_CONNECT),
            trust_env=not reference.plain,
            headers={"Accept-Encoding": "identity"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def allow_reading(self, name: str) -> None:
        """Ask for the right to read another repository of the registry as well, for mounts from there."""
        if (scope := f"repository:{name}:pull") not in self._scopes:
            self._scopes.append(scope)
            self._authorization = None

    def url(self, path: str) -> str:
        """The address of ``path`` below the repository, or of a ``Location`` that the registry gave."""
        base = f"{self.reference.api}{self.reference.name}/"
        try:
            return str(httpx.URL(base).join(path))
        except httpx.InvalidURL as error:
            raise PatchsetError(
                f"{self.reference.host} sent an invalid URL in a Location header: {error}",
                "this is a fault of the registry, or of a proxy in between",
            ) from error

    def ask(
        self,
        method: str,
        path: str,
        *,
        expect: tuple[int, ...] = (200,),
        limit: int = media.MAX_MANIFEST,
        tries: int = TRIES,
        passing: str = "",
        **request: Any,
    ) -> tuple[httpx.Response, bytes]:
        """A ``stream`` whose whole answer, of at most ``limit`` bytes, is wanted.

        It is sent again when the answer holds the error code ``passing`` (OCI distribution specification, error codes).

        Raises:
            NotFoundError: 404 where that is not among the statuses to ``expect``.
            LoginError: the registry refuses this login, or there is none.
            UnavailableError: it does not answer, or fails each time.
            PatchsetError: any other status; an answer larger than ``limit``.
        """
        failure, pause, host = "", FIRST_PAUSE, self.reference.host
        for attempt in range(1, tries + 1):
            try:
                with self.stream(method, path, **request) as response:
                    said = _said(response, expect)
                    if response.status_code not in _AGAIN and not (passing and passing in said):
                        return response, self._content(response, expect, said, limit)
                    failure = f"answers {response.status_code}{said}"
                    after = response.headers.get("Retry-After", "")
                    pause = max(pause, min(float(after), LONGEST_PAUSE) if after.isdecimal() else 0)
            except httpx.RequestError as error:
                failure = f"fails: {error or type(error).__name__}"
            if attempt < tries:
                console.note(f"  {host} {failure}; again in {pause:.0f} s ({attempt} of {TRIES})")
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        raise UnavailableError(
            f"the registry {host} {failure} ({method} {path.partition('?')[0]}, tried {tries} times)",
            "check its name and the network, then run the same command again; it goes on where it was",
        )

    @contextlib.contextmanager
    def stream(
        self, method: str, path: str, *, patience: float = _PATIENCE, **request: Any
    ) -> Iterator[httpx.Response]:
        """One request with its answer open, logged in as the registry wants; redirects of reads are followed.

        ``patience`` in seconds; ``request`` are its headers and content.
        """
        timeout = httpx.Timeout(patience, connect=_CONNECT)
        for last in (False, True):
            sent = self.http.build_request(method, self.url(path), timeout=timeout, **request)
            if self._authorization and self._is_ours(sent.url):
                sent.headers["Authorization"] = self._authorization
            response = self.http.send(sent, stream=True, follow_redirects=method in ("GET", "HEAD"))
            try:
                if response.status_code == 401 and not last and self._is_ours(response.request.url):
                    self._log_in(response.headers.get_list("WWW-Authenticate"))
                    continue
                yield response
                return
            finally:
                response.close()

    def _is_ours(self, url: httpx.URL) -> bool:
        api = httpx.URL(self.reference.api)
        return (url.scheme, url.host, url.port) == (api.scheme, api.host, api.port)

    def _content(self, response: httpx.Response, expect: tuple[int, ...], said: str, limit: int) -> bytes:
        """The whole answer, where its status is one of those to ``expect``."""
        status, host, path = response.status_code, self.reference.host, response.request.url.path
        if status in expect:
            return b"".join(steady(response.iter_raw(), f"{host}{path}", limit))
        what = f"the registry {host} answers {status} to {response.request.method} {path}{said}"
        if status in (401, 403):
            login = f"docker login {host} (or podman, buildah, skopeo login)"
            raise LoginError(what, f"log in as somebody who may do that: {login}")
        if status == 404:
            raise NotFoundError(what, "check the name, the tag, and whether a login is needed")
        raise PatchsetError(what)

    def _log_in(self, challenges: list[str]) -> None:
        """Answer a challenge (RFC 9110, 11.6.1; docker's token protocol, which the OCI specification points to)."""
        login = auth.find(self.reference)
        self._authorization = None
        for challenge in challenges:
            scheme, _, rest = challenge.partition(" ")
            fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            if scheme.lower() == "bearer" and "realm" in fields:
                self._authorization = "Bearer " + self._token(fields, login)
                return
            if scheme.lower() == "basic" and login is not None and login.identity is None:
                self._authorization = login.basic
                return

    def _token(self, fields: dict[str, str], login: auth.Login | None) -> str:
        host = self.reference.host
        try:
            realm = httpx.URL(fields["realm"])
        except httpx.InvalidURL as error:
            raise LoginError(f"{host} names no login address: {error}") from error
        if realm.scheme != "https" and not (realm.scheme == "http" and self.reference.plain):
            raise LoginError(f"{host} wants the login to be sent to {realm}, which is not https")
        service = {"service": fields["service"]} if "service" in fields else {}
        if login is not None and login.identity:
            form = {"grant_type": "refresh_token", "refresh_token": login.identity, "client_id": "patchset"}
            form |= {**service, "scope": " ".join(self._scopes)}
            request = self.http.build_request("POST", realm, data=form)
        else:
            query = httpx.QueryParams({**service, "scope": self._scopes})
            request = self.http.build_request("GET", realm.copy_merge_params(query))
            if login is not None:
                request.headers["Authorization"] = login.basic
        response = self.http.send(request, stream=True)
        try:
            if response.status_code in _AGAIN:
                raise httpx.ReadError(f"{realm.host} answers {response.status_code} to the login")
            content = self._content(response, (200,), _said(response, (200,)), 1 << 20)
        finally:
            response.close()
        said = media.parse(content, "the answer to the login")
        token = said.get("token") or said.get("access_token")
        if not isinstance(token, str) or not token.isascii() or "\n" in token:
            raise LoginError(f"{realm.host} gives no token for {self.reference.repository}")
        return token


def _said(response: httpx.Response, expect: tuple[int, ...]) -> str:
    """The beginning of an error's text, in one line."""
    if response.status_code in expect:
        return ""
    text = bytearray()
    with contextlib.suppress(httpx.HTTPError, UnavailableError):
        for piece in steady(response.iter_raw(), "it"):
            text += piece
            if len(text) > _SHOWN:
                break
    line = " ".join(bytes(text[:_SHOWN]).decode("utf-8", "replace").split())
    return f": {line[:300]}" if line and line.isprintable() else ""
