"""An implementation in plain PyTorch, on any device: ops quantise, dequantise, append, flatten, decode.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.eager:answer -o ANSWER.safetensors

The model's own type, e4m3, mx16, mxfp4 and nvfp4 in their canonical dialects, every layout. Addresses come from
kvgold.layouts_numpy; the arithmetic is torch's, in float32. What it does not do it leaves unanswered."""

from __future__ import annotations

import math
from typing import Mapping

import numpy as np
import torch

from .. import layouts_numpy as layouts
from ..problem import Problem, Side
from .cache import one_nan

MODEL = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
MIDPOINTS = ((0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True), (5.0, False))
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
BLOCK = {"mx16": 16, "mxfp4": 32, "nvfp4": 16}
Tensors = Mapping[str, torch.Tensor]


# ---- Numbers to bytes, docs/spec/formats.md ----

def e4m3(x: torch.Tensor) -> torch.Tensor:
    """Codes: nearest even, saturating, every NaN 0x7F."""
    code = x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    return torch.where(x.isnan(), torch.full_like(code, 0x7F), code)


def e2m1(v: torch.Tensor) -> torch.Tensor:
    """Codes of the rule even, bit, nan 7."""
    size, code = v.abs(), torch.zeros_like(v, dtype=torch.uint8)
    for midpoint, up in MIDPOINTS:  # a tie goes to the even code
        code += (size >= midpoint) if up else (size > midpoint)
    code = torch.where(v.isnan(), torch.full_like(code, 7), code)
    return code | (v.signbit() & ~v.isnan()).to(torch.uint8) << 3


def pack_pairs(code: torch.Tensor) -> torch.Tensor:
    return code[..., 1::2] << 4 | code[..., 0::2]


