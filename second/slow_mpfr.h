/* Exact numbers of the second reference as numbers of MPFR, and back. */
#ifndef KVG_SECOND_SLOW_MPFR_H
#define KVG_SECOND_SLOW_MPFR_H

#include <stdint.h>

#include <mpfr.h>

#include "second/slow_number.h"

/* NaN for infinities, too: MPFR's arithmetic would make numbers of them. */
void slow_to_mpfr(mpfr_t to, slow_number n);

/* Cut off to 60 bits; the last bit says whether something was lost: all that one rounding needs. */
slow_number slow_from_mpfr(const mpfr_t from);

#endif
