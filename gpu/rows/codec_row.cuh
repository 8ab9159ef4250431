/* What append stores of sixteen elements of a row, for formats with two affine parameters of a row
 * (docs/spec/formats.md section 5). The lanes of a row agree on `extremes`; `row` is what follows from them. The rest
 * is as codec_block.cuh says. */
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

#endif
