"""The C library libkvgold.so by ctypes: an op of core/ops.def on memory of the caller's own.

    problem = library.problem(op="quantise", format="nvfp4", tokens=1, kv_heads=1, head_dim=16, dtype="f32")
    library.run(problem, {"k": (address, bytes), ...}, {"k_codes": (address, bytes), ...})

Tensors have the names of core/roles.def, and are dense and row-major. The reference runs the op on the CPU, or a
plug-in's implementation (core/plugin.h) runs it where the plug-in's memory is. The classes below are the structs of
core/ under the names of their members; test_python_operators.py compares their offsets with the headers."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Mapping, NamedTuple

from .program import HOME, ROOTS, Missing, nearest

Memory = tuple[int, int]  # address, bytes
K, V = 0, 1
TEXT = 1000  # KVG_LAYOUT_TEXT
PAIRINGS = {"adjacent": 1, "halves": 2}


class LibraryError(ValueError):
    """What the library says, in one line; `status` is its kvg_status."""

    def __init__(self, text: str, status: int = 1):
        super().__init__(text)
        self.status = status


def _of(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class Storage(ctypes.Structure):
    _fields_ = [("format", c_int), ("dialect", c_char_p)]


class Paging(ctypes.Structure):
    _fields_ = [*_of(c_uint32, "layers layer blocks block_tokens sequences row_padding data_padding scale_padding"),
                *_of(c_bool, "v_scale_swizzle shared_kv"), *_of(c_uint32, "v_first v_dim")]


class RopeScaling(ctypes.Structure):
    _fields_ = [("kind", c_int),
                *_of(c_float, "theta factor original_positions length low_freq_factor high_freq_factor beta_fast "
                     "beta_slow attention_factor mscale mscale_all_dim"),
                ("truncate", c_bool), ("entries", c_int)]


class Rope(ctypes.Structure):
    _fields_ = [*_of(c_uint32, "dims positions"), ("pairing", c_int), ("scaling", RopeScaling)]


class Attention(ctypes.Structure):
    _fields_ = [*_of(c_uint32, "query_heads queries window"), *_of(c_float, "softcap scale"), ("sinks", c_bool)]


class LayoutText(ctypes.Structure):
    _fields_ = _of(c_char_p, "name text")


class Digit(ctypes.Structure):
    _fields_ = _of(c_uint64, "size stride")


class RowMap(ctypes.Structure):
    _fields_ = [*_of(c_int, "pool side"), *_of(c_uint64, "base layer block head"), *_of(Digit * 3, "token byte"),
                *_of(c_uint32, "bytes reserved")]


class LayoutMap(ctypes.Structure):
    _fields_ = _of(RowMap * 2, "codes scales")


class CProblem(ctypes.Structure):
    _fields_ = [*_of(c_int, "op layout dtype"), ("storage", Storage * 2), *_of(c_uint32, "tokens kv_heads head_dim"),
                ("paging", Paging), ("rope", Rope), ("bias", c_bool), ("attention", Attention), ("profile", c_int),
                ("text", POINTER(LayoutText)), ("map", LayoutMap), ("pool_bytes", c_uint64 * 2 * 2),
                ("laid_out", c_uint64)]


class CTensor(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("rank", c_uint32), ("shape", c_uint64 * 4), ("data", c_void_p), ("bytes", c_size_t)]


class OpInfo(ctypes.Structure):
    _fields_ = [("op", c_int), ("name", c_char_p), ("paged", c_bool), *_of(c_int * 8, "inputs outputs"),
                ("summary", c_char_p)]


class Impl(ctypes.Structure):
    _fields_ = [("name", c_char_p), *_of(c_int, "op format"), ("needs", c_uint32), ("run", c_void_p)]


class Backend(ctypes.Structure):
    """The members of the first version of kvg_backend, and two of those that came later: kvgold's copy has all."""

    _fields_ = [*_of(c_uint32, "abi struct_size"), ("name", c_char_p), ("impls", POINTER(Impl)),
                ("impl_count", c_size_t), *_of(c_void_p, "caps error_text ready"),
                *_of(c_uint32, "problem_size reserved"), ("memory", c_void_p)]


# The struct of each class, by which the test finds it in the headers.
STRUCTS: Mapping[type[ctypes.Structure], str] = {
    Storage: "kvg_storage", Paging: "kvg_paging", RopeScaling: "kvg_rope_scaling", Rope: "kvg_rope",
    Attention: "kvg_attention", LayoutText: "kvg_layout_text", Digit: "kvg_digit", RowMap: "kvg_row_map",
    LayoutMap: "kvg_layout_map", CProblem: "kvg_problem", CTensor: "kvg_tensor", OpInfo: "kvg_op_info",
    Impl: "kvg_impl", Backend: "kvg_backend"}

