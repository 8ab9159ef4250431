#include "harness/trial/question/query_fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/trial/question/decode_probes.h"
#include "harness/trial/question/fill.h"
#include "reference/reference.h"

/* Streams under the case's seed. */
enum { STREAM_KIND = 1 << 21, STREAM_SINKS };
static const uint64_t STREAM_Q = 1ull << 41, STREAM_CODES = 1ull << 42;

static kvg_tensor *input(const kvg_question *d, kvg_role role)
{
    return kvg_set_tensor(&d->in, role, KVG_K);
}

static uint32_t below(const kvg_question *d, uint64_t stream, uint64_t index, uint64_t n)
{
    return (uint32_t)kvg_rng_below(d->seed, stream, index, n);
}

/* --- which keys a row sees (docs/spec/attention.md section 2) --- */

/* The live tokens of a sequence are neighbours, in order of position and without a gap. */
static void see(const kvg_question *d, size_t first_live, size_t live, kvg_query_row *q)
{
    const uint32_t tokens = d->c->problem.tokens, window = d->c->problem.attention.window;
    q->first = first_live;
    if (live == 0) return;
    const int64_t first = (int64_t)(d->source[first_live] % tokens), last = first + (int64_t)live - 1;
    const int64_t start = window ? q->position - window + 1 : 0;
    const int64_t from = start > first ? start : first, to = q->position < last ? q->position : last;
    if (to < from) return;
    q->first = first_live + (size_t)(from - first);
    q->keys = (uint32_t)(to - from + 1);
}

kvg_status kvg_query_fill_place(kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    const int32_t *lengths = input(d, KVG_ROLE_LENGTHS)->data, *counts = input(d, KVG_ROLE_QUERY_LENGTHS)->data;
    size_t row = 0, first = 0;
    d->queries = calloc(p->attention.queries, sizeof *d->queries);
    if (!d->queries) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u queries", p->attention.queries);
    for (uint32_t s = 0; s < p->paging.sequences; s++) {
        size_t live = 0;
        while (first + live < d->rows.tokens && d->source[first + live] / p->tokens == s) live++;
        for (int32_t i = 0; i < counts[s]; i++, row++) {
            d->queries[row] = (kvg_query_row){.sequence = s, .number = (uint32_t)i,
                                               .position = (int64_t)lengths[s] - counts[s] + i};
            see(d, first, live, &d->queries[row]);
        }
        first += live;
    }
    return KVG_OK;
}

/* --- rows --- */

void kvg_query_fill_finite(kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        const kvg_tensor *values = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side);
        const size_t width = kvg_dtype_bytes(p->dtype), D = p->head_dim;
        for (size_t at = 0; at < values->bytes / width; at += D) {
            uint8_t *row = (uint8_t *)values->data + at * width;
            float x[KVG_MAX_HEAD_DIM];
            kvg_reference_load(p->dtype, row, D, x);
            for (size_t i = 0; i < D; i++) {
                if (isfinite(x[i])) continue;
                x[i] = (at + i) % 2 ? -1 : 1;
                kvg_reference_store(p->dtype, &x[i], 1, row + i * width);
            }
        }
    }
}

/* What a byte may be: b & keep | set, and if the bits `hole` are all set then, b ^ flip. */
typedef struct byte_rule {
    uint8_t every; /* 2, 4: the highest byte of as many; the others are free */
    uint8_t keep, set, hole, flip;
} byte_rule;

static const byte_rule code_rules[] = {
    [KVG_CODES_F16] = {2, 0xFF, 0, 0x7C, 0x40}, /* finite */
    [KVG_CODES_BF16] = {2, 0x87, 0x38, 0, 0},   /* 2^-15 to 2 */
    [KVG_CODES_E4M3] = {1, 0xFF, 0, 0x7F, 0x01},
    [KVG_CODES_E5M2] = {1, 0xFF, 0, 0x7C, 0x40},
    [KVG_CODES_E2M1] = {1, 0xFF, 0, 0, 0},
    [KVG_CODES_UNSIGNED] = {1, 0xFF, 0, 0, 0},
    [KVG_CODES_OFFSET] = {1, 0xFF, 0, 0, 0},
    [KVG_CODES_SIGNED] = {1, 0xFF, 0, 0, 0},
};

