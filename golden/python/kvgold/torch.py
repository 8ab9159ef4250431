"""Operators of torch over quantised KV caches of the caller's own: append, flatten, decode, quantise, dequantise.

    cache = kvgold.torch.config(format="nvfp4", layout="hnd", kv_heads=8, head_dim=128, block_tokens=16, blocks=1024)
    pools = kvgold.torch.pools(cache)
    kvgold.torch.append(k, v, slots, *pools, cache, k_tensor_scale=g, v_tensor_scale=g)
    out, lse = kvgold.torch.decode(q, *pools, block_table, lengths, query_lengths, cache, k_tensor_scale=g, ...)

They are torch.ops.kvgold.append and so on, for torch.compile. Tensors have the names, types and shapes of
docs/spec/formats.md, layouts.md section 7 and attention.md section 1; a pool is any contiguous tensor of enough bytes.
On the CPU the reference runs them. Its decode gives the exact answer rounded once, and with an axis `profile` the bits
of that profile. On CUDA the plug-in library of library.find_cuda_library runs them, on torch's current stream. Its
bits of decode are those of the profile that it takes `exact` for. There are no gradients."""

import contextlib
import functools
import json
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import Tensor

from .library import Call, find_cuda_library, LibraryError, Memory, Spec, plug_in, problem
from .problem import side_of

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "u8": torch.uint8, "i32": torch.int32,
         "i64": torch.int64}
POOLS = ("k_data", "v_data", "k_scale_pool", "v_scale_pool")
ROWS = ("format", "dialect", "kv_heads", "head_dim", "dtype")  # axes of every op; of decode alone, of append alone:
ATTENTION, APPEND = ("window", "softcap", "score_scale", "profile"), ("rope",)
PAGED = ("layout", "block_tokens", "blocks", "layers", "padding", "v_scale_swizzle", "shared_kv")
ALIGNED = 256  # bytes: core/plugin.h promises them to a backend with memory of its own


def config(**axes: Any) -> str:
    """What the operators take as `config`: the axes of docs/reference/config-keys.md as JSON, checked. Without a layout it
    serves quantise and dequantise alone."""
    if unknown := axes.keys() - {*ROWS, *PAGED, *ATTENTION, *APPEND}:
        raise LibraryError(f"the operators have no axis {min(unknown)!r}")
    made = json.dumps(axes, sort_keys=True)
    if "layout" in axes:
        _call("decode", made, "cpu", sequences=1, tokens=1, queries=1, group=1)
        _call("append", made, "cpu", tokens=1, positions=1)
    else:
        _call("quantise", made, "cpu", tokens=1)
    return made


@functools.lru_cache(maxsize=256)
def _axes(made: str) -> Mapping[str, Any]:
    axes: Mapping[str, Any] = json.loads(made)
    return axes


@functools.lru_cache(maxsize=4096)
def _call(op: str, made: str, device: str, positions: int = 0, **sizes: Any) -> Call:
    names = {"append": ROWS + PAGED + APPEND, "flatten": ROWS + PAGED, "decode": ROWS + PAGED + ATTENTION}.get(op, ROWS)
    axes = {name: value for name, value in _axes(made).items() if name in names}
    if axes.get("rope"):
        axes["rope"] = {**axes["rope"], "positions": positions}
    if device not in ("cpu", "cuda"):
        raise LibraryError(f"tensors on {device}: the operators work on cpu and cuda")
    return Call(problem(op=op, **axes, **sizes), plug_in(find_cuda_library()) if device == "cuda" else None)


def _memory(name: str, tensor: Tensor | None, spec: Spec, device: torch.device, aligned: int,
            kept: list[Tensor]) -> Memory:
    """Address and bytes of a tensor that is as `spec` says. `kept` holds copies that must live until the call is over."""
    size = 0 if tensor is None else tensor.nbytes
    if tensor is None or size == 0:
        if spec.bytes:
            raise LibraryError(f"{name} is missing: {spec.dtype} {list(spec.shape)}")
        return 0, 0
    if not spec.bytes:
        raise LibraryError(f"{name} is given, but this config has no such tensor")
    if tensor.device != device:
        raise LibraryError(f"{name} is on {tensor.device}, other tensors are on {device}")
    fits = tensor.is_contiguous() and tensor.data_ptr() % aligned == 0
    if name in POOLS:
        if size < spec.bytes or not fits:
            raise LibraryError(f"{name} has {size} bytes; {spec.bytes} are needed, contiguous and aligned")
    elif tensor.dtype != TYPES[spec.dtype] or tensor.shape != spec.shape:
        raise LibraryError(f"{name} is {str(tensor.dtype)[6:]} {list(tensor.shape)}, not {spec.dtype} {list(spec.shape)}")
    elif not fits:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        kept.append(tensor)
    return tensor.data_ptr(), size


