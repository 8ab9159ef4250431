"""A case's problem as numbers: sides with formats and bytes per row, geometry of the cache, options of the op.

From the case group of docs/guide/config.md that a pack holds, every axis with one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

# docs/spec/formats.md: bits of an element, elements of a block (0: none), bytes of a block scale, parameter bytes of a
# row, whether a tensor scale.
FORMATS: Mapping[str, tuple[int, int, int, int, bool]] = {
    "f16": (16, 0, 0, 0, False),
    "bf16": (16, 0, 0, 0, False),
    "e4m3": (8, 0, 0, 0, True),
    "e5m2": (8, 0, 0, 0, True),
    "int8": (8, 0, 0, 4, False),
    "int4": (4, 0, 0, 4, False),
    "rowint4": (4, 0, 0, 2, False),
    "rowfp4": (4, 0, 0, 2, False),
    "mx16": (4, 16, 1, 0, False),
    "mxfp4": (4, 32, 1, 0, False),
    "nvfp4": (4, 16, 1, 0, True),
    "mlx4": (4, 64, 4, 0, False),
    "int8_token_head": (8, 0, 0, 4, False),
    "fp8_token_head": (8, 0, 0, 4, False),
    "mlx4_g32": (4, 32, 4, 0, False),
    "mlx4_g128": (4, 128, 4, 0, False),
    "mlx8": (8, 64, 4, 0, False),
    "mlx8_g32": (8, 32, 4, 0, False),
    "mlx8_g128": (8, 128, 4, 0, False),
}


@dataclass(frozen=True)
class Side:
    """K or V: its storage."""

    format: str
    dialect: str
    codes: int          # bytes of a row's codes
    block_scales: int   # bytes of a row's block scales
    row_params: int     # bytes of a row's parameters
    tensor_scale: bool

    @property
    def scales(self) -> int:
        return self.block_scales + self.row_params


@dataclass(frozen=True)
class Rope:
    dims: int
    pairing: str


@dataclass(frozen=True)
class Problem:
    op: str
    dtype: str          # "f16", "bf16", "f32"
    layout: str
    sides: tuple[Side, ...]  # K, and V unless both share a row
    heads: int
    dim: int
    block_tokens: int
    blocks: int
    layers: int
    layer: int
    sequences: int
    row_padding: int
    data_padding: int
    scale_padding: int
    swizzle: bool
    shared: tuple[int, int] | None  # v_first, v_dim of the K row
    rope: Rope | None
    bias: bool
    group: int
    window: int
    softcap: float
    scale: float

    @property
    def names(self) -> tuple[str, ...]:
        return ("k", "v")[:len(self.sides)]

    @property
    def v_dim(self) -> int:
        return self.shared[1] if self.shared else self.dim


def side_of(fmt: str, dialect: str, dim: int) -> Side:
    bits, block, block_bytes, params, tensor_scale = FORMATS[fmt]
    return Side(fmt, dialect, dim * bits // 8, dim // block * block_bytes if block else 0, params, tensor_scale)


def sides_of(name: str, dim: int) -> tuple[Side, Side]:
    """K and V by a case's id, "op/format.dialect/..." or "op/format.dialect+format.dialect/...": it has them even where
    a policy chose the format."""
    k, _, v = name.split("/")[1].partition("+")
    first, second = (side.partition(".") for side in (k, v or k))
    return side_of(first[0], first[2], dim), side_of(second[0], second[2], dim)


def problem_of(name: str, case: Mapping[str, Any], layer: int) -> Problem:
    """From a case's id, its case group and its layer."""
    def optional(axis: str, default: Any) -> Any:
        value = case.get(axis)
        return default if value is None else value

    dim = case["head_dim"]
    sides = sides_of(name, dim)
    shared, rope, padding = optional("shared_kv", None), optional("rope", None), optional("padding", {})
    return Problem(
        op=case["op"], dtype=case["dtype"], layout=case["layout"], sides=sides[:1] if shared else sides,
        heads=case["kv_heads"], dim=dim, block_tokens=optional("block_tokens", 1), blocks=optional("blocks", 1),
        layers=optional("layers", 1), layer=layer, sequences=optional("sequences", 1),
        row_padding=padding.get("row", 0), data_padding=padding.get("data", 0), scale_padding=padding.get("scales", 0),
        swizzle=optional("v_scale_swizzle", False),
        shared=(shared.get("v_first", 0), shared["v_dim"]) if shared else None,
        rope=Rope(rope["dims"], rope.get("pairing", "adjacent")) if rope and rope["dims"] else None,
        bias=optional("bias", False), group=optional("group", 1), window=optional("window", 0),
        softcap=optional("softcap", 0.0), scale=optional("score_scale", 0.0))
