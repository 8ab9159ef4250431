#include "tests/slowref/slow_decode.h"

#include <stdlib.h>
#include <string.h>

#include "tests/slowref/slow_attention.h"
#include "tests/slowref/slow_exp2.h"
#include "tests/slowref/slow_leaf.h"
#include "tests/slowref/slow_operand.h"

static const struct {
    const char *name, *text;
} fault_rows[] = {
#define FAULT(ENUM, name, what) {name, what},
#include "tests/slowref/decode_faults.def"
#undef FAULT
};

const char *slow_decode_fault_name(slow_decode_fault fault)
{
    return fault_rows[fault].name;
}

const char *slow_decode_fault_text(slow_decode_fault fault)
{
    return fault_rows[fault].text;
}

bool slow_decode_wrong(uint64_t faults, slow_decode_fault fault)
{
    return (faults >> fault & 1) != 0;
}

static const uint32_t LOG2_E = 0x3FB8AA3B /* 0x1.715476p+0 */, LN_2 = 0x3F317218 /* 0x1.62e43p-1 */;

static bool wrong(const slow_head *h, slow_decode_fault fault)
{
    return slow_decode_wrong(h->faults, fault);
}

/* --- section 8 --- */

/* max(a, b); a NaN is left out */
static slow_number larger(slow_number a, slow_number b)
{
    if (a.kind == SLOW_NAN || b.kind == SLOW_NAN) return a.kind == SLOW_NAN ? b : a;
    return slow_compare(a, b) >= 0 ? a : b;
}

/* a = merge(a, b), a of the smaller positions */
static void merge(const slow_head *h, slow_state *a, const slow_state *b)
{
    if (b->absent) return;
    if (a->absent) {
        *a = *b;
        return;
    }
    const slow_number m = larger(a->m, b->m);
    const slow_number w_a = slow_exp2(slow_f32_subtract(a->m, m), h->faults);
    const slow_number w_b = slow_exp2(slow_f32_subtract(b->m, m), h->faults);
    for (size_t d = 0; d <= h->stored->request->v_dim; d++) {
        slow_number *of_a = d ? &a->o[d - 1] : &a->l;
        const slow_number of_b = d ? b->o[d - 1] : b->l;
        if (wrong(h, SLOW_DECODE_MERGE_OTHER_SIDE)) {
            *of_a = slow_f32_fma(*of_a, w_a, slow_f32_multiply(of_b, w_b));
        } else if (wrong(h, SLOW_DECODE_MERGE_UNFUSED)) {
            *of_a = slow_f32_add(slow_f32_multiply(of_b, w_b), slow_f32_multiply(*of_a, w_a));
        } else {
            *of_a = slow_f32_fma(of_b, w_b, slow_f32_multiply(*of_a, w_a));
        }
    }
    a->m = m;
}

/* Node `index` of a level; leaves outside low ... high hold nothing that the row sees. */
static void run_node(const slow_query *r, int level, int64_t index, int64_t low, int64_t high, slow_state *s)
{
    const int64_t first = index << level, last = ((index + 1) << level) - 1;
    if (last < low || first > high) {
        slow_state_clear(s);
    } else if (level == 0) {
        slow_leaf_run(r, index, s);
    } else {
        slow_state right;
        run_node(r, level - 1, 2 * index, low, high, s);
        run_node(r, level - 1, 2 * index + 1, low, high, &right);
        merge(r->head, s, &right);
    }
}

