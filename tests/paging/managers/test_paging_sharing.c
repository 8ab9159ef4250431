/* The sequence manager: shared prefixes, preemption and resume, forks and copies on write, the sliding window. */
#include "tests/paging/managers/paging_world.h"

/* Appends n tokens and writes them in one step. */
static kvg_sequence_grant decode(world *w, uint64_t id, uint32_t n)
{
    assert_ok(append(w, id, n));
    const kvg_sequence_grant g = step_one(w, id, info_of(w, id).tokens, UINT32_MAX);
    assert_true(g.active);
    assert_ok(w->ops->written(w->self, id, g.count));
    return g;
}

/* --- shared prefixes --- */

static void test_prefixes_are_shared_after_the_write_only(void **state)
{
    (void)state;
    for (int scale = 0; scale < 2; scale++) {
        world w;
        world_options o = plain_world;
        o.scale = scale;
        world_open(&w, &o);
        new_sequence(&w, 1, 1, 12);
        assert_int_equal(step_one(&w, 1, 12, 6).count, 6);
        new_sequence(&w, 2, 1, 12);
        assert_int_equal(step_one(&w, 2, 12, 1).matched, 0); /* allocated, not written */
        assert_ok(w.ops->written(w.self, 1, 5));
        new_sequence(&w, 3, 1, 12);
        const kvg_sequence_grant g = step_one(&w, 3, 12, 12);
        assert_int_equal(g.matched, 1); /* one full block of the five tokens */
        assert_int_equal(g.first, 4);
        assert_int_equal(g.read_only, 1);
        assert_int_equal(g.count, 8);
        assert_int_equal(entry_of(&w, 3, 0), entry_of(&w, 1, 0));
        assert_int_equal(users(&w, entry_of(&w, 1, 0)), 2);
        assert_ok(w.ops->written(w.self, 3, 8));
        new_sequence(&w, 4, 1, 12);
        assert_int_equal(step_one(&w, 4, 12, 12).matched, 2); /* three are full, but one token must be left */
        world_check(&w);
        world_close(&w);
    }
}

static void test_generated_tokens_are_shared_too(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    for (int i = 0; i < 3; i++) decode(&w, 1, 1);
    int32_t tokens[9];
    const kvg_prefix_key key = {0}, salted = {.salt = 1};
    assert_ok(w.ops->tokens(w.self, 1, 0, 9, tokens));
    assert_ok(w.ops->create(w.self, 2, &key, tokens, 9));
    assert_ok(w.ops->create(w.self, 3, &salted, tokens, 9));
    assert_int_equal(step_one(&w, 2, 9, 9).matched, 2);
    assert_int_equal(step_one(&w, 3, 9, 9).matched, 0);
    world_close(&w);
}

static void test_without_prefix_cache_nothing_is_shared(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.prefix = false;
    world_open(&w, &o);
    prefill(&w, 1, 1, 12);
    new_sequence(&w, 2, 1, 12);
    assert_int_equal(step_one(&w, 2, 12, 12).matched, 0);
    assert_int_equal(entry_of(&w, 2, 0), 3);
    world_close(&w);
}

/* A resumed sequence takes from the index what it lost itself. */
static void test_a_resumed_sequence_finds_what_others_cached(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 6;
    world_open(&w, &o);
    prefill(&w, 1, 1, 14); /* 0 to 3 */
    assert_ok(w.ops->preempt(w.self, 1));
    prefill(&w, 2, 2, 16); /* 4, 5, and the tail of 1: 2, 3 */
    assert_ok(w.ops->erase(w.self, 2));
    prefill(&w, 3, 1, 13); /* matches 0, 1 and writes two more */
    const kvg_sequence_grant g = step_one(&w, 1, 14, 14);
    assert_int_equal(g.matched, 1); /* two of its own, one of 3's */
    assert_int_equal(g.first, 12);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(entry_of(&w, 1, i), entry_of(&w, 3, i));
    assert_int_not_equal(entry_of(&w, 1, 3), entry_of(&w, 3, 3));
    world_check(&w);
    world_close(&w);
}

