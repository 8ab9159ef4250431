#include "harness/trial/judge/fit_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 }; /* keys, which most runs have as a whole */

bool judge_fit_query_open(const kvg_problem *p, size_t v_dim, int64_t longest, fit_query *q)
{
    *q = (fit_query){.p = p, .v_dim = v_dim};
    q->weights = malloc((size_t)longest * sizeof *q->weights);
    q->values = malloc((size_t)longest * v_dim * sizeof *q->values);
    q->blocks = malloc(((size_t)longest / BLOCK + 1) * (1 + v_dim) * sizeof *q->blocks);
    return q->weights && q->values && q->blocks;
}

void judge_fit_query_close(fit_query *q)
{
    free(q->weights);
    free(q->values);
    free(q->blocks);
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
        const double x = q->weights[i];
        if (x > top && x < INFINITY) top = x;
    }
    return top;
}

/* What the keys add to the sum of weights, which is line 0, or to number line - 1. */
static const double *terms_of(const fit_query *q, size_t line)
{
    return line ? q->values + (line - 1) * (size_t)q->count : q->weights;
}

static void sum_blocks(fit_query *q)
{
    const size_t count = (size_t)q->count / BLOCK;
    for (size_t line = 0; line <= q->v_dim; line++) {
        for (size_t i = 0; i < count; i++) {
            double *sum = &q->blocks[line * count + i];
            *sum = 0;
            for (size_t k = 0; k < BLOCK; k++) *sum += terms_of(q, line)[i * BLOCK + k];
        }
    }
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
        q->weights[k] = counts ? x : -INFINITY;
        if (counts && x > q->most && x < INFINITY) q->most = x;
    }
    q->sink = isinf(m->sink) ? 0 : m->tile && m->sum ? 1 : exp(m->sink - q->most);
    for (int64_t k = 0; k < q->count; k++) {
        const float *v = rows->operands[KVG_V] + (size_t)k * Dv;
        if (m->tile && k >= q->first && (k == q->first || k % m->tile == 0)) top = top_of_tile(q, k, m->tile, top);
        const double exact = q->weights[k] == -INFINITY ? 0 : exp(q->weights[k] - q->most);
        const double weight = isfinite(exact) ? exact : NAN;
        const double raise = m->tile && top > -INFINITY ? exp(q->most - top) : 1;
        const double unit = (m->out ? raise : 1) * rows->factors[KVG_V][k] * rows->outside;
        q->weights[k] = weight * (m->sum ? raise : 1);
        for (uint32_t d = 0; d < Dv; d++) {
            double *adds = &q->values[(size_t)d * (size_t)q->count + (size_t)k];
            *adds = !rows->present[k] ? 0 : isfinite(v[d]) ? weight * unit * v[d] : NAN;
            if (*adds != 0 && weight > 0 && isfinite(v[d])) q->largest = fmax(q->largest, fabs(unit * v[d]));
        }
    }
    sum_blocks(q);
}

/* Of a line, over the keys of a run. */
static double sum_of(const fit_query *q, size_t line, fit_run r)
{
    const int64_t to = r.to > q->count ? q->count : r.to;
    const double *blocks = q->blocks + line * ((size_t)q->count / BLOCK), *terms = terms_of(q, line);
    double sum = 0;
    for (int64_t k = r.from < 0 ? 0 : r.from; k < to;) {
        const bool whole = k % BLOCK == 0 && k + BLOCK <= to;
        sum += whole ? blocks[k / BLOCK] : terms[k];
        k += whole ? BLOCK : 1;
    }
    return sum;
}

void judge_fit_attend(const fit_query *q, const fit_run *runs, size_t count, bool divided, size_t dims,
                      fit_answer *out)
{
    double sum = q->sink;
    memset(out->out, 0, dims * sizeof out->out[0]);
    for (size_t i = 0; i < count; i++) {
        sum += sum_of(q, 0, runs[i]);
        for (size_t d = 0; d < dims; d++) out->out[d] += sum_of(q, 1 + d, runs[i]);
    }
    out->lost = isnan(sum);
    out->empty = !(sum > q->sink);
    for (size_t d = 0; d < dims; d++) out->out[d] = sum > 0 ? out->out[d] / (divided ? sum : 1) : 0;
    out->lse = sum > 0 ? log(sum) + q->most : -INFINITY;
}
