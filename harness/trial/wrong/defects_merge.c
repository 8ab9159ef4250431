#include "harness/trial/wrong/defects_merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

bool kvg_merge_applies(const kvg_problem *p, kvg_side side)
{
    (void)side;
    return p->op == KVG_OP_MERGE;
}

bool kvg_merge_applies_once(const kvg_problem *p, kvg_side side)
{
    return side == KVG_K && p->op == KVG_OP_MERGE;
}

static size_t rows_of(const kvg_defect_site *s)
{
    return (size_t)s->problem->tokens * s->problem->kv_heads;
}

/* --- the parts' LSE --- */

void kvg_merge_unweighted(const kvg_defect_site *s)
{
    float *lse = s->tensor->data;
    for (size_t i = 0; i < rows_of(s); i++) lse[i] = isinf(lse[i]) ? lse[i] : 0;
}

void kvg_merge_lost(const kvg_defect_site *s)
{
    float *lse = s->tensor->data;
    for (size_t i = 0; i < rows_of(s); i++) lse[i] = -INFINITY;
}

/* [tokens, heads] read as [heads, tokens]. */
void kvg_merge_heads_first(const kvg_defect_site *s)
{
    const size_t tokens = s->problem->tokens, heads = s->problem->kv_heads;
    float *lse = s->tensor->data, *was = malloc(s->tensor->bytes);
    if (!was) return;
    memcpy(was, lse, s->tensor->bytes);
    for (size_t i = 0; i < rows_of(s); i++) lse[i] = was[i % heads * tokens + i / heads];
    free(was);
}

/* --- outputs --- */

static const kvg_tensor *part(const kvg_defect_site *s, kvg_role role, int side)
{
    return &s->in[kvg_roles_index(kvg_op_get(KVG_OP_MERGE)->inputs, role, (kvg_side)side)];
}

static float part_lse(const kvg_defect_site *s, int side, size_t row)
{
    return ((const float *)part(s, KVG_ROLE_PART_LSE, side)->data)[row];
}

/* The output of a part. */
static void load_part(const kvg_defect_site *s, int side, size_t row, float x[KVG_MAX_HEAD_DIM])
{
    const size_t bytes = s->problem->head_dim * kvg_dtype_bytes(s->problem->dtype);
    const uint8_t *out = part(s, KVG_ROLE_PART, side)->data;
    kvg_reference_load(s->problem->dtype, out + row * bytes, s->problem->head_dim, x);
}

static float largest(const kvg_defect_site *s, size_t row)
{
    return fmaxf(part_lse(s, KVG_K, row), part_lse(s, KVG_V, row));
}

/* Multiplies a row of out or of lse. */
static void multiply(const kvg_defect_site *s, size_t row, float factor)
{
    float x[KVG_MAX_HEAD_DIM];
    const uint32_t count = s->tensor->rank == 3 ? s->problem->head_dim : 1;
    uint8_t *at = (uint8_t *)s->tensor->data + row * count * kvg_dtype_bytes(s->tensor->dtype);
    kvg_reference_load(s->tensor->dtype, at, count, x);
    for (uint32_t i = 0; i < count; i++) x[i] *= factor;
    kvg_reference_store(s->tensor->dtype, x, count, at);
}

void kvg_merge_largest_lse(const kvg_defect_site *s)
{
    float *lse = s->tensor->data;
    for (size_t i = 0; i < rows_of(s); i++) lse[i] = largest(s, i);
}

/* Not divided by the sum of the weights. */
void kvg_merge_unnormalised(const kvg_defect_site *s)
{
    for (size_t i = 0; i < rows_of(s); i++) {
        const float top = largest(s, i);
        double sum = 0;
        for (int side = KVG_K; side <= KVG_V && !isinf(top); side++)
            sum += exp((double)part_lse(s, side, i) - (double)top);
        multiply(s, i, (float)sum);
    }
}

/* What a part without keys holds, times 0, is added to the other part. */
void kvg_merge_empty_leaks(const kvg_defect_site *s)
{
    for (size_t i = 0; i < rows_of(s); i++) {
        float zeros = 0;
        if (isinf(largest(s, i))) continue;
        for (int side = KVG_K; side <= KVG_V; side++) {
            float x[KVG_MAX_HEAD_DIM];
            if (!isinf(part_lse(s, side, i))) continue;
            load_part(s, side, i, x);
            for (uint32_t d = 0; d < s->problem->head_dim; d++) zeros += 0 * x[d];
        }
        if (isnan(zeros)) multiply(s, i, zeros);
    }
}

/* Rows of which no part has seen a key: 0 / 0. */
void kvg_merge_empty_nan(const kvg_defect_site *s)
{
    for (size_t i = 0; i < rows_of(s); i++) {
        if (isinf(largest(s, i))) multiply(s, i, NAN);
    }
}

/* e^lse in f32 without the largest LSE: the sum is Inf from 88.8 on, and 0 below -104. */
void kvg_merge_no_maximum(const kvg_defect_site *s)
{
    for (size_t i = 0; i < rows_of(s); i++) {
        const float sum = expf(part_lse(s, KVG_K, i)) + expf(part_lse(s, KVG_V, i));
        if (sum > 0 && sum < INFINITY) continue;
        if (s->tensor->rank == 3) multiply(s, i, NAN);
        else ((float *)s->tensor->data)[i] = logf(sum);
    }
}

/* The LSEs are taken for logarithms in base 2, and the one that is given is one. */
void kvg_merge_base_2(const kvg_defect_site *s)
{
    const uint32_t dims = s->problem->head_dim;
    const size_t bytes = dims * kvg_dtype_bytes(s->problem->dtype);
    for (size_t i = 0; i < rows_of(s); i++) {
        const double top = (double)largest(s, i);
        double sum = 0, values[KVG_MAX_HEAD_DIM] = {0};
        float x[KVG_MAX_HEAD_DIM];
        for (int side = KVG_K; side <= KVG_V && !isinf(top); side++) {
            const double weight = exp2((double)part_lse(s, side, i) - top);
            if (weight == 0) continue;
            load_part(s, side, i, x);
            for (uint32_t d = 0; d < dims; d++) values[d] += weight * (double)x[d];
            sum += weight;
        }
        if (sum == 0) continue; /* no part has a key */
        for (uint32_t d = 0; d < dims; d++) x[d] = (float)(values[d] / sum);
        uint8_t *out = s->tensor->data;
        if (s->tensor->rank == 3) kvg_reference_store(s->problem->dtype, x, dims, out + i * bytes);
        else ((float *)s->tensor->data)[i] = (float)(top + log2(sum));
    }
}
