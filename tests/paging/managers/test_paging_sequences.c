/* The sequence manager: blocks for tokens, the order of effects of a step, priorities, deferred work, two pools. */
#include "tests/paging/managers/paging_world.h"

/* --- blocks for tokens --- */

static void test_a_context_needs_its_blocks(void **state)
{
    (void)state;
    for (uint32_t cp = 1; cp <= 3; cp++) {
        for (uint32_t block = 1; block <= 4; block++) {
            for (uint32_t context = 1; context <= 30; context++) {
                world w;
                world_open(&w, &(world_options){.capacity = 64, .chunk = -1, .block_tokens = block, .cp_size = cp});
                new_sequence(&w, 1, 0, 30);
                assert_true(step_one(&w, 1, context, 1).active);
                const uint32_t per_rank = (context + cp - 1) / cp;
                assert_int_equal(info_of(&w, 1).blocks, (per_rank + block - 1) / block);
                assert_int_equal(counts_of(&w).active, (per_rank + block - 1) / block);
                world_close(&w);
            }
        }
    }
}

static void test_a_token_has_one_home(void **state)
{
    (void)state;
    enum { RANKS = 3, PER_BLOCK = 5, TOKENS = 61, BLOCKS = TOKENS / (RANKS * PER_BLOCK) + 1 };
    bool taken[RANKS][BLOCKS][PER_BLOCK] = {0};
    for (uint32_t t = 0; t < TOKENS; t++) {
        const kvg_token_home home = kvg_token_place(t, RANKS, PER_BLOCK);
        assert_int_equal(home.rank, t % RANKS);
        assert_true(home.block < BLOCKS && home.offset < PER_BLOCK);
        assert_int_equal(home.block, t / (RANKS * PER_BLOCK)); /* a block spans the same tokens on every rank */
        assert_false(taken[home.rank][home.block][home.offset]);
        taken[home.rank][home.block][home.offset] = true;
    }
}

static void test_slots_are_64_bits_wide(void **state)
{
    (void)state;
    world w;
    int64_t slots[6];
    const uint32_t top = 1100000;
    const world_options o = {.capacity = top + 2, .chunk = -1, .block_tokens = 4096, .cp_size = 2, .scale = true};
    world_open(&w, &o);
    uint32_t *ids = malloc(top * sizeof *ids);
    for (int p = 0; p < 2; p++) assert_ok(w.pools[p].inner.ops->allocate(w.pools[p].inner.self, top, ids));
    free(ids);
    new_sequence(&w, 1, 0, 3);
    step_one(&w, 1, 8193, 1);
    assert_int_equal(entry_of(&w, 1, 1), top + 1);
    assert_ok(w.ops->slots(w.self, 1, 1, 8188, 6, slots));
    const int64_t base = (int64_t)top * 4096;
    const int64_t expected[] = {-1, base + 4094, -1, base + 4095, -1, base + 4096};
    assert_memory_equal(slots, expected, sizeof expected);
    assert_ok(w.ops->slots(w.self, 1, 0, 8192, 1, slots));
    assert_true(slots[0] == base + 4096 && slots[0] > UINT32_MAX);
    assert_int_equal(w.ops->slots(w.self, 1, 0, 16384, 1, slots), KVG_ERR_INVALID);
    assert_int_equal(w.ops->slots(w.self, 1, 0, 16380, 5, slots), KVG_ERR_INVALID);
    assert_int_equal(w.ops->slots(w.self, 1, 2, 0, 1, slots), KVG_ERR_INVALID);
    assert_ok(w.ops->slots(w.self, 1, 0, 16384, 0, slots));
    world_close(&w);
}

/* --- what is refused --- */

