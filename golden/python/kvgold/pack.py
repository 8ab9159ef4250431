"""Golden packs: load one and use its cases.

    pack = kvgold.load("golden/data/packs/hnd")
    for case in pack.select(op="append", format="nvfp4", dialect="canonical"):
        k_data, v_data = my_engine(case.inputs)
        kvgold.assert_matches(case, {"k_data": k_data, "v_data": v_data})

`load` makes every check of docs/spec/golden-pack.md section 11 before it hands out anything, and raises PackError with one
line if one fails. Arrays are read-only numpy arrays over the files' bytes; BF16 tensors are their bit patterns
(uint16), storage is uint8. `floats` and `typed` give numbers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import unittest
import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Iterator, Mapping

import numpy as np

from . import manifest as _manifest
from .container import Container, PackError, Tensor, map_file, open_regular, parse, parse_json, quote
from .problem import Problem, problem_of
from .program import Missing, find_shipped, nearest, run_program, shipped

PACKS = "golden/data/packs"  # where shipped packs are
MAX_MANIFEST = 16 << 20  # and of provenance.json


class Unjudged(unittest.SkipTest):
    """Neither right nor wrong, as far as this package can tell. unittest and pytest count it as a skip."""


class ErratumWarning(UserWarning):
    """A pack or case is known to be wrong, or has a successor."""


@dataclass(frozen=True)
class Answer:
    """What an engine gives: name without the case's key, dtype and shape of the file, and how it is judged."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    compare: str = ""  # "bits", "bound" or "rule"; "" in a prompt, which does not say
    profile: str | None = None


class Prompt:
    """A question: what prompt.safetensors says of one case. Tensors go by their names without the key ("k_data")."""

    def __init__(self, key: str, name: str, problem: Mapping[str, Any], layer: int, answers: tuple[Answer, ...],
                 tensors: Mapping[str, Tensor]) -> None:
        self.key, self.id = key, name
        self._problem = problem
        self.layer = layer      # the layer of the pools that the op works on
        self.answers = answers
        self._tensors = tensors

    def __str__(self) -> str:
        return f"{self.key} {self.id}"

    def __repr__(self) -> str:
        return f"<kvgold.{type(self).__name__} {self}>"

    @cached_property
    def problem(self) -> Problem:
        """The axes of a case group of docs/guide/config.md, each with one value: what `check` hands to a callable."""
        return problem_of(self.id, self._problem, self.layer)

    @property
    def parsed(self) -> Problem:
        warnings.warn("case.parsed is now case.problem", DeprecationWarning, stacklevel=2)
        return self.problem

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """What goes in, with the files' dtypes."""
        return self._tensors

    @property
    def inputs(self) -> Mapping[str, np.ndarray]:
        """What goes in, as arrays."""
        return {name: tensor.array for name, tensor in self.tensors.items()}

    def typed(self, name: str) -> np.ndarray:
        """A tensor with its true dtype; BF16 needs ml_dtypes."""
        return typed(self._find(name))

    def floats(self, name: str) -> np.ndarray:
        """A tensor of floating-point numbers as float32 (F64: float64), exactly."""
        return floats(self._find(name))

    def _find(self, name: str) -> Tensor:
        return self.tensors[name]


class Case(Prompt):
    """A case of a pack: a question, and what must come out."""

    def __init__(self, pack: "Pack", entry: Mapping[str, Any]) -> None:
        answers = (Answer(a["name"][5:], a["dtype"], tuple(a["shape"]), a["compare"], a.get("profile"))
                   for a in entry["answer"])
        super().__init__(entry["key"], entry["id"], entry["case"], entry["layer"], tuple(answers), {})
        self.pack, self.entry = pack, entry
        self.stored: bool = entry["stored"]
        self.flags = tuple(entry["flags"])

    @cached_property
    def _parts(self) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        self.pack.warn(self)
        source = self if self.stored else self.pack.expand(self)
        return source.pack.stored(source.entry, "prompt"), source.pack.stored(source.entry, "expected")

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self._parts[0]

    @property
    def expected(self) -> Mapping[str, np.ndarray]:
        """What must come out: storage and flattened values, or `out.exact`, `out.bound`, ... of ops decode and merge."""
        return {name: tensor.array for name, tensor in self._parts[1].items()}

    def packing(self, name: str) -> Mapping[str, str]:
        """How the 4-bit elements of K ("k") and V ("v") lie in a tensor's bytes: words for `unpack_nibbles`. Empty for
        a tensor without such elements."""
        for entry in (*self.entry["prompt"], *self.entry["expected"]):
            if entry["name"] == f"{self.key}.{name}":
                return dict(entry.get("packing", {}))
        raise KeyError(f"{self}: no tensor {name}")

    def _find(self, name: str) -> Tensor:
        return self._parts[0][name] if name in self._parts[0] else self._parts[1][name]


