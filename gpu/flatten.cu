/* flatten and expand: a paged cache back to [sequence, head, token, dim] in the model type, or in E4M3
 * (docs/layouts.md section 7). */
#include "gpu/cache_rows.cuh"
#include "gpu/cuda_status.cuh"
#include "gpu/dispatch.cuh"
#include "gpu/ops.h"

namespace {

enum { THREADS = 256 };

struct flatten_side {
    kvg_cache_rows codes, scales;
    const float *tensor_scale;          /* null: 1 */
    const int32_t *table, *lengths;     /* [sequences, width], [sequences] */
    void *out;                          /* [sequences, heads, tokens, v_dim] in T, or codes of E4M3 */
    uint32_t sequences, heads, tokens, dim, lanes, width, blocks;
    uint32_t v_first, v_dim;            /* the elements of a row that are wanted */
    bool one_block, ring, e4m3;
};

/* The slot of a position; -1 where it has none. */
__device__ int64_t slot_of(const flatten_side &a, uint32_t sequence, uint32_t position)
{
    const uint32_t B = a.codes.block_tokens;
    const int64_t length = a.lengths[sequence];
    if (position >= length || (a.ring && position + (int64_t)B < length)) return -1;
    const int32_t block = a.table[(size_t)sequence * a.width + (a.one_block ? 0 : position / B)];
    return block < 0 || (uint32_t)block >= a.blocks ? -1 : (int64_t)block * B + position % B;
}

/* Sixteen values of T to where they go: all of them at once, or the ones that are wanted. */
template <typename VALUE>
__device__ void put(const flatten_side &a, uint64_t row, uint32_t first, const VALUE *y)
{
    VALUE *to = (VALUE *)a.out + row * a.v_dim;
    if (a.v_dim == a.dim) {
        kvg_store<KVG_PIECE * sizeof(VALUE)>((uint8_t *)(to + first), (const uint32_t *)y, 16);
        return;
    }
    for (uint32_t i = 0; i < KVG_PIECE; i++) {
        const uint32_t element = first + i - a.v_first; /* wraps below v_first */
        if (element < a.v_dim) to[element] = y[i];
    }
}

template <kvg_format FORMAT, kvg_dtype T> __global__ void __launch_bounds__(THREADS) flatten_rows(flatten_side a)
{
    typedef kvg_codec<FORMAT, T> codec;
    typedef kvg_packing<FORMAT, codec::BITS> packing;
    const uint64_t row = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / a.lanes;
    const uint32_t lane = threadIdx.x % a.lanes;
    const uint32_t position = (uint32_t)(row % a.tokens), head = (uint32_t)(row / a.tokens % a.heads);
    const uint64_t sequence = row / a.tokens / a.heads;
    const int64_t slot = sequence < a.sequences ? slot_of(a, (uint32_t)sequence, position) : -1;
    if (slot < 0) return;
    const float g = a.tensor_scale ? *a.tensor_scale : 1;
    kvg_row_state state = {};
    if constexpr (codec::PARAMS > 0) {
        const uint8_t *from = a.scales.row(slot, head);
        uint32_t params = 0;
        for (int i = 0; i < codec::PARAMS; i++) params |= (uint32_t)from[i] << 8 * i;
        state = codec::params(params);
    }
    for (uint32_t first = lane * KVG_PIECE; first < a.dim; first += a.lanes * KVG_PIECE) {
        enum { BYTES = KVG_PIECE * codec::BITS / 8 };
        alignas(16) uint32_t words[BYTES / 4];
        alignas(16) typename kvg_scalar<T>::bits y[KVG_PIECE];
        float unit = 0;
        kvg_load<BYTES>(a.codes.row(slot, head) + first / KVG_PIECE * BYTES, words, a.codes.align);
        if constexpr (codec::BLOCK > 0) unit = codec::unit(*a.scales.scale(slot, head, first / codec::BLOCK), g);
#pragma unroll
        for (int i = 0; i < KVG_PIECE; i++) {
            const uint32_t code = words[packing::word(i)] >> packing::shift(i) & ((1u << codec::BITS) - 1);
            y[i] = codec::decode(state, unit, g, code);
        }
        if (!a.e4m3) {
            put(a, row, first, y);
            continue;
        }
        alignas(16) uint8_t e4m3[KVG_PIECE];
        for (int i = 0; i < KVG_PIECE; i++) e4m3[i] = (uint8_t)kvg_fp8<__NV_E4M3>(kvg_scalar<T>::widen(y[i]));
        put(a, row, first, e4m3);
    }
}

template <kvg_format FORMAT, kvg_dtype T> struct launch {
    static kvg_status run(const flatten_side &a, cudaStream_t stream)
    {
        const uint64_t rows = (uint64_t)a.sequences * a.heads * a.tokens;
        const uint64_t blocks = (rows * a.lanes + THREADS - 1) / THREADS;
        if (blocks > INT32_MAX) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "flatten: %u tokens are too many", a.tokens);
        flatten_rows<FORMAT, T><<<(unsigned)blocks, THREADS, 0, stream>>>(a);
        return kvg_cuda_status("flatten", cudaGetLastError());
    }
};

} // namespace

kvg_status kvg_gpu_flatten(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const kvg_role *inputs = kvg_op_get(p->op)->inputs;
    kvg_gpu_layout layout;
    kvg_status s = kvg_gpu_check_rows(p);
    if (s) return s;
    kvg_gpu_layout_of(p, &layout);
    for (int side = KVG_K; side <= KVG_V && !s; side++) {
        const kvg_side rows = p->paging.shared_kv ? KVG_K : (kvg_side)side; /* whose rows hold this side */
        const bool part = side == KVG_V && p->paging.shared_kv;
        const kvg_tensor &scale = in[kvg_roles_index(inputs, KVG_ROLE_TENSOR_SCALE, rows)];
        flatten_side a = {};
        a.codes = kvg_cache_rows_of(p, layout.codes[rows], inputs, in);
        a.scales = kvg_cache_rows_of(p, layout.scales[rows], inputs, in);
        a.tensor_scale = scale.bytes ? (const float *)scale.data : nullptr;
        a.table = (const int32_t *)in[kvg_roles_index(inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)].data;
        a.lengths = (const int32_t *)in[kvg_roles_index(inputs, KVG_ROLE_LENGTHS, KVG_K)].data;
        a.out = out[side].data;
        a.sequences = p->paging.sequences;
        a.heads = p->kv_heads;
        a.tokens = p->tokens;
        a.dim = p->head_dim;
        a.lanes = kvg_row_lanes(p->head_dim);
        a.width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
        a.blocks = p->paging.blocks;
        a.v_first = part ? p->paging.v_first : 0;
        a.v_dim = part ? p->paging.v_dim : p->head_dim;
        a.ring = p->layout == KVG_LAYOUT_RING;
        a.one_block = a.ring || p->layout == KVG_LAYOUT_CONTIGUOUS;
        a.e4m3 = p->op == KVG_OP_EXPAND;
        s = kvg_dispatch<launch>(p->storage[rows].format, p->dtype, a, (cudaStream_t)stream);
    }
    return s;
}
