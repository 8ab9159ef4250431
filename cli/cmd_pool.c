#define _DEFAULT_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "core/name.h"
#include "harness/run/backends.h"
#include "paging/pool/pool_bench.h"
#include "paging/pool/pool_campaign.h"
#include "paging/pool/pool_guest.h"
#include "paging/pool/pool_log.h"
#include "support/child.h"
#include "support/interrupt.h"
#include "support/used_files.h"
#include "support/version.h"
#include "support/whole_file.h"

typedef struct pool_options {
    const char *folder, *json, *pool;
    bool defects, has_seed, has_bytes; /* has_bytes: a format or a layout for them */
    uint64_t seed;
    kvg_pool_options run;
    kvg_guest_bytes bytes; /* without a backend: none */
} pool_options;

/* --- run --- */

static uint64_t checks_of(const kvg_pool_totals *t)
{
    uint64_t sum = 0;
    for (int i = 0; i < KVG_RULE_COUNT; i++) sum += t->evaluated[i];
    return sum;
}

/* The columns of the table and the keys of the JSON. */
#define COLUMN(field) #field, offsetof(kvg_pool_totals, field)
static const struct column {
    const char *name;
    size_t offset;
} columns[] = {
    {COLUMN(traces)}, {COLUMN(operations)}, {COLUMN(refused)}, {COLUMN(faults)}, {COLUMN(evictions)},
    {COLUMN(preemptions)}, {COLUMN(matches)}, {COLUMN(forks)}, {COLUMN(copies)}, {COLUMN(published)},
    {COLUMN(windowed)},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };
#undef COLUMN

static uint64_t column_of(const kvg_pool_totals *t, int column)
{
    return *(const uint64_t *)((const char *)t + columns[column].offset);
}

static void print_row(const char *name, const kvg_pool_totals *t)
{
    printf("%-20s", name);
    for (int i = 0; i < COLUMNS; i++) printf(" %11" PRIu64, column_of(t, i));
    putchar('\n');
}

static kvg_pool_totals print_table(const kvg_pool_config *config, const kvg_pool_result *result)
{
    kvg_pool_totals sum = {0};
    printf("%-20s", "scenario");
    for (int i = 0; i < COLUMNS; i++) printf(" %11s", columns[i].name);
    putchar('\n');
    for (size_t i = 0; i <= config->scenario_count; i++) {
        if (result->totals[i].traces == 0) continue;
        print_row(i < config->scenario_count ? config->scenarios[i].name : "(scripted)", &result->totals[i]);
        kvg_pool_totals_add(&sum, &result->totals[i]);
    }
    print_row("all", &sum);
    puts("\nrule             evaluated");
    for (int i = 0; i < KVG_RULE_COUNT; i++) {
        if (i == KVG_RULE_CRASH) continue;
        printf("%-12s %13" PRIu64 "  %s\n", kvg_pool_rules[i].name, sum.evaluated[i], kvg_pool_rules[i].text);
    }
    return sum;
}

static void add_totals(cJSON *object, const kvg_pool_totals *t)
{
    for (int i = 0; i < COLUMNS; i++) cJSON_AddNumberToObject(object, columns[i].name, (double)column_of(t, i));
}

static kvg_status write_result(const char *path, const kvg_pool_config *config, const kvg_pool_result *result,
                               const kvg_pool_totals *sum, const kvg_pool_options *o)
{
    char seed[24];
    snprintf(seed, sizeof seed, "0x%" PRIx64, config->seed);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "kvgold", 1);
    cJSON_AddStringToObject(root, "version", KVG_VERSION);
    cJSON_AddStringToObject(root, "config", config->path);
    cJSON_AddStringToObject(root, "name", config->name);
    cJSON_AddStringToObject(root, "seed", seed);
    cJSON_AddStringToObject(root, "backend", o->backend->name);
    cJSON_AddStringToObject(root, "defect", o->defect ? o->defect->id : "");
    cJSON_AddStringToObject(root, "status", result->verdict.failed ? "FAIL" : "PASS");
    cJSON_AddNumberToObject(root, "seconds", result->seconds);
    add_totals(root, sum);
    cJSON *rules = cJSON_AddObjectToObject(root, "evaluated");
    for (int i = 0; i < KVG_RULE_COUNT; i++) {
        if (sum->evaluated[i]) cJSON_AddNumberToObject(rules, kvg_pool_rules[i].name, (double)sum->evaluated[i]);
    }
    cJSON *list = cJSON_AddArrayToObject(root, "scenarios");
    for (size_t i = 0; i < config->scenario_count; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", config->scenarios[i].name);
        add_totals(item, &result->totals[i]);
        cJSON_AddItemToArray(list, item);
    }
    if (result->verdict.failed) {
        cJSON_AddStringToObject(root, "rule", kvg_pool_rules[result->verdict.rule].name);
        cJSON_AddStringToObject(root, "detail", result->verdict.text);
    }
    kvg_status s = kvg_whole_file_write_json(path, root);
    cJSON_Delete(root);
    return s;
}

