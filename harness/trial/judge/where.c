#include "harness/trial/judge/where.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/fit.h"
#include "harness/trial/judge/fit_keys.h"
#include "harness/trial/judge/fit_kinds.h"
#include "harness/trial/question/describe.h"

/* --- which values an axis takes --- */

enum { ASKED = 1, WRONG = 2 };

static void measure_extent(const uint8_t *seen, kvg_extent *e)
{
    uint32_t before = 0;
    e->count = e->asked = 0;
    e->step = 1;
    for (uint32_t i = 0; i < e->axis.of; i++) {
        e->asked += seen[i] != 0;
        if (!(seen[i] & WRONG)) continue;
        if (e->count == 0) e->first = i;
        if (e->count == 1) e->step = i - before;
        if (e->count > 1 && i - before != e->step) e->step = 0;
        before = e->last = i;
        e->count++;
    }
}

/* Whether a unit shows what an op does: it gives another byte than was there, or its row of op decode sees a key or a
 * sink. */
static bool is_written(const kvg_evidence *q, size_t index, uint64_t unit, size_t width)
{
    const kvg_tensor_set *before = &q->data->before;
    if (q->data->queries) {
        const kvg_tensor *lse = &q->expected[1];
        const uint64_t row = unit * lse->bytes / q->expected[index].bytes * width / sizeof(float);
        return !isinf(kvg_number_at(lse->dtype, lse->data, row));
    }
    return before->count == 0 || memcmp((const uint8_t *)q->expected[index].data + unit * width,
                                        (const uint8_t *)before->tensors[index].data + unit * width, width) != 0;
}

static kvg_status measure_extents(const kvg_evidence *q, const kvg_places *places, const uint8_t *wrong, kvg_where *w)
{
    const size_t width = kvg_places_unit(places, w->index);
    kvg_axis axes[KVG_MAX_AXES];
    uint8_t *seen[KVG_MAX_AXES] = {0};
    const size_t n = kvg_places_axes(places, w->index, axes);
    bool got = true;
    for (size_t a = 0; a < n; a++) {
        seen[a] = calloc(axes[a].of ? axes[a].of : 1, 1);
        got = got && seen[a];
    }
    w->tail_pages = got;
    for (uint64_t i = 0; got && i < w->all; i++) {
        uint32_t at[KVG_MAX_AXES];
        if (!wrong[i] && !is_written(q, w->index, i, width)) continue;
        kvg_places_at(places, w->index, i, at);
        for (size_t a = 0; a < n; a++) {
            if (at[a] < axes[a].of) seen[a][at[a]] |= wrong[i] ? ASKED | WRONG : ASKED;
        }
        if (!wrong[i]) continue;
        w->placeless += at[0] == KVG_NO_PLACE;
        w->tail_pages = w->tail_pages && kvg_places_in_tail(places, w->index, i);
    }
    for (size_t a = 0; got && a < n; a++) {
        kvg_extent *e = &w->extents[w->extent_count++];
        e->axis = axes[a];
        measure_extent(seen[a], e);
    }
    for (size_t a = 0; a < n; a++) free(seen[a]);
    return got ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the axes of a tensor");
}

/* "V codes and V scales": the axis of the parts of a pool. */
static void print_parts(const kvg_extent *e, char *out, size_t size)
{
    if (e->count == e->asked) return;
    if (e->count == 1) kvg_describe_add(out, size, "; only %s", kvg_places_part(e->first));
    else if (e->count == 2)
        kvg_describe_add(out, size, "; only %s and %s", kvg_places_part(e->first), kvg_places_part(e->last));
}

