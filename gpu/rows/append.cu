/* append: bias, RoPE, quantise, write new tokens into a paged cache (docs/spec/layouts.md section 7). Neighbouring
 * lanes of a warp share a row, each with pieces of sixteen elements; the lanes agree on what belongs to the whole
 * row. */
#include <algorithm>

#include "gpu/rows/append_values.cuh"
#include "gpu/rows/cache_rows.cuh"
#include "gpu/rows/codec_group.cuh"
#include "gpu/rows/codec_row_scale.cuh"
#include "gpu/device/cuda_status.cuh"
#include "gpu/rows/dispatch.cuh"
#include "gpu/ops.h"

namespace {

enum { THREADS = 256, MOST_DEPTH = 8, MOST_ROWS = 256, FEW_BLOCKS = 512 }; /* MOST_ROWS: of a thread block */

struct append_side {
    kvg_append_values values;
    kvg_cache_rows codes, scales;
    kvg_row_rule rule;
    const float *tensor_scale; /* null: 1 */
    uint32_t width, second;    /* a piece starts `width` elements after the last one, its second octet `second` on */
    uint32_t paired;           /* the first so many pieces are loaded as octets with their partners in RoPE */
    bool partners;             /* octets are as far apart as partners, so below that distance they are partners */
};

struct append_args {
    append_side side[2];
    kvg_slots slots;
    kvg_quotient by_heads;
    kvg_quotient by_tokens;                  /* of a thread block, which takes `heads` rows of each, head after head */
    uint32_t tokens, heads;                  /* or rows and 1, where a token is more than a thread block */
    uint32_t rows, pieces, sides, log_lanes; /* lanes that share a row */
    uint32_t depth;                          /* rows of a thread, one after the other, the next one loaded before */
    bool finishes, turns;                    /* has bias or RoPE; RoPE alone, as mode TURNS does it */
};

/* What a lane loads as its piece `index` of a row: eight elements from `first` on, and eight from `second` after it on.
 * And which piece it writes. */
struct piece_place {
    uint32_t first, second, piece;
};
__device__ __forceinline__ piece_place place_of(const append_side &s, uint32_t index)
{
    const uint32_t pair = index / 2, odd = index % 2, half = s.values.rope_dims / 2;
    if (index >= s.paired) return {index * s.width, s.second, index};
    return {pair * KVG_PIECE + odd * KVG_APPEND_OCTET, half, pair + (odd ? half / KVG_PIECE : 0)};
}

/* A piece as the tensor has it, its octets at `from` and `second` elements on. */
template <kvg_dtype T>
__device__ __forceinline__ kvg_piece<T> raw(const typename kvg_scalar<T>::bits *from, uint32_t second)
{
    kvg_piece<T> x;
    kvg_octet_words<T>(from, 0, x.words);
    kvg_octet_words<T>(from, second, x.words + x.WORDS / 2);
    return x;
}

/* Where lanes 2q and 2q + 1 have turned octets and their partners, they exchange one each: then they have the pieces q
 * and, half the turned elements on, its partner. Lanes that are not paired keep what they have. */
template <kvg_dtype T> __device__ __forceinline__ void exchange(bool paired, bool odd, kvg_piece<T> *x)
{
    enum { HALF = kvg_piece<T>::WORDS / 2 };
    uint32_t *low = x->words, *high = x->words + HALF;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        const uint32_t got = __shfl_xor_sync(0xFFFFFFFFu, odd ? low[i] : high[i], 1);
        if (paired && odd) low[i] = got;
        if (paired && !odd) high[i] = got;
    }
}

/* Bias and RoPE, whatever their shape. */
template <kvg_dtype T>
__device__ __forceinline__ void finish(const append_args &a, const append_side &s, const float *turns, uint32_t row,
                                       uint32_t index, const piece_place &at, kvg_piece<T> *x)
{
    const uint32_t head = row - a.by_heads.of(row) * a.by_heads.divisor;
    uint32_t *low = x->words, *high = x->words + kvg_piece<T>::WORDS / 2;
    if (s.values.bias) {
        kvg_append_bias<T>(s.values, head, at.first, low);
        kvg_append_bias<T>(s.values, head, at.first + at.second, high);
    }
    if (!s.values.cos_sin) return;
    const bool paired = index < s.paired;
    if (paired || (s.partners && at.first < at.second)) {
        kvg_turn_partners<T>(turns + 2 * at.first, low);
    } else {
        kvg_turn_octet<T>(s.values, turns, row, head, at.first, low);
        kvg_turn_octet<T>(s.values, turns, row, head, at.first + at.second, high);
    }
    if (s.paired > 0) exchange<T>(paired, index & 1, x); /* of the whole warp */
}

