/* One cell: a model over a cache that holds every sequence whole, filled by recipes, and a step that writes and reads
 * the last token of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/bench/device_case.h"
#include "model/bench/generate_bench.h"
#include "model/checkpoint/model_weights.h"
#include "model/checkpoint/random_weights.h"
#include "model/generate/generate_memory.h"
#include "reference/rope_table.h"
#include "support/clock.h"

enum { STREAM_BLOCKS = 1, STREAM_TOKENS, STREAM_WEIGHTS, STREAM_POOLS };

/* g of formats that have one: with it K and V of the recipes are about 1 or below. */
static const float TENSOR_SCALE = 0.5f;

struct kvg_generate_bench_work {
    const kvg_generate_bench_config *config;
    const kvg_generate_bench_device *device;
    kvg_bench_info info;
    const kvg_generate_bench_model *model; /* whose weights are open; NULL: none */
    kvg_model_weights *file;
    kvg_random_weights *random;
    float *cos_sin, (*tensor_scale)[2];
};

/* --- a model's weights --- */

static void close_model(kvg_generate_bench_work *w)
{
    kvg_model_weights_close(w->file);
    kvg_random_weights_free(w->random);
    free(w->cos_sin);
    free(w->tensor_scale);
    w->file = NULL;
    w->random = NULL;
    w->cos_sin = NULL;
    w->tensor_scale = NULL;
    w->model = NULL;
}

static kvg_status make_tables(kvg_generate_bench_work *w, const kvg_model_config *c)
{
    kvg_rope rope = c->rope;
    rope.positions = 0;
    for (uint32_t i = 0; i < w->config->contexts; i++) {
        if (w->config->context[i] > rope.positions) rope.positions = w->config->context[i];
    }
    w->cos_sin = malloc((size_t)rope.positions * c->head_dim * sizeof *w->cos_sin);
    w->tensor_scale = malloc(c->layers * sizeof *w->tensor_scale);
    if (!w->cos_sin || !w->tensor_scale) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u positions", rope.positions);
    for (uint32_t i = 0; i < c->layers; i++) w->tensor_scale[i][KVG_K] = w->tensor_scale[i][KVG_V] = TENSOR_SCALE;
    return kvg_reference_rope_table(&rope, w->cos_sin);
}

static kvg_status open_model(kvg_generate_bench_work *w, const kvg_generate_bench_model *model)
{
    kvg_status s;
    if (w->model == model) return KVG_OK;
    close_model(w);
    if (model->folder[0]) {
        s = kvg_model_weights_open(model->folder, &model->config, &w->file);
    } else {
        s = kvg_random_weights_make(w->device->device, &model->config,
                                    kvg_rng_u64(w->config->seed, STREAM_WEIGHTS, 0), &w->random);
    }
    if (!s) s = make_tables(w, &model->config);
    if (s) close_model(w);
    else w->model = model;
    return s;
}

kvg_status kvg_generate_bench_begin(const kvg_generate_bench_config *config, const kvg_generate_bench_device *device,
                                    kvg_generate_bench_work **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a bench");
    (*out)->config = config;
    (*out)->device = device;
    return device->device->open(&(*out)->info);
}

void kvg_generate_bench_end(kvg_generate_bench_work *work)
{
    if (work) close_model(work);
    free(work);
}

/* --- the setup --- */

static uint32_t width_of(const kvg_generate_bench_work *w, uint32_t context)
{
    return (context - 1) / w->config->block_tokens + 1;
}

static kvg_model_setup setup_of(const kvg_generate_bench_work *w, const kvg_generate_bench_cell *cell,
                                kvg_products products, kvg_profile profile)
{
    const kvg_storage storage = {cell->format, "canonical"};
    const bool scaled = kvg_format_get(cell->format)->tensor_scale;
    return (kvg_model_setup){
        .config = &cell->model->config,
        .source = w->file ? kvg_model_weights_source(w->file) : kvg_random_weights_source(w->random),
        .dtype = w->config->dtype,
        .layout = w->config->layout,
        .storage = {storage, storage},
        .blocks = cell->batch * width_of(w, cell->context),
        .block_tokens = w->config->block_tokens,
        .tensor_scale = scaled ? (const float (*)[2])w->tensor_scale : NULL,
        .profile = profile,
        .products = products,
        .max_tokens = cell->context,
        .cos_sin = w->cos_sin,
        .max_rows = cell->batch,
        .max_sequences = cell->batch,
        .max_wanted = cell->batch,
    };
}

