/* The golden reference as plain C functions over arrays, for ctypes (tests/oracle/oracle_ml_dtypes.py). No arithmetic
 * here: conversions call reference/numbers/ref_round.h, codecs go through the backend as those of any candidate do. */
#include <stdlib.h>
#include <string.h>

#include "reference/numbers/ref_round.h"
#include "reference/reference.h"

#define OVER_ARRAY(name, from_type, to_type, call)                                                                     \
    void name(const from_type *from, size_t count, to_type *to)                                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) to[i] = call(from[i]);                                                      \
    }

OVER_ARRAY(oracle_f16_of_f32, float, uint16_t, kvg_ref_f16_of_f32)
OVER_ARRAY(oracle_bf16_of_f32, float, uint16_t, kvg_ref_bf16_of_f32)
OVER_ARRAY(oracle_f16_of_f64, double, uint16_t, kvg_ref_f16_of_f64)
OVER_ARRAY(oracle_bf16_of_f64, double, uint16_t, kvg_ref_bf16_of_f64)
OVER_ARRAY(oracle_e4m3_of_f32, float, uint8_t, kvg_ref_e4m3_of_f32)
OVER_ARRAY(oracle_e5m2_of_f32, float, uint8_t, kvg_ref_e5m2_of_f32)
OVER_ARRAY(oracle_f32_of_f16, uint16_t, float, kvg_ref_f32_of_f16)
OVER_ARRAY(oracle_f32_of_bf16, uint16_t, float, kvg_ref_f32_of_bf16)
OVER_ARRAY(oracle_f32_of_e4m3, uint8_t, float, kvg_ref_f32_of_e4m3)
OVER_ARRAY(oracle_f32_of_e5m2, uint8_t, float, kvg_ref_f32_of_e5m2)
OVER_ARRAY(oracle_f32_of_e2m1, uint8_t, float, kvg_ref_f32_of_e2m1)
OVER_ARRAY(oracle_f32_of_e8m0, uint8_t, float, kvg_ref_f32_of_e8m0)

/* ties: 0 even, 1 away, 2 zero. Magnitude codes; no element may be NaN. */
void oracle_e2m1_magnitude(const double *from, size_t count, int ties, uint8_t *to)
{
    static const kvg_ref_ties rules[] = {KVG_REF_TIES_EVEN, KVG_REF_TIES_AWAY, KVG_REF_TIES_ZERO};
    for (size_t i = 0; i < count; i++) to[i] = kvg_ref_e2m1_magnitude(from[i], rules[ties]);
}

const char *oracle_error_text(void)
{
    return kvg_error_text();
}

/* The names of a format's dialects, by index; NULL past the last. Lets a test see that it left none out. */
const char *oracle_dialect_name(const char *format_name, size_t index)
{
    kvg_format format;
    if (kvg_format_find(format_name, &format)) return NULL;
    if (index >= kvg_reference_dialect_count(format)) return NULL;
    return kvg_reference_dialect(format, index)->name;
}

static kvg_status problem_of(const char *format_name, const char *dialect, const char *dtype_name, uint32_t rows,
                             uint32_t head_dim, kvg_op op, kvg_problem *problem)
{
    kvg_format format;
    kvg_dtype dtype;
    kvg_status s = kvg_format_find(format_name, &format);
    if (!s) s = kvg_dtype_find(dtype_name, &dtype);
    if (s) return s;
    *problem = (kvg_problem){.op = op,
                             .layout = KVG_LAYOUT_ROWS,
                             .dtype = dtype,
                             .storage = {{format, dialect}, {format, dialect}},
                             .tokens = rows,
                             .kv_heads = 1,
                             .head_dim = head_dim};
    return kvg_problem_check(problem);
}

/* The tensor of a role; its data is the caller's, whose size is known from the same formulas. */
static kvg_tensor tensor_of(const kvg_problem *problem, kvg_role role, kvg_side side, const void *data)
{
    kvg_tensor t = kvg_problem_tensor(problem, role, side);
    t.data = t.bytes ? (void *)data : NULL;
    return t;
}

