#include "harness/matrix/matrix_print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

enum { CELL_TEXT = 64, MAX_DEFECTS = 26 };

/* Defects that explain readings, each with a letter. */
typedef struct legend {
    const char *defects[MAX_DEFECTS];
    size_t count;
} legend;

static char letter_of(legend *l, const char *defect)
{
    size_t i = 0;
    while (i < l->count && strcmp(l->defects[i], defect) != 0) i++;
    if (i == MAX_DEFECTS) return '?';
    if (i == l->count) l->defects[l->count++] = defect;
    return (char)('a' + i);
}

/* --- cells --- */

/* The relative error of the worse side, which is named where the other one is right. */
static int error_text(const kvg_matrix_error *e, char *out)
{
    const bool k = e->ratio[KVG_K] > 1, v = e->ratio[KVG_V] > 1;
    const double worst_of_both = fmax(e->relative_l2[KVG_K], e->relative_l2[KVG_V]);
    const double worst = k && v ? worst_of_both : e->relative_l2[k ? KVG_K : KVG_V];
    const char *side = k && v ? "" : k ? " K" : " V";
    if (isinf(worst)) return snprintf(out, CELL_TEXT, "NaN%s", side);
    return snprintf(out, CELL_TEXT, "%.2g%s", worst, side);
}

static void verdict_text(const kvg_matrix_cell *c, legend *l, char *out)
{
    (void)l;
    switch (c->verdict) {
    case KVG_MATRIX_ABSENT: snprintf(out, CELL_TEXT, "-"); break;
    case KVG_MATRIX_READS:
        snprintf(out, CELL_TEXT, "%.3f", fmax(c->after.ratio[KVG_K], c->after.ratio[KVG_V]));
        break;
    case KVG_MATRIX_CONVERTS:
        snprintf(out, CELL_TEXT, "%s%s%s", c->conversions & KVG_CONVERT_BYTES ? "B" : "",
                 c->conversions & KVG_CONVERT_ORDER ? "O" : "", c->conversions & KVG_CONVERT_NUMBER ? "N" : "");
        break;
    case KVG_MATRIX_WRONG:
        out[0] = '!';
        error_text(&c->after, out + 1);
        break;
    case KVG_MATRIX_FAILED: snprintf(out, CELL_TEXT, "FAILED"); break;
    }
}

static void as_is_text(const kvg_matrix_cell *c, legend *l, char *out)
{
    if (c->verdict == KVG_MATRIX_ABSENT || c->verdict == KVG_MATRIX_FAILED) verdict_text(c, l, out);
    else if (!c->same_sizes) snprintf(out, CELL_TEXT, "sizes");
    else if (kvg_matrix_right(&c->as_is)) snprintf(out, CELL_TEXT, "=");
    else {
        const int used = error_text(&c->as_is, out);
        if (c->defect[0]) snprintf(out + used, (size_t)(CELL_TEXT - used), " %c", letter_of(l, c->defect));
    }
}

typedef void cell_text(const kvg_matrix_cell *c, legend *l, char *out);

static void print_rule(size_t columns, FILE *out)
{
    fputs("| --- |", out);
    for (size_t i = 0; i < columns; i++) fputs(" --- |", out);
    fputc('\n', out);
}

/* The columns of readers `first` to `end` - 1; each cell has `width` columns, the writers' names have `head`. */
static void print_readers(const kvg_matrix *m, bool markdown, cell_text *text, legend *l, int head, int width,
                          size_t first, size_t end, FILE *out)
{
    char cell[CELL_TEXT];
    if (markdown) fputs("| writer, reader |", out);
    else fprintf(out, "%-*s", head, "writer, reader");
    for (size_t k = first; k < end; k++) fprintf(out, markdown ? " %*zu |" : "  %*zu", markdown ? 1 : width, k + 1);
    fputc('\n', out);
    if (markdown) print_rule(end - first, out);
    for (size_t i = 0; i < m->count; i++) {
        if (markdown) fprintf(out, "| %zu %s |", i + 1, m->parties[i].name);
        else fprintf(out, "%2zu  %-*s", i + 1, head - 4, m->parties[i].name);
        for (size_t k = first; k < end; k++) {
            text(kvg_matrix_at(m, i, k), l, cell);
            fprintf(out, markdown ? " %*s |" : "  %*s", markdown ? 1 : width, cell);
        }
        fputc('\n', out);
    }
}

/* In `columns` columns, 0: in as many as it takes. Where the readers do not fit beside each other, further ones follow
 * below. */
