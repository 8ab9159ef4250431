#!/usr/bin/env python3
"""Judges the golden reference by numpy and ml_dtypes.

    oracle_ml_dtypes.py LIB     LIB is the shared library kvgold_oracle (oracle_lib.c and the reference)

First the conversions of docs/spec/formats.md section 2, then every format and dialect against kvgold.formats_numpy, which
must be on PYTHONPATH (golden/python). Where the libraries follow another convention by a documented rule, the elements
concerned are mapped: the mapping has a name, is counted, and holds only for elements that meet its condition and for
which the library did give its own convention's result. Ends with `N passed, M failed`; exit status 1 on failure. A check
that compared nothing has failed."""

import ctypes
import os
import sys
from collections import Counter

import ml_dtypes
import numpy as np

from kvgold import formats_numpy as formats
from kvgold.formats_numpy import E2M1, E2M1_MIDPOINT, E4M3, E5M2, F32, F64
from kvgold.problem import FORMATS, side_of

SEED = 0x6B766F72
RANDOM_PATTERNS = 4_000_000


# ---- Checks ----

class Check:
    """One line of output: a count of comparisons, of mapped elements, and the first few that differ."""

    passed = failed = 0

    def __init__(self, name):
        self.name, self.count, self.bad, self.mapped, self.examples = name, 0, 0, Counter(), []

    def compare(self, got, want, describe):
        """Element by element; describe(i) tells of flat index i."""
        self.require(got.shape == want.shape and got.dtype == want.dtype,
                     f"shape {got.shape} {got.dtype} for {want.shape} {want.dtype}")
        different = np.flatnonzero(got != want)
        self.count += got.size
        self.bad += different.size
        for i in different[:3 - len(self.examples)] if len(self.examples) < 3 else []:
            self.examples.append(f"{describe(i)}: reference {got.flat[i]:#x}, oracle {want.flat[i]:#x}")

    def require(self, condition, text):
        if not condition:
            self.bad += 1
            if len(self.examples) < 3:
                self.examples.append(text)

    def done(self):
        good = self.bad == 0 and self.count > 0
        mapped = "".join(f"; mapped {n} {what}" for what, n in sorted(self.mapped.items()) if n)
        print(f"{'ok  ' if good else 'FAIL'} {self.name}: {self.count} compared, {self.bad} differ{mapped}", flush=True)
        for text in self.examples:
            print(f"       {text}")
        Check.passed += good
        Check.failed += not good


# ---- The reference ----

class Reference:
    def __init__(self, path):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # thousands of short calls: spinning threads take minutes
        self.lib = ctypes.CDLL(path)
        self.lib.oracle_error_text.restype = ctypes.c_char_p
        self.lib.oracle_dialect_name.restype = ctypes.c_char_p
        self.lib.oracle_dialect_name.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        for name in ("oracle_quantise", "oracle_dequantise"):
            getattr(self.lib, name).argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_uint32] * 2 + [
                ctypes.c_float] + [ctypes.c_void_p] * 3

    def map(self, name, x, result, *more):
        """A conversion over an array; `more` are integers between the count and the result."""
        x = np.ascontiguousarray(x)
        y = np.empty(x.shape, result)
        pointer = ctypes.c_void_p
        function = getattr(self.lib, "oracle_" + name)
        function(pointer(x.ctypes.data), ctypes.c_size_t(x.size), *more, pointer(y.ctypes.data))
        return y

    def dialects(self, fmt):
        names = []
        while name := self.lib.oracle_dialect_name(fmt.encode(), len(names)):
            names.append(name.decode())
        return names

    def quantise(self, fmt, dialect, dtype, raw, g, code_bytes, scale_bytes):
        """(status, codes, scales)."""
        rows, dim = raw.shape
        raw = np.ascontiguousarray(raw)
        codes, scales = np.full((rows, code_bytes), 0xA5, np.uint8), np.full((rows, scale_bytes), 0xA5, np.uint8)
        status = self.lib.oracle_quantise(fmt.encode(), dialect.encode(), dtype.encode(), rows, dim, g, raw.ctypes.data,
                                          codes.ctypes.data, scales.ctypes.data)
        return status, codes, scales

    def dequantise(self, fmt, dialect, dtype, dim, codes, scales, g):
        codes, scales = np.ascontiguousarray(codes), np.ascontiguousarray(scales)
        raw = np.full((len(codes), dim), 0xA5A5, formats.RAW[dtype])
        status = self.lib.oracle_dequantise(fmt.encode(), dialect.encode(), dtype.encode(), len(codes), dim, g,
                                            codes.ctypes.data, scales.ctypes.data, raw.ctypes.data)
        return status, raw