static void test_bad_calls_are_refused_and_change_nothing(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    assert_ok(append(&w, 1, 1));
    new_sequence(&w, 2, 2, 5);
    step_one(&w, 2, 5, 2);
    char *before = world_dump(&w);
    kvg_sequence_grant grants[2];
    const kvg_prefix_key key = {0};
    const kvg_sequence_request unknown[] = {{1, 0, 7, 1}, {9, 0, 7, 1}}, twice[] = {{1, 0, 7, 1}, {1, 1, 7, 1}};
    const kvg_sequence_request nothing[] = {{1, 0, 7, 0}}, empty[] = {{1, 0, 0, 1}};
    const kvg_sequence_request old[] = {{2, 0, 5, 1}, {1, 0, 6, 1}}, huge[] = {{2, 0, 5, 1}, {1, 0, 16 * 4 + 1, 1}};
    int32_t token = 0;
    uint32_t id;
    assert_int_equal(w.ops->materialise(w.self, unknown, 2, grants), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->materialise(w.self, twice, 2, grants), KVG_ERR_INVALID);
    assert_int_equal(w.ops->materialise(w.self, nothing, 1, grants), KVG_ERR_INVALID);
    assert_int_equal(w.ops->materialise(w.self, empty, 1, grants), KVG_ERR_INVALID);
    assert_int_equal(w.ops->materialise(w.self, old, 2, grants), KVG_ERR_INVALID);
    assert_int_equal(w.ops->materialise(w.self, huge, 2, grants), KVG_ERR_EXHAUSTED);
    assert_int_equal(w.ops->create(w.self, 3, &key, &token, 0), KVG_ERR_INVALID);
    assert_int_equal(w.ops->written(w.self, 1, 1), KVG_ERR_INVALID); /* no step runs */
    assert_int_equal(w.ops->written(w.self, 2, 3), KVG_ERR_INVALID); /* 2 granted */
    assert_int_equal(w.ops->fork(w.self, 1, 2), KVG_ERR_INVALID);
    assert_int_equal(w.ops->fork(w.self, 9, 10), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->table(w.self, 1, 0, 3, &id, NULL), KVG_ERR_INVALID);
    assert_int_equal(w.ops->tokens(w.self, 1, 7, 1, &token), KVG_ERR_INVALID);
    assert_int_equal(w.ops->append_tokens(w.self, 9, &token, 1), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->written(w.self, 9, 0), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->release(w.self, 9), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->preempt(w.self, 9), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->verify(w.self, 9, NULL), KVG_ERR_NOT_FOUND);
    assert_int_equal(w.ops->erase(w.self, 9), KVG_ERR_NOT_FOUND);
    char *after = world_dump(&w);
    assert_string_equal(before, after);
    free(before);
    free(after);
    world_close(&w);
}

static void test_written_tokens_must_be_known(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 6);
    const kvg_sequence_grant g = step_one(&w, 1, 10, 4); /* four drafts */
    assert_int_equal(g.first, 6);
    assert_int_equal(g.count, 4);
    assert_int_equal(w.ops->written(w.self, 1, 1), KVG_ERR_INVALID);
    assert_ok(append(&w, 1, 2)); /* two were accepted */
    assert_int_equal(w.ops->written(w.self, 1, 3), KVG_ERR_INVALID);
    assert_ok(w.ops->written(w.self, 1, 2));
    assert_int_equal(info_of(&w, 1).cache_len, 8);
    assert_int_equal(w.ops->written(w.self, 1, 1), KVG_ERR_INVALID); /* the step has ended */
    world_close(&w);
}

static void test_bad_managers_are_refused(void **state)
{
    (void)state;
    world w, smaller;
    kvg_sequence_manager *m;
    world_open(&w, &plain_world);
    world_open(&smaller, &(world_options){.capacity = 15, .block_tokens = 4});
    kvg_sequence_config c = {.block_tokens = 4, .cp_size = 1, .data = w.data, .scale = smaller.data};
    assert_int_equal(kvg_sequence_manager_create(&c, &m), KVG_ERR_INVALID);
    c = (kvg_sequence_config){.block_tokens = 0, .cp_size = 1, .data = w.data};
    assert_int_equal(kvg_sequence_manager_create(&c, &m), KVG_ERR_INVALID);
    c = (kvg_sequence_config){.block_tokens = 4, .cp_size = 0, .data = w.data};
    assert_int_equal(kvg_sequence_manager_create(&c, &m), KVG_ERR_INVALID);
    c = (kvg_sequence_config){.block_tokens = 4, .cp_size = 1};
    assert_int_equal(kvg_sequence_manager_create(&c, &m), KVG_ERR_INVALID);
    kvg_sequence_manager_destroy(NULL);
    world_close(&smaller);
    world_close(&w);
}

