#include "paging/pool/pool_guest_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

kvg_status kvg_guest_library_open(const char *path, kvg_manager *out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return kvg_fail(KVG_ERR_NOT_FOUND, "cannot open the manager: %s", dlerror());
    kvg_manager_export_fn *export_manager;
    void *symbol = dlsym(library, KVG_MANAGER_SYMBOL);
    if (!symbol) return kvg_fail(KVG_ERR_INVALID, "%s exports no %s", path, KVG_MANAGER_SYMBOL);
    memcpy(&export_manager, &symbol, sizeof symbol); /* ISO C has no cast from object to function pointer */
    const kvg_manager *m = export_manager();
    if (!m || m->abi != KVG_MANAGER_ABI || m->struct_size < offsetof(kvg_manager, fork))
        return kvg_fail(KVG_ERR_INVALID, "%s: its manager has another ABI: build it with this kvgold's "
                        "paging/paging_plugin.h, and set struct_size", path);
    memcpy(out, m, m->struct_size < sizeof *out ? m->struct_size : sizeof *out);
    if (!m->name || !m->open || !m->close || !m->admit || !m->grow || !m->written || !m->release)
        return kvg_fail(KVG_ERR_INVALID, "%s: its manager lacks a name, or a function that is not optional", path);
    if (out->claims & KVG_MANAGER_SWAP && (!out->swap_out || !out->swap_in))
        return kvg_fail(KVG_ERR_INVALID, "%s: its manager claims KVG_MANAGER_SWAP and lacks swap_out or swap_in", path);
    return KVG_OK;
}
