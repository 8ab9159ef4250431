/* The second reference's paged ops against what a reader of docs/spec/layouts.md works out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "second/slow_layout.h"
#include "tests/core/whole_blocks.h"
#include "tests/second/test_slowref.h"

/* --- addresses --- */

static void expect_same_place(slow_place got, slow_place want)
{
    assert_int_equal(got.pool, want.pool);
    assert_int_equal(got.side, want.side);
    assert_int_equal(got.at, want.at);
}

static void expect_place(slow_place got, kvg_role pool, kvg_side side, uint64_t at)
{
    expect_same_place(got, (slow_place){pool, side, at});
}

/* Section 2's example, in layer 2 of 3 and block 5: layer_size 69,632. */
void test_turbomind_example(void **state)
{
    (void)state;
    kvg_problem p = {
        .op = KVG_OP_PROBE, .layout = KVG_LAYOUT_TURBOMIND, .dtype = KVG_DTYPE_F16,
        .storage = {{KVG_FORMAT_INT4, "canonical"}, {KVG_FORMAT_INT4, "canonical"}},
        .tokens = 1, .kv_heads = 8, .head_dim = 128,
        .paging = {.layers = 3, .layer = 2, .blocks = 6, .block_tokens = 64},
    };
    const uint64_t base = 5 * 3 * 69632 + 2 * 69632, h = 7, i = 63;
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    slow_byte k = {KVG_K, 5, h, i, 3}, v = {KVG_V, 5, h, i, 3};
    expect_place(slow_place_of_code(&p, k), KVG_ROLE_DATA_POOL, KVG_K, base + 8192 * h + 64 * i + 3);
    expect_place(slow_place_of_code(&p, v), KVG_ROLE_DATA_POOL, KVG_K, base + 8192 * h + 4096 + 64 * i + 3);
    expect_place(slow_place_of_scale(&p, k), KVG_ROLE_DATA_POOL, KVG_K, base + 65536 + 512 * h + 4 * i + 3);
    expect_place(slow_place_of_scale(&p, v), KVG_ROLE_DATA_POOL, KVG_K, base + 65536 + 512 * h + 256 + 4 * i + 3);

    /* Shared: every 2 becomes 1, so a layer has 34,816 bytes. */
    p.paging.shared_kv = true;
    p.paging.v_dim = 128;
    expect_place(slow_place_of_code(&p, k), KVG_ROLE_DATA_POOL, KVG_K, base / 2 + 4096 * h + 64 * i + 3);
    expect_place(slow_place_of_scale(&p, k), KVG_ROLE_DATA_POOL, KVG_K, base / 2 + 32768 + 256 * h + 4 * i + 3);
}

/* Byte 1 of block 2, layer 1, head 1, offset 5, with L 4, N 3, B 8, H 2, D 64, K in int8 (C 64, Z 4) and V in mxfp4
 * (C 32, Z 2), data_padding 7 and, in nhd and hnd, row_padding 3 and scale_padding 5. */
