#include "harness/trial/judge/fit_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/fit_sums.h"

/* --- hypotheses --- */

/* What a row may be that of; n and m are its numbers. */
typedef enum kind {
    NO_WINDOW,             /* keys 0 to last */
    NO_MASK,               /* keys first to the sequence's last */
    FROM, TO, SHIFTED,     /* keys first + n to last, first to last + n, first + n to last + n */
    FROM_TILE, AFTER_TILE, /* first rounded down, up, to a multiple of n */
    TO_TILE, THROUGH_TILE, /* the key after last rounded down, up, to a multiple of n */
    LATEST, EARLIEST,      /* the last, the first n keys */
    WITHOUT, TWICE,        /* all keys but m to m + n - 1; those twice */
    BEFORE, AFTER,         /* in their place the n keys before, behind them */
    UNDIVIDED,             /* not divided by the sum of weights */
    HEAD_MODULO,           /* KV head: the query head modulo their number */
    HEAD_PLUS, HEAD_IS, SEQUENCE_PLUS, SEQUENCE_IS,
    SINK_LOST, SINK_PLUS,  /* no sink; that of query head + n */
    SCORES_TIMES,          /* scores times factor n */
    UNRESCALED, UNRESCALED_OUT, UNRESCALED_SUM /* sums stay as they are where a tile of n keys has a larger score */
} kind;

typedef struct hypothesis {
    kind kind;
    int64_t n, m;
    size_t numbers, nans;  /* wrong rows that are that; those that are NaN as that would be */
    size_t wrong, right;   /* wrong and right rows that are not that */
} hypothesis;

typedef struct factor {
    const char *name;
    double value;
} factor;

enum { FACTORS = 13 };

typedef struct scene {
    const kvg_evidence *q;
    const kvg_truth *truth;
    const kvg_problem *p;
    size_t index, dims;        /* of the output; numbers of a row of it */
    const kvg_tensor *in[3];   /* q, sinks, tensor scale of K */
    kvg_flash_rows *rows;      /* [sequence][KV head] */
    factor factors[FACTORS];
    hypothesis *hypotheses;
    size_t count, room;
    size_t wrong, right;       /* rows tried */
    bool all;                  /* every wrong row was tried */
} scene;

static bool add(scene *s, kind k, int64_t n, int64_t m)
{
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 1024;
        hypothesis *more = realloc(s->hypotheses, room * sizeof *more);
        if (!more) return false;
        s->hypotheses = more;
        s->room = room;
    }
    s->hypotheses[s->count++] = (hypothesis){.kind = k, .n = n, .m = m};
    return true;
}

static bool add_tiles(scene *s, int64_t unit, int64_t longest)
{
    enum { SHORTEST_RUN = 16 };
    bool got = true;
    for (int k = FROM_TILE; k <= EARLIEST; k++) got = got && add(s, (kind)k, unit, 0);
    for (int64_t at = 0; unit >= SHORTEST_RUN && at < longest; at += unit)
        got = got && add(s, WITHOUT, unit, at) && add(s, TWICE, unit, at);
    for (int k = UNRESCALED; k <= UNRESCALED_SUM; k++) got = got && add(s, (kind)k, unit, 0);
    return got;
}

static bool add_others(scene *s, kind plus, kind is, uint32_t of)
{
    bool got = true;
    for (uint32_t n = 1; n < of; n++) got = got && add(s, plus, n, 0);
    for (uint32_t n = 0; n < of && of > 1; n++) got = got && add(s, is, n, 0);
    return got;
}

