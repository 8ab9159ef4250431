"""Calls of an attention in which a row has company: batches over arrays of numpy or torch, and the bits of their answers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Sequence

import numpy as np

GATE = 100_000_000  # cycles of the device: about 50 ms, in which a callable launches what it has to
MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


class Arrays:
    """What a kind of arrays, numpy's or torch's, must do."""

    def __init__(self, dtype: Any, device: str):
        self.torch = sys.modules.get("torch") if type(dtype).__module__ == "torch" else None
        self.name = str(dtype).removeprefix("torch.") if self.torch else np.dtype(dtype).name
        if self.name not in MANTISSA:
            raise TypeError(f"dtype {self.name} is none of {', '.join(MANTISSA)}")
        self.dtype, self.device = dtype, device

    def numbers(self, values: np.ndarray) -> Any:
        if self.torch:
            return self.torch.from_numpy(values).to(self.device, self.dtype)
        array = values.astype(self.dtype)
        array.flags.writeable = False
        return array

    def integers(self, values: Any) -> Any:
        array = np.ascontiguousarray(values, np.int32)
        return self.torch.from_numpy(array).to(self.device) if self.torch else array

    def cat(self, parts: Sequence[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        return self.torch.cat(list(parts)) if self.torch else np.concatenate(parts)

    def full(self, shape: tuple[int, ...], value: float) -> Any:
        if self.torch:
            return self.torch.full(shape, value, dtype=self.dtype, device=self.device)
        return np.full(shape, value, self.dtype)

    @property
    def streams(self) -> bool:
        """Whether the device has some."""
        return bool(self.torch) and str(self.device).startswith("cuda")

    def wait(self) -> None:
        if self.torch and self.streams:
            self.torch.cuda.synchronize()

    def beside(self, ours: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """What ours() gives while another stream computes other(), several times. Both streams wait until all is launched,
        or as long as a callable that waits for the device lets them."""
        assert self.torch
        cuda = self.torch.cuda
        gate, there, here = (cuda.Stream(self.device) for _ in range(3))
        self.wait()
        with cuda.stream(gate):
            cuda._sleep(GATE)
        for stream in (there, here):
            stream.wait_stream(gate)
        with cuda.stream(there):
            for _ in range(4):
                other()
        with cuda.stream(here):
            given = ours()
        self.wait()
        return given

    def bits(self, array: Any) -> tuple[np.ndarray, str]:
        """Codes of the numbers of an array, and the name of their type. Raises TypeError where it is none of this kind."""
        if self.torch is None:
            array = np.asarray(array)
        elif isinstance(array, self.torch.Tensor):
            array = array.detach().contiguous()
        else:
            raise TypeError(f"{type(array).__name__} is given, not a tensor")
        name = str(array.dtype).removeprefix("torch.")
        if name not in MANTISSA:
            raise TypeError(f"{name} is given, none of {', '.join(MANTISSA)}")
        if self.torch is None:
            return np.ascontiguousarray(array).view(f"u{array.itemsize}"), name
        codes = {2: self.torch.int16, 4: self.torch.int32, 8: self.torch.int64}[array.itemsize]
        return array.view(codes).cpu().numpy().view(f"u{array.itemsize}"), name


def floats(codes: np.ndarray, name: str) -> np.ndarray:
    """The numbers of codes, in float64."""
    if name == "bfloat16":
        return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return codes.view(name).astype(np.float64)


def units(size: np.ndarray, name: str) -> np.ndarray:
    """The unit in the last place of numbers of that size. Of 1.5 in bfloat16: 2^-7."""
    unit: np.ndarray = np.ldexp(1.0, np.frexp(size)[1] - 1 - MANTISSA[name])
    return unit


@dataclass(frozen=True)
class Rows:
    """An answer: codes of out [rows, heads, dim], and of lse [rows, heads] unless there is none."""

    out: np.ndarray
    lse: np.ndarray | None
    types: tuple[str, str]

    def __getitem__(self, which: Any) -> Rows:
        return Rows(self.out[which], None if self.lse is None else self.lse[which], self.types)

    def parts(self) -> list[tuple[np.ndarray, str]]:
        lse = [] if self.lse is None else [(self.lse[..., None], self.types[1])]
        return [(self.out, self.types[0]), *lse]


def joined(rows: Sequence[Rows]) -> Rows:
    lse = None if rows[0].lse is None else np.concatenate([r.lse for r in rows if r.lse is not None])
    return Rows(np.concatenate([r.out for r in rows]), lse, rows[0].types)


@dataclass(frozen=True)
class Request:
    """The last `rows` of the first `end` tokens of a story, which sees them from `begin` on."""

    end: int
    rows: int = 1
    begin: int = 0
    story: str = "own"

    @property
    def length(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Pages:
    """How tokens lie in pages."""

    size: int = 16
    order: str = "ascending"  # of a sequence's pages in the pools: or "descending", "shuffled", "spread" with gaps
    shared: bool = False      # requests share the pages of the first one's tokens, all but its last page
    unowned: float = 0.0      # what lies where no token does


@dataclass(frozen=True)
class Story:
    """A sequence that requests are parts of."""

    q: Any
    k: Any
    v: Any


class Batch:
    """A call. Its queries are the last tokens of their sequences, and see what lies before them and themselves.

        q              [rows, heads, head_dim]: the query tokens of all sequences, one sequence after the other
        query_lengths  how many rows of q each sequence has, as a list
        lengths        how many tokens each sequence has, as a list
        k, v           a list: of each sequence [length, kv_heads, head_dim]
        window         how many tokens a row sees, its own included; 0: all

    Instead of k and v, of a kernel that reads pages:

        k_pages, v_pages  [pages, page_size, kv_heads, head_dim]
        block_table       int32 [sequences, most pages of one]: the pages of each; -1 behind them
        page_size

    Arrays of numpy are read-only, but for pages, which are made for each call."""

    def __init__(self, arrays: Arrays, stories: dict[str, Story], requests: Sequence[Request], pages: Pages, window: int):
        self._arrays, self._pages, self.window = arrays, pages, window
        self._requests = requests
        sources = [(stories[r.story], r) for r in requests]
        self.query_lengths = [r.rows for r in requests]
        self.lengths = [r.length for r in requests]
        self.k = [s.k[r.begin:r.end] for s, r in sources]
        self.v = [s.v[r.begin:r.end] for s, r in sources]
        self._q = [s.q[r.end - r.rows:r.end] for s, r in sources]
        self.page_size, self.reads_pages = pages.size, False

    @cached_property
    def q(self) -> Any:
        return self._arrays.cat(self._q)

    @cached_property
    def _table(self) -> np.ndarray:
        """Where pages lie: those of the row's own story first, so that they stay where they are in other company. If pages
        are shared, the first request's also serve the others."""
        size, shared = self._pages.size, 0
        table = np.full((len(self.lengths), -(-max(self.lengths) // size)), -1)
        if self._pages.shared:
            shared = (min(self.lengths) - 1) // size
        count = 0
        for i in sorted(range(len(self.lengths)), key=lambda i: self._requests[i].story != "own"):
            first = shared if i > 0 else 0
            table[i, :first] = table[0, :first]
            own = -(-self.lengths[i] // size) - first
            table[i, first:first + own] = np.arange(count, count + own)
            count += own
        order = np.arange(count)
        if self._pages.order == "descending":
            order = order[::-1]
        elif self._pages.order == "shuffled":
            order = np.random.default_rng(count).permutation(count)
        elif self._pages.order == "spread":
            order = 3 * order + 1
        return np.where(table >= 0, order[table], -1)

    @cached_property
    def block_table(self) -> Any:
        return self._arrays.integers(self._table)

    def _paged(self, rows: list[Any]) -> Any:
        self.reads_pages = True
        size, table = self._pages.size, self._table
        pool = self._arrays.full((int(table.max()) + 2, size, *rows[0].shape[1:]), self._pages.unowned)
        flat = pool.reshape(-1, *rows[0].shape[1:])
        for blocks, x in zip(table, rows):
            at = np.arange(len(x))
            slots = blocks[at // size] * size + at % size
            flat[self._arrays.torch.from_numpy(slots).to(self._arrays.device) if self._arrays.torch else slots] = x
        return pool

    @cached_property
    def k_pages(self) -> Any:
        return self._paged(self.k)

    @cached_property
    def v_pages(self) -> Any:
        return self._paged(self.v)