void test_places(void **state)
{
    (void)state;
    const kvg_role D = KVG_ROLE_DATA_POOL, S = KVG_ROLE_SCALE_POOL;
    const struct {
        kvg_layout layout;
        slow_place k_code, k_scale, v_code, v_scale;
    } places[] = {
        /* block 6400, layer 1600: head 512 + 256, parameters from 1536, 32 a head; row ((2 * 4 + 1) * 2 + 1) * 8 + 5 */
        {KVG_LAYOUT_TURBOMIND, {D, KVG_K, 15489}, {D, KVG_K, 15989}, {D, KVG_K, 15841}, {S, KVG_K, 315}},
        /* 9 pairs of pages of 1024 + 512, 64 + 32; row 13 */
        {KVG_LAYOUT_TRTLLM, {D, KVG_K, 14657}, {S, KVG_K, 917}, {D, KVG_K, 15265}, {S, KVG_K, 955}},
        /* page 5 of 16 * 67 + 7, 16 * 35 + 7, 16 * 4 + 5, 16 * 2 + 5; row 11 or 13 */
        {KVG_LAYOUT_NHD, {D, KVG_K, 6133}, {S, KVG_K, 390}, {D, KVG_V, 3221}, {S, KVG_V, 208}},
        {KVG_LAYOUT_HND, {D, KVG_K, 6267}, {S, KVG_K, 398}, {D, KVG_V, 3291}, {S, KVG_V, 212}},
        /* page 5 of 16 * (64 + 4 + 32 + 2) + 7; parts at 0, 1024, 1088, 1600 */
        {KVG_LAYOUT_VLLM, {D, KVG_K, 8900}, {D, KVG_K, 9264}, {D, KVG_K, 9636}, {D, KVG_K, 9818}},
        {KVG_LAYOUT_VLLM_HND, {D, KVG_K, 9028}, {D, KVG_K, 9272}, {D, KVG_K, 9700}, {D, KVG_K, 9822}},
        /* row (24 + 21) * 2 + 1 */
        {KVG_LAYOUT_SLOT, {D, KVG_K, 5825}, {S, KVG_K, 365}, {D, KVG_V, 2913}, {S, KVG_V, 183}},
        /* row ((3 + 2) * 2 + 1) * 8 + 5 */
        {KVG_LAYOUT_CONTIGUOUS, {D, KVG_K, 5953}, {S, KVG_K, 373}, {D, KVG_V, 2977}, {S, KVG_V, 187}},
        {KVG_LAYOUT_RING, {D, KVG_K, 5953}, {S, KVG_K, 373}, {D, KVG_V, 2977}, {S, KVG_V, 187}},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *text = kvg_layout_get(places[i].layout)->text;
        kvg_problem p = {
            .op = KVG_OP_PROBE, .layout = places[i].layout, .dtype = KVG_DTYPE_F16,
            .storage = {{KVG_FORMAT_INT8, "canonical"}, {KVG_FORMAT_MXFP4, "canonical"}},
            .tokens = 1, .kv_heads = 2, .head_dim = 64,
            .paging = {.layers = 4, .layer = 1, .blocks = 3, .block_tokens = 8,
                       .row_padding = strstr(text, "+row") ? 3 : 0,
                       .data_padding = strstr(text, "+data") ? 7 : 0,
                       .scale_padding = strstr(text, "+scale") ? 5 : 0},
        };
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
        slow_byte k = {KVG_K, 2, 1, 5, 1}, v = {KVG_V, 2, 1, 5, 1};
        expect_same_place(slow_place_of_code(&p, k), places[i].k_code);
        expect_same_place(slow_place_of_scale(&p, k), places[i].k_scale);
        expect_same_place(slow_place_of_code(&p, v), places[i].v_code);
        expect_same_place(slow_place_of_scale(&p, v), places[i].v_scale);
    }

    /* mla: row (3 + 2) * 8 + 5 = 45 */
    kvg_problem mla = {
        .op = KVG_OP_PROBE, .layout = KVG_LAYOUT_MLA, .dtype = KVG_DTYPE_F16,
        .storage = {{KVG_FORMAT_INT8, "canonical"}, {KVG_FORMAT_INT8, "canonical"}},
        .tokens = 1, .kv_heads = 1, .head_dim = 64,
        .paging = {.layers = 4, .layer = 1, .blocks = 3, .block_tokens = 8, .shared_kv = true, .v_dim = 48},
    };
    assert_int_equal(kvg_problem_check(&mla), KVG_OK);
    slow_byte row = {KVG_K, 2, 0, 5, 1};
    expect_place(slow_place_of_code(&mla, row), KVG_ROLE_DATA_POOL, KVG_K, 2881);
    expect_place(slow_place_of_scale(&mla, row), KVG_ROLE_SCALE_POOL, KVG_K, 181);
}

/* The last byte of a pool of almost 2^62 bytes. */
void test_large_places(void **state)
{
    (void)state;
    kvg_problem p = {
        .op = KVG_OP_PROBE, .layout = KVG_LAYOUT_SLOT, .dtype = KVG_DTYPE_F16,
        .storage = {{KVG_FORMAT_E4M3, "canonical"}, {KVG_FORMAT_E4M3, "canonical"}},
        .tokens = 1, .kv_heads = 8, .head_dim = 128,
        .paging = {.layers = 64, .layer = 63, .blocks = INT32_MAX, .block_tokens = 32768},
    };
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    slow_byte last = {KVG_V, INT32_MAX - 1, 7, 32767, 127};
    /* 2^6 layers * (2^31 - 1) blocks * 2^15 tokens * 2^3 heads * 2^7 bytes */
    expect_place(slow_place_of_code(&p, last), KVG_ROLE_DATA_POOL, KVG_V, ((uint64_t)INT32_MAX << 31) - 1);
}