/* By whether the model type is bf16. */
static const byte_rule scale_rules[][2] = {
    [KVG_SCALES_NONE] = {{1, 0xFF, 0, 0, 0}, {1, 0xFF, 0, 0, 0}},
    [KVG_SCALES_E8M0] = {{1, 0x0F, 0x78, 0, 0}, {1, 0x0F, 0x78, 0, 0}}, /* 2^-7 to 2^8 */
    [KVG_SCALES_E4M3] = {{1, 0xFF, 0, 0x7F, 0x01}, {1, 0xFF, 0, 0x7F, 0x01}},
    [KVG_SCALES_F16] = {{2, 0x1F, 0x20, 0, 0}, {2, 0x1F, 0x20, 0, 0}}, /* 2^-7 to 2 */
    [KVG_SCALES_F32] = {{4, 0x03, 0x3C, 0, 0}, {4, 0x03, 0x3C, 0, 0}}, /* 2^-7 to 2 */
    [KVG_SCALES_AFFINE] = {{2, 0x1F, 0x20, 0, 0}, {2, 0x03, 0x3C, 0, 0}},
};

static const byte_rule *rule_of(const kvg_problem *p, kvg_side side, bool scales)
{
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    return scales ? &scale_rules[f->scales][p->dtype == KVG_DTYPE_BF16] : &code_rules[f->codes];
}

static void write_row(const kvg_question *d, const kvg_row_map *map, const byte_rule *rule, size_t token,
                      uint32_t head, uint64_t stream)
{
    const kvg_paging *g = &d->c->problem.paging;
    const uint64_t slot = (uint64_t)d->slots[token], row = d->first[token] * d->c->problem.kv_heads + head;
    uint8_t *pool = kvg_set_tensor(&d->in, map->pool, map->side)->data;
    for (uint32_t i = 0; i < map->bytes; i++) {
        uint8_t b = (uint8_t)below(d, STREAM_CODES + stream, row * 2 * KVG_MAX_HEAD_DIM + i, 256);
        if ((i + 1) % rule->every == 0) {
            b = (uint8_t)((b & rule->keep) | rule->set);
            if ((b & rule->hole) == rule->hole) b ^= rule->flip;
        }
        pool[kvg_rows_place(map, g->layer, (uint32_t)(slot / g->block_tokens), head,
                                 (uint32_t)(slot % g->block_tokens), i)] = b;
    }
}

void kvg_query_fill_codes(kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        for (size_t row = 0; row < (size_t)d->rows.tokens * p->kv_heads; row++) {
            const size_t token = row / p->kv_heads;
            const uint32_t head = (uint32_t)(row % p->kv_heads);
            write_row(d, &map.codes[side], rule_of(p, (kvg_side)side, false), token, head, 2 * (uint64_t)side);
            if (map.scales[side].bytes == 0) continue;
            write_row(d, &map.scales[side], rule_of(p, (kvg_side)side, true), token, head, 2 * (uint64_t)side + 1);
        }
    }
}

/* All bits set in one kind of bytes of a live token's rows. */
static void set_bits(const kvg_question *d, const kvg_row_map *map, size_t token)
{
    const kvg_paging *g = &d->c->problem.paging;
    const uint64_t slot = (uint64_t)d->slots[token];
    uint8_t *pool = kvg_set_tensor(&d->in, map->pool, map->side)->data;
    for (uint32_t i = 0; i < d->c->problem.kv_heads * map->bytes; i++)
        pool[kvg_rows_place(map, g->layer, (uint32_t)(slot / g->block_tokens), i / map->bytes,
                                 (uint32_t)(slot % g->block_tokens), i % map->bytes)] = 0xFF;
}

