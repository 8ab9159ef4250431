/* Exact numbers for the second reference: a sign, an integer significand, a power of two. Floats are only ever looked
 * at as bit patterns; every IEEE operation of docs/spec/formats.md is an exact integer result and one rounding. */
#ifndef KVG_SECOND_SLOW_NUMBER_H
#define KVG_SECOND_SLOW_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum slow_kind { SLOW_FINITE, SLOW_INF, SLOW_NAN } slow_kind;

/* Finite: (-1)^negative * significand * 2^exponent. NaN: significand holds the payload, aligned to the top bit. */
typedef struct slow_number {
    uint64_t significand;
    int exponent;
    slow_kind kind;
    bool negative;
} slow_number;

/* What the codes with an all-ones exponent field mean. */
typedef enum slow_specials {
    SLOW_ALL_FINITE,  /* E2M1: ordinary values */
    SLOW_ONE_NAN,     /* E4M3: only the all-ones code is a NaN */
    SLOW_IEEE,        /* Inf and NaN; a NaN's sign and payload are read as a plain quiet NaN (E5M2) */
    SLOW_IEEE_PAYLOAD /* Inf and NaN; sign and payload of a NaN are kept (section 2.4) */
} slow_specials;

/* A binary format s e...e f...f with bias 2^(exponent_bits - 1) - 1 and subnormals. */
typedef struct slow_layout {
    int exponent_bits;
    int fraction_bits;
    uint64_t largest; /* code of the largest finite value */
    slow_specials specials;
} slow_layout;

extern const slow_layout slow_f32, slow_f16, slow_bf16, slow_e5m2, slow_e4m3, slow_e2m1;

slow_number slow_zero(bool negative);
slow_number slow_infinity(bool negative);
slow_number slow_nan(void); /* the NaN of every invalid operation: positive, payload all ones (section 2.5) */
slow_number slow_scaled(int64_t integer, int exponent); /* integer * 2^exponent */

/* The value of a code. NaN codes of the formats without payload give 0x7FC00000's NaN (section 2.2). */
slow_number slow_decode(const slow_layout *layout, uint64_t code);

/* The nearest value of an IEEE layout, ties to even, overflow to Inf; then the same as a code. */
slow_number slow_round(const slow_layout *layout, slow_number n);
uint64_t slow_encode(const slow_layout *layout, slow_number n);

/* Exact results, unless they are too long for 64 bits: then the last bit says that something was cut off below it,
 * which is all that one rounding to 53 bits or fewer needs. Operands have at most 48 significant bits, divisors 32. */
slow_number slow_add(slow_number a, slow_number b);
slow_number slow_subtract(slow_number a, slow_number b);
slow_number slow_multiply(slow_number a, slow_number b);
slow_number slow_divide(slow_number a, slow_number b);

bool slow_is_zero(slow_number n);

/* Exact comparison, not for NaN: -1, 0, 1. slow_compare puts -0 below +0. */
int slow_compare_magnitudes(slow_number a, slow_number b);
int slow_compare(slow_number a, slow_number b);

/* To an integer, clamped to low ... high; not for NaN. */
typedef enum slow_direction { SLOW_TO_NEAREST_EVEN, SLOW_TO_ZERO } slow_direction;
int slow_to_integer(slow_number n, slow_direction direction, int low, int high);

#endif
