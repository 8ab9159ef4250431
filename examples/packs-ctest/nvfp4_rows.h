/* The engine under test: rows of NVFP4 to bf16. */
#ifndef KVG_EXAMPLES_PACKS_CTEST_NVFP4_ROWS_H
#define KVG_EXAMPLES_PACKS_CTEST_NVFP4_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes `blocks` blocks of 16 elements. With `modelopt` the product of both scales is rounded first, and there is no
 * -0. */
void nvfp4_decode(const uint8_t *codes, const uint8_t *scales, float tensor_scale, size_t blocks, bool modelopt,
                  uint16_t *out);

#endif
