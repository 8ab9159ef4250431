/* The op mma: the tensor core's instruction on tiles. */
#include "reference/ops/ref_ops.h"
#include "reference/tensor_core.h"

kvg_status ref_mma(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status s = kvg_problem_check(problem);
    return s ? s : kvg_reference_mma(problem->profile, problem->dtype, problem->tokens, in[0].data, in[1].data,
                                     in[2].data, out[0].data);
}
