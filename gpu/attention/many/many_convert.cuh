/* From a raw tile of a side to 16-bit operands (docs/spec/decode-contract.md section 2) in the places
 * that many_multiply.cuh describes. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_CONVERT_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_CONVERT_CUH

#include "gpu/attention/many/many_multiply.cuh"
#include "gpu/attention/many/many_source.cuh"

/* The scales, or parameters, of a row. */
template <class SIDE, bool WIDE> struct many_scales {
    static constexpr int WORDS = SIDE::SCALES > 4 ? SIDE::SCALES / 4 : 1;
    uint32_t words[WORDS];

    /* For eight elements from element `first` on. */
    __device__ __forceinline__ kvg_multiplier of(int first) const
    {
        if constexpr (SIDE::OPERAND == KVG_OPERAND_AFFINE) {
            return {__byte_perm(words[0], 0, 0x1010), __byte_perm(words[0], 0, 0x3232)};
        } else if constexpr (SIDE::BLOCK > 0) {
            const int block = first / SIDE::PER_BLOCK;
            const kvg_multiplier two = kvg_block_scales<SIDE, WIDE>(words[block / 4], block / 2 % 2);
            return {kvg_half_twice(two.scale, block % 2), WIDE ? kvg_half_twice(two.other, block % 2) : 0};
        } else {
            return {0x74007400u, 0}; /* 2^14 undoes how e2m1 is unpacked */
        }
    }
};

/* The pairs of lanes 0 ... 3 of docs/spec/decode-contract.md section 4 to sum `sum` of a row: each
 * lane's from pair `first` on. */
template <int PAIRS>
static __device__ __forceinline__ void many_put_sum(uint32_t to, uint32_t row, uint32_t sum,
                                                    const uint32_t (&pairs)[4][PAIRS], int first)
{
#pragma unroll
    for (uint32_t i = 0; i < 8; i += 4) {
        const uint32_t chunk = 2 * sum + i / 4;
        uint32_t four[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) four[j] = pairs[many_lane_of(i + j)][first + many_pair_of(i + j)];
        kvg_store_shared<16>(to + chunk / 8 * MANY_PART_BYTES + many_place(row, chunk % 8), four);
    }
}

/* A row of K. A segment's lanes 0 ... 3 of docs/spec/decode-contract.md section 4 are this lane's four
 * turns: each gives four elements, in two pairs, to either of two sums. */
template <class SIDE, bool WIDE>
static __device__ __forceinline__ void many_put_k(const kvg_factors &k, uint32_t raw, uint32_t to,
                                                  const many_scales<SIDE, WIDE> &scales, int lane)
{
    constexpr int LANE_BYTES = SIDE::SEGMENT / 4 * SIDE::BITS / 8;
#pragma unroll
    for (int segment = 0; segment < SIDE::SEGMENTS; segment++) {
        uint32_t codes[4][LANE_BYTES / 4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const uint32_t at = SIDE::ROW == 32 ? SIDE::place(lane, c / 2) + c % 2 * 8
                                                : SIDE::place(lane, segment % 2 * 4 + c) + segment / 2 * 128;
            kvg_load_shared<LANE_BYTES>(codes[c], raw + at);
        }
#pragma unroll
        for (int j = 0; j < SIDE::WORDS; j++) {
            uint32_t pairs[4][4];
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int first = segment * SIDE::SEGMENT + c * (SIDE::SEGMENT / 4) + j * 8;
                kvg_unpack<SIDE, false, WIDE>(k, codes[c] + j * SIDE::WORD_REGISTERS, scales.of(first), pairs[c]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                many_put_sum(to, lane, (segment * SIDE::WORDS + j) * 2 + i, pairs, 2 * i);
            }
        }
    }
}

/* A row of V: chunk after chunk of eight dims, in the order in which codes are unpacked. */
template <class SIDE, bool WIDE>
static __device__ __forceinline__ void many_put_v(const kvg_factors &k, uint32_t raw, uint32_t to,
                                                  const many_scales<SIDE, WIDE> &scales, int lane)
{
    constexpr int EIGHTS = 16 / SIDE::BITS; /* chunks of eight dims in 16 bytes */
#pragma unroll
    for (int chunk = 0; chunk < SIDE::CHUNKS; chunk++) {
        uint32_t codes[4];
        kvg_load_shared<16>(codes, raw + SIDE::place(lane, chunk % 8) + chunk / 8 * 128);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            const int eight = chunk * EIGHTS + i;
            uint32_t pairs[4];
            kvg_unpack<SIDE, false, WIDE>(k, codes + i * SIDE::WORD_REGISTERS, scales.of(eight * 8), pairs);
            kvg_store_shared<16>(to + eight / 8 * MANY_PART_BYTES + many_place(lane, eight % 8), pairs);
        }
    }
}

/* A part of a raw tile to a stage. `is`: whether the lane's token is there. */
template <int WHICH, bool SHARED_ROW, class SIDE, int FROM, int FIRST>
static __device__ __forceinline__ void many_convert(many_part<SIDE, FROM, FIRST>, const many_args &a, bool is,
                                                    uint32_t raw, uint32_t to, uint32_t row_scales, int lane)
{
    typedef many_part<SIDE, FROM, FIRST> PART;
    const auto put = [&](auto wide, const uint32_t *words) {
        constexpr bool WIDE = decltype(wide)::value;
        many_scales<SIDE, WIDE> scales;
#pragma unroll
        for (int i = 0; i < many_scales<SIDE, WIDE>::WORDS; i++) scales.words[i] = words[i];
        const uint32_t codes = raw + PART::RAW, operands = to + PART::STAGE;
        if constexpr (WHICH == KVG_K || SHARED_ROW) {
            many_put_k<SIDE, WIDE>(a.d.factors, codes, operands, scales, lane);
        } else {
            many_put_v<SIDE, WIDE>(a.d.factors, codes, operands, scales, lane);
        }
    };
    if constexpr (SIDE::SCALES == 0) {
        const uint32_t none[1] = {};
        put(std::false_type(), none);
    } else {
        const uint32_t at = raw + PART::RAW_SCALES;
        constexpr int WORDS = many_scales<SIDE, false>::WORDS;
        uint32_t words[WORDS];
        if constexpr (WHICH == KVG_V && kvg_can_group<SIDE>) {
            if (a.d.v_swizzle) kvg_ungroup_scales<SIDE::SCALES>(at, lane);
        }
        kvg_load_shared<SIDE::SCALES>(words, at + lane * SIDE::SCALES);
        /* A power of two that unpacking takes for 0; else a scale, or parameters, of 0. */
        constexpr uint32_t NONE = SIDE::POWERS ? 0x67676767u : 0;
#pragma unroll
        for (int i = 0; i < WORDS; i++) words[i] = is ? words[i] : NONE;
        if constexpr (SIDE::ROW_SCALE) {
            const uint32_t scale = __float_as_uint(__half2float(__ushort_as_half((uint16_t)words[0])));
            kvg_store_shared<4>(row_scales + lane * 4, &scale);
        }
        if constexpr (SIDE::POWERS) {
            if (SIDE::SCALES == 2) words[0] |= 0x67670000u;
            uint32_t near = ~0u; /* kvg_are_near */
#pragma unroll
            for (int i = 0; i < WORDS; i++) near &= (words[i] + 0x79797979u) & (words[i] + 0x7A7A7A7Au);
            if (!__all_sync(~0u, (~near & 0xE0E0E0E0u) == 0)) {
                put(std::true_type(), words);
                return;
            }
        }
        put(std::false_type(), words);
    }
}

#endif