void kvg_query_fill_own_keys(kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (size_t row = 1; row < p->attention.queries; row++) {
        const kvg_query_row *before = &d->queries[row - 1], *q = &d->queries[row];
        const bool newest = row + 1 == p->attention.queries || d->queries[row + 1].sequence != q->sequence;
        const size_t end = q->first + q->keys;
        if (!newest || before->sequence != q->sequence || end <= before->first + before->keys) continue;
        if (d->source[end - 1] % p->tokens < d->c->shared_prefix) continue; /* other sequences have that token */
        for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
            set_bits(d, &map.codes[side], end - 1);
            set_bits(d, &map.scales[side], end - 1);
        }
    }
}

/* --- q --- */

/* Root of the mean square of a KV head's K; 1 where it is 0. */
static double size_of_keys(const kvg_question *d, uint32_t kv_head)
{
    const kvg_problem *p = &d->c->problem;
    const uint8_t *rows = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, KVG_K)->data;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    double sum = 0;
    for (size_t token = 0; token < d->rows.tokens; token++) {
        float k[KVG_MAX_HEAD_DIM];
        kvg_reference_load(p->dtype, rows + (token * p->kv_heads + kv_head) * bytes, p->head_dim, k);
        for (uint32_t i = 0; i < p->head_dim; i++) sum += (double)k[i] * k[i];
    }
    return sum > 0 ? sqrt(sum / ((double)d->rows.tokens * p->head_dim)) : 1;
}

/* The width of a row's q: 0; one whose largest element is about 100; subnormal; else one that spreads scores, of which
 * q = 1 gives `spread`, by 1 to 10. */
static double width_of_row(const kvg_question *d, uint64_t row, double spread)
{
    const uint32_t kind = below(d, STREAM_KIND, row, 16);
    if (kind == 0) return 0;
    if (kind == 1) return 25;
    const bool subnormal = kind == 2 && d->c->fill == KVG_FILL_ADVERSARIAL;
    if (subnormal) return d->c->problem.dtype == KVG_DTYPE_F16 ? 0x1p-18 : 0x1p-130;
    const double target = 1 + below(d, STREAM_KIND, ~row, 1 << 10) * (9.0 / (1 << 10)), width = target / spread;
    return width < 0x1p-12 ? 0x1p-12 : width > 4096 ? 4096 : width;
}

static double score_of(const kvg_question *d, const float *q, size_t token, uint32_t kv_head, float *k)
{
    const kvg_problem *p = &d->c->problem;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    const uint8_t *rows = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, KVG_K)->data;
    double sum = 0;
    kvg_reference_load(p->dtype, rows + (token * p->kv_heads + kv_head) * bytes, p->head_dim, k);
    for (uint32_t i = 0; i < p->head_dim; i++) sum += (double)q[i] * k[i];
    return sum;
}

/* Lets the first key that a window shows weigh as much as the heaviest one, so that a window of another length is seen.
 * q is moved along the difference of the two keys. Example in two dims: q (1, 0), first key (0, 1), heaviest (2, 0).
 * The scores are 0 and 2, the difference is (-2, 1), and q becomes (1, 0) + 2/5 (-2, 1) = (0.2, 0.4). Both scores are
 * then 0.4. */
