#include "tests/second/decode_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/attention_profile.h"
#include "reference/reference.h"
#include "second/slow_cache.h"
#include "tests/second/probes.h"

uint64_t roll(dice *d, uint64_t n)
{
    return kvg_rng_below(SEED, d->stream, d->next++, n);
}

static uint32_t pick(dice *d, const uint32_t *from, size_t count)
{
    return from[roll(d, count)];
}
#define PICK(d, ...) pick(d, (const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

/* --- problems --- */

/* The profile is of docs/spec/other-kernels.md. */
static bool is_other_profile(kvg_profile profile)
{
    return profile != KVG_PROFILE_NONE && !kvg_profile_is_own(kvg_profile_get(profile));
}

static bool is_other(const kvg_problem *p)
{
    return is_other_profile(p->profile);
}

/* How rows end tells the kernels of other projects apart. */
static bool ends_by(kvg_profile profile, kvg_end_kind end)
{
    return profile != KVG_PROFILE_NONE && kvg_profile_get(profile)->contract->end == end;
}

static bool is_fa3(const kvg_problem *p)
{
    return ends_by(p->profile, KVG_END_RECIPROCAL);
}

static bool is_flashinfer(kvg_profile profile)
{
    return ends_by(profile, KVG_END_PARTS) || ends_by(profile, KVG_END_LOG2) || ends_by(profile, KVG_END_STATES);
}

/* Of any format that has operands under the profile. */
static kvg_storage draw_storage(dice *d, kvg_profile profile)
{
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    kvg_format format;
    do format = table[roll(d, formats)].format;
    while (!kvg_profile_has_operands(profile, format));
    return (kvg_storage){format, kvg_reference_dialect(format, roll(d, kvg_reference_dialect_count(format)))->name};
}

/* Of any dim that the format takes. */
static uint32_t draw_simt_dim(dice *d, const decode_wish *wish)
{
    if (wish->grid) return PICK(d, 63, 80, 90, 96, 100);
    if (wish->longest > 1000) return PICK(d, 8, 8, 16, 24, 32);
    if (wish->small) return PICK(d, 1, 7, 8, 16, 24, 32, 33, 40, 64, 80, 96);
    return PICK(d, 3, 16, 24, 33, 40, 64, 72, 80, 80, 96, 96, 100, 112, 112, 128, 192, 192, 256, 320, 576);
}

static uint32_t draw_dim(dice *d, const decode_wish *wish)
{
    const bool parts = ends_by(wish->profile, KVG_END_PARTS) || ends_by(wish->profile, KVG_END_STATES);
    if (wish->small && parts) return PICK(d, 64, 64, 64, 128);
    if (is_flashinfer(wish->profile)) return PICK(d, 64, 64, 128, 256);
    if (wish->profile == KVG_PROFILE_SIMT_FMA_V1) return draw_simt_dim(d, wish);
    if (wish->small && is_other_profile(wish->profile)) return PICK(d, 16, 64, 96, 112);
    if (wish->grid) return PICK(d, 64, 80, 112);
    if (wish->longest > 1000) return PICK(d, 16, 16, 32);
    if (wish->small) return PICK(d, 16, 32, 48, 64, 80, 112);
    return PICK(d, 16, 32, 32, 48, 64, 64, 64, 80, 96, 112, 128, 128, 176, 192, 240, 256, 576);
}

/* The dims above are multiples of small blocks often enough; of larger blocks there is at least one. */
static uint32_t widen(uint32_t dim, const kvg_storage storage[2])
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint32_t block = kvg_format_get(storage[side].format)->block;
        if (block > 32) dim = (dim + block - 1) / block * block;
    }
    return dim;
}

/* What another project's kernel takes: a cache of the model type or e4m3, a cap or sinks if it has them, no shared
 * rows. Half of the calls have one token, because they have other tiles; some of those with blocks have many. */
