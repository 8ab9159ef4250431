"""docs/spec/formats.md in numpy: every format, and every dialect but those of sm_90. It shares nothing with reference/.

Arithmetic is numpy's float32 (one IEEE rounding per operation); roundings to bfloat16, E4M3, E5M2 and E2M1 are those of
ml_dtypes, to binary16 numpy's. Rows are arrays [rows, head_dim] of float32; stored bytes are uint8 [rows, bytes].
Section numbers are those of docs/spec/formats.md. Callers silence numpy's floating-point warnings (np.errstate)."""

import ml_dtypes
import numpy as np

F32, F64 = np.float32, np.float64
E4M3, E5M2, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn
NAN32 = np.uint32(0x7FC00000).view(F32)
FLT_MAX = np.finfo(F32).max
RAW = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32}


# ---- Conversions, section 2 ----

def bits(x):
    return np.ascontiguousarray(x, F32).view(np.uint32)


def load(dtype, raw):
    """Bit patterns of the model type to float32, exactly. NaN by formula: hardware widening would quieten it."""
    if dtype == "f32":
        return raw.view(F32)
    if dtype == "bf16":
        return (raw.astype(np.uint32) << 16).view(F32)
    x = raw.view(np.float16).astype(F32)
    wide = raw.astype(np.uint32)
    nan = (wide & 0x8000) << 16 | 0x7F800000 | (wide & 0x3FF) << 13
    return np.where(np.isnan(x), nan, bits(x)).view(F32)


def narrow_nan(dtype, x):
    """Section 2.4 for NaN elements: sign and leading payload bits, quiet bit if those are all zero."""
    shift, fraction, infinity, quiet = {"f16": (13, 0x3FF, 0x7C00, 0x200), "bf16": (16, 0x7F, 0x7F80, 0x40)}[dtype]
    b = bits(x)
    payload = b >> shift & fraction
    return (b >> 16 & 0x8000 | infinity | np.where(payload == 0, quiet, payload)).astype(np.uint16)


def convert(dtype, x):
    """float32 to bit patterns of the model type, NaN by section 2.4."""
    if dtype == "f32":
        return bits(x).copy()
    code = x.astype(np.float16 if dtype == "f16" else ml_dtypes.bfloat16).view(np.uint16)
    return np.where(np.isnan(x), narrow_nan(dtype, x), code)


def store(dtype, y):
    """float32 results to bit patterns of the model type, NaN by section 2.5."""
    return np.where(np.isnan(y), RAW[dtype](0x7FFFFFFF if dtype == "f32" else 0x7FFF), convert(dtype, y))


def to_type(dtype, x):
    """RN_T(x) as float32."""
    return load(dtype, convert(dtype, x))


def odd(x):
    """float64 to float32 rounded to odd: a second rounding to 22 bits or fewer then rounds as the exact value would."""
    y = x.astype(F32)
    b = bits(y).astype(np.int64)
    step = np.where(np.abs(y.astype(F64)) < np.abs(x), 1, -1)
    inexact = (y.astype(F64) != x) & ~np.isnan(x) & (b & 1 == 0)
    return np.where(inexact, b + step, b).astype(np.uint32).view(F32)


def odd_sum(a, b):
    """a + b in float64, rounded to odd (error term by Knuth's TwoSum)."""
    s = a + b
    part = s - a
    error = (a - (s - part)) + (b - part)
    i = s.view(np.int64)
    step = np.where((error > 0) == (s > 0), 1, -1)
    inexact = np.isfinite(s) & (error != 0) & (i & 1 == 0)
    return np.where(inexact, i + step, i).view(F64)


def fp8(x, kind):
    """Section 2.2: ml_dtypes rounds; saturation and the NaN code are ours."""
    largest = F32(448 if kind is E4M3 else 57344)
    code = np.clip(x, -largest, largest).astype(kind).view(np.uint8)
    return np.where(np.isnan(x), np.uint8(0x7F), code)


def fp8_value(code, kind):
    y = code.view(kind).astype(F32)
    return np.where(np.isnan(y), NAN32, y)


E2M1_VALUE = np.arange(16, dtype=np.uint8).view(E2M1).astype(F32)
E2M1_MIDPOINT = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5])


