#include "harness/trial/judge/fit_numbers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/fit_scales.h"
#include "harness/trial/question/describe.h"

/* A number that was read, in units of its row: code 0 stands for 0, code `top` for 1. So rows of any scales are alike.
 */
typedef struct reading {
    uint32_t code;
    bool wrong;
    double right, got, off; /* off: how far `got` may be, as it was rounded */
} reading;

/* What a code was read as, in all rows. */
typedef struct sense {
    size_t met, wrong, contradicted; /* contradicted: read as something else than before */
    double low, high, right;         /* low = high: NaN or Inf */
} sense;

typedef struct findings {
    sense of[256];
    size_t shifted, others; /* wrong blocks: off by a line, or not */
    size_t scaled, moved;   /* of the first: of another slope, of another offset */
} findings;

typedef struct scene {
    const kvg_question *d;
    kvg_side side;
    const kvg_format_info *format;
    const kvg_tensor *codes, *scales, *right, *got; /* encoders: right codes, numbers to encode, codes */
    uint32_t dim, span, top; /* elements of a row, and of a scale; top: code with the largest number, 0: not known */
    double loss, most;       /* of the type of the numbers: relative, of one that is rounded; the largest */
} scene;

/* --- readings --- */

/* The code whose number is the furthest from that of code 0. */
static uint32_t find_top(const scene *s, const float *table)
{
    uint32_t top = 0;
    for (uint32_t c = 1; c < 1u << s->format->element_bits; c++) {
        const double far = fabs((double)table[(size_t)c * s->dim] - table[0]);
        if (isfinite(far) && far > fabs((double)table[(size_t)top * s->dim] - table[0])) top = c;
    }
    return top;
}

/* Code number k of a row, in the order of its bytes, and its dim. */
static uint32_t code_at(const scene *s, const kvg_tensor *codes, size_t row, size_t k)
{
    const uint8_t *bytes = (const uint8_t *)codes->data + row * (size_t)codes->shape[2];
    return s->format->element_bits == 4 ? bytes[k / 2] >> k % 2 * 4 & 15 : bytes[k];
}

static uint32_t dim_at(const scene *s, size_t k)
{
    return s->format->element_bits == 4 ? kvg_reference_code_dim(&s->d->rows, s->side, k / 2, k % 2) : (uint32_t)k;
}

/* What a number is in units of its row, and what such a unit is; false: its scale is 0, no number or too large. */
static bool find_unit(const scene *s, const float *table, uint32_t dim, double *zero, double *unit)
{
    *zero = table[dim];
    *unit = table[(size_t)s->top * s->dim + dim] - *zero;
    return *unit != 0 && fabs(*unit) + fabs(*zero) <= s->most / 2; /* else numbers overflow */
}

/* The readings of a row; those of an element without a unit have no code below 256. */
static void read_row(const scene *s, size_t row, const float *table, reading *to)
{
    for (size_t k = 0; k < s->dim; k++) {
        const uint32_t i = dim_at(s, k), code = code_at(s, s->codes, row, k);
        const double right = kvg_number_at(s->right->dtype, s->right->data, row * s->dim + i);
        const double got = kvg_number_at(s->got->dtype, s->got->data, row * s->dim + i);
        double zero, unit;
        const bool usable = find_unit(s, table, i, &zero, &unit);
        to[i] = (reading){.code = usable ? code : 256,
                          .wrong = isnan(got) ? !isnan(right) : got != right,
                          .right = (table[(size_t)code * s->dim + i] - zero) / unit, .got = (got - zero) / unit,
                          .off = (s->loss * (fabs(got) + fabs(zero)) + 0x1p-24) / fabs(unit)};
    }
}

/* --- codes --- */

static void see_code(const reading *r, sense *of)
{
    const bool same = isfinite(r->got) ? r->got + r->off >= of->low && r->got - r->off <= of->high :
                                         isnan(of->low) ? isnan(r->got) : r->got == of->low;
    of->wrong += r->wrong;
    of->right = r->right;
    if (of->met++ == 0) {
        of->low = of->high = r->got;
        if (isfinite(r->got)) of->low -= r->off, of->high += r->off;
    } else if (!same) {
        of->contradicted++;
    } else if (isfinite(r->got)) {
        of->low = fmax(of->low, r->got - r->off);
        of->high = fmin(of->high, r->got + r->off);
    }
}