/* --- a step --- */

static void test_a_prompt_is_written_in_chunks(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    new_sequence(&w, 1, 1, 11);
    static const uint32_t firsts[] = {0, 4, 8}, written[] = {4, 4, 3};
    for (int i = 0; i < 3; i++) {
        const kvg_sequence_grant g = step_one(&w, 1, 11, 4);
        assert_int_equal(g.first, firsts[i]);
        assert_int_equal(g.count, written[i]);
        assert_int_equal(g.read_only, firsts[i] / 4);
        assert_int_equal(info_of(&w, 1).state, KVG_SEQUENCE_ACTIVE);
        assert_ok(w.ops->written(w.self, 1, g.count));
    }
    assert_int_equal(info_of(&w, 1).cache_len, 11);
    assert_int_equal(info_of(&w, 1).blocks, 3);
    world_close(&w);
}

/* Four sequences of 4 blocks each in a pool of 10: priority decides, nobody overtakes, the rest waits. */
static void test_priority_decides_and_nobody_overtakes(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 10;
    world_open(&w, &o);
    for (uint64_t id = 1; id <= 4; id++) new_sequence(&w, id, (uint32_t)id, 16);
    const kvg_sequence_request requests[] = {{1, 30, 4, 1}, {2, 10, 16, 1}, {3, 20, 16, 1}, {4, 25, 16, 1}};
    kvg_sequence_grant grants[4];
    assert_ok(w.ops->materialise(w.self, requests, 4, grants));
    assert_true(grants[1].active && grants[2].active);
    assert_false(grants[3].active);
    assert_false(grants[0].active); /* it needs one block and two are free, but 4 comes first */
    assert_int_equal(entry_of(&w, 2, 0), 0);
    assert_int_equal(entry_of(&w, 3, 0), 4);
    assert_int_equal(info_of(&w, 4).state, KVG_SEQUENCE_LOCKED);
    assert_int_equal(counts_of(&w).free, 2);
    world_check(&w);
    world_close(&w);
}

static void test_free_then_cached_then_victims(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 8;
    world_open(&w, &o);
    prefill(&w, 1, 1, 8); /* blocks 0, 1 */
    prefill(&w, 2, 2, 8); /* blocks 2, 3 */
    prefill(&w, 3, 3, 8); /* blocks 4, 5 */
    assert_ok(w.ops->release(w.self, 2));
    new_sequence(&w, 9, 9, 100);
    /* Two blocks are free: nothing else is touched. */
    assert_true(step_one(&w, 9, 8, 100).active);
    assert_int_equal(entry_of(&w, 9, 1), 7);
    assert_int_equal(counts_of(&w).cached, 2);
    /* One more: the tail of 2 goes, its head stays. */
    assert_ok(w.ops->written(w.self, 9, 8));
    assert_true(step_one(&w, 9, 12, 100).active);
    assert_int_equal(entry_of(&w, 9, 2), 3);
    uint32_t valid;
    assert_ok(w.ops->verify(w.self, 2, &valid));
    assert_int_equal(valid, 1);
    assert_int_equal(info_of(&w, 2).cache_len, 4);
    /* Two more: the other cached one and a victim from the end of the batch; 3 goes before 1. */
    assert_ok(w.ops->written(w.self, 9, 4));
    assert_ok(append(&w, 1, 1));
    assert_ok(append(&w, 3, 1));
    const kvg_sequence_request requests[] = {{3, 7, 9, 1}, {9, 0, 20, 100}, {1, 5, 13, 1}};
    kvg_sequence_grant grants[3];
    assert_ok(w.ops->materialise(w.self, requests, 3, grants));
    assert_true(grants[1].active);
    assert_int_equal(info_of(&w, 3).state, KVG_SEQUENCE_CACHED); /* victim */
    assert_false(grants[2].active);
    assert_int_equal(info_of(&w, 1).state, KVG_SEQUENCE_LOCKED); /* waits, but keeps what it holds */
    assert_int_equal(users(&w, 0), 1);
    assert_int_equal(entry_of(&w, 9, 3), 2);
    assert_int_equal(entry_of(&w, 9, 4), 5); /* the victim's tail */
    assert_ok(w.ops->verify(w.self, 3, &valid));
    assert_int_equal(valid, 1);
    world_check(&w);
    world_close(&w);
}