/* The index is shown no more than the context of the step: it must leave something to write. */
static void test_a_chunk_is_not_overtaken_by_its_match(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 17);
    new_sequence(&w, 2, 1, 17);
    const kvg_sequence_grant g = step_one(&w, 2, 8, 8);
    assert_int_equal(g.matched, 1);
    assert_int_equal(g.first, 4);
    assert_int_equal(g.count, 4);
    world_close(&w);
}

/* --- preempt and resume --- */

static void test_resume_trusts_only_what_verifies(void **state)
{
    (void)state;
    for (uint32_t taken = 0; taken <= 4; taken++) {
        world w;
        world_options o = plain_world;
        o.capacity = 4;
        o.prefix = false;
        world_open(&w, &o);
        prefill(&w, 1, 1, 14);
        assert_ok(w.ops->preempt(w.self, 1));
        if (taken) {
            prefill(&w, 2, 2, 4 * taken);
            assert_ok(w.ops->erase(w.self, 2));
        }
        assert_int_equal(info_of(&w, 1).cache_len, 14); /* a claim */
        assert_ok(append(&w, 1, 1));
        const kvg_sequence_grant g = step_one(&w, 1, 15, 15);
        assert_true(g.active);
        assert_int_equal(g.first, taken == 0 ? 14 : 4 * (4 - taken));
        assert_int_equal(g.first + g.count, 15);
        world_check(&w);
        world_close(&w);
    }
}

static void test_release_keeps_the_cache_until_it_is_needed(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 10);
    assert_ok(w.ops->release(w.self, 1));
    assert_ok(w.ops->release(w.self, 1)); /* again: nothing */
    assert_ok(append(&w, 1, 1));
    const kvg_sequence_grant g = step_one(&w, 1, 11, 1);
    assert_int_equal(g.first, 10);
    assert_int_equal(g.matched, 0);
    assert_int_equal(users(&w, entry_of(&w, 1, 2)), 1);
    world_check(&w);
    world_close(&w);
}

/* --- forks --- */

static void test_the_last_writer_of_a_shared_tail_needs_no_copy(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    assert_ok(w.ops->fork(w.self, 1, 2));
    assert_int_equal(info_of(&w, 2).state, KVG_SEQUENCE_LOCKED);
    assert_int_equal(info_of(&w, 2).cache_len, 6);
    assert_int_equal(users(&w, 0), 2);
    assert_int_equal(users(&w, 1), 2);
    assert_ok(append(&w, 1, 1));
    assert_ok(append(&w, 2, 1));
    const kvg_sequence_request requests[] = {{1, 0, 7, 1}, {2, 0, 7, 1}};
    kvg_sequence_grant grants[2];
    assert_ok(w.ops->materialise(w.self, requests, 2, grants));
    assert_int_equal(grants[0].copy_from, 1);
    assert_int_equal(grants[0].copy_to, 2);
    assert_int_equal(grants[0].copy_tokens, 2);
    assert_int_equal(entry_of(&w, 1, 1), 2);
    assert_int_equal(grants[1].copy_from, KVG_BLOCK_NONE);
    assert_int_equal(grants[1].copy_to, KVG_BLOCK_NONE);
    assert_int_equal(entry_of(&w, 2, 1), 1);
    for (uint32_t block = 0; block < 3; block++) assert_int_equal(users(&w, block), block == 0 ? 2 : 1);
    world_check(&w);
    world_close(&w);
}

static void test_three_forks_make_two_copies(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    assert_ok(w.ops->fork(w.self, 1, 2));
    assert_ok(w.ops->fork(w.self, 2, 3));
    kvg_sequence_grant g = decode(&w, 2, 3);
    assert_int_equal(g.copy_from, 1);
    assert_int_equal(g.copy_to, 2);
    assert_int_equal(entry_of(&w, 2, 2), 3); /* the copy first, then the new end */
    g = decode(&w, 3, 1);
    assert_int_equal(g.copy_from, 1);
    g = decode(&w, 1, 1);
    assert_int_equal(g.copy_from, KVG_BLOCK_NONE);
    world_check(&w);
    world_close(&w);
}

