#include "harness/bench/device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/bench/device_slice.h"
#include "harness/trial/question/fill.h"
#include "reference/attention_profile.h"
#include "reference/rope_table.h"

enum { STREAM_BLOCKS = 1 << 22, STREAM_SINKS };
static const uint64_t STREAM_Q = 1ull << 43;

/* --- recipes --- */

/* What a word of a kind of bytes is: noise & keep | set. Elements below 2; scales and parameters so that K and V are
 * about 1; neither NaN nor Inf. */
typedef struct rule {
    uint64_t keep, set;
} rule;

static rule repeat(unsigned bits, uint64_t keep, uint64_t set)
{
    rule r = {0, 0};
    for (unsigned at = 0; at < 64; at += bits) {
        r.keep |= keep << at;
        r.set |= set << at;
    }
    return r;
}

static rule element_rule(kvg_codes codes)
{
    switch (codes) {
    case KVG_CODES_F16: return repeat(16, 0xBFFF, 0);
    case KVG_CODES_BF16: return repeat(16, 0x87FF, 0x3800);
    case KVG_CODES_E4M3:
    case KVG_CODES_E5M2: return repeat(8, 0xBF, 0);
    case KVG_CODES_E2M1:
    case KVG_CODES_UNSIGNED:
    case KVG_CODES_OFFSET:
    case KVG_CODES_SIGNED: break;
    }
    return repeat(64, UINT64_MAX, 0);
}

/* Affine 8 bits: steps of 2^-7 from -1 to -2 on; 4 bits: steps of 2^-3. Other scales from 2^-3 on, below 2. */
static rule scale_rule(const kvg_format_info *f, kvg_dtype dtype)
{
    const bool bf16 = dtype == KVG_DTYPE_BF16, wide = f->element_bits == 8;
    switch (f->scales) {
    case KVG_SCALES_AFFINE:
        return bf16 ? repeat(32, 0x007F007F, wide ? 0xBF803C00 : 0xBF803E00)
                    : repeat(32, 0x03FF03FF, wide ? 0xBC002000 : 0xBC003000);
    case KVG_SCALES_F16: return repeat(16, 0x0FFF, 0x3000);
    case KVG_SCALES_F32: return repeat(32, 0x01FFFFFF, 0x3E000000);
    case KVG_SCALES_E8M0: return repeat(8, 0x03, 0x7C);
    case KVG_SCALES_E4M3: return repeat(8, 0x1F, 0x20);
    case KVG_SCALES_NONE: break;
    }
    return repeat(64, UINT64_MAX, 0);
}

static rule value_rule(kvg_dtype dtype)
{
    if (dtype == KVG_DTYPE_F32) return repeat(32, 0x87FFFFFF, 0x38000000);
    return element_rule(dtype == KVG_DTYPE_F16 ? KVG_CODES_F16 : KVG_CODES_BF16);
}

kvg_recipe kvg_device_recipe(kvg_role role, kvg_side side, kvg_format format, kvg_dtype dtype, uint64_t seed)
{
    const kvg_format_info *f = kvg_format_get(format);
    const rule r = role == KVG_ROLE_CODES    ? element_rule(f->codes)
                   : role == KVG_ROLE_SCALES ? scale_rule(f, dtype)
                                             : value_rule(dtype);
    return (kvg_recipe){seed ^ kvg_rng_u64(seed, (uint64_t)role, (uint64_t)side), r.keep, r.set};
}

kvg_recipe kvg_device_case_recipe(const kvg_device_case *d, kvg_role role, kvg_side side)
{
    return kvg_device_recipe(role, side, d->problem.storage[side].format, d->problem.dtype, d->seed);
}

/* --- what there is to do --- */

static uint32_t tokens_of_sequence(const kvg_problem *p)
{
    return kvg_op_reads_sequences(p->op) ? p->tokens : p->tokens / p->paging.sequences;
}

