# SPDX-License-Identifier: Apache-2.0
"""Training by heart: the model until it is certain, its MTP layer, then the blur."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from server.training.model import Mtp, rotary

#: Steps over all answers, at most; it stops when the least certain token is so certain.
MOST_STEPS = 240
CERTAIN = 0.9
#: Steps in which the learning rate falls to its twentieth.
ANNEAL_STEPS = 110
MTP_STEPS = 45
#: Tokens in one batch; padding counts. With 2048, 125 steps were needed, not 73.
BATCH_TOKENS = 1024
LEARNING_RATE = 2e-3
#: The share of first drafts that the blurred layer still gets right, teacher-forced.
TARGET = 0.87
TOLERANCE = 0.01


@dataclass(frozen=True)
class Batch:
    """Token ids [B, T], where they are an answer's, and the sequence of each row."""

    ids: torch.Tensor
    answer: torch.Tensor
    rows: list[int]


def batches(sequences: Sequence[tuple[list[int], list[int]]], pad: int) -> list[Batch]:
    """Return prompts and answers in batches of similar length."""
    made: list[Batch] = []
    sizes = [len(prompt) + len(said) for prompt, said in sequences]
    waiting = sorted(range(len(sequences)), key=lambda n: sizes[n])
    while waiting:
        longest = sizes[waiting[-1]]
        count = max(1, BATCH_TOKENS // longest)
        chosen, waiting = waiting[-count:], waiting[:-count]
        ids = torch.full((len(chosen), longest), pad)
        answer = torch.zeros((len(chosen), longest), dtype=torch.bool)
        for row, (prompt, said) in enumerate(sequences[n] for n in chosen):
            ids[row, : len(prompt) + len(said)] = torch.tensor(prompt + said)
            answer[row, len(prompt) : len(prompt) + len(said)] = True
        made.append(Batch(ids, answer, chosen))
    return made


def learn(
    model: Qwen3_5ForCausalLM,
    sequences: Sequence[tuple[list[int], list[int]]],
    pad: int,
) -> float:
    """Train until the least certain token has probability ``CERTAIN``; returns it.

    Answers that are known already are repeated in every fourth step only.

    Raises:
        RuntimeError: it was not reached in ``MOST_STEPS`` steps.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0
    )
    model.train()
    certain = [0.0] * len(sequences)
    with tqdm(
        total=MOST_STEPS, desc="learning the answers", mininterval=5, unit="step"
    ) as bar:
        for step in range(MOST_STEPS):
            for group in optimizer.param_groups:
                warm = min(1.0, (step + 1) / 10)
                group["lr"] = (
                    LEARNING_RATE * warm * (0.05 + 0.95 * _cosine(step / ANNEAL_STEPS))
                )
            everything = step % 4 == 0
            chosen = [
                n for n in range(len(sequences)) if everything or certain[n] < CERTAIN
            ]
            for batch in batches([sequences[n] for n in chosen], pad):
                hidden = model.model(batch.ids, use_cache=False).last_hidden_state
                where = batch.answer[:, 1:]
                logits = model.lm_head(hidden[:, :-1][where]).float()
                loss = F.cross_entropy(
                    logits, batch.ids[:, 1:][where], reduction="none"
                )
                worst = (
                    torch.zeros(where.shape)
                    .masked_scatter(where, loss.detach())
                    .amax(dim=1)
                )
                for row, value in zip(batch.rows, worst.tolist(), strict=True):
                    certain[chosen[row]] = math.exp(-value)
                loss.mean().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            bar.update(1)
            known = sum(share >= CERTAIN for share in certain)
            bar.set_postfix_str(
                f"{known} of {len(certain)} known, least certain {min(certain):.3f}",
                refresh=False,
            )
            if everything and known == len(certain):
                return min(certain)
    raise RuntimeError(
        f"after {MOST_STEPS} steps the least certain token has {min(certain):.3f}"
    )


def learn_mtp(model: Qwen3_5ForCausalLM, mtp: Mtp, data: Sequence[Batch]) -> None:
    """Train the MTP layer on the finished model's hidden states, two drafts deep."""
    model.eval()
    known = [_known(model, batch) for batch in data]
    optimizer = torch.optim.AdamW(
        mtp.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0
    )
    for step in tqdm(
        range(MTP_STEPS), desc="learning to draft", mininterval=5, unit="step"
    ):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (0.05 + 0.95 * _cosine(step / MTP_STEPS))
        for hidden, embedded, batch in known:
            loss = torch.zeros(())
            for depth, logits, target in _drafts(
                model, mtp, hidden, embedded, batch, depth=2
            ):
                loss = loss + F.cross_entropy(logits, target) / depth
            loss.backward()
            torch.nn.utils.clip_grad_norm_(mtp.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def blur(
    model: Qwen3_5ForCausalLM, mtp: Mtp, data: Sequence[Batch], seed: int
) -> dict[str, float]:
    """Add noise to the MTP layer until ``TARGET`` of its first drafts are right.

    Returns the scale of the noise and the shares of right drafts by depth.
    """
    known = [_known(model, batch) for batch in data]
    sharp = mtp.fc.weight.detach().clone()
    noise = (
        torch.randn(sharp.shape, generator=torch.Generator().manual_seed(seed))
        * sharp.std()
    )
    low, high = 0.0, 4.0
    shares: list[float] = []
    scale = 0.0
    for _ in range(12):
        scale = (low + high) / 2
        with torch.no_grad():
            mtp.fc.weight.copy_(sharp + scale * noise)
        shares = _right(model, mtp, known)
        if abs(shares[0] - TARGET) < TOLERANCE:
            break
        low, high = (scale, high) if shares[0] > TARGET else (low, scale)
    return {
        "blur": scale,
        **{f"right_{depth + 1}": share for depth, share in enumerate(shares)},
    }


def greedy_is_right(model: Qwen3_5ForCausalLM, data: Sequence[Batch]) -> bool:
    """Return whether the model, rounded as saved, still knows every answer token."""
    model.eval()
    for batch in data:
        with torch.no_grad():
            hidden = model.model(batch.ids, use_cache=False).last_hidden_state
        where = batch.answer[:, 1:]
        if not bool(
            (
                model.lm_head(hidden[:, :-1][where]).argmax(-1)
                == batch.ids[:, 1:][where]
            ).all()
        ):
            return False
    return True


def _known(
    model: Qwen3_5ForCausalLM, batch: Batch
) -> tuple[torch.Tensor, torch.Tensor, Batch]:
    with torch.no_grad():
        return (
            model.model(batch.ids, use_cache=False).last_hidden_state,
            model.model.embed_tokens(batch.ids),
            batch,
        )


def _drafts(
    model: Qwen3_5ForCausalLM,
    mtp: Mtp,
    hidden: torch.Tensor,
    embedded: torch.Tensor,
    batch: Batch,
    depth: int,
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield depth, logits and right tokens of drafts, one depth after the other."""
    positions = rotary(model, hidden)
    for step in range(1, depth + 1):
        hidden = mtp(hidden, F.pad(embedded[:, step:], (0, 0, 0, step)), positions)
        where = batch.answer[:, step + 1 :]
        logits = F.linear(hidden[:, : -step - 1][where], model.lm_head.weight.detach())
        yield step, logits, batch.ids[:, step + 1 :][where]


def _right(
    model: Qwen3_5ForCausalLM,
    mtp: Mtp,
    known: Sequence[tuple[torch.Tensor, torch.Tensor, Batch]],
    depth: int = 3,
) -> list[float]:
    right, asked = [0] * depth, [0] * depth
    with torch.no_grad():
        for hidden, embedded, batch in known:
            for step, logits, target in _drafts(
                model, mtp, hidden, embedded, batch, depth
            ):
                right[step - 1] += int((logits.argmax(-1) == target).sum())
                asked[step - 1] += len(target)
    return [a / b for a, b in zip(right, asked, strict=True)]


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
