/* Products by cuBLAS against exact ones, element by element, within the bound of docs/spec/generate.md section 4:
 * sums of binary64, whose own error is 2^-29 of the bound. Rows of x with few numbers that are not zero show each
 * weight for itself, since the bound grows with their count alone. Then the same sums with something planted in
 * them, which must lie outside; and the same product again, eager and as a graph, with the same bits. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/model/model_library.cuh"
#include "tests/gpu/device_world.cuh"

namespace {

/* What is wrong in the sums that an answer is compared with. */
enum planted { RIGHT, NO_LAST_INPUT, NEXT_OUTPUT, NEXT_INPUT, NO_BIAS, NOT_ADDED, NOT_ROUNDED, CUT_OFF, PLANTED };
const char *const planted_names[PLANTED] = {"",              "last input left out",    "weights of the next output",
                                            "inputs one off", "bias left out",         "what lay there left out",
                                            "x not rounded", "x cut off, not rounded"};

struct shape {
    uint32_t outputs, inputs, rows;
    bool sparse; /* x[row][i] is 0 but for i = row mod rows */
};

/* Layers of Llama-3-8B, of the carried model, and sizes of no alignment. */
const shape shapes[] = {
    {4096, 4096, 1, false},   {4096, 4096, 64, true},  {1024, 4096, 16, false}, {14336, 4096, 16, true},
    {4096, 14336, 1, false},  {4096, 14336, 64, true}, {512, 256, 1, false},    {512, 256, 64, false},
    {256, 512, 16, true},     {4, 256, 3, false},      {33, 77, 5, true},       {97, 1001, 1, false},
    {1, 8, 1, false},         {32064, 4096, 16, true},
};

/* What becomes of a sum, with or without a bias. */
struct variant {
    kvg_model_end end;
    bool biased;
    kvg_dtype y; /* f32, or T */
};

/* The weights' type X: its conversions, and its smallest normal number. */
struct f16 {
    typedef __half number;
    static constexpr kvg_dtype dtype = KVG_DTYPE_F16;
    static constexpr double smallest = 0x1p-14;
    static __device__ float nearest(float x) { return __half2float(__float2half_rn(x)); }
    static __device__ float cut(float x) { return __half2float(__float2half_rz(x)); }
};
struct bf16 {
    typedef __nv_bfloat16 number;
    static constexpr kvg_dtype dtype = KVG_DTYPE_BF16;
    static constexpr double smallest = 0x1p-126;
    static __device__ float nearest(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
    static __device__ float cut(float x) { return __bfloat162float(__float2bfloat16_rz(x)); }
};
struct f32 {
    typedef float number;
    static constexpr kvg_dtype dtype = KVG_DTYPE_F32;
    static constexpr double smallest = 0x1p-126;
    static __device__ float nearest(float x) { return x; }
    static __device__ float cut(float x) { return x; }
};

__device__ float value(uint64_t i, uint64_t stream) /* of either sign, 8 binades, 24 bits */
{
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull ^ stream * 0xD1B54A32D192ED03ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return __uint_as_float((uint32_t)(z & 0x807FFFFF) | (120u + (uint32_t)(z >> 40 & 7)) << 23);
}

/* Rows of `count` numbers, `pitch` apart; but for the columns of row mod `every` they are 0. */
template <typename X>
__global__ void fill(typename X::number *to, uint32_t rows, uint32_t count, uint32_t pitch, uint64_t stream,
                     uint32_t every)
{
    const size_t all = (size_t)rows * pitch, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        const uint32_t row = (uint32_t)(i / pitch), column = (uint32_t)(i % pitch);
        const bool there = column < count && column % every == row % every;
        to[i] = (typename X::number)(there ? X::nearest(value(i, stream)) : 0.0f);
    }
}

__device__ double widen(const void *y, size_t i, kvg_dtype dtype)
{
    if (dtype == KVG_DTYPE_F32) return ((const float *)y)[i];
    if (dtype == KVG_DTYPE_F16) return __half2float(((const __half *)y)[i]);
    return __bfloat162float(((const __nv_bfloat16 *)y)[i]);
}

/* A tensor core aligns a subnormal as if it had the exponent of the smallest normal number. */
__device__ double reach(double x, double smallest)
{
    return x == 0 ? 0 : fmax(fabs(x), smallest);
}

struct world {
    shape s;
    variant v;
    uint32_t pitch; /* of x and of the weights, in elements */
    void *w, *y, *again;
    float *x, *bias, *before; /* before: what lay in y */
    unsigned long long *outside;
    unsigned *worst;
};