static void print_extent(const kvg_extent *e, char *out, size_t size)
{
    static const char *const ordinals[] = {"", "", "second", "third", "fourth"};
    const kvg_axis *axis = &e->axis;
    const bool scattered = !e->step && e->count > e->asked / 2; /* that happens by chance */
    if (e->count == 0 || e->count == e->asked || scattered) return;
    if (e->count == 1) kvg_describe_add(out, size, "; %s %u of %u", axis->name, e->first, axis->of);
    else if (e->step == 1)
        kvg_describe_add(out, size, "; %s %u to %u of %u", axis->plural, e->first, e->last, axis->of);
    else if (e->step > 1 && e->step < 5)
        kvg_describe_add(out, size, "; every %s of %s %u to %u of %u", ordinals[e->step], axis->plural, e->first,
                         e->last, axis->of);
    else if (e->step)
        kvg_describe_add(out, size, "; every %uth of %s %u to %u of %u", e->step, axis->plural, e->first, e->last,
                         axis->of);
    else kvg_describe_add(out, size, "; %u of %u %s, the first %u", e->count, axis->of, axis->plural, e->first);
}

static void print_extents(kvg_where *w)
{
    char text[KVG_WHERE_TEXT] = "";
    for (size_t i = 0; i < w->extent_count; i++) {
        const kvg_extent *e = &w->extents[i];
        if (strcmp(e->axis.name, "part") == 0) print_parts(e, text, sizeof text);
        else print_extent(e, text, sizeof text);
    }
    if (w->tail_pages) kvg_describe_add(text, sizeof text, "; only in the last page of sequences");
    if (w->placeless) kvg_describe_add(text, sizeof text, "; %llu in padding", (unsigned long long)w->placeless);
    snprintf(w->extent, sizeof w->extent, "%s", text[0] ? text + 2 : "");
}

/* --- what the wrong units have in common --- */

typedef struct common {
    bool constant, nan, ratio, difference, bits, untouched, row; /* row: the wrong rows of pools are one */
    double first, first_ratio;
    unsigned first_difference, first_bits, low, high;
    uint64_t lost; /* Inf or NaN where a number is right */
} common;

static float number_at(const kvg_tensor *t, uint64_t unit)
{
    return kvg_number_at(t->dtype, t->data, unit);
}

/* Two roundings of each of two numbers, of 24, 11 or 8 bits. */
static double rounding_of(kvg_dtype dtype)
{
    return dtype == KVG_DTYPE_F32 ? 0x1p-22 : dtype == KVG_DTYPE_F16 ? 0x1p-9 : 0x1p-6;
}

static void see_number(const kvg_tensor *want, const kvg_tensor *have, uint64_t i, common *c)
{
    const double right = number_at(want, i), got = number_at(have, i), ratio = got / right;
    if (isnan(c->first)) c->first = got;
    c->constant = c->constant && got == c->first;
    c->nan = c->nan && isnan(got);
    c->lost += isfinite(right) && !isfinite(got);
    if (right == 0 && got == 0) return; /* +0 and -0 have any ratio */
    if (isnan(c->first_ratio)) c->first_ratio = ratio;
    c->ratio = c->ratio && isfinite(ratio) && ratio != 0 && fabs(ratio - 1) > rounding_of(want->dtype) &&
               fabs(ratio - c->first_ratio) <= rounding_of(want->dtype) * fabs(c->first_ratio);
}

static void see_byte(const kvg_tensor *want, const kvg_tensor *have, uint64_t i, bool first, common *c)
{
    const uint8_t right = ((const uint8_t *)want->data)[i], got = ((const uint8_t *)have->data)[i];
    const unsigned difference = (unsigned)(got - right) & 0xFF, bits = (unsigned)(got ^ right);
    if (first) c->first_difference = difference, c->first_bits = bits;
    c->first = 0;
    c->constant = c->constant && got == 0;
    c->difference = c->difference && difference == c->first_difference;
    c->bits = c->bits && bits == c->first_bits;
    c->low |= bits & 0x0F;
    c->high |= bits & 0xF0;
}

static bool is_number(const kvg_tensor *t)
{
    return t->dtype == KVG_DTYPE_F16 || t->dtype == KVG_DTYPE_BF16 || t->dtype == KVG_DTYPE_F32;
}

/* A side's tensor scale; 1: its format has none. */
static double scale_of(const kvg_question *d, kvg_side side)
{
    return kvg_format_get(d->c->problem.storage[side].format)->tensor_scale ? (double)d->tensor_scale[side] : 1;
}

