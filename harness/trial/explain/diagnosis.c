#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/explain/diagnosis_score.h"
#include "support/clock.h"

/* A list of hypotheses and what they explain. */
typedef struct list {
    kvg_score *scores;
    size_t count, room;
} list;

static kvg_status push(list *l, kvg_wrong a, const kvg_wrong *b)
{
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 256;
        kvg_score *more = realloc(l->scores, room * sizeof *more);
        if (!more) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu hypotheses", room);
        l->scores = more;
        l->room = room;
    }
    l->scores[l->count] = (kvg_score){.e = {.wrong = {a}, .count = b ? 2 : 1}};
    if (b) l->scores[l->count].e.wrong[1] = *b;
    l->count++;
    return KVG_OK;
}

/* --- one defect --- */

/* A row; where it is of both sides also on K and on V alone; where tiles matter, on those that kernels have. */
static kvg_status push_row(const kvg_problem *p, const kvg_defect *defect, list *l)
{
    static const unsigned sides[] = {KVG_BOTH_SIDES, KVG_SIDE_K, KVG_SIDE_V};
    static const uint32_t tiles[] = {16, 32, 64, 128}, splits[] = {1, 2, 3, 4, 8};
    enum { TILES = sizeof tiles / sizeof tiles[0], SPLITS = sizeof splits / sizeof splits[0] };
    if (!kvg_defect_applies(defect, p)) return KVG_OK;
    const bool apart = kvg_problem_sides(p) == 2 && kvg_defect_applies_to(defect, p, KVG_K) &&
                       kvg_defect_applies_to(defect, p, KVG_V);
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < (apart ? 3 : 1) && !s; i++)
        s = push(l, (kvg_wrong){.defect = defect, .sides = sides[i]}, NULL);
    for (size_t i = 0; i < TILES * SPLITS && !s && kvg_flash_depends_on_tiles(defect->flash); i++) {
        s = push(l, (kvg_wrong){.defect = defect, .sides = KVG_BOTH_SIDES, .tile = tiles[i % TILES],
                                .splits = splits[i / TILES]}, NULL);
    }
    return s;
}

/* Drops what changes nothing, and variants of a row that give what another variant of it gives. */
static void keep_reached(list *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        const kvg_score *s = &l->scores[i];
        bool known = !s->ran || !s->reached;
        for (size_t k = kept; !known && k-- > 0 && l->scores[k].e.wrong[0].defect == s->e.wrong[0].defect;)
            known = l->scores[k].e.hash == s->e.hash;
        if (!known) l->scores[kept++] = *s;
    }
    l->count = kept;
}

/* Runs each defect of a list and adds it to `l`. */
static kvg_status try_defects(const kvg_scorer *c, const kvg_defect *defects, size_t count, list *l)
{
    const size_t first = l->count;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) s = push_row(c->problem, &defects[i], l);
    return s ? s : kvg_scorer_run(c, l->scores + first, l->count - first, "single defects", INFINITY);
}

static bool any_exact(const list *l)
{
    bool exact = false;
    for (size_t i = 0; i < l->count; i++) exact |= l->scores[i].ran && l->scores[i].e.exact;
    return exact;
}

/* The rows of the table, dialects and layouts by name, and if none of them is it the texts near the layout's. */
static kvg_status try_singles(const kvg_scorer *c, list *l)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_status s = try_defects(c, defects, count, l);
    if (!s) {
        defects = kvg_defect_named(&count);
        s = try_defects(c, defects, count, l);
    }
    if (s || any_exact(l)) return s;
    s = kvg_defect_near(c->problem, &defects, &count);
    return s ? s : try_defects(c, defects, count, l);
}

/* --- the best of them --- */

/* -1: a explains better than b. Exact before partial, one defect before two, then the larger share; the order of the
 * table decides the rest (the insertion keeps it). */
static int compare(const kvg_explanation *a, const kvg_explanation *b)
{
    const int64_t x = (int64_t)(a->explained - a->introduced), y = (int64_t)(b->explained - b->introduced);
    if (a->exact != b->exact) return a->exact ? -1 : 1;
    if (a->exact && a->count != b->count) return a->count < b->count ? -1 : 1;
    if (x != y) return x > y ? -1 : 1;
    return a->count < b->count ? -1 : a->count > b->count;
}

static void keep_best(kvg_diagnosis *d, const kvg_explanation *e)
{
    if (!(e->explained > e->introduced)) return;
    size_t at = d->count;
    while (at > 0 && compare(e, &d->explanations[at - 1]) < 0) at--;
    if (at == KVG_MAX_EXPLANATIONS) return;
    if (d->count < KVG_MAX_EXPLANATIONS) d->count++;
    for (size_t i = d->count - 1; i > at; i--) d->explanations[i] = d->explanations[i - 1];
    d->explanations[at] = *e;
}

/* --- pairs --- */

typedef struct pair {
    uint32_t a, b;
    uint64_t promise;  /* how much the two could explain if each did what it does best */
    uint32_t variants; /* how many of them are a variant of a row: of one side, or on certain tiles */
} pair;

static uint32_t is_variant(const kvg_wrong *w)
{
    return w->sides != KVG_BOTH_SIDES || w->tile;
}

