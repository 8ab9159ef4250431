/* Conversions of gpu/convert*.cuh on the device against one plain definition of docs/spec/formats.md section 2: the
 * nearest of all values of a table, in exact arithmetic. Every f32 to E2M1, E4M3 and E5M2, every code back, E8M0 both
 * ways, and the quotients next to every tie, for every divisor; the quotients of a soft cap. On Blackwell the E2M1 and
 * E8M0 of the hardware and of the software: code that leaves the hardware's alone there is a failure.
 *
 * Exit status: 0 no mismatch; 1 a mismatch, a planted fault that went unseen, or a CUDA error. */
#include <cstdio>
#include <cstdlib>

#include "gpu/rows/codec_e2m1.cuh"
#include "gpu/attention/shared/scalar.cuh"
#include "gpu/gpu.h"

namespace {

enum { THREADS = 256, BLOCKS = 132 * 64, MOST_CODES = 128 };

void check(cudaError_t error)
{
    if (error == cudaSuccess) return;
    printf("FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

/* --- the definition: a small float by its fields, in doubles, where every number and every sum of two is exact --- */

struct small_float {
    int fraction, bias, codes; /* bits of fraction; finite codes of one sign */
    int sign;                  /* the sign's bit in a code */
    int nan;                   /* code of NaN */
};
const small_float E2M1 = {1, 1, 8, 3, 7}, E4M3 = {3, 7, 127, 7, 0x7F}, E5M2 = {2, 15, 124, 7, 0x7F};

double value_of(const small_float &f, int code)
{
    const int exponent = code >> f.fraction, fraction = code & ((1 << f.fraction) - 1);
    const int significand = exponent ? fraction + (1 << f.fraction) : fraction;
    double unit = 1;
    for (int e = (exponent ? exponent : 1) - f.bias - f.fraction; e != 0; e += e < 0 ? 1 : -1) unit *= e < 0 ? 0.5 : 2;
    return significand * unit;
}

/* Values in order, and the value that a tie between two neighbours goes to. */
struct table {
    small_float format;
    double value[MOST_CODES];
};
enum ties { EVEN, AWAY, ZERO };

__device__ uint32_t nearest(const table &t, float x, ties rule)
{
    if (x != x) return t.format.nan;
    const double twice = 2 * fabs((double)x);
    int best = 0;
    for (int code = 1; code < t.format.codes; code++) {
        const double both = t.value[code] + t.value[best]; /* |x| - best against code - |x| */
        if (twice > both || (twice == both && (rule == AWAY || (rule == EVEN && code % 2 == 0)))) best = code;
    }
    return best | (__float_as_uint(x) >> 31) << t.format.sign;
}

/* --- sweeps; each adds to *wrong --- */

typedef unsigned long long count;

struct by_lines { /* |x|, then the sign, as kvg_e2m1_octet does; NaN is not for it, what saturates comes as 6 */
    __device__ static void codes(const float *x, uint32_t *to) { split(kvg_e2m1_by_lines, x, to); }
    template <typename CONVERT> __device__ static void split(CONVERT convert, const float *x, uint32_t *to)
    {
        float v[8];
        for (int i = 0; i < 8; i++) v[i] = x[i] != x[i] ? 0 : fabsf(x[i]) < 7 ? fabsf(x[i]) : 6;
        const uint32_t all = convert(v);
        for (int i = 0; i < 8; i++) to[i] = x[i] != x[i] ? 7 : (all >> 4 * i & 15) | __float_as_uint(x[i]) >> 31 << 3;
    }
};
template <uint8_t UP> struct by_rule {
    __device__ static void codes(const float *x, uint32_t *to)
    {
        for (int i = 0; i < 8; i++) to[i] = kvg_e2m1_by({UP, KVG_SIGN_BIT, 7}, x[i], x[i], x[i]);
    }
};
template <__nv_fp8_interpretation_t KIND> struct by_pairs {
    __device__ static void codes(const float *x, uint32_t *to)
    {
        for (int i = 0; i < 8; i += 2) {
            const uint32_t pair = kvg_fp8_codes<KIND>(x[i], x[i + 1]);
            to[i] = pair & 0xFF, to[i + 1] = pair >> 8;
        }
    }
};
struct by_target { /* what kernels call: the hardware where there is some */
    __device__ static void codes(const float *x, uint32_t *to) { by_lines::split(kvg_e2m1_magnitudes, x, to); }
};
__global__ void ask_target(count *hardware)
{
    *hardware = KVG_HARDWARE_FP4;
}

/* All 2^32 floats, eight that differ in their top bits at a time. */
template <typename CONVERT>
__global__ void __launch_bounds__(THREADS) all_floats(const table *in_memory, ties rule, count *wrong)
{
    __shared__ table t;
    for (uint32_t i = threadIdx.x; i < sizeof t / 4; i += THREADS) {
        ((uint32_t *)&t)[i] = ((const uint32_t *)in_memory)[i];
    }
    __syncthreads();
    count mine = 0;
    for (uint32_t low = blockIdx.x * THREADS + threadIdx.x; low < 1u << 29; low += gridDim.x * THREADS) {
        float x[8];
        uint32_t codes[8];
        for (int i = 0; i < 8; i++) x[i] = __uint_as_float((uint32_t)i << 29 | low);
        CONVERT::codes(x, codes);
        for (int i = 0; i < 8; i++) mine += codes[i] != nearest(t, x[i], rule);
    }
    if (mine) atomicAdd(wrong, mine);
}

__device__ bool same(float got, double expected)
{
    return __float_as_uint(got) == __float_as_uint((float)expected);
}

/* Every pair of codes of FP8 to f32. */
template <__nv_fp8_interpretation_t KIND> __global__ void all_pairs(const table *t, count *wrong)
{
    const uint32_t pair = blockIdx.x * THREADS + threadIdx.x, infinity = KIND == __NV_E5M2 ? 0x7C : 0x80;
    const float2 got = kvg_fp8_pair<KIND>((uint16_t)pair);
    for (int i = 0; i < 2; i++) {
        const uint32_t code = pair >> 8 * i & 0xFF, magnitude = code & 0x7F;
        const float value = i ? got.y : got.x;
        const double size = magnitude == infinity ? (double)INFINITY : t->value[magnitude];
        const bool is_nan = magnitude >= (uint32_t)t->format.codes && magnitude != infinity;
        const bool right = is_nan ? value != value : same(value, code & 0x80 ? -size : size);
        if (!right) atomicAdd(wrong, 1);
    }
}

/* Every four codes of E2M1 in both halves of a word, times 1 and times every scale of E4M3 that is a number. */
template <void UNPACK(uint32_t, __half2, float *)>
__global__ void all_nibbles(const table *t, const table *e4m3, count *wrong)
{
    const uint32_t word = (blockIdx.x * THREADS + threadIdx.x) * 0x10001u;
    for (int s = -1; s < e4m3->format.codes; s++) {
        const double scale = s < 0 ? 1 : e4m3->value[s];
        float got[8];
        UNPACK(word, __float2half2_rn((float)scale), got);
        for (int i = 0; i < 8; i++) {
            const uint32_t code = word >> 4 * i & 15;
            if (!same(got[i], (code & 8 ? -1.0 : 1.0) * t->value[code & 7] * scale)) atomicAdd(wrong, 1);
        }
    }
}

/* 2^(byte - 127) by the fields of a double. */
__device__ double power_of(uint32_t byte)
{
    return __longlong_as_double((long long)(byte + 1023 - 127) << 52);
}

/* E8M0: every byte, and the ceiling of every positive normal float. */
template <float VALUE(uint32_t), uint32_t CEIL(float)> __global__ void all_powers(count *wrong)
{
    count mine = 0;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < 0x7F800000u; i += gridDim.x * THREADS) {
        if (i < 256) mine += i == 255 ? VALUE(i) == VALUE(i) : !same(VALUE(i), power_of(i));
        if (i < 0x00800000u) continue;
        const uint32_t byte = CEIL(__uint_as_float(i)); /* 2^(byte - 127) >= x > 2^(byte - 128) */
        const double x = __uint_as_float(i), power = power_of(byte);
        mine += byte > 255 || !(power >= x && power < 2 * x);
    }
    if (mine) atomicAdd(wrong, mine);
}

/* kvg_divisor where it matters: x next to d times a number of five bits, for every d of a binade, of which it declines
 * the last. */
__global__ void all_divisors(float scale, count *wrong)
{
    count mine = 0;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < 1u << 23; i += gridDim.x * THREADS) {
        const float d = scale * __uint_as_float(0x3F800000u | i);
        const kvg_divisor by = kvg_divisor::of(d);
        for (int m = 16; m < 32; m++) {
            const uint32_t near = __float_as_uint(__fmul_rn(m / 16.0f, d));
            for (int k = -3; k <= 3; k++) {
                const float x = __uint_as_float(near + k);
                mine += i == 0x7FFFFF ? by.divides(x) : !by.divides(x) || by.divide(x) != __fdiv_rn(x, d);
            }
        }
    }
    if (mine) atomicAdd(wrong, mine);
}

/* The quotient of a soft cap, of every t = exp2(-|u|). */
__global__ void all_caps(count *wrong)
{
    count mine = 0;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i <= 0x3F800000u; i += gridDim.x * THREADS) {
        const float t = __uint_as_float(i), a = __fsub_rn(1, t), b = __fadd_rn(1, t);
        mine += __float_as_uint(kvg_divide_near_1(a, b)) != __float_as_uint(__fdiv_rn(a, b));
    }
    if (mine) atomicAdd(wrong, mine);
}

