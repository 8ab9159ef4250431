#include "model/model_math.h"

#include <math.h> /* fmaf and sqrtf: correctly rounded in every C library */
#include <stdbool.h>

#include "reference/numbers/ref_exp2.h"

static const float log2_e = 0x1.715476p+0f;

float kvg_reference_dot(const float *w, const float *x, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) sum = fmaf(w[i], x[i], sum);
    return sum;
}

void kvg_reference_rms_norm(const float *x, const float *w, size_t count, float eps, float *y)
{
    const float mean = kvg_reference_dot(x, x, count) / (float)count;
    const float r = 1 / sqrtf(mean + eps);
    for (size_t i = 0; i < count; i++) y[i] = w[i] * (x[i] * r);
}

float kvg_reference_sigmoid(float z)
{
    const float t = ref_exp2(-fabsf(z) * log2_e);
    return z >= 0 ? 1 / (1 + t) : z < 0 ? t / (1 + t) : z; /* a NaN stays */
}

/* Comparisons leave a NaN as it is. */
static float at_most(float x, float limit)
{
    return x > limit ? limit : x;
}

void kvg_reference_swiglu(const float *gate, const float *up, size_t count, float limit, float *y)
{
    for (size_t i = 0; i < count; i++) {
        if (limit == 0) {
            y[i] = gate[i] * kvg_reference_sigmoid(gate[i]) * up[i];
            continue;
        }
        const float g = at_most(gate[i], limit), u = at_most(up[i], limit);
        const float above = (u < -limit ? -limit : u) + 1;
        y[i] = above * (g * kvg_reference_sigmoid(1.702f * g));
    }
}

static bool is_before(float a, float b)
{
    return isnan(b) ? false : isnan(a) || a > b;
}

void kvg_reference_route(const float *logits, uint32_t count, uint32_t chosen, uint32_t *experts, float *weights)
{
    for (uint32_t j = 0; j < chosen; j++) {
        bool found = false;
        for (uint32_t i = 0; i < count; i++) {
            bool taken = false;
            for (uint32_t k = 0; k < j; k++) taken = taken || experts[k] == i;
            if (taken || (found && !is_before(logits[i], logits[experts[j]]))) continue;
            experts[j] = i;
            found = true;
        }
    }
    float sum = 0;
    for (uint32_t j = 0; j < chosen; j++) {
        const float below = logits[experts[j]] - logits[experts[0]];
        weights[j] = isnan(below) ? NAN : ref_exp2(below * log2_e);
        sum += weights[j];
    }
    for (uint32_t j = 0; j < chosen; j++) weights[j] /= sum;
}
