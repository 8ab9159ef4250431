#include "second/slow_convert.h"

unsigned slow_nearest(const slow_layout *layout, slow_number v, slow_ties ties)
{
    v.negative = false;
    /* value(below) <= v < value(above), with an infinite value above the largest */
    unsigned below = 0, above = (unsigned)layout->largest + 1;
    while (above - below > 1) {
        unsigned middle = (below + above) / 2;
        if (slow_compare_magnitudes(slow_decode(layout, middle), v) <= 0) {
            below = middle;
        } else {
            above = middle;
        }
    }
    if (below == layout->largest) return below;
    slow_number twice_midpoint = slow_add(slow_decode(layout, below), slow_decode(layout, above));
    int side = slow_compare_magnitudes(slow_multiply(v, slow_scaled(2, 0)), twice_midpoint);
    if (side != 0) return side < 0 ? below : above;
    switch (ties) {
    case SLOW_TIES_AWAY: return above;
    case SLOW_TIES_ZERO: return below;
    case SLOW_TIES_EVEN: break;
    }
    return below % 2 == 0 ? below : above;
}

uint8_t slow_fp8_encode(const slow_layout *layout, slow_number x)
{
    if (x.kind == SLOW_NAN) return 0x7F;
    return (uint8_t)(slow_nearest(layout, x, SLOW_TIES_EVEN) | (x.negative ? 0x80u : 0));
}

uint8_t slow_e2m1_encode(const slow_e2m1_rule *rule, slow_number v)
{
    enum { SIGN = 8 };
    if (v.kind == SLOW_NAN) {
        if (rule->nan == SLOW_NAN_SIGNED_ZERO) return v.negative ? SIGN : 0;
        return rule->nan;
    }
    unsigned magnitude = slow_nearest(&slow_e2m1, v, rule->ties);
    bool minus = v.negative;
    switch (rule->sign) {
    case SLOW_SIGN_BIT: break;
    case SLOW_SIGN_LESS: minus = v.negative && !slow_is_zero(v); break;
    case SLOW_SIGN_NONZERO: minus = v.negative && magnitude != 0; break;
    case SLOW_SIGN_NOTPOS: minus = v.negative || slow_is_zero(v); break;
    }
    return (uint8_t)(magnitude | (minus ? SIGN : 0u));
}

slow_number slow_e8m0_decode(uint8_t code)
{
    if (code == 255) return slow_decode(&slow_f32, 0x7FC00000);
    return slow_scaled(1, code - 127);
}

slow_number slow_rn(slow_number n)
{
    return slow_round(&slow_f32, n);
}

slow_number slow_rcp(slow_number x)
{
    slow_number smallest_normal = slow_scaled(1, -126);
    if (x.kind == SLOW_FINITE && slow_compare_magnitudes(x, smallest_normal) < 0) return slow_infinity(x.negative);
    slow_number r = slow_rn(slow_divide(slow_scaled(1, 0), x));
    if (r.kind == SLOW_FINITE && slow_compare_magnitudes(r, smallest_normal) < 0) return slow_zero(r.negative);
    return r;
}

const slow_layout *slow_layout_of(kvg_dtype dtype)
{
    return dtype == KVG_DTYPE_F16 ? &slow_f16 : dtype == KVG_DTYPE_BF16 ? &slow_bf16 : &slow_f32;
}