/* The simple ones first: of those that explain as much the first one counts. */
static kvg_status list_hypotheses(scene *s, int64_t longest)
{
    enum { OFFSETS = 64 };
    const kvg_attention *a = &s->p->attention;
    const uint32_t B = s->p->paging.block_tokens;
    bool got = true;
    for (int64_t n = 1; n <= OFFSETS; n++) {
        for (int k = FROM; k <= SHIFTED; k++) got = got && add(s, (kind)k, n, 0) && add(s, (kind)k, -n, 0);
    }
    got = got && add(s, NO_MASK, 0, 0) && add(s, HEAD_MODULO, 0, 0) && add(s, UNDIVIDED, 0, 0);
    for (int k = UNRESCALED; k <= UNRESCALED_SUM; k++) got = got && add(s, (kind)k, 1, 0);
    if (a->window) got = got && add(s, NO_WINDOW, 0, 0);
    if (a->sinks) got = got && add(s, SINK_LOST, 0, 0);
    got = got && add_others(s, HEAD_PLUS, HEAD_IS, s->p->kv_heads);
    got = got && add_others(s, SEQUENCE_PLUS, SEQUENCE_IS, s->p->paging.sequences);
    for (uint32_t n = 1; n < a->query_heads && a->sinks; n++) got = got && add(s, SINK_PLUS, n, 0);
    for (int n = 0; n < FACTORS; n++) got = got && add(s, SCORES_TIMES, n, 0);
    for (int64_t unit = 2; unit < longest; unit *= 2) got = got && add_tiles(s, unit, longest);
    if (B & (B - 1)) got = got && add_tiles(s, B, longest);
    for (int64_t at = 0; at < longest; at += B) got = got && add(s, BEFORE, B, at) && add(s, AFTER, B, at);
    return got ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu hypotheses", s->count);
}

/* --- one row --- */

static double sink_of(const scene *s, uint32_t head)
{
    return s->p->attention.sinks ? ((const float *)s->in[1]->data)[head] : -INFINITY;
}

static int64_t down(int64_t x, int64_t unit)
{
    return x - x % unit;
}

enum { RUNS = 3 };

/* The keys that a row sees under a hypothesis of its keys. */
static size_t keys_of(const hypothesis *h, const fit_query *q, fit_run runs[RUNS])
{
    const int64_t first = q->first, end = q->end, n = h->n, from = h->m > first ? h->m : first;
    const int64_t to = h->m + n < end ? h->m + n : end, step = h->kind == BEFORE ? -n : n;
    const fit_run own = {first, end};
    runs[0] = own;
    switch (h->kind) {
    case NO_WINDOW: runs[0].from = 0; return 1;
    case NO_MASK: runs[0].to = q->count; return 1;
    case FROM: runs[0].from = first + n; return 1;
    case TO: runs[0].to = end + n; return 1;
    case SHIFTED: runs[0] = (fit_run){first + n, end + n}; return 1;
    case FROM_TILE: runs[0].from = down(first, n); return 1;
    case AFTER_TILE: runs[0].from = down(first + n - 1, n); return 1;
    case TO_TILE: runs[0].to = down(end, n); return 1;
    case THROUGH_TILE: runs[0].to = down(end + n - 1, n); return 1;
    case LATEST: runs[0].from = end - n > first ? end - n : first; return 1;
    case EARLIEST: runs[0].to = first + n < end ? first + n : end; return 1;
    case TWICE:
        runs[1] = (fit_run){from, to};
        return 2;
    case WITHOUT:
    case BEFORE:
    case AFTER:
        if (from >= to || from + step < 0) return 1;
        runs[0].to = from;
        runs[1] = (fit_run){to, end};
        runs[2] = (fit_run){from + step, to + step};
        return h->kind == WITHOUT ? 2 : 3;
    case UNDIVIDED:
    case HEAD_MODULO:
    case HEAD_PLUS:
    case HEAD_IS:
    case SEQUENCE_PLUS:
    case SEQUENCE_IS:
    case SINK_LOST:
    case SINK_PLUS:
    case SCORES_TIMES:
    case UNRESCALED:
    case UNRESCALED_OUT:
    case UNRESCALED_SUM: return 1;
    }
    return 1;
}

