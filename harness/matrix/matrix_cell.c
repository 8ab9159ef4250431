#include "harness/matrix/matrix_cell.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/matrix/matrix_files.h"
#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/known_wrong.h"

static const kvg_role pools_only[KVG_MAX_ROLES] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
static const kvg_role rows_only[KVG_MAX_ROLES] = {KVG_ROLE_CODES, KVG_ROLE_SCALES};
static const kvg_role flat_only[KVG_MAX_ROLES] = {KVG_ROLE_FLAT};

/* K and V of the live tokens, K in the order of elements that the engine has. */
static void fill_rows(const kvg_matrix_world *w, const kvg_engine *e, kvg_side side, const kvg_tensor *to)
{
    const kvg_tensor *from = kvg_set_tensor(&w->values, KVG_ROLE_VALUES, side);
    const kvg_pairing order = side == KVG_K ? e->order : KVG_PAIRING_HALVES;
    const size_t bytes = kvg_dtype_bytes(from->dtype), D = w->shape.head_dim;
    for (size_t i = 0; i < from->bytes / bytes; i++) {
        const size_t at = i - i % D + kvg_element_place(order, (uint32_t)D, (uint32_t)(i % D));
        memcpy((uint8_t *)to->data + at * bytes, (const uint8_t *)from->data + i * bytes, bytes);
    }
}

kvg_status kvg_matrix_inputs(const kvg_matrix_world *w, const kvg_engine *e, const kvg_problem *p,
                             const kvg_role *roles, kvg_tensor_set *in)
{
    const kvg_status s = kvg_set_alloc(p, roles, in);
    if (s) return s;
    const kvg_tensor *slots = kvg_set_tensor(in, KVG_ROLE_SLOTS, KVG_K);
    const kvg_tensor *table = kvg_set_tensor(in, KVG_ROLE_BLOCK_TABLE, KVG_K);
    const kvg_tensor *lengths = kvg_set_tensor(in, KVG_ROLE_LENGTHS, KVG_K);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *values = kvg_set_tensor(in, KVG_ROLE_VALUES, (kvg_side)side);
        if (values) fill_rows(w, e, (kvg_side)side, values);
    }
    for (uint32_t i = 0; slots && i < w->live; i++) ((int64_t *)slots->data)[i] = kvg_matrix_slot(w, p, i);
    if (table) kvg_matrix_table(w, p, table->data);
    if (lengths) memcpy(lengths->data, w->lengths, sizeof w->lengths);
    return KVG_OK;
}

/* The inputs of the problem's op. `pools` is NULL where the op writes them. */
static kvg_status make_inputs(const kvg_matrix_world *w, const kvg_engine *e, const kvg_problem *p, const float g[2],
                              const kvg_tensor *pools, kvg_tensor_set *in)
{
    const kvg_role *roles = kvg_op_get(p->op)->inputs;
    const kvg_status s = kvg_matrix_inputs(w, e, p, roles, in);
    for (size_t i = 0; !s && i < in->count; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        const int pool = kvg_roles_index(pools_only, role, side);
        const void *data = role == KVG_ROLE_TENSOR_SCALE ? &g[side] : pool >= 0 ? pools[pool].data : NULL;
        if (data && in->tensors[i].bytes) memcpy(in->tensors[i].data, data, in->tensors[i].bytes);
    }
    return s;
}

/* Runs an op on a candidate, or on the reference without one. What it did beside answering is a failure. */
static kvg_status run_op(kvg_candidate *candidate, const kvg_problem *p, const kvg_tensor *in, kvg_tensor_set *out)
{
    return candidate ? kvg_candidate_answer(candidate, p, in, out->tensors) : kvg_reference_run(p, in, out->tensors);
}

/* --- writing --- */

static kvg_status choose_scales(const kvg_matrix_world *w, const kvg_engine *e, kvg_matrix_pages *pages)
{
    kvg_status s = KVG_OK;
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        s = kvg_scale_from_amax(e->convention, w->amax[side], &pages->g[side]);
        pages->number[side] = kvg_scale_to_number(e->number, pages->g[side]);
    }
    return s;
}

