/* The sequence manager: slots of 64 bits, what it refuses, two pools that part. */
#include "tests/paging/managers/paging_world.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_are_64_bits_wide),
        cmocka_unit_test(test_bad_calls_are_refused_and_change_nothing),
        cmocka_unit_test(test_written_tokens_must_be_known),
        cmocka_unit_test(test_bad_managers_are_refused),
        cmocka_unit_test(test_pools_out_of_step_are_noticed_and_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