/* The code that stands for what code `c` was read as; -1: none does. */
static int meaning_of(const findings *f, uint32_t c)
{
    const double is = (f->of[c].low + f->of[c].high) / 2, near = (f->of[c].high - f->of[c].low) / 2 + 0x1p-10;
    int best = -1;
    for (int k = 0; k < 256; k++) {
        if (!f->of[k].met || !(fabs(f->of[k].right - is) <= near)) continue;
        if (best < 0 || fabs(f->of[k].right - is) < fabs(f->of[best].right - is)) best = k;
    }
    return best;
}

static void print_meaning(const findings *f, uint32_t c, int digits, char *out, size_t size)
{
    const int meaning = meaning_of(f, c);
    kvg_describe_add(out, size, "%s0x%0*X%s as ", out[0] ? ", " : "code ", digits, c, out[0] ? "" : " is read");
    if (isnan(f->of[c].low)) kvg_describe_add(out, size, "NaN");
    else if (isinf(f->of[c].low)) kvg_describe_add(out, size, "Inf");
    else if (!isfinite(f->of[c].right)) kvg_describe_add(out, size, "a number");
    else if (meaning < 0) kvg_describe_add(out, size, "another number");
    else kvg_describe_add(out, size, "0x%0*X", digits, (unsigned)meaning);
}

/* A code is seen four times on the average, so that its numbers are alike by no chance. Where most codes are read as
 * one number, or as none, they are not read. */
static void print_codes(const scene *s, const findings *f, char *out, size_t size)
{
    enum { FEWEST = 6, EACH = 4, LISTED = 4 };
    size_t met = 0, changed = 0, wrong = 0, contradicted = 0;
    int plus = 0, first = -1;
    bool constant = true, all_plus = true;
    for (int c = 0; c < 256; c++) {
        const sense *of = &f->of[c];
        met += of->met > 0;
        if (!of->wrong) continue;
        const int n = meaning_of(f, (uint32_t)c) - c;
        if (changed == 0) plus = n;
        if (first < 0 && isfinite(of->low)) first = c;
        const bool other = isfinite(of->low) && (of->low > f->of[first].high || of->high < f->of[first].low);
        constant = constant && !other;
        all_plus = all_plus && n == plus && n >= -c;
        changed++;
        wrong += of->wrong;
        contradicted += of->contradicted;
    }
    if (wrong < FEWEST || wrong < EACH * changed || 20 * contradicted > wrong) return;
    if (constant && 2 * changed > met) return;
    if (plus == 0 && all_plus) return; /* they are as good as right */
    if (changed > 2 && all_plus) kvg_describe_add(out, size, "each wrong code is read as the code %+d", plus);
    else if (changed > LISTED) kvg_describe_add(out, size, "codes are read as other numbers, each code always as the "
                                                           "same one");
    for (uint32_t c = 0; c < 256 && !(changed > 2 && all_plus) && changed <= LISTED; c++) {
        if (f->of[c].wrong) print_meaning(f, c, s->format->element_bits / 4, out, size);
    }
}

/* --- scales --- */

/* Where the numbers of a block that is wrong follow from the right ones by a line, which meets 0 at 0 if rows have no
 * offset. All that are 0 or no number tell nothing: the block is left out. */
static void see_block(const scene *s, const reading *r, double zero, findings *f)
{
    enum { FEWEST = 4, SMALL = 16 };
    const bool affine = s->format->scales == KVG_SCALES_AFFINE;
    uint32_t low = s->span, high = 0;
    bool wrong = false;
    size_t seen = 0;
    for (uint32_t i = 0; i < s->span; i++) {
        wrong = wrong || r[i].wrong;
        if (r[i].code > 255 || !isfinite(r[i].got) || !isfinite(r[i].right)) continue;
        if (seen++ == 0) low = high = i;
        if (r[i].right < r[low].right) low = i;
        if (r[i].right > r[high].right) high = i;
    }
    if (!wrong || seen < FEWEST || r[high].right == r[low].right) return;
    const double off = r[low].off + r[high].off, range = r[high].got - r[low].got;
    const double slope = range / (r[high].right - r[low].right), offset = r[low].got - slope * r[low].right;
    if (SMALL * off > fabs(range)) return;
    bool fits = affine || fabs(slope * zero + offset - zero) <= 2 * off;
    size_t between = 0;
    for (uint32_t i = 0; i < s->span && fits; i++) {
        if (r[i].code > 255 || !isfinite(r[i].got) || !isfinite(r[i].right)) continue;
        fits = fabs(slope * r[i].right + offset - r[i].got) <= off + r[i].off;
        between += r[i].code != r[low].code && r[i].code != r[high].code;
    }
    if (fits && between < FEWEST) return;
    f->shifted += fits;
    f->others += !fits;
    f->scaled += fits && fabs(slope - 1) > 2 * off;
    f->moved += fits && fabs(slope * zero + offset - zero) > 2 * off;
}