/* Which (offset t, scale byte s) the bytes of an hnd tile hold, as 0xts: four tokens' bytes side by side. */
static const uint8_t tile_of_4[32] = {
    0x00, 0x10, 0x20, 0x30, 0x01, 0x11, 0x21, 0x31, 0x02, 0x12, 0x22, 0x32, 0x03, 0x13, 0x23, 0x33,
    0x40, 0x50, 0x60, 0x70, 0x41, 0x51, 0x61, 0x71, 0x42, 0x52, 0x62, 0x72, 0x43, 0x53, 0x63, 0x73,
};
static const uint8_t tile_of_8[32] = {
    0x00, 0x10, 0x20, 0x30, 0x01, 0x11, 0x21, 0x31, 0x02, 0x12, 0x22, 0x32, 0x03, 0x13, 0x23, 0x33,
    0x04, 0x14, 0x24, 0x34, 0x05, 0x15, 0x25, 0x35, 0x06, 0x16, 0x26, 0x36, 0x07, 0x17, 0x27, 0x37,
};

static kvg_problem grouped(kvg_layout layout, uint32_t dim, uint32_t block_tokens)
{
    return (kvg_problem){
        .op = KVG_OP_PROBE, .layout = layout, .dtype = KVG_DTYPE_F32,
        .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .tokens = 1, .kv_heads = 2, .head_dim = dim,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = block_tokens, .v_scale_swizzle = true},
    };
}

static void check_tile(const uint8_t *tile, uint32_t dim, uint32_t block_tokens)
{
    kvg_problem p = grouped(KVG_LAYOUT_HND, dim, block_tokens);
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    for (uint64_t i = 0; i < 32; i++) {
        slow_byte v = {KVG_V, 1, 1, tile[i] >> 4, tile[i] & 15}, k = v;
        k.side = KVG_K;
        expect_place(slow_place_of_scale(&p, v), KVG_ROLE_SCALE_POOL, KVG_V, 3 * 32 + i); /* the fourth tile */
        expect_place(slow_place_of_scale(&p, k), KVG_ROLE_SCALE_POOL, KVG_K, 96 + k.offset * dim / 16 + k.index);
    }
}

void test_scale_groups(void **state)
{
    (void)state;
    check_tile(tile_of_4, 64, 8);
    check_tile(tile_of_8, 128, 4);

    /* Block 1, head 1 of 2; S 8, t 6, s 5: t' = 4 + 5 div 2 = 6, s' = (5 mod 2) * 4 + 2 = 6 */
    kvg_problem p = grouped(KVG_LAYOUT_NHD, 128, 8);
    slow_byte v = {KVG_V, 1, 1, 6, 5};
    expect_place(slow_place_of_scale(&p, v), KVG_ROLE_SCALE_POOL, KVG_V, 128 + (6 * 2 + 1) * 8 + 6);
    /* t 1, s 7: t' = 0 + 7 div 2 = 3, s' = (7 mod 2) * 4 + 1 = 5 */
    v = (slow_byte){KVG_V, 1, 1, 1, 7};
    expect_place(slow_place_of_scale(&p, v), KVG_ROLE_SCALE_POOL, KVG_V, 128 + (3 * 2 + 1) * 8 + 5);
    /* vllm: page 16 * 2 * 72, V scales after 16 * (64 + 8 + 64) */
    p = grouped(KVG_LAYOUT_VLLM, 128, 8);
    expect_place(slow_place_of_scale(&p, v), KVG_ROLE_DATA_POOL, KVG_K, 2304 + 2176 + (3 * 2 + 1) * 8 + 5);
}

/* Counts each byte's rows; false if some byte has two. */
static bool mark(uint8_t *seen, uint64_t *rows, uint64_t at)
{
    (*rows)++;
    return seen[at]++ == 0;
}

