#include "reference/numbers/ref_chains.h"

#include "reference/numbers/ref_fused.h"

/* Four links of every chain at a time: sums come from memory and go there once for four products. */
REF_FUSED_BODY void ref_chains_body(const float *restrict w, size_t stride, const float *restrict x, size_t count,
                                    size_t lanes, float *restrict acc)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4, w += 4 * stride) {
        const float *b = w + stride, *c = b + stride, *d = c + stride;
        const float x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
#pragma omp simd
        for (size_t l = 0; l < lanes; l++)
            acc[l] = fmaf(d[l], x3, fmaf(c[l], x2, fmaf(b[l], x1, fmaf(w[l], x0, acc[l]))));
    }
    for (; i < count; i++, w += stride) {
        const float factor = x[i];
#pragma omp simd
        for (size_t l = 0; l < lanes; l++) acc[l] = fmaf(w[l], factor, acc[l]);
    }
}

REF_FUSED(ref_chains, (const float *w, size_t stride, const float *x, size_t count, size_t lanes, float *acc),
          (w, stride, x, count, lanes, acc))
