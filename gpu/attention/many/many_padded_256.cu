/* Op decode for any number of query rows, head_dim any multiple of 16 up to 256: one group of rows. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const many_kernel rows[] = {
    {256, false, false, 1, kvg_decode_many<256, false, false, 1, true>},
    {256, false, true, 1, kvg_decode_many<256, false, true, 1, true>},
    {256, true, false, 1, kvg_decode_many<256, true, false, 1, true>},
};

} // namespace

const many_kernels many_padded_256 = {rows, sizeof rows / sizeof rows[0], true};
