/* How op decode with many query rows on a KV head is cut into work on a GPU. A row is a query head of
 * a query token. No bit of an answer depends on the cut (docs/spec/decode-contract.md section 10).
 *
 * A *band* is up to 64 or 192 rows of one sequence and one KV head: row r is query token r / G of the
 * sequence, query head r % G of the KV head's G. A band's keys are dequantised once for all of its
 * rows. Example: G = 8, 20 query tokens are 160 rows of each KV head: one band of 192, or bands of
 * 64, 64 and 32. A *piece* is a part of a band's keys: all of them, or an aligned run of leaves. An
 * *item* is a piece of a band of a KV head: what a CTA takes at once.
 *
 * What host and device both compute is here, so that a test on the host can run the plan. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_PLAN_H
#define KVG_GPU_ATTENTION_MANY_MANY_PLAN_H

#include "core/problem.h"

#ifdef __CUDACC__
#define MANY_BOTH static __host__ __device__ constexpr inline
#else
#define MANY_BOTH static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MANY_GROUP_ROWS = 64,  /* rows of a group of four warps that multiply */
    MANY_MOST_GROUPS = 3,  /* of a CTA */
    MANY_FILLERS = 4,      /* warps that copy and dequantise */
    MANY_SIDE_FILLERS = 2, /* of K, and as many of V */
    MANY_MOST_STAGES = 4,  /* of a tile of 32 keys, K and V; at least 2 */
    MANY_HEADER = 2048,    /* bytes of a CTA's shared memory that are not tiles */
    MANY_SHARED_DIM = 576, /* elements of rows that K and V share (MLA), V_DIM of them V */
    MANY_SHARED_V_DIM = 512,
    MANY_SHARED_GROUPS = 2, /* of a CTA there: both have the same rows, each has a half of V */
    MANY_SHARED_COLUMNS = MANY_SHARED_V_DIM / MANY_SHARED_GROUPS,
    MANY_MOST_DIM = 320,    /* of rows that K and V do not share */
    MANY_SLICE = 32,        /* dims that a warp takes in the tree over a band's pieces */
    MANY_MERGE_WAITING = 7, /* nodes that wait there */
};

/* --- items --- */

/* The first `whole` bands have one piece, the others `pieces` of 2^leaves_log leaves. Bands are
 * numbered over all KV heads. */
typedef struct many_cut {
    uint32_t whole, pieces, leaves_log;
} many_cut;

enum { MANY_ALL_LEAVES_LOG = 24 }; /* 2^24 leaves are 2^32 positions: all */

typedef struct many_piece {
    uint32_t band, piece, leaves_log;
    uint32_t node; /* among the nodes of pieces; MANY_NO_NODE: the band has one piece, and needs none */
} many_piece;

#define MANY_NO_NODE UINT32_MAX
MANY_BOTH uint32_t many_items(const many_cut *cut, uint32_t bands)
{
    return bands <= cut->whole ? bands : cut->whole + (bands - cut->whole) * cut->pieces;
}

/* Item `index` of many_items. Pieces of a band follow one another at a distance of all the bands
 * that are cut. */
MANY_BOTH many_piece many_piece_of(const many_cut *cut, uint32_t bands, uint32_t index)
{
    many_piece p = {index, 0, MANY_ALL_LEAVES_LOG, MANY_NO_NODE};
    if (index >= cut->whole) {
        const uint32_t cut_bands = bands - cut->whole, rest = index - cut->whole;
        p.band = cut->whole + rest % cut_bands;
        p.piece = rest / cut_bands;
        p.leaves_log = cut->leaves_log;
        p.node = rest;
    }
    return p;
}
MANY_BOTH uint32_t many_node_of(const many_cut *cut, uint32_t bands, uint32_t band, uint32_t piece)
{
    return piece * (bands - cut->whole) + band - cut->whole;
}

/* --- the ring of stages, which fillers fill and groups of rows empty --- */

/* Where a warp is: a stage, whether the rounds over all stages are odd, and whether the tiles
 * before are. */
typedef struct many_turn {
    uint32_t stage, odd, odd_tiles;
} many_turn;

MANY_BOTH void many_turn_by(many_turn *turn, uint32_t stages, uint32_t tiles)
{
    const uint32_t all = turn->stage + tiles;
    turn->odd ^= all / stages & 1;
    turn->stage = all % stages;
    turn->odd_tiles ^= tiles & 1;
}

/* The first tile of an item that filler `filler` of a side takes; then every other one. Fillers
 * take turns over all tiles of all items: so a filler is never more than one round ahead of a
 * stage, which is all that the parity of a barrier can tell. */
MANY_BOTH uint32_t many_first_of(const many_turn *turn, uint32_t filler)
{
    return (filler ^ turn->odd_tiles) & 1;
}

