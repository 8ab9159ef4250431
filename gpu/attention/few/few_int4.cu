/* Op decode on tensor cores: 4-bit integers. */
#include "gpu/attention/few/few_pieces.cuh"

namespace {

/* head_dim 64, 128 and 256; of one query token, and of two together */
#define DIMS(K, V, T)                                                                  \
    kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64>(),         \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 256>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64, 2>(),  \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128, 2>()
const kvg_decode_kernel rows[] = {DIMS(INT4, INT4, F16), DIMS(INT4, INT4, BF16), DIMS(ROWINT4, ROWINT4, F16)};

} // namespace

const kvg_decode_kernels kvg_decode_int4 = {rows, sizeof rows / sizeof rows[0]};
