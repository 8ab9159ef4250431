/* Timing on the first GPU (core/bench_device.h). All work is queued on one stream ahead of the GPU, so that an event
 * pair holds the GPU's time and not the host's. */
#include <cstdio>
#include <vector>

#include "gpu/device/cuda_status.cuh"
#include "gpu/gpu.h"
#include "gpu/bench/gpu_bench_kernels.cuh"
#include "gpu/bench/gpu_clock.cuh"
#include "gpu/ops.h"

namespace {

enum { FLUSH_TIMES_L2 = 4, POISON = 0x5A };

struct machine {
    cudaStream_t stream;
    uint64_t flush_bytes;
    uint4 *flush, *scratch; /* read to fill the L2; written to */
    unsigned long long *sum;
    kvg_gpu_clock clock;
    int multiprocessors;
} gpu;

kvg_status check(const char *what, cudaError_t error)
{
    return kvg_cuda_status(what, error);
}

/* Twice in a period of the memory's clock, as wide as its bus. */
double peak_bytes_per_us()
{
    int kilohertz = 0, bits = 0, device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device);
    cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device);
    return 2.0 * kilohertz / 1e3 * bits / 8;
}

kvg_status open_gpu(kvg_bench_info *out)
{
    kvg_gpu_device device;
    size_t count;
    *out = {};
    kvg_status s = kvg_gpu_devices(&device, 1, &count);
    if (s) return s;
    if (count == 0) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "backend cuda needs a GPU, and this machine has none");
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, device.name);
    out->sm = device.sm;
    out->memory_bytes = device.memory_bytes;
    out->l2_bytes = device.l2_bytes;
    out->bytes_per_us = peak_bytes_per_us();
    gpu.multiprocessors = (int)device.multiprocessors;
    gpu.flush_bytes = FLUSH_TIMES_L2 * device.l2_bytes / 16 * 16;
    s = check("a stream", cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking));
    if (!s) s = kvg_gpu_clock_open(&gpu.clock);
    if (!s) s = kvg_gpu_alloc(gpu.flush_bytes, (void **)&gpu.flush);
    if (!s) s = kvg_gpu_alloc(gpu.flush_bytes, (void **)&gpu.scratch);
    if (!s) s = kvg_gpu_alloc(sizeof *gpu.sum, (void **)&gpu.sum);
    if (!s) s = check("memset", cudaMemsetAsync(gpu.flush, POISON, gpu.flush_bytes, gpu.stream));
    return s;
}

kvg_status room(uint64_t *bytes)
{
    const uint64_t reserve = 1ull << 30; /* for what CUDA itself allocates later */
    size_t unused = 0, all;
    kvg_status s = check("cudaMemGetInfo", cudaMemGetInfo(&unused, &all));
    *bytes = unused > reserve ? unused - reserve : 0;
    return s;
}

kvg_status upload(void *device, const void *host, size_t bytes)
{
    kvg_status s = kvg_gpu_upload(device, host, bytes, (kvg_stream *)gpu.stream);
    return s ? s : check("upload", cudaStreamSynchronize(gpu.stream)); /* `host` may go */
}

kvg_status download(void *host, const void *device, size_t bytes)
{
    return kvg_gpu_download(host, device, bytes, (kvg_stream *)gpu.stream);
}

unsigned blocks_for(uint64_t items, unsigned per_block, unsigned waves)
{
    const uint64_t need = (items + per_block - 1) / per_block, most = (uint64_t)gpu.multiprocessors * waves;
    return (unsigned)(need < 1 ? 1 : need < most ? need : most);
}

kvg_status fill(void *buffer, const kvg_bench_rows *rows, kvg_recipe recipe)
{
    uint64_t bits = rows->base | rows->bytes | 16;
    for (uint64_t stride : rows->stride) bits |= stride;
    const uint64_t unit = bits & (~bits + 1); /* the largest power of two, up to 16, that divides all */
    const uint64_t pieces = rows->bytes / unit * rows->count[0] * rows->count[1] * rows->count[2];
    const unsigned blocks = blocks_for(pieces, 256, 64);
    uint8_t *to = (uint8_t *)buffer;
    switch (unit) {
    case 16: kvg_fill_rows<16><<<blocks, 256, 0, gpu.stream>>>(to, *rows, recipe); break;
    case 8: kvg_fill_rows<8><<<blocks, 256, 0, gpu.stream>>>(to, *rows, recipe); break;
    case 4: kvg_fill_rows<4><<<blocks, 256, 0, gpu.stream>>>(to, *rows, recipe); break;
    default: kvg_fill_rows<1><<<blocks, 256, 0, gpu.stream>>>(to, *rows, recipe); break;
    }
    return check("fill", cudaGetLastError());
}

