#include "tests/reference/attention/attention_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "reference/formats/ref_codec.h"

static void *allocate(size_t bytes)
{
    void *p = calloc(bytes ? bytes : 1, 1);
    assert_non_null(p);
    return p;
}

static float random_fill(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                         uint32_t position, uint32_t dim)
{
    const uint64_t stream = (uint64_t)role << 32 | (uint64_t)side << 24 | (uint64_t)sequence << 12 | head;
    return (float)kvg_rng_normal(w->plan.seed, stream, (uint64_t)position << 12 | dim);
}

float world_by_content(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                       uint32_t position, uint32_t dim)
{
    (void)sequence;
    return (float)kvg_rng_normal(w->plan.seed, role * 1000 + side * 100 + head, (uint64_t)position * 1024 + dim);
}

kvg_tensor *world_input(world *w, kvg_role role, kvg_side side)
{
    return &w->in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, side)];
}

static const kvg_tensor *input(const world *w, kvg_role role, kvg_side side)
{
    return &w->in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, side)];
}

uint32_t world_v_dim(const world *w)
{
    return w->p.paging.shared_kv ? w->p.paging.v_dim : w->p.head_dim;
}

static bool one_block(const world *w)
{
    return kvg_problem_blocks(&w->p) == KVG_BLOCKS_ONE || kvg_problem_blocks(&w->p) == KVG_BLOCKS_RING;
}

static void set_problem(world *w)
{
    world_plan *plan = &w->plan;
    if (!plan->dtype) plan->dtype = KVG_DTYPE_F16;
    if (!plan->kv_heads) plan->kv_heads = kvg_layout_get(plan->layout)->shared == KVG_SHARED_ALWAYS ? 1 : 2;
    if (!plan->group) plan->group = 1;
    if (!plan->head_dim) plan->head_dim = 64;
    if (!plan->block_tokens) plan->block_tokens = 16;
    if (!plan->poison) plan->poison = 0xFF;
    if (!plan->fill) plan->fill = random_fill;
    if (!plan->q_size) plan->q_size = 1;
    if (!plan->k_size) plan->k_size = 1;
    if (!plan->v_size) plan->v_size = 1;
    if (!plan->k_tensor_scale) plan->k_tensor_scale = 0.0123f;
    if (!plan->v_tensor_scale) plan->v_tensor_scale = 0.0187f;
    uint32_t sequences = 0, queries = 0, tokens = 1, pages = 0;
    for (uint32_t i = 0; i < WORLD_SEQUENCES; i++) {
        if (plan->queries[i] > 0 || plan->lengths[i] > 0) sequences = i + 1;
        queries += (uint32_t)plan->queries[i];
        if ((uint32_t)plan->lengths[i] > tokens) tokens = (uint32_t)plan->lengths[i];
        pages += ((uint32_t)plan->lengths[i] + plan->block_tokens - 1) / plan->block_tokens;
        if (!plan->storage[i % 2].dialect) plan->storage[i % 2].dialect = "canonical";
    }
    w->p = (kvg_problem){
        .op = KVG_OP_DECODE, .layout = plan->layout, .dtype = plan->dtype,
        .storage = {plan->storage[0], plan->storage[1]},
        .tokens = tokens, .kv_heads = plan->kv_heads, .head_dim = plan->head_dim,
        .paging = {.layers = 2, .layer = 1, .blocks = pages + 3, .block_tokens = plan->block_tokens,
                   .sequences = sequences, .v_scale_swizzle = plan->v_scale_swizzle, .shared_kv = plan->shared_kv,
                   .v_dim = plan->shared_kv ? plan->head_dim - 64 : 0},
        .attention = {.query_heads = plan->kv_heads * plan->group, .queries = queries, .window = plan->window,
                      .softcap = plan->softcap, .scale = plan->scale, .sinks = plan->sinks != 0},
    };
    const char *text = plan->padded ? kvg_layout_get(plan->layout)->text : "";
    w->p.paging.data_padding = strstr(text, "+data") ? 48 : 0;
    w->p.paging.row_padding = strstr(text, "+row") ? 16 : 0;
    w->p.paging.scale_padding = strstr(text, "+scale") ? 32 : 0;
    if (one_block(w)) {
        w->p.paging.blocks = sequences;
        if (plan->layout == KVG_LAYOUT_CONTIGUOUS) w->p.paging.block_tokens = tokens + 5;
    }
}

