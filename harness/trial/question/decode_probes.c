#include "harness/trial/question/decode_probes.h"

#include <math.h>

#include "core/rng.h"
#include "harness/trial/question/fill.h"

/* By how much a needle's score, and how far below zero a cold one lies: e^-128 * 2^20 keys is less than what a result
 * may lose below 2^-126, and -2^16 lies below -5e4, from where kernels start their maxima. */
static const double NEEDLE = 128, COLD = 65536;
static const double LARGEST_Q = 32768; /* fits f16 */

static double score_scale(const kvg_problem *p)
{
    return p->attention.scale > 0 ? (double)p->attention.scale : 1 / sqrt((double)p->head_dim);
}

/* The magnitude of q's elements: the power of two at or above `margin` / (scale * what q = 1 gives). */
static double magnitude(const kvg_case *c, double margin, double given)
{
    double q = 0x1p-24;
    while (q * given * score_scale(&c->problem) < margin && q <= LARGEST_Q) q *= 2;
    return q;
}

static double needle_size(const kvg_case *c)
{
    return magnitude(c, NEEDLE, kvg_fill_needle_step(c));
}

static double cold_size(const kvg_case *c)
{
    return magnitude(c, COLD, kvg_fill_ones_sum(c));
}

kvg_status kvg_probe_check(const kvg_case *c)
{
    const char *name = kvg_fill_names[c->fill];
    const kvg_attention *a = &c->problem.attention;
    const bool scored = c->fill == KVG_FILL_NEEDLE || c->fill == KVG_FILL_COLD;
    if (!kvg_fill_is_probe(c->fill)) return KVG_OK;
    if (c->problem.op != KVG_OP_DECODE) return kvg_fail(KVG_ERR_INVALID, "fill %s is for op decode", name);
    if (scored && a->sinks) return kvg_fail(KVG_ERR_INVALID, "fill %s has no answer with sinks: leave them out", name);
    if (scored && a->softcap > 0) return kvg_fail(KVG_ERR_INVALID, "fill %s has no answer with a softcap", name);
    if (c->fill == KVG_FILL_NEEDLE && kvg_fill_needle_step(c) == 0) {
        return kvg_fail(KVG_ERR_INVALID, "fill needle cannot tell %u tokens of %u sequences apart with head_dim %u",
                        c->problem.tokens, c->problem.paging.sequences, c->problem.head_dim);
    }
    if ((c->fill == KVG_FILL_NEEDLE && needle_size(c) > LARGEST_Q) ||
        (c->fill == KVG_FILL_COLD && cold_size(c) > LARGEST_Q)) {
        return kvg_fail(KVG_ERR_INVALID, "fill %s needs q above %g: use a larger score_scale or tensor scale of K",
                        name, LARGEST_Q);
    }
    return KVG_OK;
}

static int64_t position_of(const kvg_question *d, size_t token)
{
    return (int64_t)(d->source[token] % d->c->problem.tokens);
}

/* The live token that has all the weight of a row: in turn the newest, the oldest, the first of a page, the last of a
 * page, the first of a tile, the last of a leaf, or any. */
static size_t needle_of(const kvg_question *d, size_t row, uint32_t head)
{
    const kvg_query_row *q = &d->queries[row];
    const size_t last = q->first + q->keys - 1;
    const int64_t newest = position_of(d, last), oldest = position_of(d, q->first);
    const int64_t page = d->c->problem.paging.block_tokens, leaf = kvg_profile_leaf(d->c->problem.profile);
    const int64_t places[] = {newest, oldest, newest / page * page, newest / page * page - 1,
                              newest / KVG_ATTENTION_TILE * KVG_ATTENTION_TILE,
                              newest / leaf * leaf - 1};
    const size_t count = sizeof places / sizeof places[0], kind = (row * 7 + head) % (count + 1);
    if (kind < count && places[kind] >= oldest) return last - (size_t)(newest - places[kind]);
    return q->first + kvg_rng_below(d->seed, 1ull << 40 | head, row, q->keys);
}

