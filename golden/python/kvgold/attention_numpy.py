"""docs/spec/attention.md in float64: attention over the numbers that stored bytes stand for."""

from __future__ import annotations

import numpy as np

from . import formats_numpy as formats
from .formats_numpy import E2M1_VALUE, E4M3, E5M2, F32, F64
from .problem import Problem, Side


# ---- Section 3: rows of bytes to float64 rows, before any rounding to the model type ----

def wide_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray, g: np.float32) -> np.ndarray:
    return formats.load(fmt, codes.view("<u2")).astype(F64)


def fp8_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray, g: np.float32) -> np.ndarray:
    return formats.fp8_value(codes, E4M3 if fmt == "e4m3" else E5M2).astype(F64) * F64(g)


def affine_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray,
                   g: np.float32) -> np.ndarray:
    q = (codes if fmt == "int8" else formats.unpack_int4(codes, dialect)).astype(F64)
    scale, other = (formats.load(dtype, c)[:, None].astype(F64) for c in np.ascontiguousarray(scales.view("<u2").T))
    if dialect == "pytorch":
        return (q - other) * scale
    product = q * scale
    if dialect == "turbomind-muladd":
        product = formats.to_type(dtype, product.astype(F32)).astype(F64)  # exact in f32: one rounding
    return product + other


def row_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray, g: np.float32) -> np.ndarray:
    code = formats.unpack_pairs(codes)
    scale = formats.load("f16", np.ascontiguousarray(scales.view("<u2"))).astype(F64)
    if fmt == "rowint4":
        return (code.astype(F64) - 8) * scale
    return ((code.astype(F64) - 8) / 2 if dialect == "marlin-linear" else E2M1_VALUE[code].astype(F64)) * scale


def mx_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray, g: np.float32) -> np.ndarray:
    value = E2M1_VALUE[formats.unpack_pairs(codes)].astype(F64)
    return value * formats.power(np.repeat(scales, 16 if fmt == "mx16" else 32, 1))


def nvfp4_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray,
                  g: np.float32) -> np.ndarray:
    code = formats.unpack_pairs(codes)
    value = E2M1_VALUE[code].astype(F64)
    sf = np.repeat(formats.fp8_value(scales, E4M3), 16, 1)
    if dialect == "modelopt":
        return np.where(code == 8, 0.0, value) * (sf * F32(g)).astype(F64)
    return value * sf.astype(F64) * F64(g)


def mlx_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray, g: np.float32) -> np.ndarray:
    q = formats.mlx_codes(fmt, codes).astype(F64)
    scale, bias = (x[..., None].astype(F64) for x in formats.mlx_parameters(dtype, scales))
    product = q * scale
    if dialect == "mlx-cpu":
        product = formats.to_type(dtype, product.astype(F32)).astype(F64)  # exact in f32: one rounding
    return (product + bias).reshape(len(codes), -1)


def token_head_numbers(fmt: str, dialect: str, dtype: str, codes: np.ndarray, scales: np.ndarray,
                       g: np.float32) -> np.ndarray:
    return formats.TOKEN_HEAD[fmt][2](codes).astype(F64) * formats.token_head_scale(scales).astype(F64)


NUMBERS = {
    "f16": wide_numbers,
    "bf16": wide_numbers,
    "e4m3": fp8_numbers,
    "e5m2": fp8_numbers,
    "int8": affine_numbers,
    "int4": affine_numbers,
    "rowint4": row_numbers,
    "rowfp4": row_numbers,
    "mx16": mx_numbers,
    "mxfp4": mx_numbers,
    "nvfp4": nvfp4_numbers,
    **{fmt: mlx_numbers for fmt in formats.MLX},
    **{fmt: token_head_numbers for fmt in formats.TOKEN_HEAD},
}


def numbers(side: Side, dtype: str, codes: np.ndarray, scales: np.ndarray, g: np.float32) -> np.ndarray:
    return NUMBERS[side.format](side.format, side.dialect, dtype, codes, scales, g)


def attend(p: Problem, q: np.ndarray, k: np.ndarray, v: np.ndarray, at: np.ndarray, first: int,
           sinks: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Section 4 for one sequence: q [rows, Hq, D] at positions first, first + 1, ...; k, v [tokens, Hkv, D] at `at`.
    (out [rows, Hq, Dv], lse [rows, Hq])."""
    rows, query_heads, _ = q.shape
    scale = F64(F32(p.score_scale)) if p.score_scale else 1 / np.sqrt(F64(p.head_dim))
    k, v = (np.repeat(x, query_heads // p.kv_heads, 1) for x in (k, v))
    score = np.einsum("ihd,khd->ihk", q, k) * scale
    if p.softcap:
        cap = F64(F32(p.softcap))
        score = cap * np.tanh(score / cap)
    behind = (first + np.arange(rows))[:, None] - at
    visible = (behind >= 0) & ((behind < p.window) if p.window else True)
    score = np.where(visible[:, None, :], score, -np.inf)
    sink = np.full(query_heads, -np.inf) if sinks is None else sinks.astype(F64)
    top = np.maximum(score.max(-1, initial=-np.inf), sink)
    top = np.where(np.isneginf(top), 0, top)
    weight = np.exp(score - top[..., None])
    weight[np.broadcast_to(~visible[:, None, :], weight.shape)] = 0
    total = weight.sum(-1) + np.exp(sink - top)
    # A hidden value never matters, not even as 0 x NaN: each row sums over what it sees.
    out = np.zeros((rows, query_heads, v.shape[2]))
    for i in range(rows):
        seen = visible[i]
        out[i] = np.einsum("hk,khd->hd", weight[i][:, seen], v[seen])
    out = np.divide(out, total[..., None], out=np.zeros_like(out), where=total[..., None] != 0)
    return out, np.log(total) + top
