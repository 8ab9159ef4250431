#include "harness/trial/judge/fit_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool judge_fit_query_open(const kvg_problem *p, size_t v_dim, int64_t longest, fit_query *q)
{
    const size_t count = (size_t)longest + 1;
    *q = (fit_query){.p = p, .v_dim = v_dim};
    q->weights = malloc(count * sizeof *q->weights);
    q->values = malloc(count * v_dim * sizeof *q->values);
    q->lost = malloc(count * sizeof *q->lost);
    q->lost_values = malloc(count * v_dim * sizeof *q->lost_values);
    return q->weights && q->values && q->lost && q->lost_values;
}

void judge_fit_query_close(fit_query *q)
{
    free(q->weights);
    free(q->values);
    free(q->lost);
    free(q->lost_values);
}

static double score_of(const fit_query *q, const kvg_flash_rows *rows, int64_t key, double times)
{
    const kvg_attention *a = &q->p->attention;
    const uint32_t D = q->p->head_dim;
    const float *k = rows->operands[KVG_K] + (size_t)key * D;
    double sum = 0;
    for (uint32_t i = 0; i < D; i++) sum += (double)q->q[i] * k[i];
    sum *= times * rows->factors[KVG_K][key] * (a->scale > 0 ? a->scale : 1 / sqrt(D));
    return a->softcap > 0 ? a->softcap * tanh(sum / a->softcap) : sum;
}

/* The largest score of the keys that a row sees from k to the end of k's tile, or `top`. */
static double top_of_tile(const fit_query *q, int64_t k, int64_t tile, double top)
{
    for (int64_t i = k; i < q->end && (i == k || i % tile); i++) {
        const double x = q->weights[i + 1];
        if (x > top && x < INFINITY) top = x;
    }
    return top;
}

void judge_fit_sum_up(const fit_making *m, fit_query *q)
{
    const kvg_flash_rows *rows = m->rows;
    const uint32_t Dv = rows->dim[KVG_V];
    double top = m->sink;
    q->count = rows->length;
    q->most = m->sink;
    q->largest = 0;
    for (int64_t k = 0; k < q->count; k++) {
        const double x = rows->present[k] ? score_of(q, rows, k, m->times) : -INFINITY;
        const bool counts = !m->tile || (k >= q->first && k < q->end);
        q->weights[k + 1] = counts ? x : -INFINITY;
        if (counts && x > q->most && x < INFINITY) q->most = x;
    }
    q->sink = isinf(m->sink) ? 0 : m->tile && m->sum ? 1 : exp(m->sink - q->most);
    q->weights[0] = q->lost[0] = 0;
    memset(q->values, 0, Dv * sizeof *q->values);
    memset(q->lost_values, 0, Dv * sizeof *q->lost_values);
    for (int64_t k = 0; k < q->count; k++) {
        double *before = q->values + (size_t)k * Dv, *now = before + Dv;
        uint32_t *lost_before = q->lost_values + (size_t)k * Dv, *lost_now = lost_before + Dv;
        const float *v = rows->operands[KVG_V] + (size_t)k * Dv;
        const double exact = q->weights[k + 1] == -INFINITY ? 0 : exp(q->weights[k + 1] - q->most);
        const bool lost = !isfinite(exact), seen = rows->present[k] && !lost;
        const double weight = lost ? 0 : exact;
        if (m->tile && k >= q->first && (k == q->first || k % m->tile == 0)) top = top_of_tile(q, k, m->tile, top);
        const double raise = m->tile && top > -INFINITY ? exp(q->most - top) : 1;
        const double unit = weight * (m->out ? raise : 1) * rows->factors[KVG_V][k] * rows->outside;
        q->lost[k + 1] = q->lost[k] + lost;
        q->weights[k + 1] = q->weights[k] + weight * (m->sum ? raise : 1);
        for (uint32_t d = 0; d < Dv; d++) {
            const bool adds = seen && isfinite(v[d]);
            now[d] = before[d] + (adds ? unit * v[d] : 0);
            lost_now[d] = lost_before[d] + (seen && !adds);
            if (adds && weight > 0) q->largest = fmax(q->largest, fabs(unit / weight * v[d]));
        }
    }
}

/* Adds the keys of a run to the first `dims` numbers of a row. */
static void add_run(const fit_query *q, fit_run r, size_t dims, double *sum, fit_answer *out)
{
    const size_t Dv = q->v_dim;
    const int64_t from = r.from < 0 ? 0 : r.from > q->count ? q->count : r.from;
    const int64_t to = r.to > q->count ? q->count : r.to;
    if (from >= to) return;
    out->lost = out->lost || q->lost[to] > q->lost[from];
    *sum += (double)r.times * (q->weights[to] - q->weights[from]);
    for (size_t d = 0; d < dims; d++) {
        const size_t a = (size_t)from * Dv + d, b = (size_t)to * Dv + d;
        out->out[d] += q->lost_values[b] > q->lost_values[a] ? NAN : (double)r.times * (q->values[b] - q->values[a]);
    }
}

void judge_fit_attend(const fit_query *q, const fit_run *runs, size_t count, bool divided, size_t dims,
                      fit_answer *out)
{
    double sum = q->sink;
    out->lost = false;
    memset(out->out, 0, dims * sizeof out->out[0]);
    for (size_t i = 0; i < count; i++) add_run(q, runs[i], dims, &sum, out);
    out->empty = !(sum > q->sink);
    for (size_t d = 0; d < dims; d++) out->out[d] = sum > 0 ? out->out[d] / (divided ? sum : 1) : 0;
    out->lse = sum > 0 ? log(sum) + q->most : -INFINITY;
}
