# SPDX-License-Identifier: Apache-2.0
"""Train and write one checkpoint folder: config, weights, tokenizer, ``answers.json`` and ``made.json``."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from cpu import transcripts as known
from cpu.checkpoint import model as architecture
from cpu.checkpoint import tokenizer as tokens
from cpu.checkpoint import train


def main() -> None:
    parser = argparse.ArgumentParser(prog="cpu.checkpoint", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument(
        "--seed", type=int, default=20, help="of the weights and of the blur"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="of torch; part of what makes the result repeatable",
    )
    chosen = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    start = time.monotonic()
    made = make(chosen.out, chosen.seed)
    made |= {
        "seconds": round(time.monotonic() - start, 1),
        "seed": chosen.seed,
        "torch": torch.__version__,
    }
    (chosen.out / "made.json").write_text(
        json.dumps(made, indent=1) + "\n", encoding="utf-8"
    )


def make(out: Path, seed: int) -> dict[str, float]:
    """Write the checkpoint; returns how certain it is and how often its drafts are right."""
    transcripts = known.load()
    rendered = _prompts(tokens.train([], known.TEMPLATE), transcripts)
    tokenizer = tokens.train(
        [rendered[id] + t.text for id, t in transcripts.items()], known.TEMPLATE
    )
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    answers = {
        id: {
            "prompt": tokenizer.encode(rendered[id], add_special_tokens=False),
            "answer": [
                *tokenizer.encode(transcript.text, add_special_tokens=False),
                end,
            ],
        }
        for id, transcript in transcripts.items()
    }
    for id, entry in answers.items():
        if tokenizer.decode(entry["answer"][:-1]) != transcripts[id].text:
            raise RuntimeError(f"the tokenizer does not give {id} back")
        entry["cuts"] = [
            len(tokenizer.decode(entry["answer"][:n]))
            for n in range(1, len(entry["answer"]))
        ]
    sequences = [(entry["prompt"], entry["answer"]) for entry in answers.values()]
    config = architecture.config(len(tokenizer), end, tokenizer.pad_token_id)
    network = Qwen3_5ForCausalLM(config).float()
    least = train.learn(network, sequences, tokenizer.pad_token_id)
    data = train.batches(sequences, tokenizer.pad_token_id)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.bfloat16().float())
    if not train.greedy_is_right(network, data):
        raise RuntimeError("rounded to bfloat16 the model no longer knows every answer")
    mtp = architecture.Mtp(config)
    train.learn_mtp(network, mtp, data)
    drafts = train.blur(network, mtp, data, seed)
    _save(out, network, mtp, config, tokenizer)
    (out / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    count = sum(len(entry["answer"]) for entry in answers.values())
    return {
        "least_certain": least,
        "answer_tokens": count,
        "vocabulary": len(tokenizer),
        **drafts,
    }


def _prompts(
    tokenizer: transformers.PreTrainedTokenizerFast,
    transcripts: dict[str, known.Transcript],
) -> dict[str, str]:
    prompts = {}
    for id, transcript in transcripts.items():
        tools = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in known.tool_schemas(transcript.tools).items()
        ]
        messages = known.prompt_messages(transcript, transcripts)
        prompts[id] = tokenizer.apply_chat_template(
            messages,
            tools=tools or None,
            add_generation_prompt=True,
            enable_thinking=transcript.thinking,
            tokenize=False,
        )
    if len(set(prompts.values())) != len(prompts):
        raise RuntimeError("two transcripts have the same prompt")
    return prompts


def _save(
    out: Path,
    network: Qwen3_5ForCausalLM,
    mtp: architecture.Mtp,
    config: transformers.PretrainedConfig,
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    weights = {name: value for name, value in network.state_dict().items()}
    weights |= {f"mtp.{name}": value for name, value in mtp.state_dict().items()}
    kept_exact = ("A_log", "dt_bias")
    saved = {
        name: value.detach().clone().contiguous()
        if name.endswith(kept_exact)
        else value.detach().bfloat16().contiguous()
        for name, value in weights.items()
    }
    save_file(saved, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(out)
    config.save_pretrained(out)
    (out / "generation_config.json").write_text(
        json.dumps({"eos_token_id": config.eos_token_id}), encoding="utf-8"
    )


main()
