/* One layer of docs/spec/generate.md section 4: attention through the cache, then the MLP. */
#include "model/model_math.h"
#include "model/runner/ref_model_run.h"
#include "reference/reference.h"

void ref_norm_rows(const kvg_model_config *c, const float *weights, uint32_t rows, ref_rows x, float *y)
{
#pragma omp parallel for schedule(static) if (rows >= REF_ROWS_WORTH_THREADS)
    for (uint32_t r = 0; r < rows; r++) {
        kvg_reference_rms_norm(ref_row_at(&x, r), weights, c->hidden, c->rms_eps, y + (size_t)r * c->hidden);
    }
}

static ref_rows all(float *data, size_t stride)
{
    return (ref_rows){data, stride, NULL};
}

static void round_to(kvg_dtype T, float *x, size_t count, void *codes)
{
    kvg_reference_store(T, x, count, codes);
    kvg_reference_load(T, codes, count, x);
}

/* A head's RMSNorm under QK-norm: its bias comes before, and both are rounded to T. */
static void norm_head(const ref_model *m, const kvg_problem *append, const float *bias, const float *weights, float *x)
{
    const uint32_t D = m->setup.config->head_dim;
    uint16_t codes[KVG_MAX_HEAD_DIM];
    kvg_reference_prepare(append, KVG_K, bias, NULL, x);
    kvg_reference_rms_norm(x, weights, D, m->setup.config->rms_eps, x);
    round_to(m->setup.dtype, x, D, codes);
}

/* Row r of q from the product to what attends; of k and v to what op append takes. */
static void prepare_row(const ref_model *m, const ref_layer *l, const kvg_problem *append, uint32_t r, int32_t position)
{
    const kvg_model_config *c = m->setup.config;
    const ref_desk *d = &m->desk;
    const uint32_t D = c->head_dim;
    const size_t queries = (size_t)c->query_heads * D, keys = (size_t)c->kv_heads * D;
    const size_t width = kvg_dtype_bytes(m->setup.dtype);
    float *q = d->q + r * queries, *k = d->k + r * keys, *v = d->v + r * keys;
    uint8_t *q_codes = d->t[0] + r * queries * width, *k_codes = d->t[1] + r * keys * width;
    const float *turn = m->setup.cos_sin + (size_t)position * D;
    round_to(m->setup.dtype, q, queries, q_codes);
    if (l->k_norm) round_to(m->setup.dtype, k, keys, k_codes);
    for (uint32_t h = 0; h < c->query_heads; h++) {
        const float *bias = l->q_bias ? l->q_bias + h * D : NULL;
        if (l->q_norm) norm_head(m, append, bias, l->q_norm, q + h * D);
        kvg_reference_prepare(append, KVG_K, l->q_norm ? NULL : bias, turn, q + h * D);
    }
    for (uint32_t h = 0; l->k_norm && h < c->kv_heads; h++)
        norm_head(m, append, l->k_bias ? l->k_bias + h * D : NULL, l->k_norm, k + h * D);
    kvg_reference_store(m->setup.dtype, q, queries, q_codes);
    kvg_reference_store(m->setup.dtype, k, keys, k_codes);
    kvg_reference_store(m->setup.dtype, v, keys, d->t[2] + r * keys * width);
}

static void add_rows(float *x, const float *added, size_t count)
{
    for (size_t i = 0; i < count; i++) x[i] += added[i];
}

/* `added` from `normed`. */
static kvg_status attend(ref_model *m, const ref_layer *l, uint32_t layer, const kvg_model_step *step)
{
    const kvg_model_config *c = m->setup.config;
    const ref_desk *d = &m->desk;
    const uint32_t rows = step->rows;
    const size_t queries = (size_t)c->query_heads * c->head_dim, keys = (size_t)c->kv_heads * c->head_dim;
    const ref_rows x = all(d->normed, c->hidden);
    const ref_product before[] = {{&l->q, rows, x, all(d->q, queries)},
                                  {&l->k, rows, x, all(d->k, keys)},
                                  {&l->v, rows, x, all(d->v, keys)}};
    const ref_product after = {&l->o, rows, all(d->attended, queries), all(d->added, c->hidden)};
    const kvg_problem append = kvg_model_append(&m->setup, layer, rows);
    ref_products_run(before, 3);
#pragma omp parallel for schedule(static) if (rows >= REF_ROWS_WORTH_THREADS)
    for (uint32_t r = 0; r < rows; r++) prepare_row(m, l, &append, r, step->positions[r]);
    kvg_status s = ref_cache_append(&m->cache, l, layer, step, d->t[1], d->t[2]);
    if (!s) s = ref_cache_decode(&m->cache, l, layer, step, d->t[0], d->out, d->lse);
    if (s) return s;
    kvg_reference_load(m->setup.dtype, d->out, rows * queries, d->attended);
    ref_products_run(&after, 1);
    return KVG_OK;
}

kvg_status ref_layer_run(ref_model *m, uint32_t layer, const kvg_model_step *step)
{
    const kvg_model_config *c = m->setup.config;
    const ref_layer *l = &m->weights.layers[layer];
    const ref_desk *d = &m->desk;
    const ref_rows x = all(d->x, c->hidden);
    ref_norm_rows(c, l->input_norm, step->rows, x, d->normed);
    kvg_status s = attend(m, l, layer, step);
    if (s) return s;
    add_rows(d->x, d->added, (size_t)step->rows * c->hidden);
    ref_norm_rows(c, l->mlp_norm, step->rows, x, d->normed);
    ref_mlp_run(m, l, step->rows);
    add_rows(d->x, d->added, (size_t)step->rows * c->hidden);
    return KVG_OK;
}
