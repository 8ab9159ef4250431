#include "harness/trial/judge/fit_elements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/question/describe.h"
#include "reference/reference.h"

/* --- elements of another place of the row --- */

/* How the elements of a row lie in its bytes. */
typedef struct elements {
    const char *name;
    uint32_t count, bits;
    uint32_t at[KVG_MAX_HEAD_DIM]; /* of each: byte, or nibble of the row */
} elements;

/* They are codes of a format. */
static bool are_codes(const fit_rows *r, size_t row)
{
    const uint32_t part = r->at[row * r->axis_count];
    kvg_side side;
    const kvg_role role = judge_fit_role_of(r, r->output[part], &side);
    return part % 2 == 0 && (role == KVG_ROLE_CODES || role == KVG_ROLE_DATA_POOL);
}

static const kvg_format_info *format_of(const fit_rows *r, size_t row)
{
    return kvg_format_get(r->q->data->c->problem.storage[r->at[row * r->axis_count] / 2].format);
}

static void find_elements(const fit_rows *r, size_t row, elements *e)
{
    const kvg_problem *p = &r->q->data->c->problem;
    const uint32_t part = r->at[row * r->axis_count], bytes = r->bytes[row];
    const kvg_side side = (kvg_side)(part / 2);
    const kvg_format_info *f = format_of(r, row);
    const bool scales = part % 2;
    const uint32_t unit = (uint32_t)kvg_places_unit(r->places, r->output[part]);
    e->name = !scales ? "dim" : f->block ? "scale" : "parameter byte";
    e->bits = scales ? 8 * (f->block ? f->block_scale_bytes : 1) : are_codes(r, row) ? f->element_bits : 8 * unit;
    e->count = 8 * bytes / e->bits;
    if (e->count > KVG_MAX_HEAD_DIM) return;
    for (uint32_t i = 0; i < e->count && e->bits != 4; i++) e->at[i] = i * e->bits / 8;
    for (uint32_t i = 0; i < e->count && e->bits == 4; i++) e->at[kvg_reference_code_dim(p, side, i / 2, i % 2)] = i;
}

static bool same_element(const elements *e, const uint8_t *a, uint32_t i, const uint8_t *b, uint32_t k)
{
    if (e->bits == 4) return (a[e->at[i] / 2] >> e->at[i] % 2 * 4 & 15) == (b[e->at[k] / 2] >> e->at[k] % 2 * 4 & 15);
    return memcmp(a + e->at[i], b + e->at[k], e->bits / 8) == 0;
}

#define NOWHERE UINT32_MAX

static bool moved_alike(const fit_rows *r, const elements *e, const uint32_t *from, size_t row)
{
    for (uint32_t i = 0; i < e->count; i++) {
        if (from[i] == NOWHERE) continue;
        if (!same_element(e, judge_fit_got_row(r, row), i, judge_fit_right_row(r, row), from[i])) return false;
    }
    return true;
}

/* from[i]: the one right element that each of the tried rows has at i; i where that will do, NOWHERE where none does.
 * False: there are several, or more are lost than moved. */
static bool find_origins(const fit_rows *r, const elements *e, size_t rows_tried, uint32_t *from)
{
    uint32_t lost = 0, moved = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t found = 0;
        from[i] = NOWHERE;
        for (uint32_t n = 0; n <= e->count && found < 2; n++) {
            const uint32_t k = n ? n - 1 : i; /* its own place first */
            bool everywhere = n == 0 || k != i;
            for (size_t w = 0; w < rows_tried && everywhere; w++) {
                const size_t row = r->wrong[w * r->wrong_count / rows_tried];
                everywhere = same_element(e, judge_fit_got_row(r, row), i, judge_fit_right_row(r, row), k);
            }
            if (!everywhere) continue;
            from[i] = k;
            found++;
            if (k == i) break;
        }
        if (found > 1) return false;
        lost += found == 0;
        moved += found && from[i] != i;
    }
    return lost <= moved + moved / 8;
}

