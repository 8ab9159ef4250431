#include "harness/trial/question/places.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS = 4 };
static const char *const part_names[PARTS] = {"K codes", "K scales", "V codes", "V scales"};

static void role_of(const kvg_places *l, size_t index, kvg_role *role, kvg_side *side)
{
    kvg_roles_at(l->data->op->outputs, index, role, side);
}

static bool is_pool(kvg_role role)
{
    return role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL;
}

static bool is_flat(kvg_role role)
{
    return role == KVG_ROLE_FLAT || role == KVG_ROLE_FLAT_E4M3;
}

/* --- pools --- */

static void enter_map(const kvg_problem *p, const kvg_row_map *m, uint8_t part, kvg_pool_place *pool)
{
    const kvg_paging *g = &p->paging;
    const uint64_t rows = (uint64_t)g->layers * g->blocks * p->kv_heads * g->block_tokens;
    for (uint64_t row = 0; row < rows; row++) {
        const uint64_t above = row / g->block_tokens;
        for (uint32_t i = 0; i < m->bytes; i++) {
            const uint64_t byte = kvg_rows_place(m, (uint32_t)(above / p->kv_heads / g->blocks),
                                                      (uint32_t)(above / p->kv_heads % g->blocks),
                                                      (uint32_t)(above % p->kv_heads),
                                                      (uint32_t)(row % g->block_tokens), i);
            pool[byte] = (kvg_pool_place){(uint32_t)row, (uint16_t)i, part};
        }
    }
}

static kvg_status open_pools(kvg_places *l)
{
    const kvg_problem *p = &l->data->c->problem;
    kvg_layout_map map;
    if (p->op != KVG_OP_APPEND) return KVG_OK; /* no other op gives pools */
    kvg_rows_map(p, &map);
    const kvg_row_map *maps[PARTS] = {&map.codes[KVG_K], &map.scales[KVG_K], &map.codes[KVG_V], &map.scales[KVG_V]};
    for (size_t i = 0; i < l->outputs; i++) {
        kvg_role role;
        kvg_side side;
        role_of(l, i, &role, &side);
        const size_t bytes = l->data->before.tensors[i].bytes;
        if (bytes == 0) continue;
        l->pool[i] = malloc(bytes * sizeof *l->pool[i]);
        if (!l->pool[i]) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the places of %zu bytes", bytes);
        for (size_t b = 0; b < bytes; b++) l->pool[i][b] = (kvg_pool_place){.row = KVG_NO_PLACE};
        for (uint8_t part = 0; part < PARTS; part++) {
            if (maps[part]->bytes && maps[part]->pool == role && maps[part]->side == side)
                enter_map(p, maps[part], part, l->pool[i]);
        }
    }
    return KVG_OK;
}

static kvg_status open_tokens(kvg_places *l)
{
    const kvg_problem *p = &l->data->c->problem;
    const size_t slots = (size_t)p->paging.blocks * p->paging.block_tokens;
    if (p->op != KVG_OP_APPEND) return KVG_OK;
    l->token = malloc(slots * sizeof *l->token);
    if (!l->token) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu slots", slots);
    memset(l->token, 0xFF, slots * sizeof *l->token);
    for (uint32_t i = 0; i < l->data->rows.tokens; i++) l->token[l->data->slots[i]] = (uint32_t)l->data->source[i];
    return KVG_OK;
}

kvg_status kvg_places_open(const kvg_question *data, kvg_places *out)
{
    *out = (kvg_places){.data = data, .outputs = kvg_roles_tensors(data->op->outputs)};
    kvg_status s = open_pools(out);
    if (!s) s = open_tokens(out);
    if (s) kvg_places_close(out);
    return s;
}

void kvg_places_close(kvg_places *l)
{
    for (size_t i = 0; i < l->outputs; i++) free(l->pool[i]);
    free(l->token);
    *l = (kvg_places){0};
}

/* --- axes --- */

size_t kvg_places_unit(const kvg_places *l, size_t index)
{
    kvg_role role;
    kvg_side side;
    role_of(l, index, &role, &side);
    return kvg_dtype_bytes(kvg_problem_tensor(&l->data->c->problem, role, side).dtype);
}

static size_t pool_axes(const kvg_places *l, kvg_axis *axes)
{
    const kvg_problem *p = &l->data->c->problem;
    uint32_t most = 1;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint32_t codes = (uint32_t)kvg_format_code_bytes(p->storage[side].format, p->head_dim);
        const uint32_t scales = (uint32_t)kvg_format_scale_bytes(p->storage[side].format, p->head_dim);
        most = codes > most ? codes : most;
        most = scales > most ? scales : most;
    }
    axes[0] = (kvg_axis){"part", "parts", PARTS};
    axes[1] = (kvg_axis){"layer", "layers", p->paging.layers};
    axes[2] = (kvg_axis){"block", "blocks", p->paging.blocks};
    axes[3] = (kvg_axis){"offset", "offsets", p->paging.block_tokens};
    axes[4] = (kvg_axis){"token", "tokens", p->tokens};
    axes[5] = (kvg_axis){"head", "heads", p->kv_heads};
    axes[6] = (kvg_axis){"byte of the row", "bytes of a row", most};
    return 7;
}

/* Elements of an output's row, of which the last axis counts. */
static uint32_t row_elements(kvg_role role, const kvg_tensor *t)
{
    return role == KVG_ROLE_LSE ? 1 : (uint32_t)t->shape[t->rank - 1];
}

