/* The spec tier: attention over exact numbers in binary64, each sum with its rounding errors carried along. One work
 * item is a query and up to HEADS query heads that share a KV head, so that a row is decoded once for all of them. Keys
 * are taken in order of position and dims in order, whatever the pages, the batch or the threads: no bit depends on
 * them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/attention/ref_attention.h"
#include "reference/attention/ref_query.h"
#include "reference/numbers/ref_elementary.h"

enum { HEADS = 8, LANES = 4 };

typedef struct attention {
    const kvg_problem *p;
    const uint8_t *q;
    const float *sinks; /* NULL: none */
    ref_kv kv;
    ref_model model;
    bool bounds;
    const kvg_attention_answer *answer;
    ref_query *queries;
    double scale;
    uint32_t most_keys; /* of any query */
    uint32_t heads, items; /* query heads of a work item; items of a query */
} attention;

/* One query head while its keys are walked. */
typedef struct head {
    uint32_t index;
    double *out; /* of its answer */
    double q[KVG_MAX_HEAD_DIM];
    ref_sizes sizes;
    double *scores, *errors; /* by key; errors: of the score, then of the exponent */
    bool promised;
    double sink; /* -Inf: none */
    double M, sum, sink_error, sum_error;
    ref_tally tally;
    double high[KVG_MAX_HEAD_DIM], low[KVG_MAX_HEAD_DIM]; /* of the sums of weight * V */
    ref_elements elements;
} head;

/* Of one thread. */
typedef struct desk {
    uint32_t *visible; /* positions */
    double *numbers;   /* of the heads, 2 * most_keys each */
    head heads[HEADS];
    double row[KVG_MAX_HEAD_DIM], codec[KVG_MAX_HEAD_DIM];
    double values[KVG_MAX_HEAD_DIM]; /* of V: its row times the factor */
    ref_sizes sizes;
} desk;

/* --- which keys --- */

static ref_extent find_visible(const attention *a, const ref_query *q, uint32_t *visible)
{
    const ref_range_of_keys range = ref_query_keys(&a->kv.table, q);
    ref_extent found = {0, 0};
    for (int64_t k = range.first; k < range.end; k++) {
        if (ref_kv_slot(&a->kv, q->sequence, (uint32_t)k) < 0) continue;
        if (found.keys == 0 || visible[found.keys - 1] != (uint32_t)k - 1) found.runs++;
        visible[found.keys++] = (uint32_t)k;
    }
    return found;
}

/* --- scores --- */

static double dot(const double *a, const double *b, uint32_t n)
{
    const uint32_t whole = n - n % LANES;
    double high[LANES] = {0}, low[LANES] = {0};
    ref_sum total = {0};
    for (uint32_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (uint32_t j = 0; j < LANES; j++) ref_sum_step(&high[j], &low[j], a[i + j] * b[i + j]);
    }
    for (uint32_t i = whole; i < n; i++) ref_sum_step(&high[i - whole], &low[i - whole], a[i] * b[i]);
    for (int i = 0; i < LANES; i++) {
        ref_sum_add(&total, high[i]);
        total.low += low[i];
    }
    return ref_sum_value(&total);
}

static double capped(const attention *a, double score)
{
    const double cap = a->p->attention.softcap;
    return cap > 0 ? cap * ref_tanh(score / cap) : score;
}

/* Reads a row of a key into desk->row and, for bounds, desk->sizes. */
static double read_key(const attention *a, desk *d, kvg_side side, uint32_t sequence, uint32_t kv_head,
                       uint32_t position)
{
    const double factor = ref_kv_row(&a->kv, side, sequence, kv_head, position, d->row);
    if (a->bounds) {
        if (a->model.codec) ref_kv_codec_bound(&a->kv, side, sequence, kv_head, position, d->codec);
        /* A kernel that folds may leave the tensor scale out of an operand whose number holds it. */
        const double apart = a->model.class.folded && ref_kv_scale_within(&a->kv, side, factor) ? 0x1p-24 : 0;
        ref_model_row(&a->model, side, d->row, factor, apart, d->codec, ref_kv_dim(&a->kv, side), &d->sizes);
        const uint32_t most = a->model.codec ? 0 : a->model.class.most_exponent;
        if (most && ref_kv_exponent(&a->kv, side, sequence, kv_head, position) > (int)most) d->sizes.promised = false;
    }
    return factor;
}

