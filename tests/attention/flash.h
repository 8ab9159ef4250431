/* What a right kernel of a class of arithmetic does, in float32: operands rounded, fused sums truncated or f32 sums,
 * tiles and splits in any order, base-2 softmax with a running maximum, merges. And the same with one thing wrong. */
#ifndef KVG_TESTS_ATTENTION_FLASH_H
#define KVG_TESTS_ATTENTION_FLASH_H

#include "tests/attention/attention_world.h"

typedef enum flash_defect {
    FLASH_RIGHT,
#define FLASH_DEFECT(ENUM, what) FLASH_##ENUM,
#include "tests/attention/flash_defects.def"
#undef FLASH_DEFECT
    FLASH_DEFECTS
} flash_defect;

const char *flash_defect_name(flash_defect defect);

typedef struct flash {
    kvg_arithmetic class;
    uint32_t tile, splits;
    bool backward; /* tiles from the last to the first */
    flash_defect defect;
} flash;

/* out and lse of `answer`, rounded to T and to f32. */
void flash_attention(const world *w, const flash *how, kvg_attention_answer *answer);

#endif