static void print_scales(const findings *f, char *out, size_t size)
{
    enum { FEWEST = 4 };
    if (f->shifted < FEWEST || f->shifted < 9 * f->others) return;
    if (20 * (f->scaled + f->moved) < f->shifted) {
        kvg_describe_add(out, size, "codes and scales are read rightly, numbers are rounded otherwise");
        return;
    }
    kvg_describe_add(out, size, "codes are read rightly, beside other %s",
                     9 * f->moved < f->scaled ? "scales" : 9 * f->scaled < f->moved ? "offsets" : "scales and offsets");
}

/* --- half a code --- */

/* Elements that are wrong, and those of them that are what nibble i of the row stands for, of element i of 8 bits. */
typedef struct halves {
    size_t wrong, alike, distinct;
    bool met[16];
} halves;

static void see_halves(const scene *s, size_t row, const float *table, halves *h)
{
    const uint8_t *bytes = (const uint8_t *)s->codes->data + row * (size_t)s->codes->shape[2];
    for (uint32_t i = 0; i < s->dim; i++) {
        const unsigned code = bytes[i / 2] >> i % 2 * 4 & 15;
        const double number = table[(size_t)code * s->dim + i];
        const double right = kvg_number_at(s->right->dtype, s->right->data, row * s->dim + i);
        const double got = kvg_number_at(s->got->dtype, s->got->data, row * s->dim + i);
        if (got == right || (isnan(got) && isnan(right)) || !isfinite(number)) continue;
        h->wrong++;
        if (!(fabs(got - number) <= s->loss * fabs(number))) continue;
        h->alike++;
        h->distinct += !h->met[code];
        h->met[code] = true;
    }
}

static void print_halves(const halves *h, char *out, size_t size)
{
    enum { FEWEST = 32, DISTINCT = 4 };
    if (h->alike < FEWEST || 20 * h->alike < 19 * h->wrong || h->distinct < DISTINCT) return;
    kvg_describe_add(out, size, "codes are read as ones of 4 bits: number i of a row is that of nibble i");
}

/* --- encoders --- */

/* What a number, in units of its row, was stored as. */
typedef struct sample {
    double number;
    uint32_t code;
    bool wrong;
} sample;

static int by_number(const void *x, const void *y)
{
    const sample *a = x, *b = y;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return (a->code > b->code) - (a->code < b->code);
}

static size_t sample_row(const scene *s, size_t row, const float *table, sample *to)
{
    size_t count = 0;
    for (size_t k = 0; k < s->dim; k++) {
        const uint32_t i = dim_at(s, k), code = code_at(s, s->got, row, k);
        const double x = kvg_number_at(s->right->dtype, s->right->data, row * s->dim + i);
        double zero, unit;
        if (!find_unit(s, table, i, &zero, &unit) || !isfinite(x)) continue;
        to[count++] = (sample){(x - zero) / unit, code, code != code_at(s, s->codes, row, k)};
    }
    return count;
}

/* In the order of the numbers each code stands for one run of them, but for a few; and beside a wrong code stands the
 * same one. By chance nearly every number would begin a run. */
static void print_samples(sample *samples, size_t count, char *out, size_t size)
{
    enum { FEWEST = 16, EACH = 8, CODES = 4 };
    bool met[256] = {false};
    size_t distinct = 0, runs = 0, wrong = 0, alike = 0;
    qsort(samples, count, sizeof *samples, by_number);
    for (size_t i = 0; i < count; i++) {
        const bool before = i > 0 && samples[i - 1].code == samples[i].code;
        const bool behind = i + 1 < count && samples[i + 1].code == samples[i].code;
        distinct += !met[samples[i].code];
        met[samples[i].code] = true;
        runs += !before;
        wrong += samples[i].wrong;
        alike += samples[i].wrong && (before || behind);
    }
    if (wrong < FEWEST || distinct < CODES || count < EACH * distinct) return;
    if (4 * runs > 5 * distinct + 8 || 10 * alike < 9 * wrong) return;
    kvg_describe_add(out, size, "numbers are rounded to other codes: beside right scales each code follows from its "
                                "number");
}