# ---- Conversions ----

def floats_of(patterns):
    return np.ascontiguousarray(patterns, np.uint32).view(F32)


ALL16 = np.arange(65536, dtype=np.uint16)
ALL8 = np.arange(256, dtype=np.uint8)


def midpoints(values):
    """Midpoints between neighbours among the finite values, of both signs, each with its two neighbours in float32.
    The step above the largest value is the one below it: where overflow begins."""
    v = np.unique(values[np.isfinite(values)].astype(F64))
    v = v[v >= 0]
    v = np.append(v, 2 * v[-1] - v[-2])
    exact = (v[1:] + v[:-1]) / 2
    middle = exact.astype(F32)
    assert (middle == exact).all()
    near = np.concatenate([np.nextafter(middle, F32(-np.inf)), middle, np.nextafter(middle, F32(np.inf))])
    return np.concatenate([near, -near])


def specials():
    tiny = [2.0**-149, 2.0**-133, 2.0**-126, 2.0**-24, 2.0**-25, 2.0**-16, 2.0**-17, 2.0**-9, 2.0**-10, 2.0**-6]
    large = [6, 448, 464, 480, 57344, 61440, 65504, 65519, 65520, 65536, 3.3895314e38, formats.FLT_MAX, np.inf]
    x = F32([0.0, 1.0] + tiny + large)
    x = np.concatenate([np.nextafter(x, F32(0)), x, np.nextafter(x, F32(np.inf))])
    nan = floats_of([0x7FC00000, 0x7FFFFFFF, 0x7F800001, 0x7F801FFF, 0x7F802000, 0x7F80FFFF, 0x7F810000, 0x7FA00000])
    x = np.concatenate([x, nan])
    return np.concatenate([x, -x])


def input_sets(rng, values):
    return {
        "all bf16": formats.load("bf16", ALL16),
        "all f16": formats.load("f16", ALL16),
        "midpoints": midpoints(values),
        "random patterns": floats_of(rng.integers(0, 2**32, RANDOM_PATTERNS, np.uint32)),
        "specials": specials(),
    }


def apply_mappings(check, raw, mappings):
    """mappings: (name, elements, the library's documented results there, ours)."""
    want = raw.copy()
    for name, where, theirs, ours in mappings:
        check.mapped[name] += int(where.sum())
        check.require((raw[where] == np.broadcast_to(theirs, raw.shape)[where]).all(),
                      f"{name}: the library does not follow its own rule")
        want[where] = np.broadcast_to(ours, raw.shape)[where]
    return want


def check_narrow(ref, rng, name, kind, raw_type, values, mappings):
    for label, x in input_sets(rng, values).items():
        check = Check(f"f32 -> {name}, {label}")
        raw = x.astype(kind).view(raw_type)
        want = apply_mappings(check, raw, mappings(x, raw))
        check.compare(ref.map(f"{name}_of_f32", x, raw_type), want, lambda i: f"f32 {formats.bits(x)[i]:#010x}")
        check.done()


def sign_of(x, bit):
    return np.where(np.signbit(x), bit, 0)


