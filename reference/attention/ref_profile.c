/* The profile tier of attention: what all decode contracts have alike, docs/spec/decode-contract.md sections 3, 5 and 7
 * to 9, operation by operation. Operands, sums and scores are those of the profile's contract
 * (reference/attention/ref_profile.h).
 *
 * A work item is one leaf of one KV head, for a batch of query tokens of one sequence: they and the query heads of the
 * group see the same keys, so that a tile of K and V is decoded once for all of them. When all leaves of a batch are
 * there, those of each row are merged to the root. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "reference/attention/ref_profile.h"
#include "reference/attention/ref_profile_operand.h"
#include "reference/attention_profile.h"
#include "reference/numbers/ref_round.h"

enum {
    TILE = REF_PROFILE_TILE,
    MOST_ROWS = 256,        /* of a batch and a KV head: those of one token may be more */
    MOST_FLOATS = 1 << 23,  /* of a batch's nodes: those of one token may be more */
};
static const float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e43p-1f;
static const float LEAST = -FLT_MAX; /* reference point of a row that has seen nothing */

/* One row of a work item: its q as the contract keeps it. */
typedef struct head {
    void *query;
    float c, capped_c;
} head;

/* Of one thread. */
typedef struct desk {
    void *tile; /* the contract's */
    bool placed[TILE];
    head *heads;    /* [tokens][group] */
    void *queries;  /* of the heads */
} desk;

/* Query tokens of one sequence, and the leaves that their keys lie in. */
typedef struct batch {
    uint32_t first, count;
    uint32_t first_leaf, end_leaf;
} batch;

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
    const float t = r->exp2->of(-fabsf(u)), cap = r->p->attention.softcap * LOG2_E;
    const float below = 1 - t, above = 1 + t, ratio = below / above;
    const float z = ratio * cap;
    return copysignf(z, u);
}

/* --- section 7: a leaf --- */

/* Decodes the 32 positions from `start` on that have a place. */
static void load_tile(const ref_profile_run *r, desk *d, uint32_t sequence, uint32_t kv_head, int64_t start)
{
    for (uint32_t i = 0; i < TILE; i++) {
        const ref_place at = {sequence, kv_head, (uint32_t)(start + i)};
        d->placed[i] = ref_kv_slot(&r->kv, at.sequence, at.position) >= 0;
        r->contract->load(r, d->tile, i, d->placed[i] ? &at : NULL);
    }
}

