/* The live rows of a case under other block numbers: in copies of its pools, or in larger pools. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_ELSEWHERE_H
#define KVG_HARNESS_TRIAL_JUDGE_ELSEWHERE_H

#include "harness/trial/question/question.h"

typedef struct kvg_elsewhere {
    const kvg_question *question;
    uint32_t blocks; /* of the other pools, at least as many as the case has */
    bool backwards;  /* the case's first block is the other pools' last one */
} kvg_elsewhere;

/* The case's blocks lie evenly over the other pools: of 3 blocks in pools of 1,001 they are 0, 500 and 1,000. */
uint32_t kvg_elsewhere_block(const kvg_elsewhere *e, uint32_t block);

/* A slot of the case, and an entry of its block table. What names no block of the case stays as it is. */
int64_t kvg_elsewhere_slot(const kvg_elsewhere *e, int64_t slot);
int32_t kvg_elsewhere_entry(const kvg_elsewhere *e, int32_t entry);

/* KVG_PUT writes the other pool. The other two leave zeros there, and one of them first writes the case's pool. */
typedef enum kvg_way { KVG_PUT, KVG_TAKE_AND_CLEAR, KVG_COMPARE_AND_CLEAR } kvg_way;

/* One kind of bytes of every live row. `near` says where they are in the case's pool `here`, `far` in the other pool
 * `there`. Returns how many bytes differed. */
size_t kvg_elsewhere_rows(const kvg_elsewhere *e, kvg_way how, const kvg_row_map *near, const kvg_row_map *far,
                          uint8_t *here, uint8_t *there);

#endif
