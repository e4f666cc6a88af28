# SPDX-License-Identifier: Apache-2.0
"""Import what a server with MTP imports, and say where each package came from; run with the release's own Python."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path

MODULES = (
    "vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main", "vllm.entrypoints.cli.serve",
    "vllm.model_executor.models.qwen3_5", "vllm.model_executor.models.qwen3_5_mtp", "vllm.v1.worker.gpu_worker",
    "vllm.v1.worker.gpu_model_runner", "vllm.v1.engine.async_llm", "vllm.v1.engine.core", "vllm.v1.spec_decode.eagle",
    "vllm.v1.attention.backends.flash_attn", "vllm.v1.attention.backends.gdn_attn",
    "vllm.v1.structured_output.backend_xgrammar",
)  # fmt: skip


def main(own: list[str]) -> None:
    """Print a JSON object: how many modules, which packages are the host's, and what failed."""
    failed = {}
    for name in MODULES:
        try:
            importlib.import_module(name)
        except BaseException:  # whatever stops an import is what is asked here
            failed[name] = traceback.format_exc(limit=-3)
    parsers, scenarios = [], 0
    if not failed:
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager

        from gpu import tool_eval  # what judges real weights, beside the server

        parsers = [
            ToolParserManager.get_tool_parser("qwen3_coder").__module__,
            ReasoningParserManager.get_reasoning_parser("qwen3").__module__,
        ]
        scenarios = len(tool_eval.scenarios())
    standard = {Path(path).resolve() for path in (sys.base_prefix, sys.prefix)}
    inside = [Path(path).resolve() for path in own]
    host, bundle = set(), set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or "." in name:
            continue
        place = Path(file).resolve()
        if any(place.is_relative_to(folder) for folder in inside):
            bundle.add(name)
        elif (
            "site-packages" in place.parts
            or "dist-packages" in place.parts
            or not any(place.is_relative_to(folder) for folder in standard)
        ):
            host.add(name)
    said = {
        "imported": len(MODULES) - len(failed),
        "parsers": parsers,
        "scenarios": scenarios,
        "bundle": len(bundle),
        "host": sorted(host),
    }
    print("\n" + json.dumps(said | {"failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1:])
