#define _DEFAULT_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "golden/golden.h"
#include "harness/bench/device_bench.h"
#include "harness/bench/host_time.h"
#include "harness/config/config.h"
#include "harness/run/backends.h"
#include "harness/run/capabilities.h"
#include "harness/trial/judge/judge.h"
#include "model/bench/generate_bench.h"
#include "support/child.h"
#include "support/interrupt.h"
#include "support/used_files.h"
#include "support/whole_file.h"

typedef struct bench_options {
    const char *backend, *json, *filter;
    double seconds;         /* 0: not given */
    unsigned threads, runs; /* 0: not given */
    bool quick;
    kvg_confinement confinement;
} bench_options;

static double elements_of(const kvg_problem *p)
{
    const double rows = kvg_problem_sides(p) * (double)p->tokens * p->kv_heads * p->head_dim;
    return kvg_op_reads_sequences(p->op) ? rows * p->paging.sequences : rows;
}

/* The bytes that the op must move; of a pool, the rows of its tokens alone. */
static double bytes_of(const kvg_problem *p)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_role *lists[] = {op->inputs, op->outputs};
    double bytes = 0;
    for (size_t i = 0; i < 2 * KVG_MAX_ROLES; i++) {
        const kvg_role role = lists[i / KVG_MAX_ROLES][i % KVG_MAX_ROLES];
        if (role == KVG_ROLE_NONE || role == KVG_ROLE_SCALE_POOL) continue;
        for (int side = KVG_K; side < (kvg_role_is_shared(role) ? 1 : kvg_problem_sides(p)); side++) {
            const kvg_format format = p->storage[side].format;
            const size_t row = kvg_format_code_bytes(format, p->head_dim) + kvg_format_scale_bytes(format, p->head_dim);
            bytes += role == KVG_ROLE_DATA_POOL ? elements_of(p) / kvg_problem_sides(p) / p->head_dim * (double)row
                                                : (double)kvg_problem_tensor(p, role, (kvg_side)side).bytes;
        }
    }
    return bytes;
}

/* What the child that ran a case sends back. */
typedef struct measurement {
    kvg_verdict verdict;
    kvg_timing timing;
    char impl[KVG_IMPL_NAME_SIZE], detail[KVG_RESULT_TEXT];
    char doubt[KVG_HOST_DOUBT_SIZE]; /* of the timing */
} measurement;

/* What that child is to do, and the answer. */
typedef struct measuring {
    const kvg_case *c;
    const bench_options *options;
    unsigned threads;
    measurement *out;
} measuring;

static void measure(void *context)
{
    const measuring *a = context;
    measurement *m = a->out;
    kvg_candidate *candidate = NULL;
    kvg_capabilities *capabilities = NULL;
    kvg_candidate_facts facts;
    kvg_result r = {.verdict = KVG_VERDICT_ERROR};
    omp_set_num_threads((int)a->threads);
    kvg_status s = kvg_candidate_start(a->options->confinement, NULL, kvg_check_backend, &candidate);
    if (!s) s = kvg_candidate_open(candidate, a->c->backend, &facts);
    if (!s) s = kvg_capabilities_find(a->c->backend, NULL, &capabilities);
    if (s) snprintf(r.detail, sizeof r.detail, "%s", kvg_error_text());
    else if (kvg_capabilities_claim(capabilities, a->c, facts.sm, &r)) {
        const unsigned cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
        kvg_check_time(a->c, candidate, a->options->seconds, &r, &m->timing);
        kvg_host_doubt(&m->timing, m->timing.runs ? bytes_of(&a->c->problem) : 0, cores, facts.device_memory, m->doubt);
    }
    kvg_capabilities_close(capabilities);
    kvg_candidate_end(candidate);
    m->verdict = r.verdict;
    memcpy(m->impl, r.impl, sizeof m->impl);
    memcpy(m->detail, r.detail, sizeof m->detail);
}

/* Runs a case in a child, so that a crash or a hang costs its line alone. */
static kvg_status measure_apart(const kvg_case *c, unsigned threads, const bench_options *o, unsigned patience,
                                measurement *m)
{
    measuring a = {c, o, threads, m};
    int death;
    *m = (measurement){.verdict = KVG_VERDICT_CRASH};
    kvg_status s = kvg_child_answer(measure, &a, m, sizeof *m, patience, &death);
    if (s || !death) return s;
    if (kvg_child_timed_out(death)) {
        m->verdict = KVG_VERDICT_HANG;
        snprintf(m->detail, sizeof m->detail, "no result after %u s", patience);
    } else {
        snprintf(m->detail, sizeof m->detail, "the process ended with wait status 0x%x", (unsigned)death);
    }
    return KVG_OK;
}

