/* flatten and expand: a paged cache back to [sequence, head, token, dim] in the model type, or in E4M3
 * (docs/spec/layouts.md section 7). A thread works on pieces of 16 bytes of the answer (of f32 32): it starts the
 * loads of several, then decodes. */
#include <algorithm>

#include "gpu/rows/cache_rows.cuh"
#include "gpu/rows/codec_decode.cuh"
#include "gpu/device/cuda_status.cuh"
#include "gpu/rows/dispatch.cuh"
#include "gpu/ops.h"

namespace {

enum { THREADS = 256, DEPTH = 4, MOST_ROWS = DEPTH * THREADS / 2, GRID_LIMIT = 65535 }; /* DEPTH: pieces in flight */

struct flatten_side {
    kvg_cache_rows codes, scales;
    kvg_row_rule rule;
    const float *tensor_scale;      /* null: 1 */
    void *out;                      /* [sequences, heads, tokens, wanted] in T, or codes of E4M3 */
    kvg_quotient by_pieces;         /* pieces of a row that hold wanted elements */
    uint32_t first_piece, first_wanted, wanted;
    uint32_t half;                  /* int4 in halves: D / 2; else 0 */
};

struct flatten_args {
    flatten_side side[2];
    const int32_t *table, *lengths; /* [sequences, width], [sequences] */
    kvg_quotient by_block;
    uint32_t sides, sequences, heads, tokens, rows, width, blocks; /* rows: of one thread block */
    bool one_block, ring, e4m3;
};

/* The block that holds a position of a sequence; -1 where it has no place. */
__device__ __forceinline__ int32_t block_of(const flatten_args &a, uint32_t sequence, uint32_t position,
                                            int32_t length)
{
    if ((int64_t)position >= length || (a.ring && (int64_t)position + a.by_block.divisor < length)) return -1;
    return a.table[(size_t)sequence * a.width + (a.one_block ? 0 : a.by_block.of(position))];
}

/* Where the rows of this thread block lie: each found once, for the threads that share it. */
__device__ __forceinline__ void find_rows(const flatten_args &a, const flatten_side &s, uint32_t sequence,
                                          uint32_t head, uint32_t first, uint32_t rows, kvg_row_target *targets)
{
    const int32_t length = a.lengths[sequence];
    for (uint32_t i = threadIdx.x; i < rows; i += THREADS) {
        const uint32_t position = first + i;
        const int32_t block = block_of(a, sequence, position, length);
        if ((uint32_t)block < a.blocks) { /* -1 is not */
            const kvg_place at = {(uint32_t)block, position - a.by_block.of(position) * a.by_block.divisor};
            targets[i] = {s.codes.row(at, head), s.scales.scales(at, head)};
        } else {
            targets[i] = {};
        }
    }
}

/* What a kernel reads and writes at a time: OUT is T or, for E4M3, a byte. */
template <typename CODEC, typename OUT> struct piece {
    enum {
        OCTETS = sizeof(OUT) == 1 ? 2 : 1,
        ELEMENTS = OCTETS * KVG_OCTET,
        BYTES = ELEMENTS * CODEC::BITS / 8,
        WORDS = CODEC::BITS == 4 && CODEC::PARAMS == 4 ? 2 * OCTETS : BYTES / 4, /* halves of int4: as bytes */
        OCTET_WORDS = WORDS / OCTETS
    };
};

/* The codes and the scale of a piece; codes of int4 in halves become bytes. */
template <typename CODEC, typename OUT>
__device__ __forceinline__ void fetch(const flatten_side &s, const kvg_row_target &from, uint32_t at, uint32_t *words,
                                      uint32_t *scale)
{
    typedef piece<CODEC, OUT> piece;
    enum { STEP = piece::BYTES < 16 ? piece::BYTES : 16 };
    if (CODEC::BITS == 4 && CODEC::PARAMS == 4 && s.half) {
        for (int o = 0; o < piece::OCTETS; o++) {
            const uint32_t first = at * piece::ELEMENTS + o * KVG_OCTET, upper = first >= s.half;
            kvg_load<KVG_OCTET>(from.codes + (upper ? first - s.half : first), words + 2 * o, s.codes.align);
            for (int i = 2 * o; i < 2 * o + 2; i++) words[i] = words[i] >> 4 * upper & 0x0F0F0F0Fu;
        }
    } else {
        uint32_t packed[piece::BYTES / 4];
        for (int i = 0; i < piece::BYTES / STEP; i++) {
            kvg_load<STEP>(from.codes + at * piece::BYTES + i * STEP, packed + i * STEP / 4, s.codes.align);
        }
        for (int i = 0; i < piece::BYTES / 4; i++) words[i * piece::WORDS / (piece::BYTES / 4)] = packed[i];
    }
    if constexpr (CODEC::BLOCK > 0) *scale = *s.scales.scale(from.scales, at / (CODEC::BLOCK / piece::ELEMENTS));
    if constexpr (CODEC::PARAMS > 0) *scale = kvg_get_scale<CODEC::PARAMS>(from.scales, s.scales.align);
    if constexpr (CODEC::BLOCK == KVG_BLOCK_OF_RULE) {
        *scale = kvg_get_scale<4>(from.scales + at * piece::ELEMENTS / s.rule.block * 4, s.scales.align);
    }
}

/* An octet of codes as OUT: as T, or after RN_T as E4M3. */
template <typename CODEC, kvg_dtype T, typename OUT>
__device__ __forceinline__ void decode(const kvg_row_rule &rule, const uint32_t *words, uint32_t scale, float g, OUT *y)
{
    if constexpr (sizeof(OUT) > 1) {
        CODEC::decode(rule, words, scale, g, y);
    } else {
        typedef kvg_scalar<T> model;
        uint32_t pairs[KVG_OCTET / 2];
        CODEC::decode(rule, words, scale, g, (typename model::bits *)pairs);
        for (int i = 0; i < KVG_OCTET / 2; i++) {
            const float2 two = model::widen2(pairs[i]);
            ((uint16_t *)y)[i] = kvg_fp8_codes<__NV_E4M3>(two.x, two.y);
        }
    }
}

/* A piece. As E4M3, of signs and magnitudes: what the eight codes from 0 on become, once, then byte after byte by its
 * code; a product has the sign that its factors have, but for NaN, which all products are where one with 0 is. */
template <typename CODEC, kvg_dtype T, typename OUT>
__device__ __forceinline__ void decode_piece(const kvg_row_rule &rule, const uint32_t *words, uint32_t scale, float g,
                                             OUT *y)
{
    typedef piece<CODEC, OUT> piece;
    if constexpr (CODEC::SIGNED && sizeof(OUT) == 1) {
        const uint32_t each = 0x76543210;
        uint32_t table[2], *to = (uint32_t *)y;
        decode<CODEC, T>(rule, &each, scale, g, (OUT *)table);
        if ((table[0] & 0x7F) == 0 && !rule.linear && !rule.decode_scale_first) {
#pragma unroll
            for (int o = 0; o < piece::OCTETS; o++) {
                const uint32_t codes = words[o], sizes = codes & 0x77777777, even = codes << 4;
                to[2 * o] = __byte_perm(table[0], table[1], sizes) ^ (__byte_perm(even, codes, 0x5140) & 0x80808080);
                to[2 * o + 1] = __byte_perm(table[0], table[1], sizes >> 16) ^
                                (__byte_perm(even, codes, 0x7362) & 0x80808080);
            }
            return;
        }
    }
#pragma unroll
    for (int o = 0; o < piece::OCTETS; o++) {
        decode<CODEC, T>(rule, words + o * piece::OCTET_WORDS, scale, g, y + o * KVG_OCTET);
    }
}

/* A piece to where it goes: all of it at once, or the elements that are wanted. */
template <int ELEMENTS, typename OUT>
__device__ __forceinline__ void put(const flatten_side &s, uint64_t first_row, uint32_t row, uint32_t at, uint32_t item,
                                    const OUT *y)
{
    OUT *to = (OUT *)s.out + first_row * s.wanted;
    if ((s.first_wanted | s.wanted) % ELEMENTS == 0) { /* piece after piece, row after row */
        for (int i = 0; i < ELEMENTS * (int)sizeof(OUT); i += 16) {
            kvg_store<16>((uint8_t *)(to + item * ELEMENTS) + i, (const uint32_t *)y + i / 4, 16);
        }
        return;
    }
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        const uint32_t element = at * ELEMENTS + i - s.first_wanted; /* wraps below it */
        if (element < s.wanted) to[(uint64_t)row * s.wanted + element] = y[i];
    }
}

