# SPDX-License-Identifier: Apache-2.0
"""The cpu lane's checkpoint in the form that releases before v0.32.0 know: ``Qwen3_5ForConditionalGeneration``.

Those releases have no text-only Qwen3.5. The composite model is the same language model below
``model.language_model``, beside a vision part which is never loaded (``--language-model-only``).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

#: safetensors' format: a header of at most 100 MB behind its length, 8 bytes little-endian.
_MOST_HEADER = 100 << 20
_WEIGHTS = "model.safetensors"
#: Small, and whole enough for the configuration's own checks; no weight belongs to it.
_VISION = {
    "model_type": "qwen3_5",
    "depth": 1,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_heads": 2,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "num_position_embeddings": 16,
}


def write(checkpoint: Path, out: Path) -> None:
    """Write the checkpoint folder ``checkpoint`` as a composite model into the empty folder ``out``."""
    for file in checkpoint.iterdir():
        if file.name not in ("config.json", _WEIGHTS):
            shutil.copyfile(file, out / file.name)
    text = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    (out / "config.json").write_text(
        json.dumps(config(text), indent=1) + "\n", encoding="utf-8"
    )
    _rename(checkpoint / _WEIGHTS, out / _WEIGHTS)
    for name, processor in (
        ("preprocessor_config.json", "Qwen2VLImageProcessorFast"),
        ("video_preprocessor_config.json", "Qwen3VLVideoProcessor"),
    ):
        kind = (
            "video_processor_type"
            if name.startswith("video")
            else "image_processor_type"
        )
        said = {
            kind: processor,
            "processor_class": "Qwen3VLProcessor",
            "patch_size": 16,
            "merge_size": 2,
            "temporal_patch_size": 2,
            "size": {"shortest_edge": 65536, "longest_edge": 16777216},
        }
        (out / name).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def config(text: dict[str, Any]) -> dict[str, Any]:
    """The composite configuration around a text model's."""
    # Ids that no token of the small vocabulary has: nothing in a prompt can be taken for an image.
    beyond = int(text["vocab_size"])
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": {
            name: value
            for name, value in text.items()
            if name not in ("architectures", "transformers_version")
        },
        "vision_config": _VISION | {"out_hidden_size": text["hidden_size"]},
        "image_token_id": beyond,
        "video_token_id": beyond + 1,
        "vision_start_token_id": beyond + 2,
        "vision_end_token_id": beyond + 3,
        "mtp_num_hidden_layers": text["mtp_num_hidden_layers"],
        "tie_word_embeddings": text["tie_word_embeddings"],
        "eos_token_id": text["eos_token_id"],
        "pad_token_id": text["pad_token_id"],
        "dtype": text["dtype"],
    }


def _rename(weights: Path, out: Path) -> None:
    """Copy a safetensors file; only names in its header change."""
    with weights.open("rb") as source, out.open("wb") as target:
        length = int.from_bytes(source.read(8), "little")
        if length > _MOST_HEADER:
            raise ValueError(f"{weights} has a header of {length} bytes")
        header = json.loads(source.read(length))
        renamed = json.dumps(
            {_name(name): value for name, value in header.items()}
        ).encode()
        renamed += b" " * (-len(renamed) % 8)
        target.write(len(renamed).to_bytes(8, "little") + renamed)
        shutil.copyfileobj(source, target)


def _name(name: str) -> str:
    return (
        f"model.language_model.{name[len('model.') :]}"
        if name.startswith("model.")
        else name
    )
