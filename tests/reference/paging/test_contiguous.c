/* reference/contiguous.h: every token carries an integer tag, and the cache is compared with a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "reference/contiguous.h"
#include "reference/reference.h"

enum { BATCH = 3, LAYERS = 2, MAX_CAPACITY = 40, MAX_TOKENS = 400, MAX_STEP = 3 * MAX_CAPACITY + 1 };

/* The model: every tag that a layer ever got of a sequence, in order; and the storage that the slots address. */
typedef struct bench {
    kvg_contiguous_config config;
    kvg_contiguous *cache;
    int list[LAYERS][BATCH][MAX_TOKENS];
    uint32_t listed[LAYERS][BATCH];
    int stored[LAYERS][BATCH * MAX_CAPACITY];
} bench;

static int tag_of(uint32_t layer, uint32_t sequence, uint32_t token)
{
    return (int)(1 + token + MAX_TOKENS * (sequence + BATCH * layer));
}

static void start(bench *b, uint64_t capacity, bool ring)
{
    *b = (bench){.config = {BATCH, LAYERS, capacity, ring}};
    assert_int_equal(kvg_contiguous_create(&b->config, &b->cache), KVG_OK);
}

static uint32_t tokens_kept(const bench *b, uint32_t listed)
{
    return b->config.ring && listed > b->config.capacity ? (uint32_t)b->config.capacity : listed;
}

/* What the cache says it holds of (layer, sequence) is the end of the list, oldest first, in storage too. */
static void compare(const bench *b, uint32_t layer, uint32_t sequence)
{
    const uint32_t listed = b->listed[layer][sequence], count = tokens_kept(b, listed);
    const kvg_positions valid = kvg_contiguous_valid(b->cache, layer, sequence);
    assert_int_equal(valid.end, listed);
    assert_int_equal(valid.end - valid.first, count);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t slot = kvg_contiguous_slot(b->cache, layer, sequence, valid.first + i);
        assert_int_equal(slot / (int64_t)b->config.capacity, sequence);
        assert_int_equal(b->stored[layer][slot], b->list[layer][sequence][listed - count + i]);
    }
    assert_int_equal(kvg_contiguous_slot(b->cache, layer, sequence, valid.end), -1);
    if (valid.first > 0) assert_int_equal(kvg_contiguous_slot(b->cache, layer, sequence, valid.first - 1), -1);
}

static void compare_all(const bench *b)
{
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (uint32_t s = 0; s < BATCH; s++) compare(b, layer, s);
    }
}

/* Updates one layer, writes the tags where the cache says and appends them to the list. */
static void update(bench *b, uint32_t layer, const uint32_t counts[BATCH])
{
    int64_t slots[BATCH * MAX_STEP], *slot = slots;
    kvg_positions valid[BATCH];
    assert_int_equal(kvg_contiguous_update(b->cache, layer, counts, slots, valid), KVG_OK);
    for (uint32_t s = 0; s < BATCH; s++) {
        const uint32_t kept = tokens_kept(b, counts[s]);
        for (uint32_t j = 0; j < counts[s]; j++, slot++) {
            const uint32_t token = b->listed[layer][s]++;
            b->list[layer][s][token] = tag_of(layer, s, token);
            assert_int_equal(*slot == -1, j < counts[s] - kept);
            if (*slot >= 0) b->stored[layer][*slot] = tag_of(layer, s, token);
        }
        const kvg_positions now = kvg_contiguous_valid(b->cache, layer, s);
        assert_true(valid[s].first == now.first && valid[s].end == now.end);
        compare(b, layer, s);
    }
}

static void step(bench *b, const uint32_t counts[BATCH])
{
    for (uint32_t layer = LAYERS; layer-- > 0;) update(b, layer, counts);
    assert_int_equal(kvg_contiguous_advance(b->cache, counts), KVG_OK);
    compare_all(b);
    for (uint32_t s = 0; s < BATCH; s++) assert_int_equal(kvg_contiguous_length(b->cache, s), b->listed[0][s]);
}

/* --- positions --- */

