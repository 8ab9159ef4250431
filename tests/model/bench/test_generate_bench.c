/* `kvgold bench` of op generate without a GPU: a device of malloc stands in, whose model makes logits out of the cache
 * that it was given, and in which every mistake can be planted that the checks are for; then configs that are none. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/rng.h"
#include "model/bench/generate_bench.h"
#include "cli/cli.h"
#include "model/model_run.h"

/* --- the device --- */

static enum mistake {
    NONE,
    NO_DEVICE,
    NO_KERNEL,
    NO_ROOM,
    NO_LIBRARY,   /* products by the library are UNIMPLEMENTED */
    NOT_A_NUMBER, /* one logit is NaN */
    OTHER_TOKEN,  /* drawn, than the one of the largest logit */
    LATER_LOGIT,  /* a timed step gives another one */
    RUNNER_BIT,   /* a bit of the runner's logits, once */
    CRASHES,
    HANGS,
    LOST          /* KVG_ERR_DEVICE_LOST, and it never opens again */
} mistake;
static unsigned *opened; /* times, in all processes */
static unsigned calls;   /* of the runner's step, in this process */

static kvg_status fake_open(kvg_bench_info *out)
{
    *out = (kvg_bench_info){.name = "stand-in", .sm = 90};
    if (++*opened > 1 && mistake == LOST) return kvg_fail(KVG_ERR_DEVICE_LOST, "the stand-in is gone");
    return mistake == NO_DEVICE ? kvg_fail(KVG_ERR_UNIMPLEMENTED, "there is no stand-in") : KVG_OK;
}

static kvg_status fake_room(uint64_t *bytes)
{
    *bytes = mistake == NO_ROOM ? 60000 : 1u << 30;
    return KVG_OK;
}

static kvg_status fake_alloc(size_t bytes, void **out)
{
    *out = malloc(bytes);
    return *out ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory");
}

static kvg_status fake_fill(void *buffer, const kvg_bench_rows *r, kvg_recipe recipe)
{
    for (uint64_t i = 0; i < (uint64_t)r->count[0] * r->count[1] * r->count[2]; i++) {
        const uint64_t line = i / r->count[2], token = i % r->count[2];
        const uint64_t at = r->base + line / r->count[1] * r->stride[0] + line % r->count[1] * r->stride[1] +
                            token * r->stride[2];
        for (uint32_t k = 0; k < r->bytes; k++) ((uint8_t *)buffer)[at + k] = kvg_recipe_byte(recipe, at + k);
    }
    return KVG_OK;
}

static const kvg_bench_device device = {.backend = "stand-in", .open = fake_open, .room = fake_room,
                                        .alloc = fake_alloc, .free = free, .fill = fake_fill};

/* --- its model --- */

typedef struct fake_model {
    kvg_model_setup setup;
    uint8_t *pools[2][2];
    uint64_t bytes[2][2];
} fake_model;

static kvg_status size_pools(const kvg_model_setup *setup, fake_model *m, uint64_t *sum)
{
    const kvg_problem p = kvg_model_append(setup, 0, 1);
    kvg_status s = kvg_problem_check(&p);
    *sum = 0;
    for (int i = 0; i < 4 && !s; i++) {
        const kvg_role role = i / 2 ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL;
        s = kvg_problem_pool_bytes(&p, role, (kvg_side)(i % 2), &m->bytes[i / 2][i % 2]);
        *sum += m->bytes[i / 2][i % 2];
    }
    return s;
}

static kvg_status fake_bytes(const kvg_model_setup *setup, uint64_t *out)
{
    fake_model m;
    if (mistake == NO_KERNEL) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no kernel for it");
    return size_pools(setup, &m, out);
}

static void close_model(void *model)
{
    fake_model *m = model;
    for (int i = 0; m && i < 4; i++) free(m->pools[i / 2][i % 2]);
    free(m);
}

static kvg_status open_model(const kvg_model_setup *setup, void **out)
{
    uint64_t sum;
    fake_model *m = calloc(1, sizeof *m);
    *out = m;
    if (!m) return kvg_fail(KVG_ERR_MEMORY, "no memory");
    m->setup = *setup;
    if (mistake == NO_LIBRARY && setup->products == KVG_PRODUCTS_LIBRARY) {
        close_model(m);
        *out = NULL;
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no library");
    }
    kvg_status s = size_pools(setup, m, &sum);
    for (int i = 0; i < 4 && !s; i++) {
        m->pools[i / 2][i % 2] = calloc(1, m->bytes[i / 2][i % 2] + 1);
        if (!m->pools[i / 2][i % 2]) s = kvg_fail(KVG_ERR_MEMORY, "no memory");
    }
    return s;
}

static void *pool_of(void *model, kvg_role role, kvg_side side)
{
    return ((fake_model *)model)->pools[role == KVG_ROLE_SCALE_POOL][side];
}