/* --- the tree over leaves --- */

/* What becomes of a node at `level` that ends with leaf `leaf`, of an item whose leaves begin with
 * `first`. Example: first = 2. Leaf 2 waits at level 0; leaf 3 is merged with it, and 2 ... 3 would
 * be merged with 0 ... 1 to a node of level 2, but the item has no leaf 0 or 1: so 2 ... 3 alone
 * stands for that node, and waits at level 2. */
typedef enum many_step {
    MANY_MERGES, /* with the node to the left, which waits */
    MANY_WAITS,  /* for the node to the right */
    MANY_STANDS, /* for the node of the next level: the other half is absent */
    MANY_ENDS,   /* it is the item's node */
} many_step;

MANY_BOTH many_step many_step_of(uint32_t leaf, uint32_t level, uint32_t first, bool last)
{
    const bool right = leaf >> level & 1;
    if (last && leaf >> level == first >> level) return MANY_ENDS;
    if (right) return leaf >> level << level > first ? MANY_MERGES : MANY_STANDS;
    return last ? MANY_STANDS : MANY_WAITS;
}

/* --- rows in shared memory --- */

/* Rows with a head_dim that no kernel is made for are padded to the width of one. */
static inline bool many_is_padded(const kvg_problem *p)
{
    return !p->paging.shared_kv && p->head_dim != 64 && p->head_dim != 128 && p->head_dim != 256;
}
static inline uint32_t many_width(const kvg_problem *p)
{
    if (!many_is_padded(p)) return p->head_dim;
    return p->head_dim <= 128 ? 128 : p->head_dim <= 256 ? 256 : MANY_MOST_DIM;
}

/* Bytes from one row of padded codes to the next in a raw tile: an odd number of 16-byte chunks, so that
 * eight lanes, each with a row, meet in no bank. Example: 64 bytes get a fifth chunk. */
MANY_BOTH uint32_t many_pitch(uint32_t bytes)
{
    return bytes / 16 % 2 ? bytes : bytes + 16;
}

/* --- the plan --- */

/* What the GPU has, and the kernels' code needs. */
typedef struct many_chip {
    uint32_t multiprocessors;
    uint32_t shared;      /* bytes of shared memory that a CTA may have */
    uint32_t shared_all;  /* of a multiprocessor; a CTA takes 1 KiB on top of its own */
    uint32_t most_ctas;   /* CTAs of one group of rows that the registers of a multiprocessor allow */
    uint32_t most_groups; /* that the kernels' code has; 0: it has none for the problem */
    uint32_t leaf;        /* positions of a leaf of the contract that the code is made for */
} many_chip;

/* How a CTA uses its shared memory. */
typedef struct many_shape {
    uint32_t groups;   /* of four warps: 1 or 3, each with 64 rows; 2 where K and V share rows */
    uint32_t rows;     /* of a band */
    uint32_t width;    /* elements of a row in a stage: head_dim and padding */
    uint32_t columns;  /* of V that a group has, with padding */
    uint32_t stages;   /* of a tile of K and of V */
    uint32_t depth;    /* tiles of a filler that are on their way */
    uint32_t raw;      /* bytes of a filler's tile as it is stored, codes and scales; 0: it goes into its stage */
    uint32_t slots;    /* levels of the tree whose waiting nodes are in shared memory */
    uint32_t shared;   /* bytes in all */
    uint32_t resident; /* CTAs on a multiprocessor */
} many_shape;

typedef struct many_plan {
    many_shape shape;
    many_cut cut;
    uint32_t bands;   /* most that the queries can make of a KV head; a kernel counts them */
    uint32_t waiting; /* nodes of the tree that may wait in device memory, of each group of a CTA */
    uint32_t ctas;
    uint64_t list_bytes, stack_bytes, node_bytes; /* workspace, multiples of 256: bands; nodes that wait, of pieces */
} many_plan;

/* Bytes of a node of 64 rows: f32 sums of `columns` dims; m and l four times. */
static inline uint64_t many_node_bytes(uint32_t columns)
{
    return MANY_GROUP_ROWS * (columns + 8ull) * 4;
}

/* Whether these kernels alone have the problem's rows: those that K and V share, and padded ones. */
bool many_is_alone(const kvg_problem *problem);
/* Or so many rows share a KV head's keys that these kernels are faster than a CTA for each query token. */
bool many_is_worth_it(const kvg_problem *problem);

/* A problem that op decode's check has passed, with head_dim a multiple of 16 up to 320, or 576 where
 * K and V share rows. KVG_ERR_UNIMPLEMENTED: no shape fits into the chip, or there are too many queries. */
kvg_status many_plan_of(const kvg_problem *problem, const many_chip *chip, many_plan *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
