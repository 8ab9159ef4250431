"""What adapters of engines share: a question's cache and tables as engines have them."""

from __future__ import annotations

import math
from typing import Mapping

import torch

from ..pages import pages
from ..problem import Problem

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "e4m3": torch.float8_e4m3fn,
         "e5m2": torch.float8_e5m2}
POOLS = ("k_data", "v_data", "k_scale_pool", "v_scale_pool")
Tensors = Mapping[str, torch.Tensor]


def format_of(p: Problem) -> str | None:
    """K's format, if V's is the same."""
    return p.sides[0].format if len({side.format for side in p.sides}) == 1 else None


def asked(p: Problem) -> str:
    """What an adapter says that does not answer."""
    return " of ".join(filter(None, (f"op {p.op}", "+".join(side.format for side in p.sides))))


def codes(p: Problem, t: Tensors, side: str, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    """The codes of the op's layer as engines have them: [blocks, tokens, heads, elements], a strided view."""
    return pages(p, side, "codes", t)[p.layer].transpose(1, 2).view(dtype)


def scales(p: Problem, t: Tensors, side: str, dtype: torch.dtype) -> torch.Tensor:
    """[blocks, tokens, heads, parameters], a strided view."""
    return pages(p, side, "scales", t)[p.layer].transpose(1, 2).view(dtype)


def slots_of(view: torch.Tensor) -> torch.Tensor:
    """[blocks, tokens, heads, n] as [slots, heads, n]: the same memory, or a RuntimeError."""
    return view.view(-1, *view.shape[2:])


Runs = list[tuple[int, list[int]]]


def runs_of(slots: list[int], block_tokens: int) -> Runs:
    """The tokens of op append as an engine has them that takes tables and lengths: runs of tokens whose slots follow one
    another, as pages of a sequence do: (first token, slots)."""
    runs: Runs = []
    for token, slot in enumerate(slots):
        if slot < 0:
            continue
        if runs and sum((runs[-1][0], len(runs[-1][1]))) == token:
            last = runs[-1][1][-1]
            at_end, at_start = (last + 1) % block_tokens == 0, slot % block_tokens == 0
            if at_start if at_end else slot == last + 1:
                runs[-1][1].append(slot)
                continue
        runs.append((token, [slot]))
    return runs


def tables_of(runs: Runs, block_tokens: int) -> list[torch.Tensor]:
    """Each run's pages. Its first token lies at slots[0] % block_tokens of the first one."""
    return [torch.tensor([slot // block_tokens for i, slot in enumerate(slots) if i == 0 or slot % block_tokens == 0])
            for _, slots in runs]


def live_pages(p: Problem, t: Tensors) -> tuple[list[torch.Tensor], list[int]] | None:
    """Each sequence's pages without those lost at its front, and the tokens they hold. None: one is lost elsewhere."""
    found, lengths = [], []
    for entries, length in zip(t["block_table"].cpu(), t["lengths"].tolist()):
        entries = entries[:-(-length // p.block_tokens)]
        lost = (entries < 0) | (entries >= p.blocks)
        gone = int(lost.sum())
        if lost[gone:].any():
            return None
        found.append(entries[gone:])
        lengths.append(max(0, length - gone * p.block_tokens))
    return found, lengths


def table_of(rows: list[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Rows of pages as one table, filled up with page 0."""
    table = torch.zeros(len(rows), max([1, *map(len, rows)]), dtype=torch.int32)
    for i, row in enumerate(rows):
        table[i, :len(row)] = row
    return table.to(device)


def starts(counts: torch.Tensor) -> torch.Tensor:
    """Where each of a run of parts begins, and where the last one ends."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()


def one_nan(x: torch.Tensor) -> torch.Tensor:
    """With every NaN as docs/spec/formats.md section 2.5 has it: IEEE 754 leaves a NaN's bits to the machine."""
    bits, nan = {1: (torch.uint8, 0x7F), 2: (torch.int16, 0x7FFF), 4: (torch.int32, 0x7FFFFFFF)}[x.itemsize]
    return x.view(bits).masked_fill(x.float().isnan(), nan).view(x.dtype)


def score_scale(p: Problem) -> float:
    return p.score_scale or 1 / math.sqrt(p.head_dim)


def pools(t: Tensors) -> dict[str, torch.Tensor]:
    """The answer of an op that has written into the question's pools."""
    return {name: t[name] for name in POOLS if name in t}
