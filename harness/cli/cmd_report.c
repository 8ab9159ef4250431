#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "harness/cli/cli.h"
#include "harness/report/report.h"
#include "harness/support/used_files.h"

static const char help_text[] =
    "usage: kvgold report RESULTS.jsonl... [options]\n\n"
    "Merges the result files of a run's shards (all of them), prints the table and writes DIR/report.html and\n"
    "DIR/results.jsonl. A missing shard or an unfinished case fails.\n\n"
    "  -o, --output DIR   folder for the merged results, made if missing (default: print the table only)\n"
    "      --junit FILE   also write JUnit XML\n";

/* A single file may be merged into its own place: it stays what it is. Of several, one would be all of them. */
static kvg_status check_files(char **results, int count, const char *folder, const char *junit)
{
    kvg_used_file files[] = {
        {folder, folder ? "results.jsonl" : NULL, true}, {folder, folder ? "report.html" : NULL, true},
        {.name = junit, .written = true}, {0},
    };
    kvg_status s = kvg_used_files_check(files, 3);
    if (count == 1) files[0].name = NULL;
    for (int i = 0; i < count && !s; i++) {
        files[3].name = results[i];
        s = kvg_used_files_check(files, 4);
    }
    return s;
}

static kvg_status write_files(const kvg_report *report, const char *folder, const char *junit)
{
    char page[PATH_MAX], results[PATH_MAX];
    kvg_status s = KVG_OK;
    if (folder) {
        mkdir(folder, 0777); /* if this fails, the writes below say so */
        snprintf(page, sizeof page, "%s/report.html", folder);
        snprintf(results, sizeof results, "%s/results.jsonl", folder);
        s = kvg_report_merge(report, results);
        if (!s) s = kvg_report_html(report, page);
        if (!s) printf("\nresults: %s\nreport:  %s\n", results, page);
    }
    if (!s && junit) s = kvg_report_junit(report, junit);
    return s;
}

int kvg_command_report(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"junit", required_argument, NULL, 'J'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *folder = NULL, *junit = NULL;
    for (int option; (option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1;) {
        switch (option) {
        case 'o': folder = optarg; break;
        case 'J': junit = optarg; break;
        case 'h': fputs(help_text, stdout); return KVG_EXIT_PASS;
        default: return kvg_command_fail("report", kvg_option_error("report", option, argv));
        }
    }
    if (optind >= argc) return kvg_command_usage("report", "give at least one result file");
    kvg_report *report;
    kvg_status s = check_files(argv + optind, argc - optind, folder, junit);
    if (!s) s = kvg_report_open((const char *const *)argv + optind, (size_t)(argc - optind), &report);
    if (s) return kvg_command_fail("report", s);
    kvg_report_table(report, stdout, 0);
    const int exit_code = kvg_report_exit_code(report);
    s = write_files(report, folder, junit);
    kvg_report_close(report);
    return s ? kvg_command_fail("report", s) : exit_code;
}
