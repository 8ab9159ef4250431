#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "harness/candidate/candidate.h"
#include "harness/run/backends.h"
#include "support/child.h"
#include "support/commit.h"
#include "support/machine.h"
#include "support/shipped.h"
#include "support/version.h"

#ifdef KVG_HAS_GPU
#include "gpu/gpu.h"
#endif

/* Reads the first line of a file that has the scanf format into `out`; else `out` stays. */
static void scan_line(const char *path, const char *format, void *out)
{
    char line[256];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, format, out) == 1) break;
    }
    if (f) fclose(f);
}

static void print_cpu(void)
{
    char model[200];
    kvg_machine_cpu(model, sizeof model);
    printf("cpu:         %s, %d cores\n", model, omp_get_num_procs());
}

/* The first line of a file; "": there is none. */
static const char *first_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (f && fgets(out, size, f)) out[strcspn(out, "\n")] = 0;
    if (f) fclose(f);
    return out;
}

static void print_memory(void)
{
    char line[256];
    const double gib = (double)(1 << 30), kib = 1024;
    double total = 0, available = 0; /* the system's caches count as available */
    struct rlimit space;
    scan_line("/proc/meminfo", "MemTotal: %lf kB", &total);
    scan_line("/proc/meminfo", "MemAvailable: %lf kB", &available);
    printf("memory:      %.1f GiB available of %.1f", available * kib / gib, total * kib / gib);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        printf("; ulimit -v allows %.1f: `ulimit -v unlimited` mends that", (double)space.rlim_cur / gib);
    }
    first_line("/sys/fs/cgroup/memory.max", line, sizeof line);
    if (line[0] >= '0' && line[0] <= '9') printf("; this container may use %.1f", strtod(line, NULL) / gib);
    printf("\n");
}

/* The version is the first word with a digit in front: "... Module for x86_64  580.159.04  Release Build ...". */
static void print_driver(void)
{
    char line[256];
    first_line("/proc/driver/nvidia/version", line, sizeof line);
    const char *word = strtok(line, " ");
    while (word && !(*word >= '0' && *word <= '9')) word = strtok(NULL, " ");
    printf("driver:      %s\n", word ? word : "none: nothing runs on a GPU here");
}

#ifdef KVG_HAS_GPU
enum { MAX_DEVICES = 16, MAX_SLOTS = 4 };

static void print_devices(kvg_status asked, const kvg_gpu_device *devices, size_t count)
{
    if (asked) printf("gpu:         ERROR: %s\n", kvg_error_text());
    else if (count == 0) printf("gpu:         none (built with CUDA)\n");
    for (size_t i = 0; i < count; i++) {
        printf("gpu:         %s, sm_%u, %u multiprocessors, %.1f GiB, L2 %.0f MiB\n", devices[i].name, devices[i].sm,
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
    if (asked) fprintf(stderr, "kvgold doctor: %s\n", kvg_error_text());
    printf("{\n  \"version\": {\"major\": 1, \"minor\": 0},\n  \"local\": [\n    {");
    for (size_t i = 0; i < profiles; i++) {
        size_t found = 0;
        kvg_profile own; /* one row of a chip */
        if (kvg_profile_of_sm(profile[i].chip->sm, &own) || own != profile[i].profile) continue;
        printf("%s\n      \"sm%u\": [", comma, profile[i].chip->sm);
        for (size_t d = 0; d < count; d++) {
            if (devices[d].sm != profile[i].chip->sm) continue;
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
    if (code == KVG_EXIT_PASS || code == KVG_EXIT_ENVIRONMENT) return;
    printf("gpu:         ERROR: asking the driver crashed\n");
}

static int list_resources(void)
{
    const int code = with_gpus(print_resources);
    if (code == KVG_EXIT_PASS) return code;
    fprintf(stderr, "kvgold doctor: %s\n",
            code == KVG_EXIT_ENVIRONMENT ? "cannot write the output" : "asking the driver crashed");
    return KVG_EXIT_ENVIRONMENT;
}
#else
static void print_gpus(void)
{
    printf("gpu:         not built (KVGOLD_CUDA=OFF, or no CUDA compiler at configure time)\n");
}

static int list_resources(void)
{
    return kvg_command_usage("doctor", "--ctest-resources: this build has no GPU tests");
}
#endif

static void print_backends(void)
{
    static const char *const others[] = {"slowref", "cuda"};
    printf("backends:    reference, defect:<id>");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const kvg_backend *backend;
        if (kvg_check_backend(others[i], &backend) == KVG_OK) printf(", %s", backend->name);
    }
    printf("\n");
}

/* What holds a candidate off its judge on this machine: docs/guide/pass.md. */
static void print_confinement(void)
{
    kvg_candidate *candidate;
    if (kvg_candidate_start(KVG_CONFINE_NAMESPACES, NULL, kvg_check_backend, &candidate)) {
        printf("candidates:  ERROR: %s\n", kvg_error_text());
        return;
    }
    const char *has = kvg_candidate_confinement(candidate);
    printf("candidates:  confined by %s\n", has);
    if (strcmp(has, kvg_confinement_name(KVG_CONFINE_NAMESPACES)) != 0) {
        printf("             allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1, or in a container\n"
               "             docker run --security-opt seccomp=unconfined\n");
    }
    kvg_candidate_end(candidate);
}

static void count_name(const char *name, void *count)
{
    (void)name;
    ++*(size_t *)count;
}

/* Files of a folder of kvgold's own that end in `ending`, or "": folders in it. */
static void print_folder(const char *label, const char *folder, const char *ending)
{
    char path[PATH_MAX];
    size_t count = 0;
    if (kvg_shipped_path(folder, path, sizeof path) || kvg_shipped_each(folder, ending, count_name, &count)) {
        printf("%-12s missing: %s\n", label, kvg_error_text());
        return;
    }
    printf("%-12s %zu in %s\n", label, count, path);
}

static void print_tool(const char *label, const char *program, const char *without)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    for (size_t length; path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)length, path, program);
        if (access(file, X_OK) != 0) continue;
        printf("%-12s %s\n", label, file);
        return;
    }
    printf("%-12s missing: %s\n", label, without);
}

int kvg_command_doctor(const kvg_arguments *a)
{
    if (a->file_count) return kvg_command_usage("doctor", "takes no argument but --ctest-resources");
    if (kvg_given(a, KVG_OPTION_DOCTOR_CTEST_RESOURCES)) return list_resources();
    struct utsname system;
    const bool modified = strcmp(KVG_MODIFIED, "true") == 0;
    printf("kvgold:      %s, commit %.7s%s\n", KVG_VERSION, KVG_COMMIT, modified ? " with changes" : "");
#ifdef __clang__
    printf("compiler:    %s\n", __VERSION__);
#else
    printf("compiler:    gcc %s\n", __VERSION__);
#endif
    if (uname(&system) == 0) printf("system:      %s %s, %s\n", system.sysname, system.release, system.machine);
    print_cpu();
    print_memory();
    print_driver();
    print_gpus();
    print_backends();
    print_confinement();
    print_folder("configs:", "configs", ".json");
    print_folder("models:", "configs/models", ".json");
    print_folder("packs:", "golden/data/packs", "");
    print_folder("captures:", "golden/data/captures", ".safetensors");
    print_tool("python3:", "python3", "no adapters of golden packs: apt-get install python3");
    return KVG_EXIT_PASS;
}