static void run_tree(slow_query *r, slow_state *s)
{
    const slow_stored *stored = r->head->stored;
    const int64_t last_key = stored->first + (int64_t)stored->keys - 1;
    slow_state_clear(s);
    if (stored->keys == 0) return;
    if (wrong(r->head, SLOW_DECODE_LEAVES_FROM_WINDOW)) {
        while (r->origin <= last_key && slow_seen_key(r, r->origin) < 0) r->origin++;
    }
    const int64_t low = r->origin > stored->first ? 0 : (stored->first - r->origin) / slow_leaf_size(r->head);
    const int64_t high = (last_key - r->origin) / slow_leaf_size(r->head);
    int level = 0;
    while (high >> level) level++;
    if (!wrong(r->head, SLOW_DECODE_LEFT_FOLD)) {
        run_node(r, level, 0, low, high, s);
        return;
    }
    for (int64_t leaf = low; leaf <= high; leaf++) {
        slow_state next;
        slow_leaf_run(r, leaf, &next);
        merge(r->head, s, &next);
    }
}

/* --- section 9 --- */

static void add_sink(const slow_query *r, slow_number sink, slow_state *s)
{
    const slow_head *h = r->head;
    const slow_number x = wrong(h, SLOW_DECODE_SINK_NO_LOG2) ? sink : slow_f32_multiply(sink, slow_f32_of(LOG2_E));
    const slow_number m = larger(s->m, x);
    const slow_number w = slow_exp2(slow_f32_subtract(s->m, m), h->faults);
    const slow_number weight = slow_exp2(slow_f32_subtract(x, m), h->faults);
    s->l = wrong(h, SLOW_DECODE_SINK_FUSED) ? slow_f32_fma(s->l, w, weight)
                                            : slow_f32_add(slow_f32_multiply(s->l, w), weight);
    for (size_t d = 0; d < h->stored->request->v_dim; d++) s->o[d] = slow_f32_multiply(s->o[d], w);
    s->m = m;
}

static slow_number output_of(const slow_head *h, slow_number o, slow_number l)
{
    if (slow_is_zero(l)) return slow_zero(false);
    slow_number y = slow_f32_divide(slow_f32_multiply(o, h->out_factor), l);
    if (wrong(h, SLOW_DECODE_OUT_RECIPROCAL)) {
        y = slow_f32_multiply(slow_f32_multiply(o, h->out_factor), slow_f32_divide(slow_scaled(1, 0), l));
    }
    if (wrong(h, SLOW_DECODE_OUT_FACTOR_LAST)) y = slow_f32_multiply(slow_f32_divide(o, l), h->out_factor);
    return wrong(h, SLOW_DECODE_OUT_MINUS_ZERO) ? y : slow_f32_add(y, slow_zero(false));
}

static slow_number lse_of(const slow_head *h, const slow_state *s)
{
    if (slow_is_zero(s->l)) return slow_infinity(true);
    if (s->l.kind == SLOW_NAN) return s->l;
    const slow_number log2 = slow_log2(s->l, h->faults), ln2 = slow_f32_of(LN_2);
    if (wrong(h, SLOW_DECODE_LSE_SEPARATE)) {
        return slow_f32_add(slow_f32_multiply(s->m, ln2), slow_f32_multiply(log2, ln2));
    }
    return slow_f32_multiply(slow_f32_add(s->m, log2), ln2);
}

/* --- the op --- */

static void run_row(const slow_head *h, size_t query, size_t query_head, kvg_tensor *out)
{
    const slow_request *request = h->stored->request;
    const kvg_problem *p = request->problem;
    const size_t index = (h->stored->first_query + query) * p->attention.query_heads + query_head;
    slow_query r = {.head = h, .position = slow_position(h->stored, query), .query_head = query_head};
    slow_state s;
    slow_query_load(&r, h->stored->first_query + query);
    run_tree(&r, &s);
    slow_number lse = lse_of(h, &s);
    const size_t sink_head = wrong(h, SLOW_DECODE_SINK_OF_KV_HEAD) ? h->stored->kv_head : query_head;
    if (p->attention.sinks) add_sink(&r, slow_sink(request, sink_head), &s);
    if (!wrong(h, SLOW_DECODE_LSE_WITHOUT_SINK)) lse = lse_of(h, &s);
    for (size_t d = 0; d < request->v_dim; d++) s.o[d] = output_of(h, s.o[d], s.l);
    slow_store(p->dtype, s.o, request->v_dim,
               (uint8_t *)out[0].data + index * request->v_dim * kvg_dtype_bytes(p->dtype));
    slow_store(KVG_DTYPE_F32, &lse, 1, (uint8_t *)out[1].data + index * sizeof(float));
}

