/* append: bias, RoPE, quantise, write new tokens into a paged cache (docs/layouts.md section 7). */
#include "gpu/cache_rows.cuh"
#include "gpu/cuda_status.cuh"
#include "gpu/dispatch.cuh"
#include "gpu/ops.h"

namespace {

enum { THREADS = 256 };

struct append_side {
    const void *values, *bias;          /* [tokens, heads, dim], [heads, dim] in T; bias may be null */
    const float *cos_sin;               /* [positions, rope_dims / 2, 2]; null: no RoPE */
    const int32_t *positions;
    const int64_t *slots;
    const float *tensor_scale;          /* null: 1 */
    kvg_cache_rows codes, scales;
    int64_t all_slots;
    uint32_t tokens, heads, dim, lanes; /* lanes that share a row */
    uint32_t rope_dims, halves;         /* halves: pairs (i, i + R / 2), else (2i, 2i + 1) */
};

template <kvg_dtype T> __device__ float biased(const append_side &a, uint32_t token, uint32_t head, uint32_t element)
{
    typedef typename kvg_scalar<T>::bits bits;
    const size_t row = (size_t)token * a.heads + head;
    const float x = kvg_scalar<T>::widen(((const bits *)a.values)[row * a.dim + element]);
    if (!a.bias) return x;
    const float b = kvg_scalar<T>::widen(((const bits *)a.bias)[(size_t)head * a.dim + element]);
    return kvg_scalar<T>::widen(kvg_scalar<T>::round(__fadd_rn(x, b)));
}

/* Element `element` after the rotation, in T. */
template <kvg_dtype T>
__device__ typename kvg_scalar<T>::bits rotated(const append_side &a, uint32_t token, uint32_t head, uint32_t element,
                                                float own)
{
    const uint32_t half = a.rope_dims / 2;
    const uint32_t pair = a.halves ? element % half : element / 2;
    const bool second = a.halves ? element >= half : element % 2;
    const uint32_t partner = a.halves ? (second ? element - half : element + half) : element ^ 1;
    const float other = biased<T>(a, token, head, partner);
    const float *turn = a.cos_sin + ((size_t)a.positions[token] * half + pair) * 2;
    const float along = __fmul_rn(own, turn[0]), across = __fmul_rn(other, turn[1]);
    return kvg_scalar<T>::round(second ? __fadd_rn(along, across) : __fsub_rn(along, across));
}

/* Sixteen elements of a row as they are to be stored, in T. */
template <kvg_dtype T>
__device__ void prepare(const append_side &a, uint32_t token, uint32_t head, uint32_t first,
                        typename kvg_scalar<T>::bits *out)
{
    typedef typename kvg_scalar<T>::bits bits;
    const bits *row = (const bits *)a.values + ((size_t)token * a.heads + head) * a.dim + first;
    kvg_load<KVG_PIECE * sizeof(bits)>((const uint8_t *)row, (uint32_t *)out, 16);
    if (!a.bias && !a.cos_sin) return;
    for (int i = 0; i < KVG_PIECE; i++) {
        const float u = biased<T>(a, token, head, first + i);
        const bool turns = a.cos_sin && first + i < a.rope_dims;
        if (turns) out[i] = rotated<T>(a, token, head, first + i, u);
        else if (a.bias) out[i] = kvg_scalar<T>::round(u);
    }
}

/* What the lanes of a row agree on: each looks at its own pieces. All lanes of the warp come here. */
template <typename codec, kvg_dtype T>
__device__ kvg_row_state agree(const append_side &a, uint32_t token, uint32_t head, uint32_t lane, bool live)
{
    typename codec::extremes seen;
    for (uint32_t first = lane * KVG_PIECE; live && first < a.dim; first += a.lanes * KVG_PIECE) {
        alignas(16) typename kvg_scalar<T>::bits b[KVG_PIECE];
        prepare<T>(a, token, head, first, b);
        for (int i = 0; i < KVG_PIECE; i++) seen.add(kvg_scalar<T>::widen(b[i]));
    }
    seen.share(a.lanes);
    return codec::row(seen);
}

template <kvg_format FORMAT, kvg_dtype T> __global__ void __launch_bounds__(THREADS) append_rows(append_side a)
{
    typedef kvg_codec<FORMAT, T> codec;
    typedef kvg_packing<FORMAT, codec::BITS> packing;
    enum { BYTES = KVG_PIECE * codec::BITS / 8 };
    const uint64_t row = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / a.lanes;
    const uint32_t lane = threadIdx.x % a.lanes;
    const uint32_t token = (uint32_t)(row / a.heads), head = (uint32_t)(row % a.heads);
    const int64_t slot = token < a.tokens ? a.slots[token] : -1;
    const bool live = slot >= 0 && slot < a.all_slots;
    const float g = a.tensor_scale ? *a.tensor_scale : 1;
    kvg_row_state state = {};
    if constexpr (codec::PARAMS > 0) {
        state = agree<codec, T>(a, token, head, lane, live);
        if (live && lane == 0) {
            uint8_t *to = a.scales.row(slot, head);
            for (int i = 0; i < codec::PARAMS; i++) to[i] = (uint8_t)(state.params >> 8 * i);
        }
    }
    /* the lanes of a row go round together: a block may lie in two of them */
    for (uint32_t round = 0; round < a.dim; round += a.lanes * KVG_PIECE) {
        const uint32_t first = round + lane * KVG_PIECE;
        const bool mine = live && first < a.dim;
        alignas(16) typename kvg_scalar<T>::bits b[KVG_PIECE] = {};
        alignas(16) uint32_t words[BYTES / 4] = {};
        if (mine) prepare<T>(a, token, head, first, b);
        if constexpr (codec::BITS == 16) {
            for (int i = 0; i < KVG_PIECE; i++) {
                words[packing::word(i)] |= codec::encode_bits(b[i]) << packing::shift(i);
            }
        } else {
            float x[KVG_PIECE];
            uint32_t byte = 0;
            for (int i = 0; i < KVG_PIECE; i++) x[i] = kvg_scalar<T>::widen(b[i]);
            if constexpr (codec::BLOCK > 0) {
                float amax = kvg_amax<KVG_PIECE>(x);
                if (codec::BLOCK == 2 * KVG_PIECE) amax = kvg_larger()(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 1));
                byte = codec::scale(amax, g);
                if (mine && first % codec::BLOCK == 0) {
                    *a.scales.scale(slot, head, first / codec::BLOCK) = (uint8_t)byte;
                }
            }
            const kvg_divisor divisor = codec::divisor(state, byte, g);
            for (int i = 0; i < KVG_PIECE; i++) {
                words[packing::word(i)] |= codec::encode(state, divisor, x[i]) << packing::shift(i);
            }
        }
        if (mine) kvg_store<BYTES>(a.codes.row(slot, head) + first / KVG_PIECE * BYTES, words, a.codes.align);
    }
}