_RUN = ctypes.CFUNCTYPE(c_int, POINTER(CProblem), POINTER(CTensor), POINTER(CTensor), c_void_p)
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {  # the result, then the arguments
    "kvg_error_text": (c_char_p,),
    "kvg_op_find": (c_int, c_char_p, POINTER(c_int)),
    "kvg_op_get": (POINTER(OpInfo), c_int),
    "kvg_format_find": (c_int, c_char_p, POINTER(c_int)),
    "kvg_dtype_find": (c_int, c_char_p, POINTER(c_int)),
    "kvg_dtype_name": (c_char_p, c_int),
    "kvg_profile_find": (c_int, c_char_p, POINTER(c_int)),
    "kvg_layout_read": (c_int, c_char_p, POINTER(LayoutText), POINTER(c_int)),
    "kvg_reference_dialect_find": (c_int, c_int, c_char_p, POINTER(c_size_t)),
    "kvg_problem_check": (c_int, POINTER(CProblem)),
    "kvg_problem_lay_out": (c_int, POINTER(CProblem)),
    "kvg_problem_tensor": (CTensor, POINTER(CProblem), c_int, c_int),
    "kvg_roles_tensors": (c_size_t, c_int * 8),
    "kvg_roles_at": (None, c_int * 8, c_size_t, POINTER(c_int), POINTER(c_int)),
    "kvg_tensor_name": (c_char_p, c_int, c_int),
    "kvg_reference_backend": (POINTER(Backend),),
    "kvg_backend_open": (c_int, c_char_p, POINTER(POINTER(Backend))),
    "kvg_backend_choose": (c_int, POINTER(Backend), POINTER(CProblem), POINTER(POINTER(Impl))),
}


def _found(name: str, variable: str, installed: str, how: str) -> str:
    """The path of a library: the variable's, else the installed one, else that of the newest build of a checkout."""
    if given := os.environ.get(variable):
        return given
    builds = (os.path.join(ROOTS[1], "build", *below, name) for below in (("bin",), ("*", "bin")))
    for found in (glob.glob(installed), [x for y in builds for x in glob.glob(y)]):
        if found:
            return max(found, key=os.path.getmtime)
    raise Missing(f"{name} is not here: {how}, or put its path into {variable}")


def find_library() -> str:
    return _found("libkvgold.so", "KVGOLD_LIBRARY", os.path.join(HOME, "lib*", "libkvgold.so*"),
                  "build it (cmake --workflow --preset cpu)")


def find_cuda_library() -> str:
    """Of kvgold's CUDA kernels, a plug-in. The package kvgold-cuda installs it beside this one."""
    return _found("libkvgold_cuda.so", "KVGOLD_CUDA_LIBRARY", os.path.join(HOME, os.pardir, "kvgold_cuda", "libkvgold_cuda.so"),
                  "install kvgold-cuda, build it (cmake --workflow --preset cuda)")


@functools.lru_cache(maxsize=None)
def library() -> Any:
    path = find_library()
    try:
        loaded = ctypes.CDLL(path)
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise Missing(f"{path} is no libkvgold.so of this version: {error}") from None
    if loaded.kvg_reference_backend().contents.problem_size != ctypes.sizeof(CProblem):
        raise Missing(f"{path} is of another version of kvgold: its problems have another size")
    return loaded


def _check(status: int) -> None:
    if status:
        raise LibraryError(library().kvg_error_text().decode(), status)


def _find(what: str, name: str) -> int:
    found = c_int()
    _check(getattr(library(), f"kvg_{what}_find")(name.encode(), byref(found)))
    return found.value


def _sides(given: Any) -> tuple[Any, Any]:
    return (given["k"], given["v"]) if isinstance(given, Mapping) else (given, given)


def _members(axis: str, given: Mapping[str, Any] | None, names: str) -> Mapping[str, Any]:
    known = names.split()
    if unknown := [name for name in given or {} if name not in known]:
        raise LibraryError(f"{axis} has no {unknown[0]!r}{nearest(unknown[0], known)}")
    return given or {}


