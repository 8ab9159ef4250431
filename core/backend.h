/* Backends as the program sees them: choosing an implementation, opening a shared library. What a backend is, and what
 * its library must be like, is core/plugin.h. The reference, the CUDA kernels, a deliberately wrong backend and a third
 * party's library are all one struct, and one check loop judges them all. */
#ifndef KVG_CORE_BACKEND_H
#define KVG_CORE_BACKEND_H

#include "core/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVG_IMPL_NAME_SIZE = 128 }; /* of the name of an implementation, its 0 byte included */

/* The first implementation of `problem->op` that stores both sides and whose needs are met.
 * KVG_ERR_UNIMPLEMENTED if there is none, or if the backend is older than what the problem asks. */
kvg_status kvg_backend_choose(const kvg_backend *backend, const kvg_problem *problem, const kvg_impl **out) KVG_CHECKED;

/* Checks all that a plug-in says of itself (its versions, sizes, names, tables) and copies it into *out as this version
 * knows it: what an older plug-in leaves out is 0. `path` is for error texts. KVG_ERR_INVALID says what is wrong. */
kvg_status kvg_backend_take(const char *path, const kvg_backend *given, kvg_backend *out) KVG_CHECKED;

/* Opens a shared library, calls its export and takes what it gives. The library, and *out, stay until the process
 * ends. KVG_ERR_NOT_FOUND: there is no such library, or the linker cannot load it. */
kvg_status kvg_backend_open(const char *path, const kvg_backend **out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
