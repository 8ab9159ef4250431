#include "cli/cli.h"
#include "harness/report/coverage.h"
#include "model/guest/generate_guest.h"
#include "support/used_files.h"
#include "support/whole_file.h"

/* The ledger may not take the place of a file that it is made from. */
static kvg_status check_files(const kvg_arguments *a, const char *json)
{
    kvg_status s = json ? kvg_whole_file_check(json) : KVG_OK;
    for (int i = 0; i < a->file_count && !s; i++) {
        s = kvg_used_files_check((const kvg_used_file[]){{.name = json, .written = true}, {.name = a->files[i]}}, 2);
    }
    return s;
}

static int print_coverage(const kvg_arguments *a)
{
    const char *json = kvg_given_text(a, KVG_OPTION_COVERAGE_JSON, NULL);
    if (a->file_count == 0) return kvg_command_usage("coverage", "give at least one result file");
    kvg_coverage *coverage = NULL;
    kvg_status s = check_files(a, json);
    if (!s) s = kvg_coverage_open((const char *const *)a->files, (size_t)a->file_count, &kvg_generate_guest, &coverage);
    if (!s) kvg_coverage_print(coverage, stdout);
    if (!s && json) s = kvg_coverage_write(coverage, json);
    kvg_coverage_close(coverage);
    return s ? kvg_command_fail("coverage", s) : KVG_EXIT_PASS;
}

int kvg_command_coverage(const kvg_arguments *a)
{
    return kvg_command_lay_out(print_coverage, a);
}
