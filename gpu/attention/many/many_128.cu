/* Op decode for many query rows, head_dim 128. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const many_kernel rows[] = {
    {128, false, false, 1, kvg_decode_many<128, false, false, 1>},
    {128, false, false, 3, kvg_decode_many<128, false, false, 3>},
    {128, false, true, 1, kvg_decode_many<128, false, true, 1>},
    {128, false, true, 3, kvg_decode_many<128, false, true, 3>},
    {128, true, false, 1, kvg_decode_many<128, true, false, 1>},
    {128, true, false, 3, kvg_decode_many<128, true, false, 3>},
};

} // namespace

const many_kernels many_128 = {rows, sizeof rows / sizeof rows[0], false};
