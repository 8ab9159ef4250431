"""docs/spec/layouts.md in numpy: which byte of which pool holds code byte c, or scale byte z, of a token's row.

A layout is a text (section 8), which `read` reads. `kvgold layout` prints those of named layouts, here in layouts.txt.
Functions give index arrays, so the same code reads with `pool[index]` and writes with `pool[index] = bytes`."""

from __future__ import annotations

import functools
import math
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, NoReturn

import numpy as np

from .problem import FORMATS, Problem

NUMBER = r"([1-9]\d*)"
AXIS = re.compile(rf"([LBHNGCE])(?:(?<=[NGCE])(?:(//|%%){NUMBER}|(?:/{NUMBER})?(?:%{NUMBER})?))?")
FIELD = re.compile(r"[KV]\.(?:codes|scales|params)\b")
PADDING = re.compile(rf"\+ *(?:(row|data|scale)|(%)?{NUMBER})")
END = re.compile(";")  # of a pool
WORD = re.compile(rf"{AXIS.pattern}|{FIELD.pattern}|{PADDING.pattern}|[][{{}};]")

with open(os.path.join(os.path.dirname(__file__), "layouts.txt"), encoding="utf-8") as _file:
    TEXTS = {(name, bool(swizzle)): text
             for name, swizzle, text in re.findall(r"^(\w+) +(v_scale_swizzle )?(.*)$", _file.read(), re.M)}


class Place(NamedTuple):
    """base + layer[l] + block[b] + head[h] + token[offset] + byte[c], in a pool of k or v."""

    pool: str
    base: int
    layer: np.ndarray
    block: np.ndarray
    head: np.ndarray
    token: np.ndarray
    byte: np.ndarray


@dataclass
class _Field:
    """A field while the nests around it are read: by the letter of an axis, "" for bytes of the row."""

    name: str
    values: dict[str, np.ndarray]  # that the digits of the axis count
    at: dict[str, np.ndarray]      # how far each value lies behind the first one
    placed: int                    # bytes that the axes read so far count
    base: int = 0