def e2m1_magnitude(v, ties):
    """Section 2.1: magnitude codes of v (float32, or float64 that float32 holds near every midpoint), not NaN."""
    a = np.abs(v)
    if ties == "even":
        return np.minimum(a.astype(F32), F32(6)).astype(E2M1).view(np.uint8)
    side = "right" if ties == "away" else "left"  # a midpoint counts as passed, or not
    return np.searchsorted(E2M1_MIDPOINT, a, side).astype(np.uint8)


def e2m1(v, x, ties="even", sign="bit", nan=7):
    """Codes of v; x lends its sign bit where nan is "signed 0"."""
    isnan = np.isnan(v)
    magnitude = e2m1_magnitude(np.where(isnan, 0, v), ties)
    negative = {"bit": np.signbit(v), "less": v < 0, "nonzero": np.signbit(v) & (magnitude != 0), "notpos": ~(v > 0)}
    code = magnitude | negative[sign].astype(np.uint8) << 3
    return np.where(isnan, np.signbit(x) * np.uint8(8) if nan == "signed 0" else np.uint8(nan), code).astype(np.uint8)


def power(byte):
    """Section 2.3: 2^(byte - 127) in float64, 255 is NaN."""
    return np.where(byte == 255, np.nan, np.ldexp(1.0, byte.astype(np.int64) - 127))


def flushed(x):
    return np.where(np.abs(x) < F32(2.0**-126), np.copysign(F32(0), x), x)


def rcp(x):
    """Section 1: the stand-in for rcp.approx.ftz.f32."""
    return flushed(F32(1) / flushed(np.asarray(x, F32)))


def amax_of(x, axis=-1):
    return np.where(np.isnan(x), F32(0), np.abs(x)).max(axis)


# ---- Packing ----

def pack_pairs(code):
    """Byte j = code(2j+1) << 4 | code(2j)."""
    return code[:, 1::2] << 4 | code[:, 0::2]


def unpack_pairs(packed):
    return np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)


ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # section 5: nibbles of a uint32, least significant first


def pack_int4(q, dialect):
    if dialect == "pytorch":
        half = q.shape[1] // 2
        return q[:, :half] | q[:, half:] << 4
    return pack_pairs(q.reshape(len(q), -1, 8)[:, :, ORDER].reshape(q.shape))


def unpack_int4(packed, dialect):
    if dialect == "pytorch":
        return np.concatenate([packed & 15, packed >> 4], 1)
    q = unpack_pairs(packed)
    out = np.empty_like(q).reshape(len(q), -1, 8)
    out[:, :, ORDER] = q.reshape(len(q), -1, 8)
    return out.reshape(q.shape)


def u16_bytes(*columns):
    return np.stack(columns, 1).astype("<u2").view(np.uint8)


# ---- f16, bf16: section 3 ----

def wide_quantise(fmt, dialect, dtype, x, g):
    return convert(fmt, x).astype("<u2").view(np.uint8), None


def wide_dequantise(fmt, dialect, dtype, codes, scales, g):
    return convert(dtype, load(fmt, codes.view("<u2")))


# ---- e4m3, e5m2: section 4 ----

def fp8_quantise(fmt, dialect, dtype, x, g):
    kind = E4M3 if fmt == "e4m3" else E5M2
    return fp8(x * (F32(1) / g) if dialect == "trtllm" else x / g, kind), None


def fp8_dequantise(fmt, dialect, dtype, codes, scales, g):
    return store(dtype, fp8_value(codes, E4M3 if fmt == "e4m3" else E5M2) * g)


# ---- int8, int4: section 5 ----

def row_limits(x):
    """Smallest and largest element, NaN skipped, -0 below +0: float32 bit patterns mapped to ordered integers."""
    def key_of(y):
        b = bits(y)
        return np.where(b >> 31, ~b, b | np.uint32(0x80000000))

    def value_of(key):
        return np.where(key >> 31, key & np.uint32(0x7FFFFFFF), ~key).astype(np.uint32).view(F32)

    key, nan = key_of(x), np.isnan(x)
    low = np.where(nan, key_of(F32([np.inf])), key).min(1)
    high = np.where(nan, key_of(F32([-np.inf])), key).max(1)
    return value_of(low), value_of(high)


