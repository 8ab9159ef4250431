"""FlashAttention-3 over a cache (https://github.com/Dao-AILab/flash-attention), of the wheel tokenspeed-fa3.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.fa3:decode --device cuda -o ANSWER

`paged` and `contiguous` are callables of kvgold.invariance, with one split; `split_paged` and `split_contiguous` let the
kernel choose how many. `fp8_paged` and so on round q, K and V to e4m3.

Op decode in bf16 and f16, one split: over pages of every layout with rows, and over layout contiguous without a table.
The kernel takes sinks in bf16: cases whose sinks are no bf16 numbers are left unanswered."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import torch

from ..company import Batch
from ..problem import Problem
from .alone import known_version
from .cache import asked, codes, format_of, live_pages, score_scale, starts, table_of, TYPES

VERSION = known_version("tokenspeed-fa3", ["3.0.0.post20260810"])

from flash_attn_interface import flash_attn_with_kvcache  # noqa: E402


def refusal(p: Problem, t: Mapping[str, torch.Tensor]) -> str | None:
    if p.op != "decode" or p.shared_kv or format_of(p) != p.dtype or p.dtype == "f32":
        return asked(p)
    if "sinks" in t and bool((t["sinks"] != t["sinks"].bfloat16()).any()):
        return "sinks that are no bf16 numbers"
    return None


def decode(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, t)
    live = None if why else live_pages(p, t)
    if why or live is None:
        return why or "a page lost in the middle"
    q, counts, (tables, lengths) = t["q"], t["query_lengths"].cpu(), live
    options: dict[str, Any] = {"page_table": table_of(tables, q.device)}
    if p.layout == "contiguous":
        options = {"cache_batch_idx": t["block_table"][:, 0].int().contiguous()}
    if "sinks" in t:
        options["sinks"] = t["sinks"].bfloat16()
    even = bool((counts == counts[0]).all())
    if even:
        q = q.view(len(counts), -1, *q.shape[1:])
    else:
        options |= {"cu_seqlens_q": starts(counts).to(q.device), "max_seqlen_q": int(counts.max())}
    out, lse, *_ = flash_attn_with_kvcache(
        q, *(codes(p, t, name, TYPES[p.dtype]) for name in p.names), causal=True, num_splits=1, softcap=p.softcap,
        cache_seqlens=torch.tensor(lengths, dtype=torch.int32, device=q.device), softmax_scale=score_scale(p),
        window_size=(p.window - 1, 0) if p.window else (-1, -1), return_softmax_lse=True, **options)
    return {"out": out.reshape(t["q"].shape), "lse": lse.transpose(-1, -2).reshape(t["q"].shape[:2])}


def attention(in_pages: bool, num_splits: int, fp8: bool) -> Callable[[Batch], tuple[torch.Tensor, torch.Tensor]]:
    def attend(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        if in_pages:
            k, v, options = batch.k_pages, batch.v_pages, {"page_table": batch.block_table.clamp(min=0)}
        else:
            k, v = (torch.nn.utils.rnn.pad_sequence(rows, batch_first=True) for rows in (batch.k, batch.v))
            options = {}
        counts = torch.tensor(batch.query_lengths)
        out, lse, *_ = flash_attn_with_kvcache(
            *(x.to(torch.float8_e4m3fn) if fp8 else x for x in (batch.q, k, v)), causal=True, num_splits=num_splits,
            cache_seqlens=torch.tensor(batch.lengths, dtype=torch.int32, device=k.device),
            cu_seqlens_q=starts(counts).to(k.device), max_seqlen_q=int(counts.max()),
            window_size=(batch.window - 1, 0) if batch.window else (-1, -1), return_softmax_lse=True, **options)
        return out, lse.transpose(-1, -2)
    return attend


paged, contiguous, fp8_paged, fp8_contiguous = (attention(p, 1, fp8) for fp8 in (False, True) for p in (True, False))
split_paged, split_contiguous, fp8_split_paged, fp8_split_contiguous = (
    attention(p, 0, fp8) for fp8 in (False, True) for p in (True, False))
