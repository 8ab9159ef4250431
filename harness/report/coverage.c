/* From the cases of all files to one row for each op, storage, layout, profile, chip and backend. */
#include "harness/report/coverage.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/coverage_data.h"
#include "harness/report/report_table.h"
#include "support/whole_file.h"

/* --- files --- */

static const char *text_at(const kvg_result_origin *o, size_t member)
{
    return *(const char *const *)((const char *)o + member);
}

/* What all runs of a file say; "several" if they differ: nobody knows which of them had the case. */
static const char *agreed(const kvg_report *r, size_t member)
{
    for (size_t i = 1; i < r->origin_count; i++) {
        if (strcmp(text_at(&r->origins[0], member), text_at(&r->origins[i], member)) != 0) return "several";
    }
    return r->origin_count ? text_at(&r->origins[0], member) : "";
}

/* Of a merged file the first date: no case is older. */
static const char *first_date(const kvg_report *r)
{
    const char *first = r->origin_count ? r->origins[0].date : "";
    for (size_t i = 1; i < r->origin_count; i++) {
        if (strcmp(r->origins[i].date, first) < 0) first = r->origins[i].date;
    }
    return first;
}

static kvg_status read_file(kvg_coverage *c, const char *path, const kvg_guest *guest)
{
    kvg_report *r;
    kvg_status s = kvg_report_open(&path, NULL, 1, guest, &r);
    if (s) return s;
    c->reports[c->report_count++] = r;
    kvg_coverage_row *grown = realloc(c->rows, (c->row_count + r->case_count + 1) * sizeof *grown);
    if (!grown) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for its cases", path);
    c->rows = grown;
    const char *gpu = agreed(r, offsetof(kvg_result_origin, gpu));
    const kvg_coverage_row of_file = {
        .origins = r->origin_count,
        .chip = gpu[0] ? gpu : agreed(r, offsetof(kvg_result_origin, cpu)),
        .commit = r->origin_count ? agreed(r, offsetof(kvg_result_origin, commit)) : r->files[0].version,
        .date = first_date(r),
    };
    for (size_t i = 0; i < r->case_count; i++) {
        kvg_coverage_row *row = &c->rows[c->row_count++];
        *row = of_file;
        row->first = &r->cases[i];
    }
    c->case_count = c->row_count;
    return KVG_OK;
}

/* --- rows --- */

enum { KEYS = 6 };

/* The profile, "not on record" if a file of an earlier kvgold names none, and "" where no bits were asked for. */
static const char *profile_of(const kvg_report_case *c)
{
    return !c->asked.profile[0] && c->result.decode.bits ? "not on record" : c->asked.profile;
}

static void key_of(const kvg_coverage_row *row, const char *key[KEYS])
{
    const kvg_report_case *c = row->first;
    const char *const parts[KEYS] = {c->asked.op, c->storage, c->asked.layout, profile_of(c), row->chip,
                                     c->asked.backend};
    memcpy(key, parts, sizeof parts);
}

static int compare_keys(const void *a, const void *b)
{
    const char *x[KEYS], *y[KEYS];
    int order = 0;
    key_of(a, x);
    key_of(b, y);
    for (size_t i = 0; !order && i < KEYS; i++) order = strcmp(x[i], y[i]);
    return order;
}

static int compare_lines(const void *a, const void *b)
{
    const kvg_report_case *x = ((const kvg_coverage_row *)a)->first, *y = ((const kvg_coverage_row *)b)->first;
    if (x->line_size != y->line_size) return x->line_size < y->line_size ? -1 : 1;
    return memcmp(x->line, y->line, x->line_size);
}

/* Of equal lines the one whose file knows best where it comes from is first. */
static int compare_sources(const void *a, const void *b)
{
    const size_t x = ((const kvg_coverage_row *)a)->origins, y = ((const kvg_coverage_row *)b)->origins;
    const int order = compare_lines(a, b);
    return order ? order : (x > y) - (x < y);
}

static bool is_judged(const kvg_report_case *c)
{
    return c->finished && (c->result.verdict == KVG_VERDICT_PASS || c->result.verdict == KVG_VERDICT_FAIL);
}

