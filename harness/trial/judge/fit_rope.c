#include "harness/trial/judge/fit_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/question/describe.h"
#include "harness/trial/wrong/flash_rows.h"

/* A wrong element, and what it may be made of. */
typedef struct element {
    double got, right, limit; /* limit: how far the stored row may be off */
    double x[2];              /* the pair */
    int64_t position;
    uint32_t pair;
} element;

enum { TRIED_ROWS = 64, MOST_ELEMENTS = 96, POSITIONS = 2 };

/* Where the factors of pair i may stand among those of a position, beside cos at 2 i and sin at 2 i + 1: the same at
 * times * i + plus, or + 1. */
static const struct {
    int times, plus;
} angles[] = {{2, 0}, {2, 2}, {2, -2}, {2, 1}, {2, -1}, {1, 0}, {3, 0}, {1, 2}};

enum { ANGLES = sizeof angles / sizeof angles[0], PAIRS = 3 }; /* PAIRS: the first ones, which are of another pair */

/* a * cos + b * sin of other angles and of a position so far away, where a and b are 0, x, -x, y or -y by these codes.
 * `still`: a alone. */
typedef struct hypothesis {
    int a, b, cos_at, sin_at, position;
    bool still;
    size_t explained;
} hypothesis;

typedef struct scene {
    const kvg_question *d;
    const kvg_problem *p;
    kvg_side side;
    const kvg_tensor *in[4];        /* the side's rows, its bias, positions, cos_sin */
    element *elements[2];           /* of the first and the second of pairs, at first all of TRIED_ROWS rows */
    size_t count[2], others_wrong;  /* others: elements that RoPE leaves alone */
    hypothesis best[2];
} scene;

enum { ROWS, BIAS, TOKEN_POSITIONS, COS_SIN };

/* --- elements --- */

static uint32_t pairs_of(const scene *s)
{
    return s->p->rope.dims / 2;
}

/* The dim of the first or the second of a pair. */
static uint32_t dim_of(const scene *s, uint32_t pair, int which)
{
    const bool adjacent = s->p->rope.pairing == KVG_PAIRING_ADJACENT;
    return adjacent ? 2 * pair + (uint32_t)which : pair + (uint32_t)which * pairs_of(s);
}

/* An element with its bias, before RoPE. */
static double given(const scene *s, size_t token, uint32_t head, uint32_t dim)
{
    const size_t H = s->p->kv_heads, D = s->p->head_dim;
    const double x = kvg_number_at(s->in[ROWS]->dtype, s->in[ROWS]->data, (token * H + head) * D + dim);
    if (!s->in[BIAS]->bytes) return x;
    const double bias = kvg_number_at(s->in[BIAS]->dtype, s->in[BIAS]->data, head * D + dim);
    return kvg_flash_through(s->p->dtype, (float)(x + bias));
}

/* Notes the wrong elements of a row: `exact` is what was to be stored. What stands there may be off as far as it, or
 * the right number, may be. */
static void see_row(scene *s, size_t row, const float *got, const float *exact)
{
    const size_t token = s->d->source[row / s->p->kv_heads];
    const uint32_t head = (uint32_t)(row % s->p->kv_heads);
    const int64_t position = ((const int32_t *)s->in[TOKEN_POSITIONS]->data)[token];
    double bound[KVG_MAX_HEAD_DIM], of_got[KVG_MAX_HEAD_DIM];
    kvg_question_bound(s->d, s->side, exact, bound);
    kvg_question_bound(s->d, s->side, got, of_got);
    for (uint32_t i = 0; i < s->p->head_dim; i++) bound[i] = fmax(bound[i], of_got[i]);
    for (uint32_t i = 2 * pairs_of(s); i < s->p->head_dim; i++)
        s->others_wrong += !(fabs((double)got[i] - exact[i]) <= 4 * bound[i]);
    for (uint32_t i = 0; i < 2 * pairs_of(s); i++) {
        const int which = i % 2;
        const uint32_t pair = i / 2, dim = dim_of(s, pair, which);
        if (!(fabs((double)got[dim] - exact[dim]) > 4 * bound[dim])) continue;
        s->elements[which][s->count[which]++] = (element){
            .got = got[dim], .right = exact[dim], .limit = bound[dim], .position = position, .pair = pair,
            .x = {given(s, token, head, dim_of(s, pair, 0)), given(s, token, head, dim_of(s, pair, 1))},
        };
    }
}