/* Every sequence has its own blocks, the step's token is the last one there, and no byte of the pools is as it was. */
static void check_step(const fake_model *m, const kvg_model_step *step)
{
    const uint32_t B = m->setup.block_tokens, width = (step->longest - 1) / B + 1;
    uint8_t *seen = calloc(m->setup.blocks, 1);
    assert_int_equal(step->rows, step->sequences);
    assert_int_equal(m->setup.blocks, width * step->sequences);
    for (uint32_t s = 0; s < step->sequences; s++) {
        const int32_t *table = step->block_table + s * width;
        const uint32_t last = (uint32_t)step->lengths[s] - 1;
        assert_int_equal(step->positions[s], last);
        assert_int_equal(step->slots[s], (int64_t)table[last / B] * B + last % B);
        for (uint32_t w = 0; w < width; w++) assert_int_equal(seen[table[w]]++, 0);
    }
    free(seen);
    for (int i = 0; i < 4; i++) {
        uint64_t zeros = 0;
        for (uint64_t k = 0; k < m->bytes[i / 2][i % 2]; k++) zeros += m->pools[i / 2][i % 2][k] == 0;
        assert_true(zeros * 8 <= m->bytes[i / 2][i % 2]);
    }
}

static kvg_status time_model(void *model, const kvg_bench_model_job *job, kvg_bench_model_result *r)
{
    const fake_model *m = model;
    const uint32_t vocab = m->setup.config->vocab;
    const uint64_t cache = kvg_hash64(m->pools[0][0], m->bytes[0][0]) ^ kvg_hash64(m->pools[0][1], m->bytes[0][1]);
    check_step(m, job->step);
    if (mistake == CRASHES) abort();
    if (mistake == HANGS) sleep(60);
    if (mistake == LOST) return kvg_fail(KVG_ERR_DEVICE_LOST, "it fell off the bus");
    *r = (kvg_bench_model_result){.first = cache, .clock.mhz = 1000};
    for (uint32_t i = 0; i < job->step->wanted; i++) {
        float *row = job->step->logits + (size_t)i * vocab;
        int32_t best = 0;
        for (uint32_t k = 0; k < vocab; k++) {
            row[k] = (float)kvg_rng_normal(cache, (uint64_t)job->step->tokens[i], k);
            if (m->setup.products == KVG_PRODUCTS_LIBRARY) row[k] += 0x1p-10f;
            if (row[k] > row[best]) best = (int32_t)k;
        }
        job->tokens[i] = best ^ (mistake == OTHER_TOKEN && i + 1 == job->step->wanted);
        if (mistake == NOT_A_NUMBER && i + 1 == job->step->wanted) row[vocab - 1] = NAN;
    }
    for (uint32_t run = 0; run < job->runs; run++) {
        r->timed[run] = cache + (mistake == LATER_LOGIT && run + 1 == job->runs);
        for (int part = 0; part < KVG_BENCH_MODEL_PARTS; part++) {
            const float whole = m->setup.storage[KVG_K].format == KVG_FORMAT_BF16 ? 8 : 4;
            r->ms[part][run] = part == KVG_BENCH_STEP ? whole : part == KVG_BENCH_CACHE ? whole / 4 : whole / 2;
        }
    }
    return KVG_OK;
}

static const kvg_bench_model model = {fake_bytes, open_model, close_model, pool_of, time_model};

/* --- its runner: the reference --- */

static kvg_status open_runner(const kvg_model_setup *setup, void **runner)
{
    calls = 0;
    return kvg_reference_model_runner()->open(setup, runner);
}

static void close_runner(void *runner)
{
    kvg_reference_model_runner()->close(runner);
}

static kvg_status run_step(void *runner, const kvg_model_step *step)
{
    kvg_status s = kvg_reference_model_runner()->step(runner, step);
    if (mistake == RUNNER_BIT && ++calls == 4) {
        uint32_t bits;
        memcpy(&bits, &step->logits[7], sizeof bits);
        bits ^= 1;
        memcpy(&step->logits[7], &bits, sizeof bits);
    }
    return s;
}

static const kvg_model_runner runner = {"stand-in", open_runner, close_runner, run_step, NULL};
static const kvg_generate_bench_device stand_in = {&device, &model, &runner};

/* --- configs --- */

#define FILE_NAME KVG_BINARY_DIR "/test_generate_bench.json"
#define LLAMA KVG_SOURCE_DIR "/golden/data/checkpoints/llama_tied"
#define CARRIED "{\"name\": \"a\", \"folder\": \"" LLAMA "\", \"products\": \"fixed\"}"
#define TINY "{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, " \
             "\"intermediate_size\": 48, \"vocab_size\": 40, \"head_dim\": 16, \"max_position_embeddings\": 300}"