static const kvg_flash_rows *rows_at(const scene *s, uint32_t sequence, uint32_t kv_head)
{
    return &s->rows[(size_t)sequence * s->p->kv_heads + kv_head];
}

/* Makes the sums of `q` those of the rows, the sink and the scores of a hypothesis; false: it has those of its own. */
static bool sum_up_other(const scene *s, const hypothesis *h, fit_query *q)
{
    const uint32_t H = s->p->kv_heads, Hq = s->p->attention.query_heads, S = s->p->paging.sequences;
    const uint32_t n = (uint32_t)h->n;
    uint32_t kv_head = q->head / (Hq / H), sequence = q->sequence, sink_head = q->head;
    fit_making m = {.times = 1};
    if (h->kind < HEAD_MODULO) return false;
    if (h->kind == HEAD_MODULO) kv_head = q->head % H;
    if (h->kind == HEAD_PLUS) kv_head = (kv_head + n) % H;
    if (h->kind == HEAD_IS) kv_head = n;
    if (h->kind == SEQUENCE_PLUS) sequence = (sequence + n) % S;
    if (h->kind == SEQUENCE_IS) sequence = n;
    if (h->kind == SINK_PLUS) sink_head = (sink_head + n) % Hq;
    if (h->kind == SCORES_TIMES) m.times = s->factors[n].value;
    if (h->kind >= UNRESCALED) m.tile = h->n;
    m.out = h->kind != UNRESCALED_SUM;
    m.sum = h->kind != UNRESCALED_OUT;
    m.rows = rows_at(s, sequence, kv_head);
    m.sink = h->kind == SINK_LOST ? -INFINITY : sink_of(s, sink_head);
    judge_fit_sum_up(&m, q);
    return true;
}

/* --- how well --- */

static double got_of(const scene *s, size_t number)
{
    const kvg_tensor *t = &s->q->answer[s->index];
    return kvg_number_at(t->dtype, t->data, number);
}

/* The bounds of a row: the widest one, and in units of the row's largest number. */
typedef struct bounds {
    double widest, relative;
} bounds;

static bounds bounds_of(const scene *s, size_t row)
{
    const kvg_truth *t = s->truth;
    double widest = 0, most = 0;
    for (size_t i = row * s->dims; i < (row + 1) * s->dims; i++) {
        widest = fmax(widest, (s->index ? t->exact.lse_bound : t->exact.out_bound)[i]);
        most = fmax(most, fabs((s->index ? t->exact.lse : t->exact.out)[i]));
    }
    return (bounds){widest, most > 0 && !s->index ? widest / most : 0};
}

/* How far a row may be from what it is, whose largest number this is. */
static double limit_of(bounds b, double largest)
{
    return 2 * fmax(b.widest, b.relative * largest);
}

/* Notes whether what was answered is this row. Near the right answer a wrong one may be both. */
static void note(const scene *s, const fit_query *q, bounds b, const fit_answer *a, bool wrong, hypothesis *h)
{
    enum { NEARER = 4 };
    const double *exact = (s->index ? s->truth->exact.lse : s->truth->exact.out) + q->row * s->dims;
    double to_other = 0, to_exact = 0, largest = 0;
    size_t finite = 0;
    for (size_t i = 0; i < s->dims; i++) {
        const double other = s->index ? a->lse : a->out[i], got = got_of(s, q->row * s->dims + i);
        if (isnan(got) && isnan(other)) continue;
        to_other = isnan(got) || isnan(other) ? INFINITY : fmax(to_other, fabs(got - other));
        to_exact = fmax(to_exact, fabs(got - exact[i]));
        largest = fmax(largest, fabs(other));
        finite++;
    }
    if (to_other > limit_of(b, largest)) ++*(wrong ? &h->wrong : &h->right);
    else if (finite == 0) h->nans += wrong;
    else if (wrong && (finite < s->dims || NEARER * to_other <= to_exact)) h->numbers++;
}

