#include "harness/trial/judge/fit_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/question/describe.h"
#include "harness/trial/wrong/flash_rows.h"
#include "reference/reference.h"

enum { TRIED_ROWS = 48 };

/* A side: what was given, and a wrong row. */
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

/* The biases that the wrong rows allow, from low to high for each head and dim. */
typedef struct biases {
    double *low, *high;
    uint32_t *rows; /* of each head: wrong ones */
} biases;

/* What wrong rows were found to be. */
typedef struct findings {
    size_t tried, moved;
    int64_t far; /* how far the first one that moved did */
    bool alike;  /* all moved as far */
} findings;

static double bias_of(const scene *s, uint32_t i)
{
    return s->bias->bytes ? kvg_number_at(s->bias->dtype, s->bias->data, (size_t)s->head * s->p->head_dim + i) : 0;
}

/* Whether the row was made of the input from number `first` on. */
static bool is_made_of(const scene *s, size_t first)
{
    for (uint32_t i = 0; i < s->p->head_dim; i++) {
        const double is = kvg_flash_through(s->p->dtype, (float)(s->x[first + i] + bias_of(s, i)));
        if (!(fabs(is - s->got[i]) <= s->off[i])) return false;
    }
    return true;
}

/* Whether its numbers differ by much more than they may be off: else it is made of anything. */
static bool tells(const scene *s)
{
    enum { MORE = 4 };
    double least = s->got[0], most = s->got[0], off = 0;
    for (uint32_t i = 0; i < s->p->head_dim; i++) {
        if (!isfinite(s->got[i])) return false;
        least = fmin(least, s->got[i]);
        most = fmax(most, s->got[i]);
        off = fmax(off, s->off[i]);
    }
    return most - least > MORE * off;
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

static void see_bias(const scene *s, biases *b)
{
    const size_t first = (size_t)s->head * s->p->head_dim;
    b->rows[s->head]++;
    for (uint32_t i = 0; i < s->p->head_dim; i++) {
        const double is = (double)s->got[i] - s->x[s->own + i];
        b->low[first + i] = fmax(b->low[first + i], is - s->off[i]);
        b->high[first + i] = fmin(b->high[first + i], is + s->off[i]);
    }
}

/* Where a bias is not the right one, all rows of the head allow another one. */
static bool have_other_bias(scene *s, const biases *b)
{
    enum { FEWEST = 32, ROWS = 3 };
    size_t wrong = 0, other = 0;
    for (s->head = 0; s->head < s->p->kv_heads; s->head++) {
        for (uint32_t i = 0; i < s->p->head_dim && b->rows[s->head] >= ROWS; i++) {
            const size_t at = (size_t)s->head * s->p->head_dim + i;
            if (bias_of(s, i) >= b->low[at] && bias_of(s, i) <= b->high[at]) continue;
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

/* rows: right, got. */
static void see_rows(scene *s, const kvg_question *d, kvg_side side, const kvg_tensor *rows[2], biases *b, findings *f)
{
    const size_t count = (size_t)d->rows.tokens * s->p->kv_heads, bytes = rows[0]->bytes / count;
    size_t wrong = 0, seen = 0;
    for (size_t row = 0; row < count; row++) {
        wrong += memcmp((const uint8_t *)rows[0]->data + row * bytes, (const uint8_t *)rows[1]->data + row * bytes,
                        bytes) != 0;
    }
    for (size_t row = 0; row < count; row++) {
        const uint8_t *got = (const uint8_t *)rows[1]->data + row * bytes;
        if (memcmp((const uint8_t *)rows[0]->data + row * bytes, got, bytes) == 0) continue;
        if (seen++ % (wrong / TRIED_ROWS + 1)) continue;
        const size_t token = d->source ? d->source[row / s->p->kv_heads] : row / s->p->kv_heads;
        s->head = (uint32_t)(row % s->p->kv_heads);
        s->own = (token * s->p->kv_heads + s->head) * s->p->head_dim;
        kvg_reference_load(rows[1]->dtype, got, s->p->head_dim, s->got);
        kvg_question_bound(d, side, s->got, s->off);
        for (uint32_t i = 0; i < s->p->head_dim; i++) s->off[i] *= 1.125; /* it is that of the row as it was stored */
        if (!tells(s)) continue;
        f->tried++;
        find_origin(s, f);
        if (s->bias->bytes) see_bias(s, b);
    }
}

static kvg_status find(const kvg_question *d, kvg_side side, const kvg_tensor *rows[2], char *out, size_t size)
{
    enum { MOST_NUMBERS = 1 << 18 };
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
    for (int side = of; side < kvg_problem_sides(&d->c->problem) && !status && !out[0]; side++) {
        const kvg_tensor *both[] = {kvg_set_tensor(&rows[0], KVG_ROLE_VALUES, (kvg_side)side),
                                    kvg_set_tensor(&rows[1], KVG_ROLE_VALUES, (kvg_side)side)};
        status = find(d, (kvg_side)side, both, out, size);
    }
    kvg_set_free(&rows[0]);
    kvg_set_free(&rows[1]);
    return status;
}
