/* Judging what an op left on a device, by samples. What is compared is compared as bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/device_slice.h"
#include "harness/trial/judge/differences.h"

enum {
    RUNS = 5,              /* of tokens */
    MOST_SAMPLES = 12,     /* pairs of sequence and KV head */
    MOST_QUERIES = 8,      /* query tokens of a pair */
    WORK = 1 << 19,        /* rows x tokens of a case of op decode that the reference does again */
};

/* Compares `bytes` bytes on the device with those that should be there. */
static kvg_status compare(const kvg_device_case *d, const void *device, const uint8_t *want, size_t bytes,
                          const char *what, kvg_result *r)
{
    uint8_t *got = malloc(bytes);
    if (!got) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu bytes", bytes);
    kvg_status s = d->device->download(got, device, bytes);
    const kvg_difference off = s ? (kvg_difference){0} : kvg_differ_bytes(want, got, bytes);
    if (off.wrong) {
        kvg_result_fail(r, "%s: %zu of %zu bytes differ, first byte %zu is 0x%02X instead of 0x%02X", what, off.wrong,
                        bytes, off.first, got[off.first], want[off.first]);
    }
    r->bytes.compared += bytes;
    r->bytes.mismatched += off.wrong;
    free(got);
    return s;
}

/* --- rows of a cache --- */

/* One kind of bytes of one side: in a pool on the device, and as they should be, in a slice. */
typedef struct row_check {
    const kvg_device_case *d;
    const kvg_row_map *map, *small;
    const uint8_t *pool, *expected;
    const char *what;
    kvg_result *r;
} row_check;

/* The rows of one head in one block from offset `from` on, which the slice has from its token `token` on. */
static kvg_status compare_rows(const row_check *c, kvg_device_place from, uint32_t count, uint32_t head, uint32_t token)
{
    const kvg_row_map *map = c->map;
    const uint32_t layer = c->d->problem.paging.layer;
    const uint64_t begin = kvg_rows_place(map, layer, from.block, head, from.offset, 0);
    const uint64_t last = kvg_rows_place(map, layer, from.block, head, from.offset + count - 1, 0);
    const size_t bytes = last - begin + map->bytes;
    uint8_t *got = malloc(bytes);
    if (!got) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu bytes", bytes);
    kvg_status s = c->d->device->download(got, c->pool + begin, bytes);
    for (uint32_t i = 0; i < count && !s; i++) {
        const uint8_t *have = got + (kvg_rows_place(map, layer, from.block, head, from.offset + i, 0) - begin);
        const uint8_t *want = c->expected + kvg_rows_place(c->small, 0, 0, head, token + i, 0);
        c->r->bytes.compared += map->bytes;
        if (memcmp(have, want, map->bytes) == 0) continue;
        c->r->bytes.mismatched += map->bytes;
        kvg_result_fail(c->r, "%s: block %u, offset %u, head %u differs", c->what, from.block, from.offset + i, head);
    }
    free(got);
    return s;
}

/* The tokens of a slice, which are positions from `position` on. */
static kvg_status compare_kind(const row_check *c, uint32_t sequence, uint32_t position, uint32_t tokens)
{
    const uint32_t B = c->d->problem.paging.block_tokens;
    kvg_status s = KVG_OK;
    for (uint32_t i = 0, count; i < tokens && !s; i += count) {
        const kvg_device_place from = kvg_device_case_place(c->d, sequence, position + i);
        count = B - from.offset < tokens - i ? B - from.offset : tokens - i;
        for (uint32_t head = 0; head < c->d->problem.kv_heads && !s; head++) s = compare_rows(c, from, count, head, i);
    }
    return s;
}

/* Op append: what it stored. Else the cache is an input, and must still be what it was filled with. */
static kvg_status compare_cache(const kvg_device_case *d, const kvg_device_slice *slice, uint32_t sequence,
                                uint32_t position, kvg_result *r)
{
    const bool appends = d->problem.op == KVG_OP_APPEND;
    const kvg_tensor_set *small = appends ? &slice->out : &slice->in;
    const kvg_tensor *large = appends ? d->out : d->in;
    const kvg_role *roles = appends ? d->op->outputs : d->op->inputs;
    kvg_status s = KVG_OK;
    for (int i = 0; i < 2 * kvg_problem_sides(&d->problem) && !s; i++) {
        const int side = i / 2;
        const kvg_row_map *map = i % 2 ? &d->map.scales[side] : &d->map.codes[side];
        const kvg_row_map *other = i % 2 ? &slice->map.scales[side] : &slice->map.codes[side];
        if (map->bytes == 0) continue;
        const row_check check = {
            .d = d, .map = map, .small = other, .r = r,
            .pool = large[kvg_roles_index(roles, map->pool, map->side)].data,
            .expected = kvg_set_tensor(small, other->pool, other->side)->data,
            .what = appends ? kvg_tensor_name(map->pool, (kvg_side)side)
                            : "the cache was written, though an input, or its fill is not the recipe",
        };
        s = compare_kind(&check, sequence, position, slice->problem.tokens);
    }
    return s;
}

