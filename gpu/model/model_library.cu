/* cuBLAS by its documented C interface (NVIDIA, "cuBLAS", the v2 API), opened at run time as
 * gpu/device/nvml.c opens NVML: a program that takes its products in fixed order neither loads nor
 * needs 600 MB of it. */
#include "gpu/model/model_library.cuh"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "gpu/device/cuda_status.cuh"

struct kvg_library {
    void *handle;        /* cublasHandle_t */
    void *workspace;     /* cuBLAS's own memory, so that it allocates none while a graph is captured */
    void *operand;       /* x in the weights' type */
    float *sums;         /* what cuBLAS cannot round by itself */
    uint64_t most_x, most_y;
    cudaStream_t stream; /* that handle and workspace are bound to */
    bool bound;
};

namespace {

enum { CUBLAS_OK = 0, CUBLAS_NO_MEMORY = 3 };
enum { OP_N = 0, OP_T = 1, COMPUTE_32F = 68, DEFAULT_ALGORITHM = -1, NO_REDUCED_PRECISION_REDUCTION = 16 };
enum { WORKSPACE = 32 << 20 }; /* what "cuBLAS" recommends for Hopper, more than for other chips */

struct functions {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t stream);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    int (*set_math_mode)(void *handle, int mode);
    const char *(*text)(int status);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
                cudaDataType a_type, int lda, const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                cudaDataType c_type, int ldc, int compute, int algorithm);
} cublas;

/* dlsym gives functions as object pointers: their bytes are copied, as POSIX intends. */
bool find_functions(void *library)
{
    const struct {
        const char *name;
        void *to;
    } rows[] = {
        {"cublasCreate_v2", &cublas.create},
        {"cublasDestroy_v2", &cublas.destroy},
        {"cublasSetStream_v2", &cublas.set_stream},
        {"cublasSetWorkspace_v2", &cublas.set_workspace},
        {"cublasSetMathMode", &cublas.set_math_mode},
        {"cublasGetStatusString", &cublas.text},
        {"cublasGemmEx", &cublas.gemm},
    };
    for (const auto &row : rows) {
        void *found = dlsym(library, row.name);
        if (!found) return false;
        memcpy(row.to, &found, sizeof found);
    }
    return true;
}

kvg_status find_library()
{
    static bool asked, known;
    char name[32];
    snprintf(name, sizeof name, "libcublas.so.%d", CUDART_VERSION / 1000);
    if (!asked) {
        asked = true;
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        known = library && find_functions(library);
    }
    if (known) return KVG_OK;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED,
                    "products by the library need cuBLAS: %s is not found; install it or name its folder in "
                    "LD_LIBRARY_PATH, or take products in fixed order",
                    name);
}

kvg_status check(const char *what, int status)
{
    if (status == CUBLAS_OK) return KVG_OK;
    return kvg_fail(status == CUBLAS_NO_MEMORY ? KVG_ERR_MEMORY : KVG_ERR_IO, "cuBLAS, %s: %s", what,
                    cublas.text(status));
}

cudaDataType type_of(kvg_dtype dtype)
{
    return dtype == KVG_DTYPE_F16 ? CUDA_R_16F : dtype == KVG_DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* --- kernels: blockIdx.y is a row, or several that are gridDim.y apart --- */

enum { THREADS = 256 };

dim3 grid_for(uint32_t rows, uint32_t count)
{
    const uint32_t most = 1024;
    return dim3((count + THREADS - 1) / THREADS, rows < most ? rows : most);
}

/* x in another type, without gaps. */
__global__ void convert(kvg_model_vector x, uint32_t rows, uint32_t count, uint32_t pitch, kvg_dtype dtype, void *to)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    for (uint32_t row = blockIdx.y; row < rows; row += gridDim.y) {
        kvg_model_put(to, (size_t)row * count + i, dtype, x.at((size_t)row * pitch + i));
    }
}

/* y in its type, from a sum and a bias. */
__global__ void finish(const float *sums, uint32_t rows, uint32_t count, uint32_t sums_pitch, kvg_model_vector bias,
                       kvg_dtype dtype, void *y, uint32_t y_pitch)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    for (uint32_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const float sum = sums[(size_t)row * sums_pitch + i];
        kvg_model_put(y, (size_t)row * y_pitch + i, dtype, bias.data ? __fadd_rn(sum, bias.at(i)) : sum);
    }
}

/* --- a product --- */

/* cuBLAS's own stream and memory. Setting the stream takes the memory away again. */
kvg_status bind(kvg_library *library, cudaStream_t stream)
{
    if (library->bound && library->stream == stream) return KVG_OK;
    kvg_status s = check("a stream", cublas.set_stream(library->handle, stream));
    if (!s) s = check("its memory", cublas.set_workspace(library->handle, library->workspace, WORKSPACE));
    library->stream = stream;
    library->bound = s == KVG_OK;
    return s;
}

/* x as cuBLAS takes it: in the weights' type. */
struct operand {
    const void *data;
    uint32_t pitch;
};