static uint64_t promise_of(const kvg_score *a, const kvg_score *b)
{
    uint64_t sum = 0;
    for (int i = 0; i < KVG_PLACE_GROUPS; i++) sum += a->gain[i] > b->gain[i] ? a->gain[i] : b->gain[i];
    return sum;
}

static int by_promise(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    if (a->promise != b->promise) return a->promise > b->promise ? -1 : 1;
    if (a->variants != b->variants) return a->variants < b->variants ? -1 : 1;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    return (a->b > b->b) - (a->b < b->b);
}

/* Two of one row are no pair: on the same side they are one, on K and on V the row on both. */
static size_t list_pairs(const list *singles, pair *pairs)
{
    size_t n = 0;
    for (uint32_t a = 0; a < singles->count; a++) {
        for (uint32_t b = a + 1; b < singles->count; b++) {
            const kvg_score *x = &singles->scores[a], *y = &singles->scores[b];
            if (x->e.wrong[0].defect == y->e.wrong[0].defect) continue;
            const uint32_t variants = is_variant(&x->e.wrong[0]) + is_variant(&y->e.wrong[0]);
            pairs[n++] = (pair){a, b, promise_of(x, y), variants};
        }
    }
    qsort(pairs, n, sizeof *pairs, by_promise);
    return n;
}

/* From the most promising pair on. A diagnosis that ends early has what was found until then. */
static kvg_status try_pairs(const kvg_scorer *c, const list *singles, double start, kvg_diagnosis *out)
{
    pair *pairs = malloc((singles->count * singles->count / 2 + 1) * sizeof *pairs);
    list both = {0};
    if (!pairs) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the pairs of %zu defects", singles->count);
    const size_t n = list_pairs(singles, pairs);
    const kvg_explanation best = out->explanations[0]; /* of one defect, if there is any: a pair must do better */
    const double until = c->q->seconds > 0 ? start + c->q->seconds : INFINITY;
    kvg_status s = KVG_OK;
    out->all_pairs = n;
    for (size_t i = 0; i < n && i < c->q->pairs && !s; i++)
        s = push(&both, singles->scores[pairs[i].a].e.wrong[0], &singles->scores[pairs[i].b].e.wrong[0]);
    if (!s) s = kvg_scorer_run(c, both.scores, both.count, "pairs of defects", until);
    for (size_t i = 0; i < both.count && !s; i++) {
        const kvg_explanation *e = &both.scores[i].e;
        out->pairs += both.scores[i].tried;
        if (both.scores[i].ran && (!best.count || compare(e, &best) < 0)) keep_best(out, e);
    }
    if (out->pairs < both.count) out->seconds = kvg_clock_seconds() - start;
    free(both.scores);
    free(pairs);
    return s;
}

/* --- the whole --- */

kvg_status kvg_diagnose(const kvg_evidence *q, const kvg_places *places, kvg_diagnosis *out)
{
    const double start = kvg_clock_seconds();
    kvg_scorer c;
    list singles = {0};
    *out = (kvg_diagnosis){0};
    kvg_status s = kvg_scorer_open(q, places, &c);
    const kvg_op op = c.problem->op;
    const bool constant = kvg_where_constant(q, kvg_case_asked(q->data->c));
    out->wrong_bits = c.wrong_bits;
    out->all_bits = c.all_bits;
    if (!s && out->wrong_bits) s = try_singles(&c, &singles);
    if (!s) {
        out->tried = singles.count;
        keep_reached(&singles);
        out->reached = singles.count;
        for (size_t i = 0; i < singles.count; i++) {
            const kvg_explanation *e = &singles.scores[i].e;
            if (kvg_where_explains(constant, e->wrong, e->count, op)) keep_best(out, e);
        }
    }
    const bool explained = out->count && out->explanations[0].exact;
    if (!s && out->wrong_bits && !constant && !explained) s = try_pairs(&c, &singles, start, out);
    free(singles.scores);
    kvg_scorer_close(&c);
    return s;
}

/* --- names --- */

static void name_of(const kvg_wrong *w, char *out, size_t size)
{
    const char *side = w->sides == KVG_SIDE_K ? " (K)" : w->sides == KVG_SIDE_V ? " (V)" : "";
    char tiles[48] = "";
    if (w->tile)
        snprintf(tiles, sizeof tiles, " (tiles of %u, %u split%s)", w->tile, w->splits, w->splits == 1 ? "" : "s");
    snprintf(out, size, "%s%s%s", w->defect->id, side, tiles);
}

void kvg_explanation_name(const kvg_explanation *e, char *out, size_t size)
{
    char first[KVG_DIAGNOSIS_TEXT], second[KVG_DIAGNOSIS_TEXT];
    name_of(&e->wrong[0], first, sizeof first);
    if (e->count == 2) name_of(&e->wrong[1], second, sizeof second);
    snprintf(out, size, "%s%s%s", first, e->count == 2 ? " and " : "", e->count == 2 ? second : "");
}

void kvg_explanation_text(const kvg_explanation *e, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < e->count && used < size; i++) {
        const kvg_defect *d = e->wrong[i].defect;
        const int n = snprintf(out + used, size - used, "%s%s%s%s%s", i ? "; " : "", d->summary,
                               d->seen_in[0] ? " (" : "", d->seen_in, d->seen_in[0] ? ")" : "");
        if (n < 0) return;
        used += (size_t)n;
    }
}
