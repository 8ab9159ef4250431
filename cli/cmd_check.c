#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "harness/report/report.h"
#include "harness/run/backends.h"
#include "harness/run/capabilities.h"
#include "harness/run/run.h"
#include "model/guest/generate_guest.h"
#include "support/interrupt.h"
#include "support/terminal.h"
#include "support/used_files.h"
#include "support/whole_file.h"

typedef struct check_options {
    const char *junit, *backend;
    bool html, has_seed, secret_seed;
    uint64_t seed;
    kvg_run_options run;
} check_options;

/* The last name of a path, if it is one of a log; else NULL. */
static const char *log_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
    return name && kvg_run_is_log(name) ? name : NULL;
}

static kvg_status check_files(const char *config, const check_options *o)
{
    const char *folder = o->run.out_folder, *library = o->backend && strchr(o->backend, '/') ? o->backend : NULL;
    const kvg_used_file files[] = {
        {.name = config}, {.name = o->run.capabilities}, {.name = library},
        {folder, "results.jsonl", true}, {folder, log_name(config), true}, {folder, log_name(o->junit), true},
        {folder, o->html ? "report.html" : NULL, true}, {.name = o->junit, .written = true},
    };
    return kvg_used_files_check(files, sizeof files / sizeof files[0]);
}

/* What belongs together, and a seed where it is to be drawn. */
static kvg_status complete_options(check_options *o)
{
    kvg_capabilities *capabilities = NULL;
    if (o->run.capabilities && !o->backend) {
        return kvg_fail(KVG_ERR_INVALID, "--capabilities says what one implementation claims: name it by --backend");
    }
    kvg_status s = o->run.capabilities ? kvg_capabilities_open(o->run.capabilities, &capabilities) : KVG_OK;
    kvg_capabilities_close(capabilities);
    if (s || !o->secret_seed) return s;
    if (o->has_seed) return kvg_fail(KVG_ERR_INVALID, "give --seed or --secret-seed, not both");
    if (o->run.shards > 1) {
        return kvg_fail(KVG_ERR_INVALID, "shards need one seed: draw it once, and give it to each by --seed");
    }
    if (getrandom(&o->seed, sizeof o->seed, 0) != (ssize_t)sizeof o->seed) {
        return kvg_fail(KVG_ERR_IO, "the system gives no random seed");
    }
    o->has_seed = true;
    fprintf(stderr, "kvgold check: secret seed 0x%" PRIx64 "\n", o->seed);
    return KVG_OK;
}

/* Of a part of a config, the verdicts alone say how it went: other parts have their cells. A shard may have no case. */
static kvg_status write_reports(const check_options *o, const kvg_run_summary *summary, int *exit_code)
{
    char results[PATH_MAX], page[PATH_MAX], digest[KVG_SHA256_TEXT];
    snprintf(results, sizeof results, "%s/results.jsonl", o->run.out_folder);
    snprintf(page, sizeof page, "%s/report.html", o->run.out_folder);
    const char *paths[] = {results};
    kvg_report *report;
    kvg_status s = kvg_report_open(paths, &summary->digest, 1, &kvg_generate_guest, &report);
    if (s) return s;
    const bool part = o->run.shards > 1 || o->run.only_case;
    *exit_code = part ? kvg_exit_of_verdicts(summary->counts) : kvg_report_exit_code(report);
    if (summary->cases == 0) {
        *exit_code = KVG_EXIT_PASS;
        printf("shard %u of %u has no case: its file says so to kvgold report\n\n", o->run.shard + 1, o->run.shards);
    }
    kvg_report_table(report, stdout, kvg_terminal_width(STDOUT_FILENO), kvg_terminal_has_colour(STDOUT_FILENO));
    if (o->html) s = kvg_report_html(report, page);
    if (!s && o->junit) s = kvg_report_junit(report, o->junit);
    kvg_report_close(report);
    kvg_sha256_text(&summary->digest, digest);
    if (!s) printf("\nresults: %s\nsha256:  %s\n", results, digest);
    if (!s && o->html) printf("report:  %s\n", page);
    return s;
}

static bool falls_back(const kvg_case *c, const check_options *o)
{
    return c->policy.fell_back && kvg_run_selects(&o->run, c);
}

/* One line for each reason: that a cache is not quantised must not wait for the report. */
static void print_fallbacks(const kvg_config *config, const check_options *o)
{
    for (size_t i = 0; i < config->case_count; i++) {
        const kvg_case *c = &config->cases[i];
        bool told = !falls_back(c, o);
        for (size_t j = i; !told && j-- > 0;) {
            const kvg_case *earlier = &config->cases[j];
            told = falls_back(earlier, o) && strcmp(earlier->policy.reason, c->policy.reason) == 0;
        }
        if (told) continue;
        fprintf(stderr, "kvgold check: FELL BACK to %s: %s\n", kvg_mode_name(c->policy.effective), c->policy.reason);
    }
}

/* Before the run: are there the backends that it asks? */
static kvg_status check_backends(const kvg_config *config, const check_options *o)
{
    const char *last = "";
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && i < config->case_count; i++) {
        const kvg_case *c = &config->cases[i];
        if (!kvg_run_selects(&o->run, c) || strcmp(c->backend, last) == 0) continue;
        s = kvg_check_backend_exists(c->backend);
        last = c->backend;
    }
    return s;
}

/* Before the run: can the file be written? It may lie in the folder that the run is about to make. */
static kvg_status check_junit(const check_options *o)
{
    const bool there = access(o->run.out_folder, F_OK) == 0;
    kvg_status s = kvg_whole_file_folder(o->run.out_folder);
    if (!s) s = kvg_whole_file_check(o->junit);
    if (s && !there) rmdir(o->run.out_folder);
    return s;
}

