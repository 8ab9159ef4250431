#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "harness/report/report.h"
#include "model/guest/generate_guest.h"
#include "support/terminal.h"
#include "support/used_files.h"
#include "support/whole_file.h"

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
        s = kvg_whole_file_folder(folder);
        snprintf(page, sizeof page, "%s/report.html", folder);
        snprintf(results, sizeof results, "%s/results.jsonl", folder);
        if (!s) s = kvg_report_merge(report, results);
        if (!s) s = kvg_report_html(report, page);
        if (!s) printf("\nresults: %s\nreport:  %s\n", results, page);
    }
    if (!s && junit) s = kvg_report_junit(report, junit);
    return s;
}

/* What --sha256 gives: as many as there are files, or *out is NULL. */
static kvg_status take_digests(const kvg_arguments *a, kvg_sha256_digest **out)
{
    size_t count = 0;
    *out = NULL;
    if (!kvg_given(a, KVG_OPTION_REPORT_SHA256)) return KVG_OK;
    kvg_sha256_digest *digests = malloc(a->option_count * sizeof *digests);
    if (!digests) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu digests", a->option_count);
    *out = digests;
    for (size_t i = 0; i < a->option_count; i++) {
        const char *text = a->options[i].text;
        if (a->options[i].id != KVG_OPTION_REPORT_SHA256) continue;
        if (!kvg_sha256_parse(text, strlen(text), &digests[count++])) {
            return kvg_fail(KVG_ERR_INVALID, "--sha256 '%s' is not 64 lower-case hex digits", text);
        }
    }
    if (count == (size_t)a->file_count) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%zu --sha256 for %d files: give one for each file, in their order", count,
                    a->file_count);
}

int kvg_command_report(const kvg_arguments *a)
{
    const char *folder = kvg_given_text(a, KVG_OPTION_REPORT_OUTPUT, NULL);
    const char *junit = kvg_given_text(a, KVG_OPTION_REPORT_JUNIT, NULL);
    if (a->file_count == 0) return kvg_command_usage("report", "give at least one result file");
    kvg_report *report;
    kvg_sha256_digest *digests = NULL;
    kvg_status s = check_files(a->files, a->file_count, folder, junit);
    if (!s) s = take_digests(a, &digests);
    if (!s) s = kvg_report_open((const char *const *)a->files, digests, (size_t)a->file_count, &kvg_generate_guest,
                                &report);
    free(digests);
    if (s) return kvg_command_fail("report", s);
    kvg_report_table(report, stdout, kvg_terminal_width(STDOUT_FILENO), kvg_terminal_has_colour(STDOUT_FILENO));
    const int exit_code = kvg_report_exit_code(report);
    s = write_files(report, folder, junit);
    kvg_report_close(report);
    return s ? kvg_command_fail("report", s) : exit_code;
}