kvg_status kvg_matrix_write(const kvg_matrix_world *w, const kvg_matrix_party *party, kvg_candidate *candidate,
                            kvg_matrix_pages *pages)
{
    kvg_problem p;
    kvg_tensor_set in = {0}, pools = {0};
    kvg_status s = kvg_matrix_problem(w, party->engine, KVG_OP_APPEND, &p);
    if (!s) s = choose_scales(w, party->engine, pages);
    if (!s && party->answer) return kvg_matrix_answer_pools(party->answer, &p, pages->pools);
    if (!s) s = make_inputs(w, party->engine, &p, pages->g, NULL, &in);
    if (!s) s = kvg_set_alloc(&p, pools_only, &pools);
    for (size_t i = 0; !s && i < pools.count; i++) kvg_matrix_noise(w, i, &pools.tensors[i]);
    if (!s) s = run_op(candidate, &p, in.tensors, &pools);
    for (size_t i = 0; !s && i < pools.count; i++) {
        if (pools.tensors[i].bytes) memcpy(pages->pools[i].data, pools.tensors[i].data, pools.tensors[i].bytes);
    }
    kvg_set_free(&pools);
    kvg_set_free(&in);
    return s;
}

/* --- reading --- */

/* Both flat tensors, noise where no token lies. */
static kvg_status alloc_flat(const kvg_matrix_world *w, const kvg_problem *p, kvg_tensor_set *flat)
{
    kvg_status s = kvg_set_alloc(p, flat_only, flat);
    for (size_t i = 0; !s && i < flat->count; i++) kvg_matrix_noise(w, 16 + i, &flat->tensors[i]);
    return s;
}

static kvg_status flatten(const kvg_matrix_world *w, const kvg_engine *e, kvg_candidate *candidate,
                          const kvg_problem *p, const kvg_tensor *pools, const float g[2], kvg_tensor_set *flat)
{
    kvg_tensor_set in = {0};
    kvg_status s = make_inputs(w, e, p, g, pools, &in);
    if (!s) s = alloc_flat(w, p, flat);
    if (!s) s = run_op(candidate, p, in.tensors, flat);
    kvg_set_free(&in);
    return s;
}

/* --- judging --- */

static double no_nan(double x)
{
    return isnan(x) ? INFINITY : x;
}

/* Adds one row: x in the order of checkpoints, y as the reader gave it. */
static void judge_row(const kvg_problem *written, kvg_side side, float g, const kvg_engine *writer,
                      const kvg_engine *reader, const float *x, const float *y, kvg_loss *loss)
{
    const uint32_t D = written->head_dim;
    float stored[KVG_MAX_HEAD_DIM], read[KVG_MAX_HEAD_DIM];
    double bound[KVG_MAX_HEAD_DIM], limit[KVG_MAX_HEAD_DIM];
    const kvg_pairing wrote = side == KVG_K ? writer->order : KVG_PAIRING_HALVES;
    const kvg_pairing reads = side == KVG_K ? reader->order : KVG_PAIRING_HALVES;
    for (uint32_t i = 0; i < D; i++) stored[kvg_element_place(wrote, D, i)] = x[i];
    kvg_reference_row_bound(written, side, g, stored, bound);
    for (uint32_t i = 0; i < D; i++) {
        limit[i] = bound[kvg_element_place(wrote, D, i)];
        read[i] = y[kvg_element_place(reads, D, i)];
    }
    kvg_loss_add(loss, x, read, limit, D);
}

/* What the reader made of it against the K and V of the world. */
static kvg_matrix_error judge(const kvg_matrix_world *w, const kvg_engine *writer, const float g[2],
                              const kvg_engine *reader, const kvg_tensor_set *flat)
{
    kvg_matrix_error error = {0};
    kvg_problem rows = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = w->shape.dtype, .tokens = w->live,
                        .kv_heads = w->shape.kv_heads, .head_dim = w->shape.head_dim};
    rows.storage[KVG_K] = rows.storage[KVG_V] = (kvg_storage){writer->format, writer->dialect};
    const uint32_t H = w->shape.kv_heads, D = w->shape.head_dim, T = w->shape.tokens;
    const size_t bytes = D * kvg_dtype_bytes(w->shape.dtype);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint8_t *from = kvg_set_tensor(&w->values, KVG_ROLE_VALUES, (kvg_side)side)->data;
        const uint8_t *got = flat->tensors[side].data;
        kvg_loss loss = {0};
        for (size_t r = 0; r < (size_t)w->live * H; r++) {
            const size_t row = ((size_t)w->sequence[r / H] * H + r % H) * T + w->position[r / H];
            float x[KVG_MAX_HEAD_DIM], y[KVG_MAX_HEAD_DIM];
            kvg_reference_load(rows.dtype, from + r * bytes, D, x);
            kvg_reference_load(rows.dtype, got + row * bytes, D, y);
            judge_row(&rows, (kvg_side)side, g[side], writer, reader, x, y, &loss);
        }
        error.ratio[side] = loss.inexact ? INFINITY : no_nan(loss.worst_ratio);
        error.relative_l2[side] = no_nan(kvg_loss_relative_l2(&loss));
    }
    return error;
}

