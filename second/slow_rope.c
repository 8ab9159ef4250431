#include "second/slow_rope.h"

#include "second/slow_convert.h"

/* RN_T of a result that lives on as a value of T: a NaN keeps no more of its payload than T has. */
static slow_number in_type(const slow_layout *type, slow_number n)
{
    return slow_decode(type, slow_encode(type, n));
}

void slow_add_bias(const slow_layout *type, const slow_number *bias, size_t count, slow_number *x)
{
    for (size_t i = 0; i < count; i++) x[i] = in_type(type, slow_add(x[i], bias[i]));
}

static slow_number product(slow_number a, slow_number b)
{
    return slow_rn(slow_multiply(a, b));
}

void slow_turn(const slow_layout *type, const kvg_rope *rope, const slow_number *cos_sin, slow_number *x)
{
    size_t pairs = rope->dims / 2;
    for (size_t i = 0; i < pairs; i++) {
        bool halves = rope->pairing == KVG_PAIRING_HALVES;
        slow_number *first = &x[halves ? i : 2 * i], *second = &x[halves ? i + pairs : 2 * i + 1];
        slow_number u0 = *first, u1 = *second, c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        *first = in_type(type, slow_rn(slow_subtract(product(u0, c), product(u1, s))));
        *second = in_type(type, slow_rn(slow_add(product(u1, c), product(u0, s))));
    }
}
