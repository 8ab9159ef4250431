/* A C project that uses the installed kernels, as an engine would: the device memory that a step of paged attention
 * over K and V in nvfp4 needs, which no GPU is asked for in plain f32, and a pair of formats that has no kernel. */
#include <stdio.h>

#include "gpu/gpu.h"

int main(void)
{
    kvg_problem problem = {
        .op = KVG_OP_DECODE,
        .layout = KVG_LAYOUT_HND,
        .dtype = KVG_DTYPE_BF16,
        .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .tokens = 4096,
        .kv_heads = 8,
        .head_dim = 128,
        .paging = {.layers = 1, .blocks = 256, .block_tokens = 16, .sequences = 1},
        .attention = {.query_heads = 64, .queries = 1},
        .profile = KVG_PROFILE_SIMT_FMA_V1,
    };
    size_t bytes;
    if (kvg_gpu_decode_workspace(&problem, &bytes) != KVG_OK) {
        fprintf(stderr, "%s\n", kvg_error_text());
        return 1;
    }
    problem.storage[KVG_V].format = KVG_FORMAT_BF16;
    if (kvg_gpu_decode_workspace(&problem, &(size_t){0}) != KVG_ERR_UNIMPLEMENTED) return 1;
    printf("%s; workspace of nvfp4: %s\n", kvg_error_text(), bytes > 0 ? "some bytes" : "none");
    return bytes == 0;
}
