/* `kvgold bench` on a device, without one: a device of malloc and the reference stands in, in which every mistake can
 * be planted that the check of timed outputs is for. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/rng.h"
#include "harness/bench/device_bench.h"
#include "harness/bench/device_case.h"
#include "support/interrupt.h"
#include "tests/core/whole_blocks.h"

/* --- the device --- */

static enum mistake {
    NONE,
    NO_DEVICE,
    NO_KERNEL,
    NO_ROOM,
    FIRST_BYTE,   /* wrong from the first run on */
    LAST_BYTE,
    LATER_BYTE,   /* wrong once it is timed, where no sample looks */
    LATER_INPUT,  /* writes an input once it is timed */
    GRAPH_BYTE,   /* wrong as a graph */
    INPUT_BYTE,   /* writes the cache that it reads */
    UNWRITTEN,    /* leaves outputs as they were */
    WRONG_FILL,   /* the generator is not the recipe */
    CRASHES,
    HANGS,
    BREAKS,       /* KVG_ERR_DEVICE */
    LOST,         /* the same, and it never opens again */
    STOPPED       /* no mistake: the program gets a signal in the second case */
} mistake;
static unsigned *opened; /* times, in all processes */

static kvg_status fake_open(kvg_bench_info *out)
{
    *out = (kvg_bench_info){.name = "stand-in", .sm = 90};
    if (++*opened > 1 && mistake == LOST) return kvg_fail(KVG_ERR_DEVICE_LOST, "the stand-in is gone");
    return mistake == NO_DEVICE ? kvg_fail(KVG_ERR_UNIMPLEMENTED, "there is no stand-in") : KVG_OK;
}

static kvg_status fake_room(uint64_t *bytes)
{
    *bytes = mistake == NO_ROOM ? 400000 : 1u << 30;
    return KVG_OK;
}

static kvg_status fake_alloc(size_t bytes, void **out)
{
    *out = malloc(bytes);
    return *out ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory");
}

static kvg_status fake_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return KVG_OK;
}

/* As the kernel does it: pieces of aligned words. */
static kvg_status fake_fill(void *buffer, const kvg_bench_rows *r, kvg_recipe recipe)
{
    for (uint64_t i = 0; i < (uint64_t)r->count[0] * r->count[1] * r->count[2]; i++) {
        const uint64_t line = i / r->count[2], token = i % r->count[2];
        const uint64_t at = r->base + line / r->count[1] * r->stride[0] + line % r->count[1] * r->stride[1] +
                            token * r->stride[2];
        for (uint32_t k = 0; k < r->bytes; k++) {
            const uint64_t word = kvg_recipe_word(recipe, (at + k) / 8 + (mistake == WRONG_FILL));
            ((uint8_t *)buffer)[at + k] = (uint8_t)(word >> (at + k) % 8 * 8);
        }
    }
    return KVG_OK;
}

static kvg_status fake_workspace(const kvg_problem *problem, size_t *bytes)
{
    *bytes = 256;
    (void)problem;
    return mistake == NO_KERNEL ? kvg_fail(KVG_ERR_UNIMPLEMENTED, "no kernel for it") : KVG_OK;
}

static size_t outputs_of(const kvg_bench_job *job)
{
    return kvg_roles_tensors(kvg_op_get(job->problem->op)->outputs);
}

static void flip(void *data, size_t at)
{
    ((uint8_t *)data)[at] ^= 1;
}

static kvg_status run(const kvg_bench_job *job)
{
    for (size_t i = 0; i < outputs_of(job); i++) {
        if (job->out[i].bytes) memset(job->out[i].data, 0x5A, job->out[i].bytes);
    }
    if (mistake == UNWRITTEN) return KVG_OK;
    kvg_status s = kvg_reference_run(job->problem, job->in, job->out);
    if (mistake == FIRST_BYTE) flip(job->out[0].data, 0);
    if (mistake == LAST_BYTE) flip(job->out[0].data, job->out[0].bytes - 1);
    if (mistake == INPUT_BYTE) {
        const int pool = kvg_roles_index(kvg_op_get(job->problem->op)->inputs, KVG_ROLE_DATA_POOL, KVG_K);
        for (size_t i = 0; i < job->in[pool].bytes; i += 64) flip(job->in[pool].data, i);
    }
    return s;
}

