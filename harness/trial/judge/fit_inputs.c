#include "harness/trial/judge/fit_inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/question/describe.h"
#include "harness/trial/wrong/flash_rows.h"
#include "reference/reference.h"

enum { TRIED_ROWS = 24 };

/* A side: what was given, and a row. */
typedef struct scene {
    const kvg_problem *p;
    const kvg_tensor *bias; /* of no bytes: there is none */
    float *x;               /* the input [tokens][heads][head_dim], before its bias */
    size_t numbers;         /* of these */
    size_t own;             /* the row's first one */
    uint32_t head;
    float got[KVG_MAX_HEAD_DIM];
    double off[KVG_MAX_HEAD_DIM]; /* how far what was stored may be from what it was made of */
} scene;

/* The biases that the rows allow, from low to high for each head and dim. */
typedef struct biases {
    double *low, *high;
    uint32_t *rows; /* of each head */
} biases;

/* What wrong rows were found to be. */
typedef struct findings {
    size_t tried, moved;
    int64_t far; /* how far the first one that moved did */
    bool alike;  /* all moved as far */
} findings;

static double bias_of(const scene *s, uint32_t head, uint32_t i)
{
    return s->bias->bytes ? kvg_number_at(s->bias->dtype, s->bias->data, (size_t)head * s->p->head_dim + i) : 0;
}

/* What element i would be of a row that was made of the input from number `first` on. */
static double made_of(const scene *s, size_t first, uint32_t i)
{
    const double x = s->x[first + i];
    return s->bias->bytes ? kvg_flash_through(s->p->dtype, (float)(x + bias_of(s, s->head, i))) : x;
}

static bool is_made_of(const scene *s, size_t first)
{
    for (uint32_t i = 0; i < s->p->head_dim; i++) {
        if (!(fabs(made_of(s, first, i) - s->got[i]) <= s->off[i])) return false;
    }
    return true;
}

/* Whether many of its elements are far from what they should be: else it is made of anything, such as of its own input
 * by another rounding. A number is within `off` of an unrelated one about once in five times, and so are 16 of them
 * once in 10^11 times. */
static bool tells(const scene *s)
{
    enum { FAR = 4, FEWEST = 16 };
    size_t far = 0;
    for (uint32_t i = 0; i < s->p->head_dim; i++) {
        if (!isfinite(s->got[i])) return false;
        far += fabs(made_of(s, s->own, i) - s->got[i]) > FAR * s->off[i];
    }
    return far >= FEWEST;
}

/* The nearest origin: a row of codes of few bits may be as near to several. */
static void find_origin(const scene *s, findings *f)
{
    const int64_t own = (int64_t)s->own, last = (int64_t)s->numbers - s->p->head_dim;
    for (int64_t n = 2; n / 2 <= own || own + n / 2 <= last; n++) {
        const int64_t far = n % 2 ? -(n / 2) : n / 2;
        if (own + far < 0 || own + far > last || !is_made_of(s, (size_t)(own + far))) continue;
        if (f->moved++ == 0) f->far = far;
        f->alike = f->alike && far == f->far;
        return;
    }
}

/* The sum of an element and its bias was rounded to the type of the model. */
static void see_bias(const scene *s, biases *b)
{
    const size_t first = (size_t)s->head * s->p->head_dim;
    const double loss = s->p->dtype == KVG_DTYPE_BF16 ? 0x1p-8 : s->p->dtype == KVG_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
    b->rows[s->head]++;
    for (uint32_t i = 0; i < s->p->head_dim; i++) {
        const double is = (double)s->got[i] - s->x[s->own + i], off = s->off[i] + loss * fabs((double)s->got[i]);
        b->low[first + i] = fmax(b->low[first + i], is - off);
        b->high[first + i] = fmin(b->high[first + i], is + off);
    }
}

/* Where a bias is not the right one, all rows of the head allow another one. */
static bool have_other_bias(const scene *s, const biases *b)
{
    enum { FEWEST = 32, ROWS = 3 };
    size_t wrong = 0, other = 0;
    for (uint32_t head = 0; head < s->p->kv_heads; head++) {
        for (uint32_t i = 0; i < s->p->head_dim && b->rows[head] >= ROWS; i++) {
            const size_t at = (size_t)head * s->p->head_dim + i;
            if (bias_of(s, head, i) >= b->low[at] && bias_of(s, head, i) <= b->high[at]) continue;
            wrong++;
            other += b->low[at] <= b->high[at];
        }
    }
    return wrong >= FEWEST && 10 * other >= 9 * wrong;
}

static void print(const findings *f, bool bias, char *out, size_t size)
{
    enum { FEWEST = 8 };
    if (f->moved >= FEWEST && 10 * f->moved >= 9 * f->tried) {
        if (f->alike)
            kvg_describe_add(out, size, "each row is made of the input %lld numbers %s", llabs((long long)f->far),
                             f->far > 0 ? "further on" : "before");
        else kvg_describe_add(out, size, "rows are made of other parts of the input than theirs");
    } else if (bias) {
        kvg_describe_add(out, size, "rows have another bias, the same one for all tokens");
    }
}

