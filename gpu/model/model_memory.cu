/* The memory of a model on the device: taken once, filled with what a step needs. */
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gpu/device/cuda_status.cuh"
#include "gpu/gpu.h"
#include "gpu/rows/gpu_layout.h"
#include "gpu/model/model_check.h"
#include "gpu/model/model_state.cuh"

namespace {

enum { EIGHT = 8, LEAST_LONGEST = 256 };

uint32_t round_up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

uint32_t table_width(const kvg_model_setup &setup, uint32_t tokens)
{
    return (tokens + setup.block_tokens - 1) / setup.block_tokens;
}

kvg_model_places places_of(const kvg_model_setup &s)
{
    kvg_model_places p = {};
    const uint64_t table = (uint64_t)s.max_sequences * table_width(s, s.max_tokens);
    const auto take = [&](uint64_t count, uint64_t size) {
        const uint64_t at = p.bytes;
        p.bytes += (count * size + 15) / 16 * 16;
        return at;
    };
    p.tokens = take(s.max_rows, sizeof(int32_t));
    p.positions = take(s.max_rows, sizeof(int32_t));
    p.slots = take(s.max_rows, sizeof(int64_t));
    p.lengths = take(s.max_sequences, sizeof(int32_t));
    p.query_lengths = take(s.max_sequences, sizeof(int32_t));
    p.wanted = take(s.max_wanted, sizeof(uint32_t));
    p.table = take(table, sizeof(int32_t));
    return p;
}

kvg_model_activations place_activations(const kvg_model_setup &s, kvg_model_arena *arena)
{
    const kvg_model_config &c = *s.config;
    kvg_model_activations a = {};
    a.hidden = round_up(c.hidden, EIGHT);
    a.inner = round_up(c.intermediate, EIGHT);
    a.experts = round_up(c.experts, EIGHT);
    const uint64_t rows = s.max_rows, wanted = s.max_wanted, choices = std::max(c.top_k, 1u), entries = rows * choices;
    const auto floats = [&](uint64_t n) { return (float *)arena->take(n * sizeof(float)); };
    const auto words = [&](uint64_t n) { return (uint32_t *)arena->take(n * sizeof(uint32_t)); };
    const auto heads = [&](uint32_t n) { return arena->take(rows * n * c.head_dim * kvg_dtype_bytes(s.dtype)); };
    a.x = floats(rows * a.hidden);
    a.h = floats(std::max(rows, wanted) * a.hidden);
    a.q = heads(c.query_heads);
    a.k = heads(c.kv_heads);
    a.v = heads(c.kv_heads);
    a.attention = heads(c.query_heads);
    a.lse = floats(rows * c.query_heads);
    a.wide = floats(entries * 2 * a.inner);
    a.act = floats(entries * a.inner);
    a.logits = floats(wanted * c.vocab);
    if (!c.experts) return a;
    a.down = floats(entries * a.hidden);
    a.router = floats(rows * a.experts);
    a.weight = floats(entries);
    a.expert = words(entries);
    a.entries = words(rows * c.experts);
    a.counts = words(c.experts);
    return a;
}

uint32_t longest_of(const kvg_model_setup &setup, uint32_t tokens)
{
    uint64_t longest = LEAST_LONGEST;
    while (longest < tokens) longest *= 2;
    return (uint32_t)std::min<uint64_t>(longest, setup.max_tokens);
}

/* The largest workspace of op decode over shapes of steps of one sequence, and of as many as their rows allow. It does
 * not grow with each of their numbers: model_step.cu refuses a step between these that takes more. */
kvg_status workspace_bytes(const kvg_model_setup &setup, uint64_t *out)
{
    const kvg_model_config &c = *setup.config;
    *out = 0;
    for (uint32_t layer = 0; layer < c.layers; layer++) {
        bool is_new = true;
        for (uint32_t k = 0; k < layer; k++) is_new = is_new && c.sliding[k] != c.sliding[layer];
        for (uint32_t tokens = 1, longest = 0; is_new && longest < setup.max_tokens; tokens = longest + 1) {
            longest = longest_of(setup, tokens);
            for (uint32_t i = 0; i < 2 * setup.max_rows; i++) {
                kvg_model_step step = {};
                size_t bytes = 0;
                step.rows = i / 2 + 1;
                step.sequences = i % 2 ? std::min(step.rows, setup.max_sequences) : 1;
                step.longest = longest;
                const kvg_problem p = kvg_model_decode(&setup, layer, &step);
                kvg_status s = kvg_gpu_decode_workspace(&p, &bytes);
                if (s) return s;
                *out = std::max<uint64_t>(*out, bytes);
            }
        }
    }
    return KVG_OK;
}

/* The first pass, with no base, finds how much there is to take; the second one takes it. */
kvg_status place(kvg_gpu_model *m, kvg_model_arena *arena, void *scratch, cudaStream_t stream)
{
    const kvg_problem append = kvg_model_append(&m->setup, 0, 1);
    uint64_t workspace = 0;
    kvg_status s = kvg_model_tensors_place(&m->setup, arena, scratch, &m->tensors, stream);
    for (int kind = 0; kind < 2 && !s; kind++) {
        for (int side = KVG_K; side <= KVG_V && !s; side++) {
            uint64_t *bytes = &m->pool_bytes[kind][side];
            s = kvg_problem_pool_bytes(&append, kind ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL, (kvg_side)side, bytes);
            m->pools[kind][side] = s || *bytes == 0 ? nullptr : arena->take(*bytes);
            if (s || !m->pools[kind][side]) continue;
            s = kvg_cuda_status("pools", cudaMemsetAsync(m->pools[kind][side], 0, *bytes, stream));
        }
    }
    if (!s) s = workspace_bytes(m->setup, &workspace);
    m->places = places_of(m->setup);
    m->inputs = (uint8_t *)arena->take(m->places.bytes);
    m->a = place_activations(m->setup, arena);
    m->workspace = arena->take(workspace), m->workspace_bytes = workspace;
    return s;
}

/* Where the rows of a block lie in each pool, in every layer. */
kvg_status describe_blocks(kvg_gpu_model *m)
{
    kvg_gpu_layout first, next;
    kvg_problem p = kvg_model_append(&m->setup, 0, 1);
    kvg_status s = kvg_gpu_layout_of(&p, &first);
    p.paging.layer = 1;
    if (!s) s = kvg_gpu_layout_of(&p, &next);
    if (s) return s;
    m->copy.layers = p.paging.layers;
    m->copy.heads = p.kv_heads;
    m->copy.tokens = p.paging.block_tokens;
    for (int i = 0; i < 4; i++) {
        const kvg_gpu_rows &rows = i / 2 ? first.scales[i % 2] : first.codes[i % 2];
        const kvg_gpu_rows &above = i / 2 ? next.scales[i % 2] : next.codes[i % 2];
        if (rows.bytes == 0) continue;
        uint8_t *pool = (uint8_t *)m->pools[rows.pool == KVG_ROLE_SCALE_POOL][rows.pool_side];
        m->copy.parts[i] = {pool + rows.base, above.base - rows.base, rows.block, rows.head, rows.token, rows.bytes};
    }
    return KVG_OK;
}

/* --- open and close --- */

kvg_status new_model(const kvg_model_setup *setup, kvg_gpu_model **out)
{
    kvg_gpu_model *m = (kvg_gpu_model *)calloc(1, sizeof *m);
    *out = m;
    if (m) m->tensors.layers = (kvg_model_layer *)calloc(setup->config->layers, sizeof *m->tensors.layers);
    if (!m || !m->tensors.layers) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u layers", setup->config->layers);
    m->setup = *setup;
    return KVG_OK;
}

/* Of the products of a step: numbers of x, and of what is rounded. */
struct library_sizes {
    uint64_t most_x, most_y;
};

library_sizes library_sizes_of(const kvg_model_setup &s)
{
    const kvg_model_config &c = *s.config;
    const uint64_t queries = (uint64_t)c.query_heads * c.head_dim;
    const uint64_t inputs = std::max<uint64_t>(queries, std::max(c.hidden, c.experts ? 0 : c.intermediate));
    return {std::max<uint64_t>(s.max_rows * inputs, (uint64_t)s.max_wanted * c.hidden), s.max_rows * queries};
}

kvg_status take_memory(kvg_gpu_model *m)
{
    const uint64_t scratch_bytes = kvg_model_scratch_bytes(&m->setup);
    kvg_model_arena arena = {};
    void *scratch = nullptr;
    kvg_status s = place(m, &arena, nullptr, nullptr);
    if (s) return s;
    s = kvg_gpu_alloc(arena.used, &m->memory);
    if (s) return kvg_fail_in(s, "%llu MB for the model and its cache", (unsigned long long)(arena.used >> 20));
    if (scratch_bytes) s = kvg_gpu_alloc(scratch_bytes, &scratch);
    arena = {(uint8_t *)m->memory, 0};
    if (!s) s = place(m, &arena, scratch, nullptr);
    if (!s) s = kvg_cuda_status("the model's upload", cudaDeviceSynchronize());
    kvg_gpu_free(scratch);
    if (!s) s = kvg_cuda_status("pinned memory", cudaMallocHost((void **)&m->host, m->places.bytes));
    if (!s && m->setup.products == KVG_PRODUCTS_LIBRARY) {
        const library_sizes sizes = library_sizes_of(m->setup);
        s = kvg_library_open(sizes.most_x, sizes.most_y, &m->library);
    }
    if (!s) s = describe_blocks(m);
    return s;
}

} // namespace


