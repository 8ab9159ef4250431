/* The profile tier of attention: docs/spec/decode-contract.md sections 3, 5 and 7 to 9 and docs/spec/other-kernels.md,
 * operation by operation, as the row of core/profiles.def says. Operands, sums and scores are those of the profile's
 * contract (reference/attention/ref_profile.h).
 *
 * A work item is one leaf of one KV head, for a batch of query tokens of one sequence: they and the query heads of the
 * group see the same keys, so that a tile of K and V is decoded once for all of them. When all leaves of a batch are
 * there, those of each row are merged to the root. Where a contract has no leaves, an item is some of the rows. */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "reference/attention/ref_profile.h"
#include "reference/attention/ref_profile_operand.h"
#include "reference/attention/ref_profile_tiles.h"
#include "reference/attention_profile.h"
#include "reference/numbers/ref_round.h"
#include "reference/numbers/ref_special.h"

enum {
    MOST_ROWS = 256,        /* of a batch and a KV head: those of one token may be more */
    MOST_FLOATS = 1 << 23,  /* of a batch's nodes: those of one token may be more */
};
static const float LOG2_E = 0x1.715476p+0f;
static const double LOG2_E_F64 = 0x1.71547652b82fep+0;
static const float LEAST = -FLT_MAX; /* reference point of a row that has seen nothing */
static const float LEAST_BY_TILE = -1e5f, LEAST_BY_PAIR = -1e30f;

/* One row of a work item: its q as the contract keeps it. */
typedef struct head {
    void *query;
    float c, capped_c;
} head;

/* Of one thread. */
typedef struct desk {
    void *tile; /* the contract's */
    bool placed[KVG_MOST_TILE];
    head *heads;    /* [tokens][group] */
    void *queries;  /* of the heads */
} desk;

static float least_of(const kvg_contract_info *rules)
{
    if (rules->weights == KVG_WEIGHTS_BY_TILE) return LEAST_BY_TILE;
    if (rules->weights == KVG_WEIGHTS_BY_PAIR) return LEAST_BY_PAIR;
    return rules->exponent == KVG_EXPONENT_SUBTRACTED ? LEAST : -INFINITY;
}

static void set_empty(const ref_profile_run *r, ref_node n)
{
    *n.m = least_of(r->rules);
    for (uint32_t i = 0; i < r->hints; i++) n.hints[i] = *n.m;
    for (uint32_t i = 0; i < r->lanes; i++) n.l[i] = r->rules->sinks == KVG_SINKS_FIRST;
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] = 0;
}

/* The nodes of a leaf of a query head's row. */
static void start_row(const ref_profile_run *r, uint32_t query_head, uint32_t leaf, ref_node first)
{
    for (uint32_t part = 0; part < r->parts; part++) set_empty(r, ref_node_at(r, first.m, part));
    if (r->sinks && r->rules->sinks == KVG_SINKS_FIRST && leaf == 0) *first.m = r->sinks[query_head];
}

/* --- sections 3 and 5: scores --- */

static void set_score_factor(ref_profile_run *r)
{
    const float given = r->p->attention.scale, root = sqrtf((float)r->p->head_dim), cap = r->p->attention.softcap;
    const float g = r->kv.side[KVG_K].row.tensor_scale, own = given > 0 ? given : 1 / root;
    const double root_f64 = sqrt((double)r->p->head_dim), asked = r->scale > 0 ? r->scale : given;
    const double wide = asked > 0 ? asked : 1 / root_f64;
    switch (r->rules->factor) {
    case KVG_FACTOR_ROUNDED: r->score_factor = own * LOG2_E * g * (float)(1 << r->k_base); break;
    case KVG_FACTOR_ONCE: r->score_factor = (float)((float)wide * LOG2_E_F64) * g; break;
    case KVG_FACTOR_EXACT: r->score_factor = (float)(wide * LOG2_E_F64); break;
    case KVG_FACTOR_WIDE:
        r->before_tanh = cap > 0 ? (float)(wide * g * ref_rcp_approx(cap, true)) : 0;
        r->score_factor = cap > 0 ? LOG2_E * cap : (float)(wide * g * LOG2_E);
        break;
    case KVG_FACTOR_PLAIN: r->score_factor = (float)wide; break;
    case KVG_FACTOR_ROOT:
        r->score_factor = (float)(wide * root_f64) * (float)(1 / root_f64);
        break;
    }
}

