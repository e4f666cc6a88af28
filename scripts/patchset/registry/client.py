# SPDX-License-Identifier: Apache-2.0
"""What a repository of a registry holds: manifests, blobs, tags and referrers (OCI Distribution Specification 1.1)."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx

from patchset.errors import NotFoundError, PatchsetError, UnavailableError
from patchset.registry import media
from patchset.registry.reference import DIGEST
from patchset.registry.transport import Transport
from patchset.steady import steady

_ACCEPT = {"Accept": ", ".join((*media.INDEXES, *media.MANIFESTS))}


class Repository(Transport):
    """One repository. ``push`` asks for the right to write; what is fetched is checked by its digest."""

    def digest_of(self, wanted: str) -> str | None:
        """The digest of the manifest that a tag or digest names, or None when there is none."""
        response, _ = self.ask("HEAD", f"manifests/{wanted}", expect=(200, 404), headers=_ACCEPT)
        if response.status_code == 404:
            return None
        found = str(response.headers.get("Docker-Content-Digest", ""))
        return found if DIGEST.fullmatch(found) else self.manifest(wanted)[0]

    def manifest(self, wanted: str) -> tuple[str, str, bytes]:
        """Digest, media type and bytes of the manifest that a tag or digest names.

        Raises:
            NotFoundError: there is none.
            PatchsetError: what came is not of the digest that was asked for.
        """
        response, content = self.ask("GET", f"manifests/{wanted}", headers=_ACCEPT)
        found = media.digest(content)
        if wanted.startswith("sha256:") and found != wanted:
            raise PatchsetError(
                f"{self.reference}: digest mismatch: {self.reference.host} returned the manifest {found}, not {wanted}",
                "try again; if it stays so, a proxy in between or the registry's storage is corrupt",
            )
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        return found, kind, content

    def put_manifest(self, wanted: str, kind: str, content: bytes, *, new: bool = False) -> bool:
        """Store a manifest under a tag or its digest; whether the registry knows of its ``subject``.

        A ``new`` tag must not be there (RFC 9110, 13.1.2); registries without conditional requests store it all the same.
        """
        response, _ = self.ask(
            "PUT",
            f"manifests/{wanted}",
            expect=(201, 202),
            headers={"Content-Type": kind} | ({"If-None-Match": "*"} if new else {}),
            content=content,
            passing="MANIFEST_BLOB_UNKNOWN",  # a registry may still be closing an upload whose connection broke
        )
        said = response.headers.get("Docker-Content-Digest", media.digest(content))
        if said != media.digest(content):
            raise PatchsetError(f"{self.reference.host} stored {said} in place of {media.digest(content)}")
        return "OCI-Subject" in response.headers

    def has_blob(self, digest: str) -> bool:
        """Whether the repository has a blob."""
        response, _ = self.ask("HEAD", f"blobs/{digest}", expect=(200, 404))
        return response.status_code == 200

    def blob(self, digest: str, size: int, limit: int) -> bytes:
        """A small blob."""
        if size > limit:
            raise PatchsetError(f"{digest} in {self.reference} has {size} bytes, more than {limit}")
        _, content = self.ask("GET", f"blobs/{digest}", limit=size)
        if len(content) != size or media.digest(content) != digest:
            raise PatchsetError(f"{self.reference.host} sends something else for {digest}")
        return content

    def open_blob(self, digest: str, size: int, start: int = 0) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes of a blob from ``start`` on, as they come; a whole one is checked by its digest at its end."""
        return contextlib.closing(self._pieces(digest, size, start))

    def _pieces(self, digest: str, size: int, start: int) -> Generator[bytes, None, None]:
        if start == size:  # no range can ask for nothing
            return
        host = self.reference.host
        done, whole = 0, hashlib.sha256()
        headers = {"Range": f"bytes={start}-{size - 1}"} if start else {}
        try:
            with self.stream("GET", f"blobs/{digest}", headers=headers) as response:
                if response.status_code == 404:
                    raise NotFoundError(f"{self.reference} has no blob {digest}")
                if response.status_code == 206:
                    if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                        raise UnavailableError(f"{host} sends another range of {digest}")
                    done = start
                elif response.status_code != 200:
                    raise UnavailableError(f"{host} answers {response.status_code} for blob {digest}")
                for piece in steady(response.iter_raw(), host):
                    before, done = done, done + len(piece)
                    if done > size:
                        raise UnavailableError(f"{host} sends more than {size} bytes for {digest}")
                    whole.update(piece)
                    if done > start:
                        yield piece[max(0, start - before) :]
        except httpx.RequestError as error:
            raise UnavailableError(f"{host} broke off in blob {digest}: {error}") from error
        if done != size:
            raise UnavailableError(f"{host} ends blob {digest} after {done} of {size} bytes")
        if not start and f"sha256:{whole.hexdigest()}" != digest:
            raise UnavailableError(f"{host} sends something else for {digest}")

    def referrers(self, digest: str) -> list[dict[str, Any]]:
        """Descriptors of the manifests whose ``subject`` is ``digest``: by the API, else by the fallback tag."""
        response, content = self.ask("GET", f"referrers/{digest}", expect=(200, 404))
        if response.status_code == 404:
            try:
                content = self.manifest(_referrers_tag(digest))[2]
            except NotFoundError:
                return []
        found = media.parse(content, f"the list of what refers to {digest}").get("manifests")
        if not isinstance(found, list):
            raise PatchsetError(f"{self.reference.host} does not list what refers to {digest}")
        return [media.check_descriptor(entry, "a list of referrers") for entry in found]

    def attach(self, subject: dict[str, Any], manifest: dict[str, Any]) -> str:
        """Store a manifest that refers to ``subject``, and list it where the registry does not; its digest."""
        content = media.dump({**manifest, "subject": subject})
        digest = media.digest(content)
        if self.put_manifest(digest, media.MANIFEST, content):
            return digest
        entries = {entry["digest"]: entry for entry in self.referrers(subject["digest"])}
        entries[digest] = media.descriptor(
            content,
            media.MANIFEST,
            artifactType=manifest["artifactType"],
            annotations=manifest.get("annotations", {}),
        )
        listed = [entry for _, entry in sorted(entries.items())]
        index = media.dump({"schemaVersion": 2, "mediaType": media.INDEX, "manifests": listed})
        self.put_manifest(_referrers_tag(subject["digest"]), media.INDEX, index)
        return digest


def _referrers_tag(digest: str) -> str:
    """The tag that stands in for the referrers API ("Referrers Tag Schema")."""
    return digest.replace(":", "-", 1)
