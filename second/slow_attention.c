#include "second/slow_attention.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <mpfr.h>

#include "second/slow_element.h"
#include "second/slow_mpfr.h"
#include "second/slow_request.h"

/* Enough for every number of section 3 and every product with q to be exact (bf16 q * scale + min spans 271 bits), and
 * for sums that cancel. Distances need no more than a few bits. */
enum { PRECISION = 320, ROUGH = 64, UNIT = -52 };

/* --- numbers --- */

typedef struct numbers {
    mpfr_t *x;
    size_t count;
} numbers;

static numbers open_numbers(size_t count, int precision)
{
    numbers n = {malloc((count + 1) * sizeof *n.x), count};
    for (size_t i = 0; n.x && i < count; i++) mpfr_init2(n.x[i], precision);
    return n;
}

static void close_numbers(numbers *n)
{
    for (size_t i = 0; n->x && i < n->count; i++) mpfr_clear(n->x[i]);
    free(n->x);
}

/* --- section 3: the numbers that bytes stand for --- */

static void multiply(mpfr_t x, slow_number by)
{
    mpfr_t factor;
    mpfr_init2(factor, PRECISION);
    slow_to_mpfr(factor, by);
    mpfr_mul(x, x, factor, MPFR_RNDN);
    mpfr_clear(factor);
}

static void add(mpfr_t x, slow_number what, bool minus)
{
    mpfr_t term;
    mpfr_init2(term, PRECISION);
    slow_to_mpfr(term, what);
    if (minus) mpfr_neg(term, term, MPFR_RNDN);
    mpfr_add(x, x, term, MPFR_RNDN);
    mpfr_clear(term);
}

static void number_of(const slow_side *s, const slow_row_bytes *row, size_t dim, mpfr_t x)
{
    const slow_element e = slow_element_of(s, row, dim);
    slow_to_mpfr(x, e.code);
    switch (s->codec->form) {
    case SLOW_PRODUCT:
    case SLOW_HALF_STEPS:
        multiply(x, e.scale);
        multiply(x, s->row.g);
        break;
    case SLOW_ROUNDED_PRODUCT: multiply(x, slow_rn(slow_multiply(e.scale, s->row.g))); break;
    case SLOW_AFFINE:
        multiply(x, e.scale);
        add(x, e.parameter, false);
        break;
    case SLOW_AFFINE_TWICE:
        slow_to_mpfr(x, slow_round(s->row.type, slow_multiply(e.code, e.scale)));
        add(x, e.parameter, false);
        break;
    case SLOW_ZERO_POINT:
        add(x, e.parameter, true);
        multiply(x, e.scale);
        break;
    case SLOW_ZERO_POINT_IN_T:
        slow_to_mpfr(x, slow_round(s->row.type, slow_subtract(e.code, e.parameter)));
        multiply(x, e.scale);
        break;
    case SLOW_LESS_ZERO:
        multiply(x, e.scale);
        add(x, slow_round(s->row.type, slow_multiply(e.scale, e.parameter)), true);
        break;
    }
}

/* --- section 4 --- */

/* One KV head of one sequence: K and V of every key that has a place. */
typedef struct head {
    const slow_stored *stored;
    kvg_tensor *out;
    int direction;
    numbers k, v; /* [keys][D], [keys][Dv] */
} head;

/* One row. Exponents t and weights e^(t - top) of the keys that it sees; the distance of an exponent from what a
 * program with roundings of 2^-52 may have. */
typedef struct row {
    const head *head;
    size_t query_head;
    int64_t position;
    size_t count; /* keys that it sees */
    size_t *seen;
    numbers q, t, weight, distance;
    mpfr_t top, sink_weight, sink_distance, sum, work, other, rough;
} row;

static const slow_request *request_of(const row *r)
{
    return r->head->stored->request;
}

static slow_number f32_number(float x)
{
    slow_number n;
    slow_load(KVG_DTYPE_F32, (const uint8_t *)&x, 1, &n);
    return n;
}

