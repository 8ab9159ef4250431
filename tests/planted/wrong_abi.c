/* A shared library that claims another ABI: it must be refused, not called. */
#include "core/backend.h"

static const kvg_backend backend = {.abi = KVG_BACKEND_ABI + 1, .struct_size = sizeof backend, .name = "wrong_abi"};

const kvg_backend *kvg_backend_export(void);
const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