/* The largest |answer - exact| over its bound; counts those outside, NaN among them. */
template <typename X> __global__ void compare(world u, planted what)
{
    const size_t count = (size_t)u.s.outputs * u.s.rows, step = (size_t)gridDim.x * blockDim.x;
    for (size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        const uint32_t row = (uint32_t)(at / u.s.outputs), output = (uint32_t)(at % u.s.outputs);
        const uint32_t line = what == NEXT_OUTPUT ? (output + 1) % u.s.outputs : output;
        const typename X::number *weights = (const typename X::number *)u.w + (size_t)line * u.pitch;
        double sum = 0, reaches = 0, n = 0;
        for (uint32_t i = 0; i + (what == NO_LAST_INPUT) < u.s.inputs; i++) {
            const float x = u.x[(size_t)row * u.pitch + (what == NEXT_INPUT ? (i + 1) % u.s.inputs : i)];
            const double a = (double)(float)weights[i];
            const double b = what == NOT_ROUNDED ? x : what == CUT_OFF ? X::cut(x) : X::nearest(x);
            sum += a * b;
            reaches += reach(a, X::smallest) * reach(b, X::smallest);
            n += a != 0 && b != 0;
        }
        const double steps = fmin(n, ceil(u.s.inputs / 8.0)), unit = 0x1p-24;
        double bound = (n * unit + steps * 4 * unit) * reaches;
        if (u.v.end == KVG_MODEL_ADD) {
            sum += what == NOT_ADDED ? 0 : (double)u.before[at];
            bound += unit * (fabs(sum) + bound);
        }
        if (u.v.biased) {
            sum += what == NO_BIAS ? 0 : (double)u.bias[output];
            bound += unit * (fabs(sum) + bound);
        }
        if (u.v.y == KVG_DTYPE_F16) bound += fmax(0x1p-11 * (fabs(sum) + bound), 0x1p-25);
        if (u.v.y == KVG_DTYPE_BF16) bound += fmax(0x1p-8 * (fabs(sum) + bound), 0x1p-134);
        bound *= 1 + 0x1p-28;
        const double difference = fabs(widen(u.y, at, u.v.y) - sum);
        const bool within = difference <= bound;
        if (!within) atomicAdd(u.outside, 1ull);
        atomicMax(u.worst, __float_as_uint(within ? bound > 0 ? (float)(difference / bound) : 0 : 1e30f));
    }
}

template <typename X> unsigned long long outside_of(const world &u, planted what, float *worst)
{
    unsigned long long n;
    device_check(cudaMemset(u.outside, 0, sizeof *u.outside));
    device_check(cudaMemset(u.worst, 0, sizeof *u.worst));
    compare<X><<<4096, 256>>>(u, what);
    device_check(cudaGetLastError());
    device_check(cudaMemcpy(&n, u.outside, sizeof n, cudaMemcpyDeviceToHost));
    device_check(cudaMemcpy(worst, u.worst, sizeof *worst, cudaMemcpyDeviceToHost));
    return n;
}

/* --- a product, once, again, and as a graph --- */

size_t bytes_of(const world &u)
{
    return (size_t)u.s.rows * u.s.outputs * kvg_dtype_bytes(u.v.y);
}

void multiply(kvg_library *library, kvg_model_product p, const world &u, void *y, cudaStream_t stream)
{
    p.y = y;
    if (p.end == KVG_MODEL_ADD) {
        device_check(cudaMemcpyAsync(y, u.before, bytes_of(u), cudaMemcpyDeviceToDevice, stream));
    }
    device_check(kvg_library_multiply(library, p, stream));
}

unsigned long long repeat(kvg_library *library, const kvg_model_product &p, const world &u)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t runnable;
    device_tally tally;
    device_check(cudaStreamCreate(&stream));
    multiply(library, p, u, u.again, stream);
    tally.compare(u.y, u.again, bytes_of(u), stream);
    device_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    multiply(library, p, u, u.again, stream);
    device_check(cudaStreamEndCapture(stream, &graph));
    device_check(cudaGraphInstantiate(&runnable, graph, 0));
    device_check(cudaMemsetAsync(u.again, DEVICE_POISON, bytes_of(u), stream));
    device_check(cudaGraphLaunch(runnable, stream));
    tally.compare(u.y, u.again, bytes_of(u), stream);
    const unsigned long long different = tally.read();
    device_check(cudaGraphExecDestroy(runnable));
    device_check(cudaGraphDestroy(graph));
    device_check(cudaStreamDestroy(stream));
    return different;
}

/* --- one shape --- */

bool shows(planted what, const world &u, kvg_dtype weights)
{
    if (what == NO_BIAS) return u.v.biased;
    if (what == NOT_ADDED) return u.v.end == KVG_MODEL_ADD;
    return weights != KVG_DTYPE_F32 || (what != NOT_ROUNDED && what != CUT_OFF);
}