static void print_moves(const elements *e, const uint32_t *from, char *out, size_t size)
{
    enum { LISTED = 8 };
    uint32_t moved = 0, plus = 0, flipped = 0;
    bool all_plus = true, all_flipped = true;
    char to[80] = "", of[80] = "", lost[80] = "";
    for (uint32_t i = 0, gone = 0; i < e->count; i++) {
        if (from[i] == NOWHERE) {
            if (gone++ < LISTED) kvg_describe_add(lost, sizeof lost, "%s%u", lost[0] ? ", " : "", i);
            if (gone == LISTED + 1) kvg_describe_add(lost, sizeof lost, ", ...");
            continue;
        }
        const uint32_t n = (from[i] + e->count - i) % e->count;
        if (n == 0) continue;
        if (moved == 0) plus = n, flipped = from[i] ^ i;
        all_plus = all_plus && n == plus;
        all_flipped = all_flipped && (from[i] ^ i) == flipped;
        if (moved < LISTED) kvg_describe_add(to, sizeof to, "%s%u", moved ? ", " : "", i);
        if (moved < LISTED) kvg_describe_add(of, sizeof of, "%s%u", moved ? ", " : "", from[i]);
        moved++;
    }
    const char *more = moved > LISTED ? ", ..." : "";
    if (moved == 1) snprintf(out, size, "%s %s of a row holds %s %s", e->name, to, e->name, of);
    else if (moved < e->count || !(all_plus || all_flipped))
        snprintf(out, size, "%ss %s%s of a row hold %ss %s%s", e->name, to, more, e->name, of, more);
    else if (all_plus && plus > e->count / 2)
        snprintf(out, size, "each %s of a row holds %s - %u", e->name, e->name, e->count - plus);
    else if (all_plus) snprintf(out, size, "each %s of a row holds %s + %u", e->name, e->name, plus);
    else snprintf(out, size, "each %s of a row holds %s xor %u", e->name, e->name, flipped);
    if (lost[0]) kvg_describe_add(out, size, "; at %s %s is none of the row", e->name, lost);
}

/* A code of 4 bits is the same as another one by chance in one row of ten: eight rows leave 1 of 10^8. */
static void find_moves(const fit_rows *r, const elements *e, char *out, size_t size)
{
    enum { FEWEST = 8, MOST = 64 };
    uint32_t from[KVG_MAX_HEAD_DIM];
    size_t alike = 0;
    if (r->wrong_count < FEWEST) return;
    if (!find_origins(r, e, r->wrong_count < MOST ? r->wrong_count : MOST, from)) return;
    for (size_t w = 0; w < r->wrong_count; w++) alike += moved_alike(r, e, from, r->wrong[w]);
    if (10 * alike < 9 * r->wrong_count) return;
    print_moves(e, from, out, size);
    if (alike < r->wrong_count) kvg_describe_add(out, size, ", in %zu of %zu rows", alike, r->wrong_count);
}

/* --- codes for codes --- */

/* The place of a code in the order of its numbers; 0 is 0. */
static int place_of(const kvg_format_info *f, unsigned code)
{
    const int half = 1 << (f->element_bits - 1), magnitude = (int)code & (half - 1);
    switch (f->codes) {
    case KVG_CODES_F16:
    case KVG_CODES_BF16:
    case KVG_CODES_E4M3:
    case KVG_CODES_E5M2:
    case KVG_CODES_E2M1: return (int)code & half ? -magnitude : magnitude;
    case KVG_CODES_UNSIGNED: return (int)code;
    case KVG_CODES_OFFSET: return (int)code - half;
    case KVG_CODES_SIGNED: return (int)code & half ? magnitude - half : magnitude;
    }
    return 0;
}

static unsigned code_at(const elements *e, const uint8_t *row, uint32_t i)
{
    const uint8_t byte = row[e->bits == 4 ? e->at[i] / 2 : e->at[i]];
    return e->bits == 4 ? (unsigned)byte >> e->at[i] % 2 * 4 & 15 : byte;
}

/* What stands for the codes of the wrong rows. */
typedef struct codes {
    int got[256];  /* by right code: NONE, the one code that stands for it, or SEVERAL */
    size_t all, wrong, steps, up, down, to_zero, from_zero; /* elements; steps: wrong by one place */
} codes;

enum { NONE = -1, SEVERAL = -2 };

