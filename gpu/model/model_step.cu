/* A step of a model (docs/spec/generate.md sections 4 and 5): its kernels in their order. */
#include <initializer_list>

#include "gpu/model/model_state.cuh"
#include "gpu/ops.h"

namespace {

/* --- products --- */

struct product_request {
    const kvg_model_matrix *matrix;
    const void *x;
    void *y;
    uint32_t x_pitch, y_pitch;
    kvg_model_end end;
    kvg_dtype x_dtype;
};

/* How rows are handed to the products that read them. cuBLAS takes them in the weights' type: in that from the start,
 * where it is the same of all; else, and for products in fixed order, in f32. */
kvg_dtype type_for(const kvg_gpu_model *m, std::initializer_list<const kvg_model_matrix *> readers)
{
    const kvg_dtype first = (*readers.begin())->dtype;
    for (const kvg_model_matrix *reader : readers) {
        if (!m->library || reader->dtype != first || reader->dtype == KVG_DTYPE_U8) return KVG_DTYPE_F32;
    }
    return first;
}

/* Every product of a step comes by here. */
kvg_status multiply(kvg_gpu_model *m, const product_request &r, uint32_t rows, const kvg_model_lists &lists,
                    cudaStream_t stream)
{
    kvg_model_product p = {};
    p.matrix = *r.matrix;
    p.x = r.x;
    p.y = r.y;
    p.x_pitch = r.x_pitch;
    p.y_pitch = r.y_pitch;
    p.rows = rows;
    p.x_dtype = r.x_dtype;
    p.dtype = m->setup.dtype;
    p.end = r.end;
    p.lists = lists;
    return m->library && !lists.experts ? kvg_library_multiply(m->library, p, stream)
                                        : kvg_model_product_run(p, stream);
}

/* --- a layer --- */

struct position {
    kvg_gpu_model *m;
    const kvg_gpu_model_shape *shape;
    const kvg_model_layer *layer;
    cudaStream_t stream;
};

kvg_status norm(const position &at, const float *x, const uint32_t *chosen, const kvg_model_vector &weights,
                uint32_t rows, kvg_dtype h)
{
    const kvg_model_config &c = *at.m->setup.config;
    kvg_model_norm n = {x,        at.m->a.h,      h,    at.m->library != nullptr, chosen, weights,
                        c.hidden, at.m->a.hidden, rows, c.rms_eps};
    return kvg_model_norm_run(n, at.stream);
}

kvg_status before_attention(const position &at)
{
    const kvg_model_activations &a = at.m->a;
    const kvg_model_config &c = *at.m->setup.config;
    const kvg_model_layer &l = *at.layer;
    const uint32_t rows = at.shape->rows, queries = c.query_heads * c.head_dim, keys = c.kv_heads * c.head_dim;
    const kvg_dtype h_dtype = type_for(at.m, {&l.q, &l.k, &l.v});
    const product_request products[] = {{&l.q, a.h, a.q, a.hidden, queries, KVG_MODEL_ROUND, h_dtype},
                                        {&l.k, a.h, a.k, a.hidden, keys, KVG_MODEL_ROUND, h_dtype},
                                        {&l.v, a.h, a.v, a.hidden, keys, KVG_MODEL_ROUND, h_dtype}};
    kvg_status s = norm(at, a.x, nullptr, l.input_norm, rows, h_dtype);
    for (const product_request &p : products) {
        if (!s) s = multiply(at.m, p, rows, {}, at.stream);
    }
    kvg_model_heads h = {};
    h.q = a.q;
    h.k = c.qk_norm ? a.k : nullptr;
    h.q_bias = l.q_bias;
    h.k_bias = l.k_bias;
    h.q_norm = l.q_norm;
    h.k_norm = l.k_norm;
    h.cos_sin = at.m->tensors.cos_sin;
    h.positions = (const int32_t *)(at.m->inputs + at.m->places.positions);
    h.rows = rows;
    h.query_heads = c.query_heads;
    h.kv_heads = c.kv_heads;
    h.dim = c.head_dim;
    h.eps = c.rms_eps;
    h.dtype = at.m->setup.dtype;
    return s ? s : kvg_model_heads_run(h, at.stream);
}

/* The device's tensor of a role of ops append and decode. */
const void *data_of(const position &at, kvg_role role, kvg_side side)
{
    const kvg_gpu_model &m = *at.m;
    switch (role) {
    case KVG_ROLE_VALUES: return side == KVG_K ? m.a.k : m.a.v;
    case KVG_ROLE_TENSOR_SCALE: return at.layer->tensor_scale[side];
    case KVG_ROLE_BIAS: return at.layer->bias[side];
    case KVG_ROLE_POSITIONS: return m.inputs + m.places.positions;
    case KVG_ROLE_COS_SIN: return m.tensors.cos_sin;
    case KVG_ROLE_SLOTS: return m.inputs + m.places.slots;
    case KVG_ROLE_DATA_POOL: return m.pools[0][side];
    case KVG_ROLE_SCALE_POOL: return m.pools[1][side];
    case KVG_ROLE_Q: return m.a.q;
    case KVG_ROLE_BLOCK_TABLE: return m.inputs + m.places.table;
    case KVG_ROLE_LENGTHS: return m.inputs + m.places.lengths;
    case KVG_ROLE_QUERY_LENGTHS: return m.inputs + m.places.query_lengths;
    case KVG_ROLE_SINKS: return at.layer->sinks;
    case KVG_ROLE_OUT: return m.a.attention;
    case KVG_ROLE_LSE: return m.a.lse;
    default: return nullptr;
    }
}

void tensors_of(const position &at, const kvg_problem &p, const kvg_role *roles, kvg_tensor *out)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        out[i] = kvg_problem_tensor(&p, role, side);
        if (out[i].bytes) out[i].data = (void *)data_of(at, role, side);
    }
}

