# SPDX-License-Identifier: Apache-2.0
"""The metadata in which a patched wheel differs from the official one."""

import re

from packaging.utils import parse_wheel_filename

from patchset.wheel.archive import WheelError

#: The module that answers for vLLM's version; written by setuptools-scm.
VERSION_FILE = "vllm/_version.py"

_VERSION = re.compile(r"(?m)^__version__ = version = (['\"])[^'\"]+\1$")
_TUPLE = re.compile(r"(?m)^__version_tuple__ = version_tuple = \([^()\n]+\)$")


def patched_metadata(metadata: bytes, version: str) -> bytes:
    """Return METADATA with our version, and the name ``vllm``; all other bytes stay."""
    head, separator, body = metadata.partition(b"\n\n")
    for field, value in ((b"Name", b"vllm"), (b"Version", version.encode())):
        line = rb"(?m)^%b: .*$" % field
        head, count = re.subn(line, b"%b: %b" % (field, value), head, count=1)
        if count != 1:
            raise WheelError(f"METADATA has no field {field.decode()}")
    return head + separator + body


def patched_version_file(content: bytes, version: str) -> bytes:
    """Return ``vllm/_version.py`` with our version; its local part ends the tuple."""
    text = content.decode("utf-8", errors="surrogateescape")
    public, _, local = version.partition("+")
    numbers = ", ".join(
        part if part.isdigit() else repr(part) for part in public.split(".")
    )
    text, versions = _VERSION.subn(f"__version__ = version = {version!r}", text)
    made = f"__version_tuple__ = version_tuple = ({numbers}, {local!r})"
    text, tuples = _TUPLE.subn(made, text)
    if (versions, tuples) != (1, 1):
        raise WheelError(
            f"{VERSION_FILE} is not as setuptools-scm writes it",
            "scripts/patchset/wheel/metadata.py must learn the new form",
        )
    return text.encode("utf-8", errors="surrogateescape")


def retagged_wheel_file(content: bytes, wheel_name: str) -> bytes:
    """Return WHEEL with the tags of a file name.

    Official wheels were renamed after they were built: theirs name the builder's
    machine (``linux_x86_64``), for which ``pip check`` calls the distribution
    unsupported.
    """
    lines = [
        line for line in content.splitlines() if line and not line.startswith(b"Tag: ")
    ]
    tags = sorted(map(str, parse_wheel_filename(wheel_name)[-1]))
    lines += [f"Tag: {tag}".encode() for tag in tags]
    return b"".join(line + b"\n" for line in lines)
