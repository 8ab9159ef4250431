/* Room bench: how long an op takes on a device.
 *
 *   device_bench           Cases of a config on a device, each in a process of its own.
 *   device_case            A case whose tensors lie on the device.
 *   device_judge, _slice   Samples of the device's answer against the reference.
 *   device_report          The table and the JSON of these.
 *
 * What is timed is judged before and after. harness/trial/judge/ times the ops of the CPU. docs/results/performance.md
 * has results. */
/* `kvgold bench` on a device: measures the cases that name a device's backend, in processes of their own, so that a
 * kernel that faults or hangs costs its case alone. */
#ifndef KVG_HARNESS_BENCH_DEVICE_BENCH_H
#define KVG_HARNESS_BENCH_DEVICE_BENCH_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "core/bench_device.h"
#include "harness/case/result.h"
#include "harness/config/config.h"

enum { KVG_DEVICE_DEFAULT_RUNS = 15, KVG_DEVICE_QUICK_RUNS = 5 };

typedef struct kvg_device_options {
    uint32_t runs;  /* of a series; fewer where a run takes long */
    bool quick;     /* the cold series alone */
} kvg_device_options;

/* Of the runs of one series, in microseconds. */
typedef struct kvg_device_times {
    uint32_t runs; /* 0: not timed */
    double median, lower, upper, least, most; /* lower, upper: quartiles */
} kvg_device_times;

/* What a failure of the device's functions means for a case. */
kvg_verdict kvg_device_verdict_of(kvg_status s);

/* Sorts ms[runs], which are milliseconds. */
kvg_device_times kvg_device_times_of(float *ms, uint32_t runs);

typedef enum kvg_device_outcome { KVG_DEVICE_TIMED, KVG_DEVICE_DOES_NOT_FIT, KVG_DEVICE_NOT_TIMED } kvg_device_outcome;

/* What became of a case. Times are there only if the outcome is TIMED: outputs were right before and after. */
typedef struct kvg_device_measurement {
    kvg_device_outcome outcome;
    kvg_verdict verdict;            /* NOT_TIMED: why */
    char detail[KVG_RESULT_TEXT];
    kvg_bench_info info;
    kvg_profile profile;            /* op decode: whose bits; else NONE */
    uint64_t needs, room;           /* bytes; DOES_NOT_FIT: with the largest batch that does */
    uint32_t most_sequences;
    uint64_t reads, writes;         /* bytes that the op must move: kvg_device_case_job */
    uint64_t checked, outputs;      /* bytes compared with the reference; of the outputs */
    kvg_device_times times[KVG_BENCH_SERIES];
    char plain[32];                 /* the device's fastest plain kernel */
    kvg_bench_clock clock;
    double seconds;                 /* that the whole case took here: filling, judging, timing */
} kvg_device_measurement;

/* Measures one case in this process, which has opened the device. Never fails: what goes wrong is in *out. */
void kvg_device_measure(const kvg_case *c, const kvg_bench_device *device, const kvg_bench_info *info,
                        const kvg_device_options *o, kvg_device_measurement *out);

typedef void kvg_device_report_fn(const kvg_case *c, const kvg_device_measurement *m, void *context);

/* Measures `count` cases, and reports each in order. A case that takes longer than `patience` seconds is a HANG.
 * KVG_ERR_UNIMPLEMENTED: there is no such device here, and nothing was reported. */
kvg_status kvg_device_bench(const kvg_case *const *cases, size_t count, const kvg_bench_device *device, double patience,
                            const kvg_device_options *o, kvg_device_report_fn *report, void *context) KVG_CHECKED;

/* --- reports --- */

const char *kvg_device_outcome_name(const kvg_device_measurement *m); /* "TIMED", "DOES_NOT_FIT" or the verdict's */

/* Bytes moved per second in 10^9, and the share that the time of a plain kernel is of the op's. */
double kvg_device_rate(const kvg_device_measurement *m, kvg_bench_series series);
double kvg_device_share(const kvg_device_measurement *m, kvg_bench_series op, kvg_bench_series plain);

/* With a cold L2 all that is read comes from memory: why the time of series COLD cannot be, with the numbers, or "". */
enum { KVG_DEVICE_DOUBT_SIZE = 128 };
void kvg_device_doubt(const kvg_device_measurement *m, char out[KVG_DEVICE_DOUBT_SIZE]);

void kvg_device_print_header(FILE *f);
void kvg_device_print(const kvg_case *c, const kvg_device_measurement *m, FILE *f);
cJSON *kvg_device_json(const kvg_case *c, const kvg_device_measurement *m);

/* Adds an object of the times of a series; nothing where there are none. */
void kvg_device_add_times(cJSON *to, const kvg_device_times *t, const char *name);

/* Adds sm_mhz, driver_sm_mhz, power_w and the reasons for a lower clock to an object. */
void kvg_device_add_clock(cJSON *to, const kvg_bench_clock *clock);

#endif