static void score_keys(const attention *a, desk *d, const ref_query *q, uint32_t kv_head, uint32_t heads,
                       ref_extent keys)
{
    for (uint32_t j = 0; j < keys.keys; j++) {
        const double factor = read_key(a, d, KVG_K, q->sequence, kv_head, d->visible[j]);
        for (uint32_t i = 0; i < heads; i++) {
            head *h = &d->heads[i];
            const double score = dot(h->q, d->row, a->p->head_dim) * factor * a->scale;
            h->scores[j] = capped(a, score);
            if (!a->bounds) continue;
            h->errors[j] = ref_model_score(&a->model, &h->sizes, &d->sizes, a->scale, factor, score);
            h->promised &= h->errors[j] < INFINITY;
        }
    }
}

/* --- weights --- */

static bool has_sink(const head *h)
{
    return h->sink > -INFINITY;
}

static double exponent(const head *h, uint32_t j)
{
    return h->scores[j] - h->M;
}

static void weigh(head *h, ref_extent keys)
{
    ref_sum sum = {0};
    h->M = h->sink;
    for (uint32_t j = 0; j < keys.keys; j++) h->M = h->scores[j] > h->M ? h->scores[j] : h->M;
    for (uint32_t j = 0; j < keys.keys; j++) ref_sum_add(&sum, ref_exp(exponent(h, j)));
    if (has_sink(h)) ref_sum_add(&sum, ref_exp(h->sink - h->M));
    h->sum = ref_sum_value(&sum);
}

/* Whether weights and sums stay within f32, whatever the scores are. */
static bool fits_class(const attention *a, const head *h, ref_extent keys)
{
    double top = -INFINITY;
    if (a->model.codec) return true;
    for (uint32_t j = 0; j < keys.keys; j++) top = ref_max(top, h->scores[j]);
    if (a->model.class.late_sink && has_sink(h) && !(h->sink - top < 64)) return false;
    return !a->model.class.fused_exponent || fabs(h->M) <= 0x1p23;
}

static void tally_keys(const attention *a, head *h, ref_extent keys)
{
    ref_tally *t = &h->tally;
    *t = (ref_tally){0};
    for (uint32_t j = 0; j < keys.keys; j++) {
        h->errors[j] = ref_model_exponent(&a->model, keys, h->M, h->scores[j], h->errors[j]);
        ref_tally_add(t, exponent(h, j), h->errors[j]);
    }
    if (!fits_class(a, h, keys)) h->promised = false;
    if (has_sink(h)) {
        h->sink_error = ref_model_exponent(&a->model, keys, h->M, h->sink, 0);
        ref_tally_add(t, h->sink - h->M, h->sink_error);
    }
    t->heaviest = ref_max(1, t->least / t->top);
    h->sum_error = ref_model_sum(&a->model, keys);
}

/* --- output --- */

static void sum_values(const attention *a, desk *d, const ref_query *q, uint32_t kv_head, uint32_t heads,
                       ref_extent keys)
{
    const uint32_t n = ref_kv_dim(&a->kv, KVG_V);
    for (uint32_t i = 0; i < heads; i++) {
        memset(d->heads[i].high, 0, n * sizeof d->heads[i].high[0]);
        memset(d->heads[i].low, 0, n * sizeof d->heads[i].low[0]);
    }
    for (uint32_t j = 0; j < keys.keys; j++) {
        const double factor = ref_kv_row(&a->kv, KVG_V, q->sequence, kv_head, d->visible[j], d->row);
        for (uint32_t c = 0; c < n; c++) d->values[c] = d->row[c] * factor;
        for (uint32_t i = 0; i < heads; i++) {
            head *h = &d->heads[i];
            const double weight = ref_exp(exponent(h, j));
#pragma omp simd
            for (uint32_t c = 0; c < n; c++) ref_sum_step(&h->high[c], &h->low[c], weight * d->values[c]);
        }
    }
}

static void bound_values(const attention *a, desk *d, const ref_query *q, uint32_t kv_head, uint32_t heads,
                         ref_extent keys)
{
    const uint32_t n = ref_kv_dim(&a->kv, KVG_V);
    const bool row_scaled = ref_kv_row_scaled(&a->kv, KVG_V);
    for (uint32_t i = 0; i < heads; i++) ref_elements_begin(n, &d->heads[i].elements);
    for (uint32_t j = 0; j < keys.keys; j++) {
        const double factor = read_key(a, d, KVG_V, q->sequence, kv_head, d->visible[j]);
        for (uint32_t c = 0; c < n; c++) d->values[c] = d->row[c] * factor;
        for (uint32_t i = 0; i < heads; i++) {
            head *h = &d->heads[i];
            ref_key key;
            ref_model_key(&a->model, &h->tally, exponent(h, j), h->errors[j], row_scaled, factor, &key);
            h->promised &= d->sizes.promised;
            h->tally.lost += key.floor;
            ref_model_add(&a->model, h->sum_error, &key, n, h->out, d->values, d->sizes.error, d->sizes.reach,
                          &h->elements);
        }
    }
    for (uint32_t i = 0; i < heads; i++) {
        head *h = &d->heads[i];
        ref_key sink;
        static const double none[KVG_MAX_HEAD_DIM];
        if (!has_sink(h)) continue;
        ref_model_key(&a->model, &h->tally, h->sink - h->M, h->sink_error, false, 0, &sink);
        ref_model_add(&a->model, h->sum_error, &sink, n, h->out, none, none, none, &h->elements);
    }
}

