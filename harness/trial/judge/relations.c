#include "harness/trial/judge/relations.h"

#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/elsewhere.h"

/* Rows [first, first + rows) of q, asked of a sequence of the case that has `length` tokens. */
typedef struct request {
    uint32_t sequence, first, rows;
    int32_t length;
    uint32_t call; /* requests of one call stand together and have the same number */
    bool beside;   /* it keeps others company, and its answer is left alone */
} request;

enum {
    MOST_ALONE = 32, /* requests with a call of their own, because every call copies whole pools */
    COPIES = 3,
    CUT = 13         /* no tile of a kernel is a multiple of it */
};

typedef enum relation_asked { RELATION_RIGHT = 1, RELATION_BITS = 2, RELATION_BOTH = 3 } relation_asked;

/* The pools that a call reads: those of the case, or copies. */
typedef struct pool_set {
    kvg_tensor_set copy; /* empty: the case's own */
    kvg_elsewhere where;
} pool_set;

struct kvg_relation {
    const char *id;
    size_t (*requests)(const kvg_question *d, request *out);
    bool together;
    kvg_status (*pools)(const kvg_question *d, kvg_candidate *candidate, pool_set *out);
    bool (*applies)(const kvg_question *d, kvg_candidate *candidate);
    kvg_invariance axis;
    relation_asked asked;
    const char *summary;
};

static const kvg_role pool_roles[KVG_MAX_ROLES] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
static const kvg_role call_roles[KVG_MAX_ROLES] = {KVG_ROLE_Q, KVG_ROLE_BLOCK_TABLE, KVG_ROLE_LENGTHS,
                                                   KVG_ROLE_QUERY_LENGTHS};

static const int32_t *numbers(const kvg_question *d, kvg_role role)
{
    return kvg_set_tensor(&d->in, role, KVG_K)->data;
}

/* --- requests --- */

/* Rows of every sequence in pieces of at most `piece`; each piece sees the tokens up to its last row. */
static size_t in_pieces(const kvg_question *d, uint32_t piece, request *out)
{
    const int32_t *rows = numbers(d, KVG_ROLE_QUERY_LENGTHS), *lengths = numbers(d, KVG_ROLE_LENGTHS);
    size_t count = 0;
    uint32_t first = 0;
    for (uint32_t s = 0; s < d->c->problem.paging.sequences; s++) {
        const uint32_t n = (uint32_t)rows[s];
        for (uint32_t j = 0; j < n; j += piece) {
            const uint32_t taken = n - j < piece ? n - j : piece;
            const int64_t seen = (int64_t)lengths[s] - (n - j - taken);
            out[count++] = (request){s, first + j, taken, seen > 0 ? (int32_t)seen : 0, 0, false};
        }
        if (n == 0) out[count++] = (request){s, first, 0, lengths[s], 0, false};
        first += n;
    }
    return count;
}

static size_t as_given(const kvg_question *d, request *out) { return in_pieces(d, UINT32_MAX, out); }
static size_t single_rows(const kvg_question *d, request *out) { return in_pieces(d, 1, out); }
static size_t chunks(const kvg_question *d, request *out) { return in_pieces(d, 2, out); }

static size_t backwards(const kvg_question *d, request *out)
{
    const size_t n = as_given(d, out);
    for (size_t i = 0; i < n / 2; i++) {
        const request r = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = r;
    }
    return n;
}

/* Each request of as_given, and beside it the same or one without tokens. */
static size_t beside(const kvg_question *d, bool same, request *out)
{
    const size_t n = as_given(d, out);
    for (size_t i = n; i-- > 0;) {
        const request r = out[i];
        out[2 * i] = same ? r : (request){.sequence = r.sequence, .first = r.first};
        out[2 * i + 1] = r;
    }
    return 2 * n;
}

static size_t twice(const kvg_question *d, request *out) { return beside(d, true, out); }
static size_t with_empty(const kvg_question *d, request *out) { return beside(d, false, out); }

static size_t crowd(const kvg_question *d, request *out)
{
    const size_t n = as_given(d, out);
    for (size_t i = n; i < n * (1 + COPIES); i++) {
        out[i] = out[i - n];
        out[i].beside = true;
    }
    return n * (1 + COPIES);
}