#define RANDOM "{\"name\": \"b\", \"config\": " TINY ", \"products\": \"library\"}"
#define AXES "\"format\": [\"bf16\", \"nvfp4\"], \"batch\": [1, 3], \"context\": [70], "
#define WHOLE(generate) "{\"kvgold\": 1, \"name\": \"t\", \"seed\": \"0x1\", \"generate\": {" generate "}}"

static kvg_status open_text(const char *text, kvg_generate_bench_config *config)
{
    FILE *f = fopen(FILE_NAME, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return kvg_generate_bench_open(FILE_NAME, config);
}

static void test_configs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {WHOLE(AXES "\"models\": [" CARRIED "], \"formats\": []"), "did you mean 'format'"},
        {WHOLE(AXES "\"dtype\": \"bf16\""), "models"},
        {WHOLE(AXES "\"models\": []"), "a list of 1 to 16 models"},
        {WHOLE("\"format\": [\"bf17\"], \"batch\": [1], \"context\": [7], \"models\": [" CARRIED "]"), "bf17"},
        {WHOLE("\"format\": [\"bf16\"], \"batch\": [0], \"context\": [7], \"models\": [" CARRIED "]"), "batch[0]"},
        {WHOLE("\"format\": [\"bf16\"], \"batch\": [1], \"context\": [], \"models\": [" CARRIED "]"), "1 to 16"},
        {WHOLE("\"format\": [\"bf16\"], \"batch\": [1], \"context\": [301], \"models\": [" RANDOM "]"), "300 pos"},
        {WHOLE(AXES "\"models\": [{\"name\": \"b\", \"config\": " TINY ", \"products\": \"best\"}]"),
         "'best' is neither fixed nor library"},
        {WHOLE(AXES "\"models\": [{\"name\": \"b\", \"products\": \"fixed\"}]"), "either a folder or a config"},
        {WHOLE(AXES "\"models\": [{\"name\": \"b\", \"folder\": \"no-such\", \"products\": \"fixed\"}]"), "no-such"},
        {WHOLE(AXES "\"models\": [{\"name\": \"b\", \"config\": {}, \"products\": \"fixed\"}]"), "model_type"},
    };
    kvg_generate_bench_config *config = malloc(sizeof *config);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(open_text(bad[i].text, config), KVG_OK);
        if (!strstr(kvg_error_text(), bad[i].words)) fail_msg("%s", kvg_error_text());
        if (!strstr(kvg_error_text(), "test_generate_bench.json: $")) fail_msg("%s", kvg_error_text());
    }
    assert_false(kvg_generate_bench_is(KVG_SOURCE_DIR "/configs/bench_pool.json"));
    assert_true(kvg_generate_bench_is(KVG_SOURCE_DIR "/configs/bench_gpu_generate.json"));
    assert_int_equal(kvg_generate_bench_open(KVG_SOURCE_DIR "/configs/bench_gpu_generate.json", config), KVG_OK);
    assert_int_equal(kvg_generate_bench_cells(config), 2 * 3 * 2 * 11);
    const kvg_model_config *llama = &config->model[1].config;
    assert_int_equal(llama->layers * llama->kv_heads * llama->head_dim, 32 * 8 * 128);
    free(config);
}

/* --- cells --- */

static kvg_generate_bench_config shared;

static kvg_generate_bench_measurement measure(uint32_t model_index, uint32_t cell, enum mistake m)
{
    kvg_generate_bench_measurement out;
    kvg_generate_bench_work *work;
    kvg_generate_bench_cell c = kvg_generate_bench_cell_at(&shared, model_index * 4 + cell);
    *opened = 0;
    mistake = m;
    assert_int_equal(kvg_generate_bench_begin(&shared, &stand_in, &work), KVG_OK);
    kvg_generate_bench_measure(work, &c, 5, &out);
    kvg_generate_bench_end(work);
    mistake = NONE;
    return out;
}

static void test_cells(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        const kvg_generate_bench_measurement m = measure(i / 4, i % 4, NONE);
        const bool first_of_format = i % 4 < 2, nvfp4 = i % 2;
        const uint32_t batch = i % 4 < 2 ? 1 : 3;
        if (m.outcome != KVG_DEVICE_TIMED) fail_msg("cell %u: %s", i, m.detail);
        assert_int_equal(m.profile, KVG_PROFILE_SM90_MMA16816_V2);
        assert_int_equal(m.times[KVG_BENCH_STEP].runs, 5);
        /* 70 tokens, 2 layers, 2 KV heads of 16, K and V: 32 bytes a row, or 8 codes and a scale */
        assert_int_equal((int)m.kv_bytes, 70 * batch * 2 * 2 * 2 * (nvfp4 ? 9 : 32));
        assert_int_equal(m.checked > 0, first_of_format && i < 4);
        assert_int_equal(m.distance.known, i % 4 == 0);
        if (i % 4) continue;
        assert_true(fabs(m.distance.largest - 0x1p-10) < 1e-6 && fabs(m.distance.rms - 0x1p-10) < 1e-6);
        assert_int_equal(m.distance.same, 1);
        assert_true(m.distance.size > 0.5 && m.distance.size < 2);
    }
    const kvg_generate_bench_measurement m = measure(1, 0, NO_LIBRARY);
    assert_int_equal(m.verdict, KVG_VERDICT_UNIMPLEMENTED);
    assert_int_equal(measure(0, 0, NO_LIBRARY).outcome, KVG_DEVICE_TIMED);
    assert_false(measure(0, 0, NO_LIBRARY).distance.known);
}

