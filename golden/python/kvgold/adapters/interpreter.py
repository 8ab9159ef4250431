"""Triton's interpreter (TRITON_INTERPRET=1), mended: an engine's Triton kernels run on a CPU.

Triton 3.6 keeps bf16 and fp8 there as bit patterns: it adds them as integers, and converts them without rounding to
nearest, saturation or NaN. Its tl.minimum, tl.maximum and tl.clamp give NaN where the hardware gives another operand,
numpy 2.4 refuses its way from an array to a number, and it has no constants in bf16. `mend` replaces these parts.
Conversions are those of docs/spec/formats.md section 2, which a GPU has too: to nearest, ties to even; fp8 saturates; a
NaN is 0x7FFF in f16 and bf16, 0x7F in fp8. What is left is numpy's, and not a chip's: a quotient is IEEE 754's, a
product and a sum are rounded each, and sums have numpy's order, those of bf16 in bf16."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from .. import formats_numpy as formats
from .alone import stubbed

NUMBERS = {"bf16": ml_dtypes.bfloat16, "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2}


def converted(x: Any, to: Any) -> Any:
    """Numbers of an array, rounded once to a type of floating point."""
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    with np.errstate(all="ignore"):
        if to in (formats.E4M3, formats.E5M2):
            return formats.fp8(wide, to.type).view(to)
        if to.itemsize == 2:
            return formats.store("f16" if to == np.float16 else "bf16", wide).view(to)
        return wide.astype(to)


def mend() -> None:
    """Call it once, before a kernel."""
    builder, plain, plain_patch = interpreter.InterpreterBuilder, interpreter._get_np_dtype, interpreter._patch_lang_tensor

    def type_of(type: Any) -> Any:
        element = type.element_ty if isinstance(type, tl.block_type) else type
        return np.dtype(NUMBERS[element.name]) if getattr(element, "name", "") in NUMBERS else plain(type)

    def cast(self: Any, x: Any, type: Any, rounding: Any = None) -> Any:
        to = type_of(type)
        return interpreter.TensorHandle(converted(x.data, to) if type.scalar.is_floating() else x.data.astype(to), type.scalar)

    def dot(self: Any, a: Any, b: Any, sums: Any, precision: Any, imprecise: Any) -> Any:
        products = np.matmul(a.data.astype(sums.data.dtype), b.data.astype(sums.data.dtype))
        return interpreter.TensorHandle(products + sums.data, sums.dtype.scalar)

    def clamp(self: Any, x: Any, low: Any, high: Any, nans: Any) -> Any:
        keep = nans == interpreter._ir.PROPAGATE_NAN.ALL
        numbers = np.clip(x.data, low.data, high.data) if keep else np.fmax(np.fmin(x.data, high.data), low.data)
        return interpreter.TensorHandle(numbers, x.dtype.scalar)

    def patch(tensor: Any, scope: Any) -> None:
        plain_patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._get_np_dtype, interpreter._patch_lang_tensor = type_of, patch
    builder.cast_impl = builder.create_fp_to_fp = cast
    builder.create_dot, builder.create_clampf = dot, clamp
    builder.get_bf16 = lambda self, number: interpreter.TensorHandle(np.array([number], NUMBERS["bf16"]), tl.bfloat16)
    builder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)
    builder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    stubbed.append("torch.cuda.get_device_capability")
