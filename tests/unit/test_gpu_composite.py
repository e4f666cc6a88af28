# SPDX-License-Identifier: Apache-2.0
"""The composite form of the cpu lane's checkpoint."""

import json
from pathlib import Path

from gpu import composite


def test_the_composite_checkpoint_holds_the_same_weights(tmp_path: Path) -> None:
    source, out = tmp_path / "text", tmp_path / "composite"
    source.mkdir()
    out.mkdir()
    data = bytes(range(64))
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "model.embed_tokens.weight": {
                "dtype": "U8",
                "shape": [32],
                "data_offsets": [0, 32],
            },
            "lm_head.weight": {"dtype": "U8", "shape": [16], "data_offsets": [32, 48]},
            "mtp.fc.weight": {"dtype": "U8", "shape": [16], "data_offsets": [48, 64]},
        }
    ).encode()
    (source / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + data
    )
    text = {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": 1289,
        "hidden_size": 192,
        "mtp_num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "eos_token_id": 1282,
        "pad_token_id": 1280,
        "dtype": "bfloat16",
    }
    (source / "config.json").write_text(json.dumps(text))
    (source / "answers.json").write_text("{}")
    composite.write(source, out)
    made = (out / "model.safetensors").read_bytes()
    length = int.from_bytes(made[:8], "little")
    names = json.loads(made[8 : 8 + length])
    assert length % 8 == 0 and made[8 + length :] == data
    assert names["model.language_model.embed_tokens.weight"]["data_offsets"] == [0, 32]
    assert {"lm_head.weight", "mtp.fc.weight", "__metadata__"} < set(names)
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    assert (
        config["text_config"]["hidden_size"] == 192
        and config["mtp_num_hidden_layers"] == 1
    )
    assert (out / "answers.json").is_file()