static void count_codes(const fit_rows *r, const elements *e, const kvg_format_info *f, codes *c)
{
    for (int i = 0; i < 256; i++) c->got[i] = NONE;
    for (size_t w = 0; w < r->wrong_count; w++) {
        for (uint32_t i = 0; i < e->count; i++) {
            const unsigned right = code_at(e, judge_fit_right_row(r, r->wrong[w]), i);
            const unsigned got = code_at(e, judge_fit_got_row(r, r->wrong[w]), i);
            const int before = place_of(f, right), now = place_of(f, got), step = now - before;
            if (c->got[right] == NONE) c->got[right] = (int)got;
            else if (c->got[right] != (int)got) c->got[right] = SEVERAL;
            c->all++;
            c->wrong += got != right;
            if (abs(step) != 1) continue;
            c->steps++;
            c->up += step > 0;
            c->down += step < 0;
            c->to_zero += abs(now) < abs(before);
            c->from_zero += abs(now) > abs(before);
        }
    }
}

/* "each code is the right one + 1", or "each code 0x8 is 0x9, 0x7 is 0x0": where a code alone says what stands for
 * it. */
static void print_map(const codes *c, unsigned bits, char *out, size_t size)
{
    enum { LISTED = 4 };
    size_t listed = 0, met = 0, changed = 0;
    int plus = 0, flipped = 0, first = NONE;
    bool all_plus = true, all_flipped = true, constant = true;
    for (int i = 0; i < 256; i++) {
        if (c->got[i] == SEVERAL) return;
        if (c->got[i] == NONE) continue;
        const int n = (c->got[i] - i) & ((1 << bits) - 1);
        if (met == 0) plus = n, flipped = c->got[i] ^ i, first = c->got[i];
        constant = constant && c->got[i] == first;
        all_plus = all_plus && n == plus;
        all_flipped = all_flipped && (c->got[i] ^ i) == flipped;
        met++;
        changed += n != 0;
    }
    /* Once or twice each: anything is a function of that. */
    if (c->all < 8 * met && c->wrong < 8 * changed) return;
    if (constant) {
        if (first > 0 && met > 1) snprintf(out, size, "each code is 0x%0*X", (int)bits / 4, (unsigned)first);
        return; /* an answer of zeros tells nothing */
    }
    if (all_flipped) {
        snprintf(out, size, "each code is the right one xor 0x%0*X", (int)bits / 4, (unsigned)flipped);
        return;
    }
    if (all_plus) {
        snprintf(out, size, "each code is the right one %+d", plus < 1 << (bits - 1) ? plus : plus - (1 << bits));
        return;
    }
    const char *begin = changed > LISTED ? "each wrong code follows from the right one: " : "each code ";
    for (int i = 0; i < 256 && listed < LISTED; i++) {
        if (c->got[i] == NONE || c->got[i] == i) continue;
        kvg_describe_add(out, size, "%s0x%0*X is 0x%0*X", listed++ ? ", " : begin, (int)bits / 4, (unsigned)i,
                         (int)bits / 4, (unsigned)c->got[i]);
    }
    if (changed > LISTED) kvg_describe_add(out, size, ", and so on for %zu of %zu codes", changed, met);
}

/* Two codes in a byte: where each byte follows from the right one, which is there several times. Anything else would
 * contradict that, since two bytes are alike by chance once in 256. */
static void find_bytes(const fit_rows *r, char *out, size_t size)
{
    enum { REPEATED = 64, DISTINCT = 16 };
    int got[256];
    bool met[256] = {false};
    size_t repeated = 0, distinct = 0;
    for (int i = 0; i < 256; i++) got[i] = NONE;
    for (size_t w = 0; w < r->wrong_count; w++) {
        const uint8_t *is = judge_fit_got_row(r, r->wrong[w]), *right = judge_fit_right_row(r, r->wrong[w]);
        for (uint32_t i = 0; i < r->bytes[r->wrong[w]]; i++) {
            int *before = &got[right[i]];
            if (*before != NONE && *before != is[i]) return;
            repeated += *before != NONE && is[i] != right[i];
            distinct += !met[is[i]];
            met[is[i]] = true;
            *before = is[i];
        }
    }
    if (repeated >= REPEATED && distinct >= DISTINCT)
        snprintf(out, size, "each byte of two codes follows from the right one");
}

