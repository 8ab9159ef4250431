#include "core/backend.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Sizes that plug-ins are compiled with: core/plugin.h says which may grow, and how. */
_Static_assert(sizeof(kvg_tensor) == 56 && sizeof(kvg_impl) == 32, "another size of these is another ABI");
_Static_assert(sizeof(kvg_storage) == 16 && sizeof(kvg_paging) == 44 && sizeof(kvg_rope) == 68 &&
                   sizeof(kvg_attention) == 24, "structs inside of kvg_problem do not grow within an ABI");
_Static_assert(sizeof(kvg_problem) >= KVG_PROBLEM_FIRST_SIZE, "kvg_problem only grows");

enum {
    FIRST_SIZE = offsetof(kvg_backend, problem_size), /* of the smallest kvg_backend of this ABI */
    FIRST_MEMORY_SIZE = sizeof(kvg_device_memory),
    MAX_SIZE = 4096, /* of a struct of any future version of this ABI */
    MAX_IMPLS = 4096,
    MAX_NAME = 127
};

static bool fits(const kvg_impl *impl, const kvg_problem *problem, uint32_t caps)
{
    if (impl->op != problem->op || (impl->needs & caps) != impl->needs) return false;
    if (impl->format == KVG_FORMAT_NONE) return true;
    return problem->storage[KVG_K].format == impl->format && problem->storage[KVG_V].format == impl->format;
}

static bool is_zero(const void *bytes, size_t from, size_t to)
{
    const uint8_t *b = bytes;
    for (size_t i = from; i < to; i++) {
        if (b[i]) return false;
    }
    return true;
}

kvg_status kvg_backend_choose(const kvg_backend *backend, const kvg_problem *problem, const kvg_impl **out)
{
    const size_t known = backend->problem_size ? backend->problem_size : KVG_PROBLEM_FIRST_SIZE;
    if (!is_zero(problem, known, offsetof(kvg_problem, map))) { /* the map of a named layout is no news */
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "backend %s is older than a field of kvg_problem that this case sets",
                        backend->name);
    }
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

/* --- what a plug-in says of itself --- */

static bool is_name(const char *name)
{
    return name && name[0] && strnlen(name, MAX_NAME + 1) <= MAX_NAME;
}

/* Copies a struct that says how large it is: what is not there is 0, what is not known here must be. */
static kvg_status take_struct(const char *path, const char *what, const void *given, size_t given_size, size_t least,
                              void *out, size_t size)
{
    if (given_size < least || given_size > MAX_SIZE) {
        return kvg_fail(KVG_ERR_INVALID, "%s: struct_size of its %s is %zu: set it to sizeof(%s), %zu in this version",
                        path, what, given_size, what, size);
    }
    if (given_size > size && !is_zero(given, size, given_size)) {
        return kvg_fail(KVG_ERR_INVALID, "%s: its %s has members that this kvgold does not know: use a newer kvgold",
                        path, what);
    }
    memset(out, 0, size);
    memcpy(out, given, given_size < size ? given_size : size);
    return KVG_OK;
}

static kvg_status check_impl(const char *path, const kvg_backend *b, size_t index)
{
    const kvg_impl *impl = &b->impls[index];
    if (!is_name(impl->name)) {
        return kvg_fail(KVG_ERR_INVALID, "%s: impls[%zu] has no name, or one of more than %d bytes", path, index,
                        MAX_NAME);
    }
    if (!impl->run) return kvg_fail(KVG_ERR_INVALID, "%s: impls[%zu] (%s): run is NULL", path, index, impl->name);
    if (!kvg_op_get(impl->op) || (impl->format != KVG_FORMAT_NONE && !kvg_format_get(impl->format))) {
        return kvg_fail(KVG_ERR_INVALID, "%s: impls[%zu] (%s): op %d or format %d does not exist in this version", path,
                        index, impl->name, (int)impl->op, (int)impl->format);
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(b->impls[i].name, impl->name) == 0) {
            return kvg_fail(KVG_ERR_INVALID, "%s: impls[%zu] and impls[%zu] are both named '%s': results name them",
                            path, i, index, impl->name);
        }
    }
    return KVG_OK;
}

static kvg_status check_memory(const char *path, const kvg_device_memory *given)
{
    kvg_device_memory m;
    kvg_status s = take_struct(path, "kvg_device_memory", given, given->struct_size, FIRST_MEMORY_SIZE, &m, sizeof m);
    if (!s && !(m.alloc && m.release && m.upload && m.download)) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: its kvg_device_memory lacks alloc, release, upload or download", path);
    }
    return s;
}

kvg_status kvg_backend_take(const char *path, const kvg_backend *given, kvg_backend *out)
{
    if (!given) return kvg_fail(KVG_ERR_INVALID, "%s: %s returned NULL", path, KVG_BACKEND_SYMBOL);
    if (given->abi != KVG_BACKEND_ABI) {
        return kvg_fail(KVG_ERR_INVALID, "%s: its ABI is %u, this kvgold speaks %d: compile it with the core/plugin.h "
                        "of this version", path, given->abi, KVG_BACKEND_ABI);
    }
    kvg_status s = take_struct(path, "kvg_backend", given, given->struct_size, FIRST_SIZE, out, sizeof *out);
    if (s) return s;
    if (!is_name(out->name)) {
        return kvg_fail(KVG_ERR_INVALID, "%s: it has no name, or one of more than %d bytes", path, MAX_NAME);
    }
    if (!out->impls || out->impl_count == 0 || out->impl_count > MAX_IMPLS) {
        return kvg_fail(KVG_ERR_INVALID, "%s: it has no table of implementations: impls %s, impl_count %zu", path,
                        out->impls ? "is given" : "is NULL", out->impl_count);
    }
    for (size_t i = 0; i < out->impl_count && !s; i++) s = check_impl(path, out, i);
    if (!s && out->problem_size && (out->problem_size < KVG_PROBLEM_FIRST_SIZE || out->problem_size > MAX_SIZE)) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: problem_size is %u: set it to sizeof(kvg_problem)", path, out->problem_size);
    }
    if (!s && out->memory) s = check_memory(path, out->memory);
    return s;
}

kvg_status kvg_backend_open(const char *path, const kvg_backend **out)
{
    /* RTLD_NODELETE: its code stays even if it closes itself. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return kvg_fail(KVG_ERR_NOT_FOUND, "cannot open backend: %s", dlerror());
    kvg_backend_export_fn *export_backend;
    void *symbol = dlsym(library, KVG_BACKEND_SYMBOL);
    if (!symbol) return kvg_fail(KVG_ERR_INVALID, "%s exports no %s", path, KVG_BACKEND_SYMBOL);
    memcpy(&export_backend, &symbol, sizeof symbol); /* ISO C has no cast from object to function pointer */
    kvg_backend *taken = malloc(sizeof *taken); /* until the process ends */
    if (!taken) return kvg_fail(KVG_ERR_MEMORY, "no memory for a backend");
    kvg_status s = kvg_backend_take(path, export_backend(), taken);
    *out = taken;
    if (s) free(taken);
    return s;
}
