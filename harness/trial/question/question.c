#include "harness/trial/question/question.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/trial/question/fill.h"
#include "harness/trial/question/merge_fill.h"
#include "harness/trial/question/mma_fill.h"
#include "harness/trial/question/paged_fill.h"
#include "harness/trial/question/query_fill.h"
#include "reference/rope_table.h"

enum { STREAM_OTHER_Q = 101, STREAM_OLD = 102 }; /* of the complement of a question's seed: beside those of fill.c */

/* What memory holds before a case uses it. */
typedef enum old_data {
    OLD_NOISE, /* bytes without a pattern */
    OLD_NAN,   /* all bits set: a NaN in every format and scale that has one */
    OLD_ROWS,  /* in pools: rows of other tokens; elsewhere as OLD_NOISE */
} old_data;

static const kvg_role values_only[KVG_MAX_ROLES] = {KVG_ROLE_VALUES};
static const kvg_role rows_only[KVG_MAX_ROLES] = {KVG_ROLE_CODES, KVG_ROLE_SCALES};

static kvg_tensor *input(const kvg_question *d, kvg_role role, kvg_side side)
{
    return kvg_set_tensor(&d->in, role, side);
}

static void copy_tensor(const kvg_tensor *from, kvg_tensor *to)
{
    if (from->bytes) memcpy(to->data, from->data, from->bytes);
}

/* Runs an op of the reference: its inputs are in the sources `from`, `to` has its outputs. */
static kvg_status run_reference(const kvg_problem *p, const kvg_source *from, size_t count, kvg_tensor *to)
{
    kvg_tensor in[KVG_MAX_TENSORS];
    kvg_gather(p, kvg_op_get(p->op)->inputs, from, count, in);
    return kvg_reference_run(p, in, to);
}

kvg_problem kvg_question_other_op(const kvg_problem *p, kvg_op op, uint32_t tokens)
{
    kvg_problem other = *p;
    other.op = op;
    other.tokens = tokens;
    other.rope = (kvg_rope){0};
    other.bias = false;
    other.attention = (kvg_attention){0};
    other.profile = KVG_PROFILE_NONE;
    return other;
}

kvg_problem kvg_question_writer(const kvg_problem *p, uint32_t tokens)
{
    return kvg_question_other_op(p, KVG_OP_APPEND, tokens);
}

/* --- the rows of a case --- */

/* The problem of a case's live rows: quantise of plain rows. */
static kvg_problem rows_problem(const kvg_problem *p, uint32_t tokens)
{
    kvg_problem rows = kvg_question_other_op(p, KVG_OP_QUANTISE, tokens);
    rows.layout = KVG_LAYOUT_ROWS;
    rows.paging = (kvg_paging){0};
    rows.text = NULL;
    rows.map = (kvg_layout_map){.codes = {{.bytes = 0}}};
    memset(rows.pool_bytes, 0, sizeof rows.pool_bytes);
    return rows;
}

static size_t row_bytes(const kvg_problem *p)
{
    return p->head_dim * kvg_dtype_bytes(p->dtype);
}

/* The row of a live token that op append stores: bias and RoPE applied. */
static void prepare_row(const kvg_question *d, kvg_side side, size_t token, uint32_t head, uint8_t *to)
{
    const kvg_problem *p = &d->c->problem;
    float x[KVG_MAX_HEAD_DIM], bias[KVG_MAX_HEAD_DIM];
    const uint8_t *from = input(d, KVG_ROLE_VALUES, side)->data;
    kvg_reference_load(p->dtype, from + (token * p->kv_heads + head) * row_bytes(p), p->head_dim, x);
    if (p->bias) {
        const uint8_t *all = input(d, KVG_ROLE_BIAS, side)->data;
        kvg_reference_load(p->dtype, all + head * row_bytes(p), p->head_dim, bias);
    }
    const float *table = input(d, KVG_ROLE_COS_SIN, side)->data;
    const int32_t *positions = input(d, KVG_ROLE_POSITIONS, side)->data;
    kvg_reference_prepare(p, side, p->bias ? bias : NULL,
                          p->rope.dims ? table + (size_t)positions[token] * p->rope.dims : NULL, x);
    kvg_reference_store(p->dtype, x, p->head_dim, to);
}

