# SPDX-License-Identifier: Apache-2.0
"""The architecture: a small Qwen3.5 of transformers, and its MTP layer."""

import torch
from torch import nn
from transformers import Qwen3_5TextConfig
from transformers.masking_utils import create_causal_mask
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5DecoderLayer,
    Qwen3_5ForCausalLM,
    Qwen3_5RMSNorm,
    Qwen3_5TextRotaryEmbedding,
)


def config(vocabulary: int, eos: int, pad: int) -> Qwen3_5TextConfig:
    """Return three gated-delta-net layers and one of full attention.

    The CPU kernels want head sizes that 32 divides.
    """
    made = Qwen3_5TextConfig(
        vocab_size=vocabulary,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        max_position_embeddings=4096,
        # No mrope_section: a text model has none, and with one v0.32.0's CPU kernels
        # crash in the MTP layer.
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
        partial_rotary_factor=0.5,
        tie_word_embeddings=False,
        eos_token_id=eos,
        pad_token_id=pad,
        dtype="bfloat16",
    )
    made.mtp_num_hidden_layers = 1
    made.mamba_ssm_dtype = "float32"
    made.architectures = ["Qwen3_5ForCausalLM"]
    return made


class Mtp(nn.Module):
    """One MTP layer: from hidden state t and token t + 1 it predicts token t + 2."""

    def __init__(self, config: Qwen3_5TextConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.pre_fc_norm_embedding = Qwen3_5RMSNorm(size, eps=config.rms_norm_eps)
        self.pre_fc_norm_hidden = Qwen3_5RMSNorm(size, eps=config.rms_norm_eps)
        self.fc = nn.Linear(2 * size, size, bias=False)
        attention = config.layer_types.index("full_attention")
        self.layers = nn.ModuleList([Qwen3_5DecoderLayer(config, attention)])
        self.norm = Qwen3_5RMSNorm(size, eps=config.rms_norm_eps)
        nn.init.normal_(self.fc.weight, std=0.02)
        for name, parameter in self.layers.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self,
        hidden: torch.Tensor,
        embedded: torch.Tensor,
        positions: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """Return the next step's hidden states, from these and the next tokens; [B, T,
        H].
        """
        both = torch.cat(
            [self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)],
            dim=-1,
        )
        mixed = self.fc(both)
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=mixed,
            attention_mask=None,
            past_key_values=None,
            position_ids=None,
        )
        return self.norm(
            self.layers[0](mixed, position_embeddings=positions, attention_mask=mask)
        )


def rotary(
    model: Qwen3_5ForCausalLM, hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rotary embedding of positions 0..T-1 for [B, T, H]."""
    embedding: Qwen3_5TextRotaryEmbedding = model.model.rotary_emb
    where = torch.arange(hidden.shape[1]).view(1, 1, -1).expand(3, hidden.shape[0], -1)
    return embedding(hidden, where)