static void keep_to_kernel(dice *d, const decode_wish *wish, kvg_problem *p)
{
    if (!is_other(p)) return;
    p->storage[KVG_V] = wish->k;
    p->paging.shared_kv = false;
    const bool blocks = ends_by(p->profile, KVG_END_PARTS);
    if (is_fa3(p)) p->attention.softcap = 0;
    if (!is_fa3(p) && !blocks) p->attention.sinks = false;
    if (p->head_dim > 256) p->head_dim = 256;
    if (wish->k.format == KVG_FORMAT_E4M3) p->head_dim = is_fa3(p) ? (p->head_dim + 31) / 32 * 32 : 128;
    if (roll(d, 2)) p->attention.queries = 1;
    if (blocks && roll(d, 2)) {
        const uint32_t most = 1 + (wish->small ? 150 : 250) / p->attention.query_heads;
        p->attention.queries = 1 + (uint32_t)roll(d, most < wish->longest ? most : wish->longest - 3);
    }
    if (ends_by(p->profile, KVG_END_STATES)) {
        p->attention.queries = p->paging.sequences;
        p->attention.query_heads = p->kv_heads * (wish->small ? PICK(d, 1, 2, 4) : PICK(d, 1, 2, 4, 8));
    }
    if (!is_flashinfer(p->profile)) return;
    const float stretch = 1 + (float)roll(d, 1 << 16) * 0x1p-16f; /* for a cap whose rcp is not the nearest number */
    p->attention.scale *= stretch;
    p->attention.softcap *= stretch;
}

static void draw_options(dice *d, kvg_problem *p)
{
    const kvg_layout_info *layout = kvg_layout_get(p->layout);
    kvg_paging *g = &p->paging;
    if (strstr(layout->text, "+row") && roll(d, 2)) g->row_padding = (uint32_t)roll(d, 20);
    if (strstr(layout->text, "+data") && roll(d, 2)) g->data_padding = (uint32_t)roll(d, 70);
    if (strstr(layout->text, "+scale") && roll(d, 2)) g->scale_padding = (uint32_t)roll(d, 40);
    g->v_scale_swizzle = layout->groups && roll(d, 2);
    g->shared_kv = layout->shared && (p->layout == KVG_LAYOUT_MLA || roll(d, 3) == 0);
    if (p->layout == KVG_LAYOUT_MLA) p->kv_heads = 1;
    if (!g->shared_kv) return;
    p->storage[KVG_V] = p->storage[KVG_K];
    g->v_first = (uint32_t)roll(d, p->head_dim);
    g->v_dim = 1 + (uint32_t)roll(d, p->head_dim - g->v_first);
}

static void draw_attention(dice *d, const decode_wish *wish, kvg_problem *p)
{
    static const float scales[] = {0.125f, 0.0883883f, 1, 0.3f, 3e-5f, 1e4f};
    static const float caps[] = {30, 50, 1, 0.25f, 15.5f, 1e-30f, 1e30f};
    kvg_attention *a = &p->attention;
    a->query_heads = p->kv_heads * PICK(d, 1, 1, 2, 3, 4, 5, 7, 8, 16);
    if (roll(d, 40) == 0) a->query_heads = p->kv_heads * 128;
    if (wish->small) a->query_heads = p->kv_heads * PICK(d, 1, 2, 3);
    a->queries = 1 + (uint32_t)roll(d, a->query_heads / p->kv_heads > 8 ? 2 : 5);
    if (roll(d, 2)) a->window = PICK(d, 1, 2, 5, 15, 16, 17, 31, 32, 33, 64, 100, 127, 128, 129, 200);
    if (roll(d, 3) == 0) a->softcap = caps[roll(d, roll(d, 3) ? 5 : 7)];
    if (roll(d, 2)) a->scale = scales[roll(d, roll(d, 3) ? 4 : 6)];
    a->sinks = roll(d, 2);
    if (wish->small && wish->longest > 1000) { /* all leaves count, or those from the second on, for many rows */
        a->window = PICK(d, 0, 600);
        a->queries += 8;
    }
}

