"""The engine under test: reads sequences of NVFP4 pages back as bf16, in numpy."""

import kvgold
import numpy as np

MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([MAGNITUDES, -MAGNITUDES])


def e4m3(codes):
    codes = codes.astype(np.int32)
    exponent, fraction = codes >> 3 & 15, codes & 7
    magnitudes = np.where(exponent, np.ldexp(8.0 + fraction, exponent - 10), np.ldexp(1.0 * fraction, -9))
    magnitudes[codes & 0x7F == 0x7F] = np.nan
    return np.where(codes & 0x80, -magnitudes, magnitudes).astype(np.float32)


def bf16(numbers):
    """Bits, rounded to nearest, ties to even."""
    bits = numbers.view(np.uint32)
    return np.where(np.isnan(numbers), 0x7FFF, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decode(codes, scales, tensor_scale):
    elements = E2M1[np.stack([codes & 15, codes >> 4], axis=-1)].reshape(*scales.shape, 16)
    return bf16(elements * e4m3(scales)[..., None] * tensor_scale).reshape(*scales.shape[:-1], -1)


def flatten(problem, tensors):
    """Writes into the arrays k_flat and v_flat, [sequence, head, position, dim]. A text says why it refuses."""
    if problem.dtype != "bf16" or problem.v_scale_swizzle:
        return "only bf16 models, and scales by rows"
    page = problem.block_tokens
    for side in "kv":
        codes, scales = (kvgold.pages(problem, side, part, tensors)[problem.layer] for part in ("codes", "scales"))
        rows = decode(codes, scales, tensors[f"{side}_tensor_scale"])
        for flat, table, length in zip(tensors[f"{side}_flat"], tensors["block_table"], tensors["lengths"]):
            for position in range(length):
                block = table[position // page]
                if 0 <= block < problem.blocks:
                    flat[:, position] = rows[block, :, position % page]
    return {"k_flat": tensors["k_flat"], "v_flat": tensors["v_flat"]}
