"""docs/spec/numerics.md section 6, the bound of attention, in float64: for one row and head of q, K and V that are
operands as they are, under the scale 1 / sqrt(D), without softcap and sink."""

from __future__ import annotations

from typing import Mapping

import numpy as np

U = 2.0 ** -24  # half an ulp of f32, relative

# Section 6.1: the relative half-ulp of a type, its half-step among subnormals, its smallest normal number.
OPERANDS: Mapping[str, tuple[float, float, float]] = {
    "float16": (2.0 ** -11, 2.0 ** -25, 2.0 ** -14),
    "bfloat16": (2.0 ** -8, 2.0 ** -134, 2.0 ** -126),
    "float32": (2.0 ** -24, 2.0 ** -150, 2.0 ** -126)}


def _compound(error: float) -> float:
    return error / (1 - error) if error < 0.5 else np.inf


def _chain(terms: float, steps: float) -> float:
    """c(n) of section 6.2 with F = 24: its second form, n 2^-24 + steps (2^-24 + 2^-23), is never below n u."""
    return _compound((terms + 3 * steps) * U)


def out_bound(q: np.ndarray, k: np.ndarray, v: np.ndarray, dtype: str, rounded_sum: bool = True) -> np.ndarray:
    """How far a right `out` in `dtype` may be from the exact one, for q [D], k [keys, D] and v [keys, Dv] of that type.

    The class is `plain` (kvg_arithmetic_init of reference/attention_spec.h: 24 bits, tiles of 16 keys, no span), and q,
    K and V have no operand error. `rounded_sum`: the sum of weights may add them rounded, which widens the bound. The
    numbers must be far from the largest of their type, where section 6.7 promises nothing. Sums have numpy's order, and
    the last factor covers it."""
    half, step, normal = OPERANDS[dtype]
    n, scale = len(k), 1 / np.sqrt(len(q))
    reach_q, reach_k, reach_v = (np.where(x == 0, 0, np.maximum(np.abs(x), normal)) for x in (q, k, v))

    t = k @ q * scale                                                                             # section 6.3
    error = scale * (_chain(len(q), -(-len(q) // 8)) * (reach_k @ reach_q) + len(q) * 2.0 ** -125)
    error += 2.0 ** -21 * (np.abs(t) + error)

    rescales, top = min(n, n / 16 + 2), t.max()                                                   # 6.2, 6.4
    walked = _compound(_chain(n, min(n, n / 8 + 32)) + rescales * U)
    made_of = top - t + np.maximum(abs(top), np.abs(t)) + np.log(n + 1) + 12
    error += 2.0 ** -21 * made_of + 2.0 ** -22 * (rescales + 2)

    weight, least, most = np.exp(t - top), np.exp(t - top - error).sum(), np.exp(t - top + error)  # 6.5
    out = weight @ v / weight.sum()
    distance = np.abs(v - out)
    moved = (most * np.minimum(error, 1)) @ distance
    moved += np.where(error > 1, most * 2.0 ** -48, 0) @ (np.abs(v) + np.abs(out))
    moved = np.minimum(moved / least, distance.max(0))

    heaviest = max(1, least / most.max())                                                         # 6.6
    floor = np.minimum(most / least, (step + 2.0 ** -126) / heaviest)
    pull = np.maximum(np.abs(v), distance) if rounded_sum else np.abs(v)
    product = half * pull + (1 + half) * walked * reach_v
    product = np.minimum(most @ product / least, product.max(0))
    product += floor @ pull + (walked * normal * reach_v + 2.0 ** -125).sum(0) / heaviest
    lost = half + floor.sum() if rounded_sum else 0.0
    product += lost * moved
    if not (walked < 0.5 and lost < 0.5):
        return np.full(v.shape[1], np.inf)

    quotient = (walked + 2.0 ** -20) * (np.abs(out) + moved)                                      # 6.7
    raw = moved + (product + quotient) / ((1 - walked) * (1 - lost)) * (1 + 2.0 ** -20)
    bound: np.ndarray = (raw + half * (np.abs(out) + raw) + max(step, 2.0 ** -126)) * (1 + 2.0 ** -30)
    return bound
