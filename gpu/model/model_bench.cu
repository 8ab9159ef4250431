/* Timing of a model's steps (core/bench_model.h). All work is queued on one stream ahead of the GPU, so that an event
 * pair holds the GPU's time and not the host's. */
#include "core/bench_model.h"

#include <cfloat>
#include <cmath>
#include <new>
#include <vector>

#include "gpu/device/cuda_status.cuh"
#include "gpu/gpu.h"
#include "gpu/bench/gpu_bench_kernels.cuh"
#include "gpu/bench/gpu_clock.cuh"
#include "gpu/model/model_device.h"
#include "gpu/model/model_check.h"

namespace {

enum { DRAW_THREADS = 1024, SUM_BLOCKS = 512, SUM_THREADS = 256 };

struct bench {
    kvg_model_setup setup;
    kvg_gpu_model *model;
    cudaStream_t stream;
    kvg_gpu_clock clock;
    int32_t *tokens;
    unsigned long long *sums; /* of the first run, then of each timed one */
};

kvg_status check(const char *what, cudaError_t error)
{
    return kvg_cuda_status(what, error);
}

kvg_stream *stream_of(const bench *b)
{
    return (kvg_stream *)b->stream;
}

/* --- a token of each row --- */

struct candidate {
    float logit;
    int32_t id;
    __device__ bool before(const candidate &other) const
    {
        return logit > other.logit || (logit == other.logit && id < other.id);
    }
};

/* A CTA for each row of logits: the lowest id of the largest; -1 where no logit is a number above -Inf. */
__global__ void __launch_bounds__(DRAW_THREADS) draw(const float *logits, uint32_t vocab, int32_t *tokens)
{
    __shared__ candidate warps[DRAW_THREADS / 32];
    const float *row = logits + (size_t)blockIdx.x * vocab;
    candidate best = {-INFINITY, -1};
    for (uint32_t i = threadIdx.x; i < vocab; i += DRAW_THREADS) {
        if (row[i] > best.logit) best = {row[i], (int32_t)i};
    }
    for (int round = 0; round < 2; round++) {
        for (int offset = 16; offset; offset /= 2) {
            const candidate other = {__shfl_xor_sync(0xFFFFFFFFu, best.logit, offset),
                                     __shfl_xor_sync(0xFFFFFFFFu, best.id, offset)};
            if (other.before(best)) best = other;
        }
        if (round == 0 && threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
        __syncthreads();
        if (round == 0) best = warps[threadIdx.x % 32];
    }
    if (threadIdx.x == 0) tokens[blockIdx.x] = best.id;
}
static_assert(DRAW_THREADS == 32 * 32, "two rounds of a warp");

/* --- parts of a step --- */

kvg_status queue_part(bench *b, const kvg_gpu_model_shape &shape, kvg_bench_part part)
{
    static const unsigned parts[KVG_BENCH_MODEL_PARTS] = {KVG_GPU_MODEL_ALL, KVG_GPU_MODEL_CACHE, KVG_GPU_MODEL_REST};
    kvg_status s = kvg_gpu_model_queue(b->model, &shape, parts[part], stream_of(b));
    if (s || part == KVG_BENCH_CACHE || shape.wanted == 0) return s;
    draw<<<shape.wanted, DRAW_THREADS, 0, b->stream>>>(kvg_gpu_model_logits(b->model), b->setup.config->vocab,
                                                       b->tokens);
    return check("drawing tokens", cudaGetLastError());
}

kvg_status capture(bench *b, const kvg_gpu_model_shape &shape, kvg_bench_part part, cudaGraphExec_t *out)
{
    cudaGraph_t graph = nullptr;
    kvg_status s = check("capture", cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal));
    if (s) return s;
    s = queue_part(b, shape, part);
    const cudaError_t ended = cudaStreamEndCapture(b->stream, &graph);
    if (!s) s = check("capture", ended);
    if (!s) s = check("a graph", cudaGraphInstantiate(out, graph, 0));
    if (graph) (void)cudaGraphDestroy(graph);
    return s;
}

size_t logit_bytes(const bench *b, uint32_t wanted)
{
    return (size_t)wanted * b->setup.config->vocab * sizeof(float);
}

kvg_status sum(bench *b, uint32_t wanted, uint32_t place)
{
    kvg_sum_bytes<<<SUM_BLOCKS, SUM_THREADS, 0, b->stream>>>((const uint8_t *)kvg_gpu_model_logits(b->model),
                                                             logit_bytes(b, wanted), 0, b->sums + place);
    kvg_sum_bytes<<<1, SUM_THREADS, 0, b->stream>>>((const uint8_t *)b->tokens, wanted * sizeof(int32_t), 1,
                                                    b->sums + place);
    return check("a checksum", cudaGetLastError());
}

/* --- time --- */

/* The step as it is, no graph. */
kvg_status run_first(bench *b, const kvg_bench_model_job *job, const kvg_gpu_model_shape &shape)
{
    const kvg_model_step *step = job->step;
    kvg_status s = check("the cache", cudaDeviceSynchronize()); /* others filled it */
    if (!s) s = kvg_gpu_model_upload(b->model, step, stream_of(b));
    if (!s) {
        s = check("memset", cudaMemsetAsync(b->sums, 0, (KVG_BENCH_MOST_RUNS + 1) * sizeof *b->sums, b->stream));
    }
    if (!s) s = queue_part(b, shape, KVG_BENCH_STEP);
    if (!s) s = sum(b, step->wanted, 0);
    if (!s) {
        s = kvg_gpu_download(step->logits, kvg_gpu_model_logits(b->model), logit_bytes(b, step->wanted), stream_of(b));
    }
    return s ? s : kvg_gpu_download(job->tokens, b->tokens, step->wanted * sizeof *job->tokens, stream_of(b));
}

/* A case while it is timed. */
struct timing {
    cudaGraphExec_t graphs[KVG_BENCH_MODEL_PARTS];
    std::vector<cudaEvent_t> events; /* pairs, by run and part */
};

const kvg_bench_part order[] = {KVG_BENCH_REST, KVG_BENCH_CACHE, KVG_BENCH_STEP}; /* a step's outputs stay */

kvg_status time_round(bench *b, const timing &t, uint32_t run, uint32_t wanted)
{
    kvg_status s = KVG_OK;
    for (kvg_bench_part part : order) {
        const cudaEvent_t *pair = &t.events[2 * (run * KVG_BENCH_MODEL_PARTS + part)];
        if (!s) s = check("an event", cudaEventRecord(pair[0], b->stream));
        if (!s) s = check("a graph", cudaGraphLaunch(t.graphs[part], b->stream));
        if (!s) s = check("an event", cudaEventRecord(pair[1], b->stream));
    }
    return s ? s : sum(b, wanted, 1 + run);
}

kvg_status time_runs(bench *b, const timing &t, const kvg_bench_model_job *job, kvg_bench_model_result *r)
{
    unsigned long long sums[KVG_BENCH_MOST_RUNS + 1] = {};
    kvg_status s = KVG_OK;
    for (kvg_bench_part part : order) { /* once to warm up: clocks, and the graphs' own upload */
        if (!s && job->runs) s = check("a graph", cudaGraphLaunch(t.graphs[part], b->stream));
    }
    if (!s) s = kvg_gpu_clock_start(&b->clock, b->stream);
    for (uint32_t run = 0; run < job->runs && !s; run++) {
        s = time_round(b, t, run, job->step->wanted);
        if (run == job->runs / 2) kvg_gpu_clock_ask(&b->clock, &r->clock);
    }
    if (!s) s = kvg_gpu_clock_stop(&b->clock, b->stream, &r->clock);
    if (!s) s = kvg_gpu_download(sums, b->sums, sizeof sums, stream_of(b));
    r->first = sums[0];
    for (uint32_t run = 0; run < job->runs && !s; run++) {
        r->timed[run] = sums[1 + run];
        for (int part = 0; part < KVG_BENCH_MODEL_PARTS && !s; part++) {
            const cudaEvent_t *pair = &t.events[2 * (run * KVG_BENCH_MODEL_PARTS + part)];
            s = check("an event", cudaEventElapsedTime(&r->ms[part][run], pair[0], pair[1]));
        }
    }
    return s;
}

kvg_status time_model(void *opened, const kvg_bench_model_job *job, kvg_bench_model_result *r)
{
    bench *b = (bench *)opened;
    timing t = {{}, std::vector<cudaEvent_t>(2 * job->runs * KVG_BENCH_MODEL_PARTS)};
    *r = {};
    kvg_status s = kvg_gpu_model_check_step(&b->setup, job->step);
    if (s) return s;
    const kvg_gpu_model_shape shape = kvg_gpu_model_shape_of(b->model, job->step);
    s = run_first(b, job, shape);
    for (int part = 0; part < KVG_BENCH_MODEL_PARTS && job->runs && !s; part++) {
        s = capture(b, shape, (kvg_bench_part)part, &t.graphs[part]);
    }
    for (cudaEvent_t &event : t.events) {
        if (!s) s = check("an event", cudaEventCreate(&event));
    }
    if (!s) s = time_runs(b, t, job, r);
    for (cudaEvent_t event : t.events) {
        if (event) (void)cudaEventDestroy(event);
    }
    for (cudaGraphExec_t graph : t.graphs) {
        if (graph) (void)cudaGraphExecDestroy(graph);
    }
    return s;
}

/* --- open and close --- */

kvg_status bytes_of(const kvg_model_setup *setup, uint64_t *out)
{
    const uint64_t small = 1 << 20; /* tokens, sums and clocks */
    kvg_status s = kvg_gpu_model_bytes(setup, out);
    *out += small;
    return s;
}

void close_model(void *opened)
{
    bench *b = (bench *)opened;
    if (!b) return;
    kvg_gpu_model_close(b->model);
    kvg_gpu_clock_close(&b->clock);
    kvg_gpu_free(b->tokens);
    kvg_gpu_free(b->sums);
    if (b->stream) (void)cudaStreamDestroy(b->stream);
    delete b;
}

kvg_status open_model(const kvg_model_setup *setup, void **out)
{
    bench *b = new (std::nothrow) bench();
    *out = nullptr;
    if (!b) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a model");
    b->setup = *setup;
    kvg_status s = kvg_gpu_model_open(setup, &b->model);
    if (!s) s = check("a stream", cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    if (!s) s = kvg_gpu_clock_open(&b->clock);
    if (!s) s = kvg_gpu_alloc((setup->max_wanted + 1) * sizeof *b->tokens, (void **)&b->tokens);
    if (!s) s = kvg_gpu_alloc((KVG_BENCH_MOST_RUNS + 1) * sizeof *b->sums, (void **)&b->sums);
    if (s) close_model(b);
    else *out = b;
    return s;
}

void *pool_of(void *opened, kvg_role role, kvg_side side)
{
    uint64_t bytes;
    return kvg_gpu_model_pool(((bench *)opened)->model, role, side, &bytes);
}

const kvg_bench_model model = {bytes_of, open_model, close_model, pool_of, time_model};

} // namespace

const kvg_bench_model *kvg_gpu_bench_model(void)
{
    return &model;
}
