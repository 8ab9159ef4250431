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
    const float *angles;      /* of its position: [pairs][cos, sin] */
    int64_t position;
    uint32_t pair;
} element;

enum { TRIED_ROWS = 64, MOST_ELEMENTS = 96, ANGLES = 3, POSITIONS = 2 };

/* a * cos + b * sin of pairs and a position so far away, where a and b are 0, x, -x, y or -y by these codes. `still`: a
 * alone. */
typedef struct hypothesis {
    int a, b, cos_pair, sin_pair, position;
    bool still;
    size_t explained;
} hypothesis;

typedef struct scene {
    const kvg_question *d;
    const kvg_problem *p;
    const kvg_tensor *in[4];        /* k, its bias, positions, cos_sin */
    element *elements[2];           /* of the first and the second of pairs, at first all of TRIED_ROWS rows */
    size_t count[2], others_wrong;  /* others: elements that RoPE leaves alone */
    hypothesis best[2];
} scene;

enum { K, BIAS, TOKEN_POSITIONS, COS_SIN };

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

/* An element of K with its bias, before RoPE. */
static double given(const scene *s, size_t token, uint32_t head, uint32_t dim)
{
    const size_t H = s->p->kv_heads, D = s->p->head_dim;
    const double x = kvg_number_at(s->in[K]->dtype, s->in[K]->data, (token * H + head) * D + dim);
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
    kvg_question_bound(s->d, KVG_K, exact, bound);
    kvg_question_bound(s->d, KVG_K, got, of_got);
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
            .angles = (const float *)s->in[COS_SIN]->data + (size_t)position * 2 * pairs_of(s),
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
    const kvg_tensor *values = kvg_set_tensor(&s->d->values, KVG_ROLE_VALUES, KVG_K);
    const kvg_tensor *codes = kvg_set_tensor(answer, KVG_ROLE_CODES, KVG_K);
    const kvg_tensor *scales = kvg_set_tensor(answer, KVG_ROLE_SCALES, KVG_K);
    const size_t bytes = s->p->head_dim * kvg_dtype_bytes(values->dtype);
    kvg_status status = KVG_OK;
    for (size_t row = 0; row < count && !status; row += step) {
        float got[KVG_MAX_HEAD_DIM], exact[KVG_MAX_HEAD_DIM];
        kvg_reference_load(values->dtype, (const uint8_t *)values->data + row * bytes, s->p->head_dim, exact);
        status = kvg_flash_dequantise(&s->d->rows, KVG_K, s->d->tensor_scale[KVG_K], 1,
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

static bool explains(const scene *s, const hypothesis *h, const element *e)
{
    const int64_t pairs = pairs_of(s), cos_pair = e->pair + h->cos_pair, sin_pair = e->pair + h->sin_pair;
    const int64_t position = e->position + h->position;
    if (cos_pair < 0 || cos_pair >= pairs || sin_pair < 0 || sin_pair >= pairs) return false;
    if (position < 0 || position >= (int64_t)s->p->rope.positions) return false;
    const float *angles = e->angles + h->position * 2 * pairs;
    const double a = part_of(e, h->a), b = part_of(e, h->b);
    const double is = h->still ? a : a * angles[2 * cos_pair] + b * angles[2 * sin_pair + 1];
    return fabs(is - e->got) <= e->limit && 4 * fabs(is - e->got) <= fabs(e->got - e->right);
}

static void try_hypothesis(scene *s, int which, hypothesis h)
{
    for (size_t i = 0; i < s->count[which]; i++) h.explained += explains(s, &h, &s->elements[which][i]);
    if (h.explained > s->best[which].explained) s->best[which] = h;
}

/* The simple ones first: of those that explain as much the first one counts. Both parts of another sign are no mistake
 * of RoPE. */
static void try_all(scene *s, int which)
{
    enum { X = 1, MINUS_X, Y, MINUS_Y, CODES };
    static const int minus[2][2] = {{MINUS_X, Y}, {MINUS_Y, MINUS_X}};
    for (int a = X; a <= Y; a += Y - X) try_hypothesis(s, which, (hypothesis){.a = a, .still = true});
    for (int far = 0; far < ANGLES * ANGLES * (2 * POSITIONS + 1); far++) {
        static const int order[] = {0, 1, -1, 2, -2};
        const int cos_pair = order[far % ANGLES], sin_pair = order[far / ANGLES % ANGLES];
        const int position = order[far / ANGLES / ANGLES];
        for (int ab = 1; ab < CODES * CODES; ab++) {
            const int a = ab % CODES, b = ab / CODES;
            if (a == minus[which][0] && b == minus[which][1]) continue;
            try_hypothesis(s, which, (hypothesis){a, b, cos_pair, sin_pair, position, false, 0});
        }
    }
}

/* --- words --- */

static void print_far(const char *what, int far, char *out, size_t size)
{
    if (far) kvg_describe_add(out, size, " of %s %c %d", what, far < 0 ? '-' : '+', abs(far));
}

static void print_hypothesis(const hypothesis *h, char *out, size_t size)
{
    static const char *const names[] = {"0", "x", "-x", "y", "-y"};
    if (h->still) {
        kvg_describe_add(out, size, "%s", names[h->a]);
        return;
    }
    if (h->a) kvg_describe_add(out, size, "%s cos", names[h->a]);
    if (h->a) print_far("pair", h->cos_pair, out, size);
    if (h->a && h->b) kvg_describe_add(out, size, " %s ", names[h->b][0] == '-' ? "-" : "+");
    if (h->b) kvg_describe_add(out, size, "%s sin", names[h->b] + (h->a && names[h->b][0] == '-'));
    if (h->b) print_far("pair", h->sin_pair, out, size);
    print_far("position", h->position, out, size);
}

static void print(const scene *s, char *out, size_t size)
{
    enum { FEWEST = 8 };
    const char *before = "RoPE: the";
    for (int which = 0; which < 2; which++) {
        const hypothesis *best = &s->best[which];
        if (s->count[which] < FEWEST || 4 * best->explained < 3 * s->count[which]) continue;
        const bool both = strcmp(before, "RoPE: the") != 0;
        kvg_describe_add(out, size, "%s %s%s ", before, which ? "second" : "first", both ? "" : " of each pair is");
        print_hypothesis(best, out, size);
        before = ", the";
    }
}

/* --- the whole --- */

kvg_status judge_fit_rope(const kvg_evidence *q, size_t index, char *out, size_t size)
{
    const kvg_question *d = q->data;
    const kvg_problem *p = &d->c->problem;
    static const kvg_role roles[] = {KVG_ROLE_VALUES, KVG_ROLE_BIAS, KVG_ROLE_POSITIONS, KVG_ROLE_COS_SIN};
    kvg_tensor_set rows = {.count = 0};
    kvg_role role;
    kvg_side side;
    out[0] = 0;
    kvg_roles_at(d->op->outputs, index, &role, &side);
    if (side == KVG_V || !kvg_differ_answered(q->expected, q->answer, kvg_roles_tensors(d->op->outputs))) return KVG_OK;
    if (kvg_roles_index(d->op->inputs, KVG_ROLE_COS_SIN, KVG_K) < 0 || p->rope.dims == 0) return KVG_OK;
    const size_t room = (size_t)TRIED_ROWS * p->rope.dims / 2;
    element *first = malloc(room * sizeof *first), *second = malloc(room * sizeof *second);
    scene *s = &(scene){.d = d, .p = p, .elements = {first, second}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) s->in[i] = kvg_set_tensor(&d->in, roles[i], KVG_K);
    kvg_status status = first && second ? KVG_OK :
                        kvg_fail(KVG_ERR_MEMORY, "cannot hold the elements of %zu pairs", room);
    if (!status) status = kvg_question_codes(d, q->answer, &rows);
    if (!status) status = see_rows(s, &rows);
    for (int which = 0; which < 2 && !status && !s->others_wrong; which++) {
        thin_out(s, which);
        try_all(s, which);
    }
    if (!status && !s->others_wrong) print(s, out, size);
    kvg_set_free(&rows);
    free(first);
    free(second);
    return status;
}