size_t kvg_places_axes(const kvg_places *l, size_t index, kvg_axis axes[KVG_MAX_AXES])
{
    const kvg_problem *p = &l->data->c->problem;
    kvg_role role;
    kvg_side side;
    role_of(l, index, &role, &side);
    const kvg_tensor t = kvg_problem_tensor(p, role, side);
    const uint32_t last = row_elements(role, &t);
    if (is_pool(role)) return pool_axes(l, axes);
    if (role == KVG_ROLE_MMA_D) {
        axes[0] = (kvg_axis){"tile", "tiles", p->tokens};
        axes[1] = (kvg_axis){"row", "rows", KVG_MMA_M};
        axes[2] = (kvg_axis){"column", "columns", KVG_MMA_N};
        return 3;
    }
    if (l->data->queries) {
        axes[0] = (kvg_axis){"sequence", "sequences", p->paging.sequences};
        axes[1] = (kvg_axis){"query", "queries", l->data->c->queries};
        axes[2] = (kvg_axis){"head", "heads", p->attention.query_heads};
        axes[3] = (kvg_axis){"KV head", "KV heads", p->kv_heads};
        axes[4] = (kvg_axis){"dim", "dims", last};
        return role == KVG_ROLE_OUT ? 5 : 4;
    }
    size_t n = 0;
    if (is_flat(role)) axes[n++] = (kvg_axis){"sequence", "sequences", p->paging.sequences};
    axes[n++] = (kvg_axis){"token", "tokens", p->tokens};
    axes[n++] = (kvg_axis){"head", "heads", p->kv_heads};
    if (role == KVG_ROLE_CODES) axes[n++] = (kvg_axis){"byte of the row", "bytes of a row", last};
    else if (role == KVG_ROLE_SCALES) axes[n++] = (kvg_axis){"scale byte", "scale bytes", last};
    else axes[n++] = (kvg_axis){"dim", "dims", last};
    return n;
}

static void pool_at(const kvg_places *l, size_t index, size_t unit, uint32_t *at)
{
    const kvg_problem *p = &l->data->c->problem;
    const kvg_pool_place *place = &l->pool[index][unit];
    for (int i = 0; i < 7; i++) at[i] = KVG_NO_PLACE;
    if (place->row == KVG_NO_PLACE) return;
    const uint32_t B = p->paging.block_tokens, above = place->row / B;
    at[0] = place->part;
    at[1] = above / p->kv_heads / p->paging.blocks;
    at[2] = above / p->kv_heads % p->paging.blocks;
    at[3] = place->row % B;
    at[4] = at[1] == p->paging.layer ? l->token[(size_t)at[2] * B + at[3]] : KVG_NO_PLACE;
    at[5] = above % p->kv_heads;
    at[6] = place->index;
}

void kvg_places_at(const kvg_places *l, size_t index, size_t unit, uint32_t at[KVG_MAX_AXES])
{
    const kvg_problem *p = &l->data->c->problem;
    kvg_role role;
    kvg_side side;
    role_of(l, index, &role, &side);
    const kvg_tensor t = kvg_problem_tensor(p, role, side);
    const size_t last = row_elements(role, &t), row = unit / last;
    if (is_pool(role)) {
        pool_at(l, index, unit, at);
    } else if (role == KVG_ROLE_MMA_D) {
        at[0] = (uint32_t)(row / KVG_MMA_M);
        at[1] = (uint32_t)(row % KVG_MMA_M);
        at[2] = (uint32_t)(unit % last);
    } else if (l->data->queries) {
        const size_t heads = p->attention.query_heads;
        const kvg_query_row *q = &l->data->queries[row / heads];
        at[0] = q->sequence;
        at[1] = q->number;
        at[2] = (uint32_t)(row % heads);
        at[3] = (uint32_t)(row % heads / (heads / p->kv_heads));
        at[4] = (uint32_t)(unit % last);
    } else if (is_flat(role)) {
        at[0] = (uint32_t)(row / p->tokens / p->kv_heads);
        at[1] = (uint32_t)(row % p->tokens);
        at[2] = (uint32_t)(row / p->tokens % p->kv_heads);
        at[3] = (uint32_t)(unit % last);
    } else {
        at[0] = (uint32_t)(row / p->kv_heads);
        at[1] = (uint32_t)(row % p->kv_heads);
        at[2] = (uint32_t)(unit % last);
    }
}

unsigned kvg_places_group(const kvg_places *l, size_t index, size_t unit)
{
    if (!l->pool[index]) return (unsigned)index;
    const kvg_pool_place *place = &l->pool[index][unit];
    return (unsigned)index * (PARTS + 1) + (place->row == KVG_NO_PLACE ? (unsigned)PARTS : place->part);
}

bool kvg_places_in_tail(const kvg_places *l, size_t index, size_t unit)
{
    const kvg_problem *p = &l->data->c->problem;
    kvg_role role;
    kvg_side side;
    uint32_t at[KVG_MAX_AXES];
    role_of(l, index, &role, &side);
    if (!is_flat(role)) return false;
    const int32_t *lengths = kvg_set_tensor(&l->data->in, KVG_ROLE_LENGTHS, KVG_K)->data;
    kvg_places_at(l, index, unit, at);
    const uint32_t length = (uint32_t)lengths[at[0]], B = p->paging.block_tokens;
    return length > B && at[1] / B == (length - 1) / B;
}

const char *kvg_places_part(unsigned part)
{
    return part_names[part];
}