/* Blocks with a wrong code: those where the larger number never has the code of the smaller one, and those where a
 * quarter of the steps from a number to the next larger one do not follow: of unrelated codes about half do not. */
typedef struct orders {
    size_t kept, broken, right; /* right: blocks without */
} orders;

/* Blocks of few codes tell nothing. */
static void see_orders(const scene *s, size_t row, const float *table, orders *o)
{
    enum { CODES = 4 };
    sample at[KVG_MAX_HEAD_DIM];
    for (uint32_t first = 0; first < s->dim; first += s->span) {
        size_t count = 0, distinct = 0, falls = 0;
        bool met[256] = {false}, wrong = false;
        double zero, unit;
        for (size_t k = 0; k < s->dim; k++) {
            const uint32_t i = dim_at(s, k), code = code_at(s, s->got, row, k);
            const double x = kvg_number_at(s->right->dtype, s->right->data, row * s->dim + i);
            if (i < first || i >= first + s->span || !isfinite(x) || !find_unit(s, table, i, &zero, &unit)) continue;
            at[count++] = (sample){x, code, false};
            wrong = wrong || code != code_at(s, s->codes, row, k);
            distinct += !met[code];
            met[code] = true;
        }
        qsort(at, count, sizeof *at, by_number);
        for (size_t i = 1; i < count; i++) {
            const double step = (double)table[(size_t)at[i].code * s->dim + first] -
                                table[(size_t)at[i - 1].code * s->dim + first];
            falls += at[i].number > at[i - 1].number && !(step >= 0);
        }
        o->right += !wrong;
        if (!wrong || distinct < CODES) continue;
        o->kept += falls == 0;
        o->broken += 4 * falls >= count;
    }
}

/* What spoils codes alone spoils those of most blocks. Rows without scales have none that are right. */
static void print_orders(const scene *s, const orders *o, char *out, size_t size)
{
    enum { FEWEST = 8 };
    if (o->kept >= FEWEST && o->kept >= 9 * o->broken)
        kvg_describe_add(out, size, "numbers are rounded to other codes: beside right scales the larger number of a "
                                    "block never has the smaller code");
    else if (s->format->scales != KVG_SCALES_NONE && o->broken >= FEWEST && o->broken >= 9 * o->kept &&
             o->broken > o->right)
        kvg_describe_add(out, size, "scales are right, and codes follow from no numbers of their blocks");
}

/* --- the whole --- */

/* table: what each code of the row stands for. */
static kvg_status tabulate(scene *s, size_t row, float *table)
{
    const uint8_t *scales = (const uint8_t *)s->scales->data + row * (size_t)s->scales->shape[2];
    const kvg_status status = judge_fit_decode_codes(s->d, s->side, scales, table);
    if (!status && s->top == 0) s->top = find_top(s, table);
    return status;
}

static void see_row(const scene *s, size_t row, const float *table, findings *f)
{
    const bool affine = s->format->scales == KVG_SCALES_AFFINE;
    reading r[KVG_MAX_HEAD_DIM];
    read_row(s, row, table, r);
    for (uint32_t i = 0; i < s->dim; i++) {
        if (r[i].code < 256) see_code(&r[i], &f->of[r[i].code]);
    }
    for (uint32_t i = 0; i < s->dim && s->format->scales != KVG_SCALES_NONE; i += s->span) {
        const double zero = affine ? 0 : -table[i] / ((double)table[(size_t)s->top * s->dim + i] - table[i]);
        see_block(s, r + i, zero, f);
    }
}

