/* Right, and the reply of its process says a time that is not the run's: the plug-in writes the reply itself, and
 * kvgold's own reply to the same call comes too late to be read. The number of KV heads chooses the time. */
#define _DEFAULT_SOURCE /* usleep */
#include <math.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/candidate/candidate_call.h"
#include "reference/reference.h"

static const double milliseconds[] = {
    [2] = -5,
    [3] = NAN,
    [4] = 1e6,   /* longer than the call */
    [5] = 0.001, /* of a run of 20 ms */
    [6] = 1e-9,  /* of a short run */
};

static void forge(uint32_t number, double time)
{
    kvg_reply r = {.number = number, .milliseconds = time, .impl = "forger_quantise"};
    struct stat info;
    int fd = 3;
    while (fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode)) fd++;
    send(fd, &r, sizeof r, MSG_NOSIGNAL);
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const kvg_call *call = (const kvg_call *)((const char *)in - offsetof(kvg_call, tensors));
    (void)stream;
    const kvg_status s = kvg_reference_run(p, in, out);
    if (p->kv_heads == 5) usleep(20000);
    if (p->kv_heads > 1) forge(call->number, milliseconds[p->kv_heads]);
    return s;
}

static const kvg_impl impl = {"forger_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "forger",
    .impls = &impl,
    .impl_count = 1,
    .error_text = kvg_error_text,
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
