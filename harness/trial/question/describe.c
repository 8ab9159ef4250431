#include "harness/trial/question/describe.h"

#include <stdio.h>

/* The value of `width` bytes, little-endian. */
static uint32_t word_at(const kvg_tensor *t, size_t first, size_t width)
{
    uint32_t word = 0;
    for (size_t k = width; k-- > 0;) word = word << 8 | ((const uint8_t *)t->data)[first + k];
    return word;
}

/* "dim 17, byte 8", "block 3" or "parameter byte 1": what byte `byte` of a row's codes or scales is. */
static void describe_code(const kvg_problem *p, kvg_role role, kvg_side side, size_t byte, uint32_t changed, char *out,
                          size_t size)
{
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    if (role == KVG_ROLE_CODES) {
        const unsigned nibble = changed & 15 ? 0 : 1;
        snprintf(out, size, "dim %u, byte %zu", kvg_reference_code_dim(p, side, byte, nibble), byte);
    } else if (f->block) {
        snprintf(out, size, "block %zu", byte / f->block_scale_bytes);
    } else {
        snprintf(out, size, "parameter byte %zu", byte);
    }
}

/* The token of the case that owns a slot, in words; empty if none does. */
static void describe_owner(const kvg_question *d, uint32_t block, uint32_t offset, char *out, size_t size)
{
    const int64_t slot = (int64_t)block * d->c->problem.paging.block_tokens + offset;
    out[0] = 0;
    for (uint32_t i = 0; i < d->rows.tokens; i++) {
        if (d->slots[i] == slot) {
            snprintf(out, size, " (token %zu of the case)", d->source[i]);
            return;
        }
    }
    snprintf(out, size, " (no token of the case: must stay as it was)");
}

bool kvg_pool_byte_find(const kvg_problem *p, const kvg_row_map *m, uint64_t byte, kvg_pool_byte *at)
{
    const kvg_paging *g = &p->paging;
    for (uint64_t i = 0; i < (uint64_t)g->layers * g->blocks * p->kv_heads * g->block_tokens; i++) {
        const uint64_t row = i / g->block_tokens;
        *at = (kvg_pool_byte){(uint32_t)(row / p->kv_heads / g->blocks), (uint32_t)(row / p->kv_heads % g->blocks),
                          (uint32_t)(row % p->kv_heads), (uint32_t)(i % g->block_tokens), 0};
        for (; at->index < m->bytes; at->index++) {
            if (kvg_rows_place(m, at->layer, at->block, at->head, at->offset, at->index) == byte) return true;
        }
    }
    return false;
}

static void describe_pool_byte(const kvg_question *d, kvg_role pool, kvg_side pool_side, size_t byte, uint32_t changed,
                               char *out, size_t size)
{
    const kvg_problem *p = &d->c->problem;
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_row_map *maps[2] = {&map.codes[side], &map.scales[side]};
        for (int part = 0; part < 2; part++) {
            kvg_pool_byte at;
            char what[48], owner[64];
            if (maps[part]->pool != pool || maps[part]->side != pool_side || maps[part]->bytes == 0) continue;
            if (!kvg_pool_byte_find(p, maps[part], byte, &at)) continue;
            describe_code(p, part ? KVG_ROLE_SCALES : KVG_ROLE_CODES, (kvg_side)side, at.index, changed, what,
                          sizeof what);
            describe_owner(d, at.block, at.offset, owner, sizeof owner);
            snprintf(out, size, "%s%s of layer %u, block %u, offset %u%s, head %u, %s, pool byte %zu",
                     side == KVG_K ? "K" : "V", part ? " scales" : "", at.layer, at.block, at.offset,
                     at.layer == p->paging.layer ? owner : " (another layer)", at.head, what, byte);
            return;
        }
    }
    snprintf(out, size, "padding, pool byte %zu", byte);
}

/* Rows of values: [token, head, dim], [sequence, head, token, dim], or tiles. */
static void describe_value(const kvg_problem *p, kvg_role role, const kvg_tensor *t, size_t element, char *out,
                           size_t size)
{
    const size_t dims = (size_t)t->shape[t->rank - 1], row = element / dims, dim = element % dims;
    if (role == KVG_ROLE_FLAT || role == KVG_ROLE_FLAT_E4M3) {
        const size_t head = row / p->tokens;
        snprintf(out, size, "sequence %zu, token %zu, head %zu, dim %zu", head / p->kv_heads, row % p->tokens,
                 head % p->kv_heads, dim);
    } else if (role == KVG_ROLE_MMA_D) {
        snprintf(out, size, "tile %zu, row %zu, column %zu", row / KVG_MMA_M, row % KVG_MMA_M, dim);
    } else if (role == KVG_ROLE_LSE) {
        snprintf(out, size, "token %zu, head %zu", row, dim);
    } else {
        snprintf(out, size, "token %zu, head %zu, dim %zu", row / p->kv_heads, row % p->kv_heads, dim);
    }
}

void kvg_describe_byte(const kvg_question *d, size_t index, const kvg_tensor *expected, const kvg_tensor *got,
                       size_t byte, char *out, size_t size)
{
    const kvg_problem *p = &d->c->problem;
    kvg_role role;
    kvg_side side;
    kvg_roles_at(d->op->outputs, index, &role, &side);
    const bool values = expected->dtype != KVG_DTYPE_U8 || role == KVG_ROLE_FLAT_E4M3;
    const bool halves = role == KVG_ROLE_CODES && kvg_format_get(p->storage[side].format)->element_bits == 16;
    const size_t width = values ? kvg_dtype_bytes(expected->dtype) : halves ? 2 : 1, first = byte / width * width;
    const uint32_t want = word_at(expected, first, width), have = word_at(got, first, width);
    char place[200];
    if (values) {
        describe_value(p, role, expected, first / width, place, sizeof place);
    } else if (role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL) {
        describe_pool_byte(d, role, side, byte, want ^ have, place, sizeof place);
    } else {
        const size_t row_bytes = (size_t)expected->shape[2], row = first / row_bytes;
        char what[64];
        describe_code(p, role, side, first % row_bytes, want ^ have, what, sizeof what);
        snprintf(place, sizeof place, "token %zu, head %zu, %s", row / p->kv_heads, row % p->kv_heads, what);
    }
    snprintf(out, size, "%s: expected 0x%0*X, got 0x%0*X", place, (int)(2 * width), want, (int)(2 * width), have);
}
