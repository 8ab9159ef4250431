/* From cases to one row per format and dialect, per layout and op, and per mode; the columns of the first. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/sort.h"

#include "harness/report/report_data.h"

/* --- order --- */

static bool is_canonical(const char *dialect)
{
    return strcmp(dialect, "canonical") == 0;
}

bool kvg_report_is_mixed(const kvg_result_asked *a)
{
    return strcmp(a->k_format, a->v_format) != 0 || strcmp(a->k_dialect, a->v_dialect) != 0;
}

static int storage_rank(const kvg_result_asked *a)
{
    kvg_format format = KVG_FORMAT_END;
    if (kvg_format_find(a->k_format, &format)) format = KVG_FORMAT_END; /* a word that is not known here */
    return (kvg_report_is_mixed(a) ? 4 * (int)KVG_FORMAT_END : 0) + 2 * (int)format + !is_canonical(a->k_dialect);
}

/* As core/formats.def has them, canonical dialects first, mixed pairs last; then by name, of storage and of case. */
static int compare_cases(const void *a, const void *b)
{
    const kvg_report_case *x = a, *y = b;
    const int order = strcmp(x->storage, y->storage);
    if (!order) return strcmp(x->asked.id, y->asked.id);
    const int rank = storage_rank(&x->asked), other = storage_rank(&y->asked);
    return rank != other ? (rank > other) - (rank < other) : order;
}

/* Per stored element, scales included; NAN for a format that is not known here. */
static double stored_bits(const char *name, uint64_t head_dim)
{
    kvg_format format;
    if (kvg_format_find(name, &format) || !head_dim) return NAN;
    const kvg_format_info *f = kvg_format_get(format);
    double bits = f->element_bits + 8.0 * f->row_param_bytes / (double)head_dim;
    if (f->block) bits += 8.0 * f->block_scale_bytes / f->block;
    return bits;
}

/* --- numbers --- */

double kvg_report_median(double *values, size_t count)
{
    if (!count) return NAN;
    kvg_sort_doubles(values, count);
    const double low = values[(count - 1) / 2], high = values[count / 2];
    return low == high ? low : (low + high) / 2; /* equal infinities have no mean */
}

unsigned kvg_report_bits_set(const uint8_t set[KVG_FIELD_CODES / 8])
{
    unsigned count = 0;
    for (unsigned code = 0; code < KVG_FIELD_CODES; code++) count += kvg_report_bit(set, code);
    return count;
}

bool kvg_report_bit(const uint8_t set[KVG_FIELD_CODES / 8], unsigned code)
{
    return set[code / 8] >> code % 8 & 1;
}

const char *kvg_report_status_name(const kvg_report_case *c)
{
    return c->finished ? kvg_verdict_name(c->result.verdict) : "UNFINISHED";
}

bool kvg_report_case_passes(const kvg_report_case *c)
{
    return c->finished && c->result.verdict == KVG_VERDICT_PASS;
}

bool kvg_report_case_fails(const kvg_report_case *c)
{
    return !c->finished || kvg_verdict_fails(c->result.verdict);
}

/* --- one group --- */

static void add_reach(kvg_result_reach *sum, const kvg_result_reach *r)
{
    if (r->codes_of > sum->codes_of) sum->codes_of = r->codes_of;
    for (int i = 0; i < KVG_MET_KINDS; i++) sum->met[i] += r->met[i];
    for (size_t i = 0; i < sizeof sum->code_set; i++) {
        sum->code_set[i] |= r->code_set[i];
        sum->scale_set[i] |= r->scale_set[i];
    }
}

bool kvg_report_has_fill(const kvg_report_case *c, const char *fill)
{
    return strcmp(c->asked.fill, fill) == 0;
}

/* The data that says something about accuracy: captured if there is any, else random. */
static const char *choose_data(const kvg_report_case *cases, size_t count)
{
    static const char *const fills[] = {"capture", "random"};
    for (size_t f = 0; f < 2; f++) {
        for (size_t i = 0; i < count; i++) {
            const kvg_report_case *c = &cases[i];
            const bool has_trip = c->result.round_trip[KVG_K].measured || c->result.round_trip[KVG_V].measured;
            if (kvg_report_has_fill(c, fills[f]) && has_trip) return fills[f];
        }
    }
    return "";
}