static void read_head(const ref_profile_run *r, size_t row, head *h)
{
    const int e = r->contract->read_query(r, r->q + row * r->p->head_dim * kvg_dtype_bytes(r->p->dtype), h->query);
    h->c = r->score_factor * kvg_f32_of_bits((uint32_t)(e + 127) << 23);
    const float twice = 2 * h->c;
    h->capped_c = twice / r->p->attention.softcap;
}

/* cap * tanh(s / cap) in log2 units, from u = s c 2 / cap and t = e^(-2 |s / cap|) */
static float capped(const ref_profile_run *r, float u)
{
    if (isnan(u)) return u;
    const float t = r->exp2->of(-fabsf(u)), cap = r->p->attention.softcap * LOG2_E;
    const float below = 1 - t, above = 1 + t, ratio = below / above;
    const float z = ratio * cap;
    return copysignf(z, u);
}

/* docs/spec/other-kernels.md section 6 */
static float capped_by_sigmoid(const ref_profile_run *r, float s)
{
    const float cap = r->p->attention.softcap, y = ref_div_full(s, cap, false), below = r->exp2->of(-2 * y) + 1;
    return cap * fmaf(ref_div_full(1, below, false), 2, -1);
}

/* docs/spec/other-kernels.md section 5 */
static float capped_by_quotient(const ref_profile_run *r, float s)
{
    const float cap = r->p->attention.softcap, y = ref_div_full(s, cap, false), e = r->exp2->of(2 * y), above = e + 1;
    return cap * (1 - ref_div_full(2, above, false));
}

/* --- section 7: a leaf --- */

/* Decodes the positions of the tile from `start` on that have a place. */
static void load_tile(const ref_profile_run *r, desk *d, uint32_t sequence, uint32_t kv_head, int64_t start)
{
    for (uint32_t i = 0; i < r->tile; i++) {
        const ref_place at = {sequence, kv_head, (uint32_t)(start + i)};
        d->placed[i] = ref_kv_slot(&r->kv, at.sequence, at.position) >= 0;
        r->contract->load(r, d->tile, i, d->placed[i] ? &at : NULL);
    }
}

/* Which positions of the tile a query sees; false if there are none. */
static bool find_seen(const desk *d, uint32_t tile, ref_range_of_keys keys, int64_t start, bool *seen)
{
    bool any = false;
    for (uint32_t i = 0; i < tile; i++) {
        seen[i] = start + i >= keys.first && start + i < keys.end && d->placed[i];
        any |= seen[i];
    }
    return any;
}

/* The largest of a tile, and of kernels that subtract NaN if one is. */
static float top_of(const ref_profile_run *r, const float *z)
{
    const bool keeps_nan = r->rules->exponent == KVG_EXPONENT_SUBTRACTED;
    float top = -INFINITY;
    for (uint32_t i = 0; i < r->tile; i++) {
        if (keeps_nan && isnan(z[i])) return z[i];
        top = z[i] > top ? z[i] : top;
    }
    return top;
}

/* What is subtracted for a reference point: nothing seen is the least number, but in SGLang's kernels. */
static float point_of(const ref_profile_run *r, float m)
{
    return r->rules->end == KVG_END_NATURAL ? m : fmaxf(m, LEAST);
}

/* The factor by which sums follow m from `from` to `to`. */
static float factor_of(const ref_profile_run *r, const head *h, float from, float to)
{
    switch (r->rules->exponent) {
    case KVG_EXPONENT_SUBTRACTED: return isnan(to) || to == INFINITY ? NAN : r->exp2->of(from - to);
    case KVG_EXPONENT_SUBTRACTED_ALL: return r->exp2->of(from - point_of(r, to));
    case KVG_EXPONENT_FUSED: return r->exp2->of((from - (to == -INFINITY ? 0 : to)) * h->c);
    case KVG_EXPONENT_FUSED_EACH: return from == -INFINITY ? 0 : r->exp2->of((from - to) * h->c);
    case KVG_EXPONENT_FUSED_ALL: return r->exp2->of(fmaf(from, h->c, -ref_profile_minus(r, to)));
    case KVG_EXPONENT_FUSED_E: return r->exp2->of((from - to) * LOG2_E);
    }
    return NAN;
}

