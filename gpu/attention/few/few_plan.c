#include "gpu/attention/few/few_plan.h"

/* CTAs of a launch, and pieces of a row, that are many; warps that are resident at once; rounds of the last kernel. */
enum { ENOUGH = 256, PIECES = 4, RESIDENT = 2048, ROUNDS = 4 };

static uint32_t tokens_of(uint32_t run, uint32_t leaf)
{
    return run ? KVG_DECODE_STRETCH * KVG_DECODE_WARPS * run : leaf;
}

/* Most pieces that the keys of one team touch: with a window, or in a ring, they may begin anywhere. */
static uint32_t pieces_of(const kvg_problem *p, uint32_t team, uint32_t piece)
{
    const uint64_t window = p->attention.window ? p->attention.window + (uint64_t)team - 1 : 0;
    const uint64_t ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING ? p->paging.block_tokens : 0;
    const uint64_t all = ring ? UINT32_MAX : p->tokens ? (p->tokens - 1) / piece + 1 : 1;
    const uint64_t span = !ring ? window : !window || ring < window ? ring : window;
    const uint64_t touched = span ? (span - 1) / piece + 2 : all;
    return (uint32_t)(touched < all ? touched : all);
}

/* Long pieces have fewer partial results and starts, short ones spread a small batch over the chip: the longest that
 * still makes ENOUGH CTAs, about two for each multiprocessor of an H200. Runs of more than two stretches are for rows
 * of many such pieces, all of whose warps have keys. A leaf has a CTA of its own where about every multiprocessor has
 * one leaf at most. */
static uint32_t run_of(const kvg_problem *p, uint64_t rows, uint32_t leaf, uint32_t team, uint32_t levels, bool shares)
{
    const bool spans = p->attention.window || kvg_problem_blocks(p) == KVG_BLOCKS_RING;
    const uint32_t least = leaf / KVG_DECODE_STRETCH;
    uint32_t run = 1u << levels;
    while (run > 2 && (spans || p->tokens / PIECES < tokens_of(run, leaf) ||
                       rows * pieces_of(p, team, tokens_of(run, leaf)) < 2 * ENOUGH)) {
        run /= 2;
    }
    while (run > least && rows * pieces_of(p, team, tokens_of(run, leaf)) < ENOUGH) run /= 2;
    return shares && rows * pieces_of(p, team, leaf) <= ENOUGH / 2 ? 0 : run;
}

void kvg_decode_plan_of(const kvg_problem *p, uint32_t leaf, uint32_t levels, uint32_t team, bool shares,
                        kvg_decode_plan *out)
{
    const uint32_t group = p->attention.query_heads / p->kv_heads;
    out->chunks = (group - 1) / KVG_DECODE_HEADS + 1;
    out->teams = (uint32_t)(((uint64_t)p->attention.queries + team - 1) / team);
    const uint64_t units = (uint64_t)p->kv_heads * out->chunks;
    out->run = run_of(p, out->teams * units, leaf, team, levels, shares);
    out->piece = tokens_of(out->run, leaf);
    out->pieces = pieces_of(p, team, out->piece);
    /* Of a CTA of the last kernel: many where there are few CTAs, else as many as are resident at once, or as it takes
     * to be done in ROUNDS. */
    const uint64_t slices = p->attention.queries * units * (p->head_dim / 32);
    out->merge_warps = 1;
    while (out->merge_warps < KVG_DECODE_MOST_WARPS && out->merge_warps * KVG_DECODE_BATCH < out->pieces &&
           (slices * out->merge_warps < RESIDENT || out->pieces > ROUNDS * KVG_DECODE_BATCH * out->merge_warps)) {
        out->merge_warps *= 2;
    }
    out->rows_bytes = ((uint64_t)p->attention.queries * 16 + 255) / 256 * 256; /* sequence and keys of each */
    out->node_bytes = team * (p->head_dim * 32ull + 64); /* f32: 8 heads of head_dim sums, m and l */
}
