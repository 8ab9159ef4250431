/* What append stores of sixteen elements of a row, for formats with one scale of a row (docs/spec/formats.md
 * sections 6, 12 and 13). The rest is as codec_row.cuh says. */
#ifndef KVG_GPU_ROWS_CODEC_ROW_SCALE_CUH
#define KVG_GPU_ROWS_CODEC_ROW_SCALE_CUH

#include "gpu/rows/codec_row.cuh"

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