/* PLAIN: no bias, no RoPE, a row with parameters in one round; TURNS: but with RoPE of whole rows of K in halves, each
 * octet loaded with its partner; FINISHES: with bias or any RoPE; ROUNDS: anything. */
enum mode { PLAIN, TURNS, FINISHES, ROUNDS };

/* What a thread block knows of its rows, found once for the lanes that share one: where the codes and scales go, and
 * which one it is and its cos and sin, which may be read even where there is no place for it. */
template <mode MODE> struct block_rows {
    kvg_row_target targets[MOST_ROWS];
    const float *turns[MODE == PLAIN ? 1 : MOST_ROWS];
    uint32_t row[MOST_ROWS];

    /* Row i, the last one of all where there is none. */
    static __device__ __forceinline__ uint32_t of(const append_args &a, uint32_t block, uint32_t i, bool *is_there)
    {
        const uint32_t head = a.by_tokens.of(i), token = block * a.by_tokens.divisor + i - head * a.by_tokens.divisor;
        *is_there = head < a.heads && token < a.tokens;
        return *is_there ? token * a.heads + head : a.rows - 1;
    }
    __device__ __forceinline__ void find(const append_args &a, const append_side &s, uint32_t block, uint32_t rows)
    {
        for (uint32_t i = threadIdx.x; i < rows; i += THREADS) {
            bool is_there;
            const uint32_t at_row = of(a, block, i, &is_there), token = a.by_heads.of(at_row);
            kvg_place at;
            row[i] = at_row;
            targets[i] = {};
            if (is_there && a.slots.place(a.slots.slots[token], &at)) {
                const uint32_t head = at_row - token * a.by_heads.divisor;
                targets[i] = {s.codes.row(at, head), s.scales.scales(at, head)};
            }
            if (MODE != PLAIN) turns[i] = kvg_turns_of(s.values, token);
        }
    }
};

/* What a thread keeps while it goes from row to row. All lanes of a warp come together; those that have no piece of
 * their own work on another's and write nothing. */
template <kvg_format FORMAT, kvg_dtype T, mode MODE> struct row_writer {
    typedef kvg_encoder<FORMAT, T> codec;
    typedef typename kvg_scalar<T>::bits bits;

    const append_args &a;
    const append_side &s;
    kvg_tensor_scale tensor;
    uint64_t scale_place; /* of the block scale of the thread's piece among the row's */

    __device__ __forceinline__ void finish_piece(const float *turns, uint32_t row, uint32_t index,
                                                 const piece_place &at, kvg_piece<T> *x)
    {
        if (MODE == FINISHES || MODE == ROUNDS) finish<T>(a, s, turns, row, index, at, x);
        if (MODE != TURNS || !s.values.cos_sin) return; /* V's rows stay */
        kvg_turn_partners<T>(turns + 2 * at.first, x->words);
        if (codec::BITS < 16) exchange<T>(true, threadIdx.x & 1, x);
    }

    /* Encodes a piece and, where it is the lane's own, writes it. */
    __device__ __forceinline__ void put(const kvg_row_target &target, const piece_place &at, bool mine,
                                        const kvg_piece<T> &x, const typename codec::row &state)
    {
        enum { BYTES = KVG_PIECE * codec::BITS / 8 };
        uint32_t codes[BYTES / 4], scale = 0;
        codec::encode(s.rule, state, x, tensor, codes, &scale);
        if (!mine) return;
        if constexpr (codec::BITS == 16) { /* where it was loaded */
            kvg_store<16>(target.codes + 2 * at.first, codes, s.codes.align);
            kvg_store<16>(target.codes + 2 * (at.first + at.second), codes + BYTES / 8, s.codes.align);
        } else {
            kvg_store<BYTES>(target.codes + at.piece * BYTES, codes, s.codes.align);
        }
        if constexpr (codec::BLOCK > 0) {
            constexpr uint32_t pieces = codec::BLOCK / KVG_PIECE; /* of a block */
            if (pieces == 1 || at.piece % pieces == 0) target.scales[scale_place] = (uint8_t)scale;
        } else if constexpr (codec::BLOCK == KVG_BLOCK_OF_RULE) {
            const uint32_t pieces = s.rule.block / KVG_PIECE;
            if (at.piece % pieces == 0) kvg_put_scale<4>(target.scales + at.piece / pieces * 4, scale, s.scales.align);
        }
    }

    /* The parameters of the row, by its first lane. */
    __device__ __forceinline__ void put_params(const kvg_row_target &target, const typename codec::row &state,
                                               bool mine)
    {
        if (mine) kvg_put_scale<codec::PARAMS>(target.scales, state.params, s.scales.align);
    }

    /* A row with parameters in more than one round. Pass 0 looks at it, pass 1 writes it. */
    __device__ __forceinline__ void in_rounds(const kvg_row_target &target, const float *turns, uint32_t row,
                                              uint32_t lane)
    {
        const uint32_t lanes = 1u << a.log_lanes;
        const bits *start = (const bits *)s.values.rows + (size_t)row * s.values.dim;
        typename codec::extremes seen;
        typename codec::row state = {};
#pragma unroll 1
        for (int pass = 0; pass < 2; pass++) {
#pragma unroll 1
            for (uint32_t round = lane; round - lane < a.pieces; round += lanes) {
                const uint32_t index = round < a.pieces ? round : a.pieces - 1;
                const piece_place at = place_of(s, index);
                kvg_piece<T> x = raw<T>(start + at.first, at.second);
                finish_piece(turns, row, index, at, &x);
                if (pass == 1) put(target, at, target.codes && round < a.pieces, x, state);
                else seen.add(x);
            }
            if (pass == 1) break;
            seen.share(lanes);
            state = codec::row_of(s.rule, seen);
            put_params(target, state, lane == 0 && target.codes);
        }
    }
};

