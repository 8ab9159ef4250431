#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "harness/config/config.h"
#include "harness/trial/judge/known_wrong.h"
#include "harness/trial/question/fill.h"

typedef struct lint_options {
    const char *only_case;
    bool has_seed, verbose;
    uint64_t seed;
} lint_options;

typedef struct lint_totals {
    size_t cases, refused, other_ops;
    kvg_separation least; /* of the cases that are not judged by bits */
    const char *least_case;
} lint_totals;

/* Of the first draw that tells right from wrong, as `kvgold check` draws, or of the last one. */
static kvg_status measure(const kvg_case *c, kvg_known_wrong *known)
{
    kvg_status s = KVG_OK;
    bool suffices = false;
    for (uint64_t draw = 0; draw <= KVG_REDRAWS && !s && !suffices; draw++) {
        kvg_question question;
        kvg_truth truth = {0};
        const kvg_case drawn = kvg_fill_draw(c, draw);
        s = kvg_question_make(&drawn, &question);
        if (!s) s = kvg_know(&question, &truth);
        if (!s) s = kvg_known_wrong_try(&truth, NULL, false, known);
        suffices = !s && kvg_separation_suffices(&known->separation);
        kvg_truth_free(&truth);
        kvg_question_free(&question);
    }
    return s;
}

static void print_unreached(const kvg_known_wrong *known)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    const char *comma = "; not reached: ";
    for (size_t i = 0; i < count; i++) {
        if (!(known->distance[i] < 0)) continue;
        printf("%s%s", comma, defects[i].id);
        comma = ", ";
    }
}

static void lint_case(const kvg_case *c, const lint_options *o, lint_totals *totals)
{
    kvg_known_wrong known = {0};
    const kvg_separation *separation = &known.separation;
    char text[KVG_SEPARATION_TEXT];
    totals->cases++;
    if (measure(c, &known)) {
        totals->refused++;
        printf("%s: refused: %s\n", c->id, kvg_error_text());
        return;
    }
    kvg_separation_text(separation, text, sizeof text);
    if (!separation->nearest) {
        totals->refused++;
        printf("%s: refused: %s: use more tokens, or another fill\n", c->id, text);
    } else if (!kvg_separation_suffices(separation)) {
        totals->refused++;
        printf("%s: refused: separation %s (%s): that wrong answer passes; use more queries, other lengths, scales or "
               "options\n", c->id, text, separation->nearest->summary);
    } else if (o->verbose) {
        printf("%s: separation %s", c->id, text);
        print_unreached(&known);
        printf("\n");
    }
    fflush(stdout);
    const bool nearer = !totals->least_case || separation->least < totals->least.least;
    if (separation->nearest && !separation->by_bits && nearer) {
        totals->least = *separation;
        totals->least_case = c->id;
    }
}

static int lint(const char *path, const lint_options *o)
{
    kvg_config config;
    lint_totals totals = {0};
    kvg_status s = kvg_config_open(path, o->has_seed ? &o->seed : NULL, NULL, &config);
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

int kvg_command_lint(const kvg_arguments *a)
{
    const lint_options o = {
        .only_case = kvg_given_text(a, KVG_OPTION_LINT_CASE, NULL),
        .has_seed = kvg_given(a, KVG_OPTION_LINT_SEED),
        .verbose = kvg_given(a, KVG_OPTION_LINT_VERBOSE),
        .seed = kvg_given_number(a, KVG_OPTION_LINT_SEED, 0),
    };
    if (a->file_count != 1) return kvg_command_usage("lint", "give one config");
    return lint(a->files[0], &o);
}
