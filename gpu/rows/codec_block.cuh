/* What append stores of sixteen elements of a row, for formats without parameters of rows or groups
 * (docs/spec/formats.md sections 3, 4, 7 and 8). All lanes of a warp come together; what a fast way cannot do for one
 * of them, a NaN, an infinity, a dialect, all do the slow way.
 *
 *   BITS, BLOCK, PARAMS   of a code; elements of a block scale, 0 for none, or KVG_BLOCK_OF_RULE; bytes of row
 *                         parameters
 *   tensor                what follows from the tensor scale alone
 *   encode                the codes, and the byte of the block scale, or the two numbers of a group */
#ifndef KVG_GPU_ROWS_CODEC_BLOCK_CUH
#define KVG_GPU_ROWS_CODEC_BLOCK_CUH

#include "gpu/rows/codec_e2m1.cuh"
#include "gpu/rows/codec_nvfp4.cuh"

/* No state of the row. */
struct kvg_nothing {
    template <typename PIECE> __device__ void add(const PIECE &) {}
};

/* Tensor scale g, and what x or amax is divided by. */
struct kvg_tensor_scale {
    float g;
    kvg_divisor by;
    uint32_t neighbour; /* lanes between this one and the one with the other half of its 32 elements, as a mask */
};
static __device__ __forceinline__ kvg_tensor_scale kvg_plain_scale(float g)
{
    return {g, {}, 1};
}

template <kvg_format FORMAT, kvg_dtype T> struct kvg_encoder;

/* --- f16, bf16 --- */

