#include "harness/check.h"

#include <assert.h>
#include <fenv.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/rng.h"
#include "harness/fill.h"
#include "harness/guard.h"

/* A set of tensors in guarded buffers: the inputs or the outputs of an op. */
typedef struct tensor_set {
    kvg_tensor tensors[KVG_MAX_TENSORS];
    kvg_guard guards[KVG_MAX_TENSORS];
    const kvg_role *roles;
    size_t count;
} tensor_set;

/* Everything one case holds while it runs. `values` are the K and V rows that the op starts from or should give back;
 * `expected` is written by the reference and then made read-only. */
typedef struct running_case {
    const kvg_case *c;
    const kvg_op_info *op;
    tensor_set in, values, expected, answer;
    float tensor_scale[2];
    size_t output_bytes;
} running_case;

static kvg_status set_alloc(const kvg_problem *p, const kvg_role *roles, tensor_set *set)
{
    set->roles = roles;
    set->count = kvg_roles_tensors(roles);
    for (size_t i = 0; i < set->count; i++) {
        set->tensors[i] = kvg_problem_tensor(p, roles[i / 2], (kvg_side)(i % 2));
        kvg_status s = kvg_guard_alloc(set->tensors[i].bytes, &set->guards[i]);
        if (s) return s;
        set->tensors[i].data = set->guards[i].data;
    }
    return KVG_OK;
}

static void set_free(tensor_set *set)
{
    for (size_t i = 0; i < set->count; i++) kvg_guard_free(&set->guards[i]);
}

static kvg_tensor *set_tensor(tensor_set *set, kvg_role role, kvg_side side)
{
    const int i = kvg_roles_index(set->roles, role, side);
    return i < 0 ? NULL : &set->tensors[i];
}

static const kvg_role values_only[KVG_MAX_ROLES] = {KVG_ROLE_VALUES};

/* Inputs of a decoder: what the reference writes for the filled values, or every pattern. */
static kvg_status fill_codes(running_case *b)
{
    const kvg_case *c = b->c;
    if (c->fill == KVG_FILL_CODES) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            kvg_fill_codes(c, side, set_tensor(&b->in, KVG_ROLE_CODES, side),
                           set_tensor(&b->in, KVG_ROLE_SCALES, side));
        }
        return KVG_OK;
    }
    kvg_problem encode = c->problem;
    encode.op = KVG_OP_QUANTISE;
    kvg_tensor in[4], out[4];
    for (int side = KVG_K; side <= KVG_V; side++) {
        in[side] = *set_tensor(&b->values, KVG_ROLE_VALUES, side);
        in[2 + side] = *set_tensor(&b->in, KVG_ROLE_TENSOR_SCALE, side);
        out[side] = *set_tensor(&b->in, KVG_ROLE_CODES, side);
        out[2 + side] = *set_tensor(&b->in, KVG_ROLE_SCALES, side);
    }
    return kvg_reference_run(&encode, in, out);
}

static kvg_status fill_inputs(running_case *b)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_tensor *values = set_tensor(&b->values, KVG_ROLE_VALUES, side);
        kvg_status s = kvg_fill_values(b->c, side, values);
        if (!s) s = kvg_fill_scale(b->c, side, values, &b->tensor_scale[side]);
        if (s) return s;
        kvg_tensor *input = set_tensor(&b->in, KVG_ROLE_VALUES, side);
        if (input) memcpy(input->data, values->data, values->bytes);
        kvg_tensor *scale = set_tensor(&b->in, KVG_ROLE_TENSOR_SCALE, side);
        if (scale && scale->bytes) memcpy(scale->data, &b->tensor_scale[side], sizeof b->tensor_scale[side]);
    }
    return set_tensor(&b->in, KVG_ROLE_CODES, KVG_K) ? fill_codes(b) : KVG_OK;
}

