/* The block manager: every operation, its precondition, and that a refusal changes nothing. */
#include "core/rng.h"
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

static void test_allocate_takes_the_lowest_ids(void **state)
{
    (void)state;
    fixture f = make(8, -1);
    uint32_t ids[8];
    assert_ok(f.ops->allocate(f.self, 5, ids));
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(ids[i], i);
        assert_block(&f, i, 1, i + 1, i + 1);
    }
    assert_counts(&f, 3, 0, 5);
    const uint32_t back[] = {3, 1};
    assert_ok(f.ops->unlock(f.self, back, 2, NULL));
    assert_ok(f.ops->free(f.self, back, 2));
    assert_ok(f.ops->allocate(f.self, 3, ids));
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    assert_int_equal(ids[2], 5);
    assert_block(&f, 1, 1, 6, 6); /* a new life has a new unique id */
    assert_ok(f.ops->allocate(f.self, 0, NULL));
    assert_int_equal(f.ops->allocate(f.self, 3, ids), KVG_ERR_EXHAUSTED);
    assert_counts(&f, 2, 0, 6);
    kvg_block_manager_destroy(f.manager);
}

static void test_states_go_round(void **state)
{
    (void)state;
    fixture f = make(4, -1);
    uint32_t ids[4], moved = 99;
    assert_ok(f.ops->allocate(f.self, 3, ids));
    assert_ok(f.ops->lock(f.self, ids, 2, &moved));
    assert_int_equal(moved, 0); /* active already */
    assert_ok(f.ops->unlock(f.self, ids, 3, &moved));
    assert_int_equal(moved, 1);
    assert_counts(&f, 1, 1, 2);
    assert_block(&f, 2, 0, 3, 3); /* cached: unique id and timestamp stay */
    assert_ok(f.ops->lock(f.self, &ids[2], 1, &moved));
    assert_int_equal(moved, 1);
    assert_block(&f, 2, 1, 3, 3);
    const uint32_t twice[] = {0, 2, 0};
    assert_ok(f.ops->lock(f.self, ids, 1, NULL));
    assert_ok(f.ops->unlock(f.self, twice, 3, &moved));
    assert_int_equal(moved, 2);
    assert_ok(f.ops->free(f.self, ids, 1));
    assert_block(&f, 0, 0, 0, 0);
    assert_counts(&f, 2, 1, 1);
    kvg_block_manager_destroy(f.manager);
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

static void test_touch_makes_the_tail_the_oldest(void **state)
{
    (void)state;
    fixture f = make(4, -1);
    uint32_t ids[4], gone[2];
    assert_ok(f.ops->allocate(f.self, 4, ids));
    const uint32_t order[] = {2, 0, 3, 1};
    assert_ok(f.ops->touch(f.self, order, 4));
    assert_block(&f, 1, 1, 2, 5);
    assert_block(&f, 3, 1, 4, 6);
    assert_block(&f, 0, 1, 1, 7);
    assert_block(&f, 2, 1, 3, 8);
    assert_ok(f.ops->unlock(f.self, ids, 4, NULL));
    assert_ok(f.ops->evict(f.self, 2, gone));
    assert_int_equal(gone[0], 1);
    assert_int_equal(gone[1], 3);
    assert_block(&f, 1, 0, 0, 0);
    assert_counts(&f, 2, 2, 0);
    assert_ok(f.ops->evict(f.self, 2, NULL));
    assert_counts(&f, 4, 0, 0);
    kvg_block_manager_destroy(f.manager);
}

static void test_verify_gives_the_leading_part(void **state)
{
    (void)state;
    fixture f = make(4, -1);
    uint32_t ids[4], valid = 99;
    const uint64_t lives[] = {1, 2, 3, 4};
    assert_ok(f.ops->allocate(f.self, 4, ids));
    assert_ok(f.ops->verify(f.self, ids, lives, 4, &valid));
    assert_int_equal(valid, 4);
    assert_ok(f.ops->unlock(f.self, ids + 2, 2, NULL));
    assert_ok(f.ops->verify(f.self, ids, lives, 4, &valid));
    assert_int_equal(valid, 4); /* cached blocks are alive */
    assert_ok(f.ops->free(f.self, ids + 2, 2));
    assert_ok(f.ops->verify(f.self, ids, lives, 4, &valid));
    assert_int_equal(valid, 2);
    const uint64_t zero[] = {1, 2, 0, 0};
    assert_ok(f.ops->verify(f.self, ids, zero, 4, &valid));
    assert_int_equal(valid, 2); /* a free block has unique id 0, which is nobody's */
    uint32_t again[2];
    assert_ok(f.ops->allocate(f.self, 1, again));
    assert_ok(f.ops->verify(f.self, ids, lives, 4, &valid));
    assert_int_equal(valid, 2); /* block 2 lives again, as another */
    const uint64_t far[] = {1, 2 + ((uint64_t)1 << 32), 5};
    assert_int_equal(f.ops->verify(f.self, ids, far, 3, &valid), KVG_ERR_INVALID); /* 5 is alive behind the dead one */
    assert_ok(f.ops->verify(f.self, ids, far, 2, &valid));
    assert_int_equal(valid, 1); /* all 64 bits count */
    const uint32_t outside[] = {0, 4};
    assert_int_equal(f.ops->verify(f.self, outside, lives, 2, &valid), KVG_ERR_INVALID);
    kvg_block_manager_destroy(f.manager);
}

typedef struct growth {
    uint32_t first, count, calls, fail_at;
} growth;

static kvg_status on_growth(void *context, uint32_t first, uint32_t count)
{
    growth *g = context;
    if (++g->calls == g->fail_at) return kvg_fail(KVG_ERR_IO, "no device memory");
    assert_int_equal(first, g->first + g->count);
    g->first = first;
    g->count = count;
    return KVG_OK;
}

static void test_pools_grow_by_chunks(void **state)
{
    (void)state;
    static const struct {
        uint32_t capacity;
        int64_t chunk;
        uint32_t first;
    } rows[] = {{99, 0, 9}, {100, 0, 10}, {1000000, 0, 1000}, {1, 0, 1},
                {3, 0, 1},  {10, -1, 10}, {10, 4, 4},         {10, 11, 10}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f = make(rows[i].capacity, rows[i].chunk);
        assert_counts(&f, rows[i].first, 0, 0);
        kvg_block_manager_destroy(f.manager);
    }
    growth g = {0};
    const kvg_block_config config = {.capacity = 10, .chunk = 4, .grow = on_growth, .grow_context = &g};
    fixture f;
    assert_ok(kvg_block_manager_create(&config, &f.manager));
    f.self = kvg_block_manager_pool(f.manager).self;
    f.ops = kvg_block_manager_pool(f.manager).ops;
    uint32_t ids[10];
    assert_ok(f.ops->allocate(f.self, 4, ids));
    assert_int_equal(g.calls, 1);
    g.fail_at = 3; /* the second of the two chunks that 6 blocks need */
    assert_int_equal(f.ops->allocate(f.self, 6, ids), KVG_ERR_IO);
    assert_non_null(strstr(kvg_error_text(), "no device memory"));
    assert_counts(&f, 4, 0, 4); /* the chunk that came stays */
    assert_int_equal(f.ops->allocate(f.self, 7, ids), KVG_ERR_EXHAUSTED);
    assert_counts(&f, 4, 0, 4);
    assert_ok(f.ops->allocate(f.self, 6, ids));
    assert_int_equal(ids[5], 9);
    assert_block(&f, 9, 1, 10, 10);
    assert_int_equal(g.count, 2); /* the last chunk is what is left */
    kvg_block_manager_destroy(f.manager);
    g = (growth){.fail_at = 1};
    assert_int_equal(kvg_block_manager_create(&config, &f.manager), KVG_ERR_IO);
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

enum { BLOCKS = 150 };

static void read_all(const fixture *f, kvg_block *to)
{
    for (uint32_t id = 0; id < BLOCKS; id++) to[id] = block_of((kvg_block_pool){f->self, f->ops}, id);
}

/* What evict must take: the smallest timestamp among the cached; KVG_BLOCK_NONE if there is none. */
static uint32_t oldest_cached(const kvg_block *blocks)
{
    uint32_t oldest = KVG_BLOCK_NONE;
    for (uint32_t id = 0; id < BLOCKS; id++) {
        if (blocks[id].use_count || !blocks[id].timestamp) continue;
        if (oldest == KVG_BLOCK_NONE || blocks[id].timestamp < blocks[oldest].timestamp) oldest = id;
    }
    return oldest;
}

static uint32_t lowest_free(const kvg_block *blocks)
{
    uint32_t id = 0;
    while (blocks[id].timestamp) id++;
    return id;
}

/* One random operation on one block; those that the block's state forbids are left out. */
static void random_operation(const fixture *f, uint64_t i)
{
    kvg_block blocks[BLOCKS];
    kvg_block_counts c;
    read_all(f, blocks);
    f->ops->counts(f->self, &c);
    const uint32_t id = (uint32_t)kvg_rng_below(5, 0, i, BLOCKS);
    uint32_t got;
    switch (kvg_rng_below(5, 1, i, 7)) {
    case 0:
    case 1:
        if (!c.free) break;
        assert_ok(f->ops->allocate(f->self, 1, &got));
        assert_int_equal(got, lowest_free(blocks));
        break;
    case 2:
        if (!c.cached || c.free > BLOCKS / 4) break;
        assert_ok(f->ops->evict(f->self, 1, &got));
        assert_int_equal(got, oldest_cached(blocks));
        break;
    case 3:
        if (blocks[id].timestamp) assert_ok(f->ops->lock(f->self, &id, 1, NULL));
        break;
    case 4:
    case 5:
        if (blocks[id].use_count) assert_ok(f->ops->unlock(f->self, &id, 1, NULL));
        break;
    default:
        if (blocks[id].use_count) assert_ok(f->ops->touch(f->self, &id, 1));
    }
}

static void test_random_operations_keep_the_order_and_can_be_undone(void **state)
{
    (void)state;
    fixture f = make(BLOCKS, -1);
    kvg_block before[BLOCKS], after[BLOCKS];
    uint64_t i = 0;
    for (int round = 0; round < 40; round++) {
        for (int n = 0; n < 50; n++) random_operation(&f, i++);
        read_all(&f, before);
        f.ops->begin(f.self);
        const uint64_t start = i;
        for (int n = 0; n < 50; n++) random_operation(&f, i++);
        read_all(&f, after);
        assert_memory_not_equal(before, after, sizeof before);
        f.ops->undo(f.self);
        f.ops->begin(f.self);
        for (uint64_t again = start; again < i; again++) random_operation(&f, again); /* with the same counters */
        f.ops->end(f.self);
        read_all(&f, before);
        assert_memory_equal(before, after, sizeof before);
    }
    kvg_block_manager_destroy(f.manager);
}

static void test_undo_restores_every_block(void **state)
{
    (void)state;
    kvg_block before[6];
    fixture f = mixed(before);
    uint32_t ids[3] = {2, 3, 1};
    f.ops->begin(f.self);
    assert_ok(f.ops->allocate(f.self, 2, ids));
    assert_ok(f.ops->evict(f.self, 2, ids));
    assert_ok(f.ops->touch(f.self, (const uint32_t[]){0, 1}, 2));
    assert_ok(f.ops->unlock(f.self, (const uint32_t[]){1, 0, 1}, 3, NULL));
    assert_ok(f.ops->free(f.self, (const uint32_t[]){0}, 1));
    assert_int_equal(f.ops->lock(f.self, (const uint32_t[]){1, 0}, 2, NULL), KVG_ERR_INVALID);
    f.ops->undo(f.self);
    assert_refused(&f, KVG_OK, KVG_OK, before, 6);
    assert_counts(&f, 2, 2, 2);
    assert_ok(f.ops->evict(f.self, 1, ids)); /* the heap is in order again */
    assert_int_equal(ids[0], 2);
    kvg_block_manager_destroy(f.manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocate_takes_the_lowest_ids),
        cmocka_unit_test(test_states_go_round),
        cmocka_unit_test(test_refusals_name_the_block_and_change_nothing),
        cmocka_unit_test(test_touch_makes_the_tail_the_oldest),
        cmocka_unit_test(test_verify_gives_the_leading_part),
        cmocka_unit_test(test_pools_grow_by_chunks),
        cmocka_unit_test(test_bad_pools_are_refused),
        cmocka_unit_test(test_capacity_counts_both_pools),
        cmocka_unit_test(test_random_operations_keep_the_order_and_can_be_undone),
        cmocka_unit_test(test_undo_restores_every_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
