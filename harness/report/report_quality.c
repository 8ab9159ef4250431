/* Op generate in reports: what result files say of it, and the tables of it. */
#include "harness/report/report_quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_data.h"
#include "harness/report/report_value.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- reading --- */

static kvg_status read_bucket(kvg_json object, kvg_report_quality *q)
{
    static const char *const keys[] = {"from", "rows", "loss", "kl", "top1"};
    if (q->bucket_count == KVG_QUALITY_BUCKETS) {
        return kvg_json_fail(object, "more than %d positions", KVG_QUALITY_BUCKETS);
    }
    double *const numbers[] = {&q->buckets[q->bucket_count].from, &q->buckets[q->bucket_count].rows,
                               &q->buckets[q->bucket_count].loss, &q->buckets[q->bucket_count].kl,
                               &q->buckets[q->bucket_count].top1};
    kvg_status s = kvg_json_check_keys(object, keys, COUNT(keys));
    for (size_t i = 0; i < COUNT(keys) && !s; i++) s = kvg_report_get_number(object, keys[i], numbers[i]);
    q->bucket_count++;
    return s;
}

static kvg_status read_flag(kvg_json object, const char *key, bool *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_bool(value, out);
}

static kvg_status read_planted(kvg_json object, kvg_report_quality *q)
{
    static const char *const keys[] = {"id", "applies", "by_bits", "by_limits", "rows", "differ", "loss", "kl"};
    if (q->planted_count == KVG_GENERATE_DEFECTS) {
        return kvg_json_fail(object, "more than %d planted defects", KVG_GENERATE_DEFECTS);
    }
    kvg_report_planted *p = &q->planted[q->planted_count++];
    kvg_json id;
    const char *name;
    kvg_status s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = kvg_json_get(object, "id", &id);
    if (!s) s = kvg_json_string(id, &name);
    if (!s) snprintf(p->id, sizeof p->id, "%s", name);
    if (!s) s = read_flag(object, "applies", &p->applies);
    if (!s) s = read_flag(object, "by_bits", &p->by_bits);
    if (!s) s = read_flag(object, "by_limits", &p->by_limits);
    if (!s) s = kvg_report_get_number(object, "rows", &p->rows);
    if (!s) s = kvg_report_get_number(object, "differ", &p->differ);
    if (!s) s = kvg_report_get_number(object, "loss", &p->loss);
    return s ? s : kvg_report_get_number(object, "kl", &p->kl);
}

static kvg_status read_list(kvg_json object, const char *key, kvg_report_quality *q,
                            kvg_status (*read)(kvg_json object, kvg_report_quality *q))
{
    kvg_json list;
    kvg_status s = kvg_json_get(object, key, &list);
    if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected a list");
    for (size_t i = 0; !s && i < kvg_json_count(list); i++) s = read(kvg_json_at(list, i), q);
    return s;
}

kvg_status kvg_report_quality_read(kvg_json object, kvg_report_quality *q)
{
    static const struct {
        const char *key;
        size_t offset;
    } fields[] = {
#define QUALITY(name, value) {#name, offsetof(kvg_report_quality, name)},
#include "harness/case/quality_fields.def"
#undef QUALITY
    };
    const char *keys[COUNT(fields) + 2] = {"positions", "planted"};
    for (size_t i = 0; i < COUNT(fields); i++) keys[2 + i] = fields[i].key;
    kvg_status s = kvg_json_check_keys(object, keys, COUNT(keys));
    for (size_t i = 0; i < COUNT(fields) && !s; i++) {
        s = kvg_report_get_number(object, fields[i].key, (double *)((char *)q + fields[i].offset));
    }
    if (!s) s = read_list(object, "positions", q, read_bucket);
    if (!s) s = read_list(object, "planted", q, read_planted);
    q->present = !s;
    return s;
}

/* --- the cases, in order --- */

static int compare_loss(const void *a, const void *b)
{
    const kvg_report_case *x = *(const kvg_report_case *const *)a, *y = *(const kvg_report_case *const *)b;
    const double left = isnan(x->quality.kl) ? INFINITY : x->quality.kl;
    const double right = isnan(y->quality.kl) ? INFINITY : y->quality.kl;
    if (left != right) return left < right ? -1 : 1;
    return strcmp(x->id, y->id);
}

