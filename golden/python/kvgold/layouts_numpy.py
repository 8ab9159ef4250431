"""docs/spec/layouts.md in numpy: which byte of which pool holds code byte c, or scale byte z, of a token's row.

Every function gives index arrays, so the same code reads with `pool[index]` and writes with `pool[index] = bytes`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .problem import Problem


@dataclass(frozen=True)
class Place:
    """base + layer x s_layer + block x s_block + head x s_head + offset x s_token, in a pool of k or v."""

    pool: str
    base: int
    layer: int
    block: int
    head: int
    token: int


def _split(p: Problem, row: int, gap: int, page: int, by_head: bool, base: int = 0, pool: str = "") -> Place:
    """[layer][block] of pages of `page` bytes, with [head][offset] or [offset][head] rows of row + gap bytes."""
    step = row + gap
    head, token = (p.block_tokens * step, step) if by_head else (step, p.kv_heads * step)
    return Place(pool, base, p.blocks * page, page, head, token)


def data_place(p: Problem, side: int) -> Place:
    """Where codes are (section 2)."""
    codes, rows = [s.codes for s in p.sides], p.kv_heads * p.block_tokens
    own = f"{p.names[side]}_data"
    if p.layout == "turbomind":
        layer = rows * sum(codes) + rows * sum(s.row_params for s in p.sides)
        return Place("k_data", p.block_tokens * sum(codes[:side]), layer, p.layers * layer,
                     p.block_tokens * sum(codes), codes[side])
    if p.layout == "trtllm":
        return _trtllm(p, "k_data", codes, side)
    if p.layout in ("vllm", "vllm_hnd"):
        return _vllm(p, side, 0)
    if p.layout in ("nhd", "hnd"):
        page = rows * (codes[side] + p.padding.row) + p.padding.data
        return _split(p, codes[side], p.padding.row, page, p.layout == "hnd", pool=own)
    return _split(p, codes[side], 0, rows * codes[side], p.layout in ("contiguous", "ring"), pool=own)


def scale_place(p: Problem, side: int) -> Place:
    """Where block scales or row parameters are (section 2)."""
    scales, rows = [s.scales for s in p.sides], p.kv_heads * p.block_tokens
    own = f"{p.names[side]}_scale_pool"
    if p.layout == "turbomind":
        params, blocks = [s.row_params for s in p.sides], [s.block_scales for s in p.sides]
        if params[side]:
            data, codes = data_place(p, side), sum(s.codes for s in p.sides)
            return Place("k_data", rows * codes + p.block_tokens * sum(params[:side]), data.layer, data.block,
                         p.block_tokens * sum(params), params[side])
        layer = rows * sum(blocks)
        return Place("k_scale_pool", sum(blocks[:side]), layer, p.layers * layer, p.block_tokens * sum(blocks),
                     sum(blocks))
    if p.layout == "trtllm":
        return _trtllm(p, "k_scale_pool", scales, side)
    if p.layout in ("vllm", "vllm_hnd"):
        return _vllm(p, side, 1)
    if p.layout in ("nhd", "hnd"):
        return _split(p, scales[side], 0, rows * scales[side] + p.padding.scales, p.layout == "hnd", pool=own)
    return _split(p, scales[side], 0, rows * scales[side], p.layout in ("contiguous", "ring"), pool=own)


def _trtllm(p: Problem, pool: str, sizes: list[int], side: int) -> Place:
    rows = p.kv_heads * p.block_tokens
    layer = rows * sum(sizes)
    return Place(pool, rows * sum(sizes[:side]), layer, p.layers * layer, p.block_tokens * sizes[side], sizes[side])


def _vllm(p: Problem, side: int, part: int) -> Place:
    parts = [size for s in p.sides for size in (s.codes, s.scales)]
    rows = p.kv_heads * p.block_tokens
    page = rows * sum(parts) + p.padding.data
    at = 2 * side + part
    return _split(p, parts[at], 0, page, p.layout == "vllm_hnd", rows * sum(parts[:at]), "k_data")


def _index(p: Problem, place: Place, slots: np.ndarray) -> np.ndarray:
    """First byte of the rows of slots, [slots, heads]."""
    block, offset = np.divmod(slots.astype(np.int64), p.block_tokens)
    rows = place.base + p.layer * place.layer + block * place.block + offset * place.token
    return rows[:, None] + np.arange(p.kv_heads) * place.head


def code_index(p: Problem, side: int, slots: np.ndarray) -> tuple[str, np.ndarray]:
    """(pool, indices [slots, heads, codes]) of slots >= 0."""
    place = data_place(p, side)
    return place.pool, _index(p, place, slots)[..., None] + np.arange(p.sides[side].codes)


def scale_index(p: Problem, side: int, slots: np.ndarray) -> tuple[str, np.ndarray]:
    """The same of scale bytes, [slots, heads, scales], in the order of the row's blocks (section 4: V swizzled)."""
    place, count = scale_place(p, side), p.sides[side].scales
    s = np.arange(count)
    if not (p.v_scale_swizzle and side == 1):
        return place.pool, _index(p, place, slots)[..., None] + s
    block, t = np.divmod(slots.astype(np.int64)[:, None], p.block_tokens)
    moved = t - t % 4 + s // (count // 4)
    first = np.stack([_index(p, place, (block * p.block_tokens + moved)[:, i]) for i in range(count)], -1)
    return place.pool, first + ((s % (count // 4)) * 4 + t % 4)[:, None, :]


def positions(p: Problem, table: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """(positions, slots) of a sequence's tokens that have a place (section 7)."""
    at = np.arange(length, dtype=np.int64)
    if p.layout == "ring":
        at = at[max(0, length - p.block_tokens):]
        entry = np.broadcast_to(table[0], at.shape)
    elif p.layout == "contiguous":
        entry = np.broadcast_to(table[0], at.shape)
    else:
        entry = table[at // p.block_tokens]
    there = (entry >= 0) & (entry < p.blocks)
    return at[there], entry[there].astype(np.int64) * p.block_tokens + at[there] % p.block_tokens