kvg_status cache_op(const position &at, const kvg_problem &p)
{
    const kvg_op_info *op = kvg_op_get(p.op);
    kvg_stream *stream = (kvg_stream *)at.stream;
    kvg_tensor in[KVG_MAX_TENSORS] = {}, out[KVG_MAX_TENSORS] = {};
    kvg_status s = kvg_problem_check(&p);
    if (s) return s;
    tensors_of(at, p, op->inputs, in);
    tensors_of(at, p, op->outputs, out);
    return p.op == KVG_OP_APPEND ? kvg_gpu_append(&p, in, out, stream)
                                 : kvg_gpu_decode(&p, in, out, at.m->workspace, stream);
}

kvg_problem decode_of(const position &at, uint32_t layer)
{
    kvg_model_step step = {};
    step.rows = at.shape->rows;
    step.sequences = at.shape->sequences;
    step.longest = at.shape->longest;
    return kvg_model_decode(&at.m->setup, layer, &step);
}

/* Comes before the kernels of a step, so that a step that is refused has written no row of the cache. The workspace is
 * for one sequence, and for as many as max_rows and max_sequences allow: others may take more (model_memory.cu). */
kvg_status check_workspace(const position &at)
{
    for (uint32_t i = 0; i < at.m->setup.config->layers; i++) {
        const kvg_problem p = decode_of(at, i);
        size_t bytes = 0;
        kvg_status s = kvg_gpu_decode_workspace(&p, &bytes);
        if (s) return s;
        if (bytes > at.m->workspace_bytes) {
            return kvg_fail(KVG_ERR_UNIMPLEMENTED,
                            "a step of %u rows and %u sequences takes %zu bytes of workspace, not %zu",
                            at.shape->rows, at.shape->sequences, bytes, (size_t)at.m->workspace_bytes);
        }
    }
    return KVG_OK;
}

kvg_status attention(const position &at, uint32_t layer)
{
    kvg_status s = cache_op(at, kvg_model_append(&at.m->setup, layer, at.shape->rows));
    return s ? s : cache_op(at, decode_of(at, layer));
}

kvg_status swiglu(const position &at, uint32_t rows, kvg_dtype act)
{
    const kvg_model_activations &a = at.m->a;
    const kvg_model_config &c = *at.m->setup.config;
    const bool mixed = c.experts > 0; /* gate and up take turns */
    kvg_model_swiglu g = {a.wide, a.wide + (mixed ? 1 : a.inner), a.act, act, rows, c.intermediate, mixed ? 2u : 1u,
                          2 * a.inner, a.inner, c.swiglu_limit};
    return kvg_model_swiglu_run(g, at.stream);
}

kvg_status dense(const position &at, kvg_dtype h)
{
    const kvg_model_activations &a = at.m->a;
    const kvg_model_layer &l = *at.layer;
    const uint32_t rows = at.shape->rows;
    const product_request gate = {&l.gate, a.h, a.wide, a.hidden, 2 * a.inner, KVG_MODEL_STORE, h};
    const product_request up = {&l.up, a.h, a.wide + a.inner, a.hidden, 2 * a.inner, KVG_MODEL_STORE, h};
    const kvg_dtype act = type_for(at.m, {&l.down});
    const product_request down = {&l.down, a.act, a.x, a.inner, a.hidden, KVG_MODEL_ADD, act};
    kvg_status s = multiply(at.m, gate, rows, {}, at.stream);
    if (!s) s = multiply(at.m, up, rows, {}, at.stream);
    if (!s) s = swiglu(at, rows, act);
    return s ? s : multiply(at.m, down, rows, {}, at.stream);
}

