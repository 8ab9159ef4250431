/* The profile tier of attention: what all decode contracts have alike, docs/decode-contract.md sections 3, 5 and 7 to
 * 9, operation by operation. Operands, sums and scores are those of the profile's contract (reference/ref_profile.h).
 *
 * A work item is one query token, one KV head and a span of leaves: the query heads of the group see the same keys, so
 * that a tile of K and V is decoded once for all of them. Its leaves are merged to the node of the tree that covers the
 * span; when all spans of a token are there, their nodes are merged to the root. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "reference/attention_profile.h"
#include "reference/ref_exp2.h"
#include "reference/ref_profile.h"
#include "reference/ref_round.h"

enum {
    TILE = REF_PROFILE_TILE,
    LEAF = REF_PROFILE_LEAF,
    LEAVES = 8, /* of a work item: a node of the tree */
    SPAN = LEAVES * LEAF,
};
static const float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e43p-1f;
static const float LEAST = -FLT_MAX; /* reference point of a row that has seen nothing */

/* One query head of a work item: its row of q as the contract keeps it. */
typedef struct head {
    void *query;
    float c, capped_c;
} head;

/* Of one thread. */
typedef struct desk {
    void *tile; /* the contract's */
    bool seen[TILE];
    head *heads;    /* [group] */
    void *queries;  /* of the heads */
    float *leaves;  /* [group][LEAVES] nodes */
} desk;

static size_t node_floats(const ref_profile_run *r)
{
    return r->dims + 2;
}

static ref_node node_at(const ref_profile_run *r, float *nodes, size_t index)
{
    float *at = nodes + index * node_floats(r);
    return (ref_node){at, at + 1, at + 2};
}

static void set_empty(const ref_profile_run *r, ref_node n)
{
    *n.m = LEAST;
    *n.l = 0;
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] = 0;
}

/* --- sections 3 and 5: scores --- */

static float score_factor(const ref_profile_run *r)
{
    const float given = r->p->attention.scale, root = sqrtf((float)r->p->head_dim);
    const float scale = given > 0 ? given : 1 / root;
    const float in_log2 = scale * LOG2_E;
    const float scaled = in_log2 * r->kv.side[KVG_K].row.tensor_scale;
    return scaled * (float)(1 << r->k_base);
}

static void read_head(const ref_profile_run *r, size_t row, head *h)
{
    const int e = r->contract->read_query(r, r->q + row * r->p->head_dim * kvg_dtype_bytes(r->p->dtype), h->query);
    h->c = r->score_factor * kvg_f32_of_bits((uint32_t)(e + 127) << 23);
    const float twice = 2 * h->c;
    h->capped_c = twice / r->p->attention.softcap;
}

/* cap * tanh, from t = e^(-2 |score / cap|) */
static float capped(const ref_profile_run *r, float u)
{
    if (isnan(u)) return u;
    const float t = ref_exp2(-fabsf(u)), cap = r->p->attention.softcap * LOG2_E;
    const float below = 1 - t, above = 1 + t, ratio = below / above;
    const float z = ratio * cap;
    return copysignf(z, u);
}

static float score(const ref_profile_run *r, const head *h, const void *tile, uint32_t i)
{
    const float s = r->contract->score(r, tile, i, h->query);
    return r->p->attention.softcap > 0 ? capped(r, s * h->capped_c) : s * h->c;
}

/* --- section 7: a leaf --- */

/* Decodes the 32 positions from `start` on that the query can see; false if there are none. */
static bool load_tile(const ref_profile_run *r, desk *d, const ref_query *query, ref_range_of_keys keys,
                      uint32_t kv_head, int64_t start)
{
    bool any = false;
    for (uint32_t i = 0; i < TILE; i++) {
        const ref_place at = {query->sequence, kv_head, (uint32_t)(start + i)};
        d->seen[i] = start + i >= keys.first && start + i < keys.end &&
                     ref_kv_slot(&r->kv, at.sequence, at.position) >= 0;
        any |= d->seen[i];
        r->contract->load(r, d->tile, i, d->seen[i] ? &at : NULL);
    }
    return any;
}

/* The largest of a tile; NaN if one is. */
static float top_of(const float *z)
{
    float top = -INFINITY;
    for (uint32_t i = 0; i < TILE; i++) {
        if (isnan(z[i])) return z[i];
        top = z[i] > top ? z[i] : top;
    }
    return top;
}

static void rescale(const ref_profile_run *r, ref_node n, float top)
{
    const float w = isnan(top) || top == INFINITY ? NAN : ref_exp2(*n.m - top);
    *n.l *= w;
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= w;
    *n.m = top;
}

static void walk_tile(const ref_profile_run *r, const desk *d, const head *h, ref_node n)
{
    float z[TILE], p[TILE];
    for (uint32_t i = 0; i < TILE; i++) z[i] = d->seen[i] ? score(r, h, d->tile, i) : -INFINITY;
    const float top = top_of(z), rise = top - *n.m;
    if (!(rise <= r->lazy)) rescale(r, n, top);
    for (uint32_t i = 0; i < TILE; i++) p[i] = ref_exp2(z[i] - *n.m);
    r->contract->add(r, d->tile, d->seen, p, n);
}

