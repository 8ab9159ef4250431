#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "harness/config/config.h"
#include "harness/trial/judge/known_wrong.h"
#include "harness/trial/question/fill.h"
#include "support/clock.h"
#include "support/progress.h"

typedef struct lint_options {
    const char *only_case;
    bool has_seed, verbose;
    uint64_t seed;
} lint_options;

/* Of each known-wrong answer, the most that a case made of it. */
typedef enum catch { NOWHERE, APPLIES, CAUGHT } catch;

typedef struct lint_totals {
    size_t cases, refused;
    kvg_separation least; /* of the cases that are judged by distance, and not by bits */
    const char *least_case;
    catch defects[KVG_MAX_DEFECTS];
} lint_totals;

/* Of the first draw that tells right from wrong, as `kvgold check` draws, or of the last one. */
static kvg_status measure(const kvg_case *c, kvg_known_wrong *known, char doubt[KVG_DOUBT_TEXT])
{
    kvg_status s = KVG_OK;
    bool tells = false;
    const kvg_defect *doubted = NULL;
    for (uint64_t draw = 0; draw <= KVG_REDRAWS && !s && !tells; draw++) {
        kvg_question question;
        kvg_truth truth = {0};
        const kvg_case drawn = kvg_fill_draw(c, draw);
        s = kvg_question_make(&drawn, &question);
        if (!s) s = kvg_know(&question, &truth);
        if (!s) s = kvg_known_wrong_try(&truth, NULL, KVG_OFFER_ALL, draw < KVG_REDRAWS ? &doubted : NULL, known);
        tells = !s && kvg_known_wrong_tells(known, doubt);
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
        if (known->outcome[i] != KVG_CONTROL_UNREACHED) continue;
        printf("%s%s", comma, defects[i].id);
        comma = ", ";
    }
}

/* `s`: of `measure`, in this thread. */
static void report_case(const kvg_case *c, const lint_options *o, kvg_status s, const kvg_known_wrong *known,
                        const char *doubt, lint_totals *totals)
{
    const kvg_separation *separation = &known->separation;
    char text[KVG_SEPARATION_TEXT] = "compared as bytes";
    kvg_progress_pause();
    totals->cases++;
    if (s || *doubt) {
        totals->refused++;
        printf("%s: refused: %s\n", c->id, s ? kvg_error_text() : doubt);
    } else if (o->verbose) {
        if (separation->nearest) kvg_separation_text(separation, text, sizeof text);
        printf("%s: %s%s", c->id, separation->nearest ? "separation " : "", text);
        print_unreached(known);
        printf("\n");
    }
    fflush(stdout);
    for (size_t i = 0; i < KVG_MAX_DEFECTS; i++) {
        if (known->outcome[i] != KVG_CONTROL_ABSENT && !totals->defects[i]) totals->defects[i] = APPLIES;
        if (kvg_control_rejects(known->outcome[i])) totals->defects[i] = CAUGHT;
    }
    const bool nearer = !totals->least_case || separation->least < totals->least.least;
    if (separation->nearest && !separation->by_bits && nearer) {
        totals->least = *separation;
        totals->least_case = c->id;
    }
}

/* Cases side by side, told in their order. Threads that share the small loops of one case wait for each other most of
 * the time, and on a busy machine nearly all of it. */
static void lint_cases(const kvg_case *cases, size_t count, const lint_options *o, lint_totals *totals)
{
    kvg_progress_at(0, 0, cases[0].id, kvg_clock_seconds());
#pragma omp parallel for ordered schedule(dynamic) if (count > 1)
    for (size_t i = 0; i < count; i++) {
        kvg_known_wrong known = {0};
        char doubt[KVG_DOUBT_TEXT] = "";
        const kvg_status s = measure(&cases[i], &known, doubt);
#pragma omp ordered
        {
            report_case(&cases[i], o, s, &known, doubt, totals);
            if (i + 1 < count) kvg_progress_at(totals->cases, totals->refused, cases[i + 1].id, kvg_clock_seconds());
        }
    }
}

/* The defects that some case catches, and by name those that none does. */
static void print_catches(const lint_totals *totals)
{
    static const char *const words[] = {"applying to no case",
                                        "applying to some, caught by none (an engine with one of them passes)"};
    size_t count, caught = 0;
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t i = 0; i < count; i++) caught += totals->defects[i] == CAUGHT;
    printf("%zu of %zu defects are caught\n", caught, count);
    for (catch state = NOWHERE; state < CAUGHT; state++) {
        const char *comma = ": ";
        for (size_t i = 0; i < count; i++) {
            if (totals->defects[i] != state) continue;
            printf("%s%s%s", *comma == ':' ? words[state] : "", comma, defects[i].id);
            comma = ", ";
        }
        if (*comma == ',') printf("\n");
    }
}

typedef struct lint_covered {
    size_t groups, missing; /* tuples of all groups */
} lint_covered;

static void print_cover(const kvg_cover *cover, void *covered)
{
    lint_covered *const sums = covered;
    const size_t possible = cover->covered + cover->missing;
    printf("cases[%zu]: %zu rows cover %zu of %zu tuples of %u values; %zu more need more work than \"most_work\"\n",
           cover->group, cover->rows, cover->covered, possible, cover->strength, cover->dearer);
    if (cover->missing) printf("no row has %s%s\n", cover->text.text, cover->missing > KVG_COVER_TOLD ? "; ..." : "");
    sums->groups++;
    sums->missing += cover->missing;
    fflush(stdout);
}

static int lint_covers(const char *path)
{
    kvg_config config;
    lint_covered sums = {0};
    kvg_status s = kvg_config_open(path, NULL, NULL, &config);
    if (s) return kvg_command_fail("lint", s);
    s = kvg_config_cover(&config, print_cover, &sums);
    if (!s && sums.groups == 0) s = kvg_fail(KVG_ERR_INVALID, "no group of %s has \"covers\"", path);
    kvg_config_close(&config);
    if (s) return kvg_command_fail("lint", s);
    return sums.missing ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
}

static int lint(const char *path, const lint_options *o)
{
    kvg_config config;
    const kvg_case *cases;
    lint_totals totals = {0};
    kvg_status s = kvg_config_open(path, o->has_seed ? &o->seed : NULL, NULL, &config);
    if (s) return kvg_command_fail("lint", s);
    cases = config.cases;
    if (o->only_case) s = kvg_config_find(&config, o->only_case, &cases);
    const size_t count = o->only_case ? 1 : config.case_count;
    kvg_progress_begin("lint", count, "cases");
    if (!s) lint_cases(cases, count, o, &totals);
    kvg_progress_end();
    if (!s) {
        char text[KVG_SEPARATION_TEXT];
        printf("%zu cases, %zu refused", totals.cases, totals.refused);
        kvg_separation_text(&totals.least, text, sizeof text);
        if (totals.least_case) printf("; least separation %s, in %s", text, totals.least_case);
        printf("\n");
        print_catches(&totals);
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
    if (kvg_given(a, KVG_OPTION_LINT_COVERS) && (o.only_case || o.has_seed || o.verbose)) {
        return kvg_command_usage("lint", "--covers counts rows of a config: it takes no --case, --seed or --verbose");
    }
    return kvg_given(a, KVG_OPTION_LINT_COVERS) ? lint_covers(a->files[0]) : lint(a->files[0], &o);
}