kvg_status kvg_gpu_model_bytes(const kvg_model_setup *setup, uint64_t *out)
{
    kvg_gpu_model *m;
    kvg_model_arena arena = {};
    kvg_status s = kvg_gpu_model_check_setup(setup);
    if (s) return s;
    s = new_model(setup, &m);
    if (!s) s = place(m, &arena, nullptr, nullptr);
    kvg_gpu_model_close(m);
    *out = arena.used;
    if (setup->products != KVG_PRODUCTS_LIBRARY) return s;
    const library_sizes sizes = library_sizes_of(*setup);
    *out += kvg_library_bytes(sizes.most_x, sizes.most_y);
    return s;
}

kvg_status kvg_gpu_model_open(const kvg_model_setup *setup, kvg_gpu_model **out)
{
    *out = nullptr;
    kvg_status s = kvg_gpu_model_check_setup(setup);
    if (!s) s = kvg_gpu_check_profile(setup->profile);
    if (s) return s;
    s = new_model(setup, out);
    if (!s) s = take_memory(*out);
    if (!s) return KVG_OK;
    kvg_gpu_model_close(*out);
    *out = nullptr;
    return s;
}

void kvg_gpu_model_close(kvg_gpu_model *m)
{
    if (!m) return;
    if (m->host) (void)cudaFreeHost(m->host);
    kvg_library_close(m->library);
    kvg_gpu_free(m->memory);
    free(m->tensors.layers);
    free(m);
}

