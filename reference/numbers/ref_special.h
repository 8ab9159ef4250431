/* The special functions of sm_90, bit for bit: docs/spec/numerics.md section 9. */
#ifndef KVG_REFERENCE_NUMBERS_REF_SPECIAL_H
#define KVG_REFERENCE_NUMBERS_REF_SPECIAL_H

#include <stdbool.h>

float ref_ex2_approx(float x);                  /* ex2.approx.ftz.f32 */
float ref_rcp_approx(float x);                  /* rcp.approx.ftz.f32 */
float ref_div_full(float a, float b, bool ftz); /* div.full.f32, div.full.ftz.f32 */

#endif
