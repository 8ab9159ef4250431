/* append: bias, RoPE, quantise, write new tokens into a paged cache (docs/layouts.md section 7). Neighbouring lanes of
 * a warp share a row, each with pieces of sixteen elements; the lanes agree on what belongs to the whole row. */
#include "gpu/append_values.cuh"
#include "gpu/cache_rows.cuh"
#include "gpu/codec_row.cuh"
#include "gpu/cuda_status.cuh"
#include "gpu/dispatch.cuh"
#include "gpu/ops.h"

namespace {

enum { THREADS = 256, MOST_DEPTH = 4, FEW_BLOCKS = 1024 };

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
    uint32_t rows, pieces, sides, log_lanes; /* lanes that share a row */
    uint32_t depth;                          /* rows of a thread, the next one loaded while it works on one */
    bool finishes;                           /* has bias or RoPE */
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

/* A piece as the tensor has it, its octets at `from` and `second` elements on; what is no lane's own is zeros. */
template <kvg_dtype T>
__device__ __forceinline__ kvg_piece<T> raw(const typename kvg_scalar<T>::bits *from, uint32_t second, bool mine)
{
    kvg_piece<T> x = {};
    if (mine) {
        kvg_octet_words<T>(from, 0, x.words);
        kvg_octet_words<T>(from, second, x.words + x.WORDS / 2);
    }
    return x;
}

/* Where the row's codes and scales go, and its cos and sin. */
struct append_target : kvg_row_target {
    const float *turns;
};

/* Bias and RoPE. Where lanes 2q and 2q + 1 loaded octets and their partners, they exchange one each: then they have the
 * pieces q and, half the turned elements on, its partner. */
template <kvg_dtype T>
__device__ __forceinline__ void finish(const append_args &a, const append_side &s, const append_target &target,
                                       uint32_t row, uint32_t index, const piece_place &at, bool mine, kvg_piece<T> *x)
{
    enum { HALF = kvg_piece<T>::WORDS / 2 };
    const uint32_t head = row - a.by_heads.of(row) * a.by_heads.divisor;
    uint32_t *low = x->words, *high = x->words + HALF;
    if (mine && s.values.bias) {
        kvg_append_bias<T>(s.values, head, at.first, low);
        kvg_append_bias<T>(s.values, head, at.first + at.second, high);
    }
    if (!s.values.cos_sin) return;
    const bool paired = index < s.paired;
    if (mine && (paired || (s.partners && at.first < at.second))) {
        kvg_turn_partners<T>(target.turns, at.first, low);
    } else if (mine) {
        kvg_turn_octet<T>(s.values, target.turns, row, head, at.first, low);
        kvg_turn_octet<T>(s.values, target.turns, row, head, at.first + at.second, high);
    }
    if (s.paired == 0) return; /* of the whole warp */
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        const uint32_t got = __shfl_xor_sync(0xFFFFFFFFu, index & 1 ? low[i] : high[i], 1);
        if (paired && index & 1) low[i] = got;
        if (paired && !(index & 1)) high[i] = got;
    }
}

/* Encodes a piece and, where it is the lane's own, writes it. All lanes of the warp come here. */
template <typename CODEC, kvg_dtype T>
__device__ __forceinline__ void put(const append_side &s, const append_target &target, const piece_place &at, bool mine,
                                    const kvg_piece<T> &x, const typename CODEC::row &state,
                                    const kvg_tensor_scale &tensor)
{
    enum { BYTES = KVG_PIECE * CODEC::BITS / 8 };
    uint32_t codes[BYTES / 4], byte = 0;
    CODEC::encode(s.rule, state, x, tensor, codes, &byte);
    if (!mine) return;
    if constexpr (CODEC::BITS == 16) { /* where it was loaded */
        kvg_store<16>(target.codes + 2 * at.first, codes, s.codes.align);
        kvg_store<16>(target.codes + 2 * (at.first + at.second), codes + BYTES / 8, s.codes.align);
    } else {
        kvg_store<BYTES>(target.codes + at.piece * BYTES, codes, s.codes.align);
    }
    if constexpr (CODEC::BLOCK > 0) {
        constexpr uint32_t pieces = CODEC::BLOCK / KVG_PIECE; /* of a block */
        if (at.piece % pieces == 0) *s.scales.scale(target.scales, at.piece / pieces) = (uint8_t)byte;
    }
}