static kvg_status checksum(const kvg_tensor *tensors, size_t count, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].bytes) *out = *out * 3 + kvg_hash64(tensors[i].data, tensors[i].bytes);
    }
    return KVG_OK;
}

static kvg_status fake_time(const kvg_bench_job *job, kvg_bench_result *result, uint64_t *as_graph)
{
    *result = (kvg_bench_result){.clock.mhz = 1000};
    if (mistake == CRASHES) abort();
    if (mistake == STOPPED && job->problem->op == KVG_OP_FLATTEN) kill(getppid(), SIGTERM);
    if (mistake == HANGS || (mistake == STOPPED && job->problem->op == KVG_OP_FLATTEN)) sleep(60);
    if (mistake == BREAKS || mistake == LOST) return kvg_fail(KVG_ERR_DEVICE, "a kernel faulted");
    for (int i = 0; i < KVG_BENCH_SERIES; i++) {
        if (job->quick && i != KVG_BENCH_COLD && i != KVG_BENCH_COLD_PLAIN) continue;
        result->runs[i] = job->runs;
        for (uint32_t k = 0; k < job->runs; k++) result->ms[i][k] = (float)(1 + (k * 7 + (unsigned)i) % job->runs);
    }
    kvg_status s = run(job);
    if (mistake == LATER_BYTE) flip(job->out[0].data, job->out[0].bytes / 3);
    if (mistake == LATER_INPUT) flip(job->in[0].data, job->in[0].bytes / 2);
    if (!s) s = checksum(job->out, outputs_of(job), as_graph);
    *as_graph += mistake == GRAPH_BYTE;
    return s;
}

static const kvg_bench_device device = {
    "stand-in", fake_open, fake_room, fake_alloc, free, fake_copy, fake_copy, fake_fill, fake_workspace, run, checksum,
    fake_time,
};

/* --- cases --- */

static kvg_case make_case(kvg_op op, kvg_layout layout, kvg_format format)
{
    kvg_case c = {
        .problem = {.op = op, .layout = layout, .dtype = KVG_DTYPE_BF16, .tokens = 210, .kv_heads = 2,
                    .head_dim = whole_blocks(64, format), .storage = {{format, "canonical"}, {format, "canonical"}},
                    .paging = {.layers = 2, .layer = 1, .blocks = 3 * 14 + 5, .block_tokens = 16, .sequences = 3}},
        .fill = KVG_FILL_RANDOM,
        .scale = {.given = true, .value = {0.3f, 1.5f}},
        .backend = "stand-in",
        .seed = 11,
    };
    if (layout == KVG_LAYOUT_CONTIGUOUS) c.problem.paging.block_tokens = 256;
    if (op == KVG_OP_DECODE) {
        c.problem.attention = (kvg_attention){.query_heads = 6, .queries = 3, .sinks = true};
        c.queries = 1;
    }
    if (op == KVG_OP_APPEND) {
        c.problem.rope = (kvg_rope){.dims = 32, .pairing = KVG_PAIRING_HALVES, .positions = 50};
        c.problem.bias = true;
    }
    assert_int_equal(kvg_problem_check(&c.problem), KVG_OK);
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    return c;
}

static kvg_device_measurement measure(const kvg_case *c, enum mistake m)
{
    static const kvg_device_options options = {.runs = 9};
    kvg_device_measurement out;
    kvg_bench_info info;
    mistake = NONE;
    assert_int_equal(fake_open(&info), KVG_OK);
    mistake = m;
    kvg_device_measure(c, &device, &info, &options, &out);
    mistake = NONE;
    return out;
}

static void expect_timed(const kvg_case *c)
{
    const kvg_device_measurement m = measure(c, NONE);
    if (m.outcome != KVG_DEVICE_TIMED) fail_msg("%s: %s: %s", c->id, kvg_device_outcome_name(&m), m.detail);
    assert_true(m.checked > 1000 && m.outputs > 0 && m.reads > 0);
    assert_int_equal(m.times[KVG_BENCH_COLD].runs, 9);
    assert_true(m.times[KVG_BENCH_COLD].median == 5000 && m.times[KVG_BENCH_COLD].least == 1000 &&
                m.times[KVG_BENCH_COLD].most == 9000);
}

