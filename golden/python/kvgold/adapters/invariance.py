"""kvgold.invariance as a command: in whose company rows of a callable change their bits.

    python -m kvgold.adapters.invariance MODULE:FUNCTION [--dtype torch.bfloat16] [--device cuda] [--axes batch,queries] ...

The callable takes a kvgold.Batch. kvgold.adapters.attention:sdpa is one. With --layout it is a callable of
kvgold.adapters.torch, such as kvgold.adapters.vllm:decode, and is asked op decode over a cache in that layout and format.
A plug-in's library, such as ./libmine.so, may stand in its place, whose tensors lie in the host's memory: it is asked along
the axes that `kvgold invariance` does not have, too."""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import sys
from typing import Any, Callable, Mapping

import numpy as np

from .. import library
from ..company import Batch
from ..container import DTYPES
from ..invariant import AXES, NoAnswer, imported, invariance
from ..layouts_numpy import places
from ..pages import pages
from ..problem import Problem, problem_of

NUMBERS = {"heads": 32, "kv-heads": 8, "head-dim": 128, "longest": 2048, "window": 0, "times": 100, "seed": 0}
MODEL = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
G = 0.5  # the tensor scale of K and V


def dtype(name: str) -> Any:
    if name.startswith("torch."):
        return getattr(importlib.import_module("torch"), name.removeprefix("torch."))
    return np.dtype(name)


@functools.lru_cache(maxsize=64)
def _pool_sizes(p: Problem) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for place in places(p).values():
        end = place.base + 1 + sum(int(at.max()) for at in place[2:])
        sizes[place.pool] = max(end, sizes.get(place.pool, 0))
    return sizes


