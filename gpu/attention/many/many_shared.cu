/* Op decode for many query rows where K and V share rows of 576 elements (MLA): two groups have the
 * same 64 rows, each with half of V's columns. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const prefill_kernel rows[] = {
    {PREFILL_SHARED_DIM, false, false, PREFILL_SHARED_GROUPS,
     kvg_prefill<PREFILL_SHARED_DIM, false, false, PREFILL_SHARED_GROUPS>},
    {PREFILL_SHARED_DIM, true, false, PREFILL_SHARED_GROUPS,
     kvg_prefill<PREFILL_SHARED_DIM, true, false, PREFILL_SHARED_GROUPS>},
};

} // namespace

const prefill_kernels prefill_shared = {rows, sizeof rows / sizeof rows[0], false};