def _run(call: Call, inputs: Mapping[str, Tensor | None], outputs: Mapping[str, Tensor | None],
         device: torch.device) -> None:
    on_cuda, kept = device.type == "cuda", list[Tensor]()
    aligned = ALIGNED if on_cuda else 1
    given = {name: _memory(name, inputs.get(name), spec, device, aligned, kept) for name, spec in call.inputs.items()}
    into = {name: _memory(name, outputs.get(name), spec, device, aligned, kept) for name, spec in call.outputs.items()}
    if unknown := [name for name, t in inputs.items() if t is not None and name not in call.inputs]:
        raise LibraryError(f"{unknown[0]} is given, but this op has no such tensor")
    with torch.cuda.device(device) if on_cuda else contextlib.nullcontext():
        call(given, into, torch.cuda.current_stream(device).cuda_stream if on_cuda else None)


def _made(call: Call, device: torch.device, make: Callable[..., Tensor]) -> dict[str, Tensor]:
    return {name: make(spec.shape, dtype=TYPES[spec.dtype], device=device) for name, spec in call.outputs.items()}


def pools(config: str, device: Any = "cpu") -> tuple[Tensor | None, ...]:
    """New pools of zeros: k_data, v_data, k_scale_pool, v_scale_pool; None where the layout has none."""
    specs = _call("append", config, "cpu", tokens=1, positions=1).outputs
    return tuple(torch.zeros(specs[name].bytes, dtype=torch.uint8, device=device) if specs[name].bytes else None
                 for name in POOLS)


# ---- The operators, on tensors that exist ----

def _append(k: Tensor, v: Tensor | None, slots: Tensor, k_data: Tensor, v_data: Tensor | None,
            k_scale_pool: Tensor | None, v_scale_pool: Tensor | None, config: str, layer: int = 0,
            k_tensor_scale: Tensor | None = None, v_tensor_scale: Tensor | None = None, k_bias: Tensor | None = None,
            v_bias: Tensor | None = None, positions: Tensor | None = None, cos_sin: Tensor | None = None) -> None:
    if k.shape[0] == 0:
        return
    call = _call("append", config, k.device.type, cos_sin.shape[0] if cos_sin is not None else 0, tokens=k.shape[0],
                 layer=layer, bias=k_bias is not None)
    _run(call, {"k": k, "v": v, "k_tensor_scale": k_tensor_scale, "v_tensor_scale": v_tensor_scale, "k_bias": k_bias,
                "v_bias": v_bias, "positions": positions, "cos_sin": cos_sin, "slots": slots},
         dict(zip(POOLS, (k_data, v_data, k_scale_pool, v_scale_pool))), k.device)


