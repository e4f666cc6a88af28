# SPDX-License-Identifier: Apache-2.0
"""Loaded by every Python process of the server, and by nothing of the product: a shim and a tap.

``E2E_TORCHVISION_SHIM=1``: defines the two operators which the CUDA build of torchvision registers fakes for, so
that it imports beside a CPU build of torch. vLLM's Qwen3.5 model file imports torchvision for images only.

``E2E_TAP=FILE``: writes a JSON line for each finished request with the token ids that the engine gave the serving
code, and the size of each delivery. It watches ``AsyncLLM.generate`` and changes nothing of what passes through.
"""

import hashlib
import importlib.util
import json
import os
import sys


def _define_torchvision_operators():
    import torch

    operators = torch.library.Library("torchvision", "DEF")
    operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(operators)


def _tap(module):
    generate = module.AsyncLLM.generate
    lines = open(os.environ["E2E_TAP"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115, PTH123  (open as long as the process)

    async def tapped(self, prompt, sampling_params, request_id, *rest, **named):
        tokens, bursts, prompt_ids = [], [], None
        streamed = sampling_params.output_kind.name == "DELTA"
        try:
            async for result in generate(self, prompt, sampling_params, request_id, *rest, **named):
                if result.outputs:
                    new = list(result.outputs[0].token_ids)
                    tokens = tokens + new if streamed else new
                    bursts += [len(new)] if streamed and new else []
                prompt_ids = result.prompt_token_ids or prompt_ids
                yield result
        finally:
            digest = hashlib.sha256(",".join(map(str, prompt_ids or [])).encode()).hexdigest()
            lines.write(
                json.dumps({"id": request_id, "prompt": digest, "tokens": tokens, "bursts": bursts}) + "\n"
            )

    module.AsyncLLM.generate = tapped


class _Hook:
    """Runs code right before or right after one module is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torchvision" and os.environ.get("E2E_TORCHVISION_SHIM") and not _kept:
            _define_torchvision_operators()
        if name != "vllm.v1.engine.async_llm" or "E2E_TAP" not in os.environ:
            return None
        sys.meta_path.remove(_Hook)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _tap(module)

        spec.loader.exec_module = exec_module
        return spec


_kept = []
sys.meta_path.insert(0, _Hook)
