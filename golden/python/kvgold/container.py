"""safetensors files as docs/spec/golden-pack.md has them: read strictly, with numpy and json alone, and written.

`read` takes a file that is open already and hands out read-only arrays over its bytes, or raises PackError with one
line that says what is wrong and where. What the safetensors library refuses is refused here too, and more: names and
keys that come twice, other dtypes than those of the format, and, in a pack, tensors that are not aligned."""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np

ALIGNMENT = 256
MAX_HEADER = 16 << 20
MAX_FILE = 64 << 30
MAX_TENSOR = 1 << 38
MAX_RANK = 4
MAX_INTEGER = 1 << 53
MAX_DEPTH = 32

# What a tensor's bytes are seen as. numpy has no bfloat16: its bit patterns are handed out.
DTYPES: Mapping[str, np.dtype] = {
    "U8": np.dtype("u1"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2"), "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
}


class PackError(ValueError):
    """A pack or an answer that must not be used. The text is one line: file, place, reason."""


@dataclass(frozen=True, repr=False)
class Tensor:
    """A tensor of a file: `array` is read-only and has the dtype of DTYPES."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    array: np.ndarray

    def __repr__(self) -> str:
        return f"<kvgold.Tensor {self.name} {self.dtype} {list(self.shape)}>"


@dataclass(frozen=True)
class Container:
    """A safetensors file: its tensors in the order of their bytes, `_pad.N` left out, and its metadata."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def quote(value: object) -> str:
    """A piece of a file's own text, fit for one line."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- JSON ----

def parse_json(data: bytes, where: str) -> Any:
    """Strict JSON: UTF-8, no key twice, no NaN, Infinity or integer -0, no lone surrogate or NUL in a string, at most
    32 deep."""
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen:
                raise PackError(f"{where}: key {quote(key)} comes twice")
            seen[key] = value
        return seen

    def constant(word: str) -> Any:
        raise PackError(f"{where}: {word} is not JSON")

    def integer(text: str) -> int:
        if text == "-0":
            raise PackError(f"{where}: -0 is no integer")
        return int(text)

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant, parse_int=integer)
    except UnicodeDecodeError as error:
        raise PackError(f"{where}: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise PackError(f"{where}: nested deeper than {MAX_DEPTH}") from None
    except PackError:
        raise
    except ValueError as error:
        raise PackError(f"{where}: not JSON: {quote(str(error))}") from None
    _check_values(value, where, 0)
    return value


def _check_values(value: Any, where: str, depth: int) -> None:
    if isinstance(value, str):
        if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
            raise PackError(f"{where}: {quote(value)} holds a NUL or half a surrogate pair")
    elif isinstance(value, (dict, list)):
        if depth >= MAX_DEPTH:
            raise PackError(f"{where}: nested deeper than {MAX_DEPTH}")
        for item in value if isinstance(value, list) else [*value, *value.values()]:
            _check_values(item, where, depth + 1)
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise PackError(f"{where}: a number is too large")


# ---- Reading ----

def open_regular(path: str, where: str, folder: int | None = None) -> tuple[int, int]:
    """(descriptor, size) of a file that is regular, not empty and no link. Never blocks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if os.path.islink(path) if folder is None else _is_link(path, folder):
            raise PackError(f"{where}: a symbolic link") from None
        raise PackError(f"{where}: {error.strerror}") from None
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_size == 0:
        os.close(fd)
        raise PackError(f"{where}: " + ("empty" if stat.S_ISREG(info.st_mode) else "not a regular file"))
    return fd, info.st_size


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def map_file(fd: int) -> memoryview:
    """The bytes of an open file, read-only; closes the descriptor."""
    try:
        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(fd)


def parse(data: memoryview, where: str, aligned: bool) -> Container:
    """The tensors of a safetensors file. `aligned`: it belongs to a pack, so tensors start at multiples of 256."""
    if len(data) < 8:
        raise PackError(f"{where}: {len(data)} bytes, shorter than the length of a header")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER:
        raise PackError(f"{where}: a header of {length} bytes, more than {MAX_HEADER}")
    if length < 2 or length > len(data) - 8:
        raise PackError(f"{where}: a header of {length} bytes in a file of {len(data)}")
    text = bytes(data[8:8 + length])
    if text[:1] != b"{":
        raise PackError(f"{where}: the header does not begin with {{")
    body = text.rstrip(b" ")
    if body[-1:] != b"}":
        raise PackError(f"{where}: the header is followed by something else than spaces")
    header = parse_json(body, f"{where}: header")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or any(type(v) is not str for v in metadata.values()):
        raise PackError(f"{where}: __metadata__ is not an object of strings")
    return Container(_tensors(data, 8 + length, header, where, aligned), metadata)


def _tensors(data: memoryview, start: int, header: dict[str, Any], where: str, aligned: bool) -> dict[str, Tensor]:
    entries = [(*_entry(name, entry, where), name) for name, entry in header.items()]
    entries.sort(key=lambda e: e[:2])
    for _, after, _, _, name in entries:
        if after > len(data) - start:
            raise PackError(f"{where}: {quote(name)} ends at byte {start + after} of {len(data)}")
    tensors: dict[str, Tensor] = {}
    end = pads = 0
    for begin, after, dtype, shape, name in entries:
        if begin != end:
            raise PackError(f"{where}: {quote(name)} " + ("overlaps the tensor before it" if begin < end else
                                                          f"leaves a hole of {begin - end} bytes before it"))
        end = after
        raw = data[start + begin:start + after]
        if aligned and name.startswith("_"):
            _check_pad(name, dtype, shape, raw, pads, where)
            pads += 1
            continue
        if aligned and (start + begin) % ALIGNMENT:
            raise PackError(f"{where}: {quote(name)} starts at byte {start + begin}, no multiple of {ALIGNMENT}")
        array = np.frombuffer(raw, DTYPES[dtype]).reshape(shape)
        tensors[name] = Tensor(name, dtype, shape, array)
    if start + end != len(data):
        raise PackError(f"{where}: {len(data) - start - end} bytes after the last tensor")
    if aligned and entries and entries[-1][-1].startswith("_"):
        raise PackError(f"{where}: {quote(entries[-1][-1])} fills a gap after the last tensor")
    return tensors


def _entry(name: str, entry: Any, where: str) -> tuple[int, int, str, tuple[int, ...]]:
    what = f"{where}: {quote(name)}"
    if type(entry) is not dict or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise PackError(f"{what}: not an object of dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if type(dtype) is not str or dtype not in DTYPES:
        raise PackError(f"{what}: dtype {quote(dtype)}; known: {' '.join(DTYPES)}")
    for values, text in ((shape, "shape"), (offsets, "data_offsets")):
        if type(values) is not list or any(type(n) is not int or not 0 <= n <= MAX_INTEGER for n in values):
            raise PackError(f"{what}: {text} is not a list of integers from 0 to 2^53")
    if len(shape) > MAX_RANK or len(offsets) != 2 or offsets[1] < offsets[0]:
        raise PackError(f"{what}: shape {quote(shape)}, data_offsets {quote(offsets)}")
    size = DTYPES[dtype].itemsize
    for extent in shape:
        size *= extent
    if size != offsets[1] - offsets[0]:
        raise PackError(f"{what}: {dtype} of shape {quote(shape)} is {size} bytes, not {offsets[1] - offsets[0]}")
    if not 0 < size <= MAX_TENSOR:
        raise PackError(f"{what}: {size} bytes; a tensor has 1 to 2^38")
    return offsets[0], offsets[1], dtype, tuple(shape)


def _check_pad(name: str, dtype: str, shape: tuple[int, ...], raw: memoryview, number: int, where: str) -> None:
    if name != f"_pad.{number}" or dtype != "U8" or len(shape) != 1 or shape[0] >= ALIGNMENT:
        raise PackError(f"{where}: {quote(name)}: not the U8 tensor _pad.{number} of one dimension, below {ALIGNMENT}")
    if any(raw):
        raise PackError(f"{where}: {quote(name)} is not all 0")


# ---- Writing ----

def write(path: str | os.PathLike[str], tensors: Mapping[str, tuple[str, np.ndarray]],
          metadata: Mapping[str, str]) -> None:
    """A safetensors file of (dtype, array) by name, in that order, unpadded. At `path` it is whole or not there:
    OSError if it cannot be written, and nothing is left of it; FileExistsError where something lies that is no file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise FileExistsError(errno.EEXIST, "not a regular file: it stays", os.fspath(path))
    part = f"{os.fspath(path)}.part-{os.getpid()}"
    with open(part, "xb") as file:
        try:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, array in tensors.values():
                file.write(np.ascontiguousarray(array).data)
            file.close()
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