/* "; that is V's tensor scale, or sqrt(head_dim)": what a factor may be. */
static void name_factor(const kvg_evidence *q, kvg_dtype dtype, double factor, char *out, size_t size)
{
    const double k = scale_of(q->data, KVG_K), v = scale_of(q->data, KVG_V);
    const double root = sqrt(q->data->c->problem.head_dim);
    const struct {
        const char *name;
        double value;
    } known[] = {
        {"K's tensor scale", k}, {"1 / K's tensor scale", 1 / k}, {"V's tensor scale", v},
        {"1 / V's tensor scale", 1 / v}, {"K's tensor scale / V's", k / v}, {"V's tensor scale / K's", v / k},
        {"log2(e)", log2(exp(1))}, {"ln(2)", log(2)}, {"sqrt(head_dim)", root}, {"1 / sqrt(head_dim)", 1 / root},
    };
    const char *before = "; that is ";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].value == 1 || !(fabs(known[i].value - factor) <= rounding_of(dtype) * fabs(factor))) continue;
        kvg_describe_add(out, size, "%s%s", before, known[i].name);
        before = ", or ";
    }
}

/* Pieces of an output: of op decode the numbers that are written, of other ops that read pools the wrong rows. */
typedef struct pieces {
    uint64_t count;
    bool same, zero; /* all are one and the same; the first is 0 */
    size_t bytes;    /* of each */
    const uint8_t *first;
} pieces;

/* `of`: the answers or what is expected. */
static pieces compare_pieces(const kvg_evidence *q, const kvg_tensor *of, size_t index)
{
    const kvg_tensor *t = &of[index];
    const uint8_t *want = q->expected[index].data, *have = q->answer[index].data;
    pieces p = {.same = true};
    if (!have || t->bytes == 0) return p;
    const size_t units = q->data->queries ? 1 : t->shape[t->rank - 1];
    p.bytes = units * kvg_dtype_bytes(t->dtype);
    for (uint64_t i = 0; i < t->bytes / p.bytes && p.same; i++) {
        const uint8_t *now = (const uint8_t *)t->data + i * p.bytes;
        const bool wrong = memcmp(want + i * p.bytes, have + i * p.bytes, p.bytes) != 0;
        if (q->data->queries ? !is_written(q, index, i, p.bytes) : !wrong) continue;
        if (!p.first) p.first = now;
        p.same = is_number(t) ? kvg_differ_numbers(t->dtype, p.first, now, units).wrong == 0
                              : memcmp(p.first, now, p.bytes) == 0;
        p.count++;
    }
    p.zero = p.first && p.first[0] == 0 && memcmp(p.first, p.first + 1, p.bytes - 1) == 0;
    return p;
}

/* The wrong rows are one and the same, and the right ones there are not. */
static bool is_one_row(const kvg_evidence *q, size_t index, const pieces *rows)
{
    return rows->same && rows->count > 1 && !compare_pieces(q, q->expected, index).same;
}

static bool is_right_somewhere(const kvg_evidence *q, size_t index, const pieces *p)
{
    const kvg_tensor *want = &q->expected[index];
    bool found = false;
    for (uint64_t i = 0; i < want->bytes / p->bytes && !found; i++)
        found = is_written(q, index, i, p->bytes) &&
                memcmp((const uint8_t *)want->data + i * p->bytes, p->first, p->bytes) == 0;
    return found;
}

static void print_pattern(bool bytes, bool lost, const common *c, char *out, size_t size)
{
    if (c->untouched) snprintf(out, size, "each is what the tensor held before: not written");
    else if (c->row && c->constant) snprintf(out, size, "each row is the same one: each is %.9g", c->first);
    else if (c->row) snprintf(out, size, "each row is the same one%s", c->nan && !bytes ? ": each is NaN" : "");
    else if (c->constant) snprintf(out, size, "each is %.9g", c->first);
    else if (c->nan && !bytes) snprintf(out, size, "each is NaN");
    else if (lost) snprintf(out, size, "most are Inf or NaN");
    else if (c->ratio && !bytes) snprintf(out, size, "each is %.6g times the right one", c->first_ratio);
    else if (bytes && c->bits) snprintf(out, size, "each differs in the same bits: 0x%02X", c->first_bits);
    else if (bytes && c->difference)
        snprintf(out, size, "each is the right one %+d", (int)(c->first_difference ^ 0x80) - 0x80);
    else if (bytes && !c->high) snprintf(out, size, "only in low nibbles");
    else if (bytes && !c->low) snprintf(out, size, "only in high nibbles");
}

