/* A plain attention kernel in f32, as engines have them: operands rounded, fused sums truncated or f32 sums, tiles
 * and splits in any order, base-2 softmax with a running maximum, merges. And the same with one thing wrong: the
 * FLASH_DEFECT rows of harness/trial/wrong/defects.def. Right, it stays within attention.v1 (docs/spec/numerics.md
 * section 6) of its class; unit.attention shows both. */
#ifndef KVG_HARNESS_TRIAL_WRONG_FLASH_H
#define KVG_HARNESS_TRIAL_WRONG_FLASH_H

#include "reference/attention_spec.h"

typedef enum kvg_flash_defect {
    KVG_FLASH_RIGHT,
#define FLASH_DEFECT(id, control, applies, ENUM, summary, seen_in) KVG_FLASH_##ENUM,
#include "harness/trial/wrong/flash_defects.def"
#undef FLASH_DEFECT
    KVG_FLASH_DEFECTS
} kvg_flash_defect;

typedef struct kvg_flash {
    kvg_arithmetic class;
    uint32_t tile, splits; /* tile: at most 128 keys */
    bool backward;         /* tiles from the last to the first */
    kvg_flash_defect defect, also; /* one, and a second one */
    const bool *wanted;    /* the rows that are computed, as kvg_attention_answer has it */
    struct kvg_flash_kept *kept; /* of runs of the same problem, inputs and class; NULL: nothing is kept */
} kvg_flash;

/* Defects, a bit each. */
typedef uint64_t kvg_flash_set;
_Static_assert(KVG_FLASH_DEFECTS <= 64, "each defect has a bit");

/* The kernel has the defect. */
static inline bool kvg_flash_has(const kvg_flash *how, kvg_flash_defect defect)
{
    return how->defect == defect || how->also == defect;
}

/* The same, and notes in *met that the run came to a place where the defect would matter. A run without defects that
 * never meets one gives the answer of a run with it: both do the same until they ask for the first time. */
static inline bool kvg_flash_meets(const kvg_flash *how, kvg_flash_defect defect, kvg_flash_set *met)
{
    *met |= (kvg_flash_set)1 << defect;
    return kvg_flash_has(how, defect);
}

/* The kernel that the harness runs: f32 throughout, so that it is right in every class; short tiles, a few splits. */
void kvg_flash_init(const kvg_problem *problem, kvg_flash_defect defect, kvg_flash *out);

/* What the defect changes depends on where tiles and splits begin. */
bool kvg_flash_depends_on_tiles(kvg_flash_defect defect);

/* The defect rounds where it should not: with exact numbers it would change nothing. */
bool kvg_flash_only_rounds(kvg_flash_defect defect);

/* Inputs and outputs of op decode. Outputs need not be written whole where the defect says so. */
kvg_status kvg_flash_run(const kvg_problem *problem, const kvg_tensor *in, const kvg_flash *how,
                         kvg_tensor *out) KVG_CHECKED;

#endif