static kvg_problem draw_problem(dice *d, const decode_wish *wish)
{
    for (unsigned tries = 0; tries < 10000; tries++) {
        kvg_problem p = {
            .op = KVG_OP_DECODE,
            .layout = wish->layout,
            .dtype = wish->dtype,
            .profile = wish->profile,
            .storage = {wish->k, roll(d, 3) ? draw_storage(d, wish->profile) : wish->k},
            .tokens = wish->longest,
            .kv_heads = 1 + (uint32_t)roll(d, 2),
            .head_dim = draw_dim(d, wish),
            .paging = {.layers = 1 + (uint32_t)roll(d, 2), .sequences = 1 + (uint32_t)roll(d, 3),
                       .block_tokens = PICK(d, 1, 4, 8, 16, 16, 32, 64)},
        };
        p.head_dim = widen(p.head_dim, p.storage);
        p.paging.layer = (uint32_t)roll(d, p.paging.layers);
        if (kvg_problem_blocks(&p) == KVG_BLOCKS_ONE) p.paging.block_tokens = wish->longest - (uint32_t)roll(d, 3);
        if (kvg_problem_blocks(&p) == KVG_BLOCKS_RING) p.paging.block_tokens = 1 + (uint32_t)roll(d, wish->longest);
        p.paging.blocks = 1 + (wish->longest + p.paging.block_tokens / 2) / p.paging.block_tokens;
        draw_options(d, &p);
        draw_attention(d, wish, &p);
        keep_to_kernel(d, wish, &p);
        if (kvg_problem_check(&p) == KVG_OK) return p;
    }
    fail_msg("no problem of layout %s and format %s is allowed: %s", kvg_layout_get(wish->layout)->name,
             kvg_format_get(wish->k.format)->name, kvg_error_text());
    return (kvg_problem){0};
}

/* --- inputs --- */

/* Eight bytes a draw: most of a problem's inputs are such bytes. */
static void fill_random(dice *d, uint8_t *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t random = kvg_rng_u64(SEED, d->stream, d->next++);
        memcpy(to + i, &random, bytes - i < sizeof random ? bytes - i : sizeof random);
    }
}

static void fill_bytes(dice *d, const kvg_tensor *tensor)
{
    fill_random(d, tensor->data, tensor->bytes);
}

static void fill_normal(dice *d, const kvg_tensor *tensor, float unit)
{
    const size_t width = kvg_dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < tensor->bytes / width; i++) {
        const float x = (float)kvg_rng_normal(SEED, d->stream, d->next++) * unit;
        kvg_reference_store(tensor->dtype, &x, 1, (uint8_t *)tensor->data + i * width);
    }
}

/* -1, 0 and 1 */
static void fill_grid(dice *d, const kvg_tensor *tensor)
{
    const size_t width = kvg_dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < tensor->bytes / width; i++) {
        const float x = (float)roll(d, 3) - 1;
        kvg_reference_store(tensor->dtype, &x, 1, (uint8_t *)tensor->data + i * width);
    }
}

/* Divides each element by a power of two of its own. */
static void spread(dice *d, const kvg_tensor *tensor)
{
    const size_t width = kvg_dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < tensor->bytes / width; i++) {
        float x;
        kvg_reference_load(tensor->dtype, (const uint8_t *)tensor->data + i * width, 1, &x);
        x /= (float)((uint32_t)1 << roll(d, 28));
        kvg_reference_store(tensor->dtype, &x, 1, (uint8_t *)tensor->data + i * width);
    }
}

/* The first element of every row. */
static void set_first(const kvg_tensor *rows, float x)
{
    const size_t width = kvg_dtype_bytes(rows->dtype), row = (size_t)rows->shape[2] * width;
    uint8_t *data = rows->data;
    for (size_t at = 0; at < rows->bytes; at += row) kvg_reference_store(rows->dtype, &x, 1, data + at);
}

