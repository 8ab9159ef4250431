#include "core/backend.h"

#include <dlfcn.h>
#include <string.h>

static bool fits(const kvg_impl *impl, const kvg_problem *problem, uint32_t caps)
{
    if (impl->op != problem->op || (impl->needs & caps) != impl->needs) return false;
    if (impl->format == KVG_FORMAT_NONE) return true;
    return problem->storage[KVG_K].format == impl->format && problem->storage[KVG_V].format == impl->format;
}

kvg_status kvg_backend_choose(const kvg_backend *backend, const kvg_problem *problem, const kvg_impl **out)
{
    uint32_t caps = backend->caps ? backend->caps() : 0;
    for (size_t i = 0; i < backend->impl_count; i++) {
        if (fits(&backend->impls[i], problem, caps)) {
            *out = &backend->impls[i];
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "backend %s has no %s for K in %s and V in %s", backend->name,
                    kvg_op_get(problem->op)->name, kvg_format_get(problem->storage[KVG_K].format)->name,
                    kvg_format_get(problem->storage[KVG_V].format)->name);
}

kvg_status kvg_backend_open(const char *path, const kvg_backend **out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return kvg_fail(KVG_ERR_NOT_FOUND, "cannot open backend: %s", dlerror());
    kvg_backend_export_fn *export_backend;
    void *symbol = dlsym(library, KVG_BACKEND_SYMBOL);
    if (!symbol) return kvg_fail(KVG_ERR_INVALID, "%s exports no %s", path, KVG_BACKEND_SYMBOL);
    memcpy(&export_backend, &symbol, sizeof symbol); /* ISO C has no cast from object to function pointer */
    const kvg_backend *backend = export_backend();
    if (!backend || backend->abi != KVG_BACKEND_ABI || backend->struct_size != sizeof *backend) {
        return kvg_fail(KVG_ERR_INVALID, "%s: backend ABI %u, size %u; this kvgold wants ABI %d, size %zu", path,
                        backend ? backend->abi : 0, backend ? backend->struct_size : 0, KVG_BACKEND_ABI,
                        sizeof *backend);
    }
    *out = backend;
    return KVG_OK;
}
