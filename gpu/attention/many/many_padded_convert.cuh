/* From a raw tile of padded rows (many_padded.cuh) to 16-bit operands (docs/spec/decode-contract.md
 * section 2). */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_PADDED_CONVERT_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_PADDED_CONVERT_CUH

#include "gpu/attention/many/many_convert.cuh"
#include "gpu/attention/many/many_padded.cuh"

/* Segments of docs/spec/decode-contract.md section 4: work(segment's first place, its width) for one
 * after the other, the width as a constant. Example: 80 elements of 4 bits are (0, 64) and (64, 16). */
template <int BITS, class WORK>
static __device__ __forceinline__ void many_each_segment(uint32_t dim, const WORK &work)
{
    constexpr uint32_t WIDEST = 512 / BITS;
    uint32_t at = 0;
#pragma unroll 1
    for (; at + WIDEST <= dim; at += WIDEST) work(at, std::integral_constant<int, WIDEST>());
    if constexpr (WIDEST > 64) {
        if (at + 64 <= dim) work(at, std::integral_constant<int, 64>()), at += 64;
    }
    if constexpr (WIDEST > 32) {
        if (at + 32 <= dim) work(at, std::integral_constant<int, 32>()), at += 32;
    }
    if (at < dim) work(at, std::integral_constant<int, 16>());
}

/* The lane's row of a raw tile. */
template <class ROW> struct many_padded_codes {
    typedef typename ROW::SIDE SIDE;
    uint32_t codes, scales; /* addresses */
    uint32_t quarter;       /* of the scales of a row, if they are in groups of four tokens; else 0 */
    bool is;                /* whether the token is there */

    /* Where the scale of a block is. In groups (docs/spec/layouts.md) byte s of token t is byte
     * s mod (S / 4) * 4 + t mod 4 of row t - t mod 4 + s div (S / 4). */
    __device__ __forceinline__ uint32_t scale_at(uint32_t block, uint32_t lane) const
    {
        if (!quarter) return scales + block;
        return scales - lane % 4 * SIDE::SCALES + block / quarter * SIDE::SCALES + block % quarter * 4 + lane % 4;
    }
    /* For eight elements from element `first` on. */
    __device__ __forceinline__ kvg_multiplier multiplier(uint32_t first, uint32_t lane) const
    {
        uint32_t scale;
        if constexpr (SIDE::OPERAND == KVG_OPERAND_AFFINE) {
            kvg_load_shared<4>(&scale, scales);
            return {__byte_perm(scale, 0, 0x1010), __byte_perm(scale, 0, 0x3232)};
        } else if constexpr (SIDE::BLOCK > 0) {
            kvg_load_shared<1>(&scale, scale_at(first / SIDE::PER_BLOCK, lane));
            const kvg_multiplier two = kvg_block_scales<SIDE, SIDE::POWERS>(is ? scale : 0, false);
            return {kvg_half_twice(two.scale, false), kvg_half_twice(two.other, false)};
        } else {
            return {0x74007400u, 0}; /* 2^14 undoes how e2m1 is unpacked */
        }
    }
    __device__ __forceinline__ void unpack(const kvg_factors &k, const uint32_t *words, uint32_t first, uint32_t lane,
                                           uint32_t *pairs) const
    {
        kvg_unpack<SIDE, false, SIDE::POWERS>(k, words, multiplier(first, lane), pairs);
    }
};

/* A raw tile to a stage. Tokens that are not there have codes of 0, and parameters of rows of 0. */
template <int WHICH, bool SHARED_ROW, kvg_format FORMAT, kvg_dtype T, int DIM>
static __device__ __forceinline__ void many_convert(many_padded_row<FORMAT, T, DIM>, const many_args &a,
                                                    bool is, uint32_t raw, uint32_t to, uint32_t row_scales,
                                                    int lane)
{
    typedef many_padded_row<FORMAT, T, DIM> ROW;
    typedef typename ROW::SIDE SIDE;
    const kvg_factors &k = a.d.factors;
    const bool grouped = WHICH == KVG_V && kvg_can_group<SIDE> && a.d.v_swizzle;
    const many_padded_codes<ROW> row = {raw + lane * ROW::PITCH, raw + ROW::SCALES + lane * SIDE::SCALES,
                                        grouped ? a.out_dim / SIDE::PER_BLOCK / 4 : 0, is};
    if constexpr (SIDE::ROW_SCALE) {
        uint32_t stored;
        kvg_load_shared<2>(&stored, row.scales);
        const uint32_t scale = __float_as_uint(__half2float(__ushort_as_half((uint16_t)stored)));
        kvg_store_shared<4>(row_scales + lane * 4, &scale);
    }
    if constexpr (WHICH == KVG_V) {
        constexpr uint32_t EIGHTS = 16 / SIDE::BITS; /* in 16 bytes; those beyond the row are padding */
#pragma unroll 2
        for (uint32_t first = 0; first < a.out_dim; first += EIGHTS * 8) {
            uint32_t codes[4];
            kvg_load_shared<16>(codes, row.codes + first * SIDE::BITS / 8);
#pragma unroll
            for (uint32_t i = 0; i < EIGHTS; i++) {
                uint32_t pairs[4];
                row.unpack(k, codes + i * SIDE::WORD_REGISTERS, first + i * 8, lane, pairs);
                kvg_store_shared<16>(to + many_place_of(lane, (first + i * 8) * 2), pairs);
            }
        }
    } else {
        many_each_segment<SIDE::BITS>(a.out_dim, [&](uint32_t segment, auto width) {
            constexpr int OF_LANE = decltype(width)::value / 4, BYTES = OF_LANE * SIDE::BITS / 8;
            uint32_t codes[4][BYTES < 8 ? 2 : BYTES / 4] = {};
#pragma unroll
            for (int c = 0; c < 4; c++) {
                kvg_load_shared<BYTES>(codes[c], row.codes + (segment + c * OF_LANE) * SIDE::BITS / 8);
                /* Four nibbles are unpacked as nibbles 0, 1, 4 and 5 of eight: as pairs (0, 2) and (1, 3). */
                if constexpr (BYTES == 2) codes[c][0] = (codes[c][0] & 0xFF) | codes[c][0] >> 8 << 16;
            }
#pragma unroll
            for (int j = 0; j < OF_LANE; j += 8) { /* two sums; one in a segment of 16 */
                uint32_t pairs[4][4];
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    row.unpack(k, codes[c] + j / 8 * SIDE::WORD_REGISTERS, segment + c * OF_LANE + j, lane,
                               pairs[c]);
                    if constexpr (BYTES == 2) pairs[c][1] = pairs[c][2];
                }
                many_put_sum(to, lane, (segment + j * 4) / MANY_SUM, pairs, 0);
                if constexpr (OF_LANE >= 8) many_put_sum(to, lane, (segment + j * 4) / MANY_SUM + 1, pairs, 2);
            }
        });
    }
}

#endif
