/* Why cases did not pass. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_data.h"
#include "harness/trial/judge/relations.h"

/* --- which cases belong together --- */

static bool has_name(const kvg_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], name) == 0) return true;
    }
    return false;
}

bool kvg_report_is_consequence(const kvg_report_case *c)
{
    const char *appended = kvg_relation_id(kvg_relation_get(KVG_RELATION_appended));
    return c->finished && c->result.verdict == KVG_VERDICT_FAIL && has_name(&c->result.broken, appended);
}

/* Verdicts in the order of a report; UNFINISHED stands before UNIMPLEMENTED, which says the least. */
static int rank(const kvg_report_case *c)
{
    enum { CONSEQUENCE = 1, UNFINISHED = 7 };
    static const int ranks[KVG_VERDICT_COUNT] = {
        [KVG_VERDICT_FAIL] = 0, [KVG_VERDICT_CRASH] = 2, [KVG_VERDICT_HANG] = 3, [KVG_VERDICT_DEVICE_LOST] = 4,
        [KVG_VERDICT_ERROR] = 5, [KVG_VERDICT_MISTRUSTED] = 6, [KVG_VERDICT_UNIMPLEMENTED] = 8, [KVG_VERDICT_SKIP] = 9,
    };
    if (kvg_report_is_consequence(c)) return CONSEQUENCE;
    return c->finished ? ranks[c->result.verdict] : UNFINISHED;
}

/* What `detail` says before its first number or colon: "k_codes" of "k_codes: 3 of 64 bytes differ". */
static size_t head(const char *detail)
{
    size_t length = 0;
    while (detail[length] && detail[length] != ':' && !isdigit((unsigned char)detail[length])) length++;
    return length;
}

static bool belongs(const kvg_report_case *c, const kvg_report_cause *cause)
{
    if (cause->explained) return has_name(&c->result.explained, cause->explained);
    if (kvg_report_is_consequence(c)) return kvg_report_is_consequence(cause->first);
    const char *detail = c->result.detail, *other = cause->first->result.detail;
    return rank(c) == rank(cause->first) && head(detail) == head(other) && strncmp(detail, other, head(detail)) == 0;
}

/* The total `unclaimed` tells of cases that the candidate does not claim to do. */
static bool is_open(const kvg_report_case *c)
{
    return c->cause == SIZE_MAX && !kvg_report_case_passes(c) && !c->result.unclaimed[0];
}

/* Gives a cause all open cases that belong to it. The first one that says what its wrong rows are speaks for all. */
static void settle(kvg_report *r, kvg_report_cause cause)
{
    cause.id = r->cause_count;
    for (size_t i = 0; i < r->case_count; i++) {
        kvg_report_case *c = &r->cases[i];
        if (!is_open(c) || !belongs(c, &cause)) continue;
        if (!cause.count++ || (c->result.fitted[0] && !cause.first->result.fitted[0])) cause.first = c;
        c->cause = cause.id;
    }
    r->causes[r->cause_count++] = cause;
}

/* --- consequences --- */

/* A failing append, of the case's formats and layout if there is one; NULL: none failed. */
static const kvg_report_case *failing_append(const kvg_report *r, const kvg_report_case *c)
{
    const kvg_report_case *found = NULL;
    for (size_t i = 0; i < r->case_count; i++) {
        const kvg_report_case *other = &r->cases[i];
        if (!other->finished || other->result.verdict != KVG_VERDICT_FAIL) continue;
        if (strcmp(other->asked.op, kvg_op_get(KVG_OP_APPEND)->name) != 0) continue;
        const bool alike = strcmp(other->storage, c->storage) == 0 && strcmp(other->asked.layout, c->asked.layout) == 0;
        if (alike) return other;
        if (!found) found = other;
    }
    return found;
}

void kvg_report_consequence_line(const kvg_report *r, const kvg_report_case *c, size_t count, char *out, size_t size)
{
    out[0] = 0;
    if (!kvg_report_is_consequence(c)) return;
    const kvg_report_case *append = failing_append(r, c);
    const char *answers = count == 1 ? "this answer is" : "these answers are";
    if (append) {
        snprintf(out, size, "%s right, and the pages that %s wrote are wrong: see %s", answers, append->result.impl,
                 append->asked.id);
    } else {
        snprintf(out, size, "%s right, but not over pages that the implementation's own append wrote", answers);
    }
}

/* --- explanations --- */

enum { MOST_NAMES = 512 };

typedef struct tally {
    const char *name;
    size_t count;
} tally;

/* The known-wrong answer that explains most of the open cases; NULL: none explains one. */
static const char *best_explanation(const kvg_report *r, tally tallies[MOST_NAMES])
{
    size_t count = 0, best = 0;
    for (size_t i = 0; i < r->case_count; i++) {
        const kvg_names *names = &r->cases[i].result.explained;
        for (size_t k = 0; is_open(&r->cases[i]) && k < names->count; k++) {
            size_t at = 0;
            while (at < count && strcmp(tallies[at].name, names->name[k]) != 0) at++;
            if (at == MOST_NAMES) continue;
            if (at == count) tallies[count++] = (tally){names->name[k], 0};
            tallies[at].count++;
            if (tallies[at].count > tallies[best].count) best = at;
        }
    }
    return count ? tallies[best].name : NULL;
}

static int compare_causes(const void *a, const void *b)
{
    const kvg_report_cause *x = a, *y = b;
    const int order = rank(x->first) - rank(y->first);
    if (order) return order;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : (x->id > y->id) - (x->id < y->id);
}

kvg_status kvg_report_find_causes(kvg_report *r)
{
    tally tallies[MOST_NAMES];
    r->causes = kvg_report_room(r, r->case_count * sizeof *r->causes);
    if (r->case_count && !r->causes) {
        return kvg_fail(KVG_ERR_MEMORY, "no memory for the causes of %zu cases", r->case_count);
    }
    for (size_t i = 0; i < r->case_count; i++) r->cases[i].cause = SIZE_MAX;
    for (const char *name; (name = best_explanation(r, tallies));) settle(r, (kvg_report_cause){.explained = name});
    for (size_t i = 0; i < r->case_count; i++) {
        if (is_open(&r->cases[i])) settle(r, (kvg_report_cause){.first = &r->cases[i]});
    }
    qsort(r->causes, r->cause_count, sizeof *r->causes, compare_causes);
    return KVG_OK;
}
