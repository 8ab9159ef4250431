/* What the lanes of a row share, and the formats whose parameters belong to a row. */
#ifndef KVG_GPU_CODEC_ROW_CUH
#define KVG_GPU_CODEC_ROW_CUH

#include "gpu/convert.cuh"

enum { KVG_PIECE = 16 };

/* Larger of two magnitudes that are not NaN. */
struct kvg_larger {
    __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};
/* -0 is below +0, docs/formats.md section 5. */
struct kvg_least {
    __device__ float operator()(float a, float b) const { return b < a || (b == a && signbit(b)) ? b : a; }
};
struct kvg_most {
    __device__ float operator()(float a, float b) const { return b > a || (b == a && !signbit(b)) ? b : a; }
};

/* x of `count` (a power of two) neighbouring lanes of the warp, all of which come here. */
template <typename PICK> __device__ float kvg_among(uint32_t count, float x, PICK pick)
{
    for (uint32_t step = count / 2; step > 0; step /= 2) x = pick(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    return x;
}

template <int N> __device__ float kvg_amax(const float *x)
{
    float most = 0;
    for (int i = 0; i < N; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most; /* NaN compares false: left out */
    return most;
}

/* What a row's encoder agreed on, and what its decoder was given. */
struct kvg_row_state {
    float scale, minimum, inverse;
    uint32_t params; /* the bytes that are stored, little-endian */
};

template <kvg_format FORMAT, kvg_dtype T> struct kvg_codec;

/* --- affine: scale and minimum in T --- */

template <int LARGEST, kvg_dtype T> struct kvg_codec_affine {
    enum { BITS = LARGEST == 15 ? 4 : 8, BLOCK = 0, PARAMS = 4 };
    typedef kvg_scalar<T> model;

    struct extremes {
        float least = INFINITY, most = -INFINITY;
        __device__ void add(float x)
        {
            if (x != x) return;
            least = kvg_least()(least, x);
            most = kvg_most()(most, x);
        }
        __device__ void share(uint32_t lanes)
        {
            least = kvg_among(lanes, least, kvg_least());
            most = kvg_among(lanes, most, kvg_most());
        }
    };
    static __device__ kvg_row_state row(const extremes &of)
    {
        const float reciprocal = LARGEST == 15 ? __uint_as_float(0x3D888889) : __uint_as_float(0x3B808081);
        const uint32_t scale = model::round(__fmul_rn(__fsub_rn(of.most, of.least), reciprocal));
        kvg_row_state s;
        s.scale = model::widen(scale);
        s.minimum = of.least;
        s.inverse = model::widen(model::round(__fdiv_rn(1, s.scale)));
        s.params = scale | (uint32_t)model::round(of.least) << 16;
        return s;
    }
    static __device__ kvg_divisor divisor(const kvg_row_state &, uint32_t, float) { return {}; }
    static __device__ uint32_t encode(const kvg_row_state &s, const kvg_divisor &, float x)
    {
        const float above = model::widen(model::round(__fsub_rn(x, s.minimum)));
        const float q = rintf(model::widen(model::round(__fmul_rn(above, s.inverse))));
        return q != q ? 0 : q < 0 ? 0 : q > LARGEST ? LARGEST : (uint32_t)q;
    }
    static __device__ kvg_row_state params(uint32_t bytes)
    {
        kvg_row_state s = {};
        s.scale = model::widen((uint16_t)bytes);
        s.minimum = model::widen((uint16_t)(bytes >> 16));
        return s;
    }
    static __device__ typename model::bits decode(const kvg_row_state &s, float, float, uint32_t code)
    {
        return model::fma((float)code, s.scale, s.minimum);
    }
};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_INT8, T> : kvg_codec_affine<255, T> {};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_INT4, T> : kvg_codec_affine<15, T> {};

/* --- one f16 scale per row --- */

template <bool E2M1, kvg_dtype T> struct kvg_codec_symmetric {
    enum { BITS = 4, BLOCK = 0, PARAMS = 2 };
    typedef kvg_scalar<KVG_DTYPE_F16> half;

    struct extremes {
        float amax = 0;
        __device__ void add(float x) { amax = fabsf(x) > amax ? fabsf(x) : amax; } /* NaN is left out */
        __device__ void share(uint32_t lanes) { amax = kvg_among(lanes, amax, kvg_larger()); }
    };
    static __device__ kvg_row_state row(const extremes &of)
    {
        uint32_t scale = half::round(__fdiv_rn(of.amax, E2M1 ? 6.0f : 7.0f));
        if (scale == 0x7C00) scale = 0x7BFF;
        kvg_row_state s = params(scale);
        s.params = scale;
        return s;
    }
    static __device__ kvg_row_state params(uint32_t bytes)
    {
        kvg_row_state s = {};
        s.scale = half::widen((uint16_t)bytes);
        return s;
    }
    static __device__ kvg_divisor divisor(const kvg_row_state &s, uint32_t, float)
    {
        return kvg_divisor::of(s.scale);
    }
    static __device__ uint32_t encode(const kvg_row_state &, const kvg_divisor &scale, float x)
    {
        if (E2M1) return kvg_e2m1(scale.d == 0 && x == x ? copysignf(0, x) : scale.divide(x));
        const float q = rintf(scale.divide(x));
        if (q != q || scale.d == 0) return 8;
        return (uint32_t)(8 + (int)(q < -7 ? -7.0f : q > 7 ? 7.0f : q));
    }
    static __device__ typename kvg_scalar<T>::bits decode(const kvg_row_state &s, float, float, uint32_t code)
    {
        const float value = E2M1 ? kvg_e2m1_value(code) : (float)((int)code - 8);
        return kvg_scalar<T>::round(__fmul_rn(value, s.scale));
    }
};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_ROWINT4, T> : kvg_codec_symmetric<false, T> {};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_ROWFP4, T> : kvg_codec_symmetric<true, T> {};

#endif
