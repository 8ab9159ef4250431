/* What the host tells the kernels of op decode on tensor cores, for one query row or many. */
#ifndef KVG_GPU_ATTENTION_SHARED_SETUP_CUH
#define KVG_GPU_ATTENTION_SHARED_SETUP_CUH

#include <cstdio>

#include "core/backend.h"
#include "gpu/attention/shared/decode_args.cuh"
#include "gpu/device/cuda_status.cuh"

static inline kvg_fast_divisor kvg_divisor_of(uint32_t divisor)
{
    uint32_t bits = 0;
    while (divisor > 1ull << bits) bits++;
    return {divisor, (uint32_t)(((1ull << (31 + bits)) + divisor - 1) / divisor), 31 + bits};
}

/* `chained`: a kernel that may begin before the one before it has ended, and waits for it where it
 * must. */
template <typename... ARGS>
static kvg_status kvg_decode_launch(void (*kernel)(ARGS...), uint32_t blocks, uint32_t threads, uint32_t shared,
                                    bool chained, kvg_stream *stream, ARGS... args)
{
    cudaLaunchAttribute chain = {};
    chain.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    chain.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream, config.attrs = &chain, config.numAttrs = chained;
    return kvg_cuda_status("decode", cudaLaunchKernelEx(&config, kernel, args...));
}

template <typename... WHAT> static kvg_status kvg_decode_unimplemented(const char *format, WHAT... what)
{
    char text[160];
    snprintf(text, sizeof text, format, what...);
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on tensor cores: %s", text);
}

/* The format whose kernel takes a side: Metal Marlin's linear codes are the nibbles of rowint4,
 * worth half as much. */
bool kvg_decode_is_linear(const kvg_storage &side);
kvg_format kvg_decode_format(const kvg_storage &side);

/* All that is known before there are tensors: the strides of rows. KVG_ERR_UNIMPLEMENTED: rows that
 * no kernel reads. */
kvg_status kvg_decode_set_strides(const kvg_problem *problem, kvg_decode_args *args);

/* The rest of what does not depend on how the work is cut. `rows`: memory of the ranges of queries,
 * or null. */
kvg_status kvg_decode_set_tensors(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, int4 *rows,
                                  kvg_decode_args *args);

/* KVG_ERR_UNIMPLEMENTED, with the reason, if no kernel on tensor cores answers the problem on any
 * chip, for reasons that all of them have. */
kvg_status kvg_decode_check_common(const kvg_problem *problem);

/* A chip gives the bits of its own profile alone: KVG_ERR_UNIMPLEMENTED where the problem asks for
 * another's. */
kvg_status kvg_decode_check_profile(const kvg_problem *problem, int device);

#endif