static void test_victims_are_taken_and_evicted_from_the_end(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 7;
    world_open(&w, &o);
    for (uint64_t id = 1; id <= 3; id++) prefill(&w, id, (uint32_t)id, 8);
    new_sequence(&w, 9, 9, 16);
    const kvg_sequence_request requests[] = {{1, 1, 17, 1}, {2, 2, 9, 1}, {3, 3, 9, 1}, {9, 0, 16, 16}};
    kvg_sequence_grant grants[4];
    assert_ok(w.ops->materialise(w.self, requests, 4, grants));
    assert_true(grants[3].active); /* one free block, both of 3's, and the tail of 2's */
    const uint32_t expected[] = {3, 4, 5, 6};
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(entry_of(&w, 9, i), expected[i]);
    assert_int_equal(info_of(&w, 2).state, KVG_SEQUENCE_CACHED);
    assert_int_equal(info_of(&w, 3).state, KVG_SEQUENCE_CACHED);
    assert_int_equal(info_of(&w, 1).state, KVG_SEQUENCE_LOCKED);
    assert_int_equal(block_of(w.data, 2).unique_id, 3); /* the head of 2's is still there */
    world_check(&w);
    world_close(&w);
}

/* Neither victim alone frees a block that both hold. */
static void test_victims_that_share_free_their_blocks_together(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 6;
    world_open(&w, &o);
    prefill(&w, 1, 1, 8);
    assert_ok(w.ops->fork(w.self, 1, 2));
    new_sequence(&w, 9, 9, 24);
    const kvg_sequence_request requests[] = {{1, 1, 9, 1}, {2, 2, 9, 1}, {9, 0, 24, 24}};
    kvg_sequence_grant grants[3];
    assert_ok(w.ops->materialise(w.self, requests, 3, grants));
    assert_true(grants[2].active);
    assert_int_equal(counts_of(&w).active, 6);
    assert_int_equal(info_of(&w, 1).state, KVG_SEQUENCE_CACHED);
    assert_int_equal(info_of(&w, 2).state, KVG_SEQUENCE_CACHED);
    world_check(&w);
    world_close(&w);
}

static void test_a_step_that_is_not_granted_again_is_forgotten(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 4;
    world_open(&w, &o);
    new_sequence(&w, 1, 1, 8);
    assert_int_equal(step_one(&w, 1, 8, 8).count, 8);
    new_sequence(&w, 2, 2, 12);
    const kvg_sequence_request requests[] = {{1, 0, 8, 8}, {2, 1, 12, 12}};
    kvg_sequence_grant grants[2];
    assert_ok(w.ops->materialise(w.self, requests, 2, grants));
    assert_false(grants[1].active);
    const kvg_sequence_request more = {1, 0, 8, 8}, waits[] = {{1, 1, 13, 8}, {2, 0, 12, 12}};
    assert_ok(w.ops->materialise(w.self, &more, 1, grants));
    assert_int_equal(info_of(&w, 1).granted, 8);
    assert_ok(w.ops->materialise(w.self, waits, 2, grants)); /* 2 takes the free blocks and makes 1 a victim */
    assert_int_equal(info_of(&w, 1).granted, 0);
    assert_int_equal(w.ops->written(w.self, 1, 1), KVG_ERR_INVALID);
    assert_ok(w.ops->written(w.self, 2, 12));
    world_close(&w);
}

static void test_who_waits_has_no_step(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 4;
    world_open(&w, &o);
    new_sequence(&w, 1, 1, 8);
    step_one(&w, 1, 8, 8);
    new_sequence(&w, 2, 2, 8);
    const kvg_sequence_request requests[] = {{2, 0, 8, 8}, {1, 1, 9, 8}};
    kvg_sequence_grant grants[2];
    assert_ok(w.ops->materialise(w.self, requests, 2, grants));
    assert_false(grants[1].active);
    assert_int_equal(info_of(&w, 1).state, KVG_SEQUENCE_LOCKED);
    assert_int_equal(info_of(&w, 1).granted, 0);
    assert_int_equal(w.ops->written(w.self, 1, 1), KVG_ERR_INVALID);
    world_check(&w);
    world_close(&w);
}