/* --- ops --- */

kvg_status workspace(const kvg_problem *problem, size_t *bytes)
{
    *bytes = 0;
    if (problem->op == KVG_OP_DECODE) return kvg_gpu_decode_workspace(problem, bytes);
    return kvg_gpu_check_rows(problem);
}

kvg_status launch(const kvg_bench_job *job)
{
    kvg_stream *stream = (kvg_stream *)gpu.stream;
    switch (job->problem->op) {
    case KVG_OP_DECODE: return kvg_gpu_decode(job->problem, job->in, job->out, job->workspace, stream);
    case KVG_OP_APPEND: return kvg_gpu_append(job->problem, job->in, job->out, stream);
    case KVG_OP_FLATTEN:
    case KVG_OP_EXPAND: return kvg_gpu_flatten(job->problem, job->in, job->out, stream);
    case KVG_OP_QUANTISE:
    case KVG_OP_DEQUANTISE:
    case KVG_OP_PROBE:
    case KVG_OP_MMA:
    case KVG_OP_MERGE:
    case KVG_OP_END: break;
    }
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no timing of this op on a GPU");
}

size_t outputs_of(const kvg_bench_job *job)
{
    return kvg_roles_tensors(kvg_op_get(job->problem->op)->outputs);
}

kvg_status poison(const kvg_bench_job *job)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < outputs_of(job) && !s; i++) {
        const kvg_tensor *t = &job->out[i];
        if (t->bytes) s = check("memset", cudaMemsetAsync(t->data, POISON, t->bytes, gpu.stream));
    }
    return s;
}

kvg_status run(const kvg_bench_job *job)
{
    kvg_status s = poison(job);
    if (!s) s = launch(job);
    return s ? s : check("the op", cudaStreamSynchronize(gpu.stream));
}

kvg_status checksum(const kvg_tensor *tensors, size_t count, uint64_t *out)
{
    kvg_status s = check("memset", cudaMemsetAsync(gpu.sum, 0, sizeof *gpu.sum, gpu.stream));
    for (size_t i = 0; i < count && !s; i++) {
        if (tensors[i].bytes == 0) continue;
        kvg_sum_bytes<<<blocks_for(tensors[i].bytes / 8, 256, 16), 256, 0, gpu.stream>>>(
            (const uint8_t *)tensors[i].data, tensors[i].bytes, i, gpu.sum);
        s = check("checksum", cudaGetLastError());
    }
    return s ? s : download(out, gpu.sum, sizeof *out);
}

/* --- one run of a series --- */

/* Ways to move bytes and do nothing else: which is fastest depends on how many there are. */
typedef void stream_kernel(kvg_stream_parts, uint4 *, uint64_t, uint64_t);
struct plain_shape {
    const char *name;
    int loads;      /* of a thread, at once */
    unsigned waves; /* CTAs for each multiprocessor, which stay; 0: one for each chunk */
    stream_kernel *read, *copy;
};
template <int LOADS, bool STREAMS> constexpr plain_shape shape_of(const char *name, unsigned waves)
{
    return {name, LOADS, waves, kvg_stream_words<LOADS, STREAMS, false>, kvg_stream_words<LOADS, STREAMS, true>};
}
const plain_shape shapes[] = {
    shape_of<1, true>("1 load, streaming", 0),  shape_of<2, true>("2 loads, streaming", 0),
    shape_of<4, true>("4 loads, streaming", 0), shape_of<8, true>("8 loads, streaming", 0),
    shape_of<1, false>("1 load", 0),            shape_of<2, false>("2 loads", 0),
    shape_of<4, false>("4 loads", 0),           shape_of<4, false>("4 loads, persistent", 4),
};
enum { TRIALS = 3 };

