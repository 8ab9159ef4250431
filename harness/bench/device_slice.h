/* A small part of a case on a device, made again on the host and answered by the reference: what
 * the device's outputs are set against. Part of harness/bench/device_case.h. */
#ifndef KVG_HARNESS_BENCH_DEVICE_SLICE_H
#define KVG_HARNESS_BENCH_DEVICE_SLICE_H

#include "harness/bench/device_case.h"
#include "support/tensor_set.h"

enum { KVG_DEVICE_RUN = 64 }; /* tokens of a slice that is not decode's */

typedef struct kvg_device_slice {
    kvg_problem problem;
    kvg_layout_map map;
    kvg_tensor_set in, out;
} kvg_device_slice;

/* Up to KVG_DEVICE_RUN tokens from a position of a sequence on, all heads, as one sequence in one
 * block: op flatten, or expand where the case is one. */
kvg_status kvg_device_slice_flat(const kvg_device_case *d, uint32_t sequence, uint32_t position,
                                 kvg_device_slice *out) KVG_CHECKED;

/* The same tokens of a case of op append, stored. */
kvg_status kvg_device_slice_append(const kvg_device_case *d, uint32_t sequence, uint32_t position,
                                   kvg_device_slice *out) KVG_CHECKED;

/* Rows of op decode: of one sequence and KV head, under query heads `head` to `head + heads - 1` of
 * its group, query tokens `query` to `query + queries - 1` of the sequence. */
typedef struct kvg_device_rows {
    uint32_t sequence, kv_head, head, heads, query, queries;
} kvg_device_rows;

/* Op decode of such rows alone, as if the sequence ended with the last of them. */
kvg_status kvg_device_slice_decode(const kvg_device_case *d, const kvg_device_rows *rows, kvg_device_slice *out)
    KVG_CHECKED;

/* Also after a failure. */
void kvg_device_slice_free(kvg_device_slice *slice);

#endif