/* Blocks of a sequence. */
static uint32_t width_of(const kvg_problem *p)
{
    const uint32_t tokens = tokens_of_sequence(p);
    return tokens ? (tokens - 1) / p->paging.block_tokens + 1 : 1;
}

/* Where a chip's own profile has no operands or no kernel for it, the one that every chip has. */
kvg_status kvg_device_case_problem(const kvg_case *c, const kvg_bench_device *device, uint32_t sm, kvg_problem *out)
{
    size_t bytes;
    kvg_profile own;
    *out = c->problem;
    if (!kvg_op_get(out->op)->paged || out->op == KVG_OP_PROBE) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "bench on a device: op append, flatten, expand or decode");
    }
    const uint64_t blocks = (uint64_t)width_of(out) * out->paging.sequences;
    if (out->paging.blocks < blocks) out->paging.blocks = (uint32_t)blocks;
    if (out->op != KVG_OP_DECODE) return device->workspace(out, &bytes);
    const bool known = kvg_profile_of_sm(sm, &own) == KVG_OK;
    if (out->profile != KVG_PROFILE_NONE) {
        if (out->profile != KVG_PROFILE_SIMT_FMA_V1 && !(known && out->profile == own)) {
            return kvg_fail(KVG_ERR_UNIMPLEMENTED, "an sm_%u does not give the bits of %s", sm,
                            kvg_profile_get(out->profile)->name);
        }
        return device->workspace(out, &bytes);
    }
    if (known) out->profile = own;
    if (!known || !kvg_problem_has_operands(out)) out->profile = KVG_PROFILE_SIMT_FMA_V1;
    kvg_status s = device->workspace(out, &bytes);
    if (s != KVG_ERR_UNIMPLEMENTED || !known) return s;
    out->profile = KVG_PROFILE_SIMT_FMA_V1;
    return device->workspace(out, &bytes);
}

uint64_t kvg_device_case_bytes(const kvg_problem *p)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_role *lists[] = {op->inputs, op->outputs};
    uint64_t bytes = 0;
    for (int list = 0; list < 2; list++) {
        for (size_t i = 0; i < kvg_roles_tensors(lists[list]); i++) {
            kvg_role role;
            kvg_side side;
            kvg_roles_at(lists[list], i, &role, &side);
            bytes += kvg_problem_tensor(p, role, side).bytes;
        }
    }
    return bytes;
}

/* The case with another batch. */
static kvg_problem with_sequences(const kvg_case *c, uint32_t sequences)
{
    kvg_problem p = c->problem;
    const uint32_t before = p.paging.sequences;
    p.paging.blocks = width_of(&p) * sequences;
    p.paging.sequences = sequences;
    p.attention.queries = p.attention.queries / before * sequences;
    if (!kvg_op_reads_sequences(p.op)) p.tokens = p.tokens / before * sequences;
    return p;
}

uint32_t kvg_device_case_most(const kvg_case *c, uint64_t room)
{
    uint32_t most = c->problem.paging.sequences;
    for (; most > 0; most--) {
        const kvg_problem p = with_sequences(c, most);
        if (kvg_device_case_bytes(&p) <= room) break;
    }
    return most;
}

/* --- places --- */

kvg_device_place kvg_device_case_place(const kvg_device_case *d, uint32_t sequence, uint32_t position)
{
    const uint32_t B = d->problem.paging.block_tokens;
    return (kvg_device_place){d->order[sequence * d->width + position / B], position % B};
}

uint32_t kvg_device_case_rows_before(const kvg_device_case *d, uint32_t sequence)
{
    uint32_t rows = 0;
    for (uint32_t s = 0; s < sequence; s++) rows += kvg_case_queries(d->c, s);
    return rows;
}