/* Leaves one row for each line that was judged. */
static void keep_judged(kvg_coverage *c)
{
    const kvg_report_case *last = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < c->row_count; i++) {
        kvg_coverage_row *row = &c->rows[kept];
        *row = c->rows[i];
        const kvg_report_case *of = row->first;
        const bool again = last && compare_lines(&(kvg_coverage_row){.first = last}, row) == 0;
        last = of;
        if (again) continue;
        row->passed = kvg_report_case_passes(of);
        row->failed = !row->passed;
        row->compared = of->result.bytes.compared;
        if (is_judged(of)) kept++;
        else c->unjudged[of->finished ? of->result.verdict : KVG_VERDICT_COUNT]++;
    }
    c->row_count = kept;
}

static void merge_rows(kvg_coverage *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->row_count; i++) {
        const kvg_coverage_row *row = &c->rows[i];
        kvg_coverage_row *sum = kept ? &c->rows[kept - 1] : NULL;
        if (!sum || compare_keys(sum, row) != 0) {
            c->rows[kept++] = *row;
            continue;
        }
        sum->passed += row->passed;
        sum->failed += row->failed;
        sum->compared += row->compared;
        if (strcmp(row->date, sum->date) <= 0) continue;
        sum->date = row->date;
        sum->commit = row->commit;
    }
    c->row_count = kept;
}

kvg_status kvg_coverage_open(const char *const *paths, size_t count, const kvg_guest *guest, kvg_coverage **out)
{
    *out = NULL;
    kvg_coverage *c = calloc(1, sizeof *c);
    if (c) c->reports = calloc(count + 1, sizeof *c->reports);
    kvg_status s = c && c->reports ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for a ledger");
    for (size_t i = 0; i < count && !s; i++) s = read_file(c, paths[i], guest);
    if (!s) {
        if (c->row_count) qsort(c->rows, c->row_count, sizeof c->rows[0], compare_sources);
        keep_judged(c);
        if (c->row_count) qsort(c->rows, c->row_count, sizeof c->rows[0], compare_keys);
        merge_rows(c);
        c->never = report_never_judged(c);
        *out = c;
    } else {
        kvg_coverage_close(c);
    }
    return s;
}

void kvg_coverage_close(kvg_coverage *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->report_count; i++) kvg_report_close(c->reports[i]);
    cJSON_Delete(c->never);
    free(c->reports);
    free(c->rows);
    free(c);
}

/* --- output --- */

enum { COLUMNS = KEYS + 5, MADE = 4, CELL = 64, COMMIT_DIGITS = 12 };

static const char *const titles[COLUMNS] = {"op", "format", "layout", "profile", "chip", "backend",
                                            "passed", "failed", "compared", "commit", "last"};

static const char *verdict_name(int verdict)
{
    return verdict < KVG_VERDICT_COUNT ? kvg_verdict_name((kvg_verdict)verdict) : "UNFINISHED";
}

/* The texts of the row's cells, some of them in `made`: a commit is its first digits and the words behind it. */
static void fill_cells(const kvg_coverage_row *row, const char *cells[COLUMNS], char made[MADE][CELL])
{
    const char *words = strchr(row->commit, ' ');
    key_of(row, cells);
    snprintf(made[0], CELL, "%zu", row->passed);
    snprintf(made[1], CELL, "%zu", row->failed);
    kvg_report_format_bytes(row->compared, made[2], CELL);
    snprintf(made[3], CELL, "%.*s%s", COMMIT_DIGITS, row->commit, words ? words : "");
    for (size_t i = 0; i < MADE; i++) cells[KEYS + i] = made[i];
    cells[COLUMNS - 1] = row->date;
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!cells[i][0]) cells[i] = "-";
    }
}

static void print_rows(const kvg_coverage *c, FILE *out)
{
    const char *cells[COLUMNS];
    char made[MADE][CELL];
    size_t widths[COLUMNS] = {0};
    report_widen_columns(titles, COLUMNS, widths);
    for (size_t i = 0; i < c->row_count; i++) {
        fill_cells(&c->rows[i], cells, made);
        report_widen_columns(cells, COLUMNS, widths);
    }
    report_print_row(titles, COLUMNS, KEYS, widths, out);
    for (size_t i = 0; i < c->row_count; i++) {
        fill_cells(&c->rows[i], cells, made);
        report_print_row(cells, COLUMNS, KEYS, widths, out);
    }
}

