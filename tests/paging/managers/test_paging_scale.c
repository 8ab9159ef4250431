/* Cost of an operation per block it touches, in pools of 10^3 to 10^6 blocks. Asserted on elementary steps, which no
 * machine changes; times are printed. */
#include <time.h>

#include "core/rng.h"
#include "tests/paging/managers/paging_world.h"

enum { ROUNDS = 2000, BATCH_BLOCKS = 8 };

typedef enum operation { ALLOCATE, TOUCH, UNLOCK, LOCK, EVICT, FREE, OPERATIONS } operation;
static const char *const names[] = {"allocate", "touch", "unlock", "lock", "evict", "free"};

typedef struct cost {
    uint64_t most, sum, blocks;
    double seconds;
} cost;

typedef struct bench {
    kvg_block_manager *manager;
    kvg_block_pool pool;
    cost costs[OPERATIONS];
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(bench *b, operation op, uint32_t *ids, uint32_t n)
{
    const kvg_block_ops *ops = b->pool.ops;
    void *self = b->pool.self;
    const uint64_t steps = kvg_block_manager_steps(b->manager);
    const double start = now();
    kvg_status status = op == ALLOCATE ? ops->allocate(self, n, ids)
                        : op == TOUCH  ? ops->touch(self, ids, n)
                        : op == UNLOCK ? ops->unlock(self, ids, n, NULL)
                        : op == LOCK   ? ops->lock(self, ids, n, NULL)
                        : op == EVICT  ? ops->evict(self, n, ids)
                                       : ops->free(self, ids, n);
    assert_ok(status);
    cost *c = &b->costs[op];
    const uint64_t taken = kvg_block_manager_steps(b->manager) - steps;
    c->seconds += now() - start;
    c->sum += taken;
    c->blocks += n;
    if (taken > c->most * n) c->most = (taken + n - 1) / n;
}

/* A full pool: half and more of it cached, in random order of age, the rest active. */
static void fill(bench *b, uint32_t n)
{
    const kvg_block_ops *ops = b->pool.ops;
    uint32_t *ids = malloc(n * sizeof *ids);
    assert_non_null(ids);
    assert_ok(ops->allocate(b->pool.self, n, ids));
    for (uint32_t i = 0; i < n / 4 * 3; i++) {
        const uint32_t id = (uint32_t)kvg_rng_below(1, 0, i, n);
        if (block_of(b->pool, id).use_count == 0) continue;
        assert_ok(ops->touch(b->pool.self, &id, 1));
        assert_ok(ops->unlock(b->pool.self, &id, 1, NULL));
    }
    free(ids);
}

static void run(bench *b, uint32_t n)
{
    uint32_t ids[BATCH_BLOCKS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        measure(b, EVICT, ids, BATCH_BLOCKS);
        measure(b, ALLOCATE, ids, BATCH_BLOCKS);
        measure(b, UNLOCK, ids, BATCH_BLOCKS);
        measure(b, LOCK, ids, BATCH_BLOCKS); /* the youngest of the heap */
        measure(b, TOUCH, ids, BATCH_BLOCKS);
        measure(b, UNLOCK, ids, BATCH_BLOCKS);
        measure(b, FREE, ids, BATCH_BLOCKS);
        measure(b, ALLOCATE, ids, BATCH_BLOCKS);
        for (int i = 0; i < BATCH_BLOCKS; i++) { /* any cached block, from the middle of the heap */
            uint32_t one = (uint32_t)kvg_rng_below(2, round, (uint64_t)i, n);
            if (block_of(b->pool, one).use_count == 0) {
                measure(b, LOCK, &one, 1);
                measure(b, UNLOCK, &one, 1);
            }
        }
        measure(b, UNLOCK, ids, BATCH_BLOCKS);
    }
}

static uint32_t log2_above(uint32_t n)
{
    uint32_t bits = 0;
    while ((uint64_t)1 << bits < n) bits++;
    return bits;
}

/* A block passes the bitmap's levels at most twice (found and taken), log64 n + 1 each, and the heap's at most twice
 * (once up, once down), log2 n + 1 each. */
static uint64_t most_steps(uint32_t n)
{
    const uint32_t bits = log2_above(n);
    return 1 + 2 * (bits / 6 + 1) + 2 * (bits + 1);
}

static void test_cost_grows_at_most_logarithmically(void **state)
{
    (void)state;
    double mean[OPERATIONS][4];
    int size = 0;
    print_message("%9s %-9s %12s %12s %14s\n", "blocks", "operation", "mean steps", "most steps", "ns per block");
    for (uint32_t n = 1000; n <= 1000000; n *= 10, size++) {
        bench b = {0};
        const kvg_block_config config = {.capacity = n, .chunk = -1};
        assert_ok(kvg_block_manager_create(&config, &b.manager));
        b.pool = kvg_block_manager_pool(b.manager);
        fill(&b, n);
        run(&b, n);
        for (int op = 0; op < OPERATIONS; op++) {
            const cost *c = &b.costs[op];
            mean[op][size] = (double)c->sum / (double)c->blocks;
            print_message("%9u %-9s %12.2f %12llu %14.1f\n", n, names[op], mean[op][size], (unsigned long long)c->most,
                          1e9 * c->seconds / (double)c->blocks);
            assert_true(c->blocks > 0 && c->most <= most_steps(n));
        }
        kvg_block_manager_destroy(b.manager);
    }
    /* log2 10^6 = 2 log2 10^3: twice the steps, and one for the rounding of levels. */
    for (int op = 0; op < OPERATIONS; op++) assert_true(mean[op][3] <= 2 * mean[op][0] + 1);
}

/* One decode step that needs a block, in a full pool of either size, must visit as many blocks. */
static void test_a_step_does_not_depend_on_the_pool(void **state)
{
    (void)state;
    for (uint32_t n = 1000; n <= 1000000; n *= 10) {
        world w;
        world_open(&w, &(world_options){.capacity = n, .chunk = -1, .block_tokens = 4, .scale = true, .prefix = true});
        uint32_t *ids = malloc(n * sizeof *ids);
        assert_non_null(ids);
        for (int p = 0; p < 2; p++) {
            assert_ok(w.pools[p].inner.ops->allocate(w.pools[p].inner.self, n, ids));
            assert_ok(w.pools[p].inner.ops->touch(w.pools[p].inner.self, ids, n));
            assert_ok(w.pools[p].inner.ops->unlock(w.pools[p].inner.self, ids, n, NULL));
        }
        free(ids);
        prefill(&w, 1, 1, 16);
        const uint64_t steps = kvg_block_manager_steps(w.managers[0]);
        const double start = now();
        for (uint32_t i = 0; i < 400; i++) {
            assert_ok(world_act(&w, &(act){APPEND, 1, 1, 0}));
            assert_ok(world_act(&w, &(act){BATCH, 2, 1, 0}));
            assert_ok(world_act(&w, &(act){WRITTEN, 1, 1, 0}));
        }
        const uint64_t taken = kvg_block_manager_steps(w.managers[0]) - steps;
        print_message("%9u blocks: 400 decode steps, %llu steps of the data pool, %.2f us each\n", n,
                      (unsigned long long)taken, (now() - start) * 1e6 / 400);
        assert_int_equal(info_of(&w, 1).cache_len, 416);
        assert_true(taken <= 101 * 2 * most_steps(n)); /* evict and allocate for each of 101 blocks */
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_grows_at_most_logarithmically),
        cmocka_unit_test(test_a_step_does_not_depend_on_the_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