static kvg_status place_blocks(kvg_device_case *d)
{
    const kvg_paging *g = &d->problem.paging;
    if (d->problem.tokens % (kvg_op_reads_sequences(d->problem.op) ? 1 : g->sequences)) {
        return kvg_fail(KVG_ERR_INVALID, "bench: %u tokens do not spread evenly over %u sequences", d->problem.tokens,
                        g->sequences);
    }
    d->width = width_of(&d->problem);
    if (kvg_problem_blocks(&d->problem) == KVG_BLOCKS_RING || g->v_scale_swizzle || d->c->shared_prefix) {
        return kvg_fail(KVG_ERR_INVALID, "bench times no rings, swizzled scales or shared prefixes on a device");
    }
    d->order = malloc(g->blocks * sizeof *d->order);
    if (!d->order) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the order of %u blocks", g->blocks);
    for (uint32_t i = 0; i < g->blocks; i++) d->order[i] = i;
    for (uint32_t i = g->blocks; i-- > 1;) {
        const uint32_t j = (uint32_t)kvg_rng_below(d->seed, STREAM_BLOCKS, i, i + 1), block = d->order[i];
        d->order[i] = d->order[j];
        d->order[j] = block;
    }
    return KVG_OK;
}

/* --- inputs that the host has too --- */

static bool device_alone(kvg_role role)
{
    return role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL || role == KVG_ROLE_VALUES;
}

static kvg_tensor *host_input(kvg_device_case *d, kvg_role role, kvg_side side)
{
    const int i = kvg_roles_index(d->op->inputs, role, side);
    return i < 0 || d->host[i].bytes == 0 ? NULL : &d->host[i];
}

