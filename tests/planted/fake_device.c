/* A plug-in with memory that the host cannot reach by its pointers: they are off by a distance that no address has.
 * Work is done when it is waited for, as on a stream. The number of KV heads chooses what goes wrong:
 * tests/planted/fake_device.json has a case for each. */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

enum planted {
    WRITES_PAST = 2,   /* a byte behind an output: no page there is unmapped */
    WRITES_BEFORE = 3,
    WRITES_FAR = 4,    /* 60000 bytes behind */
    WRITES_INPUT = 5,
    FAILS_LATE = 6,    /* where it is waited for */
    NO_MEMORY = 7,
    BREAKS = 8,        /* KVG_ERR_DEVICE where it is downloaded */
    LEAVES_ALL = 9     /* never does the work */
};

static const uintptr_t DISTANCE = (uintptr_t)1 << 60;

static struct {
    bool waiting;
    kvg_problem problem;
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
} job;
static unsigned heads; /* of the last problem: what memory does next */
static size_t live;    /* allocations */

static void *host(const void *device)
{
    return (void *)((uintptr_t)device - DISTANCE);
}

static kvg_status alloc(size_t bytes, void **out)
{
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!p) return kvg_fail(KVG_ERR_MEMORY, "fake device: no memory");
    live++;
    *out = (void *)((uintptr_t)p + DISTANCE);
    return KVG_OK;
}

static void release(void *buffer)
{
    free(host(buffer));
    if (--live == 0) printf("fake device: all is released\n");
}

static kvg_status upload(void *device, const void *from, size_t bytes, kvg_stream *stream)
{
    (void)stream;
    memcpy(host(device), from, bytes);
    return KVG_OK;
}

static kvg_status download(void *to, const void *device, size_t bytes, kvg_stream *stream)
{
    (void)stream;
    if (heads == BREAKS) return kvg_fail(KVG_ERR_DEVICE, "fake device: broken");
    memcpy(to, host(device), bytes);
    return KVG_OK;
}

static void misbehave(void)
{
    volatile uint8_t *output = job.out[0].data, *input = job.in[0].data;
    switch ((enum planted)heads) {
    case WRITES_PAST: output[job.out[0].bytes] ^= 0xFF; break;
    case WRITES_BEFORE: output[-1] ^= 0xFF; break;
    case WRITES_FAR: output[job.out[0].bytes + 60000] ^= 0xFF; break;
    case WRITES_INPUT: input[1] ^= 0x10; break;
    default: break;
    }
}

static kvg_status synchronise(kvg_stream *stream)
{
    (void)stream;
    if (!job.waiting) return KVG_OK;
    job.waiting = false;
    if (heads == FAILS_LATE) return kvg_fail(KVG_ERR_INVALID, "fake device: failed late");
    kvg_status s = kvg_reference_run(&job.problem, job.in, job.out);
    if (!s) misbehave();
    return s;
}

/* Queues the op: the tensors of the caller are copied, as its arrays may be gone when the work is done. */
static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_op_info *op = kvg_op_get(p->op);
    heads = p->kv_heads;
    if (heads == NO_MEMORY) return kvg_fail(KVG_ERR_MEMORY, "fake device: no workspace");
    job.problem = *p;
    for (size_t i = 0; i < kvg_roles_tensors(op->inputs); i++) {
        job.in[i] = in[i];
        if (in[i].bytes) job.in[i].data = host(in[i].data);
    }
    for (size_t i = 0; i < kvg_roles_tensors(op->outputs); i++) {
        job.out[i] = out[i];
        if (out[i].bytes) job.out[i].data = host(out[i].data);
    }
    job.waiting = heads != LEAVES_ALL;
    return KVG_OK;
}

static uint32_t sm(void)
{
    return 77;
}

static const kvg_impl impls[] = {
#define OP(ENUM, id, name, paged, inputs, outputs, summary) {"fake_" name, KVG_OP_##ENUM, KVG_FORMAT_NONE, 0, run},
#include "core/ops.def"
#undef OP
};
static const kvg_device_memory memory = {sizeof memory, 0, alloc, release, upload, download, synchronise};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "fake_device",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
    .problem_size = sizeof(kvg_problem),
    .memory = &memory,
    .sm = sm,
};

/* Rewrites the capability file that KVGOLD_FAKE_CLAIMS names: there is no claim any more. */
KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    FILE *f = getenv("KVGOLD_FAKE_CLAIMS") ? fopen(getenv("KVGOLD_FAKE_CLAIMS"), "w") : NULL;
    if (f) fputs("{\"kvgold_capabilities\": 1, \"claims\": []}", f);
    if (f) fclose(f);
    return &backend;
}