static kvg_status find_pattern(const kvg_evidence *q, const kvg_places *places, const uint8_t *wrong, kvg_where *w)
{
    enum { FEWEST_NUMBERS = 16, MANY_NUMBERS = 256 };
    const kvg_tensor *want = &q->expected[w->index], *have = &q->answer[w->index];
    common c = {.constant = true, .nan = true, .ratio = true, .first = NAN, .first_ratio = NAN, .difference = true,
                .bits = true};
    bool first = true;
    for (uint64_t i = 0; i < w->all; i++) {
        if (!wrong[i]) continue;
        if (is_number(want)) see_number(want, have, i, &c);
        else see_byte(want, have, i, first, &c);
        first = false;
    }
    const bool several = w->wrong > 1, many = w->wrong >= FEWEST_NUMBERS;
    const kvg_tensor_set *before = &q->data->before;
    c.untouched = several && kvg_differ_untouched(want->data, have->data, want->bytes, wrong,
                                                  kvg_places_unit(places, w->index),
                                                  before->count ? before->tensors[w->index].data : NULL);
    if (many && !c.untouched && kvg_question_reads_pools(q->data) && !q->data->queries) {
        const pieces rows = compare_pieces(q, q->answer, w->index);
        c.row = is_one_row(q, w->index, &rows);
    }
    kvg_status s = KVG_OK;
    if (!c.untouched && !c.row) s = judge_fit_rows(q, places, w->index, w->pattern, sizeof w->pattern);
    if (!s && !c.untouched && !w->pattern[0]) s = judge_fit_keys(q, w->index, w->pattern, sizeof w->pattern);
    w->fitted = w->pattern[0];
    if (s || w->pattern[0]) return s;
    const bool lost = is_number(want) && many && 10 * c.lost >= 9 * w->wrong;
    if (several) print_pattern(!is_number(want), lost, &c, w->pattern, sizeof w->pattern);
    const bool one = c.constant || (c.nan && is_number(want));
    const bool multiple = c.ratio && is_number(want) && !c.untouched && !one && several;
    if (multiple) name_factor(q, want->dtype, c.first_ratio, w->pattern, sizeof w->pattern);
    w->fitted = c.untouched || (multiple && many);
    if (w->fitted) return KVG_OK;
    char data[128];
    s = judge_fit_kinds(q, data, sizeof data);
    const bool nothing = c.first == 0 || (c.nan && is_number(want)); /* else garbage, unless it is much */
    const bool alike = one && many && (nothing || w->wrong >= MANY_NUMBERS);
    w->alike = (alike || c.row || (lost && !one)) && !data[0];
    w->fitted = w->alike || data[0];
    if (data[0] && (!many || (one && !nothing))) w->pattern[0] = 0; /* few bytes are alike by chance */
    if (data[0]) kvg_describe_add(w->pattern, sizeof w->pattern, "%s%s", w->pattern[0] ? "; " : "", data);
    return s;
}

bool kvg_where_constant(const kvg_evidence *q, size_t count)
{
    bool constant = false, zero = !q->data->queries;
    if (!kvg_question_reads_pools(q->data)) return false;
    for (size_t index = 0; index < count; index++) {
        const pieces p = compare_pieces(q, q->answer, index);
        if (!p.same) return false;
        if (q->data->queries) constant = constant || p.count > 0;
        else constant = constant || (is_one_row(q, index, &p) && !is_right_somewhere(q, index, &p));
        zero = zero && (p.zero || p.count == 0);
    }
    return constant && !zero;
}