/* Mostly ordinary numbers; some rows are large, small, subnormal or 0, wide, some have special values among them. */
static void fill_q(dice *d, const kvg_tensor *q)
{
    static const float units[] = {1, 1, 1, 0.25f, 8, 100, 1e4f, 1e-4f, 1e-7f, 1e-30f, 1e-39f, 1e-40f, 1e-40f, 1e37f, 0};
    const size_t row = (size_t)q->shape[2], width = kvg_dtype_bytes(q->dtype);
    for (size_t i = 0; i < q->shape[0] * q->shape[1]; i++) {
        kvg_tensor one = *q;
        one.data = (uint8_t *)q->data + i * row * width;
        one.bytes = row * width;
        fill_normal(d, &one, units[roll(d, roll(d, 6) ? 5 : sizeof units / sizeof units[0])]);
        if (roll(d, 8) == 0) spread(d, &one);
        if (roll(d, 24)) continue;
        const float special = kvg_f32_of_bits(special_values[roll(d, special_count)]);
        kvg_reference_store(q->dtype, &special, 1, (uint8_t *)one.data + roll(d, row) * width);
    }
}

static void fill_tensor_scales(dice *d, kit *k)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *tensor = &k->tensor[KVG_ROLE_TENSOR_SCALE][side];
        const uint32_t bits = tensor_scales[roll(d, roll(d, 8) ? tensor_scale_extreme : tensor_scale_count)];
        if (tensor->bytes > 0) memcpy(tensor->data, &bits, sizeof bits);
    }
}

static void fill_sinks(dice *d, const kvg_tensor *sinks, bool narrow)
{
    static const uint32_t special[] = {0xFF800000, 0xFF800000, 0, 0x80000000, 0x42C80000 /* 100 */, 0xC2C80000,
                                       0x42AF0000 /* 87.5 */, 0x7F000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00000001};
    fill_normal(d, sinks, 3);
    for (size_t i = 0; i < sinks->bytes / sizeof(float); i++) {
        const uint32_t bits = special[roll(d, sizeof special / sizeof special[0])];
        if (roll(d, 4) == 0) memcpy((uint8_t *)sinks->data + i * sizeof bits, &bits, sizeof bits);
    }
    for (size_t i = 0; narrow && i < sinks->bytes / sizeof(float); i++) ((uint32_t *)sinks->data)[i] &= 0xFFFF0000;
}

/* Around the ends of tiles and leaves, 0 and the most. */
static int32_t draw_length(dice *d, const kvg_problem *p)
{
    uint32_t longest = p->tokens;
    if (kvg_problem_blocks(p) == KVG_BLOCKS_ONE && longest > p->paging.block_tokens) longest = p->paging.block_tokens;
    if (kvg_problem_blocks(p) == KVG_BLOCKS_RING) {
        const uint32_t far = ends_by(p->profile, KVG_END_STATES) ? 100000 : 1000000000; /* each position takes time */
        longest = roll(d, 8) ? 3 * p->paging.block_tokens : far;
        if (roll(d, 2)) return (int32_t)(longest - roll(d, 5) % longest);
    }
    const bool several_tiles = longest > 1000 || (is_other(p) && longest > 256);
    if (several_tiles && roll(d, 4)) return (int32_t)(longest - roll(d, longest - 256));
    const uint32_t near = PICK(d, 0, 1, 16, 32, 64, 96, 128, 160, 256, 288);
    const uint64_t length = roll(d, 2) ? roll(d, (uint64_t)longest + 1) : near + roll(d, 5) - (near >= 2 ? 2 : 0);
    return (int32_t)(length < longest ? length : longest);
}

