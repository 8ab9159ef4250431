/* What `kvgold bench` needs of a machine whose memory is not the host's: its memory, its ops on tensors that already
 * lie there, and its clock. gpu/gpu.h has one for CUDA. Every pointer of a tensor is the device's; a process uses one
 * device, and calls `open` first. */
#ifndef KVG_CORE_BENCH_DEVICE_H
#define KVG_CORE_BENCH_DEVICE_H

#include "core/bench_recipe.h"
#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_bench_info {
    char name[128];
    uint32_t sm; /* compute capability, 90 for 9.0 */
    uint64_t memory_bytes, l2_bytes;
} kvg_bench_info;

/* Rows of a cache: that of (block, head, token) starts at base + block * stride[0] + head * stride[1] + token *
 * stride[2] of a buffer. */
typedef struct kvg_bench_rows {
    uint64_t base, stride[3];
    uint32_t count[3], bytes;
} kvg_bench_rows;

/* What is timed, each run of it between two events. `plain` moves the bytes that the op must move, and does nothing
 * else. */
typedef enum kvg_bench_series {
    KVG_BENCH_COLD,        /* the op, after the L2 was filled with lines of another buffer by reading it */
    KVG_BENCH_COLD_PLAIN,
    KVG_BENCH_GRAPH,       /* the op as a graph that was captured once, as cold */
    KVG_BENCH_DIRTY,       /* after the L2 was filled by writing: its lines go to memory while the op runs */
    KVG_BENCH_DIRTY_PLAIN,
    KVG_BENCH_WARM,        /* right after the same */
    KVG_BENCH_WARM_PLAIN,
    KVG_BENCH_EMPTY,       /* a kernel that does nothing: what the events themselves show */
    KVG_BENCH_SERIES
} kvg_bench_series;

enum { KVG_BENCH_MOST_RUNS = 64, KVG_BENCH_PARTS = 4 };

typedef struct kvg_bench_job {
    const kvg_problem *problem;
    const kvg_tensor *in;
    kvg_tensor *out;
    void *workspace;
    struct {
        const void *data;
        uint64_t bytes;
    } reads[KVG_BENCH_PARTS]; /* what the plain kernel reads */
    uint64_t writes;          /* bytes that it writes, elsewhere */
    uint32_t runs;            /* of each series; at most KVG_BENCH_MOST_RUNS */
    bool quick;               /* series COLD, COLD_PLAIN and EMPTY alone */
} kvg_bench_job;

/* The multiprocessors' clock while something was timed. */
typedef struct kvg_bench_clock {
    double mhz;        /* over all of it, by their own counters; 0: unknown */
    bool driver_knows; /* the driver's own words, while it was under way */
    uint32_t driver_mhz, power_mw;
    uint64_t throttle; /* reasons for a lower clock, as bits: nvmlClocksEventReasons */
} kvg_bench_clock;

typedef struct kvg_bench_result {
    uint32_t runs[KVG_BENCH_SERIES]; /* 0: not timed */
    float ms[KVG_BENCH_SERIES][KVG_BENCH_MOST_RUNS];
    char plain[32];          /* which of its plain kernels the device found the fastest */
    kvg_bench_clock clock;
} kvg_bench_result;

typedef struct kvg_bench_device {
    const char *backend; /* the name of the backend whose ops these are */
    kvg_status (*open)(kvg_bench_info *out); /* KVG_ERR_UNIMPLEMENTED: there is no device */
    kvg_status (*room)(uint64_t *bytes);     /* that can be allocated */
    kvg_status (*alloc)(size_t bytes, void **out);
    void (*free)(void *buffer);
    kvg_status (*upload)(void *device, const void *host, size_t bytes);
    kvg_status (*download)(void *host, const void *device, size_t bytes); /* after all work */
    kvg_status (*fill)(void *buffer, const kvg_bench_rows *rows, kvg_recipe recipe);
    /* KVG_ERR_UNIMPLEMENTED where there is no kernel for the problem. */
    kvg_status (*workspace)(const kvg_problem *problem, size_t *bytes);
    /* The op, once, into outputs that hold nothing of it before. */
    kvg_status (*run)(const kvg_bench_job *job);
    kvg_status (*checksum)(const kvg_tensor *tensors, size_t count, uint64_t *out); /* of every byte */
    /* Runs the series in turn, `runs` times. The outputs are those of the last timed run of COLD. *as_graph: the
     * checksum that the graph's outputs had; that of COLD where there is no graph. */
    kvg_status (*time)(const kvg_bench_job *job, kvg_bench_result *result, uint64_t *as_graph);
} kvg_bench_device;

#ifdef __cplusplus
}
#endif
#endif