def e4m3_mappings(x, raw):
    over = np.abs(x) > 464  # 464 itself is the midpoint and goes to 448
    saturated = 0x7E | sign_of(x, 0x80)
    nan = 0x7F | sign_of(x, 0x80)
    return [("NaN: sign dropped", np.isnan(x), nan, 0x7F),
            ("overflow: 448, not NaN", over & np.isfinite(x), nan, saturated),
            ("Inf: 448, not NaN", np.isinf(x), nan, saturated)]


def e5m2_mappings(x, raw):
    over = np.abs(x) >= 61440  # the midpoint goes to the even side, which is Inf
    saturated = 0x7B | sign_of(x, 0x80)
    infinity = 0x7C | sign_of(x, 0x80)
    return [("NaN: 0x7F, not 0x7E with sign", np.isnan(x), 0x7E | sign_of(x, 0x80), 0x7F),
            ("overflow: 57344, not Inf", over & np.isfinite(x), infinity, saturated),
            ("Inf: 57344", np.isinf(x), infinity, saturated)]


def bf16_mappings(x, raw):
    return [("NaN: payload kept", np.isnan(x), 0x7FC0 | sign_of(x, 0x8000), formats.narrow_nan("bf16", x))]


def f16_mappings(x, raw):
    # numpy keeps the payload as we do, but where hardware converts (F16C) the quiet bit is set as well.
    nan, ours = np.isnan(x), formats.narrow_nan("f16", x)
    theirs = np.where(raw & 0x200, ours | 0x200, np.where(formats.bits(x) >> 13 & 0x3FF, ours, ours ^ 0x201))
    return [("NaN: payload kept, quiet bit only if it is 0", nan, theirs, ours)]


def check_e2m1(ref, rng):
    for label, x in input_sets(rng, formats.E2M1_VALUE).items():
        nan = np.isnan(x)
        x = x[~nan]  # NaN's code, as the sign, is the dialect's business: the function takes magnitudes
        check = Check(f"f32 -> e2m1 magnitude, ties even, {label}")
        check.mapped["NaN inputs left out"] += int(nan.sum())
        check.compare(ref.map("e2m1_magnitude", x.astype(F64), np.uint8, 0), x.astype(E2M1).view(np.uint8) & 7,
                      lambda i: f"f32 {formats.bits(x)[i]:#010x}")
        check.done()
    more = [5.5, 6.5, 1e300, 5e-324, np.inf, 2.0**-276]
    x = np.concatenate([E2M1_MIDPOINT, formats.E2M1_VALUE[:8].astype(F64), more])
    x = np.concatenate([np.nextafter(x, 0), x, np.nextafter(x, np.inf), rng.uniform(0, 7, 500_000)])
    x = np.concatenate([x, -x])
    at_tie = np.isin(np.abs(x), E2M1_MIDPOINT)
    down, up = (np.searchsorted(E2M1_MIDPOINT, np.abs(x), side).astype(np.uint8) for side in ("left", "right"))
    even = np.where(at_tie, down + (down & 1), down)
    for rule, name, want in ((0, "even", even), (1, "away", up), (2, "zero", down)):
        check = Check(f"f64 -> e2m1 magnitude, ties {name}, midpoints, neighbours and random")
        check.compare(ref.map("e2m1_magnitude", x, np.uint8, rule), want.astype(np.uint8),
                      lambda i: f"f64 {x.view(np.uint64)[i]:#018x}")
        check.done()


