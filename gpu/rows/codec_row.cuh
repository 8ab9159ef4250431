/* What append stores of sixteen elements of a row, for formats whose parameters belong to a row (docs/spec/formats.md
 * sections 5, 6, 12 and 13). The lanes of a row agree on `extremes`; `row` is what follows from them. The rest is as
 * codec_block.cuh says. */
#ifndef KVG_GPU_ROWS_CODEC_ROW_CUH
#define KVG_GPU_ROWS_CODEC_ROW_CUH

#include "gpu/rows/codec_block.cuh"

/* x of `count` (a power of two) neighbouring lanes of the warp, all of which come here. */
template <typename VALUE, typename PICK> __device__ __forceinline__ VALUE kvg_among(uint32_t count, VALUE x, PICK pick)
{
    for (uint32_t step = count / 2; step > 0; step /= 2) x = pick(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    return x;
}

/* --- affine: two parameters in T --- */

template <int LARGEST, kvg_dtype T> struct kvg_encoder_affine {
    enum { BITS = LARGEST == 15 ? 4 : 8, BLOCK = 0, PARAMS = 4 };
    typedef kvg_scalar<T> model;
    typedef typename model::bits bits;

    static __device__ kvg_tensor_scale tensor(float g) { return kvg_plain_scale(g); }

    struct extremes {
        uint32_t least = 0x10001u * (uint32_t)model::INF, most = 0x80008000u | least; /* pairs of T; NaN is left out */

        __device__ void add(const kvg_piece<T> &x)
        {
#pragma unroll
            for (int i = 0; i < x.WORDS; i++) {
                least = model::min2(least, x.words[i]);
                most = model::max2(most, x.words[i]);
            }
        }
        __device__ void share(uint32_t lanes)
        {
            least = kvg_among(lanes, model::min2(least, __byte_perm(least, 0, 0x1032)), model::min2);
            most = kvg_among(lanes, model::max2(most, __byte_perm(most, 0, 0x1032)), model::max2);
        }
    };
    struct row {
        uint32_t params;
        uint32_t minimum, inverse; /* pairs of T */
        float s, zero;             /* pytorch, not rounded to T */

    };
    static __device__ row row_of(const kvg_row_rule &rule, const extremes &of)
    {
        const float least = model::widen((bits)of.least), most = model::widen((bits)of.most);
        const float range = __fsub_rn(most, least), step = __uint_as_float(LARGEST == 15 ? 0x3D888889u : 0x3B808081u);
        row r = {};
        if (rule.affine == KVG_AFFINE_PYTORCH) {
            r.s = __fdiv_rn(range, LARGEST);
            r.zero = __fdiv_rn(-least, r.s);
            r.params = model::round(r.s) | (uint32_t)model::round(r.zero) << 16;
        } else {
            const bits scale = model::round(__fmul_rn(range, step));
            r.minimum = of.least;
            r.inverse = model::twice(model::round(__fdiv_rn(1, model::widen(scale))));
            r.params = scale | r.minimum << 16;
        }
        return r;
    }

    /* Of a row that lies in the pieces of `lanes` lanes. */
    static __device__ __forceinline__ row row_of_pieces(const kvg_row_rule &rule, uint32_t lanes, const kvg_piece<T> &x)
    {
        extremes of;
        of.add(x);
        of.share(lanes);
        return row_of(rule, of);
    }

    static __device__ __forceinline__ void encode(const kvg_row_rule &rule, const row &r, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &, uint32_t *codes, uint32_t *)
    {
        uint32_t q[KVG_PIECE / 4]; /* a byte each */
        if (rule.affine == KVG_AFFINE_PYTORCH) {
            x.template one_by_one<8>(q, [=](float v) {
                const float n = __fadd_rn(__fadd_rn(__fdiv_rn(v, r.s), r.zero), 0.5f);
                return n > 0 ? n < LARGEST ? (uint32_t)n : LARGEST : 0; /* NaN: 0 */
            });
        } else {
#pragma unroll
            for (int i = 0; i < KVG_PIECE / 4; i++) q[i] = four(r, x.words[2 * i], x.words[2 * i + 1]);
        }
        for (int i = 0; i < KVG_PIECE * BITS / 32; i++) {
            const uint32_t low = q[2 * i % 4], high = q[(2 * i + 1) % 4];
            if (BITS == 8) codes[i] = q[i];
            else if (rule.affine == KVG_AFFINE_PYTORCH) codes[i] = q[i] | q[(i + 2) % 4] << 4; /* in halves */
            else codes[i] = __byte_perm(low, high, 0x5140) | __byte_perm(low, high, 0x7362) << 4; /* 0 2 4 6 1 3 5 7 */
        }
    }

private:
    /* RN_T(RN_T(x - min) inv) in 0 ... n, NaN 0: a sum with a power of two rounds it to an integer in the last bits. */
    static __device__ __forceinline__ uint32_t four(const row &r, uint32_t low, uint32_t high)
    {
        constexpr uint32_t n = 0x10001u * (LARGEST == 15 ? model::FIFTEEN : model::N255);
        constexpr bool wide = T == KVG_DTYPE_F16 || LARGEST == 15; /* T has bits enough for the sum */
        low = model::min2(model::max2(model::mul2(model::sub2(low, r.minimum), r.inverse), 0), n);
        high = model::min2(model::max2(model::mul2(model::sub2(high, r.minimum), r.inverse), 0), n);
        if (wide) {
            constexpr uint32_t power = 0x10001u * (T == KVG_DTYPE_F16 ? 0x6400 : 0x4300); /* 2^10, 2^7 */
            return __byte_perm(model::add2(low, power), model::add2(high, power), 0x6420);
        }
        const float2 a = model::widen2(low), b = model::widen2(high);
        return __byte_perm(__byte_perm(integer(a.x), integer(a.y), 0x0040),
                           __byte_perm(integer(b.x), integer(b.y), 0x0040), 0x5410);
    }
    static __device__ __forceinline__ uint32_t integer(float x) { return __float_as_uint(__fadd_rn(x, 0x1p23f)); }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_INT8, T> : kvg_encoder_affine<255, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_INT4, T> : kvg_encoder_affine<15, T> {};

/* --- one scale per row --- */

template <kvg_dtype T> struct kvg_row_amax {
    float amax = 0; /* NaN is left out */

    __device__ void add(const kvg_piece<T> &x) { amax = fmaxf(amax, x.amax()); }
    __device__ void share(uint32_t lanes) { amax = kvg_among(lanes, amax, fmaxf); }

    /* Of a row that lies in the pieces of `lanes` lanes. NaN is left out only where there is one. */
    static __device__ __forceinline__ kvg_row_amax of_pieces(uint32_t lanes, const kvg_piece<T> &x)
    {
        kvg_row_amax of = {kvg_among(lanes, x.amax_or_nan(), kvg_larger_or_nan)};
        if (__any_sync(0xFFFFFFFFu, of.amax != of.amax)) of.amax = kvg_among(lanes, x.amax(), fmaxf);
        return of;
    }
};

/* In f16. */
template <bool E2M1, kvg_dtype T> struct kvg_encoder_symmetric {
    enum { BITS = 4, BLOCK = 0, PARAMS = 2 };
    typedef kvg_scalar<KVG_DTYPE_F16> half;
    typedef kvg_row_amax<T> extremes;

    static __device__ kvg_tensor_scale tensor(float g) { return kvg_plain_scale(g); }

    struct row {
        uint32_t params;
        float scale;
    };
    static __device__ row row_of(const kvg_row_rule &rule, const extremes &of)
    {
        const float amax = rule.linear && of.amax < 1e-8f ? 1e-8f : of.amax;
        uint32_t params = half::round(amax < INFINITY ? kvg_divisor::by_integer(E2M1 ? 6 : 7).divide(amax) : amax);
        if (params == half::INF) params--; /* 65504 */
        return {params, half::widen((uint16_t)params)};
    }

    static __device__ __forceinline__ row row_of_pieces(const kvg_row_rule &rule, uint32_t lanes, const kvg_piece<T> &x)
    {
        return row_of(rule, extremes::of_pieces(lanes, x));
    }

    static __device__ __forceinline__ void encode(const kvg_row_rule &rule, const row &r, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &, uint32_t *codes, uint32_t *)
    {
        const kvg_divisor by = kvg_divisor::of_or_zero(r.scale);
        const float scale = r.scale, amax = x.amax_or_nan();
        if constexpr (E2M1) {
            if (kvg_e2m1_quotients(x, by, amax, rule.canonical, codes)) return;
        } else if (!__any_sync(0xFFFFFFFFu, !by.divides(amax) || !rule.canonical)) {
            for (int i = 0; i < 2; i++) codes[i] = eight(x, i, by);
            return;
        }
        x.template one_by_one<4>(codes, [=](float v) {
            if (!E2M1) return integer(__fdiv_rn(v, scale), scale, 7);
            if (rule.linear) return integer(__fmul_rn(__fdiv_rn(v, scale), 2), scale, 8);
            const float quotient = scale == 0 && v == v ? copysignf(0, v) : __fdiv_rn(v, scale);
            return kvg_e2m1_by(rule.e2m1, quotient, v, quotient);
        });
    }

private:
    /* 8 + q, q to the nearest integer, ties to even, from -least to 7; NaN and scale 0: 8. */
    static __device__ uint32_t integer(float v, float scale, int least)
    {
        if (v != v || scale == 0) return 8;
        return (uint32_t)(8 + __float2int_rn(fminf(fmaxf(v, (float)-least), 7)));
    }
    /* The same of eight elements: the sum with 1.5 * 2^23 + 8 has 8 + q in its last bits. */
    static __device__ __forceinline__ uint32_t eight(const kvg_piece<T> &x, int i, const kvg_divisor &by)
    {
        uint32_t codes = 0;
#pragma unroll
        for (int j = 3; j >= 0; j--) {
            const float2 v = x.two(4 * i + j);
            codes = codes * 256 + nibble(by.divide(v.y)) * 16 + nibble(by.divide(v.x));
        }
        return codes - 0x3F400000u; /* the bits of 1.5 * 2^23, eight times */
    }
    static __device__ __forceinline__ uint32_t nibble(float v)
    {
        return __float_as_uint(__fadd_rn(fminf(fmaxf(v, -7), 7), 0x1.8p23f + 8));
    }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_ROWINT4, T> : kvg_encoder_symmetric<false, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_ROWFP4, T> : kvg_encoder_symmetric<true, T> {};

/* In f32, as vLLM has it: integers, or E4M3. */
template <bool E4M3, kvg_dtype T> struct kvg_encoder_token_head {
    enum { BITS = 8, BLOCK = 0, PARAMS = 4 };
    typedef kvg_row_amax<T> extremes;

    static __device__ kvg_tensor_scale tensor(float g) { return kvg_plain_scale(g); }

    struct row {
        uint32_t params;
        float inverse;
    };
    static __device__ row row_of(const kvg_row_rule &, const extremes &of)
    {
        const float scale = fmaxf(__fdiv_rn(of.amax, E4M3 ? 448 : 127), 1e-6f);
        return {__float_as_uint(scale), __fdiv_rn(1, scale)};
    }
    static __device__ __forceinline__ row row_of_pieces(const kvg_row_rule &rule, uint32_t lanes, const kvg_piece<T> &x)
    {
        return row_of(rule, extremes::of_pieces(lanes, x));
    }

    static __device__ __forceinline__ void encode(const kvg_row_rule &, const row &r, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &, uint32_t *codes, uint32_t *)
    {
#pragma unroll
        for (int i = 0; i < KVG_PIECE / 4; i++) codes[i] = pair(r, x.two(2 * i)) | pair(r, x.two(2 * i + 1)) << 16;
    }

private:
    static __device__ __forceinline__ uint32_t pair(const row &r, float2 x)
    {
        const float a = __fmul_rn(x.x, r.inverse), b = __fmul_rn(x.y, r.inverse);
        if (E4M3) return kvg_fp8_codes<__NV_E4M3>(a, b);
        return integer(a) | integer(b) << 8;
    }
    /* Halves go away from zero; NaN: 0. */
    static __device__ __forceinline__ uint32_t integer(float y)
    {
        const int q = __float2int_rz(__fadd_rn(y, copysignf(0.5f, y)));
        return (uint32_t)min(max(q, -128), 127) & 0xFF;
    }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_INT8_TOKEN_HEAD, T> : kvg_encoder_token_head<false, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_FP8_TOKEN_HEAD, T> : kvg_encoder_token_head<true, T> {};

#endif