/* One token at a time to 3W + 1, and once each in a chunk that ends at W - 1, W, W + 1, 3W and beyond. */
static void test_a_ring_rolls_when_it_is_full_and_not_before(void **state)
{
    (void)state;
    for (uint32_t w = 1; w <= 9; w++) {
        bench b;
        start(&b, w, true);
        for (uint32_t t = 1; t <= 3 * w + 1; t++) {
            step(&b, (uint32_t[]){1, 1, 1});
            const kvg_positions valid = kvg_contiguous_valid(b.cache, 0, 1);
            assert_int_equal(valid.first, t <= w ? 0 : t - w);
            assert_int_equal(kvg_contiguous_slot(b.cache, 0, 1, t - 1), w + (t - 1) % w);
        }
        kvg_contiguous_destroy(b.cache);
        for (uint32_t before = 0; before <= w + 1; before++) {
            const uint32_t ends[] = {w - 1, w, w + 1, 2 * w, 3 * w, 3 * w + 1};
            for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
                start(&b, w, true);
                step(&b, (uint32_t[]){before, before, 0});
                step(&b, (uint32_t[]){ends[i], 1, ends[i]});
                step(&b, (uint32_t[]){1, ends[i], 2});
                kvg_contiguous_destroy(b.cache);
            }
        }
    }
}

static void test_slots_worked_by_hand(void **state)
{
    (void)state;
    const kvg_contiguous_config config = {2, 1, 4, true};
    kvg_contiguous *cache;
    int64_t slots[16];
    kvg_positions valid[2];
    assert_int_equal(kvg_contiguous_create(&config, &cache), KVG_OK);
    assert_int_equal(kvg_contiguous_update(cache, 0, (uint32_t[]){3, 6}, slots, valid), KVG_OK);
    assert_memory_equal(slots, ((int64_t[]){0, 1, 2, -1, -1, 6, 7, 4, 5}), 9 * sizeof *slots);
    assert_true(valid[0].first == 0 && valid[0].end == 3 && valid[1].first == 2 && valid[1].end == 6);
    assert_int_equal(kvg_contiguous_advance(cache, (uint32_t[]){3, 6}), KVG_OK);
    assert_int_equal(kvg_contiguous_update(cache, 0, (uint32_t[]){2, 1}, slots, NULL), KVG_OK);
    assert_memory_equal(slots, ((int64_t[]){3, 0, 6}), 3 * sizeof *slots);
    kvg_contiguous_destroy(cache);
}

static void test_random_steps_follow_the_list(void **state)
{
    (void)state;
    int steps = 0;
    for (uint64_t run = 0; run < 400; run++) {
        const bool ring = run % 2;
        const uint64_t capacity = 1 + kvg_rng_below(1, run, 0, MAX_CAPACITY);
        bench b;
        start(&b, capacity, ring);
        for (uint64_t i = 1; i <= 20; i++) {
            uint32_t counts[BATCH];
            for (uint32_t s = 0; s < BATCH; s++) {
                const uint64_t room = ring ? MAX_TOKENS - b.listed[0][s] : capacity - b.listed[0][s];
                const uint64_t most = kvg_rng_below(2, run, i, 4) ? 3 : capacity + 2;
                counts[s] = (uint32_t)kvg_rng_below(3, run, i * BATCH + s, (most < room ? most : room) + 1);
            }
            step(&b, counts);
            steps++;
        }
        kvg_contiguous_destroy(b.cache);
    }
    assert_int_equal(steps, 400 * 20);
}

/* Nothing of one layer's update is seen in another. */
static void test_a_layer_sees_its_own_update_only(void **state)
{
    (void)state;
    bench b;
    start(&b, 4, true);
    step(&b, (uint32_t[]){4, 4, 4});
    update(&b, 1, (uint32_t[]){2, 0, 1});
    compare(&b, 0, 0);
    assert_int_equal(kvg_contiguous_valid(b.cache, 0, 0).end, 4);
    assert_int_equal(kvg_contiguous_valid(b.cache, 1, 0).end, 6);
    assert_int_equal(kvg_contiguous_length(b.cache, 0), 4);
    kvg_contiguous_destroy(b.cache);
}

