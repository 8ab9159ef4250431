/* The public header of gpu/: the machine's GPUs, the backend "cuda", the runner of models, and
 * memory. gpu/ops.h has the ops for engines, on device pointers and a stream. Both headers are C:
 * CUDA types stay inside. */
#ifndef KVG_GPU_GPU_H
#define KVG_GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "core/backend.h"
#include "core/bench_device.h"
#include "core/bench_model.h"
#include "core/transformer.h"
#include "gpu/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_gpu_device {
    char name[256];
    uint32_t sm;              /* compute capability, 90 for 9.0 */
    uint32_t multiprocessors;
    uint64_t memory_bytes;
    uint64_t l2_bytes;
} kvg_gpu_device;

/* Lists the GPUs of this machine, at most `max`; *count may be 0. KVG_ERR_IO: the driver is present
 * but fails, or is too old. The call opens CUDA in this process, so make it in a child process. */
kvg_status kvg_gpu_devices(kvg_gpu_device *out, size_t max, size_t *count) KVG_CHECKED;

/* KVG_OK if the first GPU can give the bits of `profile`: its own profile, or simt.fma.v1. Else,
 * and without a GPU, KVG_ERR_UNIMPLEMENTED. */
kvg_status kvg_gpu_check_profile(kvg_profile profile) KVG_CHECKED;

/* KVG_OK if the first GPU runs a kernel and returns its answer. The call waits as long as that
 * takes. */
kvg_status kvg_gpu_ready(void) KVG_CHECKED;

/* Abilities of a GPU by its compute capability, as capability bits of core/backend.h. */
enum {
    KVG_GPU_SM80 = 1 << 0, /* mma.m16n8k16 with f16 and bf16 operands, bf16 arithmetic: from SM 80 on */
    KVG_GPU_SM90 = 1 << 1, /* conversions from e4m3, kernels that start before the last one ends: from SM 90 on */
    KVG_GPU_FP4 = 1 << 2,  /* conversions to and from E2M1 and E8M0 in hardware: from SM 100 on. The backend has the bit
                            * if its code uses them. tests/gpu/test_gpu_convert.cu proves them equal to those in
                            * software */
};
uint32_t kvg_gpu_caps(uint32_t sm);

/* Whether this build's kernels for the current GPU convert E2M1 and E8M0 in hardware. Code for an
 * `a` or an `f` target does (gpu/numbers/convert_fp4.cuh). The call runs a kernel. */
kvg_status kvg_gpu_hardware_fp4(bool *out) KVG_CHECKED;

/* The backend "cuda". It runs on the first GPU, on tensors in host memory. A NULL stream is the
 * default stream. Getting the backend does not open CUDA; choosing an implementation and running it
 * do. Ops with a profile take only the profiles of kvg_gpu_check_profile. For others
 * KVG_ERR_UNIMPLEMENTED names the chip's own, or says that there is no GPU. */
const kvg_backend *kvg_gpu_backend(void);

/* The backend's ops on tensors that already lie on the first GPU, and their times. `kvgold bench`
 * uses this. */
const kvg_bench_device *kvg_gpu_bench(void);

/* Steps of a model on the first GPU, and their times. Products of the library need cuBLAS, which is
 * opened at run time. */
const kvg_bench_model *kvg_gpu_bench_model(void);

/* Runners of a model on the first GPU (core/transformer.h). Under KVG_PRODUCTS_FIXED they follow
 * docs/spec/generate.md section 4 bit for bit. The second runner replays each step from a CUDA
 * graph, which it captures once per shape. */
const kvg_model_runner *kvg_gpu_model_runner(void);
const kvg_model_runner *kvg_gpu_model_runner_graph(void);

/* Memory of the current device. A NULL stream is the default stream. KVG_ERR_MEMORY: the device has
 * too little memory. KVG_ERR_IO: CUDA failed. KVG_ERR_DEVICE: a kernel queued before faulted, and
 * this process can no longer use the GPU. KVG_ERR_DEVICE_LOST: the GPU is gone. */
kvg_status kvg_gpu_alloc(size_t bytes, void **out) KVG_CHECKED;
void kvg_gpu_free(void *buffer); /* NULL: nothing */

/* Copies between host and device. kvg_gpu_upload is queued. kvg_gpu_download waits for all work
 * queued before it. */
kvg_status kvg_gpu_upload(void *device, const void *host, size_t bytes, kvg_stream *stream) KVG_CHECKED;
kvg_status kvg_gpu_download(void *host, const void *device, size_t bytes, kvg_stream *stream) KVG_CHECKED;

/* Queues mma.sync.aligned.m16n8k16.row.col.f32 on `tiles` independent tiles that lie one after the
 * other, each matrix row-major:
 *     d[16][8] = a[16][16] b[16][8] + c[16][8]
 *
 * Device pointers are aligned to 4 bytes. a and b hold codes of `dtype` (f16 or bf16). d may be c.
 * KVG_ERR_INVALID: another dtype. KVG_ERR_IO: the launch failed. */
kvg_status kvg_gpu_mma(kvg_dtype dtype, size_t tiles, const uint16_t *a, const uint16_t *b, const float *c, float *d,
                       kvg_stream *stream) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