/* Op append: new values for every token; the rows are what is to be stored of the live ones. */
static kvg_status fill_append(kvg_question *d, const kvg_paged_fill *fill)
{
    const kvg_problem *p = &d->c->problem;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        kvg_status s = kvg_fill_values(d->c, p, (kvg_side)side, input(d, KVG_ROLE_VALUES, (kvg_side)side));
        if (s) return s;
        kvg_fill_bias(d->c, (kvg_side)side, input(d, KVG_ROLE_BIAS, (kvg_side)side));
    }
    if (p->rope.scaling.kind == KVG_ROPE_TABLE) {
        kvg_fill_cos_sin(d->c, input(d, KVG_ROLE_COS_SIN, KVG_K));
    } else {
        kvg_status s = kvg_reference_rope_table(&p->rope, input(d, KVG_ROLE_COS_SIN, KVG_K)->data);
        if (s) return s;
    }
    memcpy(input(d, KVG_ROLE_SLOTS, KVG_K)->data, fill->slots, p->tokens * sizeof *fill->slots);
    if (p->rope.dims) {
        memcpy(input(d, KVG_ROLE_POSITIONS, KVG_K)->data, fill->positions, p->tokens * sizeof *fill->positions);
    }
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        uint8_t *to = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side)->data;
        for (size_t row = 0; row < (size_t)d->rows.tokens * p->kv_heads; row++) {
            prepare_row(d, (kvg_side)side, d->source[row / p->kv_heads], (uint32_t)(row % p->kv_heads),
                        to + row * row_bytes(p));
        }
    }
    return KVG_OK;
}

/* Live tokens of the shared prefix get the row of the first one. */
static void share_rows(const kvg_question *d)
{
    for (int side = KVG_K; side < kvg_problem_sides(&d->c->problem); side++) {
        const kvg_tensor *values = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side);
        const size_t bytes = values->bytes / d->rows.tokens;
        uint8_t *rows = values->data;
        for (size_t i = 0; i < d->rows.tokens; i++) {
            if (d->first[i] != i) memcpy(rows + i * bytes, rows + d->first[i] * bytes, bytes);
        }
    }
}

/* What every op but append starts from. */
static kvg_status fill_rows(kvg_question *d)
{
    kvg_status s = KVG_OK;
    for (int side = KVG_K; !s && side < kvg_problem_sides(&d->c->problem); side++) {
        kvg_tensor *values = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side);
        s = kvg_fill_values(d->c, &d->rows, (kvg_side)side, values);
    }
    return s;
}

static kvg_status fill_scales(kvg_question *d)
{
    kvg_status s = KVG_OK;
    for (int side = KVG_K; !s && side < kvg_problem_sides(&d->c->problem); side++) {
        s = kvg_fill_scale(d->c, (kvg_side)side, kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side),
                           &d->tensor_scale[side]);
        kvg_tensor *scale = input(d, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        if (!s && scale && scale->bytes) memcpy(scale->data, &d->tensor_scale[side], sizeof d->tensor_scale[side]);
    }
    return s;
}

/* KVG_FILL_CODES of op decode: the values are what the reference makes of the codes. */
static kvg_status fill_codes(kvg_question *d)
{
    kvg_tensor_set rows = {0};
    kvg_query_fill_codes(d);
    kvg_status s = kvg_question_values(d, NULL, &rows);
    for (int side = KVG_K; !s && side < kvg_problem_sides(&d->c->problem); side++) {
        copy_tensor(kvg_set_tensor(&rows, KVG_ROLE_VALUES, (kvg_side)side),
                    kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side));
    }
    kvg_set_free(&rows);
    return s;
}

/* Golden packs, whose cases are not shuffled, have noise; with KVG_FILL_CODES the noise is the data. Op decode has NaN
 * in relation `poisoned`: here they would be all that the diagnosis of a wrong answer has. */
