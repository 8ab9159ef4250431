#define _DEFAULT_SOURCE
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "harness/run/backends.h"
#include "support/child.h"
#include "support/version.h"

#ifdef KVG_HAS_GPU
#include "gpu/gpu.h"
#endif

static void print_cpu(void)
{
    char line[256], model[200] = "unknown";
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "model name : %199[^\n]", model) == 1) break;
    }
    if (f) fclose(f);
    printf("cpu:       %s, %d cores\n", model, omp_get_num_procs());
}

#ifdef KVG_HAS_GPU
enum { MAX_DEVICES = 16, MAX_SLOTS = 4 };

static void print_devices(kvg_status asked, const kvg_gpu_device *devices, size_t count)
{
    if (asked) printf("gpu:       ERROR: %s\n", kvg_error_text());
    else if (count == 0) printf("gpu:       none (built with CUDA)\n");
    for (size_t i = 0; i < count; i++) {
        printf("gpu:       %s, sm_%u, %u multiprocessors, %.1f GiB, L2 %.0f MiB\n", devices[i].name, devices[i].sm,
               devices[i].multiprocessors, (double)devices[i].memory_bytes / (1 << 30),
               (double)devices[i].l2_bytes / (1 << 20));
    }
}

/* Tests that a GPU takes side by side: each has 32 GiB of its memory. Most of their time is the
 * processor's. */
static unsigned slots_of(const kvg_gpu_device *device)
{
    const uint64_t slots = device->memory_bytes >> 35;
    return slots < 1 ? 1 : slots > MAX_SLOTS ? MAX_SLOTS : (unsigned)slots;
}

/* One kind of resource for each chip: its GPUs, each for one test at a time. A test whose kind is missing would fail as
 * not run, so a chip that is not here has a GPU "none": its tests run, and skip with their reason. */
static void print_resources(kvg_status asked, const kvg_gpu_device *devices, size_t count)
{
    size_t profiles;
    const kvg_profile_info *profile = kvg_profile_table(&profiles);
    const char *comma = "";
    if (asked) fprintf(stderr, "kvgold env: %s\n", kvg_error_text());
    printf("{\n  \"version\": {\"major\": 1, \"minor\": 0},\n  \"local\": [\n    {");
    for (size_t i = 0; i < profiles; i++) {
        size_t found = 0;
        if (!kvg_profile_is_chip(&profile[i])) continue;
        printf("%s\n      \"sm%u\": [", comma, profile[i].sm);
        for (size_t d = 0; d < count; d++) {
            if (devices[d].sm != profile[i].sm) continue;
            printf("%s{\"id\": \"%zu\", \"slots\": %u}", found++ ? ", " : "", d, slots_of(&devices[d]));
        }
        printf("%s]", found ? "" : "{\"id\": \"none\", \"slots\": 1}");
        comma = ",";
    }
    printf("\n    }\n  ]\n}\n");
}

typedef void print_function(kvg_status asked, const kvg_gpu_device *devices, size_t count);

static int ask_driver(void *context, int channel)
{
    print_function *const *print = context;
    kvg_gpu_device devices[MAX_DEVICES];
    size_t count = 0;
    (void)channel;
    const kvg_status s = kvg_gpu_devices(devices, MAX_DEVICES, &count);
    (*print)(s, devices, s ? 0 : count);
    return !ferror(stdout) && fflush(stdout) == 0 ? KVG_EXIT_PASS : KVG_EXIT_ENVIRONMENT;
}

/* CUDA is opened in a child: this process stays free of it, and a driver that crashes costs one line. Its exit
 * code: KVG_EXIT_PASS, KVG_EXIT_ENVIRONMENT if it could not write; anything else is a crash. */
static int with_gpus(print_function *print)
{
    const kvg_child_job job = {.work = ask_driver, .context = &print};
    kvg_child child;
    if (kvg_child_start(&job, &child)) return -1;
    const int status = kvg_child_wait(&child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void print_gpus(void)
{
    const int code = with_gpus(print_devices);
    if (code != KVG_EXIT_PASS && code != KVG_EXIT_ENVIRONMENT) printf("gpu:       ERROR: asking the driver crashed\n");
}

static int list_resources(void)
{
    const int code = with_gpus(print_resources);
    if (code == KVG_EXIT_PASS) return code;
    fprintf(stderr, "kvgold env: %s\n",
            code == KVG_EXIT_ENVIRONMENT ? "cannot write the output" : "asking the driver crashed");
    return KVG_EXIT_ENVIRONMENT;
}
#else
static void print_gpus(void)
{
    printf("gpu:       not built (KVGOLD_CUDA=OFF, or no CUDA compiler at configure time)\n");
}

static int list_resources(void)
{
    return kvg_command_usage("env", "--ctest-resources: this build has no GPU tests");
}
#endif

static void print_backends(void)
{
    static const char *const others[] = {"slowref", "cuda"};
    printf("backends:  reference, defect:<id>");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const kvg_backend *backend;
        if (kvg_check_backend(others[i], &backend) == KVG_OK) printf(", %s", backend->name);
    }
    printf("\n");
}

int kvg_command_env(const kvg_arguments *a)
{
    if (a->file_count) return kvg_command_usage("env", "takes no argument but --ctest-resources");
    if (kvg_given(a, KVG_OPTION_ENV_CTEST_RESOURCES)) return list_resources();
    struct utsname system;
    printf("kvgold:    %s\n", KVG_VERSION);
#ifdef __clang__
    printf("compiler:  %s\n", __VERSION__);
#else
    printf("compiler:  gcc %s\n", __VERSION__);
#endif
    if (uname(&system) == 0) printf("system:    %s %s, %s\n", system.sysname, system.release, system.machine);
    print_cpu();
    print_gpus();
    print_backends();
    return KVG_EXIT_PASS;
}
