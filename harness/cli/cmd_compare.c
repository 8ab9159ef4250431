#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/pack/compare.h"
#include "harness/pack/compare_print.h"
#include "harness/support/used_files.h"

static const char help_text[] =
    "usage: kvgold compare PACK ANSWER.safetensors [options]\n\n"
    "Judges the tensors that an engine wrote (names, dtypes and shapes: the pack's `answer` lists): storage and\n"
    "expanded values byte by byte, decoded numbers by the pack's bounds. Of a wrong tensor it says where it is wrong,\n"
    "and why: the reference is run again under every known defect that applies, alone and in pairs\n"
    "(docs/guide/compare.md). A case without any of its tensors is SKIP (unanswered).\n\n"
    "      --bits       op decode with a profile: every bit, not only the bound\n"
    "      --case KEY   this case alone, by key or id\n"
    "      --pairs N    most pairs of defects to try for a wrong case (default: 4096; 0: none)\n"
    "      --no-why     no diagnosis\n"
    "      --json FILE  also write a report for machines\n"
    "  -v, --verbose    every tensor, not only those that fail\n";

typedef struct options {
    kvg_compare_options compare;
    const char *json;
    bool verbose;
} options;

static kvg_status read_options(int argc, char **argv, options *o, bool *help_wanted)
{
    enum { BITS = 256, CASE, PAIRS, NO_WHY, JSON };
    static const struct option known[] = {
        {"bits", no_argument, NULL, BITS},         {"case", required_argument, NULL, CASE},
        {"pairs", required_argument, NULL, PAIRS}, {"no-why", no_argument, NULL, NO_WHY},
        {"json", required_argument, NULL, JSON},   {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    kvg_status s = KVG_OK;
    unsigned pairs = 0;
    for (int option; !s && (option = getopt_long(argc, argv, ":vh", known, NULL)) != -1;) {
        switch (option) {
        case BITS: o->compare.bits = true; break;
        case CASE: o->compare.only = optarg; break;
        case PAIRS:
            s = kvg_parse_whole(optarg, 1u << 20, &pairs);
            o->compare.pairs = pairs;
            break;
        case NO_WHY: o->compare.why = false; break;
        case JSON: o->json = optarg; break;
        case 'v': o->verbose = true; break;
        case 'h': *help_wanted = true; break;
        default: s = kvg_option_error("compare", option, argv); break;
        }
        s = kvg_option_value(s, known, option);
    }
    return s;
}

static void warn(void *context, const char *line)
{
    fprintf(context, "kvgold compare: %s\n", line);
}

static int exit_code_of(const kvg_comparison *c)
{
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (kvg_verdict_fails((kvg_verdict)i) && c->counts[i]) return KVG_EXIT_FAIL;
    }
    return c->counts[KVG_VERDICT_PASS] ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
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
    int code = exit_code_of(&c);
    if (!s) kvg_compare_print_totals(&c, stdout);
    if (!s && o->json) s = kvg_compare_write_json(&c, o->json, code);
    kvg_comparison_free(&c);
    kvg_pack_close(pack);
    return s ? kvg_command_fail("compare", s) : code;
}

int kvg_command_compare(int argc, char **argv)
{
    options o = {.compare = {.why = true, .pairs = KVG_DEFAULT_PAIRS}};
    bool help_wanted = false;
    const kvg_status s = read_options(argc, argv, &o, &help_wanted);
    if (help_wanted) {
        fputs(help_text, stdout);
        return KVG_EXIT_PASS;
    }
    if (s) return kvg_command_fail("compare", s);
    if (optind + 2 != argc) return kvg_command_usage("compare", "give a pack and an answer file");
    return compare(argv[optind], argv[optind + 1], &o);
}