def affine_quantise(fmt, dialect, dtype, x, g):
    n = F32(255 if fmt == "int8" else 15)
    low, high = row_limits(x)
    if dialect in ("quanto", "hqq"):
        low, high = (np.where(np.isnan(x).any(1), F32(np.nan), limit) for limit in (low, high))
    if dialect == "pytorch":
        scale = (high - low) / n
        zero = -low / scale
        q = np.trunc(x / scale[:, None] + zero[:, None] + F32(0.5))
        params = scale, zero
    elif dialect == "quanto":
        scale = to_type(dtype, to_type(dtype, high - low) / n)
        q = np.rint(to_type(dtype, to_type(dtype, x - low[:, None]) / scale[:, None]))
        params = scale, np.where(low == 0, F32(0), low)
    elif dialect == "hqq":
        inverse = np.where(high - low <= F32(1e-4), F32(1), np.minimum(F32(1) / (high - low) * n, F32(2e4)))
        zero = F32(0) - low * inverse
        q = np.rint(x * inverse[:, None] + zero[:, None])
        params = F32(1) / inverse, zero
    else:
        scale = to_type(dtype, (high - low) * (F32(1) / n))
        inverse = to_type(dtype, F32(1) / scale)
        shifted = to_type(dtype, x - low[:, None])
        q = np.rint(to_type(dtype, shifted * inverse[:, None]))
        params = scale, low
    q = np.where(np.isnan(q), 0, np.clip(q, 0, n)).astype(np.uint8)
    codes = q if fmt == "int8" else pack_int4(q, dialect)
    # Sign and payload of a NaN that arithmetic makes differ by machine: a NaN parameter is 0x7FFF (section 2.5).
    return codes, u16_bytes(*(store(dtype, p) for p in params))


def affine_dequantise(fmt, dialect, dtype, codes, scales, g):
    q = (codes if fmt == "int8" else unpack_int4(codes, dialect)).astype(F32)
    scale, other = (load(dtype, column)[:, None] for column in np.ascontiguousarray(scales.view("<u2").T))
    if dialect == "pytorch":
        return store(dtype, (q - other) * scale)
    if dialect == "hqq":
        return store(dtype, to_type(dtype, q - other) * scale)
    if dialect in ("turbomind-muladd", "quanto"):
        return store(dtype, to_type(dtype, q * scale) + other)
    product = q.astype(F64) * scale.astype(F64)  # exact: 8 + 11 bits
    return store(dtype, odd(odd_sum(product, np.broadcast_to(other.astype(F64), product.shape))))


# ---- rowint4, rowfp4: section 6 ----

def f16_scale(s):
    """RN_f16, saturated to 65504: the bytes and the value."""
    code = np.minimum(convert("f16", s), np.uint16(0x7BFF))
    return u16_bytes(code), load("f16", code)[:, None]


def row_quantise(fmt, dialect, dtype, x, g):
    amax = amax_of(x)
    if fmt == "rowint4":
        stored, scale = f16_scale(amax / F32(7))
        q = np.clip(np.rint(x / scale), -7, 7)
        q = np.where(np.isnan(q) | (scale == 0), 0, q)
        return pack_pairs((q + 8).astype(np.uint8)), stored
    if dialect == "marlin-linear":
        stored, scale = f16_scale(np.maximum(amax, F32(1e-8)) / F32(6))
        k = np.clip(np.rint(x / scale * F32(2)) + 8, 0, 15)
        return pack_pairs(np.where(np.isnan(k) | (scale == 0), 8, k).astype(np.uint8)), stored
    stored, scale = f16_scale(amax / F32(6))
    v = np.where((scale == 0) & ~np.isnan(x), np.copysign(F32(0), x), x / scale)
    return pack_pairs(e2m1(v, x)), stored


def row_dequantise(fmt, dialect, dtype, codes, scales, g):
    scale = load("f16", np.ascontiguousarray(scales.view("<u2")))
    code = unpack_pairs(codes)
    if fmt == "rowint4":
        value = code.astype(F32) - F32(8)
    elif dialect == "marlin-linear":
        value = (code.astype(F32) - F32(8)) * F32(0.5)
    else:
        value = E2M1_VALUE[code]
    return store(dtype, value * scale)


# ---- mx16, mxfp4: section 7 ----