/* Every byte that is not padding belongs to exactly one row. */
static void check_partition(kvg_problem p)
{
    kit k = kit_open_problem(&p);
    uint64_t bytes = 0, marked = 0;
    uint8_t *seen[KVG_ROLE_END][2] = {{NULL}};
    for (int role = KVG_ROLE_DATA_POOL; role <= KVG_ROLE_SCALE_POOL; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const kvg_tensor *pool = &k.tensor[role][side];
            uint64_t padding = role == KVG_ROLE_DATA_POOL ? p.paging.data_padding : p.paging.scale_padding;
            uint64_t rows = (uint64_t)p.paging.block_tokens * p.kv_heads;
            if (role == KVG_ROLE_DATA_POOL) padding += rows * p.paging.row_padding;
            if (pool->bytes > 0) bytes += pool->bytes - padding * p.paging.blocks * p.paging.layers;
            seen[role][side] = calloc(pool->bytes + 1, 1);
            assert_non_null(seen[role][side]);
        }
    }
    for (p.paging.layer = 0; p.paging.layer < p.paging.layers; p.paging.layer++) {
        for (uint64_t row = 0; row < (uint64_t)p.paging.blocks * p.kv_heads * p.paging.block_tokens; row++) {
            for (int side = 0; side < kvg_problem_sides(&p); side++) {
                const kvg_format format = p.storage[side].format;
                slow_byte b = {side, row % p.paging.blocks, row / p.paging.blocks % p.kv_heads,
                               row / p.paging.blocks / p.kv_heads, 0};
                for (b.index = 0; b.index < kvg_format_code_bytes(format, p.head_dim); b.index++) {
                    slow_place at = slow_place_of_code(&p, b);
                    assert_true(at.at < k.tensor[at.pool][at.side].bytes);
                    assert_true(mark(seen[at.pool][at.side], &marked, at.at));
                }
                for (b.index = 0; b.index < kvg_format_scale_bytes(format, p.head_dim); b.index++) {
                    slow_place at = slow_place_of_scale(&p, b);
                    assert_true(at.at < k.tensor[at.pool][at.side].bytes);
                    assert_true(mark(seen[at.pool][at.side], &marked, at.at));
                }
            }
        }
    }
    if (strstr(kvg_problem_layout_text(&p), "+%")) assert_true(marked <= bytes); /* rounded up to a multiple */
    else assert_int_equal(marked, bytes);
    for (int i = 0; i < 4; i++) free(seen[KVG_ROLE_DATA_POOL + i / 2][i % 2]);
    kit_close(&k);
}

void test_partition(void **state)
{
    (void)state;
    static const kvg_format v_formats[] = {KVG_FORMAT_E4M3, KVG_FORMAT_INT4, KVG_FORMAT_ROWFP4, KVG_FORMAT_NVFP4};
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (kvg_layout layout = KVG_LAYOUT_TURBOMIND; layout < KVG_LAYOUT_END; layout++) {
        const kvg_layout_info *info = kvg_layout_get(layout);
        const bool one_row = info->shared == KVG_SHARED_ALWAYS;
        size_t taken = 0;
        for (size_t f = 0; f < formats; f++) {
            const kvg_format k = table[f].format;
            for (size_t v = 0; v < 4; v++) {
                kvg_problem p = {
                    .op = KVG_OP_PROBE, .layout = layout, .dtype = KVG_DTYPE_BF16,
                    .storage = {{k, "canonical"}, {one_row ? k : v_formats[v], "canonical"}},
                    .tokens = 1, .kv_heads = one_row ? 1 : 3, .head_dim = whole_blocks(64, k),
                    .paging = {.layers = 2, .blocks = 3, .block_tokens = 8,
                               .row_padding = strstr(info->text, "+row") ? 5 : 0,
                               .data_padding = strstr(info->text, "+data") ? 11 : 0,
                               .scale_padding = strstr(info->text, "+scale") ? 3 : 0,
                               .v_scale_swizzle = info->groups && v_formats[v] == KVG_FORMAT_NVFP4,
                               .shared_kv = one_row, .v_dim = one_row ? 48 : 0},
                };
                if (kvg_problem_check(&p)) p.paging.block_tokens = 16; /* tiles of so many */
                if (kvg_problem_check(&p)) continue;                  /* a page for some formats alone */
                check_partition(p);
                taken++;
            }
        }
        assert_true(taken > 0);
    }
}

/* --- ops --- */