/* Whole sequences in the order of their release, each from its tail. */
static void test_who_is_released_last_is_evicted_last(void **state)
{
    (void)state;
    world w;
    uint32_t gone[6];
    world_open(&w, &plain_world);
    for (uint64_t id = 1; id <= 3; id++) prefill(&w, id, (uint32_t)id, 8);
    assert_ok(w.ops->release(w.self, 2));
    assert_ok(w.ops->erase(w.self, 1));
    assert_ok(w.ops->preempt(w.self, 3));
    assert_ok(w.ops->commit(w.self));
    for (int p = 0; p < 2; p++) {
        const uint32_t expected[] = {3, 2, 1, 0, 5, 4};
        assert_ok(w.pools[p].inner.ops->evict(w.pools[p].inner.self, 6, gone));
        assert_memory_equal(gone, expected, sizeof expected);
    }
    world_close(&w);
}

static void test_deferred_unlocks_wait_for_the_commit(void **state)
{
    (void)state;
    for (int prefix = 0; prefix < 2; prefix++) {
        world w;
        world_options o = plain_world;
        o.prefix = prefix;
        world_open(&w, &o);
        prefill(&w, 1, 1, 8);
        prefill(&w, 2, 2, 4);
        assert_ok(w.ops->erase(w.self, 1));
        assert_ok(w.ops->release(w.self, 2));
        assert_int_equal(counts_of(&w).active, 3);
        kvg_sequence_counts c;
        w.ops->counts(w.self, &c);
        assert_int_equal(c.pending_unlocks, 3);
        assert_int_equal(c.pending_frees, prefix ? 0 : 2);
        assert_ok(w.ops->commit(w.self));
        assert_int_equal(counts_of(&w).active, 0);
        assert_int_equal(counts_of(&w).cached, prefix ? 3 : 1);
        assert_int_equal(block_of(w.data, 2).unique_id, 3);
        assert_ok(w.ops->erase(w.self, 2)); /* cached: holds nothing */
        assert_ok(w.ops->commit(w.self));
        assert_int_equal(counts_of(&w).cached, prefix ? 3 : 0);
        world_check(&w);
        world_close(&w);
    }
}

static void test_materialise_commits_first(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.capacity = 2;
    o.prefix = false;
    world_open(&w, &o);
    prefill(&w, 1, 1, 8);
    assert_ok(w.ops->erase(w.self, 1));
    new_sequence(&w, 2, 2, 8);
    assert_true(step_one(&w, 2, 8, 8).active);
    assert_int_equal(entry_of(&w, 2, 0), 0);
    world_close(&w);
}

static void test_erase_spares_blocks_that_live_on(void **state)
{
    (void)state;
    world w;
    world_options o = plain_world;
    o.prefix = false;
    world_open(&w, &o);
    prefill(&w, 1, 1, 8);
    assert_ok(w.ops->fork(w.self, 1, 2));
    assert_ok(w.ops->erase(w.self, 1));
    assert_ok(w.ops->commit(w.self));
    assert_int_equal(users(&w, 0), 1);
    assert_int_equal(counts_of(&w).active, 2);
    /* A cached sequence's references may have been taken over by others in the meantime. */
    assert_ok(w.ops->preempt(w.self, 2));
    for (int p = 0; p < 2; p++) assert_ok(w.pools[p].inner.ops->evict(w.pools[p].inner.self, 2, NULL));
    prefill(&w, 3, 3, 8);
    assert_int_equal(entry_of(&w, 3, 0), 0);
    assert_ok(w.ops->erase(w.self, 2));
    assert_ok(w.ops->preempt(w.self, 3));
    assert_ok(w.ops->commit(w.self));
    assert_int_equal(counts_of(&w).cached, 2);
    world_close(&w);
}

static void test_create_replaces_an_existing_sequence(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    prefill(&w, 1, 1, 8);
    new_sequence(&w, 1, 2, 5);
    assert_int_equal(info_of(&w, 1).cache_len, 0);
    assert_int_equal(info_of(&w, 1).tokens, 5);
    int32_t token;
    assert_ok(w.ops->tokens(w.self, 1, 4, 1, &token));
    assert_int_equal(token, 200004);
    assert_ok(w.ops->commit(w.self));
    assert_int_equal(counts_of(&w).active, 0);
    for (uint64_t id = 2; id < 60; id++) new_sequence(&w, id, 1, 1);
    for (uint64_t id = 2; id < 60; id++) assert_int_equal(info_of(&w, id).id, id);
    world_close(&w);
}

