/* Op decode for any number of query rows, head_dim any multiple of 16 up to 320: one group of rows. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const many_kernel rows[] = {
    {320, false, false, 1, kvg_decode_many<320, false, false, 1, true>},
    {320, false, true, 1, kvg_decode_many<320, false, true, 1, true>},
    {320, true, false, 1, kvg_decode_many<320, true, false, 1, true>},
};

} // namespace

const many_kernels many_padded_320 = {rows, sizeof rows / sizeof rows[0], true};