/* One head, D 8, two blocks of 4 tokens in f16 by slots: bytes are the elements themselves. */
static kvg_problem plain(kvg_op op, kvg_dtype dtype, uint32_t tokens)
{
    return (kvg_problem){
        .op = op, .layout = KVG_LAYOUT_SLOT, .dtype = dtype,
        .storage = {{dtype == KVG_DTYPE_BF16 ? KVG_FORMAT_BF16 : KVG_FORMAT_F16, "canonical"},
                    {dtype == KVG_DTYPE_BF16 ? KVG_FORMAT_BF16 : KVG_FORMAT_F16, "canonical"}},
        .tokens = tokens, .kv_heads = 1, .head_dim = 8,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = 4, .sequences = op == KVG_OP_FLATTEN},
    };
}

static void put(kit *k, kvg_role role, kvg_side side, const void *bytes, size_t count)
{
    assert_int_equal(k->tensor[role][side].bytes, count);
    memcpy(k->tensor[role][side].data, bytes, count);
}

static void expect_run(kit *k, kvg_status want)
{
    assert_int_equal(kit_run(k, slow_backend(), k->problem.op), want);
}

static const uint16_t *pool_of(const kit *k, kvg_side side)
{
    return k->tensor[KVG_ROLE_DATA_POOL][side].data;
}

/* 0x3C00 1, 0x4000 2, 0xC000 -2, 0x6800 2048. Pairs turned by 90 degrees: first = -second, second = first. */
void test_bias_and_rope(void **state)
{
    (void)state;
    static const uint16_t x[8] = {0x6800, 0x6800, 0x3C00, 0x4000, 0x7D01, 0x3C00, 0xFD01, 0x7C00};
    static const uint16_t bias[8] = {0x3C00, 0x4200, 0, 0, 0, 0x4000, 0, 0xFC00};
    /* 2049 is half way and goes to 2048, 2051 to 2052; Inf - Inf */
    static const uint16_t with_bias[8] = {0x6800, 0x6802, 0x3C00, 0x4000, 0x7FFF, 0x4200, 0x7FFF, 0x7FFF};
    static const uint16_t adjacent[8] = {0xE802, 0x6800, 0xC000, 0x3C00, 0x7FFF, 0x4200, 0x7FFF, 0x7FFF};
    static const uint16_t halves[8] = {0xBC00, 0xC000, 0x6800, 0x6802, 0x7FFF, 0x4200, 0x7FFF, 0x7FFF};
    static const float turns[2][2][2] = {{{1, 0}, {1, 0}}, {{0, 1}, {0, 1}}};
    static const int64_t slot = 5;
    static const int32_t position = 1;
    for (kvg_pairing pairing = KVG_PAIRING_ADJACENT; pairing <= KVG_PAIRING_HALVES; pairing++) {
        for (int with = 0; with < 2; with++) {
            kvg_problem p = plain(KVG_OP_APPEND, KVG_DTYPE_F16, 1);
            p.bias = with;
            p.rope = (kvg_rope){.dims = 4, .positions = 2, .pairing = pairing};
            kit k = kit_open_problem(&p);
            for (int side = KVG_K; side <= KVG_V; side++) {
                put(&k, KVG_ROLE_VALUES, side, x, sizeof x);
                if (with) put(&k, KVG_ROLE_BIAS, side, bias, sizeof bias);
            }
            put(&k, KVG_ROLE_SLOTS, KVG_K, &slot, sizeof slot);
            put(&k, KVG_ROLE_POSITIONS, KVG_K, &position, sizeof position);
            put(&k, KVG_ROLE_COS_SIN, KVG_K, turns, sizeof turns);
            expect_run(&k, KVG_OK);
            assert_memory_equal(pool_of(&k, KVG_V) + 5 * 8, with ? with_bias : x, sizeof x);
            if (with) {
                const uint16_t *want = pairing == KVG_PAIRING_ADJACENT ? adjacent : halves;
                assert_memory_equal(pool_of(&k, KVG_K) + 5 * 8, want, sizeof x);
            } else {
                assert_memory_equal(pool_of(&k, KVG_K) + 5 * 8 + 4, x + 4, 8); /* NaN payloads beyond R stay */
            }
            for (size_t i = 0; i < 2 * 4 * 8; i++) {
                if (i / 8 != 5) assert_int_equal(pool_of(&k, KVG_K)[i], 0xA5A5);
            }
            kit_close(&k);
        }
    }
}

