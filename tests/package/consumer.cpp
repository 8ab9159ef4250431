// consumer.c in C++17: the headers are valid C++ and their functions link from it.
#include <array>
#include <cstdint>
#include <cstdio>

#include "core/backend.h"
#include "core/bits.h"
#include "core/rng.h"
#include "reference/reference.h"

int main()
{
    std::array<float, 16> k{0.25F, -0.25F, 0.75F, -0.75F, 1.25F, 1.75F, 2.5F, -3.5F,
                            5,     6,      -6,    0,      -0.0F, 0.5F,  -0.125F, 4};
    std::array<float, 16> v{};
    float scale = 1;
    std::uint8_t codes[2][8], scales[2][1];

    kvg_problem problem{};
    problem.op = KVG_OP_QUANTISE;
    problem.layout = KVG_LAYOUT_ROWS;
    problem.dtype = KVG_DTYPE_F32;
    problem.storage[KVG_K] = problem.storage[KVG_V] = {KVG_FORMAT_NVFP4, "canonical"};
    problem.tokens = problem.kv_heads = 1;
    problem.head_dim = 16;

    kvg_tensor in[4], out[4];
    for (int i = 0; i < 2; i++) {
        const auto side = static_cast<kvg_side>(i);
        in[i] = kvg_problem_tensor(&problem, KVG_ROLE_VALUES, side);
        in[2 + i] = kvg_problem_tensor(&problem, KVG_ROLE_TENSOR_SCALE, side);
        out[i] = kvg_problem_tensor(&problem, KVG_ROLE_CODES, side);
        out[2 + i] = kvg_problem_tensor(&problem, KVG_ROLE_SCALES, side);
        in[i].data = side == KVG_K ? k.data() : v.data();
        in[2 + i].data = &scale;
        out[i].data = codes[i];
        out[2 + i].data = scales[i];
    }
    const kvg_impl *impl = nullptr;
    if (kvg_backend_choose(kvg_reference_backend(), &problem, &impl) != KVG_OK ||
        impl->run(&problem, in, out, nullptr) != KVG_OK) {
        std::fprintf(stderr, "%s\n", kvg_error_text());
        return 1;
    }
    std::printf("%02X", scales[KVG_K][0]);
    for (const auto code : codes[KVG_K]) std::printf(" %02X", code);
    std::putchar('\n');
}
