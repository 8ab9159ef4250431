"""An implementation in numpy and ml_dtypes, from docs/ alone: it shares no code with C, only the texts of layouts.

    python -m kvgold.adapters.numpy PACK -o ANSWER.safetensors [--case KEY]

Every format and layout, every dialect but those of sm_90, every op but mma. `answer(prompt)` is the callable."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Mapping

import numpy as np

from .. import formats_numpy as formats
from .. import layouts_numpy as layouts
from ..attention_numpy import attend, numbers
from ..formats_numpy import F32, F64
from ..pack import Prompt
from ..problem import Problem
from .command import answer_all

Arrays = Mapping[str, np.ndarray]


def raw_rows(x: np.ndarray) -> np.ndarray:
    """A tensor of the model type as bit patterns, [rows, dim]."""
    return np.ascontiguousarray(x).view(formats.RAW[{"<f4": "f32"}.get(x.dtype.str, "f16")]).reshape(-1, x.shape[-1])


def shaped(p: Problem, raw: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Bit patterns as the pack's arrays of the model type."""
    return raw.reshape(shape).view({"f16": "<f2", "bf16": "<u2", "f32": "<f4"}[p.dtype])


def tensor_scale(p: Problem, side: int, t: Arrays) -> np.float32:
    return t[f"{p.names[side]}_tensor_scale"][0] if p.sides[side].tensor_scale else F32(1)


# ---- Rows ----

def quantise(p: Problem, t: Arrays) -> dict[str, np.ndarray]:
    out = {}
    for i, (name, side) in enumerate(zip(p.names, p.sides)):
        codes, scales = formats.quantise(side.format, side.dialect, p.dtype, raw_rows(t[name]), tensor_scale(p, i, t))
        shape = t[name].shape[:2]
        out[f"{name}_codes"] = codes.reshape(*shape, -1)
        if side.scales:
            out[f"{name}_scales"] = scales.reshape(*shape, -1)
    return out


def dequantise(p: Problem, t: Arrays) -> dict[str, np.ndarray]:
    out = {}
    for i, (name, side) in enumerate(zip(p.names, p.sides)):
        codes = t[f"{name}_codes"]
        scales = t[f"{name}_scales"].reshape(-1, side.scales) if side.scales else None
        raw = formats.dequantise(side.format, side.dialect, p.dtype, codes.reshape(-1, side.codes), scales,
                                 tensor_scale(p, i, t))
        out[name] = shaped(p, raw, (*codes.shape[:2], p.head_dim))
    return out


# ---- A paged cache ----

def outputs(prompt: Prompt) -> dict[str, np.ndarray]:
    """What the outputs hold before: ops update them in place."""
    return {answer.name: prompt.inputs[answer.name].copy() for answer in prompt.answers}


