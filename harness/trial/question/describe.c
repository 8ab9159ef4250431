#include "harness/trial/question/describe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* What an encoder made this byte of, in row `row` of the question's values: "; x 0.5 of a block from -2 to 1.75, g
 * 0.25". Empty if the op is no encoder, or its rows are not known. */
static void describe_source(const kvg_question *d, kvg_side side, size_t row, kvg_role role, size_t byte,
                            uint32_t changed, char *out, size_t size)
{
    const kvg_problem *p = &d->c->problem;
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    const kvg_tensor *values = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, side);
    const size_t row_bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    out[0] = 0;
    const bool known = values && (row + 1) * row_bytes <= values->bytes;
    if (kvg_roles_index(d->op->inputs, KVG_ROLE_VALUES, side) < 0 || !known) return;
    float x[KVG_MAX_HEAD_DIM];
    kvg_reference_load(p->dtype, (const uint8_t *)values->data + row * row_bytes, p->head_dim, x);
    const uint32_t block = f->block ? f->block : p->head_dim;
    const uint32_t dim = role == KVG_ROLE_CODES ? kvg_reference_code_dim(p, side, byte, changed & 15 ? 0 : 1)
                                                : (uint32_t)(f->block ? byte / f->block_scale_bytes * block : 0);
    float low = INFINITY, high = -INFINITY;
    for (uint32_t i = dim / block * block; i < dim / block * block + block; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    char element[32] = "", scale[32] = "", ends[64] = "of NaN alone";
    if (low <= high) snprintf(ends, sizeof ends, "from %.9g to %.9g", (double)low, (double)high);
    if (role == KVG_ROLE_CODES && isnan(x[dim])) snprintf(element, sizeof element, " x NaN of");
    else if (role == KVG_ROLE_CODES) snprintf(element, sizeof element, " x %.9g of", (double)x[dim]);
    if (f->tensor_scale) snprintf(scale, sizeof scale, ", g %.9g", (double)d->tensor_scale[side]);
    snprintf(out, size, ";%s a %s %s%s", element, f->block ? "block" : "row", ends, scale);
}

static const uint32_t NO_TOKEN = UINT32_MAX;

/* The live token of the case that owns a slot, or NO_TOKEN. */
static uint32_t owner_of(const kvg_question *d, uint32_t block, uint32_t offset)
{
    const int64_t slot = (int64_t)block * d->c->problem.paging.block_tokens + offset;
    for (uint32_t i = 0; i < d->rows.tokens; i++) {
        if (d->slots[i] == slot) return i;
    }
    return NO_TOKEN;
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
                               char *out, size_t size, char *source, size_t source_size)
{
    const kvg_problem *p = &d->c->problem;
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_row_map *maps[2] = {&map.codes[side], &map.scales[side]};
        for (int part = 0; part < 2; part++) {
            kvg_pool_byte at;
            char what[48], owner[64] = " (another layer)";
            if (maps[part]->pool != pool || maps[part]->side != pool_side || maps[part]->bytes == 0) continue;
            if (!kvg_pool_byte_find(p, maps[part], byte, &at)) continue;
            const kvg_role role = part ? KVG_ROLE_SCALES : KVG_ROLE_CODES;
            const uint32_t token = owner_of(d, at.block, at.offset);
            describe_code(p, role, (kvg_side)side, at.index, changed, what, sizeof what);
            if (at.layer == p->paging.layer && token == NO_TOKEN) {
                snprintf(owner, sizeof owner, " (no token of the case: must stay as it was)");
            } else if (at.layer == p->paging.layer) {
                snprintf(owner, sizeof owner, " (token %zu of the case)", d->source[token]);
                describe_source(d, (kvg_side)side, (size_t)token * p->kv_heads + at.head, role, at.index, changed,
                                source, source_size);
            }
            snprintf(out, size, "%s%s of layer %u, block %u, offset %u%s, head %u, %s, pool byte %zu",
                     side == KVG_K ? "K" : "V", part ? " scales" : "", at.layer, at.block, at.offset, owner, at.head,
                     what, byte);
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
    char place[200], source[112] = "";
    if (values) {
        describe_value(p, role, expected, first / width, place, sizeof place);
    } else if (role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL) {
        describe_pool_byte(d, role, side, byte, want ^ have, place, sizeof place, source, sizeof source);
    } else {
        const size_t row_bytes = (size_t)expected->shape[2], row = first / row_bytes;
        char what[64];
        describe_code(p, role, side, first % row_bytes, want ^ have, what, sizeof what);
        snprintf(place, sizeof place, "token %zu, head %zu, %s", row / p->kv_heads, row % p->kv_heads, what);
        describe_source(d, side, row, role, first % row_bytes, want ^ have, source, sizeof source);
    }
    snprintf(out, size, "%s: expected 0x%0*X, got 0x%0*X%s", place, (int)(2 * width), want, (int)(2 * width), have,
             source);
}

void kvg_describe_add(char *out, size_t size, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, size - used, format, args);
    va_end(args);
}
