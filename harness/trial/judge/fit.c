#include "harness/trial/judge/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/trial/judge/fit_elements.h"
#include "harness/trial/judge/fit_inputs.h"
#include "harness/trial/judge/fit_numbers.h"
#include "harness/trial/judge/fit_rope.h"
#include "harness/trial/judge/fit_scales.h"
#include "harness/trial/question/describe.h"

/* --- rows of another place --- */

/* Where a coordinate of the source comes from. */
typedef enum relation_kind { KEEP, PLUS, IS, LIKE, DOWN } relation_kind;

typedef struct relation {
    relation_kind kind;
    uint32_t n; /* PLUS: added, modulo the axis. IS: it. LIKE: the axis that has it. DOWN: it is a multiple of that */
} relation;

typedef struct hypothesis {
    bool by_token; /* pools: part, token and head say where; else part, layer, block, offset and head */
    relation of[KVG_MAX_AXES];
    size_t explained, contradicted; /* wrong rows; what stands at others has no right row */
} hypothesis;

/* Whether an axis says where a row is. */
static bool counts(const fit_rows *r, bool by_token, size_t axis)
{
    if (!r->pools) return axis != r->follows;
    return axis == FIT_PART || axis == FIT_HEAD || (axis == FIT_TOKEN) == by_token;
}

static uint32_t source_on(const relation *how, const uint32_t *at, size_t axis, uint32_t of)
{
    switch (how->kind) {
    case KEEP: return at[axis];
    case PLUS: return (at[axis] + how->n) % of;
    case IS: return how->n;
    case LIKE: return at[how->n];
    case DOWN: return at[axis] - at[axis] % how->n;
    }
    return KVG_NO_PLACE;
}

/* The row that stands in place of `row`; false: there is none. */
static bool source_of(const fit_rows *r, const hypothesis *h, size_t row, size_t *out)
{
    const uint32_t *at = r->at + row * r->axis_count;
    uint32_t from[KVG_MAX_AXES];
    for (size_t a = 0; a < r->axis_count; a++) {
        if (!counts(r, h->by_token, a)) continue;
        if (at[a] == KVG_NO_PLACE) return false;
        from[a] = source_on(&h->of[a], at, a, r->axes[a].of);
        if (from[a] >= r->axes[a].of) return false;
    }
    if (h->by_token) {
        const kvg_paging *g = &r->q->data->c->problem.paging;
        const int64_t slot = r->slots[from[FIT_TOKEN]];
        if (slot < 0) return false;
        from[FIT_LAYER] = g->layer;
        from[FIT_BLOCK] = (uint32_t)(slot / g->block_tokens);
        from[FIT_OFFSET] = (uint32_t)(slot % g->block_tokens);
    }
    *out = judge_fit_row_at(r, from);
    return r->bytes[*out] == r->bytes[row];
}

/* How many of every `step`th wrong row it explains, and how many it contradicts, until these are too many. */
static void count_explained(const fit_rows *r, size_t step, hypothesis *h)
{
    enum { LOST = 8 };
    size_t source;
    h->explained = h->contradicted = 0;
    for (size_t i = 0; i < r->wrong_count; i += step) {
        const size_t row = r->wrong[i];
        if (!source_of(r, h, row, &source)) continue;
        if (judge_fit_is_row(r, row, source)) h->explained++;
        else if (++h->contradicted > LOST && h->contradicted > h->explained) return;
    }
}

static unsigned complexity(const fit_rows *r, const hypothesis *h)
{
    static const unsigned of_kind[] = {[KEEP] = 0, [PLUS] = 3, [IS] = 3, [LIKE] = 4, [DOWN] = 4};
    unsigned sum = 0;
    for (size_t a = 0; a < r->axis_count; a++) {
        const relation *how = &h->of[a];
        sum += of_kind[how->kind];
        if (how->kind == PLUS && (how->n == 1 || how->n + 1 == r->axes[a].of)) sum--;
    }
    return sum;
}

/* How many coordinates of the source are not the row's own. */
static size_t count_moved(const fit_rows *r, const hypothesis *h)
{
    size_t moved = 0;
    for (size_t a = 0; a < r->axis_count; a++) moved += h->of[a].kind != KEEP;
    return moved;
}

static bool is_better(const fit_rows *r, const hypothesis *a, const hypothesis *b)
{
    if (a->explained != b->explained) return a->explained > b->explained;
    if (a->contradicted != b->contradicted) return a->contradicted < b->contradicted;
    return complexity(r, a) < complexity(r, b);
}

enum { OPTIONS = 24, TRIED_ROWS = 256 };

