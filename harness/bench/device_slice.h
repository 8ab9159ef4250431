/* A small part of a case on a device, made again on the host and answered by the reference: what the device's outputs
 * are set against. Part of harness/bench/device_case.h. */
#ifndef KVG_HARNESS_BENCH_DEVICE_SLICE_H
#define KVG_HARNESS_BENCH_DEVICE_SLICE_H

#include "harness/bench/device_case.h"
#include "harness/support/tensor_set.h"

enum { KVG_DEVICE_RUN = 64 }; /* tokens of a slice that is not decode's */

typedef struct kvg_device_slice {
    kvg_problem problem;
    kvg_layout_map map;
    kvg_tensor_set in, out;
} kvg_device_slice;

/* Up to KVG_DEVICE_RUN tokens from a position of a sequence on, all heads, as one sequence in one block: op flatten, or
 * expand where the case is one. */
kvg_status kvg_device_slice_flat(const kvg_device_case *d, uint32_t sequence, uint32_t position,
                                 kvg_device_slice *out) KVG_CHECKED;

/* The same tokens of a case of op append, stored. */
kvg_status kvg_device_slice_append(const kvg_device_case *d, uint32_t sequence, uint32_t position,
                                   kvg_device_slice *out) KVG_CHECKED;

/* Op decode of one sequence and KV head, under query heads `first` to `first + heads - 1` of its group. */
kvg_status kvg_device_slice_decode(const kvg_device_case *d, uint32_t sequence, uint32_t kv_head, uint32_t first,
                                   uint32_t heads, kvg_device_slice *out) KVG_CHECKED;

/* Also after a failure. */
void kvg_device_slice_free(kvg_device_slice *slice);

#endif