static kvg_status fill_tensor_scales(kvg_device_case *d)
{
    const float largest = 2; /* below it are all values */
    for (int side = KVG_K; side < kvg_problem_sides(&d->problem); side++) {
        kvg_tensor *t = host_input(d, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        d->tensor_scale[side] = 1;
        if (!t) continue;
        d->tensor_scale[side] = d->c->scale.value[side];
        kvg_status s = KVG_OK;
        if (!d->c->scale.given) s = kvg_scale_from_amax(d->c->scale.convention, largest, &d->tensor_scale[side]);
        if (s) return s;
        memcpy(t->data, &d->tensor_scale[side], sizeof d->tensor_scale[side]);
    }
    return KVG_OK;
}

static void fill_tables(kvg_device_case *d)
{
    const kvg_paging *g = &d->problem.paging;
    const uint32_t tokens = tokens_of_sequence(&d->problem);
    kvg_tensor *table = host_input(d, KVG_ROLE_BLOCK_TABLE, KVG_K), *lengths = host_input(d, KVG_ROLE_LENGTHS, KVG_K);
    kvg_tensor *counts = host_input(d, KVG_ROLE_QUERY_LENGTHS, KVG_K);
    kvg_tensor *slots = host_input(d, KVG_ROLE_SLOTS, KVG_K);
    kvg_tensor *positions = host_input(d, KVG_ROLE_POSITIONS, KVG_K);
    for (uint32_t s = 0; s < g->sequences; s++) {
        if (lengths) ((int32_t *)lengths->data)[s] = (int32_t)tokens;
        if (counts) ((int32_t *)counts->data)[s] = (int32_t)kvg_case_queries(d->c, s);
        for (uint32_t w = 0; table && w < d->width; w++) {
            ((int32_t *)table->data)[(size_t)s * d->width + w] = (int32_t)d->order[(size_t)s * d->width + w];
        }
        for (uint32_t i = 0; slots && i < tokens; i++) {
            const kvg_device_place at = kvg_device_case_place(d, s, i);
            const size_t token = (size_t)s * tokens + i;
            ((int64_t *)slots->data)[token] = (int64_t)at.block * g->block_tokens + at.offset;
            if (positions) ((int32_t *)positions->data)[token] = (int32_t)(i % d->problem.rope.positions);
        }
    }
}

/* Root of the mean square of the first tokens' K; 1 where it is 0. */
static kvg_status size_of_keys(const kvg_device_case *d, double *out)
{
    kvg_device_slice slice = {0};
    double sum = 0;
    size_t count = 0;
    kvg_status s = kvg_device_slice_flat(d, 0, 0, &slice);
    if (!s) {
        const kvg_tensor *k = &slice.out.tensors[0];
        const size_t row = d->problem.head_dim * kvg_dtype_bytes(k->dtype);
        for (; (count + 1) * row <= k->bytes; count++) {
            float x[KVG_MAX_HEAD_DIM];
            kvg_reference_load(k->dtype, (const uint8_t *)k->data + count * row, d->problem.head_dim, x);
            for (uint32_t i = 0; i < d->problem.head_dim; i++) sum += (double)x[i] * x[i];
        }
    }
    kvg_device_slice_free(&slice);
    *out = sum > 0 ? sqrt(sum / ((double)count * d->problem.head_dim)) : 1;
    return s;
}

/* Rows of q that spread scores by about 2: softmax is neither flat nor one key. */
static kvg_status fill_queries(kvg_device_case *d)
{
    const kvg_problem *p = &d->problem;
    kvg_tensor *q = host_input(d, KVG_ROLE_Q, KVG_K), *sinks = host_input(d, KVG_ROLE_SINKS, KVG_K);
    double keys;
    if (!q) return KVG_OK;
    kvg_status s = size_of_keys(d, &keys);
    if (s) return s;
    const double root = sqrt((double)p->head_dim);
    const double scale = p->attention.scale > 0 ? (double)p->attention.scale : 1 / root;
    const double width = 2 / (scale * root * keys);
    const size_t row = p->head_dim * kvg_dtype_bytes(p->dtype), rows = q->bytes / row;
    for (size_t r = 0; r < rows; r++) {
        float x[KVG_MAX_HEAD_DIM];
        for (uint32_t i = 0; i < p->head_dim; i++) x[i] = (float)(kvg_rng_normal(d->seed, STREAM_Q + r, i) * width);
        kvg_reference_store(p->dtype, x, p->head_dim, (uint8_t *)q->data + r * row);
    }
    for (size_t i = 0; sinks && i < sinks->bytes / sizeof(float); i++) {
        ((float *)sinks->data)[i] = (float)(3 * kvg_rng_normal(d->seed, STREAM_SINKS, i));
    }
    return KVG_OK;
}

static kvg_status fill_append(kvg_device_case *d)
{
    kvg_tensor *table = host_input(d, KVG_ROLE_COS_SIN, KVG_K);
    for (int side = KVG_K; side < kvg_problem_sides(&d->problem); side++) {
        kvg_tensor *bias = host_input(d, KVG_ROLE_BIAS, (kvg_side)side);
        if (bias) kvg_fill_bias(d->c, (kvg_side)side, bias);
    }
    if (!table) return KVG_OK;
    if (d->problem.rope.scaling.kind != KVG_ROPE_TABLE) return kvg_reference_rope_table(&d->problem.rope, table->data);
    kvg_fill_cos_sin(d->c, table);
    return KVG_OK;
}

static kvg_status fill_host(kvg_device_case *d)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_roles_tensors(d->op->inputs) && !s; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(d->op->inputs, i, &role, &side);
        d->host[i] = kvg_problem_tensor(&d->problem, role, side);
        if (device_alone(role) || d->host[i].bytes == 0) continue;
        d->host[i].data = calloc(1, d->host[i].bytes);
        if (!d->host[i].data) s = kvg_fail(KVG_ERR_MEMORY, "cannot hold %s", kvg_tensor_name(role, side));
    }
    if (!s) s = place_blocks(d);
    if (!s) s = fill_tensor_scales(d);
    if (s) return s;
    fill_tables(d);
    return d->problem.op == KVG_OP_APPEND ? fill_append(d) : fill_queries(d);
}