/* The chip's own profile where it has kernels for the format, else that of every chip; the bytes that a cell takes. */
static kvg_status choose_profile(const kvg_generate_bench_work *w, const kvg_generate_bench_cell *cell,
                                 kvg_model_setup *out, uint64_t *bytes)
{
    kvg_profile own;
    if (kvg_profile_of_sm(w->info.sm, &own) == KVG_OK) {
        *out = setup_of(w, cell, cell->model->products, own);
        kvg_status s = w->device->model->bytes(out, bytes);
        if (s != KVG_ERR_UNIMPLEMENTED) return s;
    }
    *out = setup_of(w, cell, cell->model->products, KVG_PROFILE_SIMT_FMA_V1);
    return w->device->model->bytes(out, bytes);
}

static uint32_t largest_batch(const kvg_generate_bench_work *w, const kvg_generate_bench_cell *cell,
                              kvg_profile profile, uint64_t room)
{
    kvg_generate_bench_cell smaller = *cell;
    while (--smaller.batch > 0) {
        uint64_t bytes;
        const kvg_model_setup setup = setup_of(w, &smaller, cell->model->products, profile);
        if (w->device->model->bytes(&setup, &bytes) == KVG_OK && bytes <= room) break;
    }
    return smaller.batch;
}

/* --- the step --- */

typedef struct step_data {
    kvg_model_step step;
    int32_t *tokens, *positions, *table, *lengths, *query_lengths, *drawn;
    int64_t *slots;
    uint32_t *wanted;
    float *logits;
} step_data;

static void free_step(step_data *d)
{
    free(d->tokens);
    free(d->positions);
    free(d->table);
    free(d->lengths);
    free(d->query_lengths);
    free(d->drawn);
    free(d->slots);
    free(d->wanted);
    free(d->logits);
}

/* Blocks in random order. */
static void deal_blocks(int32_t *table, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) table[i] = (int32_t)i;
    for (uint32_t i = count; i-- > 1;) {
        const uint32_t j = (uint32_t)kvg_rng_below(seed, STREAM_BLOCKS, i, i + 1ull);
        const int32_t block = table[i];
        table[i] = table[j];
        table[j] = block;
    }
}

static kvg_status make_step(const kvg_generate_bench_work *w, const kvg_generate_bench_cell *cell, step_data *d)
{
    const uint32_t n = cell->batch, width = width_of(w, cell->context), last = cell->context - 1;
    const uint32_t block_tokens = w->config->block_tokens, vocab = cell->model->config.vocab;
    *d = (step_data){
        .tokens = malloc(n * sizeof *d->tokens), .positions = malloc(n * sizeof *d->positions),
        .table = malloc((size_t)n * width * sizeof *d->table), .lengths = malloc(n * sizeof *d->lengths),
        .query_lengths = malloc(n * sizeof *d->query_lengths), .drawn = malloc(n * sizeof *d->drawn),
        .slots = malloc(n * sizeof *d->slots), .wanted = malloc(n * sizeof *d->wanted),
        .logits = malloc((size_t)n * vocab * sizeof *d->logits)};
    if (!d->tokens || !d->positions || !d->table || !d->lengths || !d->query_lengths || !d->drawn || !d->slots ||
        !d->wanted || !d->logits) {
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold a step of %u sequences", n);
    }
    deal_blocks(d->table, n * width, w->config->seed);
    for (uint32_t i = 0; i < n; i++) {
        d->tokens[i] = (int32_t)kvg_rng_below(w->config->seed, STREAM_TOKENS, i, vocab);
        d->positions[i] = (int32_t)last;
        d->lengths[i] = (int32_t)cell->context;
        d->query_lengths[i] = 1;
        d->wanted[i] = i;
        d->slots[i] = (int64_t)d->table[(size_t)i * width + width - 1] * block_tokens + last % block_tokens;
    }
    d->step = (kvg_model_step){.rows = n, .tokens = d->tokens, .positions = d->positions, .slots = d->slots,
                               .sequences = n, .longest = cell->context, .block_table = d->table,
                               .lengths = d->lengths, .query_lengths = d->query_lengths, .wanted = n,
                               .wanted_rows = d->wanted, .logits = d->logits};
    return KVG_OK;
}

/* --- the cache --- */