static kvg_status set_up(const kvg_case *c, running_case *b)
{
    const kvg_problem *p = &c->problem;
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    b->c = c;
    b->op = kvg_op_get(p->op);
    s = set_alloc(p, b->op->inputs, &b->in);
    if (!s) s = set_alloc(p, values_only, &b->values);
    if (!s) s = set_alloc(p, b->op->outputs, &b->expected);
    if (!s) s = set_alloc(p, b->op->outputs, &b->answer);
    if (!s) s = fill_inputs(b);
    if (!s) s = kvg_reference_run(p, b->in.tensors, b->expected.tensors);
    for (size_t i = 0; !s && i < b->expected.count; i++) {
        b->output_bytes += b->expected.tensors[i].bytes;
        s = kvg_guard_protect(&b->expected.guards[i], 0);
    }
    return s;
}

/* --- judging --- */

static void fail(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);
static void fail(kvg_result *r, const char *format, ...)
{
    if (r->verdict == KVG_VERDICT_FAIL) return; /* the first reason stays */
    r->verdict = KVG_VERDICT_FAIL;
    va_list args;
    va_start(args, format);
    vsnprintf(r->detail, sizeof r->detail, format, args);
    va_end(args);
}

/* "token 3, head 1, dim 17: expected 0x3F80, got 0x3F81": what lies at byte `i` of an output tensor. */
static void describe_byte(const kvg_problem *p, kvg_role role, kvg_side side, const kvg_tensor *t,
                          const kvg_tensor *got, size_t i, char *out, size_t size)
{
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    const size_t row_bytes = t->bytes / ((size_t)p->tokens * p->kv_heads), row = i / row_bytes;
    const size_t width = role == KVG_ROLE_VALUES                            ? kvg_dtype_bytes(p->dtype)
                         : role == KVG_ROLE_CODES && f->element_bits == 16 ? 2
                                                                            : 1;
    const size_t first = i / width * width, byte = first % row_bytes;
    uint32_t want = 0, have = 0;
    for (size_t k = width; k-- > 0;) {
        want = want << 8 | ((const uint8_t *)t->data)[first + k];
        have = have << 8 | ((const uint8_t *)got->data)[first + k];
    }
    char place[64];
    if (role == KVG_ROLE_VALUES) {
        snprintf(place, sizeof place, "dim %zu", byte / width);
    } else if (role == KVG_ROLE_CODES) {
        const unsigned nibble = (want ^ have) & 15 ? 0 : 1;
        snprintf(place, sizeof place, "dim %u, byte %zu", kvg_reference_code_dim(p, side, byte, nibble), byte);
    } else if (f->block) {
        snprintf(place, sizeof place, "block %zu", byte / f->block_scale_bytes);
    } else {
        snprintf(place, sizeof place, "parameter byte %zu", byte);
    }
    snprintf(out, size, "token %zu, head %zu, %s: expected 0x%0*X, got 0x%0*X", row / p->kv_heads, row % p->kv_heads,
             place, (int)(2 * width), want, (int)(2 * width), have);
}

/* One output tensor, byte for byte. */
static void judge_bytes(const running_case *b, size_t index, const kvg_tensor *answer, kvg_result *r)
{
    const kvg_tensor *expected = &b->expected.tensors[index];
    const uint8_t *want = expected->data, *got = answer->data;
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < expected->bytes; i++) {
        if (got[i] != want[i] && wrong++ == 0) first = i;
    }
    r->compared_bytes += expected->bytes;
    r->mismatched_bytes += wrong;
    if (wrong == 0) return;
    const kvg_role role = b->op->outputs[index / 2];
    const kvg_side side = (kvg_side)(index % 2);
    char where[160];
    describe_byte(&b->c->problem, role, side, expected, answer, first, where, sizeof where);
    fail(r, "%s: %zu of %zu bytes differ, first at %s", kvg_tensor_name(role, side), wrong, expected->bytes, where);
}