static void print_verdict(const kvg_pool_trace *trace, const kvg_pool_verdict *v)
{
    printf("FAIL %s: rule %s (%s)\n", trace->name, kvg_pool_rules[v->rule].name, kvg_pool_rules[v->rule].text);
    if (v->op < trace->op_count) {
        printf("  operation %zu: ", v->op);
        kvg_pool_op_print(&trace->ops[v->op], stdout);
        putchar('\n');
    }
    printf("  %s\n", v->text);
}

static kvg_status report_failure(const char *folder, const kvg_pool_result *result)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pool_failure.json", folder);
    print_verdict(&result->trace, &result->verdict);
    printf("  smallest trace, after %" PRIu64 " attempts:\n\n", result->attempts);
    kvg_pool_trace_print(&result->trace, stdout);
    kvg_status s = kvg_pool_trace_save(&result->trace, path);
    if (!s) printf("\nrepro: kvgold pool replay '%s'\n\n", path);
    return s;
}

static kvg_status check_scenario(const kvg_pool_config *config, const char *name)
{
    size_t i;
    if (!name) return KVG_OK;
    kvg_status s = kvg_name_find("scenario", name, &config->scenarios[0].name, sizeof config->scenarios[0],
                                 config->scenario_count, &i);
    return s ? kvg_fail_in(s, "%s", config->path) : KVG_OK;
}

static kvg_status run(const kvg_pool_config *config, const pool_options *o, int *exit_code)
{
    kvg_pool_result result;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pool.json", o->folder);
    kvg_status s = kvg_whole_file_folder(o->folder);
    if (!s) s = kvg_whole_file_check(path);
    if (s) return s;
    s = kvg_pool_campaign(config, &o->run, &result);
    if (!s && result.verdict.failed) s = report_failure(o->folder, &result);
    if (!s) {
        const kvg_pool_totals sum = print_table(config, &result);
        printf("\n%" PRIu64 " operations, %" PRIu64 " checks, %" PRIu64 " faults injected, seed 0x%" PRIx64
               ", %.1f s: %s\n", sum.operations, checks_of(&sum), sum.faults, config->seed, result.seconds,
               result.verdict.failed ? "FAILED" : "all held");
        s = write_result(path, config, &result, &sum, &o->run);
    }
    *exit_code = result.verdict.failed ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
    kvg_pool_result_free(&result);
    return s;
}

static kvg_status run_defects(const kvg_pool_config *config, const pool_options *o, int *exit_code)
{
    size_t count, caught = 0;
    const kvg_pool_defect *defects = kvg_pool_defect_table(&count);
    printf("%-18s %-12s %10s  %-12s %-13s %s\n", "defect", "caught by", "operations", "unpredicted", "scenario",
           "how it showed");
    for (size_t i = 0; i < count; i++) {
        kvg_pool_catch found, unpredicted;
        kvg_status s = kvg_pool_catch_defect(config, &o->run, &defects[i], false, &found);
        if (!s) s = kvg_pool_catch_defect(config, &o->run, &defects[i], true, &unpredicted);
        if (s) return s;
        printf("%-18s %-12s %10" PRIu64 "  %-12s %-13s %s\n", defects[i].id,
               found.caught ? kvg_pool_rules[found.rule].name : "NOT CAUGHT", found.operations,
               unpredicted.caught ? kvg_pool_rules[unpredicted.rule].name : "-", found.scenario,
               found.caught ? found.text : defects[i].summary);
        fflush(stdout);
        caught += found.caught;
    }
    printf("\n%zu of %zu planted defects caught\n", caught, count);
    *exit_code = caught == count ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
    return KVG_OK;
}

