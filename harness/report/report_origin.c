/* Where the results come from. Runs have the same files of an implementation if the hashes are equal, wherever they
 * lie. */
#include "harness/report/report_origin.h"

#include <string.h>

typedef const kvg_names *files_of(const kvg_result_origin *o);

static const kvg_names *libraries_of(const kvg_result_origin *o) { return &o->libraries; }
static const kvg_names *capabilities_of(const kvg_result_origin *o) { return &o->capabilities; }
static const kvg_names *unasked_of(const kvg_result_origin *o) { return &o->unasked; }

static const struct {
    const char *what, *noun;
    files_of *files;
} kinds[] = {{"library", "libraries", libraries_of}, {"capability", "capability files", capabilities_of}};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* --- differences --- */

/* Where two lists first have another hash, or one of them has ended; SIZE_MAX: nowhere. */
static size_t first_difference(const kvg_names *a, const kvg_names *b)
{
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        if (i >= a->count || i >= b->count || strncmp(a->name[i], b->name[i], KVG_ORIGIN_HASH) != 0) return i;
    }
    return SIZE_MAX;
}

/* No earlier run has the same files. */
static bool is_new(const kvg_report *r, size_t index, files_of *files)
{
    for (size_t i = 0; i < index; i++) {
        if (first_difference(files(&r->origins[i]), files(&r->origins[index])) == SIZE_MAX) return false;
    }
    return true;
}

static const char *name_at(const kvg_names *names, size_t index)
{
    return index < names->count ? names->name[index] : "none";
}

static kvg_status compare(kvg_report *r, const char *noun, files_of *files)
{
    for (size_t i = 1; i < r->origin_count; i++) {
        const kvg_names *first = files(&r->origins[0]), *other = files(&r->origins[i]);
        const size_t at = first_difference(first, other);
        if (at == SIZE_MAX) continue;
        return kvg_report_note(r, "The runs of this report had different %s: %.300s and %.300s.", noun,
                               name_at(first, at), name_at(other, at));
    }
    return KVG_OK;
}

kvg_status kvg_report_compare_origins(kvg_report *r)
{
    kvg_status s = KVG_OK;
    for (size_t k = 0; k < KINDS && !s; k++) s = compare(r, kinds[k].noun, kinds[k].files);
    return s;
}

size_t kvg_report_library_count(const kvg_report *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->origin_count; i++) count += is_new(r, i, libraries_of);
    return count;
}

size_t kvg_report_unasked_count(const kvg_report *r)
{
    size_t most = 0; /* runs of one config and one file have equal lists */
    for (size_t i = 0; i < r->origin_count; i++) {
        if (r->origins[i].unasked.count > most) most = r->origins[i].unasked.count;
    }
    return most;
}

/* --- what is told --- */

/* The same machine and the same kvgold. */
static bool same_place(const kvg_result_origin *a, const kvg_result_origin *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->cpu, b->cpu) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
           strcmp(a->version, b->version) == 0 && strcmp(a->commit, b->commit) == 0;
}

/* "HOST, CPU, GPU; kvgold 0.1.0, commit 1234567; DATE to DATE", of all runs there. "" if an earlier run was there. */
static void describe_place(const kvg_report *r, size_t index, char *out, size_t size)
{
    const kvg_result_origin *o = &r->origins[index];
    const char *first = o->date, *last = o->date;
    out[0] = 0;
    for (size_t i = 0; i < r->origin_count; i++) {
        const kvg_result_origin *other = &r->origins[i];
        if (!same_place(o, other)) continue;
        if (i < index) return;
        if (strcmp(other->date, first) < 0) first = other->date;
        if (strcmp(other->date, last) > 0) last = other->date;
    }
    const bool once = strcmp(first, last) == 0;
    snprintf(out, size, "%s, %s%s%s; kvgold %s, commit %s; %s%s%s", o->host, o->cpu, o->gpu[0] ? ", " : "", o->gpu,
             o->version, o->commit, first, once ? "" : " to ", once ? "" : last);
}

void kvg_report_tell_origins(const kvg_report *r, void (*tell)(void *context, const char *what, const char *text),
                             void *context)
{
    char text[KVG_REPORT_LINE_SIZE];
    for (size_t i = 0; i < r->origin_count; i++) {
        describe_place(r, i, text, sizeof text);
        if (text[0]) tell(context, "machine", text);
    }
    for (size_t k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < r->origin_count; i++) {
            const kvg_names *files = kinds[k].files(&r->origins[i]);
            const bool told = !is_new(r, i, kinds[k].files);
            for (size_t n = 0; n < files->count && !told; n++) tell(context, kinds[k].what, files->name[n]);
        }
    }
    for (size_t i = 0; i < r->origin_count; i++) {
        const kvg_names *unasked = &r->origins[i].unasked;
        size_t used = (size_t)snprintf(text, sizeof text, "%zu claimed, and no case asks: ", unasked->count);
        for (size_t n = 0; n < unasked->count; n++) {
            const bool fits = used + strlen(unasked->name[n]) + 20 < sizeof text;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", n ? ", " : "",
                                     fits ? unasked->name[n] : "and others");
            if (!fits) break;
        }
        if (unasked->count && is_new(r, i, unasked_of)) tell(context, "unasked", text);
    }
}
