/* The interface between kvgold and an implementation that it judges: a shared library that exports one function,
 * `kvg_backend_export`, which returns one struct of facts and functions. kvgold's own kernels and its references are
 * the same struct. This header is the manual; docs/guide/plugin.md has a complete example and what happens to a
 * plug-in.
 *
 *     cc -std=c11 -shared -fPIC -I PREFIX/include/kvgold engine.c -o libengine.so
 *     kvgold check configs/ci_formats.json --backend ./libengine.so
 *
 * A plug-in includes this header alone (C11, C++17 or later) and links nothing of kvgold. Everything here keeps its
 * meaning as long as KVG_BACKEND_ABI stays the same.
 *
 * What runs. For each case kvgold makes inputs and hands them to one implementation of the plug-in. Another process
 * judges the answer, so the right answer is never in the memory of the plug-in. The plug-in runs in a process of its
 * own, which serves many cases of one backend, one after the other. If this process dies or hangs, the case fails, and
 * a new process takes the next case. Static state of a plug-in may therefore live through several cases. A plug-in must
 * remember nothing from one case to the next: each case has its own memory, and a pointer to the memory of an earlier
 * case points to pages that cannot be touched.
 *
 * Threads. kvgold asks one op at a time, always from the same thread. A plug-in may have threads of its own. All work
 * on the tensors must be over when `run` returns, or, for a backend with device memory, when `synchronise` returns.
 *
 * Floating-point mode. When `run` is called, rounding is to nearest and subnormals are kept. The mode must be the same
 * when `run` returns.
 *
 * Growth. New members are added at the end of kvg_backend and of kvg_device_memory. struct_size says how many members a
 * plug-in has, and a member that is 0 means the same as a member that is left out. So a newer kvgold opens an older
 * plug-in. An older kvgold opens a newer plug-in if all members that it does not know are 0. New fields of kvg_problem
 * are added at its end. problem_size says which fields a plug-in knows, and kvgold never asks a plug-in a problem that
 * sets another field. kvg_tensor, kvg_impl and the structs inside of kvg_problem keep their sizes. Values of enums are
 * never renumbered. New values may come, and a plug-in answers an unknown value with KVG_ERR_UNIMPLEMENTED. Any other
 * change needs a new KVG_BACKEND_ABI. */
#ifndef KVG_CORE_PLUGIN_H
#define KVG_CORE_PLUGIN_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVG_BACKEND_ABI = 6 };

/* A backend's queue of work. NULL: the default queue, or the only one. kvgold always passes NULL. */
typedef struct kvg_stream kvg_stream;

/* Runs one op on a problem (core/problem.h).
 *
 * `in` and `out` hold the tensors of the op's roles in the order of core/ops.def, K before V where a role exists for
 * each: of op quantise `in` is {k, v, k_tensor_scale, v_tensor_scale} and `out` is {k_codes, v_codes, k_scales,
 * v_scales}. Tensors are dense and row-major; docs/spec/formats.md, layouts.md and attention.md have their types and
 * shapes. A tensor that a problem does not have (the scales of f16) has 0 bytes, and its data may be NULL.
 *
 * Data lies in host memory, aligned to 64 bytes and to no larger power of two. If the backend has `memory` (below),
 * data lies in that memory, at a multiple of 256 bytes from the start of an allocation. Inputs must not be written.
 * Outputs hold other bytes before the call. Ops quantise, dequantise, mma, probe and decode write all bytes of their
 * outputs. Ops append, flatten and expand leave the bytes that they do not address as they were. No byte beyond the end
 * of a tensor may be written.
 *
 * KVG_OK: the outputs are the answer.
 * KVG_ERR_UNIMPLEMENTED: this implementation cannot do the problem, for example because of an unknown dialect.
 * KVG_ERR_DEVICE: a kernel of this op broke the device for this process. The process then ends.
 * KVG_ERR_DEVICE_LOST: the device is gone.
 * Any other status: the implementation failed, and so does the case. */
typedef kvg_status kvg_run_fn(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream);

/* An implementation of an op. kvgold asks the first implementation of a backend that fits a problem. If this one
 * returns KVG_ERR_UNIMPLEMENTED, that is the answer: kvgold tries no other. */