/* A row that sees no key: exact, but for the LSE of a sink. */
static void write_bounds(const attention *a, const head *h, ref_extent keys, double lse, double *out_bound,
                         double *lse_bound)
{
    const uint32_t n = ref_kv_dim(&a->kv, KVG_V);
    for (uint32_t c = 0; c < n; c++) {
        out_bound[c] = keys.keys == 0 ? 0 : INFINITY;
        if (keys.keys && h->promised)
            out_bound[c] = ref_model_output(&a->model, h->sum_error, &h->tally, &h->elements, c, h->out[c]);
    }
    *lse_bound = keys.keys == 0 && !has_sink(h) ? 0 : INFINITY;
    if (h->promised && (keys.keys || has_sink(h))) *lse_bound = ref_model_lse(&a->model, keys, &h->tally, h->M, lse);
}

static void run_item(const attention *a, desk *d, size_t item)
{
    const kvg_problem *p = a->p;
    const size_t row = item / a->items;
    const ref_query *q = &a->queries[row];
    const uint32_t group = p->attention.query_heads / p->kv_heads, per_kv = a->items / p->kv_heads;
    const uint32_t part = (uint32_t)(item % a->items), kv_head = part / per_kv, start = part % per_kv * a->heads;
    const uint32_t end = group - start < a->heads ? group : start + a->heads;
    const uint32_t D = p->head_dim, n = ref_kv_dim(&a->kv, KVG_V);
    const size_t at = row * p->attention.query_heads;
    uint32_t heads = 0;
    for (uint32_t i = kv_head * group + start; i < kv_head * group + end; i++) {
        if (ref_is_wanted(a->answer->wanted, p, row, i)) d->heads[heads++].index = i;
    }
    if (heads == 0) return;

    const ref_extent keys = find_visible(a, q, d->visible);
    for (uint32_t i = 0; i < heads; i++) {
        head *h = &d->heads[i];
        float x[KVG_MAX_HEAD_DIM];
        h->out = a->answer->out + (at + h->index) * n;
        h->promised = true;
        h->sink = a->sinks ? (double)a->sinks[h->index] : -INFINITY;
        h->scores = d->numbers + (size_t)i * 2 * a->most_keys;
        h->errors = h->scores + a->most_keys;
        kvg_reference_load(p->dtype, a->q + (at + h->index) * D * kvg_dtype_bytes(p->dtype), D, x);
        for (uint32_t c = 0; c < D; c++) h->q[c] = x[c];
        if (a->bounds) ref_model_query(&a->model, h->q, D, &h->sizes);
    }
    score_keys(a, d, q, kv_head, heads, keys);
    for (uint32_t i = 0; i < heads; i++) weigh(&d->heads[i], keys);
    sum_values(a, d, q, kv_head, heads, keys);
    for (uint32_t i = 0; i < heads; i++) {
        head *h = &d->heads[i];
        a->answer->lse[at + h->index] = h->sum == 0 ? -INFINITY : h->M + ref_log(h->sum);
        for (uint32_t c = 0; c < n; c++) {
            const ref_sum sum = {h->high[c], h->low[c]};
            h->out[c] = keys.keys ? ref_sum_value(&sum) / h->sum : 0;
        }
    }
    if (!a->bounds) return;
    for (uint32_t i = 0; i < heads; i++) tally_keys(a, &d->heads[i], keys);
    bound_values(a, d, q, kv_head, heads, keys);
    for (uint32_t i = 0; i < heads; i++) {
        const size_t of_head = at + d->heads[i].index;
        write_bounds(a, &d->heads[i], keys, a->answer->lse[of_head], a->answer->out_bound + of_head * n,
                     &a->answer->lse_bound[of_head]);
    }
}

/* --- the whole problem --- */

static const kvg_tensor *input(const kvg_tensor *in, kvg_role role)
{
    return &in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, KVG_K)];
}

static uint32_t most_keys(const attention *a)
{
    const kvg_problem *p = a->p;
    int64_t most = 1;
    const int32_t *lengths = a->kv.table.lengths;
    for (uint32_t s = 0; s < p->paging.sequences; s++) most = lengths[s] > most ? lengths[s] : most;
    if (p->attention.window && p->attention.window < most) most = p->attention.window;
    if (kvg_problem_blocks(p) == KVG_BLOCKS_RING && p->paging.block_tokens < most) most = p->paging.block_tokens;
    return (uint32_t)most;
}