/* The sums that do not follow m as a tile joins them do it here. */
static float rescale(const ref_profile_run *r, const head *h, ref_node n, float top)
{
    const float w = factor_of(r, h, *n.m, top);
    const kvg_weights_kind kind = r->rules->weights;
    const bool joined = kind == KVG_WEIGHTS_JOINED || kind == KVG_WEIGHTS_BY_ROUND;
    if (kind == KVG_WEIGHTS_AS_VALUES || kind == KVG_WEIGHTS_IN_ORDER || kind == KVG_WEIGHTS_BY_TILE) *n.l *= w;
    for (uint32_t d = 0; d < r->dims && !joined; d++) n.o[d] *= w;
    *n.m = top;
    return w;
}

/* z of a score: as it is where the exponent is formed in one operation. */
static float z_of(const ref_profile_run *r, const head *h, float s)
{
    const bool has_cap = r->p->attention.softcap > 0;
    const float scaled = ref_profile_fuses(r) ? s : s * h->c;
    switch (has_cap ? r->rules->cap : KVG_CAP_NONE) {
    case KVG_CAP_EXP2: return capped(r, s * h->capped_c);
    case KVG_CAP_TANH: return ref_tanh_approx(s * r->before_tanh) * (ref_profile_fuses(r) ? 1 : h->c);
    case KVG_CAP_QUOTIENT: return capped_by_quotient(r, scaled);
    case KVG_CAP_SIGMOID: return capped_by_sigmoid(r, scaled);
    case KVG_CAP_NONE: return scaled;
    }
    return NAN;
}

/* The exponents of a tile's weights, in the place of z. */
static void set_exponents(const ref_profile_run *r, const head *h, float m, float *z)
{
    const bool fused_e = r->rules->exponent == KVG_EXPONENT_FUSED_E, fuses = fused_e || ref_profile_fuses(r);
    const float factor = fused_e ? LOG2_E : h->c, minus = fused_e ? m * LOG2_E : fuses ? ref_profile_minus(r, m) : 0;
    for (uint32_t i = 0; i < r->tile; i++) {
        if (fuses) z[i] = fmaf(z[i], factor, -minus);
        else z[i] -= isnan(m) ? m : point_of(r, m);
    }
}

/* A tile joins a row's sums. With BY_TILE its weights have a maximum of their own, not below `hint`. True: that was not
 * the row's. */
static bool walk_tile(const ref_profile_run *r, const void *tile, const bool *seen, const bool *read, const head *h,
                      float hint, ref_node n)
{
    float z[KVG_MOST_TILE], w = 1;
    r->contract->scores(r, tile, seen, h->query, z);
    for (uint32_t i = 0; i < r->tile; i++) z[i] = seen[i] ? z_of(r, h, z[i]) : -INFINITY;
    if (r->rules->weights == KVG_WEIGHTS_BY_PAIR) {
        r->contract->add_pair(r, tile, read, z, h->c, n);
        return true;
    }
    const float own = top_of(r, z), top = r->hints ? fmaxf(own, hint) : own, rise = top - *n.m;
    if (ref_profile_rescales_all(r)) w = rescale(r, h, n, fmaxf(top, *n.m));
    else if (!(rise <= r->lazy)) w = rescale(r, h, n, top);
    set_exponents(r, h, r->hints ? top : *n.m, z);
    r->exp2->of_all(z, r->tile);
    r->contract->add(r, tile, read, z, r->hints ? factor_of(r, h, top, *n.m) : w, n);
    return rise != 0;
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
            merge(r, ref_node_at(r, nodes, i > first ? i - first : 0), ref_node_at(r, nodes, i + step - first));
        }
    }
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
    const uint32_t leaf = r->rules->leaf;
    if (!leaf) return (extent){0, r->splits};
    return (extent){(uint32_t)(keys.first / leaf), (uint32_t)((keys.end + leaf - 1) / leaf)};
}

/* Nodes of a row: one at least, for a row that sees nothing. */
static uint32_t leaves_of(const ref_batch *b)
{
    return b->first_leaf < b->end_leaf ? b->end_leaf - b->first_leaf : 1;
}

static size_t floats_of(const ref_profile_run *r, const ref_batch *b)
{
    return (size_t)b->count * r->p->attention.query_heads * leaves_of(b) * r->parts * ref_node_floats(r);
}

