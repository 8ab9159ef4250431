/* The page. The build joins page.html, page.css, page.js and Chart.js into one template. C adds the data: a summary as
 * JSON, and the cases as lines of the result files. page.js makes everything that a reader sees. */
#include <inttypes.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/report/report_data.h"
#include "harness/report/result_record.h"
#include "harness/trial/wrong/defects.h"
#include "support/exit_code.h"
#include "support/json_out.h"
#include "support/whole_file.h"

static const char template[] = {
#include "harness/report/page.inc"
    0};

/* --- the summary --- */

static const char *headline(const kvg_report *r)
{
    const int code = kvg_report_exit_code(r);
    if (code == KVG_EXIT_PASS) return "PASSED";
    if (code == KVG_EXIT_USAGE) return "MISTRUSTED";
    if (code == KVG_EXIT_NOTHING) return "NOTHING WAS CHECKED";
    return r->failing ? "FAILED" : "INCOMPLETE";
}

static void add_total(void *list, const char *what, const char *text)
{
    const char *const words[] = {what, text};
    cJSON_AddItemToArray(list, cJSON_CreateStringArray(words, 2));
}

static void add_sides(cJSON *to, const char *key, const double sides[2])
{
    cJSON *object = cJSON_AddObjectToObject(to, key);
    kvg_result_add_number(object, "k", sides[KVG_K]);
    kvg_result_add_number(object, "v", sides[KVG_V]);
}

/* {"zeros": 12, ...}: in how many of the group's cases, for each control that was ever so. */
static void add_controls(const kvg_report *r, const kvg_report_group *g, cJSON *to)
{
    cJSON *object = cJSON_AddObjectToObject(to, "controls");
    for (size_t k = 0; k <= KVG_REPORT_ACCEPTED; k++) {
        cJSON *counts = cJSON_AddObjectToObject(object, kvg_report_control_names[k]);
        for (size_t i = 0; i < r->control_count; i++) {
            if (g->controls[k][i]) cJSON_AddNumberToObject(counts, r->controls[i], (double)g->controls[k][i]);
        }
    }
}

static cJSON *describe_group(const kvg_report *r, const kvg_report_group *g)
{
    cJSON *group = cJSON_CreateObject(), *cells = cJSON_AddArrayToObject(group, "cells");
    char cell[512];
    for (size_t i = 0; i < kvg_report_column_count; i++) {
        const kvg_report_column *column = &kvg_report_columns[i];
        cJSON *object = cJSON_CreateObject();
        column->cell(g, cell, sizeof cell);
        cJSON_AddStringToObject(object, "text", cell);
        if (column->is_bad && column->is_bad(g)) cJSON_AddStringToObject(object, "kind", "bad");
        cJSON_AddItemToArray(cells, object);
    }
    cJSON_AddStringToObject(group, "storage", g->storage);
    cJSON_AddStringToObject(group, "data", g->data);
    cJSON_AddNumberToObject(group, "cases", (double)g->count);
    cJSON_AddBoolToObject(group, "plain", g->canonical && !g->mixed);
    kvg_result_add_number(group, "bits", g->bits);
    add_sides(group, "relative_l2", g->relative_l2);
    add_sides(group, "sqnr_db", g->sqnr_db);
    if (g->reach.codes_of) {
        kvg_record_write(kvg_record_get(KVG_RECORD_REACH), &g->reach, cJSON_AddObjectToObject(group, "reach"));
    }
    add_controls(r, g, group);
    return group;
}

static cJSON *describe_layout(const kvg_report_tally *t)
{
    cJSON *object = cJSON_CreateObject();
    char bytes[32];
    kvg_report_format_bytes(t->compared, bytes, sizeof bytes);
    cJSON_AddStringToObject(object, "layout", t->first->asked.layout);
    cJSON_AddStringToObject(object, "op", t->first->asked.op);
    cJSON_AddNumberToObject(object, "cases", (double)t->count);
    cJSON_AddNumberToObject(object, "passed", (double)t->passed);
    cJSON_AddNumberToObject(object, "failed", (double)t->failed);
    cJSON_AddStringToObject(object, "compared", bytes);
    cJSON_AddNumberToObject(object, "mismatched", (double)t->mismatched);
    return object;
}

static void add_meaning(cJSON *to, const char *name)
{
    const kvg_defect *defect;
    char text[256];
    if (kvg_defect_find(name, &defect) != KVG_OK) return; /* a guest's, or another version's */
    snprintf(text, sizeof text, defect->seen_in[0] ? "%s (seen in %s)" : "%s", defect->summary, defect->seen_in);
    if (!cJSON_HasObjectItem(to, name)) cJSON_AddStringToObject(to, name, text);
}

