/* Products of docs/spec/generate.md section 4: each output is one chain of fused multiply-adds over its inputs, in
 * order, and belongs to one lane. A CTA has 32 outputs and stages their weights through shared memory, PART bytes of
 * each at a time, so that loads coalesce; each of its warps has ROWS rows of x, which all its lanes read together. */
#include "gpu/device/cuda_status.cuh"
#include "gpu/model/model_parts.cuh"

namespace {

enum { WARPS = 4, THREADS = 32 * WARPS, OUTPUTS = 32, PART = 256, UNIT = 16, STAGES = 4, EIGHT = 8 };
/* Rows in shared memory 4 banks further each, so that 8 lanes read 16 bytes each at once. */
enum { STAGED = PART + UNIT };
static_assert((int)OUTPUTS == 32, "a lane per output");

/* --- weights in shared memory, as numbers --- */

template <kvg_dtype W> struct weights {
    typedef typename kvg_scalar<W>::bits bits;
    enum { IN_PART = PART / sizeof(bits) };

    __device__ __forceinline__ weights(const kvg_model_matrix &, size_t) {}
    static __device__ __forceinline__ void eight(const void *from, float *w)
    {
        if constexpr (W == KVG_DTYPE_F32) {
            const float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];
            w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w, w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
        } else {
            const uint4 v = *(const uint4 *)from;
            const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 two = kvg_scalar<W>::widen2(words[i]);
                w[2 * i] = two.x, w[2 * i + 1] = two.y;
            }
        }
    }
    __device__ __forceinline__ void load(const uint8_t *row, uint32_t i, uint32_t, float *w) const
    {
        eight(row + i * sizeof(bits), w);
    }
    __device__ __forceinline__ float one(const uint8_t *row, uint32_t i, uint32_t) const
    {
        return kvg_scalar<W>::widen(((const bits *)row)[i]);
    }
};

/* mxfp4: E2M1 in blocks of 32, low nibble first, with a power of two each. */
template <> struct weights<KVG_DTYPE_U8> {
    enum { IN_PART = 2 * PART };
    const uint8_t *scales; /* of the output */

    __device__ __forceinline__ weights(const kvg_model_matrix &m, size_t output)
        : scales(m.scales + output * (m.inputs / 32))
    {
    }
    /* The code's exponent and fraction as those of an f32 give the value times 2^-126, subnormal ones too. */
    static __device__ __forceinline__ float value(uint32_t code, float power)
    {
        const float small = __uint_as_float((code & 8) << 28 | (code & 7) << 22);
        return __fmul_rn(__fmul_rn(small, 0x1p126f), power);
    }
    /* 2^(scale - 127); the least is subnormal. */
    __device__ __forceinline__ float power(uint32_t input) const
    {
        const uint32_t scale = scales[input / 32];
        return __uint_as_float(scale ? scale << 23 : 0x400000u);
    }
    __device__ __forceinline__ void load(const uint8_t *row, uint32_t i, uint32_t input, float *w) const
    {
        const uint32_t codes = *(const uint32_t *)(row + i / 2);
        const float p = power(input);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) w[k] = value(codes >> 4 * k, p);
    }
    __device__ __forceinline__ float one(const uint8_t *row, uint32_t i, uint32_t input) const
    {
        return value(row[i / 2] >> i % 2 * 4, power(input));
    }
};

/* --- the kernel --- */

__device__ __forceinline__ void copy_unit(void *to, const void *from)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