/* x = scale * x */
static void scale_score(const kvg_problem *p, mpfr_t x)
{
    if (p->attention.scale > 0) {
        multiply(x, f32_number(p->attention.scale));
        return;
    }
    mpfr_t root;
    mpfr_init2(root, PRECISION);
    mpfr_sqrt_ui(root, p->head_dim, MPFR_RNDN);
    mpfr_div(x, x, root, MPFR_RNDN);
    mpfr_clear(root);
}

/* t of a key. Its distance: four roundings of the score, four of the magnitudes of its terms (K's number has two, the
 * product one); tanh, which is flatter than 1, is within 2^-51, and its cap and product have four. */
static void make_exponent(row *r, size_t key, mpfr_t t, mpfr_t distance)
{
    const kvg_problem *p = request_of(r)->problem;
    mpfr_t *k = &r->head->k.x[key * p->head_dim];
    mpfr_set_zero(t, 1);
    mpfr_set_zero(distance, 1);
    for (size_t d = 0; d < p->head_dim; d++) {
        mpfr_fma(t, r->q.x[d], k[d], t, MPFR_RNDN);
        mpfr_mul(r->rough, r->q.x[d], k[d], MPFR_RNDN);
        mpfr_abs(r->rough, r->rough, MPFR_RNDN);
        mpfr_add(distance, distance, r->rough, MPFR_RNDN);
    }
    scale_score(p, t);
    scale_score(p, distance);
    mpfr_abs(r->rough, t, MPFR_RNDN);
    mpfr_add(distance, distance, r->rough, MPFR_RNDN);
    if (p->attention.softcap > 0) {
        slow_to_mpfr(r->other, f32_number(p->attention.softcap));
        mpfr_div(t, t, r->other, MPFR_RNDN);
        mpfr_tanh(t, t, MPFR_RNDN);
        mpfr_mul(t, t, r->other, MPFR_RNDN);
        mpfr_add(distance, distance, r->other, MPFR_RNDN);
        mpfr_abs(r->rough, t, MPFR_RNDN);
        mpfr_add(distance, distance, r->rough, MPFR_RNDN);
    }
    mpfr_mul_2si(distance, distance, UNIT + 2, MPFR_RNDN);
}

/* w = e^(t - top). The exponent's distance grows by four roundings of what is subtracted, and of e^x itself. */
static void make_weight(row *r, const mpfr_t t, mpfr_t w, mpfr_t distance)
{
    mpfr_sub(w, t, r->top, MPFR_RNDN);
    mpfr_exp(w, w, MPFR_RNDN);
    mpfr_abs(r->rough, t, MPFR_RNDN);
    mpfr_abs(r->work, r->top, MPFR_RNDN);
    mpfr_add(r->rough, r->rough, r->work, MPFR_RNDN);
    mpfr_add_ui(r->rough, r->rough, 1, MPFR_RNDN);
    mpfr_mul_2si(r->rough, r->rough, UNIT + 2, MPFR_RNDN);
    mpfr_add(distance, distance, r->rough, MPFR_RNDN);
    mpfr_add(r->sum, r->sum, w, MPFR_RNDN);
}

static void make_weights(row *r)
{
    const slow_number sink = slow_sink(request_of(r), r->query_head);
    const bool has_sink = sink.kind == SLOW_FINITE;
    mpfr_set_inf(r->top, -1);
    mpfr_set_zero(r->sum, 1);
    mpfr_set_zero(r->sink_weight, 1);
    mpfr_set_zero(r->sink_distance, 1);
    for (size_t i = 0; i < r->count; i++) {
        make_exponent(r, r->seen[i], r->t.x[i], r->distance.x[i]);
        if (mpfr_nan_p(r->t.x[i])) mpfr_set_nan(r->top);
        if (!mpfr_nan_p(r->top)) mpfr_max(r->top, r->top, r->t.x[i], MPFR_RNDN);
    }
    if (has_sink) {
        slow_to_mpfr(r->other, sink);
        if (!mpfr_nan_p(r->top)) mpfr_max(r->top, r->top, r->other, MPFR_RNDN);
        make_weight(r, r->other, r->sink_weight, r->sink_distance);
    }
    for (size_t i = 0; i < r->count; i++) make_weight(r, r->t.x[i], r->weight.x[i], r->distance.x[i]);
}

