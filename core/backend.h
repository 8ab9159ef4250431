/* Backends: sets of implementations of the ops. The reference, the CUDA kernels, a deliberately wrong backend and a
 * third party's shared library are all this one struct, and one check loop judges them all. */
#ifndef KVG_CORE_BACKEND_H
#define KVG_CORE_BACKEND_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVG_BACKEND_ABI = 5 };

typedef struct kvg_stream kvg_stream; /* a backend's queue of work; NULL on the CPU */

/* Runs one op. `in` and `out` hold the tensors of the op's role lists in order (core/ops.def), sized by
 * kvg_problem_tensor. Inputs must not be written; a paged op leaves the bytes of `out` that it does not address.
 * KVG_ERR_UNIMPLEMENTED: this implementation does not do the problem (a dialect it does not know, for example).
 * KVG_ERR_DEVICE: a kernel of this op broke the device for this process, which then ends. KVG_ERR_DEVICE_LOST: the
 * device is gone. */
typedef kvg_status kvg_run_fn(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream);

typedef struct kvg_impl {
    const char *name;  /* <backend>_<op>_<format or any>_<arch> */
    kvg_op op;
    kvg_format format; /* KVG_FORMAT_NONE: every format */
    uint32_t needs;    /* capability bits that must be present */
    kvg_run_fn *run;
} kvg_impl;

typedef struct kvg_backend {
    uint32_t abi;         /* KVG_BACKEND_ABI */
    uint32_t struct_size; /* sizeof(kvg_backend) */
    const char *name;
    const kvg_impl *impls; /* ordered: the first that fits is taken */
    size_t impl_count;
    uint32_t (*caps)(void); /* capability bits of this machine; NULL: none */
    const char *(*error_text)(
        void); /* text of this thread's last failure, one line; a library that links its own copy of
                                        core/status.c points this at its kvg_error_text. NULL: no text */
    kvg_status (*ready)(void); /* runs a little on the device and waits for it; any failure: the device is lost. Asked
                                  in a new process after a case that crashed, hung or lost the device. NULL: there is
                                  none to ask */
} kvg_backend;

/* The first implementation of `problem->op` that stores both sides and whose needs are met.
 * KVG_ERR_UNIMPLEMENTED if there is none. */
kvg_status kvg_backend_choose(const kvg_backend *backend, const kvg_problem *problem, const kvg_impl **out) KVG_CHECKED;

/* The one symbol that a shared library exports to be a backend: returns a static struct. */
#define KVG_BACKEND_SYMBOL "kvg_backend_export"
typedef const kvg_backend *kvg_backend_export_fn(void);

/* Opens a shared library and checks its ABI and size fields. The library stays open until the process ends. */
kvg_status kvg_backend_open(const char *path, const kvg_backend **out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