bool kvg_matrix_right(const kvg_matrix_error *error)
{
    return error->ratio[KVG_K] <= 1 && error->ratio[KVG_V] <= 1;
}

/* --- conversions --- */

/* Those that make a difference between the two. Reordering K where blocks of elements share a scale is none: the blocks
 * hold other elements. */
static unsigned possible_conversions(const kvg_engine *writer, const kvg_engine *reader)
{
    const kvg_format_info *f = kvg_format_get(writer->format);
    unsigned all = 0;
    if (writer->layout != reader->layout || writer->swizzle != reader->swizzle) all |= KVG_CONVERT_BYTES;
    if (writer->order != reader->order && f->block == 0) all |= KVG_CONVERT_ORDER;
    if (writer->number != reader->number && f->tensor_scale) all |= KVG_CONVERT_NUMBER;
    return all;
}

/* Element e of a row moves from its place in `from` to that in `to`; nibble by nibble, whatever the packing. */
static void reorder_codes(const kvg_problem *p, kvg_pairing from, kvg_pairing to, uint8_t *codes,
                          size_t bytes)
{
    const uint32_t D = p->head_dim, nibbles = kvg_format_get(p->storage[KVG_K].format)->element_bits / 4;
    uint8_t old[4 * KVG_MAX_HEAD_DIM];
    size_t place[KVG_MAX_HEAD_DIM][4]; /* nibbles of each stored element, 2 * byte + half */
    uint32_t known[KVG_MAX_HEAD_DIM] = {0};
    for (size_t i = 0; i < 2 * bytes; i++) {
        const uint32_t dim = kvg_reference_code_dim(p, KVG_K, i / 2, i % 2);
        place[dim][known[dim]++] = i;
    }
    memcpy(old, codes, bytes);
    for (uint32_t i = 0; i < D; i++) {
        const size_t *source = place[kvg_element_place(from, D, i)], *target = place[kvg_element_place(to, D, i)];
        for (uint32_t n = 0; n < nibbles; n++) {
            const unsigned code = old[source[n] / 2] >> 4 * (source[n] % 2) & 15, shift = 4 * (target[n] % 2);
            uint8_t *byte = &codes[target[n] / 2];
            *byte = (uint8_t)((*byte & ~(15u << shift)) | code << shift);
        }
    }
}

static void put_rows(const kvg_matrix_world *w, const kvg_problem *to, const kvg_row_map *map, const uint8_t *rows,
                     uint8_t *pool)
{
    const uint32_t H = to->kv_heads, B = to->paging.block_tokens;
    for (uint32_t r = 0; r < w->live * H; r++) {
        const int64_t slot = kvg_matrix_slot(w, to, r / H);
        kvg_rows_write(map, pool, to->paging.layer, (uint32_t)(slot / B), r % H, (uint32_t)(slot % B),
                       rows + (size_t)r * map->bytes);
    }
}