static bool is_wrong(const scene *s, size_t row)
{
    const kvg_truth *t = s->truth;
    for (size_t i = row * s->dims; i < (row + 1) * s->dims; i++) {
        if (kvg_attention_ratio(got_of(s, i), (s->index ? t->exact.lse : t->exact.out)[i],
                                (s->index ? t->exact.lse_bound : t->exact.out_bound)[i]) > 1)
            return true;
    }
    return false;
}

/* Most hypotheses fall with their first number. */
static void try_row(scene *s, fit_query *own, fit_query *other, bool wrong)
{
    fit_answer a;
    fit_run runs[RUNS];
    const bounds b = bounds_of(s, own->row);
    const double got = got_of(s, own->row * s->dims);
    for (size_t i = 0; i < s->count; i++) {
        hypothesis *h = &s->hypotheses[i];
        const fit_query *q = sum_up_other(s, h, other) ? other : own;
        const size_t count = keys_of(h, own, runs);
        judge_fit_attend(q, runs, count, h->kind != UNDIVIDED, 1, &a);
        const bool nan = isnan(got) && isnan(a.out[0]);
        const bool near = s->index || nan || fabs(got - a.out[0]) <= limit_of(b, fmax(q->largest, fabs(a.out[0])));
        if (a.lost && isnan(got)) {
            h->nans += wrong;
        } else if (a.lost || a.empty || !near) {
            ++*(wrong ? &h->wrong : &h->right);
        } else {
            if (!s->index) judge_fit_attend(q, runs, count, h->kind != UNDIVIDED, s->dims, &a);
            note(s, own, b, &a, wrong, h);
        }
    }
    if (wrong) s->wrong++;
    else s->right++;
}

/* --- words --- */

static void print_keys(const char *from, const char *to, char *out, size_t size)
{
    snprintf(out, size, "keys %s to %s", from, to);
}

static void print_hypothesis(const scene *s, const hypothesis *h, char *out, size_t size)
{
    const long long n = h->n, m = h->m, size_of = n < 0 ? -n : n;
    const char sign = n < 0 ? '-' : '+';
    char from[80] = "first", to[80] = "last";
    switch (h->kind) {
    case NO_WINDOW: print_keys("0", "last", out, size); return;
    case NO_MASK: print_keys("first", "the last of the sequence", out, size); return;
    case FROM:
    case TO:
    case SHIFTED:
        if (h->kind != TO) snprintf(from, sizeof from, "first %c %lld", sign, size_of);
        if (h->kind != FROM) snprintf(to, sizeof to, "last %c %lld", sign, size_of);
        print_keys(from, to, out, size);
        return;
    case FROM_TILE:
    case AFTER_TILE:
        snprintf(from, sizeof from, "first rounded %s to a multiple of %lld", h->kind == FROM_TILE ? "down" : "up", n);
        print_keys(from, to, out, size);
        return;
    case TO_TILE: snprintf(out, size, "keys first to the end of the last whole tile of %lld", n); return;
    case THROUGH_TILE: snprintf(out, size, "keys first to the end of last's tile of %lld", n); return;
    case LATEST: snprintf(out, size, "the last %lld keys", n); return;
    case EARLIEST: snprintf(out, size, "the first %lld keys", n); return;
    case WITHOUT: snprintf(out, size, "all keys but %lld to %lld", m, m + n - 1); return;
    case TWICE: snprintf(out, size, "all keys, %lld to %lld twice", m, m + n - 1); return;
    case BEFORE: snprintf(out, size, "keys %lld to %lld in place of %lld to %lld", m - n, m - 1, m, m + n - 1); return;
    case AFTER:
        snprintf(out, size, "keys %lld to %lld in place of %lld to %lld", m + n, m + 2 * n - 1, m, m + n - 1);
        return;
    case UNDIVIDED: snprintf(out, size, "sums that are not divided by the weights' sum"); return;
    case HEAD_MODULO: snprintf(out, size, "KV head h mod %u", s->p->kv_heads); return;
    case HEAD_PLUS: snprintf(out, size, "KV head + %lld", n); return;
    case HEAD_IS: snprintf(out, size, "KV head %lld", n); return;
    case SEQUENCE_PLUS: snprintf(out, size, "the K and V of sequence + %lld", n); return;
    case SEQUENCE_IS: snprintf(out, size, "the K and V of sequence %lld", n); return;
    case SINK_LOST: snprintf(out, size, "no sink"); return;
    case SINK_PLUS: snprintf(out, size, "the sink of head + %lld", n); return;
    case SCORES_TIMES: snprintf(out, size, "scores times %s", s->factors[n].name); return;
    case UNRESCALED:
    case UNRESCALED_OUT:
    case UNRESCALED_SUM:
        snprintf(out, size, "%s not rescaled where a tile of %lld has a larger score",
                 h->kind == UNRESCALED ? "sums" : h->kind == UNRESCALED_OUT ? "sums of V" : "sums of weights", n);
        return;
    }
}