/* Whoever is alone with a tail writes it in place, so who lets go of a shared tail must not believe in it. */
static void test_a_shared_tail_is_given_up(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    assert_ok(w.ops->fork(w.self, 1, 2));
    assert_ok(w.ops->release(w.self, 1));
    assert_int_equal(info_of(&w, 1).cache_len, 4);
    assert_ok(w.ops->commit(w.self));
    assert_int_equal(decode(&w, 2, 2).copy_from, KVG_BLOCK_NONE);
    assert_ok(w.ops->release(w.self, 2));
    assert_int_equal(info_of(&w, 2).cache_len, 8); /* it was alone */
    const kvg_sequence_grant g = step_one(&w, 1, 6, 2);
    assert_int_equal(g.first, 4);
    assert_int_not_equal(entry_of(&w, 1, 1), entry_of(&w, 2, 1));
    world_check(&w);
    world_close(&w);
}

static void test_fork_of_a_running_or_cached_sequence_shares_full_blocks(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    assert_ok(append(&w, 1, 1));
    step_one(&w, 1, 7, 1); /* is about to write block 1 */
    assert_ok(w.ops->fork(w.self, 1, 2));
    assert_int_equal(info_of(&w, 2).cache_len, 4);
    assert_int_equal(info_of(&w, 2).tokens, 7);
    assert_int_equal(info_of(&w, 2).granted, 0);
    assert_int_equal(users(&w, 1), 1);
    assert_int_equal(users(&w, 0), 2);
    assert_ok(w.ops->preempt(w.self, 1));
    assert_ok(w.ops->fork(w.self, 1, 3));
    assert_int_equal(info_of(&w, 3).state, KVG_SEQUENCE_CACHED);
    assert_int_equal(info_of(&w, 3).cache_len, 4);
    assert_int_equal(info_of(&w, 3).blocks, 1);
    assert_int_equal(users(&w, 0), 1);
    world_check(&w);
    world_close(&w);
}

/* --- sliding window --- */

/* Block i goes when its last key is invisible to the next query: (i + 1) * B - 1 < length - W + 1. */
static void test_the_window_leaves_blocks_behind_at_the_right_token(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 9; window++) {
        world w;
        world_options o = plain_world;
        o.window = window;
        world_open(&w, &o);
        prefill(&w, 1, 1, 1);
        for (uint32_t length = 1; length < 24; length++) {
            uint32_t holes = 0;
            while ((int32_t)(4 * holes + 3) < (int32_t)length - (int32_t)window + 1) holes++;
            assert_int_equal(info_of(&w, 1).holes, holes);
            for (uint32_t i = 0; i < info_of(&w, 1).blocks; i++) {
                assert_true((entry_of(&w, 1, i) == KVG_BLOCK_NONE) == (i < holes));
            }
            assert_ok(w.ops->commit(w.self));
            assert_int_equal(counts_of(&w).active, info_of(&w, 1).blocks - holes);
            world_check(&w);
            decode(&w, 1, 1);
        }
        world_close(&w);
    }
}

static void test_holes_have_no_slots(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.window = 5;
    world_open(&w, &o);
    prefill(&w, 1, 1, 12); /* next query 12 sees 8 to 12 */
    int64_t slots[5];
    assert_ok(w.ops->slots(w.self, 1, 0, 5, 5, slots));
    const int64_t base = 4 * entry_of(&w, 1, 2);
    const int64_t expected[] = {-1, -1, -1, base, base + 1};
    assert_memory_equal(slots, expected, sizeof expected);
    uint64_t unique_id;
    assert_ok(w.ops->table(w.self, 1, 0, 1, NULL, &unique_id));
    assert_int_equal(unique_id, 0);
    world_close(&w);
}

static void test_blocks_left_behind_come_back_only_where_nobody_can_find_them(void **state)
{
    (void)state;
    for (int prefix = 0; prefix < 2; prefix++) {
        world w;
        world_options o = plain_world;
        o.window = 5;
        o.prefix = prefix;
        world_open(&w, &o);
        prefill(&w, 1, 1, 12);
        assert_ok(w.ops->commit(w.self));
        assert_int_equal(counts_of(&w).cached, prefix ? 2 : 0);
        assert_int_equal(counts_of(&w).active, 1);
        world_close(&w);
    }
}