/* The batch that begins with token `first`: as many of its sequence as there is room for. */
static ref_batch batch_from(const ref_profile_run *r, uint32_t first)
{
    ref_batch b = {first, 0, 0, 0};
    while (first + b.count < r->p->attention.queries &&
           r->queries[first + b.count].sequence == r->queries[first].sequence) {
        const extent next = extent_of(r, first + b.count);
        ref_batch more = {first, b.count + 1, b.first_leaf, b.end_leaf};
        if (next.first < next.end) {
            more.first_leaf = b.end_leaf && b.first_leaf < next.first ? b.first_leaf : next.first;
            more.end_leaf = b.end_leaf > next.end ? b.end_leaf : next.end;
        }
        if (b.count && (more.count * r->group > MOST_ROWS || floats_of(r, &more) > MOST_FLOATS)) break;
        b = more;
    }
    return b;
}

/* Leaf `leaf` of a query head of the batch's token `i`, or the first of its parts. */
static ref_node leaf_of(const ref_profile_run *r, const ref_batch *b, uint32_t i, uint32_t query_head, uint32_t leaf)
{
    const size_t row = (size_t)i * r->p->attention.query_heads + query_head;
    return ref_node_at(r, r->nodes, (row * leaves_of(b) + leaf - b->first_leaf) * r->parts);
}

/* Where a part keeps the maximum that tile n of a row starts from; NULL: nowhere, and the tile starts anew. */
static float *hint_of(const ref_profile_run *r, int64_t n, ref_node part)
{
    if (!r->hints) return NULL;
    const uint32_t in_run = (uint32_t)(n % KVG_RUN), kept_by = in_run / r->hints;
    return kept_by == in_run % r->parts ? &part.hints[in_run / r->parts] : NULL;
}

static bool is_wanted(const ref_profile_run *r, const ref_batch *b, uint32_t kv_head, uint32_t row)
{
    return ref_is_wanted(r->wanted, r->p, b->first + row / r->group, kv_head * r->group + row % r->group);
}

static bool any_wanted(const ref_profile_run *r, const ref_batch *b, uint32_t kv_head, uint32_t low, uint32_t high)
{
    for (uint32_t row = low; row < high; row++) {
        if (is_wanted(r, b, kv_head, row)) return true;
    }
    return false;
}

/* The tiles of a leaf for rows `low` to `high` - 1 of a batch and a KV head, token by token. */
static void run_rows(const ref_profile_run *r, desk *d, const ref_batch *b, uint32_t kv_head, uint32_t leaf,
                     uint32_t low, uint32_t high)
{
    const uint32_t group = r->group, first = kv_head * group;
    const bool all = r->hints > 0; /* where tiles keep maxima, a row that nobody wants moves those of the others */
    if (!any_wanted(r, b, kv_head, low, high)) return;
    for (uint32_t i = low; i < high; i++) {
        const uint32_t token = i / group, query_head = first + i % group;
        if (!all && !is_wanted(r, b, kv_head, i)) continue;
        read_head(r, (size_t)(b->first + token) * r->p->attention.query_heads + query_head, &d->heads[i]);
        start_row(r, query_head, leaf, leaf_of(r, b, token, query_head, leaf));
    }
    const ref_tiles t = ref_tiles_of(r, b, leaf, low);
    const kvg_pieces_kind pieces = r->rules->pieces;
    const bool cut = r->piece || pieces == KVG_PIECES_PLANNED || pieces == KVG_PIECES_EQUAL; /* within tiles */
    const bool whole = ref_tiles_are_shared(r, b);
    for (int64_t n = 0; n < t.count; n++) {
        const int64_t tile = r->tile, place = r->rules->order == KVG_TILES_LAST_DOWN ? t.count - 1 - n : n;
        const int64_t start = t.start + place * tile + place / KVG_RUN * t.leap;
        bool loaded = false, moved = false, seen[KVG_MOST_TILE], read[KVG_MOST_TILE];
        for (uint32_t i = low / group; i * group < high; i++) {
            const ref_query *query = &r->queries[b->first + i];
            ref_range_of_keys keys = ref_query_keys(&r->kv.table, query);
            if (cut && keys.end > t.end) keys.end = t.end;
            if (!whole && (start + tile <= keys.first || start >= keys.end)) continue;
            if (!loaded) load_tile(r, d, query->sequence, kv_head, start);
            loaded = true;
            if (!find_seen(d, r->tile, keys, start, seen) && !whole) continue;
            for (uint32_t j = 0; j < r->tile; j++)
                read[j] = seen[j] || (start + j >= t.first && start + j < t.end && d->placed[j]);
            for (uint32_t row = i * group; row < (i + 1) * group; row++) {
                if (row < low || row >= high || (!all && !is_wanted(r, b, kv_head, row))) continue;
                const ref_node of_row = leaf_of(r, b, i, first + row % group, leaf);
                const ref_node part = ref_node_at(r, of_row.m, (size_t)(n % r->parts));
                const float *hint = hint_of(r, n, part), from = hint ? *hint : LEAST_BY_TILE;
                moved |= walk_tile(r, d->tile, seen, read, &d->heads[row], from, part);
            }
        }
        for (uint32_t i = low; r->hints && moved && i < high; i++) {
            const ref_node of_row = leaf_of(r, b, i / group, first + i % group, leaf);
            const ref_node part = ref_node_at(r, of_row.m, (size_t)(n % r->parts));
            float *hint = hint_of(r, n, part);
            if (hint) *hint = *part.m;
        }
    }
}

