/* A plug-in that does with its process what plug-ins should not: remembers, replays, forks, kills, scans. The number of
 * KV heads chooses what; tests/planted/planted_plugin.json has a case for each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reference/reference.h"
#include "tests/planted/left_behind.h"
#include "tests/planted/scan.h"

enum planted {
    GOOD = 1,
    KEEPS_POINTERS = 2,  /* right, and remembers where its tensors were */
    WRITES_LATER = 3,    /* through them: they point nowhere now */
    REMEMBERS = 4,       /* right, and remembers its answer */
    REPLAYS = 5,         /* that answer */
    FORKS = 6,           /* the copies return, too, and would answer wrong from then on */
    FORKS_AND_EXITS = 7, /* a process that it started lives on, with all of its descriptors */
    UNLOADS = 8,         /* closes its own library until nobody holds it */
    UNMAPS = 9,          /* unmaps its own code */
    KILLS_ITSELF = 10,
    KILLS_GROUP = 11,
    KILLS_JUDGE = 12,
    WRITES_EVERYWHERE = 13,
    SCANS = 14,          /* looks for the right answer in its address space */
    CHANGES_SURROUNDINGS = 15, /* environment, folder, standard descriptors */
    SHRINKS_FILES = 16,  /* every file that it has open */
    WRITES_FILES = 17,   /* garbage into every descriptor that it has open */
    ANSWERS_NOTHING = 18, /* says that all went well */
    LAST = 19
};

static uint8_t *kept;
static uint8_t replayed[1 << 16];
static size_t replayed_bytes;

static void remember(const kvg_tensor *out)
{
    replayed_bytes = out[0].bytes;
    memcpy(replayed, out[0].data, replayed_bytes);
}

static bool is_copy;

static void fork_copies(void)
{
    for (int i = 0; i < 8 && !is_copy; i++) is_copy = fork() == 0;
}

static void fork_and_exit(void)
{
    leave_behind(false);
    exit(0);
}

static void unload(void)
{
    Dl_info info;
    void *self = dladdr((void *)replayed, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    for (int i = 0; self && i < 8; i++) dlclose(self);
}

/* The page of the caller, to which it returns. */
__attribute__((noinline)) static void unmap_code(void)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), here = (uintptr_t)__builtin_return_address(0);
    munmap((void *)(here / page * page), page);
}

static void write_everywhere(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && rights[1] == 'w') {
            memset((void *)begin, 0x5A, end - begin);
        }
    }
}

static void change_surroundings(void)
{
    clearenv();
    setenv("OMP_NUM_THREADS", "0", 1);
    if (chdir("/") != 0) abort();
    for (int fd = 0; fd < 3; fd++) close(fd);
}

static void spoil_files(bool shrink)
{
    for (int fd = 0; fd < 64; fd++) {
        if (shrink && ftruncate(fd, 0) == 0) continue;
        if (!shrink && write(fd, "garbage", 7) < 0) continue;
    }
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (p->kv_heads == SCANS) return scan_for_answer(p, in, out);
    if (p->kv_heads == ANSWERS_NOTHING || is_copy) return KVG_OK;
    kvg_status s = kvg_reference_run(p, in, out);
    if (s) return s;
    switch ((enum planted)p->kv_heads) {
    case GOOD: case SCANS: case ANSWERS_NOTHING: case LAST: break;
    case REMEMBERS: remember(out); break;
    case KEEPS_POINTERS: kept = out[0].data; break;
    case WRITES_LATER:
        if (kept) memset(kept, 0, 16);
        break;
    case REPLAYS: memcpy(out[0].data, replayed, replayed_bytes); break;
    case FORKS: fork_copies(); break;
    case FORKS_AND_EXITS: fork_and_exit(); break;
    case UNLOADS: unload(); break;
    case UNMAPS: unmap_code(); break;
    case KILLS_ITSELF: raise(SIGKILL); break;
    case KILLS_GROUP: kill(0, SIGKILL); break;
    case KILLS_JUDGE: kill(getppid(), SIGKILL); break;
    case WRITES_EVERYWHERE: write_everywhere(); break;
    case CHANGES_SURROUNDINGS: change_surroundings(); break;
    case SHRINKS_FILES: spoil_files(true); break;
    case WRITES_FILES: spoil_files(false); break;
    }
    return KVG_OK;
}

static const kvg_impl impls[] = {{"planted_plugin_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run}};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "planted_plugin",
    .impls = impls,
    .impl_count = 1,
    .error_text = kvg_error_text,
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