/* NaN has many causes: where it is all that speaks for a hypothesis, no row may speak against it, and some be right. */
static bool holds(const scene *s, const hypothesis *h)
{
    enum { FEWEST_RIGHT = 2 };
    if (h->numbers == 0 && (h->nans < s->wrong || h->right || s->right < FEWEST_RIGHT)) return false;
    return 2 * (h->numbers + h->nans) >= s->wrong && 10 * h->wrong <= s->wrong && 10 * h->right <= s->right;
}

/* Below 0: a explains more than b. */
static int compare(const hypothesis *a, const hypothesis *b)
{
    const size_t x = a->numbers + a->nans, y = b->numbers + b->nans;
    if (a->numbers != b->numbers) return a->numbers > b->numbers ? -1 : 1;
    if (x != y) return x > y ? -1 : 1;
    if (a->wrong != b->wrong) return a->wrong < b->wrong ? -1 : 1;
    return a->right < b->right ? -1 : a->right > b->right;
}

/* The best one, and others that explain as many numbers. NaN comes of many sets of keys: of them the first. */
static void print_best(const scene *s, char *out, size_t size)
{
    enum { LISTED = 3 };
    const hypothesis *best = NULL;
    size_t listed = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (holds(s, &s->hypotheses[i]) && (!best || compare(&s->hypotheses[i], best) < 0)) best = &s->hypotheses[i];
    }
    for (size_t i = 0; best && i < s->count && listed < (best->numbers ? LISTED : 1); i++) {
        char text[192];
        if (compare(&s->hypotheses[i], best) != 0) continue;
        print_hypothesis(s, &s->hypotheses[i], text, sizeof text);
        const size_t used = strlen(out), explained = best->numbers + best->nans;
        if (listed++) snprintf(out + used, size - used, ", or %s", text);
        else if (!best->numbers) snprintf(out, size, "rows are NaN, as those of %s would be", text);
        else if (explained == s->wrong) snprintf(out, size, "each row%s is that of %s", s->all ? "" : " tried", text);
        else snprintf(out, size, "%zu of %zu rows tried are those of %s", explained, s->wrong, text);
    }
}

/* --- rows over the right keys, divided by something else --- */

/* Whether a row of out is a multiple of the right one, and far from that. Its numbers must differ by much more than
 * they may be off. */
