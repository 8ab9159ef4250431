#include "reference/formats/ref_token_head.h"

#include "reference/numbers/ref_special.h"

static const float LEAST = 1e-6f;

ref_packing ref_token_head_packing(const ref_row *row)
{
    (void)row;
    return REF_PACK_U8;
}

void ref_token_head_scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const ref_token_head_dialect *dialect = row->dialect;
    bool has_nan;
    const float amax = ref_amax(x, row->head_dim, &has_nan);
    float scale = dialect->on_sm90 ? ref_div_full(amax, dialect->most, false) : amax / dialect->most;
    if (scale < LEAST) scale = LEAST;
    kvg_reference_store(KVG_DTYPE_F32, &scale, 1, scales);
    const float reciprocal = dialect->on_sm90 ? ref_rcp_approx(scale, false) : 1.0f / scale;
    for (uint32_t i = 0; i < row->head_dim; i++) v[i] = (double)x[i] * reciprocal;
}

uint16_t ref_token_head_encode(const ref_row *row, float x, double v)
{
    (void)x;
    return ((const ref_token_head_dialect *)row->dialect)->encode(v);
}

double ref_token_head_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    float scale;
    kvg_reference_load(KVG_DTYPE_F32, scales, 1, &scale);
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = ref_token_head_grid_value(row, codes[i]);
    return scale;
}

void ref_token_head_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    double value[KVG_MAX_HEAD_DIM];
    const double scale = ref_token_head_exact(row, codes, scales, value);
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = (float)(value[i] * scale); /* exact, then one rounding */
}

double ref_token_head_grid_value(const ref_row *row, uint16_t code)
{
    return ((const ref_token_head_dialect *)row->dialect)->value(code);
}

ref_range ref_token_head_range(const ref_row *row, double amax, bool has_nan)
{
    (void)has_nan;
    const double exact = ref_max(amax / ((const ref_token_head_dialect *)row->dialect)->most, LEAST);
    return (ref_range){exact * (1 - 0x1p-22), exact * (1 + 0x1p-22)}; /* normal: rcp and one rounding */
}