typedef struct kvg_impl {
    const char *name;  /* unique in its backend, shown in every result: <backend>_<op>_<format or any>_<arch> */
    kvg_op op;
    kvg_format format; /* of K and V; KVG_FORMAT_NONE: any */
    uint32_t needs;    /* bits of kvg_backend.caps that must be set */
    kvg_run_fn *run;
} kvg_impl;

/* Memory that kvgold itself cannot read, for example a GPU's. A backend with such memory gets every tensor there, each
 * in an allocation of its own between 64 KiB of guard bytes. kvgold uploads the inputs, the outputs with the bytes that
 * they hold before the call, and the guards. It calls `run`, then `synchronise`, and downloads everything. kvgold needs
 * no CUDA for this. All functions except `synchronise` must be given. If a function fails, the case fails as if `run`
 * had returned its status. */
typedef struct kvg_device_memory {
    uint32_t struct_size; /* sizeof(kvg_device_memory) */
    uint32_t reserved;    /* 0 */
    kvg_status (*alloc)(size_t bytes, void **out); /* aligned to 256 bytes or more; bytes > 0 */
    void (*release)(void *buffer);
    kvg_status (*upload)(void *device, const void *host, size_t bytes, kvg_stream *stream);
    kvg_status (*download)(void *host, const void *device, size_t bytes, kvg_stream *stream);
    kvg_status (*synchronise)(kvg_stream *stream); /* waits for all work; NULL: `run` and the copies wait themselves */
} kvg_device_memory;

/* What a plug-in is: facts and functions. */
typedef struct kvg_backend {
    uint32_t abi;          /* KVG_BACKEND_ABI */
    uint32_t struct_size;  /* sizeof(kvg_backend) */
    const char *name;      /* for people */
    const kvg_impl *impls; /* in order: the first implementation that fits a problem is asked */
    size_t impl_count;     /* 1 or more */
    uint32_t (*caps)(void); /* capabilities of this machine, as the bits that `needs` of an impl names; the plug-in
                               chooses their meaning. NULL: no bit is set */
    const char *(*error_text)(void); /* one line on this thread's last call that failed. NULL: no text. A plug-in that
                                        links kvgold's core gives its kvg_error_text */
    kvg_status (*ready)(void); /* runs a little on the device and waits for it; if it fails, the device is lost. kvgold
                                  calls it in a new process after a case that crashed, hung or lost the device. NULL:
                                  there is no device */

    /* A plug-in with a smaller struct_size leaves out the members from here on. */
    uint32_t problem_size;    /* sizeof(kvg_problem); 0: KVG_PROBLEM_FIRST_SIZE */
    uint32_t reserved;        /* 0 */
    const kvg_device_memory *memory; /* where tensors must lie; NULL: in host memory */
    uint32_t (*sm)(void);     /* compute capability of the GPU that runs the ops: 90 for 9.0, 0 without a GPU. "sms" of
                                 a capability file is compared with it (docs/guide/plugin.md). NULL: no GPU */
} kvg_backend;

/* Bytes of kvg_problem at the start of this ABI, on machines with pointers of 8 bytes. */
enum { KVG_PROBLEM_FIRST_SIZE = 208 };

#if defined(__GNUC__)
#define KVG_PLUGIN_VISIBLE __attribute__((visibility("default")))
#else
#define KVG_PLUGIN_VISIBLE
#endif

/* Stands before the definition of kvg_backend_export, in C and in C++:
 *
 *     KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void) { return &backend; }
 *
 * kvgold calls it once, in the process that then runs the cases. The struct, and everything that it points to, must not
 * change afterwards. */
#ifdef __cplusplus
#define KVG_PLUGIN_EXPORT extern "C" KVG_PLUGIN_VISIBLE
#else
#define KVG_PLUGIN_EXPORT KVG_PLUGIN_VISIBLE
#endif

/* The symbol that a plug-in exports. */
#define KVG_BACKEND_SYMBOL "kvg_backend_export"
typedef const kvg_backend *kvg_backend_export_fn(void);
KVG_PLUGIN_VISIBLE const kvg_backend *kvg_backend_export(void);

#ifdef __cplusplus
}
#endif
#endif
