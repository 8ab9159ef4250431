#include "paging/pool/pool_guest_bytes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "core/bits.h"
#include "core/layout_text.h"
#include "core/rng.h"

enum { HEADS = 2, DIM = 64, POOLS = 4 };

/* Who wrote last in a slot of a block. */
typedef struct writer {
    uint64_t operation, sequence, content; /* operation 0: nobody did */
    uint32_t token;
} writer;

/* Pools of K and V: data of both, then scales of both, which ops take side by side. */
typedef struct pools {
    uint8_t *bytes[POOLS];
} pools;

/* An op on pools of one geometry. Of each call only the number of tokens and sequences is another. */
typedef struct asked {
    kvg_problem problem;
    const kvg_impl *impl;
} asked;

typedef struct ops {
    asked append, flatten;
} ops;

struct pool_guest_bytes {
    const kvg_backend *backend;
    const kvg_manager_pool *pool;
    kvg_layout_text text;
    ops of[KVG_GUEST_GROUPS], alone; /* `alone`: of a token by itself */
    pools shared, own;
    uint64_t page[POOLS]; /* bytes of a block */
    uint32_t slots;       /* of a block, at most */
    writer *writers;      /* by block and slot */
    uint8_t *groups;      /* by block: which group wrote in it last */
    uint16_t *rows[2];    /* of K and V: what append is given */
    uint16_t *flat[2];    /* what flatten gives */
    int64_t *places;
    int32_t *table, *lengths;
};

/* --- contents --- */

/* What stands for a token behind the tokens before it, so that equal prefixes have equal contents. */
static uint64_t content_behind(uint64_t before, int32_t token)
{
    return kvg_rng_u64(before, 0, (uint32_t)token);
}

/* A number of a token's K or V in bf16: -7 to 7, times a power of two that is drawn for each head and token, so that
 * scales differ, too. Such numbers are exact in bf16, which is the upper half of an f32. */
static uint16_t number_at(uint64_t content, uint32_t side, uint32_t head, uint32_t dim)
{
    const int steps = (int)kvg_rng_below(content, 1 + side, head * DIM + dim, 15) - 7;
    const uint64_t power = kvg_rng_below(content, 3, side * HEADS + head, 6);
    return (uint16_t)(kvg_bits_of_f32((float)(steps * (1 << power)) / 64) >> 16);
}

/* Contents of tokens 0 to count - 1: each group of layers has its own. */
static void list_contents(const pool_guest_sequence *q, uint32_t group, uint32_t count, uint64_t *out)
{
    uint64_t before = kvg_rng_u64(q->salt, 4, group);
    for (uint32_t i = 0; i < count; i++) out[i] = before = content_behind(before, q->tokens[i]);
}

static void fill_rows(pool_guest_bytes *b, const uint64_t *contents, uint32_t count)
{
    for (uint32_t side = 0; side < 2; side++) {
        uint16_t *at = b->rows[side];
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < HEADS * DIM; k++) *at++ = number_at(contents[i], side, k / DIM, k % DIM);
        }
    }
}

/* --- asking --- */

static void fill_tensors(const kvg_problem *p, const kvg_role *roles, void *const memory[KVG_ROLE_END][2],
                         kvg_tensor *out)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        out[i] = kvg_problem_tensor(p, role, side);
        out[i].data = memory[role][side];
    }
}

