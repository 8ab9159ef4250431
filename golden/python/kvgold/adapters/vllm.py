"""vLLM's Triton kernels (https://github.com/vllm-project/vllm), each module imported alone.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.vllm:append --device cuda -o ANSWER

append   triton_reshape_and_cache_flash, and ..._per_token_head_quant for the formats with a scale per token and head
decode   unified_attention, as it is called without scratch: one kernel, no LSE
segments unified_attention with the scratch of its split-K kernels; LSE is that of their segments, merged here
mla      triton_decode_attention's decode_attention_fwd: one query of each sequence
merge    triton_merge_attn_states

A cache is given as a strided view, so that every layout answers that has rows: vllm_lbnhc is vLLM's own page."""

from __future__ import annotations

import enum
import logging
import math
from typing import Any, Mapping

import torch
import triton
import triton.language

from ..problem import Problem
from .alone import alone
from .cache import asked, codes, format_of, live_pages, pools, scales, score_scale, starts, table_of, Tensors, TYPES


class Mode(enum.IntEnum):
    NONE = 0
    FP8_PER_TENSOR = 1
    INT8_PER_TOKEN_HEAD = 2
    FP8_PER_TOKEN_HEAD = 3
    INT4_PER_TOKEN_HEAD = 4
    NVFP4 = 5


class Platform:
    """A CUDA GPU, or the interpreter."""

    @staticmethod
    def fp8_dtype() -> torch.dtype:
        return torch.float8_e4m3fn

    @staticmethod
    def is_cuda() -> bool:
        return True

    @staticmethod
    def has_device_capability(least: int) -> bool:
        return not torch.cuda.is_available() or torch.cuda.get_device_capability() >= divmod(least, 10)

    @staticmethod
    def is_device_capability_family(family: int) -> bool:
        return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == family // 10

    is_rocm = is_xpu = is_fp8_fnuz = staticmethod(lambda: False)


def logger(name: str) -> logging.Logger:
    made = logging.getLogger(name)
    made.debug_once = made.info_once = made.debug  # type: ignore[attr-defined]
    return made


FP8 = torch.float8_e4m3fn
VERSION = alone("vllm", ["0.33.0"], {
    "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
    "vllm.logger": {"init_logger": logger},
    "vllm.platforms": {"current_platform": Platform()},
    "vllm.triton_utils": {"triton": triton, "tl": triton.language},
    "vllm.utils.math_utils": {"largest_power_of_2_divisor": lambda n: n & -n},
    "vllm.v1.kv_cache_interface": {"KVQuantMode": Mode, "is_quantized_kv_cache": lambda name: name.startswith(("fp8", "int8", "int4"))},
    "vllm.model_executor.layers.quantization.utils.quant_utils": {
        "FP8_DTYPE": FP8, "get_fp8_min_max": lambda: (torch.finfo(FP8).min, torch.finfo(FP8).max)},
})

from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd  # noqa: E402
from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states  # noqa: E402
from vllm.v1.attention.ops.triton_reshape_and_cache_flash import (  # noqa: E402
    triton_reshape_and_cache_flash, triton_reshape_and_cache_flash_per_token_head_quant)
from vllm.v1.attention.ops.triton_unified_attention import unified_attention  # noqa: E402

MODES = {"f16": Mode.NONE, "bf16": Mode.NONE, "e4m3": Mode.FP8_PER_TENSOR,
         "int8_token_head": Mode.INT8_PER_TOKEN_HEAD, "fp8_token_head": Mode.FP8_PER_TOKEN_HEAD}
STORE = {**TYPES, "fp8_token_head": FP8, "int8_token_head": torch.int8}
SEGMENTS, TILE, SPLITS = 16, 16, 4


def refusal(p: Problem, op: str, shared: bool = False) -> str | None:
    if p.op != op or bool(p.shared_kv) != shared or format_of(p) not in MODES or p.rope or p.bias:
        return asked(p)
    return None


def rows(p: Problem, t: Tensors) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """K and V as [blocks, tokens, heads, elements], and the scales of their rows, if they have any."""
    store = STORE[p.sides[0].format]
    return ([codes(p, t, name, store) for name in p.names],
            [scales(p, t, name, torch.float32)[..., 0] if p.sides[0].row_params else None for name in p.names])