/* The share of the sum by which one weight's distance can move a mean: twice w * distance / sum, since e^a - 1 <= 2a
 * for a <= 1. NaN, nothing promised, beyond. */
static void share_of(const row *r, const mpfr_t w, const mpfr_t distance, mpfr_t share)
{
    mpfr_mul(share, w, distance, MPFR_RNDN);
    mpfr_div(share, share, r->sum, MPFR_RNDN);
    mpfr_mul_2ui(share, share, 1, MPFR_RNDN);
    if (mpfr_cmp_ui(distance, 1) > 0) mpfr_set_nan(share);
}

/* x moved by direction * distance * 2^exponent */
static void move(const row *r, mpfr_t x, mpfr_t distance, int exponent)
{
    if (r->head->direction == 0) return;
    mpfr_mul_2si(distance, distance, exponent, MPFR_RNDN);
    if (r->head->direction > 0) mpfr_add(x, x, distance, MPFR_RNDN);
    if (r->head->direction < 0) mpfr_sub(x, x, distance, MPFR_RNDN);
}

/* Output d in `work`. Beside the weights, each product has four roundings, the sums and the quotient eight; what is
 * below 2^-1021 of the largest weight may be lost. */
static void make_output(row *r, size_t d)
{
    const head *h = r->head;
    const size_t v_dim = request_of(r)->v_dim;
    mpfr_t distance, part, share;
    mpfr_set_zero(r->work, 1);
    for (size_t i = 0; i < r->count; i++) {
        mpfr_fma(r->work, r->weight.x[i], h->v.x[r->seen[i] * v_dim + d], r->work, MPFR_RNDN);
    }
    mpfr_div(r->work, r->work, r->sum, MPFR_RNDN);
    if (h->direction == 0) return;
    mpfr_inits2(ROUGH, distance, part, share, (mpfr_ptr)0);
    share_of(r, r->sink_weight, r->sink_distance, share);
    mpfr_abs(distance, r->work, MPFR_RNDN);
    mpfr_mul(distance, distance, share, MPFR_RNDN);
    mpfr_abs(part, r->work, MPFR_RNDN);
    mpfr_mul_2si(part, part, UNIT + 3, MPFR_RNDN);
    mpfr_add(distance, distance, part, MPFR_RNDN);
    for (size_t i = 0; i < r->count; i++) {
        mpfr_t *v = &h->v.x[r->seen[i] * v_dim + d];
        share_of(r, r->weight.x[i], r->distance.x[i], share);
        mpfr_sub(part, *v, r->work, MPFR_RNDN);
        mpfr_abs(part, part, MPFR_RNDN);
        mpfr_fma(distance, part, share, distance, MPFR_RNDN);
        mpfr_div(share, r->weight.x[i], r->sum, MPFR_RNDN);
        mpfr_mul_2si(share, share, UNIT + 2, MPFR_RNDN);
        mpfr_set_ui_2exp(part, 1, -1021, MPFR_RNDN);
        mpfr_add(share, share, part, MPFR_RNDN);
        mpfr_abs(part, *v, MPFR_RNDN);
        mpfr_fma(distance, part, share, distance, MPFR_RNDN);
    }
    move(r, r->work, distance, 0);
    mpfr_clears(distance, part, share, (mpfr_ptr)0);
}

