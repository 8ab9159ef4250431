/* A checkpoint's tensors on the device, in the types that they have in their file. */
#include <cstdlib>

#include "gpu/device/cuda_status.cuh"
#include "gpu/model/model_parts.cuh"

namespace {

enum { THREADS = 256, TILE = 32, UNIT = 16, MXFP4_BLOCK = 32 };

kvg_status check(cudaError_t error)
{
    return kvg_cuda_status("the model's tensors", error);
}

/* --- kernels --- */

/* y[i] = RN of x[i] to `dtype`: f32, f16 or bf16. x null: -0. */
__global__ void model_convert(kvg_model_vector x, void *y, kvg_dtype dtype, uint32_t count)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const float v = x.data ? x.at(i) : -0.0f;
    if (dtype == KVG_DTYPE_F32) ((float *)y)[i] = v;
    else if (dtype == KVG_DTYPE_F16) ((uint16_t *)y)[i] = kvg_scalar<KVG_DTYPE_F16>::round(v);
    else ((uint16_t *)y)[i] = kvg_scalar<KVG_DTYPE_BF16>::round(v);
}

/* y[column][row] = x[row][column]; rows of y are `pitch` elements apart. */
template <typename bits>
__global__ void model_transpose(const bits *x, uint32_t rows, uint32_t columns, bits *y, size_t pitch)
{
    __shared__ bits tile[TILE][TILE + 1];
    uint32_t row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[(size_t)row * columns + column];
    __syncthreads();
    row = blockIdx.y * TILE + threadIdx.x, column = blockIdx.x * TILE + threadIdx.y;
    if (row < rows && column < columns) y[column * pitch + row] = tile[threadIdx.x][threadIdx.y];
}

/* --- one tensor --- */

struct placing {
    const kvg_model_setup *setup;
    kvg_model_arena *arena;
    void *scratch;
    cudaStream_t stream;
    bool uploads() const { return arena->base != nullptr; }
};

kvg_status view_of(const placing &p, kvg_weight weight, uint32_t layer, kvg_weight_view *out)
{
    static const char *const names[KVG_WEIGHT_COUNT] = {
#define WEIGHT(ENUM, LAYERED, CONDITION, name, ...) name,
#include "core/model_weights.def"
#undef WEIGHT
    };
    *out = p.setup->source.view(p.setup->source.weights, weight, layer);
    if (out->data) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "the model's config asks for %s, and layer %u has none", names[weight], layer);
}

/* What lies on the device already is used where it is. */
bool on_device(const void *data)
{
    cudaPointerAttributes attributes = {};
    const bool known = cudaPointerGetAttributes(&attributes, data) == cudaSuccess;
    if (!known) (void)cudaGetLastError(); /* no GPU: nothing lies on it */
    return known && (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
}

uint64_t numbers_of(const kvg_weight_view &v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v.rank; i++) n *= v.shape[i];
    return n;
}

kvg_status place_vector(const placing &p, kvg_weight weight, uint32_t layer, kvg_model_vector *out)
{
    kvg_weight_view v;
    kvg_status s = view_of(p, weight, layer, &v);
    if (s) return s;
    const uint64_t bytes = numbers_of(v) * kvg_dtype_bytes(v.dtype);
    *out = {v.data, v.dtype};
    if (on_device(v.data)) return KVG_OK;
    void *to = p.arena->take(bytes);
    out->data = to;
    return p.uploads() ? check(cudaMemcpyAsync(to, v.data, bytes, cudaMemcpyDefault, p.stream)) : KVG_OK;
}

/* `count` numbers of a vector in another type. */
kvg_status place_converted(const placing &p, const kvg_model_vector &from, uint32_t count, kvg_dtype dtype,
                           const void **out)
{
    void *to = p.arena->take((uint64_t)count * kvg_dtype_bytes(dtype));
    *out = to;
    if (!p.uploads()) return KVG_OK;
    model_convert<<<(count + THREADS - 1) / THREADS, THREADS, 0, p.stream>>>(from, to, dtype, count);
    return check(cudaGetLastError());
}