static void load_operands(slow_head *h)
{
    const slow_request *r = h->stored->request;
    const size_t dim = r->problem->head_dim;
    uint16_t codes[KVG_MAX_HEAD_DIM];
    for (size_t n = 0; n < h->stored->keys; n++) {
        slow_operands(&r->sides[KVG_K], &h->stored->rows[KVG_K][n], h->faults, h->k + n * dim);
        slow_operands(&r->sides[KVG_V], &h->stored->rows[KVG_V][n], h->faults, codes);
        memcpy(h->v + n * r->v_dim, codes + r->v_first, r->v_dim * sizeof *codes);
    }
    for (size_t i = 0; i < dim; i++) {
        h->dims[i] = slow_dim_of_sum(&r->sides[KVG_K], h->faults, i / KVG_MMA_K, i % KVG_MMA_K);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        h->type[side] = slow_operand_type(r->sides[side].codec->format, r->problem->dtype);
    }
    h->scale = slow_score_scale(h);
    const int base = slow_operand_base(r->sides[KVG_V].codec->format, h->faults);
    h->out_factor = slow_f32_multiply(r->sides[KVG_V].row.g, slow_scaled(1, base));
}

/* What a visit of every KV head is given. */
typedef struct job {
    kvg_tensor *out;
    uint64_t faults;
} job;

static kvg_status run_head(const slow_stored *stored, void *context)
{
    const job *j = context;
    const slow_request *r = stored->request;
    const kvg_problem *p = r->problem;
    slow_head h = {.stored = stored, .profile = kvg_profile_get(p->profile), .faults = j->faults,
                   .k = malloc((stored->keys + 1) * p->head_dim * sizeof *h.k),
                   .v = malloc((stored->keys + 1) * r->v_dim * sizeof *h.v),
                   .dims = malloc(p->head_dim * sizeof *h.dims)};
    kvg_status status = KVG_OK;
    if (!h.k || !h.v || !h.dims) {
        status = kvg_fail(KVG_ERR_MEMORY, "no memory for the operands of %zu keys", stored->keys);
    } else {
        load_operands(&h);
        const bool interleaved = wrong(&h, SLOW_DECODE_HEADS_INTERLEAVED);
#pragma omp parallel for schedule(dynamic)
        for (size_t i = 0; i < stored->queries * r->group; i++) {
            const size_t g = i % r->group;
            run_row(&h, i / r->group, interleaved ? g * p->kv_heads + stored->kv_head : stored->kv_head * r->group + g,
                    j->out);
        }
    }
    free(h.k);
    free(h.v);
    free(h.dims);
    return status;
}

kvg_status slow_decode_faulty(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, uint64_t faults)
{
    slow_request request;
    kvg_status status = kvg_problem_check(problem);
    if (!status && (problem->dtype == KVG_DTYPE_F32 || problem->head_dim % KVG_MMA_K)) {
        status = kvg_fail(KVG_ERR_UNIMPLEMENTED, "a profile has operands for f16 and bf16 and rows of whole sums: not "
                          "for model type %s and head_dim %u", kvg_dtype_name(problem->dtype), problem->head_dim);
    }
    if (!status) status = slow_request_open(problem, in, &request);
    job j = {out, faults};
    return status ? status : slow_request_visit(&request, run_head, &j);
}

kvg_status slow_decode_op(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (problem->profile == KVG_PROFILE_NONE) return slow_attention(problem, in, out, 0);
    return slow_decode_faulty(problem, in, out, 0);
}