/* Accuracy of one side. `scratch` has room for two doubles per case. */
static void summarise_side(kvg_report_group *g, const kvg_report_case *cases, kvg_side side, double *scratch)
{
    double *relative_l2 = scratch, *sqnr_db = scratch + g->count;
    size_t l2_count = 0, sqnr_count = 0;
    g->gain_error[side] = NAN;
    for (size_t i = 0; i < g->count; i++) {
        const kvg_round_trip *t = &cases[i].result.round_trip[side];
        if (!t->elements) continue;
        if (!(t->worst_ratio <= g->worst_ratio)) g->worst_ratio = t->worst_ratio;
        if (!kvg_report_has_fill(&cases[i], g->data)) continue;
        const double gain_error = fabs(t->gain - 1);
        if (!(gain_error <= g->gain_error[side])) g->gain_error[side] = gain_error;
        if (!isnan(t->relative_l2)) relative_l2[l2_count++] = t->relative_l2;
        if (!isnan(t->sqnr_db)) sqnr_db[sqnr_count++] = t->sqnr_db;
    }
    g->relative_l2[side] = kvg_report_median(relative_l2, l2_count);
    g->sqnr_db[side] = kvg_report_median(sqnr_db, sqnr_count);
}

static void count_controls(kvg_report_group *g, const kvg_report_case *c)
{
    for (size_t k = 0; k < KVG_REPORT_CONTROLS; k++) {
        for (size_t i = 0; i < KVG_REPORT_MAX_CONTROLS; i++) g->controls[k][i] += c->controls[k][i / 64] >> i % 64 & 1;
    }
}

static void summarise_group(kvg_report_group *g, const kvg_report_case *cases, double *scratch)
{
    g->storage = cases[0].storage;
    g->asked = &cases[0].asked;
    g->mixed = kvg_report_is_mixed(g->asked);
    g->canonical = is_canonical(g->asked->k_dialect) && is_canonical(g->asked->v_dialect);
    g->bits = (stored_bits(g->asked->k_format, g->asked->head_dim) +
               stored_bits(g->asked->v_format, g->asked->head_dim)) / 2;
    g->data = choose_data(cases, g->count);
    g->worst_ratio = NAN;
    for (size_t i = 0; i < g->count; i++) {
        const kvg_report_case *c = &cases[i];
        g->passed += kvg_report_case_passes(c);
        g->skipped += c->finished && c->result.verdict == KVG_VERDICT_SKIP;
        g->failed += kvg_report_case_fails(c);
        g->compared += c->result.bytes.compared;
        g->mismatched += c->result.bytes.mismatched;
        add_reach(&g->reach, &c->result.reach);
        count_controls(g, c);
    }
    /* Of a mixed pair, codes_of is K's. */
    if (g->reach.codes_of && kvg_report_bits_set(g->reach.code_set) > g->reach.codes_of) {
        g->reach.codes_of = KVG_FIELD_CODES;
    }
    summarise_side(g, cases, KVG_K, scratch);
    summarise_side(g, cases, KVG_V, scratch);
}

/* --- layouts and modes --- */

static int table_rank(kvg_status found, int id)
{
    return found ? INT_MAX : id;
}

/* As in core/layouts.def and core/ops.def, unknown words last. */
static int compare_layouts(const void *a, const void *b)
{
    const kvg_report_case *cases[] = {*(const kvg_report_case *const *)a, *(const kvg_report_case *const *)b};
    int ranks[2][2];
    for (int i = 0; i < 2; i++) {
        kvg_layout layout = KVG_LAYOUT_END;
        kvg_op op = KVG_OP_END;
        const kvg_status layout_found = kvg_layout_find(cases[i]->asked.layout, &layout);
        ranks[0][i] = table_rank(layout_found, (int)layout);
        ranks[1][i] = table_rank(kvg_op_find(cases[i]->asked.op, &op), (int)op);
    }
    if (ranks[0][0] != ranks[0][1]) return ranks[0][0] < ranks[0][1] ? -1 : 1;
    const int order = strcmp(cases[0]->asked.layout, cases[1]->asked.layout);
    if (order) return order;
    if (ranks[1][0] != ranks[1][1]) return ranks[1][0] < ranks[1][1] ? -1 : 1;
    return strcmp(cases[0]->asked.op, cases[1]->asked.op);
}

static int compare_modes(const void *a, const void *b)
{
    return strcmp((*(const kvg_report_case *const *)a)->mode, (*(const kvg_report_case *const *)b)->mode);
}

