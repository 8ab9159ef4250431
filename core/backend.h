/* Backends as the program sees them: how it chooses an implementation and opens a shared library.
 * core/plugin.h says what a backend is and what its library must provide. The reference, the CUDA
 * kernels, the deliberately wrong backend and a third party's library are all the same struct, and
 * one loop judges them all. */
#ifndef KVG_CORE_BACKEND_H
#define KVG_CORE_BACKEND_H

#include "core/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVG_IMPL_NAME_SIZE = 128 }; /* bytes of an implementation's name, with its 0 byte */

/* Sets *out to the backend's first implementation of `problem->op` that stores both sides and whose
 * `needs` are met. KVG_ERR_UNIMPLEMENTED: there is none, or the problem sets a field that the
 * backend is too old to know. */
kvg_status kvg_backend_choose(const kvg_backend *backend, const kvg_problem *problem, const kvg_impl **out) KVG_CHECKED;

/* Checks everything that a plug-in says about itself (versions, sizes, names, tables) and copies it
 * to *out. Members that an older plug-in leaves out become 0. `path` is used in error texts only.
 * KVG_ERR_INVALID says what is wrong. */
kvg_status kvg_backend_take(const char *path, const kvg_backend *given, kvg_backend *out) KVG_CHECKED;

/* Opens a shared library, calls its export and checks the result with kvg_backend_take. The library
 * and *out stay valid until the process ends. KVG_ERR_NOT_FOUND: the library does not exist, or the
 * linker cannot load it. */
kvg_status kvg_backend_open(const char *path, const kvg_backend **out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
