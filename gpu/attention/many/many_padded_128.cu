/* Op decode for any number of query rows, head_dim any multiple of 16 up to 128: one group of rows. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const prefill_kernel rows[] = {
    {128, false, false, 1, kvg_prefill<128, false, false, 1, true>},
    {128, false, true, 1, kvg_prefill<128, false, true, 1, true>},
    {128, true, false, 1, kvg_prefill<128, true, false, 1, true>},
};

} // namespace

const prefill_kernels prefill_padded_128 = {rows, sizeof rows / sizeof rows[0], true};
