/* Op merge (docs/spec/attention.md section 6): attention over two keys. The score of a key is the LSE of a part, and
 * its value is the part's output. So its bound is that of attention.v1. */
#include <math.h>

#include "reference/attention/ref_attention.h"
#include "reference/numbers/ref_elementary.h"

enum { OUT_A, LSE_A = 2, PARTS = 2 }; /* the op's inputs */

typedef struct part {
    double lse;
    float out[KVG_MAX_HEAD_DIM];
} part;

/* Has seen a key; what the outputs of other parts hold does not matter. */
static bool counts(const part *p)
{
    return !(p->lse == -INFINITY);
}

/* The answer of one row and head. Returns the largest LSE. */
static double merge(const part *parts, uint32_t dims, double *out, double *lse)
{
    double top = -INFINITY, sum = 0, weights[PARTS] = {0};
    for (int i = 0; i < PARTS; i++) top = parts[i].lse > top ? parts[i].lse : top;
    for (int i = 0; i < PARTS; i++) {
        if (counts(&parts[i])) weights[i] = ref_exp(parts[i].lse - top);
        sum += weights[i];
    }
    for (uint32_t d = 0; d < dims; d++) {
        ref_sum value = {0};
        for (int i = 0; i < PARTS; i++) {
            if (counts(&parts[i])) ref_sum_add(&value, weights[i] * (double)parts[i].out[d]);
        }
        out[d] = sum == 0 ? 0 : ref_sum_value(&value) / sum;
    }
    *lse = sum == 0 ? -INFINITY : top + ref_log(sum);
    return top;
}

static void bound(const ref_model *m, const part *parts, double top, const double *out, double lse, double *out_bound,
                  double *lse_bound)
{
    const uint32_t dims = m->p->head_dim;
    const ref_extent keys = {(uint32_t)counts(&parts[0]) + counts(&parts[1]), 1};
    const double sum_error = ref_model_sum(m, keys);
    double errors[PARTS];
    ref_tally tally = {0};
    ref_elements elements;
    ref_elements_begin(dims, &elements);
    for (int i = 0; i < PARTS; i++) {
        errors[i] = ref_model_exponent(m, keys, top, parts[i].lse, 0);
        if (counts(&parts[i])) ref_tally_add(&tally, parts[i].lse - top, errors[i]);
    }
    tally.heaviest = ref_max(1, tally.least / tally.top);
    for (int i = 0; i < PARTS; i++) {
        ref_key key;
        double v[KVG_MAX_HEAD_DIM], reach[KVG_MAX_HEAD_DIM];
        static const double no_error[KVG_MAX_HEAD_DIM];
        if (!counts(&parts[i])) continue;
        ref_model_key(m, &tally, parts[i].lse - top, errors[i], false, 1, &key);
        tally.lost += key.floor;
        for (uint32_t d = 0; d < dims; d++) {
            v[d] = parts[i].out[d];
            reach[d] = v[d] == 0 ? 0 : ref_max(fabs(v[d]), m->v.normal);
        }
        ref_model_add(m, sum_error, &key, dims, out, v, no_error, reach, &elements);
    }
    const double otherwise = keys.keys ? INFINITY : 0; /* a row without keys is exact */
    const bool promised = lse - lse == 0;
    for (uint32_t d = 0; d < dims; d++)
        out_bound[d] = promised ? ref_model_output(m, sum_error, &tally, &elements, d, out[d]) : otherwise;
    *lse_bound = promised ? ref_model_lse(m, keys, &tally, top, lse) : otherwise;
}

void ref_merge(const kvg_problem *p, const kvg_tensor *in, bool bounds, const kvg_attention_answer *answer)
{
    const kvg_arithmetic f32 = {.q = KVG_OPERAND_F32, .k = KVG_OPERAND_F32, .p = KVG_OPERAND_F32, .v = KVG_OPERAND_F32,
                                .tile = 1};
    const size_t dims = p->head_dim, bytes = dims * kvg_dtype_bytes(p->dtype);
    ref_model model;
    ref_model_init(p, &f32, &model);
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        part parts[PARTS];
        double *out = answer->out + row * dims, *lse = answer->lse + row;
        for (int i = 0; i < PARTS; i++) {
            parts[i].lse = ((const float *)in[LSE_A + i].data)[row];
            const uint8_t *values = in[OUT_A + i].data;
            kvg_reference_load(p->dtype, values + row * bytes, (uint32_t)dims, parts[i].out);
        }
        const double top = merge(parts, (uint32_t)dims, out, lse);
        if (bounds) bound(&model, parts, top, out, *lse, answer->out_bound + row * dims, answer->lse_bound + row);
    }
}