/* Blocks on a multiprocessor that registers must leave room for: as many as no kernel spills at. */
template <kvg_format FORMAT, kvg_dtype T, mode MODE> constexpr int least_blocks()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    constexpr int fewer = 1;
#else
    constexpr int fewer = 0;
#endif
    if (T == KVG_DTYPE_F32) return 2;
    constexpr bool groups = kvg_encoder<FORMAT, T>::BLOCK == KVG_BLOCK_OF_RULE;
    if (MODE == PLAIN) return (FORMAT == KVG_FORMAT_NVFP4 || groups ? 4 : 5) - fewer;
    return (MODE == TURNS ? 4 : 3) - fewer;
}

/* A warp works on one head of several tokens, whose rows are neighbours in most layouts, and then on the next head.
 * Blocks of K and V take turns, so that what one lacks the other may have: issue slots or memory. Rows without
 * parameters take further rounds as grid z. */
template <kvg_format FORMAT, kvg_dtype T, mode MODE>
__global__ void __launch_bounds__(THREADS, least_blocks<FORMAT, T, MODE>())
append_rows(const __grid_constant__ append_args a)
{
    typedef row_writer<FORMAT, T, MODE> writer;
    typedef typename writer::bits bits;
    __shared__ block_rows<MODE> rows;
    const append_side &s = a.side[blockIdx.x & (a.sides - 1)];
    const uint32_t lanes = 1u << a.log_lanes, lane = threadIdx.x & (lanes - 1), at_once = THREADS >> a.log_lanes;
    const uint32_t block = blockIdx.x / a.sides, first = threadIdx.x >> a.log_lanes;
    const uint32_t round = lane + blockIdx.z * lanes, index = round < a.pieces ? round : a.pieces - 1;
    const piece_place at = place_of(s, index);
    const float g = s.tensor_scale ? *s.tensor_scale : 1;
    writer to = {a, s, writer::codec::tensor(g), 0};
    if constexpr (writer::codec::BLOCK > 0) {
        to.scale_place = s.scales.scale_place(at.piece * KVG_PIECE / writer::codec::BLOCK);
    }
    to.tensor.neighbour = index < s.paired ? 2 : 1;
    const bits *const from = (const bits *)s.values.rows + at.first;
    bool is_there;
    uint32_t row = rows.of(a, block, first, &is_there);
    kvg_piece<T> x;
    if (MODE != ROUNDS) x = raw<T>(from + (size_t)row * s.values.dim, at.second);
    rows.find(a, s, block, a.depth * at_once);
    __syncthreads();
    const kvg_row_target *target = rows.targets + first;
    const uint32_t *number = rows.row + first;
    const float *const *cos_sin = rows.turns + (MODE == PLAIN ? 0 : first);
#pragma unroll 1
    for (uint32_t left = a.depth; left > 0; left--) {
        const kvg_row_target there = *target;
        const float *const turns = MODE == PLAIN ? nullptr : *cos_sin;
        if (MODE != PLAIN) row = *number;
        target += at_once, number += at_once, cos_sin += at_once;
        if constexpr (MODE == ROUNDS) {
            to.in_rounds(there, turns, row, lane);
        } else {
            kvg_piece<T> next; /* of the last one nothing */
            if (left > 1) next = raw<T>(from + (size_t)*number * s.values.dim, at.second);
            to.finish_piece(turns, row, index, at, &x);
            typename writer::codec::row state = {};
            bool mine = there.codes;
            if constexpr (writer::codec::PARAMS > 0) {
                state = writer::codec::row_of_pieces(s.rule, lanes, x);
                to.put_params(there, state, lane == 0 && mine);
                mine = mine && round < a.pieces;
            }
            to.put(there, at, mine, x, state);
            x = next;
        }
    }
}

