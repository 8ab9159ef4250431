/* Every allocation, growth, pool operation and index operation of whole scenarios is made to fail once: the operation
 * reports it, nothing has changed, and when it is tried again all goes on as if nothing had been. */
#include "tests/paging/managers/paging_world.h"

/* 24 blocks of 4 tokens; family 1 is the shared prompt. */
static const act scenario[] = {
    {CREATE, 1, 14, 1},  {BATCH, 1 << 1, 6, 0},   {WRITTEN, 1, 5, 0},  {BATCH, 1 << 1, 99, 0},  {WRITTEN, 1, 0, 0},
    {CREATE, 2, 13, 1},  {CREATE, 3, 9, 2},       {BATCH, 0xC, 99, 0}, {WRITTEN, 2, 0, 0},      {WRITTEN, 3, 0, 0},
    {FORK, 1, 4, 0},     {APPEND, 1, 3, 0},       {APPEND, 4, 1, 0},   {BATCH, 0x12, 99, 0},    {WRITTEN, 1, 0, 0},
    {WRITTEN, 4, 0, 0},  {RELEASE, 1, 0, 0},      {COMMIT, 0, 0, 0},   {PREEMPT, 3, 0, 0},      {VERIFY, 3, 0, 0},
    {CREATE, 5, 40, 5},  {BATCH, 0x34, 99, 0},    {WRITTEN, 5, 0, 0},  {APPEND, 2, 30, 0},      {APPEND, 3, 40, 0},
    {BATCH, 0x0C, 9, 0}, {WRITTEN, 2, 0, 0},      {APPEND, 1, 2, 0},   {BATCH, 0x2A, 3, 0},     {RELEASE, 5, 0, 0},
    {FORK, 5, 6, 0},     {CREATE, 4, 3, 1},       {ERASE, 5, 0, 0},    {APPEND, 6, 1, 0},       {BATCH, 1 << 6, 9, 0},
    {WRITTEN, 6, 0, 0},  {ERASE, 6, 0, 0},        {CREATE, 7, 70, 7},  {BATCH, 0x90, 99, 0},    {WRITTEN, 7, 0, 0},
    {COMMIT, 0, 0, 0},   {BATCH, 0x1E, 99, 0},    {VERIFY, 7, 0, 0},   {CREATE, 8, 90, 8},      {BATCH, 0x100, 50, 0},
    {WRITTEN, 8, 0, 0},  {BATCH, 0x100, 50, 0},   {WRITTEN, 8, 0, 0},  {BATCH, 0x1FE & ~0x60, 1, 0},
};
enum { ACTS = sizeof scenario / sizeof scenario[0] };

static const world_options variants[] = {
    {.capacity = 24, .chunk = 0, .block_tokens = 4, .scale = true, .prefix = true},
    {.capacity = 24, .chunk = 5, .block_tokens = 4},
    {.capacity = 24, .chunk = -1, .block_tokens = 4, .window = 7, .scale = true, .prefix = true},
    {.capacity = 24, .chunk = 3, .block_tokens = 2, .cp_size = 2, .window = 7, .scale = true},
    {.capacity = 24, .chunk = -1, .block_tokens = 1, .cp_size = 4, .prefix = true},
};

static void run(world *w, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        kvg_status status = world_act(w, &scenario[i]);
        if (status != KVG_OK) fail_msg("act %u: %s", i, kvg_error_text());
        world_check(w);
    }
}

/* Runs the scenario with act `at` failing at point `fault`. Returns false if the act has no such point. */
static bool run_with_fault(const world_options *options, uint32_t at, uint64_t fault, const char *right)
{
    world w;
    world_open(&w, options);
    run(&w, 0, at);
    char *before = world_dump(&w);
    w.faults_left = fault;
    kvg_status status = world_act(&w, &scenario[at]);
    w.faults_left = UINT64_MAX;
    if (!w.faulted) {
        assert_ok(status);
    } else {
        char *after = world_dump(&w);
        assert_int_equal(status, KVG_ERR_MEMORY);
        assert_string_equal(before, after);
        world_check(&w);
        free(after);
        run(&w, at, ACTS);
        char *end = world_dump(&w);
        assert_string_equal(end, right);
        free(end);
    }
    free(before);
    const bool reached = w.faulted;
    world_close(&w);
    return reached;
}