class Pack:
    """A pack that has passed every check. `cases` in order; `select` by axes of the problem."""

    def __init__(self, path: str, value: Mapping[str, Any], provenance: Mapping[str, Any],
                 parts: tuple[Container, Container]) -> None:
        self.path, self.manifest, self.provenance, self._files = path, value, provenance, parts
        self.name: str = value["name"]
        self.version: str = value["version"]
        self.cases = tuple(Case(self, entry) for entry in value["cases"])

    def __repr__(self) -> str:
        return f"<kvgold.Pack {self.name} {self.version}: {len(self)} cases>"

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __getitem__(self, name: str) -> Case:
        """The case of a key ("0003") or an id."""
        for case in self.cases:
            if name in (case.key, case.id):
                return case
        raise KeyError(f"pack {self.name} has no case {name}")

    def select(self, *, allow_empty: bool = False, **axes: Any) -> list[Case]:
        """Cases whose problem has these values, e.g. op="decode", format="nvfp4", layout=("nhd", "hnd"). Without
        `dialect` all dialects are selected, while a config means "canonical". Raises ValueError for an axis
        or a word that neither the pack nor a config knows, and, unless `allow_empty`, if no case has the values."""
        for axis, wanted in axes.items():
            self._check_known(axis, _choices(wanted))
        found = [case for case in self.cases if all(_matches(case.entry["case"], k, v) for k, v in axes.items())]
        if not found and not allow_empty:
            raise ValueError(f"pack {self.name} has no case with {', '.join(f'{k}={v!r}' for k, v in axes.items())}")
        return found

    def _check_known(self, axis: str, choices: tuple[Any, ...]) -> None:
        words = _words_of_axes()
        groups = [case.entry["case"] for case in self.cases]
        axes = {*words, *(name for group in groups for name in group)}
        if axis not in axes:
            raise ValueError(f"pack {self.name}: no axis {axis!r}{nearest(axis, axes)}")
        if words.get(axis):  # an axis of words
            own = {group[axis]["name"] for group in groups if axis == "layout" and isinstance(group.get(axis), dict)}
            known = {*words[axis], *own, *(group[axis] for group in groups if type(group.get(axis)) is str)}
            for choice in choices:
                if type(choice) is str and choice not in known:
                    raise ValueError(f"pack {self.name} has no case with {axis}={choice!r}{nearest(choice, known)}")

    def stored(self, entry: Mapping[str, Any], part: str) -> Mapping[str, Tensor]:
        """Tensors of a stored case by name without its key: of its "prompt" or of what is "expected"."""
        file = self._files[part == "expected"].tensors
        return {t["name"][5:]: file[t["name"]] for t in entry[part]}

    def expand(self, case: Case) -> Case:
        """A recipe of this pack as a stored case, computed by `kvgold golden expand`, which must be at hand."""
        with tempfile.TemporaryDirectory(prefix="kvgold-") as folder:
            path = os.path.join(folder, "pack")
            try:
                run_program("golden", "expand", self.path, "--case", case.key, "-o", path)
            except Missing as error:
                raise Unjudged(f"pack {self.name} has recipes, and they are not expanded: {error}") from None
            expanded = load(path)[case.key]  # maps its files: they may go
        if any(case.entry[part] != expanded.entry[part] for part in ("id", "case", "prompt", "expected", "answer")):
            raise PackError(f"{self.path}: kvgold golden expand gave another case {case.key}")
        return expanded

    def warn(self, case: Case) -> None:
        """One line for every erratum that names a case."""
        for erratum in self.manifest["errata"]:
            if case.key in erratum["cases"]:
                warnings.warn(f"pack {self.name}, case {case.key}: erratum {erratum['id']} of {erratum['date']}: "
                              f"{erratum['text']}", ErratumWarning, stacklevel=4)


def _choices(wanted: Any) -> tuple[Any, ...]:
    return tuple(wanted) if isinstance(wanted, (tuple, list, set, frozenset)) else (wanted,)


def _matches(problem: Mapping[str, Any], axis: str, wanted: Any) -> bool:
    value = problem.get(axis)
    name = value.get("name") if axis == "layout" and isinstance(value, dict) else value  # of a text
    return axis in problem and any(choice in (value, name) for choice in _choices(wanted))


@cache
def _words_of_axes() -> Mapping[str, list[str]]:
    """The axes of a config's group, each with the words of its table: none for an axis of numbers."""
    path = shipped("configs/schema.json")
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        parts = json.load(file)["$defs"]
    return {axis: parts.get(axis, {}).get("enum", []) for axis in parts["axes"]["properties"]}


# ---- Loading ----