def check_from_f64(ref, rng):
    """One rounding from float64. numpy does f16 itself; ml_dtypes goes by float32: for bf16, round to odd first."""
    for dtype, top in (("f16", 0x7C00), ("bf16", 0x7F80)):
        v = formats.load(dtype, ALL16[:top]).astype(F64)
        v = np.append(v, 2 * v[-1] - v[-2])
        middle = (v[1:] + v[:-1]) / 2
        near = np.concatenate([v, np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf)])
        spread = np.ldexp(rng.uniform(-1, 1, 1_000_000), rng.integers(-160, 130, 1_000_000))
        for label, x in {
            "values, midpoints and neighbours": np.concatenate([near, -near]),
            "random": np.concatenate([spread, rng.integers(0, 2**63, 1_000_000).view(F64)]),
            "specials": np.array([0.0, -0.0, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308]),
        }.items():
            x = x[~np.isnan(x)]
            want = x.astype(np.float16).view(np.uint16) if dtype == "f16" else formats.convert("bf16", formats.odd(x))
            check = Check(f"f64 -> {dtype}, {label}")
            check.compare(ref.map(f"{dtype}_of_f64", x, np.uint16), want, lambda i: f"f64 {x.view(np.uint64)[i]:#018x}")
            check.done()
        check = Check(f"f64 -> {dtype}, NaN is 0x7FFF")
        x = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(F64)
        check.compare(ref.map(f"{dtype}_of_f64", x, np.uint16), np.full(3, 0x7FFF, np.uint16), lambda i: f"NaN {i}")
        check.done()


def check_decoders(ref):
    for name, codes, kind in (("e4m3", ALL8, E4M3), ("e5m2", ALL8, E5M2), ("e2m1", ALL8[:16], E2M1),
                              ("e8m0", ALL8, ml_dtypes.float8_e8m0fnu), ("bf16", ALL16, ml_dtypes.bfloat16),
                              ("f16", ALL16, np.float16)):
        check = Check(f"{name} -> f32, all codes")
        theirs = codes.view(kind).astype(F32)
        nan = np.isnan(theirs)
        want = formats.bits(theirs).copy()
        if codes.size == 65536:  # hardware may quieten a signalling NaN
            check.mapped["NaN: payload kept"] += int(nan.sum())
            fraction, infinity, shift = (0x3FF, 0x7C00, 13) if name == "f16" else (0x7F, 0x7F80, 16)
            wide = codes.astype(np.uint32)
            check.require((nan == (wide & 0x7FFF > infinity)).all(), "NaN codes are not those of IEEE 754")
            want[nan] = ((wide & 0x8000) << 16 | 0x7F800000 | (wide & fraction) << shift)[nan]
        else:
            check.mapped["NaN: 0x7FC00000"] += int(nan.sum())
            want[nan] = 0x7FC00000
        check.compare(formats.bits(ref.map(f"f32_of_{name}", codes, F32)), want, lambda i: f"code {i:#x}")
        check.done()


def check_conversions(ref, rng):
    check_decoders(ref)
    check_narrow(ref, rng, "f16", np.float16, np.uint16, formats.load("f16", ALL16), f16_mappings)
    check_narrow(ref, rng, "bf16", ml_dtypes.bfloat16, np.uint16, formats.load("bf16", ALL16), bf16_mappings)
    check_narrow(ref, rng, "e4m3", E4M3, np.uint8, ALL8.view(E4M3), e4m3_mappings)
    check_narrow(ref, rng, "e5m2", E5M2, np.uint8, ALL8.view(E5M2), e5m2_mappings)
    check_e2m1(ref, rng)
    check_from_f64(ref, rng)


# ---- Rows ----

SCALE_FORMATS = ("e4m3", "e5m2", "nvfp4")
TENSOR_SCALES = [1.0, 20 / 448, 20 / 2688, 0.37, 3e-5, 1234.5, 2.0**-126, 1e-40, 2.0**-149, 1e-30, 1e30, 5e37, 3.4e38]


