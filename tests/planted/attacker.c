/* A plug-in that answers right and tries to get hold of its judge; an attack that succeeds is told in its log. It
 * knows its case by the number of KV heads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/plugin.h"
#include "reference/reference.h"
#include "tests/planted/attacks.h"
#include "tests/planted/left_behind.h"

enum { ANCESTORS = 3 }; /* the judge is one of them, the parent of all children another one */

/* The parent of a process as /proc names it, whatever pid namespace this process is in; 0: nobody knows. */
static int parent_of(int pid)
{
    char path[64], line[256];
    int parent = 0;
    if (pid) snprintf(path, sizeof path, "/proc/%d/status", pid);
    else snprintf(path, sizeof path, "/proc/self/status");
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "PPid: %d", &parent) != 1) {}
    if (f) fclose(f);
    return parent;
}

static bool reads(int pid)
{
    char there[64];
    const struct iovec to = {there, sizeof there}, from = {stdout, sizeof there}; /* where libc was before the fork */
    return process_vm_readv(pid, &to, 1, &from, 1, 0) > 0;
}

static bool opens_memory(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    const int fd = open(path, O_RDWR);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool opens_descriptors(int pid)
{
    char path[64], to[256];
    snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
    return readlink(path, to, sizeof to) > 0;
}

static bool signals(int pid)
{
    return kill(pid, 0) == 0;
}

static bool on_ancestors(bool (*tried)(int pid))
{
    int pid = 0;
    for (int i = 0; i < ANCESTORS; i++) {
        pid = parent_of(pid);
        if (pid > 1 && tried(pid)) return true;
    }
    return false;
}

/* Neither a standard stream nor of the socket or the file by which tensors come. */
static bool has_descriptors(void)
{
    char path[64], to[256];
    for (int fd = 3; fd < 256; fd++) {
        struct stat info;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(path, to, sizeof to - 1);
        if (n < 0 || fstat(fd, &info) != 0) continue;
        to[n] = 0;
        if (!S_ISSOCK(info.st_mode) && !strstr(to, "kvgold tensors")) return true;
    }
    return false;
}

static bool has_rights(void)
{
    char line[256];
    unsigned long long rights = 0, none_new = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long set;
        if (sscanf(line, "CapPrm: %llx", &set) == 1 || sscanf(line, "CapEff: %llx", &set) == 1) rights |= set;
        sscanf(line, "NoNewPrivs: %llu", &none_new);
    }
    if (f) fclose(f);
    return rights || !none_new;
}

/* A line in results.jsonl, which lies beside the log. */
static void forge_result(void)
{
    char path[512];
    const ssize_t n = readlink("/proc/self/fd/1", path, sizeof path - 32);
    if (n < 0) return;
    path[n] = 0;
    snprintf(strrchr(path, '/'), 32, "/results.jsonl");
    FILE *f = fopen(path, "a");
    if (f) fputs("{\"type\":\"forged\"}\n", f);
    if (f) fclose(f);
}

static bool succeeds(attack a)
{
    switch (a) {
    case ATTACK_NONE: case ATTACKS: return false;
    case ATTACK_READS: return on_ancestors(reads);
    case ATTACK_OPENS_MEMORY: return on_ancestors(opens_memory);
    case ATTACK_OPENS_DESCRIPTORS: return on_ancestors(opens_descriptors);
    case ATTACK_SIGNALS: return on_ancestors(signals);
    case ATTACK_HAS_DESCRIPTORS: return has_descriptors();
    case ATTACK_HAS_RIGHTS: return has_rights();
    case ATTACK_LEAVES_DAEMON: leave_behind(true); return false; /* the test sees */
    case ATTACK_FORGES: forge_result(); return false;            /* the test sees */
    }
    return false;
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (succeeds((attack)p->kv_heads)) printf("attack %u succeeds\n", p->kv_heads);
    return kvg_reference_run(p, in, out);
}

static const kvg_impl impls[] = {{"attacker_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run}};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "attacker",
    .impls = impls,
    .impl_count = 1,
    .error_text = kvg_error_text,
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