/* Zeros after each of `rows` rows of `bytes`: they are copied with the rows, and no product takes them. */
kvg_status clear_padding(const placing &p, uint8_t *to, uint64_t rows, size_t bytes, size_t pitch)
{
    if (bytes == pitch) return KVG_OK;
    return check(cudaMemset2DAsync(to + bytes, pitch, 0, pitch - bytes, rows, p.stream));
}

/* Rows of `bytes`, each at a multiple of UNIT. */
kvg_status place_rows(const placing &p, const void *data, uint64_t rows, size_t bytes, kvg_model_matrix *out)
{
    out->pitch = (bytes + UNIT - 1) / UNIT * UNIT;
    if (on_device(data)) {
        out->rows = (const uint8_t *)data;
        if (bytes == out->pitch && (uintptr_t)data % UNIT == 0) return KVG_OK;
        return kvg_fail(KVG_ERR_INVALID, "weights on the device: rows must begin at multiples of %d bytes", (int)UNIT);
    }
    uint8_t *to = (uint8_t *)p.arena->take(rows * out->pitch);
    out->rows = to;
    if (!p.uploads()) return KVG_OK;
    kvg_status s = clear_padding(p, to, rows, bytes, out->pitch);
    return s ? s : check(cudaMemcpy2DAsync(to, out->pitch, data, bytes, bytes, rows, cudaMemcpyDefault, p.stream));
}

kvg_status place_matrix(const placing &p, kvg_weight weight, uint32_t layer, kvg_model_matrix *out)
{
    kvg_weight_view v;
    kvg_status s = view_of(p, weight, layer, &v);
    if (s) return s;
    *out = {};
    out->dtype = v.dtype;
    out->outputs = (uint32_t)v.shape[0];
    out->inputs = (uint32_t)v.shape[1];
    return place_rows(p, v.data, v.shape[0], v.shape[1] * kvg_dtype_bytes(v.dtype), out);
}

/* --- experts --- */

/* [expert][in][out] of 16 bits or 32: turned over, so that an output's weights are neighbours. */
kvg_status place_wide_experts(const placing &p, kvg_weight weight, uint32_t layer, kvg_model_matrix *out)
{
    kvg_weight_view v;
    kvg_status s = view_of(p, weight, layer, &v);
    if (s) return s;
    const size_t size = kvg_dtype_bytes(v.dtype), bytes = v.shape[1] * v.shape[2] * size;
    const uint32_t inputs = (uint32_t)v.shape[1], outputs = (uint32_t)v.shape[2];
    *out = {};
    out->dtype = v.dtype;
    out->outputs = outputs;
    out->inputs = inputs;
    out->pitch = (inputs * size + UNIT - 1) / UNIT * UNIT;
    uint8_t *to = (uint8_t *)p.arena->take(v.shape[0] * outputs * out->pitch);
    out->rows = to;
    if (p.uploads()) s = clear_padding(p, to, v.shape[0] * outputs, inputs * size, out->pitch);
    const dim3 grid((outputs + TILE - 1) / TILE, (inputs + TILE - 1) / TILE), block(TILE, TILE);
    for (uint64_t e = 0; e < v.shape[0] && p.uploads() && !s; e++, to += outputs * out->pitch) {
        s = check(cudaMemcpyAsync(p.scratch, (const uint8_t *)v.data + e * bytes, bytes, cudaMemcpyDefault, p.stream));
        if (s) break;
        if (size == 2) {
            model_transpose<<<grid, block, 0, p.stream>>>((const uint16_t *)p.scratch, inputs, outputs, (uint16_t *)to,
                                                          out->pitch / size);
        } else {
            model_transpose<<<grid, block, 0, p.stream>>>((const uint32_t *)p.scratch, inputs, outputs, (uint32_t *)to,
                                                          out->pitch / size);
        }
        s = check(cudaGetLastError());
    }
    return s;
}