/* The `count` cases of `sorted`, put in order here: equal ones are one tally. */
static kvg_status tally(const kvg_report_case **sorted, size_t count, int (*compare)(const void *a, const void *b),
                        kvg_report_tally **out, size_t *out_count)
{
    *out = calloc(count + 1, sizeof **out);
    if (!*out) return kvg_fail(KVG_ERR_MEMORY, "no memory for the summary of %zu cases", count);
    qsort(sorted, count, sizeof sorted[0], compare);
    for (size_t i = 0; i < count; i++) {
        const kvg_report_case *c = sorted[i];
        if (i == 0 || compare(&sorted[i - 1], &sorted[i]) != 0) (*out)[(*out_count)++].first = c;
        kvg_report_tally *t = &(*out)[*out_count - 1];
        t->count++;
        t->passed += kvg_report_case_passes(c);
        t->failed += kvg_report_case_fails(c);
        t->compared += c->result.bytes.compared;
        t->mismatched += c->result.bytes.mismatched;
    }
    return KVG_OK;
}

static kvg_status tally_cases(kvg_report *r)
{
    const kvg_report_case **chosen = malloc((r->case_count + 1) * sizeof *chosen);
    size_t with_mode = 0;
    if (!chosen) return kvg_fail(KVG_ERR_MEMORY, "no memory for the summary of %zu cases", r->case_count);
    for (size_t i = 0; i < r->case_count; i++) {
        if (r->cases[i].mode[0]) chosen[with_mode++] = &r->cases[i];
    }
    r->without_mode = r->case_count - with_mode;
    kvg_status s = tally(chosen, with_mode, compare_modes, &r->modes, &r->mode_count);
    for (size_t i = 0; i < r->case_count; i++) chosen[i] = &r->cases[i];
    if (!s) s = tally(chosen, r->case_count, compare_layouts, &r->layouts, &r->layout_count);
    free(chosen);
    return s;
}

static kvg_status count_cells(kvg_report *r)
{
    r->cells = malloc((r->case_count + 1) * sizeof *r->cells);
    if (!r->cells) return kvg_fail(KVG_ERR_MEMORY, "no memory for the summary of %zu cases", r->case_count);
    for (size_t i = 0; i < r->case_count; i++) {
        const kvg_result *result = &r->cases[i].result;
        r->cells[i] = (kvg_cell){
            .asked = &r->cases[i].asked,
            .judged = r->cases[i].finished && kvg_verdict_judges(result->verdict),
        };
    }
    r->cell_count = kvg_cells_merge(r->cells, r->case_count);
    return KVG_OK;
}

static void count_totals(kvg_report *r)
{
    for (size_t i = 0; i < r->case_count; i++) {
        const kvg_report_case *c = &r->cases[i];
        r->unfinished += !c->finished;
        if (c->finished) r->verdicts[c->result.verdict]++;
    }
    for (int v = 0; v < KVG_VERDICT_COUNT; v++) r->failing += kvg_verdict_fails((kvg_verdict)v) ? r->verdicts[v] : 0;
    for (size_t i = 0; i < r->file_count; i++) r->seconds += r->files[i].seconds;
    for (size_t i = 0; i < r->group_count; i++) {
        const kvg_report_group *g = &r->groups[i];
        r->compared += g->compared;
        r->mismatched += g->mismatched;
        for (size_t k = 0; k < KVG_REPORT_CONTROLS; k++) {
            for (size_t n = 0; n < r->control_count; n++) r->control_totals[k] += g->controls[k][n];
        }
    }
}

kvg_status kvg_report_summarise(kvg_report *r)
{
    if (r->case_count) qsort(r->cases, r->case_count, sizeof r->cases[0], compare_cases);
    size_t group_count = 0;
    for (size_t i = 0; i < r->case_count; i++) {
        group_count += i == 0 || strcmp(r->cases[i - 1].storage, r->cases[i].storage) != 0;
    }
    r->groups = calloc(group_count + 1, sizeof r->groups[0]);
    double *scratch = malloc((2 * r->case_count + 1) * sizeof *scratch);
    if (!r->groups || !scratch) {
        free(scratch);
        return kvg_fail(KVG_ERR_MEMORY, "no memory for the summary of %zu cases", r->case_count);
    }
    for (size_t first = 0, next; first < r->case_count; first = next) {
        for (next = first + 1; next < r->case_count; next++) {
            if (strcmp(r->cases[first].storage, r->cases[next].storage) != 0) break;
        }
        kvg_report_group *g = &r->groups[r->group_count++];
        g->first = first;
        g->count = next - first;
        summarise_group(g, &r->cases[first], scratch);
    }
    free(scratch);
    count_totals(r);
    kvg_status s = count_cells(r);
    return s ? s : tally_cases(r);
}

