"""FlashMLA's dense decode (https://github.com/deepseek-ai/FlashMLA), of the wheel sgl-flash-mla.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.flashmla:decode --device cuda -o ANSWER

Op decode in bf16 on layout mla, pages of 64 tokens; every sequence has the same number of query tokens."""

from __future__ import annotations

import os
from typing import Mapping

import torch

from ..problem import Problem
from .alone import known_version, place_of
from .cache import asked, codes, format_of, live_pages, score_scale, table_of

VERSION = known_version("sgl-flash-mla", ["1.0.0"])
torch.ops.load_library(os.path.join(place_of("sgl-flash-mla"), "flash_mla", "_C_legacy.abi3.so"))


def decode(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op != "decode" or not p.shared_kv or p.shared_kv.v_first or format_of(p) != "bf16" or p.block_tokens != 64:
        return f"{asked(p)} on {p.layout} with pages of {p.block_tokens}"
    counts, live = t["query_lengths"].cpu(), live_pages(p, t)
    if p.window or p.softcap or p.sinks or live is None or bool((counts != counts[0]).any()):
        return "a window, a cap, sinks, a page lost in the middle, or query tokens of several numbers"
    tables, lengths = live
    q = t["q"].view(len(counts), -1, *t["q"].shape[1:])
    out, lse, *_ = torch.ops.flash_mla_legacy.dense_decode_fwd(
        q, codes(p, t, "k", torch.bfloat16), p.shared_kv.v_dim,
        torch.tensor(lengths, dtype=torch.int32, device=q.device), table_of(tables, q.device), score_scale(p),
        q.shape[1] > 1, None, None)
    return {"out": out.reshape(*t["q"].shape[:2], -1), "lse": lse.transpose(-1, -2).reshape(t["q"].shape[:2])}