/* Codes and scales of one side under a dialect that is compared by value. */
static void judge_rows(const running_case *b, kvg_side side, const kvg_tensor *answer, kvg_result *r)
{
    const kvg_problem *p = &b->c->problem;
    const int codes_at = kvg_roles_index(b->op->outputs, KVG_ROLE_CODES, side);
    const int scales_at = kvg_roles_index(b->op->outputs, KVG_ROLE_SCALES, side);
    const kvg_tensor *codes = &answer[codes_at], *scales = &answer[scales_at];
    const size_t code_bytes = (size_t)codes->shape[2], scale_bytes = (size_t)scales->shape[2];
    const size_t value_bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    const kvg_tensor *values = &b->values.tensors[side];
    r->compared_bytes += codes->bytes + scales->bytes;
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint32_t steps, bad;
        kvg_reference_load(p->dtype, (const uint8_t *)values->data + row * value_bytes, p->head_dim, x);
        const bool accepted = kvg_reference_row_accept(p, side, b->tensor_scale[side], x,
                                                       (const uint8_t *)codes->data + row * code_bytes,
                                                       (const uint8_t *)scales->data + row * scale_bytes, &steps, &bad);
        r->value_steps += steps;
        if (accepted) continue;
        r->mismatched_bytes++;
        fail(r, "%s: token %zu, head %zu, dim %u is outside the value rule of dialect %s (x = %a)",
             kvg_tensor_name(KVG_ROLE_CODES, side), row / p->kv_heads, row % p->kv_heads, bad, p->storage[side].dialect,
             (double)x[bad]);
    }
}

static bool by_value(const running_case *b, kvg_side side)
{
    const kvg_storage *storage = &b->c->problem.storage[side];
    size_t index;
    if (b->c->problem.op != KVG_OP_QUANTISE || kvg_reference_dialect_find(storage->format, storage->dialect, &index)) {
        return false;
    }
    return kvg_reference_dialect(storage->format, index)->compare == KVG_DIALECT_VALUE;
}

/* Decodes an answer's codes with the reference; an answer that is values already is copied. */
static kvg_status decode_answer(const running_case *b, const kvg_tensor *answer, tensor_set *decoded)
{
    kvg_problem p = b->c->problem;
    if (p.op == KVG_OP_DEQUANTISE) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            memcpy(decoded->tensors[side].data, answer[side].data, answer[side].bytes);
        }
        return KVG_OK;
    }
    p.op = KVG_OP_DEQUANTISE;
    const kvg_tensor in[6] = {answer[0], answer[1], answer[2], answer[3], b->in.tensors[2], b->in.tensors[3]};
    return kvg_reference_run(&p, in, decoded->tensors);
}

typedef struct sums {
    double xx, xy, ee;
} sums;

static void finish_round_trip(const sums *sum, kvg_round_trip *t)
{
    t->relative_l2 = sum->xx > 0 ? sqrt(sum->ee / sum->xx) : 0;
    t->sqnr_db = sum->ee > 0 ? 10 * log10(sum->xx / sum->ee) : INFINITY;
    t->gain = sum->xx > 0 ? sum->xy / sum->xx : 1;
}

