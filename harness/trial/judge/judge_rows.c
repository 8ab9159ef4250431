/* Judges of ops whose answer has defined bytes: bytes, the value rule of a dialect, the round trip. */
#include <math.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/judge_parts.h"
#include "harness/trial/question/describe.h"

/* --- bytes --- */

/* Bytes of a page of output `index`: a block of a layer in a pool, all of another tensor. */
static size_t page_bytes(const kvg_truth *truth, size_t index)
{
    const kvg_paging *g = &truth->question->c->problem.paging;
    const kvg_tensor *t = &truth->expected.tensors[index];
    kvg_role role;
    kvg_side side;
    kvg_roles_at(truth->expected.roles, index, &role, &side);
    if (role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL) return t->bytes / g->layers / g->blocks;
    return t->bytes;
}

static void map_page(const kvg_truth *truth, size_t index, const kvg_tensor *answer, size_t wrong,
                     kvg_result_page *page)
{
    const kvg_tensor *expected = &truth->expected.tensors[index];
    const uint8_t *want = expected->data, *got = answer->data;
    *page = (kvg_result_page){
        .measured = true,
        .tensor = kvg_set_name(&truth->expected, index),
        .bytes = page_bytes(truth, index),
        .wrong = wrong,
    };
    for (size_t i = 0; i < expected->bytes; i++) {
        if (want[i] == got[i]) continue;
        const unsigned cell = kvg_result_cell(i % page->bytes, page->bytes);
        page->cells[cell / 8] |= (uint8_t)(1u << cell % 8);
    }
}

/* One output tensor, byte for byte. */
static void compare_bytes(const kvg_truth *truth, size_t index, const kvg_tensor *answer, kvg_result *r)
{
    const kvg_tensor *expected = &truth->expected.tensors[index];
    const kvg_difference d = kvg_differ_bytes(expected->data, answer->data, expected->bytes);
    r->bytes.compared += expected->bytes;
    r->bytes.mismatched += d.wrong;
    if (d.wrong == 0) return;
    if (r->verdict_only) {
        r->verdict = KVG_VERDICT_FAIL;
        return;
    }
    if (r->page.measured) {
        kvg_result_add(r, "%s: %zu of %zu", kvg_set_name(&truth->expected, index), d.wrong, expected->bytes);
        return;
    }
    map_page(truth, index, answer, d.wrong, &r->page);
    char where[384];
    kvg_describe_byte(truth->question, index, expected, answer, d.first, where, sizeof where);
    const kvg_tensor_set *set = &truth->question->before;
    const bool untouched = kvg_differ_untouched(expected->data, answer->data, expected->bytes, NULL, 1,
                                                index < set->count ? set->tensors[index].data : NULL);
    kvg_result_fail(r, "%s: %zu of %zu bytes %s, first at %s", kvg_set_name(&truth->expected, index), d.wrong,
                    expected->bytes, untouched ? "were never written" : "differ", where);
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
    const kvg_tensor *values = kvg_set_tensor(&truth->question->values, KVG_ROLE_VALUES, side);
    const kvg_rule_difference d = kvg_differ_by_rule(p, side, truth->question->tensor_scale[side], values->data,
                                                     codes->data, scales->data);
    r->bytes.compared += codes->bytes + scales->bytes;
    r->bytes.steps += d.steps;
    r->bytes.mismatched += d.wrong;
    if (d.wrong == 0) return;
    kvg_result_fail(r, "%s: token %zu, head %zu, dim %u is outside the value rule of dialect %s (x = %a)",
                    kvg_tensor_name(KVG_ROLE_CODES, side), d.first / p->kv_heads, d.first % p->kv_heads, d.dim,
                    p->storage[side].dialect, (double)d.value);
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
    if (kvg_question_codes(truth->question, answer, &rows)) {
        kvg_result_give_up(r, "rows of the answer");
    } else {
        for (int side = KVG_K; side <= KVG_V; side++) {
            if (by_value[side]) judge_side_by_value(truth, (kvg_side)side, &rows, r);
        }
    }
    kvg_set_free(&rows);
}

/* --- the round trip --- */

/* Nothing more than the verdict is wanted, and it is known. */
static bool is_done(const kvg_result *r)
{
    return r->verdict_only && r->verdict == KVG_VERDICT_FAIL;
}

/* Decoded values against the rows, element by element within the derived bound. */
static void judge_side_round_trip(const kvg_truth *truth, kvg_side side, const kvg_tensor *decoded, kvg_result *r)
{
    const kvg_problem *p = &truth->question->rows;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    const kvg_tensor *values = kvg_set_tensor(&truth->question->values, KVG_ROLE_VALUES, side);
    kvg_loss loss = {0};
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads && !is_done(r); row++) {
        float x[KVG_MAX_HEAD_DIM], y[KVG_MAX_HEAD_DIM];
        double bound[KVG_MAX_HEAD_DIM];
        kvg_reference_load(p->dtype, (const uint8_t *)values->data + row * bytes, p->head_dim, x);
        kvg_reference_load(p->dtype, (const uint8_t *)decoded->data + row * bytes, p->head_dim, y);
        kvg_question_bound(truth->question, side, x, bound);
        const uint32_t i = kvg_loss_add(&loss, x, y, bound, p->head_dim);
        if (i == p->head_dim) continue;
        kvg_result_fail(r, "%s: round trip of token %zu, head %zu, dim %u: |%a - %a| = %g is not within %g",
                        kvg_tensor_name(KVG_ROLE_VALUES, side), row / p->kv_heads, row % p->kv_heads, i, (double)y[i],
                        (double)x[i], fabs((double)y[i] - (double)x[i]), bound[i]);
    }
    r->round_trip[side] = (kvg_round_trip){
        .measured = loss.elements > 0,
        .elements = loss.elements,
        .relative_l2 = kvg_loss_relative_l2(&loss),
        .sqnr_db = loss.ee == 0 ? INFINITY : 10 * log10(loss.xx / loss.ee),
        .gain = loss.xx > 0 ? loss.xy / loss.xx : 1,
        .worst_ratio = loss.worst_ratio,
    };
}

void judge_round_trip(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r)
{
    if (truth->question->c->fill == KVG_FILL_CODES) return; /* codes no encoder wrote have no original */
    if (truth->question->rows.tokens == 0) return;     /* nothing was stored */
    kvg_tensor_set decoded = {0};
    if (kvg_question_values(truth->question, answer, &decoded)) {
        kvg_result_give_up(r, "round trip");
    } else {
        for (int side = KVG_K; side < kvg_problem_sides(&truth->question->c->problem) && !is_done(r); side++) {
            judge_side_round_trip(truth, (kvg_side)side, &decoded.tensors[side], r);
        }
    }
    kvg_set_free(&decoded);
}