template <kvg_dtype STORED, kvg_dtype T> struct kvg_encoder_wide {
    enum { BITS = 16, BLOCK = 0, PARAMS = 0 };
    typedef kvg_nothing row, extremes;
    static __device__ kvg_tensor_scale tensor(float g) { return kvg_plain_scale(g); }

    static __device__ __forceinline__ void encode(const kvg_row_rule &, const row &, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &, uint32_t *codes, uint32_t *)
    {
        typedef typename kvg_scalar<T>::bits bits;
#pragma unroll
        for (int i = 0; i < KVG_PIECE; i += 2) {
            const bits a = (bits)x.words[i / x.PER_WORD];
            const bits b = (bits)(x.words[(i + 1) / x.PER_WORD] >> 16 * (x.PER_WORD - 1));
            codes[i / 2] = kvg_convert<T, STORED>(a) | (uint32_t)kvg_convert<T, STORED>(b) << 16;
        }
    }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_F16, T> : kvg_encoder_wide<KVG_DTYPE_F16, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_BF16, T> : kvg_encoder_wide<KVG_DTYPE_BF16, T> {};

/* --- one scale per tensor --- */

template <__nv_fp8_interpretation_t KIND, kvg_dtype T> struct kvg_encoder_fp8 {
    enum { BITS = 8, BLOCK = 0, PARAMS = 0 };
    typedef kvg_nothing row, extremes;
    static __device__ kvg_tensor_scale tensor(float g) { return {g, kvg_divisor::of(g), 1}; }

    static __device__ __forceinline__ void encode(const kvg_row_rule &rule, const row &, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &t, uint32_t *codes, uint32_t *)
    {
        if (rule.encode_scale) {
            const float S = __fdiv_rn(1, t.g);
            four_by_four(x, codes, [=](float2 v) { return kvg_fp8_codes<KIND>(__fmul_rn(v.x, S), __fmul_rn(v.y, S)); });
            return;
        }
        const kvg_divisor by = t.by;
        const float g = t.g;
        if (__any_sync(0xFFFFFFFFu, !by.divides(x.amax_or_nan()))) {
            x.template one_by_one<8>(codes, [=](float v) { return kvg_fp8_codes<KIND>(__fdiv_rn(v, g), 0) & 0xFF; });
            return;
        }
#pragma unroll
        for (int i = 0; i < KVG_PIECE / 4; i++) {
            const float2 a = x.two_magnitudes(2 * i), b = x.two_magnitudes(2 * i + 1);
            const uint32_t low = kvg_fp8_codes<KIND>(by.divide(a.x), by.divide(a.y));
            codes[i] = low | (uint32_t)kvg_fp8_codes<KIND>(by.divide(b.x), by.divide(b.y)) << 16 | x.byte_signs(i);
        }
    }

private:
    template <typename PAIR>
    static __device__ __forceinline__ void four_by_four(const kvg_piece<T> &x, uint32_t *codes, PAIR pair)
    {
#pragma unroll
        for (int i = 0; i < KVG_PIECE / 4; i++) codes[i] = pair(x.two(2 * i)) | (uint32_t)pair(x.two(2 * i + 1)) << 16;
    }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_E4M3, T> : kvg_encoder_fp8<__NV_E4M3, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_E5M2, T> : kvg_encoder_fp8<__NV_E5M2, T> {};

/* --- E2M1 in blocks with a power of two --- */

/* The byte of a block, section 7. */
static __device__ __forceinline__ uint32_t kvg_mx_byte(const kvg_mx_rule &rule, float amax, bool has_nan)
{
    const uint32_t bits = __float_as_uint(amax);
    if (amax == 0 || (rule.special_is_zero && (has_nan || bits == 0x7F800000u))) return rule.zero_byte;
    if (bits == 0x7F800000u) return 254;
    const int k = (int)(bits >> 23) - 127; /* subnormals: -127, and every rule then ends below byte 0 */
    const int e = k + rule.low + ((bits & 0x7FFFFF) > rule.split ? 1 : 0), least = e < rule.least ? rule.least : e;
    return least < -127 ? 0 : (uint32_t)(least + 127);
}

/* The same by rule ceil6: amax less half of its power of two is at most that power if and only if m <= 1.5. */
static __device__ __forceinline__ uint32_t kvg_mx_byte_ceil6(float amax)
{
    const uint32_t bits = __float_as_uint(amax), lowered = bits < 0x00C00000u ? 0x00800000u : bits - 0x00400000u;
    const uint32_t byte = kvg_e8m0_ceil(__uint_as_float(lowered));
    return bits == 0x7F800000u ? 254 : byte < 2 ? 0 : byte - 2;
}

template <int BLOCK_SIZE, kvg_dtype T> struct kvg_encoder_mx {
    enum { BITS = 4, BLOCK = BLOCK_SIZE, PARAMS = 0 };
    typedef kvg_nothing row, extremes;
    static __device__ kvg_tensor_scale tensor(float g) { return kvg_plain_scale(g); }

    static __device__ __forceinline__ void encode(const kvg_row_rule &rule, const row &, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &t, uint32_t *codes, uint32_t *byte)
    {
        const float amax = of_block(x.amax_or_nan(), t.neighbour, kvg_larger_or_nan);
        if (__any_sync(0xFFFFFFFFu, !(amax < INFINITY) || !rule.canonical)) {
            const bool has_nan = amax != amax;
            *byte = kvg_mx_byte(rule.mx, of_block(x.amax(), t.neighbour, fmaxf), has_nan);
            const float factor = rule.mx.byte0_is_zero && *byte == 0 ? 0 : kvg_e8m0_value(254 - *byte);
            x.template one_by_one<4>(codes, [=](float v) {
                return kvg_e2m1_by(rule.e2m1, __fmul_rn(v, factor), v, v); /* too small for f32: the sign is v's */
            });
            return;
        }
        *byte = kvg_mx_byte_ceil6(amax);
        const float factor = kvg_e8m0_value(254 - *byte); /* exact, or the product is too small to matter */
        for (int i = 0; i < 2; i++) codes[i] = kvg_e2m1_octet(x, i, [=](float v) { return __fmul_rn(v, factor); });
    }

private:
    template <typename PICK> static __device__ __forceinline__ float of_block(float amax, uint32_t neighbour, PICK pick)
    {
        if (BLOCK == KVG_PIECE) return amax;
        return pick(amax, __shfl_sync(0xFFFFFFFFu, amax, threadIdx.x ^ neighbour)); /* in two lanes */
    }
};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_MX16, T> : kvg_encoder_mx<16, T> {};
template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_MXFP4, T> : kvg_encoder_mx<32, T> {};

/* --- E2M1 in blocks with an E4M3 scale, one scale per tensor --- */

template <kvg_dtype T> struct kvg_encoder<KVG_FORMAT_NVFP4, T> {
    enum { BITS = 4, BLOCK = 16, PARAMS = 0 };
    typedef kvg_nothing row, extremes;
    /* By NaN where a block's scale times g may be nothing that of_or_zero takes: it makes every block's scale NaN. */
    static __device__ kvg_tensor_scale tensor(float g)
    {
        const bool moderate = g > 0x1p-50f && g < 0x1p50f;
        return {g, kvg_divisor::of(moderate ? __fmul_rn(6, g) : NAN), 1};
    }

    static __device__ __forceinline__ void encode(const kvg_row_rule &rule, const row &, const kvg_piece<T> &x,
                                                  const kvg_tensor_scale &t, uint32_t *codes, uint32_t *byte)
    {
        const float amax = x.amax_or_nan();
        *byte = kvg_fp8_codes<__NV_E4M3>(t.by.divide(amax), 0) & 0xFF;
        const kvg_divisor by = kvg_divisor::of_or_zero(__fmul_rn(kvg_fp8_pair<__NV_E4M3>((uint16_t)*byte).x, t.g));
        if (kvg_e2m1_quotients(x, by, amax, rule.canonical, codes)) return;
        const kvg_nvfp4_block block(rule.nvfp4, x.amax(), amax != amax, t.g);
        *byte = block.byte;
        x.template one_by_one<4>(codes, [=](float v) {
            return kvg_e2m1_by(rule.e2m1, block.scaled(v), v, block.scaled(v));
        });
    }
};

#endif
