# SPDX-License-Identifier: Apache-2.0
"""Blobs on their way into a registry: mounted where it has them, sent in chunks else, taken up again when cut.

The address of an upload that was begun is kept in ``build/registry/``, so that a later run goes on with it. What was
begun can be gone on with as far as the registry allows: docker-registry 2.x keeps half a chunk when a connection
breaks, no longer knows its own address of the upload then, and has that one blob sent anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from patchset import console, files, paths
from patchset.errors import NotFoundError, PatchsetError, UnavailableError
from patchset.registry import media, transport
from patchset.registry.client import Repository

#: One request carries so many bytes: above what the pickiest registry asks for (5 MiB), and little to send twice.
CHUNK = 8 << 20
#: Bound of what a registry may ask for with OCI-Chunk-Min-Length.
_LARGEST_CHUNK = 512 << 20
#: A registry reads a whole blob again before it says that it took it; what that is given, in seconds.
_PATIENCE = 900.0

#: Opens a blob's bytes from an offset on.
Opener = Callable[[int], AbstractContextManager[Iterator[bytes]]]


@dataclass(frozen=True)
class Blob:
    """``digest``, ``size`` in bytes, ``open`` for its bytes, and ``homes``: repositories of the registry with it."""

    digest: str
    size: int
    open: Opener
    homes: tuple[str, ...] = ()


def in_memory(content: bytes) -> Blob:
    """A blob of some bytes."""
    return Blob(
        media.digest(content), len(content), lambda start: contextlib.nullcontext(iter([content[start:]]))
    )


def put(repository: Repository, blob: Blob, on_bytes: Callable[[int], None]) -> str:
    """Bring a blob into a repository: "there", "mounted" or "sent". ``on_bytes`` hears of bytes that arrived."""
    upload = _Upload(repository, blob, on_bytes)
    if repository.has_blob(blob.digest):
        upload.forget()  # an earlier run may have died when the registry had closed its upload
        on_bytes(blob.size)
        return "there"
    for home in blob.homes:
        if home == repository.reference.name:
            continue
        repository.allow_reading(home)
        query = urlencode({"mount": blob.digest, "from": home})
        response, _ = repository.ask("POST", f"blobs/uploads/?{query}", expect=(201, 202))
        if response.status_code == 201:
            on_bytes(blob.size)
            return "mounted"
        # A mount that was not done has begun an upload; it is ended where the registry can.
        with contextlib.suppress(PatchsetError):
            repository.ask("DELETE", response.headers["Location"], expect=(204, 404), tries=1)
    upload.run()
    return "sent"


class _Upload:
    def __init__(self, repository: Repository, blob: Blob, on_bytes: Callable[[int], None]) -> None:
        self.repository, self.blob, self.on_bytes = repository, blob, on_bytes
        self.host = repository.reference.host
        self.offset = self.reported = 0
        self.chunk = CHUNK
        key = hashlib.sha256(f"{repository.reference.repository}@{blob.digest}".encode()).hexdigest()
        self.journal = paths.build_dir() / "registry" / f"{key}.json"

    def run(self) -> None:
        failure, pause, left, furthest = "", transport.FIRST_PAUSE, transport.TRIES, 0
        location = earlier = self._remembered()
        while left:
            try:
                location = self._continued(location, location == earlier) if location else None
                self._send(location or self._begin())
                self.forget()
                return
            except (httpx.RequestError, UnavailableError) as error:
                failure, location = str(error) or "no answer", self._remembered()
            except PatchsetError:  # refused; a later run must not go on with it
                self.forget()
                raise
            left -= 1
            if self.offset > furthest:  # further than ever before: that wins back the tries
                furthest, left, pause = self.offset, transport.TRIES, transport.FIRST_PAUSE
            if left:
                done = f"{self.offset} of {self.blob.size} bytes"
                console.note(f"  {self.host}: {failure[:300]}; {done}; again in {pause:.0f} s")
                time.sleep(pause)
                pause = min(pause * 2, transport.LONGEST_PAUSE)
        raise UnavailableError(
            f"{self.blob.digest} could not be sent to {self.repository.reference.repository}: {failure}",
            "run the same command again: it goes on where this one was cut",
        )

    def _begin(self) -> str:
        self.offset = 0
        response, _ = self.repository.ask("POST", "blobs/uploads/", expect=(202,))
        least = response.headers.get("OCI-Chunk-Min-Length", "")
        if least.isdecimal():
            self.chunk = max(self.chunk, min(int(least), _LARGEST_CHUNK))
        return self._located(response)

    def _continued(self, location: str, earlier: bool) -> str | None:
        """Where an upload stands that was begun, as the registry says; None when it does not know it any more.

        The registry has just answered when an ``earlier`` run's upload is asked for: without an answer that one is gone.
        """
        try:
            response, _ = self.repository.ask("GET", location, expect=(204,), tries=1)
        except PatchsetError as error:
            if isinstance(error, UnavailableError) and not isinstance(error, NotFoundError) and not earlier:
                raise
            self.forget()
            return None
        self.offset = self._received(response)
        if self.offset:
            console.note(f"  {self.blob.digest[:19]}: goes on at {self.offset} of {self.blob.size} bytes")
        return self._located(response)

    def _send(self, location: str) -> None:
        self._report()
        with self.blob.open(self.offset) as pieces:
            for chunk in _chunks(pieces, self.chunk):
                end = self.offset + len(chunk)
                headers = {
                    "Content-Type": "application/octet-stream",
                    "Content-Range": f"{self.offset}-{end - 1}",
                }
                response = self._write("PATCH", location, (202, 204), headers=headers, content=chunk)
                received = self._received(response) if "Range" in response.headers else end
                if received != end and (received, end) != (0, 1):
                    raise self._lost(f"the registry has {received} bytes after {end}")
                self.offset = end
                location = self._located(response)
                self._report()
        location += ("&" if "?" in location else "?") + urlencode({"digest": self.blob.digest})
        try:
            self._write("PUT", location, (201, 204), content=b"", patience=_PATIENCE)
        except UnavailableError:
            if not self.repository.has_blob(self.blob.digest):
                raise

    def _write(self, method: str, location: str, expect: tuple[int, ...], **request: Any) -> httpx.Response:
        """One request that must not be repeated blindly: what the registry took of it is to be asked first."""
        response, _ = self.repository.ask(method, location, expect=(*expect, 404, 416), tries=1, **request)
        if response.status_code in (404, 416):
            raise self._lost(f"the registry has lost the upload ({response.status_code})")
        return response

    def _received(self, response: httpx.Response) -> int:
        """How many bytes the registry has; ``0-0`` stands for none, as it does for one."""
        match = re.fullmatch(r"(?:bytes=)?0-(\d{1,18})", response.headers.get("Range", ""))
        if match is None:
            raise self._lost("the registry does not say how much it has")
        received = int(match[1]) + 1 if int(match[1]) else 0
        if received > self.blob.size:
            raise self._lost(f"the registry has {received} bytes of a blob of {self.blob.size}")
        return received

    def _located(self, response: httpx.Response) -> str:
        """The upload's address, which changes with each answer; kept for a later run."""
        if not (location := response.headers.get("Location")):
            raise PatchsetError(f"{self.host} gave no upload address")
        url = self.repository.url(location)
        files.write_text(self.journal, json.dumps({"digest": self.blob.digest, "location": url}) + "\n")
        return url

    def _remembered(self) -> str | None:
        try:
            return str(json.loads(self.journal.read_text(encoding="utf-8"))["location"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self) -> None:
        """No later run goes on with this upload."""
        self.journal.unlink(missing_ok=True)

    def _lost(self, why: str) -> UnavailableError:
        """The registry does not know how far the upload came, or says something impossible: it is begun again."""
        self.forget()
        return UnavailableError(why)

    def _report(self) -> None:
        self.on_bytes(self.offset - self.reported)
        self.reported = self.offset


def _chunks(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