static bool is_multiple(const scene *s, size_t row, double *times)
{
    enum { MORE = 4, NEARER = 4 };
    const double *exact = s->truth->exact.out + row * s->dims, *bound = s->truth->exact.out_bound + row * s->dims;
    double squares = 0, products = 0, least = INFINITY, most = -INFINITY, to_multiple = 0, to_exact = 0;
    for (size_t i = 0; i < s->dims; i++) {
        squares += exact[i] * exact[i];
        products += exact[i] * got_of(s, row * s->dims + i);
        least = fmin(least, exact[i]);
        most = fmax(most, exact[i]);
    }
    *times = products / squares;
    for (size_t i = 0; i < s->dims; i++) {
        const double got = got_of(s, row * s->dims + i), off = fabs(got - *times * exact[i]);
        if (!(off <= 2 * fabs(*times) * bound[i]) || !(MORE * 2 * bound[i] <= most - least)) return false;
        to_multiple = fmax(to_multiple, off);
        to_exact = fmax(to_exact, fabs(got - exact[i]));
    }
    return *times != 0 && NEARER * to_multiple <= to_exact;
}

/* Sums of V are right, and the sum of weights is not. A factor that is the same for all rows has other words. */
static void print_multiples(const scene *s, char *out, size_t size)
{
    enum { FEWEST = 4, DIMS = 16 };
    size_t wrong = 0, alike = 0;
    double least = INFINITY, most = -INFINITY, times;
    for (size_t row = 0; row < s->truth->rows; row++) {
        if (!is_wrong(s, row)) continue;
        wrong++;
        if (!is_multiple(s, row, &times)) continue;
        alike++;
        least = fmin(least, times);
        most = fmax(most, times);
    }
    if (s->dims >= DIMS && alike >= FEWEST && 10 * alike >= 9 * wrong && most > least + fabs(least) / 64)
        snprintf(out, size, "rows are multiples of the right ones, by factors from %.3g to %.3g", least, most);
}

/* --- the whole --- */

static kvg_status load_rows(scene *s, int64_t *longest)
{
    enum { MOST_NUMBERS = 1 << 26 };
    const kvg_tensor *in = s->q->data->in.tensors;
    const kvg_paging *g = &s->p->paging;
    const size_t parts = (size_t)g->sequences * s->p->kv_heads;
    kvg_flash plain;
    kvg_flash_init(s->p, KVG_FLASH_RIGHT, &plain);
    s->rows = calloc(parts, sizeof *s->rows);
    if (!s->rows) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu sets of rows", parts);
    size_t numbers = 0;
    for (size_t i = 0; i < parts; i++) {
        const kvg_status status = kvg_flash_rows_load(s->p, in, &plain, (uint32_t)(i / s->p->kv_heads),
                                                      (uint32_t)(i % s->p->kv_heads), 0, &s->rows[i]);
        if (status) return status;
        if (s->rows[i].length > *longest) *longest = s->rows[i].length;
        numbers += (size_t)s->rows[i].count * (s->rows[i].dim[KVG_K] + s->rows[i].dim[KVG_V]);
        if (numbers > MOST_NUMBERS) {
            *longest = 0; /* too much */
            return KVG_OK;
        }
    }
    return KVG_OK;
}

static void list_factors(scene *s)
{
    const double D = s->p->head_dim, g = s->in[2]->bytes ? ((const float *)s->in[2]->data)[0] : 1;
    const double scale = s->p->attention.scale > 0 ? s->p->attention.scale : 1 / sqrt(D);
    const double cap = s->p->attention.softcap > 0 ? s->p->attention.softcap : 1;
    const factor all[FACTORS] = {
        {"log2(e)", log2(exp(1))}, {"ln(2)", log(2)},
        {"the softmax scale", scale}, {"1 / the softmax scale", 1 / scale},
        {"1 / (sqrt(D) * the softmax scale)", 1 / (sqrt(D) * scale)},
        {"K's tensor scale", g}, {"1 / K's tensor scale", 1 / g},
        {"1 / the softmax scale's square", 1 / (scale * scale)},
        {"2", 2}, {"1/2", 0.5}, {"-1", -1}, {"0", 0}, {"the soft-cap's square", cap * cap},
    };
    memcpy(s->factors, all, sizeof all);
}

