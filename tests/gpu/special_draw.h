/* Operands for the special functions of sm_90 (docs/spec/numerics.md section 9), as bits: of div.full a / b, of the
 * others a. */
#ifndef KVG_TESTS_GPU_SPECIAL_DRAW_H
#define KVG_TESTS_GPU_SPECIAL_DRAW_H

#include <stdint.h>

#include "core/rng.h"

typedef struct special_operands {
    uint32_t a, b;
} special_operands;

/* Where rules change, each with its neighbours: 0, the second subnormal, 2^-126, 2^-24, 2^-23, 1, 4, 126, 127, 128,
 * 2^126, 2^127, Inf, the last NaN but one. */
enum { SPECIAL_EDGES = 14 * 3 * 2 };

static inline uint32_t special_edge(uint32_t i)
{
    static const uint32_t edges[] = {0x00000000, 0x00000002, 0x00800000, 0x33800000, 0x34000000,
                                     0x3F800000, 0x40800000, 0x42FC0000, 0x42FE0000, 0x43000000,
                                     0x7E800000, 0x7F000000, 0x7F800000, 0x7FFFFFFE};
    const uint32_t magnitude = (edges[i / 6] + i / 2 % 3 - 1) & 0x7FFFFFFF; /* 0 has the largest NaN below it */
    return magnitude | i % 2 << 31;
}

static inline uint32_t special_near_one(uint32_t word)
{
    return (word & 0x807FFFFF) | (96 + (word >> 23 & 63)) << 23;
}

/* Draw i: any bits; numbers from 2^-31 to 2^33; quotients next to 2^-126; an edge beside any bits. */
static inline special_operands special_draw(uint64_t i)
{
    enum { SEED = 0x7370 };
    uint32_t w[4];
    kvg_rng_block(SEED, 0, i, w);
    special_operands drawn = {w[0], w[1]};
    switch (i % 4) {
    case 1:
        drawn.a = special_near_one(w[0]);
        drawn.b = special_near_one(w[1]);
        break;
    case 2:
        drawn.b |= 0x40000000;
        drawn.a = drawn.b - (126u << 23) + w[2] % 9 - 4;
        break;
    case 3: *(w[2] & 1 ? &drawn.a : &drawn.b) = special_edge(w[3] % SPECIAL_EDGES); break;
    }
    return drawn;
}

#endif