MX = {  # dialect: (exponent rule, byte of amax 0, ties, sign, nan)
    ("mx16", "canonical"): ("ceil6", 0x00, "even", "bit", 7),
    ("mx16", "turbomind"): ("ceil6", 0x00, "even", "bit", 7),
    ("mx16", "sglang"): ("ceil6", 0x5E, "away", "less", 0),
    ("mxfp4", "canonical"): ("ceil6", 0x00, "even", "bit", 7),
    ("mxfp4", "ocp"): ("floor", 0x00, "even", "bit", 7),
    ("mxfp4", "modelopt"): ("ceil6", 0x00, "zero", "notpos", 8),
    ("mxfp4", "modelopt-floor"): ("floor", 0x7F, "even", "bit", 7),
    ("mxfp4", "modelopt-ceil"): ("ceil6", 0x7F, "even", "bit", 7),
    ("mxfp4", "trtllm"): ("ceil6", 0x00, "even", "bit", 7),
    ("mxfp4", "vllm"): ("even", 0x00, "even", "bit", 7),
    ("mxfp4", "vllm-old"): ("trunc6", 0x00, "even", "bit", 7),
    ("mxfp4", "ggml"): ("floor", 0x00, "zero", "nonzero", 0),
}


def mx_quantise(fmt, dialect, dtype, x, g):
    rule, zero_byte, ties, sign, nan = MX[fmt, dialect]
    block = 16 if fmt == "mx16" else 32
    x = x.reshape(len(x), -1, block)
    amax = amax_of(x)
    half, k = np.frexp(amax.astype(F64))
    m, k = 2 * half, k - 1  # amax = m 2^k, 1 <= m < 2
    e = {
        "ceil6": np.where(m <= 1.5, k - 2, k - 1),
        "floor": k - 2,
        "even": np.where(m < 1.75, k - 2, k - 1),
        "trunc6": np.where(m < 1.5, k - 3, k - 2),
    }[rule]
    if dialect == "sglang":
        e = np.maximum(e, -33)
    byte = np.clip(e + 127, 0, 254)
    byte = np.where(np.isinf(amax), 254, np.where(amax == 0, zero_byte, byte))
    if dialect in ("modelopt-floor", "modelopt-ceil"):
        byte = np.where(np.isinf(amax) | np.isnan(x).any(-1), 0x7F, byte)
    v = np.ldexp(x.astype(F64), 127 - byte[..., None])
    code = e2m1(v, x, ties, sign, nan)
    if dialect == "trtllm":
        code = np.where((byte[..., None] == 0) & ~np.isnan(x), np.signbit(x) * np.uint8(8), code)
    return pack_pairs(code.reshape(len(x), -1)), byte.astype(np.uint8)


def mx_dequantise(fmt, dialect, dtype, codes, scales, g):
    block = 16 if fmt == "mx16" else 32
    value = E2M1_VALUE[unpack_pairs(codes)].astype(F64)
    return store(dtype, (value * power(np.repeat(scales, block, 1))).astype(F32))


# ---- nvfp4: section 8 ----

NVFP4 = ("canonical", "modelopt", "modelopt-fake", "modelopt-hopper", "flashinfer-kv", "trtllm", "flashinfer-fast",
         "flashinfer-te", "flashinfer-page", "flashinfer-mla", "torchao", "vllm", "vllm-minimax", "seed")


def nvfp4_scale(dialect, amax, g):
    """The block scale before E4M3: column q and its clamp."""
    s = F32(1) / g
    if dialect == "flashinfer-kv":
        return rcp(g) * (amax * rcp(6))
    if dialect in ("trtllm", "flashinfer-fast", "vllm"):
        return s * (amax * rcp(6))
    if dialect == "flashinfer-te":
        return amax * (s * (F32(1) / F32(6)))
    if dialect == "vllm-minimax":
        return np.clip(np.maximum(amax, F32(1e-12)) / F32(6) * s, F32(2.0**-9), F32(448))
    if dialect == "torchao":
        return np.clip(amax * (F32(1) / F32(6)) / g, F32(2.0**-6), F32(448))
    if dialect == "flashinfer-mla":
        there = (flushed(amax) > 0) & (flushed(g) > 0)
        return np.where(there, flushed(flushed(amax) * rcp(F32(6) * g)), F32(0))
    q = amax / (F32(6) * g)
    if dialect == "modelopt":
        return np.clip(np.where(q == 0, F32(1), q), F32(2.0**-9), F32(448))
    return q  # the clamp to 448 of modelopt-fake and modelopt-hopper is e4m3's saturation