/* Some of the wrong rows, and with a bias as many of the right ones. rows: right, got. An odd step meets all heads. */
static void see_rows(scene *s, const kvg_question *d, kvg_side side, const kvg_tensor *rows[2], biases *b, findings *f)
{
    const size_t count = (size_t)d->rows.tokens * s->p->kv_heads, bytes = rows[0]->bytes / count;
    const uint8_t *right = rows[0]->data, *all = rows[1]->data;
    size_t wrong = 0, seen[2] = {0, 0};
    for (size_t row = 0; row < count; row++) wrong += memcmp(right + row * bytes, all + row * bytes, bytes) != 0;
    const size_t step[2] = {((count - wrong) / TRIED_ROWS) | 1, (wrong / TRIED_ROWS) | 1};
    for (size_t row = 0; row < count; row++) {
        const uint8_t *got = all + row * bytes;
        const bool is = memcmp(right + row * bytes, got, bytes) != 0;
        if (seen[is]++ % step[is] || (!is && !s->bias->bytes)) continue;
        const size_t token = d->source ? d->source[row / s->p->kv_heads] : row / s->p->kv_heads;
        s->head = (uint32_t)(row % s->p->kv_heads);
        s->own = (token * s->p->kv_heads + s->head) * s->p->head_dim;
        kvg_reference_load(rows[1]->dtype, got, s->p->head_dim, s->got);
        kvg_question_bound(d, side, s->got, s->off);
        for (uint32_t i = 0; i < s->p->head_dim; i++) s->off[i] *= 1.125; /* it is that of the row as it was stored */
        if (s->bias->bytes) see_bias(s, b);
        if (!is || !tells(s)) continue;
        f->tried++;
        find_origin(s, f);
    }
}

static kvg_status find(const kvg_question *d, kvg_side side, const kvg_tensor *rows[2], char *out, size_t size)
{
    enum { MOST_NUMBERS = 1 << 17 };
    const kvg_problem *p = &d->c->problem;
    const kvg_tensor *x = kvg_set_tensor(&d->in, KVG_ROLE_VALUES, side);
    static const kvg_tensor none;
    const bool biased = kvg_roles_index(d->op->inputs, KVG_ROLE_BIAS, side) >= 0;
    const size_t all = (size_t)p->kv_heads * p->head_dim;
    scene s = {.p = p, .bias = biased ? kvg_set_tensor(&d->in, KVG_ROLE_BIAS, side) : &none,
               .numbers = x->bytes / kvg_dtype_bytes(x->dtype)};
    findings f = {.alike = true};
    if (s.numbers > MOST_NUMBERS || (side == KVG_K && p->rope.dims)) return KVG_OK;
    s.x = malloc(s.numbers * sizeof *s.x);
    biases b = {malloc(all * sizeof *b.low), malloc(all * sizeof *b.high), calloc(p->kv_heads, sizeof *b.rows)};
    const bool got = s.x && b.low && b.high && b.rows;
    for (size_t i = 0; i < all && got; i++) b.low[i] = -INFINITY, b.high[i] = INFINITY;
    if (got) {
        kvg_reference_load(x->dtype, x->data, s.numbers, s.x);
        see_rows(&s, d, side, rows, &b, &f);
        print(&f, have_other_bias(&s, &b), out, size);
    }
    free(s.x);
    free(b.low);
    free(b.high);
    free(b.rows);
    return got ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu numbers", s.numbers);
}

static void name_side(char *out, size_t size)
{
    char words[128];
    snprintf(words, sizeof words, "V: %s", out);
    snprintf(out, size, "%s", words);
}

/* Whether rows of V lie in K's output. */
static bool holds_v(const kvg_evidence *q, kvg_role role, kvg_side of)
{
    const int v = kvg_roles_index(q->data->op->outputs, role, KVG_V);
    return of == KVG_K && role == KVG_ROLE_DATA_POOL && v >= 0 && q->expected[v].bytes == 0;
}

kvg_status judge_fit_inputs(const kvg_evidence *q, size_t index, char *out, size_t size)
{
    const kvg_question *d = q->data;
    kvg_tensor_set rows[2] = {{.count = 0}, {.count = 0}};
    kvg_role role;
    kvg_side of;
    out[0] = 0;
    kvg_roles_at(d->op->outputs, index, &role, &of);
    if (kvg_roles_index(d->op->inputs, KVG_ROLE_VALUES, KVG_K) < 0 || d->rows.tokens == 0) return KVG_OK;
    if (!kvg_differ_answered(q->expected, q->answer, kvg_roles_tensors(d->op->outputs))) return KVG_OK;
    kvg_status status = kvg_question_values(d, q->expected, &rows[0]);
    if (!status) status = kvg_question_values(d, q->answer, &rows[1]);
    const int end = holds_v(q, role, of) ? kvg_problem_sides(&d->c->problem) : (int)of + 1;
    for (int side = of; side < end && !status && !out[0]; side++) {
        const kvg_tensor *both[] = {kvg_set_tensor(&rows[0], KVG_ROLE_VALUES, (kvg_side)side),
                                    kvg_set_tensor(&rows[1], KVG_ROLE_VALUES, (kvg_side)side)};
        status = find(d, (kvg_side)side, both, out, size);
        if (out[0] && side != (int)of) name_side(out, size);
    }
    kvg_set_free(&rows[0]);
    kvg_set_free(&rows[1]);
    return status;
}