/* --- section 8: merges --- */

/* b joins a, whose positions are smaller. */
static void merge(const ref_profile_run *r, ref_node a, ref_node b)
{
    const float m = fmaxf(*a.m, *b.m), w_a = ref_exp2(*a.m - m), w_b = ref_exp2(*b.m - m);
    *a.l = fmaf(*b.l, w_b, *a.l * w_a);
    for (uint32_t d = 0; d < r->dims; d++) a.o[d] = fmaf(b.o[d], w_b, a.o[d] * w_a);
    *a.m = m;
}

/* Merges nodes `first` to `end` - 1 of one level, all that there are, into the one that lies first. A node without
 * tokens among them is EMPTY. What covers i to i + step - 1 lies where the first of these is that exists. */
static void merge_tree(const ref_profile_run *r, float *nodes, uint32_t first, uint32_t end)
{
    for (uint64_t step = 1; step < end; step *= 2) {
        for (uint64_t i = first / (2 * step) * 2 * step; i + step < end; i += 2 * step) {
            if (i + step <= first) continue; /* no left child */
            merge(r, node_at(r, nodes, i > first ? i - first : 0), node_at(r, nodes, i + step - first));
        }
    }
}

/* --- section 9: the root --- */

static void add_sink(const ref_profile_run *r, ref_node n, float sink)
{
    const float x = sink * LOG2_E, m = fmaxf(*n.m, x), w = ref_exp2(*n.m - m);
    const float kept = *n.l * w;
    *n.l = kept + ref_exp2(x - m);
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= w;
    *n.m = m;
}

/* The NaN of every type is 0x7F...F: rounding to 16 bits keeps it. */
static float one_nan(float x)
{
    return isnan(x) ? kvg_f32_of_bits(0x7FFFFFFF) : x;
}

static float lse_of(ref_node n)
{
    if (*n.l == 0) return -INFINITY;
    const float in_log2 = *n.m + (isnan(*n.l) ? *n.l : ref_log2(*n.l));
    return one_nan(in_log2 * LN_2);
}

static void write_row(const ref_profile_run *r, size_t row, ref_node n)
{
    const size_t width = kvg_dtype_bytes(r->p->dtype);
    uint8_t *out = r->out + row * r->dims * width;
    if (r->sinks) add_sink(r, n, r->sinks[row % r->p->attention.query_heads]);
    for (uint32_t d = 0; d < r->dims; d++) {
        const float scaled = n.o[d] * r->output_factor, quotient = scaled / *n.l;
        const float y = *n.l == 0 ? 0 : one_nan(quotient + 0.0f); /* -0 + 0 is +0 */
        kvg_reference_store(r->p->dtype, &y, 1, out + d * width);
    }
    r->lse[row] = lse_of(n);
}

/* --- the whole problem --- */

/* The spans that a query's keys lie in. */
typedef struct extent {
    uint32_t first, end;
} extent;

static extent extent_of(const ref_profile_run *r, uint32_t token)
{
    const ref_range_of_keys keys = ref_query_keys(&r->kv.table, &r->queries[token]);
    if (keys.end <= keys.first) return (extent){0, 0};
    return (extent){(uint32_t)(keys.first / SPAN), (uint32_t)((keys.end + SPAN - 1) / SPAN)};
}

/* Span `index` of those of the token. */
static void run_span(const ref_profile_run *r, desk *d, uint32_t token, uint32_t kv_head, uint32_t index)
{
    const ref_query *query = &r->queries[token];
    const ref_range_of_keys keys = ref_query_keys(&r->kv.table, query);
    const uint32_t first = kv_head * r->group;
    const int64_t from = (keys.first / SPAN + index) * SPAN;
    for (uint32_t g = 0; g < r->group; g++)
        read_head(r, (size_t)token * r->p->attention.query_heads + first + g, &d->heads[g]);
    for (size_t i = 0; i < (size_t)r->group * LEAVES; i++) set_empty(r, node_at(r, d->leaves, i));
    for (int64_t start = from; start < from + SPAN && start < keys.end; start += TILE) {
        const size_t leaf = (size_t)(start - from) / LEAF;
        if (start + TILE <= keys.first || !load_tile(r, d, query, keys, kv_head, start)) continue;
        for (uint32_t g = 0; g < r->group; g++) walk_tile(r, d, &d->heads[g], node_at(r, d->leaves, g * LEAVES + leaf));
    }
    for (uint32_t g = 0; g < r->group; g++) {
        float *leaves = d->leaves + g * LEAVES * node_floats(r);
        merge_tree(r, leaves, 0, LEAVES);
        memcpy(r->nodes + ((size_t)(first + g) * r->spans + index) * node_floats(r), leaves,
               node_floats(r) * sizeof *leaves);
    }
}

static void close_desk(desk *d)
{
    if (!d) return;
    free(d->tile);
    free(d->heads);
    free(d->queries);
    free(d->leaves);
    free(d);
}

