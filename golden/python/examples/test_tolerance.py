"""A reader that takes K's scales in the order of V's, in a test with a tolerance and under kvgold.

A published test of an engine had this reader as its reference for more than a month (vllm-project/vllm #50336, #55908):
NVFP4 pages for SM100 keep V's scales in groups of four tokens, and K's one token after the other. The test read both in
groups, and its tolerance of 1.5 + half of the number let it pass.

    pytest golden/python/examples/test_tolerance.py"""

import numpy as np

import kvgold
from kvgold import formats_numpy as formats
from kvgold.adapters import numpy as right


def as_v_lies(scales):
    """Scales [..., tokens, scales of a row], read in groups of four tokens."""
    *rest, tokens, count = scales.shape
    return scales.reshape(*rest, tokens // 4, count, 4).swapaxes(-1, -2).reshape(scales.shape)


def test_with_a_tolerance():
    """Friendly data, numbers from -1 to 1: the wrong reader is off by 0.58 at most and by 14 % in all, the right one by
    0.17 and 10 %. So a bound of 15 % of relative L2 lets it pass, too."""
    x = np.random.default_rng(0).uniform(-1, 1, (64, 128)).astype(np.float32)
    g = np.abs(x).max() / (6 * 448)
    codes, scales = formats.quantise("nvfp4", "canonical", "bf16", formats.store("bf16", x), g)
    read = formats.load("bf16", formats.dequantise("nvfp4", "canonical", "bf16", codes, as_v_lies(scales), g))
    assert np.allclose(read, x, atol=1.5, rtol=0.5)
    assert np.linalg.norm(read - x) < 0.15 * np.linalg.norm(x)


def reader(problem, tensors):
    scales = kvgold.pages(problem, "k", "scales", tensors)[problem.layer]
    scales[...] = as_v_lies(scales)
    out = {name: tensors[name] for name in ("k_flat", "v_flat")}
    right.flatten(problem, tensors, out)
    return out


def test_with_kvgold():
    """The same reader fails, and the report has the order in which it reads."""
    report = kvgold.check(reader, {"op": "flatten", "format": "nvfp4", "layout": "vllm", "v_scale_swizzle": True,
                                   "kv_heads": 2, "head_dim": 128, "tokens": 64, "block_tokens": 16, "fill": "random"})
    assert not report and "equals layout:" in str(report) and "[N/4 G//4 H G%%4 N%4] K.scales" in str(report), str(report)