static void expect_failure(const kvg_case *c, enum mistake m, const char *words)
{
    const kvg_device_measurement r = measure(c, m);
    if (r.outcome != KVG_DEVICE_NOT_TIMED || r.verdict != KVG_VERDICT_FAIL || !strstr(r.detail, words)) {
        fail_msg("%s, mistake %d: %s: %s", c->id, (int)m, kvg_device_outcome_name(&r), r.detail);
    }
    assert_int_equal(r.times[KVG_BENCH_COLD].runs, 0);
}

/* --- tests --- */

/* SplitMix64's first numbers for seed 0, as published implementations give them. */
static void test_recipe(void **state)
{
    (void)state;
    const kvg_recipe all = {0, UINT64_MAX, 0}, some = {0, 0x00FF, 0x3C00};
    assert_true(kvg_recipe_word(all, 0) == 0xE220A8397B1DCDAF);
    assert_true(kvg_recipe_word(all, 1) == 0x6E789E6AA1B965F4);
    assert_int_equal(kvg_recipe_byte(all, 0), 0xAF);
    assert_int_equal(kvg_recipe_byte(all, 15), 0x6E);
    assert_true(kvg_recipe_word(some, 0) == 0x3CAF);
}

/* Every op, layout and format: fills hold no NaN, the host makes again what the device was filled with, and bytes are
 * those that a cache has. */
static void test_every_case(void **state)
{
    (void)state;
    static const kvg_op ops[] = {KVG_OP_APPEND, KVG_OP_FLATTEN, KVG_OP_EXPAND, KVG_OP_DECODE};
    static const kvg_layout layouts[] = {KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_TRTLLM, KVG_LAYOUT_NHD,  KVG_LAYOUT_HND,
                                         KVG_LAYOUT_VLLM,      KVG_LAYOUT_SLOT,   KVG_LAYOUT_CONTIGUOUS};
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (size_t f = 0; f < formats; f++) {
        for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
            for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
                if (k != (f + i) % 7 && k != (f + i + 3) % 7) continue; /* each pair somewhere */
                const kvg_case c = make_case(ops[i], layouts[k], table[f].format);
                expect_timed(&c);
            }
        }
    }
}

static void test_bytes(void **state)
{
    (void)state;
    kvg_case c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_NVFP4);
    kvg_device_measurement m = measure(&c, NONE);
    assert_int_equal((int)m.reads, 3 * 210 * 2 * 2 * (32 + 4)); /* sequences, tokens, heads, sides, a row */
    assert_int_equal((int)m.writes, 0);
    assert_int_equal(m.profile, KVG_PROFILE_SM90_MMA16816_V2);
    c.problem.attention.window = 50;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    m = measure(&c, NONE);
    assert_int_equal(m.outcome, KVG_DEVICE_TIMED);
    assert_int_equal((int)m.reads, 3 * 50 * 2 * 2 * (32 + 4));
    c = make_case(KVG_OP_APPEND, KVG_LAYOUT_HND, KVG_FORMAT_NVFP4);
    m = measure(&c, NONE);
    assert_int_equal((int)m.reads, 210 * 2 * 2 * 128);
    assert_int_equal((int)m.writes, 210 * 2 * 2 * (32 + 4));
    c = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_HND, KVG_FORMAT_NVFP4);
    m = measure(&c, NONE);
    assert_int_equal((int)m.reads, 3 * 210 * 2 * 2 * (32 + 4));
    assert_int_equal((int)m.writes, 3 * 210 * 2 * 2 * 128);
}

/* A number of a fill must begin where a number of its row does. */
static void test_odd_rows(void **state)
{
    (void)state;
    kvg_case c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_NVFP4);
    c.problem.head_dim = 80; /* five scales of a byte a row */
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    expect_timed(&c);
    c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_INT8);
    c.problem.paging.row_padding = 2;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    expect_timed(&c);
    c.problem.paging.scale_padding = 2;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    kvg_device_measurement m = measure(&c, NONE);
    assert_int_equal(m.verdict, KVG_VERDICT_ERROR);
    assert_string_equal(m.detail, "bench: rows of int8 must start at multiples of 4 bytes: change the padding");
    c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_BF16);
    c.problem.paging.row_padding = 1;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    m = measure(&c, NONE);
    assert_int_equal(m.verdict, KVG_VERDICT_ERROR);
    assert_string_equal(m.detail, "bench: rows of bf16 must start at multiples of 2 bytes: change the padding");
}

