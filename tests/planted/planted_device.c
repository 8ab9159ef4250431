/* A backend with a device that only exists here: it breaks for a process as a CUDA context does, and it goes away for
 * every process, which no kernel can be made to do. The number of KV heads chooses what happens. The file named by
 * KVGOLD_PLANTED_DEVICE says what becomes of a lost device: it "refuses", "hangs" or "dies" where it is asked, or
 * nobody can ask ("mute"); "gone" follows the word once it is lost. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reference/reference.h"

enum planted {
    FAULTS = 2,    /* a kernel faults: every later op of this process fails */
    STUMBLES = 4,  /* the device goes away, and is there again for the next process */
    HANGS = 6,     /* and the device is gone where the word is "hangs" */
    KILLS = 8,     /* the process dies; the device is gone where the word is "dies" */
    LOSES = 10     /* the device goes away for good */
};

static bool broken; /* for this process */

static const char *device_file(void)
{
    const char *path = getenv("KVGOLD_PLANTED_DEVICE");
    return path ? path : "";
}

static void read_device(char word[32], bool *gone)
{
    char state[32] = "";
    FILE *f = fopen(device_file(), "r");
    word[0] = 0;
    if (f) {
        if (fscanf(f, "%31s %31s", word, state) < 1) word[0] = 0;
        fclose(f);
    }
    *gone = strcmp(state, "gone") == 0;
}

static void lose_device(void)
{
    FILE *f = fopen(device_file(), "a");
    if (!f) abort();
    fputs(" gone\n", f);
    fclose(f);
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    char word[32];
    bool gone;
    (void)stream;
    printf("ran %u heads\n", p->kv_heads);
    fflush(stdout); /* this process may die */
    read_device(word, &gone);
    if (gone) return kvg_fail(KVG_ERR_DEVICE_LOST, "planted: there is no device");
    if (broken) return kvg_fail(KVG_ERR_DEVICE, "planted: broken before");
    switch ((enum planted)p->kv_heads) {
    case FAULTS: broken = true; return kvg_fail(KVG_ERR_DEVICE, "planted: an illegal address");
    case STUMBLES: broken = true; return kvg_fail(KVG_ERR_DEVICE_LOST, "planted: an ECC error");
    case HANGS:
        if (strcmp(word, "hangs") == 0) lose_device();
        for (;;) pause();
    case KILLS:
        if (strcmp(word, "dies") == 0) lose_device();
        raise(SIGBUS);
        break;
    case LOSES: lose_device(); return kvg_fail(KVG_ERR_DEVICE_LOST, "planted: fell off the bus");
    }
    return kvg_reference_run(p, in, out);
}

static kvg_status ready(void)
{
    char word[32];
    bool gone;
    printf("asked\n");
    fflush(stdout);
    read_device(word, &gone);
    if (!gone) return KVG_OK;
    if (strcmp(word, "hangs") == 0) for (;;) pause();
    if (strcmp(word, "dies") == 0) raise(SIGSEGV);
    return kvg_fail(KVG_ERR_IO, "planted: no such device");
}

static const kvg_impl impl = {"planted_device_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run};

const kvg_backend *kvg_backend_export(void);
const kvg_backend *kvg_backend_export(void)
{
    static kvg_backend backend = {
        .abi = KVG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .name = "planted_device",
        .impls = &impl,
        .impl_count = 1,
        .error_text = kvg_error_text,
    };
    char word[32];
    bool gone;
    read_device(word, &gone);
    backend.ready = strcmp(word, "mute") == 0 ? NULL : ready;
    return &backend;
}