/* Decoded values against the inputs, element by element within the derived bound; NaN never passes. */
static void judge_round_trip(const running_case *b, kvg_side side, const kvg_tensor *decoded, kvg_result *r)
{
    const kvg_problem *p = &b->c->problem;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    kvg_round_trip *t = &r->round_trip[side];
    sums sum = {0};
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        float x[KVG_MAX_HEAD_DIM], y[KVG_MAX_HEAD_DIM];
        double bound[KVG_MAX_HEAD_DIM];
        kvg_reference_load(p->dtype, (const uint8_t *)b->values.tensors[side].data + row * bytes, p->head_dim, x);
        kvg_reference_load(p->dtype, (const uint8_t *)decoded->data + row * bytes, p->head_dim, y);
        kvg_reference_row_bound(p, side, b->tensor_scale[side], x, bound);
        for (uint32_t i = 0; i < p->head_dim; i++) {
            if (isinf(bound[i])) continue;
            if (b->c->fill == KVG_FILL_EXACT) bound[i] = 0; /* the fill lies on the grid: nothing may be lost */
            const double error = fabs((double)y[i] - (double)x[i]);
            t->elements++;
            if (!(error <= bound[i])) {
                fail(r, "%s: round trip of token %zu, head %zu, dim %u: |%a - %a| = %g is not within %g",
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

static void judge_storage(const running_case *b, const kvg_tensor *answer, kvg_result *r)
{
    for (size_t i = 0; i < b->expected.count; i++) {
        if (!by_value(b, (kvg_side)(i % 2))) judge_bytes(b, i, &answer[i], r);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (by_value(b, side)) judge_rows(b, side, answer, r);
    }
}

static void judge_decoded(const running_case *b, const kvg_tensor *answer, kvg_result *r)
{
    if (b->c->fill == KVG_FILL_CODES) return; /* codes no encoder wrote have no original */
    tensor_set decoded = {0};
    kvg_status s = set_alloc(&b->c->problem, values_only, &decoded);
    if (!s) s = decode_answer(b, answer, &decoded);
    if (s) {
        r->verdict = KVG_VERDICT_ERROR;
        snprintf(r->detail, sizeof r->detail, "round trip: %s", kvg_error_text());
    } else {
        for (int side = KVG_K; side <= KVG_V; side++) judge_round_trip(b, side, &decoded.tensors[side], r);
    }
    set_free(&decoded);
}

/* Bytes or values, then the round trip. Fills the judging fields of *r. */
static void judge(const running_case *b, const kvg_tensor *answer, kvg_result *r)
{
    judge_storage(b, answer, r);
    judge_decoded(b, answer, r);
}

/* --- controls --- */

static bool same_bytes(const tensor_set *a, const tensor_set *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const kvg_tensor *t = &a->tensors[i];
        if (t->bytes && memcmp(t->data, b->tensors[i].data, t->bytes) != 0) return false;
    }
    return true;
}

static kvg_control_outcome try_control(const running_case *b, const kvg_defect *defect)
{
    if (!kvg_defect_applies(defect, &b->c->problem)) return KVG_CONTROL_ABSENT;
    tensor_set wrong = {0};
    kvg_control_outcome outcome = KVG_CONTROL_UNREACHED;
    kvg_status s = set_alloc(&b->c->problem, b->op->outputs, &wrong);
    if (!s) s = kvg_defect_run(defect, &b->c->problem, b->in.tensors, wrong.tensors);
    if (s) {
        outcome = KVG_CONTROL_ACCEPTED; /* a control that cannot run proves nothing */
    } else if (!same_bytes(&b->expected, &wrong)) {
        kvg_result storage = {.verdict = KVG_VERDICT_PASS}, decoded = {.verdict = KVG_VERDICT_PASS};
        judge_storage(b, wrong.tensors, &storage);
        judge_decoded(b, wrong.tensors, &decoded);
        if (decoded.verdict == KVG_VERDICT_FAIL) outcome = KVG_CONTROL_REJECTED_BY_BOUND;
        else outcome = storage.verdict == KVG_VERDICT_FAIL ? KVG_CONTROL_REJECTED : KVG_CONTROL_ACCEPTED;
    }
    set_free(&wrong);
    return outcome;
}

static void run_controls(const running_case *b, kvg_result *r)
{
    size_t count, rejected = 0;
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t i = 0, n = 0; i < count; i++) {
        if (!defects[i].control) continue;
        assert(n < KVG_MAX_CONTROLS);
        r->controls[n] = try_control(b, &defects[i]);
        rejected += r->controls[n] == KVG_CONTROL_REJECTED || r->controls[n] == KVG_CONTROL_REJECTED_BY_BOUND;
        if (r->controls[n] == KVG_CONTROL_ACCEPTED && r->verdict == KVG_VERDICT_PASS) {
            r->verdict = KVG_VERDICT_MISTRUSTED;
            snprintf(r->detail, sizeof r->detail, "the known-wrong answer '%s' passed this check", defects[i].id);
        }
        n++;
    }
    if (rejected == 0 && r->verdict == KVG_VERDICT_PASS) {
        r->verdict = KVG_VERDICT_MISTRUSTED;
        snprintf(r->detail, sizeof r->detail,
                 "no known-wrong answer differs from the right one: the fill tells nothing");
    }
}

/* Names the known-wrong variants whose answer is exactly the candidate's. */
static void diagnose(const running_case *b, kvg_result *r)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    if (same_bytes(&b->expected, &b->answer)) return; /* it failed for something else than its answer */
    for (size_t i = 0; i < count; i++) {
        tensor_set wrong = {0};
        if (!kvg_defect_applies(&defects[i], &b->c->problem)) continue;
        kvg_status s = set_alloc(&b->c->problem, b->op->outputs, &wrong);
        if (!s) s = kvg_defect_run(&defects[i], &b->c->problem, b->in.tensors, wrong.tensors);
        if (!s && same_bytes(&b->answer, &wrong)) {
            const size_t used = strlen(r->detail);
            snprintf(r->detail + used, sizeof r->detail - used, "; equals defect %s (%s)", defects[i].id,
                     defects[i].summary);
        }
        set_free(&wrong);
    }
}

static void count_reach(const running_case *b, kvg_result *r)
{
    const kvg_problem *p = &b->c->problem;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const int codes = kvg_roles_index(b->op->inputs, KVG_ROLE_CODES, side);
        const int scales = kvg_roles_index(b->op->inputs, KVG_ROLE_SCALES, side);
        for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
            float x[KVG_MAX_HEAD_DIM];
            if (b->c->fill == KVG_FILL_CODES) { /* the bytes themselves are what the fill made */
                const kvg_tensor *c = &b->in.tensors[codes], *s = &b->in.tensors[scales];
                kvg_reference_codes_reach(p, side, (const uint8_t *)c->data + row * (size_t)c->shape[2],
                                          s->bytes ? (const uint8_t *)s->data + row * (size_t)s->shape[2] : NULL,
                                          &r->reach[side]);
                continue;
            }
            kvg_reference_load(p->dtype, (const uint8_t *)b->values.tensors[side].data + row * bytes, p->head_dim, x);
            kvg_reference_row_reach(p, side, b->tensor_scale[side], x, &r->reach[side]);
        }
    }
}

