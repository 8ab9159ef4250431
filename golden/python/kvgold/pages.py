"""Paged caches as strided views: what an engine calls k_cache[layer, block, head, token]."""

from __future__ import annotations

import sys
from typing import Any, Mapping

import numpy as np

from .layouts_numpy import places
from .pack import Prompt
from .problem import Problem

PARTS = ("codes", "scales")


def pages(question: Prompt | Problem, side: str, part: str = "codes", tensors: Mapping[str, Any] | None = None) -> Any:
    """The rows of `side` ("k" or "v") in its pool, as a view [layers, blocks, KV heads, tokens of a block, bytes].

    `part` is "codes" or "scales" (block scales, or the parameters of rows). `question` is a case, a prompt or a Problem;
    `tensors` has the pools by name ("k_data"), numpy arrays or torch tensors of bytes (default: those of the question,
    which are read-only). Writing into the view writes into the pool. With the block table of a sequence,
    `pages(case, "k")[case.layer, table[i]]` is its page i: [KV heads, tokens, bytes]. A view of two bytes an element:
    `.view(np.uint16)`, in torch `.view(torch.bfloat16)`.

    ValueError: the layout has no such rows (layout rows; a side without scales), their tokens or bytes lie in groups (V's
    scales in groups of four tokens), or a pool is too small."""
    problem = question if isinstance(question, Problem) else question.problem
    if tensors is None:
        if isinstance(question, Problem):
            raise ValueError("a Problem has no tensors: give them")
        tensors = question.inputs
    if side not in problem.names or part not in PARTS or problem.layout == "rows":
        raise ValueError(f"no {part} of {side!r} in pages of layout {problem.layout}")
    place = places(problem).get(f"{side.upper()}.{part}")
    pool = tensors.get(place.pool) if place else None
    if place is None or pool is None:
        raise ValueError(f"no {part} of {side!r}" + (f": {place.pool} is missing" if place else ""))
    axes = place.layer, place.block, place.head, place.token, place.byte
    steps = [{*np.diff(at).tolist()} or {0} for at in axes]
    if any(len(step) > 1 for step in steps):
        raise ValueError(f"{part} of {side!r} lie in groups of tokens or bytes: they have no view by rows")
    shape, strides = tuple(map(len, axes)), tuple(step.pop() for step in steps)
    last = place.base + sum(int(at[-1]) for at in axes)
    stride = pool.strides[0] if isinstance(pool, np.ndarray) else pool.stride(0) if pool.ndim else 0
    if pool.itemsize != 1 or pool.ndim != 1 or stride != 1 or last >= len(pool):
        raise ValueError(f"{place.pool} is not {last + 1} bytes or more, one after another: {pool.dtype} {tuple(pool.shape)}")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(pool, torch.Tensor):
        return pool.as_strided(shape, strides, pool.storage_offset() + place.base)
    return np.lib.stride_tricks.as_strided(pool[place.base:], shape, strides, writeable=pool.flags.writeable)
