"""transformers' QuantizedCache (https://github.com/huggingface/transformers), each module imported alone.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.transformers:quanto -o ANSWER

quanto  QuantoQuantizedLayer, over optimum-quanto: int4. It stores -min, which is min here. The sign of a min of 0 is
        that of some 0 of the row, and no decoded number depends on it: it is + here
hqq     HQQQuantizedLayer, over hqq, with axis 1: int4 and int8. Its optimiser, which fits zero points to a whole tensor,
        is off. The sign of a zero point of 0 is + here

Op quantise is a layer's first update, dequantise its _dequantize. q_group_size is head_dim: a group is a row. A byte of
theirs has the codes of two rows: the codes are unpacked, and packed as the dialect has them. Torch code, on any
device."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Mapping

import torch

from ..problem import Problem
from .alone import alone
from .cache import asked, format_of, one_nan, Tensors, TYPES

QUANTO = "optimum.quanto.tensor"


def yes(*_: object, **__: object) -> bool:
    return True


alone("hqq", ["0.2.8.post1"], {"termcolor": {"colored": None}})
alone("optimum-quanto", ["0.2.7"], {
    "optimum.quanto": {},
    "optimum.quanto.library": {"is_extension_available": None},
    QUANTO: {},
    QUANTO + ".weights.awq": {"AWQWeightQBitsTensor": None},  # both for tensors of two dimensions
    QUANTO + ".weights.tinygemm": {"TinyGemmWeightQBitsTensor": None},
}, package="optimum")
VERSION = alone("transformers", ["5.24.0"], {
    "transformers.configuration_utils": {"PreTrainedConfig": object},
    "transformers.utils": dict.fromkeys((
        "is_hqq_available", "is_optimum_quanto_available", "is_quanto_greater", "is_torch_greater_or_equal",
        "is_torchdynamo_compiling"), yes),
})

from optimum.quanto.tensor import core, grouped  # noqa: E402

vars(sys.modules[QUANTO]).update(dtype_info=core.dtype_info, group=grouped.group)  # which its __init__ does

import optimum.quanto.library.quantize  # noqa: E402
import optimum.quanto.library.unpack  # noqa: E402
from optimum.quanto.tensor.optimizers.max_optimizer import MaxOptimizer  # noqa: E402
from optimum.quanto.tensor.qtype import qint2, qint4  # noqa: E402
from optimum.quanto.tensor.weights.qbits import WeightQBitsTensor  # noqa: E402
from optimum.quanto.tensor.weights.quantization import quantize_weight  # noqa: E402

vars(sys.modules["optimum.quanto"]).update(MaxOptimizer=MaxOptimizer, qint2=qint2, qint4=qint4,
                                           quantize_weight=quantize_weight)

from transformers.cache_utils import HQQQuantizedLayer, QuantoQuantizedLayer  # noqa: E402

BITS = {"int4": 4, "int8": 8}
Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # of rows: codes one per byte, scale, the second parameter


def all_are(p: Problem, dialect: str) -> bool:
    return all(side.dialect == dialect for side in p.sides)


def quanto(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    if p.op not in ("quantise", "dequantise") or format_of(p) != "int4" or not all_are(p, "quanto"):
        return asked(p)
    layer = QuantoQuantizedLayer(q_group_size=p.head_dim)

    def parts_of(tensor: Any) -> Parts:
        return tensor._data.unpack(), tensor._scale, 0 - tensor._shift

    def tensor_of(codes: torch.Tensor, scale: torch.Tensor, second: torch.Tensor) -> Any:
        return WeightQBitsTensor(qint4, 0, p.head_dim, codes.shape, codes.stride(), codes, scale, -second)

    return answer(p, t, layer, parts_of, tensor_of)


def hqq(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    bits = BITS.get(format_of(p) or "")
    if p.op not in ("quantise", "dequantise") or bits is None or not all_are(p, "hqq"):
        return asked(p)
    layer = HQQQuantizedLayer(nbits=bits, axis_key=1, axis_value=1, q_group_size=p.head_dim)
    plain = functools.partial(layer.quantizer.quantize, optimize=False)
    layer.quantizer = type("Plain", (layer.quantizer,), {"quantize": staticmethod(plain)})
    packing = layer.quantizer.bit_to_packing[bits]

    def parts_of(tensor: Any) -> Parts:
        return layer.quantizer.unpack[packing](tensor[0]), tensor[1]["scale"], tensor[1]["zero"] + 0

    def tensor_of(codes: torch.Tensor, scale: torch.Tensor, second: torch.Tensor) -> Any:
        return layer.quantizer.pack[packing](codes), {
            "nbits": bits, "packing": packing, "view_as_float": False, "compute_dtype": TYPES[p.dtype], "scale": scale,
            "zero": second, "shape": codes.shape}

    return answer(p, t, layer, parts_of, tensor_of)


def answer(p: Problem, t: Tensors, layer: Any, parts_of: Callable[[Any], Parts],
           tensor_of: Callable[..., Any]) -> dict[str, torch.Tensor]:
    rows = (p.tokens, p.kv_heads)
    if p.op == "dequantise":
        return {side: one_nan(layer._dequantize(tensor_of(*question(p, t, side))).view(*rows, -1)) for side in p.names}
    layer.update(t["k"].unsqueeze(0), t["v"].unsqueeze(0))  # to a layer a row is a row, of whatever token and head
    given: dict[str, torch.Tensor] = {}
    for side, tensor in (("k", layer._quantized_keys), ("v", layer._quantized_values)):
        codes, *parameters = parts_of(tensor)
        given |= {f"{side}_codes": packed(p, codes).view(*rows, -1),
                  f"{side}_scales": one_nan(torch.cat(parameters, -1)).view(torch.uint8).view(*rows, -1)}
    return given


def question(p: Problem, t: Tensors, side: str) -> Parts:
    scale, second = t[f"{side}_scales"].view(TYPES[p.dtype]).flatten(0, 1).split(1, -1)
    return unpacked(p, t[f"{side}_codes"].flatten(0, 1)), scale, second


def nibbles(p: Problem) -> torch.Tensor:
    """The elements of a row in the order of its nibbles: docs/spec/formats.md section 5."""
    return torch.arange(p.head_dim).view(-1, 4, 2).transpose(1, 2).flatten()


def packed(p: Problem, codes: torch.Tensor) -> torch.Tensor:
    if p.sides[0].format == "int8":
        return codes
    codes = codes[:, nibbles(p)]
    return codes[:, ::2] | codes[:, 1::2] << 4


def unpacked(p: Problem, codes: torch.Tensor) -> torch.Tensor:
    if p.sides[0].format == "int8":
        return codes
    out = codes.new_empty(len(codes), p.head_dim)
    out[:, nibbles(p)] = torch.stack([codes & 15, codes >> 4], -1).flatten(1)
    return out