/* The relations that lead from coordinate at[axis] to `to`. */
static size_t list_options(const fit_rows *r, bool by_token, const uint32_t *at, size_t axis, uint32_t to,
                           relation options[OPTIONS])
{
    const uint32_t x = at[axis], of = r->axes[axis].of;
    size_t n = 0;
    if (x == to) {
        options[n++] = (relation){KEEP, 0};
        return n;
    }
    if (axis == FIT_PART) {
        if ((x ^ FIT_OTHER_SIDE) == to) options[n++] = (relation){PLUS, FIT_OTHER_SIDE};
        return n;
    }
    options[n++] = (relation){PLUS, (to + of - x) % of};
    options[n++] = (relation){IS, to};
    for (uint32_t a = FIT_PART + 1; a < r->axis_count; a++) {
        if (a != axis && counts(r, by_token, a) && at[a] == to) options[n++] = (relation){LIKE, a};
    }
    for (uint32_t unit = 2; unit < of && n < OPTIONS; unit *= 2) {
        if (x - x % unit != to) continue;
        options[n++] = (relation){DOWN, unit};
        if (unit > x) break; /* larger ones lead to 0, too */
    }
    return n;
}

/* Tries each way in which `row` may have come from `source`: every combination of the options of its axes. */
static void try_source(const fit_rows *r, size_t row, size_t source, bool by_token, hypothesis *best)
{
    const uint32_t *at = r->at + row * r->axis_count, *from = r->at + source * r->axis_count;
    const size_t step = r->wrong_count / TRIED_ROWS + 1;
    relation options[KVG_MAX_AXES][OPTIONS];
    size_t counts_of[KVG_MAX_AXES], ways = 1;
    for (size_t a = 0; a < r->axis_count; a++) {
        options[a][0] = (relation){KEEP, 0};
        counts_of[a] = 1;
        if (!counts(r, by_token, a)) continue;
        if (at[a] == KVG_NO_PLACE || from[a] == KVG_NO_PLACE) return;
        counts_of[a] = list_options(r, by_token, at, a, from[a], options[a]);
        ways *= counts_of[a];
    }
    for (size_t way = 0; way < ways; way++) {
        hypothesis h = {.by_token = by_token};
        for (size_t a = 0, rest = way; a < r->axis_count; rest /= counts_of[a++])
            h.of[a] = options[a][rest % counts_of[a]];
        count_explained(r, step, &h);
        if (is_better(r, &h, best)) *best = h;
    }
}

