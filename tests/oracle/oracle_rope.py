#!/usr/bin/env python3
"""Judges the reference's table of RoPE (docs/spec/numerics.md section 8), and says how far engines are from it.

    oracle_rope.py LIB     LIB is the shared library kvgold_oracle

First the definition itself, a third time: f32 steps by numpy, powers, logarithms, cosines and sines by decimal numbers of
80 digits. Every bit must agree. Then the formulas of Hugging Face's modeling_rope_utils.py, written anew with numpy:
in float32 with numpy's own pow, cos and sin, as an engine has them, and in float64 all through. Their distances are
printed; the numbers of GPT-OSS that are known from its reference code are checked. Ends with `N passed, M failed`."""

import ctypes
import math
import sys
from decimal import Decimal, ROUND_CEILING, ROUND_FLOOR, getcontext

import numpy as np

getcontext().prec = 80
F32 = np.float32
POSITIONS = [0, 1, 2, 100, 4095, 32768, 131071, 1048575]
MODELS = {
    "theta 1e4": ("default", 128, dict(theta=10000)),
    "theta 5e5": ("default", 128, dict(theta=500000)),
    "theta 5e6": ("default", 128, dict(theta=5000000)),
    "linear 4": ("linear", 128, dict(theta=10000, factor=4)),
    "dynamic 2, 8192 of 2048": ("dynamic", 128, dict(theta=10000, factor=2, original_positions=2048, length=8192)),
    "Llama 3.1": ("llama3", 128, dict(theta=500000, factor=8, low_freq_factor=1, high_freq_factor=4,
                                      original_positions=8192)),
    "GPT-OSS": ("yarn", 64, dict(theta=150000, factor=32, original_positions=4096, beta_fast=32, beta_slow=1,
                                 truncate=False)),
    "GPT-OSS, truncated": ("yarn", 64, dict(theta=150000, factor=32, original_positions=4096, beta_fast=32,
                                            beta_slow=1, truncate=True)),
    "Qwen YaRN": ("yarn", 128, dict(theta=1000000, factor=4, original_positions=32768, beta_fast=32, beta_slow=1,
                                    truncate=True)),
    "DeepSeek": ("yarn", 64, dict(theta=10000, factor=40, original_positions=4096, beta_fast=32, beta_slow=1,
                                  mscale=1, mscale_all_dim=0.707, truncate=True)),
}


class Count:
    passed = failed = 0


def check(name, good, text=""):
    Count.passed += bool(good)
    Count.failed += not good
    print(f"{'ok  ' if good else 'FAIL'} {name} {text}", flush=True)


# ---- The reference ----