static void test_a_failed_operation_leaves_everything_as_it_was(void **state)
{
    (void)state;
    uint64_t faults = 0;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        world w;
        world_open(&w, &variants[v]);
        run(&w, 0, ACTS);
        char *right = world_dump(&w);
        world_close(&w);
        for (uint32_t at = 0; at < ACTS; at++) {
            uint64_t fault = 0;
            while (run_with_fault(&variants[v], at, fault, right)) fault++;
            faults += fault;
        }
        free(right);
    }
    print_message("%u acts in %zu variants, %llu faults injected\n", ACTS, sizeof variants / sizeof variants[0],
                  (unsigned long long)faults);
    assert_true(faults > 1000);
}

/* The scenario is worth its name only if it reaches the interesting ends. */
static void test_the_scenario_evicts_preempts_copies_and_shares(void **state)
{
    (void)state;
    world w;
    world_open(&w, &variants[0]);
    uint32_t shared = 0, copies = 0, evicted = 0, victims = 0;
    for (uint32_t i = 0; i < ACTS; i++) {
        kvg_sequence_info before[9] = {0}, after;
        uint32_t tail[9] = {0};
        for (uint64_t id = 1; id < 9; id++) {
            if (w.ops->get(w.self, id, &before[id]) != KVG_OK || before[id].blocks == 0) continue;
            tail[id] = entry_of(&w, id, before[id].blocks - 1);
        }
        run(&w, i, i + 1);
        for (uint64_t id = 1; id < 9 && scenario[i].kind == BATCH; id++) {
            if (!(scenario[i].id >> id & 1)) continue;
            after = info_of(&w, id);
            victims += before[id].state != KVG_SEQUENCE_CACHED && after.state == KVG_SEQUENCE_CACHED;
            if (before[id].state != KVG_SEQUENCE_CACHED) {
                copies += after.blocks >= before[id].blocks && before[id].blocks &&
                          entry_of(&w, id, before[id].blocks - 1) != tail[id];
            } else if (after.state != KVG_SEQUENCE_CACHED) {
                shared += after.cache_len > before[id].cache_len;
                evicted += after.cache_len < before[id].cache_len;
            }
        }
    }
    print_message("shared %u, copies %u, evicted %u, victims %u\n", shared, copies, evicted, victims);
    assert_true(shared && copies && evicted && victims);
    world_close(&w);
}

static void test_a_failed_creation_leaves_nothing(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        uint64_t fault = 0;
        for (;; fault++) {
            world w = {.faults_left = fault};
            kvg_status status = world_try(&w, &variants[v]); /* asserts that nothing is left */
            if (status == KVG_OK) {
                world_close(&w);
                break;
            }
            assert_int_equal(status, KVG_ERR_MEMORY);
        }
        assert_true(fault >= 5);
    }
}

/* A failing callback may leave grown chunks, and nothing else. */
static void test_growth_may_stay(void **state)
{
    (void)state;
    world w;
    world_open(&w, &(world_options){.capacity = 9, .chunk = 2, .block_tokens = 4, .scale = true});
    new_sequence(&w, 1, 1, 36);
    bool failed = false;
    uint32_t grown = 2;
    for (uint64_t fault = 0; !failed || w.faulted; fault++) {
        kvg_sequence_grant g;
        const kvg_sequence_request r = {1, 0, 36, 36};
        kvg_block_counts data, scale;
        w.faulted = false;
        w.faults_left = fault;
        kvg_status status = w.ops->materialise(w.self, &r, 1, &g);
        w.faults_left = UINT64_MAX;
        w.data.ops->counts(w.data.self, &data);
        w.scale.ops->counts(w.scale.self, &scale);
        assert_true(data.total >= grown);
        grown = data.total;
        if (status == KVG_OK) break;
        failed = true;
        assert_int_equal(data.active, 0);
        assert_int_equal(scale.active, 0);
        assert_int_equal(info_of(&w, 1).blocks, 0);
    }
    assert_true(failed);
    assert_int_equal(grown, 9);
    assert_int_equal(entry_of(&w, 1, 8), 8);
    assert_int_equal(block_of(w.data, 8).unique_id, 9);
    assert_int_equal(block_of(w.scale, 8).unique_id, 9);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_operation_leaves_everything_as_it_was),
        cmocka_unit_test(test_the_scenario_evicts_preempts_copies_and_shares),
        cmocka_unit_test(test_a_failed_creation_leaves_nothing),
        cmocka_unit_test(test_growth_may_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