def append(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append")
    if why:
        return why
    (k, v), (k_scales, v_scales) = rows(p, t)
    mode = MODES[p.sides[0].format]
    if k_scales is not None:
        triton_reshape_and_cache_flash_per_token_head_quant(t["k"], t["v"], k, v, k_scales, v_scales, t["slots"], mode)
    else:
        one = torch.ones(1, device=k.device)
        triton_reshape_and_cache_flash(t["k"], t["v"], k, v, t["slots"], "fp8" if mode else "auto",
                                       t.get("k_tensor_scale", one), t.get("v_tensor_scale", one))
    return pools(t)


def decode(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return refusal(p, "decode") or attend(p, t, {})


def segments(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "decode")
    if why or t["query_lengths"].max() > 8 or len(t["lengths"]) > 128 // p.kv_heads:
        return why or "vLLM cuts no row of so many query tokens or sequences into segments"
    lines, device = t["q"].shape[:2], t["q"].device
    width = 1 << (p.head_dim - 1).bit_length()
    largest, sums = (torch.empty(*lines, SEGMENTS, device=device) for _ in range(2))
    given = attend(p, t, {"seq_threshold_3D": 128 // p.kv_heads, "num_par_softmax_segments": SEGMENTS,
                          "softmax_segm_output": torch.empty(*lines, SEGMENTS, width, device=device),
                          "softmax_segm_max": largest, "softmax_segm_expsum": sums})
    return given if isinstance(given, str) else {**given, "lse": lse_of_segments(p, t, largest, sums)}


def attend(p: Problem, t: dict[str, torch.Tensor], scratch: dict[str, Any]) -> Mapping[str, torch.Tensor] | str:
    live = live_pages(p, t)
    if live is None:
        return "a page lost in the middle"
    q, counts, (k, v), (k_scales, v_scales) = t["q"], t["query_lengths"].cpu(), *rows(p, t)
    tables, lengths = live
    out, mode = torch.zeros_like(q), MODES[p.sides[0].format]
    options = {**scratch, "kv_quant_mode": mode} if mode else scratch
    if k_scales is not None:
        options |= {"k_scale_cache": k_scales, "v_scale_cache": v_scales}
    descale = {f"{name}_descale": t[f"{name}_tensor_scale"].expand(len(lengths), p.kv_heads)
               if mode == Mode.FP8_PER_TENSOR else None for name in "kv"}
    unified_attention(q=q, k=k, v=v, out=out, cu_seqlens_q=starts(counts).to(q.device), max_seqlen_q=int(counts.max()),
                      seqused_k=torch.tensor(lengths, dtype=torch.int32, device=q.device), max_seqlen_k=max(lengths),
                      softmax_scale=score_scale(p), causal=True, window_size=(p.window - 1, 0) if p.window else (-1, -1),
                      block_table=table_of(tables, q.device), softcap=p.softcap, q_descale=None, sinks=t.get("sinks"),
                      **descale, **options)
    return {"out": out}


def lse_of_segments(p: Problem, t: Tensors, largest: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """The kernels write no LSE: it is that of the segments that a row has."""
    _, lengths = live_pages(p, t) or ([], [])
    of_row = torch.repeat_interleave(torch.tensor(lengths), t["query_lengths"].cpu()).to(largest.device)
    tiles = -(-of_row // (SEGMENTS * TILE))  # of a segment
    used = torch.where(of_row > 0, -(-of_row // (tiles * TILE).clamp(min=1)), 0)
    there = torch.arange(SEGMENTS, device=used.device) < used[:, None]
    each = torch.where(there[:, None] & (largest > -math.inf), largest.double() + sums.double().log(), -math.inf)
    lse = torch.logsumexp(each, -1).float()
    if "sinks" in t:  # a segment's sum has the sink; a sequence without keys has no segment
        lse = torch.where((of_row == 0)[:, None], t["sinks"].expand_as(lse), lse)
    return lse


def mla(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    """Over rows that hold K and V, and over K and V of their own."""
    live = live_pages(p, t) if p.op == "decode" else None
    if refusal(p, "decode", bool(p.shared_kv)) or p.sides[0].row_params or p.window or p.sinks:
        return refusal(p, "decode", bool(p.shared_kv)) or "scales of rows, a window or sinks"
    if live is None or bool((t["query_lengths"] != 1).any()):
        return "a page lost in the middle, or not one query token of each sequence"
    if p.shared_kv and p.shared_kv.v_first:
        return "V does not begin where K does"
    q, (kv, _) = t["q"], rows(p, t)
    tables, lengths = live
    v_dim = p.shared_kv.v_dim if p.shared_kv else p.head_dim
    v = kv[0][..., :v_dim] if p.shared_kv else kv[1]
    out = torch.zeros(*q.shape[:2], v_dim, dtype=q.dtype, device=q.device)
    lse = torch.zeros(q.shape[:2], device=q.device)
    between = torch.empty(*q.shape[:2], SPLITS, v_dim + 1, device=q.device)
    descale = [t.get(f"{name}_tensor_scale") for name in (p.names * 2)[:2]]
    decode_attention_fwd(q, kv[0], v, out, lse, table_of(tables, q.device),
                         torch.tensor(lengths, dtype=torch.int32, device=q.device), between, SPLITS, score_scale(p),
                         p.block_tokens, p.softcap, *descale, is_mla=bool(p.shared_kv))
    return {"out": out, "lse": lse}


def merge(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "merge":
        return asked(p)
    out, lse = torch.empty_like(t["out_a"]), torch.empty_like(t["lse_a"])
    merge_attn_states(out, t["out_a"], t["lse_a"].T, t["out_b"], t["lse_b"].T, lse.T)
    return {"out": out, "lse": lse}
