/* The special functions of sm_90 on the device against reference/numbers/ref_special.h: with ftz those of one operand
 * of every f32, without ftz of 2^28, div.full of 2^28 pairs. Where it fails, the first operands that differ are printed
 * with both results.
 *
 * Exit status: 0 no mismatch; 1 a mismatch, a planted fault that went unseen, or a CUDA error; 77 another chip. */
#include <cinttypes>

#include "core/bits.h"
extern "C" {
#include "reference/numbers/ref_special.h"
}
#include "tests/gpu/device_world.cuh"
#include "tests/gpu/special_draw.h"

namespace {

enum { CHUNK = 1 << 24, THREADS = 256, SKIP = 77 };
constexpr uint64_t EVERY = 1ull << 32, PAIRS = 1ull << 28;

special_operands every(uint64_t i)
{
    return {(uint32_t)i, 0};
}

/* Every subnormal number, then what is drawn. */
special_operands subnormal_first(uint64_t i)
{
    if (i < 1 << 24) return {(uint32_t)(i >> 1 | i << 31), 0};
    return special_draw(i);
}

#define UNARY(of, kept, ftz)                                                                           \
    struct of##_##kept {                                                                               \
        static constexpr const char *name = #of "." #kept;                                             \
        static __device__ void card(float &y, float a, float)                                          \
        {                                                                                              \
            if (ftz) asm(#of ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));                            \
            else asm(#of ".approx.f32 %0, %1;" : "=f"(y) : "f"(a));                                    \
        }                                                                                              \
        static float model(float a, float) { return ref_##of##_approx(a, ftz); }                       \
    };
UNARY(ex2, ftz, true)
UNARY(rcp, ftz, true)
UNARY(rsqrt, ftz, true)
UNARY(lg2, ftz, true)
UNARY(ex2, subnormal, false)
UNARY(rcp, subnormal, false)
UNARY(rsqrt, subnormal, false)
UNARY(lg2, subnormal, false)
#undef UNARY
struct tanh_any {
    static constexpr const char *name = "tanh";
    static __device__ void card(float &y, float a, float) { asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(a)); }
    static float model(float a, float) { return ref_tanh_approx(a); }
};
struct div_full {
    static constexpr const char *name = "div.full.f32";
    static __device__ void card(float &y, float a, float b)
    {
        asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    }
    static float model(float a, float b) { return ref_div_full(a, b, false); }
};
struct div_full_ftz {
    static constexpr const char *name = "div.full.ftz.f32";
    static __device__ void card(float &y, float a, float b)
    {
        asm("div.full.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    }
    static float model(float a, float b) { return ref_div_full(a, b, true); }
};
struct planted : div_full {
    static constexpr const char *name = "planted: a rounded quotient in place of div.full.f32";
    static float model(float a, float b) { return a / b; }
};

template <typename F> __global__ void results(const special_operands *of, uint32_t *out)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    float y;
    F::card(y, __uint_as_float(of[i].a), __uint_as_float(of[i].b));
    out[i] = __float_as_uint(y);
}

special_operands *operands, *device_operands;
uint32_t *got, *device_got;

/* How many of the results for draw(0) ... draw(count - 1) differ. */
template <typename F> uint64_t compare(special_operands (*draw)(uint64_t), uint64_t count)
{
    uint64_t wrong = 0, first = count;
    for (uint64_t begin = 0; begin < count; begin += CHUNK) {
#pragma omp parallel for
        for (int i = 0; i < CHUNK; i++) operands[i] = draw(begin + i);
        device_check(kvg_gpu_upload(device_operands, operands, CHUNK * sizeof *operands, nullptr));
        results<F><<<CHUNK / THREADS, THREADS>>>(device_operands, device_got);
        device_check(cudaGetLastError());
        device_check(kvg_gpu_download(got, device_got, CHUNK * sizeof *got, nullptr));
#pragma omp parallel for reduction(+ : wrong) reduction(min : first)
        for (int i = 0; i < CHUNK; i++) {
            const float model = F::model(kvg_f32_of_bits(operands[i].a), kvg_f32_of_bits(operands[i].b));
            if (got[i] == kvg_bits_of_f32(model)) continue;
            wrong++;
            if (begin + i < first) first = begin + i;
        }
        if (first >= begin && first < begin + CHUNK) {
            const special_operands of = operands[first - begin];
            const float model = F::model(kvg_f32_of_bits(of.a), kvg_f32_of_bits(of.b));
            printf("%s of 0x%08" PRIX32 ", 0x%08" PRIX32 ": the chip 0x%08" PRIX32 ", the model 0x%08" PRIX32 "\n",
                   F::name, of.a, of.b, got[first - begin], kvg_bits_of_f32(model));
        }
    }
    printf("%s: %" PRIu64 " results, %" PRIu64 " differ\n", F::name, count, wrong);
    return wrong;
}

} // namespace

int main(void)
{
    const kvg_gpu_device device = device_first();
    if (device.sm != 90) {
        printf("skipped: the special functions of sm_%" PRIu32 " are not known\n", device.sm);
        return SKIP;
    }
    void *memory[2];
    device_check(kvg_gpu_alloc(CHUNK * sizeof *operands, &memory[0]));
    device_check(kvg_gpu_alloc(CHUNK * sizeof *got, &memory[1]));
    device_operands = (special_operands *)memory[0];
    device_got = (uint32_t *)memory[1];
    std::vector<special_operands> host_operands(CHUNK);
    std::vector<uint32_t> host_got(CHUNK);
    operands = host_operands.data();
    got = host_got.data();

    const uint64_t wrong = compare<ex2_ftz>(every, EVERY) + compare<rcp_ftz>(every, EVERY) +
                           compare<rsqrt_ftz>(every, EVERY) + compare<lg2_ftz>(every, EVERY) +
                           compare<tanh_any>(every, EVERY) +
                           compare<ex2_subnormal>(subnormal_first, PAIRS) +
                           compare<rcp_subnormal>(subnormal_first, PAIRS) +
                           compare<rsqrt_subnormal>(subnormal_first, PAIRS) +
                           compare<lg2_subnormal>(subnormal_first, PAIRS) + compare<div_full>(special_draw, PAIRS) +
                           compare<div_full_ftz>(special_draw, PAIRS);
    const bool seen = compare<planted>(special_draw, CHUNK) > 0;
    kvg_gpu_free(device_operands);
    kvg_gpu_free(device_got);
    printf("%s\n", wrong || !seen ? "FAILED" : "passed");
    return wrong || !seen ? EXIT_FAILURE : EXIT_SUCCESS;
}
