/* Op decode on tensor cores: FP8 and 8-bit integers. */
#include "gpu/attention/few/few_pieces.cuh"

namespace {

/* head_dim 64, 128 and 256; of one query token, and of two together */
#define DIMS(K, V, T)                                                                  \
    kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64>(),         \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 256>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64, 2>(),  \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128, 2>()
const kvg_decode_kernel rows[] = {DIMS(E4M3, E4M3, F16), DIMS(E5M2, E5M2, F16), DIMS(INT8, INT8, F16),
                                  DIMS(INT8, INT8, BF16)};

} // namespace

const kvg_decode_kernels kvg_decode_8bit = {rows, sizeof rows / sizeof rows[0]};
