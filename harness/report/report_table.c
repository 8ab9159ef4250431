/* The table for people. */
#include "harness/report/report_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_data.h"
#include "harness/report/report_unclaimed.h"
#include "support/terminal.h"

enum { CELL_SIZE = 512, MAX_COLUMNS = 32, GAP = 2 };

/* --- cases that did not pass --- */

static void print_case(FILE *out, const kvg_report_case *c)
{
    const char *colour = kvg_report_case_fails(c) ? KVG_TERMINAL_RED : KVG_TERMINAL_GREEN;
    const char *status = kvg_report_status_name(c);
    fprintf(out, "%s%s%s%*s", colour, status, KVG_TERMINAL_PLAIN, 14 - (int)strlen(status), "");
    kvg_report_plain(out, c->asked.id);
    if (c->result.detail[0]) {
        fputs("\n    ", out);
        kvg_report_plain(out, c->result.detail);
    }
    for (size_t i = 0; i < c->result.printed.count; i++) {
        fputs("\n    | ", out);
        kvg_report_plain(out, c->result.printed.name[i]);
    }
    if (c->mode[0]) {
        fputs("\n    mode: ", out);
        kvg_report_plain(out, c->mode);
    }
    if (c->asked.repro[0]) {
        fputs("\n    ", out);
        kvg_report_plain(out, c->asked.repro);
    }
    putc('\n', out);
}

/* "op append, flatten": the words of a cause's cases, the first ones by name. */
static void print_words(const kvg_report *r, const kvg_report_cause *cause, const char *what,
                        const char *(*word)(const kvg_report_case *c), FILE *out)
{
    enum { MOST = 6 };
    const char *seen[MOST];
    size_t count = 0, more = 0;
    const char *last = "";
    for (size_t i = 0; i < r->case_count; i++) {
        const char *w = word(&r->cases[i]);
        bool known = r->cases[i].cause != cause->id || strcmp(w, last) == 0;
        for (size_t k = 0; !known && k < count; k++) known = strcmp(seen[k], w) == 0;
        if (known) continue;
        last = w;
        if (count < MOST) seen[count++] = w;
        else more++;
    }
    fputs(what, out);
    for (size_t k = 0; k < count; k++) {
        fputs(k ? ", " : " ", out);
        kvg_report_plain(out, seen[k]);
    }
    if (more) fputs(" and others", out);
}

static const char *op_of(const kvg_report_case *c) { return c->asked.op; }
static const char *layout_of(const kvg_report_case *c) { return c->asked.layout; }
static const char *storage_of(const kvg_report_case *c) { return c->storage; }

static void print_cause(const kvg_report *r, const kvg_report_cause *cause, FILE *out)
{
    const char *status = kvg_report_status_name(cause->first);
    char why[KVG_REPORT_LINE_SIZE];
    kvg_report_consequence_line(r, cause->first, cause->count, why, sizeof why);
    if (cause->count > 1 || why[0]) {
        const char *s = cause->count == 1 ? "" : "s";
        fprintf(out, "%zu case%s " KVG_TERMINAL_RED "%s" KVG_TERMINAL_PLAIN "%s", cause->count, s, status,
                why[0] ? ": " : "");
        kvg_report_plain(out, why);
        if (cause->explained) {
            fputs(": their answers are those of defect ", out);
            kvg_report_plain(out, cause->explained);
        }
        print_words(r, cause, "\n    op", op_of, out);
        print_words(r, cause, "; layout", layout_of, out);
        print_words(r, cause, "; format", storage_of, out);
        fputs("; one of them is\n", out);
    }
    print_case(out, cause->first);
}

static void print_causes(const kvg_report *r, FILE *out)
{
    enum { LIMIT = 10 };
    size_t shown = 0, left = 0;
    if (r->cause_count) putc('\n', out);
    for (; shown < r->cause_count && shown < LIMIT; shown++) print_cause(r, &r->causes[shown], out);
    for (size_t i = shown; i < r->cause_count; i++) left += r->causes[i].count;
    if (left) fprintf(out, "and %zu more cases, for other reasons: the HTML report has them\n", left);
    if (shown) putc('\n', out);
}

/* --- formats --- */

static size_t print_width(const char *cell)
{
    size_t width = 0;
    for (; *cell; cell++) width += ((unsigned char)*cell & 0xc0) != 0x80;
    return width;
}

static void print_cell(FILE *out, const char *cell, size_t width, bool left)
{
    const size_t padding = width > print_width(cell) ? width - print_width(cell) : 0;
    if (!left) fprintf(out, "%*s", (int)padding, "");
    kvg_report_plain(out, cell);
    if (left) fprintf(out, "%*s", (int)padding, "");
}