static old_data old_data_of(const kvg_question *d)
{
    if (!d->c->shuffled || d->c->fill == KVG_FILL_CODES || d->c->unowned != KVG_UNOWNED_ANY) return OLD_NOISE;
    const bool decode = d->c->problem.op == KVG_OP_DECODE;
    const old_data kinds[] = {OLD_NOISE, OLD_NOISE, OLD_ROWS, decode ? OLD_NOISE : OLD_NAN};
    return kinds[kvg_rng_below(~d->seed, STREAM_OLD, 0, 4)];
}

static void fill_old(const kvg_question *d, uint64_t stream, kvg_tensor *tensor)
{
    if (old_data_of(d) != OLD_NAN) kvg_fill_noise(d->c, stream, tensor);
    else if (tensor->bytes) memset(tensor->data, 0xFF, tensor->bytes);
}

static void fill_old_pool(const kvg_question *d, uint64_t stream, kvg_tensor *pool)
{
    const uint8_t bits = kvg_case_unowned_bits(d->c);
    uint8_t *bytes = pool->data;
    fill_old(d, stream, pool);
    for (size_t i = 0; i < pool->bytes && bits != 0xFF; i++) bytes[i] &= bits;
}

/* The reference's append of the live rows to `slots` of the pools in `to`. */
static kvg_status write_rows(const kvg_question *d, const int64_t *slots, const kvg_tensor_set *to)
{
    const kvg_problem append = kvg_question_writer(&d->c->problem, d->rows.tokens);
    const kvg_source from[] = {{.set = &d->values},
                               {.role = KVG_ROLE_SLOTS, .data = {slots}},
                               {.role = KVG_ROLE_TENSOR_SCALE, .data = {&d->tensor_scale[0], &d->tensor_scale[1]}}};
    kvg_tensor out[KVG_MAX_TENSORS];
    kvg_gather(&append, kvg_op_get(KVG_OP_APPEND)->outputs, &(kvg_source){.set = to}, 1, out);
    return run_reference(&append, from, 3, out);
}

/* OLD_ROWS: the live rows in the opposite order, each moved by the same number of slots. Of 3 tokens in slots 4, 5, 6
 * of 8, moved by 3, slot 7 gets the last one's row, slot 0 the second one's, and slot 1 the first one's. */
static kvg_status fill_old_rows(const kvg_question *d, const kvg_tensor_set *to)
{
    const kvg_paging *g = &d->c->problem.paging;
    const uint64_t all = (uint64_t)g->blocks * g->block_tokens;
    const uint32_t n = d->rows.tokens;
    if (old_data_of(d) != OLD_ROWS || all < 2) return KVG_OK;
    int64_t *slots = malloc(n * sizeof *slots);
    if (!slots) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u slots", n);
    const uint64_t moved = 1 + kvg_rng_below(~d->seed, STREAM_OLD, 1, all - 1);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t slot = d->owned[n - 1 - i];
        slots[i] = slot < 0 ? slot : (int64_t)(((uint64_t)slot + moved) % all);
    }
    const kvg_status s = write_rows(d, slots, to);
    free(slots);
    return s;
}

/* The live rows in pools that hold old data everywhere else. */
static kvg_status fill_pools(kvg_question *d)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        fill_old_pool(d, (uint64_t)side, input(d, KVG_ROLE_DATA_POOL, (kvg_side)side));
        fill_old_pool(d, 2 + (uint64_t)side, input(d, KVG_ROLE_SCALE_POOL, (kvg_side)side));
    }
    if (d->c->fill == KVG_FILL_CODES) return d->queries ? fill_codes(d) : KVG_OK;
    kvg_status s = fill_old_rows(d, &d->in);
    return s ? s : write_rows(d, d->owned, &d->in);
}

static void copy_input_array(const kvg_question *d, kvg_role role, const void *from)
{
    kvg_tensor *to = input(d, role, KVG_K);
    if (to) memcpy(to->data, from, to->bytes);
}

