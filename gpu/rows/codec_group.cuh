/* What append stores of sixteen elements of a row, for MLX's formats, whose groups of 32, 64 or 128 elements have a
 * scale and a bias in T (docs/spec/formats.md section 11). The lanes of a group lie side by side. The rest is as
 * codec_block.cuh says. */
#ifndef KVG_GPU_ROWS_CODEC_GROUP_CUH
#define KVG_GPU_ROWS_CODEC_GROUP_CUH

#include "gpu/rows/codec_row.cuh"

template <int LARGEST, kvg_dtype T> struct kvg_encoder_mlx {
    enum { BITS = LARGEST == 15 ? 4 : 8, BLOCK = KVG_BLOCK_OF_RULE, PARAMS = 0 };
    typedef kvg_nothing row, extremes;
    typedef kvg_scalar<T> model;

    static __device__ kvg_tensor_scale tensor(float g) { return kvg_plain_scale(g); }

    static __device__ __forceinline__ void encode(const kvg_row_rule &rule, const row &, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &, uint32_t *codes, uint32_t *params)
    {
        float low = INFINITY, high = rule.metal ? 0 : -INFINITY; /* NaN is left out */
#pragma unroll
        for (int i = 0; i < KVG_PIECE / 2; i++) {
            const float2 v = x.two(i);
            low = fminf(low, fminf(v.x, v.y)), high = fmaxf(high, fmaxf(v.x, v.y));
        }
        low = kvg_among(rule.block / KVG_PIECE, low, fminf);
        high = kvg_among(rule.block / KVG_PIECE, high, fmaxf);
        const bool metal = rule.metal, below = fabsf(low) > fabsf(high);
        const float range = __fdiv_rn(__fsub_rn(high, low), LARGEST), least = range < 1e-7f ? 1e-7f : range;
        const float edge = below ? low : high, steps = round(metal, __fdiv_rn(edge, below ? least : -least));
        float s = below ? least : -least, bias = 0;
        if (steps != 0) s = __fdiv_rn(edge, steps), bias = edge;
        *params = bits(s) | bits(bias) << 16;
#pragma unroll
        for (int i = 0; i < KVG_PIECE * BITS / 32; i++) {
            codes[i] = 0;
#pragma unroll
            for (int j = 0; j < 32 / BITS; j += 2) {
                const float2 v = x.two((i * (32 / BITS) + j) / 2);
                codes[i] |= code(metal, v.x, bias, s) << j * BITS | code(metal, v.y, bias, s) << (j + 1) * BITS;
            }
        }
    }

private:
    static __device__ __forceinline__ float round(bool metal, float v) { return metal ? roundf(v) : rintf(v); }
    static __device__ __forceinline__ uint32_t code(bool metal, float v, float bias, float s)
    {
        const float q = round(metal, __fdiv_rn(__fsub_rn(v, bias), s));
        return (uint32_t)fminf(fmaxf(q, 0), LARGEST); /* NaN: 0 */
    }
    static __device__ __forceinline__ uint32_t bits(float v) { return v == v ? model::round(v) : 0x7FFF; }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_MLX4, T> : kvg_encoder_mlx<15, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_MLX8, T> : kvg_encoder_mlx<255, T> {};

#endif