def nvfp4_scaled(dialect, x, amax, q, sf, g):
    """Column v. Where v is replaced by a zero, a NaN element stays NaN."""
    s = F32(1) / g
    d = sf * g
    if dialect in ("canonical", "seed"):
        d = q * g if dialect == "seed" else d
        return np.where((d == 0) & ~np.isnan(x), np.copysign(F32(0), x), x / d)
    if dialect in ("modelopt", "vllm-minimax"):
        return x / d
    if dialect == "modelopt-fake":
        return np.where((d == 0) & ~np.isnan(x), F32(0), x / d)
    if dialect == "modelopt-hopper":
        return x / np.where(d < F32(1e-5), F32(1), d)
    if dialect == "flashinfer-mla":
        return flushed(flushed(x) * np.where(sf > 0, rcp(d), F32(0)))
    multiplier, off = {
        "flashinfer-kv": lambda: (rcp(d), amax == 0),
        "trtllm": lambda: (rcp(sf * rcp(s)), q == 0),
        "flashinfer-fast": lambda: (rcp(sf * rcp(s)), amax == 0),
        "flashinfer-te": lambda: (np.minimum(F32(1) / (sf * (F32(1) / s)), FLT_MAX), np.bool_(False)),
        "flashinfer-page": lambda: (F32(1) / d, sf == 0),
        "torchao": lambda: (s / sf, np.bool_(False)),
        "vllm": lambda: (rcp(sf * rcp(s)), sf == 0),
    }[dialect]()
    return x * np.where(off, F32(0), multiplier)


def nvfp4_quantise(fmt, dialect, dtype, x, g):
    x = x.reshape(len(x), -1, 16)
    amax = np.abs(x).max(-1) if dialect in ("modelopt", "torchao") else amax_of(x)  # numpy's max propagates NaN, as torch's does
    q = nvfp4_scale(dialect, amax, g)
    byte = fp8(q, E4M3)
    sf = fp8_value(byte, E4M3)
    v = nvfp4_scaled(dialect, x, amax[..., None], q[..., None], sf[..., None], g)
    sign = {"modelopt": "less", "vllm-minimax": "nonzero"}.get(dialect, "bit")
    code = e2m1(v, x, "even", sign, {"flashinfer-page": "signed 0", "flashinfer-mla": 0, "torchao": 4}.get(dialect, 7))
    return pack_pairs(code.reshape(len(x), -1)), byte


def nvfp4_dequantise(fmt, dialect, dtype, codes, scales, g):
    code = unpack_pairs(codes)
    value = E2M1_VALUE[code]
    sf = np.repeat(fp8_value(scales, E4M3), 16, 1)
    if dialect == "modelopt":
        value = np.where(code == 8, F32(0), value)
    if dialect in ("modelopt", "torchao"):
        return store(dtype, value * (sf * g))
    return store(dtype, value * sf * g)


# ---- mlx4 and its kin: section 11 ----

MLX = {  # format: (elements of a group, largest code)
    "mlx4": (64, 15),
    "mlx4_g32": (32, 15),
    "mlx4_g128": (128, 15),
    "mlx8": (64, 255),
    "mlx8_g32": (32, 255),
    "mlx8_g128": (128, 255),
}


def mlx_codes(fmt, codes):
    """The codes of each group, [rows, groups, elements]."""
    group, largest = MLX[fmt]
    return (codes if largest == 255 else unpack_pairs(codes)).reshape(len(codes), -1, group)


def mlx_parameters(dtype, scales):
    """Scale and bias of each group, [rows, groups] each."""
    words = load(dtype, np.ascontiguousarray(scales).view("<u2")).reshape(len(scales), -1, 2)
    return words[..., 0], words[..., 1]


def mlx_round(x, dialect):
    """To the nearest integer: ties away from zero for mlx-metal, else to even."""
    if dialect != "mlx-metal":
        return np.rint(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= F32(0.5), whole + np.copysign(F32(1), x), whole)


def mlx_quantise(fmt, dialect, dtype, x, g):
    group, largest = MLX[fmt]
    x = x.reshape(len(x), -1, group)
    low = np.where(np.isnan(x), F32(np.inf), x).min(-1)
    high = np.where(np.isnan(x), F32(-np.inf), x).max(-1)
    if dialect == "mlx-metal":
        high = np.maximum(high, F32(0))
    step = (high - low) / F32(largest)
    step = np.where(step < F32(1e-7), F32(1e-7), step)
    from_low = np.abs(low) > np.abs(high)
    edge, step = np.where(from_low, low, high), np.where(from_low, step, -step)
    steps = mlx_round(edge / step, dialect)
    scale = np.where(steps == 0, step, edge / steps)
    bias = np.where(steps == 0, F32(0), edge)
    q = mlx_round((x - bias[..., None]) / scale[..., None], dialect)
    q = np.where(np.isnan(q), 0, np.clip(q, 0, largest)).astype(np.uint8).reshape(len(x), -1)
    words = np.stack([store(dtype, scale), store(dtype, bias)], -1)
    return q if largest == 255 else pack_pairs(q), words.astype("<u2").reshape(len(x), -1).view(np.uint8)


