/* Cases that the candidate does not claim to do, by what it does not claim; claims of which nothing was judged; cases
 * whose candidate was not confined by namespaces, or had kvgold's reference in its process; relations that did not
 * hold. */
#include "harness/report/report_unclaimed.h"

#include <stdio.h>
#include <string.h>

#include "support/confine.h"

/* Why a case stands in a line; "": it does not. */
typedef const char *reason(const kvg_result *r);

static const char *unclaimed(const kvg_result *r)
{
    return r->unclaimed;
}

static const char *unconfined(const kvg_result *r)
{
    return strcmp(r->confinement, kvg_confinement_name(KVG_CONFINE_NAMESPACES)) == 0 ? "" : r->confinement;
}

static const char *reference_in(const kvg_result *r)
{
    return r->reference_in;
}

static const char *suspect(const kvg_result *r)
{
    return r->suspect;
}

static const char *engine(const kvg_result *r)
{
    return r->engine;
}

static const char *broken(const kvg_result *r)
{
    return r->broken.count ? r->broken.name[0] : "";
}

static size_t count_of(const kvg_report *r, reason *of, const char *why)
{
    size_t count = 0;
    for (size_t i = 0; i < r->case_count; i++) {
        const char *other = of(&r->cases[i].result);
        if (other[0]) count += !why || strcmp(why, other) == 0;
    }
    return count;
}

static bool is_first(const kvg_report *r, size_t index, reason *of, const char *why)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(why, of(&r->cases[i].result)) == 0) return false;
    }
    return true;
}

static void list_reasons(const kvg_report *r, reason *of, char *out, size_t size)
{
    const size_t all = count_of(r, of, NULL);
    out[0] = 0;
    if (all == 0) return;
    size_t used = (size_t)snprintf(out, size, "%zu case%s", all, all == 1 ? "" : "s");
    const char *separator = ": ";
    for (size_t i = 0; i < r->case_count; i++) {
        const char *why = of(&r->cases[i].result);
        if (!why[0] || !is_first(r, i, of, why)) continue;
        if (used + strlen(why) + 40 > size) {
            snprintf(out + used, size - used, ", and others");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s %zu", separator, why, count_of(r, of, why));
        separator = ", ";
    }
}

void kvg_report_unclaimed_line(const kvg_report *r, char *out, size_t size)
{
    list_reasons(r, unclaimed, out, size);
}

void kvg_report_unconfined_line(const kvg_report *r, char *out, size_t size)
{
    list_reasons(r, unconfined, out, size);
}

void kvg_report_suspect_line(const kvg_report *r, char *out, size_t size)
{
    list_reasons(r, suspect, out, size);
}

void kvg_report_engine_line(const kvg_report *r, char *out, size_t size)
{
    list_reasons(r, engine, out, size);
}

void kvg_report_broken_line(const kvg_report *r, char *out, size_t size)
{
    list_reasons(r, broken, out, size);
}

void kvg_report_reference_line(const kvg_report *r, char *out, size_t size)
{
    list_reasons(r, reference_in, out, size);
}