/* Prints one measurement and adds it to the JSON list. False if the case was not timed. */
static bool print_measurement(const kvg_case *c, unsigned threads, const measurement *m, cJSON *list)
{
    const kvg_timing t = m->timing;
    const bool timed = m->verdict == KVG_VERDICT_PASS && t.runs > 0;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    cJSON_AddStringToObject(item, "id", c->id);
    cJSON_AddStringToObject(item, "status", timed ? "TIMED" : kvg_verdict_name(m->verdict));
    if (m->detail[0]) cJSON_AddStringToObject(item, "detail", m->detail);
    cJSON_AddStringToObject(item, "impl", m->impl);
    if (c->policy.given) cJSON_AddStringToObject(item, "mode", kvg_mode_name(c->policy.effective));
    cJSON_AddNumberToObject(item, "threads", threads);
    if (!timed) {
        printf("%-72s %2u  %s: %s\n", c->id, threads, kvg_verdict_name(m->verdict), m->detail);
        return false;
    }
    const double elements = elements_of(&c->problem) / t.median_ms / 1e3,
                 megabytes = bytes_of(&c->problem) / t.median_ms / 1e3;
    printf("%-72s %2u %9.1f %9.1f %9.0f %7.1f%% %6llu", c->id, threads, elements, elements / threads, megabytes,
           100 * (t.slowest_ms - t.fastest_ms) / t.median_ms, (unsigned long long)t.runs);
    /* Rows of q: of op decode, the tokens that a step gives. */
    const double per_second = 1e3 * c->problem.attention.queries / t.median_ms;
    if (per_second > 0) printf("  %.1f ms, %.2f tokens/s", t.median_ms, per_second);
    printf("%s%s\n", m->doubt[0] ? "  SUSPECT: " : "", m->doubt);
    if (m->doubt[0]) cJSON_AddStringToObject(item, "suspect", m->doubt);
    cJSON_AddNumberToObject(item, "median_ms", t.median_ms);
    cJSON_AddNumberToObject(item, "fastest_call_ms", t.fastest_call_ms);
    cJSON_AddNumberToObject(item, "fastest_ms", t.fastest_ms);
    cJSON_AddNumberToObject(item, "slowest_ms", t.slowest_ms);
    cJSON_AddNumberToObject(item, "runs", (double)t.runs);
    cJSON_AddNumberToObject(item, "million_elements_per_second", elements);
    if (per_second > 0) cJSON_AddNumberToObject(item, "tokens_per_second", per_second);
    return true;
}

/* --- cases on a device --- */

typedef struct device_report {
    cJSON *list;
    int before; /* items of it that are others' */
    unsigned counts[KVG_VERDICT_COUNT], timed, too_large;
} device_report;

static void report_device_case(const kvg_case *c, const kvg_device_measurement *m, void *context)
{
    device_report *r = context;
    if (cJSON_GetArraySize(r->list) == r->before) kvg_device_print_header(stdout);
    if (m->outcome == KVG_DEVICE_TIMED) r->timed++;
    else if (m->outcome == KVG_DEVICE_DOES_NOT_FIT) r->too_large++;
    else r->counts[m->verdict]++;
    kvg_device_print(c, m, stdout);
    fflush(stdout);
    cJSON_AddItemToArray(r->list, kvg_device_json(c, m));
}

/* No GPU, or kernels for nothing of what was asked, is 77. */
static int sum_up(const device_report *r)
{
    printf("%u cases timed, %u too large for the device", r->timed, r->too_large);
    bool failed = false;
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (r->counts[i] == 0) continue;
        printf(", %u %s", r->counts[i], kvg_verdict_name((kvg_verdict)i));
        failed |= i != KVG_VERDICT_UNIMPLEMENTED;
    }
    putchar('\n');
    return failed ? KVG_EXIT_FAIL : r->timed ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
}

static kvg_status bench_device(const kvg_case *const *cases, size_t count, const kvg_bench_device *device,
                               double patience, const bench_options *o, cJSON *list, int *exit_code)
{
    device_report r = {.list = list, .before = cJSON_GetArraySize(list)};
    const uint32_t usual = o->quick ? KVG_DEVICE_QUICK_RUNS : KVG_DEVICE_DEFAULT_RUNS;
    const kvg_device_options options = {.runs = o->runs ? o->runs : usual, .quick = o->quick};
    kvg_status s = kvg_device_bench(cases, count, device, patience, &options, report_device_case, &r);
    if (!s) *exit_code = sum_up(&r);
    return s;
}

