/* How op decode is cut into pieces on a GPU, from the shapes of a problem alone, and what workspace that takes. No bit
 * of an answer depends on it (docs/spec/decode-contract.md section 10). */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_PLAN_H
#define KVG_GPU_ATTENTION_FEW_FEW_PLAN_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVG_DECODE_STRETCH = 256, /* tokens; a leaf is one stretch or more */
    KVG_DECODE_HEADS = 8,     /* query heads that a warp holds */
    KVG_DECODE_WARPS = 4,     /* of a CTA; each takes a run of whole leaves */
    KVG_DECODE_LEVELS = 2,    /* a warp's run is up to 2^levels stretches, of some kernels fewer */
    KVG_DECODE_BATCH = 2,     /* nodes that a warp of the last kernel merges at once */
    KVG_DECODE_MOST_WARPS = 16,
    KVG_DECODE_FEW = 64 /* sequences: no kernel is needed to find their queries */
};

typedef struct kvg_decode_plan {
    uint32_t chunks; /* of 8 query heads, per KV head */
    uint32_t run;    /* stretches of a warp; 0: the warps of a CTA share a leaf */
    uint32_t piece;  /* tokens of a CTA */
    uint32_t pieces; /* most that a row touches: one CTA per piece, team, KV head and chunk */
    uint32_t merge_warps; /* a power of two */
    uint32_t teams;        /* of query tokens that a CTA takes together */
    uint64_t rows_bytes, node_bytes; /* workspace: of all queries' ranges of keys; of a CTA's partial results */
} kvg_decode_plan;

/* leaf: tokens of one. levels: runs of up to 2^levels stretches are what the kernel takes. team: query tokens that its
 * CTAs take together. shares: whether there is a kernel whose warps share a leaf. */
void kvg_decode_plan_of(const kvg_problem *problem, uint32_t leaf, uint32_t levels, uint32_t team, bool shares,
                        kvg_decode_plan *out);

#ifdef __cplusplus
}
#endif
#endif
