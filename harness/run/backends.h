/* The backends that a name can mean: the reference, a defect, the GPU's where it is built in, plug-ins. */
#ifndef KVG_HARNESS_RUN_BACKENDS_H
#define KVG_HARNESS_RUN_BACKENDS_H

#include "core/backend.h"
#include "core/bench_device.h"
#include "core/bench_model.h"
#include "core/transformer.h"

/* The library of a plug-in, without opening it. KVG_ERR_NOT_FOUND: the name is none, or there is no such file. */
enum { KVG_BACKEND_PATH_SIZE = 8192 };
kvg_status kvg_check_backend_path(const char *name, char path[KVG_BACKEND_PATH_SIZE]) KVG_CHECKED;

/* Fails with the name that was most likely meant where there is no such backend. Opens no plug-in. */
kvg_status kvg_check_backend_exists(const char *name) KVG_CHECKED;

/* Resolves a backend's name: "reference", "defect:<id>", "cuda" where it is built in, a path with a '/', or the name of
 * a plug-in libkvgold_<name>.so beside the program or in its library folder. Plug-ins are opened at most once, and in
 * this process: the judge leaves it to the candidate's (kvg_candidate_open). */
kvg_status kvg_check_backend(const char *name, const kvg_backend **out) KVG_CHECKED;

/* The model runner of backend cuda, step by step or from CUDA graphs. KVG_ERR_NOT_FOUND: it is not in this build. */
kvg_status kvg_check_gpu_runner(bool graph, const kvg_model_runner **out) KVG_CHECKED;

/* The device of a backend's name; NULL: it has none in this build. Opens nothing. */
const kvg_bench_device *kvg_bench_device_of(const char *backend);

/* What times whole models on the device of backend cuda, and the runner whose logits are compared with the reference's.
 * KVG_ERR_UNIMPLEMENTED: this build has none. Opens nothing. */
kvg_status kvg_bench_model_of_gpu(const kvg_bench_device **device, const kvg_bench_model **model,
                                  const kvg_model_runner **runner) KVG_CHECKED;

#endif
