/* Op decode on tensor cores: rows that are stored as they are. */
#include "gpu/attention/few/few_pieces.cuh"

namespace {

/* head_dim 64, 128 and 256; of one query token, and of two together */
#define DIMS(K, V, T)                                                                  \
    kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64>(),         \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 256>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64, 2>(),  \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128, 2>()
const kvg_decode_kernel rows[] = {DIMS(F16, F16, F16), DIMS(BF16, BF16, F16)};

} // namespace

const kvg_decode_kernels kvg_decode_16bit = {rows, sizeof rows / sizeof rows[0]};
