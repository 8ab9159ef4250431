"""FlashInfer's paged cache, bf16, f16 and NVFP4 (https://github.com/flashinfer-ai/flashinfer).

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.flashinfer:answer --device cuda -o ANSWER

answer      BatchDecodeWithPagedKVCacheWrapper for one query token of each sequence, else
            BatchPrefillWithPagedKVCacheWrapper (causal), as engines call them: op decode on layouts nhd and hnd
append      append_paged_kv_cache and nvfp4_quantize_append_paged_kv_cache, on the same layouts
append_slots  nvfp4_quantize_append_paged_kv_cache_with_slot_mapping
quantise    nvfp4_kv_quantize, which needs sm_100
dequantise  nvfp4_kv_dequantize
flatten     nvfp4_kv_dequantize_paged, on the same layouts
merge       merge_state

Callables of kvgold.invariance, over pages: `fa2` and `fa3` are BatchPrefillWithPagedKVCacheWrapper with that backend, in
one piece; `split_fa2` and `split_fa3` let the plan choose how many; `tensor_core_decode` and `decode` are
BatchDecodeWithPagedKVCacheWrapper, and `xqa` is TensorRT-LLM's XQA, each for one query token of a sequence.

Pages that a sequence has lost at its front are left out of FlashInfer's table, as an engine does that has freed them.
Cases with what FlashInfer does not take (sinks, a page lost elsewhere, padded pages) are left unanswered.

FlashInfer's LSE is in base 2; docs/spec/attention.md has the natural one, so it is multiplied by ln 2 here. Its NVFP4
kernels are those of backend fa2; the tensor scale of K goes into the softmax scale, that of V is multiplied into the
output after the kernel has rounded it."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable, Mapping

import torch

from ..company import Batch
from ..invariant import NoAnswer
from ..problem import Problem
from .alone import known_version
from .cache import (asked, format_of, live_pages, one_nan, pools, runs_of, starts, table_of, tables_of, Tensors, TYPES)

VERSION = known_version("flashinfer-python", ["0.7.4"])

import flashinfer  # noqa: E402

LN2 = math.log(2)
WORKSPACE = 128 << 20


def padded(p: Problem) -> str | None:
    """Why a cache is not FlashInfer's."""
    if p.layout not in ("nhd", "hnd"):
        return f"layout {p.layout}"
    return "padded pages or swizzled scales" if any(p.padding) or p.v_scale_swizzle else None


def refusal(p: Problem, t: Tensors) -> str | None:
    """Why a case of op decode is not FlashInfer's to answer."""
    if p.op != "decode" or format_of(p) not in (p.dtype, "nvfp4") or p.dtype == "f32" or p.shared_kv:
        return asked(p)
    if any(side.dialect not in ("canonical", "flashinfer-kv", "flashinfer-page", "flashinfer-page-sm90") for side in p.sides):
        return f"dialect {p.sides[0].dialect}"
    if "sinks" in t:
        return "sinks"
    return padded(p) or ("a page lost in the middle" if live_pages(p, t) is None else None)


def layer_view(p: Problem, pool: torch.Tensor) -> torch.Tensor:
    """The op's layer of a pool, [pages, ...] as FlashInfer has it."""
    rows = (p.block_tokens, p.kv_heads) if p.layout == "nhd" else (p.kv_heads, p.block_tokens)
    return pool.view(p.layers, p.blocks, *rows, -1)[p.layer]


def data(p: Problem, t: Tensors) -> tuple[torch.Tensor, ...]:
    """K and V of the op's layer, a number of the model type or two codes in an element."""
    store = TYPES.get(p.sides[0].format, torch.uint8)
    return tuple(layer_view(p, t[f"{name}_data"]).view(store) for name in p.names)


def block_scales(p: Problem, t: Tensors) -> tuple[torch.Tensor, ...]:
    return tuple(layer_view(p, t[f"{name}_scale_pool"]).view(torch.float8_e4m3fn) for name in p.names)


def answer(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, t)
    if why is not None:
        return why
    out, lse = attend(p, t)
    return {"out": out, "lse": lse * LN2}