/* Op flatten, expand: [sequence, head, token, dim]. */
static kvg_status compare_flat(const kvg_device_case *d, const kvg_device_slice *slice, uint32_t sequence,
                               uint32_t position, kvg_result *r)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < slice->out.count; i++) {
        const kvg_tensor *want = &slice->out.tensors[i];
        const size_t head_bytes = want->bytes / d->problem.kv_heads, row = head_bytes / slice->problem.tokens;
        for (uint32_t head = 0; head < d->problem.kv_heads && want->bytes && !s; head++) {
            const size_t line = (size_t)sequence * d->problem.kv_heads + head;
            s = compare(d, (const uint8_t *)d->out[i].data + (line * d->problem.tokens + position) * row,
                        (const uint8_t *)want->data + head * head_bytes, head_bytes, kvg_set_name(&slice->out, i), r);
        }
    }
    return s;
}

/* Runs of tokens from the start of the first sequence to the end of the last. */
static kvg_status judge_runs(const kvg_device_case *d, kvg_result *r)
{
    const kvg_problem *p = &d->problem;
    const uint32_t last = p->paging.sequences - 1;
    const uint32_t tokens = kvg_op_reads_sequences(p->op) ? p->tokens : p->tokens / p->paging.sequences;
    const uint32_t end = tokens > KVG_DEVICE_RUN ? tokens - KVG_DEVICE_RUN : 0;
    kvg_status s = KVG_OK;
    for (uint32_t i = 0; i < RUNS && !s; i++) {
        kvg_device_slice slice = {0};
        const uint32_t sequence = (uint32_t)((uint64_t)last * i / (RUNS - 1));
        const uint32_t position = (uint32_t)((uint64_t)end * i / (RUNS - 1));
        if (p->op == KVG_OP_APPEND) s = kvg_device_slice_append(d, sequence, position, &slice);
        else s = kvg_device_slice_flat(d, sequence, position, &slice);
        if (!s) s = compare_cache(d, &slice, sequence, position, r);
        if (!s && p->op != KVG_OP_DECODE && p->op != KVG_OP_APPEND) s = compare_flat(d, &slice, sequence, position, r);
        kvg_device_slice_free(&slice);
    }
    return s;
}

/* --- op decode --- */

static bool has_nan(const kvg_tensor *t)
{
    for (size_t i = 0; i < t->bytes / kvg_dtype_bytes(t->dtype); i++) {
        if (isnan(kvg_number_at(t->dtype, t->data, i))) return true;
    }
    return false;
}

/* [query, head, dim] of both, dim 1 of lse. */
static kvg_status judge_sample(const kvg_device_case *d, const kvg_device_rows *rows, kvg_result *r)
{
    const kvg_attention *a = &d->problem.attention;
    const uint32_t head = rows->kv_head * (a->query_heads / d->problem.kv_heads) + rows->head;
    const size_t before = kvg_device_case_rows_before(d, rows->sequence) + rows->query;
    kvg_device_slice slice = {0};
    kvg_status s = kvg_device_slice_decode(d, rows, &slice);
    for (size_t i = 0; i < slice.out.count && !s; i++) {
        const kvg_tensor *want = &slice.out.tensors[i];
        const size_t bytes = want->bytes / rows->queries;
        char what[96];
        if (has_nan(want)) s = kvg_fail(KVG_ERR_INVALID, "the reference's answer holds a NaN: the fill is of no use");
        snprintf(what, sizeof what, "%s of sequence %u, query heads %u to %u", kvg_set_name(&slice.out, i),
                 rows->sequence, head, head + rows->heads - 1);
        for (uint32_t n = 0; n < rows->queries && !s; n++) {
            const size_t row = (before + n) * a->query_heads + head;
            s = compare(d, (const uint8_t *)d->out[i].data + row * (bytes / rows->heads),
                        (const uint8_t *)want->data + n * bytes, bytes, what, r);
        }
    }
    kvg_device_slice_free(&slice);
    return s;
}

/* As many pairs of sequence and KV head, with as many query heads of the group, as WORK allows: the first of all, the
 * last of all, and some between; of each up to MOST_QUERIES query tokens, from the first ones to the last ones. */
static kvg_status judge_decode(const kvg_device_case *d, kvg_result *r)
{
    const kvg_problem *p = &d->problem;
    const uint32_t group = p->attention.query_heads / p->kv_heads, window = p->attention.window;
    const uint32_t keys = window && window < p->tokens ? window : p->tokens;
    const uint32_t most = WORK / keys < 2 ? 2 : WORK / keys;
    const uint32_t heads = most / 2 < group ? most / 2 : group;
    const uint32_t samples = most / heads < MOST_SAMPLES ? most / heads : MOST_SAMPLES;
    kvg_status s = KVG_OK;
    for (uint32_t i = 0; i < samples && !s; i++) {
        const uint32_t sequence = (p->paging.sequences - 1) * i / (samples - 1);
        const uint32_t all = kvg_case_queries(d->c, sequence), queries = all < MOST_QUERIES ? all : MOST_QUERIES;
        const kvg_device_rows rows = {.sequence = sequence,
                                      .kv_head = (p->kv_heads - 1) * i / (samples - 1),
                                      .head = (group - heads) * i / (samples - 1),
                                      .heads = heads,
                                      .query = (uint32_t)((uint64_t)(all - queries) * i / (samples - 1)),
                                      .queries = queries};
        if (queries) s = judge_sample(d, &rows, r);
    }
    return s;
}

kvg_status kvg_device_judge(const kvg_device_case *d, kvg_result *r)
{
    kvg_status s = d->problem.op == KVG_OP_DECODE ? judge_decode(d, r) : KVG_OK;
    return s ? s : judge_runs(d, r);
}
