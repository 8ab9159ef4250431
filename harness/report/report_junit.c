/* JUnit XML. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "harness/report/report_data.h"

typedef enum outcome { PASSED, FAILURE, ERROR, SKIPPED } outcome;

/* A failure is the candidate's answer; an error is that there was none. */
static outcome outcome_of(const kvg_report_case *c)
{
    if (!c->finished) return ERROR;
    switch (c->result.verdict) {
    case KVG_VERDICT_PASS: return PASSED;
    case KVG_VERDICT_SKIP: return SKIPPED;
    case KVG_VERDICT_FAIL:
    case KVG_VERDICT_MISTRUSTED:
    case KVG_VERDICT_UNIMPLEMENTED: return FAILURE;
    default: return ERROR;
    }
}

static void write_attribute(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=\"", name);
    kvg_report_escape(out, value);
    putc('"', out);
}

static void write_outcome(FILE *out, const kvg_report *r, const kvg_report_case *c)
{
    static const char *const elements[] = {[FAILURE] = "failure", [ERROR] = "error", [SKIPPED] = "skipped"};
    const char *element = elements[outcome_of(c)];
    char why[KVG_REPORT_LINE_SIZE];
    fprintf(out, "      <%s", element);
    write_attribute(out, "message", c->finished ? c->result.detail : "started but never finished");
    if (outcome_of(c) != SKIPPED) write_attribute(out, "type", kvg_report_status_name(c));
    putc('>', out);
    kvg_report_escape(out, c->result.detail);
    kvg_report_consequence_line(r, c, 1, why, sizeof why);
    fputs(why[0] ? "\n" : "", out);
    kvg_report_escape(out, why);
    for (size_t i = 0; i < c->result.printed.count; i++) {
        fputs("\n| ", out);
        kvg_report_escape(out, c->result.printed.name[i]);
    }
    if (c->asked.repro[0]) {
        fputs(c->result.detail[0] ? "\n" : "", out);
        kvg_report_escape(out, c->asked.repro);
    }
    fprintf(out, "</%s>\n", element);
}

static void write_case(FILE *out, const kvg_report *r, const kvg_report_case *c)
{
    fputs("    <testcase classname=\"", out);
    kvg_report_escape(out, r->files[0].name);
    putc('.', out);
    kvg_report_escape(out, c->storage);
    putc('"', out);
    write_attribute(out, "name", c->asked.id);
    fprintf(out, " time=\"%.6f\"", isfinite(c->result.milliseconds) ? c->result.milliseconds / 1000 : 0);
    char about[256] = "decode: ";
    const size_t headed = strlen(about);
    kvg_report_decode_line(c, 1, c->result.decode.bits, about + headed, sizeof about - headed);
    if (!about[headed]) about[0] = 0;
    if (c->guest) r->guest->about(c, about, sizeof about);
    if (outcome_of(c) == PASSED && !c->mode[0] && !about[0]) {
        fputs("/>\n", out);
        return;
    }
    fputs(">\n", out);
    if (outcome_of(c) != PASSED) write_outcome(out, r, c);
    if (c->mode[0] || about[0]) {
        fputs("      <system-out>", out);
        if (c->mode[0]) fputs("mode: ", out);
        kvg_report_escape(out, c->mode);
        fprintf(out, "%s%s</system-out>\n", c->mode[0] && about[0] ? "\n" : "", about);
    }
    fputs("    </testcase>\n", out);
}

/* What a run lacks has no case of its own to show it. */
static void write_incomplete(FILE *out, const kvg_report *r)
{
    fputs("    <testcase", out);
    write_attribute(out, "classname", r->files[0].name);
    fputs(" name=\"complete\" time=\"0\">\n      <error message=\"cases or shards are missing\" type=\"MISSING\">",
          out);
    for (size_t i = 0; i < r->note_count; i++) {
        kvg_report_escape(out, r->notes[i]);
        putc('\n', out);
    }
    fputs("</error>\n    </testcase>\n", out);
}

static void write_suites(const kvg_report *r, FILE *out)
{
    const bool incomplete = r->missing || r->lost_shards;
    const char *suite = r->files[0].name;
    size_t outcomes[4] = {0};
    for (size_t i = 0; i < r->case_count; i++) outcomes[outcome_of(&r->cases[i])]++;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", out);
    write_attribute(out, "name", suite);
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\">\n",
            r->case_count + incomplete, outcomes[FAILURE], outcomes[ERROR] + incomplete, outcomes[SKIPPED],
            isfinite(r->seconds) ? r->seconds : 0);
    fputs("    <properties>\n      <property name=\"config\"", out);
    write_attribute(out, "value", r->files[0].config);
    fprintf(out, "/>\n      <property name=\"seed\" value=\"0x%" PRIx64 "\"/>\n      <property name=\"version\"",
            r->files[0].seed);
    write_attribute(out, "value", r->files[0].version);
    fputs("/>\n    </properties>\n", out);
    for (int last = 0; last < 2; last++) { /* what follows from other failures comes last */
        for (size_t i = 0; i < r->case_count; i++) {
            if (kvg_report_is_consequence(&r->cases[i]) == last) write_case(out, r, &r->cases[i]);
        }
    }
    if (incomplete) write_incomplete(out, r);
    fputs("  </testsuite>\n</testsuites>\n", out);
}

kvg_status kvg_report_junit(const kvg_report *report, const char *path)
{
    return kvg_report_write(report, path, write_suites);
}
