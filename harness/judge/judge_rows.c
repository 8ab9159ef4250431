/* Judges of ops whose answer has defined bytes: bytes, the value rule of a dialect, the round trip. */
#include <math.h>
#include <string.h>

#include "harness/data/describe.h"
#include "harness/judge/judge_parts.h"

/* --- bytes --- */

/* One output tensor, byte for byte. */
static void compare_bytes(const kvg_truth *truth, size_t index, const kvg_tensor *answer, kvg_result *r)
{
    const kvg_tensor *expected = &truth->expected.tensors[index];
    const uint8_t *want = expected->data, *got = answer->data;
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < expected->bytes; i++) {
        if (got[i] != want[i] && wrong++ == 0) first = i;
    }
    r->bytes.compared += expected->bytes;
    r->bytes.mismatched += wrong;
    if (wrong == 0) return;
    char where[256];
    kvg_describe_byte(truth->question, index, expected, answer, first, where, sizeof where);
    kvg_result_fail(r, "%s: %zu of %zu bytes differ, first at %s", kvg_set_name(&truth->expected, index), wrong,
                    expected->bytes, where);
}

void judge_bytes(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r)
{
    for (size_t i = 0; i < truth->expected.count; i++) compare_bytes(truth, i, &answer[i], r);
}

bool judge_same_answer(const kvg_truth *truth, const kvg_tensor_set *answer)
{
    return kvg_set_same_bytes(&truth->expected, answer);
}

bool judge_same_bytes(const kvg_truth *truth, const kvg_tensor_set *answer, const kvg_tensor_set *other)
{
    (void)truth;
    return kvg_set_same_bytes(answer, other);
}

/* --- codes --- */

/* Codes and scales of one side under a dialect that is compared by value. */
static void judge_side_by_value(const kvg_truth *truth, kvg_side side, const kvg_tensor_set *rows, kvg_result *r)
{
    const kvg_problem *p = &truth->question->rows;
    const kvg_tensor *codes = kvg_set_tensor(rows, KVG_ROLE_CODES, side);
    const kvg_tensor *scales = kvg_set_tensor(rows, KVG_ROLE_SCALES, side);
    const size_t code_bytes = (size_t)codes->shape[2], scale_bytes = (size_t)scales->shape[2];
    const size_t value_bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    const kvg_tensor *values = kvg_set_tensor(&truth->question->values, KVG_ROLE_VALUES, side);
    r->bytes.compared += codes->bytes + scales->bytes;
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint32_t steps, bad;
        kvg_reference_load(p->dtype, (const uint8_t *)values->data + row * value_bytes, p->head_dim, x);
        const bool accepted = kvg_reference_row_accept(p, side, truth->question->tensor_scale[side], x,
                                                       (const uint8_t *)codes->data + row * code_bytes,
                                                       (const uint8_t *)scales->data + row * scale_bytes, &steps, &bad);
        r->bytes.steps += steps;
        if (accepted) continue;
        r->bytes.mismatched++;
        kvg_result_fail(r, "%s: token %zu, head %zu, dim %u is outside the value rule of dialect %s (x = %a)",
                        kvg_tensor_name(KVG_ROLE_CODES, side), row / p->kv_heads, row % p->kv_heads, bad,
                        p->storage[side].dialect, (double)x[bad]);
    }
}

void judge_codes(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r)
{
    const bool by_value[] = {[KVG_K] = kvg_case_by_value(&truth->question->c->problem.storage[KVG_K]),
                             [KVG_V] = kvg_case_by_value(&truth->question->c->problem.storage[KVG_V])};
    for (size_t i = 0; i < truth->expected.count; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(truth->expected.roles, i, &role, &side);
        if (!by_value[side]) compare_bytes(truth, i, &answer[i], r);
    }
    if (!by_value[KVG_K] && !by_value[KVG_V]) return;
    kvg_tensor_set rows = {0};
    if (kvg_case_data_codes(truth->question, answer, &rows)) {
        kvg_result_give_up(r, "rows of the answer");
    } else {
        for (int side = KVG_K; side <= KVG_V; side++) {
            if (by_value[side]) judge_side_by_value(truth, (kvg_side)side, &rows, r);
        }
    }
    kvg_set_free(&rows);
}

/* --- the round trip --- */

typedef struct sums {
    double xx, xy, ee;
} sums;

static void finish_round_trip(const sums *sum, kvg_round_trip *t)
{
    t->relative_l2 = sum->xx > 0 ? sqrt(sum->ee / sum->xx) : 0;
    t->sqnr_db = sum->ee > 0 ? 10 * log10(sum->xx / sum->ee) : INFINITY;
    t->gain = sum->xx > 0 ? sum->xy / sum->xx : 1;
    t->measured = t->elements > 0;
}

/* Decoded values against the rows, element by element within the derived bound; NaN never passes. */
static void judge_side_round_trip(const kvg_truth *truth, kvg_side side, const kvg_tensor *decoded, kvg_result *r)
{
    const kvg_problem *p = &truth->question->rows;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    const kvg_tensor *values = kvg_set_tensor(&truth->question->values, KVG_ROLE_VALUES, side);
    kvg_round_trip *t = &r->round_trip[side];
    sums sum = {0};
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        float x[KVG_MAX_HEAD_DIM], y[KVG_MAX_HEAD_DIM];
        double bound[KVG_MAX_HEAD_DIM];
        kvg_reference_load(p->dtype, (const uint8_t *)values->data + row * bytes, p->head_dim, x);
        kvg_reference_load(p->dtype, (const uint8_t *)decoded->data + row * bytes, p->head_dim, y);
        kvg_case_data_bound(truth->question, side, x, bound);
        for (uint32_t i = 0; i < p->head_dim; i++) {
            if (isinf(bound[i])) continue;
            const double error = fabs((double)y[i] - (double)x[i]);
            t->elements++;
            if (!(error <= bound[i])) {
                kvg_result_fail(r, "%s: round trip of token %zu, head %zu, dim %u: |%a - %a| = %g is not within %g",
                     kvg_tensor_name(KVG_ROLE_VALUES, side), row / p->kv_heads, row % p->kv_heads, i, (double)y[i],
                     (double)x[i], error, bound[i]);
            }
            if (bound[i] > 0 && !(error / bound[i] <= t->worst_ratio)) t->worst_ratio = error / bound[i];
            sum.xx += (double)x[i] * x[i];
            sum.xy += (double)x[i] * y[i];
            sum.ee += error * error;
        }
    }
    finish_round_trip(&sum, t);
}

void judge_round_trip(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r)
{
    if (truth->question->c->fill == KVG_FILL_CODES) return; /* codes no encoder wrote have no original */
    if (truth->question->rows.tokens == 0) return;     /* nothing was stored */
    kvg_tensor_set decoded = {0};
    if (kvg_case_data_values(truth->question, answer, &decoded)) {
        kvg_result_give_up(r, "round trip");
    } else {
        for (int side = KVG_K; side < kvg_problem_sides(&truth->question->c->problem); side++) {
            judge_side_round_trip(truth, (kvg_side)side, &decoded.tensors[side], r);
        }
    }
    kvg_set_free(&decoded);
}
