# SPDX-License-Identifier: Apache-2.0
"""v0.32.0's own engine on the CPU, MTP beside prefix caching: are the tokens those of k = 0?

Its state copies are Triton kernels. Triton's interpreter runs them where there is no GPU, slowly.
Run it with the Python of the cpu lane's environment (``nox -s cpu-tests`` makes it, and the checkpoint):

    PYTHONPATH=tests/lanes/cpu/site PYTHON tests/lanes/tokens/served.py CHECKPOINT [K...]
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

SETTINGS = {
    "TRITON_INTERPRET": "1",
    "CUDA_VISIBLE_DEVICES": "",  # else vLLM looks for a driver and leaves Triton out
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "E2E_TORCHVISION_SHIM": "1",
    "E2E_CONV_MEND": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def serve(checkpoint: str, mtp: int) -> None:
    """Four prompts of which two share a beginning each, their second turns, and the prompts again, as one line of JSON."""
    from vllm import LLM, SamplingParams

    more: dict[str, Any] = {}
    if mtp:
        more["speculative_config"] = {"method": "mtp", "num_speculative_tokens": mtp}
    engine = LLM(
        checkpoint,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=3072,
        max_num_seqs=8,
        max_num_batched_tokens=600,
        enable_prefix_caching=True,
        async_scheduling=False,
        disable_log_stats=False,
        **more,
    )
    pick = random.Random(1)
    begun = [[pick.randrange(5, 1270) for _ in range(length)] for length in (700, 1100)]
    prompts = [
        begun[n % 2] + [pick.randrange(5, 1270) for _ in range(pick.randrange(5, 200))]
        for n in range(4)
    ]
    sampling = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    tokens, cached = [], []
    for turn in range(3):
        asked = (
            [p + said + [7, 8, 9] for p, said in zip(prompts, tokens[0], strict=True)]
            if turn == 1
            else prompts
        )
        answers = engine.generate(
            [{"prompt_token_ids": p} for p in asked], sampling, use_tqdm=False
        )
        tokens.append([list(answer.outputs[0].token_ids) for answer in answers])
        cached.append([answer.num_cached_tokens for answer in answers])
    drafts = {
        m.name: m.value
        for m in engine.get_metrics()
        if m.name.startswith("vllm:spec_decode_num") and hasattr(m, "value")
    }
    print(
        "\n"
        + json.dumps({"k": mtp, "tokens": tokens, "cached": cached, "drafts": drafts})
    )


def main() -> int:
    """Serve k = 0, then each K; exit status 1 if a token differs."""
    checkpoint, *ks = sys.argv[1:]
    control, wrong = None, 0
    for k in [0, *map(int, ks or "12345")]:
        done = subprocess.run(
            [sys.executable, __file__, "--one", checkpoint, str(k)],
            env={**os.environ, **SETTINGS},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"k"')]
        if done.returncode or not lines:
            print(f"k = {k}: no answer, exit status {done.returncode}")
            return 1
        found = json.loads(lines[-1])
        control = control or found["tokens"]
        same = found["tokens"] == control
        wrong += not same
        print(
            f"k = {k}: {'as' if same else 'NOT as'} k = 0, from the cache {found['cached']}, {found['drafts']}",
            flush=True,
        )
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