static kvg_status fill_paged(kvg_question *d, const kvg_paged_fill *fill)
{
    if (d->c->problem.op == KVG_OP_APPEND) {
        kvg_status s = fill_append(d, fill);
        if (!s) s = fill_scales(d);
        return s ? s : fill_old_rows(d, &d->before);
    }
    copy_input_array(d, KVG_ROLE_SLOTS, fill->slots);
    copy_input_array(d, KVG_ROLE_BLOCK_TABLE, fill->table);
    copy_input_array(d, KVG_ROLE_LENGTHS, fill->lengths);
    copy_input_array(d, KVG_ROLE_QUERY_LENGTHS, fill->query_lengths);
    kvg_status s = d->c->problem.op == KVG_OP_DECODE ? kvg_query_fill_place(d) : KVG_OK;
    if (!s) s = fill_rows(d);
    if (!s && d->queries) kvg_query_fill_finite(d);
    if (!s) share_rows(d);
    if (!s) s = fill_scales(d);
    if (!s) s = fill_pools(d);
    if (!s && d->queries) kvg_query_fill(d);
    if (!s && d->queries) kvg_query_fill_sinks(d);
    if (!s && d->queries && d->c->fill == KVG_FILL_CODES && d->c->problem.profile == KVG_PROFILE_SIMT_FMA_V1)
        kvg_query_fill_own_keys(d);
    return s;
}

/* Plain rows: an encoder's input, or what the reference makes of it for a decoder, or every pattern. */
static kvg_status fill_plain(kvg_question *d)
{
    kvg_status s = fill_rows(d);
    if (!s) s = fill_scales(d);
    if (s) return s;
    kvg_tensor rows[4];
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_tensor *values = input(d, KVG_ROLE_VALUES, (kvg_side)side);
        kvg_tensor *codes = input(d, KVG_ROLE_CODES, (kvg_side)side);
        if (values) copy_tensor(kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side), values);
        if (!codes) continue;
        rows[side] = *codes;
        rows[2 + side] = *input(d, KVG_ROLE_SCALES, (kvg_side)side);
        if (d->c->fill == KVG_FILL_CODES) kvg_fill_codes(d->c, (kvg_side)side, codes, &rows[2 + side]);
    }
    if (!input(d, KVG_ROLE_CODES, KVG_K) || d->c->fill == KVG_FILL_CODES) return KVG_OK;
    return run_reference(&d->rows, (kvg_source[]){{.set = &d->values}, {.set = &d->in}}, 2, rows);
}

kvg_status kvg_question_make(const kvg_case *c, kvg_question *out)
{
    const kvg_problem *p = &c->problem;
    *out = (kvg_question){.c = c, .seed = kvg_fill_seed(c), .op = kvg_op_get(p->op)};
    kvg_paged_fill fill = {0};
    kvg_status s = kvg_problem_check(p);
    if (!s && out->op->paged) s = kvg_paged_fill_make(c, out->seed, &fill);
    if (!s) {
        out->rows = rows_problem(p, out->op->paged ? fill.live : kvg_op_stores(p->op) ? p->tokens : 0);
        out->slots = fill.live_slots;
        out->owned = fill.live_owned;
        out->first = fill.live_first;
        out->source = fill.live_source;
        fill.live_slots = fill.live_owned = NULL; /* the case's from here on */
        fill.live_first = fill.live_source = NULL;
        s = kvg_set_alloc(p, out->op->inputs, &out->in);
    }
    if (!s && out->op->paged) s = kvg_set_alloc(p, out->op->outputs, &out->before);
    void (*const fill_before)(const kvg_question *, uint64_t, kvg_tensor *) =
        p->op == KVG_OP_APPEND ? fill_old_pool : fill_old; /* append alone writes into pools */
    for (size_t i = 0; !s && i < out->before.count; i++) fill_before(out, 16 + i, &out->before.tensors[i]);
    if (!s && p->op == KVG_OP_DECODE) kvg_query_fill_poison(&out->before);
    if (!s) s = kvg_set_alloc(&out->rows, values_only, &out->values);
    if (!s && p->op == KVG_OP_MMA) kvg_mma_fill(c, out->seed, &out->in);
    else if (!s && p->op == KVG_OP_MERGE) kvg_merge_fill(c, out->seed, &out->in);
    else if (!s) s = out->op->paged ? fill_paged(out, &fill) : fill_plain(out);
    kvg_paged_fill_free(&fill);
    return s;
}

kvg_question kvg_question_of(const kvg_case *c, const kvg_tensor_set *in, const kvg_tensor_set *before)
{
    return (kvg_question){.c = c, .op = kvg_op_get(c->problem.op), .in = *in, .before = *before};
}