static void expect_failure(enum mistake m, const char *words)
{
    const kvg_generate_bench_measurement r = measure(0, m == RUNNER_BIT ? 1 : 3, m);
    if (r.outcome != KVG_DEVICE_NOT_TIMED || r.verdict != KVG_VERDICT_FAIL || !strstr(r.detail, words)) {
        fail_msg("mistake %d: %s", (int)m, r.detail);
    }
    assert_int_equal(r.times[KVG_BENCH_STEP].runs, 0);
}

static void test_wrong_answers(void **state)
{
    (void)state;
    expect_failure(NOT_A_NUMBER, "not finite");
    expect_failure(OTHER_TOKEN, "another token");
    expect_failure(LATER_LOGIT, "timed step");
    expect_failure(RUNNER_BIT, "step 3: 1 of 480 logits");
    assert_int_equal(measure(0, 1, NO_KERNEL).verdict, KVG_VERDICT_UNIMPLEMENTED);
    const kvg_generate_bench_measurement m = measure(0, 2, NO_ROOM);
    assert_int_equal(m.outcome, KVG_DEVICE_DOES_NOT_FIT);
    assert_int_equal((int)m.needs, 3 * 5 * 16 * 2 * 2 * 2 * 32); /* 5 blocks of 16 tokens each */
    assert_int_equal(m.most_batch, 2);
}

/* --- all of it --- */

static void run_all(enum mistake m, const char *filter, kvg_status expected, int expected_exit, const char *statuses)
{
    const kvg_generate_bench_options options = {.runs = 3, .filter = filter};
    cJSON *list = cJSON_CreateArray();
    char got[16] = "";
    int exit_code = -1;
    *opened = 0;
    mistake = m;
    shared.hang_seconds = m == HANGS ? 0.5 : 60;
    assert_int_equal(kvg_generate_bench(&shared, &stand_in, &options, list, &exit_code), expected);
    mistake = NONE;
    assert_int_equal(exit_code, expected_exit);
    for (int i = 0; i < cJSON_GetArraySize(list) && i < 15; i++) {
        got[i] = cJSON_GetObjectItem(cJSON_GetArrayItem(list, i), "status")->valuestring[0];
    }
    assert_string_equal(got, statuses);
    if (m == NONE && statuses[0]) {
        const cJSON *item = cJSON_GetArrayItem(list, 1);
        assert_true(cJSON_GetObjectItem(item, "gain_over_bf16")->valuedouble == 2);
        assert_true(cJSON_GetObjectItem(item, "share_of_cache")->valuedouble == 0.25);
        assert_true(cJSON_GetObjectItem(item, "tokens_per_second")->valuedouble == 250);
    }
    cJSON_Delete(list);
}

static void test_processes(void **state)
{
    (void)state;
    assert_int_equal(open_text(WHOLE(AXES "\"models\": [" CARRIED ", " RANDOM "]"), &shared), KVG_OK);
    run_all(NONE, NULL, KVG_OK, KVG_EXIT_PASS, "TTTTTTTT");
    run_all(NONE, "a ", KVG_OK, KVG_EXIT_PASS, "TTTT");
    run_all(LATER_LOGIT, "a ", KVG_OK, KVG_EXIT_FAIL, "FFFF");
    run_all(NO_KERNEL, "a ", KVG_OK, KVG_EXIT_NOTHING, "UUUU");
    run_all(CRASHES, "b nvfp4", KVG_OK, KVG_EXIT_FAIL, "CC");
    run_all(HANGS, "b nvfp4 1x", KVG_OK, KVG_EXIT_FAIL, "H");
    run_all(LOST, "b ", KVG_OK, KVG_EXIT_FAIL, "DDDD");
    run_all(NO_DEVICE, "b ", KVG_ERR_UNIMPLEMENTED, -1, "");
    run_all(NONE, "zz", KVG_ERR_INVALID, -1, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes), /* first: no OpenMP thread may be there when it forks */
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_wrong_answers),
    };
    opened = mmap(NULL, sizeof *opened, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return opened == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