static void test_a_match_under_a_window_hands_out_no_holes(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.window = 5;
    world_open(&w, &o);
    prefill(&w, 1, 1, 14);
    new_sequence(&w, 2, 1, 13);
    const kvg_sequence_grant g = step_one(&w, 2, 13, 13);
    assert_int_equal(g.matched, 3);
    assert_int_equal(g.first, 12);
    assert_int_equal(info_of(&w, 2).holes, 2); /* query 12 sees 8 to 12 */
    assert_int_equal(entry_of(&w, 2, 2), entry_of(&w, 1, 2));
    world_check(&w);
    /* Without its head the chain is lost, even to those who would need its tail only. */
    for (int p = 0; p < 2; p++) assert_ok(w.pools[p].inner.ops->evict(w.pools[p].inner.self, 1, NULL));
    new_sequence(&w, 3, 1, 13);
    assert_int_equal(step_one(&w, 3, 13, 13).matched, 0);
    world_close(&w);
}

/* A resumed sequence that the index brings further: the window passes what it had itself. */
static void test_a_match_moves_the_window_on(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.window = 5;
    world_open(&w, &o);
    new_sequence(&w, 1, 1, 17);
    step_one(&w, 1, 8, 8);
    assert_ok(w.ops->written(w.self, 1, 8));
    assert_ok(w.ops->preempt(w.self, 1));
    assert_int_equal(info_of(&w, 1).holes, 1);
    prefill(&w, 2, 1, 17);
    const kvg_sequence_grant g = step_one(&w, 1, 17, 17);
    assert_int_equal(g.first, 16);
    assert_int_equal(g.matched, 2);
    assert_int_equal(info_of(&w, 1).holes, 3); /* query 16 sees 12 to 16 */
    assert_int_equal(entry_of(&w, 1, 3), entry_of(&w, 2, 3));
    world_check(&w);
    world_close(&w);
}

/* The tail of a windowed sequence is lost: what is left would need keys that are gone, so it starts again. */
static void test_a_windowed_sequence_that_lost_its_tail_starts_again(void **state)
{
    (void)state;
    for (uint32_t tail = 0; tail < 2; tail++) {
        world w;
        world_options o = plain_world;
        o.window = 6;
        o.prefix = false;
        o.capacity = 5;
        world_open(&w, &o);
        prefill(&w, 1, 1, 18); /* query 18 sees 13 to 18: blocks 3 and 4; 0 to 2 are free */
        assert_ok(w.ops->preempt(w.self, 1));
        assert_int_equal(info_of(&w, 1).holes, 3);
        prefill(&w, 2, 2, 12 + 4 * tail);
        assert_ok(append(&w, 1, 1));
        assert_ok(w.ops->erase(w.self, 2));
        const kvg_sequence_grant g = step_one(&w, 1, 19, 19);
        assert_int_equal(g.first, tail ? 0 : 18);
        assert_int_equal(info_of(&w, 1).holes, tail ? 0 : 3);
        world_check(&w);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes_are_shared_after_the_write_only),
        cmocka_unit_test(test_generated_tokens_are_shared_too),
        cmocka_unit_test(test_without_prefix_cache_nothing_is_shared),
        cmocka_unit_test(test_a_resumed_sequence_finds_what_others_cached),
        cmocka_unit_test(test_a_chunk_is_not_overtaken_by_its_match),
        cmocka_unit_test(test_resume_trusts_only_what_verifies),
        cmocka_unit_test(test_release_keeps_the_cache_until_it_is_needed),
        cmocka_unit_test(test_the_last_writer_of_a_shared_tail_needs_no_copy),
        cmocka_unit_test(test_three_forks_make_two_copies),
        cmocka_unit_test(test_a_shared_tail_is_given_up),
        cmocka_unit_test(test_fork_of_a_running_or_cached_sequence_shares_full_blocks),
        cmocka_unit_test(test_the_window_leaves_blocks_behind_at_the_right_token),
        cmocka_unit_test(test_holes_have_no_slots),
        cmocka_unit_test(test_blocks_left_behind_come_back_only_where_nobody_can_find_them),
        cmocka_unit_test(test_a_match_under_a_window_hands_out_no_holes),
        cmocka_unit_test(test_a_match_moves_the_window_on),
        cmocka_unit_test(test_a_windowed_sequence_that_lost_its_tail_starts_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