bool world_can(const world_plan *plan)
{
    world w = {.plan = *plan};
    set_problem(&w);
    return kvg_problem_check(&w.p) == KVG_OK;
}

bool world_has_place(const world *w, uint32_t sequence, uint32_t position)
{
    const int64_t length = w->plan.lengths[sequence], B = w->p.paging.block_tokens;
    if (position >= length) return false;
    if (kvg_problem_blocks(&w->p) == KVG_BLOCKS_RING && position + B < length) return false;
    return !(w->plan.drop_block && !one_block(w) && position / B == w->plan.drop_block);
}

/* Pages from the end of the pool downwards, every other sequence's turn, from `pages_from` on. */
static void set_block_table(world *w)
{
    const uint32_t N = w->p.paging.blocks, B = w->p.paging.block_tokens;
    const uint32_t width = kvg_layout_table_width(w->p.layout, &w->p.paging, w->p.tokens);
    int32_t *table = world_input(w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    uint32_t next = 0;
    for (uint32_t column = 0; column < width; column++) {
        for (uint32_t s = 0; s < w->p.paging.sequences; s++) {
            int32_t *entry = &table[s * width + column];
            const bool owned = one_block(w) || (uint64_t)column * B < (uint64_t)w->plan.lengths[s];
            *entry = owned ? (int32_t)((2 * (uint64_t)N - 1 - next++ - w->plan.pages_from % N) % N) : -1;
        }
    }
}

static int64_t slot_of(world *w, uint32_t sequence, uint32_t position)
{
    const uint32_t B = w->p.paging.block_tokens;
    const uint32_t width = kvg_layout_table_width(w->p.layout, &w->p.paging, w->p.tokens);
    const int32_t *table = world_input(w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    if (kvg_problem_blocks(&w->p) == KVG_BLOCKS_RING && position + B < (uint64_t)w->plan.lengths[sequence]) return -1;
    const uint32_t column = one_block(w) ? 0 : position / B;
    return (int64_t)table[sequence * width + column] * B + position % B;
}

static size_t row_index(const world *w, uint32_t sequence, uint32_t head, uint32_t position)
{
    return ((size_t)sequence * w->p.kv_heads + head) * w->p.tokens + position;
}

static void fill_flat(world *w, kvg_side side)
{
    const uint32_t D = w->p.head_dim;
    float x[KVG_MAX_HEAD_DIM];
    kvg_tensor *t = &w->flat[side];
    *t = (kvg_tensor){.dtype = w->p.dtype, .rank = 4, .shape = {w->p.paging.sequences, w->p.kv_heads, w->p.tokens, D}};
    t->bytes = t->shape[0] * t->shape[1] * t->shape[2] * D * kvg_dtype_bytes(t->dtype);
    t->data = allocate(t->bytes);
    for (uint32_t s = 0; s < w->p.paging.sequences; s++) {
        for (uint32_t head = 0; head < w->p.kv_heads; head++) {
            for (uint32_t position = 0; position < (uint32_t)w->plan.lengths[s]; position++) {
                for (uint32_t i = 0; i < D; i++) {
                    x[i] = w->plan.fill(w, KVG_ROLE_VALUES, side, s, head, position, i) *
                           (side == KVG_K ? w->plan.k_size : w->plan.v_size);
                }
                kvg_reference_store(t->dtype, x, D, (uint8_t *)t->data + row_index(w, s, head, position) * D *
                                                                            kvg_dtype_bytes(t->dtype));
            }
        }
    }
}

/* Every token of every sequence through op append. */
static void append(world *w)
{
    kvg_problem p = w->p;
    p.op = KVG_OP_APPEND;
    p.attention = (kvg_attention){0};
    p.tokens = 0;
    for (uint32_t s = 0; s < p.paging.sequences; s++) p.tokens += (uint32_t)w->plan.lengths[s];
    if (p.tokens == 0) return;
    const kvg_op_info *op = kvg_op_get(p.op);
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    for (size_t i = 0; i < kvg_roles_tensors(op->inputs); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(op->inputs, i, &role, &side);
        in[i] = kvg_problem_tensor(&p, role, side);
        if (role == KVG_ROLE_TENSOR_SCALE) in[i].data = world_input(w, role, side)->data;
        else in[i].data = allocate(in[i].bytes);
        const size_t row_bytes = p.head_dim * kvg_dtype_bytes(p.dtype);
        uint32_t token = 0;
        for (uint32_t s = 0; s < p.paging.sequences; s++) {
            for (uint32_t position = 0; position < (uint32_t)w->plan.lengths[s]; position++, token++) {
                if (role == KVG_ROLE_SLOTS) ((int64_t *)in[i].data)[token] = slot_of(w, s, position);
                for (uint32_t h = 0; role == KVG_ROLE_VALUES && in[i].bytes && h < p.kv_heads; h++) {
                    memcpy((uint8_t *)in[i].data + ((size_t)token * p.kv_heads + h) * row_bytes,
                           (uint8_t *)w->flat[side].data + row_index(w, s, h, position) * row_bytes, row_bytes);
                }
            }
        }
    }
    for (size_t i = 0; i < kvg_roles_tensors(op->outputs); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(op->outputs, i, &role, &side);
        out[i] = *world_input(w, role, side);
    }
    if (kvg_reference_run(&p, in, out)) fail_msg("append: %s", kvg_error_text());
    for (size_t i = 0; i < kvg_roles_tensors(op->inputs); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(op->inputs, i, &role, &side);
        if (role != KVG_ROLE_TENSOR_SCALE) free(in[i].data);
    }
}

/* Codes and scales of each row without a layout, decoded. */
static void decode_rows(world *w, kvg_side side)
{
    const kvg_side from = w->p.paging.shared_kv ? KVG_K : side;
    const uint32_t D = w->p.head_dim;
    ref_side rows;
    if (ref_side_init(&w->p, from, world_input(w, KVG_ROLE_TENSOR_SCALE, from), &rows))
        fail_msg("%s", kvg_error_text());
    const size_t count = (size_t)w->p.paging.sequences * w->p.kv_heads * w->p.tokens;
    w->exact[side] = allocate(count * D * sizeof(double));
    w->factors[side] = allocate(count * sizeof(double));
    for (size_t row = 0; row < count; row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint8_t bytes[2 * KVG_MAX_HEAD_DIM], scales[KVG_MAX_HEAD_DIM];
        uint16_t codes[KVG_MAX_HEAD_DIM];
        double y[KVG_MAX_HEAD_DIM];
        kvg_reference_load(w->p.dtype, (uint8_t *)w->flat[from].data + row * D * kvg_dtype_bytes(w->p.dtype), D, x);
        ref_side_quantise(&rows, x, bytes, scales);
        ref_unpack(rows.packing, bytes, D, codes);
        w->factors[side][row] = rows.codec->exact(&rows.row, codes, scales, y);
        const uint32_t first = side == KVG_V ? w->p.paging.v_first : 0;
        memcpy(w->exact[side] + row * D, y + first, (D - first) * sizeof *y);
    }
}

const double *world_row(const world *w, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                        double *factor)
{
    const size_t row = row_index(w, sequence, head, position);
    *factor = w->factors[side][row];
    return w->exact[side] + row * w->p.head_dim;
}

void world_query(const world *w, uint32_t row, uint32_t *sequence, int64_t *position)
{
    *sequence = 0;
    while (row >= (uint32_t)w->plan.queries[*sequence]) row -= (uint32_t)w->plan.queries[(*sequence)++];
    *position = (int64_t)w->plan.lengths[*sequence] - w->plan.queries[*sequence] + row;
}

float world_q(const world *w, uint32_t row, uint32_t head, uint32_t dim)
{
    const kvg_tensor *q = input(w, KVG_ROLE_Q, KVG_K);
    float x;
    const size_t at = ((size_t)row * w->p.attention.query_heads + head) * w->p.head_dim + dim;
    kvg_reference_load(q->dtype, (const uint8_t *)q->data + at * kvg_dtype_bytes(q->dtype), 1, &x);
    return x;
}

static void fill_queries(world *w)
{
    const kvg_attention *a = &w->p.attention;
    kvg_tensor *q = world_input(w, KVG_ROLE_Q, KVG_K);
    size_t at = 0;
    for (uint32_t row = 0; row < a->queries; row++) {
        uint32_t sequence;
        int64_t position;
        world_query(w, row, &sequence, &position);
        for (uint32_t head = 0; head < a->query_heads; head++) {
            for (uint32_t i = 0; i < w->p.head_dim; i++, at++) {
                const float x = w->plan.q_size *
                                w->plan.fill(w, KVG_ROLE_Q, KVG_K, sequence, head, (uint32_t)(position + 4096), i);
                kvg_reference_store(q->dtype, &x, 1, (uint8_t *)q->data + at * kvg_dtype_bytes(q->dtype));
            }
        }
    }
    float *sinks = world_input(w, KVG_ROLE_SINKS, KVG_K)->data;
    for (uint32_t head = 0; a->sinks && head < a->query_heads; head++)
        sinks[head] = w->plan.sinks * (float)kvg_rng_normal(w->plan.seed, 77, head);
}

void world_open(const world_plan *plan, world *w)
{
    *w = (world){.plan = *plan};
    set_problem(w);
    if (kvg_problem_check(&w->p)) fail_msg("%s", kvg_error_text());
    for (size_t i = 0; i < kvg_roles_tensors(kvg_op_get(KVG_OP_DECODE)->inputs); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(kvg_op_get(KVG_OP_DECODE)->inputs, i, &role, &side);
        w->in[i] = kvg_problem_tensor(&w->p, role, side);
        w->in[i].data = allocate(w->in[i].bytes);
        if (role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL)
            memset(w->in[i].data, w->plan.poison, w->in[i].bytes);
        if (role == KVG_ROLE_TENSOR_SCALE && w->in[i].bytes)
            *(float *)w->in[i].data = side == KVG_K ? w->plan.k_tensor_scale : w->plan.v_tensor_scale;
        if (role == KVG_ROLE_LENGTHS) memcpy(w->in[i].data, w->plan.lengths, w->in[i].bytes);
        if (role == KVG_ROLE_QUERY_LENGTHS) memcpy(w->in[i].data, w->plan.queries, w->in[i].bytes);
    }
    set_block_table(w);
    for (int side = KVG_K; side <= KVG_V; side++) fill_flat(w, (kvg_side)side);
    append(w);
    for (int side = KVG_K; side <= KVG_V; side++) decode_rows(w, (kvg_side)side);
    fill_queries(w);
    const uint32_t width = kvg_layout_table_width(w->p.layout, &w->p.paging, w->p.tokens);
    int32_t *table = world_input(w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    for (uint32_t s = 0; w->plan.drop_block && w->plan.drop_block < width && s < w->p.paging.sequences; s++)
        table[s * width + w->plan.drop_block] = -1;
    w->rows = (size_t)w->p.attention.queries * w->p.attention.query_heads;
    w->outputs = w->rows * world_v_dim(w);
}

void world_close(world *w)
{
    for (size_t i = 0; i < kvg_roles_tensors(kvg_op_get(KVG_OP_DECODE)->inputs); i++) free(w->in[i].data);
    for (int side = KVG_K; side <= KVG_V; side++) {
        free(w->flat[side].data);
        free(w->exact[side]);
        free(w->factors[side]);
    }
}

kvg_attention_answer answer_open(const world *w)
{
    return (kvg_attention_answer){
        .out = allocate(w->outputs * sizeof(double)),
        .lse = allocate(w->rows * sizeof(double)),
        .out_bound = allocate(w->outputs * sizeof(double)),
        .lse_bound = allocate(w->rows * sizeof(double)),
    };
}

void answer_close(kvg_attention_answer *a)
{
    free(a->out);
    free(a->lse);
    free(a->out_bound);
    free(a->lse_bound);
}

void world_spec(const world *w, const kvg_arithmetic *arithmetic, kvg_attention_answer *out)
{
    if (kvg_attention_spec(&w->p, w->in, arithmetic, out)) fail_msg("spec: %s", kvg_error_text());
}
