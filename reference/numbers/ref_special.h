/* The special functions of sm_90, bit for bit: docs/spec/numerics.md section 9. */
#ifndef KVG_REFERENCE_NUMBERS_REF_SPECIAL_H
#define KVG_REFERENCE_NUMBERS_REF_SPECIAL_H

#include <stdbool.h>

/* Each with ftz, as `ex2.approx.ftz.f32`, and without. */
float ref_ex2_approx(float x, bool ftz);
float ref_rcp_approx(float x, bool ftz);
float ref_rsqrt_approx(float x, bool ftz);
float ref_lg2_approx(float x, bool ftz);
float ref_div_full(float a, float b, bool ftz);
float ref_div_full_plus(float a, float b, float c); /* without ftz, its last product and + c fused */

float ref_tanh_approx(float x); /* `tanh.approx.f32`, which has no ftz */
#define REF_TANH_APPROX_ERROR 0x1.04p-11f /* absolute */

#endif