def load(path: str | os.PathLike[str]) -> Pack:
    """A pack, checked whole: the refusals of docs/spec/golden-pack.md section 11, each with its own line. `path` is a
    folder, or the name of a shipped pack: "hnd"."""
    path = find_shipped(PACKS, path).rstrip("/") or "/"
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise PackError(f"{path}: a symbolic link, not the folder of a pack") from None
        raise PackError(f"{path}: {error.strerror}") from None
    try:
        return _load(path, folder)
    except PackError as error:
        raise PackError(f"{path}: {error}") from None
    finally:
        os.close(folder)


def _load(path: str, folder: int) -> Pack:
    names = ("manifest.json", "manifest.sha256", *_manifest.FILES, "provenance.json", "provenance.sha256")
    opened: dict[str, tuple[int, int]] = {}
    try:
        for name in names:
            opened[name] = open_regular(name, name, folder)
        text = _hashed(opened, "manifest.json", MAX_MANIFEST)
        provenance = _hashed(opened, "provenance.json", MAX_MANIFEST)
        value = parse_json(text, "manifest.json")
        _manifest.check(value)
        parts = tuple(_file(opened, name, value, part) for part, name in enumerate(_manifest.FILES))
    finally:
        for fd, _ in opened.values():
            os.close(fd)
    _check_metadata(value, parts)
    made = parse_json(provenance, "provenance.json")
    if type(made) is not dict:
        raise PackError("provenance.json: not an object")
    if value["superseded_by"] is not None:
        warnings.warn(f"pack {value['name']} is superseded by {value['superseded_by']}", ErratumWarning, stacklevel=4)
    return Pack(path, value, made, (parts[0], parts[1]))


def _bytes_of(opened: dict[str, tuple[int, int]], name: str) -> memoryview:
    return map_file(opened.pop(name)[0])


def _hashed(opened: dict[str, tuple[int, int]], name: str, limit: int) -> bytes:
    """The bytes of a JSON file, after its .sha256 file has been held against them."""
    stem = name.split(".")[0]
    if opened[name][1] > limit:
        raise PackError(f"{name}: {opened[name][1]} bytes, more than {limit}")
    line_size = 64 + 2 + len(name) + 1
    if opened[f"{stem}.sha256"][1] != line_size:
        raise PackError(f"{stem}.sha256: {opened[f'{stem}.sha256'][1]} bytes, not {line_size}")
    line = bytes(_bytes_of(opened, f"{stem}.sha256"))
    data = bytes(_bytes_of(opened, name))
    if not re.fullmatch(rb"[0-9a-f]{64}  " + re.escape(name.encode()) + rb"\n", line):
        raise PackError(f"{stem}.sha256: not a SHA-256, two spaces, {name} and a newline")
    if hashlib.sha256(data).hexdigest().encode() != line[:64]:
        raise PackError(f"{name}: its SHA-256 is not the one in {stem}.sha256")
    return data


def _file(opened: dict[str, tuple[int, int]], name: str, value: Mapping[str, Any], part: int) -> Container:
    """One of the two safetensors files: its size, hash, structure, tensors and their hashes."""
    listed = value["files"][name]
    if opened[name][1] != listed["bytes"]:
        raise PackError(f"{name}: {opened[name][1]} bytes, the manifest says {listed['bytes']}")
    data = _bytes_of(opened, name)
    if hashlib.sha256(data).hexdigest() != listed["sha256"]:
        raise PackError(f"{name}: its SHA-256 is not the one in the manifest")
    container = parse(data, name, aligned=True)
    which = "expected" if part else "prompt"
    wanted = [entry for case in value["cases"] if case["stored"] for entry in case[which]]
    for entry, tensor in zip(wanted, container.tensors.values()):
        if (entry["name"], entry["dtype"], tuple(entry["shape"])) != (tensor.name, tensor.dtype, tensor.shape):
            raise PackError(f"{name}: {quote(tensor.name)} where the manifest has {entry['name']} "
                            f"({entry['dtype']} of shape {entry['shape']})")
        if hashlib.sha256(tensor.array.data).hexdigest() != entry["sha256"]:
            raise PackError(f"{name}: {entry['name']}: its SHA-256 is not the one in the manifest")
    if len(wanted) != len(container.tensors):
        raise PackError(f"{name}: {len(container.tensors)} tensors, the manifest has {len(wanted)}")
    if part:
        _check_bounds(value, container)
    return container


def _check_bounds(value: Mapping[str, Any], container: Container) -> None:
    """A bound is a number from 0 to +Inf; where the exact answer is NaN nothing may be promised."""
    for case in value["cases"]:
        for answer in case["answer"] if case["stored"] else []:
            if answer["compare"] != "bound":
                continue
            exact, bound = (container.tensors[answer[k]].array for k in ("exact", "bound"))
            if not (bound >= 0).all():
                raise PackError(f"{_manifest.FILES[1]}: {answer['bound']} has a number that is negative or NaN")
            if (np.isnan(exact) & (bound != np.inf)).any():
                raise PackError(f"{_manifest.FILES[1]}: {answer['exact']} is NaN where its bound is finite")