/* LSE in `work`: the mean distance of the exponents, the roundings of sum and logarithm, those of top and result. */
static void make_lse(row *r)
{
    mpfr_t distance, share;
    mpfr_inits2(ROUGH, distance, share, (mpfr_ptr)0);
    mpfr_log(r->work, r->sum, MPFR_RNDN);
    mpfr_abs(distance, r->work, MPFR_RNDN);
    mpfr_add(r->work, r->work, r->top, MPFR_RNDN);
    mpfr_abs(share, r->work, MPFR_RNDN);
    mpfr_add(distance, distance, share, MPFR_RNDN);
    mpfr_abs(share, r->top, MPFR_RNDN);
    mpfr_add(distance, distance, share, MPFR_RNDN);
    mpfr_add_ui(distance, distance, 1, MPFR_RNDN);
    mpfr_mul_2si(distance, distance, UNIT + 2, MPFR_RNDN);
    share_of(r, r->sink_weight, r->sink_distance, share);
    mpfr_add(distance, distance, share, MPFR_RNDN);
    for (size_t i = 0; i < r->count; i++) {
        share_of(r, r->weight.x[i], r->distance.x[i], share);
        mpfr_add(distance, distance, share, MPFR_RNDN);
    }
    move(r, r->work, distance, 0);
    mpfr_clears(distance, share, (mpfr_ptr)0);
}

static void write_row(row *r, size_t query)
{
    const slow_request *request = request_of(r);
    const kvg_problem *p = request->problem;
    const size_t index = query * p->attention.query_heads + r->query_head, width = kvg_dtype_bytes(p->dtype);
    const bool nothing = mpfr_zero_p(r->sum);
    for (size_t d = 0; d < request->v_dim; d++) {
        if (!nothing) make_output(r, d);
        const slow_number out = nothing ? slow_zero(false) : slow_from_mpfr(r->work);
        slow_store(p->dtype, &out, 1, (uint8_t *)r->head->out[0].data + (index * request->v_dim + d) * width);
    }
    if (!nothing) make_lse(r);
    const slow_number lse = nothing ? slow_infinity(true) : slow_from_mpfr(r->work);
    slow_store(KVG_DTYPE_F32, &lse, 1, (uint8_t *)r->head->out[1].data + index * sizeof(float));
}

static void run_row(row *r, size_t query)
{
    const slow_stored *stored = r->head->stored;
    slow_number q[KVG_MAX_HEAD_DIM];
    slow_load_q(request_of(r), stored->first_query + query, r->query_head, q);
    for (size_t d = 0; d < request_of(r)->problem->head_dim; d++) slow_to_mpfr(r->q.x[d], q[d]);
    r->position = slow_position(stored, query);
    r->count = 0;
    for (size_t n = 0; n < stored->keys; n++) {
        if (slow_sees(stored, r->position, n)) r->seen[r->count++] = n;
    }
    make_weights(r);
    write_row(r, stored->first_query + query);
}

static bool open_row(row *r, const head *h)
{
    const size_t keys = h->stored->keys;
    *r = (row){.head = h, .seen = malloc((keys + 1) * sizeof *r->seen)};
    r->q = open_numbers(r->head->stored->request->problem->head_dim, PRECISION);
    r->t = open_numbers(keys, PRECISION);
    r->weight = open_numbers(keys, PRECISION);
    r->distance = open_numbers(keys, ROUGH);
    mpfr_inits2(PRECISION, r->top, r->sink_weight, r->sum, r->work, r->other, (mpfr_ptr)0);
    mpfr_inits2(ROUGH, r->sink_distance, r->rough, (mpfr_ptr)0);
    return r->seen && r->q.x && r->t.x && r->weight.x && r->distance.x;
}

static void close_row(row *r)
{
    free(r->seen);
    close_numbers(&r->q);
    close_numbers(&r->t);
    close_numbers(&r->weight);
    close_numbers(&r->distance);
    mpfr_clears(r->top, r->sink_weight, r->sum, r->work, r->other, r->sink_distance, r->rough, (mpfr_ptr)0);
}

static void load_numbers(head *h)
{
    const slow_request *r = h->stored->request;
    const size_t dim = r->problem->head_dim;
    for (size_t n = 0; n < h->stored->keys; n++) {
        if (!h->stored->placed[n]) continue;
        for (size_t d = 0; d < dim; d++) {
            number_of(&r->sides[KVG_K], &h->stored->rows[KVG_K][n], d, h->k.x[n * dim + d]);
        }
        for (size_t d = 0; d < r->v_dim; d++) {
            number_of(&r->sides[KVG_V], &h->stored->rows[KVG_V][n], r->v_first + d, h->v.x[n * r->v_dim + d]);
        }
    }
}

