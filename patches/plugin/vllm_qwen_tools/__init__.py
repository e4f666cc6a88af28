# SPDX-License-Identifier: Apache-2.0
"""Qwen tool calls of a stock vLLM, read by QwenToolReader; no file is changed."""

import hashlib
import importlib.util
import multiprocessing
import os
import sys
from importlib import metadata, resources
from pathlib import Path

SWITCH = "VLLM_QWEN_TOOL_READER"


class Refused(Exception):
    """Why vLLM keeps its own parsers."""


def register() -> None:
    """Take over ``qwen3_coder`` and ``qwen3_xml``, or say why not; never raises.

    What is live is said when the server takes its parser: vLLM's log is set up then.
    """
    process = multiprocessing.current_process().name
    serves = process == "MainProcess" or process.startswith("ApiServer")
    if not serves or sys.argv[0].endswith("/models/registry.py"):
        return  # an engine core, a worker, or vLLM's look at a model's class
    from vllm.logger import init_logger

    logger = init_logger("vllm.qwen_tools")
    name = f"vllm-qwen-tools {metadata.version('vllm-qwen-tools')}"
    try:
        version = check()
        from vllm_qwen_tools import trial

        if fault := trial.run():
            raise Refused(f"the self-test failed: {fault}")
        from vllm_qwen_tools import serving

        name += f" on vLLM {version}"
        serving.install(lambda text: logger.info_once("%s %s", name, text))
    except Refused as reason:
        logger.warning("%s does nothing: %s.", name, reason)
    except Exception:
        logger.exception("%s does nothing: it could not be loaded.", name)


def check() -> str:
    """The version of a stock vLLM that the plugin knows; raises Refused otherwise."""
    if os.environ.get(SWITCH, "1").strip() == "0":
        raise Refused(f"{SWITCH}=0")
    if importlib.util.find_spec("vllm.parser.qwen_tool_reader"):
        raise Refused("this vLLM is patched and needs no plugin")
    import vllm

    # Builds of a release differ behind the plus sign; their files are compared.
    version = vllm.__version__.partition("+")[0]
    sums = {file.name: file for file in resources.files(__name__).iterdir()}
    if (known := sums.get(f"v{version}.sha256")) is None:
        names = (name[:-7] for name in sorted(sums) if name.endswith(".sha256"))
        raise Refused(f"it knows {', '.join(names)}, not vLLM {vllm.__version__}")
    for line in known.read_text("utf-8").splitlines():
        digest, _, path = line.partition("  ")
        file = Path(vllm.__file__).parent.parent / path
        if (
            not file.is_file()
            or hashlib.sha256(file.read_bytes()).hexdigest() != digest
        ):
            raise Refused(f"{path} is not the file of vLLM {version}")
    return version