static desk *open_desk(const ref_profile_run *r)
{
    const size_t query_bytes = r->contract->query_bytes;
    desk *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->tile = malloc(r->contract->tile_bytes);
    d->heads = malloc(r->group * sizeof *d->heads);
    d->queries = malloc(r->group * query_bytes);
    d->leaves = malloc(r->group * LEAVES * node_floats(r) * sizeof *d->leaves);
    if (!d->tile || !d->heads || !d->queries || !d->leaves) {
        close_desk(d);
        return NULL;
    }
    for (uint32_t g = 0; g < r->group; g++) d->heads[g].query = (uint8_t *)d->queries + g * query_bytes;
    return d;
}

/* One token after the other, each by all threads: first its spans, then its rows. */
static kvg_status run_tokens(const ref_profile_run *r)
{
    const uint32_t query_heads = r->p->attention.query_heads;
    bool failed = false;
#pragma omp parallel
    {
        desk *d = open_desk(r);
        if (!d) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp barrier
        for (uint32_t token = 0; !failed && token < r->p->attention.queries; token++) {
            const extent at = extent_of(r, token);
            const uint32_t spans = at.end - at.first;
#pragma omp for schedule(dynamic)
            for (uint64_t i = 0; i < (uint64_t)spans * r->p->kv_heads; i++)
                run_span(r, d, token, (uint32_t)(i / spans), (uint32_t)(i % spans));
#pragma omp for
            for (uint32_t h = 0; h < query_heads; h++) {
                float *nodes = r->nodes + (size_t)h * r->spans * node_floats(r);
                if (spans == 0) set_empty(r, node_at(r, nodes, 0));
                merge_tree(r, nodes, at.first, at.end);
                write_row(r, (size_t)token * query_heads + h, node_at(r, nodes, 0));
            }
        }
        close_desk(d);
    }
    return failed ? kvg_fail(KVG_ERR_MEMORY, "no memory for %u query heads at work", r->group) : KVG_OK;
}

static kvg_status run(ref_profile_run *r, const kvg_tensor *query_lengths)
{
    const kvg_attention *a = &r->p->attention;
    r->queries = malloc(a->queries * sizeof *r->queries);
    if (!r->queries) return kvg_fail(KVG_ERR_MEMORY, "no memory for %u queries", a->queries);
    kvg_status s = ref_queries_place(&r->kv.table, query_lengths, r->queries);
    r->spans = 1;
    for (uint32_t i = 0; !s && i < a->queries; i++) {
        const extent at = extent_of(r, i);
        r->spans = at.end - at.first > r->spans ? at.end - at.first : r->spans;
    }
    r->nodes = malloc((size_t)a->query_heads * r->spans * node_floats(r) * sizeof *r->nodes);
    if (!s && !r->nodes) s = kvg_fail(KVG_ERR_MEMORY, "no memory for the nodes of %u spans of keys", r->spans);
    if (!s) s = run_tokens(r);
    free(r->nodes);
    free(r->queries);
    return s;
}

static const kvg_tensor *input(const kvg_tensor *in, kvg_role role)
{
    return &in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, KVG_K)];
}

/* The contract of the problem's profile, if it has operands for the problem. */
static kvg_status find_contract(const kvg_problem *p, const ref_contract **out)
{
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    if (!profile) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "profile %d is not in core/profiles.def: without one there are no bits",
                        (int)p->profile);
    }
    *out = kvg_profile_is_chip(profile) ? &ref_contract_mma : &ref_contract_simt;
    return (*out)->check(p);
}

kvg_status kvg_attention_profile(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const ref_contract *contract;
    kvg_status s = kvg_problem_check(p);
    if (!s) s = find_contract(p, &contract);
    if (s) return s;
    const kvg_role *outputs = kvg_op_get(KVG_OP_DECODE)->outputs;
    ref_profile_run r = {
        .p = p,
        .profile = kvg_profile_get(p->profile),
        .contract = contract,
        .q = input(in, KVG_ROLE_Q)->data,
        .out = out[kvg_roles_index(outputs, KVG_ROLE_OUT, KVG_K)].data,
        .lse = out[kvg_roles_index(outputs, KVG_ROLE_LSE, KVG_K)].data,
        .group = p->attention.query_heads / p->kv_heads,
        .tables = malloc(contract->table_bytes),
    };
    s = r.tables ? ref_kv_init(p, in, NULL, &r.kv) : kvg_fail(KVG_ERR_MEMORY, "no memory for the tables of operands");
    if (!s) s = ref_sinks_read(p, input(in, KVG_ROLE_SINKS), &r.sinks);
    if (!s) {
        r.dims = ref_kv_dim(&r.kv, KVG_V);
        contract->open(&r);
        r.score_factor = score_factor(&r);
        s = run(&r, input(in, KVG_ROLE_QUERY_LENGTHS));
    }
    free(r.tables);
    return s;
}

kvg_status kvg_arithmetic_of_profile(const kvg_problem *p, kvg_arithmetic *out)
{
    const ref_contract *contract;
    kvg_status s = find_contract(p, &contract);
    if (!s) contract->classify(p, out);
    return s;
}