/* As given, in two calls. */
static size_t two_calls(const kvg_question *d, request *out)
{
    const size_t n = as_given(d, out);
    for (size_t i = 0; i < n; i++) {
        out[n + i] = out[i];
        out[n + i].call = 1;
    }
    return n;
}

static size_t shortened(const kvg_question *d, request *out)
{
    const size_t n = two_calls(d, out);
    for (size_t i = 0; i < n; i++) {
        request *r = &out[i % 2 ? i : n + i];
        r->beside = true;
        r->length /= 2;
    }
    return 2 * n;
}

/* In the first call requests 0 and 1, 2 and 3, and so on share the pages of the longer one, in the second one 1 and 2,
 * 3 and 4. The longer one is asked, if it has rows: else its pages need not hold anything. */
static size_t sharing(const kvg_question *d, request *out)
{
    const size_t n = two_calls(d, out);
    for (size_t i = 0; i < 2 * n; i++) out[i].beside = true;
    for (size_t begin = 0; begin < 2; begin++) {
        for (size_t i = begin; i + 1 < n; i += 2) {
            request *pair = &out[begin * n + i];
            const bool second = pair[1].length > pair[0].length;
            if (pair[!second].length == 0 || pair[second].rows == 0) continue;
            pair[!second].sequence = pair[second].sequence;
            pair[second].beside = false;
        }
    }
    return 2 * n;
}

/* Rows of every sequence in pieces of at most `piece`: a call for the first ones of all, one for the second ones. A
 * request without rows stays in its place. */
static size_t in_rounds(const kvg_question *d, uint32_t piece, request *out)
{
    const int32_t *rows = numbers(d, KVG_ROLE_QUERY_LENGTHS), *lengths = numbers(d, KVG_ROLE_LENGTHS);
    size_t count = 0;
    bool more = true;
    for (uint32_t round = 0; more; round++) {
        uint32_t first = 0;
        more = false;
        for (uint32_t s = 0; s < d->c->problem.paging.sequences; s++) {
            const uint32_t n = (uint32_t)rows[s], begin = n / piece < round ? n : round * piece;
            const uint32_t taken = n - begin < piece ? n - begin : piece, left = taken ? n - begin - taken : 0;
            const int64_t seen = (int64_t)lengths[s] - left;
            out[count++] = (request){s, first + begin, taken, seen > 0 ? (int32_t)seen : 0, round, false};
            more |= left > 0;
            first += n;
        }
    }
    return count;
}

static size_t steps(const kvg_question *d, request *out) { return in_rounds(d, 1, out); }
static size_t cuts(const kvg_question *d, request *out) { return in_rounds(d, CUT, out); }

/* Room for the longest list of a relation. */
static size_t most_requests(const kvg_question *d)
{
    const int32_t *rows = numbers(d, KVG_ROLE_QUERY_LENGTHS);
    const size_t sequences = d->c->problem.paging.sequences;
    size_t rounds = 2 * (1 + COPIES);
    for (size_t s = 0; s < sequences; s++) rounds = (size_t)rows[s] > rounds ? (size_t)rows[s] : rounds;
    return sequences * rounds + d->c->problem.attention.queries;
}

/* --- pools --- */

static kvg_status as_given_pools(const kvg_question *d, kvg_candidate *candidate, pool_set *out)
{
    (void)d, (void)candidate, (void)out;
    return KVG_OK;
}

static kvg_status new_pools(const kvg_question *d, int byte, pool_set *out)
{
    kvg_status s = kvg_set_alloc(&d->c->problem, pool_roles, &out->copy);
    byte &= kvg_case_unowned_bits(d->c);
    for (size_t i = 0; !s && i < out->copy.count; i++) {
        if (out->copy.tensors[i].bytes) memset(out->copy.tensors[i].data, byte, out->copy.tensors[i].bytes);
    }
    return s;
}

