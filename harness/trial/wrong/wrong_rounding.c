#include "harness/trial/wrong/wrong_rounding.h"

#include <math.h>

double kvg_nearest(double x, kvg_ties ties)
{
    const double below = floor(x);
    if (ties == KVG_TIES_EVEN || x - below != 0.5) return nearbyint(x);
    const bool up = ties == KVG_TIES_UP || (x > 0) == (ties == KVG_TIES_AWAY);
    return up ? below + 1 : below;
}

typedef struct small_float {
    int exponent, fraction; /* bits */
    unsigned largest, nan;  /* codes */
} small_float;

static small_float float_of(kvg_codes codes)
{
    switch (codes) {
    case KVG_CODES_E2M1: return (small_float){2, 1, 7, 7};
    case KVG_CODES_E4M3: return (small_float){4, 3, 0x7E, 0x7F};
    case KVG_CODES_E5M2: return (small_float){5, 2, 0x7B, 0x7F};
    case KVG_CODES_BF16: return (small_float){8, 7, 0x7F7F, 0x7FFF};
    case KVG_CODES_F16:
    case KVG_CODES_UNSIGNED: /* integers are no floats */
    case KVG_CODES_OFFSET:
    case KVG_CODES_SIGNED: break;
    }
    return (small_float){5, 10, 0x7BFF, 0x7FFF};
}

/* Exponent of the smallest normal number. */
static int least_exponent(const small_float *f)
{
    return 2 - (1 << (f->exponent - 1));
}

unsigned kvg_float_code(kvg_codes codes, double v, kvg_ties ties)
{
    const small_float f = float_of(codes);
    const unsigned sign = signbit(v) ? 1u << (f.exponent + f.fraction) : 0;
    if (isnan(v)) return f.nan;
    if (isinf(v)) return sign | f.largest;
    const int least = least_exponent(&f);
    int e;
    frexp(v, &e);
    e = v == 0 || e - 1 < least ? least : e - 1;
    /* a carry goes to the exponent */
    const unsigned steps = (unsigned)fabs(kvg_nearest(ldexp(v, f.fraction - e), ties));
    const unsigned code = ((unsigned)(e - least) << f.fraction) + steps;
    return sign | (code < f.largest ? code : f.largest);
}

double kvg_float_value(kvg_codes codes, unsigned code)
{
    const small_float f = float_of(codes);
    const unsigned one = 1u << f.fraction, magnitude = code & ((1u << (f.exponent + f.fraction)) - 1);
    const unsigned e = magnitude >> f.fraction, fraction = magnitude & (one - 1);
    if (codes != KVG_CODES_E2M1 && magnitude > f.largest) return NAN; /* of E5M2 and F16 Inf too: none is written */
    const double value = ldexp(e ? one + fraction : fraction, (int)(e ? e - 1 : 0) + least_exponent(&f) - f.fraction);
    return code == magnitude ? value : -value;
}