static kvg_status fill_rows(const kvg_generate_bench_work *w, void *model, const kvg_problem *p, uint32_t layer,
                            const kvg_row_map *map, kvg_role role, kvg_side side)
{
    const kvg_bench_rows rows = {
        .base = map->base + layer * map->layer,
        .stride = {map->block, map->head, kvg_rows_pitch(map)},
        .count = {p->paging.blocks, p->kv_heads, p->paging.block_tokens},
        .bytes = map->bytes,
    };
    if (map->bytes == 0) return KVG_OK;
    const uint64_t seed = kvg_rng_u64(w->config->seed, STREAM_POOLS, 0);
    return w->device->device->fill(w->device->model->pool(model, map->pool, map->side), &rows,
                                   kvg_device_recipe(role, side, p->storage[side].format, p->dtype, seed));
}

static kvg_status fill_cache(const kvg_generate_bench_work *w, const kvg_model_setup *setup, void *model)
{
    kvg_layout_map map;
    kvg_status s = KVG_OK;
    const kvg_problem p = kvg_model_append(setup, 0, 1);
    kvg_rows_map(&p, &map);
    for (uint32_t layer = 0; layer < setup->config->layers && !s; layer++) {
        for (int side = KVG_K; side <= KVG_V && !s; side++) {
            s = fill_rows(w, model, &p, layer, &map.codes[side], KVG_ROLE_CODES, (kvg_side)side);
            if (!s) s = fill_rows(w, model, &p, layer, &map.scales[side], KVG_ROLE_SCALES, (kvg_side)side);
        }
    }
    return s;
}

/* Of K and V and their scales, the bytes of the tokens that a step sees; in all layers. */
static uint64_t kv_bytes_of(const kvg_model_setup *setup, const kvg_generate_bench_cell *cell)
{
    const kvg_model_config *c = setup->config;
    uint64_t tokens = 0, row = 0;
    for (uint32_t i = 0; i < c->layers; i++) {
        tokens += c->sliding[i] && c->window && c->window < cell->context ? c->window : cell->context;
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_format format = setup->storage[side].format;
        row += kvg_format_code_bytes(format, c->head_dim) + kvg_format_scale_bytes(format, c->head_dim);
    }
    return tokens * cell->batch * c->kv_heads * row;
}

/* --- what is judged --- */

static void fail(kvg_generate_bench_measurement *m, const char *why)
{
    m->outcome = KVG_DEVICE_NOT_TIMED;
    m->verdict = KVG_VERDICT_FAIL;
    snprintf(m->detail, sizeof m->detail, "%s", why);
}

/* The lowest id of the largest logits; -1 if one is not finite. */
static int32_t largest_of(const float *logits, uint32_t vocab)
{
    int32_t best = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        if (!isfinite(logits[i])) return -1;
        if (logits[i] > logits[best]) best = (int32_t)i;
    }
    return best;
}

/* What is wrong; NULL: nothing. */
static const char *judge(const kvg_generate_bench_cell *cell, const step_data *d, uint32_t runs,
                         const kvg_bench_model_result *r)
{
    const uint32_t vocab = cell->model->config.vocab;
    for (uint32_t i = 0; i < cell->batch; i++) {
        const int32_t token = largest_of(d->logits + (size_t)i * vocab, vocab);
        if (token < 0) return "a logit is not finite";
        if (token != d->drawn[i]) return "the device drew another token than the one of the largest logit";
    }
    for (uint32_t i = 0; i < runs; i++) {
        if (r->timed[i] != r->first) return "a timed step gave other logits than the first run";
    }
    return NULL;
}

/* --- a run --- */

static kvg_status run_step(const kvg_generate_bench_work *w, const kvg_model_setup *setup, step_data *d, uint32_t runs,
                           kvg_bench_model_result *r)
{
    void *model = NULL;
    const kvg_bench_model_job job = {.step = &d->step, .tokens = d->drawn, .runs = runs};
    kvg_status s = w->device->model->open(setup, &model);
    if (!s) s = fill_cache(w, setup, model);
    if (!s) s = w->device->model->time(model, &job, r);
    w->device->model->close(model);
    return s;
}