def problem(*, op: str, format: str | Mapping[str, str], kv_heads: int, head_dim: int, tokens: int,
            dialect: str | Mapping[str, str] = "canonical", layout: str = "rows", dtype: str = "bf16",
            block_tokens: int = 0, blocks: int = 0, layers: int | None = None, layer: int = 0, sequences: int = 0,
            padding: Mapping[str, int] | None = None, v_scale_swizzle: bool = False,
            shared_kv: Mapping[str, int] | None = None, rope: Mapping[str, Any] | None = None, bias: bool = False,
            group: int = 0, queries: int = 0, window: int = 0, softcap: float = 0.0, score_scale: float = 0.0,
            sinks: bool = False, profile: str = "exact") -> CProblem:
    """A checked problem. The arguments are the axes of docs/reference/config-keys.md, except: a layout is a name, or a
    text of one's own; `rope` has dims, pairing and `positions`, the rows of its table; `queries` counts the rows of q of
    all sequences; `layer` is the layer of the pools that the op works on. LibraryError says what is wrong."""
    if layers is None:
        layers = 0 if layout == "rows" else 1
    pads, shared = _members("padding", padding, "row data scales"), _members("shared_kv", shared_kv, "v_first v_dim")
    turns = _members("rope", rope, "dims positions pairing")
    counts = (kv_heads, head_dim, tokens, block_tokens, blocks, layers, layer, sequences, group * kv_heads, queries,
              window, *pads.values(), *shared.values(), turns.get("dims", 0), turns.get("positions", 0))
    if not all(0 <= count < 1 << 32 for count in counts):
        raise LibraryError(f"a size of the problem is not a number from 0 to 2^32 - 1: {counts}")
    p = CProblem(op=_find("op", op), dtype=_find("dtype", dtype), kv_heads=kv_heads, head_dim=head_dim, tokens=tokens,
                 bias=bias, profile=0 if profile == "exact" else _find("profile", profile))
    for side, (fmt, rule) in enumerate(zip(_sides(format), _sides(dialect))):
        index = c_size_t()
        p.storage[side] = Storage(_find("format", fmt), rule.encode())
        _check(library().kvg_reference_dialect_find(p.storage[side].format, rule.encode(), byref(index)))
    text, found = LayoutText(), c_int()
    _check(library().kvg_layout_read(layout.encode(), byref(text), byref(found)))
    p.layout = found.value
    if p.layout == TEXT:
        p.text = ctypes.pointer(LayoutText(b"own", layout.encode()))
    p.paging = Paging(
        layers=layers, layer=layer, blocks=blocks, block_tokens=block_tokens, sequences=sequences,
        row_padding=pads.get("row", 0), data_padding=pads.get("data", 0), scale_padding=pads.get("scales", 0),
        v_scale_swizzle=v_scale_swizzle, shared_kv=bool(shared), v_first=shared.get("v_first", 0),
        v_dim=shared.get("v_dim", 0))
    if turns:
        p.rope = Rope(dims=turns.get("dims", 0), positions=turns.get("positions", 0),
                      pairing=PAIRINGS.get(turns.get("pairing", "adjacent"), 0))
    if op == "decode":
        p.attention = Attention(query_heads=group * kv_heads, queries=queries, window=window, softcap=softcap,
                                scale=score_scale, sinks=sinks)
    _check(library().kvg_problem_check(byref(p)))
    _check(library().kvg_problem_lay_out(byref(p)))
    return p


@functools.lru_cache(maxsize=None)
def plug_in(path: str) -> Any:
    """The backend of a plug-in's shared library, checked as `kvgold check --backend` checks it."""
    backend = POINTER(Backend)()
    _check(library().kvg_backend_open(path.encode(), byref(backend)))
    return backend


class Spec(NamedTuple):
    """A tensor of a problem. One of 0 bytes is none."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int


class Call:
    """An op that is chosen once and called many times, from any thread. `backend`: of plug_in; None: the reference."""

    def __init__(self, problem: CProblem, backend: Any = None):
        lib = library()
        self._problem, self._backend = problem, backend or lib.kvg_reference_backend()
        chosen = POINTER(Impl)()
        _check(lib.kvg_backend_choose(self._backend, byref(problem), byref(chosen)))
        self._run, self.name = _RUN(chosen.contents.run), chosen.contents.name.decode()
        info = lib.kvg_op_get(problem.op).contents
        self.inputs, self._in = self._tensors(info.inputs)
        self.outputs, self._out = self._tensors(info.outputs)

    def _tensors(self, roles: Any) -> tuple[dict[str, Spec], Any]:
        lib = library()
        array = (CTensor * lib.kvg_roles_tensors(roles))()
        specs, role, side = {}, c_int(), c_int()
        for i in range(len(array)):
            lib.kvg_roles_at(roles, i, byref(role), byref(side))
            t = array[i] = lib.kvg_problem_tensor(byref(self._problem), role, side)
            specs[lib.kvg_tensor_name(role, side).decode()] = Spec(
                lib.kvg_dtype_name(t.dtype).decode(), tuple(t.shape[:t.rank]), t.bytes)
        return specs, array

    def _filled(self, given: Mapping[str, Memory], specs: dict[str, Spec], array: Any) -> Any:
        filled = type(array).from_buffer_copy(array)
        for tensor, (name, spec) in zip(filled, specs.items()):
            if spec.bytes:
                address, size = given.get(name, (0, 0))
                if size < spec.bytes:
                    raise LibraryError(f"{name} has {size} bytes, not {spec.bytes}")
                tensor.data = address
        if unknown := given.keys() - specs.keys():
            raise LibraryError(f"{self.name} has no tensor {min(unknown)!r}; it has {', '.join(specs)}")
        return filled

    def __call__(self, inputs: Mapping[str, Memory], outputs: Mapping[str, Memory], stream: int | None = None) -> None:
        """`stream`: the plug-in's kvg_stream, of CUDA a cudaStream_t; None: its default."""
        given, into = self._filled(inputs, self.inputs, self._in), self._filled(outputs, self.outputs, self._out)
        if status := self._run(byref(self._problem), given, into, stream):
            said = self._backend.contents.error_text
            text = ctypes.CFUNCTYPE(c_char_p)(said)() if said else None
            raise LibraryError((text or f"{self.name} failed with status {status}".encode()).decode(), status)


def run(problem: CProblem, inputs: Mapping[str, Memory], outputs: Mapping[str, Memory]) -> None:
    """Runs the problem's op on the reference. Tensors that the problem does not have may be left out."""
    Call(problem)(inputs, outputs)
