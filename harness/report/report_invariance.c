#include "harness/report/report_invariance.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "harness/report/report_data.h"

/* One axis over all cases. */
typedef struct axis_sum {
    uint64_t rows, differ;
    double largest;               /* NAN: none */
    const kvg_report_case *first; /* the case whose rows differ from the fewest keys on; NULL: none */
    const kvg_report_case *unanswered;
    bool fails;                   /* a case failed for it */
    bool doubted;                 /* it differs in a case that failed, for it or for anything else */
} axis_sum;

static axis_sum sum_of(const kvg_report *report, int axis)
{
    axis_sum sum = {.largest = NAN};
    for (size_t i = 0; i < report->case_count; i++) {
        const kvg_report_case *c = &report->cases[i];
        const kvg_variance *v = &c->result.along[axis];
        const kvg_names *broken = &c->result.broken;
        if (!v->measured) continue;
        sum.rows += v->rows;
        sum.differ += v->differ;
        if (v->rows == 0 && !sum.unanswered) sum.unanswered = c;
        if (v->differ && (!sum.first || v->from < sum.first->result.along[axis].from)) sum.first = c;
        if (v->largest > sum.largest || isnan(sum.largest)) sum.largest = v->largest;
        sum.doubted |= v->differ && c->result.verdict == KVG_VERDICT_FAIL;
        if (v->differ && broken->count && strcmp(broken->name[0], v->relation) == 0) sum.fails = true;
    }
    return sum;
}

static void print_line(const axis_sum *sum, int axis, FILE *out)
{
    char from[24] = "-", largest[24] = "-";
    const char *note = sum->fails ? "FAILS: it must hold" : sum->differ ? "varies" : "holds";
    if (sum->first) snprintf(from, sizeof from, "%" PRIu64, sum->first->result.along[axis].from);
    if (!isnan(sum->largest)) snprintf(largest, sizeof largest, "%.2g", sum->largest);
    if (sum->unanswered && *sum->unanswered->result.along[axis].relation) note = "not answered";
    else if (sum->unanswered) note = "not answered: repeat varies";
    else if (sum->rows == 0) note = "not answered: no case asks it";
    fprintf(out, "%-10s  %6" PRIu64 "  %6" PRIu64 "  %9s  %8s  %s\n", kvg_invariance_names[axis], sum->rows,
            sum->differ, from, largest, note);
}

static void explain(const kvg_report_case *c, int axis, FILE *out)
{
    if (!c || !*c->result.along[axis].relation) return;
    fprintf(out, "\n%s: %s\n  in %s\n", kvg_invariance_names[axis], c->result.along[axis].text, c->asked.id);
}

bool kvg_report_invariance(const kvg_report *report, uint32_t set, FILE *out)
{
    bool holds = true;
    axis_sum sums[KVG_INVARIANCE_AXES];
    fprintf(out, "axis          rows  differ  from keys   largest\n");
    for (int axis = 0; axis < KVG_INVARIANCE_AXES; axis++) {
        sums[axis] = sum_of(report, axis);
        if (!(set >> axis & 1)) continue;
        print_line(&sums[axis], axis, out);
        holds &= sums[axis].rows > 0 && !sums[axis].unanswered && !sums[axis].doubted;
    }
    for (int axis = 0; axis < KVG_INVARIANCE_AXES; axis++) {
        if (!(set >> axis & 1)) continue;
        explain(sums[axis].first, axis, out);
        if (sums[axis].unanswered != sums[axis].first) explain(sums[axis].unanswered, axis, out);
    }
    return holds;
}