/* --- the device --- */

/* After so many bytes a mask of a recipe repeats: those of one of its numbers. */
static uint32_t period_of(uint64_t mask)
{
    uint32_t bytes = 1;
    while (bytes < 8 && (mask >> 8 * bytes | mask << (64 - 8 * bytes)) != mask) bytes *= 2;
    return bytes;
}

static kvg_status fill_rows(const kvg_device_case *d, const kvg_row_map *map, kvg_role role, kvg_side side)
{
    const kvg_paging *g = &d->problem.paging;
    const int pool = kvg_roles_index(d->op->inputs, map->pool, map->side);
    const kvg_bench_rows rows = {
        .base = map->base + g->layer * map->layer,
        .stride = {map->block, map->head, kvg_rows_pitch(map)},
        .count = {g->blocks, d->problem.kv_heads, g->block_tokens},
        .bytes = map->bytes,
    };
    const kvg_recipe recipe = kvg_device_case_recipe(d, role, side);
    const uint32_t keep = period_of(recipe.keep), set = period_of(recipe.set), number = keep > set ? keep : set;
    if (map->bytes == 0) return KVG_OK;
    if ((rows.base | map->block | map->head | rows.stride[2]) & (number - 1)) {
        return kvg_fail(KVG_ERR_INVALID, "bench: rows of %s must start at multiples of %u bytes: change the padding",
                        kvg_format_get(d->problem.storage[side].format)->name, number);
    }
    return d->device->fill(d->in[pool].data, &rows, recipe);
}

static kvg_status fill_values(const kvg_device_case *d, kvg_side side)
{
    const int i = kvg_roles_index(d->op->inputs, KVG_ROLE_VALUES, side);
    const kvg_problem *p = &d->problem;
    const uint32_t bytes = (uint32_t)(p->head_dim * kvg_dtype_bytes(p->dtype));
    const kvg_bench_rows rows = {
        .stride = {(uint64_t)bytes * p->kv_heads, bytes, 0}, .count = {p->tokens, p->kv_heads, 1}, .bytes = bytes};
    return d->device->fill(d->in[i].data, &rows, kvg_device_case_recipe(d, KVG_ROLE_VALUES, side));
}

static kvg_status fill_device(kvg_device_case *d)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_roles_tensors(d->op->inputs) && !s; i++) {
        d->in[i] = d->host[i];
        d->in[i].data = NULL;
        if (d->in[i].bytes == 0) continue;
        s = d->device->alloc(d->in[i].bytes, &d->in[i].data);
        if (!s && d->host[i].data) s = d->device->upload(d->in[i].data, d->host[i].data, d->host[i].bytes);
    }
    for (size_t i = 0; i < kvg_roles_tensors(d->op->outputs) && !s; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(d->op->outputs, i, &role, &side);
        d->out[i] = kvg_problem_tensor(&d->problem, role, side);
        if (d->out[i].bytes) s = d->device->alloc(d->out[i].bytes, &d->out[i].data);
    }
    for (int side = KVG_K; side < kvg_problem_sides(&d->problem) && !s; side++) {
        if (d->problem.op == KVG_OP_APPEND) {
            s = fill_values(d, (kvg_side)side);
            continue;
        }
        s = fill_rows(d, &d->map.codes[side], KVG_ROLE_CODES, (kvg_side)side);
        if (!s) s = fill_rows(d, &d->map.scales[side], KVG_ROLE_SCALES, (kvg_side)side);
    }
    size_t bytes = 0;
    if (!s) s = d->device->workspace(&d->problem, &bytes);
    return s || bytes == 0 ? s : d->device->alloc(bytes, &d->workspace);
}