/* Which positions of the tile a query sees; false if there are none. */
static bool find_seen(const desk *d, ref_range_of_keys keys, int64_t start, bool *seen)
{
    bool any = false;
    for (uint32_t i = 0; i < TILE; i++) {
        seen[i] = start + i >= keys.first && start + i < keys.end && d->placed[i];
        any |= seen[i];
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
    const float w = isnan(top) || top == INFINITY ? NAN : r->exp2->of(*n.m - top);
    *n.l *= w;
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= w;
    *n.m = top;
}

static void walk_tile(const ref_profile_run *r, const void *tile, const bool *seen, const head *h, ref_node n)
{
    const bool caps = r->p->attention.softcap > 0;
    float z[TILE], p[TILE];
    r->contract->scores(r, tile, seen, h->query, z);
    for (uint32_t i = 0; i < TILE; i++)
        z[i] = !seen[i] ? -INFINITY : caps ? capped(r, z[i] * h->capped_c) : z[i] * h->c;
    const float top = top_of(z), rise = top - *n.m;
    if (!(rise <= r->lazy)) rescale(r, n, top);
    for (uint32_t i = 0; i < TILE; i++) p[i] = z[i] - *n.m;
    r->exp2->of_all(p, TILE);
    r->contract->add(r, tile, seen, p, n);
}

/* --- section 8: merges --- */

/* b joins a, whose positions are smaller. */
static void merge(const ref_profile_run *r, ref_node a, ref_node b)
{
    const float m = fmaxf(*a.m, *b.m), w_a = r->exp2->of(*a.m - m), w_b = r->exp2->of(*b.m - m);
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
    const float x = sink * LOG2_E, m = fmaxf(*n.m, x), w = r->exp2->of(*n.m - m);
    const float kept = *n.l * w;
    *n.l = kept + r->exp2->of(x - m);
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

/* The leaves that a query's keys lie in: none, or `first` to `end` - 1. */
typedef struct extent {
    uint32_t first, end;
} extent;

static extent extent_of(const ref_profile_run *r, uint32_t token)
{
    const ref_range_of_keys keys = ref_query_keys(&r->kv.table, &r->queries[token]);
    if (keys.end <= keys.first) return (extent){0, 0};
    const uint32_t leaf = r->profile->contract->leaf;
    return (extent){(uint32_t)(keys.first / leaf), (uint32_t)((keys.end + leaf - 1) / leaf)};
}

/* Nodes of a row: one at least, for a row that sees nothing. */
static uint32_t leaves_of(const batch *b)
{
    return b->first_leaf < b->end_leaf ? b->end_leaf - b->first_leaf : 1;
}

static size_t floats_of(const ref_profile_run *r, const batch *b)
{
    return (size_t)b->count * r->p->attention.query_heads * leaves_of(b) * node_floats(r);
}

/* The batch that begins with token `first`: as many of its sequence as there is room for. */
static batch batch_from(const ref_profile_run *r, uint32_t first)
{
    batch b = {first, 0, 0, 0};
    while (first + b.count < r->p->attention.queries &&
           r->queries[first + b.count].sequence == r->queries[first].sequence) {
        const extent next = extent_of(r, first + b.count);
        batch more = {first, b.count + 1, b.first_leaf, b.end_leaf};
        if (next.first < next.end) {
            more.first_leaf = b.end_leaf && b.first_leaf < next.first ? b.first_leaf : next.first;
            more.end_leaf = b.end_leaf > next.end ? b.end_leaf : next.end;
        }
        if (b.count && (more.count * r->group > MOST_ROWS || floats_of(r, &more) > MOST_FLOATS)) break;
        b = more;
    }
    return b;
}

/* Leaf `leaf` of a query head of the batch's token `i`. */
static ref_node leaf_of(const ref_profile_run *r, const batch *b, uint32_t i, uint32_t query_head, uint32_t leaf)
{
    const size_t row = (size_t)i * r->p->attention.query_heads + query_head;
    return node_at(r, r->nodes, row * leaves_of(b) + leaf - b->first_leaf);
}

static void run_leaf(const ref_profile_run *r, desk *d, const batch *b, uint32_t kv_head, uint32_t leaf)
{
    const uint32_t group = r->group, first = kv_head * group;
    const int64_t from = (int64_t)leaf * r->profile->contract->leaf, end = from + r->profile->contract->leaf;
    for (uint32_t i = 0; i < b->count * group; i++) {
        const uint32_t token = i / group, query_head = first + i % group;
        read_head(r, (size_t)(b->first + token) * r->p->attention.query_heads + query_head, &d->heads[i]);
        set_empty(r, leaf_of(r, b, token, query_head, leaf));
    }
    for (int64_t start = from; start < end; start += TILE) {
        bool loaded = false;
        for (uint32_t i = 0; i < b->count; i++) {
            const ref_query *query = &r->queries[b->first + i];
            const ref_range_of_keys keys = ref_query_keys(&r->kv.table, query);
            bool seen[TILE];
            if (start + TILE <= keys.first || start >= keys.end) continue;
            if (!loaded) load_tile(r, d, query->sequence, kv_head, start);
            loaded = true;
            if (!find_seen(d, keys, start, seen)) continue;
            for (uint32_t g = 0; g < group; g++)
                walk_tile(r, d->tile, seen, &d->heads[i * group + g], leaf_of(r, b, i, first + g, leaf));
        }
    }
}

/* A row's leaves to its root, and to what is asked for. */
static void run_root(const ref_profile_run *r, const batch *b, uint32_t i, uint32_t query_head)
{
    const extent at = extent_of(r, b->first + i);
    const bool sees = at.first < at.end;
    const ref_node root = leaf_of(r, b, i, query_head, sees ? at.first : b->first_leaf);
    if (!sees) set_empty(r, root);
    merge_tree(r, root.m, at.first, at.end);
    write_row(r, (size_t)(b->first + i) * r->p->attention.query_heads + query_head, root);
}

static void close_desk(desk *d)
{
    if (!d) return;
    free(d->tile);
    free(d->heads);
    free(d->queries);
    free(d);
}

static desk *open_desk(const ref_profile_run *r)
{
    const size_t query_bytes = r->contract->query_bytes, rows = r->group > MOST_ROWS ? r->group : MOST_ROWS;
    desk *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->tile = calloc(1, r->contract->tile_bytes);
    d->heads = malloc(rows * sizeof *d->heads);
    d->queries = malloc(rows * query_bytes);
    if (!d->tile || !d->heads || !d->queries) {
        close_desk(d);
        return NULL;
    }
    for (size_t i = 0; i < rows; i++) d->heads[i].query = (uint8_t *)d->queries + i * query_bytes;
    return d;
}

/* One batch after the other, each by all threads: first its leaves, then its rows. */
static kvg_status run_batches(const ref_profile_run *r)
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
        for (uint32_t first = 0; !failed && first < r->p->attention.queries;) {
            const batch b = batch_from(r, first);
            const uint32_t leaves = b.end_leaf - b.first_leaf;
#pragma omp for schedule(dynamic)
            for (uint64_t i = 0; i < (uint64_t)leaves * r->p->kv_heads; i++)
                run_leaf(r, d, &b, (uint32_t)(i / leaves), b.first_leaf + (uint32_t)(i % leaves));
#pragma omp for
            for (uint64_t i = 0; i < (uint64_t)b.count * query_heads; i++)
                run_root(r, &b, (uint32_t)(i / query_heads), (uint32_t)(i % query_heads));
            first += b.count;
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
    size_t most = 0;
    for (uint32_t i = 0; !s && i < a->queries;) {
        const batch b = batch_from(r, i);
        most = floats_of(r, &b) > most ? floats_of(r, &b) : most;
        i += b.count;
    }
    r->nodes = malloc(most * sizeof *r->nodes);
    if (!s && !r->nodes) s = kvg_fail(KVG_ERR_MEMORY, "no memory for nodes of %zu numbers", most);
    if (!s) s = run_batches(r);
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
        .exp2 = ref_exp2_rule_of(kvg_profile_get(p->profile)),
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

bool kvg_profile_has_operands(kvg_profile profile, kvg_format format)
{
    const kvg_profile_info *info = kvg_profile_get(profile);
    return !info || !kvg_profile_is_chip(info) || ref_holding_has(format);
}

bool kvg_problem_has_operands(const kvg_problem *p)
{
    return p->op != KVG_OP_DECODE || (kvg_profile_has_operands(p->profile, p->storage[KVG_K].format) &&
                                      kvg_profile_has_operands(p->profile, p->storage[KVG_V].format));
}

kvg_status kvg_arithmetic_of_profile(const kvg_problem *p, kvg_arithmetic *out)
{
    const ref_contract *contract;
    kvg_status s = find_contract(p, &contract);
    if (!s) contract->classify(p, out);
    return s;
}