/* Where one element of each block is wrong, or of each row that is no blocks, and no other. */
static void find_element(const fit_rows *r, const elements *e, char *out, size_t size)
{
    enum { FEWEST = 16, SPAN = 4 };
    const uint32_t block = format_of(r, r->wrong[0])->block, span = block ? block : e->count;
    const size_t blocks = r->wrong_count * (e->count / span);
    size_t wrong = 0;
    uint32_t place = span;
    if (r->at[r->wrong[0] * r->axis_count] % 2 || span < SPAN) return; /* scales */
    for (size_t w = 0; w < r->wrong_count; w++) {
        const uint8_t *got = judge_fit_got_row(r, r->wrong[w]), *right = judge_fit_right_row(r, r->wrong[w]);
        for (uint32_t i = 0; i < e->count; i++) {
            if (same_element(e, got, i, right, i)) continue;
            if (place < span && i % span != place) return;
            place = i % span;
            wrong++;
        }
    }
    if (wrong < FEWEST || 2 * wrong < blocks) return;
    if (block) snprintf(out, size, "of each block of %u only %s %u is wrong", span, e->name, place);
    else snprintf(out, size, "of each row only %s %u is wrong", e->name, place);
}

static void find_codes(const fit_rows *r, const elements *e, char *out, size_t size)
{
    enum { FEWEST = 16 };
    const kvg_format_info *f = format_of(r, r->wrong[0]);
    codes c = {.all = 0};
    if (!are_codes(r, r->wrong[0]) || e->bits > 8) return;
    count_codes(r, e, f, &c);
    if (c.wrong < FEWEST) return;
    print_map(&c, e->bits, out, size);
    if (out[0] || 20 * c.steps < 19 * c.wrong) return;
    if (c.steps == c.wrong) snprintf(out, size, "each wrong code is one step from the right one");
    else snprintf(out, size, "%zu of %zu wrong codes are one step from the right ones", c.steps, c.wrong);
    if (f->codes == KVG_CODES_UNSIGNED && c.up == c.steps) kvg_describe_add(out, size, ", the next larger code");
    else if (f->codes == KVG_CODES_UNSIGNED && c.down == c.steps)
        kvg_describe_add(out, size, ", the next smaller code");
    else if (f->codes == KVG_CODES_UNSIGNED) return; /* which number is code 0 its row says */
    else if (c.to_zero == c.steps) kvg_describe_add(out, size, ", towards zero");
    else if (c.from_zero == c.steps) kvg_describe_add(out, size, ", away from zero");
    else if (c.up == c.steps) kvg_describe_add(out, size, ", upwards");
    else if (c.down == c.steps) kvg_describe_add(out, size, ", downwards");
}

/* --- the whole --- */

/* Rows of one side, or of both where they are stored alike. */
static bool are_of_a_kind(const fit_rows *r, size_t row, size_t other)
{
    const uint32_t a = r->at[row * r->axis_count], b = r->at[other * r->axis_count];
    const kvg_storage *storage = r->q->data->c->problem.storage;
    return a == b || (a % 2 == b % 2 && storage[KVG_K].format == storage[KVG_V].format &&
                      strcmp(storage[KVG_K].dialect, storage[KVG_V].dialect) == 0 && r->bytes[row] == r->bytes[other]);
}

/* The elements of all wrong rows; false: their rows differ in kind, as those of two causes do. */
static bool find_all(const fit_rows *r, elements *e)
{
    for (size_t w = 0; w < r->wrong_count; w++) {
        if (!are_of_a_kind(r, r->wrong[w], r->wrong[0])) return false;
    }
    find_elements(r, r->wrong[0], e);
    return e->count <= KVG_MAX_HEAD_DIM;
}

void judge_fit_elements(const fit_rows *r, char *out, size_t size)
{
    elements e;
    if (!find_all(r, &e)) return;
    find_moves(r, &e, out, size);
    const bool bytes = !out[0] && e.bits > 8 && r->bytes[r->wrong[0]] <= KVG_MAX_HEAD_DIM;
    if (!bytes) return;
    e = (elements){.name = "byte", .count = r->bytes[r->wrong[0]], .bits = 8};
    for (uint32_t i = 0; i < e.count; i++) e.at[i] = i;
    find_moves(r, &e, out, size);
}

void judge_fit_codes(const fit_rows *r, char *out, size_t size)
{
    elements e;
    if (!find_all(r, &e)) return;
    find_codes(r, &e, out, size);
    if (!out[0] && e.bits == 4 && are_codes(r, r->wrong[0])) find_bytes(r, out, size);
    if (!out[0]) find_element(r, &e, out, size);
}
