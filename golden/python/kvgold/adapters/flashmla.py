"""FlashMLA's dense decode (https://github.com/deepseek-ai/FlashMLA), of the wheel sgl-flash-mla.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.flashmla:decode --device cuda -o ANSWER

Op decode in bf16 on layout mla, pages of 64 tokens; every sequence has the same number of query tokens. `dense` is a
callable of kvgold.invariance: --kv-heads 1 --head-dim 576 --v-dim 512 --page-sizes 64 --unbounded. V is the first part of
K there, and the batch's own V is not read."""

from __future__ import annotations

import os
from typing import Mapping

import torch

from ..company import Batch
from ..invariant import NoAnswer
from ..problem import Problem
from .alone import known_version, place_of
from .cache import asked, codes, format_of, live_pages, score_scale, table_of

VERSION = known_version("sgl-flash-mla", ["1.0.0"])
torch.ops.load_library(os.path.join(place_of("sgl-flash-mla"), "flash_mla", "_C_legacy.abi3.so"))


def decode(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "decode" or not p.shared_kv or p.shared_kv.v_first or format_of(p) != "bf16" or p.block_tokens != 64:
        return f"{asked(p)} on {p.layout} with pages of {p.block_tokens}"
    counts, live = t["query_lengths"].cpu(), live_pages(p, t)
    if p.window or p.softcap or p.sinks or live is None or bool((counts != counts[0]).any()):
        return "a window, a cap, sinks, a page lost in the middle, or query tokens of several numbers"
    tables, lengths = live
    out, lse = attend(t["q"], len(counts), codes(p, t, "k", torch.bfloat16), p.shared_kv.v_dim, lengths,
                      table_of(tables, t["q"].device), score_scale(p))
    return {"out": out, "lse": lse}


def attend(rows: torch.Tensor, sequences: int, pool: torch.Tensor, v_dim: int, lengths: list[int], table: torch.Tensor,
           scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    q = rows.view(sequences, -1, *rows.shape[1:])
    out, lse, *_ = torch.ops.flash_mla_legacy.dense_decode_fwd(
        q, pool, v_dim, torch.tensor(lengths, dtype=torch.int32, device=q.device), table, scale, q.shape[1] > 1, None, None)
    return out.reshape(*rows.shape[:2], -1), lse.transpose(-1, -2).reshape(rows.shape[:2])


def dense(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    if len(set(batch.query_lengths)) > 1 or batch.window:
        raise NoAnswer("a window, or query tokens of several numbers")
    return attend(batch.q, len(batch.lengths), batch.k_pages, batch.v[0].shape[-1], batch.lengths,
                  batch.block_table.clamp(min=0), batch.q.shape[2] ** -0.5)