/* --- columns --- */

void kvg_report_format_bytes(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit < 6) {
        value /= 1000;
        unit++;
    }
    snprintf(out, size, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void put_number(char *out, size_t size, const char *format, double x)
{
    if (isnan(x)) snprintf(out, size, "-");
    else if (isinf(x)) snprintf(out, size, x > 0 ? "inf" : "-inf");
    else if (x == 0) snprintf(out, size, "0");
    else snprintf(out, size, format, x); /* one of the literals below */
}

static void put_count(char *out, size_t size, uint64_t count)
{
    snprintf(out, size, "%" PRIu64, count);
}

static void put_storage(const kvg_report_group *g, char *out, size_t size) { snprintf(out, size, "%s", g->storage); }
static void put_bits(const kvg_report_group *g, char *out, size_t size) { put_number(out, size, "%.2f", g->bits); }
static void put_cases(const kvg_report_group *g, char *out, size_t size) { put_count(out, size, g->count); }
static void put_passed(const kvg_report_group *g, char *out, size_t size) { put_count(out, size, g->passed); }
static void put_ties(const kvg_report_group *g, char *out, size_t size)
{
    put_count(out, size, g->reach.met[KVG_MET_TIES]);
}

static void put_wrong(const kvg_report_group *g, char *out, size_t size) { put_count(out, size, g->mismatched); }
static void put_data(const kvg_report_group *g, char *out, size_t size)
{
    snprintf(out, size, "%s", g->data[0] ? g->data : "-");
}

static void put_codes(const kvg_report_group *g, char *out, size_t size)
{
    if (g->reach.codes_of) snprintf(out, size, "%u/%u", kvg_report_bits_set(g->reach.code_set),
                                    (unsigned)g->reach.codes_of);
    else snprintf(out, size, "-");
}

static void put_scales(const kvg_report_group *g, char *out, size_t size)
{
    const unsigned count = kvg_report_bits_set(g->reach.scale_set);
    if (count) snprintf(out, size, "%u", count);
    else snprintf(out, size, "-");
}

static void put_bytes(const kvg_report_group *g, char *out, size_t size)
{
    kvg_report_format_bytes(g->compared, out, size);
}

static void put_l2_k(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.3g", g->relative_l2[KVG_K]);
}

static void put_l2_v(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.3g", g->relative_l2[KVG_V]);
}

static void put_sqnr_k(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.1f", g->sqnr_db[KVG_K]);
}

static void put_sqnr_v(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.1f", g->sqnr_db[KVG_V]);
}

static void put_gain_k(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.1e", g->gain_error[KVG_K]);
}

static void put_gain_v(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.1e", g->gain_error[KVG_V]);
}

static void put_ratio(const kvg_report_group *g, char *out, size_t size)
{
    put_number(out, size, "%.3f", g->worst_ratio);
}

static bool has_failed(const kvg_report_group *g) { return g->failed > 0; }
static bool has_wrong(const kvg_report_group *g) { return g->mismatched > 0; }
static bool is_out_of_bound(const kvg_report_group *g) { return g->worst_ratio > 1; }

const kvg_report_column kvg_report_columns[] = {
    {"format.dialect", "format.dialect", 100, put_storage, NULL},
    {"bits", "bits/ element", 20, put_bits, NULL},
    {"cases", "cases", 95, put_cases, NULL},
    {"passed", "passed", 99, put_passed, has_failed},
    {"codes", "codes seen", 80, put_codes, NULL},
    {"scales", "scales seen", 50, put_scales, NULL},
    {"ties", "ties", 30, put_ties, NULL},
    {"bytes", "bytes compared", 85, put_bytes, NULL},
    {"wrong", "bytes wrong", 90, put_wrong, has_wrong},
    {"data", "data", 10, put_data, NULL},
    {"rel.L2 K", "rel. L2 K", 75, put_l2_k, NULL},
    {"rel.L2 V", "rel. L2 V", 75, put_l2_v, NULL},
    {"SQNR K", "SQNR K, dB", 60, put_sqnr_k, NULL},
    {"SQNR V", "SQNR V, dB", 60, put_sqnr_v, NULL},
    {"|g-1| K", "gain error K", 40, put_gain_k, NULL},
    {"|g-1| V", "gain error V", 40, put_gain_v, NULL},
    {"err/bnd", "error/ bound", 70, put_ratio, is_out_of_bound},
};
const size_t kvg_report_column_count = sizeof kvg_report_columns / sizeof kvg_report_columns[0];