template <kvg_format FORMAT, kvg_dtype T> struct launch {
    static kvg_status run(const append_args &a, cudaStream_t stream)
    {
        const uint32_t rounds = kvg_encoder<FORMAT, T>::PARAMS == 0 ? (a.pieces - 1 >> a.log_lanes) + 1 : 1;
        const dim3 grid((a.tokens - 1) / a.by_tokens.divisor * a.sides + a.sides, 1, rounds);
        const bool in_one_round = a.pieces <= 1u << a.log_lanes;
        if constexpr (kvg_encoder<FORMAT, T>::PARAMS > 0) {
            if (!in_one_round) append_rows<FORMAT, T, ROUNDS><<<grid, THREADS, 0, stream>>>(a);
        }
        if (rounds > 1 || in_one_round) {
            if (a.turns) append_rows<FORMAT, T, TURNS><<<grid, THREADS, 0, stream>>>(a);
            else if (a.finishes) append_rows<FORMAT, T, FINISHES><<<grid, THREADS, 0, stream>>>(a);
            else append_rows<FORMAT, T, PLAIN><<<grid, THREADS, 0, stream>>>(a);
        }
        return kvg_cuda_status("append", cudaGetLastError());
    }
};

/* Lanes that share a row of `pieces`, as a power of two: all of it at once where the row has parameters, else as many
 * as idle least. */
uint32_t log_lanes(uint32_t pieces, bool at_once)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t log = 0; log <= 5; log++) {
        const uint32_t lanes = 1u << log, used = (pieces + lanes - 1) / lanes * lanes;
        if (at_once ? lanes < 2 * pieces : used <= least) best = log, least = used;
    }
    return best;
}

const kvg_tensor *input(const kvg_problem *p, const kvg_tensor *in, kvg_role role, kvg_side side)
{
    return &in[kvg_roles_index(kvg_op_get(p->op)->inputs, role, side)];
}

kvg_append_values values_of(const kvg_problem *p, const kvg_tensor *in, kvg_side side)
{
    kvg_append_values v = {};
    v.rows = input(p, in, KVG_ROLE_VALUES, side)->data;
    v.bias = p->bias ? input(p, in, KVG_ROLE_BIAS, side)->data : nullptr;
    v.dim = p->head_dim;
    if (side == KVG_V || p->rope.dims == 0) return v;
    v.cos_sin = (const float *)input(p, in, KVG_ROLE_COS_SIN, KVG_K)->data;
    v.positions = (const int32_t *)input(p, in, KVG_ROLE_POSITIONS, KVG_K)->data;
    v.rope_dims = p->rope.dims;
    v.table_rows = p->rope.positions;
    v.halves = p->rope.pairing == KVG_PAIRING_HALVES;
    v.whole_octets = p->rope.dims % (v.halves ? 2 * KVG_APPEND_OCTET : KVG_APPEND_OCTET) == 0;
    return v;
}