/* --- all cases --- */

static void warn_of_fallback(const kvg_case *c)
{
    if (!c->policy.fell_back) return;
    fprintf(stderr, "kvgold bench: FELL BACK to %s: %s\n", kvg_mode_name(c->policy.effective), c->policy.reason);
}

static kvg_status bench_host(const kvg_case *const *cases, size_t count, double hang_seconds, const bench_options *o,
                             cJSON *list, int *exit_code)
{
    kvg_status s = KVG_OK;
    printf("%-72s thr  Melem/s  per core      MB/s  spread   runs\n", "case");
    *exit_code = KVG_EXIT_PASS;
    for (size_t i = 0; !s && i < count; i++) {
        warn_of_fallback(cases[i]);
        for (unsigned threads = 1; !s && threads <= o->threads; threads += o->threads > 1 ? o->threads - 1 : 1) {
            measurement m;
            s = kvg_interrupt_check();
            if (!s) s = measure_apart(cases[i], threads, o, (unsigned)(hang_seconds + 2 * o->seconds) + 1, &m);
            if (!s && !print_measurement(cases[i], threads, &m, list)) *exit_code = KVG_EXIT_FAIL;
        }
    }
    return s;
}

static bool wanted(const kvg_case *c, const bench_options *o)
{
    return !o->filter || strstr(c->id, o->filter);
}

/* Takes out of the config's cases those that are wanted and lie on `device` (NULL: on the host). */
static size_t choose_cases(const kvg_config *config, const bench_options *o, const kvg_bench_device *device,
                           const kvg_case **out)
{
    size_t count = 0;
    for (size_t i = 0; i < config->case_count; i++) {
        const kvg_case *c = &config->cases[i];
        if (wanted(c, o) && kvg_bench_device_of(c->backend) == device) out[count++] = c;
    }
    return count;
}

/* Cases for a GPU in a program that was built without: said once, not case by case. */
static kvg_status need_device(const kvg_config *config)
{
    const kvg_backend *backend;
    bool wanted = false;
    for (size_t i = 0; i < config->case_count; i++) wanted |= strcmp(config->cases[i].backend, "cuda") == 0;
    if (!wanted || kvg_check_backend("cuda", &backend) == KVG_OK) return KVG_OK;
    char why[256];
    snprintf(why, sizeof why, "%s", kvg_error_text());
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s", why);
}

static kvg_status bench_cases(const kvg_config *config, const bench_options *o, cJSON *list, int *exit_code)
{
    const kvg_bench_device *cuda = kvg_bench_device_of("cuda");
    bool any = false;
    for (size_t i = 0; i < config->case_count; i++) any |= wanted(&config->cases[i], o);
    if (!any) return kvg_fail(KVG_ERR_INVALID, "%s: no case's id contains '%s'", config->path, o->filter);
    kvg_status s = need_device(config);
    if (s) return s;
    const kvg_case **cases = malloc(config->case_count * sizeof *cases);
    if (!cases) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu cases", config->case_count);
    int host = KVG_EXIT_NOTHING, device = KVG_EXIT_NOTHING;
    size_t count = choose_cases(config, o, NULL, cases);
    if (count) s = bench_host(cases, count, config->hang_seconds, o, list, &host);
    count = cuda ? choose_cases(config, o, cuda, cases) : 0;
    for (size_t i = 0; i < count; i++) warn_of_fallback(cases[i]);
    if (!s && count) s = bench_device(cases, count, cuda, config->hang_seconds, o, list, &device);
    free(cases);
    *exit_code = host == KVG_EXIT_FAIL || device == KVG_EXIT_FAIL ? KVG_EXIT_FAIL
                 : host == KVG_EXIT_PASS || device == KVG_EXIT_PASS ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
    return s;
}

static kvg_status bench(const char *path, const bench_options *o, int *exit_code)
{
    kvg_config config;
    kvg_status s = kvg_config_open(path, NULL, NULL, &config);
    if (s) return s;
    if (o->backend) s = kvg_config_use_backend(&config, o->backend);
    cJSON *list = cJSON_CreateArray();
    if (!s) s = bench_cases(&config, o, list, exit_code);
    s = kvg_keep_measured(o->json, list, s);
    cJSON_Delete(list);
    kvg_config_close(&config);
    return s;
}