static void test_wrong_answers(void **state)
{
    (void)state;
    static const kvg_op ops[] = {KVG_OP_APPEND, KVG_OP_FLATTEN, KVG_OP_EXPAND, KVG_OP_DECODE};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        kvg_case c = make_case(ops[i], KVG_LAYOUT_HND, KVG_FORMAT_NVFP4);
        expect_failure(&c, UNWRITTEN, "differ");
        expect_failure(&c, LATER_BYTE, "timed run");
        expect_failure(&c, LATER_INPUT, "wrote an input");
        expect_failure(&c, GRAPH_BYTE, "graph");
        if (ops[i] != KVG_OP_APPEND) {
            expect_failure(&c, FIRST_BYTE, "differ");
            expect_failure(&c, LAST_BYTE, "differ");
            expect_failure(&c, INPUT_BYTE, "cache");
        }
        expect_failure(&c, WRONG_FILL, "differ");
    }
}

static void test_no_answers(void **state)
{
    (void)state;
    kvg_case c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_BF16);
    kvg_device_measurement m = measure(&c, NO_KERNEL);
    assert_int_equal(m.verdict, KVG_VERDICT_UNIMPLEMENTED);
    assert_string_equal(kvg_device_outcome_name(&m), "UNIMPLEMENTED");
    m = measure(&c, NO_ROOM);
    assert_int_equal(m.outcome, KVG_DEVICE_DOES_NOT_FIT);
    assert_int_equal(m.most_sequences, 1); /* 14 blocks of 16 x 2 heads x 2 sides x 128 bytes x 2 layers: 229 KB each */
    c.problem.profile = KVG_PROFILE_SM80_MMA16816_V1;
    m = measure(&c, NONE);
    assert_string_equal(m.detail, "an sm_90 does not give the bits of sm80.mma16816.v1");
    c.problem = (kvg_problem){.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = KVG_DTYPE_BF16, .tokens = 8,
                              .kv_heads = 1, .head_dim = 64, .storage = {{KVG_FORMAT_E4M3, "canonical"},
                                                                          {KVG_FORMAT_E4M3, "canonical"}}};
    m = measure(&c, NONE);
    assert_int_equal(m.verdict, KVG_VERDICT_UNIMPLEMENTED);
    c = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_RING, KVG_FORMAT_BF16);
    m = measure(&c, NONE);
    assert_int_equal(m.verdict, KVG_VERDICT_ERROR);
}

static kvg_device_measurement seen[8];
static size_t seen_count;

static void see(const kvg_case *c, const kvg_device_measurement *m, void *context)
{
    (void)c, (void)context;
    seen[seen_count++] = *m;
}

static kvg_status bench_three(enum mistake m)
{
    static const kvg_device_options options = {.runs = 3, .quick = true};
    const kvg_case a = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_BF16);
    const kvg_case b = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_HND, KVG_FORMAT_INT8);
    const kvg_case *cases[] = {&a, &b, &a};
    seen_count = 0;
    *opened = 0;
    mistake = m;
    const kvg_status s = kvg_device_bench(cases, 3, &device, m == HANGS ? 0.5 : 60, &options, see, NULL);
    mistake = NONE;
    return s;
}

