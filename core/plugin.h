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
 * What runs. For each case kvgold makes inputs, hands them to one implementation of the plug-in, and judges what comes
 * back, in another process: nothing of the right answer is ever in the memory of the plug-in. The plug-in runs in a
 * process of its own, which serves many cases one after the other and one backend only; if it dies or hangs, that
 * costs the case, and a new process goes on with the next. Static state of a plug-in thus lasts over several cases,
 * and nothing may be remembered from one case to the next: each has its own memory, and pointers to that of an earlier
 * case point to pages that cannot be touched.
 *
 * Threads. One op at a time is asked, always by the same thread. A plug-in may have threads of its own; when `run`
 * returns, or `synchronise` where there is one, all work on the tensors must be over.
 *
 * Floating-point mode. Round to nearest with subnormals is set when `run` is called, and must be when it returns.
 *
 * Growth. New members are added at the end of kvg_backend and of kvg_device_memory, and zero means what leaving them
 * out means: struct_size tells how many there are. A newer kvgold thus opens an older plug-in. An older kvgold opens a
 * newer plug-in if all that it does not know is zero. New fields of kvg_problem are added at its end: problem_size
 * tells which of them a plug-in knows, and it is never asked a problem that sets another. kvg_tensor, kvg_impl and the
 * structs inside of kvg_problem keep their sizes. Values of enums are never renumbered; new ones may come, and a
 * plug-in answers those that it does not know with KVG_ERR_UNIMPLEMENTED. What cannot grow so changes the ABI. */
#ifndef KVG_CORE_PLUGIN_H
#define KVG_CORE_PLUGIN_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVG_BACKEND_ABI = 6 };

/* A backend's queue of work; NULL: the only one there is, or the default one. kvgold always gives NULL. */
typedef struct kvg_stream kvg_stream;

/* Runs one op on a problem (core/problem.h).
 *
 * `in` and `out` hold the tensors of the op's roles in the order of core/ops.def, K before V where a role exists for
 * each: of op quantise `in` is {k, v, k_tensor_scale, v_tensor_scale} and `out` is {k_codes, v_codes, k_scales,
 * v_scales}. Dense, row-major, of the types and shapes of docs/spec/formats.md, layouts.md and attention.md. A tensor
 * that a problem does not have (the scales of f16) has 0 bytes, and its data may be NULL.
 *
 * Data lies in memory of the host, aligned to 64 bytes and to no more, or where `memory` below allocates it, at a
 * multiple of 256 bytes from the start of an allocation. Inputs must not be written. Outputs hold other bytes before
 * the call: an op that does not work on pools (quantise, dequantise, mma) writes all of them, and so do probe and
 * decode; append, flatten and expand leave those that they do not address. Not a byte beyond either may be written.
 *
 * KVG_OK: the outputs are the answer.
 * KVG_ERR_UNIMPLEMENTED: this implementation does not do the problem (a dialect that it does not know, for example).
 * KVG_ERR_DEVICE: a kernel of this op broke the device for this process, which then ends.
 * KVG_ERR_DEVICE_LOST: the device is gone.
 * Any other: the implementation failed, which fails the case. */
typedef kvg_status kvg_run_fn(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream);

/* An implementation: what it is for, and its function. The first of a backend that fits a problem is taken; its own
 * KVG_ERR_UNIMPLEMENTED then is the answer, no other is tried. */
typedef struct kvg_impl {
    const char *name;  /* unique in its backend, shown in every result; <backend>_<op>_<format or any>_<arch> */
    kvg_op op;
    kvg_format format; /* the one that stores K and V; KVG_FORMAT_NONE: any */
    uint32_t needs;    /* bits of kvg_backend.caps that must be set */
    kvg_run_fn *run;
} kvg_impl;

/* Memory that kvgold itself cannot read: of a GPU, say. A backend that has it gets every tensor there, each in an
 * allocation of its own between 64 KiB of guard bytes; kvgold uploads inputs, outputs as they are before the call, and
 * guards, calls `run`, then `synchronise`, and downloads everything. kvgold itself needs no CUDA for it. All functions
 * but `synchronise` must be given. A failure of any of them is the case's, as if `run` had returned it. */
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
    const char *name;      /* a word for people */
    const kvg_impl *impls; /* ordered: the first that fits is taken */
    size_t impl_count;     /* 1 or more */
    uint32_t (*caps)(void); /* what this machine can do, as bits that `needs` of an impl asks for: their meaning is the
                               plug-in's own. NULL: none */
    const char *(*error_text)(void); /* what went wrong in this thread's last call that failed, one line. NULL: no text.
                                        A plug-in that links kvgold's core gives its kvg_error_text */
    kvg_status (*ready)(void); /* runs a little on the device and waits for it; any failure: the device is lost. Asked
                                  in a new process after a case that crashed, hung or lost the device. NULL: there is
                                  none to ask */

    /* Since the first plug-ins of this ABI; a smaller struct_size leaves them out. */
    uint32_t problem_size;    /* sizeof(kvg_problem); 0: KVG_PROBLEM_FIRST_SIZE */
    uint32_t reserved;        /* 0 */
    const kvg_device_memory *memory; /* where tensors must lie; NULL: in memory of the host */
    uint32_t (*sm)(void);     /* compute capability of the GPU that runs the ops, 90 for 9.0, 0 if there is none: what
                                 "sms" of a capability file is compared with (docs/guide/plugin.md). NULL: no GPU */
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
 * Called once, in the process that then runs the cases. The struct and all that it points to stay as they are. */
#ifdef __cplusplus
#define KVG_PLUGIN_EXPORT extern "C" KVG_PLUGIN_VISIBLE
#else
#define KVG_PLUGIN_EXPORT KVG_PLUGIN_VISIBLE
#endif

/* The one symbol. */
#define KVG_BACKEND_SYMBOL "kvg_backend_export"
typedef const kvg_backend *kvg_backend_export_fn(void);
KVG_PLUGIN_VISIBLE const kvg_backend *kvg_backend_export(void);

#ifdef __cplusplus
}
#endif
#endif