static kvg_status find(scene *s, bool encodes, char *out, size_t size)
{
    enum { TRIED_ROWS = 64 };
    const size_t rows = (size_t)s->d->rows.tokens * s->d->rows.kv_heads, step = rows / TRIED_ROWS + 1;
    size_t count = 0;
    orders o = {0, 0, 0};
    halves h = {.wrong = 0};
    findings *f = calloc(1, sizeof *f);
    sample *samples = malloc((size_t)TRIED_ROWS * s->dim * sizeof *samples);
    float *table = malloc(((size_t)s->dim << s->format->element_bits) * sizeof *table);
    kvg_status status = f && samples && table ? KVG_OK :
                        kvg_fail(KVG_ERR_MEMORY, "cannot hold what %u numbers stand for", s->dim);
    for (size_t row = 0; row < rows && !status; row += step) {
        status = tabulate(s, row, table);
        if (status || s->top == 0) continue;
        if (encodes) count += sample_row(s, row, table, samples + count);
        if (encodes) see_orders(s, row, table, &o);
        else see_row(s, row, table, f);
        if (!encodes && s->format->element_bits == 8) see_halves(s, row, table, &h);
    }
    if (!status && encodes) print_samples(samples, count, out, size);
    if (!status && encodes && !out[0]) print_orders(s, &o, out, size);
    if (!status && !encodes) print_halves(&h, out, size);
    if (!status && !encodes && !out[0]) print_codes(s, f, out, size);
    if (!status && !encodes && !out[0]) print_scales(f, out, size);
    free(f);
    free(samples);
    free(table);
    return status;
}

/* Of a side. The scales of an encoder must be the right ones. */
static kvg_status find_side(const kvg_evidence *q, kvg_side side, bool encodes, char *out, size_t size)
{
    const kvg_question *d = q->data;
    const kvg_format_info *f = kvg_format_get(d->rows.storage[side].format);
    const uint32_t dim = d->rows.head_dim;
    kvg_tensor_set codes[2] = {{.count = 0}, {.count = 0}}, numbers[2] = {{.count = 0}, {.count = 0}};
    kvg_status status = kvg_question_codes(d, q->expected, &codes[0]);
    if (!status) status = kvg_question_codes(d, q->answer, &codes[1]);
    if (!status) status = kvg_question_values(d, q->expected, &numbers[0]);
    if (!status) status = kvg_question_values(d, q->answer, &numbers[1]);
    if (!status && judge_fit_same_tensor(codes, KVG_ROLE_SCALES, side)) {
        const kvg_tensor *right = kvg_set_tensor(encodes ? &d->values : &numbers[0], KVG_ROLE_VALUES, side);
        scene s = {.d = d, .side = side, .format = f, .dim = dim, .span = f->block ? f->block : dim,
                   .codes = kvg_set_tensor(&codes[0], KVG_ROLE_CODES, side), .right = right,
                   .scales = kvg_set_tensor(&codes[0], KVG_ROLE_SCALES, side),
                   .got = encodes ? kvg_set_tensor(&codes[1], KVG_ROLE_CODES, side) :
                                    kvg_set_tensor(&numbers[1], KVG_ROLE_VALUES, side),
                   .loss = right->dtype == KVG_DTYPE_BF16 ? 0x1p-8 : right->dtype == KVG_DTYPE_F16 ? 0x1p-11 : 0x1p-20,
                   .most = right->dtype == KVG_DTYPE_F16 ? 65504 : FLT_MAX};
        status = find(&s, encodes, out, size);
    }
    for (int i = 0; i < 2; i++) {
        kvg_set_free(&codes[i]);
        kvg_set_free(&numbers[i]);
    }
    return status;
}

/* The pool of K may hold V, too. */
kvg_status judge_fit_numbers(const kvg_evidence *q, size_t index, char *out, size_t size)
{
    const kvg_question *d = q->data;
    kvg_role role;
    kvg_side of;
    kvg_roles_at(d->op->outputs, index, &role, &of);
    const bool encodes = kvg_roles_index(d->op->inputs, KVG_ROLE_VALUES, KVG_K) >= 0;
    if (!encodes && role != KVG_ROLE_VALUES && role != KVG_ROLE_FLAT) return KVG_OK;
    if (!kvg_differ_answered(q->expected, q->answer, kvg_roles_tensors(d->op->outputs))) return KVG_OK;
    const int end = role == KVG_ROLE_DATA_POOL ? kvg_problem_sides(&d->c->problem) : (int)of + 1;
    kvg_status status = KVG_OK;
    for (int side = of; side < end && !status && !out[0]; side++) {
        if (kvg_format_get(d->rows.storage[side].format)->element_bits <= 8)
            status = find_side(q, (kvg_side)side, encodes, out, size);
    }
    return status;
}
