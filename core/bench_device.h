/* What `kvgold bench` needs of a device with memory of its own: the memory, the ops on tensors that
 * already lie there, and times. gpu/gpu.h has such a struct for CUDA. All data pointers of tensors
 * are device pointers. A process uses one device, and calls `open` first. */
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
    double bytes_per_us; /* that its memory moves at most, as the device reports; 0: unknown */
} kvg_bench_info;

/* Where the rows of a cache lie in a buffer: row (block, head, token) starts at base + block *
 * stride[0] + head * stride[1] + token * stride[2]. */
typedef struct kvg_bench_rows {
    uint64_t base, stride[3];
    uint32_t count[3], bytes;
} kvg_bench_rows;

/* The series of runs. Each run is timed by two events. `plain` means a kernel that moves the bytes
 * that the op must move, and does nothing else. */
typedef enum kvg_bench_series {
    KVG_BENCH_COLD,        /* the op, after reads of another buffer filled the L2 with clean lines */
    KVG_BENCH_COLD_PLAIN,
    KVG_BENCH_GRAPH,       /* as COLD, with the op as a graph that was captured once */
    KVG_BENCH_DIRTY,       /* the op, after writes to another buffer filled the L2, which writes them back meanwhile */
    KVG_BENCH_DIRTY_PLAIN,
    KVG_BENCH_WARM,        /* right after a run of the same */
    KVG_BENCH_WARM_PLAIN,
    KVG_BENCH_EMPTY,       /* a kernel that does nothing: the time that the events themselves show */
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
    } reads[KVG_BENCH_PARTS]; /* memory that the plain kernel reads */
    uint64_t writes;          /* bytes that the plain kernel writes, to other memory than the op's */
    uint32_t runs;            /* of each series; at most KVG_BENCH_MOST_RUNS */
    bool quick;               /* only the series COLD, COLD_PLAIN and EMPTY */
} kvg_bench_job;

/* Clock of the multiprocessors during a measurement. */
typedef struct kvg_bench_clock {
    double mhz;        /* mean over the whole measurement, from their cycle counters; 0: unknown */
    bool driver_knows; /* true: the driver (NVML) reported the fields below during the measurement */
    uint32_t driver_mhz, power_mw;
    uint64_t throttle; /* reasons for a lower clock, as bits: nvmlClocksEventReasons */
} kvg_bench_clock;

typedef struct kvg_bench_result {
    uint32_t runs[KVG_BENCH_SERIES]; /* 0: not timed */
    float ms[KVG_BENCH_SERIES][KVG_BENCH_MOST_RUNS];
    char plain[32];          /* name of the fastest plain kernel */
    kvg_bench_clock clock;
} kvg_bench_result;

typedef struct kvg_bench_device {
    const char *backend; /* name of the backend that the ops belong to */
    kvg_status (*open)(kvg_bench_info *out); /* KVG_ERR_UNIMPLEMENTED: there is no device */
    kvg_status (*room)(uint64_t *bytes);     /* bytes that can be allocated now */
    kvg_status (*alloc)(size_t bytes, void **out);
    void (*free)(void *buffer);
    kvg_status (*upload)(void *device, const void *host, size_t bytes);
    kvg_status (*download)(void *host, const void *device, size_t bytes); /* waits for all queued work first */
    kvg_status (*fill)(void *buffer, const kvg_bench_rows *rows, kvg_recipe recipe);
    /* KVG_ERR_UNIMPLEMENTED where there is no kernel for the problem. */
    kvg_status (*workspace)(const kvg_problem *problem, size_t *bytes);
    /* Runs the op once. Nothing of an earlier answer is left in the outputs before the run. */
    kvg_status (*run)(const kvg_bench_job *job);
    kvg_status (*checksum)(const kvg_tensor *tensors, size_t count, uint64_t *out); /* of every byte */
    /* Runs all series in turn, `runs` times. Afterwards the outputs are those of the last timed run
     * of COLD. *as_graph is the checksum of the graph's outputs, or of COLD's if there is no
     * graph. */
    kvg_status (*time)(const kvg_bench_job *job, kvg_bench_result *result, uint64_t *as_graph);
} kvg_bench_device;

#ifdef __cplusplus
}
#endif
#endif