template <kvg_format FORMAT, kvg_dtype T, typename OUT>
__global__ void __launch_bounds__(THREADS) flatten_rows(const __grid_constant__ flatten_args a)
{
    typedef kvg_decoder<FORMAT, T> codec;
    typedef piece<codec, OUT> piece;
    __shared__ kvg_row_target targets[MOST_ROWS];
    const flatten_side &s = a.side[blockIdx.z % a.sides];
    const uint32_t sequence = blockIdx.z / a.sides, head = blockIdx.y, first = blockIdx.x * a.rows;
    const uint32_t rows = a.tokens - first < a.rows ? a.tokens - first : a.rows;
    const uint32_t pieces = s.by_pieces.divisor, items = rows * pieces;
    const uint64_t first_row = ((uint64_t)sequence * a.heads + head) * a.tokens + first;
    const float g = s.tensor_scale ? *s.tensor_scale : 1;
    find_rows(a, s, sequence, head, first, rows, targets);
    __syncthreads();
#pragma unroll 1
    for (uint32_t start = threadIdx.x; start < items; start += DEPTH * THREADS) {
        uint32_t words[DEPTH][piece::WORDS], scale[DEPTH] = {};
        bool live[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            const uint32_t item = start + i * THREADS, row = s.by_pieces.of(item);
            const kvg_row_target from = item < items ? targets[row] : kvg_row_target{};
            live[i] = from.codes;
            if (live[i]) fetch<codec, OUT>(s, from, s.first_piece + item - row * pieces, words[i], &scale[i]);
        }
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            if (!live[i]) continue;
            const uint32_t item = start + i * THREADS, row = s.by_pieces.of(item);
            alignas(16) OUT y[piece::ELEMENTS];
            decode_piece<codec, T>(s.rule, words[i], scale[i], g, y);
            put<piece::ELEMENTS>(s, first_row, row, s.first_piece + item - row * pieces, item, y);
        }
    }
}