def attend(p: Problem, t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse in base 2)."""
    q, packed = t["q"], p.sides[0].format == "nvfp4"
    cache = data(p, t)
    scales: dict[str, Any] = {}
    if packed:
        scales = {"kv_cache_sf": block_scales(p, t), "k_scale": t["k_tensor_scale"].item(), "v_scale": t["v_tensor_scale"].item()}
    tables, lengths = live_pages(p, t) or ([], [])
    options: dict[str, Any] = {
        "window_left": p.window - 1, "logits_soft_cap": p.softcap or None, "sm_scale": p.score_scale or None}
    if bool((t["query_lengths"] == 1).all()):
        return run(q, cache, tables, lengths, p.layout, None, "fa2" if packed else "auto", scales,
                   use_tensor_cores=packed, **options)
    return run(q, cache, tables, lengths, p.layout, t["query_lengths"].cpu(), "fa2", scales, disable_split_kv=True, **options)


def run(q: torch.Tensor, cache: tuple[torch.Tensor, ...], tables: list[torch.Tensor], lengths: list[int], layout: str,
        query_lengths: torch.Tensor | None, backend: str, scales: Mapping[str, Any], use_tensor_cores: bool = False,
        **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse in base 2) of the wrapper for a prefill, or of that for one query token where no query_lengths are given."""
    block_tokens, kv_heads = cache[0].shape[1:3] if layout == "nhd" else cache[0].shape[2:0:-1]
    counts = torch.tensor([len(table) for table in tables])
    last = torch.tensor(lengths) - (counts - 1).clamp(min=0) * block_tokens
    pages = (starts(counts).to(q.device), torch.cat(tables).int().to(q.device), last.int().to(q.device))
    geometry = (q.shape[1], kv_heads, q.shape[2], block_tokens)
    options |= {"q_data_type": q.dtype, "kv_data_type": cache[0].dtype}
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=q.device)
    if query_lengths is None:
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            workspace, layout.upper(), use_tensor_cores=use_tensor_cores, backend=backend)
        wrapper.plan(*pages, *geometry, **options)
    else:
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, layout.upper(), backend=backend)
        wrapper.plan(starts(query_lengths).to(q.device), *pages, *geometry, causal=True, **options)
    out, lse = wrapper.run(q, cache, return_lse=True, **scales)
    return out, lse


def refuse_several(batch: Batch) -> None:
    if set(batch.query_lengths) != {1}:
        raise NoAnswer("the kernel takes one query token of a sequence")


