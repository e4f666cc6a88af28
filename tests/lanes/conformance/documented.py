# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.documented TREE``: whether the release takes the lines
that serve a model in the documents.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from conformance.adapters import TreeAdapter
from conformance.lines import LANES

ROOT = LANES.parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
MANIFESTS = (ROOT / "docker/compose.yaml", ROOT / "docker/kubernetes/vllm.yaml")
#: ``vllm serve``, or ``docker run`` up to the image, whose entry point is ``vllm
#: serve``; ``MODEL`` stands for a model.
_LINE = re.compile(
    r"^\$ (?:[A-Z_]+=\S+ )*(?:vllm serve|docker run (?:[^$]*?) localhost/vllm-mtp-patches:\S+)(?=\s)(?!\s+\\\n\s+MODEL)"
    r"((?:.*\\\n)*.*)$",
    re.MULTILINE,
)
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def lines(text: str) -> list[list[str]]:
    """The server's arguments in each line of a Markdown text that serves a model,
    continuations joined.
    """
    return [shlex.split(found.replace("\\\n", " ")) for found in _LINE.findall(text)]


def in_manifest(text: str) -> list[list[str]]:
    """The arguments of each container in a Compose file or Kubernetes manifest;
    variables by their default.
    """
    import yaml

    found = []
    for document in yaml.safe_load_all(_DEFAULT.sub(r"\1", text)):
        found += [
            service["command"] for service in document.get("services", {}).values()
        ]
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        found += [container["args"] for container in pod.get("containers", [])]
    return found


def documented() -> dict[str, list[list[str]]]:
    """All of them, by file."""
    found = {place: lines(place.read_text(encoding="utf-8")) for place in DOCUMENTS}
    found |= {
        place: in_manifest(place.read_text(encoding="utf-8")) for place in MANIFESTS
    }
    return {str(place.relative_to(ROOT)): some for place, some in found.items() if some}


def parse() -> None:
    """Parse all of them with the parser of the release on ``PYTHONPATH``; what it
    refuses ends the process.
    """
    from conformance.host.engine import argument_parser, use_cpu_platform

    use_cpu_platform()
    parser = argument_parser()
    for place, commands in documented().items():
        for command in commands:
            print(f"{place}: vllm serve {shlex.join(command)}", flush=True)
            parsed = parser.parse_args(command)
            assert (
                parsed.tool_call_parser == "qwen3_coder"
                and parsed.enable_auto_tool_choice
            )


def main() -> None:
    """Command line."""
    if sys.argv[1:] == ["--parse"]:
        return parse()
    if len(sys.argv) != 2:
        sys.exit("usage: python -m conformance.documented TREE")
    done = subprocess.run(
        [sys.executable, "-m", "conformance.documented", "--parse"],
        cwd=LANES,
        env=TreeAdapter(Path(sys.argv[1])).environment(),
        check=False,
    )
    if done.returncode:
        sys.exit("the release does not take the last line above; correct the document")


if __name__ == "__main__":
    main()