/* A row's leaves to its root, and to what is asked for. */
static void run_root(const ref_profile_run *r, const ref_batch *b, uint32_t i, uint32_t query_head)
{
    const extent at = extent_of(r, b->first + i);
    if (!ref_is_wanted(r->wanted, r->p, b->first + i, query_head)) return;
    const bool sees = at.first < at.end;
    const ref_node root = leaf_of(r, b, i, query_head, sees ? at.first : b->first_leaf);
    if (!sees) start_row(r, query_head, 0, root);
    if (r->rules->leaf) merge_tree(r, root.m, at.first, at.end);
    const uint32_t pieces = sees ? ref_tiles_pieces(r, b, i * r->group) : 1;
    ref_profile_end(r, (size_t)(b->first + i) * r->p->attention.query_heads + query_head, pieces, root);
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
            const ref_batch b = batch_from(r, first);
            const uint32_t leaves = b.end_leaf - b.first_leaf, cuts = ref_tiles_cuts(r, &b);
#pragma omp for schedule(dynamic)
            for (uint64_t i = 0; i < (uint64_t)leaves * r->p->kv_heads * cuts; i++) {
                const uint64_t cut = i % cuts, item = i / cuts;
                run_rows(r, d, &b, (uint32_t)(item / leaves), b.first_leaf + (uint32_t)(item % leaves),
                         ref_tiles_cut(r, &b, cut, cuts), ref_tiles_cut(r, &b, cut + 1, cuts));
            }
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
        const ref_batch b = batch_from(r, i);
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

static kvg_status check_sinks(const ref_profile_run *r)
{
    const kvg_profile_info *profile = kvg_profile_get(r->p->profile);
    if (!r->sinks || profile->contract->sinks != KVG_SINKS_NARROW) return KVG_OK;
    for (uint32_t h = 0; h < r->p->attention.query_heads; h++) {
        if (kvg_bits_of_f32(r->sinks[h]) << 16 == 0) continue;
        return kvg_fail(KVG_ERR_INVALID, "sinks[%u] is %.9g: %s takes sinks that are bf16 numbers", h,
                        (double)r->sinks[h], profile->name);
    }
    return KVG_OK;
}

/* A kernel's tiles follow from the whole call. */
static kvg_status set_tiling(ref_profile_run *r)
{
    const kvg_call_shape call = kvg_problem_call_shape(r->p, r->query_lengths);
    const kvg_tiling tiling = kvg_problem_tiling(r->p, &call);
    r->tile = r->rules->tile ? r->rules->tile : tiling.tile;
    r->parts = tiling.parts;
    r->of_head = tiling.of_head;
    r->padded = tiling.rows;
    switch (tiling.of_head) {
    case KVG_BLOCK_OF_KV: r->block = tiling.rows; break;
    case KVG_BLOCK_OF_QUERY: r->block = r->padded = tiling.rows * r->group; break;
    case KVG_BLOCK_OF_TOKENS:
        while (r->padded < r->group) r->padded *= 2;
        r->block = r->padded / r->group * r->group;
        break;
    }
    if (r->rules->operands == KVG_OPERANDS_THREADS) {
        if (call.one_token && tiling.rows == r->group) return KVG_OK;
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the bits of %s are known for one query token of a sequence, and 1, 2, "
                        "4 or 8 query heads of a KV head", kvg_profile_get(r->p->profile)->name);
    }
    if (r->rules->weights == KVG_WEIGHTS_BY_TILE && r->group > tiling.rows) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the bits of %s are known for up to %u query heads of a KV head",
                        kvg_profile_get(r->p->profile)->name, tiling.rows);
    }
    if (r->rules->end == KVG_END_NATURAL && !call.one_token) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s takes one query token of a sequence",
                        kvg_profile_get(r->p->profile)->name);
    }
    const uint32_t halves = r->rules->weights == KVG_WEIGHTS_BY_WARP ? r->tile & (r->tile - 1) : 0;
    if (r->tile <= KVG_MOST_TILE && r->tile % KVG_MMA_K == 0 && !halves) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "a tile of %u positions: a multiple of %d up to %d, and in Triton a power of two",
                    r->tile, (int)KVG_MMA_K, (int)KVG_MOST_TILE);
}