/* --- a step's numbers --- */

kvg_gpu_model_shape kvg_gpu_model_shape_of(const kvg_gpu_model *m, const kvg_model_step *step)
{
    return {step->rows, step->sequences, step->wanted, longest_of(m->setup, step->longest)};
}

kvg_status kvg_gpu_model_upload(kvg_gpu_model *m, const kvg_model_step *step, kvg_stream *stream)
{
    const kvg_model_places &p = m->places;
    const uint32_t width = table_width(m->setup, step->longest);
    const uint32_t room = table_width(m->setup, longest_of(m->setup, step->longest));
    const cudaStream_t queue = (cudaStream_t)stream;
    kvg_status s = KVG_OK;
    memcpy(m->host + p.tokens, step->tokens, step->rows * sizeof *step->tokens);
    memcpy(m->host + p.positions, step->positions, step->rows * sizeof *step->positions);
    memcpy(m->host + p.slots, step->slots, step->rows * sizeof *step->slots);
    memcpy(m->host + p.lengths, step->lengths, step->sequences * sizeof *step->lengths);
    memcpy(m->host + p.query_lengths, step->query_lengths, step->sequences * sizeof *step->query_lengths);
    if (step->wanted) memcpy(m->host + p.wanted, step->wanted_rows, step->wanted * sizeof *step->wanted_rows);
    int32_t *table = (int32_t *)(m->host + p.table);
    for (uint32_t i = 0; i < step->sequences; i++, table += room) {
        memcpy(table, step->block_table + (size_t)i * width, width * sizeof *table);
        for (uint32_t k = width; k < room; k++) table[k] = -1;
    }
    for (uint32_t i = 0; i < step->copies && !s; i++) {
        m->copy.from = step->copy[i][0], m->copy.to = step->copy[i][1];
        s = kvg_model_copy_run(m->copy, queue);
    }
    if (s) return s;
    return kvg_gpu_upload(m->inputs, m->host, (size_t)((uint8_t *)table - m->host), stream);
}

const float *kvg_gpu_model_logits(const kvg_gpu_model *m)
{
    return m->a.logits;
}

void *kvg_gpu_model_pool(const kvg_gpu_model *m, kvg_role role, kvg_side side, uint64_t *bytes)
{
    const int kind = role == KVG_ROLE_SCALE_POOL;
    *bytes = m->pool_bytes[kind][side];
    return m->pools[kind][side];
}