def dims_of(fmt):
    return [n * max(1, FORMATS[fmt][1] // 32) for n in (32, 64, 96, 160)]


def shape_of(fmt, dim):
    """(code bytes, scale bytes) of a row."""
    side = side_of(fmt, "", dim)
    return side.codes, side.scales


def jitter(rng, raw, dtype):
    """Moves a third of the patterns one up and a third one down, zeros and the largest excepted."""
    top = formats.RAW[dtype](1 << (31 if dtype == "f32" else 15))
    infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}[dtype]
    magnitude = raw & ~top
    step = rng.integers(-1, 2, raw.shape)
    step[(magnitude == 0) | (magnitude >= infinity - 1)] = 0
    return (raw.astype(np.int64) + step).astype(raw.dtype)


def random_rows(rng, dtype, rows, dim, block):
    """Nearly normal values; each block has its own power of two, over the whole range in half of the rows."""
    wide = {"f16": (-26, 16), "bf16": (-136, 128), "f32": (-150, 128)}[dtype]
    shape = rows, dim // block, 1
    exponent = np.where(np.arange(rows)[:, None, None] % 2, rng.integers(-8, 8, shape), rng.integers(*wide, shape))
    x = np.ldexp(rng.standard_normal((rows, dim // block, block)), exponent)
    return formats.convert(dtype, x.astype(F32).reshape(rows, dim))


def pattern_rows(rng, dtype, rows, dim, block):
    """Random bit patterns; in half of the rows NaN and Inf become finite."""
    raw = rng.integers(0, 1 << (32 if dtype == "f32" else 16), (rows, dim), formats.RAW[dtype])
    exponent = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}[dtype]
    lowest = exponent & -exponent
    tame = (raw & exponent == exponent) & (np.arange(rows)[:, None] % 2 == 0)
    return np.where(tame, raw & ~raw.dtype.type(lowest), raw)


def special_rows(rng, dtype, rows, dim, block):
    """Blocks made of one to four picks from a pool: all zero, constant, all NaN, Inf beside tiny values..."""
    info = {"f16": (2.0**-24, 2.0**-14, 65504), "bf16": (2.0**-133, 2.0**-126, 3.3895314e38),
            "f32": (2.0**-149, 2.0**-126, formats.FLT_MAX)}[dtype]
    # Zeros often: blocks of zeros alone have their own rules.
    pool = F32([0, 0, 0, 0, np.inf, np.nan, *info, 1, 6, 0.5, 448, 2.0**-9, 5.0, 1 / 3])
    pool = formats.convert(dtype, np.concatenate([pool, -pool]))
    blocks = rows * dim // block
    picks = rng.choice(pool, (blocks, 4))
    index = rng.integers(0, 4, (blocks, block)) % rng.integers(1, 5, (blocks, 1))
    return np.take_along_axis(picks, index, 1).reshape(rows, dim)


def levels_of(fmt):
    """Values and midpoints of an element, in steps of its scale, and the largest one."""
    if fmt in ("e4m3", "e5m2"):
        v = np.unique(np.abs(ALL8.view(E4M3 if fmt == "e4m3" else E5M2).astype(F64)))
        v = v[np.isfinite(v)]
    elif fmt in ("rowfp4", "mx16", "mxfp4", "nvfp4"):
        v = formats.E2M1_VALUE[:8].astype(F64)
    else:
        v = np.arange(8 if fmt == "rowint4" else 1 << FORMATS[fmt][0], dtype=F64)
    return np.concatenate([v, (v[1:] + v[:-1]) / 2]), v[-1]


def scale_borders(rng, dtype, shape):
    """Midpoints between neighbouring normal values, of a range whose multiples by 255 stay finite: where a stored row
    scale or parameter changes."""
    low, high = {"f16": (0x0400, 0x5800), "bf16": (0x0800, 0x7B00)}[dtype]
    code = rng.integers(low, high, shape).astype(np.uint16)
    return (formats.load(dtype, code).astype(F64) + formats.load(dtype, code + np.uint16(1))) / 2


def tie_rows(fmt, rng, dtype, rows, dim, block, g):
    """Elements on and beside midpoints, block maxima on and beside the borders of the scale rule."""
    levels, largest = levels_of(fmt)
    shape = rows, dim // block, 1
    low, high = {"f16": (-22, 8), "bf16": (-130, 110), "f32": (-146, 110)}[dtype]
    step = np.ldexp(1.0, rng.integers(low, high, shape))
    if fmt == "nvfp4":
        step = rng.choice(ALL8[1:0x7F], shape).view(E4M3).astype(F64)
        step = (step.astype(F32) * F32(g)).astype(F64)
    elif fmt in ("e4m3", "e5m2"):
        step = np.full(shape, F64(F32(g)))
    elif fmt in ("int8", "int4", "rowint4", "rowfp4"):
        step *= rng.choice([1, 1, 1.5, 1.25, 1.75, 1 + 1 / 128], shape)
    x = rng.choice(levels, (rows, dim // block, block)) * rng.choice([-1.0, 1.0], (rows, dim // block, block)) * step
    if fmt in ("int8", "int4"):
        x = np.abs(x) + step * rng.integers(-20, 20, shape)
        x[..., 0], x[..., 1] = x.min(-1), x.min(-1) + largest * step[..., 0]
        # A quarter of the rows: the range is exactly `largest` times a border. Its residual fits the model type.
        border = largest * scale_borders(rng, dtype, (rows, 1))
        high = formats.to_type(dtype, border.astype(F32)).astype(F64)
        low = high - border
        bordered = np.arange(rows) % 4 == 1  # odd rows are not jittered below
        x[bordered, 0] = (low + rng.random((rows, dim)) * border)[bordered]
        x[bordered, 0, 0], x[bordered, 0, 1] = low[bordered, 0], high[bordered, 0]
    elif fmt == "nvfp4":
        # Half of the maxima lie where E4M3 rounds the scale: between two neighbouring scales.
        code = rng.integers(0, 0x7E, shape[:2]).astype(np.uint8)
        border = (code.view(E4M3).astype(F64) + (code + np.uint8(1)).view(E4M3).astype(F64)) / 2
        border = border * F64(F32(6) * F32(g))
        x[..., 0] = np.where(rng.random(shape[:2]) < 0.5, border, 6 * step[..., 0])
    elif fmt in ("mx16", "mxfp4"):
        x[..., 0] = rng.choice([4, 5, 6, 7, 8], shape[:2]) * step[..., 0]
    elif fmt in ("rowint4", "rowfp4"):
        border = scale_borders(rng, "f16", shape[:2])
        x[..., 0] = largest * np.where(rng.random(shape[:2]) < 0.5, border, step[..., 0])
    raw = formats.convert(dtype, x.astype(F32).reshape(rows, dim))
    return np.where(np.arange(rows)[:, None] % 2, raw, jitter(rng, raw, dtype))


def row_sets(fmt, rng, dtype, rows, dim, g):
    block = FORMATS[fmt][1] or dim
    sets = {f.__name__: f(rng, dtype, rows, dim, block) for f in (random_rows, pattern_rows, special_rows)}
    if fmt not in ("f16", "bf16"):
        sets["tie_rows"] = tie_rows(fmt, rng, dtype, rows, dim, block, g)
    return sets


def byte_sets(fmt, rng, rows, dim, stored):
    """Stored bytes to decode: those that were written, and random ones with every scale byte among them."""
    code_bytes, scale_bytes = shape_of(fmt, dim)
    yield from stored
    yield rng.integers(0, 256, (rows, code_bytes), np.uint8), rng.integers(0, 256, (rows, scale_bytes), np.uint8)


def describe_row(fmt, dialect, dtype, g, label, raw, row_bytes):
    """Tells of the row and byte (or element) of a flat index; the row's patterns in hex, cut."""
    def describe(i):
        row = raw[i // row_bytes]
        start = (i % row_bytes) * row.size // row_bytes // 32 * 32
        words = " ".join(f"{w:x}" for w in row[start:start + 32])
        return f"{fmt} {dialect} {dtype} g={np.float32(g)!r} {label} byte or element {i % row_bytes} of row {words}"
    return describe


def takes_f32(ref, fmt):
    dim = dims_of(fmt)[0]
    raw = np.zeros((1, dim), np.uint32)
    return ref.quantise(fmt, "canonical", "f32", raw, 1, *shape_of(fmt, dim))[0] == 0


def check_codec(ref, rng, fmt, dialect):
    rows, dims = 128, dims_of(fmt)
    write, read = (Check(f"{what} {fmt} {dialect}") for what in ("quantise", "dequantise"))
    for dtype in ("f16", "bf16", "f32"):
        if dtype == "f32" and not takes_f32(ref, fmt):
            continue
        for number, g in enumerate(TENSOR_SCALES if fmt in SCALE_FORMATS else [1.0] * 4):
            dim = dims[number % len(dims)]
            stored = []
            for label, raw in row_sets(fmt, rng, dtype, rows, dim, g).items():
                status, codes, scales = ref.quantise(fmt, dialect, dtype, raw, g, *shape_of(fmt, dim))
                write.require(status == 0, f"status {status}: {ref.lib.oracle_error_text()}")
                want_codes, want_scales = formats.quantise(fmt, dialect, dtype, raw, g)
                stored.append((want_codes, scales if want_scales is None else want_scales))
                if fmt in ("int8", "int4"):
                    parameters = formats.load(dtype, np.ascontiguousarray(want_scales).view("<u2"))
                    write.mapped["NaN parameters: 0x7FFF"] += int(np.isnan(parameters).sum())
                if want_scales is not None:
                    write.compare(scales, want_scales,
                                  describe_row(fmt, dialect, dtype, g, label + " scale", raw, scales.shape[1]))
                write.compare(codes, want_codes, describe_row(fmt, dialect, dtype, g, label, raw, codes.shape[1]))
            for codes, scales in byte_sets(fmt, rng, rows, dim, stored):
                status, raw = ref.dequantise(fmt, dialect, dtype, dim, codes, scales, g)
                read.require(status == 0, f"status {status}: {ref.lib.oracle_error_text()}")
                want = formats.dequantise(fmt, dialect, dtype, codes, scales, g)
                both = np.concatenate([codes, scales], 1)
                read.compare(raw, want, describe_row(fmt, dialect, dtype, g, "stored", both, dim))
    write.done()
    read.done()


def check_codecs(ref, rng):
    """Every dialect that the reference knows must be in formats_numpy, and the reverse; but for those of sm_90, whose
    oracle is the card: tests/second/test_vectors.c."""
    for fmt in dict.fromkeys(fmt for fmt, _ in formats.CODECS):
        check = Check(f"dialects of {fmt}")
        known = [dialect for dialect in ref.dialects(fmt) if not dialect.endswith("-sm90")]
        ours = [dialect for f, dialect in formats.CODECS if f == fmt]
        check.count = len(ours)
        check.require(sorted(known) == sorted(ours), f"reference {known}, oracle {ours}")
        check.done()
    for fmt, dialect in formats.CODECS:
        check_codec(ref, rng, fmt, dialect)


# ---- The page's own examples, section 10, and refusals ----

ROW_A = [0.25, -0.25, 0.75, -0.75, 1.25, 1.75, 2.5, -3.5, 5, 6, -6, 0.0, -0.0, 0.5, -0.125, 4]
ROW_B = [7, -6.9375, 3, -1, 0.0625, 0.3125, -0.4375, 0.875, 1.5, 1.625, -2.25, 2.75, -4.5, 5.5, 0, -0.0078125]
WORKED = [  # format, dialect, g, A, B
    ("mx16", "sglang", 1, "7F 91 A2 43 E5 77 0F 10 68", "80 D6 93 00 18 22 3A 5C 80"),
    ("mx16", "canonical", 1, "7F 80 A2 42 E4 76 0F 18 68", "80 D6 93 00 18 22 3A 5C 80"),
    ("mxfp4", "canonical", 1, "7F 80 A2 42 E4 76 0F 18 68", "80 D6 93 00 18 22 3A 5C 80"),
    ("mxfp4", "ocp", 1, "7F 80 A2 42 E4 76 0F 18 68", "7F F7 A5 10 29 33 5C 7E 80"),
    ("mxfp4", "modelopt", 1, "7F 80 91 32 D4 76 8F 18 68", "80 D5 93 00 18 21 3A 5C 88"),
    ("nvfp4", "modelopt", 1, "38 80 A2 42 E4 76 0F 10 68", "39 F7 A5 10 29 33 4C 6E 80"),
    ("nvfp4", "canonical", 1, "38 80 A2 42 E4 76 0F 18 68", "39 F7 A5 10 29 33 4C 6E 80"),
    ("nvfp4", "modelopt", 20 / 448, "5B 91 A2 43 E5 77 0F 10 68", "5D F7 A5 10 29 33 4C 6E 80"),
    ("nvfp4", "modelopt", 20 / 2688, "70 91 A2 43 E5 77 0F 10 68", "72 F7 A5 10 19 33 4C 6E 80"),
]
ZERO = [("mx16", "sglang", "5E", "00"), ("mxfp4", "modelopt", "00", "88"), ("mxfp4", "ocp", "00", "00"),
        ("nvfp4", "modelopt", "38", "00"), ("nvfp4", "canonical", "00", "00")]
AFFINE = [-1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2]


def check_worked(ref):
    cases = []
    for fmt, dialect, g, *answers in WORKED:
        for row, answer in zip((ROW_A, ROW_B), answers):
            stored = bytes.fromhex(answer)
            repeat = 2 if fmt == "mxfp4" else 1
            cases.append((fmt, dialect, g, row * repeat, stored[1:] * repeat, stored[:1]))
    for fmt, dialect, scale, code in ZERO:
        size = 32 if fmt == "mxfp4" else 16
        cases.append((fmt, dialect, 1, [0.0] * size, bytes.fromhex(code) * (size // 2), bytes.fromhex(scale)))
    cases.append(("int4", "canonical", 1, AFFINE, (0xFA62C850).to_bytes(4, "little"), bytes.fromhex("663200BC")))
    q = bytes([0, 42, 85, 106, 128, 170, 212, 255])
    cases.append(("int8", "canonical", 1, AFFINE, q, bytes.fromhex("062200BC")))
    check = Check("the worked bytes of section 10")
    for fmt, dialect, g, row, code, scale in cases:
        raw = formats.convert("f16", F32([row]))
        _, *reference = ref.quantise(fmt, dialect, "f16", raw, g, *shape_of(fmt, len(row)))
        for who, result in (("reference", reference), ("oracle", formats.quantise(fmt, dialect, "f16", raw, g))):
            for part, got, want in zip(("codes", "scales"), result, (code, scale)):
                check.count += 1
                got = bytes(got[0])
                check.require(got == want, f"{fmt} {dialect} g={g}: {who} {part} {got.hex()}, page {want.hex()}")
    check.done()


def check_refusals(ref):
    check = Check("tensor scales that must be refused, and affine rows in f32")
    raw = np.zeros((1, 32), np.uint32)
    for fmt in SCALE_FORMATS:
        for g in (0.0, -0.0, -1.0, np.inf, -np.inf, np.nan):
            check.count += 1
            status, codes, scales = ref.quantise(fmt, "canonical", "f32", raw, g, *shape_of(fmt, 32))
            check.require(status != 0, f"{fmt} g={g} quantised")
            check.count += 1
            status, _ = ref.dequantise(fmt, "canonical", "f32", 32, codes, scales, g)
            check.require(status != 0, f"{fmt} g={g} dequantised")
    for fmt in ("int8", "int4"):
        check.count += 1
        check.require(ref.quantise(fmt, "canonical", "f32", raw, 1, *shape_of(fmt, 32))[0] != 0, f"{fmt} took f32")
    check.done()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ref = Reference(sys.argv[1])
    print(f"numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}, seed {SEED:#x}")
    rng = np.random.default_rng(SEED)
    with np.errstate(all="ignore"):
        check_conversions(ref, rng)
        check_worked(ref)
        check_refusals(ref)
        check_codecs(ref, rng)
    print(f"{Check.passed} passed, {Check.failed} failed")
    return 0 if Check.failed == 0 and Check.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
