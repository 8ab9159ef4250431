#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "harness/pack/compare.h"
#include "harness/pack/compare_print.h"
#include "support/used_files.h"

typedef struct options {
    kvg_compare_options compare;
    const char *json;
    bool verbose;
} options;

static void warn(void *context, const char *line)
{
    fprintf(context, "kvgold compare: %s\n", line);
}

/* The report may replace neither the answer nor a file of the pack. */
static kvg_status check_report(const char *pack, const char *answer, const char *report)
{
    kvg_used_file files[KVG_PACK_FILES + 2] = {{.name = report, .written = true}, {.name = answer}};
    for (int i = 0; i < KVG_PACK_FILES; i++) {
        files[i + 2] = (kvg_used_file){.folder = pack, .name = kvg_pack_file_names[i]};
    }
    return kvg_used_files_check(files, KVG_PACK_FILES + 2);
}

static int compare(const char *pack_path, const char *answer, const options *o)
{
    kvg_pack *pack = NULL;
    kvg_comparison c = {0};
    kvg_status s = check_report(pack_path, answer, o->json);
    if (!s) s = kvg_pack_open(pack_path, &pack);
    if (!s) {
        const kvg_pack_case *only = NULL;
        if (o->compare.only) s = kvg_pack_find(pack, o->compare.only, &only);
        if (!s) kvg_pack_warnings(pack, only ? only->key : NULL, warn, stderr);
    }
    kvg_compare_printer printer = {stdout, o->verbose};
    if (!s) s = kvg_compare(pack, answer, &o->compare, kvg_compare_print_case, &printer, &c);
    int code = kvg_exit_of_verdicts(c.counts);
    if (!s) kvg_compare_print_totals(&c, stdout);
    if (!s && o->json) s = kvg_compare_write_json(&c, o->json, code);
    kvg_comparison_free(&c);
    kvg_pack_close(pack);
    return s ? kvg_command_fail("compare", s) : code;
}

int kvg_command_compare(const kvg_arguments *a)
{
    const bool limited = kvg_given(a, KVG_OPTION_COMPARE_WHY_SECONDS);
    const options o = {
        .compare = {.bits = kvg_given(a, KVG_OPTION_COMPARE_BITS),
                    .why = !kvg_given(a, KVG_OPTION_COMPARE_NO_WHY),
                    .only = kvg_given_text(a, KVG_OPTION_COMPARE_CASE, NULL),
                    .pairs = limited ? SIZE_MAX : KVG_DEFAULT_PAIRS,
                    .seconds = (double)kvg_given_number(a, KVG_OPTION_COMPARE_WHY_SECONDS, KVG_DEFAULT_WHY_SECONDS)},
        .json = kvg_given_text(a, KVG_OPTION_COMPARE_JSON, NULL),
        .verbose = kvg_given(a, KVG_OPTION_COMPARE_VERBOSE),
    };
    if (a->file_count != 2) return kvg_command_usage("compare", "give a pack and an answer file");
    return compare(a->files[0], a->files[1], &o);
}