void kvg_question_free(kvg_question *d)
{
    kvg_set_free(&d->in);
    kvg_set_free(&d->before);
    kvg_set_free(&d->values);
    free(d->slots);
    free(d->owned);
    free(d->first);
    free(d->source);
    free(d->queries);
    *d = (kvg_question){0};
}

/* --- another q --- */

static kvg_guard *guard_of_q(kvg_question *d)
{
    return &d->in.guards[kvg_roles_index(d->in.roles, KVG_ROLE_Q, KVG_K)];
}

kvg_status kvg_question_with_other_q(const kvg_question *question, uint64_t number, kvg_question *out)
{
    *out = *question;
    *guard_of_q(out) = (kvg_guard){0};
    out->seed = kvg_rng_u64(~question->seed, STREAM_OTHER_Q, number);
    kvg_tensor *q = input(out, KVG_ROLE_Q, KVG_K);
    const kvg_status s = kvg_guard_alloc(q->bytes, guard_of_q(out));
    q->data = guard_of_q(out)->data;
    if (!s) kvg_query_fill(out);
    return s;
}

void kvg_question_with_other_q_free(kvg_question *d)
{
    kvg_guard_free(guard_of_q(d));
}

void kvg_question_prefill(const kvg_question *d, kvg_tensor_set *outputs)
{
    for (size_t i = 0; i < d->before.count; i++) copy_tensor(&d->before.tensors[i], &outputs->tensors[i]);
}

/* --- the rows of an answer --- */

/* The rows that lie in the live slots of the pools `tensors` (in the order of `roles`). */
static kvg_status gather_pools(const kvg_question *d, const kvg_role *roles, const kvg_tensor *tensors,
                               kvg_tensor_set *rows)
{
    const kvg_problem probe = kvg_question_other_op(&d->c->problem, KVG_OP_PROBE, d->rows.tokens);
    kvg_tensor_set pools = {.roles = roles, .count = kvg_roles_tensors(roles)};
    memcpy(pools.tensors, tensors, pools.count * sizeof *tensors);
    return run_reference(&probe, (kvg_source[]){{.set = &pools}, {.role = KVG_ROLE_SLOTS, .data = {d->slots}}}, 2,
                         rows->tensors);
}

/* Rows `source[i]` of a tensor whose rows are [token, head], one after the other. */
static void gather_tokens(const kvg_question *d, const kvg_tensor *from, kvg_tensor *to)
{
    const size_t bytes = to->bytes / d->rows.tokens;
    for (size_t i = 0; i < d->rows.tokens && bytes; i++) {
        memcpy((uint8_t *)to->data + i * bytes, (const uint8_t *)from->data + d->source[i] * bytes, bytes);
    }
}

/* The same from [sequence, head, token, dim]. */
static void gather_flat(const kvg_question *d, const kvg_tensor *from, kvg_tensor *to)
{
    const kvg_problem *p = &d->c->problem;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(from->dtype);
    for (size_t i = 0; i < (size_t)d->rows.tokens * p->kv_heads; i++) {
        const size_t source = d->source[i / p->kv_heads], head = i % p->kv_heads;
        const size_t row = (source / p->tokens * p->kv_heads + head) * p->tokens + source % p->tokens;
        memcpy((uint8_t *)to->data + i * bytes, (const uint8_t *)from->data + row * bytes, bytes);
    }
}

bool kvg_question_reads_pools(const kvg_question *d)
{
    return kvg_roles_index(d->op->inputs, KVG_ROLE_DATA_POOL, KVG_K) >= 0;
}