/* The contract of the problem's profile, if it has operands for the problem. */
static kvg_status find_contract(const kvg_problem *p, const ref_contract **out)
{
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    if (!profile) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "profile %d is not in core/profiles.def: without one there are no bits",
                        (int)p->profile);
    }
    switch (profile->contract->operands) {
    case KVG_OPERANDS_HELD:
    case KVG_OPERANDS_STORED: *out = &ref_contract_mma; break;
    case KVG_OPERANDS_WIDENED: *out = &ref_contract_simt; break;
    case KVG_OPERANDS_THREADS: *out = &ref_contract_threads; break;
    case KVG_OPERANDS_ROUNDS: *out = &ref_contract_rounds; break;
    }
    return (*out)->check(p);
}

kvg_status kvg_attention_profile(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    return kvg_attention_walk(p, &(kvg_walk){.splits = 1}, in, out);
}

kvg_status kvg_attention_walk(const kvg_problem *p, const kvg_walk *walk, const kvg_tensor *in, kvg_tensor *out)
{
    const ref_contract *contract = NULL;
    kvg_status s = kvg_problem_check(p);
    if (!s) s = find_contract(p, &contract);
    if (s) return s;
    const kvg_role *outputs = kvg_op_get(KVG_OP_DECODE)->outputs;
    ref_profile_run r = {
        .p = p,
        .chip = kvg_profile_get(p->profile)->chip,
        .rules = walk->contract ? walk->contract : kvg_profile_get(p->profile)->contract,
        .contract = contract,
        .q = input(in, KVG_ROLE_Q)->data,
        .out = out[kvg_roles_index(outputs, KVG_ROLE_OUT, KVG_K)].data,
        .lse = out[kvg_roles_index(outputs, KVG_ROLE_LSE, KVG_K)].data,
        .group = p->attention.query_heads / p->kv_heads,
        .query_lengths = input(in, KVG_ROLE_QUERY_LENGTHS)->data,
        .splits = walk->splits,
        .piece = walk->piece,
        .scale = walk->scale,
        .wanted = walk->wanted,
        .tables = malloc(contract->table_bytes),
    };
    s = r.tables ? ref_kv_init(p, in, NULL, &r.kv) : kvg_fail(KVG_ERR_MEMORY, "no memory for the tables of operands");
    if (!s) s = ref_sinks_read(p, input(in, KVG_ROLE_SINKS), &r.sinks);
    if (!s) s = check_sinks(&r);
    if (!s) s = ref_tiles_set_pieces(&r);
    if (!s) s = set_tiling(&r);
    if (!s) {
        r.dims = ref_kv_dim(&r.kv, KVG_V);
        r.exp2 = ref_exp2_rule_of(r.rules->exp2);
        r.lanes = r.rules->weights == KVG_WEIGHTS_BY_LANE ? REF_LANES
                  : r.rules->weights == KVG_WEIGHTS_BY_PAIR ? REF_LANES_OF_PAIR : 1;
        r.hints = r.rules->weights == KVG_WEIGHTS_BY_TILE ? KVG_RUN / r.parts : 0;
        contract->open(&r);
        set_score_factor(&r);
        s = run(&r, input(in, KVG_ROLE_QUERY_LENGTHS));
    }
    free(r.tables);
    return s;
}

bool kvg_problem_has_operands(const kvg_problem *p)
{
    return p->op != KVG_OP_DECODE || (kvg_profile_has_operands(p->profile, p->storage[KVG_K].format) &&
                                      kvg_profile_has_operands(p->profile, p->storage[KVG_V].format));
}

kvg_status kvg_arithmetic_of_profile(const kvg_problem *p, kvg_arithmetic *out)
{
    const ref_contract *contract = NULL;
    const kvg_status s = find_contract(p, &contract);
    if (!s) contract->classify(p, out);
    return s;
}