def attention(backend: str, one_query: bool = False, **options: Any) -> Callable[[Batch], tuple[torch.Tensor, torch.Tensor]]:
    def attend(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        if one_query:
            refuse_several(batch)
        tables = [row[:-(-length // batch.page_size)] for row, length in zip(batch.block_table.cpu(), batch.lengths)]
        out, lse = run(batch.q, (batch.k_pages, batch.v_pages), tables, batch.lengths, "nhd",
                       None if one_query else torch.tensor(batch.query_lengths), backend, {},
                       window_left=batch.window - 1, **options)
        return out, lse * LN2
    return attend


fa2, fa3 = (attention(backend, disable_split_kv=True) for backend in ("fa2", "fa3"))
split_fa2, split_fa3 = (attention(backend) for backend in ("fa2", "fa3"))
decode, tensor_core_decode = (attention("fa2", True, use_tensor_cores=tensor_cores) for tensor_cores in (False, True))


def xqa(batch: Batch) -> torch.Tensor:
    refuse_several(batch)
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=batch.q.device)
    return flashinfer.decode.xqa_batch_decode_with_kv_cache(
        batch.q, (batch.k_pages, batch.v_pages), workspace, batch.block_table.clamp(min=0),
        torch.tensor(batch.lengths, dtype=torch.int32, device=batch.q.device).view(torch.uint32), max(batch.lengths),
        bmm1_scale=batch.q.shape[2] ** -0.5, window_left=batch.window - 1)


def append(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    name = format_of(p)
    if p.op != "append" or p.rope or p.bias or name not in (p.dtype, "nvfp4") or p.dtype == "f32" or padded(p):
        return padded(p) or asked(p)
    runs = runs_of(t["slots"].tolist(), p.block_tokens)
    if not runs:
        return "no token is stored"
    device, tables = t["slots"].device, tables_of(runs, p.block_tokens)

    def ints(numbers: Iterable[int]) -> torch.Tensor:
        return torch.tensor(list(numbers), dtype=torch.int32, device=device)

    ends = [slots[0] % p.block_tokens + len(slots) for _, slots in runs]
    where = (ints(i for i, (_, slots) in enumerate(runs) for _ in slots),
             ints(position for (_, slots), end in zip(runs, ends) for position in range(end - len(slots), end)))
    table = (torch.cat(tables).int().to(device), starts(torch.tensor([*map(len, tables)])).to(device),
             ints((end - 1) % p.block_tokens + 1 for end in ends))
    stored = ints(first + i for first, slots in runs for i in range(len(slots)))
    rows = [t[side][stored] for side in p.names]
    if name == "nvfp4":
        scales = (t[f"{side}_tensor_scale"].item() for side in p.names)
        flashinfer.nvfp4_quantize_append_paged_kv_cache(*rows, *where, data(p, t), block_scales(p, t), *table, *scales,
                                                        p.layout.upper())
    else:
        flashinfer.append_paged_kv_cache(*rows, *where, data(p, t), *table, p.layout.upper())
    return pools(t)


def append_slots(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "append" or p.rope or p.bias or format_of(p) != "nvfp4" or p.dtype == "f32" or padded(p):
        return padded(p) or asked(p)
    flashinfer.nvfp4_quantize_append_paged_kv_cache_with_slot_mapping(
        *(t[side] for side in p.names), t["slots"], data(p, t), block_scales(p, t),
        *(t[f"{side}_tensor_scale"] for side in p.names), p.layout.upper())
    return pools(t)


def quantise(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "quantise" or format_of(p) != "nvfp4" or p.dtype == "f32":
        return asked(p)
    given: dict[str, torch.Tensor] = {}
    for side in p.names:
        rows = t[side]
        packed, scales = flashinfer.nvfp4_kv_quantize(rows.reshape(-1, p.head_dim), t[f"{side}_tensor_scale"].reshape(1))
        given |= {f"{side}_codes": packed.reshape(*rows.shape[:-1], -1), f"{side}_scales": scales.reshape(*rows.shape[:-1], -1)}
    return given


def dequantise(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "dequantise" or format_of(p) != "nvfp4" or p.dtype == "f32":
        return asked(p)
    given = {}
    for side in p.names:
        codes = t[f"{side}_codes"]
        rows = flashinfer.nvfp4_kv_dequantize(codes.flatten(0, -2), t[f"{side}_scales"].flatten(0, -2),
                                              t[f"{side}_tensor_scale"].reshape(1), TYPES[p.dtype])
        given[side] = one_nan(rows.reshape(*codes.shape[:-1], -1))
    return given


def flatten(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "flatten" or p.rope or p.bias or format_of(p) != "nvfp4" or p.dtype == "f32" or padded(p):
        return padded(p) or asked(p)
    live = live_pages(p, t)
    if live is None or live[1] != t["lengths"].tolist():
        return "a lost page"
    rows = [t[f"{name}_flat"].transpose(1, 2).contiguous() for name in p.names]
    flashinfer.nvfp4_kv_dequantize_paged(
        data(p, t), block_scales(p, t), table_of(live[0], rows[0].device), t["lengths"].int(),
        *(t[f"{name}_tensor_scale"] for name in p.names), *rows, p.layout.upper())
    given = {}
    for name, side in zip(p.names, rows):
        for s, length in enumerate(live[1]):
            t[f"{name}_flat"][s, :, :length] = one_nan(side[s, :length].transpose(0, 1).contiguous())
        given[f"{name}_flat"] = t[f"{name}_flat"]
    return given


def merge(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "merge" or p.dtype == "f32":
        return f"{asked(p)} in {p.dtype}"
    if p.head_dim not in (64, 128, 256, 512):
        return f"head_dim {p.head_dim}"
    out, lse = flashinfer.merge_state(t["out_a"], t["lse_a"] / LN2, t["out_b"], t["lse_b"] / LN2)
    return {"out": out, "lse": lse * LN2}