/* --- two pools --- */

static kvg_status second_lowest(void *self, uint32_t n, uint32_t *ids)
{
    const world_pool *p = self;
    kvg_status status = p->inner.ops->allocate(p->inner.self, n, ids);
    if (status == KVG_OK && n > 0) ids[0]++;
    return status;
}

static void test_pools_out_of_step_are_noticed_and_nothing_happens(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    kvg_block_ops ops = *w.scale.ops;
    ops.allocate = second_lowest;
    const kvg_sequence_config c = {.block_tokens = 4, .cp_size = 1, .data = w.data, .scale = {w.scale.self, &ops}};
    kvg_sequence_manager *m;
    assert_ok(kvg_sequence_manager_create(&c, &m));
    const kvg_sequence_pool pool = kvg_sequence_manager_pool(m);
    const kvg_prefix_key key = {0};
    const int32_t token = 5;
    assert_ok(pool.ops->create(pool.self, 1, &key, &token, 1));
    kvg_sequence_grant grant;
    const kvg_sequence_request request = {1, 0, 1, 1};
    assert_int_equal(pool.ops->materialise(pool.self, &request, 1, &grant), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "out of step"));
    assert_int_equal(counts_of(&w).free, 16);
    world_check(&w);
    kvg_sequence_manager_destroy(m);
    world_close(&w);
}

static kvg_status all_dead(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n, uint32_t *valid)
{
    (void)self, (void)ids, (void)unique_ids, (void)n;
    *valid = 0;
    return KVG_OK;
}

/* A block is alive only if both pools say so. */
static void test_scales_that_are_lost_are_lost(void **state)
{
    (void)state;
    world w;
    world_open(&w, &plain_world);
    kvg_block_ops ops = *w.scale.ops;
    ops.verify = all_dead;
    const kvg_sequence_config c = {.block_tokens = 4, .cp_size = 1, .data = w.data, .scale = {w.scale.self, &ops}};
    kvg_sequence_manager *m, *own = w.manager;
    assert_ok(kvg_sequence_manager_create(&c, &m));
    w.sequences = kvg_sequence_manager_pool(m);
    w.self = w.sequences.self;
    prefill(&w, 1, 1, 8);
    assert_ok(w.ops->preempt(w.self, 1));
    assert_int_equal(step_one(&w, 1, 8, 8).first, 0);
    kvg_sequence_manager_destroy(m);
    w.self = own;
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_context_needs_its_blocks),
        cmocka_unit_test(test_a_token_has_one_home),
        cmocka_unit_test(test_slots_are_64_bits_wide),
        cmocka_unit_test(test_bad_calls_are_refused_and_change_nothing),
        cmocka_unit_test(test_written_tokens_must_be_known),
        cmocka_unit_test(test_bad_managers_are_refused),
        cmocka_unit_test(test_a_prompt_is_written_in_chunks),
        cmocka_unit_test(test_priority_decides_and_nobody_overtakes),
        cmocka_unit_test(test_free_then_cached_then_victims),
        cmocka_unit_test(test_victims_are_taken_and_evicted_from_the_end),
        cmocka_unit_test(test_victims_that_share_free_their_blocks_together),
        cmocka_unit_test(test_a_step_that_is_not_granted_again_is_forgotten),
        cmocka_unit_test(test_who_waits_has_no_step),
        cmocka_unit_test(test_who_is_released_last_is_evicted_last),
        cmocka_unit_test(test_deferred_unlocks_wait_for_the_commit),
        cmocka_unit_test(test_materialise_commits_first),
        cmocka_unit_test(test_erase_spares_blocks_that_live_on),
        cmocka_unit_test(test_create_replaces_an_existing_sequence),
        cmocka_unit_test(test_pools_out_of_step_are_noticed_and_nothing_happens),
        cmocka_unit_test(test_scales_that_are_lost_are_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
