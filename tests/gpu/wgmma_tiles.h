/* Tiles of the matrix instruction by Hopper's wgmma: for the test that its sums are those of
 * mma.sync. */
#ifndef KVG_TESTS_GPU_WGMMA_TILES_H
#define KVG_TESTS_GPU_WGMMA_TILES_H

#include "gpu/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wgmma_way {
    WGMMA_COLUMNS,  /* as op decode multiplies q and K, both from shared memory by rows of 64 elements, of which 16
                     * are multiplied */
    WGMMA_ROWS,     /* as weights and V, a from registers and b by rows of 64 columns */
    WGMMA_ROWS_128, /* the same by rows of 128 columns */
    WGMMA_EIGHT,    /* as weights and ones, a from registers and b of 8 columns; never fresh */
} wgmma_way;

/* As kvg_gpu_mma (gpu/gpu.h), with `tiles` a multiple of 4. A warpgroup takes four tiles: their a's
 * are its 64 rows, their b's are columns of one b, and of the product the four blocks on the
 * diagonal count. `fresh`: c is not read, the instruction begins its sums with nothing.
 * KVG_ERR_UNIMPLEMENTED: this build has no wgmma for this GPU. */
kvg_status wgmma_tiles(kvg_dtype dtype, wgmma_way way, bool fresh, size_t tiles, const uint16_t *a, const uint16_t *b,
                       const float *c, float *d, kvg_stream *stream) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
