# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.documented TREE``: whether the release takes the lines
that serve a model in the documents.
"""

import re
import shlex
import sys

from conformance.lines import LANES

ROOT = LANES.parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
MANIFESTS = (ROOT / "docker/compose.yaml", ROOT / "docker/kubernetes/vllm.yaml")
#: ``vllm serve``, or ``docker run`` up to the image, whose entry point is ``vllm
#: serve``; ``MODEL`` stands for a model.
_LINE = re.compile(
    r"^\$ (?:[A-Z_]+=\S+ )*"
    r"(?:vllm serve|docker run (?:.*\\\n)*?.*? "
    r"(?:localhost/vllm-mtp-patches|vllm-mtp):\S+)"
    r"(?=\s)(?!\s+\\\n\s+MODEL)"
    r"((?:.*\\\n)*.*)$",
    re.MULTILINE,
)
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def lines(text: str) -> list[list[str]]:
    """Return the server's arguments in each line of a Markdown text that serves a
    model, continuations joined.
    """
    return [shlex.split(line.replace("\\\n", " ")) for line in _LINE.findall(text)]


def in_manifest(text: str) -> list[list[str]]:
    """Return the arguments of each container in a Compose file or Kubernetes manifest;
    variables by their default.
    """
    import yaml

    commands = []
    for document in yaml.safe_load_all(_DEFAULT.sub(r"\1", text)):
        commands += [
            service["command"] for service in document.get("services", {}).values()
        ]
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        commands += [container["args"] for container in pod.get("containers", [])]
    return commands


def documented() -> dict[str, list[list[str]]]:
    commands = {path: lines(path.read_text(encoding="utf-8")) for path in DOCUMENTS}
    commands |= {
        path: in_manifest(path.read_text(encoding="utf-8")) for path in MANIFESTS
    }
    return {
        str(path.relative_to(ROOT)): some for path, some in commands.items() if some
    }


def main() -> None:
    """Parse all of them with the parser of the tree that the command line names; what
    it refuses ends the process.
    """
    sys.dont_write_bytecode = True  # the tree stays as it was unpacked
    sys.path.insert(0, sys.argv[1])
    from conformance.host.engine import argument_parser, use_cpu_platform

    use_cpu_platform()
    parser = argument_parser()
    for path, commands in documented().items():
        for command in commands:
            print(f"{path}: vllm serve {shlex.join(command)}", flush=True)
            # What the release does not take ends here, below its own line.
            parsed = parser.parse_args(command)
            if not (
                parsed.enable_auto_tool_choice
                and parsed.tool_call_parser == "qwen3_coder"
            ):
                sys.exit(f"{path}: the line does not enable qwen3_coder's tool calls")


if __name__ == "__main__":
    main()