static kvg_status copied_pools(const kvg_question *d, int byte, pool_set *out)
{
    kvg_layout_map map;
    kvg_status s = new_pools(d, byte, out);
    if (s) return s;
    kvg_rows_map(&d->c->problem, &map);
    for (int side = KVG_K; side < kvg_problem_sides(&d->c->problem); side++) {
        for (int kind = 0; kind < 2; kind++) {
            const kvg_row_map *rows = kind ? &map.scales[side] : &map.codes[side];
            if (rows->bytes == 0) continue;
            (void)kvg_elsewhere_rows(&out->where, KVG_PUT, rows, rows,
                                     kvg_set_tensor(&d->in, rows->pool, rows->side)->data,
                                     kvg_set_tensor(&out->copy, rows->pool, rows->side)->data);
        }
    }
    return KVG_OK;
}

static kvg_status poisoned_pools(const kvg_question *d, kvg_candidate *candidate, pool_set *out)
{
    (void)candidate;
    return copied_pools(d, 0xFF, out);
}

static kvg_status zeroed_pools(const kvg_question *d, kvg_candidate *candidate, pool_set *out)
{
    (void)candidate;
    return copied_pools(d, 0, out);
}

static kvg_status moved_pools(const kvg_question *d, kvg_candidate *candidate, pool_set *out)
{
    (void)candidate;
    out->where.backwards = true;
    return copied_pools(d, 0xA5, out);
}

/* Live tokens [first, first + count) of the case through the backend's append. */
static kvg_status append_some(const kvg_question *d, kvg_candidate *candidate, uint32_t first, uint32_t count,
                              int64_t *slots, pool_set *to)
{
    const kvg_problem p = kvg_question_writer(&d->c->problem, count);
    const kvg_op_info *op = kvg_op_get(p.op);
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    kvg_source sources[] = {{.set = &d->in}, {.role = KVG_ROLE_SLOTS, .data = {slots + first}},
                            {.role = KVG_ROLE_VALUES}};
    if (count == 0) return KVG_OK;
    for (int side = KVG_K; side < kvg_problem_sides(&p); side++) {
        const kvg_tensor *values = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side);
        sources[2].data[side] = (const uint8_t *)values->data + values->bytes / d->rows.tokens * first;
    }
    kvg_gather(&p, op->inputs, sources, 3, in);
    for (size_t i = 0; i < kvg_roles_tensors(op->outputs); i++) out[i] = to->copy.tensors[i];
    return kvg_candidate_answer(candidate, &p, in, out);
}

static kvg_status appended_pools(const kvg_question *d, kvg_candidate *candidate, pool_set *out)
{
    const uint32_t tokens = d->rows.tokens;
    int64_t *slots = malloc(tokens * sizeof *slots);
    if (!slots) return kvg_fail(KVG_ERR_MEMORY, "no memory for %u slots", tokens);
    out->where.backwards = true;
    for (uint32_t i = 0; i < tokens; i++) slots[i] = kvg_elsewhere_slot(&out->where, d->owned[i]);
    kvg_status s = new_pools(d, 0xFF, out);
    if (!s) s = append_some(d, candidate, 0, tokens / 2, slots, out);
    if (!s) s = append_some(d, candidate, tokens / 2, tokens - tokens / 2, slots, out);
    free(slots);
    return s;
}

/* --- where a relation makes sense --- */

static bool always(const kvg_question *d, kvg_candidate *candidate)
{
    (void)d, (void)candidate;
    return true;
}

static bool many_requests(const kvg_question *d, kvg_candidate *candidate)
{
    (void)candidate;
    return d->c->problem.paging.sequences > 1;
}

/* Other lengths see the tokens of a sequence from the first one on: a window may have lost these. */
static bool other_lengths(const kvg_question *d, kvg_candidate *candidate)
{
    const kvg_problem *p = &d->c->problem;
    return many_requests(d, candidate) && p->attention.window == 0 && kvg_problem_blocks(p) != KVG_BLOCKS_RING;
}

static bool many_blocks(const kvg_question *d, kvg_candidate *candidate)
{
    (void)candidate;
    return d->c->problem.paging.blocks > 1;
}