/* The writer's rows, reordered if asked for, in pools of problem `to`. */
static kvg_status convert_pages(const kvg_matrix_world *w, const kvg_engine *writer, const kvg_engine *reader,
                                const kvg_matrix_pages *pages, unsigned conversions, const kvg_problem *to,
                                kvg_tensor_set *pools)
{
    kvg_problem probe;
    kvg_tensor_set in = {0}, rows = {0};
    kvg_layout_map map;
    kvg_status s = kvg_matrix_problem(w, writer, KVG_OP_PROBE, &probe);
    if (!s) s = make_inputs(w, writer, &probe, pages->g, pages->pools, &in);
    if (!s) s = kvg_set_alloc(&probe, rows_only, &rows);
    if (!s) s = kvg_set_alloc(to, pools_only, pools);
    for (size_t i = 0; !s && i < pools->count; i++) kvg_matrix_noise(w, 8 + i, &pools->tensors[i]);
    if (!s) s = kvg_reference_run(&probe, in.tensors, rows.tensors);
    if (!s) kvg_rows_map(to, &map);
    for (int i = 0; !s && i < 4; i++) {
        const kvg_side side = (kvg_side)(i / 2);
        const kvg_row_map *m = i % 2 ? &map.scales[side] : &map.codes[side];
        uint8_t *from = kvg_set_tensor(&rows, i % 2 ? KVG_ROLE_SCALES : KVG_ROLE_CODES, side)->data;
        if (m->bytes == 0) continue;
        for (size_t r = 0; i == 0 && conversions & KVG_CONVERT_ORDER && r < (size_t)w->live * to->kv_heads; r++) {
            reorder_codes(&probe, writer->order, reader->order, from + r * m->bytes, m->bytes);
        }
        put_rows(w, to, m, from, kvg_set_tensor(pools, m->pool, m->side)->data);
    }
    kvg_set_free(&rows);
    kvg_set_free(&in);
    return s;
}

/* Reads after the conversions; 0: the very bytes. */
static kvg_status read_after(const kvg_matrix_world *w, const kvg_matrix_party *writer, const kvg_matrix_pages *pages,
                             const kvg_matrix_party *reader, kvg_candidate *candidate, unsigned conversions,
                             kvg_tensor_set *flat)
{
    const kvg_scale_number told = conversions & KVG_CONVERT_NUMBER ? writer->engine->number : reader->engine->number;
    const float g[2] = {kvg_scale_of_number(told, pages->number[0]), kvg_scale_of_number(told, pages->number[1])};
    const kvg_engine *places = conversions & KVG_CONVERT_BYTES ? reader->engine : writer->engine;
    kvg_problem p, to;
    kvg_tensor_set pools = {0};
    kvg_status s = kvg_matrix_problem(w, reader->engine, KVG_OP_FLATTEN, &p);
    if (!s && reader->answer) return kvg_matrix_answer_flat(reader->answer, &p, flat);
    if (!s && conversions & (KVG_CONVERT_BYTES | KVG_CONVERT_ORDER)) {
        s = kvg_matrix_problem(w, places, KVG_OP_PROBE, &to);
        if (!s) s = convert_pages(w, writer->engine, reader->engine, pages, conversions, &to, &pools);
    }
    if (!s) s = flatten(w, reader->engine, candidate, &p, pools.count ? pools.tensors : pages->pools, g, flat);
    kvg_set_free(&pools);
    return s;
}

/* --- why --- */

/* Names what the reader, taking the bytes as they are, is to the writer: a right reader of the writer's own pages under
 * a row of harness/trial/wrong/defects.def, to the last bit; its K in another order besides. */
static kvg_status explain(const kvg_matrix_world *w, const kvg_matrix_party *writer, const kvg_matrix_pages *pages,
                          const kvg_matrix_party *reader, const kvg_tensor_set *got, kvg_matrix_cell *cell)
{
    const bool reordered = writer->engine->order != reader->engine->order;
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_case c = {0};
    kvg_tensor_set in = {0}, before = {0};
    kvg_truth t = {0};
    kvg_known_wrong known;
    kvg_status s = kvg_matrix_problem(w, writer->engine, KVG_OP_FLATTEN, &c.problem);
    if (!s) s = make_inputs(w, writer->engine, &c.problem, pages->g, pages->pools, &in);
    if (!s) s = alloc_flat(w, &c.problem, &before);
    kvg_question q = kvg_question_of(&c, &in, &before);
    if (!s) s = kvg_know(&q, &t);
    if (!s) s = kvg_known_wrong_try(&t, got, KVG_OFFER_NONE, NULL, &known);
    if (!s && reordered && kvg_set_same_bytes(got, &t.expected)) {
        snprintf(cell->defect, sizeof cell->defect, "rope_pairing");
    }
    for (size_t i = 0; !s && i < count && !cell->defect[0]; i++) {
        if (!known.explains[i]) continue;
        snprintf(cell->defect, sizeof cell->defect, "%s%s", defects[i].id, reordered ? " + rope_pairing" : "");
    }
    kvg_truth_free(&t);
    kvg_question_free(&q);
    return s;
}