/* Keeps elements from all rows: an odd step meets every pair of a power of two. */
static void thin_out(scene *s, int which)
{
    const size_t step = (s->count[which] / MOST_ELEMENTS) | 1;
    size_t kept = 0;
    for (size_t i = 0; i < s->count[which] && kept < MOST_ELEMENTS; i += step)
        s->elements[which][kept++] = s->elements[which][i];
    s->count[which] = kept;
}

/* Rows are taken from all over the case. */
static kvg_status see_rows(scene *s, const kvg_tensor_set *answer)
{
    const size_t count = (size_t)s->d->rows.tokens * s->p->kv_heads, step = count / TRIED_ROWS + 1;
    const kvg_tensor *values = kvg_set_tensor(&s->d->values, KVG_ROLE_VALUES, s->side);
    const kvg_tensor *codes = kvg_set_tensor(answer, KVG_ROLE_CODES, s->side);
    const kvg_tensor *scales = kvg_set_tensor(answer, KVG_ROLE_SCALES, s->side);
    const size_t bytes = s->p->head_dim * kvg_dtype_bytes(values->dtype);
    kvg_status status = KVG_OK;
    for (size_t row = 0; row < count && !status; row += step) {
        float got[KVG_MAX_HEAD_DIM], exact[KVG_MAX_HEAD_DIM];
        kvg_reference_load(values->dtype, (const uint8_t *)values->data + row * bytes, s->p->head_dim, exact);
        status = kvg_flash_dequantise(&s->d->rows, s->side, s->d->tensor_scale[s->side], 1,
                                      (const uint8_t *)codes->data + row * (size_t)codes->shape[2],
                                      (const uint8_t *)scales->data + row * (size_t)scales->shape[2], got);
        if (!status) see_row(s, row, got, exact);
    }
    return status;
}

/* --- hypotheses --- */

static double part_of(const element *e, int code)
{
    const double signed_x[] = {0, e->x[0], -e->x[0], e->x[1], -e->x[1]};
    return signed_x[code];
}

/* The factor of an element's pair at angles[which], `sine` further; NaN: outside the table. */
static double factor_of(const scene *s, const element *e, int position, int which, int sine)
{
    const int64_t pairs = pairs_of(s), row = 2 * pairs * (e->position + position);
    const int64_t at = row + angles[which].times * (int64_t)e->pair + angles[which].plus + sine;
    if (at < 0 || at >= 2 * pairs * (int64_t)s->p->rope.positions) return NAN;
    if (which < PAIRS && (at < row || at >= row + 2 * pairs)) return NAN; /* there is no such pair */
    return ((const float *)s->in[COS_SIN]->data)[at];
}

static bool explains(const scene *s, const hypothesis *h, const element *e)
{
    const double a = part_of(e, h->a), b = part_of(e, h->b);
    const double is = h->still ? a : a * factor_of(s, e, h->position, h->cos_at, 0) +
                                     b * factor_of(s, e, h->position, h->sin_at, 1);
    return fabs(is - e->got) <= e->limit && 4 * fabs(is - e->got) <= fabs(e->got - e->right);
}

/* A hypothesis that leaves more than a quarter of the elements unexplained has no words. */
static void try_hypothesis(scene *s, int which, hypothesis h)
{
    const size_t lost = s->count[which] / 4;
    for (size_t i = 0; i < s->count[which] && i <= h.explained + lost; i++)
        h.explained += explains(s, &h, &s->elements[which][i]);
    if (h.explained > s->best[which].explained) s->best[which] = h;
}

