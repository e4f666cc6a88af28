# SPDX-License-Identifier: Apache-2.0
"""``python -m server.training FOLDER``: train the small model and write it."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from conformance.case import Case, Run
from server.questions import ANSWERS, key, prompt, taught
from server.training import FOLDER, MADE, RELEASE, train
from server.training import model as architecture
from server.training import tokenizer as tokens

_TEMPLATE = FOLDER / "chat_template.jinja"
#: Of the weights and of the blur.
_SEED = 20
#: Of torch; a part of what makes the result repeatable.
_THREADS = 2


def main(out: Path) -> None:
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(_THREADS)
    torch.manual_seed(_SEED)
    asked = [*taught()]
    # The chat template asks for no vocabulary.
    prompts = _prompts(tokens.train([], _TEMPLATE), asked)
    texts = [prompts[name] + run.output for name, _, run in asked]
    tokenizer = tokens.train(texts, _TEMPLATE)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    sequences, answers = [], {}
    for name, case, run in asked:
        answer = tokenizer.encode(run.output, add_special_tokens=False)
        if tokenizer.decode(answer) != run.output:
            raise RuntimeError(f"the tokenizer does not give {name} back")
        if case.end != "length":
            answer = [*answer, end]
        before = tokenizer.encode(prompts[name], add_special_tokens=False)
        sequences.append((before, answer))
        answers[key(case, run)] = answer
    config = architecture.config(len(tokenizer), end, tokenizer.pad_token_id)
    network = Qwen3_5ForCausalLM(config).float()
    certain = train.learn(network, sequences, tokenizer.pad_token_id)
    data = train.batches(sequences, tokenizer.pad_token_id)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.bfloat16().float())
    if not train.greedy_is_right(network, data):
        raise RuntimeError("rounded to bfloat16 the model no longer knows every answer")
    mtp = architecture.Mtp(config)
    train.learn_mtp(network, mtp, data)
    drafts = train.blur(network, mtp, data, _SEED)
    _save(out, network, mtp, config, tokenizer)
    _write(out / ANSWERS, answers)
    made = {
        "taught_by": f"python -m server.training, in the CPU build of {RELEASE}",
        "torch": torch.__version__,
        "least_certain": certain,
        **drafts,
        "sha256": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(out.iterdir())
        },
    }
    _write(out / MADE, made, indent=1)


def _write(file: Path, content: Any, indent: int | None = None) -> None:
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def _prompts(
    tokenizer: transformers.PreTrainedTokenizerFast,
    asked: list[tuple[str, Case, Run]],
) -> dict[str, str]:
    bodies = ((name, prompt(case, run)) for name, case, run in asked)
    prompts = {
        name: tokenizer.apply_chat_template(
            body["messages"],
            tools=body.get("tools"),
            add_generation_prompt=True,
            tokenize=False,
            **body.get("chat_template_kwargs", {}),
        )
        for name, body in bodies
    }
    if len(set(prompts.values())) != len(prompts):
        raise RuntimeError("two answers have the same prompt")
    return prompts


def _save(
    out: Path,
    network: Qwen3_5ForCausalLM,
    mtp: architecture.Mtp,
    config: transformers.PretrainedConfig,
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    weights = {
        **network.state_dict(),
        **{f"mtp.{name}": value for name, value in mtp.state_dict().items()},
    }
    saved = {
        name: value.detach().clone().contiguous()
        if name.endswith(("A_log", "dt_bias"))  # kept exact
        else value.detach().bfloat16().contiguous()
        for name, value in weights.items()
    }
    save_file(saved, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(out)
    config.save_pretrained(out)
    # As transformers writes it, half of it is white space.
    vocabulary = out / "tokenizer.json"
    _write(vocabulary, json.loads(vocabulary.read_text(encoding="utf-8")))
    (out / "generation_config.json").write_text(
        json.dumps({"eos_token_id": config.eos_token_id}), encoding="utf-8"
    )


main(Path(sys.argv[1]))