kvg_status experts(const position &at)
{
    const kvg_model_activations &a = at.m->a;
    const kvg_model_config &c = *at.m->setup.config;
    const kvg_model_layer &l = *at.layer;
    const uint32_t rows = at.shape->rows;
    const kvg_model_route route = {a.router, rows, c.experts, c.top_k, a.experts, a.expert, a.weight, a.entries,
                                   a.counts};
    const kvg_model_lists of_rows = {a.entries, a.counts, c.experts, c.top_k};
    const kvg_model_lists of_entries = {a.entries, a.counts, c.experts, 1};
    const product_request router = {&l.router, a.h, a.router, a.hidden, a.experts, KVG_MODEL_STORE, KVG_DTYPE_F32};
    const product_request gate_up = {&l.gate, a.h, a.wide, a.hidden, 2 * a.inner, KVG_MODEL_STORE, KVG_DTYPE_F32};
    const product_request down = {&l.down, a.act, a.down, a.inner, a.hidden, KVG_MODEL_STORE, KVG_DTYPE_F32};
    kvg_status s = multiply(at.m, router, rows, {}, at.stream);
    if (!s) s = kvg_model_route_run(route, at.stream);
    if (!s) s = multiply(at.m, gate_up, rows, of_rows, at.stream);
    if (!s) s = swiglu(at, rows * c.top_k, KVG_DTYPE_F32);
    if (!s) s = multiply(at.m, down, rows, of_entries, at.stream);
    return s ? s : kvg_model_combine_run({a.down, a.weight, a.x, rows, c.top_k, c.hidden, a.hidden}, at.stream);
}

kvg_status after_attention(const position &at)
{
    const kvg_model_activations &a = at.m->a;
    const kvg_model_config &c = *at.m->setup.config;
    const uint32_t rows = at.shape->rows, queries = c.query_heads * c.head_dim;
    const product_request o = {&at.layer->o, a.attention, a.x, queries, a.hidden, KVG_MODEL_ADD, at.m->setup.dtype};
    const kvg_model_layer &l = *at.layer;
    const kvg_dtype h = c.experts ? KVG_DTYPE_F32 : type_for(at.m, {&l.gate, &l.up});
    kvg_status s = multiply(at.m, o, rows, {}, at.stream);
    if (!s) s = norm(at, a.x, nullptr, l.mlp_norm, rows, h);
    if (s) return s;
    return c.experts ? experts(at) : dense(at, h);
}

kvg_status begin(const position &at)
{
    const int32_t *tokens = (const int32_t *)(at.m->inputs + at.m->places.tokens);
    return kvg_model_embed(at.m->tensors.embed, tokens, at.shape->rows, at.m->a.x, at.m->a.hidden, at.stream);
}

kvg_status end(const position &at)
{
    const kvg_model_activations &a = at.m->a;
    const kvg_model_tensors &t = at.m->tensors;
    const uint32_t wanted = at.shape->wanted, vocab = at.m->setup.config->vocab;
    const uint32_t *chosen = (const uint32_t *)(at.m->inputs + at.m->places.wanted);
    const kvg_dtype h = type_for(at.m, {&t.output});
    const product_request output = {&t.output, a.h, a.logits, a.hidden, vocab, KVG_MODEL_STORE, h};
    if (wanted == 0) return KVG_OK;
    kvg_status s = norm(at, a.x, chosen, t.final_norm, wanted, h);
    return s ? s : multiply(at.m, output, wanted, {}, at.stream);
}

} // namespace

kvg_status kvg_gpu_model_queue(kvg_gpu_model *m, const kvg_gpu_model_shape *shape, unsigned parts, kvg_stream *stream)
{
    const bool cache = parts & KVG_GPU_MODEL_CACHE, rest = parts & KVG_GPU_MODEL_REST;
    position at = {m, shape, nullptr, (cudaStream_t)stream};
    kvg_status s = cache ? check_workspace(at) : KVG_OK;
    if (!s && rest) s = begin(at);
    for (uint32_t i = 0; i < m->setup.config->layers && !s; i++) {
        at.layer = &m->tensors.layers[i];
        if (rest) s = before_attention(at);
        if (!s && cache) s = attention(at, i);
        if (!s && rest) s = after_attention(at);
    }
    return s || !rest ? s : end(at);
}
