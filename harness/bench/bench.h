/* Room bench: how long an op, or a step of a model, takes on a device.
 *
 *   device_bench           Cases of a config on a device, each in a process of its own.
 *   device_case            A case whose tensors lie on the device.
 *   device_judge, _slice   Samples of the device's answer against the reference.
 *   device_report          The table and the JSON of these.
 *   generate_bench, generate_bench_*
 *                          Decode steps of whole models by format, batch and context.
 *
 * What is timed is judged before and after. harness/judge/ times the ops of the CPU. docs/results/performance.md has
 * results. */
#ifndef KVG_HARNESS_BENCH_BENCH_H
#define KVG_HARNESS_BENCH_BENCH_H
#endif
