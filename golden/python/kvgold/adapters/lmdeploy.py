"""LMDeploy's PyTorch engine (https://github.com/InternLM/lmdeploy): its Triton kernels, each module imported alone.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.lmdeploy:append --device cuda -o ANSWER

append       fill_kv_cache; runs of consecutive slots are chunks of sequences, as in prefill
append_steps the same, every token as a decode step of a sequence of its own
flatten      flatten_kv_cache
decode       flash_attn_with_kvcache, one query token of each sequence: no LSE
decode_as_called  the same with the window that the engine passes on, for cases with a window

The kernels of one append take pages, where a question has slots: each run of slots is a sequence of one or more pages."""

from __future__ import annotations

import enum
import logging
from typing import Any, Mapping

import torch

from ..problem import Problem
from .alone import alone
from .cache import (asked, codes, format_of, live_pages, pools, Runs, runs_of, scales, score_scale, table_of, tables_of,
                    Tensors, TYPES)


class Policy(enum.IntEnum):
    NONE = 0
    INT4 = 4
    INT8 = 8
    FP8 = 16
    FP8_E5M2 = 17
    TURBO_QUANT = 42


VERSION = alone("lmdeploy", ["0.18.0"], {"lmdeploy.messages": {"QuantPolicy": Policy},
                                         "lmdeploy.utils": {"get_logger": logging.getLogger}})

from lmdeploy.pytorch.kernels.cuda.fill_kv_cache import fill_kv_cache  # noqa: E402
from lmdeploy.pytorch.kernels.cuda.flatten_kv_cache import flatten_kv_cache  # noqa: E402
from lmdeploy.pytorch.kernels.cuda.pagedattention import flash_attn_with_kvcache  # noqa: E402

POLICY = {"f16": Policy.NONE, "bf16": Policy.NONE, "int8": Policy.INT8, "int4": Policy.INT4, "e4m3": Policy.FP8,
          "e5m2": Policy.FP8_E5M2}
STORE = {**TYPES, "int8": torch.uint8, "int4": torch.uint8}


def refusal(p: Problem, op: str) -> str | None:
    if p.op != op or p.shared_kv or format_of(p) not in POLICY or p.rope or p.bias:
        return asked(p)
    return None


def cache(p: Problem, t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    k, v = (codes(p, t, name, STORE[p.sides[0].format]) for name in p.names)
    return k, v


def options(p: Problem, t: Tensors) -> dict[str, Any]:
    side = p.sides[0]
    given = {}
    if side.row_params:
        given = {f"{name}_scales_zeros": scales(p, t, name, TYPES[p.dtype]) for name in p.names}
    if side.tensor_scale:
        given = {f"{name}_scales_zeros": t[f"{name}_tensor_scale"] for name in p.names}
    return {"quant_policy": POLICY[side.format], **given}


def write(p: Problem, t: dict[str, torch.Tensor], runs: Runs, longest: int) -> dict[str, torch.Tensor]:
    device, size = t["k"].device, p.block_tokens

    def of_runs(numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32, device=device)

    tables = tables_of(runs, size)
    fill_kv_cache(t["k"], t["v"], *cache(p, t), of_runs([token for token, _ in runs]),
                  of_runs([len(slots) for _, slots in runs]), of_runs([slots[0] % size + len(slots) for _, slots in runs]),
                  longest, table_of(tables, device), **options(p, t))
    return pools(t)


def append(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append")
    runs = [] if why else runs_of(t["slots"].tolist(), p.block_tokens)
    if why or not runs:
        return why or "no token is stored"
    return write(p, t, runs, max(2, *(len(slots) for _, slots in runs)))  # 1 means decode steps


def append_steps(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "append")
    runs = [] if why else [(token, [slot]) for token, slot in enumerate(t["slots"].tolist()) if slot >= 0]
    if why or not runs:
        return why or "no token is stored"
    return write(p, t, runs, 1)


def flatten(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "flatten")
    if why:
        return why
    lengths, table = t["lengths"].int(), t["block_table"].int()
    there = (table >= 0) & (table < p.blocks)
    flat = flatten_kv_cache(*cache(p, t), lengths, torch.where(there, table, 0), out_size=int(lengths.sum()) or 1,
                            out_dtype=TYPES[p.dtype], flatten_kv_layout="hsd", **options(p, t))
    first = 0
    for s, length in enumerate(lengths.tolist()):
        position = torch.arange(length, device=table.device)
        kept = position[there[s][position // p.block_tokens]]  # a lost page's positions stay as they were
        for name, rows in zip(p.names, flat):
            t[f"{name}_flat"][s][:, kept] = rows[:, first + kept]
        first += length
    return {f"{name}_flat": t[f"{name}_flat"] for name in p.names}


def decode(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return attend(p, t, p.window - 1 if p.window else None)  # keys before the query's own


def decode_as_called(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    """TritonAttentionBuilder passes the model's sliding_window on as it is."""
    return attend(p, t, p.window) if p.window else "no window"


def attend(p: Problem, t: dict[str, torch.Tensor], window: int | None) -> Mapping[str, torch.Tensor] | str:
    why = refusal(p, "decode")
    live = None if why else live_pages(p, t)
    if why or live is None or bool((t["query_lengths"] != 1).any()):
        return why or "a page lost in the middle, or not one query token of each sequence"
    tables, lengths = live
    device = t["q"].device
    return {"out": flash_attn_with_kvcache(
        t["q"], *cache(p, t), torch.tensor(lengths, dtype=torch.int32, device=device), table_of(tables, device),
        max_seqlen_q=1, softmax_scale=score_scale(p), window_size=window, softcap=p.softcap or None,
        sinks=t.get("sinks"), **options(p, t))}
