/* Op generate in reports: what result files say of it, and the tables of it. */
#include "model/report/report_quality.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/result_record.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

kvg_status kvg_report_quality_read(kvg_report *report, kvg_json line, void **out)
{
    const kvg_record *kinds = kvg_quality_records;
    kvg_json object;
    size_t buckets;
    kvg_report_quality read = {0}, *q;
    kvg_quality_result *m = &read.measures;
    *out = NULL;
    kvg_status s = kvg_record_read(&kinds[KVG_QUALITY_GENERATE], line, &read.asked);
    if (!s) s = kvg_record_read_part(&kinds[KVG_QUALITY_QUALITY], line, "quality", m, &m->measured);
    if (s || !m->measured) return s;
    s = kvg_json_get(line, "quality", &object);
    if (!s) {
        s = kvg_record_read_list(&kinds[KVG_QUALITY_POSITIONS], object, "positions", COUNT(m->quality.buckets),
                                 sizeof m->quality.buckets[0], m->quality.buckets, &buckets);
    }
    if (!s) {
        s = kvg_record_read_list(&kinds[KVG_QUALITY_PLANTED], object, "planted", COUNT(m->defects),
                                 sizeof m->defects[0], m->defects, &m->defect_count);
    }
    for (size_t i = 0; !s && i < m->defect_count; i++) {
        s = kvg_record_keep(&kinds[KVG_QUALITY_PLANTED], &m->defects[i], kvg_report_keep, report);
    }
    if (!s) s = kvg_record_keep(&kinds[KVG_QUALITY_GENERATE], &read.asked, kvg_report_keep, report);
    if (s) return s;
    q = kvg_report_room(report, sizeof *q);
    if (!q) return kvg_fail(KVG_ERR_MEMORY, "no memory for the measures of a case");
    *q = read;
    *out = q;
    return KVG_OK;
}

/* --- the cases, in order --- */

static int compare_loss(const void *a, const void *b)
{
    const kvg_report_case *x = *(const kvg_report_case *const *)a, *y = *(const kvg_report_case *const *)b;
    const double kl[] = {kvg_report_quality_of(x)->measures.quality.kl.value,
                         kvg_report_quality_of(y)->measures.quality.kl.value};
    const double left = isnan(kl[0]) ? INFINITY : kl[0], right = isnan(kl[1]) ? INFINITY : kl[1];
    if (left != right) return left < right ? -1 : 1;
    return strcmp(x->asked.id, y->asked.id);
}

/* The cases of a report that have measures, in a new array, the smallest KL divergence first; NULL: none. */
static const kvg_report_case **judged_cases(const kvg_report *r, size_t *count)
{
    const kvg_report_case **list = malloc((r->case_count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < r->case_count; i++) {
        if (r->cases[i].guest) list[(*count)++] = &r->cases[i];
    }
    if (*count) qsort(list, *count, sizeof list[0], compare_loss);
    if (*count) return list;
    free(list);
    return NULL;
}

/* What tells them apart: "nvfp4.canonical bf16 P2 sliding cuda". */
static void put_name(const kvg_report_case *c, char *out, size_t size)
{
    const kvg_result_asked *a = &c->asked;
    const kvg_result_generate *g = &kvg_report_quality_of(c)->asked;
    const struct {
        bool said;
        const char *word;
    } words[] = {
        {true, a->dtype},
        {a->scale[0], a->scale},
        {strcmp(g->layers, "all") != 0, g->layers},
        {strcmp(g->quantise_k, "before_rope") == 0, g->quantise_k},
        {strcmp(a->backend, "reference") != 0, a->backend},
    };
    size_t used = (size_t)snprintf(out, size, "%s", c->storage);
    for (size_t i = 0; i < COUNT(words) && used < size; i++) {
        if (words[i].said) used += (size_t)snprintf(out + used, size - used, " %s", words[i].word);
    }
}

/* --- the columns, for every output --- */

enum { CELL = 64 };

typedef struct column {
    const char *title;
    void (*cell)(const kvg_quality_result *q, char *out, size_t size);
} column;

/* `format` is one of the literals below; a share of 1 counts as `one`. */
static void put_mean(char *out, size_t size, const char *format, double one, const kvg_quality_mean *mean)
{
    if (isnan(mean->value)) snprintf(out, size, "nan");
    else snprintf(out, size, format, one * mean->value, one * mean->low, one * mean->high);
}

static void put_bits(const kvg_quality_result *q, char *out, size_t size)
{
    snprintf(out, size, "%.4f", q->quality.bits.value);
}

static void put_kl_p99(const kvg_quality_result *q, char *out, size_t size)
{
    snprintf(out, size, "%.3g", q->quality.kl_p99);
}

static void put_kl_worst(const kvg_quality_result *q, char *out, size_t size)
{
    snprintf(out, size, "%.3g", q->quality.kl_worst);
}

static void put_loss(const kvg_quality_result *q, char *out, size_t size)
{
    put_mean(out, size, "%+.5f [%+.5f, %+.5f]", 1, &q->quality.loss);
}

static void put_kl(const kvg_quality_result *q, char *out, size_t size)
{
    put_mean(out, size, "%.3g [%.3g, %.3g]", 1, &q->quality.kl);
}

static void put_top1(const kvg_quality_result *q, char *out, size_t size)
{
    put_mean(out, size, "%.2f [%.2f, %.2f]", 100, &q->quality.top1);
}

/* "24 (12) 3/8": median and earliest of the first differences, texts without one. */
static void put_greedy(const kvg_quality_result *q, char *out, size_t size)
{
    if (!(q->greedy.tokens > 0)) snprintf(out, size, "-");
    else snprintf(out, size, "%g (%" PRIu64 "), %" PRIu64 "/%" PRIu64 " same", q->greedy.median, q->greedy.first,
                  q->greedy.same, q->greedy.texts);
}

static void put_compared(const kvg_quality_result *q, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64 "/%" PRIu64, q->bits.differ, q->bits.rows);
}