/* Where the rows of this thread block go: each found once, for the lanes that share it. */
__device__ __forceinline__ void find_targets(const append_args &a, const append_side &s, uint32_t first, uint32_t rows,
                                             append_target *targets)
{
    for (uint32_t i = threadIdx.x; i < rows; i += THREADS) {
        const uint32_t row = first + i, token = a.by_heads.of(row), head = row - token * a.by_heads.divisor;
        kvg_place at;
        if (row < a.rows && a.slots.place(a.slots.slots[token], &at)) {
            targets[i] = {{s.codes.row(at, head), s.scales.scales(at, head)}, kvg_turns_of(s.values, token)};
        } else {
            targets[i] = {};
        }
    }
}

/* PLAIN: no bias, no RoPE, a row with parameters in one round; FINISHES: with bias or RoPE; ROUNDS: anything. */
enum mode { PLAIN, FINISHES, ROUNDS };

/* What a thread keeps while it goes from row to row. */
template <kvg_format FORMAT, kvg_dtype T, mode MODE> struct row_writer {
    typedef kvg_encoder<FORMAT, T> codec;
    typedef typename kvg_scalar<T>::bits bits;

    const append_args &a;
    const append_side &s;
    kvg_tensor_scale tensor;

    __device__ __forceinline__ void finish_piece(const append_target &target, uint32_t row, uint32_t index,
                                                 const piece_place &at, bool mine, kvg_piece<T> *x)
    {
        if (MODE == PLAIN) return;
        finish<T>(a, s, target, row, index, at, mine, x);
        tensor.neighbour = index < s.paired ? 2 : 1;
    }

    /* Without row parameters: a piece. */
    __device__ __forceinline__ void one_piece(const append_target &target, uint32_t row, uint32_t index,
                                              const piece_place &at, bool mine, kvg_piece<T> x)
    {
        finish_piece(target, row, index, at, mine, &x);
        put<codec>(s, target, at, mine, x, {}, tensor);
    }

    /* With row parameters: all pieces, the lane's first one loaded. Pass 0 looks at the row, pass 1 writes it; the
     * lanes of a row go round together. */
    __device__ __forceinline__ void whole_row(const append_target &target, uint32_t row, uint32_t lane,
                                              const piece_place &first, bool live, kvg_piece<T> x)
    {
        const uint32_t lanes = 1u << a.log_lanes;
        if constexpr (MODE != ROUNDS) { /* never more pieces than lanes */
            finish_piece(target, row, lane, first, live && lane < a.pieces, &x);
            const typename codec::row state = codec::row_of_pieces(s.rule, lanes, a.pieces, x);
            put_params(target, state, lane == 0 && live);
            put<codec>(s, target, first, live && lane < a.pieces, x, state, tensor);
            return;
        }
        const bool in_one_round = a.pieces <= lanes;
        const bits *start = (const bits *)s.values.rows + (size_t)row * s.values.dim;
        typename codec::extremes seen;
        typename codec::row state = {};
#pragma unroll 1
        for (int pass = 0; pass < 2; pass++) {
#pragma unroll 1
            for (uint32_t index = lane; index - lane < a.pieces; index += lanes) {
                const bool mine = live && index < a.pieces, loaded = pass == 0 && index == lane;
                const piece_place at = in_one_round ? first : place_of(s, index);
                if (!loaded && !in_one_round) x = raw<T>(start + at.first, at.second, mine);
                if (loaded || !in_one_round) finish_piece(target, row, index, at, mine, &x);
                if (pass == 1) put<codec>(s, target, at, mine, x, state, tensor);
                else if (mine) seen.add(x);
            }
            if (pass == 1) break;
            seen.share(lanes);
            state = codec::row_of(s.rule, seen);
            put_params(target, state, lane == 0 && live);
        }
    }

private:
    __device__ __forceinline__ void put_params(const append_target &target, const typename codec::row &state, bool mine)
    {
        if (!mine) return;
        if (codec::PARAMS == 4 && s.scales.align >= 4) {
            *(uint32_t *)target.scales = state.params;
        } else if (codec::PARAMS == 2 && s.scales.align >= 2) {
            *(uint16_t *)target.scales = (uint16_t)state.params;
        } else {
            for (int k = 0; k < codec::PARAMS; k++) target.scales[k] = (uint8_t)(state.params >> 8 * k);
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
    if (kvg_encoder<FORMAT, T>::PARAMS > 0) return (MODE == ROUNDS ? 3 : 4) - fewer;
    return (MODE == PLAIN ? 5 : 4) - fewer;
}

/* Rows without parameters take further rounds as grid z. */
template <kvg_format FORMAT, kvg_dtype T, mode MODE>
__global__ void __launch_bounds__(THREADS, least_blocks<FORMAT, T, MODE>())
append_rows(const __grid_constant__ append_args a)
{
    typedef row_writer<FORMAT, T, MODE> writer;
    __shared__ append_target targets[MOST_DEPTH * THREADS];
    const append_side &s = a.side[blockIdx.y];
    const uint32_t lanes = 1u << a.log_lanes, lane = threadIdx.x & (lanes - 1), at_once = THREADS >> a.log_lanes;
    const uint32_t first = blockIdx.x * a.depth * at_once, index = lane + blockIdx.z * lanes;
    const piece_place at = place_of(s, index);
    writer to = {a, s, writer::codec::tensor(s.tensor_scale ? *s.tensor_scale : 1)};
    uint32_t row = first + (threadIdx.x >> a.log_lanes);
    /* how many rows of the lane's there are */
    uint32_t left = index < a.pieces && row < a.rows ? (a.rows - row + at_once - 1) / at_once : 0;
    const size_t start = (size_t)row * s.values.dim + at.first;
    const typename writer::bits *from = (const typename writer::bits *)s.values.rows + start;
    kvg_piece<T> next = raw<T>(from, at.second, left > 0);
    find_targets(a, s, first, a.depth * at_once, targets);
    __syncthreads();
    const append_target *target = targets + (threadIdx.x >> a.log_lanes);
    const append_target *const end = target + a.depth * at_once;
#pragma unroll 1
    for (; target != end; target += at_once) {
        const kvg_piece<T> x = next;
        const bool mine = left > 0 && target->codes;
        from += (size_t)at_once * s.values.dim;
        next = raw<T>(from, at.second, left > 1 && target + at_once != end);
        if constexpr (writer::codec::PARAMS == 0) to.one_piece(*target, row, index, at, mine, x);
        else to.whole_row(*target, row, lane, at, row < a.rows && target->codes, x);
        row += at_once;
        left -= left > 0;
    }
}

template <kvg_format FORMAT, kvg_dtype T> struct launch {
    static kvg_status run(const append_args &a, cudaStream_t stream)
    {
        const uint32_t rows = a.depth * THREADS >> a.log_lanes; /* of a thread block */
        const uint32_t rounds = kvg_encoder<FORMAT, T>::PARAMS == 0 ? (a.pieces - 1 >> a.log_lanes) + 1 : 1;
        const dim3 grid((a.rows + rows - 1) / rows, a.sides, rounds);
        const bool in_one_round = a.pieces <= 1u << a.log_lanes;
        if constexpr (kvg_encoder<FORMAT, T>::PARAMS > 0) {
            if (!in_one_round) append_rows<FORMAT, T, ROUNDS><<<grid, THREADS, 0, stream>>>(a);
        }
        if (rounds > 1 || in_one_round) {
            if (a.finishes) append_rows<FORMAT, T, FINISHES><<<grid, THREADS, 0, stream>>>(a);
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
    if (s) return s;
    kvg_gpu_layout_of(p, &layout);
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
    const bool few_rows = rows * a.pieces / THREADS < FEW_BLOCKS;
    const cudaStream_t queue = (cudaStream_t)stream;
    const kvg_format k = p->storage[KVG_K].format, v = p->storage[KVG_V].format;
    const auto run = [&](kvg_format format, int first, int count) {
        append_args one = a;
        one.sides = count;
        one.log_lanes = log_lanes(a.pieces, kvg_format_get(format)->row_param_bytes > 0);
        one.depth = few_rows ? 1 : MOST_DEPTH;
        for (int i = 0; i < count; i++) {
            append_side &side = one.side[i] = a.side[first + i];
            const kvg_append_values &values = side.values;
            const bool pairs = values.halves && values.rope_dims % (4 * KVG_PIECE) == 0 && one.log_lanes >= 2;
            side.paired = pairs && side.width == KVG_PIECE ? values.rope_dims / KVG_PIECE : 0;
            side.partners = values.halves && values.whole_octets && side.second == values.rope_dims / 2;
            one.finishes = one.finishes || values.bias || values.cos_sin;
        }
        return kvg_dispatch<launch>(format, p->dtype, one, queue);
    };
    /* K and V at once where one kernel writes both, and V has no need of K's larger one */
    const bool alike = sides == 2 && k == v && (few_rows || !p->rope.dims || p->bias);
    s = run(k, KVG_K, alike ? 2 : 1);
    return s || alike || sides == 1 ? s : run(v, KVG_V, 1);
}
