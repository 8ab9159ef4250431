/* Attention that is right, and whose bits depend on company: for `kvgold invariance`. KVGOLD_COMPANY names a row below;
 * without it nothing matters. The kernel has tiles of 128 keys, from the first to the last. Where the row says so, it
 * has tiles of 96, from the last to the first: then the bits of rows with more than 96 keys are others. */
#include <stdlib.h>
#include <string.h>

#include "core/plugin.h"
#include "harness/trial/wrong/flash.h"
#include "reference/reference.h"
#include "support/tensor_set.h"

/* What a call looks like to one of its requests. */
typedef struct call {
    uint32_t requests, at, width, blocks;
    const int32_t *lengths, *rows, *table;
    const kvg_tensor *pool;
} call;

static unsigned calls;

/* One for each axis but chunks, which vary where queries do. */
static bool is_batch(const call *c) { return c->requests > 2; }
static bool is_queries(const call *c) { return c->rows[c->at] > 8; }
static bool is_place(const call *c) { return c->at % 2; }
static bool is_pages(const call *c) { return (uint32_t)c->table[c->at * c->width] < c->blocks / 2; }

/* Scratch that is not cleared. */
static bool is_repeat(const call *c)
{
    (void)c;
    return calls % 2;
}

/* The next request that has query tokens is short. */
static bool is_neighbours(const call *c)
{
    uint32_t next = c->at;
    do next = (next + 1) % c->requests;
    while (c->rows[next] == 0);
    return c->lengths[next] < 70;
}

static bool is_prefix(const call *c)
{
    for (uint32_t i = 0; i < c->requests; i++) {
        if (i != c->at && c->rows[i] && c->table[i * c->width] == c->table[c->at * c->width]) return true;
    }
    return false;
}

static bool is_unowned(const call *c)
{
    size_t zeros = 0;
    for (size_t i = 0; i < c->pool->bytes; i++) zeros += ((const uint8_t *)c->pool->data)[i] == 0;
    return zeros > c->pool->bytes / 4;
}

static const struct {
    const char *name;
    bool (*tiles_of_96)(const call *c);
} rows[] = {
    {"batch", is_batch}, {"queries", is_queries}, {"place", is_place}, {"pages", is_pages},
    {"repeat", is_repeat}, {"neighbours", is_neighbours}, {"prefix", is_prefix}, {"unowned", is_unowned},
};

static bool matters(const char *name, const call *c)
{
    for (size_t i = 0; name && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(name, rows[i].name) == 0) return rows[i].tiles_of_96(c);
    }
    return false;
}

static kvg_status run_tiles(const kvg_problem *p, const kvg_tensor *in, uint32_t tile, kvg_tensor *out)
{
    kvg_flash how;
    kvg_flash_init(p, KVG_FLASH_RIGHT, &how);
    how.tile = tile;
    how.splits = 1;
    how.backward = tile == 96;
    return kvg_flash_run(p, in, &how, out);
}

static const void *data(const kvg_tensor *in, kvg_role role)
{
    return in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, KVG_K)].data;
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const kvg_role *roles = kvg_op_get(p->op)->inputs;
    const kvg_tensor *table = &in[kvg_roles_index(roles, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    call c = {.requests = p->paging.sequences, .width = (uint32_t)table->shape[1], .blocks = p->paging.blocks,
              .lengths = data(in, KVG_ROLE_LENGTHS), .rows = data(in, KVG_ROLE_QUERY_LENGTHS), .table = table->data,
              .pool = &in[kvg_roles_index(roles, KVG_ROLE_DATA_POOL, KVG_K)]};
    kvg_tensor_set other = {0};
    (void)stream;
    kvg_status s = kvg_set_alloc(p, kvg_op_get(p->op)->outputs, &other);
    if (!s) s = run_tiles(p, in, 128, out);
    if (!s) s = run_tiles(p, in, 96, other.tensors);
    for (size_t first = 0; !s && c.at < c.requests; first += (size_t)c.rows[c.at++]) {
        if (!matters(getenv("KVGOLD_COMPANY"), &c)) continue;
        for (size_t i = 0; i < other.count; i++) {
            const size_t bytes = out[i].bytes / p->attention.queries;
            memcpy((uint8_t *)out[i].data + first * bytes, (const uint8_t *)other.tensors[i].data + first * bytes,
                   (size_t)c.rows[c.at] * bytes);
        }
    }
    calls++;
    kvg_set_free(&other);
    return s;
}

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static const kvg_impl impls[] = {{"company_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run}};
    static const kvg_backend backend = {
        .abi = KVG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .name = "company",
        .impls = impls,
        .impl_count = 1,
        .error_text = kvg_error_text,
        .problem_size = sizeof(kvg_problem),
    };
    return &backend;
}
