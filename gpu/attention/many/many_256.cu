/* Op decode for many query rows, head_dim 256: one group of rows, whose registers are all that a
 * CTA has. */
#include "gpu/attention/many/many_kernel.cuh"

namespace {

const many_kernel rows[] = {
    {256, false, false, 1, kvg_decode_many<256, false, false, 1>},
    {256, false, true, 1, kvg_decode_many<256, false, true, 1>},
    {256, true, false, 1, kvg_decode_many<256, true, false, 1>},
};

} // namespace

const many_kernels many_256 = {rows, sizeof rows / sizeof rows[0], false};