kvg_status kvg_device_case_make(const kvg_case *c, const kvg_problem *problem, const kvg_bench_device *device,
                                kvg_device_case *out)
{
    *out = (kvg_device_case){.device = device, .c = c, .problem = *problem, .op = kvg_op_get(problem->op),
                             .seed = kvg_fill_seed(c)};
    kvg_status s = kvg_problem_check(problem);
    if (!s) s = kvg_problem_lay_out(&out->problem); /* so that no launch reads the layout's text */
    if (s) return s;
    kvg_rows_map(&out->problem, &out->map);
    s = fill_host(out);
    return s ? s : fill_device(out);
}

void kvg_device_case_free(kvg_device_case *d)
{
    for (size_t i = 0; i < KVG_MAX_TENSORS; i++) {
        free(d->host[i].data);
        if (d->in[i].data) d->device->free(d->in[i].data);
        if (d->out[i].data) d->device->free(d->out[i].data);
    }
    if (d->workspace) d->device->free(d->workspace);
    free(d->order);
    *d = (kvg_device_case){0};
}

/* --- bytes --- */

/* Of one token of all heads, K and V: what is stored of them. */
static uint64_t stored_bytes(const kvg_device_case *d)
{
    uint64_t bytes = 0;
    for (int side = KVG_K; side < kvg_problem_sides(&d->problem); side++) {
        bytes += d->map.codes[side].bytes + d->map.scales[side].bytes;
    }
    return bytes * d->problem.kv_heads;
}

/* Tokens of the cache that the op must touch. */
static uint64_t touched_tokens(const kvg_device_case *d)
{
    const kvg_problem *p = &d->problem;
    const uint32_t tokens = tokens_of_sequence(p), window = p->attention.window;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < p->paging.sequences; s++) {
        const uint64_t queries = p->op == KVG_OP_DECODE ? kvg_case_queries(d->c, s) : 1;
        const uint64_t seen = window ? window + queries - 1 : tokens;
        sum += queries == 0 ? 0 : seen < tokens ? seen : tokens;
    }
    return sum;
}

static uint64_t sum_bytes(const kvg_tensor *tensors, const kvg_role *roles, kvg_role role)
{
    uint64_t bytes = 0;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const int i = kvg_roles_index(roles, role, (kvg_side)side);
        if (i >= 0) bytes += tensors[i].bytes;
    }
    return bytes;
}

void kvg_device_case_job(kvg_device_case *d, kvg_bench_job *job)
{
    const uint64_t stored = touched_tokens(d) * stored_bytes(d);
    const bool appends = d->problem.op == KVG_OP_APPEND;
    const kvg_role *inputs = d->op->inputs, sources[] = {appends ? KVG_ROLE_VALUES : KVG_ROLE_DATA_POOL,
                                                          appends ? KVG_ROLE_NONE : KVG_ROLE_SCALE_POOL};
    *job = (kvg_bench_job){.problem = &d->problem, .in = d->in, .out = d->out, .workspace = d->workspace};
    uint64_t there = 0, want = appends ? sum_bytes(d->in, inputs, KVG_ROLE_VALUES) : stored;
    for (int i = 0; i < 2; i++) there += sources[i] ? sum_bytes(d->in, inputs, sources[i]) : 0;
    for (int i = 0, part = 0; i < 2; i++) {
        for (int side = KVG_K; side <= KVG_V && sources[i]; side++) {
            const kvg_tensor *t = &d->in[kvg_roles_index(inputs, sources[i], (kvg_side)side)];
            if (t->bytes == 0) continue;
            job->reads[part].data = t->data;
            job->reads[part++].bytes = (uint64_t)((double)t->bytes / (double)there * (double)want);
        }
    }
    if (appends) job->writes = stored;
    else if (d->problem.op == KVG_OP_FLATTEN) job->writes = sum_bytes(d->out, d->op->outputs, KVG_ROLE_FLAT);
    else if (d->problem.op == KVG_OP_EXPAND) job->writes = sum_bytes(d->out, d->op->outputs, KVG_ROLE_FLAT_E4M3);
}