def _check_metadata(value: Mapping[str, Any], parts: tuple[Container, ...]) -> None:
    for name, container in zip(_manifest.FILES, parts):
        for key in ("kvgold_pack", "name"):
            if container.metadata.get(key) != value[key]:
                raise PackError(f"{name}: __metadata__ has another {key} than the manifest")
    rest = dict(parts[0].metadata)
    for case in value["cases"]:
        said = rest.get(f"case.{case['key']}")
        if said is None:
            raise PackError(f"{_manifest.FILES[0]}: __metadata__ has no case.{case['key']}")
        prompt = parse_json(said.encode("utf-8", "surrogatepass"), f"{_manifest.FILES[0]}: case.{case['key']}")
        answers = [{k: a[k] for k in ("name", "dtype", "shape")} for a in case["answer"]]
        if prompt != {"id": case["id"], "case": case["case"], "layer": case["layer"], "answer": answers}:
            raise PackError(f"{_manifest.FILES[0]}: __metadata__ says something else of case {case['key']}")
    known = {"kvgold_pack", "name"}
    extra = [k for k in rest if k not in known and not re.fullmatch(r"case\.[0-9]{4}", k)]
    extra += [k for k in rest if k.startswith("case.") and k not in {f"case.{c['key']}" for c in value["cases"]}]
    extra += [k for k in parts[1].metadata if k not in known]
    if extra:
        raise PackError(f"__metadata__ has an unknown key {quote(extra[0])}")


def load_prompt(path: str | os.PathLike[str]) -> list[Prompt]:
    """The questions alone, of a pack's folder (or of a shipped pack, by its name) or of a prompt.safetensors file: what
    an adapter reads. Never opens the answers. Recipes, whose tensors are in no file, are left out."""
    path = find_shipped(PACKS, path)
    if os.path.isdir(path):
        path = os.path.join(path, _manifest.FILES[0])
    data = map_file(open_regular(path, path)[0])
    container = parse(data, path, aligned=True)
    if not _manifest.FORMAT_VERSION.fullmatch(container.metadata.get("kvgold_pack", "")):
        raise PackError(f"{path}: not the prompt of a pack of version 1.0.x or 1.1.x")
    prompts = []
    for name, text in container.metadata.items():
        if not name.startswith("case."):
            continue
        key, value = name[5:], parse_json(text.encode("utf-8", "surrogatepass"), f"{path}: {name}")
        tensors = {n[5:]: t for n, t in container.tensors.items() if n.startswith(key + ".")}
        if tensors:
            answers = tuple(Answer(a["name"][5:], a["dtype"], tuple(a["shape"])) for a in value["answer"])
            prompts.append(Prompt(key, value["id"], value["case"], value["layer"], answers, tensors))
    return prompts


# ---- Numbers ----

def typed(tensor: Tensor) -> np.ndarray:
    """A tensor's array with its true dtype. BF16 needs ml_dtypes."""
    if tensor.dtype != "BF16":
        return tensor.array
    import ml_dtypes
    return tensor.array.view(ml_dtypes.bfloat16)


def floats(tensor: Tensor) -> np.ndarray:
    """A tensor's numbers as float32, F64 as float64. Exact."""
    if tensor.dtype == "BF16":
        return (tensor.array.astype(np.uint32) << 16).view(np.float32)
    if tensor.dtype not in ("F16", "F32", "F64"):
        raise TypeError(f"{tensor.name} is {tensor.dtype}: bytes or integers, not numbers")
    return tensor.array if tensor.dtype == "F64" else tensor.array.astype(np.float32)


def unpack_nibbles(codes: np.ndarray, packing: str) -> np.ndarray:
    """The 4-bit elements of rows of code bytes: uint8 [..., C] to uint8 [..., 2C], in the order of the row's elements.
    `packing`: a word of docs/spec/golden-pack.md section 2, as in `case.packing("k_codes")["k"]`."""
    low, high = codes & 15, codes >> 4
    if packing == "halves":
        return np.concatenate([low, high], -1)
    pairs = np.stack([low, high], -1).reshape(*codes.shape[:-1], 2 * codes.shape[-1])
    if packing == "low_first":
        return pairs
    if packing != "turbomind":
        raise ValueError(f"packing {packing!r}; known: {', '.join(_manifest.PACKINGS)}")
    words = pairs.reshape(*codes.shape[:-1], -1, 8)
    out = np.empty_like(words)
    out[..., [0, 2, 4, 6, 1, 3, 5, 7]] = words
    return out.reshape(pairs.shape)
