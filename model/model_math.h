/* The arithmetic of a model outside of its cache, bit for bit as docs/spec/generate.md sections 4 and 6 say: f32, one
 * rounding per operation, a fixed order of every sum, no libm. */
#ifndef KVG_MODEL_MODEL_MATH_H
#define KVG_MODEL_MODEL_MATH_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One output of a matrix product: the chain of fused multiply-adds over the inputs in their order, from +0. */
float kvg_reference_dot(const float *weights, const float *x, size_t count);

/* y[count] from x and weights; y may be x. */
void kvg_reference_rms_norm(const float *x, const float *weights, size_t count, float eps, float *y);

float kvg_reference_sigmoid(float z);

/* y[count] from gate and up; limit 0: plain SwiGLU, else GPT-OSS's with its clamp. y may be either. */
void kvg_reference_swiglu(const float *gate, const float *up, size_t count, float limit, float *y);

/* The `chosen` largest of `count` logits (1 <= chosen <= count), the largest first, of equal ones the lower index
 * first, and their weights, which add up to about 1. A NaN counts as larger than any number, and makes every weight
 * NaN. */
void kvg_reference_route(const float *logits, uint32_t count, uint32_t chosen, uint32_t *experts, float *weights);

/* How a token is drawn from a row of logits. */
typedef struct kvg_sampling {
    float temperature;      /* 0: the largest logit; else above 0 */
    float top_p;            /* above 0, at most 1: the share of the weight that is drawn from; only with temperature */
    uint64_t seed, request; /* of the draw, with the token's position */
} kvg_sampling;

/* The next token. KVG_ERR_INVALID for a NaN among the logits, for +Inf with a temperature, for logits that are all
 * -Inf, and for a temperature or share out of range. */
kvg_status kvg_reference_sample(const float *logits, uint32_t count, const kvg_sampling *sampling, uint64_t position,
                                uint32_t *token) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
