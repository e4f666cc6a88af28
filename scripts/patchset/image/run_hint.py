# SPDX-License-Identifier: Apache-2.0
"""The command that runs an image, for the engine that has it."""

from __future__ import annotations

import shlex

from patchset.base.release import Target
from patchset.image.engine import Engine

#: An example that fits the target: one that the patches are for, and one that a CPU can bear.
MODELS: dict[Target, str] = {"cuda": "Qwen/Qwen3-Coder-30B-A3B-Instruct", "cpu": "Qwen/Qwen3.5-0.8B"}


def command(engine: Engine, tag: str, target: Target) -> str:
    """A whole command line. buildah builds but does not run: podman runs from the same storage."""
    docker = engine.name == "docker"
    words = ["docker" if docker else "podman", "run", "--rm", "--publish", "8000:8000"]
    if target == "cuda":
        # podman finds GPUs through CDI (nvidia-ctk cdi generate); vLLM's workers talk through shared memory.
        words += ["--gpus", "all"] if docker else ["--device", "nvidia.com/gpu=all"]
    words += ["--ipc", "host", "--volume", "vllm-models:/home/vllm/.cache/huggingface", tag, MODELS[target]]
    words += ["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder"]
    return shlex.join(words)
