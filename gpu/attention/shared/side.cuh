/* One side (K or V) of op decode at compile time: how a format's rows lie in shared memory, and which operands they
 * become (docs/spec/decode-contract.md section 2). */
#ifndef KVG_GPU_ATTENTION_SHARED_SIDE_CUH
#define KVG_GPU_ATTENTION_SHARED_SIDE_CUH

#include <cstdint>

#include "core/attention.h"
#include "core/format.h"

enum kvg_operand {
    KVG_OPERAND_CODE,   /* the 16 bits that are stored */
    KVG_OPERAND_FP8,    /* 8 bits of floating point */
    KVG_OPERAND_AFFINE, /* an integer, times a scale of the row, plus a minimum */
    KVG_OPERAND_E2M1,   /* e2m1 alone, or times a block's scale */
    KVG_OPERAND_INT,    /* a nibble less 8 */
};

template <kvg_format FORMAT> struct kvg_stored;
#define FORMAT(ENUM, name, id, bits, codes, block, scale_bytes, param_bytes, scales, tensor_scale, summary) \
    template <> struct kvg_stored<KVG_FORMAT_##ENUM> {                                                      \
        static constexpr int BITS = bits, BLOCK = block, BLOCK_BYTES = scale_bytes, PARAMS = param_bytes;   \
        static constexpr int PER_BLOCK = block > 0 ? block : 1;                                             \
        static constexpr bool TENSOR_SCALE = tensor_scale;                                                  \
    };
#include "core/formats.def"
#undef FORMAT

template <kvg_format FORMAT_, kvg_dtype T_, int DIM_> struct kvg_side_of : kvg_stored<FORMAT_> {
    typedef kvg_stored<FORMAT_> stored;
    static constexpr kvg_format FORMAT = FORMAT_;
    static constexpr kvg_operand OPERAND =
        stored::BITS == 16 ? KVG_OPERAND_CODE
        : FORMAT == KVG_FORMAT_E4M3 || FORMAT == KVG_FORMAT_E5M2 ? KVG_OPERAND_FP8
        : FORMAT == KVG_FORMAT_INT8 || FORMAT == KVG_FORMAT_INT4 ? KVG_OPERAND_AFFINE
        : FORMAT == KVG_FORMAT_ROWINT4 ? KVG_OPERAND_INT : KVG_OPERAND_E2M1;
    static constexpr bool POWERS = FORMAT == KVG_FORMAT_MX16 || FORMAT == KVG_FORMAT_MXFP4; /* scales of E8M0 */
    static constexpr bool ROW_SCALE = FORMAT == KVG_FORMAT_ROWINT4 || FORMAT == KVG_FORMAT_ROWFP4;
    /* Operands of bf16; else f16. */
    static constexpr bool BF16 = OPERAND == KVG_OPERAND_CODE ? FORMAT == KVG_FORMAT_BF16
                                                             : OPERAND == KVG_OPERAND_AFFINE && T_ == KVG_DTYPE_BF16;
    static constexpr int DIM = DIM_, ROW = DIM * stored::BITS / 8; /* bytes of codes */
    static constexpr int SCALES = DIM / stored::PER_BLOCK * stored::BLOCK_BYTES + stored::PARAMS; /* of a row */
    static constexpr int CODES_STAGE = KVG_ATTENTION_TILE * ROW, SCALES_STAGE = KVG_ATTENTION_TILE * SCALES;
    static constexpr int CHUNKS = ROW / 16;
    /* V's block scales as f16, made once for all lanes (few_values.cuh): a pair per 32 dims for 16 pairs of tokens
     * and, of blocks of 16, for two kinds of lanes. */
    static constexpr int LANE_PAIRS = stored::BLOCK > 0 && DIM <= 128 ? DIM / 32 : 0;
    static constexpr int PAIRS_STAGE = 16 * LANE_PAIRS * 4 * (32 / stored::PER_BLOCK);
    /* Section 4: the dims of a row in segments, of each of which a lane has 16 bytes (8 where the row has 32), in words
     * of eight neighbouring places, two sums each. */
    static constexpr int SEGMENT = stored::BITS == 4 && DIM < 128 ? DIM : 512 / stored::BITS;
    static constexpr int SEGMENTS = DIM / SEGMENT, WORDS = SEGMENT / 32, WORD_REGISTERS = stored::BITS / 4;
    /* A copy takes up to 128 bytes of a row: lanes of a row, rows of a copy, copies of a tile's rows. */
    static constexpr int PART = ROW < 128 ? ROW : 128, ROW_LANES = PART / 16, COPY_ROWS = 32 / ROW_LANES;
    static constexpr int COPIES = KVG_ATTENTION_TILE / COPY_ROWS;

    /* Where 16-byte chunk `chunk` of a row lies in shared memory: rows that ldmatrix reads together, and those that
     * neighbouring lanes read, meet in no bank. */
    static __host__ __device__ constexpr uint32_t place(uint32_t row, uint32_t chunk)
    {
        const uint32_t turn = ROW >= 128 ? (row & 1) << 2 | (row >> 1 & 3) : ROW == 64 ? row >> 1 & 3 : row >> 2 & 1;
        return row * ROW + (chunk ^ turn) * 16;
    }
};

#endif