/* (1 + 2^-12)^2 is half way between two f32 and goes to 1 + 2^-11 before that is taken off: unrounded it would leave
 * 2^-24, f16's 0x0001. A NaN of bf16 has bf16's bits on its way into an f16 cache: 0x7FFF, then 0x7FF8. */
void test_rope_roundings(void **state)
{
    (void)state;
    const float x[8] = {1 + 0x1p-12f, 1 + 0x1p-11f}, turn[2] = {1 + 0x1p-12f, 1};
    const int64_t slot = 0;
    const int32_t position = 0;
    kvg_problem p = plain(KVG_OP_APPEND, KVG_DTYPE_F32, 1);
    p.rope = (kvg_rope){.dims = 2, .positions = 1, .pairing = KVG_PAIRING_ADJACENT};
    kit k = kit_open_problem(&p);
    for (int side = KVG_K; side <= KVG_V; side++) put(&k, KVG_ROLE_VALUES, side, x, sizeof x);
    put(&k, KVG_ROLE_SLOTS, KVG_K, &slot, sizeof slot);
    put(&k, KVG_ROLE_POSITIONS, KVG_K, &position, sizeof position);
    put(&k, KVG_ROLE_COS_SIN, KVG_K, turn, sizeof turn);
    expect_run(&k, KVG_OK);
    assert_int_equal(pool_of(&k, KVG_K)[0], 0);
    kit_close(&k);

    const uint16_t nan_row[8] = {0x7F81, 0x3F80, 0x7F81};
    p = plain(KVG_OP_APPEND, KVG_DTYPE_BF16, 1);
    p.storage[KVG_K].format = KVG_FORMAT_F16;
    p.rope = (kvg_rope){.dims = 2, .positions = 1, .pairing = KVG_PAIRING_ADJACENT};
    k = kit_open_problem(&p);
    for (int side = KVG_K; side <= KVG_V; side++) put(&k, KVG_ROLE_VALUES, side, nan_row, sizeof nan_row);
    put(&k, KVG_ROLE_SLOTS, KVG_K, &slot, sizeof slot);
    put(&k, KVG_ROLE_POSITIONS, KVG_K, &position, sizeof position);
    put(&k, KVG_ROLE_COS_SIN, KVG_K, turn, sizeof turn);
    expect_run(&k, KVG_OK);
    assert_int_equal(pool_of(&k, KVG_K)[0], 0x7FF8);
    assert_int_equal(pool_of(&k, KVG_K)[1], 0x7FF8);
    assert_int_equal(pool_of(&k, KVG_K)[2], 0x7C08); /* not turned: payload 1 of bf16's 7 bits */
    kit_close(&k);
}

/* V scale byte s of token t is 115 + 4t + s: amax 2^(4t + s - 10) by rule ceil6. The pool shows the drawn tile, a probe
 * the block order. */