static void fill_sequences(dice *d, kit *k)
{
    static const int32_t holes[] = {-1, INT32_MIN, INT32_MAX};
    const kvg_problem *p = &k->problem;
    const kvg_tensor *table = &k->tensor[KVG_ROLE_BLOCK_TABLE][KVG_K];
    int32_t *lengths = k->tensor[KVG_ROLE_LENGTHS][KVG_K].data;
    int32_t *query_lengths = k->tensor[KVG_ROLE_QUERY_LENGTHS][KVG_K].data;
    for (size_t i = 0; i < table->bytes / sizeof(int32_t); i++) {
        const bool hole = roll(d, 12) == 0;
        const int32_t block = (int32_t)roll(d, (uint64_t)p->paging.blocks + hole); /* N is a hole, too */
        ((int32_t *)table->data)[i] = hole && roll(d, 2) ? holes[roll(d, 3)] : block;
    }
    for (size_t i = 0; i < p->paging.sequences; i++) {
        lengths[i] = draw_length(d, p);
        query_lengths[i] = 0;
    }
    const bool one_each = ends_by(p->profile, KVG_END_STATES);
    for (size_t i = 0; i < p->attention.queries; i++) query_lengths[one_each ? i : roll(d, p->paging.sequences)]++;
    /* It is not described what rows of a block have that sit before position 0, where others see NaN. */
    for (size_t i = 0; i < p->paging.sequences && ends_by(p->profile, KVG_END_PARTS); i++) {
        if (lengths[i] < query_lengths[i]) lengths[i] = query_lengths[i];
    }
}

/* Every slot gets a row that the golden reference quantised. */
static void write_all(dice *d, kit *k, decode_contents contents)
{
    static const float units[] = {1, 1, 1, 0.1f, 20, 1000, 1e-5f};
    kvg_problem p = k->problem;
    p.op = KVG_OP_APPEND;
    p.attention = (kvg_attention){0};
    p.profile = KVG_PROFILE_NONE;
    p.tokens = p.paging.blocks * p.paging.block_tokens;
    p.paging.sequences = 0;
    kit append = kit_open_problem(&p);
    const float unit = units[roll(d, sizeof units / sizeof units[0])];
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *values = &append.tensor[KVG_ROLE_VALUES][side];
        if (contents == DECODE_GRID && side == KVG_K) {
            fill_grid(d, values);
        } else {
            fill_normal(d, values, unit);
        }
        if (contents == DECODE_LOST && side == KVG_K) set_first(values, 1);
        const kvg_tensor *g = &k->tensor[KVG_ROLE_TENSOR_SCALE][side];
        if (g->bytes) memcpy(append.tensor[KVG_ROLE_TENSOR_SCALE][side].data, g->data, g->bytes);
    }
    for (int64_t i = 0; i < (int64_t)p.tokens; i++) ((int64_t *)append.tensor[KVG_ROLE_SLOTS][KVG_K].data)[i] = i;
    for (int role = KVG_ROLE_DATA_POOL; role <= KVG_ROLE_SCALE_POOL; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) fill_bytes(d, &append.tensor[role][side]);
    }
    if (kit_run(&append, golden_backend(), KVG_OP_APPEND)) fail_msg("append: %s", kvg_error_text());
    for (int role = KVG_ROLE_DATA_POOL; role <= KVG_ROLE_SCALE_POOL; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const kvg_tensor *pool = &append.tensor[role][side];
            if (pool->bytes) memcpy(k->tensor[role][side].data, pool->data, pool->bytes);
        }
    }
    kit_close(&append);
}

/* Positions that some query of the sequence sees: low ... high - 1 (docs/spec/attention.md section 2). */
static void seen_range(const kit *k, size_t sequence, int64_t *low, int64_t *high)
{
    const kvg_problem *p = &k->problem;
    const int64_t length = ((const int32_t *)k->tensor[KVG_ROLE_LENGTHS][KVG_K].data)[sequence];
    const int64_t queries = ((const int32_t *)k->tensor[KVG_ROLE_QUERY_LENGTHS][KVG_K].data)[sequence];
    *high = length;
    *low = p->attention.window ? length - queries - p->attention.window + 1 : 0;
    const int64_t kept = length - (int64_t)p->paging.block_tokens;
    if (kvg_problem_blocks(p) == KVG_BLOCKS_RING && *low < kept) *low = kept;
    if (*low < 0) *low = 0;
    if (queries == 0) *low = length;
}

