#include "harness/trial/wrong/defects_mma.h"

#include <math.h>
#include <string.h>

#include "support/mma_tile.h"

bool kvg_mma_applies(const kvg_problem *p, kvg_side side)
{
    return side == KVG_K && p->op == KVG_OP_MMA;
}

void kvg_mma_other_chip(kvg_problem *p, kvg_side side)
{
    (void)side;
    size_t count;
    const kvg_profile_info *table = kvg_profile_table(&count), *own = kvg_profile_get(p->profile);
    for (size_t i = 0; i < count && p->profile == own->profile; i++) {
        const bool other = table[i].chip->sum_terms != own->chip->sum_terms;
        if (kvg_profile_is_chip(&table[i]) && other) p->profile = table[i].profile;
    }
}

/* --- other sums --- */

typedef float mma_sum(const float *a, const float *b, float c);

static float fma_chain(const float *a, const float *b, float c)
{
    for (int k = 0; k < KVG_MMA_K; k++) c = fmaf(a[k], b[k], c);
    return c;
}

static float addend_last(const float *a, const float *b, float c)
{
    return fma_chain(a, b, 0) + c;
}

/* Products are exact in binary64; its roundings are far below the one to f32. */
static float nearest(const float *a, const float *b, float c)
{
    double sum = c;
    for (int k = 0; k < KVG_MMA_K; k++) sum += (double)a[k] * b[k];
    return (float)sum;
}

static void sum_all(const kvg_defect_site *s, mma_sum *sum)
{
    const kvg_role *roles = kvg_op_get(KVG_OP_MMA)->inputs;
    const uint16_t *a = s->in[kvg_roles_index(roles, KVG_ROLE_MMA_A, KVG_K)].data;
    const uint16_t *b = s->in[kvg_roles_index(roles, KVG_ROLE_MMA_B, KVG_K)].data;
    const float *c = s->in[kvg_roles_index(roles, KVG_ROLE_MMA_C, KVG_K)].data;
    float *d = s->tensor->data;
    for (size_t i = 0; i < (size_t)s->problem->tokens * KVG_TILE_C; i++) {
        const size_t tile = i / KVG_TILE_C;
        uint16_t codes[2][KVG_MMA_K];
        float row[KVG_MMA_K], column[KVG_MMA_K];
        kvg_mma_operands(a + tile * KVG_TILE_A, b + tile * KVG_TILE_B, (int)(i % KVG_TILE_C), codes[0], codes[1]);
        kvg_reference_load(s->problem->dtype, codes[0], KVG_MMA_K, row);
        kvg_reference_load(s->problem->dtype, codes[1], KVG_MMA_K, column);
        d[i] = sum(row, column, c[i]);
    }
}

void kvg_mma_fma_chain(const kvg_defect_site *s) { sum_all(s, fma_chain); }
void kvg_mma_addend_last(const kvg_defect_site *s) { sum_all(s, addend_last); }
void kvg_mma_nearest(const kvg_defect_site *s) { sum_all(s, nearest); }

/* --- other operands, other places --- */

void kvg_mma_flush(const kvg_defect_site *s)
{
    const uint16_t exponent = s->problem->dtype == KVG_DTYPE_F16 ? 0x7C00 : 0x7F80;
    uint16_t *codes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes / sizeof *codes; i++) {
        if (!(codes[i] & exponent)) codes[i] &= 0x8000;
    }
}

/* b[16][8] read as if it lay column by column. */
void kvg_mma_transpose(const kvg_defect_site *s)
{
    uint16_t *b = s->tensor->data, tile[KVG_TILE_B];
    for (size_t t = 0; t < s->problem->tokens; t++, b += KVG_TILE_B) {
        memcpy(tile, b, sizeof tile);
        for (int i = 0; i < KVG_TILE_B; i++) b[i] = tile[i % KVG_MMA_N * KVG_MMA_K + i / KVG_MMA_N];
    }
}

/* Rows m and m + 8 of d exchanged: a lane's registers in another order. */
void kvg_mma_swap_halves(const kvg_defect_site *s)
{
    enum { HALF = KVG_TILE_C / 2 };
    float *d = s->tensor->data, upper[HALF];
    for (size_t t = 0; t < s->problem->tokens; t++, d += KVG_TILE_C) {
        memcpy(upper, d, sizeof upper);
        memcpy(d, d + HALF, sizeof upper);
        memcpy(d + HALF, upper, sizeof upper);
    }
}