def reference(lib, kind, dims, parameters):
    names = [n for n in parameters if n != "truncate"]
    numbers, frequencies = np.zeros(4, F32), np.zeros(dims // 2, F32)
    positions = np.array(POSITIONS, np.uint32)
    table = np.zeros((len(POSITIONS), dims // 2, 2), F32)
    values = np.array([parameters[n] for n in names], F32)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    status = lib.oracle_rope(kind.encode(), ctypes.c_uint32(dims),
                             (ctypes.c_char_p * len(names))(*[n.encode() for n in names]), pointer(values),
                             ctypes.c_size_t(len(names)), ctypes.c_bool(parameters.get("truncate", False)),
                             pointer(numbers), pointer(frequencies), pointer(positions),
                             ctypes.c_size_t(len(POSITIONS)), pointer(table))
    if status:
        raise SystemExit(f"oracle_rope: {lib.oracle_error_text().decode()}")
    return dict(base=numbers[0], low=numbers[1], width=numbers[2], factor=numbers[3], frequencies=frequencies,
                table=table)


# ---- The definition, with decimals ----

def pi():
    """Machin's formula with integers."""
    unit = 10 ** 95

    def arctan(n):
        total, power, k = 0, unit // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total
    return Decimal(4 * (4 * arctan(5) - arctan(239))) / Decimal(unit)


PI = pi()


def exact(x):
    """A float as a decimal, exactly."""
    return Decimal(float(x))


def nearest(x):
    """The float nearest to a decimal: among the neighbours of a first guess; a tie goes to the even one."""
    guess = F32(float(x))
    candidates = [guess, np.nextafter(guess, F32(np.inf)), np.nextafter(guess, F32(-np.inf))]
    distance = lambda c: abs(exact(c) - x).quantize(Decimal(10) ** (x.adjusted() - 60)) if x else abs(exact(c))
    return min(candidates, key=lambda c: (distance(c), int(c.view(np.uint32)) & 1))


def cos_sin(angle):
    x = exact(angle) % (2 * PI)
    sums, term, n = [Decimal(0), Decimal(0)], Decimal(1), 0
    while abs(term) > Decimal(10) ** -78:
        sums[n % 2] += term if n % 4 < 2 else -term
        n += 1
        term = term * x / n
    return sums


def definition(kind, dims, p):
    f = lambda name: F32(p[name])
    d = lambda name: exact(f(name))
    base, low, width, factor = f("theta"), F32(0), F32(0), F32(p.get("attention_factor", 1))
    if kind == "dynamic":
        length = max(d("length"), d("original_positions"))
        t = d("factor") * length / d("original_positions") - (d("factor") - 1)
        base = nearest(d("theta") * t ** (Decimal(dims) / Decimal(dims - 2)))
    if kind == "yarn":
        pair = lambda b: Decimal(dims) * (d("original_positions") / (2 * PI * b)).ln() / (2 * d("theta").ln())
        ends = [pair(d("beta_fast")), pair(d("beta_slow"))]
        if p["truncate"]:
            ends = [ends[0].to_integral_value(ROUND_FLOOR), ends[1].to_integral_value(ROUND_CEILING)]
        ends = [max(ends[0], Decimal(0)), min(ends[1], Decimal(dims - 1))]
        low, width = nearest(ends[0]), nearest(ends[1] - ends[0])
        size = lambda m: 1 + m * d("factor").ln() / 10
        factor = nearest(size(d("mscale")) / size(d("mscale_all_dim")) if "mscale" in p else size(Decimal(1)))
    frequencies = []
    for i in range(dims // 2):
        power = nearest(exact(base) ** exact(F32(2 * i) / F32(dims)))
        frequencies.append(scaled_frequency(kind, p, f, power, F32(1) / power, i, low, width))
    table = np.zeros((len(POSITIONS), dims // 2, 2), F32)
    for row, position in enumerate(POSITIONS):
        for i in range(dims // 2):
            table[row, i] = [nearest(x) * factor for x in cos_sin(F32(position) * frequencies[i])]
    return dict(base=base, low=low, width=width, factor=factor, frequencies=np.array(frequencies, F32), table=table)


def scaled_frequency(kind, p, f, power, plain, i, low, width):
    one = F32(1)
    if kind == "linear":
        return plain / f("factor")
    if kind == "llama3":
        wavelength, n = nearest(2 * PI) / plain, f("original_positions")
        if wavelength < n / f("high_freq_factor"):
            return plain
        if wavelength > n / f("low_freq_factor"):
            return plain / f("factor")
        a = (n / wavelength - f("low_freq_factor")) / (f("high_freq_factor") - f("low_freq_factor"))
        return (one - a) * plain / f("factor") + a * plain
    if kind == "yarn":
        r = min(max((F32(i) - low) / width, F32(0)), one)
        k = one - r
        return (one / (f("factor") * power)) * (one - k) + plain * k
    return plain


# ---- Hugging Face's formulas, in float32 with numpy's functions or in float64 ----

def hugging_face(kind, dims, p, real):
    base, factor = float(p["theta"]), 1.0
    if kind == "dynamic":
        length = max(p["length"], p["original_positions"])
        base *= (p["factor"] * length / p["original_positions"] - (p["factor"] - 1)) ** (dims / (dims - 2))
    powers = real(base) ** (np.arange(0, dims, 2, dtype=real) / real(dims))
    inverse = real(1) / powers
    if kind == "linear":
        inverse = inverse / real(p["factor"])
    if kind == "llama3":
        n, low, high = p["original_positions"], p["low_freq_factor"], p["high_freq_factor"]
        wavelength = real(2 * math.pi) / inverse
        divided = np.where(wavelength > real(n / low), inverse / real(p["factor"]), inverse)
        smooth = (real(n) / wavelength - real(low)) / real(high - low)
        smoothed = (real(1) - smooth) * divided / real(p["factor"]) + smooth * divided
        medium = ~(wavelength < real(n / high)) & ~(wavelength > real(n / low))
        inverse = np.where(medium, smoothed, divided)
    if kind == "yarn":
        pair = lambda b: dims * math.log(p["original_positions"] / (b * 2 * math.pi)) / (2 * math.log(base))
        low, high = pair(p["beta_fast"]), pair(p["beta_slow"])
        if p["truncate"]:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dims - 1)
        ramp = np.clip((np.arange(dims // 2, dtype=real) - real(low)) / real(high - low), real(0), real(1))
        keep = real(1) - ramp
        inverse = (real(1) / (real(p["factor"]) * powers)) * (real(1) - keep) + inverse * keep
        size = lambda m: 0.1 * m * math.log(p["factor"]) + 1.0
        factor = size(p["mscale"]) / size(p["mscale_all_dim"]) if "mscale" in p else size(1)
    angles = np.array(POSITIONS, real)[:, None] * inverse[None, :]
    return inverse, angles, np.stack([np.cos(angles), np.sin(angles)], -1) * real(factor)


def same(a, b):
    return np.array_equal(np.asarray(a, F32).view(np.uint32), np.asarray(b, F32).view(np.uint32))


def ulps(a, b):
    """Places between floats of one sign."""
    return np.abs(a.view(np.int32).astype(np.int64) - b.view(np.int32).astype(np.int64))


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.oracle_error_text.restype = ctypes.c_char_p
    rows = []
    for name, (kind, dims, p) in MODELS.items():
        ours, third = reference(lib, kind, dims, p), definition(kind, dims, p)
        check(name, all(same(ours[key], third[key]) for key in third),
              f"{ours['frequencies'].size} frequencies, {ours['table'].size} entries, every bit")
        inverse, _, table = hugging_face(kind, dims, p, F32)
        real, _, exact_table = hugging_face(kind, dims, p, np.float64)
        # the same frequencies: what numpy's cos and sin alone do
        angles = np.array(POSITIONS, F32)[:, None] * ours["frequencies"][None, :]
        library = np.stack([np.cos(angles), np.sin(angles)], -1) * ours["factor"]
        drift = np.abs(ours["table"] - exact_table).max(axis=(1, 2))
        rows.append((name, ulps(inverse, ours["frequencies"]).max(), int((inverse != ours["frequencies"]).sum()),
                     (np.abs(ours["frequencies"] / real - 1)).max(), np.abs(ours["table"] - library).max(),
                     np.abs(ours["table"] - table).max(axis=(1, 2)), drift))
        # f32 frequencies carry ln b + 8 half places at most, 16 s more where two are mixed; angles one more
        size = math.log(ours["base"]) + 8 + (16 * p["factor"] if kind in ("yarn", "llama3") else 0)
        limit = 2.0 ** -24 * size
        check(f"{name}: frequencies", rows[-1][3] < limit, f"within {rows[-1][3]:.2g} of float64, limit {limit:.2g}")
    gpt = reference(lib, *MODELS["GPT-OSS"])
    for what, got, want, digits in (("low", gpt["low"], 8.0928, 4), ("high", gpt["low"] + gpt["width"], 17.3980, 4),
                                    ("concentration", gpt["factor"], 1.346574, 6)):
        check(f"GPT-OSS {what}", round(float(got), digits) == want, f"{float(got):.7g}")
    cut = reference(lib, *MODELS["GPT-OSS, truncated"])
    check("GPT-OSS truncated", (cut["low"], cut["width"]) == (8, 10), f"{cut['low']} {cut['low'] + cut['width']}")
    print("\n| model | f32 formulas: frequencies that differ, places | entries, own frequencies | entries at position "
          "4095, 131071, 1048575 | float64: 4095, 131071, 1048575 |\n| --- | --- | --- | --- | --- |")
    at = [POSITIONS.index(n) for n in (4095, 131071, 1048575)]
    for name, places, differ, _, library, f32, f64 in rows:
        print(f"| {name} | {differ}, {places} | {library:.1e} | " + ", ".join(f"{f32[i]:.1e}" for i in at) + " | " +
              ", ".join(f"{f64[i]:.1e}" for i in at) + " |")
    print(f"{Count.passed} passed, {Count.failed} failed")
    return Count.failed > 0 or Count.passed == 0


if __name__ == "__main__":
    sys.exit(main())
