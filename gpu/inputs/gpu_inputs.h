/* What an op refuses for what its tensors hold: docs/spec/layouts.md section 7, docs/spec/attention.md section 1.
 * Kernels look at none of it (gpu/ops.h): this is for tensors that lie on the host. */
#ifndef KVG_GPU_INPUTS_GPU_INPUTS_H
#define KVG_GPU_INPUTS_GPU_INPUTS_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a checked problem on a paged layout; `in` in the order of the op's inputs. KVG_ERR_INVALID names the number. */
kvg_status kvg_gpu_check_inputs(const kvg_problem *problem, const kvg_tensor *in) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
