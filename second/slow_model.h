/* A second reading of docs/spec/generate.md section 4, in exact numbers with one rounding each. Floats in and out. */
#ifndef KVG_SECOND_SLOW_MODEL_H
#define KVG_SECOND_SLOW_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* What a wrong implementation would do; SLOW_MODEL_RIGHT: nothing. */
typedef enum slow_model_fault {
    SLOW_MODEL_RIGHT,
    SLOW_MODEL_BACKWARDS,      /* sums from the last input to the first */
    SLOW_MODEL_UNFUSED,        /* products rounded before they are added */
    SLOW_MODEL_HALVES,         /* a sum in two halves */
    SLOW_MODEL_EPS_OUTSIDE,    /* eps added to the root */
    SLOW_MODEL_WEIGHT_FIRST,   /* (w x) r in place of w (x r) */
    SLOW_MODEL_ROUNDED_ROOT,   /* x divided by the root */
    SLOW_MODEL_ONE_SIGMOID,    /* 1 / (1 + t) from below, too: 1 - sigma(-z) */
    SLOW_MODEL_NO_CLAMP,
    SLOW_MODEL_UP_FIRST,       /* (up gate) sigma */
    SLOW_MODEL_ALPHA_1_7,      /* 1.7 for 1.702 */
    SLOW_MODEL_LATER_TIE,      /* of equal logits the later one */
    SLOW_MODEL_ALL_SOFTMAX,    /* softmax over all experts before choosing */
    SLOW_MODEL_SHARE_OF_ONE,   /* weights divided by their sum before the share is taken */
    SLOW_MODEL_SHARE_SHORT,    /* the token that reaches the share left out */
    SLOW_MODEL_DRAW_OF_ALL,    /* the draw scaled by all weights */
    SLOW_MODEL_SHARE_FIRST,    /* the share taken before the temperature */
    SLOW_MODEL_FAULTS
} slow_model_fault;

float slow_model_dot(const float *w, const float *x, size_t count, slow_model_fault fault);
void slow_model_rms_norm(const float *x, const float *w, size_t count, float eps, float *y, slow_model_fault fault);
float slow_model_sigmoid(float z, slow_model_fault fault);
float slow_model_swiglu(float gate, float up, float limit, slow_model_fault fault);
void slow_model_route(const float *logits, uint32_t count, uint32_t chosen, uint32_t *experts, float *weights,
                      slow_model_fault fault);

/* `u`: the draw, from 0 to 1. */
uint32_t slow_model_sample(const float *logits, uint32_t count, float temperature, float top_p, float u,
                           slow_model_fault fault);

#endif