/* In a ring the earlier queries of a chunk have lost the keys that the chunk itself overwrote. */
static bool many_rows(const kvg_question *d, kvg_candidate *candidate)
{
    const int32_t *rows = numbers(d, KVG_ROLE_QUERY_LENGTHS);
    (void)candidate;
    const kvg_problem *p = &d->c->problem;
    for (uint32_t s = 0; kvg_problem_blocks(p) != KVG_BLOCKS_RING && s < p->paging.sequences; s++) {
        if (rows[s] > 1) return true;
    }
    return false;
}

/* Whether a row's bits depend on how many query tokens the other requests of its call have. */
static bool call_matters(const kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    const uint32_t window = p->attention.window;
    if (p->profile == KVG_PROFILE_NONE) return false;
    const kvg_tiling few = kvg_problem_tiling(p, &(kvg_call_shape){.one_token = true, .window = window});
    const kvg_tiling many = kvg_problem_tiling(p, &(kvg_call_shape){.window = window, .mean_rows = UINT32_MAX});
    return few.tile != many.tile || few.rows != many.rows;
}

static bool regrouped(const kvg_question *d, kvg_candidate *candidate)
{
    return many_requests(d, candidate) && !(many_rows(d, candidate) && call_matters(d));
}

static bool regrouped_rows(const kvg_question *d, kvg_candidate *candidate)
{
    return many_rows(d, candidate) && !call_matters(d);
}

/* An append that writes the very bytes of the case: there are values to write, and one right encoding of them. */
static bool has_append(const kvg_question *d, kvg_candidate *candidate)
{
    const kvg_problem p = kvg_question_writer(&d->c->problem, d->rows.tokens);
    if (d->c->fill == KVG_FILL_CODES) return false;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (kvg_case_by_value(&p.storage[side])) return false;
    }
    return kvg_candidate_has(candidate, &p);
}

/* --- the table --- */

