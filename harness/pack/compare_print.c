#include "harness/pack/compare_print.h"

#include <inttypes.h>
#include <math.h>

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

/* --- tensors --- */

static void print_tensor(const kvg_compared_tensor *t, bool verbose, FILE *to)
{
    const bool failed = t->verdict != KVG_VERDICT_PASS;
    if (!failed && !verbose) return;
    fprintf(to, "      %-14s %s", t->asked->short_name, kvg_verdict_name(t->verdict));
    if (failed) fprintf(to, " %s", t->reason);
    else if (!isnan(t->worst_ratio))
        fprintf(to, " %" PRIu64 " numbers, worst %.3g of their bounds", t->all, t->worst_ratio);
    else if (t->asked->compare == KVG_PACK_RULE) fprintf(to, " %" PRIu64 " rows by the value rule", t->all);
    else fprintf(to, " %" PRIu64 " bytes", t->all);
    if (t->steps) fprintf(to, ", %" PRIu64 " bytes one step from the reference's", t->steps);
    if (t->unpromised) fprintf(to, ", %" PRIu64 " without a bound", t->unpromised);
    fprintf(to, "\n");
    if (t->where.wrong == 0) return;
    if (t->where.extent[0]) fprintf(to, "      %-14s where: %s\n", "", t->where.extent);
    if (t->where.pattern[0]) fprintf(to, "      %-14s what: %s\n", "", t->where.pattern);
    fprintf(to, "      %-14s first: %s\n", "", t->where.at);
}

/* --- why --- */

/* Others that give the same answer to this case: nobody could tell which it is. */
static void print_ties(const kvg_diagnosis *d, FILE *to)
{
    char name[KVG_EXPLANATION_NAME];
    const char *before = "      also: ";
    for (size_t i = 1; i < d->count && d->explanations[i].exact; i++) {
        if (d->explanations[i].count != d->explanations[0].count) break;
        kvg_explanation_name(&d->explanations[i], name, sizeof name);
        fprintf(to, "%s%s", before, name);
        before = ", ";
    }
    if (before[0] == ',') fprintf(to, ": this case cannot tell %s apart\n", d->count > 2 ? "them" : "the two");
}

/* What was searched in vain. */
static void print_search(const kvg_diagnosis *d, FILE *to)
{
    char time[40] = "";
    if (d->pairs == d->all_pairs) {
        fprintf(to, "      why: no known defect explains all of it (%zu tried, %zu pairs)\n", d->tried, d->pairs);
        return;
    }
    if (d->seconds > 0) snprintf(time, sizeof time, " in %.3g s", d->seconds);
    fprintf(to, "      why: nothing found explains all of it: searched %zu defects and %zu of %zu pairs%s; "
            "--why-seconds 0 searches all\n", d->tried, d->pairs, d->all_pairs, time);
}

static void print_why(const kvg_compared_case *c, FILE *to)
{
    enum { PARTIAL = 3 };
    const kvg_diagnosis *d = &c->diagnosis;
    const bool numbers = c->tensor_count && c->tensors[0].asked->compare == KVG_PACK_BOUND;
    if (c->no_diagnosis[0]) fprintf(to, "      why: not diagnosed: %s\n", c->no_diagnosis);
    if (!c->diagnosed || d->wrong_bits == 0) return;
    const bool exact = d->count && d->explanations[0].exact;
    for (size_t i = 0; i < d->count && i < (exact ? 1 : PARTIAL); i++) {
        char name[KVG_EXPLANATION_NAME], text[512];
        const kvg_explanation *e = &d->explanations[i];
        kvg_explanation_name(e, name, sizeof name);
        kvg_explanation_text(e, text, sizeof text);
        fprintf(to, "      why: %s %s", !exact ? "partly" : e->same_bits ? "equals" : "near", name);
        fprintf(to, ": %.4g %% of the wrong %s, %.4g %% of all", percent(e->explained, d->wrong_bits),
                numbers ? "numbers" : "bits", percent(e->agreeing, d->all_bits));
        if (e->introduced) fprintf(to, "; it would also change %" PRIu64 " right ones", e->introduced);
        fprintf(to, "\n           %s\n", text);
    }
    if (exact) print_ties(d, to);
    else print_search(d, to);
}

/* --- cases and totals --- */

void kvg_compare_print_case(void *context, const kvg_compared_case *c)
{
    const kvg_compare_printer *p = context;
    if (c->verdict == KVG_VERDICT_SKIP && !p->verbose) return; /* unanswered: the totals count it */
    fprintf(p->to, "%-5s %s %s%s%s%s\n", kvg_verdict_name(c->verdict), c->from->key, c->from->id,
            c->reason[0] ? ": " : "", c->reason, c->from->has_erratum ? " (an erratum names this case)" : "");
    for (size_t i = 0; i < c->tensor_count; i++) print_tensor(&c->tensors[i], p->verbose, p->to);
    print_why(c, p->to);
    fflush(p->to);
}

void kvg_compare_print_totals(const kvg_comparison *c, FILE *to)
{
    fprintf(to, "%s %s: %zu cases", c->pack->name, c->pack->version, c->case_count);
    const char *before = ": ";
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (c->counts[i] == 0) continue;
        fprintf(to, "%s%" PRIu64 " %s", before, c->counts[i], kvg_verdict_name((kvg_verdict)i));
        before = ", ";
    }
    if (c->unanswered) fprintf(to, " (%" PRIu64 " unanswered: no pass)", c->unanswered);
    fprintf(to, "\n");
}
