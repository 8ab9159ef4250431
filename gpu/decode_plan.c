#include "gpu/decode_plan.h"

static uint32_t pieces_of(uint32_t tokens, uint32_t run)
{
    const uint32_t piece = KVG_DECODE_LEAF * KVG_DECODE_WARPS * run;
    return tokens ? (tokens - 1) / piece + 1 : 1;
}

/* Long pieces have fewer partial results, short ones spread a small batch over the chip: the longest that still makes
 * ENOUGH CTAs, about two for each multiprocessor of an H200. */
void kvg_decode_plan_of(const kvg_problem *p, kvg_decode_plan *out)
{
    enum { ENOUGH = 256 };
    const uint64_t rows = (uint64_t)p->attention.queries * p->kv_heads;
    uint32_t run = 1 << KVG_DECODE_LEVELS;
    while (run > 1 && rows * pieces_of(p->tokens, run) < ENOUGH) run /= 2;
    out->run = run;
    out->pieces = pieces_of(p->tokens, run);
    out->merge_warps = (out->pieces - 1) / KVG_DECODE_BATCH + 1;
    if (out->merge_warps > KVG_DECODE_MOST_WARPS) out->merge_warps = KVG_DECODE_MOST_WARPS;
    out->rows_bytes = ((uint64_t)p->attention.queries * 8 + 255) / 256 * 256; /* sequence and visible keys of each */
    out->node_bytes = rows * out->pieces * KVG_DECODE_NODE_BYTES;
}
