# SPDX-License-Identifier: Apache-2.0
"""The plugin wheel: our parser for a stock vLLM that nobody may change.

It is ``patches/plugin`` and the modules ``qwen_tool_*.py`` of ``patches/modules``,
which import each other from the plugin's package. Its bytes depend on those files and
the default pin alone.
"""

import hashlib
import re
from pathlib import Path

from patchset import console, files, paths
from patchset.release import load
from patchset.series.read import content_of
from patchset.wheel import archive, record

PACKAGE = "vllm_qwen_tools"
#: In ``patches/plugin``: the number of the last build, and the digest of its files.
LAST = "version"

_IMPORT = re.compile(r"\bvllm\.parser(?=\.qwen_tool_)")
_METADATA = """\
Metadata-Version: 2.1
Name: vllm-qwen-tools
Version: {version}
Summary: Qwen tool calls on a stock vLLM, whole and safe
License: Apache-2.0
Requires-Python: >=3.10
"""
_WHEEL = """\
Wheel-Version: 1.0
Generator: vllm-mtp-patches
Root-Is-Purelib: true
Tag: py3-none-any
"""
_ENTRY_POINTS = f"""\
[vllm.general_plugins]
qwen_tools = {PACKAGE}:register
"""


def build(out: Path | None = None) -> Path:
    """Write the wheel into ``out``, or ``build/wheels/plugin``; earlier ones go.

    Files that differ from the last build's are a higher version, which pip takes; its
    number is then written to ``patches/plugin/version``, to be committed.
    """
    contents = package()
    digest = hashlib.sha256()
    for content in contents.values():
        digest.update(hashlib.sha256(content).digest())
    last = paths.patches_dir() / "plugin" / LAST
    number, known = content_of(last).decode().split()
    if (now := digest.hexdigest()[:12]) != known:
        number = str(int(number) + 1)
        files.write_text(last, f"{number} {now}\n")
        console.note(f"{last} is for version {number} now: commit it")
    version = f"{number}+files{now}"
    info = f"{PACKAGE}-{version}.dist-info"
    contents[f"{info}/METADATA"] = _METADATA.format(version=version).encode()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    contents[f"{info}/entry_points.txt"] = _ENTRY_POINTS.encode()
    lines = [record.line(name, content) for name, content in contents.items()]
    contents[f"{info}/RECORD"] = record.render(
        [*lines, record.Line(f"{info}/RECORD", "", "")]
    )
    place = out or paths.build_dir() / "wheels/plugin"
    place /= f"{PACKAGE}-{version}-py3-none-any.whl"
    members = [
        archive.Member(name, 0o644, content) for name, content in contents.items()
    ]
    with files.atomic_file(place) as temp:
        archive.write(temp, members, None, load().source_date_epoch)
    files.remove_others(place, f"{PACKAGE}-*.whl")
    return place


def package() -> dict[str, bytes]:
    """Return the package's files by their names in the wheel."""
    own = paths.patches_dir() / "plugin" / PACKAGE
    contents = {
        f"{PACKAGE}/{file.name}": content_of(file)
        for file in own.iterdir()
        if file.suffix in (".py", ".sha256")
    }
    for file in (paths.patches_dir() / "modules/vllm/parser").glob("qwen_tool_*.py"):
        text = _IMPORT.sub(PACKAGE, content_of(file).decode())
        contents[f"{PACKAGE}/{file.name}"] = text.encode()
    return dict(sorted(contents.items()))
