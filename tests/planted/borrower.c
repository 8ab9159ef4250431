/* Stores bf16 as it is, or answers by a library that it opens in its run: the number of KV heads chooses. It links
 * nothing of kvgold. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin.h"

enum planted {
    OWN = 1,
    SECOND = 2,   /* by the second reference, a plug-in of kvgold */
    REFERENCE = 3 /* by kvgold's reference, which planted plug-ins hold */
};

typedef union borrowed {
    void *found; /* dlsym gives functions as object pointers */
    const kvg_backend *(*export)(void);
    kvg_status (*reference)(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out);
} borrowed;

/* A function of a library beside this one. */
static borrowed borrow(const char *file, const char *name)
{
    static const char here;
    Dl_info self;
    char path[4096];
    if (!dladdr(&here, &self)) abort();
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - self.dli_fname), self.dli_fname, file);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) abort();
    return (borrowed){dlsym(library, name)};
}

static kvg_status run_second(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_impl *impl = borrow("libkvgold_slowref.so", "kvg_backend_export").export()->impls;
    while (impl->op != p->op || (impl->format && impl->format != p->storage[KVG_K].format)) impl++;
    return impl->run(p, in, out, NULL);
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (p->kv_heads == SECOND) return run_second(p, in, out);
    if (p->kv_heads == REFERENCE) return borrow("libkvgold_lazy.so", "kvg_reference_run").reference(p, in, out);
    for (int side = KVG_K; side <= KVG_V; side++) memcpy(out[side].data, in[side].data, out[side].bytes);
    return KVG_OK;
}

static const kvg_impl impl = {"borrower_quantise", KVG_OP_QUANTISE, KVG_FORMAT_BF16, 0, run};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "borrower", .impls = &impl, .impl_count = 1};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
