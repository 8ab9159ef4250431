/* What the report says of all cases together. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "harness/report/report_data.h"
#include "harness/report/report_origin.h"
#include "harness/report/report_unclaimed.h"

static void describe_verdicts(const kvg_report *r, char *out, size_t size)
{
    const char *separator = "";
    int n = snprintf(out, size, "%s", r->case_count ? "" : "none");
    for (int v = 0; v < KVG_VERDICT_COUNT; v++) {
        if (!r->verdicts[v]) continue;
        n += snprintf(out + n, size - (size_t)n, "%s%" PRIu64 " %s", separator, r->verdicts[v],
                      kvg_verdict_name((kvg_verdict)v));
        separator = ", ";
    }
    if (r->unfinished) n += snprintf(out + n, size - (size_t)n, "%s%" PRIu64 " UNFINISHED", separator, r->unfinished);
    if (r->missing) snprintf(out + n, size - (size_t)n, " (%" PRIu64 " missing)", r->missing);
}

static void describe_compared(const kvg_report *r, char *out, size_t size)
{
    char bytes[32];
    kvg_report_format_bytes(r->compared, bytes, sizeof bytes);
    snprintf(out, size, "%s (%" PRIu64 " bytes), %" PRIu64 " mismatched", bytes, r->compared, r->mismatched);
}

static void describe_controls(const kvg_report *r, char *out, size_t size)
{
    int n = 0;
    for (size_t k = 0; k < KVG_REPORT_CONTROLS; k++) {
        if (k == KVG_REPORT_BY_BOUND) continue;
        n += snprintf(out + n, size - (size_t)n, "%s%" PRIu64 " %s", k ? ", " : "", r->control_totals[k],
                      kvg_report_control_names[k]);
    }
    snprintf(out + n, size - (size_t)n, "; %" PRIu64 " of the rejected fail the round-trip bound too",
             r->control_totals[KVG_REPORT_BY_BOUND]);
}

static void describe_exact_decode(const kvg_report *r, char *out, size_t size)
{
    kvg_report_decode_line(r->cases, r->case_count, false, out, size);
}

static void describe_decode_bits(const kvg_report *r, char *out, size_t size)
{
    kvg_report_decode_line(r->cases, r->case_count, true, out, size);
}

static void describe_separation(const kvg_report *r, char *out, size_t size)
{
    kvg_report_separation_line(r->cases, r->case_count, out, size);
}

static void describe_relations(const kvg_report *r, char *out, size_t size)
{
    char broken[KVG_REPORT_LINE_SIZE];
    kvg_report_relations_line(r->cases, r->case_count, out, size);
    kvg_report_broken_line(r, broken, sizeof broken);
    const size_t used = strlen(out);
    if (broken[0]) snprintf(out + used, size - used, "%sbroken in %s", used ? "; " : "", broken);
}

static void describe_time(const kvg_report *r, char *out, size_t size)
{
    const kvg_report_case *longest = NULL;
    size_t slow = 0;
    int n = snprintf(out, size, "%.1f s", r->seconds);
    if (r->file_count > 1) n += snprintf(out + n, size - (size_t)n, " in %zu shards together", r->file_count);
    for (size_t i = 0; i < r->case_count; i++) {
        const kvg_report_case *c = &r->cases[i];
        if (!c->finished || !c->result.slow) continue;
        slow++;
        if (!longest || c->result.seconds > longest->result.seconds) longest = c;
    }
    if (longest) {
        snprintf(out + n, size - (size_t)n,
                 "; %zu slow, the longest took %.1f s, and the implementation's first run in it %.1f s: %s", slow,
                 longest->result.seconds, longest->result.milliseconds / 1e3, longest->asked.id);
    }
}

void kvg_report_tell_totals(const kvg_report *r, void (*tell)(void *context, const char *what, const char *text),
                            void *context)
{
    static const struct {
        const char *what;
        void (*describe)(const kvg_report *r, char *out, size_t size);
    } totals[] = {
        {"cases", describe_verdicts},
        {"compared", describe_compared},
        {"controls", describe_controls},
        {"decode", describe_exact_decode},
        {"decode", describe_decode_bits},
        {"separation", describe_separation},
        {"relations", describe_relations},
        {"unclaimed", kvg_report_unclaimed_line},
        {"engine", kvg_report_engine_line},
        {"unconfined", kvg_report_unconfined_line},
        {"reference", kvg_report_reference_line},
        {"SUSPECT", kvg_report_suspect_line},
        {"time", describe_time},
    };
    char text[KVG_REPORT_LINE_SIZE];
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        text[0] = '\0';
        totals[i].describe(r, text, sizeof text);
        if (text[0]) tell(context, totals[i].what, text);
    }
    kvg_report_tell_origins(r, tell, context);
    for (size_t i = 0; i < r->mode_count; i++) {
        const size_t count = r->modes[i].count;
        snprintf(text, sizeof text, "%zu case%s: %s", count, count == 1 ? "" : "s", r->modes[i].first->mode);
        tell(context, "mode", text);
    }
    if (r->without_mode) {
        snprintf(text, sizeof text, "off: %zu case%s by name of format", r->without_mode,
                 r->without_mode == 1 ? "" : "s");
        tell(context, "policy", text);
    }
    for (size_t i = 0; i < r->note_count; i++) tell(context, "note", r->notes[i]);
}

/* A config's name that no file of this folder has. */
static void find_free_name(char *name, size_t size)
{
    char path[64];
    unsigned n = 1;
    do {
        snprintf(name, size, n == 1 ? "claimed" : "claimed%u", n);
        snprintf(path, sizeof path, "%s.json", name);
        n++;
    } while (access(path, F_OK) == 0);
}

static bool judges_itself(const kvg_report *r)
{
    for (size_t i = 0; i < r->case_count; i++) {
        if (strcmp(r->cases[i].asked.backend, "reference") != 0) return false;
    }
    return r->case_count > 0;
}

void kvg_report_proof_line(const kvg_report *r, char *out, size_t size)
{
    const uint64_t chosen = r->case_count + r->missing;
    uint64_t judged = 0, all = chosen;
    for (int v = 0; v < KVG_VERDICT_COUNT; v++) judged += kvg_verdict_judges((kvg_verdict)v) ? r->verdicts[v] : 0;
    for (size_t i = 0; i < r->file_count; i++) all = r->files[i].config_cases > all ? r->files[i].config_cases : all;
    const char *what = judged == 0 ? "nothing" : 100 * judged < all ? "almost nothing" : "little";
    const kvg_names *claims = r->origin_count ? &r->origins[0].capabilities : NULL;
    const bool is_little = 2 * judged < all;
    int n = 0;
    out[0] = '\0';
    if (is_little) {
        n = snprintf(out, size, "%" PRIu64 " of %" PRIu64 " cases %s judged: this proves %s", judged, all,
                     judged == 1 ? "was" : "were", what);
    }
    if (judges_itself(r)) {
        n += snprintf(out + n, size - (size_t)n, "%sthe reference judged itself: name an implementation by --backend",
                      n ? "; " : "");
    }
    if (chosen == all && claims && claims->count && (is_little || kvg_report_unasked_count(r))) {
        char name[32];
        find_free_name(name, sizeof name);
        snprintf(out + n, size - (size_t)n, "%skvgold new config %s --from %s asks what is claimed", n ? "; " : "",
                 name, claims->name[0] + KVG_ORIGIN_HASH + 2);
    }
}