kvg_status move(const kvg_bench_job *job, const plain_shape &shape)
{
    kvg_stream_parts parts = {};
    const uint64_t chunk = (uint64_t)shape.loads * KVG_STREAM_THREADS;
    for (int i = 0; i < KVG_BENCH_PARTS; i++) {
        parts.data[i] = (const uint4 *)job->reads[i].data;
        parts.words[i] = job->reads[i].bytes / 16;
        parts.start[i] = parts.chunks;
        parts.chunks += (uint32_t)((parts.words[i] + chunk - 1) / chunk);
    }
    const unsigned blocks = shape.waves ? blocks_for(parts.chunks, 1, shape.waves) : parts.chunks;
    stream_kernel *kernel = job->writes ? shape.copy : shape.read;
    kernel<<<blocks, KVG_STREAM_THREADS, 0, gpu.stream>>>(parts, gpu.scratch, job->writes / 16, gpu.flush_bytes / 16);
    return check("the plain kernel", cudaGetLastError());
}

kvg_status flush_by_reading()
{
    kvg_read_through<<<gpu.multiprocessors * 4, 512, 0, gpu.stream>>>(gpu.flush, gpu.flush_bytes / 16, gpu.scratch);
    return check("flush", cudaGetLastError());
}

kvg_status flush_by_writing()
{
    return check("flush", cudaMemsetAsync(gpu.scratch, POISON, gpu.flush_bytes, gpu.stream));
}

kvg_status do_nothing()
{
    kvg_do_nothing<<<1, 1, 0, gpu.stream>>>();
    return check("an empty kernel", cudaGetLastError());
}

/* What a series runs, and what the L2 holds before. */
struct series {
    enum what { OP, GRAPH, PLAIN, EMPTY } what;
    enum before { CLEAN, DIRTY, SAME } before;
    bool quick;
};
const series all_series[KVG_BENCH_SERIES] = {
    {series::OP, series::CLEAN, true},    {series::PLAIN, series::CLEAN, true},  {series::GRAPH, series::CLEAN, false},
    {series::OP, series::DIRTY, false},   {series::PLAIN, series::DIRTY, false}, {series::OP, series::SAME, false},
    {series::PLAIN, series::SAME, false}, {series::EMPTY, series::CLEAN, true},
};

/* A case while it is timed. */
struct timing {
    const kvg_bench_job *job;
    cudaGraphExec_t graph;           /* of the op; null: none */
    const plain_shape *shape;        /* the fastest */
    std::vector<cudaEvent_t> events; /* pairs, by run and series */
};

kvg_status start(const series &s, const timing &t)
{
    switch (s.what) {
    case series::OP: return launch(t.job);
    case series::GRAPH: return check("a graph", cudaGraphLaunch(t.graph, gpu.stream));
    case series::PLAIN: return move(t.job, *t.shape);
    default: return do_nothing();
    }
}

kvg_status prepare(const series &s, const timing &t)
{
    kvg_status status = s.what == series::OP || s.what == series::GRAPH ? poison(t.job) : KVG_OK;
    if (status) return status;
    if (s.before == series::CLEAN) return flush_by_reading();
    return s.before == series::DIRTY ? flush_by_writing() : start(s, t);
}

kvg_status time_once(const series &s, const timing &t, const cudaEvent_t *pair)
{
    kvg_status status = prepare(s, t);
    if (!status) status = check("an event", cudaEventRecord(pair[0], gpu.stream));
    if (!status) status = start(s, t);
    return status ? status : check("an event", cudaEventRecord(pair[1], gpu.stream));
}

/* The shape whose fastest run of a few is the fastest. */
kvg_status choose_shape(timing &t)
{
    float fastest = 0;
    kvg_status s = KVG_OK;
    const plain_shape *best = &shapes[0];
    for (const plain_shape &shape : shapes) {
        for (int i = 0; i < TRIALS && !s; i++) {
            float ms = 0;
            t.shape = &shape;
            s = time_once(all_series[KVG_BENCH_COLD_PLAIN], t, t.events.data());
            if (!s) s = check("a plain run", cudaStreamSynchronize(gpu.stream));
            if (!s) s = check("an event", cudaEventElapsedTime(&ms, t.events[0], t.events[1]));
            if (fastest > 0 && ms >= fastest) continue;
            fastest = ms;
            best = &shape;
        }
    }
    t.shape = best;
    return s;
}

