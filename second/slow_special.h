/* Special functions of sm_90 (docs/spec/numerics.md section 9), in exact numbers. */
#ifndef KVG_SECOND_SLOW_SPECIAL_H
#define KVG_SECOND_SLOW_SPECIAL_H

#include "second/slow_fault.h"
#include "second/slow_number.h"

slow_number slow_ex2_approx(slow_number x, bool ftz, slow_special_fault fault);
slow_number slow_rcp_approx(slow_number x, bool ftz, slow_special_fault fault);
slow_number slow_rsqrt_approx(slow_number x, bool ftz, slow_special_fault fault);
slow_number slow_lg2_approx(slow_number x, bool ftz, slow_special_fault fault);
slow_number slow_tanh_approx(slow_number x, slow_special_fault fault);
slow_number slow_div_full(slow_number a, slow_number b, bool ftz, slow_special_fault fault);
/* Without ftz, and without the last rounding. */
slow_number slow_div_full_unrounded(slow_number a, slow_number b);

#endif