static void try_angles(scene *s, int which, int a, int b)
{
    for (int far = 0; far < ANGLES * ANGLES * (2 * POSITIONS + 1); far++) {
        static const int order[] = {0, 1, -1, 2, -2};
        const int cos_at = far % ANGLES, sin_at = far / ANGLES % ANGLES, position = order[far / ANGLES / ANGLES];
        try_hypothesis(s, which, (hypothesis){a, b, cos_at, sin_at, position, false, 0});
    }
}

/* The simple ones first: of those that explain as much the first one counts. Both parts of another sign are no mistake
 * of RoPE. */
static void try_all(scene *s, int which)
{
    enum { X = 1, MINUS_X, Y, MINUS_Y, CODES };
    static const int right[2][2] = {{X, MINUS_Y}, {Y, X}}, minus[2][2] = {{MINUS_X, Y}, {MINUS_Y, MINUS_X}};
    for (int a = X; a <= Y; a += Y - X) try_hypothesis(s, which, (hypothesis){.a = a, .still = true});
    try_angles(s, which, right[which][0], right[which][1]);
    for (int ab = 1; ab < CODES * CODES; ab++) {
        const int a = ab % CODES, b = ab / CODES;
        if (a != minus[which][0] || b != minus[which][1]) try_angles(s, which, a, b);
    }
}

/* --- words --- */

static void print_far(const char *what, int far, char *out, size_t size)
{
    if (far) kvg_describe_add(out, size, " of %s %c %d", what, far < 0 ? '-' : '+', abs(far));
}

/* "cos of pair + 1", or "cos_sin[3 i]" of pair i. */
static void print_factor(int which, int sine, char *out, size_t size)
{
    const int times = angles[which].times, plus = angles[which].plus + sine;
    if (which < PAIRS) {
        kvg_describe_add(out, size, sine ? "sin" : "cos");
        print_far("pair", angles[which].plus / 2, out, size);
        return;
    }
    kvg_describe_add(out, size, times == 1 ? "cos_sin[i" : "cos_sin[%d i", times);
    kvg_describe_add(out, size, plus ? " %c %d]" : "]", plus < 0 ? '-' : '+', abs(plus));
}

static void print_hypothesis(const hypothesis *h, char *out, size_t size)
{
    static const char *const names[] = {"0", "x", "-x", "y", "-y"};
    if (h->still) {
        kvg_describe_add(out, size, "%s", names[h->a]);
        return;
    }
    if (h->a) kvg_describe_add(out, size, "%s ", names[h->a]);
    if (h->a) print_factor(h->cos_at, 0, out, size);
    if (h->a && h->b) kvg_describe_add(out, size, " %s ", names[h->b][0] == '-' ? "-" : "+");
    if (h->b) kvg_describe_add(out, size, "%s ", names[h->b] + (h->a && names[h->b][0] == '-'));
    if (h->b) print_factor(h->sin_at, 1, out, size);
    print_far("position", h->position, out, size);
}

static void print(const scene *s, char *out, size_t size)
{
    enum { FEWEST = 8 };
    const char *const begin = s->side == KVG_V ? "V: RoPE: the" : "RoPE: the";
    const char *before = begin;
    for (int which = 0; which < 2; which++) {
        const hypothesis *best = &s->best[which];
        if (s->count[which] < FEWEST || 4 * best->explained < 3 * s->count[which]) continue;
        const bool both = before != begin;
        kvg_describe_add(out, size, "%s %s%s ", before, which ? "second" : "first", both ? "" : " of each pair is");
        print_hypothesis(best, out, size);
        before = ", the";
    }
}

/* --- the whole --- */

static kvg_status find(scene *s, const kvg_tensor_set *rows, char *out, size_t size)
{
    static const kvg_role roles[] = {KVG_ROLE_VALUES, KVG_ROLE_BIAS, KVG_ROLE_POSITIONS, KVG_ROLE_COS_SIN};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        s->in[i] = kvg_set_tensor(&s->d->in, roles[i], i <= BIAS ? s->side : KVG_K);
    const kvg_status status = see_rows(s, rows);
    if (status || s->others_wrong) return status;
    for (int which = 0; which < 2; which++) {
        thin_out(s, which);
        try_all(s, which);
    }
    print(s, out, size);
    return KVG_OK;
}