/* What stands below the rows. */
static void print_rest(const kvg_coverage *c, FILE *out)
{
    for (size_t i = 0; i < c->report_count; i++) {
        const kvg_report_file *f = &c->reports[i]->files[0];
        if (f->truncated) fprintf(out, "%s: the last line was cut short and is left out\n", f->path);
    }
    for (int v = 0; v <= KVG_VERDICT_COUNT; v++) {
        if (c->unjudged[v]) fprintf(out, "not judged: %zu %s\n", c->unjudged[v], verdict_name(v));
    }
    report_print_never_judged(c->never, out);
}

void kvg_coverage_print(const kvg_coverage *c, FILE *out)
{
    print_rows(c, out);
    putc('\n', out);
    print_rest(c, out);
}

static void write_row(const char *const cells[COLUMNS], const char *cell, FILE *out)
{
    fputs("<tr>", out);
    for (size_t i = 0; i < COLUMNS; i++) {
        fprintf(out, "<%s>", cell);
        kvg_report_escape(out, cells[i]);
    }
    putc('\n', out);
}

static kvg_status write_page(void *context, FILE *out)
{
    const kvg_coverage *c = context;
    char made[MADE][CELL], *rest = NULL;
    const char *cells[COLUMNS];
    size_t size;
    FILE *lines = open_memstream(&rest, &size);
    if (lines) print_rest(c, lines);
    if (!lines || fclose(lines)) {
        free(rest);
        return kvg_fail(KVG_ERR_MEMORY, "no memory for the ledger's page");
    }
    fputs("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>What kvgold judged</title>\n<style>\n"
          "body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color-scheme: light dark; }\n"
          "table { border-collapse: collapse; }\n"
          "th, td { text-align: left; padding: .2em .8em .2em 0; border-bottom: 1px solid #8884; }\n"
          "pre { white-space: pre-wrap; }\n</style>\n<h1>What kvgold judged</h1>\n<table>\n<thead>\n", out);
    write_row(titles, "th scope=\"col\"", out);
    fputs("<tbody>\n", out);
    for (size_t i = 0; i < c->row_count; i++) {
        fill_cells(&c->rows[i], cells, made);
        write_row(cells, "td", out);
    }
    fputs("</table>\n<pre>\n", out);
    kvg_report_escape(out, rest);
    fputs("</pre>\n", out);
    free(rest);
    return KVG_OK;
}

kvg_status kvg_coverage_html(kvg_coverage *c, const char *path)
{
    return kvg_whole_file_write(path, write_page, c);
}

static void add_row(const kvg_coverage_row *row, cJSON *to)
{
    const kvg_result_asked *a = &row->first->asked;
    const char *const texts[][2] = {
        {"op", a->op}, {"k_format", a->k_format}, {"k_dialect", a->k_dialect}, {"v_format", a->v_format},
        {"v_dialect", a->v_dialect}, {"layout", a->layout}, {"profile", profile_of(row->first)}, {"chip", row->chip},
        {"backend", a->backend}, {"commit", row->commit}, {"last", row->date},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i][1][0]) cJSON_AddStringToObject(to, texts[i][0], texts[i][1]);
    }
    cJSON_AddNumberToObject(to, "passed", (double)row->passed);
    cJSON_AddNumberToObject(to, "failed", (double)row->failed);
    cJSON_AddNumberToObject(to, "compared", (double)row->compared);
}

kvg_status kvg_coverage_write(const kvg_coverage *c, const char *path)
{
    cJSON *root = cJSON_CreateObject(), *judged = cJSON_AddArrayToObject(root, "judged");
    for (size_t i = 0; i < c->row_count; i++) {
        cJSON *row = cJSON_CreateObject();
        add_row(&c->rows[i], row);
        cJSON_AddItemToArray(judged, row);
    }
    cJSON *unjudged = cJSON_AddObjectToObject(root, "not_judged");
    for (int v = 0; v <= KVG_VERDICT_COUNT; v++) {
        if (c->unjudged[v]) cJSON_AddNumberToObject(unjudged, verdict_name(v), (double)c->unjudged[v]);
    }
    cJSON_AddItemReferenceToObject(root, "never_judged", c->never);
    const kvg_status s = kvg_whole_file_write_json(path, root);
    cJSON_Delete(root);
    return s;
}