static void aim_at_edge(const kvg_question *d, const kvg_query_row *row, uint32_t kv_head, float *q)
{
    const uint32_t n = d->c->problem.head_dim;
    float edge[KVG_MAX_HEAD_DIM], key[KVG_MAX_HEAD_DIM], heaviest[KVG_MAX_HEAD_DIM];
    const double first = score_of(d, q, row->first, kv_head, edge);
    double most = first, square = 0, largest = 0;
    for (size_t i = 1; i < row->keys; i++) {
        const double score = score_of(d, q, row->first + i, kv_head, key);
        if (!(score > most)) continue;
        most = score;
        memcpy(heaviest, key, n * sizeof *key);
    }
    if (!(most > first)) return;
    for (uint32_t i = 0; i < n; i++) {
        const double step = (double)edge[i] - heaviest[i];
        square += step * step;
        largest = fmax(largest, fabs(step));
    }
    const double by = (most - first) / square;
    if (!(by * largest < 0x1p12)) return; /* q stays a number of f16 */
    for (uint32_t i = 0; i < n; i++) q[i] += (float)(by * ((double)edge[i] - heaviest[i]));
}

/* Row `row` of q under one head, where q = 1 spreads scores by `spread`. */
static void fill_query(const kvg_question *d, size_t row, uint32_t head, double spread)
{
    const kvg_problem *p = &d->c->problem;
    const uint64_t index = row * p->attention.query_heads + head;
    const double width = width_of_row(d, index, spread);
    float q[KVG_MAX_HEAD_DIM];
    for (uint32_t i = 0; i < p->head_dim; i++) q[i] = (float)(kvg_rng_normal(d->seed, STREAM_Q + index, i) * width);
    const bool probe = kvg_probe_query(d, row, head, q);
    const bool cut = p->attention.window && d->queries[row].keys == p->attention.window; /* it may hide keys */
    const uint32_t group = p->attention.query_heads / p->kv_heads;
    if (d->c->shuffled && cut && !probe && head % group % 2 == 0)
        aim_at_edge(d, &d->queries[row], head / group, q);
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    kvg_reference_store(p->dtype, q, p->head_dim, (uint8_t *)input(d, KVG_ROLE_Q)->data + index * bytes);
}

void kvg_query_fill(kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    const kvg_attention *a = &p->attention;
    const uint32_t group = a->query_heads / p->kv_heads;
    const double root = sqrt((double)p->head_dim), scale = a->scale > 0 ? (double)a->scale : 1 / root;
    for (uint32_t kv_head = 0; kv_head < p->kv_heads; kv_head++) {
        const double spread = scale * root * size_of_keys(d, kv_head);
        for (size_t i = 0; i < (size_t)a->queries * group; i++)
            fill_query(d, i / group, kv_head * group + (uint32_t)(i % group), spread);
    }
}

void kvg_query_fill_sinks(kvg_question *d)
{
    const kvg_tensor *sinks = input(d, KVG_ROLE_SINKS);
    float *x = sinks->data;
    const size_t heads = sinks->bytes / sizeof *x;
    for (size_t i = 0; i < heads; i++) x[i] = (float)(kvg_rng_normal(d->seed, STREAM_SINKS, i) * 3);
    const kvg_profile_info *profile = kvg_profile_get(d->c->problem.profile);
    const bool narrow = profile && !kvg_profile_is_own(profile); /* kernels that take bf16 numbers */
    for (size_t i = 0; narrow && i < heads; i++) {
        uint16_t code;
        kvg_reference_store(KVG_DTYPE_BF16, &x[i], 1, &code);
        kvg_reference_load(KVG_DTYPE_BF16, &code, 1, &x[i]);
    }
    if (heads > 1) x[heads - 1] = -INFINITY; /* none */
    if (heads > 2) x[0] = 40;                /* nearly everything */
}

void kvg_query_fill_poison(kvg_tensor_set *outputs)
{
    for (size_t i = 0; i < outputs->count; i++) {
        const kvg_tensor *t = &outputs->tensors[i];
        const size_t width = kvg_dtype_bytes(t->dtype);
        const uint8_t nan[2] = {0xC0, 0x7F}; /* the upper bytes of a NaN of f32 and bf16, and a NaN of f16 */
        for (size_t n = 0; n < t->bytes / width; n += 2)
            memcpy((uint8_t *)t->data + n * width + width - 2, nan, sizeof nan);
    }
}
