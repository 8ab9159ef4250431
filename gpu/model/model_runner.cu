/* A model's runner: each step checked, uploaded, queued or replayed from a CUDA graph, and its logits fetched. */
#include <cstdlib>
#include <cstring>

#include "gpu/device/cuda_status.cuh"
#include "gpu/gpu.h"
#include "gpu/model/model_device.h"
#include "gpu/model/model_check.h"

namespace {

enum { GRAPHS = 32 };

struct runner {
    kvg_model_setup setup;
    kvg_gpu_model *model;
    cudaStream_t stream;
    bool replays;
    struct {
        kvg_gpu_model_shape shape;
        cudaGraphExec_t graph;
    } graphs[GRAPHS]; /* the oldest goes first */
    uint32_t captured;
};

kvg_status check(const char *what, cudaError_t error)
{
    return kvg_cuda_status(what, error);
}

kvg_stream *stream_of(const runner *r)
{
    return (kvg_stream *)r->stream;
}

/* --- graphs --- */

kvg_status capture(runner *r, const kvg_gpu_model_shape &shape, cudaGraphExec_t *out)
{
    cudaGraph_t graph = nullptr;
    kvg_status s = check("capture", cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
    if (s) return s;
    s = kvg_gpu_model_queue(r->model, &shape, KVG_GPU_MODEL_ALL, stream_of(r));
    const cudaError_t ended = cudaStreamEndCapture(r->stream, &graph);
    if (!s) s = check("capture", ended);
    if (!s) s = check("a graph", cudaGraphInstantiate(out, graph, 0));
    if (graph) (void)cudaGraphDestroy(graph);
    return s;
}

kvg_status replay(runner *r, const kvg_gpu_model_shape &shape)
{
    for (uint32_t i = 0; i < GRAPHS && i < r->captured; i++) {
        if (memcmp(&r->graphs[i].shape, &shape, sizeof shape) != 0) continue;
        return check("a graph", cudaGraphLaunch(r->graphs[i].graph, r->stream));
    }
    auto &place = r->graphs[r->captured % GRAPHS];
    cudaGraphExec_t graph = nullptr;
    kvg_status s = capture(r, shape, &graph);
    if (s) return s;
    if (place.graph) (void)cudaGraphExecDestroy(place.graph);
    place = {shape, graph};
    r->captured++;
    return check("a graph", cudaGraphLaunch(graph, r->stream));
}

/* --- the runner --- */

void close_runner(void *opened)
{
    runner *r = (runner *)opened;
    if (!r) return;
    for (auto &place : r->graphs) {
        if (place.graph) (void)cudaGraphExecDestroy(place.graph);
    }
    if (r->stream) (void)cudaStreamDestroy(r->stream);
    kvg_gpu_model_close(r->model);
    free(r);
}

kvg_status open_runner(const kvg_model_setup *setup, bool replays, void **out)
{
    runner *r = (runner *)calloc(1, sizeof *r);
    *out = nullptr;
    if (!r) return kvg_fail(KVG_ERR_MEMORY, "no memory for a runner");
    r->setup = *setup;
    r->replays = replays;
    kvg_status s = kvg_gpu_model_open(setup, &r->model);
    if (!s) s = check("a stream", cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    if (s) close_runner(r);
    else *out = r;
    return s;
}

kvg_status open_eager(const kvg_model_setup *setup, void **out)
{
    return open_runner(setup, false, out);
}

kvg_status open_graph(const kvg_model_setup *setup, void **out)
{
    return open_runner(setup, true, out);
}

kvg_status step_model(void *opened, const kvg_model_step *step)
{
    runner *r = (runner *)opened;
    const size_t bytes = (size_t)step->wanted * r->setup.config->vocab * sizeof(float);
    kvg_status s = kvg_gpu_model_check_step(&r->setup, step);
    if (s) return s;
    const kvg_gpu_model_shape shape = kvg_gpu_model_shape_of(r->model, step);
    s = kvg_gpu_model_upload(r->model, step, stream_of(r));
    if (!s) s = r->replays ? replay(r, shape) : kvg_gpu_model_queue(r->model, &shape, KVG_GPU_MODEL_ALL, stream_of(r));
    if (!s && bytes) s = kvg_gpu_download(step->logits, kvg_gpu_model_logits(r->model), bytes, stream_of(r));
    const cudaError_t ended = cudaStreamSynchronize(r->stream); /* though it failed: the next step uploads again */
    return s ? s : check("a step", ended);
}

kvg_status read_pool(void *opened, kvg_role role, kvg_side side, void *out)
{
    runner *r = (runner *)opened;
    uint64_t bytes;
    const void *pool = kvg_gpu_model_pool(r->model, role, side, &bytes);
    return bytes ? kvg_gpu_download(out, pool, bytes, stream_of(r)) : KVG_OK;
}

const kvg_model_runner eager = {"cuda", open_eager, close_runner, step_model, read_pool};
const kvg_model_runner replaying = {"cuda graph", open_graph, close_runner, step_model, read_pool};

} // namespace

const kvg_model_runner *kvg_gpu_model_runner(void)
{
    return &eager;
}

const kvg_model_runner *kvg_gpu_model_runner_graph(void)
{
    return &replaying;
}
