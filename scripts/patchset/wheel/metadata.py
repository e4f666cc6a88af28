# SPDX-License-Identifier: Apache-2.0
"""The few bytes of metadata in which a patched wheel differs from the official one."""

from __future__ import annotations

import itertools
import re

from patchset.wheel.archive import WheelError

#: The file that says what vLLM answers when it is asked for its version; written by setuptools-scm.
VERSION_FILE = "vllm/_version.py"

_VERSION = re.compile(r"(?m)^__version__ = version = (['\"])[^'\"]+\1$")
_TUPLE = re.compile(r"(?m)^__version_tuple__ = version_tuple = \([^()\n]+\)$")


def patched_metadata(metadata: bytes, version: str) -> bytes:
    """METADATA with another version, and under the name ``vllm``; every other byte stays."""
    head, separator, body = metadata.partition(b"\n\n")
    for field, value in ((b"Name", b"vllm"), (b"Version", version.encode())):
        head, count = re.subn(rb"(?m)^%b: .*$" % field, b"%b: %b" % (field, value), head, count=1)
        if count != 1:
            raise WheelError(f"METADATA has no field {field.decode()}")
    return head + separator + body


def patched_version_file(content: bytes, version: str) -> bytes:
    """``vllm/_version.py`` with another version; a local part becomes one more element of the tuple."""
    text = content.decode("utf-8")
    public, _, local = version.partition("+")
    numbers = ", ".join(part if part.isdigit() else repr(part) for part in public.split("."))
    text, versions = _VERSION.subn(f"__version__ = version = {version!r}", text)
    text, tuples = _TUPLE.subn(f"__version_tuple__ = version_tuple = ({numbers}, {local!r})", text)
    if (versions, tuples) != (1, 1):
        raise WheelError(
            f"{VERSION_FILE} is not as setuptools-scm writes it", "metadata.py must learn the new form"
        )
    return text.encode("utf-8")


def tags(wheel_name: str) -> list[str]:
    """The compatibility tags in a wheel's file name, which may compress several into one (PEP 425)."""
    parts = [part.split(".") for part in wheel_name.removesuffix(".whl").split("-")[-3:]]
    return ["-".join(tag) for tag in itertools.product(*parts)]


def retagged_wheel_file(content: bytes, wheel_name: str) -> bytes:
    """WHEEL with the tags of a file name in place of those that it names.

    Official wheels were renamed after they were built: theirs name the builder's machine (``linux_x86_64``; the CPU
    wheel even one Python, ``cp312``), for which ``pip check`` takes the distribution to be unsupported here.
    """
    lines = [line for line in content.decode("utf-8").splitlines() if line and not line.startswith("Tag: ")]
    lines += [f"Tag: {tag}" for tag in tags(wheel_name)]
    return "".join(f"{line}\n" for line in lines).encode()