/* The causes, and of each case the id of its cause, -1: it has none. */
static void add_causes(const kvg_report *r, cJSON *run, cJSON *meanings)
{
    char why[KVG_REPORT_LINE_SIZE];
    cJSON *causes = cJSON_AddArrayToObject(run, "causes"), *cause_of = cJSON_AddArrayToObject(run, "cause_of");
    for (size_t i = 0; i < r->cause_count; i++) {
        const kvg_report_cause *cause = &r->causes[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "id", (double)cause->id);
        cJSON_AddNumberToObject(object, "first", (double)(cause->first - r->cases));
        if (cause->explained) cJSON_AddStringToObject(object, "explained", cause->explained);
        if (cause->explained) add_meaning(meanings, cause->explained);
        kvg_report_consequence_line(r, cause->first, cause->count, why, sizeof why);
        cJSON_AddStringToObject(object, "consequence", why);
        cJSON_AddItemToArray(causes, object);
    }
    for (size_t i = 0; i < r->case_count; i++) {
        const size_t cause = r->cases[i].cause;
        cJSON_AddItemToArray(cause_of, cJSON_CreateNumber(cause == SIZE_MAX ? -1 : (double)cause));
    }
}

static cJSON *describe(const kvg_report *r)
{
    const kvg_report_file *f = &r->files[0];
    char text[KVG_REPORT_LINE_SIZE];
    cJSON *run = cJSON_CreateObject();
    cJSON_AddStringToObject(run, "name", f->name);
    cJSON_AddStringToObject(run, "config", f->config);
    snprintf(text, sizeof text, "0x%" PRIx64, f->seed);
    cJSON_AddStringToObject(run, "seed", text);
    cJSON_AddStringToObject(run, "version", f->version);
    cJSON_AddNumberToObject(run, "shards", (double)r->file_count);
    cJSON_AddNumberToObject(run, "shard_count", (double)f->shard_count);
    cJSON_AddStringToObject(run, "headline", headline(r));
    kvg_report_count_line(r, text, sizeof text);
    cJSON_AddStringToObject(run, "counts", text);
    kvg_report_proof_line(r, text, sizeof text);
    cJSON_AddStringToObject(run, "proof", text);
    kvg_report_tell_totals(r, add_total, cJSON_AddArrayToObject(run, "totals"));
    cJSON *failing = cJSON_AddArrayToObject(run, "failing");
    for (int v = 0; v < KVG_VERDICT_COUNT; v++) {
        if (!kvg_verdict_fails((kvg_verdict)v)) continue;
        cJSON_AddItemToArray(failing, cJSON_CreateString(kvg_verdict_name((kvg_verdict)v)));
    }
    cJSON *meanings = cJSON_AddObjectToObject(run, "meanings");
    add_causes(r, run, meanings);
    for (size_t i = 0; i < r->control_count; i++) add_meaning(meanings, r->controls[i]);
    cJSON *columns = cJSON_AddArrayToObject(run, "columns");
    for (size_t i = 0; i < kvg_report_column_count; i++) {
        cJSON_AddItemToArray(columns, cJSON_CreateString(kvg_report_columns[i].heading));
    }
    cJSON *groups = cJSON_AddArrayToObject(run, "groups"), *layouts = cJSON_AddArrayToObject(run, "layouts");
    for (size_t i = 0; i < r->group_count; i++) cJSON_AddItemToArray(groups, describe_group(r, &r->groups[i]));
    for (size_t i = 0; i < r->layout_count; i++) cJSON_AddItemToArray(layouts, describe_layout(&r->layouts[i]));
    return run;
}

/* --- the page --- */

/* JSON inside of a script element, which `</` would end. Only texts of JSON have a `<`; there \u003c is the same. */
static void write_json(FILE *out, const char *json, size_t size)
{
    for (const char *end = json + size; json < end; json++) {
        if (*json == '<') fputs("\\u003c", out);
        else putc(*json, out);
    }
}

typedef struct page {
    const kvg_report *report;
    const char *summary;
} page;

static kvg_status write_page(void *context, FILE *out)
{
    static const char summary_mark[] = "{{summary}}", cases_mark[] = "{{cases}}";
    const page *p = context;
    const char *summary = strstr(template, summary_mark), *cases = strstr(template, cases_mark);
    fwrite(template, 1, (size_t)(summary - template), out);
    write_json(out, p->summary, strlen(p->summary));
    summary += strlen(summary_mark);
    fwrite(summary, 1, (size_t)(cases - summary), out);
    for (size_t i = 0; i < p->report->case_count; i++) {
        write_json(out, p->report->cases[i].line, p->report->cases[i].line_size);
        putc('\n', out);
    }
    fputs(cases + strlen(cases_mark), out);
    return KVG_OK;
}

kvg_status kvg_report_html(const kvg_report *report, const char *path)
{
    cJSON *run = describe(report);
    char *summary = kvg_json_line(run);
    cJSON_Delete(run);
    if (!summary) return kvg_fail(KVG_ERR_MEMORY, "no memory for the report's page");
    page p = {report, summary};
    const kvg_status s = kvg_whole_file_write(path, write_page, &p);
    cJSON_free(summary);
    return s;
}