/* --- refusals --- */

static void refused(kvg_status s, const char *text)
{
    assert_int_equal(s, KVG_ERR_INVALID);
    if (!strstr(kvg_error_text(), text)) fail_msg("no '%s' in '%s'", text, kvg_error_text());
}

static void update_refused(const bench *b, uint32_t layer, const uint32_t counts[BATCH], const char *text)
{
    int64_t slots[BATCH * MAX_STEP], untouched[BATCH * MAX_STEP];
    kvg_positions valid[BATCH], same[BATCH];
    memset(slots, 0x5A, sizeof slots), memset(untouched, 0x5A, sizeof untouched);
    memset(valid, 0x5A, sizeof valid), memset(same, 0x5A, sizeof same);
    refused(kvg_contiguous_update(b->cache, layer, counts, slots, valid), text);
    assert_memory_equal(slots, untouched, sizeof slots);
    assert_memory_equal(valid, same, sizeof valid);
    compare_all(b);
}

static void test_positions_past_the_capacity_are_refused(void **state)
{
    (void)state;
    bench b;
    start(&b, 5, false);
    update_refused(&b, 0, (uint32_t[]){0, 6, 0}, "sequence 1 has 0 tokens of 5: no room for 6 more");
    step(&b, (uint32_t[]){5, 4, 0});
    update_refused(&b, 0, (uint32_t[]){1, 1, 1}, "sequence 0 has 5 tokens of 5: no room for 1 more");
    update_refused(&b, 1, (uint32_t[]){0, 2, 1}, "sequence 1 has 4 tokens of 5: no room for 2 more");
    update_refused(&b, 1, (uint32_t[]){0, UINT32_MAX, 1}, "no room for 4294967295 more");
    step(&b, (uint32_t[]){0, 1, 5}); /* still whole: the refused updates left no trace */
    update_refused(&b, 0, (uint32_t[]){0, 0, 1}, "sequence 2 has 5 tokens of 5");
    kvg_contiguous_destroy(b.cache);
}

static void test_a_step_is_one_update_of_every_layer_with_the_same_counts(void **state)
{
    (void)state;
    const uint32_t two[BATCH] = {2, 2, 2}, other[BATCH] = {2, 3, 2}, none[BATCH] = {0};
    bench b;
    start(&b, 8, false);
    refused(kvg_contiguous_advance(b.cache, two), "layer 0 was not updated in this step: 0 of 2 layers were");
    refused(kvg_contiguous_advance(b.cache, none), "layer 0 was not updated");
    update_refused(&b, 2, two, "layer 2 is none of the cache's 2");
    update(&b, 0, two);
    update_refused(&b, 0, two, "layer 0 was updated in this step already");
    update_refused(&b, 1, other, "layer 1 gives sequence 1 3 tokens, where this step's first update gave 2");
    update_refused(&b, 1, none, "the update of layer 1 gives sequence 0 0 tokens");
    refused(kvg_contiguous_advance(b.cache, two), "layer 1 was not updated in this step: 1 of 2 layers were");
    update(&b, 1, two);
    refused(kvg_contiguous_advance(b.cache, other), "the advance after layer 1 gives sequence 1 3 tokens");
    assert_int_equal(kvg_contiguous_length(b.cache, 1), 0);
    compare_all(&b);
    assert_int_equal(kvg_contiguous_advance(b.cache, two), KVG_OK);
    refused(kvg_contiguous_advance(b.cache, two), "layer 0 was not updated in this step: 0 of 2 layers were");
    assert_int_equal(kvg_contiguous_length(b.cache, 1), 2);
    step(&b, other); /* another step may have other counts */
    kvg_contiguous_destroy(b.cache);
}

