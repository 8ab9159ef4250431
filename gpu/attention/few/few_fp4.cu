/* Op decode on tensor cores: E2M1, and E4M3 keys with nvfp4 values. */
#include "gpu/attention/few/few_pieces.cuh"

namespace {

/* head_dim 64, 128 and 256; of one query token, and of two together */
#define DIMS(K, V, T)                                                                  \
    kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64>(),         \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 256>(),    \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 64, 2>(),  \
        kvg_decode_kernel_of<KVG_FORMAT_##K, KVG_FORMAT_##V, KVG_DTYPE_##T, 128, 2>()
const kvg_decode_kernel rows[] = {DIMS(NVFP4, NVFP4, F16), DIMS(MX16, MX16, F16), DIMS(MXFP4, MXFP4, F16),
                                  DIMS(ROWFP4, ROWFP4, F16), DIMS(E4M3, NVFP4, F16)};

} // namespace

const kvg_decode_kernels kvg_decode_fp4 = {rows, sizeof rows / sizeof rows[0]};