/* Runs op append or flatten over pools, on the struct's rows, places, table and lengths. */
static kvg_status run(pool_guest_bytes *b, asked *a, const pools *at)
{
    float tensor_scale = 0.5f;
    void *const memory[KVG_ROLE_END][2] = {
        [KVG_ROLE_VALUES] = {b->rows[KVG_K], b->rows[KVG_V]},
        [KVG_ROLE_TENSOR_SCALE] = {&tensor_scale, &tensor_scale},
        [KVG_ROLE_SLOTS] = {b->places},
        [KVG_ROLE_DATA_POOL] = {at->bytes[0], at->bytes[1]},
        [KVG_ROLE_SCALE_POOL] = {at->bytes[2], at->bytes[3]},
        [KVG_ROLE_BLOCK_TABLE] = {b->table},
        [KVG_ROLE_LENGTHS] = {b->lengths},
        [KVG_ROLE_FLAT] = {b->flat[KVG_K], b->flat[KVG_V]},
    };
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    const kvg_op_info *info = kvg_op_get(a->problem.op);
    fill_tensors(&a->problem, info->inputs, memory, in);
    fill_tensors(&a->problem, info->outputs, memory, out);
    const kvg_status s = a->impl->run(&a->problem, in, out, NULL);
    if (!s) return KVG_OK;
    const char *text = b->backend->error_text ? b->backend->error_text() : NULL;
    char copy[120]; /* the text may be this program's own, which kvg_fail writes over */
    snprintf(copy, sizeof copy, "%s", text ? text : "no text");
    return kvg_fail(s, "%s fails: %s: %s", a->impl->name, kvg_status_name(s), copy);
}

static kvg_status append(pool_guest_bytes *b, ops *of, const pools *at, uint32_t count)
{
    of->append.problem.tokens = count;
    return run(b, &of->append, at);
}

/* What flatten does not write stays 0xFF, which no token reads: a NaN. */
static kvg_status flatten(pool_guest_bytes *b, ops *of, const pools *at, uint32_t sequences, uint32_t length)
{
    of->flatten.problem.tokens = length;
    of->flatten.problem.paging.sequences = sequences;
    for (uint32_t i = 0; i < sequences; i++) b->lengths[i] = (int32_t)length;
    for (int side = 0; side < 2; side++)
        memset(b->flat[side], 0xFF, (size_t)sequences * length * HEADS * DIM * sizeof *b->flat[side]);
    return run(b, &of->flatten, at);
}

/* What tokens of the sequence read alone, up to `to`: of those that are not known yet. Each is written into a block of
 * its own, and read as a sequence of its own. */
static kvg_status learn(pool_guest_bytes *b, pool_guest_sequence *q, uint32_t group, uint32_t to)
{
    enum { ROW = HEADS * DIM };
    pool_guest_part *part = &q->parts[group];
    const uint32_t from = part->learned, count = to - from;
    if (to <= from) return KVG_OK; /* a sequence that comes again has fewer written */
    part->contents = realloc(part->contents, to * sizeof *part->contents);
    part->alone = realloc(part->alone, (size_t)to * 2 * ROW * sizeof *part->alone);
    if (!part->contents || !part->alone) return kvg_fail(KVG_ERR_MEMORY, "no memory for %" PRIu32 " tokens", to);
    list_contents(q, group, to, part->contents);
    fill_rows(b, part->contents + from, count);
    for (uint32_t i = 0; i < count; i++) {
        b->places[i] = (int64_t)i * b->alone.append.problem.paging.block_tokens;
        b->table[i] = (int32_t)i;
    }
    kvg_status s = append(b, &b->alone, &b->own, count);
    if (!s) s = flatten(b, &b->alone, &b->own, count, 1);
    if (s) return s;
    uint16_t *at = part->alone + (size_t)from * 2 * ROW;
    for (uint32_t i = 2 * from; i < 2 * to; i++, at += ROW) {
        memcpy(at, b->flat[i % 2] + (size_t)(i / 2 - from) * ROW, ROW * sizeof *at);
        if (i >= 2 && memcmp(at, at - 2 * ROW, ROW * sizeof *at) == 0)
            return kvg_fail(KVG_ERR_INVALID, "append and flatten give two tokens the same %s, though their numbers "
                            "differ", i % 2 ? "V" : "K");
    }
    part->learned = to;
    return KVG_OK;
}