static kvg_status run_config(const char *path, const pool_options *o, int *exit_code)
{
    const kvg_used_file files[] = {{.name = path}, {o->folder, "pool.json", true},
                                   {o->folder, "pool_failure.json", true}};
    kvg_pool_config config;
    kvg_status s = kvg_used_files_check(files, 3);
    if (!s) s = kvg_pool_config_open(path, &config);
    if (s) return s;
    if (o->has_seed) config.seed = o->seed;
    s = check_scenario(&config, o->run.scenario);
    if (!s && config.scenario_count + config.trace_count == 0) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: no scenarios and no traces: this is for `kvgold pool bench`", path);
    }
    if (!s) s = o->defects ? run_defects(&config, o, exit_code) : run(&config, o, exit_code);
    kvg_pool_config_close(&config);
    return s;
}

/* --- replay and bench --- */

static kvg_status replay(const char *path, const pool_options *o, int *exit_code)
{
    kvg_pool_trace trace;
    kvg_pool_verdict verdict;
    kvg_pool_totals totals = {0};
    kvg_pool_trial trial = {.backend = o->run.backend, .defect = o->run.defect, .apart = true};
    kvg_status s = kvg_pool_trace_open(path, &trace);
    if (s) return s;
    if (trace.defect[0] && !trial.defect) s = kvg_pool_defect_find(trace.defect, &trial.defect);
    if (!s) s = kvg_pool_try(&trial, &trace, &totals, &verdict);
    if (!s) {
        if (verdict.failed) print_verdict(&trace, &verdict);
        else printf("PASS %s: %" PRIu64 " operations, %" PRIu64 " checks\n", trace.name, totals.operations,
                    checks_of(&totals));
        *exit_code = verdict.failed ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
    }
    kvg_pool_trace_free(&trace);
    return s;
}

/* Of kvgold's own managers, whose steps are counted. */
static kvg_status bench_config(const char *path, const pool_options *o, cJSON *list, int *exit_code)
{
    kvg_pool_config config;
    bool logarithmic = false;
    if (o->pool || o->has_seed || o->run.operations)
        return kvg_fail(KVG_ERR_INVALID, "--pool, --seed and --ops are for the bench of a library");
    kvg_status s = kvg_pool_config_open(path, &config);
    if (s) return s;
    s = config.bench_count ? kvg_pool_bench(&config, list, &logarithmic)
                           : kvg_fail(KVG_ERR_INVALID, "%s: no \"bench\": give the sizes to measure", path);
    kvg_pool_config_close(&config);
    *exit_code = logarithmic ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
    return s;
}

static kvg_status bench(const char *path, const pool_options *o, int *exit_code)
{
    const size_t length = strlen(path);
    const kvg_guest_run run = {.library = path, .pool = o->pool, .seed = o->seed, .operations = o->run.operations};
    cJSON *list = cJSON_CreateArray();
    kvg_status s = kvg_used_files_check((const kvg_used_file[]){{.name = path}, {.name = o->json, .written = true}}, 2);
    if (!s && o->json) s = kvg_whole_file_check(o->json);
    kvg_interrupt_catch();
    *exit_code = KVG_EXIT_PASS;
    if (!s && length > 3 && strcmp(path + length - 3, ".so") == 0) s = kvg_guest_bench(&run, list);
    else if (!s) s = bench_config(path, o, list, exit_code);
    s = kvg_keep_measured(o->json, list, s);
    cJSON_Delete(list);
    return s;
}

/* --- audit --- */

enum { VIOLATIONS_SHOWN = 20 };

typedef struct audit_output {
    const char *log;
    uint64_t seen;
} audit_output;

/* Names of the log may hold anything: control bytes become '?'. */
static void print_line(char *line)
{
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    }
    puts(line);
}