def biased(p: Problem, x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """RN_T(x + b): one rounding of the exact sum."""
    terms = (formats.load(p.dtype, raw).astype(F64) for raw in (x, bias))
    total = formats.odd_sum(*np.broadcast_arrays(*terms))
    return formats.store(p.dtype, total.astype(F32) if p.dtype == "f32" else formats.odd(total))


def rotated(p: Problem, x: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """RoPE on bit patterns [T, H, D] with cos and sin [T, R/2, 2]."""
    assert p.rope is not None
    half = p.rope.dims // 2
    adjacent = p.rope.pairing == "adjacent"
    first, second = ((slice(i, 2 * half, 2) if adjacent else slice(i * half, (i + 1) * half)) for i in (0, 1))
    u0, u1 = (formats.load(p.dtype, np.ascontiguousarray(x[..., s])) for s in (first, second))
    c, s = turns[:, None, :, 0], turns[:, None, :, 1]
    out = x.copy()
    out[..., first] = formats.store(p.dtype, u0 * c - u1 * s)
    out[..., second] = formats.store(p.dtype, u1 * c + u0 * s)
    return out


def append(p: Problem, t: Arrays, out: dict[str, np.ndarray]) -> None:
    there = t["slots"] >= 0
    for i, (name, side) in enumerate(zip(p.names, p.sides)):
        x = raw_rows(t[name]).reshape(t[name].shape)
        if p.bias:
            x = biased(p, x, raw_rows(t[f"{name}_bias"]))
        if p.rope and name == "k":
            x = rotated(p, x, t["cos_sin"][t["positions"]])
        x = x[there]
        rows = x.reshape(-1, p.head_dim)
        codes, scales = formats.quantise(side.format, side.dialect, p.dtype, rows, tensor_scale(p, i, t))
        pool, index = layouts.code_index(p, i, t["slots"][there])
        out[pool][index] = codes.reshape(index.shape)
        if side.scales:
            pool, index = layouts.scale_index(p, i, t["slots"][there])
            out[pool][index] = scales.reshape(index.shape)


def stored_rows(p: Problem, t: Arrays, side: int, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(codes, scales) of slots >= 0, [slots, heads, bytes]."""
    pool, index = layouts.code_index(p, side, slots)
    codes = t[pool][index]
    if not p.sides[side].scales:
        return codes, codes[..., :0]
    pool, index = layouts.scale_index(p, side, slots)
    return codes, t[pool][index]


def flatten(p: Problem, t: Arrays, out: dict[str, np.ndarray]) -> None:
    """And expand, which puts E4M3 behind it."""
    for sequence, length in enumerate(t["lengths"]):
        at, slots = layouts.positions(p, t["block_table"][sequence], int(length))
        for i, name in enumerate(("k", "v")):
            target = f"{name}_flat" if p.op == "flatten" else f"{name}_flat_e4m3"
            here = at < out[target].shape[2]
            if not here.any():
                continue
            side = 0 if p.shared_kv else i
            codes, scales = stored_rows(p, t, side, slots[here])
            stored = p.sides[side]
            raw = formats.dequantise(stored.format, stored.dialect, p.dtype, codes.reshape(-1, stored.codes),
                                     scales.reshape(len(codes) * p.kv_heads, stored.scales), tensor_scale(p, side, t))
            raw = raw.reshape(len(codes), p.kv_heads, p.head_dim)
            if p.shared_kv and name == "v":
                raw = raw[..., p.shared_kv.v]
            if p.op == "expand":
                rows = formats.fp8(formats.load(p.dtype, np.ascontiguousarray(raw)), formats.E4M3)
            else:
                rows = shaped(p, np.ascontiguousarray(raw), raw.shape)
            out[target][sequence, :, at[here]] = rows


def probe(p: Problem, t: Arrays, out: dict[str, np.ndarray]) -> None:
    there = t["slots"] >= 0
    for i, name in enumerate(p.names):
        codes, scales = stored_rows(p, t, i, t["slots"][there])
        out[f"{name}_codes"][there] = codes
        if p.sides[i].scales:
            out[f"{name}_scales"][there] = scales


def rounded(p: Problem, out: np.ndarray, lse: np.ndarray) -> dict[str, np.ndarray]:
    """Outputs through a rounding to odd, so that f64 -> f32 -> T rounds once."""
    narrow = out.astype(F32) if p.dtype == "f32" else formats.odd(out)
    return {"out": shaped(p, formats.store(p.dtype, narrow), out.shape), "lse": lse.astype(F32)}


def decode(p: Problem, prompt: Prompt) -> dict[str, np.ndarray]:
    t = prompt.inputs
    q = prompt.floats("q").astype(F64)
    out, lse = np.zeros((*q.shape[:2], p.v_dim)), np.zeros(q.shape[:2])
    row = 0
    for sequence, (length, count) in enumerate(zip(t["lengths"].tolist(), t["query_lengths"].tolist())):
        if count == 0:
            continue
        at, slots = layouts.positions(p, t["block_table"][sequence], length)
        mine = slice(row, row + count)
        row += count
        if len(slots) == 0:  # nothing to see
            lse[mine] = t.get("sinks", -np.inf)
            continue
        rows = []
        for i, side in enumerate(p.sides):
            codes, scales = stored_rows(p, t, i, slots)
            scales = scales.reshape(len(slots) * p.kv_heads, side.scales)
            values = numbers(side, p.dtype, codes.reshape(-1, side.codes), scales, tensor_scale(p, i, t))
            rows.append(values.reshape(len(slots), p.kv_heads, p.head_dim))
        k = rows[0]
        v = k[..., p.shared_kv.v] if p.shared_kv else rows[1]
        out[mine], lse[mine] = attend(p, q[mine], k, v, at, length - count, t.get("sinks"))
    return rounded(p, out, lse)


def merge(p: Problem, prompt: Prompt) -> dict[str, np.ndarray]:
    lse = np.stack([prompt.inputs[f"lse_{part}"].astype(F64) for part in "ab"])
    values = np.stack([prompt.floats(f"out_{part}").astype(F64) for part in "ab"])
    top = lse.max(0)
    weights = np.where(lse == -np.inf, 0, np.exp(lse - top))
    total = weights.sum(0)
    parts = np.where(weights[..., None] > 0, weights[..., None] * values, 0)
    out = np.where(total[..., None] > 0, parts.sum(0) / total[..., None], 0)
    return rounded(p, out, top + np.log(total))


def answer(prompt: Prompt) -> Mapping[str, Any] | str:
    """The answer to a question, or why there is none."""
    if prompt.problem.op == "mma":
        return "op mma is a tensor core's"
    p = prompt.problem
    with np.errstate(all="ignore"):
        if p.op in ("decode", "merge"):
            return (decode if p.op == "decode" else merge)(p, prompt)
        if p.op in ("quantise", "dequantise"):
            return (quantise if p.op == "quantise" else dequantise)(p, prompt.inputs)
        out = outputs(prompt)
        {"append": append, "flatten": flatten, "expand": flatten, "probe": probe}[p.op](p, prompt.inputs, out)
        return out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvgold.adapters.numpy", description=__doc__.splitlines()[0])
    parser.add_argument("pack", help="a pack's folder, or its prompt.safetensors")
    parser.add_argument("-o", "--output", required=True, help="the answer file")
    parser.add_argument("--case", help="one case, by key or id")
    options = parser.parse_args(arguments)
    return answer_all(options.pack, options.output, answer, options.case)


if __name__ == "__main__":
    sys.exit(main())