kvg_status side_of(const kvg_problem *p, const kvg_gpu_layout *layout, kvg_side side, const kvg_tensor *in,
                   kvg_tensor *out, append_side *to)
{
    const kvg_role *outputs = kvg_op_get(p->op)->outputs;
    const kvg_tensor *scale = input(p, in, KVG_ROLE_TENSOR_SCALE, side);
    kvg_status s = kvg_row_rule_of(&p->storage[side], &to->rule);
    const kvg_format format = p->storage[side].format;
    /* eight elements of each half of the row: as codes of int4 lie in bytes, or as coalesces best */
    const bool in_halves = kvg_format_get(format)->element_bits == 16 ||
                           (format == KVG_FORMAT_INT4 && to->rule.affine == KVG_AFFINE_PYTORCH);
    to->values = values_of(p, in, side);
    to->codes = kvg_cache_rows_of(layout->codes[side], outputs, out);
    to->scales = kvg_cache_rows_of(layout->scales[side], outputs, out);
    to->tensor_scale = scale->bytes ? (const float *)scale->data : nullptr;
    to->second = in_halves ? p->head_dim / 2 : KVG_PIECE / 2;
    to->width = in_halves ? KVG_PIECE / 2 : (uint32_t)KVG_PIECE;
    return s;
}

} // namespace

kvg_status kvg_gpu_append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    kvg_gpu_layout layout;
    append_args a = {};
    kvg_status s = kvg_gpu_check_rows(p);
    if (!s) s = kvg_gpu_layout_of(p, &layout);
    if (s) return s;
    const int sides = kvg_problem_sides(p);
    for (int side = 0; side < sides && !s; side++) s = side_of(p, &layout, (kvg_side)side, in, out, &a.side[side]);
    const uint64_t rows = (uint64_t)p->tokens * p->kv_heads, most = INT32_MAX / 32;
    if (!s && rows > most) {
        s = kvg_fail(KVG_ERR_UNIMPLEMENTED, "append on a GPU: at most %u rows at once, not %u tokens of %u heads",
                     (unsigned)most, p->tokens, p->kv_heads);
    }
    if (s) return s;
    a.slots = kvg_slots::of(p, *input(p, in, KVG_ROLE_SLOTS, KVG_K));
    a.by_heads = kvg_quotient::by(p->kv_heads);
    a.rows = (uint32_t)rows;
    a.pieces = p->head_dim / KVG_PIECE;
    const cudaStream_t queue = (cudaStream_t)stream;
    const kvg_format k = p->storage[KVG_K].format, v = p->storage[KVG_V].format;
    const auto run = [&](kvg_format format, int first, int count) {
        append_args one = a;
        one.sides = count;
        one.log_lanes = log_lanes(a.pieces, kvg_format_get(format)->row_param_bytes > 0);
        const uint32_t most_depth = std::min<uint32_t>(MOST_DEPTH, MOST_ROWS / (THREADS >> one.log_lanes));
        one.depth = (uint32_t)std::clamp<uint64_t>(rows * a.pieces / THREADS / FEW_BLOCKS, 1, most_depth);
        const uint32_t in_block = one.depth * (THREADS >> one.log_lanes);
        const bool by_heads = p->kv_heads <= in_block;
        one.heads = by_heads ? p->kv_heads : 1;
        one.tokens = a.rows / one.heads;
        one.by_tokens = kvg_quotient::by(in_block / one.heads);
        for (int i = 0; i < count; i++) {
            append_side &side = one.side[i] = a.side[first + i];
            const kvg_append_values &values = side.values;
            const bool groups = kvg_format_get(format)->block_scale_bytes == 4; /* whose lanes lie side by side */
            const bool turns = values.halves && values.rope_dims % (4 * KVG_PIECE) == 0;
            const bool pairs = turns && one.log_lanes >= 2 && !groups;
            side.paired = pairs && side.width == KVG_PIECE ? values.rope_dims / KVG_PIECE : 0;
            side.partners = values.halves && values.whole_octets && side.second == values.rope_dims / 2;
            one.finishes = one.finishes || values.bias || values.cos_sin;
            const bool partners = side.width == KVG_PIECE ? side.paired == one.pieces : side.partners;
            one.turns = one.turns || (values.cos_sin && !values.bias && partners && values.rope_dims == values.dim);
        }
        return kvg_dispatch<launch>(format, p->dtype, one, queue);
    };
    const bool alike = sides == 2 && k == v; /* one kernel writes both */
    s = run(k, KVG_K, alike ? 2 : 1);
    return s || alike || sides == 1 ? s : run(v, KVG_V, 1);
}