/* Whether the blocks that hold tokens `from` to `to` - 1 are blocks of the pool; else a rule of the log is broken. */
static bool has_blocks(const pool_guest_bytes *b, const pool_guest_sequence *q, uint32_t group, uint32_t from,
                       uint32_t to)
{
    const uint32_t size = b->pool->groups[group].block_tokens;
    for (uint32_t i = from / size; i * size < to; i++) {
        if (q->parts[group].table[i] >= b->pool->blocks) return false;
    }
    return true;
}

static writer *writer_at(pool_guest_bytes *b, const pool_guest_sequence *q, uint32_t group, uint32_t token)
{
    const uint32_t size = b->pool->groups[group].block_tokens;
    return &b->writers[(size_t)q->parts[group].table[token / size] * b->slots + token % size];
}

/* Slots of a group lie elsewhere in a block than those of another one: its first token may have overwritten any. */
static void enter_block(pool_guest_bytes *b, uint32_t block, uint32_t group, writer w)
{
    if (b->groups[block] == group) return;
    b->groups[block] = (uint8_t)group;
    for (uint32_t i = 0; i < b->slots; i++) b->writers[(size_t)block * b->slots + i] = w;
}

kvg_status pool_guest_bytes_write(pool_guest_bytes *b, pool_guest_sequence *q, uint32_t group, uint32_t to,
                                  uint64_t operation)
{
    const uint32_t from = q->written, size = b->pool->groups[group].block_tokens;
    if (!has_blocks(b, q, group, from, to)) return KVG_OK;
    const pool_guest_part *part = &q->parts[group];
    kvg_status s = learn(b, q, group, to);
    if (s) return s;
    fill_rows(b, part->contents + from, to - from);
    for (uint32_t i = from; i < to; i++) b->places[i - from] = (int64_t)part->table[i / size] * size + i % size;
    s = append(b, &b->of[group], &b->shared, to - from);
    for (uint32_t i = from; i < to; i++) {
        enter_block(b, part->table[i / size], group, (writer){.operation = operation, .sequence = q->id, .token = i});
        *writer_at(b, q, group, i) = (writer){operation, q->id, part->contents[i], i};
    }
    return s;
}

void pool_guest_bytes_copy(pool_guest_bytes *b, kvg_manager_copy c)
{
    const uint32_t blocks = kvg_guest_pool_all(b->pool);
    if (c.from >= blocks || c.to >= blocks || c.from == c.to) return;
    for (int k = 0; k < POOLS; k++) {
        uint8_t *bytes = b->shared.bytes[k];
        if (b->page[k]) memcpy(bytes + c.to * b->page[k], bytes + c.from * b->page[k], b->page[k]);
    }
    memcpy(b->writers + (size_t)c.to * b->slots, b->writers + (size_t)c.from * b->slots, b->slots * sizeof *b->writers);
    b->groups[c.to] = b->groups[c.from];
}

/* Token `token` of the sequence reads otherwise than by itself. */
static kvg_status blame(pool_guest_bytes *b, const pool_guest_sequence *q, uint32_t group, uint32_t token)
{
    const writer *w = writer_at(b, q, group, token);
    const uint32_t size = b->pool->groups[group].block_tokens;
    char why[200];
    if (w->operation == 0) snprintf(why, sizeof why, "nothing was written there");
    else if (w->content != q->parts[group].contents[token])
        snprintf(why, sizeof why, "operation %" PRIu64 " wrote token %" PRIu32 " of sequence %" PRIu64 " there",
                 w->operation, w->token, w->sequence);
    else
        snprintf(why, sizeof why, "operation %" PRIu64 " wrote it there, as token %" PRIu32 " of sequence %" PRIu64
                 ": append or flatten is wrong", w->operation, w->token, w->sequence);
    return kvg_fail(KVG_ERR_INVALID, "sequence %" PRIu64 " reads token %" PRIu32 ", in slot %" PRIu32 " of block %"
                    PRIu32 ", otherwise than by itself: %s", q->id, token, token % size,
                    q->parts[group].table[token / size], why);
}

