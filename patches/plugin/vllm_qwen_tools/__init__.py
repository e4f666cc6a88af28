# SPDX-License-Identifier: Apache-2.0
"""Qwen tool calls of a stock vLLM, read by QwenToolReader; no file is changed."""

import os
import sys
from hashlib import sha256
from importlib import metadata, resources
from multiprocessing import current_process
from pathlib import Path

import vllm
from vllm.logger import init_logger


def register() -> None:
    """Take over the Qwen tool parsers, or say why not; never raises.

    What is live is said when the server takes its parser: vLLM's log is set up then.
    """
    serves = current_process().name.startswith(("MainProcess", "ApiServer"))
    if not serves or sys.argv[0].endswith("/models/registry.py"):
        return  # an engine core, a worker, or vLLM's look at a model's class
    logger = init_logger("vllm.qwen_tools")
    own = metadata.version("vllm-qwen-tools")
    name = f"vllm-qwen-tools {own} on vLLM {vllm.__version__}"
    try:
        if reason := refusal():
            logger.warning("%s does nothing: %s.", name, reason)
            return
        from vllm_qwen_tools import serving

        serving.install(lambda text: logger.info_once("%s %s", name, text))
    except Exception:
        logger.exception("%s does nothing: it could not be loaded.", name)


def refusal() -> str | None:
    """Why vLLM keeps its own parsers; None if this is a stock vLLM that is known."""
    if os.environ.get("VLLM_QWEN_TOOL_READER", "1").strip() == "0":
        return "VLLM_QWEN_TOOL_READER=0"
    site = Path(vllm.__file__).parent.parent
    if (site / "vllm/parser/qwen_tool_reader.py").exists():
        return "this vLLM is patched and needs no plugin"
    # Builds of a release differ behind the plus sign; their files are compared.
    version = vllm.__version__.partition("+")[0]
    sums = {file.name: file for file in resources.files(__name__).iterdir()}
    if (known := sums.get(f"v{version}.sha256")) is None:
        names = (name[:-7] for name in sorted(sums) if name.endswith(".sha256"))
        return f"it knows {', '.join(names)} alone"
    for digest, path in map(str.split, known.read_text("utf-8").splitlines()):
        file = site / path
        if not file.is_file() or sha256(file.read_bytes()).hexdigest() != digest:
            return f"{path} is not the file of vLLM {version}"
    from vllm_qwen_tools import trial

    return trial.run()
