#define _DEFAULT_SOURCE
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/check.h"
#include "harness/commands.h"
#include "harness/version.h"

#ifdef KVG_HAS_GPU
#include "gpu/gpu.h"
#endif

static const char help_text[] = "usage: kvgold env\n\nPrints the program's version and build, the machine, its GPUs "
                                "and the backends that `kvgold check` can use.\n";

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
/* CUDA is opened in a child: this process stays free of it, and a driver that crashes costs one line. */
static void print_gpus(void)
{
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        kvg_gpu_device devices[16];
        size_t count;
        if (kvg_gpu_devices(devices, 16, &count)) {
            printf("gpu:       ERROR: %s\n", kvg_error_text());
        } else if (count == 0) {
            printf("gpu:       none (built with CUDA)\n");
        }
        for (size_t i = 0; i < count; i++) {
            printf("gpu:       %s, sm_%u, %u multiprocessors, %.1f GiB, L2 %.0f MiB\n", devices[i].name, devices[i].sm,
                   devices[i].multiprocessors, (double)devices[i].memory_bytes / (1 << 30),
                   (double)devices[i].l2_bytes / (1 << 20));
        }
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) printf("gpu:       ERROR: asking the driver crashed\n");
}
#else
static void print_gpus(void)
{
    printf("gpu:       not built (KVGOLD_CUDA=OFF, or no CUDA compiler at configure time)\n");
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

int kvg_command_env(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help_text, stdout);
        return KVG_EXIT_PASS;
    }
    if (argc != 1) return kvg_command_usage("env", "takes no arguments");
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