def by_plug_in(path: str, layout: str, fmt: str | None, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Op decode of a plug-in over pages that the reference has stored."""
    def run(backend: Any, op: str, given: Mapping[str, np.ndarray], **sizes: Any) -> Mapping[str, np.ndarray]:
        call = library.Call(library.problem(op=op, **axes, **sizes), backend)
        out = {name: np.zeros(spec.shape, DTYPES[spec.dtype.upper()]) for name, spec in call.outputs.items()}
        into, out_of = ({name: (arrays[name].ctypes.data, arrays[name].nbytes) for name, spec in specs.items() if spec.bytes}
                        for arrays, specs in ((given, call.inputs), (out, call.outputs)))
        call(into, out_of)
        return out

    if library.plug_in(path).contents.memory:
        raise NoAnswer("its tensors lie in memory of its own")
    k, v, q = batch.k_pages, batch.v_pages, batch.q
    pages, block_tokens, kv_heads, head_dim = k.shape
    name = MODEL[q.dtype.name]
    axes = {"format": fmt or name, "layout": layout, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": name,
            "block_tokens": block_tokens, "blocks": pages}
    g = {f"{side}_tensor_scale": np.full(1, G, np.float32) for side in "kv"}
    pools = run(None, "append", {"k": k, "v": v, "slots": np.arange(pages * block_tokens), **g}, tokens=pages * block_tokens)
    numbers = {"block_table": batch.block_table, "lengths": np.array(batch.lengths, np.int32),
               "query_lengths": np.array(batch.query_lengths, np.int32)}
    out = run(library.plug_in(path), "decode", {"q": q, **pools, **numbers, **g}, sequences=len(batch.lengths), queries=len(q),
              tokens=batch.block_table.shape[1] * block_tokens, group=q.shape[1] // kv_heads, window=batch.window)
    return out["out"].view(q.dtype), out["lse"]


def over_pages(engine: Callable[..., Any], layout: str, fmt: str | None = None) -> Callable[[Batch], Any]:
    """A callable of kvgold.adapters.torch as one of kvgold.invariance: op decode over pages in a layout that
    kvgold.pages has a view of, in the model type, e4m3, mx16, mxfp4 or nvfp4 (canonical)."""
    import torch

    from .eager import encode

    def attention(batch: Batch) -> Any:
        k, v, q = batch.k_pages, batch.v_pages, batch.q
        model = MODEL[str(q.dtype).removeprefix("torch.")]
        stored = fmt or model
        axes = {"op": "decode", "dtype": model, "format": stored, "layout": layout, "kv_heads": k.shape[2],
                "head_dim": k.shape[3], "group": q.shape[1] // k.shape[2], "tokens": max(batch.lengths),
                "block_tokens": batch.page_size, "blocks": len(k), "sequences": len(batch.lengths), "window": batch.window}
        p = problem_of(f"decode/{stored}.canonical/{layout}", axes, 0)
        g = torch.full((1,), G, device=q.device)
        t = {name: torch.zeros(size, dtype=torch.uint8, device=q.device) for name, size in _pool_sizes(p).items()}
        for i, rows in enumerate((k, v)):
            codes, scales = encode(p.sides[i], rows, g)
            for part, given in (("codes", codes), ("scales", scales)):
                if given is not None:
                    pages(p, p.names[i], part, t)[0].copy_(given.transpose(1, 2))
            if p.sides[i].tensor_scale:
                t[f"{p.names[i]}_tensor_scale"] = g
        numbers = {"block_table": batch.block_table, "lengths": torch.tensor(batch.lengths, dtype=torch.int32, device=q.device),
                   "query_lengths": torch.tensor(batch.query_lengths, dtype=torch.int32, device=q.device)}
        answer = engine(p, {"q": q.clone(), **t, **numbers})
        if isinstance(answer, str):
            raise NoAnswer(answer)
        return (answer["out"], answer["lse"]) if "lse" in answer else answer["out"]
    return attention


def main(arguments: list[str] | None = None) -> int:
    """0: every axis holds that could be asked. 1: one does not. 2: usage."""
    parser = argparse.ArgumentParser(prog="python -m kvgold.adapters.invariance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("attention", metavar="MODULE:FUNCTION", help="or the library of a plug-in, such as ./libmine.so")
    for name, default in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--v-dim", type=int, help="default: --head-dim")
    parser.add_argument("--dtype", type=dtype, default=np.dtype("float32"), help="float32, torch.bfloat16, ...")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layout", help="of the cache, for a callable of kvgold.adapters.torch or a plug-in")
    parser.add_argument("--format", help="of the cache (default: the dtype)")
    parser.add_argument("--unbounded", dest="bounded", action="store_false",
                        help="the callable computes with other K and V than the batch's: tell no share of a bound")
    parser.add_argument("--page-sizes", type=lambda text: [int(size) for size in text.split(",")], default=[16, 64, 128])
    parser.add_argument("--axes", type=lambda text: text.split(","), help=", ".join(AXES))
    parser.add_argument("--json", metavar="FILE", help="the report for machines")
    given = vars(parser.parse_args(arguments))
    path, layout, fmt = (given.pop(name) for name in ("json", "layout", "format"))
    try:
        name = given["attention"]
        given["bounded"] &= fmt is None
        plugs_in = name.endswith(".so")
        if plugs_in and getattr(given["dtype"], "name", "") not in MODEL:
            raise ValueError(f"a plug-in is asked in a --dtype of numpy: {', '.join(MODEL)}")
        if plugs_in or layout:
            layout = layout or "hnd"
            engine: Any = functools.partial(by_plug_in, name, layout, fmt) if plugs_in else over_pages(imported(name), layout, fmt)
            engine.__qualname__ = f"{name} over {fmt or 'the model type'} in layout {layout}"
            given["attention"] = engine
        report = invariance(**given)
    except (ValueError, TypeError, KeyError, ImportError, AttributeError) as error:
        print(f"kvgold.invariance: {error}", file=sys.stderr)
        return 2
    print(report, end="")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report.json(), file, indent=1)
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
