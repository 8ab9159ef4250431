/* Dims for rows of any format of the table. */
#ifndef KVG_TESTS_CORE_WHOLE_BLOCKS_H
#define KVG_TESTS_CORE_WHOLE_BLOCKS_H

#include "core/format.h"

/* The least multiple of the format's block of scales that is not below `dim`: 576 stays 576 for blocks of 64 and is 640
 * for blocks of 128. */
static inline uint32_t whole_blocks(uint32_t dim, kvg_format format)
{
    const uint32_t block = kvg_format_get(format)->block;
    return block ? (dim + block - 1) / block * block : dim;
}

#endif