template <typename X> unsigned long long run(kvg_library *library, world u, const variant &v)
{
    const shape &s = u.s;
    float worst;
    u.v = v;
    u.pitch = (s.inputs + 7) / 8 * 8;
    fill<X><<<4096, 256>>>((typename X::number *)u.w, s.outputs, s.inputs, u.pitch, 1, 1);
    fill<f32><<<1024, 256>>>(u.x, s.rows, s.inputs, u.pitch, 2, s.sparse ? s.rows : 1);
    fill<f32><<<64, 256>>>(u.bias, 1, s.outputs, s.outputs, 3, 1);
    fill<f32><<<1024, 256>>>(u.before, s.rows, s.outputs, s.outputs, 4, 1);
    device_check(cudaGetLastError());
    kvg_model_product p = {};
    p.matrix.rows = (const uint8_t *)u.w;
    p.matrix.pitch = u.pitch * sizeof(typename X::number);
    p.matrix.dtype = X::dtype;
    p.matrix.outputs = s.outputs, p.matrix.inputs = s.inputs;
    if (v.biased) p.matrix.bias = {u.bias, KVG_DTYPE_F32};
    p.x = u.x, p.x_pitch = u.pitch, p.x_dtype = KVG_DTYPE_F32;
    p.y_pitch = s.outputs, p.rows = s.rows, p.dtype = v.y, p.end = v.end;
    multiply(library, p, u, u.y, nullptr);
    unsigned long long failures = outside_of<X>(u, RIGHT, &worst);
    const unsigned long long unlike = repeat(library, p, u);
    printf("%-4s %5u x %5u, %2u rows%s to %s%s%s: worst ratio %.3f, %llu outside, %llu bytes unlike when repeated\n",
           kvg_dtype_name(X::dtype), s.outputs, s.inputs, s.rows, s.sparse ? " sparse" : "", kvg_dtype_name(v.y),
           v.biased ? " bias" : "", v.end == KVG_MODEL_ADD ? " added" : "", (double)worst, failures, unlike);
    failures += unlike;
    if (!s.sparse || v.y != KVG_DTYPE_F32) return failures; /* the rounding of y would hide small mistakes */
    for (int what = RIGHT + 1; what < PLANTED; what++) {
        if (!shows((planted)what, u, X::dtype) || outside_of<X>(u, (planted)what, &worst)) continue;
        printf("  NOT SEEN: %s\n", planted_names[what]);
        failures++;
    }
    return failures;
}

unsigned long long run_all(kvg_library *library, const world &u)
{
    return run<bf16>(library, u, {KVG_MODEL_STORE, true, KVG_DTYPE_F32}) +
           run<f16>(library, u, {KVG_MODEL_ADD, false, KVG_DTYPE_F32}) +
           run<f32>(library, u, {KVG_MODEL_ADD, true, KVG_DTYPE_F32}) +
           run<bf16>(library, u, {KVG_MODEL_ROUND, false, KVG_DTYPE_BF16}) +
           run<bf16>(library, u, {KVG_MODEL_ROUND, true, KVG_DTYPE_F16}) +
           run<f32>(library, u, {KVG_MODEL_ROUND, false, KVG_DTYPE_BF16});
}

} // namespace

int main(void)
{
    const kvg_gpu_device device = device_first();
    size_t weights = 0, inputs = 0, outputs = 0, most_outputs = 0;
    for (const shape &s : shapes) {
        const size_t pitch = (s.inputs + 7) / 8 * 8;
        weights = s.outputs * pitch > weights ? s.outputs * pitch : weights;
        inputs = s.rows * pitch > inputs ? s.rows * pitch : inputs;
        outputs = (size_t)s.rows * s.outputs > outputs ? (size_t)s.rows * s.outputs : outputs;
        most_outputs = s.outputs > most_outputs ? s.outputs : most_outputs;
    }
    kvg_library *library;
    const kvg_status opened = kvg_library_open(inputs, outputs, &library);
    if (opened == KVG_ERR_UNIMPLEMENTED) {
        printf("skipped: %s\n", kvg_error_text());
        return 77;
    }
    device_check(opened);
    world u = {};
    device_check(cudaMalloc(&u.w, weights * 4));
    device_check(cudaMalloc(&u.x, inputs * 4));
    device_check(cudaMalloc(&u.bias, most_outputs * 4));
    device_check(cudaMalloc(&u.before, outputs * 4));
    device_check(cudaMalloc(&u.y, outputs * 4));
    device_check(cudaMalloc(&u.again, outputs * 4));
    device_check(cudaMalloc(&u.outside, sizeof *u.outside));
    device_check(cudaMalloc(&u.worst, sizeof *u.worst));
    unsigned long long failures = 0;
    for (const shape &s : shapes) {
        u.s = s;
        failures += run_all(library, u);
    }
    kvg_library_close(library);
    printf("%s: %llu failures\n", device.name, failures);
    return failures == 0 ? 0 : 1;
}