const kvg_report_case **kvg_report_quality_cases(const kvg_report *r, size_t *count)
{
    const kvg_report_case **list = malloc((r->case_count + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < r->case_count; i++) {
        if (r->cases[i].quality.present) list[(*count)++] = &r->cases[i];
    }
    if (*count) qsort(list, *count, sizeof list[0], compare_loss);
    if (*count) return list;
    free(list);
    return NULL;
}

void kvg_report_quality_name(const kvg_report_case *c, char *out, size_t size)
{
    static const char *const variants[] = {":sliding", ":full", ":before_rope"};
    char type[16] = "", scale[24] = "";
    const char *backend = "";
    sscanf(c->id, "%*[^/]/%*[^/]/%*[^/]/%15[^/]/%*[^/]/%*[^/]/%23[^/]", type, scale);
    const char *at = c->id;
    for (int slashes = 0; at && slashes < 7; slashes++) {
        at = strchr(at, '/');
        if (at) backend = ++at;
    }
    int n = snprintf(out, size, "%s %s", c->storage, type);
    if (scale[0] && strcmp(scale, "-") != 0 && n > 0 && (size_t)n < size) {
        n += snprintf(out + n, size - (size_t)n, " %s", scale);
    }
    for (size_t i = 0; i < COUNT(variants) && n > 0 && (size_t)n < size; i++) {
        if (strstr(c->fill, variants[i])) n += snprintf(out + n, size - (size_t)n, " %s", variants[i] + 1);
    }
    if (strcmp(backend, "reference") != 0 && n > 0 && (size_t)n < size) {
        snprintf(out + n, size - (size_t)n, " %s", backend);
    }
}

/* --- the columns, for every output --- */

enum { CELL = 64 };

typedef struct column {
    const char *title;
    void (*cell)(const kvg_report_quality *q, char *out, size_t size);
    bool (*is_bad)(const kvg_report_quality *q); /* NULL: never */
} column;

static void put_mean(char *out, size_t size, const char *format, double value, double low, double high)
{
    if (isnan(value)) snprintf(out, size, "nan");
    else snprintf(out, size, format, value, low, high); /* one of the literals below */
}

static void put_bits(const kvg_report_quality *q, char *out, size_t size) { snprintf(out, size, "%.4f", q->bits); }
static void put_kl_p99(const kvg_report_quality *q, char *out, size_t size) { snprintf(out, size, "%.3g", q->kl_p99); }
static void put_kl_worst(const kvg_report_quality *q, char *out, size_t size)
{
    snprintf(out, size, "%.3g", q->kl_worst);
}

static void put_loss(const kvg_report_quality *q, char *out, size_t size)
{
    put_mean(out, size, "%+.5f [%+.5f, %+.5f]", q->loss, q->loss_low, q->loss_high);
}

static void put_kl(const kvg_report_quality *q, char *out, size_t size)
{
    put_mean(out, size, "%.3g [%.3g, %.3g]", q->kl, q->kl_low, q->kl_high);
}

static void put_top1(const kvg_report_quality *q, char *out, size_t size)
{
    put_mean(out, size, "%.2f [%.2f, %.2f]", 100 * q->top1, 100 * q->top1_low, 100 * q->top1_high);
}

/* "24 (12) 3/8": median and earliest of the first differences, texts without one. */
static void put_greedy(const kvg_report_quality *q, char *out, size_t size)
{
    if (!(q->greedy_tokens > 0)) snprintf(out, size, "-");
    else snprintf(out, size, "%g (%g), %g/%g same", q->greedy_median, q->greedy_first, q->greedy_same, q->greedy_texts);
}

static void put_compared(const kvg_report_quality *q, char *out, size_t size)
{
    snprintf(out, size, "%.0f/%.0f", q->differing_rows, q->compared_rows);
}

static void put_token(const kvg_report_quality *q, char *out, size_t size)
{
    snprintf(out, size, "%g", q->token_bytes);
}

static void put_request(const kvg_report_quality *q, char *out, size_t size)
{
    snprintf(out, size, "%.0f", q->request_bytes);
}

static void put_requests(const kvg_report_quality *q, char *out, size_t size)
{
    if (q->budget > 0) snprintf(out, size, "%.0f", q->requests);
    else snprintf(out, size, "-");
}

static bool loses_too_much(const kvg_report_quality *q) { return !(q->loss <= q->max_loss); }
static bool strays_too_far(const kvg_report_quality *q) { return !(q->kl <= q->max_kl); }
static bool agrees_too_little(const kvg_report_quality *q) { return !(q->top1 >= q->min_top1); }
static bool has_wrong_bits(const kvg_report_quality *q) { return q->differing_rows > 0; }

static const column columns[] = {
    {"bits/token", put_bits, NULL},
    {"loss, bits", put_loss, loses_too_much},
    {"KL, bits", put_kl, strays_too_far},
    {"KL p99", put_kl_p99, NULL},
    {"worst", put_kl_worst, NULL},
    {"top-1, %", put_top1, agrees_too_little},
    {"greedy: first difference", put_greedy, NULL},
    {"rows wrong", put_compared, has_wrong_bits},
    {"B/token", put_token, NULL},
    {"B/request", put_request, NULL},
    {"requests", put_requests, NULL},
};

void kvg_report_quality_line(const struct kvg_report_case *c, char *out, size_t size)
{
    char loss[CELL], kl[CELL], top1[CELL], rows[CELL];
    out[0] = 0;
    if (!c->quality.present) return;
    put_loss(&c->quality, loss, sizeof loss);
    put_kl(&c->quality, kl, sizeof kl);
    put_top1(&c->quality, top1, sizeof top1);
    put_compared(&c->quality, rows, sizeof rows);
    snprintf(out, size, "loss %s bits per token, KL %s bits, top-1 %s %%, rows wrong %s", loss, kl, top1, rows);
}

static const char *how_rejected(const kvg_report_planted *p)
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
        kvg_report_quality_name(cases[i], name, sizeof name);
        if (strlen(name) > first) first = strlen(name);
    }
    for (size_t k = 0; k < COUNT(columns); k++) {
        widths[k] = strlen(columns[k].title);
        for (size_t i = 0; i < count; i++) {
            columns[k].cell(&cases[i]->quality, cell, sizeof cell);
            if (strlen(cell) > widths[k]) widths[k] = strlen(cell);
        }
    }
    fprintf(out, "%-*s", (int)first, "format");
    for (size_t k = 0; k < COUNT(columns); k++) fprintf(out, "  %*s", (int)widths[k], columns[k].title);
    putc('\n', out);
    for (size_t i = 0; i < count; i++) {
        kvg_report_quality_name(cases[i], name, sizeof name);
        kvg_report_plain(out, name);
        fprintf(out, "%*s", (int)(first - strlen(name)), "");
        for (size_t k = 0; k < COUNT(columns); k++) {
            columns[k].cell(&cases[i]->quality, cell, sizeof cell);
            fprintf(out, "  %*s", (int)widths[k], cell);
        }
        putc('\n', out);
    }
    putc('\n', out);
}

