/* The parameters of a decode contract, one for each column of CONTRACT in core/profiles.def: what a kernel does with
 * operands, scores and weights. */
#ifndef KVG_CORE_CONTRACT_H
#define KVG_CORE_CONTRACT_H

#include <stdint.h>

/* How a contract forms 2^x. */
typedef enum kvg_exp2_kind {
    KVG_EXP2_POLYNOMIAL, /* docs/spec/decode-contract.md section 6 */
    KVG_EXP2_APPROX,     /* ex2.approx.ftz.f32, docs/spec/numerics.md section 9 */
    KVG_EXP2_APPROX_E,   /* e^x: ex2.approx.f32 of RN(x log2 e) */
} kvg_exp2_kind;

typedef enum kvg_operands_kind {
    KVG_OPERANDS_HELD,    /* in f16 or bf16, docs/spec/decode-contract.md section 2 */
    KVG_OPERANDS_WIDENED, /* in f32, docs/spec/simt-contract.md section 1 */
    KVG_OPERANDS_STORED,  /* the codes of the cache */
    KVG_OPERANDS_ROUNDS,  /* the codes, their products rounded to T, docs/spec/other-kernels.md section 6.1 */
    KVG_OPERANDS_THREADS, /* the codes, in f32, their products added by threads, docs/spec/other-kernels.md section 4 */
} kvg_operands_kind;

typedef enum kvg_tile_order { KVG_TILES_FIRST_UP, KVG_TILES_LAST_DOWN } kvg_tile_order;

/* What a kernel may cut a row's keys into. */
typedef enum kvg_pieces_kind {
    KVG_PIECES_NONE,     /* nothing, or its bits do not depend on it */
    KVG_PIECES_TILES,    /* splits of equal numbers of tiles */
    KVG_PIECES_EQUAL,    /* splits of equal numbers of positions, whole tiles */
    KVG_PIECES_IN_TURN,  /* splits that take KVG_RUN tiles in turn */
    KVG_PIECES_PLANNED,  /* splits that follow from the whole call */
    KVG_PIECES_SIZE,     /* pieces of a given number of positions */
    KVG_PIECES_SEGMENTS, /* always KVG_SEGMENTS, EQUAL */
} kvg_pieces_kind;

/* The score factor c, from the scale of the problem. */
typedef enum kvg_factor_kind {
    KVG_FACTOR_ROUNDED, /* RN(RN(RN(scale) log2 e) g_K), with K's tensor scale g_K */
    KVG_FACTOR_ONCE,    /* RN(RN(scale log2 e) g_K) */
    KVG_FACTOR_WIDE,    /* RN(scale g_K RN(log2 e)), products in binary64 */
    KVG_FACTOR_EXACT,   /* RN(scale log2 e), the product in binary64 */
    KVG_FACTOR_PLAIN,   /* RN(scale): weights are powers of e */
    KVG_FACTOR_ROOT,    /* RN(RN(scale root(D)) RN(1 / root(D))), products in binary64: likewise */
} kvg_factor_kind;

/* What a softcap does to a score. */
typedef enum kvg_cap_kind {
    KVG_CAP_EXP2,     /* docs/spec/decode-contract.md section 5 */
    KVG_CAP_TANH,     /* tanh.approx, docs/spec/other-kernels.md section 2.1 */
    KVG_CAP_QUOTIENT, /* 1 - 2 / (e^2y + 1), section 5 */
    KVG_CAP_SIGMOID,  /* 2 / (1 + e^-2y) - 1, section 6 */
    KVG_CAP_NONE,     /* the kernel has none */
} kvg_cap_kind;

/* When a sink joins its row. */
typedef enum kvg_sinks_kind {
    KVG_SINKS_LAST,
    KVG_SINKS_NARROW, /* last, and sinks are bf16 numbers */
    KVG_SINKS_FIRST,  /* m starts as the sink */
    KVG_SINKS_NONE,   /* not known */
} kvg_sinks_kind;

/* The exponent of a weight, from the dot product S, the score factor c and the reference point m. */
typedef enum kvg_exponent_kind {
    KVG_EXPONENT_SUBTRACTED, /* RN(RN(S c) - m) */
    KVG_EXPONENT_FUSED,      /* fma(S, c, -RN(m c)) */
    KVG_EXPONENT_FUSED_EACH, /* the same; the factor by which sums follow m is formed at each tile, 0 of no m */
    KVG_EXPONENT_SUBTRACTED_ALL, /* RN(RN(S c) - m); the factor by which sums follow m is formed at each tile */
    KVG_EXPONENT_FUSED_E,    /* fma(RN(S c), log2 e, -RN(m log2 e)) */
    KVG_EXPONENT_FUSED_ALL,  /* also that of the factor by which sums follow m: fma(m, c, -RN(new m c)), at each tile */
} kvg_exponent_kind;

/* What l, the sum of the weights, adds. */
typedef enum kvg_weights_kind {
    KVG_WEIGHTS_AS_VALUES, /* the rounded weights, as if they were multiplied by a V of 1 */
    KVG_WEIGHTS_IN_ORDER,  /* the weights in f32, position by position */
    KVG_WEIGHTS_BY_LANE,   /* the weights in f32, in four lanes: lane j has positions 8 i + 2 j and 8 i + 2 j + 1 */
    KVG_WEIGHTS_JOINED,    /* position by position; sums follow m as the first weight of a tile joins them */
    KVG_WEIGHTS_BY_ROUND,  /* the weights and the values of a tile in trees; both follow m as the tile joins them */
    KVG_WEIGHTS_BY_WARP,   /* the weights in f32, a tile in a tree; l follows m as the tile joins it */
    KVG_WEIGHTS_BY_PAIR,   /* BY_LANE, the two halves of a tile apart */
    KVG_WEIGHTS_BY_TILE,   /* AS_VALUES, tile by tile: a tile has a maximum of its own */
} kvg_weights_kind;

typedef enum kvg_end_kind {
    KVG_END_DIVIDED,    /* docs/spec/decode-contract.md section 9 */
    KVG_END_RECIPROCAL, /* docs/spec/other-kernels.md section 1.4 */
    KVG_END_PARTS,      /* section 2.4 */
    KVG_END_LOG2,       /* section 3 */
    KVG_END_STATES,     /* section 4 */
    KVG_END_PAIRS,      /* section 7 */
    /* Without LSE: */
    KVG_END_QUOTIENT,   /* section 5, without segments */
    KVG_END_SEGMENTS,   /* section 5 */
    KVG_END_NATURAL,    /* section 6 */
    KVG_END_TYPED,      /* section 8 */
} kvg_end_kind;

/* What a kernel does with operands, scores and weights. */
typedef struct kvg_contract_info {
    kvg_operands_kind operands;
    uint32_t tile; /* positions between two looks at the maximum; 0: kvg_profile_tiling says it */
    uint32_t leaf; /* positions of one accumulator, a multiple of tile; 0: one for the whole row */
    kvg_tile_order order;
    kvg_pieces_kind pieces;
    kvg_factor_kind factor;
    kvg_cap_kind cap;
    kvg_exponent_kind exponent;
    kvg_exp2_kind exp2;
    uint32_t rise; /* how far, in log2 units, a score may lie above m before the row is rescaled */
    kvg_weights_kind weights;
    kvg_sinks_kind sinks;
    kvg_end_kind end;
    uint32_t widest_16; /* elements in the widest segment of a row of 16-bit codes; 0: products are added one by one */
} kvg_contract_info;

#endif