static void test_reset_forgets_tokens_and_a_begun_step(void **state)
{
    (void)state;
    bench b;
    start(&b, 4, true);
    step(&b, (uint32_t[]){5, 1, 4});
    update(&b, 1, (uint32_t[]){1, 2, 3});
    kvg_contiguous_reset(b.cache);
    memset(b.listed, 0, sizeof b.listed);
    memset(b.stored, 0, sizeof b.stored);
    compare_all(&b);
    step(&b, (uint32_t[]){4, 3, 5});
    kvg_contiguous_destroy(b.cache);
}

static void test_impossible_caches_are_refused(void **state)
{
    (void)state;
    static const kvg_contiguous_config bad[] = {
        {0, 1, 1, false}, {1, 0, 1, false}, {1, 1, 0, true}, {1, 1, 1ull << 63, true}, {4, 1, 1ull << 61, true}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvg_contiguous *cache;
        refused(kvg_contiguous_create(&bad[i], &cache), "at most 2^63 - 1 slots");
        assert_null(cache);
    }
    kvg_contiguous_destroy(NULL);
}

/* --- large and measured --- */

static void test_slots_beyond_32_bits(void **state)
{
    (void)state;
    const kvg_contiguous_config config = {3, 1, (1ull << 61) + 1, false};
    kvg_contiguous *cache;
    int64_t slots[3];
    assert_int_equal(kvg_contiguous_create(&config, &cache), KVG_OK);
    assert_int_equal(kvg_contiguous_update(cache, 0, (uint32_t[]){1, 1, 1}, slots, NULL), KVG_OK);
    assert_true(slots[1] == (1ll << 61) + 1 && slots[2] == (1ll << 62) + 2);
    kvg_contiguous_destroy(cache);
}

static void test_memory_is_counted_to_the_byte(void **state)
{
    (void)state;
    uint64_t allocated, used;
    bench b;
    start(&b, 7, true);
    step(&b, (uint32_t[]){9, 3, 0}); /* 7 + 3 + 0 tokens of 21 */
    assert_int_equal(kvg_contiguous_memory(b.cache, 1000, &allocated, &used), KVG_OK);
    assert_int_equal(allocated, BATCH * LAYERS * 7 * 1000);
    assert_int_equal(used, LAYERS * 10 * 1000);
    update(&b, 0, (uint32_t[]){0, 2, 0}); /* not of a finished step */
    assert_int_equal(kvg_contiguous_memory(b.cache, 1000, &allocated, &used), KVG_OK);
    assert_int_equal(used, LAYERS * 10 * 1000);
    kvg_contiguous_destroy(b.cache);
    /* 32 layers, 8 heads, head_dim 128 in f16 at 4096 positions: 0.5 GiB */
    const kvg_contiguous_config model = {1, 32, 4096, false}, large = {1, 4, 1ull << 62, true};
    kvg_contiguous *cache;
    assert_int_equal(kvg_contiguous_create(&model, &cache), KVG_OK);
    assert_int_equal(kvg_contiguous_memory(cache, 2 * 8 * 128 * 2, &allocated, &used), KVG_OK);
    assert_true(allocated == 536870912 && used == 0);
    kvg_contiguous_destroy(cache);
    assert_int_equal(kvg_contiguous_create(&large, &cache), KVG_OK);
    refused(kvg_contiguous_memory(cache, 1, &allocated, &used), "2^64 bytes or more");
    kvg_contiguous_destroy(cache);
    assert_int_equal(kvg_contiguous_create(&model, &cache), KVG_OK);
    refused(kvg_contiguous_memory(cache, 1ull << 47, &allocated, &used), "2^64 bytes or more");
    kvg_contiguous_destroy(cache);
}

