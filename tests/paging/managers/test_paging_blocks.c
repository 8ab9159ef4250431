/* The block manager: what it refuses, which changes nothing, and how many blocks memory holds. */
#include "tests/paging/managers/paging_world.h"

typedef struct fixture {
    kvg_block_manager *manager;
    void *self;
    const kvg_block_ops *ops;
} fixture;

static fixture make(uint32_t capacity, int64_t chunk)
{
    const kvg_block_config config = {.capacity = capacity, .chunk = chunk};
    fixture f;
    assert_ok(kvg_block_manager_create(&config, &f.manager));
    const kvg_block_pool pool = kvg_block_manager_pool(f.manager);
    f.self = pool.self;
    f.ops = pool.ops;
    return f;
}

static void assert_counts(const fixture *f, uint32_t free, uint32_t cached, uint32_t active)
{
    kvg_block_counts c;
    f->ops->counts(f->self, &c);
    assert_int_equal(c.free, free);
    assert_int_equal(c.cached, cached);
    assert_int_equal(c.active, active);
    assert_int_equal(c.total, free + cached + active);
}

static void assert_block(const fixture *f, uint32_t id, uint32_t users, uint64_t unique_id, uint64_t timestamp)
{
    const kvg_block b = block_of((kvg_block_pool){f->self, f->ops}, id);
    assert_int_equal(b.id, id);
    assert_int_equal(b.use_count, users);
    assert_int_equal(b.unique_id, unique_id);
    assert_int_equal(b.timestamp, timestamp);
}

/* A call that is refused, and after which every block is as before. */
static void assert_refused(const fixture *f, kvg_status got, kvg_status expected, const kvg_block *before, uint32_t n)
{
    assert_int_equal(got, expected);
    for (uint32_t id = 0; id < n; id++) {
        assert_block(f, id, before[id].use_count, before[id].unique_id, before[id].timestamp);
    }
}

/* Blocks 0, 1 active (1 twice), 2, 3 cached, 4, 5 free. */
static fixture mixed(kvg_block before[6])
{
    fixture f = make(6, -1);
    uint32_t ids[4];
    assert_ok(f.ops->allocate(f.self, 4, ids));
    assert_ok(f.ops->unlock(f.self, ids + 2, 2, NULL));
    assert_ok(f.ops->lock(f.self, ids + 1, 1, NULL));
    for (uint32_t i = 0; i < 6; i++) before[i] = block_of((kvg_block_pool){f.self, f.ops}, i);
    return f;
}

static void test_refusals_name_the_block_and_change_nothing(void **state)
{
    (void)state;
    kvg_block before[6];
    fixture f = mixed(before);
    static const struct {
        const char *op;
        uint32_t ids[4], n, named;
    } refused[] = {
        {"lock", {2, 0, 4}, 3, 4},
        {"lock", {3, 6}, 2, 6},
        {"unlock", {0, 1, 2}, 3, 2},
        {"unlock", {1, 1, 1}, 3, 1},
        {"unlock", {0, 4}, 2, 4},
        {"unlock", {KVG_BLOCK_NONE}, 1, KVG_BLOCK_NONE},
        {"free", {2, 3, 2}, 3, 2},
        {"free", {3, 0}, 2, 0},
        {"free", {2, 5}, 2, 5},
        {"free", {2, 17}, 2, 17},
        {"touch", {2, 0, 1}, 3, 2},
        {"touch", {4, 0}, 2, 4},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const uint32_t *ids = refused[i].ids, n = refused[i].n;
        uint32_t moved = 77;
        char named[32];
        kvg_status got = KVG_OK;
        if (strcmp(refused[i].op, "lock") == 0) got = f.ops->lock(f.self, ids, n, &moved);
        if (strcmp(refused[i].op, "unlock") == 0) got = f.ops->unlock(f.self, ids, n, &moved);
        if (strcmp(refused[i].op, "free") == 0) got = f.ops->free(f.self, ids, n);
        if (strcmp(refused[i].op, "touch") == 0) got = f.ops->touch(f.self, ids, n);
        assert_refused(&f, got, KVG_ERR_INVALID, before, 6);
        snprintf(named, sizeof named, "block %u:", refused[i].named);
        assert_non_null(strstr(kvg_error_text(), named));
        assert_int_equal(moved, 77);
        assert_counts(&f, 2, 2, 2);
    }
    uint32_t ids[6];
    assert_refused(&f, f.ops->evict(f.self, 3, ids), KVG_ERR_EXHAUSTED, before, 6);
    assert_refused(&f, f.ops->allocate(f.self, 3, ids), KVG_ERR_EXHAUSTED, before, 6);
    kvg_block b;
    assert_refused(&f, f.ops->get(f.self, 6, &b), KVG_ERR_INVALID, before, 6);
    /* The counters did not move either. */
    assert_ok(f.ops->allocate(f.self, 1, ids));
    assert_block(&f, 4, 1, 5, 5);
    kvg_block_manager_destroy(f.manager);
}

static void test_bad_pools_are_refused(void **state)
{
    (void)state;
    kvg_block_manager *m;
    assert_int_equal(kvg_block_manager_create(&(kvg_block_config){.capacity = 0}, &m), KVG_ERR_INVALID);
    assert_int_equal(kvg_block_manager_create(&(kvg_block_config){.capacity = UINT32_MAX}, &m), KVG_ERR_INVALID);
    kvg_block_manager_destroy(NULL);
}

static void test_capacity_counts_both_pools(void **state)
{
    (void)state;
    uint32_t n;
    assert_ok(kvg_block_capacity(1000, 0.5, 60, 7, &n));
    assert_int_equal(n, 7); /* 500 / 67 */
    assert_ok(kvg_block_capacity(1001, 0.5, 500, 0, &n));
    assert_int_equal(n, 1);
    assert_ok(kvg_block_capacity(UINT64_MAX, 1, 1, 0, &n));
    assert_int_equal(n, UINT32_MAX - 1);
    assert_int_equal(kvg_block_capacity(1000, 0.5, 500, 1, &n), KVG_ERR_EXHAUSTED);
    assert_int_equal(kvg_block_capacity(1000, 0.5, 0, 0, &n), KVG_ERR_INVALID);
    assert_int_equal(kvg_block_capacity(1000, 0.5, UINT64_MAX, 2, &n), KVG_ERR_INVALID);
    assert_int_equal(kvg_block_capacity(1000, 0, 1, 0, &n), KVG_ERR_INVALID);
    assert_int_equal(kvg_block_capacity(1000, 1.5, 1, 0, &n), KVG_ERR_INVALID);
    const double zero = 0;
    assert_int_equal(kvg_block_capacity(1000, zero / zero, 1, 0, &n), KVG_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals_name_the_block_and_change_nothing),
        cmocka_unit_test(test_bad_pools_are_refused),
        cmocka_unit_test(test_capacity_counts_both_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
