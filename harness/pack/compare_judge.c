#include "harness/pack/compare_judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/trial/judge/differences.h"

bool kvg_compare_needs_case(const kvg_pack_case *from)
{
    bool rule = false;
    for (size_t i = 0; i < from->answer_count; i++) rule = rule || from->answer[i].compare == KVG_PACK_RULE;
    return rule || !from->stored;
}

bool kvg_compare_by_bits(const kvg_compared_case *c, bool bits_wanted)
{
    bool outside = false, profile = false;
    for (size_t i = 0; i < c->tensor_count; i++) {
        outside = outside || c->tensors[i].worst_ratio > 1;
        profile = profile || c->tensors[i].asked->profile;
    }
    return bits_wanted && profile && !outside;
}

static void fail(kvg_compared_tensor *t, const char *format, ...) KVG_PRINTF(2, 3);
static void fail(kvg_compared_tensor *t, const char *format, ...)
{
    if (t->verdict == KVG_VERDICT_FAIL) return;
    t->verdict = KVG_VERDICT_FAIL;
    va_list args;
    va_start(args, format);
    vsnprintf(t->reason, sizeof t->reason, format, args);
    va_end(args);
}

/* --- bytes --- */

static const void *expected_bytes(const kvg_pack_answer *asked, const kvg_golden_case *golden)
{
    if (asked->expected && asked->expected->data) return asked->expected->data;
    return golden->truth.expected.tensors[kvg_golden_case_output(golden, asked->short_name)].data;
}

static void judge_bytes(const kvg_pack_answer *asked, const uint8_t *want, const uint8_t *got, kvg_compared_tensor *t)
{
    t->all = asked->bytes;
    t->wrong = kvg_differ_bytes(want, got, asked->bytes).wrong;
    if (t->wrong) fail(t, "%" PRIu64 " of %" PRIu64 " bytes differ", t->wrong, t->all);
}

/* --- the value rule: codes and scales of a row belong together --- */

static const uint8_t *of_role(const kvg_compared_case *c, const kvg_safetensors_entry *const *given, const char *name)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        if (given[i] && strcmp(c->tensors[i].asked->short_name, name) == 0) return given[i]->data;
    }
    return NULL;
}

/* Judges the codes, by the scales that the answer has; the scales are judged with the codes. */
static void judge_rule(const kvg_pack_answer *asked, const kvg_compared_case *c,
                       const kvg_safetensors_entry *const *given, const kvg_golden_case *golden, kvg_compared_tensor *t)
{
    const kvg_problem *p = &golden->c->problem;
    const kvg_side side = asked->short_name[0] == 'k' ? KVG_K : KVG_V;
    const uint8_t *codes = of_role(c, given, kvg_tensor_name(KVG_ROLE_CODES, side));
    const uint8_t *scales = of_role(c, given, kvg_tensor_name(KVG_ROLE_SCALES, side));
    const uint8_t *values = kvg_set_tensor(&golden->data.values, KVG_ROLE_VALUES, side)->data;
    t->all = (size_t)p->tokens * p->kv_heads;
    if (!codes || (kvg_format_scale_bytes(p->storage[side].format, p->head_dim) && !scales)) {
        fail(t, "cannot be judged without the other tensor of its rows");
        return;
    }
    const kvg_rule_difference d =
        kvg_differ_by_rule(p, side, golden->data.tensor_scale[side], values, codes, scales);
    t->steps = d.steps;
    t->wrong = d.wrong;
    if (t->wrong)
        fail(t, "%" PRIu64 " of %" PRIu64 " rows outside the value rule of dialect %s", t->wrong, t->all,
             p->storage[side].dialect);
}

/* --- numbers --- */

static double f64_at(const void *data, size_t i)
{
    double x;
    memcpy(&x, (const uint8_t *)data + i * sizeof x, sizeof x);
    return x;
}

static void judge_bound(const kvg_pack_answer *asked, kvg_dtype dtype, const uint8_t *got,
                        const kvg_golden_case *golden, kvg_compared_tensor *t)
{
    const bool lse = strcmp(asked->short_name, "lse") == 0;
    const void *exact = asked->exact->data, *bound = asked->bound->data;
    if (!exact || !bound) { /* a recipe's */
        exact = lse ? golden->truth.exact.lse : golden->truth.exact.out;
        bound = lse ? golden->truth.exact.lse_bound : golden->truth.exact.out_bound;
    }
    t->all = asked->bytes / kvg_dtype_bytes(dtype);
    t->worst_ratio = 0;
    for (size_t i = 0; i < t->all; i++) {
        const double b = f64_at(bound, i);
        const double ratio = kvg_attention_ratio(kvg_number_at(dtype, got, i), f64_at(exact, i), b);
        t->unpromised += b == INFINITY;
        t->wrong += !(ratio <= 1);
        if (!(ratio <= t->worst_ratio)) t->worst_ratio = ratio;
    }
    if (t->wrong)
        fail(t, "%" PRIu64 " of %" PRIu64 " numbers outside their bound, worst %.3g times", t->wrong, t->all,
             t->worst_ratio);
}

/* As a profile has them; a NaN is a NaN. */
static void judge_profile(const kvg_pack_answer *asked, kvg_dtype dtype, const uint8_t *want, const uint8_t *got,
                          kvg_compared_tensor *t)
{
    const uint64_t wrong = kvg_differ_numbers(dtype, want, got, t->all).wrong;
    if (wrong == 0) return;
    fail(t, "%" PRIu64 " of %" PRIu64 " numbers have other bits than %s", wrong, t->all, asked->profile);
    if (t->wrong == 0) t->wrong = wrong;
}

void kvg_compare_judge(const kvg_safetensors_entry *const *given, const kvg_compared_case *c,
                       const kvg_golden_case *golden, bool bits, kvg_compared_tensor *t)
{
    const kvg_pack_answer *asked = t->asked;
    const uint8_t *got = given[t - c->tensors]->data;
    kvg_dtype dtype = KVG_DTYPE_U8;
    if (kvg_golden_dtype_find(asked->dtype, &dtype)) {
        t->verdict = KVG_VERDICT_ERROR;
        snprintf(t->reason, sizeof t->reason, "%.240s", kvg_error_text());
        return;
    }
    switch (asked->compare) {
    case KVG_PACK_BITS: judge_bytes(asked, expected_bytes(asked, golden), got, t); break;
    case KVG_PACK_RULE: judge_rule(asked, c, given, golden, t); break;
    case KVG_PACK_BOUND:
        judge_bound(asked, dtype, got, golden, t);
        if (bits && asked->profile) judge_profile(asked, dtype, expected_bytes(asked, golden), got, t);
        break;
    }
}