template <kvg_format FORMAT, kvg_dtype T> struct launch {
    static kvg_status run(const append_side &a, cudaStream_t stream)
    {
        const uint64_t rows = (uint64_t)a.tokens * a.heads, blocks = (rows * a.lanes + THREADS - 1) / THREADS;
        if (blocks > INT32_MAX) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "append: %u tokens are too many", a.tokens);
        append_rows<FORMAT, T><<<(unsigned)blocks, THREADS, 0, stream>>>(a);
        return kvg_cuda_status("append", cudaGetLastError());
    }
};

const kvg_tensor *input(const kvg_problem *p, const kvg_tensor *in, kvg_role role, kvg_side side)
{
    return &in[kvg_roles_index(kvg_op_get(p->op)->inputs, role, side)];
}

} // namespace

kvg_status kvg_gpu_append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const kvg_role *outputs = kvg_op_get(p->op)->outputs;
    kvg_gpu_layout layout;
    kvg_status s = kvg_gpu_check_rows(p);
    if (s) return s;
    kvg_gpu_layout_of(p, &layout);
    for (int side = KVG_K; side < kvg_problem_sides(p) && !s; side++) {
        const kvg_side which = (kvg_side)side;
        const kvg_tensor *scale = input(p, in, KVG_ROLE_TENSOR_SCALE, which);
        append_side a = {};
        a.values = input(p, in, KVG_ROLE_VALUES, which)->data;
        a.bias = p->bias ? input(p, in, KVG_ROLE_BIAS, which)->data : nullptr;
        if (side == KVG_K && p->rope.dims) {
            a.cos_sin = (const float *)input(p, in, KVG_ROLE_COS_SIN, KVG_K)->data;
            a.positions = (const int32_t *)input(p, in, KVG_ROLE_POSITIONS, KVG_K)->data;
            a.rope_dims = p->rope.dims;
            a.halves = p->rope.pairing == KVG_PAIRING_HALVES;
        }
        a.slots = (const int64_t *)input(p, in, KVG_ROLE_SLOTS, KVG_K)->data;
        a.tensor_scale = scale->bytes ? (const float *)scale->data : nullptr;
        a.codes = kvg_cache_rows_of(p, layout.codes[side], outputs, out);
        a.scales = kvg_cache_rows_of(p, layout.scales[side], outputs, out);
        a.all_slots = (int64_t)p->paging.blocks * p->paging.block_tokens;
        a.tokens = p->tokens;
        a.heads = p->kv_heads;
        a.dim = p->head_dim;
        a.lanes = kvg_row_lanes(p->head_dim);
        s = kvg_dispatch<launch>(p->storage[side].format, p->dtype, a, (cudaStream_t)stream);
    }
    return s;
}