void test_grouped_append_and_probe(void **state)
{
    (void)state;
    enum { D = 64, B = 8 };
    kvg_problem p = {
        .op = KVG_OP_APPEND, .layout = KVG_LAYOUT_TRTLLM, .dtype = KVG_DTYPE_F32,
        .storage = {{KVG_FORMAT_MX16, "canonical"}, {KVG_FORMAT_MX16, "canonical"}},
        .tokens = B, .kv_heads = 1, .head_dim = D,
        .paging = {.layers = 1, .blocks = 1, .block_tokens = B, .v_scale_swizzle = true},
    };
    kit k = kit_open_problem(&p);
    for (size_t t = 0; t < B; t++) {
        for (size_t i = 0; i < D; i++) {
            float x = kvg_f32_of_bits((uint32_t)(127 + 4 * t + i / 16 - 10) << 23);
            for (int side = KVG_K; side <= KVG_V; side++) {
                ((float *)k.tensor[KVG_ROLE_VALUES][side].data)[t * D + i] = x;
            }
        }
        ((int64_t *)k.tensor[KVG_ROLE_SLOTS][KVG_K].data)[t] = (int64_t)t;
    }
    expect_run(&k, KVG_OK);
    const uint8_t *scales = k.tensor[KVG_ROLE_SCALE_POOL][KVG_K].data; /* K page, V page of 32 bytes */
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(scales[i], 115 + i);
        assert_int_equal(scales[32 + i], 115 + 4 * (tile_of_4[i] >> 4) + (tile_of_4[i] & 15));
    }

    p.op = KVG_OP_PROBE;
    kit probe = kit_open_problem(&p);
    for (int role = KVG_ROLE_DATA_POOL; role <= KVG_ROLE_SCALE_POOL; role++) {
        put(&probe, role, KVG_K, k.tensor[role][KVG_K].data, k.tensor[role][KVG_K].bytes);
    }
    put(&probe, KVG_ROLE_SLOTS, KVG_K, (const int64_t[B]){7, -1, 2, 3, 4, 5, 6, 7}, B * sizeof(int64_t));
    expect_run(&probe, KVG_OK);
    static const uint8_t row_7[4] = {143, 144, 145, 146}, untouched[4] = {0xA5, 0xA5, 0xA5, 0xA5};
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint8_t *got = probe.tensor[KVG_ROLE_SCALES][side].data;
        assert_memory_equal(got, row_7, 4);
        assert_memory_equal(got + 4, untouched, 4);
        assert_memory_equal(got + 28, row_7, 4);
        assert_int_equal(((const uint8_t *)probe.tensor[KVG_ROLE_CODES][side].data)[0], 0x66); /* 4 * 2^e */
        assert_int_equal(((const uint8_t *)probe.tensor[KVG_ROLE_CODES][side].data)[32], 0xA5);
    }
    kit_close(&probe);
    kit_close(&k);
}

/* Latent 512 of 576 after 64 RoPE elements: V is the end of the row. */
void test_shared_row(void **state)
{
    (void)state;
    enum { D = 576, FIRST = 64, V = 512, T = 3 };
    kvg_problem p = {
        .op = KVG_OP_APPEND, .layout = KVG_LAYOUT_MLA, .dtype = KVG_DTYPE_F16,
        .storage = {{KVG_FORMAT_F16, "canonical"}, {KVG_FORMAT_F16, "canonical"}},
        .tokens = T, .kv_heads = 1, .head_dim = D,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = 2, .shared_kv = true, .v_first = FIRST, .v_dim = V},
    };
    kit k = kit_open_problem(&p);
    assert_int_equal(k.tensor[KVG_ROLE_VALUES][KVG_V].bytes, 0);
    assert_int_equal(k.tensor[KVG_ROLE_DATA_POOL][KVG_V].bytes, 0);
    uint16_t *x = k.tensor[KVG_ROLE_VALUES][KVG_K].data;
    for (size_t i = 0; i < (size_t)T * D; i++) x[i] = (uint16_t)(0x2000 + i);
    put(&k, KVG_ROLE_SLOTS, KVG_K, (const int64_t[T]){2, 3, 1}, T * sizeof(int64_t));
    expect_run(&k, KVG_OK);

    p.op = KVG_OP_FLATTEN;
    p.paging.sequences = 1;
    kit flat = kit_open_problem(&p);
    put(&flat, KVG_ROLE_DATA_POOL, KVG_K, pool_of(&k, KVG_K), k.tensor[KVG_ROLE_DATA_POOL][KVG_K].bytes);
    put(&flat, KVG_ROLE_BLOCK_TABLE, KVG_K, (const int32_t[2]){1, -1}, 8);
    put(&flat, KVG_ROLE_LENGTHS, KVG_K, (const int32_t[1]){3}, 4);
    expect_run(&flat, KVG_OK);
    const uint16_t *k_flat = flat.tensor[KVG_ROLE_FLAT][KVG_K].data, *v_flat = flat.tensor[KVG_ROLE_FLAT][KVG_V].data;
    assert_memory_equal(k_flat, x, 2 * D * 2);
    for (size_t t = 0; t < 2; t++) assert_memory_equal(v_flat + t * V, x + t * D + FIRST, V * 2);
    assert_int_equal(k_flat[2 * D], 0xA5A5); /* the hole in the table */
    assert_int_equal(v_flat[2 * V], 0xA5A5);
    kit_close(&flat);
    kit_close(&k);
}

