"""Model-Optimizer's packed tensors (https://github.com/NVIDIA/Model-Optimizer), each module imported alone.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.modelopt:answer -o ANSWER

answer  NVFP4QTensor and MXFP4QTensor: quantize and dequantize, for ops quantise and dequantise. Torch code, on any device"""

from __future__ import annotations

import sys
from typing import Any, Mapping

import torch

from ..problem import Problem
from .alone import alone
from .cache import asked, format_of, one_nan, Tensors, TYPES

ROOT = "modelopt.torch.quantization"
VERSION = alone("nvidia-modelopt", ["0.47.0"], {
    ROOT + ".config": {"QuantizerCfgEntry": Any},
    "modelopt.torch.utils": {"get_unwrapped_name": None, "print_rank_0": print},
    "modelopt.torch.utils.network": {"temporarily_remove_accelerate_hook": None},
    ROOT + ".utils": {},
}, package="modelopt")

from modelopt.torch.quantization.utils import core_utils  # noqa: E402

vars(sys.modules[ROOT + ".utils"]).update(vars(core_utils))  # which its __init__ does

from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor  # noqa: E402
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor  # noqa: E402

BLOCK = {"nvfp4": 16, "mxfp4": 32}


def answer(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    name = format_of(p)
    if name not in BLOCK or p.op not in ("quantise", "dequantise"):
        return asked(p)
    given: dict[str, torch.Tensor] = {}
    for side in p.names:
        given |= quantised(name, t, side) if p.op == "quantise" else {side: one_nan(dequantised(p, name, t, side))}
    return given


def quantised(name: str, t: Tensors, side: str) -> dict[str, torch.Tensor]:
    x = t[side]
    if name == "nvfp4":
        tensor, scales, _ = NVFP4QTensor.quantize(x.clone(), BLOCK[name], None, t[f"{side}_tensor_scale"])
        scales = one_nan(scales)
    else:
        tensor, scales = MXFP4QTensor.quantize(x, BLOCK[name])
    return {f"{side}_codes": tensor._quantized_data, f"{side}_scales": scales.view(torch.uint8).reshape(*x.shape[:-1], -1)}


def dequantised(p: Problem, name: str, t: Tensors, side: str) -> torch.Tensor:
    codes, scales, dtype = t[f"{side}_codes"], t[f"{side}_scales"], TYPES[p.dtype]
    shape = torch.Size((*codes.shape[:-1], p.head_dim))
    sizes: dict[str, Any] = {"block_sizes": {-1: BLOCK[name]}}
    if name == "nvfp4":
        return NVFP4QTensor(shape, dtype, codes).dequantize(
            dtype, scale=scales.view(torch.float8_e4m3fn), double_scale=t[f"{side}_tensor_scale"], **sizes)
    return MXFP4QTensor(shape, dtype, codes).dequantize(dtype, scale=scales, **sizes)
