#include "harness/trial/judge/variance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/relations.h"
#include "harness/trial/question/describe.h"

enum { TILE = 16 }; /* tiles and splits of kernels are multiples of it */

/* What is known of the rows along an axis, over all of its relations. */
typedef struct rows {
    bool *asked, *differ; /* of each row of q */
    bool *heads;
    size_t count, head_count;
    bool in[2];           /* out, lse */
} rows;

static kvg_status rows_open(const kvg_problem *p, rows *r)
{
    r->count = p->attention.queries;
    r->head_count = p->attention.query_heads;
    r->asked = calloc(2 * r->count + r->head_count, sizeof *r->asked);
    if (!r->asked) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu rows", r->count);
    r->differ = r->asked + r->count;
    r->heads = r->differ + r->count;
    return KVG_OK;
}

/* --- comparison --- */

/* The unit in the last place of a number of a type. */
static double unit_of(kvg_dtype dtype, double size)
{
    const int digits = dtype == KVG_DTYPE_F32 ? 24 : dtype == KVG_DTYPE_F16 ? 11 : 8;
    const int least = dtype == KVG_DTYPE_F16 ? -13 : -125; /* frexp's exponent of the smallest normal number */
    int exponent;
    (void)frexp(size, &exponent);
    return ldexp(1, (exponent > least ? exponent : least) - digits);
}

/* The numbers of a head, whose largest one says what a difference is worth. */
static void compare_numbers(kvg_dtype dtype, const void *home, const void *other, size_t count, kvg_variance *v)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double a = kvg_number_at(dtype, home, i), b = kvg_number_at(dtype, other, i);
        if (isnan(a) != isnan(b)) v->nans++;
        if (isfinite(a)) size = fmax(size, fabs(a));
        if (isfinite(b)) size = fmax(size, fabs(b));
        if (!isnan(a) && !isnan(b) && a != b) difference = fmax(difference, fabs(a - b));
    }
    if (difference <= v->largest) return;
    v->largest = difference;
    v->ulps = isinf(difference) ? INFINITY : difference / unit_of(dtype, size);
}

/* A row of a tensor is its heads, one after the other. */
static void compare_row(const kvg_tensor *home, const kvg_tensor *other, size_t row, bool is_lse, rows *r,
                        kvg_variance *v)
{
    const size_t bytes = home->bytes / (r->count * r->head_count), width = kvg_dtype_bytes(home->dtype);
    for (size_t head = 0; head < r->head_count; head++) {
        const size_t at = (row * r->head_count + head) * bytes;
        const uint8_t *a = (const uint8_t *)home->data + at, *b = (const uint8_t *)other->data + at;
        if (kvg_differ_numbers(home->dtype, a, b, bytes / width).wrong == 0) continue;
        r->differ[row] = r->heads[head] = r->in[is_lse] = true;
        compare_numbers(home->dtype, a, b, bytes / width, v);
    }
}

/* --- words --- */

/* "heads 0 to 3", or "5 heads from 0 to 9"; nothing where all differ. */
static void add_range(const char *what, const bool *differ, size_t count, char *out, size_t size)
{
    size_t found = 0, first = 0, last = 0;
    for (size_t i = 0; i < count; i++) {
        if (!differ[i]) continue;
        if (found++ == 0) first = i;
        last = i;
    }
    if (found == count) return;
    if (found == 1) kvg_describe_add(out, size, "; %s %zu", what, first);
    else if (last - first + 1 == found) kvg_describe_add(out, size, "; %ss %zu to %zu", what, first, last);
    else kvg_describe_add(out, size, "; %zu %ss from %zu to %zu", found, what, first, last);
}

static void add_query_tokens(const kvg_question *q, const rows *r, char *out, size_t size)
{
    bool *asked = calloc(2 * r->count, sizeof *asked), *differ = asked + r->count;
    size_t count = 0;
    for (size_t i = 0; asked && i < r->count; i++) {
        const size_t number = q->queries[i].number;
        if (r->asked[i] && number >= count) count = number + 1;
        differ[number] |= r->differ[i];
    }
    if (asked) add_range("query token", differ, count, out, size);
    free(asked);
}

/* Rows with n keys and with n + 1 were asked, and their bits part there. */
static void add_tile(const kvg_question *q, const kvg_variance *v, char *out, size_t size)
{
    const bool next = v->agree + 1 == (double)v->from && v->agree > 0 && fmod(v->agree, TILE) == 0;
    kvg_describe_add(out, size, ", from %" PRIu64 " keys on", v->from);
    if (!isnan(v->agree)) kvg_describe_add(out, size, " (%g keys agree)", v->agree);
    if (next && q->c->problem.attention.window == 0) {
        kvg_describe_add(out, size, ": a tile or a split ends at key %g", v->agree);
    }
}