static void put_token(const kvg_quality_result *q, char *out, size_t size)
{
    snprintf(out, size, "%g", q->memory.token_bytes);
}

static void put_request(const kvg_quality_result *q, char *out, size_t size)
{
    snprintf(out, size, "%" PRIu64, q->memory.request_bytes);
}

static void put_requests(const kvg_quality_result *q, char *out, size_t size)
{
    if (q->budget > 0) snprintf(out, size, "%" PRIu64, q->memory.requests);
    else snprintf(out, size, "-");
}

static const column columns[] = {
    {"bits/token", put_bits},
    {"loss, bits", put_loss},
    {"KL, bits", put_kl},
    {"KL p99", put_kl_p99},
    {"worst", put_kl_worst},
    {"top-1, %", put_top1},
    {"greedy: first difference", put_greedy},
    {"rows wrong", put_compared},
    {"B/token", put_token},
    {"B/request", put_request},
    {"requests", put_requests},
};

void kvg_report_quality_about(const kvg_report_case *c, char *out, size_t size)
{
    const kvg_quality_result *q = &kvg_report_quality_of(c)->measures;
    char loss[CELL], kl[CELL], top1[CELL], rows[CELL];
    put_loss(q, loss, sizeof loss);
    put_kl(q, kl, sizeof kl);
    put_top1(q, top1, sizeof top1);
    put_compared(q, rows, sizeof rows);
    snprintf(out, size, "quality: loss %s bits per token, KL %s bits, top-1 %s %%, rows wrong %s", loss, kl, top1,
             rows);
}

static const char *how_rejected(const kvg_quality_defect *p)
{
    if (!p->applies) return "does not apply";
    if (p->by_bits && p->by_limits) return "rejected by bits and by limits";
    if (p->by_bits) return "rejected by bits";
    return p->by_limits ? "rejected by limits" : "ACCEPTED";
}

/* --- for a terminal --- */

static void print_measures(const kvg_report_case **cases, size_t count, FILE *out)
{
    size_t widths[COUNT(columns)], first = strlen("format");
    char cell[CELL], name[160];
    for (size_t i = 0; i < count; i++) {
        put_name(cases[i], name, sizeof name);
        if (strlen(name) > first) first = strlen(name);
    }
    for (size_t k = 0; k < COUNT(columns); k++) {
        widths[k] = strlen(columns[k].title);
        for (size_t i = 0; i < count; i++) {
            columns[k].cell(&kvg_report_quality_of(cases[i])->measures, cell, sizeof cell);
            if (strlen(cell) > widths[k]) widths[k] = strlen(cell);
        }
    }
    fprintf(out, "%-*s", (int)first, "format");
    for (size_t k = 0; k < COUNT(columns); k++) fprintf(out, "  %*s", (int)widths[k], columns[k].title);
    putc('\n', out);
    for (size_t i = 0; i < count; i++) {
        put_name(cases[i], name, sizeof name);
        kvg_report_plain(out, name);
        fprintf(out, "%*s", (int)(first - strlen(name)), "");
        for (size_t k = 0; k < COUNT(columns); k++) {
            columns[k].cell(&kvg_report_quality_of(cases[i])->measures, cell, sizeof cell);
            fprintf(out, "  %*s", (int)widths[k], cell);
        }
        putc('\n', out);
    }
    putc('\n', out);
}

static void print_planted(const kvg_report_case *c, FILE *out)
{
    const kvg_quality_result *q = &kvg_report_quality_of(c)->measures;
    char name[160];
    put_name(c, name, sizeof name);
    for (size_t i = 0; i < q->defect_count; i++) {
        const kvg_quality_defect *p = &q->defects[i];
        fputs("planted    ", out);
        kvg_report_plain(out, name);
        fputs("  ", out);
        kvg_report_plain(out, p->id);
        fprintf(out, ": %s", how_rejected(p));
        if (p->applies) {
            fprintf(out, "; %" PRIu64 " of %" PRIu64 " rows, loss %+.5f, KL %.3g", p->differ, p->rows, p->loss, p->kl);
        }
        putc('\n', out);
    }
}

void kvg_report_quality_print(const kvg_report *report, FILE *out)
{
    size_t count;
    const kvg_report_case **cases = judged_cases(report, &count);
    if (!cases) return;
    print_measures(cases, count, out);
    for (size_t i = 0; i < count; i++) print_planted(cases[i], out);
    free(cases);
}