bool kvg_probe_query(const kvg_question *d, size_t row, uint32_t head, float *q)
{
    const kvg_case *c = d->c;
    const kvg_fill fill = c->fill;
    if (fill == KVG_FILL_ONES || !kvg_fill_is_probe(fill)) return false;
    const bool seen = d->queries[row].keys > 0;
    const size_t token = fill == KVG_FILL_NEEDLE && seen ? needle_of(d, row, head) : 0;
    const double size = fill == KVG_FILL_NEEDLE ? needle_size(c) : fill == KVG_FILL_COLD ? -cold_size(c) : 0;
    for (uint32_t i = 0; i < c->problem.head_dim; i++)
        q[i] = (float)(fill == KVG_FILL_NEEDLE ? size * kvg_fill_needle_sign(c, d->first[token], i) : size);
    return true;
}

/* --- answers --- */

static void read_row(const kvg_question *d, kvg_side side, size_t token, uint32_t kv_head, float *x)
{
    const kvg_problem *p = &d->c->problem;
    const uint8_t *rows = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, side)->data;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    kvg_reference_load(p->dtype, rows + (token * p->kv_heads + kv_head) * bytes, p->head_dim, x);
}

/* t_k of docs/spec/attention.md section 4. K is on its format's grid, so the cache holds these numbers. */
static double score_of(const kvg_question *d, size_t row, uint32_t head, size_t token, uint32_t kv_head)
{
    const kvg_problem *p = &d->c->problem;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype), at = row * p->attention.query_heads + head;
    const double cap = (double)p->attention.softcap;
    float q[KVG_MAX_HEAD_DIM], k[KVG_MAX_HEAD_DIM];
    double sum = 0;
    kvg_reference_load(p->dtype, (const uint8_t *)kvg_set_tensor(&d->in, KVG_ROLE_Q, KVG_K)->data + at * bytes,
                       p->head_dim, q);
    read_row(d, KVG_K, token, kv_head, k);
    for (uint32_t i = 0; i < p->head_dim; i++) sum += (double)q[i] * k[i];
    sum *= score_scale(p);
    return cap > 0 ? cap * tanh(sum / cap) : sum;
}

/* ln(e^a + e^b); one of them is finite. */
static double log_of_sum(double a, double b)
{
    return fmax(a, b) + log1p(exp(-fabs(a - b)));
}

/* Every visible V is the same or has the same weight, so keys and sink share out the mean of V. In f64, with functions
 * of the C library that are off by some 2^-52; a bound allows a rounding to f32 and more. */
void kvg_probe_answer(const kvg_question *d, size_t row, uint32_t head, double *out, double *lse)
{
    const kvg_problem *p = &d->c->problem;
    const kvg_query_row *q = &d->queries[row];
    const bool shared = p->paging.shared_kv, needle = d->c->fill == KVG_FILL_NEEDLE;
    const kvg_side side = shared ? KVG_K : KVG_V;
    const uint32_t first = shared ? p->paging.v_first : 0, n = shared ? p->paging.v_dim : p->head_dim;
    const uint32_t kv_head = head / (p->attention.query_heads / p->kv_heads);
    const float *sinks = p->attention.sinks ? kvg_set_tensor(&d->in, KVG_ROLE_SINKS, KVG_K)->data : NULL;
    const double sink = sinks ? (double)sinks[head] : -INFINITY;
    for (uint32_t i = 0; i < n; i++) out[i] = 0;
    *lse = sink;
    if (q->keys == 0) return;
    const size_t token = needle ? needle_of(d, row, head) : q->first, keys = needle ? 1 : q->keys;
    double most = -INFINITY, weights = 0; /* of e^(t - most) */
    for (size_t k = 0; k < keys; k++) {
        const double score = score_of(d, row, head, token + k, kv_head), larger = fmax(most, score);
        float v[KVG_MAX_HEAD_DIM];
        read_row(d, side, token + k, kv_head, v);
        for (uint32_t i = 0; i < n; i++) out[i] += v[first + i]; /* exact: multiples of a power of two */
        weights = weights * exp(most - larger) + exp(score - larger);
        most = larger;
    }
    const double of_keys = most + log(weights);
    for (uint32_t i = 0; i < n; i++) out[i] = out[i] / (double)keys / (1 + exp(sink - of_keys));
    *lse = log_of_sum(of_keys, sink);
}