/* Part `part` of the rows of weights that the CTA has; a group of copies of its own, though it be empty. */
__device__ __forceinline__ void stage(const kvg_model_matrix &m, size_t first, uint32_t part,
                                      uint8_t (*to)[STAGED])
{
    enum { UNITS = PART / UNIT };
    const size_t at = (size_t)part * PART;
    for (uint32_t i = threadIdx.x; i < OUTPUTS * UNITS; i += THREADS) {
        const uint32_t output = i / UNITS, byte = i % UNITS * UNIT;
        if (at + byte >= m.pitch || blockIdx.x * OUTPUTS + output >= m.outputs) continue;
        copy_unit(to[output] + byte, m.rows + (first + output) * m.pitch + at + byte);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void finish(const kvg_model_product &a, uint32_t entry, uint32_t output, float y)
{
    const size_t at = (size_t)entry * a.y_pitch + output;
    if (a.end == KVG_MODEL_STORE) {
        ((float *)a.y)[at] = y;
    } else if (a.end == KVG_MODEL_ADD) {
        ((float *)a.y)[at] = __fadd_rn(((float *)a.y)[at], y);
    } else if (a.dtype == KVG_DTYPE_F16) {
        ((uint16_t *)a.y)[at] = kvg_scalar<KVG_DTYPE_F16>::round(y);
    } else {
        ((uint16_t *)a.y)[at] = kvg_scalar<KVG_DTYPE_BF16>::round(y);
    }
}

/* Grid: tiles of outputs, tiles of rows, experts. */
template <kvg_dtype W, kvg_dtype X, int ROWS>
__global__ void __launch_bounds__(THREADS) model_product(const __grid_constant__ kvg_model_product a)
{
    typedef typename kvg_scalar<X>::bits x_bits;
    enum { IN_PART = weights<W>::IN_PART };
    __shared__ __align__(UNIT) uint8_t staged[STAGES][OUTPUTS][STAGED];
    const kvg_model_matrix &m = a.matrix;
    const uint32_t lane = threadIdx.x % 32, expert = blockIdx.z;
    const uint32_t rows = a.lists.experts ? a.lists.counts[expert] : a.rows;
    const uint32_t first_row = blockIdx.y * WARPS * ROWS, my_row = first_row + threadIdx.x / 32 * ROWS;
    if (first_row >= rows) return;
    const uint32_t output = blockIdx.x * OUTPUTS + lane;
    const size_t first = (size_t)expert * m.outputs + blockIdx.x * OUTPUTS;
    const weights<W> own(m, first + (output < m.outputs ? lane : 0));
    const uint32_t parts = (m.inputs + IN_PART - 1) / IN_PART;
    uint32_t entry[ROWS];
    const x_bits *x[ROWS];
    float sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const uint32_t row = min(my_row + r, rows - 1);
        entry[r] = a.lists.experts ? a.lists.entries[(size_t)expert * a.rows + row] : row;
        x[r] = (const x_bits *)a.x + (size_t)(a.lists.experts ? entry[r] / a.lists.share : row) * a.x_pitch;
        sum[r] = 0;
    }
#pragma unroll
    for (uint32_t part = 0; part < STAGES - 1; part++) stage(m, first, part, staged[part]);
#pragma unroll 1
    for (uint32_t part = 0; part < parts; part++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads(); /* the part is there, and nobody reads the one before it any more */
        stage(m, first, part + STAGES - 1, staged[(part + STAGES - 1) % STAGES]);
        if (my_row >= rows) continue;
        const uint8_t *row = staged[part % STAGES][lane];
        const uint32_t begin = part * IN_PART, here = min(m.inputs - begin, (uint32_t)IN_PART);
        uint32_t i = 0;
#pragma unroll 2
        for (; i + EIGHT <= here; i += EIGHT) {
            float w[EIGHT];
            own.load(row, i, begin + i, w);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float v[EIGHT];
                weights<X>::eight(x[r] + begin + i, v);
#pragma unroll
                for (int k = 0; k < EIGHT; k++) sum[r] = __fmaf_rn(w[k], v[k], sum[r]);
            }
        }
        for (; i < here; i++) {
            const float w = own.one(row, i, begin + i);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                sum[r] = __fmaf_rn(w, kvg_scalar<X>::widen(x[r][begin + i]), sum[r]);
            }
        }
    }
    if (output >= m.outputs) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (my_row + r >= rows) return;
        const float y = m.bias.data ? __fadd_rn(sum[r], m.bias.at((size_t)expert * m.outputs + output)) : sum[r];
        finish(a, entry[r], output, y);
    }
}

/* --- host --- */

enum { FEW = 1, MANY = 4 };

template <kvg_dtype W, kvg_dtype X> void launch(const kvg_model_product &a, cudaStream_t stream)
{
    const uint32_t per_warp = a.rows <= WARPS ? FEW : MANY, tile = WARPS * per_warp;
    const dim3 grid((a.matrix.outputs + OUTPUTS - 1) / OUTPUTS, (a.rows + tile - 1) / tile,
                    a.lists.experts ? a.lists.experts : 1);
    if (per_warp == FEW) model_product<W, X, FEW><<<grid, THREADS, 0, stream>>>(a);
    else model_product<W, X, MANY><<<grid, THREADS, 0, stream>>>(a);
}

template <kvg_dtype W> void launch_for(const kvg_model_product &a, cudaStream_t stream)
{
    if (a.x_dtype == KVG_DTYPE_F16) launch<W, KVG_DTYPE_F16>(a, stream);
    else if (a.x_dtype == KVG_DTYPE_BF16) launch<W, KVG_DTYPE_BF16>(a, stream);
    else launch<W, KVG_DTYPE_F32>(a, stream);
}

} // namespace

kvg_status kvg_model_product_run(const kvg_model_product &a, cudaStream_t stream)
{
    switch (a.matrix.dtype) {
    case KVG_DTYPE_F16: launch_for<KVG_DTYPE_F16>(a, stream); break;
    case KVG_DTYPE_BF16: launch_for<KVG_DTYPE_BF16>(a, stream); break;
    case KVG_DTYPE_F32: launch_for<KVG_DTYPE_F32>(a, stream); break;
    case KVG_DTYPE_U8: launch<KVG_DTYPE_U8, KVG_DTYPE_F32>(a, stream); break; /* mxfp4: experts alone */
    case KVG_DTYPE_I32:
    case KVG_DTYPE_I64: return kvg_fail(KVG_ERR_INVALID, "a product of integers");
    }
    return kvg_cuda_status("a product", cudaGetLastError());
}