/* Bytes: what update's slots make op append write, op flatten must give back, in f16 (exact) for both layouts. */
static void test_append_and_flatten_follow_the_slots(void **state)
{
    (void)state;
    enum { WINDOW = 6, D = 8, STEPS = 9, LONGEST = 24 };
    static const uint32_t new_tokens[STEPS] = {1, 4, 1, 1, 2, 5, 1, 1, 8}; /* below, at and far beyond the window */
    for (int ring = 0; ring < 2; ring++) {
        const uint32_t capacity = ring ? WINDOW : LONGEST;
        const kvg_contiguous_config config = {1, 1, capacity, ring};
        kvg_contiguous *cache;
        assert_int_equal(kvg_contiguous_create(&config, &cache), KVG_OK);
        uint16_t pools[2][LONGEST * D] = {{0}};
        for (uint32_t step = 0, length = 0; step < STEPS; step++) {
            const uint32_t count = new_tokens[step];
            int64_t slots[LONGEST];
            assert_int_equal(kvg_contiguous_update(cache, 0, &count, slots, NULL), KVG_OK);
            kvg_problem p = {.op = KVG_OP_APPEND, .layout = ring ? KVG_LAYOUT_RING : KVG_LAYOUT_CONTIGUOUS,
                             .dtype = KVG_DTYPE_F16, .tokens = count, .kv_heads = 1, .head_dim = D,
                             .storage = {{KVG_FORMAT_F16, "canonical"}, {KVG_FORMAT_F16, "canonical"}},
                             .paging = {.layers = 1, .blocks = 1, .block_tokens = capacity, .sequences = 1}};
            uint16_t rows[2][LONGEST * D], flat[2][LONGEST * D];
            for (uint32_t i = 0; i < count * D; i++) rows[0][i] = rows[1][i] = (uint16_t)(1 + length * D + i);
            kvg_tensor in[KVG_MAX_TENSORS] = {{0}}, out[KVG_MAX_TENSORS] = {{0}};
            const kvg_role *roles = kvg_op_get(p.op)->inputs;
            in[kvg_roles_index(roles, KVG_ROLE_SLOTS, KVG_K)].data = slots;
            for (int side = 0; side < 2; side++) {
                in[kvg_roles_index(roles, KVG_ROLE_VALUES, (kvg_side)side)].data = rows[side];
                out[side].data = pools[side];
            }
            assert_int_equal(kvg_reference_run(&p, in, out), KVG_OK);
            assert_int_equal(kvg_contiguous_advance(cache, &count), KVG_OK);
            length += count;
            p.op = KVG_OP_FLATTEN;
            p.tokens = LONGEST;
            roles = kvg_op_get(p.op)->inputs;
            int32_t table = 0, lengths = (int32_t)length;
            memset(in, 0, sizeof in);
            in[kvg_roles_index(roles, KVG_ROLE_BLOCK_TABLE, KVG_K)].data = &table;
            in[kvg_roles_index(roles, KVG_ROLE_LENGTHS, KVG_K)].data = &lengths;
            memset(flat, 0xFF, sizeof flat);
            for (int side = 0; side < 2; side++) {
                in[kvg_roles_index(roles, KVG_ROLE_DATA_POOL, (kvg_side)side)].data = pools[side];
                out[side] = kvg_problem_tensor(&p, KVG_ROLE_FLAT, (kvg_side)side);
                out[side].data = flat[side];
            }
            assert_int_equal(kvg_reference_run(&p, in, out), KVG_OK);
            const uint32_t first = length > capacity ? length - capacity : 0;
            for (uint32_t i = 0; i < LONGEST * D; i++) {
                const bool there = i / D >= first && i / D < length;
                assert_int_equal(flat[1][i], there ? 1 + i : 0xFFFF);
                assert_int_equal(flat[0][i], flat[1][i]);
            }
        }
        kvg_contiguous_destroy(cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_rolls_when_it_is_full_and_not_before),
        cmocka_unit_test(test_slots_worked_by_hand),
        cmocka_unit_test(test_random_steps_follow_the_list),
        cmocka_unit_test(test_a_layer_sees_its_own_update_only),
        cmocka_unit_test(test_positions_past_the_capacity_are_refused),
        cmocka_unit_test(test_a_step_is_one_update_of_every_layer_with_the_same_counts),
        cmocka_unit_test(test_reset_forgets_tokens_and_a_begun_step),
        cmocka_unit_test(test_impossible_caches_are_refused),
        cmocka_unit_test(test_slots_beyond_32_bits),
        cmocka_unit_test(test_memory_is_counted_to_the_byte),
        cmocka_unit_test(test_append_and_flatten_follow_the_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
