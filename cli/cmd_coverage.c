#include "cli/cli.h"
#include "harness/report/coverage.h"
#include "model/guest/generate_guest.h"
#include "support/used_files.h"
#include "support/whole_file.h"

/* The ledger may not take the place of a file that it is made from. */
static kvg_status check_files(const kvg_arguments *a, const char *json, const char *html)
{
    kvg_status s = json ? kvg_whole_file_check(json) : KVG_OK;
    if (!s && html) s = kvg_whole_file_check(html);
    for (int i = 0; i < a->file_count && !s; i++) {
        const kvg_used_file used[] = {{.name = json, .written = true}, {.name = html, .written = true},
                                      {.name = a->files[i]}};
        s = kvg_used_files_check(used, sizeof used / sizeof used[0]);
    }
    return s;
}

static int print_coverage(const kvg_arguments *a)
{
    const char *json = kvg_given_text(a, KVG_OPTION_COVERAGE_JSON, NULL);
    const char *html = kvg_given_text(a, KVG_OPTION_COVERAGE_HTML, NULL);
    if (a->file_count == 0) return kvg_command_usage("coverage", "give at least one result file");
    kvg_coverage *coverage = NULL;
    kvg_status s = check_files(a, json, html);
    if (!s) s = kvg_coverage_open((const char *const *)a->files, (size_t)a->file_count, &kvg_generate_guest, &coverage);
    if (!s) kvg_coverage_print(coverage, stdout);
    if (!s && json) s = kvg_coverage_write(coverage, json);
    if (!s && html) s = kvg_coverage_html(coverage, html);
    kvg_coverage_close(coverage);
    return s ? kvg_command_fail("coverage", s) : KVG_EXIT_PASS;
}

int kvg_command_coverage(const kvg_arguments *a)
{
    return kvg_command_lay_out(print_coverage, a);
}
