#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/config/config.h"
#include "harness/judge/judge_decode.h"
#include "harness/judge/separation.h"

static const char help_text[] =
    "usage: kvgold lint CONFIG [options]\n\n"
    "Measures the separation of every case of op decode: how far the nearest known-wrong answer that reaches the case\n"
    "is from what a right one may be, in units of its bound. A case that cannot tell them apart is refused, one line\n"
    "each. No implementation under test runs.\n\n"
    "      --case ID     this case alone (ids: kvgold list CONFIG)\n"
    "      --seed 0xHEX  another seed than the config's\n"
    "  -v, --verbose     one line per case, with the defects that do not reach it\n";

typedef struct lint_options {
    const char *only_case;
    bool has_seed, verbose;
    unsigned long long seed;
} lint_options;

typedef struct lint_totals {
    size_t cases, refused, other_ops;
    kvg_separation least; /* of the cases that are not judged by bits */
    const char *least_case;
} lint_totals;

static kvg_status read_options(int argc, char **argv, lint_options *o, bool *help_wanted)
{
    enum { CASE = 256, SEED };
    static const struct option options[] = {
        {"case", required_argument, NULL, CASE}, {"seed", required_argument, NULL, SEED},
        {"verbose", no_argument, NULL, 'v'},     {"help", no_argument, NULL, 'h'},
        {0},
    };
    kvg_status s = KVG_OK;
    for (int option; !s && (option = getopt_long(argc, argv, ":vh", options, NULL)) != -1;) {
        switch (option) {
        case CASE: o->only_case = optarg; break;
        case SEED:
            s = kvg_parse_seed(optarg, &o->seed);
            o->has_seed = true;
            break;
        case 'v': o->verbose = true; break;
        case 'h': *help_wanted = true; break;
        default: s = kvg_option_error("lint", option, argv); break;
        }
        s = kvg_option_value(s, options, option);
    }
    return s;
}

static kvg_status measure(const kvg_case *c, kvg_separation *separation)
{
    kvg_case_data data;
    kvg_decode_truth truth = {0};
    kvg_tensor_set expected = {0};
    kvg_status s = kvg_case_data_make(c, &data);
    if (!s) s = kvg_decode_truth_make(&data, &truth);
    if (!s) s = kvg_set_alloc(&c->problem, data.op->outputs, &expected);
    if (!s) s = kvg_reference_run(&c->problem, data.in.tensors, expected.tensors);
    if (!s) s = kvg_separation_measure(&truth, &expected, separation);
    kvg_set_free(&expected);
    kvg_decode_truth_free(&truth);
    kvg_case_data_free(&data);
    return s;
}

static void print_unreached(const kvg_separation *separation)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    const char *comma = "; not reached: ";
    for (size_t i = 0; i < count; i++) {
        if (!(separation->distance[i] < 0)) continue;
        printf("%s%s", comma, defects[i].id);
        comma = ", ";
    }
}

static void lint_case(const kvg_case *c, const lint_options *o, lint_totals *totals)
{
    kvg_separation separation = {0};
    char text[KVG_SEPARATION_TEXT];
    totals->cases++;
    if (measure(c, &separation)) {
        totals->refused++;
        printf("%s: refused: %s\n", c->id, kvg_error_text());
        return;
    }
    kvg_separation_text(&separation, text, sizeof text);
    if (!separation.nearest) {
        totals->refused++;
        printf("%s: refused: %s: use more tokens, or another fill\n", c->id, text);
    } else if (!kvg_separation_suffices(&separation)) {
        totals->refused++;
        printf("%s: refused: separation %s (%s): that wrong answer passes; use more queries, other lengths, scales or "
               "options\n", c->id, text, separation.nearest->summary);
    } else if (o->verbose) {
        printf("%s: separation %s", c->id, text);
        print_unreached(&separation);
        printf("\n");
    }
    fflush(stdout);
    const bool nearer = !totals->least_case || separation.least < totals->least.least;
    if (separation.nearest && !separation.by_bits && nearer) {
        totals->least = separation;
        totals->least_case = c->id;
    }
}

static int lint(const char *path, const lint_options *o)
{
    kvg_config config;
    lint_totals totals = {0};
    const uint64_t seed = o->seed;
    kvg_status s = kvg_config_open_ops(path, o->has_seed ? &seed : NULL, &config);
    if (s) return kvg_command_fail("lint", s);
    bool found = !o->only_case;
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_case *c = &config.cases[i];
        if (o->only_case && strcmp(o->only_case, c->id) != 0) continue;
        found = true;
        if (c->problem.op == KVG_OP_DECODE) lint_case(c, o, &totals);
        else totals.other_ops++;
    }
    if (found) {
        printf("%zu cases of op decode, %zu refused", totals.cases, totals.refused);
        char text[KVG_SEPARATION_TEXT];
        kvg_separation_text(&totals.least, text, sizeof text);
        if (totals.least_case) printf("; least separation %s, in %s", text, totals.least_case);
        printf("; %zu cases of other ops, whose answers are compared as bytes\n", totals.other_ops);
    } else {
        s = kvg_fail(KVG_ERR_INVALID, "no case '%s' in %s: `kvgold list %s` shows them", o->only_case, path, path);
    }
    kvg_config_close(&config);
    if (s) return kvg_command_fail("lint", s);
    return totals.refused ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
}

int kvg_command_lint(int argc, char **argv)
{
    lint_options o = {0};
    bool help_wanted = false;
    kvg_status s = read_options(argc, argv, &o, &help_wanted);
    if (help_wanted) {
        fputs(help_text, stdout);
        return KVG_EXIT_PASS;
    }
    if (s) return kvg_command_fail("lint", s);
    if (optind + 1 != argc) return kvg_command_usage("lint", "give one config");
    return lint(argv[optind], &o);
}