kvg_status pool_guest_bytes_read(pool_guest_bytes *b, pool_guest_sequence *q, uint32_t group, uint32_t first,
                                 uint64_t *read)
{
    const uint32_t count = q->written, size = b->pool->groups[group].block_tokens;
    if (count == 0 || !has_blocks(b, q, group, first * size, count)) return KVG_OK;
    kvg_status s = learn(b, q, group, count);
    for (uint32_t i = 0; i * size < count; i++) b->table[i] = i < first ? -1 : (int32_t)q->parts[group].table[i];
    if (!s) s = flatten(b, &b->of[group], &b->shared, 1, count);
    if (s) return s;
    for (uint32_t i = first * size; i < count; i++) {
        const uint16_t *alone = q->parts[group].alone + (size_t)i * 2 * HEADS * DIM;
        for (uint32_t k = 0; k < 2 * HEADS; k++, alone += DIM) { /* flat rows are [head, token, dim] */
            const uint16_t *row = b->flat[k / HEADS] + ((size_t)(k % HEADS) * count + i) * DIM;
            if (memcmp(row, alone, DIM * sizeof *row) != 0) return blame(b, q, group, i);
        }
        ++*read;
    }
    return KVG_OK;
}

/* --- making --- */

static void *make(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static kvg_status prepare(const pool_guest_bytes *b, kvg_op op, const kvg_problem *geometry, asked *out)
{
    out->problem = *geometry;
    out->problem.op = op;
    out->problem.tokens = 1;
    out->problem.paging.sequences = op == KVG_OP_FLATTEN;
    kvg_status s = kvg_problem_check(&out->problem);
    if (!s) s = kvg_problem_lay_out(&out->problem);
    return s ? s : kvg_backend_choose(b->backend, &out->problem, &out->impl);
}

/* The ops of a geometry, whose blocks lie in one piece each, and how many bytes a block has. */
static kvg_status prepare_both(const pool_guest_bytes *b, const kvg_problem *geometry, ops *out, uint64_t page[POOLS])
{
    const kvg_problem *p = &out->append.problem;
    kvg_status s = prepare(b, KVG_OP_APPEND, geometry, &out->append);
    if (!s) s = prepare(b, KVG_OP_FLATTEN, geometry, &out->flatten);
    if (s) return s;
    for (int k = 0; k < POOLS; k++) page[k] = p->pool_bytes[k % 2][k / 2] / p->paging.blocks;
    for (int k = 0; k < POOLS; k++) {
        const kvg_row_map *map = k < 2 ? &p->map.codes[k % 2] : &p->map.scales[k % 2];
        const int pool = (map->pool == KVG_ROLE_SCALE_POOL ? 2 : 0) + (int)map->side;
        if (map->bytes && map->block != page[pool])
            return kvg_fail(KVG_ERR_INVALID, "layout %s: a block does not lie in one piece, so it cannot be copied",
                            kvg_problem_layout_name(p));
    }
    return KVG_OK;
}

/* Full of random bytes. */
static bool make_pools(pools *at, const uint64_t page[POOLS], uint32_t blocks, uint64_t seed)
{
    for (int k = 0; k < POOLS; k++) {
        const uint64_t words = (page[k] * blocks + 7) / 8;
        uint64_t *out = words ? make(8 * words) : NULL;
        at->bytes[k] = (uint8_t *)out;
        if (words && !out) return false;
        for (uint64_t i = 0; i < words; i++) out[i] = kvg_rng_u64(seed, 5 + (uint64_t)k, i);
    }
    return true;
}

/* The ops of each group. All groups have one pool, so the smaller block of another group is padded. */
static kvg_status prepare_groups(pool_guest_bytes *b, kvg_problem geometry)
{
    const uint32_t groups = b->pool->group_count;
    uint64_t page[KVG_GUEST_GROUPS][POOLS];
    kvg_status s = KVG_OK;
    geometry.paging.blocks = b->pool->blocks;
    for (uint32_t g = 0; g < groups && !s; g++) {
        geometry.paging.block_tokens = b->pool->groups[g].block_tokens;
        s = prepare_both(b, &geometry, &b->of[g], page[g]);
        for (int k = 0; k < POOLS && !s; k++) {
            if (page[g][k] > b->page[k]) b->page[k] = page[g][k];
        }
        if (geometry.paging.block_tokens > b->slots) b->slots = geometry.paging.block_tokens;
    }
    for (uint32_t g = 0; g < groups && !s; g++) {
        geometry.paging.block_tokens = b->pool->groups[g].block_tokens;
        geometry.paging.data_padding = (uint32_t)(b->page[0] - page[g][0]);
        geometry.paging.scale_padding = (uint32_t)(b->page[2] - page[g][2]);
        if (prepare_both(b, &geometry, &b->of[g], page[g]))
            return kvg_fail(KVG_ERR_UNIMPLEMENTED, "layout %s cannot be padded", kvg_problem_layout_name(&geometry));
    }
    return s;
}

static kvg_status make_all(pool_guest_bytes *b, kvg_problem geometry, uint32_t most, uint64_t seed)
{
    const uint32_t blocks = kvg_guest_pool_all(b->pool);
    uint64_t page[POOLS];
    geometry.paging.blocks = most;
    geometry.paging.block_tokens = b->pool->block_tokens;
    const kvg_status s = prepare_both(b, &geometry, &b->alone, page);
    if (s) return s;
    bool got = make_pools(&b->shared, b->page, blocks, seed) && make_pools(&b->own, page, most, seed + 1);
    for (int side = 0; side < 2; side++) {
        b->rows[side] = make((size_t)most * HEADS * DIM * sizeof *b->rows[side]);
        b->flat[side] = make((size_t)most * HEADS * DIM * sizeof *b->flat[side]);
        got = got && b->rows[side] && b->flat[side];
    }
    b->places = make(most * sizeof *b->places);
    b->table = make(most * sizeof *b->table);
    b->lengths = make(most * sizeof *b->lengths);
    b->writers = calloc((size_t)blocks * b->slots, sizeof *b->writers);
    b->groups = calloc(blocks, sizeof *b->groups);
    got = got && b->places && b->table && b->lengths && b->writers && b->groups;
    return got ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the pools");
}

kvg_status pool_guest_bytes_open(const kvg_guest_bytes *of, const kvg_manager_pool *pool, uint32_t most, uint64_t seed,
                                 pool_guest_bytes **out)
{
    pool_guest_bytes *b = *out = calloc(1, sizeof *b);
    kvg_problem p = {.dtype = KVG_DTYPE_BF16, .kv_heads = HEADS, .head_dim = DIM, .paging.layers = 1};
    if (!b) return kvg_fail(KVG_ERR_MEMORY, "no memory for the pools");
    b->pool = pool;
    kvg_status s = of->open(of->backend, &b->backend);
    if (!s && b->backend->memory)
        return kvg_fail(KVG_ERR_INVALID, "%s has memory of its own: give a backend whose tensors lie in the "
                        "host's memory", of->backend);
    if (!s) s = kvg_format_find(of->format, &p.storage[KVG_K].format);
    if (!s) s = kvg_layout_read(of->layout, &b->text, &p.layout);
    if (s) return s;
    p.storage[KVG_K].dialect = "canonical";
    p.storage[KVG_V] = p.storage[KVG_K];
    if (p.layout == KVG_LAYOUT_TEXT) p.text = &b->text;
    if (kvg_problem_blocks(&p) != KVG_BLOCKS_TABLE)
        return kvg_fail(KVG_ERR_INVALID, "layout %s has no blocks that a manager gives out", of->layout);
    s = prepare_groups(b, p);
    return s ? s : make_all(b, p, most, seed);
}
