/* A case of `kvgold bench` whose tensors lie on a device. Its cache may be too large for the host: the device fills it
 * by recipes (core/bench_recipe.h), and the host makes again what it needs of it. Every sequence has all of the case's
 * tokens, pages in random order; of op append every token has a slot. */
#ifndef KVG_HARNESS_BENCH_DEVICE_CASE_H
#define KVG_HARNESS_BENCH_DEVICE_CASE_H

#include "core/bench_device.h"
#include "harness/trial/judge/judge.h"

typedef struct kvg_device_case {
    const kvg_bench_device *device;
    const kvg_case *c;
    kvg_problem problem;              /* the case's, with the profile whose bits the device gives */
    const kvg_op_info *op;
    uint64_t seed;
    kvg_layout_map map;
    kvg_tensor host[KVG_MAX_TENSORS]; /* inputs; without data where the device alone has them */
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS]; /* on the device */
    void *workspace;
    uint32_t width, *order;           /* column w of sequence s is block order[s * width + w] */
    float tensor_scale[2];
} kvg_device_case;

/* The case's problem in a pool that holds every sequence whole, and with the profile whose bits the device gives where
 * a case of op decode names none: its chip's where there is a kernel, else simt.fma.v1. KVG_ERR_UNIMPLEMENTED: it does
 * not do the problem; a profile of another chip is such a case. */
kvg_status kvg_device_case_problem(const kvg_case *c, const kvg_bench_device *device, uint32_t sm,
                                   kvg_problem *out) KVG_CHECKED;

/* Bytes that the tensors of a case take on the device, and the most sequences of it for which `room` bytes do. */
uint64_t kvg_device_case_bytes(const kvg_problem *problem);
uint32_t kvg_device_case_most(const kvg_case *c, uint64_t room);

/* Allocates and fills. On failure, and at the end, kvg_device_case_free. */
kvg_status kvg_device_case_make(const kvg_case *c, const kvg_problem *problem, const kvg_bench_device *device,
                                kvg_device_case *out) KVG_CHECKED;
void kvg_device_case_free(kvg_device_case *d);

/* What the plain kernel of a case reads and writes, and the workspace; `runs` and `quick` are left 0. The bytes count K
 * and V and their scales (of op decode those that some query sees) and rows in the model type, nothing else. */
void kvg_device_case_job(kvg_device_case *d, kvg_bench_job *job);

/* Where a token lies. */
typedef struct kvg_device_place {
    uint32_t block, offset;
} kvg_device_place;
kvg_device_place kvg_device_case_place(const kvg_device_case *d, uint32_t sequence, uint32_t position);

/* Rows of q of the sequences before one. */
uint32_t kvg_device_case_rows_before(const kvg_device_case *d, uint32_t sequence);

/* What fills the rows of a pool (role CODES or SCALES of a side), and the rows of values: elements below 2, scales and
 * parameters so that K and V are about 1, neither NaN nor Inf. */
kvg_recipe kvg_device_recipe(kvg_role role, kvg_side side, kvg_format format, kvg_dtype dtype, uint64_t seed);
kvg_recipe kvg_device_case_recipe(const kvg_device_case *d, kvg_role role, kvg_side side);

/* Judges the outputs as they lie on the device: the rows of a sample of tokens, or of (sequence, head), against the
 * reference on the same bytes; then that the sampled cache is what its recipes say. A wrong bit is a FAIL, and so is a
 * NaN. Adds to r->bytes.compared. */
kvg_status kvg_device_judge(const kvg_device_case *d, kvg_result *r) KVG_CHECKED;

#endif