/* --- the cell --- */

static bool same_sizes(const kvg_problem *a, const kvg_problem *b)
{
    if (a->paging.blocks != b->paging.blocks || a->paging.block_tokens != b->paging.block_tokens) return false;
    for (size_t i = 0; i < kvg_roles_tensors(pools_only); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(pools_only, i, &role, &side);
        if (kvg_problem_tensor(a, role, side).bytes != kvg_problem_tensor(b, role, side).bytes) return false;
    }
    return true;
}

/* Reads after `conversions` and judges; of the bytes as they are also says what a wrong reading comes from. */
static kvg_status try_conversions(const kvg_matrix_world *w, const kvg_matrix_party *writer,
                                  const kvg_matrix_pages *pages, const kvg_matrix_party *reader,
                                  kvg_candidate *candidate, unsigned conversions, kvg_matrix_cell *cell)
{
    kvg_tensor_set flat = {0};
    kvg_status s = read_after(w, writer, pages, reader, candidate, conversions, &flat);
    if (!s) {
        cell->conversions = conversions;
        cell->after = judge(w, writer->engine, pages->g, reader->engine, &flat);
        if (conversions == 0) cell->as_is = cell->after;
        if (conversions == 0 && !kvg_matrix_right(&cell->after)) s = explain(w, writer, pages, reader, &flat, cell);
    }
    kvg_set_free(&flat);
    return s;
}

void kvg_matrix_read(const kvg_matrix_world *w, const kvg_matrix_party *writer, const kvg_matrix_pages *pages,
                     const kvg_matrix_party *reader, kvg_candidate *candidate, kvg_matrix_cell *cell)
{
    /* the fewest first */
    static const unsigned sets[] = {0, 1, 2, 4, 3, 5, 6, 7};
    kvg_problem wrote, reads;
    *cell = (kvg_matrix_cell){.verdict = KVG_MATRIX_WRONG};
    kvg_status s = kvg_matrix_problem(w, writer->engine, KVG_OP_APPEND, &wrote);
    if (!s) s = kvg_matrix_problem(w, reader->engine, KVG_OP_FLATTEN, &reads);
    if (s) {
        cell->verdict = KVG_MATRIX_ABSENT;
        snprintf(cell->note, sizeof cell->note, "%.190s", kvg_error_text());
        return;
    }
    if (reader->answer && (writer->engine != reader->engine || writer->backend || writer->answer)) {
        cell->verdict = KVG_MATRIX_ABSENT; /* a file answers about the pages that it was given */
        snprintf(cell->note, sizeof cell->note, "a file reads the reference's pages of its own engine alone");
        return;
    }
    const unsigned possible = possible_conversions(writer->engine, reader->engine);
    cell->same_sizes = same_sizes(&wrote, &reads);
    for (size_t i = 0; !s && i < sizeof sets / sizeof sets[0] && cell->verdict == KVG_MATRIX_WRONG; i++) {
        if ((sets[i] & ~possible) || (!cell->same_sizes && !(sets[i] & KVG_CONVERT_BYTES))) continue;
        s = try_conversions(w, writer, pages, reader, candidate, sets[i], cell);
        if (!s && kvg_matrix_right(&cell->after)) cell->verdict = sets[i] ? KVG_MATRIX_CONVERTS : KVG_MATRIX_READS;
    }
    if (!s) return;
    cell->verdict = s == KVG_ERR_UNIMPLEMENTED ? KVG_MATRIX_ABSENT : KVG_MATRIX_FAILED;
    snprintf(cell->note, sizeof cell->note, "%.190s", kvg_error_text());
}

const char *kvg_conversion_name(kvg_conversion conversion)
{
    switch (conversion) {
    case KVG_CONVERT_BYTES: return "bytes";
    case KVG_CONVERT_ORDER: return "order";
    case KVG_CONVERT_NUMBER: return "number";
    }
    return "?";
}