static desk *open_desk(const attention *a)
{
    desk *d = malloc(sizeof *d);
    if (!d) return NULL;
    d->visible = malloc(a->most_keys * sizeof *d->visible);
    d->numbers = malloc((size_t)a->heads * 2 * a->most_keys * sizeof *d->numbers);
    return d;
}

static void close_desk(desk *d)
{
    if (!d) return;
    free(d->visible);
    free(d->numbers);
    free(d);
}

static kvg_status run_items(const attention *a)
{
    const size_t count = (size_t)a->p->attention.queries * a->items;
    bool failed = false;
#pragma omp parallel reduction(|| : failed)
    {
        desk *d = open_desk(a);
        failed = !d || !d->visible || !d->numbers;
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < count; i++) {
            if (!failed) run_item(a, d, i);
        }
        close_desk(d);
    }
    return failed ? kvg_fail(KVG_ERR_MEMORY, "no memory for the scores of %u keys", a->most_keys) : KVG_OK;
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, const kvg_tensor *flat,
                      const kvg_arithmetic *arithmetic, const kvg_attention_answer *answer)
{
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    if (p->op == KVG_OP_MERGE) {
        ref_merge(p, in, answer->out_bound && arithmetic, answer);
        return KVG_OK;
    }
    const uint32_t group = p->attention.query_heads / p->kv_heads;
    attention a = {
        .p = p,
        .q = input(in, KVG_ROLE_Q)->data,
        .bounds = answer->out_bound && (arithmetic || flat),
        .answer = answer,
        .scale = p->attention.scale > 0 ? (double)p->attention.scale : 1 / sqrt((double)p->head_dim),
        .heads = group < HEADS ? group : HEADS,
    };
    a.items = (group + a.heads - 1) / a.heads * p->kv_heads;
    ref_model_init(p, arithmetic, &a.model);
    s = ref_kv_init(p, in, flat, &a.kv);
    if (!s) ref_model_round_twice(&a.model, a.kv.side[KVG_V].row.tensor_scale);
    if (!s) s = ref_sinks_read(p, input(in, KVG_ROLE_SINKS), &a.sinks);
    if (s) return s;
    a.most_keys = most_keys(&a);
    a.queries = malloc(p->attention.queries * sizeof *a.queries);
    if (!a.queries) return kvg_fail(KVG_ERR_MEMORY, "no memory for %u queries", p->attention.queries);
    s = ref_queries_place(&a.kv.table, input(in, KVG_ROLE_QUERY_LENGTHS), a.queries);
    if (!s) s = run_items(&a);
    free(a.queries);
    return s;
}

/* A class whose numbers would lead outside the tables of the model. */
static kvg_status check_arithmetic(const kvg_arithmetic *c)
{
    const kvg_operand types[] = {c->q, c->k, c->p, c->v};
    for (int i = 0; i < 4; i++) {
        if (types[i] < KVG_OPERAND_F16 || types[i] > KVG_OPERAND_F32)
            return kvg_fail(KVG_ERR_INVALID, "operand type %d of '%c' is unknown", (int)types[i], "qkpv"[i]);
    }
    const bool bits = c->fraction_bits == 0 || (c->fraction_bits >= 8 && c->fraction_bits <= 64);
    if (!bits || c->tile < 1) {
        return kvg_fail(KVG_ERR_INVALID, "fraction_bits %u, tile %u: use 0 or 8 to 64, 1 or more", c->fraction_bits,
                        c->tile);
    }
    const float sizes[] = {c->q_unit, c->k_unit, c->p_unit, c->v_unit, c->exp2_error, c->tanh_error};
    static const char *const names[] = {"q_unit", "k_unit", "p_unit", "v_unit", "exp2_error", "tanh_error"};
    for (int i = 0; i < 6; i++) {
        if (!(sizes[i] >= 0 && sizes[i] < INFINITY))
            return kvg_fail(KVG_ERR_INVALID, "%s is %a: use 0 or more", names[i], (double)sizes[i]);
    }
    return KVG_OK;
}

kvg_status kvg_attention_spec(const kvg_problem *p, const kvg_tensor *in, const kvg_arithmetic *arithmetic,
                              const kvg_attention_answer *answer)
{
    kvg_status s = arithmetic ? check_arithmetic(arithmetic) : KVG_OK;
    return s ? s : run(p, in, NULL, arithmetic, answer);
}

kvg_status kvg_attention_unquantised(const kvg_problem *p, const kvg_tensor *in, const kvg_tensor flat[2],
                                     const kvg_attention_answer *answer)
{
    return run(p, in, flat, NULL, answer);
}