/* Rows that nobody sees become random bytes. */
static void spoil_unseen(dice *d, kit *k)
{
    const kvg_problem *p = &k->problem;
    const size_t slots = (size_t)p->paging.blocks * p->paging.block_tokens;
    const int32_t *table = k->tensor[KVG_ROLE_BLOCK_TABLE][KVG_K].data;
    const int32_t *lengths = k->tensor[KVG_ROLE_LENGTHS][KVG_K].data;
    const size_t columns = slow_cache_columns(p);
    bool *seen = calloc(slots, sizeof *seen);
    assert_non_null(seen);
    for (size_t i = 0; i < p->paging.sequences; i++) {
        int64_t low, high;
        seen_range(k, i, &low, &high);
        for (int64_t at = low; at < high; at++) {
            const int64_t slot = slow_cache_slot(p, table + i * columns, lengths[i], (uint32_t)at);
            if (slot >= 0) seen[slot] = true;
        }
    }
    kvg_tensor pools[KVG_MAX_TENSORS];
    const kvg_role *roles = kvg_op_get(KVG_OP_PROBE)->inputs; /* the pools come first */
    kit_list(k, roles, pools);
    const slow_cache cache = slow_cache_of(p, pools, roles);
    for (size_t slot = 0; slot < slots; slot++) {
        for (uint32_t head = 0; !seen[slot] && head < p->kv_heads; head++) {
            for (int side = 0; side < kvg_problem_sides(p); side++) {
                slow_row_bytes row;
                fill_random(d, row.codes, sizeof row.codes);
                fill_random(d, row.scales, sizeof row.scales);
                slow_cache_write(&cache, side, slot, head, &row);
            }
        }
    }
    free(seen);
}

/* Bytes of scales at one end of what a byte holds: subnormal operands with a NaN here and there, or the largest, Inf
 * and NaN. */
static void fill_extreme_scales(dice *d, kit *k)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *pool = &k->tensor[KVG_ROLE_SCALE_POOL][side];
        const bool low = roll(d, 2);
        for (size_t i = 0; i < pool->bytes; i++) {
            uint8_t *byte = (uint8_t *)pool->data + i;
            *byte = (uint8_t)(!low ? *byte | 0xFC : roll(d, 64) ? *byte & 3 : 0xFF);
        }
    }
}

static void fill_kit(dice *d, kit *k, decode_contents contents)
{
    if (contents == DECODE_GRID) {
        fill_grid(d, &k->tensor[KVG_ROLE_Q][KVG_K]);
    } else {
        fill_q(d, &k->tensor[KVG_ROLE_Q][KVG_K]);
    }
    if (k->problem.attention.sinks) fill_sinks(d, &k->tensor[KVG_ROLE_SINKS][KVG_K], is_fa3(&k->problem));
    fill_tensor_scales(d, k);
    fill_sequences(d, k);
    for (int role = KVG_ROLE_DATA_POOL; role <= KVG_ROLE_SCALE_POOL; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) fill_bytes(d, &k->tensor[role][side]);
    }
    if (contents == DECODE_RANDOM) {
        if (roll(d, 3) == 0) fill_extreme_scales(d, k);
        return;
    }
    if (contents == DECODE_LOST) set_first(&k->tensor[KVG_ROLE_Q][KVG_K], -INFINITY);
    write_all(d, k, contents);
    spoil_unseen(d, k);
}

kit decode_draw(dice *d, const decode_wish *wish)
{
    static const decode_contents contents[] = {DECODE_RANDOM, DECODE_GRID}; /* seldom */
    const uint64_t kind = wish->grid ? 1 : roll(d, wish->small ? 5 : 12);
    kvg_problem p = draw_problem(d, wish);
    if (kind == 1) {
        p.attention.scale = 0x1.62e43p-1f; /* ln 2: times log2 e it rounds to 1 */
        p.attention.softcap = 0;
        p.attention.window = 2 + (uint32_t)roll(d, 30); /* few keys in the first tile, a larger one in the next */
    }
    const bool lost = is_other(&p) && roll(d, 12) == 0;
    if (lost && is_fa3(&p)) p.attention.sinks = false; /* what a sink does to an m of -Inf there is not described */
    kit k = kit_open_problem(&p);
    fill_kit(d, &k, lost ? DECODE_LOST : kind < 2 ? contents[kind] : DECODE_WRITTEN);
    return k;
}