/* The same step with the other kind of products. Where there is no library it stays unknown. */
static kvg_status measure_distance(const kvg_generate_bench_work *w, const kvg_model_setup *setup,
                                   const kvg_generate_bench_cell *cell, const step_data *one,
                                   kvg_bench_model_result *scratch, kvg_generate_bench_distance *out)
{
    const size_t count = (size_t)cell->batch * cell->model->config.vocab;
    kvg_model_setup other = *setup;
    step_data d;
    double sum = 0, size = 0;
    other.products = setup->products == KVG_PRODUCTS_FIXED ? KVG_PRODUCTS_LIBRARY : KVG_PRODUCTS_FIXED;
    kvg_status s = make_step(w, cell, &d);
    if (!s) s = run_step(w, &other, &d, 0, scratch);
    for (size_t i = 0; i < count && !s; i++) {
        const double difference = fabs((double)d.logits[i] - (double)one->logits[i]);
        if (!(difference <= out->largest)) out->largest = difference;
        sum += difference * difference;
        size += (double)one->logits[i] * one->logits[i];
    }
    for (uint32_t i = 0; i < cell->batch && !s; i++) out->same += d.drawn[i] == one->drawn[i];
    out->known = !s;
    out->rows = cell->batch;
    out->rms = sqrt(sum / (double)count);
    out->size = sqrt(size / (double)count);
    free_step(&d);
    return s == KVG_ERR_UNIMPLEMENTED ? KVG_OK : s;
}

/* A model of a folder with products in fixed order: its logits are the reference's. */
static kvg_status compare_once(const kvg_generate_bench_work *w, const kvg_model_setup *setup,
                               const kvg_generate_bench_cell *cell, kvg_generate_bench_measurement *m)
{
    char wrong[KVG_RESULT_TEXT] = "";
    if (!cell->first_of_format || !w->file || setup->products != KVG_PRODUCTS_FIXED) return KVG_OK;
    kvg_status s = kvg_generate_bench_compare(setup, w->device->runner, w->config->seed, &m->checked, wrong,
                                              sizeof wrong);
    if (!s && wrong[0]) fail(m, wrong);
    return s;
}

static kvg_status time_cell(const kvg_generate_bench_work *w, const kvg_model_setup *setup,
                            const kvg_generate_bench_cell *cell, uint32_t runs, kvg_generate_bench_measurement *m)
{
    step_data d;
    kvg_bench_model_result *r = calloc(1, sizeof *r);
    kvg_status s = r ? make_step(w, cell, &d) : kvg_fail(KVG_ERR_MEMORY, "cannot hold the times of a cell");
    if (!r) return s;
    m->outcome = KVG_DEVICE_TIMED;
    if (!s) s = compare_once(w, setup, cell, m);
    if (!s && m->outcome == KVG_DEVICE_TIMED) {
        s = run_step(w, setup, &d, runs, r);
        const char *wrong = s ? NULL : judge(cell, &d, runs, r);
        if (wrong) fail(m, wrong);
    }
    if (!s && m->outcome == KVG_DEVICE_TIMED) {
        for (int i = 0; i < KVG_BENCH_MODEL_PARTS; i++) m->times[i] = kvg_device_times_of(r->ms[i], runs);
        m->clock = r->clock;
        if (cell->first_of_model) s = measure_distance(w, setup, cell, &d, r, &m->distance);
    }
    free_step(&d);
    free(r);
    return s;
}

static void give_up(kvg_generate_bench_measurement *m, kvg_status s)
{
    m->outcome = KVG_DEVICE_NOT_TIMED;
    m->verdict = kvg_device_verdict_of(s);
    snprintf(m->detail, sizeof m->detail, "%s", kvg_error_text());
}

void kvg_generate_bench_measure(kvg_generate_bench_work *w, const kvg_generate_bench_cell *cell, uint32_t runs,
                                kvg_generate_bench_measurement *out)
{
    const double start = kvg_clock_seconds();
    kvg_model_setup setup;
    *out = (kvg_generate_bench_measurement){.outcome = KVG_DEVICE_NOT_TIMED, .verdict = KVG_VERDICT_ERROR,
                                            .info = w->info};
    kvg_status s = open_model(w, cell->model);
    if (!s) s = choose_profile(w, cell, &setup, &out->needs);
    if (!s) s = kvg_generate_pool_bytes(&setup, &out->pool_bytes);
    if (!s) s = w->device->device->room(&out->room);
    if (!s) {
        out->profile = setup.profile;
        out->kv_bytes = kv_bytes_of(&setup, cell);
        if (out->needs > out->room) {
            out->outcome = KVG_DEVICE_DOES_NOT_FIT;
            out->most_batch = largest_batch(w, cell, setup.profile, out->room);
        } else {
            s = time_cell(w, &setup, cell, runs, out);
        }
    }
    if (s) give_up(out, s);
    out->seconds = kvg_clock_seconds() - start;
}