static void test_processes(void **state)
{
    (void)state;
    static const struct {
        enum mistake mistake;
        const char *name;
    } rows[] = {{NONE, "TIMED"}, {CRASHES, "CRASH"}, {HANGS, "HANG"}, {BREAKS, "CRASH"}, {NO_KERNEL, "UNIMPLEMENTED"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(bench_three(rows[i].mistake), KVG_OK);
        assert_int_equal(seen_count, 3);
        for (size_t k = 0; k < seen_count; k++) assert_string_equal(kvg_device_outcome_name(&seen[k]), rows[i].name);
    }
    assert_int_equal(bench_three(LOST), KVG_OK);
    assert_int_equal(seen_count, 3);
    assert_string_equal(kvg_device_outcome_name(&seen[0]), "CRASH");
    for (size_t k = 1; k < 3; k++) {
        assert_string_equal(kvg_device_outcome_name(&seen[k]), "DEVICE_LOST");
        assert_string_equal(seen[k].detail, "not run: the stand-in is gone");
    }
    assert_int_equal(bench_three(NO_DEVICE), KVG_ERR_UNIMPLEMENTED);
    assert_string_equal(kvg_error_text(), "there is no stand-in");
    assert_int_equal(seen_count, 0);
}

/* The last that forks: the signal stays noted. */
static void test_interrupted(void **state)
{
    (void)state;
    kvg_interrupt_catch();
    assert_int_equal(bench_three(STOPPED), KVG_ERR_IO);
    assert_string_equal(kvg_error_text(), "interrupted by a signal");
    assert_int_equal(seen_count, 1);
    assert_string_equal(kvg_device_outcome_name(&seen[0]), "TIMED");
}

static void test_faster_than_memory(void **state)
{
    (void)state;
    char doubt[KVG_DEVICE_DOUBT_SIZE];
    const kvg_case c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_BF16);
    kvg_device_measurement m = {.reads = 1000, .info = {.bytes_per_us = 10}};
    m.times[KVG_BENCH_COLD] = (kvg_device_times){.runs = 1, .median = 100};
    kvg_device_doubt(&m, doubt);
    assert_string_equal(doubt, "");
    m.reads = 1001;
    kvg_device_doubt(&m, doubt);
    assert_string_equal(doubt, "1001 bytes read in 100 us: the memory moves at most 10 bytes in a us");
    cJSON *item = kvg_device_json(&c, &m);
    assert_string_equal(cJSON_GetObjectItem(item, "suspect")->valuestring, doubt);
    cJSON_Delete(item);
    m.info.bytes_per_us = 0;
    kvg_device_doubt(&m, doubt);
    assert_string_equal(doubt, "");
}

static void test_json(void **state)
{
    (void)state;
    static const char *const numbers[] = {"sm", "batch", "tokens", "kv_heads", "head_dim", "query_heads", "bytes_read",
                                          "bytes_written", "checked_bytes", "output_bytes", "gb_per_s",
                                          "plain_gb_per_s", "share_of_plain", "sm_mhz"};
    static const char *const series[] = {"cold", "cold_plain", "graph", "dirty", "dirty_plain", "warm", "warm_plain",
                                         "empty"};
    const kvg_case c = make_case(KVG_OP_DECODE, KVG_LAYOUT_HND, KVG_FORMAT_BF16);
    kvg_device_measurement m = measure(&c, NONE);
    cJSON *item = kvg_device_json(&c, &m);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!cJSON_IsNumber(cJSON_GetObjectItem(item, numbers[i]))) fail_msg("no number %s", numbers[i]);
    }
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        const cJSON *times = cJSON_GetObjectItem(item, series[i]);
        const double median = cJSON_GetObjectItem(times, "median_us")->valuedouble;
        assert_true(median >= cJSON_GetObjectItem(times, "fastest_us")->valuedouble);
    }
    assert_string_equal(cJSON_GetObjectItem(item, "status")->valuestring, "TIMED");
    assert_string_equal(cJSON_GetObjectItem(item, "throttle")->valuestring, "unknown");
    assert_string_equal(cJSON_GetObjectItem(item, "profile")->valuestring, "sm90.mma16816.v2");
    cJSON_Delete(item);
    m.clock.driver_knows = true;
    m.clock.throttle = 0x84;
    item = kvg_device_json(&c, &m);
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(item, "throttle"), 0)->valuestring, "power_cap");
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(item, "throttle"), 1)->valuestring, "power_brake");
    cJSON_Delete(item);
    m = measure(&c, NO_ROOM);
    item = kvg_device_json(&c, &m);
    assert_int_equal(cJSON_GetObjectItem(item, "largest_batch")->valueint, 1);
    assert_null(cJSON_GetObjectItem(item, "cold"));
    cJSON_Delete(item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes), /* first: no OpenMP thread may be there when it forks */
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_recipe),     cmocka_unit_test(test_every_case), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_wrong_answers), cmocka_unit_test(test_no_answers), cmocka_unit_test(test_json),
        cmocka_unit_test(test_faster_than_memory),
    };
    opened = mmap(NULL, sizeof *opened, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return opened == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