kvg_status place_blocks(const placing &p, kvg_weight codes, kvg_weight scales, uint32_t layer, kvg_model_matrix *out)
{
    kvg_weight_view v;
    kvg_model_vector bytes = {};
    kvg_status s = view_of(p, codes, layer, &v);
    if (!s) s = place_vector(p, scales, layer, &bytes);
    if (s) return s;
    *out = {};
    out->dtype = KVG_DTYPE_U8;
    out->outputs = (uint32_t)v.shape[1];
    out->inputs = (uint32_t)v.shape[2] * MXFP4_BLOCK;
    out->scales = (const uint8_t *)bytes.data;
    return place_rows(p, v.data, v.shape[0] * v.shape[1], v.shape[2] * MXFP4_BLOCK / 2, out);
}

kvg_status place_experts(const placing &p, uint32_t layer, kvg_model_layer *out)
{
    kvg_status s = place_matrix(p, KVG_WEIGHT_ROUTER, layer, &out->router);
    if (!s) s = place_vector(p, KVG_WEIGHT_ROUTER_BIAS, layer, &out->router.bias);
    if (!s && p.setup->config->mxfp4) {
        s = place_blocks(p, KVG_WEIGHT_EXPERT_GATE_UP_CODES, KVG_WEIGHT_EXPERT_GATE_UP_SCALES, layer, &out->gate);
        if (!s) s = place_blocks(p, KVG_WEIGHT_EXPERT_DOWN_CODES, KVG_WEIGHT_EXPERT_DOWN_SCALES, layer, &out->down);
    } else if (!s) {
        s = place_wide_experts(p, KVG_WEIGHT_EXPERT_GATE_UP, layer, &out->gate);
        if (!s) s = place_wide_experts(p, KVG_WEIGHT_EXPERT_DOWN, layer, &out->down);
    }
    if (!s) s = place_vector(p, KVG_WEIGHT_EXPERT_GATE_UP_BIAS, layer, &out->gate.bias);
    return s ? s : place_vector(p, KVG_WEIGHT_EXPERT_DOWN_BIAS, layer, &out->down.bias);
}

/* --- layers --- */

kvg_status place_mlp(const placing &p, uint32_t layer, kvg_model_layer *out)
{
    if (p.setup->config->experts) return place_experts(p, layer, out);
    kvg_status s = place_matrix(p, KVG_WEIGHT_GATE, layer, &out->gate);
    if (!s) s = place_matrix(p, KVG_WEIGHT_UP, layer, &out->up);
    if (!s) s = place_matrix(p, KVG_WEIGHT_DOWN, layer, &out->down);
    if (s || !p.setup->config->mlp_bias) return s;
    s = place_vector(p, KVG_WEIGHT_GATE_BIAS, layer, &out->gate.bias);
    if (!s) s = place_vector(p, KVG_WEIGHT_UP_BIAS, layer, &out->up.bias);
    return s ? s : place_vector(p, KVG_WEIGHT_DOWN_BIAS, layer, &out->down.bias);
}

/* Biases of q, k and v are added in T, those of k and v by op append: -0 adds nothing to a k that has it already. */
kvg_status place_attention_bias(const placing &p, uint32_t layer, kvg_model_layer *out)
{
    const kvg_model_config *c = p.setup->config;
    const uint32_t queries = c->query_heads * c->head_dim, keys = c->kv_heads * c->head_dim;
    kvg_model_vector q = {}, k = {}, v = {};
    kvg_status s = place_vector(p, KVG_WEIGHT_Q_BIAS, layer, &q);
    if (!s) s = place_vector(p, KVG_WEIGHT_K_BIAS, layer, &k);
    if (!s) s = place_vector(p, KVG_WEIGHT_V_BIAS, layer, &v);
    if (!s) s = place_vector(p, KVG_WEIGHT_O_BIAS, layer, &out->o.bias);
    if (!s) s = place_converted(p, q, queries, p.setup->dtype, &out->q_bias);
    if (!s && c->qk_norm) s = place_converted(p, k, keys, p.setup->dtype, &out->k_bias);
    if (!s) s = place_converted(p, c->qk_norm ? kvg_model_vector{} : k, keys, p.setup->dtype, &out->bias[KVG_K]);
    return s ? s : place_converted(p, v, keys, p.setup->dtype, &out->bias[KVG_V]);
}