/* Drops the least important columns until the rest fits: widths become 0. */
static void fit(size_t widths[MAX_COLUMNS], size_t width)
{
    for (;;) {
        size_t total = 0, least = 0;
        for (size_t i = 0; i < kvg_report_column_count; i++) {
            if (!widths[i]) continue;
            total += widths[i] + GAP;
            if (kvg_report_columns[i].importance < kvg_report_columns[least].importance) least = i;
        }
        if (total <= width + GAP || least == 0) return;
        for (size_t i = 0; i < kvg_report_column_count; i++) { /* K and V go together */
            if (kvg_report_columns[i].importance == kvg_report_columns[least].importance) widths[i] = 0;
        }
    }
}

static void print_groups(const kvg_report *r, FILE *out, size_t width)
{
    char cell[CELL_SIZE];
    size_t widths[MAX_COLUMNS];
    for (size_t i = 0; i < kvg_report_column_count; i++) {
        widths[i] = print_width(kvg_report_columns[i].title);
        for (size_t g = 0; g < r->group_count; g++) {
            kvg_report_columns[i].cell(&r->groups[g], cell, sizeof cell);
            if (print_width(cell) > widths[i]) widths[i] = print_width(cell);
        }
    }
    fit(widths, width);
    for (size_t row = 0; row < r->group_count + 1; row++) {
        for (size_t i = 0; i < kvg_report_column_count; i++) {
            if (!widths[i]) continue;
            snprintf(cell, sizeof cell, "%s", kvg_report_columns[i].title);
            if (row) kvg_report_columns[i].cell(&r->groups[row - 1], cell, sizeof cell);
            if (i) fprintf(out, "%*s", GAP, "");
            print_cell(out, cell, widths[i], i == 0);
        }
        putc('\n', out);
    }
}

/* --- layouts and ops --- */

enum { LAYOUT_COLUMNS = 6 };

void report_widen_columns(const char *const *cells, size_t count, size_t *widths)
{
    for (size_t i = 0; i < count; i++) {
        if (print_width(cells[i]) > widths[i]) widths[i] = print_width(cells[i]);
    }
}

void report_print_row(const char *const *cells, size_t count, size_t left, const size_t *widths, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        if (i) fprintf(out, "%*s", GAP, "");
        print_cell(out, cells[i], widths[i], i < left);
    }
    putc('\n', out);
}

static void print_layouts(const kvg_report *r, FILE *out)
{
    static const char *const titles[LAYOUT_COLUMNS] = {"layout", "op", "cases", "passed", "bytes", "wrong"};
    size_t widths[LAYOUT_COLUMNS] = {6, 2, 7, 7, 7, 7};
    for (size_t i = 0; i < r->layout_count; i++) {
        const kvg_result_asked *a = &r->layouts[i].first->asked;
        report_widen_columns((const char *const[]){a->layout, a->op}, 2, widths);
    }
    report_print_row(titles, LAYOUT_COLUMNS, 2, widths, out);
    for (size_t i = 0; i < r->layout_count; i++) {
        const kvg_report_tally *t = &r->layouts[i];
        char count[24], passed[24], bytes[24], wrong[24];
        snprintf(count, sizeof count, "%zu", t->count);
        snprintf(passed, sizeof passed, "%zu", t->passed);
        kvg_report_format_bytes(t->compared, bytes, sizeof bytes);
        snprintf(wrong, sizeof wrong, "%" PRIu64, t->mismatched);
        const kvg_result_asked *a = &t->first->asked;
        const char *const cells[LAYOUT_COLUMNS] = {a->layout, a->op, count, passed, bytes, wrong};
        report_print_row(cells, LAYOUT_COLUMNS, 2, widths, out);
    }
}

/* --- totals --- */

static void print_total(void *context, const char *what, const char *text)
{
    FILE *out = context;
    fprintf(out, "%-10s ", what);
    kvg_report_plain(out, text); /* it comes from the files */
    putc('\n', out);
}

static void print_table(const kvg_report *report, FILE *out, size_t width)
{
    char counts[KVG_REPORT_LINE_SIZE];
    if (report->group_count) {
        print_groups(report, out, width);
        putc('\n', out);
        print_layouts(report, out);
        putc('\n', out);
    }
    if (report->guest) report->guest->print(report, out);
    kvg_report_tell_totals(report, print_total, out);
    print_causes(report, out);
    kvg_report_proof_line(report, counts, sizeof counts);
    if (counts[0]) fprintf(out, "%s\n", counts);
    kvg_report_count_line(report, counts, sizeof counts);
    fprintf(out, "%s%s%s%s\n", kvg_report_exit_code(report) ? KVG_TERMINAL_RED : KVG_TERMINAL_GREEN,
            kvg_report_is_incomplete(report) ? "INCOMPLETE: " : "", counts, KVG_TERMINAL_PLAIN);
}

void kvg_report_table(const kvg_report *report, FILE *out, unsigned width, bool colour)
{
    char *text = NULL;
    size_t size;
    FILE *lines = open_memstream(&text, &size);
    if (lines) {
        print_table(report, lines, width ? width : 120);
        fclose(lines);
    }
    if (text) kvg_terminal_lay_out(out, text, width, colour);
    else fputs("no memory for the table of this report\n", out);
    free(text);
}
