#define _DEFAULT_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/report/report.h"
#include "harness/run/capabilities.h"
#include "harness/run/run.h"
#include "harness/support/used_files.h"
#include "harness/support/whole_file.h"

static const char help_text[] =
    "usage: kvgold check CONFIG [options]\n\n"
    "Runs every case of the config in child processes, judges each against the golden reference, and prints a table.\n"
    "Results stream to DIR/results.jsonl; DIR/report.html is one self-contained page.\n\n"
    "  -o, --output DIR     folder for results, made if missing (default: kvgold-out)\n"
    "      --backend NAME   judge this implementation instead of the config's: reference, defect:<id>, a plug-in's "
    "name\n"
    "                       or the path of a shared library\n"
    "      --case ID        run this case alone (ids: kvgold list CONFIG)\n"
    "      --capabilities FILE  what that implementation claims to do; cases that it does not claim are skipped\n"
    "                       (default: libx.json beside libx.so)\n"
    "      --seed 0xHEX     another seed than the config's\n"
    "      --secret-seed    one that is drawn now: nobody can have prepared answers. The repro lines hold it\n"
    "      --shard I/N      run the I-th of N shares; merge with `kvgold report`\n"
    "  -j, --jobs N         child processes at a time (default: one per core)\n"
    "      --junit FILE     also write JUnit XML\n"
    "      --no-html        skip the HTML page\n";

typedef struct check_options {
    const char *junit, *backend;
    bool html, has_seed, secret_seed;
    uint64_t seed;
    kvg_run_options run;
} check_options;

static unsigned terminal_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col : 0;
}

/* KVG_OK, or an error text for kvg_command_fail; *help_wanted if --help was given. */
static kvg_status read_options(int argc, char **argv, check_options *o, bool *help_wanted)
{
    enum { JUNIT = 256, BACKEND, CASE, SEED, SHARD, NO_HTML, CAPABILITIES, SECRET_SEED };
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"jobs", required_argument, NULL, 'j'},
        {"junit", required_argument, NULL, JUNIT}, {"backend", required_argument, NULL, BACKEND},
        {"case", required_argument, NULL, CASE},   {"seed", required_argument, NULL, SEED},
        {"shard", required_argument, NULL, SHARD}, {"no-html", no_argument, NULL, NO_HTML},
        {"capabilities", required_argument, NULL, CAPABILITIES},
        {"secret-seed", no_argument, NULL, SECRET_SEED},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    kvg_status s = KVG_OK;
    unsigned long long seed;
    for (int option; !s && (option = getopt_long(argc, argv, ":o:j:h", options, NULL)) != -1;) {
        switch (option) {
        case 'o': o->run.out_folder = optarg; break;
        case 'j': s = kvg_parse_count(optarg, KVG_MAX_JOBS, &o->run.jobs); break;
        case JUNIT: o->junit = optarg; break;
        case BACKEND: o->backend = optarg; break;
        case CASE: o->run.only_case = optarg; break;
        case SEED:
            s = kvg_parse_seed(optarg, &seed);
            o->has_seed = true;
            o->seed = seed;
            break;
        case SHARD: s = kvg_parse_shard(optarg, &o->run.shard, &o->run.shards); break;
        case NO_HTML: o->html = false; break;
        case CAPABILITIES: o->run.capabilities = optarg; break;
        case SECRET_SEED: o->secret_seed = true; break;
        case 'h': *help_wanted = true; break;
        default: s = kvg_option_error("check", option, argv); break;
        }
        s = kvg_option_value(s, options, option);
    }
    return s;
}

static kvg_status check_files(const char *config, const check_options *o)
{
    const char *folder = o->run.out_folder, *library = o->backend && strchr(o->backend, '/') ? o->backend : NULL;
    const kvg_used_file files[] = {
        {.name = config}, {.name = o->run.capabilities}, {.name = library},
        {folder, "results.jsonl", true}, {folder, "candidate.log", true},
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

/* Of this process's share alone: what other shards did is `kvgold report`'s to say. */
static int exit_code_of(const kvg_run_summary *summary)
{
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (kvg_verdict_fails((kvg_verdict)i) && summary->counts[i]) return KVG_EXIT_FAIL;
    }
    return summary->counts[KVG_VERDICT_PASS] ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
}

static kvg_status write_reports(const check_options *o)
{
    char results[PATH_MAX], page[PATH_MAX];
    snprintf(results, sizeof results, "%s/results.jsonl", o->run.out_folder);
    snprintf(page, sizeof page, "%s/report.html", o->run.out_folder);
    const char *paths[] = {results};
    kvg_report *report;
    kvg_status s = kvg_report_open(paths, 1, &report);
    if (s) return s;
    kvg_report_table(report, stdout, terminal_width());
    if (o->html) s = kvg_report_html(report, page);
    if (!s && o->junit) s = kvg_report_junit(report, o->junit);
    kvg_report_close(report);
    if (!s) printf("\nresults: %s%s%s\n", results, o->html ? "\nreport:  " : "", o->html ? page : "");
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

/* Before the run: can the file be written? It may lie in the folder that the run is about to make. */
static kvg_status check_junit(const check_options *o)
{
    const bool made = mkdir(o->run.out_folder, 0777) == 0;
    kvg_status s = kvg_whole_file_check(o->junit);
    if (s && made) rmdir(o->run.out_folder);
    return s;
}

static kvg_status check(const char *path, const check_options *o, int *exit_code)
{
    kvg_config config;
    kvg_run_summary summary;
    kvg_status s = kvg_config_open(path, o->has_seed ? &o->seed : NULL, &config);
    if (s) return s;
    if (o->backend) s = kvg_config_use_backend(&config, o->backend);
    if (!s) print_fallbacks(&config, o);
    if (!s && o->junit) s = check_junit(o);
    if (!s) s = kvg_run(&config, &o->run, &summary);
    kvg_config_close(&config);
    if (s) return s;
    *exit_code = exit_code_of(&summary);
    s = write_reports(o);
    if (!s && summary.interrupted) {
        s = kvg_fail(KVG_ERR_IO, "interrupted: %s/results.jsonl holds the cases that had finished", o->run.out_folder);
    }
    return s;
}

int kvg_command_check(int argc, char **argv)
{
    check_options o = {
        .html = true,
        .run = {.out_folder = "kvgold-out", .shards = 1, .progress = isatty(STDERR_FILENO) != 0},
    };
    bool help_wanted = false;
    kvg_status s = read_options(argc, argv, &o, &help_wanted);
    if (help_wanted) {
        fputs(help_text, stdout);
        return KVG_EXIT_PASS;
    }
    if (s) return kvg_command_fail("check", s);
    if (optind + 1 != argc) return kvg_command_usage("check", "give one config");
    if (o.run.jobs == 0) {
        const long cores = sysconf(_SC_NPROCESSORS_ONLN);
        o.run.jobs = cores < 1 ? 1 : cores > KVG_MAX_JOBS ? KVG_MAX_JOBS : (unsigned)cores;
    }
    s = check_files(argv[optind], &o);
    if (!s) s = complete_options(&o);
    if (s) return kvg_command_fail("check", s);
    int exit_code = KVG_EXIT_FAIL;
    s = check(argv[optind], &o, &exit_code);
    return s ? kvg_command_fail("check", s) : exit_code;
}