static const kvg_relation relations[] = {
#define RELATION(id, requests, together, pools, applies, axis, asked, summary) \
    {#id, requests, together, pools, applies, KVG_INVARIANCE_##axis, RELATION_##asked, summary},
#include "harness/trial/judge/relations.def"
#undef RELATION
};

const kvg_relation *kvg_relation_get(size_t index) { return &relations[index]; }
const char *kvg_relation_id(const kvg_relation *relation) { return relation->id; }
const char *kvg_relation_summary(const kvg_relation *relation) { return relation->summary; }
kvg_invariance kvg_relation_axis(const kvg_relation *relation) { return relation->axis; }
bool kvg_relation_is_right(const kvg_relation *relation) { return relation->asked & RELATION_RIGHT; }
bool kvg_relation_has_bits(const kvg_relation *relation) { return relation->asked & RELATION_BITS; }

bool kvg_relation_applies(const kvg_relation *relation, const kvg_question *d, kvg_candidate *candidate)
{
    return relation->applies(d, candidate);
}

/* --- calls --- */

/* The call's own tensors: q, tables and lengths of its requests. */
static void fill_call(const kvg_question *d, const pool_set *pools, const request *requests, size_t count,
                      kvg_tensor_set *in)
{
    const kvg_problem *p = &d->c->problem;
    const uint32_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    const kvg_tensor *q = kvg_set_tensor(&d->in, KVG_ROLE_Q, KVG_K);
    const int32_t *table = numbers(d, KVG_ROLE_BLOCK_TABLE);
    const size_t row_bytes = q->bytes / p->attention.queries;
    uint8_t *to = kvg_set_tensor(in, KVG_ROLE_Q, KVG_K)->data;
    int32_t *blocks = kvg_set_tensor(in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    int32_t *lengths = kvg_set_tensor(in, KVG_ROLE_LENGTHS, KVG_K)->data;
    int32_t *rows = kvg_set_tensor(in, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data;
    for (size_t i = 0; i < count; i++) {
        const request *r = &requests[i];
        memcpy(to, (const uint8_t *)q->data + r->first * row_bytes, r->rows * row_bytes);
        to += r->rows * row_bytes;
        for (uint32_t c = 0; c < width; c++) {
            blocks[i * width + c] = kvg_elsewhere_entry(&pools->where, table[(size_t)r->sequence * width + c]);
        }
        lengths[i] = r->length;
        rows[i] = (int32_t)r->rows;
    }
}

/* Rows of a call's output to where the case has them. */
static void scatter_rows(const request *requests, size_t count, const kvg_tensor *from, kvg_tensor *to)
{
    const size_t bytes = to->bytes / (size_t)to->shape[0];
    const uint8_t *row = from->data;
    for (size_t i = 0; i < count; i++) {
        if (!requests[i].beside) memcpy((uint8_t *)to->data + requests[i].first * bytes, row, requests[i].rows * bytes);
        row += requests[i].rows * bytes;
    }
}

static kvg_status call(const kvg_question *d, kvg_candidate *candidate, const pool_set *pools, const request *requests,
                       size_t count, kvg_tensor_set *answer)
{
    kvg_problem p = d->c->problem;
    kvg_tensor_set own = {0}, out = {0};
    kvg_tensor in[KVG_MAX_TENSORS];
    p.attention.queries = 0;
    for (size_t i = 0; i < count; i++) p.attention.queries += requests[i].rows;
    p.paging.sequences = (uint32_t)count;
    if (p.attention.queries == 0) return KVG_OK;
    kvg_status s = kvg_set_alloc(&p, call_roles, &own);
    if (!s) s = kvg_set_alloc(&p, d->op->outputs, &out);
    if (!s) {
        fill_call(d, pools, requests, count, &own);
        kvg_gather(&p, d->op->inputs, (kvg_source[]){{.set = &d->in}, {.set = &pools->copy}, {.set = &own}}, 3, in);
        for (size_t i = 0; i < out.count; i++) memset(out.tensors[i].data, 0xFF, out.tensors[i].bytes);
        s = kvg_candidate_answer(candidate, &p, in, out.tensors);
    }
    for (size_t i = 0; !s && i < out.count; i++) scatter_rows(requests, count, &out.tensors[i], &answer->tensors[i]);
    kvg_set_free(&own);
    kvg_set_free(&out);
    return s;
}

/* In the calls that the list says. */
static kvg_status in_calls(const kvg_question *d, kvg_candidate *candidate, const pool_set *pools,
                           const request *requests, size_t count, kvg_tensor_set *answer)
{
    kvg_status s = KVG_OK;
    for (size_t begin = 0, end = 0; !s && begin < count; begin = end) {
        while (end < count && requests[end].call == requests[begin].call) end++;
        s = call(d, candidate, pools, requests + begin, end - begin, answer);
    }
    return s;
}

/* A call for each, as far as there are not too many. */
static kvg_status alone(const kvg_question *d, kvg_candidate *candidate, const pool_set *pools,
                        const request *requests, size_t count, kvg_tensor_set *answer)
{
    const size_t parts = count < MOST_ALONE ? count : MOST_ALONE;
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && i < parts; i++) {
        const size_t begin = i * count / parts, end = (i + 1) * count / parts;
        s = call(d, candidate, pools, requests + begin, 1, answer);
        if (!s) s = call(d, candidate, pools, requests + begin + 1, end - begin - 1, answer);
    }
    return s;
}

kvg_status kvg_relation_answer(const kvg_relation *relation, const kvg_question *d, kvg_candidate *candidate,
                               kvg_tensor_set *answer, bool *rows)
{
    const kvg_problem *p = &d->c->problem;
    const size_t most = most_requests(d);
    request *requests = malloc(most * sizeof *requests);
    pool_set made = {.where = {.question = d, .blocks = p->paging.blocks}};
    kvg_status s = kvg_set_alloc(p, d->op->outputs, answer);
    if (!s && !requests) s = kvg_fail(KVG_ERR_MEMORY, "no memory for %zu requests", most);
    if (!s) s = relation->pools(d, candidate, &made);
    if (!s) {
        const size_t count = relation->requests(d, requests);
        s = relation->together ? in_calls(d, candidate, &made, requests, count, answer)
                               : alone(d, candidate, &made, requests, count, answer);
        for (size_t i = 0; !s && rows && i < count; i++) {
            for (uint32_t k = 0; !requests[i].beside && k < requests[i].rows; k++) rows[requests[i].first + k] = true;
        }
    }
    kvg_set_free(&made.copy);
    free(requests);
    return s;
}
