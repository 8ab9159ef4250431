/* The public header of gpu/. C only: CUDA types stay inside. */
#ifndef KVG_GPU_GPU_H
#define KVG_GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_gpu_device {
    char name[128];
    uint32_t sm;              /* compute capability, 90 for 9.0 */
    uint32_t multiprocessors;
    uint64_t memory_bytes;
    uint64_t l2_bytes;
} kvg_gpu_device;

/* The GPUs of this machine, at most `max`; *count may be 0. KVG_ERR_IO if the driver is there but fails. Opens CUDA
 * in this process: call it in a child. */
kvg_status kvg_gpu_devices(kvg_gpu_device *out, size_t max, size_t *count) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