static void print_grid(const kvg_matrix *m, bool markdown, unsigned columns, cell_text *text, legend *l, FILE *out)
{
    char cell[CELL_TEXT];
    int head = 0, width = 0;
    for (size_t i = 0; i < m->count; i++) {
        const int name = (int)strlen(m->parties[i].name) + 4;
        if (name > head) head = name;
    }
    for (size_t i = 0; i < m->count * m->count; i++) {
        text(&m->cells[i], l, cell);
        if ((int)strlen(cell) > width) width = (int)strlen(cell);
    }
    size_t beside = m->count;
    if (columns && !markdown) {
        const int fit = ((int)columns - head) / (width + 2);
        beside = fit < 1 ? 1 : (size_t)fit;
    }
    for (size_t first = 0; first < m->count; first += beside) {
        const size_t end = first + beside < m->count ? first + beside : m->count;
        if (first) fputc('\n', out);
        print_readers(m, markdown, text, l, head, width, first, end, out);
    }
}

/* --- the page --- */

static const char *convention_of(const kvg_engine *e)
{
    static const char *const names[] = {"", "P1", "P2", "P3", "P4"};
    return kvg_format_get(e->format)->tensor_scale ? names[e->convention] : "-";
}

static const char *number_of(const kvg_engine *e)
{
    return kvg_format_get(e->format)->tensor_scale ? kvg_scale_number_name(e->number) : "-";
}

static const char *v_scales_of(const kvg_engine *e)
{
    return !kvg_format_get(e->format)->block ? "-" : e->swizzle ? "groups of 4" : "linear";
}

static void print_parties(const kvg_matrix *m, bool markdown, FILE *out)
{
    static const char *const heads[] = {"",        "who",   "layout", "V scales", "dialect",
                                        "K order", "scale", "number", "source"};
    enum { COLUMNS = sizeof heads / sizeof heads[0] };
    const char *rows[KVG_MATRIX_PARTIES + 1][COLUMNS];
    char numbers[KVG_MATRIX_PARTIES][4];
    size_t width[COLUMNS] = {0};
    memcpy(rows[0], heads, sizeof heads);
    for (size_t i = 0; i < m->count; i++) {
        const kvg_engine *e = m->parties[i].engine;
        snprintf(numbers[i], sizeof numbers[i], "%zu", (i + 1) % 1000);
        const char *const row[COLUMNS] = {
            numbers[i], m->parties[i].name, kvg_layout_get(e->layout)->name, v_scales_of(e), e->dialect,
            kvg_engine_order_name(e->order), convention_of(e), number_of(e), e->source};
        memcpy(rows[i + 1], row, sizeof row);
    }
    for (size_t i = 0; i <= m->count; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            if (strlen(rows[i][k]) > width[k]) width[k] = strlen(rows[i][k]);
        }
    }
    for (size_t i = 0; i <= m->count; i++) {
        if (markdown) fputs("|", out);
        for (size_t k = 0; k < COLUMNS; k++) {
            const int pad = markdown || k + 1 == COLUMNS ? 1 : (int)width[k];
            fprintf(out, markdown ? " %-*s |" : "%-*s  ", pad, rows[i][k]);
        }
        fputc('\n', out);
        if (markdown && i == 0) print_rule(COLUMNS - 1, out);
    }
    fputc('\n', out);
}

/* Why cells are not there, each text once, with the first writer and reader. */
static void print_notes(const kvg_matrix *m, FILE *out)
{
    size_t told = 0;
    for (size_t i = 0; i < m->count * m->count; i++) {
        size_t k = 0;
        if (!m->cells[i].note[0]) continue;
        while (strcmp(m->cells[k].note, m->cells[i].note) != 0) k++;
        if (k != i) continue;
        fprintf(out, "%s%zu, %zu: %s\n", told++ ? "" : "\n", i / m->count + 1, i % m->count + 1, m->cells[i].note);
    }
}

void kvg_matrix_print(const kvg_matrix *m, bool markdown, unsigned columns, FILE *out)
{
    legend l = {0};
    fprintf(out, "%s%s, K and V in %s: %u KV heads, head_dim %u, blocks of %u tokens, up to %u tokens, seed 0x%" PRIx64
                 "\n\n",
            markdown ? "### " : "", kvg_format_get(m->shape.format)->name, kvg_dtype_name(m->shape.dtype),
            m->shape.kv_heads, m->shape.head_dim, m->shape.block_tokens, m->shape.tokens, m->shape.seed);
    print_parties(m, markdown, out);
    fputs("Which engines read which pages. A number: the bytes are read as they are (worst error / bound).\n"
          "Letters: after a conversion. B moves rows to the reader's places, O reorders K's elements,\n"
          "N gives the tensor scale as the reader means it.\n"
          "!: only by decoding and quantising again (relative error). -: does not apply.\n\n",
          out);
    print_grid(m, markdown, columns, verdict_text, &l, out);
    fputs("\nRead as they are. =: right. sizes: the pools have other sizes. Else the relative error and why.\n\n", out);
    print_grid(m, markdown, columns, as_is_text, &l, out);
    for (size_t i = 0; i < l.count; i++) {
        fprintf(out, "%s%s%c: as if the reader had the defect %s\n", i ? "" : "\n", markdown ? "* " : "",
                (char)('a' + i), l.defects[i]);
    }
    print_notes(m, out);
}