/* A ring of 4 after 10 tokens holds positions 8 9 6 7; T decides which of them are given. */
void test_ring_positions(void **state)
{
    (void)state;
    for (uint32_t tokens = 8; tokens <= 12; tokens += 4) {
        kvg_problem p = plain(KVG_OP_FLATTEN, KVG_DTYPE_F16, tokens);
        p.layout = KVG_LAYOUT_RING;
        kit k = kit_open_problem(&p);
        for (int side = KVG_K; side <= KVG_V; side++) {
            uint16_t *pool = k.tensor[KVG_ROLE_DATA_POOL][side].data;
            for (size_t i = 0; i < 64; i++) pool[i] = (uint16_t)(0x3000 + i / 8);
        }
        put(&k, KVG_ROLE_BLOCK_TABLE, KVG_K, (const int32_t[1]){1}, 4);
        put(&k, KVG_ROLE_LENGTHS, KVG_K, (const int32_t[1]){10}, 4);
        expect_run(&k, KVG_OK);
        static const uint16_t offsets[12] = {9, 9, 9, 9, 9, 9, 2, 3, 0, 1, 9, 9}; /* 9: left alone */
        const uint16_t *flat = k.tensor[KVG_ROLE_FLAT][KVG_V].data;
        for (size_t i = 0; i < tokens * 8; i++) {
            assert_int_equal(flat[i], offsets[i / 8] == 9 ? 0xA5A5 : 0x3004 + offsets[i / 8]);
        }
        kit_close(&k);
    }
}

/* What is refused writes nothing, whatever came before it. */
void test_paged_refusals(void **state)
{
    (void)state;
    static const struct {
        int64_t slots[3];
        int32_t positions[3];
        kvg_status want;
    } cases[] = {
        {{0, 1, 7}, {0, 1, 1}, KVG_OK},
        {{-1, INT64_MIN, -1}, {0, 0, 0}, KVG_OK},
        {{0, 1, 8}, {0, 1, 1}, KVG_ERR_INVALID},
        {{0, 1, INT64_MAX}, {0, 1, 1}, KVG_ERR_INVALID},
        {{3, 1, 3}, {0, 1, 1}, KVG_ERR_INVALID},
        {{0, 1, 2}, {0, 1, 2}, KVG_ERR_INVALID},
        {{0, 1, 2}, {0, 1, -1}, KVG_ERR_INVALID},
        {{0, 1, -1}, {0, 1, 2}, KVG_ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kvg_problem p = plain(KVG_OP_APPEND, KVG_DTYPE_F16, 3);
        p.rope = (kvg_rope){.dims = 2, .positions = 2, .pairing = KVG_PAIRING_HALVES};
        kit k = kit_open_problem(&p);
        put(&k, KVG_ROLE_SLOTS, KVG_K, cases[i].slots, sizeof cases[i].slots);
        put(&k, KVG_ROLE_POSITIONS, KVG_K, cases[i].positions, sizeof cases[i].positions);
        memset(k.tensor[KVG_ROLE_VALUES][KVG_K].data, 0, k.tensor[KVG_ROLE_VALUES][KVG_K].bytes);
        expect_run(&k, cases[i].want);
        bool written = false;
        for (size_t e = 0; e < 64; e++) written |= pool_of(&k, KVG_K)[e] != 0xA5A5;
        assert_int_equal(written, cases[i].slots[0] >= 0 && cases[i].want == KVG_OK);
        kit_close(&k);
    }

    kvg_problem p = plain(KVG_OP_PROBE, KVG_DTYPE_F16, 3);
    kit probe = kit_open_problem(&p);
    put(&probe, KVG_ROLE_SLOTS, KVG_K, (const int64_t[3]){0, 0, 8}, 24);
    expect_run(&probe, KVG_ERR_INVALID);
    assert_int_equal(((const uint8_t *)probe.tensor[KVG_ROLE_CODES][KVG_K].data)[0], 0xA5);
    kit_close(&probe);

    static const int32_t lengths[] = {-1, 4};
    for (size_t i = 0; i < 2; i++) {
        p = plain(KVG_OP_FLATTEN, KVG_DTYPE_F16, 3);
        kit flat = kit_open_problem(&p);
        memset(flat.tensor[KVG_ROLE_BLOCK_TABLE][KVG_K].data, 0, 4);
        put(&flat, KVG_ROLE_LENGTHS, KVG_K, &lengths[i], 4);
        expect_run(&flat, KVG_ERR_INVALID);
        kit_close(&flat);
    }
}
