/* Op decode for many query rows, head_dim 64. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const many_kernel rows[] = {
    {64, false, false, 1, kvg_decode_many<64, false, false, 1>},
    {64, false, false, 3, kvg_decode_many<64, false, false, 3>},
    {64, false, true, 1, kvg_decode_many<64, false, true, 1>},
    {64, false, true, 3, kvg_decode_many<64, false, true, 3>},
    {64, true, false, 1, kvg_decode_many<64, true, false, 1>},
    {64, true, false, 3, kvg_decode_many<64, true, false, 3>},
};

} // namespace

const many_kernels many_64 = {rows, sizeof rows / sizeof rows[0], false};