/* A config of `kvgold pool` that has sizes to measure. */
static bool measures_pools(const char *path)
{
    kvg_json_doc *doc;
    if (kvg_json_open(path, &doc)) return false; /* the reader of cases says what is wrong */
    const bool yes = kvg_json_has(kvg_json_root(doc), "bench");
    kvg_json_close(doc);
    return yes;
}

static int bench_pools(const char *path, const char *json)
{
    char command[] = "pool", verb[] = "bench", option[] = "--json";
    char *arguments[] = {command, verb, (char *)path, option, (char *)json, NULL};
    return kvg_command_run(json ? 5 : 3, arguments);
}

/* --- steps of models --- */

static kvg_status bench_models(const char *path, const bench_options *o, int *exit_code)
{
    const kvg_generate_bench_options options = {.runs = o->runs, .filter = o->filter};
    kvg_generate_bench_device device;
    kvg_generate_bench_config *config = malloc(sizeof *config);
    cJSON *list = cJSON_CreateArray();
    kvg_status s = config ? kvg_generate_bench_open(path, config) : kvg_fail(KVG_ERR_MEMORY, "cannot hold a config");
    if (!s) s = kvg_generate_bench_device_find(&device);
    if (!s) s = kvg_generate_bench(config, &device, &options, list, exit_code);
    s = kvg_keep_measured(o->json, list, s);
    cJSON_Delete(list);
    free(config);
    return s;
}

/* An option of other configs would do nothing, and nobody would notice. */
static kvg_status check_options(const bench_options *o, bool pools, bool models)
{
    const bool of_cases = o->backend || o->seconds > 0 || o->threads;
    if (pools && (of_cases || o->filter || o->runs || o->quick)) {
        return kvg_fail(KVG_ERR_INVALID, "a config of `kvgold pool` is measured whole: give --json or no option");
    }
    if (models && of_cases) {
        return kvg_fail(KVG_ERR_INVALID, "steps of models are timed without --backend, --seconds and --threads");
    }
    return KVG_OK;
}

int kvg_command_bench(const kvg_arguments *a)
{
    bench_options o = {
        .backend = kvg_given_text(a, KVG_OPTION_BENCH_BACKEND, NULL),
        .json = kvg_given_text(a, KVG_OPTION_BENCH_JSON, NULL),
        .filter = kvg_given_text(a, KVG_OPTION_BENCH_FILTER, NULL),
        .seconds = kvg_given_real(a, KVG_OPTION_BENCH_SECONDS, 0),
        .threads = (unsigned)kvg_given_number(a, KVG_OPTION_BENCH_THREADS, 0),
        .runs = (unsigned)kvg_given_number(a, KVG_OPTION_BENCH_RUNS, 0),
        .quick = kvg_given(a, KVG_OPTION_BENCH_QUICK),
        .confinement = kvg_given(a, KVG_OPTION_BENCH_UNCONFINED) ? KVG_CONFINE_NOT : KVG_CONFINE_NAMESPACES,
    };
    if (a->file_count != 1) return kvg_command_usage("bench", "give one config");
    const char *path = a->files[0];
    kvg_status s = kvg_used_files_check((const kvg_used_file[]){{.name = path}, {.name = o.json, .written = true}}, 2);
    const bool pools = measures_pools(path), models = kvg_generate_bench_is(path);
    if (!s && o.json) s = kvg_whole_file_check(o.json);
    if (!s) s = check_options(&o, pools, models);
    if (s) return kvg_command_fail("bench", s);
    if (pools) return bench_pools(path, o.json);
    if (!models && o.confinement != KVG_CONFINE_NOT) kvg_command_note_confinement("bench");
    if (!(o.seconds > 0)) o.seconds = 0.5;
    if (!o.threads) o.threads = (unsigned)omp_get_num_procs();
    int exit_code = KVG_EXIT_FAIL;
    kvg_interrupt_catch();
    s = models ? bench_models(path, &o, &exit_code) : bench(path, &o, &exit_code);
    if (s == KVG_ERR_UNIMPLEMENTED) { /* no GPU */
        fprintf(stderr, "kvgold bench: %s\n", kvg_error_text());
        return KVG_EXIT_NOTHING;
    }
    return s ? kvg_command_fail("bench", s) : exit_code;
}
