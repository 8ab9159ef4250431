/* CUDA's errors as kvg_status. */
#ifndef KVG_GPU_CUDA_STATUS_CUH
#define KVG_GPU_CUDA_STATUS_CUH

#include <cuda_runtime.h>

#include "core/status.h"

static inline kvg_status kvg_cuda_status(const char *what, cudaError_t error)
{
    if (error == cudaSuccess) return KVG_OK;
    if (error == cudaErrorNoKernelImageForDevice) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s: this build has no code for the GPU: set CMAKE_CUDA_ARCHITECTURES",
                        what);
    }
    return kvg_fail(error == cudaErrorMemoryAllocation ? KVG_ERR_MEMORY : KVG_ERR_IO, "%s: %s", what,
                    cudaGetErrorString(error));
}

#endif