kvg_status place_scales(const placing &p, uint32_t layer, kvg_model_layer *out)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const float one = 1, *g = p.setup->tensor_scale ? &p.setup->tensor_scale[layer][side] : &one;
        void *to = p.arena->take(sizeof *g);
        out->tensor_scale[side] = (const float *)to;
        kvg_status s = KVG_OK;
        if (p.uploads()) s = check(cudaMemcpyAsync(to, g, sizeof *g, cudaMemcpyHostToDevice, p.stream));
        if (s) return s;
    }
    return KVG_OK;
}

kvg_status place_layer(const placing &p, uint32_t layer, kvg_model_layer *out)
{
    const kvg_model_config *c = p.setup->config;
    kvg_model_vector sinks = {};
    kvg_status s = place_vector(p, KVG_WEIGHT_INPUT_NORM, layer, &out->input_norm);
    if (!s) s = place_vector(p, KVG_WEIGHT_MLP_NORM, layer, &out->mlp_norm);
    if (!s) s = place_matrix(p, KVG_WEIGHT_Q, layer, &out->q);
    if (!s) s = place_matrix(p, KVG_WEIGHT_K, layer, &out->k);
    if (!s) s = place_matrix(p, KVG_WEIGHT_V, layer, &out->v);
    if (!s) s = place_matrix(p, KVG_WEIGHT_O, layer, &out->o);
    if (!s && c->attention_bias) s = place_attention_bias(p, layer, out);
    if (!s && c->qk_norm) s = place_vector(p, KVG_WEIGHT_Q_NORM, layer, &out->q_norm);
    if (!s && c->qk_norm) s = place_vector(p, KVG_WEIGHT_K_NORM, layer, &out->k_norm);
    if (!s && c->sinks) s = place_vector(p, KVG_WEIGHT_SINKS, layer, &sinks);
    if (!s && c->sinks) s = place_converted(p, sinks, c->query_heads, KVG_DTYPE_F32, (const void **)&out->sinks);
    if (!s) s = place_scales(p, layer, out);
    return s ? s : place_mlp(p, layer, out);
}

} // namespace

uint64_t kvg_model_scratch_bytes(const kvg_model_setup *setup)
{
    const kvg_model_config *c = setup->config;
    const uint64_t widest = kvg_dtype_bytes(KVG_DTYPE_F32);
    return c->experts && !c->mxfp4 ? 2 * (uint64_t)c->hidden * c->intermediate * widest : 0;
}

kvg_status kvg_model_tensors_place(const kvg_model_setup *setup, kvg_model_arena *arena, void *scratch,
                                   kvg_model_tensors *out, cudaStream_t stream)
{
    const kvg_model_config *c = setup->config;
    const placing p = {setup, arena, scratch, stream};
    const uint64_t table = (uint64_t)setup->max_tokens * c->head_dim * sizeof(float);
    kvg_status s = place_matrix(p, KVG_WEIGHT_EMBED, 0, &out->embed);
    if (!s) s = place_vector(p, KVG_WEIGHT_FINAL_NORM, 0, &out->final_norm);
    out->output = out->embed;
    if (!s && !c->tied) s = place_matrix(p, KVG_WEIGHT_OUTPUT, 0, &out->output);
    void *turns = arena->take(table);
    out->cos_sin = (const float *)turns;
    if (!s && p.uploads()) s = check(cudaMemcpyAsync(turns, setup->cos_sin, table, cudaMemcpyHostToDevice, stream));
    for (uint32_t i = 0; i < c->layers && !s; i++) s = place_layer(p, i, &out->layers[i]);
    return s;
}
