#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/name.h"
#include "harness/case/invariance.h"
#include "harness/report/report.h"
#include "harness/report/report_invariance.h"
#include "harness/run/backends.h"
#include "harness/run/run.h"
#include "support/shipped.h"
#include "support/used_files.h"

/* "batch,queries": a set of axes. */
static kvg_status take_axes(const char *text, uint32_t *set)
{
    *set = text ? 0 : KVG_INVARIANCE_ALL;
    while (text && *text) {
        char name[32];
        size_t axis;
        const size_t length = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        kvg_status s = kvg_name_find("axis", name, kvg_invariance_names, sizeof *kvg_invariance_names,
                                     KVG_INVARIANCE_AXES, &axis);
        if (s) return s;
        *set |= 1u << axis;
        text += length + (text[length] == ',');
    }
    return *set ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "--axis names no axis");
}

/* Every decode is asked along these axes, and in no other way. What no claim says is a finding. */
static kvg_status ask_axes(kvg_config *config, uint32_t set)
{
    size_t asked = 0;
    for (size_t i = 0; i < config->case_count; i++) {
        kvg_case *c = &config->cases[i];
        if (c->guest || c->problem.op != KVG_OP_DECODE) continue;
        c->relations = false;
        c->far_blocks = 0;
        c->invariant = c->findings = set;
        asked++;
    }
    return asked ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "%s has no case of op decode", config->path);
}

static kvg_status print_report(const kvg_run_options *run, const kvg_run_summary *summary, uint32_t set, int *exit_code)
{
    char results[PATH_MAX];
    snprintf(results, sizeof results, "%s/results.jsonl", run->out_folder);
    const char *paths[] = {results};
    kvg_report *report;
    kvg_status s = kvg_report_open(paths, &summary->digest, 1, NULL, &report);
    if (s) return s;
    const size_t right = (size_t)summary->counts[KVG_VERDICT_PASS], wrong = (size_t)summary->counts[KVG_VERDICT_FAIL];
    uint64_t counts[KVG_VERDICT_COUNT];
    memcpy(counts, summary->counts, sizeof counts);
    counts[KVG_VERDICT_PASS] += wrong; /* an answer need not be right to have the same bits again */
    counts[KVG_VERDICT_FAIL] = 0;
    *exit_code = kvg_exit_of_verdicts(counts);
    if (!kvg_report_invariance(report, set, stdout) && *exit_code == KVG_EXIT_PASS) *exit_code = KVG_EXIT_FAIL;
    kvg_report_close(report);
    printf("\n%zu of %zu cases answered", right + wrong, summary->cases);
    if (wrong) printf(", %zu of them outside of the config's bound", wrong);
    if (right < summary->cases) printf(": kvgold report %s", results);
    puts("");
    return KVG_OK;
}

int kvg_command_invariance(const kvg_arguments *a)
{
    const char *backend = kvg_given_text(a, KVG_OPTION_INVARIANCE_BACKEND, NULL);
    const kvg_run_options run = {
        .out_folder = kvg_given_text(a, KVG_OPTION_INVARIANCE_OUTPUT, "kvgold-out"),
        .capabilities = kvg_given_text(a, KVG_OPTION_INVARIANCE_CAPABILITIES, NULL),
        .jobs = kvg_given_jobs(a, KVG_OPTION_INVARIANCE_JOBS, KVG_MAX_JOBS),
        .shards = 1,
        .confinement = KVG_CONFINE_NAMESPACES,
    };
    kvg_config config;
    kvg_run_summary summary;
    uint32_t set;
    int exit_code = KVG_EXIT_FAIL;
    if (!backend) return kvg_command_usage("invariance", "name an implementation by --backend");
    if (a->file_count > 1) return kvg_command_usage("invariance", "give at most one config");
    char shipped[PATH_MAX] = "";
    kvg_status s = take_axes(kvg_given_text(a, KVG_OPTION_INVARIANCE_AXIS, NULL), &set);
    if (!s && !a->file_count) s = kvg_shipped_path("configs/invariance.json", shipped, sizeof shipped);
    const char *path = a->file_count ? a->files[0] : shipped;
    const kvg_used_file files[] = {{.name = path}, {.name = run.capabilities}, {run.out_folder, "results.jsonl", true}};
    if (!s) s = kvg_used_files_check(files, sizeof files / sizeof files[0]);
    if (!s) s = kvg_config_open(path, NULL, NULL, &config);
    if (s) return kvg_command_fail("invariance", s);
    s = kvg_config_use_backend(&config, backend);
    if (!s) s = kvg_check_backend_exists(backend);
    if (!s) s = ask_axes(&config, set);
    if (!s) s = kvg_run(&config, &run, &summary);
    kvg_config_close(&config);
    if (!s && summary.interrupted) s = kvg_fail(KVG_ERR_IO, "interrupted");
    if (!s) s = print_report(&run, &summary, set, &exit_code);
    return s ? kvg_command_fail("invariance", s) : exit_code;
}