/* --- running the candidate --- */

/* Whether this thread rounds to nearest and keeps subnormals, as every line of the reference relies on. */
static bool float_mode_is_default(void)
{
    volatile float smallest = FLT_MIN;
    return fegetround() == FE_TONEAREST && smallest / 2 != 0;
}

/* Restores the mode here and on the OpenMP threads, which a candidate may share. False if it had been changed. This
 * thread goes first: a runtime may hand its mode to the others. */
static bool restore_float_mode(void)
{
    bool was_default = float_mode_is_default();
    fesetenv(FE_DFL_ENV);
#pragma omp parallel reduction(&& : was_default)
    {
        was_default = was_default && float_mode_is_default();
        fesetenv(FE_DFL_ENV);
    }
    return was_default;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check_guards(const tensor_set *set, const char *what, kvg_result *r)
{
    for (size_t i = 0; i < set->count; i++) {
        if (kvg_guard_check(&set->guards[i])) {
            fail(r, "%s %s: %s", what, kvg_tensor_name(set->roles[i / 2], (kvg_side)(i % 2)), kvg_error_text());
        }
    }
}

static const char *candidate_text(const kvg_backend *backend)
{
    return backend->error_text ? backend->error_text() : "(the backend gives no text)";
}

static void run_candidate(running_case *b, const kvg_backend *backend, const kvg_impl *impl, kvg_result *r)
{
    uint64_t before[KVG_MAX_TENSORS];
    for (size_t i = 0; i < b->in.count; i++) before[i] = kvg_hash64(b->in.tensors[i].data, b->in.tensors[i].bytes);
    const double start = now_ms();
    const kvg_status s = impl->run(&b->c->problem, b->in.tensors, b->answer.tensors, NULL);
    r->milliseconds = now_ms() - start;
    if (!restore_float_mode()) fail(r, "%s left the floating-point mode changed: rounding or subnormals", impl->name);
    if (s == KVG_ERR_UNIMPLEMENTED) {
        r->verdict = KVG_VERDICT_UNIMPLEMENTED;
        snprintf(r->detail, sizeof r->detail, "%s", candidate_text(backend));
        return;
    }
    if (s) fail(r, "%s returned '%s': %s", impl->name, kvg_status_name(s), candidate_text(backend));
    check_guards(&b->in, "input", r);
    check_guards(&b->answer, "output", r);
    for (size_t i = 0; i < b->in.count; i++) {
        if (kvg_hash64(b->in.tensors[i].data, b->in.tensors[i].bytes) != before[i]) {
            fail(r, "input %s was written", kvg_tensor_name(b->in.roles[i / 2], (kvg_side)(i % 2)));
        }
    }
    if (r->verdict == KVG_VERDICT_PASS) judge(b, b->answer.tensors, r);
    if (r->verdict == KVG_VERDICT_PASS && r->compared_bytes != b->output_bytes) {
        r->verdict = KVG_VERDICT_ERROR;
        snprintf(r->detail, sizeof r->detail, "%" PRIu64 " bytes compared of %zu defined", r->compared_bytes,
                 b->output_bytes);
    }
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_candidate(running_case *b, const kvg_impl *impl, double seconds, kvg_result *r, kvg_timing *timing)
{
    enum { MAX_RUNS = 4096 };
    static double times[MAX_RUNS];
    size_t runs = 0;
    for (const double start = now_ms(); runs < MAX_RUNS && (runs < 3 || now_ms() - start < 1e3 * seconds); runs++) {
        for (size_t i = 0; i < b->answer.count; i++) { /* an answer that is not written again is not an answer */
            if (b->answer.tensors[i].bytes) memset(b->answer.tensors[i].data, 0x5A, b->answer.tensors[i].bytes);
        }
        const double before = now_ms();
        if (impl->run(&b->c->problem, b->in.tensors, b->answer.tensors, NULL)) {
            fail(r, "%s failed while it was timed", impl->name);
            return;
        }
        times[runs] = now_ms() - before;
    }
    restore_float_mode();
    check_guards(&b->in, "input", r);
    check_guards(&b->answer, "output", r);
    judge(b, b->answer.tensors, r);
    if (r->verdict != KVG_VERDICT_PASS) return;
    qsort(times, runs, sizeof *times, by_time);
    *timing = (kvg_timing){runs, times[runs / 2], times[0], times[runs - 1]};
}

/* The case from start to end; `timing` is NULL where it is only to be checked. */
static void check_case(const kvg_case *c, const kvg_backend *backend, double seconds, kvg_result *out,
                       kvg_timing *timing)
{
    *out = (kvg_result){.verdict = KVG_VERDICT_PASS};
    running_case *b = calloc(1, sizeof *b);
    const kvg_impl *impl = NULL;
    restore_float_mode(); /* a plug-in's initialisation may have changed it */
    kvg_status s = b ? set_up(c, b) : kvg_fail(KVG_ERR_MEMORY, "cannot hold a case");
    if (s) {
        out->verdict = KVG_VERDICT_ERROR;
        snprintf(out->detail, sizeof out->detail, "setting up: %s", kvg_error_text());
    } else if (kvg_backend_choose(backend, &c->problem, &impl)) {
        out->verdict = KVG_VERDICT_UNIMPLEMENTED;
        snprintf(out->detail, sizeof out->detail, "%s", kvg_error_text());
    } else {
        out->impl = impl->name;
        run_candidate(b, backend, impl, out);
        if (out->verdict == KVG_VERDICT_PASS || out->verdict == KVG_VERDICT_FAIL) {
            if (out->verdict == KVG_VERDICT_FAIL) diagnose(b, out);
            run_controls(b, out);
            count_reach(b, out);
        }
        if (timing && out->verdict == KVG_VERDICT_PASS) time_candidate(b, impl, seconds, out, timing);
    }
    if (!b) return;
    set_free(&b->in);
    set_free(&b->values);
    set_free(&b->expected);
    set_free(&b->answer);
    free(b);
}

void kvg_check_run(const kvg_case *c, const kvg_backend *backend, kvg_result *out)
{
    check_case(c, backend, 0, out, NULL);
}

void kvg_check_time(const kvg_case *c, const kvg_backend *backend, double seconds, kvg_result *out, kvg_timing *timing)
{
    *timing = (kvg_timing){0};
    check_case(c, backend, seconds, out, timing);
}