static kvg_status run_head(const slow_stored *stored, void *context)
{
    const slow_request *request = stored->request;
    head h = *(const head *)context;
    row r;
    h.stored = stored;
    h.k = open_numbers(stored->keys * request->problem->head_dim, PRECISION);
    h.v = open_numbers(stored->keys * request->v_dim, PRECISION);
    kvg_status status = KVG_OK;
    const bool opened = open_row(&r, &h);
    if (!opened || !h.k.x || !h.v.x) {
        status = kvg_fail(KVG_ERR_MEMORY, "no memory for the numbers of %zu keys", stored->keys);
    } else {
        load_numbers(&h);
        for (size_t i = 0; i < stored->queries * request->group; i++) {
            r.query_head = stored->kv_head * request->group + i % request->group;
            run_row(&r, i / request->group);
        }
    }
    close_row(&r);
    close_numbers(&h.k);
    close_numbers(&h.v);
    return status;
}

kvg_status slow_attention(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, int direction)
{
    slow_request request;
    kvg_status status = slow_request_open(problem, in, &request);
    head h = {.out = out, .direction = direction};
    return status ? status : slow_request_visit(&request, run_head, &h);
}

/* --- section 6: op merge --- */

enum { OUT_A, OUT_B, LSE_A, LSE_B };

static void merge_row(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, size_t index)
{
    const size_t dims = p->head_dim, width = kvg_dtype_bytes(p->dtype);
    slow_number values[2][KVG_MAX_HEAD_DIM], result;
    mpfr_t lse[2], weight[2], top, sum, work;
    mpfr_inits2(PRECISION, lse[0], lse[1], weight[0], weight[1], top, sum, work, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    for (int i = 0; i < 2; i++) {
        slow_load(KVG_DTYPE_F32, (const uint8_t *)in[LSE_A + i].data + index * sizeof(float), 1, &result);
        slow_load(p->dtype, (const uint8_t *)in[OUT_A + i].data + index * dims * width, dims, values[i]);
        slow_to_mpfr(lse[i], result);
        if (result.kind == SLOW_INF && result.negative) mpfr_set_inf(lse[i], -1);
    }
    mpfr_max(top, lse[0], lse[1], MPFR_RNDN);
    for (int i = 0; i < 2; i++) {
        mpfr_set_zero(weight[i], 1);
        if (mpfr_inf_p(lse[i])) continue;
        mpfr_sub(weight[i], lse[i], top, MPFR_RNDN);
        mpfr_exp(weight[i], weight[i], MPFR_RNDN);
        mpfr_add(sum, sum, weight[i], MPFR_RNDN);
    }
    for (size_t d = 0; d < dims; d++) {
        mpfr_set_zero(work, 1);
        for (int i = 0; i < 2; i++) {
            if (mpfr_zero_p(weight[i])) continue;
            slow_to_mpfr(lse[i], values[i][d]);
            mpfr_fma(work, weight[i], lse[i], work, MPFR_RNDN);
        }
        if (!mpfr_zero_p(sum)) mpfr_div(work, work, sum, MPFR_RNDN);
        result = slow_from_mpfr(work);
        slow_store(p->dtype, &result, 1, (uint8_t *)out[0].data + (index * dims + d) * width);
    }
    mpfr_log(work, sum, MPFR_RNDN);
    mpfr_add(work, work, top, MPFR_RNDN);
    result = slow_from_mpfr(work);
    slow_store(KVG_DTYPE_F32, &result, 1, (uint8_t *)out[1].data + index * sizeof(float));
    mpfr_clears(lse[0], lse[1], weight[0], weight[1], top, sum, work, (mpfr_ptr)0);
}

kvg_status slow_merge(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_status status = kvg_problem_check(p);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < (status ? 0 : (size_t)p->tokens * p->kv_heads); i++) merge_row(p, in, out, i);
    return status;
}