def encode(side: Side, x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows [..., D] in the model type to code bytes and scale bytes."""
    if side.format in ("f16", "bf16"):
        return x.contiguous().view(torch.uint8), None
    x = x.to(torch.float32)
    if side.format == "e4m3":
        return e4m3(x / g), None
    x = x.unflatten(-1, (-1, BLOCK[side.format]))
    amax = torch.where(x.isnan(), 0, x.abs()).amax(-1)
    if side.format == "nvfp4":
        scale = e4m3(amax / (6 * g))
        d = (scale.view(torch.float8_e4m3fn).to(torch.float32) * g).unsqueeze(-1)
        v = torch.where((d == 0) & ~x.isnan(), torch.copysign(torch.zeros_like(x), x), x / d)
    else:
        half, k = torch.frexp(amax.to(torch.float64))  # amax = 2 half x 2^(k - 1)
        exponent = torch.where(2 * half <= 1.5, k - 3, k - 2)
        byte = (exponent + 127).clamp(0, 254)
        byte = torch.where(amax.isinf(), 254, torch.where(amax == 0, 0, byte))
        scale = byte.to(torch.uint8)
        v = torch.ldexp(x.to(torch.float64), 127 - byte.unsqueeze(-1))
    return pack_pairs(e2m1(v).flatten(-2)), scale


# ---- Bytes to numbers ----

def decoded(side: Side, codes: torch.Tensor, scales: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Bytes to float32 rows, rounded as docs/spec/formats.md has it before the model type."""
    if side.format in ("f16", "bf16"):
        return codes.contiguous().view(MODEL[side.format]).to(torch.float32)
    if side.format == "e4m3":
        return codes.view(torch.float8_e4m3fn).to(torch.float32) * g
    table = torch.tensor(VALUES, dtype=torch.float32, device=codes.device)
    value = table[torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()]
    if side.format == "nvfp4":
        sf = scales.contiguous().view(torch.float8_e4m3fn).to(torch.float32)
        return value * sf.repeat_interleave(16, -1) * g
    power = torch.ldexp(torch.ones_like(scales, dtype=torch.float64), scales.to(torch.int64) - 127)
    power = torch.where(scales == 255, math.nan, power)
    return (value * power.repeat_interleave(BLOCK[side.format], -1)).to(torch.float32)


def dequantised(p: Problem, side: Side, codes: torch.Tensor, scales: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Bytes to rows in the model type: NaN as section 2.5 of docs/spec/formats.md has it, a 16-bit format as it is."""
    if side.format == p.dtype:
        return codes.contiguous().view(MODEL[p.dtype])
    return one_nan(decoded(side, codes, scales, g).to(MODEL[p.dtype]))


# ---- Ops ----

def scale_of(p: Problem, t: Tensors, side: int) -> torch.Tensor:
    return t[f"{p.names[side]}_tensor_scale"] if p.sides[side].tensor_scale else torch.ones(1)


def gather(p: Problem, t: Tensors, side: int, slots: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes, scales) [slots, heads, bytes] of a paged cache."""
    device = t["k_data"].device
    pool, index = layouts.code_index(p, side, slots)
    codes = t[pool].flatten()[torch.from_numpy(index).to(device)]
    scales = codes[..., :0]
    if p.sides[side].scales:
        pool, index = layouts.scale_index(p, side, slots)
        scales = t[pool].flatten()[torch.from_numpy(index).to(device)]
    return codes, scales


def append(p: Problem, t: Tensors) -> dict[str, torch.Tensor]:
    slots = t["slots"].cpu().numpy()
    there = torch.from_numpy(slots >= 0).to(t["k"].device)
    for i, name in enumerate(p.names):
        codes, scales = encode(p.sides[i], t[name][there], scale_of(p, t, i))
        for find, rows in ((layouts.code_index, codes), (layouts.scale_index, scales)):
            if rows is not None:
                pool, index = find(p, i, slots[slots >= 0])
                t[pool].view(-1)[torch.from_numpy(index).to(rows.device)] = rows
    return {name: t[name] for name in ("k_data", "v_data", "k_scale_pool", "v_scale_pool") if name in t}


def flatten(p: Problem, t: Tensors) -> dict[str, torch.Tensor]:
    table = t["block_table"].cpu().numpy()
    for sequence, length in enumerate(t["lengths"].tolist()):
        at, slots = layouts.positions(p, table[sequence], length)
        for i, name in enumerate(("k_flat", "v_flat")):
            here = at < t[name].shape[2]
            side = 0 if p.shared_kv else i
            rows = dequantised(p, p.sides[side], *gather(p, t, side, slots[here]), scale_of(p, t, side))
            if p.shared_kv and i == 1:
                rows = rows[..., p.shared_kv.v]
            t[name][sequence, :, torch.from_numpy(at[here]).to(rows.device)] = rows.transpose(0, 1)
    return {name: t[name] for name in ("k_flat", "v_flat")}


def decode(p: Problem, t: Tensors) -> dict[str, torch.Tensor]:
    q, table = t["q"].to(torch.float32), t["block_table"].cpu().numpy()
    out = torch.zeros((*q.shape[:2], p.v_dim), device=q.device)
    lse = torch.full(q.shape[:2], -math.inf, device=q.device)
    row = 0
    for sequence, (length, count) in enumerate(zip(t["lengths"].tolist(), t["query_lengths"].tolist())):
        if count == 0:
            continue
        at, slots = layouts.positions(p, table[sequence], length)
        rows = [decoded(side, *gather(p, t, i, slots), scale_of(p, t, i)) for i, side in enumerate(p.sides)]
        k, v = rows[0], rows[0][..., p.shared_kv.v] if p.shared_kv else rows[1]
        mine = slice(row, row + count)
        positions = torch.from_numpy(at).to(q.device)
        out[mine], lse[mine] = attend(p, q[mine], k, v, positions, length - count, t.get("sinks"))
        row += count
    return {"out": out.to(MODEL[p.dtype]), "lse": lse}


def attend(p: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor, first: int,
           sinks: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """docs/spec/attention.md section 4 for one sequence."""
    k, v = (x.repeat_interleave(q.shape[1] // p.kv_heads, 1) for x in (k, v))
    score = torch.einsum("ihd,khd->ihk", q, k) * (p.score_scale or 1 / math.sqrt(p.head_dim))
    if p.softcap:
        score = p.softcap * torch.tanh(score / p.softcap)
    behind = (first + torch.arange(len(q), device=q.device)).unsqueeze(1) - at
    seen = behind >= 0
    if p.window:
        seen &= behind < p.window
    score = score.masked_fill(~seen.unsqueeze(1), -math.inf)
    if sinks is not None:
        score = torch.cat([score, sinks.view(1, -1, 1).expand(len(q), -1, 1)], -1)
    lse = torch.logsumexp(score, -1) if score.shape[-1] else torch.full(score.shape[:2], -math.inf, device=q.device)
    weight = torch.exp(score[..., :len(at)] - torch.where(lse.isinf(), 0, lse).unsqueeze(-1))
    used = seen.any(0)  # NaN where nobody looks must not reach a sum as 0 x NaN
    return torch.einsum("ihk,khd->ihd", weight[..., used], v[used]), lse


def quantise(p: Problem, t: Tensors) -> dict[str, torch.Tensor]:
    out = {}
    for i, name in enumerate(p.names):
        out[f"{name}_codes"], scales = encode(p.sides[i], t[name], scale_of(p, t, i))
        if scales is not None:
            out[f"{name}_scales"] = scales
    return out


def dequantise(p: Problem, t: Tensors) -> dict[str, torch.Tensor]:
    return {name: dequantised(p, p.sides[i], t[f"{name}_codes"], t.get(f"{name}_scales"), scale_of(p, t, i))
            for i, name in enumerate(p.names)}


OPS = {"quantise": quantise, "dequantise": dequantise, "append": append, "flatten": flatten, "decode": decode}


def answer(p: Problem, tensors: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    """The callable of kvgold.adapters.torch."""
    for side in p.sides:
        if side.format not in ("f16", "bf16", "e4m3", *BLOCK):
            return f"format {side.format}"
        if side.dialect != "canonical":
            return f"dialect {side.dialect}"
        if side.format in ("f16", "bf16") and side.format != p.dtype:
            return f"format {side.format} for model type {p.dtype}"
    if p.op not in OPS:
        return f"op {p.op}"
    if p.rope or p.bias:
        return "RoPE and bias"
    return OPS[p.op](p, tensors)
