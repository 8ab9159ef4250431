"""SGLang's Triton and torch code (https://github.com/sgl-project/sglang), each module imported alone.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.sglang:decode --device cuda -o ANSWER

decode        decode_attention_fwd over slots, with and without MLA: one query token of each sequence, one split
decode_splits the same with a split for each 40 keys, at most 8
append        launch_reshape_and_cache_flash
append_fp8    the statement of MHATokenToKVPool.set_kv_buffer that quantises, taken from the file
append_fp4    FP4MXBlock16KVCacheMethod.quantize_and_store; flatten_fp4: its dequantize_kv_tensor
append_mla    the Triton kernels of mla_buffer
merge         merge_state_triton

A window is what SGLang makes of it: indices of the slots that it leaves."""

from __future__ import annotations

import ast
import math
import os
from types import SimpleNamespace
from typing import Any, Mapping

import torch

from ..problem import Problem
from .alone import alone
from .cache import asked, codes, format_of, live_pages, pools, scales, score_scale, slots_of, starts, Tensors, TYPES


def hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


def cores(device: int = 0) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if torch.cuda.is_available() else 0


def never(*_: Any) -> bool:
    return False


class Switches:
    """Of SGLang's environment: all off."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(get=never)


VERSION = alone("sglang", ["0.5.23"], {
    "sglang.kernels.jit.utils": {"is_arch_support_pdl": never},
    "sglang.srt.environ": {"envs": Switches()},
    "sglang.srt.runtime_context": {
        "get_platform": lambda: SimpleNamespace(is_sm90=hopper(), is_sm100=False, is_sm120=False),
        "get_parallel": lambda: SimpleNamespace(attn_dcp_size=1, attn_dcp_rank=0)},
    "sglang.srt.utils": {"get_device_core_count": cores, "is_cuda": torch.cuda.is_available, "is_hip": never,
                         "is_gfx95_supported": never, "is_gfx1250_supported": never},
})

from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd  # noqa: E402
from sglang.kernels.ops.attention.merge_state import merge_state_triton  # noqa: E402
from sglang.kernels.ops.kvcache import cache_ops, mla_buffer  # noqa: E402

FP8, SPLITS = torch.float8_e4m3fn, 8


def refusal(p: Problem, op: str, formats: tuple[str, ...], shared: bool = False) -> str | None:
    if p.op != op or bool(p.shared_kv) != shared or format_of(p) not in formats or p.rope or p.bias:
        return f"{asked(p)} on {p.layout}"
    return "V does not begin where K does" if p.shared_kv and p.shared_kv.v_first else None


def seen_slots(p: Problem, table: torch.Tensor, length: int) -> torch.Tensor:
    position = torch.arange(max(0, length - p.window) if p.window else 0, length)
    return table[position // p.block_tokens].long() * p.block_tokens + position % p.block_tokens


def decode(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return attend(p, t, 1 << 30)


def decode_splits(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return attend(p, t, 40)


def attend(p: Problem, t: dict[str, torch.Tensor], keys_of_split: int) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "decode", ("f16", "bf16", "e4m3"), bool(p.shared_kv))
    live = None if why else live_pages(p, t)
    if why or live is None or bool((t["query_lengths"] != 1).any()):
        return why or "a page lost in the middle, or not one query token of each sequence"
    q, fp8 = t["q"], p.sides[0].tensor_scale
    k, v = (slots_of(codes(p, t, name, TYPES[p.sides[0].format])) for name in (p.names * 2)[:2])
    v = v[..., p.shared_kv.v] if p.shared_kv else v
    slots = [seen_slots(p, table, length) for table, length in zip(*live)]
    counts = torch.tensor([len(of) for of in slots])
    out = torch.zeros(*q.shape[:2], v.shape[-1], dtype=q.dtype, device=q.device)
    between = torch.empty(*q.shape[:2], SPLITS, v.shape[-1], device=q.device)
    lse = torch.full((*q.shape[:2], SPLITS), -math.inf, device=q.device)
    splits = (-(-counts // keys_of_split)).clamp(1, SPLITS).int().to(q.device)
    flat = torch.cat([*slots, torch.zeros(1, dtype=torch.int64)]).to(q.device)
    k_scale, v_scale = (t[f"{name}_tensor_scale"].item() if fp8 else 1.0 for name in (p.names * 2)[:2])
    decode_attention_fwd(q, k, v, out, starts(counts).to(q.device), flat, between, lse, splits, SPLITS, score_scale(p),
                         k_scale, v_scale, logit_cap=p.softcap, sinks=t.get("sinks"), has_mla=bool(p.shared_kv))
    whole = torch.logsumexp(lse.double(), -1)
    if "sinks" in t:
        whole = torch.logaddexp(whole, t["sinks"].double().expand_as(whole))
    return {"out": out, "lse": whole.float()}


def append(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append", ("f16", "bf16", "e4m3"))
    if why:
        return why
    k, v = (codes(p, t, name, TYPES[p.sides[0].format]) for name in p.names)
    cache_ops.launch_reshape_and_cache_flash(t["k"], t["v"], k, v, t["slots"], k_scale=t.get("k_tensor_scale"),
                                             v_scale=t.get("v_tensor_scale"))
    return pools(t)


def statement_that_quantises() -> Any:
    """Of MHATokenToKVPool.set_kv_buffer: the class needs a server, the statement does not."""
    import sglang.srt.mem_cache as package
    path = os.path.join(next(iter(package.__path__)), "memory_pool.py")
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = [node for pool in tree.body if isinstance(pool, ast.ClassDef) and pool.name == "MHATokenToKVPool"
             for method in pool.body if isinstance(method, ast.FunctionDef) and method.name == "set_kv_buffer"
             for node in method.body if isinstance(node, ast.If) and ast.unparse(node.test) == "cache_k.dtype != self.dtype"]
    if len(found) != 1:
        raise LookupError(f"{path}: set_kv_buffer of MHATokenToKVPool does not quantise as in 0.5.23")
    return compile(ast.Module(list(found), []), path, "exec")


def append_fp8(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append", ("e4m3",))
    if why:
        return why
    names: dict[str, Any] = {"self": SimpleNamespace(dtype=FP8), "cache_k": t["k"].clone(), "cache_v": t["v"].clone(),
                             "k_scale": t["k_tensor_scale"][0], "v_scale": t["v_tensor_scale"][0]}
    exec(statement_that_quantises(), names)
    there = t["slots"] >= 0
    slots = t["slots"][there]
    for name in p.names:
        codes(p, t, name)[slots // p.block_tokens, slots % p.block_tokens] = names[f"cache_{name}"][there].view(torch.uint8)
    return pools(t)


def fp4_method() -> Any:
    from sglang.srt.layers.quantization.fp4_kv_cache_quant_method import FP4MXBlock16KVCacheMethod
    return FP4MXBlock16KVCacheMethod()


def fp4_buffers(p: Problem, t: Tensors) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """[slots, heads, bytes] of codes, [slots, heads * scales]."""
    return ([slots_of(codes(p, t, name)) for name in p.names],
            [slots_of(scales(p, t, name, torch.uint8)).flatten(1) for name in p.names])


def append_fp4(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append", ("mx16",))
    if why or p.layout != "slot":
        return why or f"layout {p.layout}"
    there, (data, factors) = t["slots"] >= 0, fp4_buffers(p, t)
    fp4_method().quantize_and_store(*data, *factors, t["slots"][there], t["k"][there], t["v"][there])
    return pools(t)


def flatten_fp4(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "flatten", ("mx16",))
    if why or p.layout != "slot":
        return why or f"layout {p.layout}"
    method, buffers = fp4_method(), fp4_buffers(p, t)
    for name, data, factors in zip(p.names, *buffers):
        for s, length in enumerate(t["lengths"].tolist()):
            position = torch.arange(length, device=data.device)
            block = t["block_table"][s][position // p.block_tokens].long()
            there = (block >= 0) & (block < p.blocks)
            slots = (block * p.block_tokens + position % p.block_tokens)[there]
            if len(slots):
                rows = method.dequantize_kv_tensor(data[slots], factors[slots], 0, TYPES[p.dtype])
                t[f"{name}_flat"][s][:, position[there]] = rows.transpose(0, 1)
    return {f"{name}_flat": t[f"{name}_flat"] for name in p.names}


def append_mla(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append", ("f16", "bf16", "e4m3"), shared=True)
    if why or p.sides[0].tensor_scale and t["k_tensor_scale"].item() != 1:
        return why or "a tensor scale, which these kernels do not take"
    v_dim = p.shared_kv.v_dim if p.shared_kv else 0
    latent, rope, slots = t["k"][..., :v_dim], t["k"][..., v_dim:], t["slots"].clamp(min=-1)
    buffer = slots_of(codes(p, t, "k"))
    if p.sides[0].tensor_scale:
        mla_buffer.set_mla_kv_buffer_triton_fp8_quant(buffer, slots, latent, rope, FP8, reserved_skip_index=-1)
    else:
        rows = buffer.view(TYPES[p.sides[0].format])
        mla_buffer.set_mla_kv_buffer_kernel[(len(slots), 1)](
            rows, latent, rope, slots, -1, rows.stride(0), latent.stride(0), rope.stride(0), v_dim, p.head_dim - v_dim,
            BLOCK=1 << (p.head_dim - 1).bit_length(), DCP_RANK=0, DCP_WORLD_SIZE=1)
    return pools(t)


def merge(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "merge":
        return asked(p)
    out, lse = merge_state_triton(t["out_a"], t["lse_a"], t["out_b"], t["lse_b"])
    return {"out": out, "lse": lse}
