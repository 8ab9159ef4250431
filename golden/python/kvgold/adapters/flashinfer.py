"""FlashInfer's attention over a paged cache, bf16 and NVFP4 (https://github.com/flashinfer-ai/flashinfer).

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.flashinfer:answer --device cuda -o ANSWER

Op decode on layouts nhd and hnd, K and V in bf16 or in nvfp4, model type bf16 or f16. One query per sequence goes to
BatchDecodeWithPagedKVCacheWrapper, more to BatchPrefillWithPagedKVCacheWrapper (causal), as engines call them. Pages
that a sequence has lost at its front are left out of FlashInfer's table, as an engine does that has freed them. Cases
with what FlashInfer does not take (sinks, a page lost elsewhere, padded pages) are left unanswered.

FlashInfer's LSE is in base 2; docs/spec/attention.md has the natural one, so it is multiplied by ln 2 here. Its NVFP4
kernels are those of backend fa2; the tensor scale of K goes into the softmax scale, that of V is multiplied into the
output after the kernel has rounded it."""

from __future__ import annotations

import math
from typing import Any, Mapping

import flashinfer
import torch

from ..problem import Problem
from .cache import live_pages, starts

WORKSPACE = 128 << 20


def refusal(p: Problem, t: Mapping[str, torch.Tensor]) -> str | None:
    """Why a case is not FlashInfer's to answer."""
    formats = {side.format for side in p.sides}
    if p.op != "decode" or p.layout not in ("nhd", "hnd"):
        return f"op {p.op} on layout {p.layout}"
    if len(formats) != 1 or not formats <= {"bf16", "nvfp4"} or p.shared_kv:
        return f"format {'+'.join(side.format for side in p.sides)}"
    if p.dtype == "f32" or (formats == {"bf16"} and p.dtype != "bf16"):
        return f"model type {p.dtype}"
    if any(side.dialect not in ("canonical", "flashinfer-kv", "flashinfer-page") for side in p.sides):
        return f"dialect {p.sides[0].dialect}"
    if any(p.padding) or p.v_scale_swizzle:
        return "padded pages or swizzled scales"
    if "sinks" in t:
        return "sinks"
    return "a page lost in the middle" if live_pages(p, t) is None else None


def layer_view(p: Problem, pool: torch.Tensor) -> torch.Tensor:
    """The op's layer of a pool, [pages, ...] as FlashInfer has it."""
    rows = (p.block_tokens, p.kv_heads) if p.layout == "nhd" else (p.kv_heads, p.block_tokens)
    return pool.view(p.layers, p.blocks, *rows, -1)[p.layer]


def answer(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    """The callable of kvgold.adapters.torch."""
    why = refusal(p, t)
    if why is not None:
        return why
    out, lse = attend(p, t)
    return {"out": out, "lse": lse * math.log(2)}


def attend(p: Problem, t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse in base 2)."""
    q, packed = t["q"], p.sides[0].format == "nvfp4"
    cache = tuple(layer_view(p, t[f"{name}_data"]) for name in p.names)
    scales: dict[str, Any] = {}
    if packed:
        pools = (layer_view(p, t[f"{name}_scale_pool"]) for name in p.names)
        scales = {"kv_cache_sf": tuple(pool.view(torch.float8_e4m3fn) for pool in pools),
                  "k_scale": t["k_tensor_scale"].item(), "v_scale": t["v_tensor_scale"].item()}
    else:
        cache = tuple(side.view(torch.bfloat16) for side in cache)
    tables, lengths = live_pages(p, t) or ([], [])
    counts = torch.tensor([len(table) for table in tables])
    last = torch.tensor(lengths) - (counts - 1).clamp(min=0) * p.block_tokens
    pages = (starts(counts).to(q.device), torch.cat(tables).int().to(q.device), last.int().to(q.device))
    geometry = (p.kv_heads * p.group, p.kv_heads, p.head_dim, p.block_tokens)
    options = {"window_left": p.window - 1, "logits_soft_cap": p.softcap or None, "sm_scale": p.score_scale or None,
               "q_data_type": q.dtype, "kv_data_type": cache[0].dtype}
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=q.device)
    if bool((t["query_lengths"] == 1).all()):
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            workspace, p.layout.upper(), use_tensor_cores=packed, backend="fa2" if packed else "auto")
        wrapper.plan(*pages, *geometry, **options)
    else:
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, p.layout.upper(), backend="fa2")
        wrapper.plan(starts(t["query_lengths"].cpu()).to(q.device), *pages, *geometry, causal=True, **options)
    out, lse = wrapper.run(q, cache, return_lse=True, **scales)
    torch.cuda.synchronize()
    return out, lse
