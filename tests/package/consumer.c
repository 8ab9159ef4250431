/* A C project that uses the installed kvgold: quantises one row of 16 values to nvfp4 with the reference and prints the
 * scale byte and the 8 code bytes (docs/spec/formats.md section 10, block A). */
#include <stdio.h>

#include "core/backend.h"
#include "golden/golden.h"
#include "model/model_math.h"
#include "paging/paging_pool.h"
#include "reference/reference.h"

int main(void)
{
    float k[16] = {0.25F, -0.25F, 0.75F, -0.75F, 1.25F, 1.75F, 2.5F, -3.5F, 5, 6, -6, 0, -0.0F, 0.5F, -0.125F, 4};
    float v[16] = {0};
    float scale = 1;
    unsigned char codes[2][8], scales[2][1];
    kvg_problem problem = {
        .op = KVG_OP_QUANTISE,
        .layout = KVG_LAYOUT_ROWS,
        .dtype = KVG_DTYPE_F32,
        .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .tokens = 1,
        .kv_heads = 1,
        .head_dim = 16,
    };
    kvg_tensor in[4], out[4];
    for (int side = 0; side < 2; side++) {
        in[side] = kvg_problem_tensor(&problem, KVG_ROLE_VALUES, (kvg_side)side);
        in[2 + side] = kvg_problem_tensor(&problem, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        out[side] = kvg_problem_tensor(&problem, KVG_ROLE_CODES, (kvg_side)side);
        out[2 + side] = kvg_problem_tensor(&problem, KVG_ROLE_SCALES, (kvg_side)side);
        in[side].data = side == KVG_K ? k : v;
        in[2 + side].data = &scale;
        out[side].data = codes[side];
        out[2 + side].data = scales[side];
    }
    const kvg_impl *impl;
    kvg_status status = kvg_problem_check(&problem);
    if (status == KVG_OK) status = kvg_backend_choose(kvg_reference_backend(), &problem, &impl);
    if (status == KVG_OK) status = impl->run(&problem, in, out, NULL);
    if (status != KVG_OK) {
        fprintf(stderr, "%s: %s\n", kvg_status_name(status), kvg_error_text());
        return 1;
    }
    printf("%02X", scales[KVG_K][0]);
    for (int i = 0; i < 8; i++) printf(" %02X", codes[KVG_K][i]);
    putchar('\n');

    /* The other libraries link, too: one refuses what is not JSON, one a pool without blocks, one multiplies. */
    kvg_json_doc *doc;
    kvg_block_manager *manager;
    const kvg_block_config no_blocks = {0};
    const bool refused = kvg_json_parse("inline", "{", 1, &doc) == KVG_ERR_INVALID &&
                         kvg_block_manager_create(&no_blocks, &manager) == KVG_ERR_INVALID;
    return refused && kvg_reference_dot(k, k, 2) == 0.125F ? 0 : 1;
}