static void print_planted(const kvg_report_case *c, FILE *out)
{
    char name[160];
    kvg_report_quality_name(c, name, sizeof name);
    for (size_t i = 0; i < c->quality.planted_count; i++) {
        const kvg_report_planted *p = &c->quality.planted[i];
        fputs("planted    ", out);
        kvg_report_plain(out, name);
        fputs("  ", out);
        kvg_report_plain(out, p->id);
        fprintf(out, ": %s", how_rejected(p));
        if (p->applies) fprintf(out, "; %.0f of %.0f rows, loss %+.5f, KL %.3g", p->differ, p->rows, p->loss, p->kl);
        putc('\n', out);
    }
}

void kvg_report_quality_print(const kvg_report *report, FILE *out)
{
    size_t count;
    const kvg_report_case **cases = kvg_report_quality_cases(report, &count);
    if (!cases) return;
    print_measures(cases, count, out);
    for (size_t i = 0; i < count; i++) print_planted(cases[i], out);
    free(cases);
}

/* --- for the page --- */

static void write_text(FILE *out, const char *open, const char *text, const char *close)
{
    fputs(open, out);
    kvg_report_escape(out, text);
    fputs(close, out);
}

static void write_measures(const kvg_report_case **cases, size_t count, FILE *out)
{
    char cell[CELL], name[160];
    fputs("<div class=\"wide\"><table><thead><tr><th>format.dialect</th>", out);
    for (size_t k = 0; k < COUNT(columns); k++) fprintf(out, "<th>%s</th>", columns[k].title);
    fputs("</tr></thead><tbody>\n", out);
    for (size_t i = 0; i < count; i++) {
        kvg_report_quality_name(cases[i], name, sizeof name);
        write_text(out, "<tr><td>", name, "</td>");
        for (size_t k = 0; k < COUNT(columns); k++) {
            columns[k].cell(&cases[i]->quality, cell, sizeof cell);
            fputs(columns[k].is_bad && columns[k].is_bad(&cases[i]->quality) ? "<td class=\"bad\">" : "<td>", out);
            write_text(out, "", cell, "</td>");
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void write_positions(const kvg_report_case **cases, size_t count, FILE *out)
{
    char name[160];
    fputs("<h3>By position in the window: KL divergence, and loss, in bits</h3>\n"
          "<div class=\"wide\"><table><tbody>\n", out);
    for (size_t i = 0; i < count; i++) {
        const kvg_report_quality *q = &cases[i]->quality;
        kvg_report_quality_name(cases[i], name, sizeof name);
        write_text(out, "<tr><td>", name, "</td>");
        for (size_t b = 0; b < q->bucket_count; b++) {
            fprintf(out, "<td><span class=\"dim\">from %g:</span> %.3g, %+.4f</td>", q->buckets[b].from,
                    q->buckets[b].kl, q->buckets[b].loss);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void write_planted(const kvg_report_case *c, FILE *out)
{
    char name[160];
    kvg_report_quality_name(c, name, sizeof name);
    for (size_t i = 0; i < c->quality.planted_count; i++) {
        const kvg_report_planted *p = &c->quality.planted[i];
        const char *class = !p->applies ? "dim" : p->by_bits || p->by_limits ? "good" : "bad";
        write_text(out, "<tr><td>", name, "</td>");
        write_text(out, "<td class=\"left\">", p->id, "</td>");
        fprintf(out, "<td class=\"left\"><span class=\"%s\">%s</span></td>", class, how_rejected(p));
        if (p->applies) {
            fprintf(out, "<td>%.0f of %.0f</td><td>%+.5f</td><td>%.3g</td>", p->differ, p->rows, p->loss, p->kl);
        } else {
            fputs("<td></td><td></td><td></td>", out);
        }
        fputs("</tr>\n", out);
    }
}

void kvg_report_quality_html(const kvg_report *report, FILE *out)
{
    size_t count, planted = 0;
    const kvg_report_case **cases = kvg_report_quality_cases(report, &count);
    if (!cases) {
        fputs("<p class=\"dim\">This run has no case of op generate.</p>\n", out);
        return;
    }
    fputs("<p>A model reads held-out text through the cache: each token's distribution against the same run with the "
          "model type for a cache (docs/spec/generate.md section 8). In brackets the middle 95% of a bootstrap over "
          "blocks of 64 rows; the order is the one that was found. Rows wrong: logits that are not the reference's, "
          "bit for bit, of those compared.</p>\n", out);
    write_measures(cases, count, out);
    write_positions(cases, count, out);
    for (size_t i = 0; i < count; i++) planted += cases[i]->quality.planted_count;
    if (planted) {
        fputs("<h3>Planted defects</h3>\n<div class=\"wide\"><table><thead><tr><th>format.dialect</th>"
              "<th class=\"left\">defect</th><th class=\"left\">outcome</th><th>rows changed</th><th>loss, bits</th>"
              "<th>KL, bits</th></tr></thead><tbody>\n", out);
        for (size_t i = 0; i < count; i++) write_planted(cases[i], out);
        fputs("</tbody></table></div>\n", out);
    }
    free(cases);
}