/* Every finite f32 from 0 on over 6 and over 7, rounded to f16. */
__global__ void all_sixths(count *wrong)
{
    count mine = 0;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < 0x7F800000u; i += gridDim.x * THREADS) {
        const float x = __uint_as_float(i);
        for (int d = 6; d < 8; d++) {
            mine += kvg_scalar<KVG_DTYPE_F16>::round(kvg_divisor::by_integer(d).divide(x)) !=
                    kvg_scalar<KVG_DTYPE_F16>::round(__fdiv_rn(x, (float)d));
        }
    }
    if (mine) atomicAdd(wrong, mine);
}

/* --- the program --- */

count *wrong_there;
int failures;

table *on_device(const small_float &f)
{
    table here = {f, {}}, *there;
    for (int i = 0; i < f.codes; i++) here.value[i] = value_of(f, i);
    check(cudaMalloc(&there, sizeof here));
    check(cudaMemcpy(there, &here, sizeof here, cudaMemcpyHostToDevice));
    return there;
}

/* After a kernel: so many mismatches are right. */
void expect(const char *what, count expected)
{
    count wrong;
    check(cudaGetLastError());
    check(cudaMemcpy(&wrong, wrong_there, sizeof wrong, cudaMemcpyDeviceToHost));
    check(cudaMemset(wrong_there, 0, sizeof wrong));
    printf("%-58s %llu mismatches%s\n", what, wrong, wrong == expected ? "" : ": FAILED");
    failures += wrong != expected;
}

