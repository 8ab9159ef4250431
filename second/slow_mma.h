/* The second opinion on tensor cores, from docs/spec/numerics.md section 5 alone: exact terms, cut off by definition
 * and added up as long integers. It can also be wrong on purpose, in the ways of mma_faults.def. */
#ifndef KVG_SECOND_SLOW_MMA_H
#define KVG_SECOND_SLOW_MMA_H

#include <stdint.h>

#include "core/format.h"
#include "core/profile.h"
#include "second/slow_fault.h"

/* The bits of one output of the instruction on a chip: row a and column b of 16 codes (f16 or bf16), c as
 * bits. `faults`: 1 << fault for each rule to break, 0 for the right answer. */
uint32_t slow_mma_output(const kvg_chip_info *chip, kvg_dtype dtype, uint32_t faults, const uint16_t *a,
                         const uint16_t *b, uint32_t c);

/* The same of products of e4m3, as many as the chip adds at once: docs/spec/numerics.md section 5.4. */
enum { SLOW_MOST_TERMS = 32 };
uint32_t slow_mma_sum_8(const kvg_chip_info *chip, const uint16_t *a, const uint16_t *b, uint32_t c);

#endif
