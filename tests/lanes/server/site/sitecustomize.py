# SPDX-License-Identifier: Apache-2.0
"""Loaded by the server's processes, and by nothing of the product: shim, mend and tap.

``SERVER_LANE_TORCHVISION_SHIM=1``: where torch is a CPU build and torchvision is not,
defines the two operators which the CUDA build of torchvision registers fakes for, so
that it imports. vLLM's Qwen3.5 model file imports torchvision for images only.

``SERVER_LANE_CONV_MEND=1``: mends three functions of v0.32.0 on CPUs. It is the model's
arithmetic; no parser is near.

- The gated-delta-net convolution stops the engine whenever a step verifies fewer drafts
  than k: at ``max_tokens``, at the length limit, under a grammar. With AMX, the kernel
  refuses such a step after one that accepted more tokens than it has, so the fallback
  must take it; and of the fallback's rolling buffer only the columns of this step's
  tokens must be rolled.
- The kernel that gives each draft its request's temperature, ``top_k`` and ``top_p``
  fills a copy, and the sampler reads memory that nobody wrote.
- ``top_k`` stops the engine at a step without drafts, as the first one is.

``SERVER_LANE_TAP=FILE``: writes a JSON line for each finished request with the token
ids that the engine gave the serving code. It watches ``AsyncLLM.generate`` and changes
nothing of what passes through.
"""

import importlib.metadata
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from importlib.machinery import PathFinder
from typing import Any

Run = Callable[[Any], None]


def _shim(module: Any, run: Run) -> None:
    import torch

    builds = [importlib.metadata.version(name) for name in ("torch", "torchvision")]
    if ["+cpu" in build for build in builds] == [True, False]:
        operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            taken = "Tensor dets, Tensor scores, float iou_threshold"
            operators.define(f"{name}({taken}) -> Tensor")
        module.operators_of_the_shim = operators  # they end with it
    run(module)


def _tap(module: Any, run: Run) -> None:
    run(module)
    generate = module.AsyncLLM.generate
    path = os.environ["SERVER_LANE_TAP"]  # open as long as the process
    lines = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115, PTH123

    async def tapped(
        self: Any,
        prompt: Any,
        sampling_params: Any,
        request_id: str,
        *rest: Any,
        **named: Any,
    ) -> AsyncIterator[Any]:
        tokens: list[int] = []
        streamed = sampling_params.output_kind.name == "DELTA"
        try:
            async for result in generate(
                self, prompt, sampling_params, request_id, *rest, **named
            ):
                if result.outputs:
                    new = list(result.outputs[0].token_ids)
                    tokens = tokens + new if streamed else new
                yield result
        finally:
            lines.write(json.dumps({"id": request_id, "tokens": tokens}) + "\n")

    module.AsyncLLM.generate = tapped


_MENDS = {
    "vllm.model_executor.layers.mamba.ops.cpu.gdn_attention": {
        """\
            keep = B[:, offset + 1 : offset + 1 + (state_len - q_i)]
            new_B = torch.cat([keep, x_seq], dim=-1)
            B.copy_(new_B)
""": """\
            keep = B[:, offset + 1 : offset + 1 + (width - 2)]
            new_B = torch.cat([keep, x_seq], dim=-1)
            B[:, : width - 2 + q_i].copy_(new_B)
""",
        "        and int(seq_lens[0].item()) > 0\n": (
            "        and int(seq_lens[0].item()) == state_len - width + 2\n"
        ),
    },
    "vllm.utils.cpu_triton_utils": {
        """\
    torch.ops._C.expand_kernel_impl(
        _ensure_int64(output),
        _ensure_int64(input_val),
        _ensure_int64(cu_num_tokens),
        replace_from,
        replace_to,
    )
""": """\
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    values = input_val.masked_fill(input_val == replace_from, replace_to)
    output.copy_(values.repeat_interleave(counts))
""",
    },
    "vllm.v1.sample.ops.topk_topp_sampler": {
        """\
    max_top_k = k.max()
""": """\
    if not len(k):
        return logits
    max_top_k = k.max()
""",
    },
}


def _mend(module: Any, _: Run) -> None:
    source = module.__loader__.get_source(module.__name__)
    for wrong, right in _MENDS[module.__name__].items():
        if source.count(wrong) != 1:
            raise ImportError(
                f"{module.__name__} is not what SERVER_LANE_CONV_MEND mends"
            )
        source = source.replace(wrong, right)
    exec(compile(source, module.__file__, "exec"), module.__dict__)


#: What is done, by the module that is imported, if a variable is set.
_WATCHED = {
    "torchvision": ("SERVER_LANE_TORCHVISION_SHIM", _shim),
    "vllm.v1.engine.async_llm": ("SERVER_LANE_TAP", _tap),
    **{name: ("SERVER_LANE_CONV_MEND", _mend) for name in _MENDS},
}


class _Hook:
    """Runs code right before, instead of or right after an import."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        variable, act = _WATCHED.get(name, ("", _shim))
        if not os.environ.get(variable):
            return None
        spec: Any = PathFinder.find_spec(name, path)
        if spec:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: act(module, run)
        return spec


sys.meta_path.insert(0, _Hook)