/* The first place in the index that has this hash, or a larger one. */
static size_t find_hash(const fit_rows *r, uint64_t hash)
{
    const fit_hash wanted = {hash, 0};
    size_t low = 0, high = r->indexed;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (judge_fit_by_hash(&r->index[middle], &wanted) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The right rows that hold what stands at a wrong one, at most `room` of them. Numbers have no hash. */
static size_t list_sources(const fit_rows *r, size_t row, size_t *sources, size_t room)
{
    const uint64_t hash = kvg_hash64(judge_fit_got_row(r, row), r->bytes[row]);
    size_t count = 0;
    for (size_t i = r->attends ? 0 : find_hash(r, hash); i < r->indexed && count < room; i++) {
        if (!r->attends && r->index[i].hash != hash) break;
        if (judge_fit_is_row(r, row, r->index[i].row)) sources[count++] = r->index[i].row;
    }
    return count;
}

/* A row that many hold, such as zeros, tells nothing. */
static void try_row(const fit_rows *r, size_t row, hypothesis *best)
{
    enum { MANY = 9 };
    size_t sources[MANY];
    const size_t count = list_sources(r, row, sources, MANY);
    for (size_t i = 0; i < count && count < MANY; i++) {
        try_source(r, row, sources[i], false, best);
        if (r->pools) try_source(r, row, sources[i], true, best);
    }
}

/* Whether n more, modulo the axis, are of - n less: for all wrong rows, or where some are of either kind by the smaller
 * number. Example: layer + 1 of 3 layers is layer - 2 where only rows of layer 2 are wrong. */
static bool is_less(const fit_rows *r, size_t axis, uint32_t n)
{
    const uint32_t of = r->axes[axis].of;
    size_t less = 0;
    for (size_t i = 0; i < r->wrong_count; i++) less += r->at[r->wrong[i] * r->axis_count + axis] + n >= of;
    return less == 0 || less == r->wrong_count ? less > 0 : n > of / 2;
}

static void print_relation(const fit_rows *r, size_t axis, const relation *how, char *out, size_t size)
{
    const kvg_axis *x = &r->axes[axis];
    const char *comma = out[0] ? ", " : "";
    switch (how->kind) {
    case KEEP: return;
    case PLUS:
        if (axis == FIT_PART) kvg_describe_add(out, size, "%sthe other side", comma);
        else if (is_less(r, axis, how->n)) kvg_describe_add(out, size, "%s%s - %u", comma, x->name, x->of - how->n);
        else kvg_describe_add(out, size, "%s%s + %u", comma, x->name, how->n);
        return;
    case IS: kvg_describe_add(out, size, "%s%s %u", comma, x->name, how->n); return;
    case LIKE:
        kvg_describe_add(out, size, "%sthe %s with the number of the %s", comma, x->name, r->axes[how->n].name);
        return;
    case DOWN: kvg_describe_add(out, size, "%s%s rounded down to a multiple of %u", comma, x->name, how->n); return;
    }
}

enum { FEWEST_BYTES = 16 }; /* fewer wrong bytes are found by chance */

/* Each wrong row holds the same: it would be any place's that has it. */
static bool are_constant(const fit_rows *r)
{
    for (size_t i = 1; i < r->wrong_count; i++) {
        const size_t row = r->wrong[i], first = r->wrong[0];
        if (r->bytes[row] != r->bytes[first]) return false;
        if (memcmp(judge_fit_got_row(r, row), judge_fit_got_row(r, first), r->bytes[row]) != 0) return false;
    }
    return r->wrong_count > 1;
}

static void find_place(const fit_rows *r, char *out, size_t size)
{
    enum { SEEDS = 8, MOST_MOVED = 2 }; /* more are those of all wrong rows, or hold by chance */
    const size_t of = r->wrong_count + r->apart, seeds = r->wrong_count < SEEDS ? r->wrong_count : SEEDS;
    hypothesis best = {0};
    char places[200] = "";
    if (r->wrong_bytes < FEWEST_BYTES || are_constant(r)) return;
    for (size_t i = 0; i < seeds; i++) try_row(r, r->wrong[i * r->wrong_count / seeds], &best);
    count_explained(r, 1, &best);
    if (2 * best.explained < of || best.explained < 9 * best.contradicted) return;
    if (best.explained < of && count_moved(r, &best) > MOST_MOVED) return;
    for (size_t a = 0; a < r->axis_count; a++) print_relation(r, a, &best.of[a], places, sizeof places);
    if (best.explained < of)
        snprintf(out, size, "%zu of %zu rows are the right ones of %s", best.explained, of, places);
    else snprintf(out, size, "%s row is the right one of %s", of == 1 ? "the" : "each", places);
}

/* Whether a row of an output holds what it held before. */
static bool is_untouched(const fit_rows *r, size_t row)
{
    const size_t output = r->output[r->at[row * r->axis_count]];
    const kvg_tensor_set *before = &r->q->data->before;
    if (r->pools || before->count == 0) return false;
    const uint8_t *held = before->tensors[output].data;
    return memcmp(held + r->unit[row] * kvg_places_unit(r->places, output), judge_fit_got_row(r, row),
                  r->bytes[row]) == 0;
}

/* Where nearly every wrong row is a right one of another place, by whatever rule, or was not written. Rows of few bytes
 * are that by chance. */
static void find_any_place(const fit_rows *r, char *out, size_t size)
{
    enum { FEWEST = 8, FEWEST_OF_ROW = 8, MANY = 9 };
    size_t sources[MANY], tried = 0, elsewhere = 0, untouched = 0;
    const size_t step = r->wrong_count / TRIED_ROWS + 1;
    if (r->wrong_bytes < FEWEST_BYTES || are_constant(r)) return;
    for (size_t i = 0; i < r->wrong_count; i += step) {
        if (r->bytes[r->wrong[i]] < FEWEST_OF_ROW) continue;
        const size_t count = list_sources(r, r->wrong[i], sources, MANY);
        if (is_untouched(r, r->wrong[i])) untouched++;
        else elsewhere += count > 0 && count < MANY; /* a row that many hold, such as zeros, tells nothing */
        tried++;
    }
    if (elsewhere >= FEWEST && 10 * (elsewhere + untouched) >= 9 * tried)
        snprintf(out, size, "rows are right ones of other places, by no rule that is known here%s",
                 untouched ? ", or were not written" : "");
}

/* --- the whole --- */

/* Of the rows of the outputs: where they come from, else what their elements, scales and codes are. */
static kvg_status find_cause(const fit_rows *r, size_t index, char *out, size_t size)
{
    kvg_status s = KVG_OK;
    if (r->wrong_bytes < FEWEST_BYTES) return s;
    find_place(r, out, size);
    if (r->attends) return s;
    if (!out[0]) judge_fit_elements(r, out, size);
    if (!out[0]) s = judge_fit_scales(r->q, out, size);
    if (!s && !out[0]) s = judge_fit_rope(r->q, index, out, size);
    if (!s && !out[0]) judge_fit_codes(r, out, size);
    if (!s && !out[0]) s = judge_fit_inputs(r->q, index, out, size);
    if (!s && !out[0]) s = judge_fit_numbers(r->q, index, out, size);
    return s;
}

kvg_status judge_fit_rows(const kvg_evidence *q, const kvg_places *places, size_t index, char *out, size_t size)
{
    const kvg_question *d = q->data;
    fit_rows answered, read = {.q = NULL}; /* read: all that an op could have, if it gives rows of pools */
    out[0] = 0;
    if (!kvg_op_stores(d->op->op) || (d->queries && (index || !q->numbers))) return KVG_OK;
    kvg_status s = judge_fit_rows_open(q, places, index, false, &answered);
    if (!s) s = find_cause(&answered, index, out, size);
    if (!s && !out[0] && !d->queries && kvg_question_reads_pools(d)) {
        s = judge_fit_rows_open(q, places, index, true, &read);
        if (!s) find_place(&read, out, size);
        if (!s && !out[0]) find_any_place(&read, out, size);
    }
    const bool pools = d->queries || places->token; /* numbers have no place, and pools rows that nobody wrote */
    if (!s && !out[0] && !pools) find_any_place(&answered, out, size);
    judge_fit_rows_close(&answered);
    judge_fit_rows_close(&read);
    return s;
}