/* What the GPU can do must be what this program's code and the library's do, and what the backend says. */
void expect_hardware()
{
    kvg_gpu_device device = {};
    size_t found;
    bool library = false;
    count here;
    ask_target<<<1, 1>>>(wrong_there);
    check(cudaMemcpy(&here, wrong_there, sizeof here, cudaMemcpyDeviceToHost));
    check(cudaMemset(wrong_there, 0, sizeof *wrong_there));
    if (kvg_gpu_devices(&device, 1, &found) || kvg_gpu_hardware_fp4(&library)) {
        printf("FAILED: %s\n", kvg_error_text());
        exit(1);
    }
    const bool can = kvg_gpu_caps(device.sm) & KVG_GPU_FP4, claimed = kvg_gpu_backend()->caps() & KVG_GPU_FP4;
    const bool right = here == can && library == can && claimed == can;
    printf("E2M1 and E8M0 in hardware: sm_%u %d, here %d, kernels %d, backend %d%s\n", device.sm, can, here != 0,
           library, claimed, right ? "" : ": FAILED: compile for an `a` or an `f` target of the GPU");
    failures += !right;
}

} // namespace

int main(void)
{
    check(cudaMalloc(&wrong_there, sizeof *wrong_there));
    check(cudaMemset(wrong_there, 0, sizeof *wrong_there));
    expect_hardware();
    const table *e2m1 = on_device(E2M1), *e4m3 = on_device(E4M3), *e5m2 = on_device(E5M2);
    all_floats<by_lines><<<BLOCKS, THREADS>>>(e2m1, EVEN, wrong_there);
    expect("every f32 to E2M1, eight at a time", 0);
    all_floats<by_target><<<BLOCKS, THREADS>>>(e2m1, EVEN, wrong_there);
    expect("every f32 to E2M1, as kernels do it", 0);
    all_floats<by_rule<KVG_TIES_EVEN>><<<BLOCKS, THREADS>>>(e2m1, EVEN, wrong_there);
    expect("every f32 to E2M1, ties to even", 0);
    all_floats<by_rule<KVG_TIES_AWAY>><<<BLOCKS, THREADS>>>(e2m1, AWAY, wrong_there);
    expect("every f32 to E2M1, ties away from zero", 0);
    all_floats<by_rule<KVG_TIES_ZERO>><<<BLOCKS, THREADS>>>(e2m1, ZERO, wrong_there);
    expect("every f32 to E2M1, ties to zero", 0);
    all_floats<by_pairs<__NV_E4M3>><<<BLOCKS, THREADS>>>(e4m3, EVEN, wrong_there);
    expect("every f32 to E4M3", 0);
    all_floats<by_pairs<__NV_E5M2>><<<BLOCKS, THREADS>>>(e5m2, EVEN, wrong_there);
    expect("every f32 to E5M2", 0);
    all_pairs<__NV_E4M3><<<65536 / THREADS, THREADS>>>(e4m3, wrong_there);
    expect("every pair of E4M3 to f32", 0);
    all_pairs<__NV_E5M2><<<65536 / THREADS, THREADS>>>(e5m2, wrong_there);
    expect("every pair of E5M2 to f32", 0);
    all_nibbles<kvg_e2m1_by_bytes><<<65536 / THREADS, THREADS>>>(e2m1, e4m3, wrong_there);
    expect("every four codes of E2M1 times every scale of E4M3", 0);
    all_nibbles<kvg_e2m1_products><<<65536 / THREADS, THREADS>>>(e2m1, e4m3, wrong_there);
    expect("the same as kernels do it", 0);
    all_powers<kvg_e8m0_by_bits, kvg_e8m0_ceil_by_bits><<<BLOCKS, THREADS>>>(wrong_there);
    expect("every byte of E8M0, the ceiling of every f32", 0);
    all_powers<kvg_e8m0_value, kvg_e8m0_ceil><<<BLOCKS, THREADS>>>(wrong_there);
    expect("the same as kernels do it", 0);
    for (const float scale : {0x1p-50f, 1.0f, 0x1p50f}) {
        all_divisors<<<BLOCKS, THREADS>>>(scale, wrong_there);
        expect("quotients next to ties, every divisor of a binade", 0);
    }
    all_sixths<<<BLOCKS, THREADS>>>(wrong_there);
    expect("every finite f32 over 6 and over 7, rounded to f16", 0);
    all_caps<<<BLOCKS, THREADS>>>(wrong_there);
    expect("quotients of a soft cap, every weight from 0 to 1", 0);
    /* the planted faults: a tie rule for another. 0.25, 1.25, 2.5 and 5, or 0.75, 1.75 and 3.5, and their negatives */
    all_floats<by_rule<KVG_TIES_AWAY>><<<BLOCKS, THREADS>>>(e2m1, EVEN, wrong_there);
    expect("planted: ties away where even is asked for, 8 inputs", 8);
    all_floats<by_lines><<<BLOCKS, THREADS>>>(e2m1, ZERO, wrong_there);
    expect("planted: ties to even where zero is asked for, 6 inputs", 6);
    printf("%s\n", failures ? "FAILED" : "passed");
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