/* Counts the wrong elements of a side's rows in `wrong`: firsts and seconds of pairs, and others. */
static void count_wrong(const kvg_problem *p, const kvg_tensor *right, const kvg_tensor *got, bool turned,
                        size_t wrong[3])
{
    const size_t width = kvg_dtype_bytes(right->dtype);
    const uint32_t dims = turned ? p->rope.dims : 0;
    for (size_t i = 0; i < right->bytes / width; i++) {
        const uint32_t dim = (uint32_t)(i % p->head_dim);
        const bool second = p->rope.pairing == KVG_PAIRING_ADJACENT ? dim % 2 : dim >= dims / 2;
        wrong[dim >= dims ? 2 : second] +=
            memcmp((const uint8_t *)right->data + i * width, (const uint8_t *)got->data + i * width, width) != 0;
    }
}

/* Where pairs of K are wrong, by no rule, and nothing else is, though rows have other elements. */
static kvg_status find_turned(const kvg_evidence *q, char *out, size_t size)
{
    enum { FEWEST = 16 };
    const kvg_problem *p = &q->data->c->problem;
    kvg_tensor_set rows[2] = {{.count = 0}, {.count = 0}};
    size_t wrong[3] = {0, 0, 0};
    if (p->rope.dims == p->head_dim) return KVG_OK;
    kvg_status status = kvg_question_values(q->data, q->expected, &rows[0]);
    if (!status) status = kvg_question_values(q->data, q->answer, &rows[1]);
    for (int side = KVG_K; side < kvg_problem_sides(p) && !status; side++) {
        count_wrong(p, kvg_set_tensor(&rows[0], KVG_ROLE_VALUES, (kvg_side)side),
                    kvg_set_tensor(&rows[1], KVG_ROLE_VALUES, (kvg_side)side), side == KVG_K, wrong);
    }
    kvg_set_free(&rows[0]);
    kvg_set_free(&rows[1]);
    if (status || wrong[0] + wrong[1] < FEWEST || wrong[2]) return status;
    if (wrong[0] && wrong[1]) kvg_describe_add(out, size, "only what RoPE turns is wrong");
    else kvg_describe_add(out, size, "of what RoPE turns only the %s of each pair is wrong",
                          wrong[1] ? "second" : "first");
    return KVG_OK;
}

/* V is looked at where K, of the same output, has no words. */
kvg_status judge_fit_rope(const kvg_evidence *q, size_t index, char *out, size_t size)
{
    const kvg_question *d = q->data;
    const kvg_problem *p = &d->c->problem;
    kvg_tensor_set rows = {.count = 0};
    kvg_role role;
    kvg_side of;
    out[0] = 0;
    kvg_roles_at(d->op->outputs, index, &role, &of);
    if (!kvg_differ_answered(q->expected, q->answer, kvg_roles_tensors(d->op->outputs))) return KVG_OK;
    if (kvg_roles_index(d->op->inputs, KVG_ROLE_COS_SIN, KVG_K) < 0 || p->rope.dims == 0) return KVG_OK;
    const size_t room = (size_t)TRIED_ROWS * p->rope.dims / 2;
    element *first = malloc(room * sizeof *first), *second = malloc(room * sizeof *second);
    kvg_status status = first && second ? KVG_OK :
                        kvg_fail(KVG_ERR_MEMORY, "cannot hold the elements of %zu pairs", room);
    if (!status) status = kvg_question_codes(d, q->answer, &rows);
    for (int side = of; side < kvg_problem_sides(p) && !status && !out[0]; side++)
        status = find(&(scene){.d = d, .p = p, .side = (kvg_side)side, .elements = {first, second}}, &rows, out, size);
    if (!status && !out[0] && of == KVG_K) status = find_turned(q, out, size);
    kvg_set_free(&rows);
    free(first);
    free(second);
    return status;
}