kvg_status kvg_question_codes(const kvg_question *d, const kvg_tensor *tensors, kvg_tensor_set *rows)
{
    const bool gives_codes = kvg_roles_index(d->op->outputs, KVG_ROLE_CODES, KVG_K) >= 0;
    const bool gives_pools = kvg_roles_index(d->op->outputs, KVG_ROLE_DATA_POOL, KVG_K) >= 0;
    kvg_problem p = d->rows;
    p.paging.shared_kv = d->c->problem.paging.shared_kv; /* V's tensors are empty then */
    kvg_status s = kvg_set_alloc(&p, rows_only, rows);
    if (s) return s;
    if (gives_pools) return gather_pools(d, d->op->outputs, tensors, rows);
    if (!gives_codes && d->op->paged) return gather_pools(d, d->op->inputs, d->in.tensors, rows);
    for (size_t i = 0; i < rows->count; i++) {
        const kvg_tensor *from = gives_codes ? &tensors[i] : &d->in.tensors[i]; /* codes and scales come first */
        if (d->op->paged) gather_tokens(d, from, &rows->tensors[i]);
        else copy_tensor(from, &rows->tensors[i]);
    }
    return KVG_OK;
}

/* What op expand gives: rows of e4m3 without a tensor scale, whatever the cache holds. */
static kvg_status expanded_codes(const kvg_question *d, const kvg_problem *rows, const kvg_tensor *answer,
                                 kvg_tensor_set *codes)
{
    kvg_status s = kvg_set_alloc(rows, rows_only, codes);
    for (int side = KVG_K; !s && side < kvg_problem_sides(&d->c->problem); side++) {
        gather_flat(d, &answer[side], &codes->tensors[side]);
    }
    return s;
}

/* Half the spacing of E4M3, or what saturation takes away, of any number whose magnitude is at most `most`. */
static double expansion_error(double most)
{
    const double largest = 448, rounding = fmax(0x1p-4 * fmin(most, largest), 0x1p-10);
    return fmax(rounding, most - largest);
}

void kvg_question_bound(const kvg_question *d, kvg_side side, const float *x, double *bound)
{
    kvg_reference_row_bound(&d->rows, side, d->tensor_scale[side], x, bound);
    for (uint32_t i = 0; i < d->rows.head_dim; i++) {
        if (isinf(bound[i])) continue;
        if (d->c->fill == KVG_FILL_EXACT) bound[i] = 0; /* the fill lies on the grid: nothing may be lost */
        if (d->op->op == KVG_OP_EXPAND) bound[i] += expansion_error(fabs((double)x[i]) + bound[i]);
    }
}

kvg_status kvg_question_values(const kvg_question *d, const kvg_tensor *answer, kvg_tensor_set *rows)
{
    const kvg_problem *p = &d->c->problem;
    kvg_status s = kvg_set_alloc(&d->rows, values_only, rows);
    if (s) return s;
    if (p->op == KVG_OP_DEQUANTISE || p->op == KVG_OP_FLATTEN) {
        for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
            if (p->op == KVG_OP_FLATTEN) gather_flat(d, &answer[side], &rows->tensors[side]);
            else copy_tensor(&answer[side], &rows->tensors[side]);
        }
        return KVG_OK;
    }
    kvg_tensor_set codes = {0};
    const bool expanded = p->op == KVG_OP_EXPAND;
    kvg_problem decode = d->rows;
    decode.op = KVG_OP_DEQUANTISE;
    const kvg_storage e4m3 = {kvg_format_of_codes(KVG_CODES_E4M3), "canonical"};
    if (expanded) decode.storage[KVG_K] = decode.storage[KVG_V] = e4m3;
    s = expanded ? expanded_codes(d, &decode, answer, &codes) : kvg_question_codes(d, answer, &codes);
    float g[2] = {1, 1};
    if (!expanded) memcpy(g, d->tensor_scale, kvg_problem_sides(p) * sizeof *g);
    if (!s && kvg_problem_sides(p) == 1) { /* the decoder wants two sides: K's rows once more */
        codes.tensors[kvg_roles_index(rows_only, KVG_ROLE_CODES, KVG_V)] = codes.tensors[0];
        codes.tensors[kvg_roles_index(rows_only, KVG_ROLE_SCALES, KVG_V)] =
            codes.tensors[kvg_roles_index(rows_only, KVG_ROLE_SCALES, KVG_K)];
    }
    const kvg_source from[] = {{.set = &codes}, {.role = KVG_ROLE_TENSOR_SCALE, .data = {&g[0], &g[1]}}};
    if (!s) s = run_reference(&decode, from, 2, rows->tensors);
    kvg_set_free(&codes);
    return s;
}