kvg_status capture(const kvg_bench_job *job, cudaGraphExec_t *out)
{
    cudaGraph_t graph = nullptr;
    kvg_status s = check("capture", cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
    if (s) return s;
    s = launch(job);
    const cudaError_t ended = cudaStreamEndCapture(gpu.stream, &graph);
    if (!s) s = check("capture", ended);
    if (!s) s = check("a graph", cudaGraphInstantiate(out, graph, 0));
    if (graph) (void)cudaGraphDestroy(graph);
    return s;
}

/* --- all runs --- */

/* The order of a round. COLD comes last: its outputs stay. */
const kvg_bench_series order[] = {KVG_BENCH_EMPTY,      KVG_BENCH_WARM_PLAIN, KVG_BENCH_WARM,
                                  KVG_BENCH_DIRTY_PLAIN, KVG_BENCH_DIRTY,     KVG_BENCH_GRAPH,
                                  KVG_BENCH_COLD_PLAIN, KVG_BENCH_COLD};

kvg_status queue_round(const timing &t, uint32_t run)
{
    kvg_status s = KVG_OK;
    for (kvg_bench_series which : order) {
        const series &now = all_series[which];
        if (t.job->quick && !now.quick) continue;
        if (!s) s = time_once(now, t, &t.events[2 * (run * KVG_BENCH_SERIES + which)]);
    }
    return s;
}

kvg_status collect(const timing &t, kvg_bench_result *r)
{
    kvg_status s = KVG_OK;
    for (uint32_t run = 0; run < t.job->runs; run++) {
        for (int i = 0; i < KVG_BENCH_SERIES && !s; i++) {
            const cudaEvent_t *pair = &t.events[2 * (run * KVG_BENCH_SERIES + i)];
            if (t.job->quick && !all_series[i].quick) continue;
            s = check("an event", cudaEventElapsedTime(&r->ms[i][run], pair[0], pair[1]));
            r->runs[i] = run + 1;
        }
    }
    return s;
}

kvg_status time_runs(const timing &t, kvg_bench_result *r)
{
    kvg_status s = kvg_gpu_clock_start(&gpu.clock, gpu.stream);
    for (uint32_t run = 0; run < t.job->runs && !s; run++) {
        s = queue_round(t, run);
        if (run == t.job->runs / 2) kvg_gpu_clock_ask(&gpu.clock, &r->clock);
    }
    if (!s) s = kvg_gpu_clock_stop(&gpu.clock, gpu.stream, &r->clock);
    return s ? s : collect(t, r);
}

kvg_status sum_as_graph(const timing &t, uint64_t *sum)
{
    kvg_status s = poison(t.job);
    if (!s) s = check("a graph", cudaGraphLaunch(t.graph, gpu.stream));
    return s ? s : checksum(t.job->out, outputs_of(t.job), sum);
}

kvg_status time_op(const kvg_bench_job *job, kvg_bench_result *r, uint64_t *as_graph)
{
    timing t = {job, nullptr, nullptr, std::vector<cudaEvent_t>(2 * job->runs * KVG_BENCH_SERIES)};
    *r = {};
    kvg_status s = KVG_OK;
    for (cudaEvent_t &event : t.events) {
        if (!s) s = check("an event", cudaEventCreate(&event));
    }
    if (!s && !job->quick) s = capture(job, &t.graph);
    if (!s && t.graph) s = sum_as_graph(t, as_graph);
    if (!s) s = choose_shape(t);
    if (!s) s = time_runs(t, r);
    if (!s && !t.graph) s = checksum(job->out, outputs_of(job), as_graph);
    if (!s) snprintf(r->plain, sizeof r->plain, "%s", t.shape->name);
    for (cudaEvent_t event : t.events) {
        if (event) (void)cudaEventDestroy(event);
    }
    if (t.graph) (void)cudaGraphExecDestroy(t.graph);
    return s;
}

const kvg_bench_device device = {
    "cuda", open_gpu, room, kvg_gpu_alloc, kvg_gpu_free, upload, download, fill, workspace, run, checksum, time_op,
};

} // namespace

const kvg_bench_device *kvg_gpu_bench(void)
{
    return &device;
}
