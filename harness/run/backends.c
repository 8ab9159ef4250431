#include "harness/run/backends.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/name.h"
#include "harness/trial/wrong/defects.h"
#include "reference/reference.h"
#include "support/shipped.h"

#ifdef KVG_HAS_GPU
#include "gpu/gpu.h"
#endif

/* Where plug-ins lie: beside the program, or in the library folder of an installation. */
static const char *const places[] = {"", "/../lib/kvgold", "/../lib64/kvgold", "/../lib/x86_64-linux-gnu/kvgold",
                                     "/../lib/aarch64-linux-gnu/kvgold"};
enum { PLACES = sizeof places / sizeof places[0] };

/* Names the backend that was meant, of those that there are. */
static kvg_status fail_unknown(const char *name, const char *folder)
{
    enum { BUILT_IN = 2, MOST = 64 };
    char names[MOST][64], path[KVG_BACKEND_PATH_SIZE];
    const char *known[BUILT_IN + MOST] = {"reference", "cuda"};
    size_t count = 0;
    for (size_t i = 0; i < PLACES; i++) {
        snprintf(path, sizeof path, "%s%s", folder, places[i]);
        DIR *dir = opendir(path);
        for (const struct dirent *e; dir && count < MOST && (e = readdir(dir));) {
            if (sscanf(e->d_name, "libkvgold_%63[^.].so", names[count]) != 1) continue;
            known[BUILT_IN + count] = names[count];
            count++;
        }
        if (dir) closedir(dir);
    }
    return kvg_name_fail("backend", name, known, sizeof known[0], BUILT_IN + count);
}

/* The library libkvgold_<name>.so. */
static kvg_status find_plugin(const char *name, char *path, size_t size)
{
    char folder[PATH_MAX];
    kvg_shipped_program_folder(folder, sizeof folder);
    for (size_t i = 0; i < PLACES; i++) {
        snprintf(path, size, "%s%s/libkvgold_%s.so", folder, places[i], name);
        if (access(path, R_OK) == 0) return KVG_OK;
    }
    if (access(name, R_OK) == 0) {
        return kvg_fail(KVG_ERR_NOT_FOUND, "no backend '%s': for the file of this name give ./%s", name, name);
    }
    return fail_unknown(name, folder);
}

static bool is_built_in(const char *name)
{
    return strcmp(name, "reference") == 0 || strncmp(name, "defect:", 7) == 0 || strcmp(name, "cuda") == 0;
}

kvg_status kvg_check_backend_path(const char *name, char path[KVG_BACKEND_PATH_SIZE])
{
    if (is_built_in(name)) return kvg_fail(KVG_ERR_NOT_FOUND, "backend %s is built in", name);
    if (!strchr(name, '/')) return find_plugin(name, path, KVG_BACKEND_PATH_SIZE);
    if (strlen(name) >= KVG_BACKEND_PATH_SIZE) return kvg_fail(KVG_ERR_NOT_FOUND, "path too long: %.40s...", name);
    strcpy(path, name);
    return KVG_OK;
}

#ifndef KVG_HAS_GPU
static kvg_status fail_without_cuda(kvg_status status)
{
    return kvg_fail(status, "backend cuda is not in this build: configure with -DKVGOLD_CUDA=ON and nvcc on the PATH");
}
#endif

/* Opens nothing: CUDA is for the process that runs a case. */
static kvg_status open_cuda(const kvg_backend **out)
{
#ifdef KVG_HAS_GPU
    *out = kvg_gpu_backend();
    return KVG_OK;
#else
    *out = NULL;
    return fail_without_cuda(KVG_ERR_NOT_FOUND);
#endif
}

kvg_status kvg_check_gpu_runner(bool graph, const kvg_model_runner **out)
{
#ifdef KVG_HAS_GPU
    *out = graph ? kvg_gpu_model_runner_graph() : kvg_gpu_model_runner();
    return KVG_OK;
#else
    (void)graph;
    *out = NULL;
    return fail_without_cuda(KVG_ERR_NOT_FOUND);
#endif
}

kvg_status kvg_check_backend(const char *name, const kvg_backend **out)
{
    static char last_name[PATH_MAX]; /* cases of one backend mostly follow each other */
    static const kvg_backend *last;
    if (last && strcmp(name, last_name) == 0) {
        *out = last;
        return KVG_OK;
    }
    kvg_status s = KVG_OK;
    if (strcmp(name, "reference") == 0) *out = kvg_reference_backend();
    else if (strncmp(name, "defect:", 7) == 0) s = kvg_defect_backend(name, out);
    else if (strcmp(name, "cuda") == 0) s = open_cuda(out);
    else {
        char path[KVG_BACKEND_PATH_SIZE];
        s = kvg_check_backend_path(name, path);
        if (!s) s = kvg_backend_open(path, out);
    }
    if (s) return s;
    snprintf(last_name, sizeof last_name, "%s", name);
    last = strlen(name) < sizeof last_name ? *out : NULL;
    return KVG_OK;
}

kvg_status kvg_check_backend_exists(const char *name)
{
    const kvg_backend *backend;
    char path[KVG_BACKEND_PATH_SIZE];
    if (is_built_in(name)) return kvg_check_backend(name, &backend);
    kvg_status s = kvg_check_backend_path(name, path);
    return s || access(path, R_OK) == 0 ? s : kvg_name_fail_file(path, NULL);
}

const kvg_bench_device *kvg_bench_device_of(const char *backend)
{
#ifdef KVG_HAS_GPU
    if (strcmp(backend, "cuda") == 0) return kvg_gpu_bench();
#else
    (void)backend;
#endif
    return NULL;
}

kvg_status kvg_bench_model_of_gpu(const kvg_bench_device **device, const kvg_bench_model **model,
                                  const kvg_model_runner **runner)
{
#ifdef KVG_HAS_GPU
    *device = kvg_gpu_bench();
    *model = kvg_gpu_bench_model();
    *runner = kvg_gpu_model_runner();
    return KVG_OK;
#else
    *device = NULL;
    *model = NULL;
    *runner = NULL;
    return fail_without_cuda(KVG_ERR_UNIMPLEMENTED);
#endif
}