bool kvg_where_explains(bool constant, const kvg_wrong *wrongs, size_t count, kvg_op op)
{
    return !constant || kvg_wrong_changes_outputs(wrongs, count, op);
}

/* --- the first of them, in words --- */

static void describe_decoded(const kvg_evidence *q, const kvg_places *places, kvg_where *w)
{
    const kvg_question *d = q->data;
    uint32_t at[KVG_MAX_AXES];
    kvg_axis axes[KVG_MAX_AXES];
    kvg_places_at(places, w->index, w->first, at);
    const bool is_out = kvg_places_axes(places, w->index, axes) == 5;
    char dim[32] = "", right[96];
    const size_t row = w->first / (is_out ? (size_t)axes[4].of * axes[2].of : axes[2].of);
    if (is_out) snprintf(dim, sizeof dim, ", dim %u", at[4]);
    if (q->truth) {
        const kvg_attention_answer *e = &q->truth->exact;
        snprintf(right, sizeof right, "%.9g within %.3g", (is_out ? e->out : e->lse)[w->first],
                 (is_out ? e->out_bound : e->lse_bound)[w->first]);
    } else {
        snprintf(right, sizeof right, "%.9g", (double)number_at(&q->expected[w->index], w->first));
    }
    snprintf(w->at, sizeof w->at,
             "sequence %u, query %u (position %lld), head %u (KV head %u)%s: expected %s, got %.9g", at[0], at[1],
             (long long)d->queries[row].position, at[2], at[3], dim, right,
             (double)number_at(&q->answer[w->index], w->first));
}

static void describe_first(const kvg_evidence *q, const kvg_places *places, kvg_where *w)
{
    const kvg_tensor *want = &q->expected[w->index];
    if (q->data->queries) {
        describe_decoded(q, places, w);
        return;
    }
    const size_t byte = w->first * kvg_places_unit(places, w->index);
    kvg_describe_byte(q->data, w->index, want, &q->answer[w->index], byte, w->at, sizeof w->at);
}

/* --- the whole --- */

static void mark_bits(const kvg_tensor *want, const kvg_tensor *have, size_t width, uint8_t *wrong)
{
    for (size_t i = 0; i < want->bytes / width; i++) {
        wrong[i] = memcmp((const uint8_t *)want->data + i * width, (const uint8_t *)have->data + i * width, width) != 0;
    }
}

static void mark_numbers(const kvg_truth *t, size_t index, const kvg_tensor *have, uint8_t *wrong)
{
    const kvg_attention_answer *e = &t->exact;
    for (size_t i = 0; i < (index ? t->rows : t->outputs); i++) {
        wrong[i] = kvg_attention_ratio(number_at(have, i), (index ? e->lse : e->out)[i],
                                       (index ? e->lse_bound : e->out_bound)[i]) > 1;
    }
}

kvg_status kvg_where_find(const kvg_evidence *q, const kvg_places *places, size_t index, kvg_where *out)
{
    const kvg_tensor *want = &q->expected[index], *have = &q->answer[index];
    *out = (kvg_where){.index = index};
    if (!have->data || want->bytes == 0) return KVG_OK;
    const size_t width = kvg_places_unit(places, index);
    out->all = want->bytes / width;
    uint8_t *wrong = malloc(out->all);
    if (!wrong) return kvg_fail(KVG_ERR_MEMORY, "cannot mark %llu numbers", (unsigned long long)out->all);
    if (q->truth) mark_numbers(q->truth, index, have, wrong);
    else mark_bits(want, have, width, wrong);
    for (uint64_t i = 0; i < out->all; i++) {
        if (wrong[i] && out->wrong++ == 0) out->first = i;
    }
    kvg_status s = out->wrong ? measure_extents(q, places, wrong, out) : KVG_OK;
    if (!s && out->wrong) {
        print_extents(out);
        s = find_pattern(q, places, wrong, out);
        describe_first(q, places, out);
    }
    free(wrong);
    return s;
}