/* --- JSON --- */

static const char *const verdict_names[] = {"absent", "reads", "converts", "wrong", "failed"};

static void add_number(cJSON *to, const char *key, double x)
{
    if (isfinite(x)) cJSON_AddNumberToObject(to, key, x);
    else cJSON_AddNullToObject(to, key);
}

static void add_error(cJSON *to, const char *key, const kvg_matrix_error *error)
{
    cJSON *item = cJSON_AddObjectToObject(to, key);
    for (int side = KVG_K; side <= KVG_V; side++) {
        cJSON *one = cJSON_AddObjectToObject(item, side == KVG_K ? "k" : "v");
        add_number(one, "ratio", error->ratio[side]);
        add_number(one, "relative_l2", error->relative_l2[side]);
    }
}

static cJSON *party_json(const kvg_matrix_party *party)
{
    const kvg_engine *e = party->engine;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", party->name);
    cJSON_AddStringToObject(item, "engine", e->name);
    if (party->answer) cJSON_AddStringToObject(item, "file", party->answer);
    else cJSON_AddStringToObject(item, "backend", party->backend ? party->backend : "reference");
    cJSON_AddStringToObject(item, "layout", e->text ? e->text->text : kvg_layout_get(e->layout)->name);
    cJSON_AddStringToObject(item, "dialect", e->dialect);
    cJSON_AddBoolToObject(item, "v_scale_swizzle", e->swizzle);
    cJSON_AddStringToObject(item, "k_order", kvg_engine_order_name(e->order));
    cJSON_AddStringToObject(item, "convention", convention_of(e));
    cJSON_AddStringToObject(item, "number", number_of(e));
    cJSON_AddStringToObject(item, "source", e->source);
    return item;
}

static cJSON *cell_json(const kvg_matrix *m, size_t writer, size_t reader)
{
    const kvg_matrix_cell *c = kvg_matrix_at(m, writer, reader);
    const bool read = c->verdict != KVG_MATRIX_ABSENT && c->verdict != KVG_MATRIX_FAILED;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "writer", m->parties[writer].name);
    cJSON_AddStringToObject(item, "reader", m->parties[reader].name);
    cJSON_AddStringToObject(item, "verdict", verdict_names[c->verdict]);
    if (read && c->same_sizes) add_error(item, "as_is", &c->as_is);
    if (c->defect[0]) cJSON_AddStringToObject(item, "defect", c->defect);
    if (read) {
        cJSON *list = cJSON_AddArrayToObject(item, "conversions");
        for (unsigned bit = KVG_CONVERT_BYTES; bit <= KVG_CONVERT_NUMBER; bit <<= 1) {
            if (!(c->conversions & bit)) continue;
            cJSON_AddItemToArray(list, cJSON_CreateString(kvg_conversion_name((kvg_conversion)bit)));
        }
        add_error(item, "after", &c->after);
    }
    if (c->note[0]) cJSON_AddStringToObject(item, "note", c->note);
    return item;
}

kvg_status kvg_matrix_json(const kvg_matrix *m, cJSON *array)
{
    char seed[32];
    cJSON *item = cJSON_CreateObject();
    snprintf(seed, sizeof seed, "0x%" PRIx64, m->shape.seed);
    cJSON_AddStringToObject(item, "format", kvg_format_get(m->shape.format)->name);
    cJSON_AddStringToObject(item, "dtype", kvg_dtype_name(m->shape.dtype));
    cJSON_AddNumberToObject(item, "kv_heads", m->shape.kv_heads);
    cJSON_AddNumberToObject(item, "head_dim", m->shape.head_dim);
    cJSON_AddNumberToObject(item, "block_tokens", m->shape.block_tokens);
    cJSON_AddNumberToObject(item, "tokens", m->shape.tokens);
    cJSON_AddStringToObject(item, "seed", seed);
    cJSON *parties = cJSON_AddArrayToObject(item, "parties"), *cells = cJSON_AddArrayToObject(item, "cells");
    bool held = parties && cells;
    for (size_t i = 0; held && i < m->count; i++) held = cJSON_AddItemToArray(parties, party_json(&m->parties[i]));
    for (size_t i = 0; held && i < m->count * m->count; i++) {
        held = cJSON_AddItemToArray(cells, cell_json(m, i / m->count, i % m->count));
    }
    if (held && cJSON_AddItemToArray(array, item)) return KVG_OK;
    cJSON_Delete(item);
    return kvg_fail(KVG_ERR_MEMORY, "cannot hold the JSON of %zu cells", m->count * m->count);
}