class _Reader:
    def __init__(self, text: str, p: Problem):
        self.text, self.words = text, [word.group() for word in WORD.finditer(f"{text};")]
        self.padding = dict(zip(("row", "data", "scale"), p.padding))
        self.counts = {"L": p.layers, "B": p.blocks, "H": p.kv_heads, "N": p.block_tokens}
        self.pieces: dict[str, dict[str, int]] = {}  # of a field's row, by letter
        if junk := WORD.sub(" ", text).split():
            self.refuse(f"{junk[0]!r} is no word of it")
        for side, stored in zip("KV", p.sides):
            block, params = FORMATS[stored.format][1], stored.row_params if f"{side}.params" in self.words else 0
            for part, size in (("codes", stored.codes), ("scales", stored.scales - params), ("params", params)):
                name = f"{side}.{part}"
                self.pieces[name] = {"": 1, "C": size, "E": p.head_dim, "G": p.head_dim // block if block else 1}
                if (times := self.words.count(name)) != 1 and (size or times):
                    self.refuse(f"{name} stands {times} times")

    def refuse(self, why: str) -> NoReturn:
        raise ValueError(f"layout: {why}: {self.text}")

    def take(self, word: str) -> bool:
        return self.words[0] == word and bool(self.words.pop(0))

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        if not (found := pattern.fullmatch(self.words[0])):
            self.refuse(f"{what} is missing before {' '.join(self.words)!r}")
        self.words.pop(0)
        return found

    def several(self, one: Callable[[], Any], end: str) -> list[Any]:
        found = [one()]
        while not self.take(end):
            found.append(one())
        return found

    def nest(self, cut: str = "") -> tuple[int, list[_Field]]:
        """Its bytes, and its fields that have bytes. `cut`: the letter by which nests around it cut rows."""
        axes = self.several(lambda: self.match(AXIS, "an axis"), "]") if self.take("[") else []
        for letter in {axis.group(1) for axis in axes} & {*"GCE"}:
            if cut not in ("", letter):
                self.refuse(f"rows are cut by {cut} and by {letter}")
            cut = letter
        size = 0
        fields: list[_Field] = []
        if self.take("{"):
            for inner, held in self.several(lambda: self.nest(cut), "}"):
                for field in held:
                    field.base += size
                size, fields = size + inner, fields + held
        else:
            name = self.match(FIELD, "a field").group()
            if row := self.pieces.get(name, {"C": 0})["C"]:
                size, rest = divmod(row, self.pieces[name][cut])
                if rest:
                    self.refuse(f"{name} has {row} bytes, which {cut} does not divide")
                values = {letter: np.arange(count) for letter, count in self.counts.items()}
                at = {letter: np.zeros_like(index) for letter, index in values.items()}
                values[""], at[""] = np.divmod(np.arange(row), size)
                fields.append(_Field(name, values, at, size))
        for axis in reversed(axes):
            counts = {self.step(field, axis, size) for field in fields}
            if len(counts) > 1:
                self.refuse(f"{axis.group()} counts fields of other sizes")
            size *= max(counts, default=0)
        while self.words[0][0] == "+":
            word, up, number = self.match(PADDING, "a padding").groups()
            more = self.padding[word] if word else int(number)
            size += -size % more if up else more if size else 0
            if up and self.words[0][0] == "+":
                self.refuse("a multiple is the last padding of its nest")
        return size, fields

    def step(self, field: _Field, axis: re.Match[str], stride: int) -> int:
        """Places a field by a digit, which is value // low % count; its count."""
        letter, parts, number, divisor, modulus = axis.groups()
        whole = self.counts.get(letter) or self.pieces[field.name][letter]
        unit = math.prod(int(factor or 1) for factor in (number, divisor, modulus))
        if whole % unit:
            self.refuse(f"{axis.group()} does not divide {whole}")
        low, count = {"//": (whole // unit, unit), "%%": (1, whole // unit)}.get(
            parts, (int(divisor or 1), int(modulus or whole // unit)))
        letter = letter if letter in self.counts else ""
        field.at[letter] += field.values[letter] // low % count * stride
        field.placed *= count
        return count


def read(text: str, problem: Problem) -> dict[str, Place]:
    """Where the fields that have bytes lie: "K.codes", and "K.scales" (the block scales or the row parameters).
    ValueError: the text is no layout, or none for this problem."""
    reader = _Reader(text, problem)
    places: dict[str, Place] = {}
    while reader.words:
        names = [word for word in reader.words[:reader.words.index(";")] if FIELD.fullmatch(word)]
        _, fields = reader.nest()
        reader.match(END, "';'")
        codes = [name for name in names if name.endswith("codes")]
        pool = ("k" if any(name[0] == "K" for name in codes or names) else "v") + ("_data" if codes else "_scale_pool")
        for field in fields:
            apart = all(len(np.unique(at)) == len(at) for at in field.at.values())
            if not apart or field.placed != math.prod(map(len, field.at.values())):
                reader.refuse(f"the axes of {field.name} do not count each of its bytes once")
            places[field.name.replace("params", "scales")] = Place(pool, field.base, *field.at.values())
    return places


@functools.lru_cache(maxsize=256)
def places(p: Problem) -> dict[str, Place]:
    """Of the problem's layout."""
    return read(p.layout_text or TEXTS[p.layout, p.v_scale_swizzle], p)


def _index(p: Problem, place: Place, slots: np.ndarray) -> tuple[str, np.ndarray]:
    block, offset = np.divmod(slots.astype(np.int64), p.block_tokens)
    rows = (place.base + place.layer[p.layer] + place.block[block] + place.token[offset])[:, None] + place.head
    return place.pool, rows[..., None] + place.byte


def code_index(p: Problem, side: int, slots: np.ndarray) -> tuple[str, np.ndarray]:
    """(pool, indices [slots, heads, codes]) of slots >= 0."""
    return _index(p, places(p)[f"{'KV'[side]}.codes"], slots)


def scale_index(p: Problem, side: int, slots: np.ndarray) -> tuple[str, np.ndarray]:
    """The same of scale bytes, [slots, heads, scales], in the order of the row's blocks."""
    return _index(p, places(p)[f"{'KV'[side]}.scales"], slots)


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