static void print_violation(void *context, const kvg_audit_violation *v)
{
    audit_output *o = context;
    char line[1024], sequence[80] = "", block[40] = "";
    if (o->seen++ >= VIOLATIONS_SHOWN) return;
    if (v->sequence) snprintf(sequence, sizeof sequence, ", sequence %.60s", v->sequence);
    if (v->block != KVG_AUDIT_NO_BLOCK) snprintf(block, sizeof block, ", block %" PRId64, v->block);
    snprintf(line, sizeof line, "%.160s:%" PRIu64 ": %s%s%s: %s: %s%s%s", o->log, v->line, v->event, sequence, block,
             kvg_audit_rules[v->rule].id, kvg_audit_rules[v->rule].sentence, v->text[0] ? "; here " : "", v->text);
    print_line(line);
}

static void print_audit(const audit_output *o, const kvg_audit_totals *t)
{
    if (o->seen > VIOLATIONS_SHOWN) printf("... and %" PRIu64 " more\n", o->seen - VIOLATIONS_SHOWN);
    printf("%s: %" PRIu64 " events", o->log, t->events);
    if (t->blocks) printf(", %" PRIu64 " sequences, a pool of %" PRIu32 " blocks: ", t->sequences, t->blocks);
    else printf(" of hashes: ");
    if (t->violations) printf("%" PRIu64 " violations", t->violations);
    else printf("%s", "all rules held");
    const char *before = " (";
    for (int i = 0; i < KVG_AUDIT_RULES; i++) {
        if (!t->broken[i]) continue;
        printf("%s%s %" PRIu64, before, kvg_audit_rules[i].id, t->broken[i]);
        before = ", ";
    }
    const bool leaks = t->ended || !t->blocks; /* were looked for, or cannot be */
    printf("%s%s\n", t->violations ? ")" : "", leaks ? "" : "; no event `end`, so leaks were not looked for");
}

static kvg_status audit(const char *path, const pool_options *o, int *exit_code)
{
    const bool standard = strcmp(path, "-") == 0;
    audit_output output = {.log = standard ? "(stdin)" : path};
    kvg_audit_totals totals;
    (void)o;
    FILE *in = standard ? stdin : fopen(path, "r");
    if (!in && errno == ENOENT) return kvg_name_fail_file(path, NULL);
    if (!in) return kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    kvg_status s = kvg_audit_log(in, output.log, (kvg_audit_report){print_violation, &output}, &totals);
    if (!standard) fclose(in);
    if (!s && !totals.events) return kvg_fail(KVG_ERR_INVALID, "%s: the log has no event", output.log);
    if (totals.events) print_audit(&output, &totals);
    *exit_code = totals.violations ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
    if (!s || !totals.violations || s != KVG_ERR_INVALID) return s;
    fflush(stdout);
    (void)kvg_command_fail("pool", s); /* a broken rule says more than a torn line */
    return KVG_OK;
}

/* --- check --- */

static kvg_status check(const char *library, const pool_options *o, int *exit_code)
{
    char path[PATH_MAX];
    audit_output output = {.log = path};
    kvg_guest_verdict v;
    kvg_status s = kvg_whole_file_folder(o->folder);
    if (!s && (size_t)snprintf(path, sizeof path, "%s/manager.jsonl", o->folder) >= sizeof path)
        s = kvg_fail(KVG_ERR_INVALID, "%s: the path is too long", o->folder);
    const kvg_guest_run run = {.library = library, .pool = o->pool, .seed = o->seed, .operations = o->run.operations,
                               .bytes = o->bytes.backend ? &o->bytes : NULL};
    if (!s && !run.bytes && o->has_bytes) s = kvg_fail(KVG_ERR_INVALID, "--format and --layout are for --backend");
    if (!s && run.bytes) s = kvg_check_backend_exists(run.bytes->backend);
    if (!s) s = kvg_guest_check(&run, path, (kvg_audit_report){print_violation, &output}, &v);
    if (!s && run.bytes && !v.fails && v.read == 0)
        s = kvg_fail(KVG_ERR_INVALID, "no token was read: give more operations by --ops");
    if (s) return s;
    *exit_code = v.fails ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
    if (!v.fails) {
        printf("PASS: %" PRIu64 " operations on %zu pool%s; %.0f %% of the tokens that sequences began with were found "
               "in the cache", v.operations, v.pools, v.pools == 1 ? "" : "s",
               v.tokens ? 100 * (double)v.found / (double)v.tokens : 0);
        if (run.bytes) printf("; %" PRIu64 " tokens were read, each as it reads by itself", v.read);
        if (v.failures) printf("; %" PRIu64 " takes of memory failed", v.failures);
        printf("\n");
        return KVG_OK;
    }
    if (v.totals.violations) print_audit(&output, &v.totals);
    if (v.result.status) printf("%s: %s\n", path, v.result.text);
    if (v.first.status && v.first.operations > v.run.operations)
        printf("the first run that failed, after %" PRIu64 " operations: %s\n", v.first.operations, v.first.text);
    const uint64_t operations = v.run.operations ? v.run.operations : 1; /* a process can die before the first */
    printf("FAIL: pool %s, %" PRIu64 " operations\nrepeat: kvgold pool check %s --pool %s --seed 0x%" PRIx64 " --ops %"
           PRIu64, v.run.pool, v.run.operations, library, v.run.pool, v.run.seed, operations);
    if (run.bytes)
        printf(" --backend %s --format %s --layout '%s'", o->bytes.backend, o->bytes.format, o->bytes.layout);
    printf("\n");
    return KVG_OK;
}