def _flatten(k_data: Tensor, v_data: Tensor | None, k_scale_pool: Tensor | None, v_scale_pool: Tensor | None,
             block_table: Tensor, lengths: Tensor, config: str, tokens: int, layer: int = 0,
             k_tensor_scale: Tensor | None = None, v_tensor_scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
    device = k_data.device
    call = _call("flatten", config, device.type, tokens=tokens, layer=layer, sequences=block_table.shape[0])
    out = _made(call, device, torch.zeros)
    _run(call, {**dict(zip(POOLS, (k_data, v_data, k_scale_pool, v_scale_pool))), "k_tensor_scale": k_tensor_scale,
                "v_tensor_scale": v_tensor_scale, "block_table": block_table, "lengths": lengths}, out, device)
    return out["k_flat"], out["v_flat"]


def _decode(q: Tensor, k_data: Tensor, v_data: Tensor | None, k_scale_pool: Tensor | None,
            v_scale_pool: Tensor | None, block_table: Tensor, lengths: Tensor, query_lengths: Tensor, config: str,
            layer: int = 0, k_tensor_scale: Tensor | None = None, v_tensor_scale: Tensor | None = None,
            sinks: Tensor | None = None) -> tuple[Tensor, Tensor]:
    axes = _axes(config)
    if q.dim() != 3 or q.shape[1] % axes["kv_heads"]:
        raise LibraryError(f"q has the shape {list(q.shape)}, not [queries, a multiple of {axes['kv_heads']} heads, dims]")
    if q.shape[0] == 0:
        return _decode_fake(q, k_data, v_data, k_scale_pool, v_scale_pool, block_table, lengths, query_lengths, config)
    call = _call("decode", config, q.device.type, tokens=block_table.shape[-1] * axes["block_tokens"], layer=layer,
                 sequences=block_table.shape[0], queries=q.shape[0], group=q.shape[1] // axes["kv_heads"],
                 sinks=sinks is not None)
    out = _made(call, q.device, torch.empty)
    _run(call, {"q": q, **dict(zip(POOLS, (k_data, v_data, k_scale_pool, v_scale_pool))),
                "k_tensor_scale": k_tensor_scale, "v_tensor_scale": v_tensor_scale, "block_table": block_table,
                "lengths": lengths, "query_lengths": query_lengths, "sinks": sinks}, out, q.device)
    return out["out"], out["lse"]


def _quantise(k: Tensor, v: Tensor, config: str, k_tensor_scale: Tensor | None = None,
              v_tensor_scale: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if k.shape[0] == 0:
        return _quantise_fake(k, v, config)
    call = _call("quantise", config, k.device.type, tokens=k.shape[0])
    out = _made(call, k.device, torch.empty)
    _run(call, {"k": k, "v": v, "k_tensor_scale": k_tensor_scale, "v_tensor_scale": v_tensor_scale}, out, k.device)
    return out["k_codes"], out["v_codes"], out["k_scales"], out["v_scales"]


def _dequantise(k_codes: Tensor, v_codes: Tensor, k_scales: Tensor | None, v_scales: Tensor | None, config: str,
                k_tensor_scale: Tensor | None = None, v_tensor_scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
    device = k_codes.device
    if k_codes.shape[0] == 0:
        return _dequantise_fake(k_codes, v_codes, k_scales, v_scales, config)
    call = _call("dequantise", config, device.type, tokens=k_codes.shape[0])
    out = _made(call, device, torch.empty)
    _run(call, {"k_codes": k_codes, "v_codes": v_codes, "k_scales": k_scales, "v_scales": v_scales,
                "k_tensor_scale": k_tensor_scale, "v_tensor_scale": v_tensor_scale}, out, device)
    return out["k"], out["v"]


# ---- Their shapes alone, for torch.compile ----

def _append_fake(*_: Any, **__: Any) -> None:
    return None


def _flatten_fake(k_data: Tensor, v_data: Any, k_scale_pool: Any, v_scale_pool: Any, block_table: Tensor, lengths: Any,
                  config: str, tokens: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    axes = _axes(config)
    dims = axes["head_dim"], (axes.get("shared_kv") or {}).get("v_dim", axes["head_dim"])
    k, v = (k_data.new_empty((block_table.shape[0], axes["kv_heads"], tokens, dim), dtype=_dtype(axes)) for dim in dims)
    return k, v


def _decode_fake(q: Tensor, k_data: Any, v_data: Any, k_scale_pool: Any, v_scale_pool: Any, block_table: Any,
                 lengths: Any, query_lengths: Any, config: str, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    dim = (_axes(config).get("shared_kv") or {}).get("v_dim", q.shape[2])
    return q.new_empty((*q.shape[:2], dim)), q.new_empty(q.shape[:2], dtype=torch.float32)


def _quantise_fake(k: Tensor, v: Tensor, config: str, *_: Any, **__: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    fmt = _axes(config)["format"]
    sides = [side_of(name, "", k.shape[2]) for name in ([fmt, fmt] if isinstance(fmt, str) else [fmt["k"], fmt["v"]])]
    a, b, c, d = (k.new_empty((*k.shape[:2], size), dtype=torch.uint8)
                  for size in (*(side.codes for side in sides), *(side.scales for side in sides)))
    return a, b, c, d


def _dequantise_fake(k_codes: Tensor, v_codes: Tensor, k_scales: Any, v_scales: Any, config: str, *_: Any,
                     **__: Any) -> tuple[Tensor, Tensor]:
    axes = _axes(config)
    shape = (*k_codes.shape[:2], axes["head_dim"])
    return k_codes.new_empty(shape, dtype=_dtype(axes)), k_codes.new_empty(shape, dtype=_dtype(axes))


def _dtype(axes: Mapping[str, Any]) -> Any:
    return TYPES[axes.get("dtype", "bf16")]


def _operator(name: str, function: Any, fake: Any, mutates: Sequence[str] = ()) -> Any:
    """torch.ops.kvgold.<name>. torch.library.custom_op takes 30 us more for each call. It would also raise the version
    counters of pools that an op changes, by which autograd notices a tensor that it has saved: these have no gradient."""
    def without_gradient(run: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if torch.is_grad_enabled():
                for tensor in (*given, *named.values()):
                    if isinstance(tensor, Tensor) and tensor.requires_grad:
                        raise LibraryError(f"kvgold.torch.{name} has no gradient: call it under torch.no_grad()")
            return run(*given, **named)
        return call
    torch.library.define(f"kvgold::{name}", torch.library.infer_schema(function, mutates_args=mutates))
    torch.library.impl(f"kvgold::{name}", "default", without_gradient(function))
    torch.library.register_fake(f"kvgold::{name}", without_gradient(fake))
    return getattr(torch.ops.kvgold, name).default


append = _operator("append", _append, _append_fake, POOLS)
flatten = _operator("flatten", _flatten, _flatten_fake)
decode = _operator("decode", _decode, _decode_fake)
quantise = _operator("quantise", _quantise, _quantise_fake)
dequantise = _operator("dequantise", _dequantise, _dequantise_fake)