kvg_status operand_of(kvg_library *library, const kvg_model_product &p, cudaStream_t stream, operand *out)
{
    const kvg_model_matrix &m = p.matrix;
    *out = {p.x, p.x_pitch};
    if (p.x_dtype == m.dtype) return KVG_OK;
    *out = {library->operand, m.inputs};
    if ((uint64_t)p.rows * m.inputs > library->most_x) {
        return kvg_fail(KVG_ERR_INVALID, "products by the library: %u rows of %u inputs, room for %llu numbers", p.rows,
                        m.inputs, (unsigned long long)library->most_x);
    }
    convert<<<grid_for(p.rows, m.inputs), THREADS, 0, stream>>>({p.x, p.x_dtype}, p.rows, m.inputs, p.x_pitch, m.dtype,
                                                               library->operand);
    return kvg_cuda_status("an operand", cudaGetLastError());
}

/* W lies row-major [outputs][inputs], which to cuBLAS, column-major, is its transpose; so do x and
 * y. y = W x, or y + W x where `add`. */
kvg_status multiply(kvg_library *library, const kvg_model_product &p, const operand &x, bool add, void *y,
                    kvg_dtype y_dtype, uint32_t y_pitch)
{
    const kvg_model_matrix &m = p.matrix;
    const float one = 1, kept = add ? 1 : 0;
    const int lda = (int)(m.pitch / kvg_dtype_bytes(m.dtype));
    const cudaDataType type = type_of(m.dtype);
    return check("a product", cublas.gemm(library->handle, OP_T, OP_N, (int)m.outputs, (int)p.rows, (int)m.inputs, &one,
                                          m.rows, type, lda, x.data, type, (int)x.pitch, &kept, y, type_of(y_dtype),
                                          (int)y_pitch, COMPUTE_32F, DEFAULT_ALGORITHM));
}

/* cuBLAS rounds to T by itself where T is the weights' type. */
kvg_status multiply_rounded(kvg_library *library, const kvg_model_product &p, const operand &x, cudaStream_t stream)
{
    const kvg_model_matrix &m = p.matrix;
    if (p.dtype == m.dtype && !m.bias.data) return multiply(library, p, x, false, p.y, p.dtype, p.y_pitch);
    if ((uint64_t)p.rows * m.outputs > library->most_y) {
        return kvg_fail(KVG_ERR_INVALID, "products by the library: %u rows of %u outputs, room for %llu numbers",
                        p.rows, m.outputs, (unsigned long long)library->most_y);
    }
    kvg_status s = multiply(library, p, x, false, library->sums, KVG_DTYPE_F32, m.outputs);
    if (s) return s;
    finish<<<grid_for(p.rows, m.outputs), THREADS, 0, stream>>>(library->sums, p.rows, m.outputs, m.outputs, m.bias,
                                                               p.dtype, p.y, p.y_pitch);
    return kvg_cuda_status("rounding", cudaGetLastError());
}

} // namespace

uint64_t kvg_library_bytes(uint64_t most_x, uint64_t most_y)
{
    return WORKSPACE + (most_x + most_y) * sizeof(float);
}

kvg_status kvg_library_open(uint64_t most_x, uint64_t most_y, kvg_library **out)
{
    *out = nullptr;
    kvg_status s = find_library();
    if (s) return s;
    kvg_library *l = new (std::nothrow) kvg_library();
    if (!l) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a library of products");
    l->most_x = most_x;
    l->most_y = most_y;
    s = check("a handle", cublas.create(&l->handle));
    if (!s) s = check("its arithmetic", cublas.set_math_mode(l->handle, NO_REDUCED_PRECISION_REDUCTION));
    if (!s) s = kvg_cuda_status("memory of cuBLAS", cudaMalloc(&l->workspace, WORKSPACE));
    if (!s) s = kvg_cuda_status("operands", cudaMalloc(&l->operand, most_x * sizeof(float)));
    if (!s && most_y) s = kvg_cuda_status("sums", cudaMalloc(&l->sums, most_y * sizeof(float)));
    if (s) kvg_library_close(l);
    else *out = l;
    return s;
}

void kvg_library_close(kvg_library *library)
{
    if (!library) return;
    if (library->handle) (void)cublas.destroy(library->handle);
    (void)cudaFree(library->workspace);
    (void)cudaFree(library->operand);
    (void)cudaFree(library->sums);
    delete library;
}

kvg_status kvg_library_multiply(kvg_library *library, const kvg_model_product &p, cudaStream_t stream)
{
    const kvg_model_matrix &m = p.matrix;
    operand x;
    kvg_status s = operand_of(library, p, stream, &x);
    if (!s) s = bind(library, stream);
    if (s) return s;
    if (p.end == KVG_MODEL_ROUND) return multiply_rounded(library, p, x, stream);
    s = multiply(library, p, x, p.end == KVG_MODEL_ADD, p.y, KVG_DTYPE_F32, p.y_pitch);
    if (s || !m.bias.data) return s;
    finish<<<grid_for(p.rows, m.outputs), THREADS, 0, stream>>>((const float *)p.y, p.rows, m.outputs, p.y_pitch,
                                                               m.bias, KVG_DTYPE_F32, p.y, p.y_pitch);
    return kvg_cuda_status("a bias", cudaGetLastError());
}
