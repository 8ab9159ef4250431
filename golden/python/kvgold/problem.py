"""A case's problem: the axes of its case group by the names of configs, and the bytes of its rows.

docs/reference/config-keys.md lists the axes. The group is the one that a pack holds, every axis with one value."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Iterator, Mapping, NamedTuple

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


class Padding(NamedTuple):
    row: int
    data: int
    scales: int


class SharedKv(NamedTuple):
    v_first: int
    v_dim: int

    @property
    def v(self) -> slice:
        """V's elements of K's row."""
        return slice(self.v_first, self.v_first + self.v_dim)


def _renamed(old: str, new: str) -> property:
    def value(problem: "Problem") -> Any:
        warnings.warn(f"Problem.{old} is now Problem.{new}", DeprecationWarning, stacklevel=2)
        return attrgetter(new)(problem)
    return property(value)


@dataclass(frozen=True)
class Problem(Mapping[str, Any]):
    """What a question asks. An attribute is an axis, with its default where the group leaves it out:
    `problem.window`. As a mapping a problem holds what the group holds: `problem["fill"]`, `problem.get("policy")`."""

    axes: Mapping[str, Any] = field(repr=False, hash=False)
    op: str
    dtype: str               # "f16", "bf16", "f32"
    layout: str              # a name; layout_text has the text that a layout of one's own is
    sides: tuple[Side, ...]  # K, and V unless both share a row; none of ops mma and merge
    kv_heads: int            # of op merge: query heads
    head_dim: int
    tokens: int
    block_tokens: int
    blocks: int
    layers: int
    layer: int               # the layer of the pools that the op works on; the group does not hold it
    sequences: int
    lengths: str             # "any", "live", "even"
    shared_prefix: int       # tokens with which every sequence begins
    unowned: str             # "any", "finite", "zero"
    padding: Padding
    v_scale_swizzle: bool
    shared_kv: SharedKv | None
    rope: Rope | None
    bias: bool
    group: int
    queries: int | str       # "8 each"
    window: int
    softcap: float
    score_scale: float
    sinks: bool
    profile: str
    operands: str
    answers: str             # of op decode: "all" (out and lse) or "out"
    layout_text: str | None = None

    heads, dim = _renamed("heads", "kv_heads"), _renamed("dim", "head_dim")
    row_padding, data_padding = _renamed("row_padding", "padding.row"), _renamed("data_padding", "padding.data")
    scale_padding, swizzle = _renamed("scale_padding", "padding.scales"), _renamed("swizzle", "v_scale_swizzle")
    shared, scale = _renamed("shared", "shared_kv"), _renamed("scale", "score_scale")

    def __getitem__(self, axis: str) -> Any:
        return self.axes[axis]

    def __iter__(self) -> Iterator[str]:
        return iter(self.axes)

    def __len__(self) -> int:
        return len(self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        return ("k", "v")[:len(self.sides)]

    @property
    def format(self) -> str | dict[str, str]:
        """Of both sides, or of each, as in a config; also where a policy chose it."""
        return self._of_sides("format")

    @property
    def dialect(self) -> str | dict[str, str]:
        return self._of_sides("dialect")

    @property
    def v_dim(self) -> int:
        return self.shared_kv.v_dim if self.shared_kv else self.head_dim

    def _of_sides(self, what: str) -> str | dict[str, str]:
        values = [getattr(side, what) for side in self.sides]
        return values[0] if len({*values}) == 1 else dict(zip(self.names, values))


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

    dim = optional("head_dim", 0)
    sides = sides_of(name, dim) if dim and case["op"] != "merge" else ()
    layout = optional("layout", "rows")
    own = layout if isinstance(layout, Mapping) else {"name": layout}
    shared, rope, padding = optional("shared_kv", None), optional("rope", None), optional("padding", {})
    return Problem(
        axes=case, op=case["op"], dtype=optional("dtype", "bf16"), layout=own["name"],
        sides=sides[:1] if shared else sides, kv_heads=optional("kv_heads", 0), head_dim=dim,
        tokens=optional("tokens", 64), block_tokens=optional("block_tokens", 1), blocks=optional("blocks", 1),
        layers=optional("layers", 1), layer=layer, sequences=optional("sequences", 1),
        lengths=optional("lengths", "any"), shared_prefix=optional("shared_prefix", 0),
        unowned=optional("unowned", "any"),
        padding=Padding(*(padding.get(part, 0) for part in Padding._fields)),
        v_scale_swizzle=optional("v_scale_swizzle", False),
        shared_kv=SharedKv(shared.get("v_first", 0), shared["v_dim"]) if shared else None,
        rope=Rope(rope["dims"], rope.get("pairing", "adjacent")) if rope and rope["dims"] else None,
        bias=optional("bias", False), group=optional("group", 1), queries=optional("queries", 1),
        window=optional("window", 0), softcap=optional("softcap", 0.0), score_scale=optional("score_scale", 0.0),
        sinks=optional("sinks", False), profile=optional("profile", "exact"), operands=optional("operands", "plain"),
        answers=optional("answers", "all"),
        layout_text=own.get("text"))
