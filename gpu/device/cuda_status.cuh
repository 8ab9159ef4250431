/* CUDA's errors as kvg_status. */
#ifndef KVG_GPU_DEVICE_CUDA_STATUS_CUH
#define KVG_GPU_DEVICE_CUDA_STATUS_CUH

#include <cuda_runtime.h>

#include "core/status.h"

/* After the CUDA Runtime API's description of cudaError: the errors that leave "the process in an inconsistent state",
 * which a new process has not; and a device that is "unavailable" or has uncorrectable errors. */
static inline kvg_status kvg_cuda_status_of(cudaError_t error)
{
    switch ((int)error) {
    case cudaSuccess: return KVG_OK;
    case cudaErrorMemoryAllocation: return KVG_ERR_MEMORY;
    case cudaErrorNoKernelImageForDevice: return KVG_ERR_UNIMPLEMENTED;
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown: /* what is left of a GPU that fell off the bus: a new process will see */
    case 226: /* cudaErrorContained, cudaErrorTensorMemoryLeak: CUDA 12.9 need not have the names */
    case 721: return KVG_ERR_DEVICE;
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable: return KVG_ERR_DEVICE_LOST;
    default: return KVG_ERR_IO;
    }
}

static inline kvg_status kvg_cuda_status(const char *what, cudaError_t error)
{
    const kvg_status s = kvg_cuda_status_of(error);
    if (s == KVG_OK) return s;
    if (s == KVG_ERR_UNIMPLEMENTED) {
        return kvg_fail(s, "%s: this build has no code for the GPU: docs/guide/gpu.md section 1 says how to add it",
                        what);
    }
    return kvg_fail(s, "%s: %s", what, cudaGetErrorString(error));
}

#endif
