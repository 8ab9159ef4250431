/* Quantises 16 numbers to NVFP4 by kvgold's reference and by an engine's own code, and compares the bytes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/plugin_tensors.h"
#include "reference/reference.h"

typedef struct block {
    uint8_t scale, codes[8];
} block;

/* The index of the value nearest to v >= 0; of two that are equally near, the even one. */
static uint8_t nearest(double v, const float *values, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++) {
        const double here = fabs(values[i] - v), there = fabs(values[best] - v);
        if (here < there || (here == there && i % 2 == 0)) best = i;
    }
    return (uint8_t)best;
}

/* The engine's own code, dialect canonical. */
static block engine_quantise(const float x[16], float tensor_scale)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float e4m3[127], amax = 0;
    for (int code = 0; code < 127; code++) {
        const int exponent = code / 8, fraction = code % 8;
        e4m3[code] = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    }
    for (int i = 0; i < 16; i++) amax = fmaxf(amax, fabsf(x[i]));
    block out = {.scale = nearest(amax / (6 * tensor_scale), e4m3, 127)};
    const float divisor = e4m3[out.scale] * tensor_scale;
    for (int i = 0; i < 16; i++) {
        const unsigned code = nearest(divisor > 0 ? fabsf(x[i] / divisor) : 0, e2m1, 8) | (signbit(x[i]) ? 8u : 0u);
        out.codes[i / 2] |= (uint8_t)(code << 4 * (i % 2));
    }
    return out;
}

static kvg_tensor tensor(const kvg_problem *problem, kvg_role role, kvg_side side, void *data)
{
    kvg_tensor t = kvg_problem_tensor(problem, role, side);
    t.data = data;
    return t;
}

/* The same by the reference: one token with one head, whose K and V are x. */
static kvg_status reference_quantise(float x[16], float tensor_scale, block out[2])
{
    const kvg_problem problem = {
        .op = KVG_OP_QUANTISE,
        .layout = KVG_LAYOUT_ROWS,
        .dtype = KVG_DTYPE_F32,
        .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .tokens = 1,
        .kv_heads = 1,
        .head_dim = 16,
    };
    kvg_tensor in[KVG_QUANTISE_IN_COUNT], answer[KVG_QUANTISE_OUT_COUNT];
    for (int side = KVG_K; side <= KVG_V; side++) {
        in[KVG_QUANTISE_IN_K + side] = tensor(&problem, KVG_ROLE_VALUES, side, x);
        in[KVG_QUANTISE_IN_K_TENSOR_SCALE + side] = tensor(&problem, KVG_ROLE_TENSOR_SCALE, side, &tensor_scale);
        answer[KVG_QUANTISE_OUT_K_CODES + side] = tensor(&problem, KVG_ROLE_CODES, side, out[side].codes);
        answer[KVG_QUANTISE_OUT_K_SCALES + side] = tensor(&problem, KVG_ROLE_SCALES, side, &out[side].scale);
    }
    return kvg_reference_run(&problem, in, answer);
}

static void print(const char *name, const block *b)
{
    printf("%-9s  scale %02X  codes", name, b->scale);
    for (int i = 0; i < 8; i++) printf(" %02X", b->codes[i]);
    puts("");
}

int main(void)
{
    float x[16] = {0.25f, -0.25f, 0.75f, -0.75f, 1.25f, 1.75f, 2.5f, -3.5f, 5, 6, -6, 0, -0.0f, 0.5f, -0.125f, 4};
    const float tensor_scale = 1;
    block reference[2];
    if (reference_quantise(x, tensor_scale, reference) != KVG_OK) {
        puts(kvg_error_text());
        return 2;
    }
    const block engine = engine_quantise(x, tensor_scale);
    print("reference", &reference[KVG_K]);
    print("engine", &engine);
    const bool same = memcmp(&reference[KVG_K], &engine, sizeof engine) == 0;
    puts(same ? "same bytes" : "DIFFERENT");
    return same ? 0 : 1;
}