static const struct action {
    const char *name;
    kvg_status (*run)(const char *path, const pool_options *o, int *exit_code);
} actions[] = {{"run", run_config}, {"replay", replay}, {"bench", bench}, {"audit", audit}, {"check", check}};
enum { ACTION_COUNT = sizeof actions / sizeof actions[0] };

int kvg_command_pool(const kvg_arguments *a)
{
    const char *defect = kvg_given_text(a, KVG_OPTION_POOL_DEFECT, NULL);
    pool_options o = {
        .folder = kvg_given_text(a, KVG_OPTION_POOL_OUTPUT, "kvgold-out"),
        .json = kvg_given_text(a, KVG_OPTION_POOL_JSON, NULL),
        .pool = kvg_given_text(a, KVG_OPTION_POOL_POOL, NULL),
        .bytes = {.open = kvg_check_backend,
                  .backend = kvg_given_text(a, KVG_OPTION_POOL_BACKEND, NULL),
                  .format = kvg_given_text(a, KVG_OPTION_POOL_FORMAT, "nvfp4"),
                  .layout = kvg_given_text(a, KVG_OPTION_POOL_LAYOUT, "hnd")},
        .has_bytes = kvg_given(a, KVG_OPTION_POOL_FORMAT) || kvg_given(a, KVG_OPTION_POOL_LAYOUT),
        .defects = kvg_given(a, KVG_OPTION_POOL_DEFECTS),
        .has_seed = kvg_given(a, KVG_OPTION_POOL_SEED),
        .seed = kvg_given_number(a, KVG_OPTION_POOL_SEED, 0),
        .run = {.backend = kvg_pool_reference(),
                .scenario = kvg_given_text(a, KVG_OPTION_POOL_SCENARIO, NULL),
                .operations = kvg_given_number(a, KVG_OPTION_POOL_OPS, 0),
                .jobs = kvg_given_jobs(a, KVG_OPTION_POOL_JOBS, KVG_CHILDREN_MAX)},
    };
    kvg_status s = defect ? kvg_pool_defect_find(defect, &o.run.defect) : KVG_OK;
    if (s) return kvg_command_fail("pool", kvg_fail_option(s, KVG_OPTION_POOL_DEFECT));
    if (a->file_count != 2) return kvg_command_usage("pool", "give run, replay, bench, audit or check, and one file");
    size_t i;
    int exit_code = KVG_EXIT_FAIL;
    s = kvg_name_find("action", a->files[0], &actions[0].name, sizeof actions[0], ACTION_COUNT, &i);
    if (!s) s = kvg_arguments_check_action(a, a->files[0]);
    if (!s && defect && o.defects) s = kvg_fail(KVG_ERR_INVALID, "give --defect or --defects, not both");
    if (!s) s = actions[i].run(a->files[1], &o, &exit_code);
    return s ? kvg_command_fail("pool", s) : exit_code;
}
