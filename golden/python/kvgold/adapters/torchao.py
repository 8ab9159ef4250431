"""torchao's NVFP4 and MXFP4 tensors (https://github.com/pytorch/ao): ops quantise and dequantise.

    python -m kvgold.adapters.torch PACK --callable kvgold.adapters.torchao:floor -o ANSWER

floor, even, rceil  MXTensor with this ScaleCalculationMode. NVFP4Tensor has no modes: floor has it

Torch code, on any device. What it takes is bf16 or f32."""

from __future__ import annotations

from typing import Mapping

import torch

from ..problem import Problem
from .alone import known_version
from .cache import asked, format_of, one_nan, Tensors, TYPES

VERSION = known_version("torchao", ["0.18.0"])

from torchao.prototype.mx_formats.config import ScaleCalculationMode as Mode  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import MXTensor  # noqa: E402
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor  # noqa: E402
from torchao.quantization.quantize_.common.kernel_preference import KernelPreference  # noqa: E402

FP4 = torch.float4_e2m1fn_x2


def floor(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return answer(p, t, Mode.FLOOR, ("mxfp4", "nvfp4"))


def even(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return answer(p, t, Mode.EVEN, ("mxfp4",))


def rceil(p: Problem, t: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor] | str:
    return answer(p, t, Mode.RCEIL, ("mxfp4",))


def answer(p: Problem, t: Tensors, mode: Mode, formats: tuple[str, ...]) -> Mapping[str, torch.Tensor] | str:
    name = format_of(p)
    if name not in formats or p.op not in ("quantise", "dequantise") or p.dtype == "f16":
        return f"{asked(p)} in {p.dtype}"
    given = {}
    for side in p.names:
        if p.op == "dequantise":
            given[side] = one_nan(tensor_of(p, t, side).dequantize(TYPES[p.dtype]))
        else:
            x = t[side].contiguous()
            packed = (NVFP4Tensor.to_nvfp4(x, 16, t[f"{side}_tensor_scale"].reshape(())) if name == "nvfp4" else
                      MXTensor.to_mx(x, FP4, 32, mode))
            scales = one_nan(packed.scale) if name == "nvfp4" else packed.scale
            given |= {f"{side}_codes": packed.qdata, f"{side}_scales": scales.view(torch.uint8)}
    return given


def tensor_of(p: Problem, t: Tensors, side: str) -> NVFP4Tensor | MXTensor:
    codes, scales, dtype = t[f"{side}_codes"], t[f"{side}_scales"], TYPES[p.dtype]
    if p.sides[0].format == "nvfp4":
        return NVFP4Tensor(codes, scales.view(torch.float8_e4m3fn), 16, dtype, t[f"{side}_tensor_scale"].reshape(()))
    return MXTensor(codes, scales.view(torch.float8_e8m0fnu), FP4, 32, dtype, KernelPreference.EMULATED, None, False)