template <kvg_format FORMAT, kvg_dtype T> struct launch {
    static kvg_status run(const flatten_args &a, cudaStream_t stream)
    {
        const dim3 grid((a.tokens + a.rows - 1) / a.rows, a.heads, a.sequences * a.sides);
        if constexpr (T != KVG_DTYPE_F32) { /* expand takes no f32 */
            if (a.e4m3) flatten_rows<FORMAT, T, uint8_t><<<grid, THREADS, 0, stream>>>(a);
        }
        if (!a.e4m3) flatten_rows<FORMAT, T, typename kvg_scalar<T>::bits><<<grid, THREADS, 0, stream>>>(a);
        return kvg_cuda_status("flatten", cudaGetLastError());
    }
};

kvg_status side_of(const kvg_problem *p, const kvg_gpu_layout *layout, int side, uint32_t piece, const kvg_tensor *in,
                   kvg_tensor *out, flatten_side *to)
{
    const kvg_role *inputs = kvg_op_get(p->op)->inputs;
    const kvg_side rows = kvg_gpu_own_side(p, side);
    const bool part = side == KVG_V && p->paging.shared_kv;
    const kvg_tensor &scale = in[kvg_roles_index(inputs, KVG_ROLE_TENSOR_SCALE, rows)];
    to->codes = kvg_cache_rows_of(layout->codes[rows], inputs, in);
    to->scales = kvg_cache_rows_of(layout->scales[rows], inputs, in);
    to->tensor_scale = scale.bytes ? (const float *)scale.data : nullptr;
    to->out = out[side].data;
    to->first_wanted = part ? p->paging.v_first : 0;
    to->wanted = part ? p->paging.v_dim : p->head_dim;
    to->first_piece = to->first_wanted / piece;
    to->by_pieces = kvg_quotient::by((to->first_wanted + to->wanted - 1) / piece + 1 - to->first_piece);
    kvg_status s = kvg_row_rule_of(&p->storage[rows], &to->rule);
    to->half = to->rule.affine == KVG_AFFINE_PYTORCH ? p->head_dim / 2 : 0;
    return s;
}

} // namespace

kvg_status kvg_gpu_flatten(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const kvg_role *inputs = kvg_op_get(p->op)->inputs;
    kvg_gpu_layout layout;
    flatten_args a = {};
    kvg_status s = kvg_gpu_check_rows(p);
    if (!s) s = kvg_gpu_layout_of(p, &layout);
    if (s) return s;
    const uint32_t piece = p->op == KVG_OP_EXPAND ? 2 * KVG_OCTET : (uint32_t)KVG_OCTET, pieces = p->head_dim / piece;
    for (int side = KVG_K; side <= KVG_V && !s; side++) s = side_of(p, &layout, side, piece, in, out, &a.side[side]);
    if (s) return s;
    a.table = (const int32_t *)in[kvg_roles_index(inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)].data;
    a.lengths = (const int32_t *)in[kvg_roles_index(inputs, KVG_ROLE_LENGTHS, KVG_K)].data;
    a.by_block = kvg_quotient::by(p->paging.block_tokens);
    a.sequences = p->paging.sequences;
    a.heads = p->kv_heads;
    a.tokens = p->tokens;
    a.rows = std::clamp<uint32_t>(DEPTH * THREADS / pieces, 1, MOST_ROWS);
    a.width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    a.blocks = p->paging.blocks;
    a.ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING;
    a.one_block = kvg_problem_blocks(p) != KVG_BLOCKS_TABLE;
    a.e4m3 = p->op == KVG_OP_EXPAND;
    if (a.heads > GRID_LIMIT || a.sequences > GRID_LIMIT / 2 || a.tokens > INT32_MAX) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "flatten on a GPU: at most %d heads, %d sequences and %d tokens",
                        GRID_LIMIT, GRID_LIMIT / 2, INT32_MAX);
    }
    const cudaStream_t queue = (cudaStream_t)stream;
    const kvg_format k = p->storage[KVG_K].format;
    const kvg_format v = p->paging.shared_kv ? k : p->storage[KVG_V].format;
    a.sides = k == v ? 2 : 1; /* at once if one kernel reads both */
    s = kvg_dispatch<launch>(k, p->dtype, a, queue);
    if (s || k == v) return s;
    a.side[0] = a.side[KVG_V];
    return kvg_dispatch<launch>(v, p->dtype, a, queue);
}