static void find_row(const scene *s, size_t row, fit_query *q)
{
    const uint32_t Hq = s->p->attention.query_heads;
    const kvg_query_row *asked = &s->q->data->queries[row / Hq];
    const int64_t window = s->p->attention.window;
    q->row = row;
    q->sequence = asked->sequence;
    q->head = (uint32_t)(row % Hq);
    q->end = asked->position + 1;
    const uint32_t D = s->p->head_dim;
    for (uint32_t i = 0; i < D; i++) q->q[i] = kvg_number_at(s->in[0]->dtype, s->in[0]->data, row * D + i);
    q->first = window && q->end > window ? q->end - window : 0;
}

/* Tries some of the rows that are wrong, and of those that are right: of long sequences fewer. */
static void try_rows(scene *s, int64_t longest, fit_query *own, fit_query *other)
{
    enum { MOST = 16, LEAST = 4, MOST_KEYS = MOST * 1024 };
    const size_t rows = s->truth->rows, by_keys = (size_t)(MOST_KEYS / longest);
    const size_t each = by_keys < LEAST ? LEAST : by_keys < MOST ? by_keys : MOST;
    size_t wrong = 0, seen[2] = {0};
    for (size_t row = 0; row < rows; row++) wrong += is_wrong(s, row);
    const size_t step[2] = {(rows - wrong) / each + 1, wrong / each + 1};
    s->all = step[true] == 1;
    for (size_t row = 0; row < rows; row++) {
        const bool is = is_wrong(s, row);
        find_row(s, row, own);
        if (own->end <= 0 || !(bounds_of(s, row).widest < INFINITY) || seen[is]++ % step[is]) continue;
        find_row(s, row, other);
        const uint32_t kv_head = own->head / (s->p->attention.query_heads / s->p->kv_heads);
        const fit_making right = {rows_at(s, own->sequence, kv_head), .times = 1, .sink = sink_of(s, own->head)};
        judge_fit_sum_up(&right, own);
        try_row(s, own, other, is);
    }
}

kvg_status judge_fit_keys(const kvg_evidence *q, size_t index, char *out, size_t size)
{
    enum { FEWEST_ROWS = 2 };
    scene s = {.q = q, .truth = q->numbers, .p = &q->data->c->problem, .index = index};
    fit_query own = {0}, other = {0};
    int64_t longest = 0;
    out[0] = 0;
    if (!q->data->queries || !q->numbers) return KVG_OK;
    s.dims = index ? 1 : s.truth->outputs / s.truth->rows;
    s.in[0] = kvg_set_tensor(&q->data->in, KVG_ROLE_Q, KVG_K);
    s.in[1] = kvg_set_tensor(&q->data->in, KVG_ROLE_SINKS, KVG_K);
    s.in[2] = kvg_set_tensor(&q->data->in, KVG_ROLE_TENSOR_SCALE, KVG_K);
    list_factors(&s);
    kvg_status status = load_rows(&s, &longest);
    if (!status && longest) status = list_hypotheses(&s, longest);
    const size_t v_dim = s.truth->outputs / s.truth->rows;
    if (!status && longest && (!judge_fit_query_open(s.p, v_dim, longest, &own) ||
                               !judge_fit_query_open(s.p, v_dim, longest, &other)))
        status = kvg_fail(KVG_ERR_MEMORY, "cannot hold the sums of %lld keys", (long long)longest);
    if (!status && longest) {
        try_rows(&s, longest, &own, &other);
        if (s.wrong >= FEWEST_ROWS) print_best(&s, out, size);
    }
    if (!status && !index && !out[0]) print_multiples(&s, out, size);
    judge_fit_query_close(&own);
    judge_fit_query_close(&other);
    for (size_t i = 0; s.rows && i < (size_t)s.p->paging.sequences * s.p->kv_heads; i++)
        kvg_flash_rows_free(&s.rows[i]);
    free(s.rows);
    free(s.hypotheses);
    return status;
}