static void describe(const kvg_question *q, const rows *r, kvg_variance *v)
{
    char *out = v->text;
    const size_t size = sizeof v->text;
    kvg_describe_add(out, size, "%" PRIu64 " of %" PRIu64 " rows have other bits (relation %s)", v->differ, v->rows,
                     v->relation);
    add_tile(q, v, out, size);
    if (v->largest > 0) kvg_describe_add(out, size, "; largest difference %.2g (%.3g ulp)", v->largest, v->ulps);
    if (v->nans) kvg_describe_add(out, size, "; %" PRIu64 " times a NaN and a number", v->nans);
    add_range("head", r->heads, r->head_count, out, size);
    add_query_tokens(q, r, out, size);
    if (kvg_case_asked(q->c) == 1) return;
    if (r->in[0] != r->in[1]) kvg_describe_add(out, size, r->in[0] ? "; out alone" : "; lse alone");
    else kvg_describe_add(out, size, "; out and lse");
}

static void sum_up(const kvg_question *q, const rows *r, kvg_variance *v)
{
    v->agree = NAN;
    for (size_t i = 0; i < r->count; i++) {
        v->rows += r->asked[i];
        if (!r->differ[i]) continue;
        if (v->differ++ == 0 || q->queries[i].keys < v->from) v->from = q->queries[i].keys;
    }
    for (size_t i = 0; i < r->count; i++) {
        const double keys = q->queries[i].keys;
        if (!r->asked[i] || r->differ[i] || (v->differ && keys >= (double)v->from)) continue;
        if (!(v->agree >= keys)) v->agree = keys;
    }
    if (v->differ) describe(q, r, v);
    if (!(v->largest > 0)) v->largest = v->ulps = NAN;
}

/* --- asking --- */

/* Of an axis of which a question has no answer, nothing is said. */
static kvg_status unanswered(kvg_status s, const char *relation, kvg_variance *v)
{
    *v = (kvg_variance){.measured = true, .agree = NAN, .largest = NAN, .ulps = NAN, .relation = relation};
    snprintf(v->text, sizeof v->text, "%s", kvg_error_text());
    return s == KVG_ERR_DEVICE || s == KVG_ERR_DEVICE_LOST ? s : KVG_OK;
}

static kvg_status ask_axis(const kvg_question *q, kvg_candidate *candidate, const kvg_tensor_set *first,
                           kvg_invariance axis, kvg_variance *v)
{
    rows r = {0};
    kvg_status s = rows_open(&q->c->problem, &r);
    v->relation = "";
    for (size_t i = 0; i < KVG_RELATIONS && !s; i++) {
        const kvg_relation *relation = kvg_relation_get(i);
        kvg_tensor_set answer = {0};
        if (kvg_relation_axis(relation) != axis || !kvg_relation_has_bits(relation)) continue;
        if (!kvg_relation_applies(relation, q, candidate)) continue;
        v->measured = true;
        bool *asked = calloc(r.count, sizeof *asked);
        s = asked ? kvg_relation_answer(relation, q, candidate, &answer, asked)
                  : kvg_fail(KVG_ERR_MEMORY, "no memory for %zu rows", r.count);
        for (size_t t = 0; !s && t < kvg_case_asked(q->c); t++) {
            for (size_t row = 0; row < r.count; row++) {
                r.asked[row] |= asked[row];
                if (asked[row]) compare_row(&first->tensors[t], &answer.tensors[t], row, t > 0, &r, v);
            }
        }
        for (size_t row = 0; !s && row < r.count && !*v->relation; row++) {
            if (r.differ[row]) v->relation = kvg_relation_id(relation);
        }
        kvg_set_free(&answer);
        free(asked);
        if (s) {
            s = unanswered(s, kvg_relation_id(relation), v);
            free(r.asked);
            return s;
        }
    }
    if (!s && v->measured) sum_up(q, &r, v);
    free(r.asked);
    return s;
}

kvg_status kvg_invariance_ask(const kvg_question *q, kvg_candidate *candidate, const kvg_tensor_set *first,
                              kvg_variance along[KVG_INVARIANCE_AXES])
{
    kvg_status s = KVG_OK;
    for (int axis = 0; axis < KVG_INVARIANCE_AXES && !s; axis++) {
        kvg_variance *v = &along[axis];
        if (!(q->c->invariant >> axis & 1)) continue;
        if (along[KVG_INVARIANCE_repeat].differ == 0) {
            s = ask_axis(q, candidate, first, (kvg_invariance)axis, v);
        } else {
            *v = (kvg_variance){.measured = true, .agree = NAN, .largest = NAN, .ulps = NAN, .relation = ""};
            snprintf(v->text, sizeof v->text, "not asked: the same call gives other bits");
        }
    }
    return s;
}

/* --- judging --- */

void kvg_invariance_judge(const kvg_case *c, const kvg_variance along[KVG_INVARIANCE_AXES], kvg_result *r)
{
    for (int axis = 0; axis < KVG_INVARIANCE_AXES; axis++) {
        const kvg_variance *v = &along[axis];
        const char *name = kvg_invariance_names[axis];
        if (!v->measured) continue;
        r->along[axis] = *v;
        if (v->differ) kvg_names_add(&r->varies, name);
        else if (v->rows) kvg_names_add(&r->invariant, name);
        if (!v->text[0] || c->findings >> axis & 1 || r->verdict != KVG_VERDICT_PASS) continue;
        kvg_result_fail(r, "axis %s%s: %s", name, v->rows ? "" : " has no answer", v->text);
        if (*v->relation) kvg_names_add(&r->broken, v->relation);
    }
}