def mlx_dequantise(fmt, dialect, dtype, codes, scales, g):
    q = mlx_codes(fmt, codes)
    scale, bias = (x[..., None] for x in mlx_parameters(dtype, scales))
    if dialect == "mlx-cpu":
        y = to_type(dtype, q.astype(F32) * scale) + bias
    else:
        product = q.astype(F64) * scale.astype(F64)  # exact
        y = odd(odd_sum(product, np.broadcast_to(bias.astype(F64), product.shape)))
    return store(dtype, y.reshape(len(codes), -1))


# ---- int8_token_head: section 12 ----

def write_signed(y):
    moved = np.clip(np.trunc(y + np.copysign(F32(0.5), y)), -128, 127)
    return np.where(np.isnan(y), 0, moved).astype(np.int8).view(np.uint8)


TOKEN_HEAD = {  # format: (what amax becomes, values to codes, codes to values)
    "int8_token_head": (127, write_signed, lambda codes: codes.view(np.int8).astype(F32)),
    "fp8_token_head": (448, lambda y: fp8(y, E4M3), lambda codes: fp8_value(codes, E4M3)),  # section 13
}


def token_head_scale(scales):
    return np.ascontiguousarray(scales).view("<f4").astype(F32)


def token_head_quantise(fmt, dialect, dtype, x, g):
    most, write, _ = TOKEN_HEAD[fmt]
    scale = np.maximum(amax_of(x) / F32(most), F32(1e-6))
    return write(x * (F32(1) / scale)[:, None]), scale.astype("<f4")[:, None].view(np.uint8)


def token_head_dequantise(fmt, dialect, dtype, codes, scales, g):
    return store(dtype, TOKEN_HEAD[fmt][2](codes) * token_head_scale(scales))


# ---- All of them ----

def _table():
    table = {}
    for fmt in ("f16", "bf16"):
        table[fmt, "canonical"] = wide_quantise, wide_dequantise
    for fmt in ("e4m3", "e5m2"):
        for dialect in ("canonical", "trtllm"):
            table[fmt, dialect] = fp8_quantise, fp8_dequantise
    for fmt in ("int8", "int4"):
        for dialect in ("canonical", "turbomind-muladd", "pytorch"):
            table[fmt, dialect] = affine_quantise, affine_dequantise
    for row in (("int4", "quanto"), ("int4", "hqq"), ("int8", "hqq")):
        table[row] = affine_quantise, affine_dequantise
    for fmt, dialect in (("rowint4", "canonical"), ("rowfp4", "canonical"), ("rowfp4", "marlin-linear")):
        table[fmt, dialect] = row_quantise, row_dequantise
    for fmt, dialect in MX:
        table[fmt, dialect] = mx_quantise, mx_dequantise
    for fmt in MLX:
        for dialect in ("canonical", "mlx-cpu", "mlx-metal"):
            table[fmt, dialect] = mlx_quantise, mlx_dequantise
    for fmt in TOKEN_HEAD:
        table[fmt, "canonical"] = token_head_quantise, token_head_dequantise
    for dialect in NVFP4:
        table["nvfp4", dialect] = nvfp4_quantise, nvfp4_dequantise
    return table


CODECS = _table()


def _codec(fmt, dialect):
    if (fmt, dialect) not in CODECS:
        raise NotImplementedError(f"{fmt}.{dialect}: numpy has no division of sm_90; ask kvgold's reference")
    return CODECS[fmt, dialect]


def quantise(fmt, dialect, dtype, raw, g):
    """Rows of bit patterns to (codes, scales or None)."""
    return _codec(fmt, dialect)[0](fmt, dialect, dtype, load(dtype, raw), F32(g))


def dequantise(fmt, dialect, dtype, codes, scales, g):
    """Stored bytes to rows of bit patterns."""
    return _codec(fmt, dialect)[1](fmt, dialect, dtype, codes, scales, F32(g))
