/* Op decode for many query rows where K and V share rows of 576 elements (MLA): two groups have the
 * same 64 rows, each with half of V's columns. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const many_kernel rows[] = {
    {MANY_SHARED_DIM, false, false, MANY_SHARED_GROUPS,
     kvg_decode_many<MANY_SHARED_DIM, false, false, MANY_SHARED_GROUPS>},
    {MANY_SHARED_DIM, true, false, MANY_SHARED_GROUPS,
     kvg_decode_many<MANY_SHARED_DIM, true, false, MANY_SHARED_GROUPS>},
};

} // namespace

const many_kernels many_shared = {rows, sizeof rows / sizeof rows[0], false};