static kvg_status check(const char *path, const check_options *o, int *exit_code, bool *interrupted)
{
    kvg_config config;
    kvg_run_summary summary;
    kvg_status s = kvg_config_open(path, o->has_seed ? &o->seed : NULL, &kvg_generate_guest, &config);
    if (s) return s;
    if (o->backend) s = kvg_config_use_backend(&config, o->backend);
    if (!s) s = check_backends(&config, o);
    if (!s) print_fallbacks(&config, o);
    if (!s && o->junit) s = check_junit(o);
    if (!s) s = kvg_run(&config, &o->run, &summary);
    kvg_config_close(&config);
    if (s) return s;
    *interrupted = summary.interrupted;
    s = write_reports(o, &summary, exit_code);
    if (!s && summary.interrupted) {
        s = kvg_fail(KVG_ERR_IO, "interrupted: %s/results.jsonl holds the cases that had finished", o->run.out_folder);
    }
    return s;
}

/* --- again when a file changes --- */

enum { WATCHED = 3 };

/* What tells that a file has changed; all zero: it is not there. */
typedef struct watched_files {
    char library[KVG_BACKEND_PATH_SIZE];
    const char *paths[WATCHED]; /* the config, the library and the capability file; NULL: there is none */
    struct stat seen[WATCHED];
} watched_files;

static bool has_changed(watched_files *w)
{
    bool changed = false;
    for (size_t i = 0; i < WATCHED; i++) {
        struct stat now = {0};
        if (w->paths[i] && stat(w->paths[i], &now) != 0) now = (struct stat){0};
        changed |= now.st_ino != w->seen[i].st_ino || now.st_size != w->seen[i].st_size ||
                   now.st_mtim.tv_sec != w->seen[i].st_mtim.tv_sec || now.st_mtim.tv_nsec != w->seen[i].st_mtim.tv_nsec;
        w->seen[i] = now;
    }
    return changed;
}

/* A file that a linker or an editor still writes goes on changing: the run begins when it has stood still for a while.
 * false: interrupted. */
static bool wait_for_change(watched_files *w)
{
    const struct timespec moment = {.tv_nsec = 300000000};
    bool changed = false;
    fprintf(stderr, "kvgold check: waiting for a change of %s%s%s (Ctrl-C ends it)\n", w->paths[0],
            w->paths[1] ? ", " : "", w->paths[1] ? w->paths[1] : "");
    while (!kvg_interrupted()) {
        if (has_changed(w)) changed = true;
        else if (changed) return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

static int watch(const char *path, const check_options *o)
{
    watched_files w = {.paths = {path, NULL, o->run.capabilities}};
    int exit_code = KVG_EXIT_FAIL;
    bool interrupted = false;
    if (o->backend && kvg_check_backend_path(o->backend, w.library) == KVG_OK) w.paths[1] = w.library;
    kvg_interrupt_catch();
    do {
        (void)has_changed(&w);
        kvg_status s = check(path, o, &exit_code, &interrupted);
        if (s) exit_code = kvg_command_fail("check", s);
        fflush(stdout);
    } while (!interrupted && wait_for_change(&w));
    return exit_code;
}

int kvg_command_check(const kvg_arguments *a)
{
    const kvg_argument *shard = kvg_given(a, KVG_OPTION_CHECK_SHARD);
    check_options o = {
        .junit = kvg_given_text(a, KVG_OPTION_CHECK_JUNIT, NULL),
        .backend = kvg_given_text(a, KVG_OPTION_CHECK_BACKEND, NULL),
        .html = !kvg_given(a, KVG_OPTION_CHECK_NO_HTML),
        .has_seed = kvg_given(a, KVG_OPTION_CHECK_SEED),
        .secret_seed = kvg_given(a, KVG_OPTION_CHECK_SECRET_SEED),
        .seed = kvg_given_number(a, KVG_OPTION_CHECK_SEED, 0),
        .run = {.out_folder = kvg_given_text(a, KVG_OPTION_CHECK_OUTPUT, "kvgold-out"),
                .only_case = kvg_given_text(a, KVG_OPTION_CHECK_CASE, NULL),
                .after = kvg_given_text(a, KVG_OPTION_CHECK_AFTER, NULL),
                .capabilities = kvg_given_text(a, KVG_OPTION_CHECK_CAPABILITIES, NULL),
                .jobs = kvg_given_jobs(a, KVG_OPTION_CHECK_JOBS, KVG_MAX_JOBS),
                .shard = shard ? (uint32_t)shard->numbers[0] : 0,
                .shards = shard ? (uint32_t)shard->numbers[1] : 1,
                .confinement = kvg_given(a, KVG_OPTION_CHECK_UNCONFINED) ? KVG_CONFINE_NOT : KVG_CONFINE_NAMESPACES},
    };
    if (a->file_count != 1) return kvg_command_usage("check", "give one config");
    if (o.run.after && (!o.run.only_case || o.run.shards > 1)) {
        return kvg_command_usage("check", "--after goes with --case, and without --shard");
    }
    if (o.run.after) o.run.jobs = 1;
    kvg_status s = check_files(a->files[0], &o);
    if (!s) s = complete_options(&o);
    if (s) return kvg_command_fail("check", s);
    if (kvg_given(a, KVG_OPTION_CHECK_WATCH)) return watch(a->files[0], &o);
    int exit_code = KVG_EXIT_FAIL;
    bool interrupted;
    s = check(a->files[0], &o, &exit_code, &interrupted);
    return s ? kvg_command_fail("check", s) : exit_code;
}
