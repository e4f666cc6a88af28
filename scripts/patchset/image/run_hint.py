# SPDX-License-Identifier: Apache-2.0
"""The command that runs an image, for the engine that has it."""

from __future__ import annotations

import shlex
import shutil

from patchset.image.engine import Engine
from patchset.release import Target

#: What is served: models that the patches are for, small enough for one card and for a CPU (docs/deploying.md).
_MODELS: dict[Target, str] = {"cuda": "Qwen/Qwen3.5-9B", "cpu": "Qwen/Qwen3.5-0.8B"}
#: Tool calls and reasoning, and no prefix caching: beside MTP it can corrupt tokens, and on a CPU it needs Triton.
_FLAGS = (
    "--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3",
    "--no-enable-prefix-caching",
)  # fmt: skip
_OWN_FLAGS: dict[Target, tuple[str, ...]] = {
    "cuda": ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}', "--language-model-only",
             "--max-model-len", "32768", "--max-num-seqs", "8"),
    "cpu": ("--enforce-eager", "--dtype", "bfloat16", "--max-model-len", "8192"),
}  # fmt: skip


def command(engine: Engine, tag: str, target: Target) -> str:
    """A whole command line. buildah builds but does not run: podman runs from the same storage."""
    docker = engine.name == "docker"
    argv = ["docker" if docker else "podman", "run", "--rm", "--publish", "127.0.0.1:8000:8000"]
    if target == "cuda":
        # podman finds GPUs through CDI (nvidia-ctk cdi generate); vLLM's workers talk through shared memory.
        argv += ["--gpus", "all"] if docker else ["--device", "nvidia.com/gpu=all"]
    argv += ["--ipc", "host", "--volume", "vllm-models:/home/vllm/.cache/huggingface", tag]
    argv += [_MODELS[target], "--served-model-name", "qwen", *_FLAGS, *_OWN_FLAGS[target]]
    line = shlex.join(argv)
    if not docker and shutil.which("podman") is None:
        line += "  (after: apt-get install podman)"
    return line