static kvg_status run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_impl *impl;
    kvg_status s = kvg_backend_choose(kvg_reference_backend(), problem, &impl);
    if (s) return s;
    return impl->run(problem, in, out, NULL);
}

/* Both sides get the same rows; K's bytes are returned, and V's must be the same ones. */
static kvg_status same_sides(const kvg_tensor *k, const kvg_tensor *v)
{
    if (k->bytes == 0 || memcmp(k->data, v->data, k->bytes) == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "K and V differ on the same input");
}

/* Returns a kvg_status. tensor_scale is read by formats that have one. `scales` may be NULL where there are none. */
int oracle_quantise(const char *format, const char *dialect, const char *dtype, uint32_t rows, uint32_t head_dim,
                    float tensor_scale, const void *values, uint8_t *codes, uint8_t *scales)
{
    kvg_problem p;
    kvg_status s = problem_of(format, dialect, dtype, rows, head_dim, KVG_OP_QUANTISE, &p);
    if (s) return s;
    uint8_t *v_codes = malloc(kvg_problem_tensor(&p, KVG_ROLE_CODES, KVG_V).bytes + 1);
    uint8_t *v_scales = malloc(kvg_problem_tensor(&p, KVG_ROLE_SCALES, KVG_V).bytes + 1);
    if (v_codes && v_scales) {
        const kvg_tensor in[] = {
            tensor_of(&p, KVG_ROLE_VALUES, KVG_K, values),
            tensor_of(&p, KVG_ROLE_VALUES, KVG_V, values),
            tensor_of(&p, KVG_ROLE_TENSOR_SCALE, KVG_K, &tensor_scale),
            tensor_of(&p, KVG_ROLE_TENSOR_SCALE, KVG_V, &tensor_scale),
        };
        kvg_tensor out[] = {
            tensor_of(&p, KVG_ROLE_CODES, KVG_K, codes),
            tensor_of(&p, KVG_ROLE_CODES, KVG_V, v_codes),
            tensor_of(&p, KVG_ROLE_SCALES, KVG_K, scales),
            tensor_of(&p, KVG_ROLE_SCALES, KVG_V, v_scales),
        };
        s = run(&p, in, out);
        if (!s) s = same_sides(&out[0], &out[1]);
        if (!s) s = same_sides(&out[2], &out[3]);
    } else {
        s = kvg_fail(KVG_ERR_MEMORY, "no memory for %u rows", rows);
    }
    free(v_codes);
    free(v_scales);
    return s;
}

int oracle_dequantise(const char *format, const char *dialect, const char *dtype, uint32_t rows, uint32_t head_dim,
                      float tensor_scale, const uint8_t *codes, const uint8_t *scales, void *values)
{
    kvg_problem p;
    kvg_status s = problem_of(format, dialect, dtype, rows, head_dim, KVG_OP_DEQUANTISE, &p);
    if (s) return s;
    void *v_values = malloc(kvg_problem_tensor(&p, KVG_ROLE_VALUES, KVG_V).bytes);
    if (v_values) {
        const kvg_tensor in[] = {
            tensor_of(&p, KVG_ROLE_CODES, KVG_K, codes),
            tensor_of(&p, KVG_ROLE_CODES, KVG_V, codes),
            tensor_of(&p, KVG_ROLE_SCALES, KVG_K, scales),
            tensor_of(&p, KVG_ROLE_SCALES, KVG_V, scales),
            tensor_of(&p, KVG_ROLE_TENSOR_SCALE, KVG_K, &tensor_scale),
            tensor_of(&p, KVG_ROLE_TENSOR_SCALE, KVG_V, &tensor_scale),
        };
        kvg_tensor out[] = {
            tensor_of(&p, KVG_ROLE_VALUES, KVG_K, values),
            tensor_of(&p, KVG_ROLE_VALUES, KVG_V, v_values),
        };
        s = run(&p, in, out);
        if (!s) s = same_sides(&out[0], &out[1]);
    } else {
        s = kvg_fail(KVG_ERR_MEMORY, "no memory for %u rows", rows);
    }
    free(v_values);
    return s;
}
