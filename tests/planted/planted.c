#define _DEFAULT_SOURCE /* usleep */
/* A backend that misbehaves on purpose, to prove that the harness notices and goes on. The number of KV heads chooses
 * what goes wrong; tests/planted/planted.json has a case for each. */
#include <fenv.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "reference/reference.h"

enum planted {
    GOOD = 1,
    CRASHES = 2,        /* after eleven lines, the last ones long, hostile and without an end */
    HANGS = 3,          /* after a line */
    EXITS_0 = 4,        /* exit(0) from inside a kernel must not look like success */
    WRITES_PAST = 5,    /* one byte behind the output */
    WRITES_BEFORE = 6,
    WRITES_INPUT = 7,
    WRITES_FAR = 8,     /* 64 KiB behind the output: the process dies */
    ABORTS = 9,
    FAILS = 10,         /* returns an error, whose text is no text */
    REFUSES = 11,       /* KVG_ERR_UNIMPLEMENTED */
    PRINTS = 12,        /* noise on stdout and stderr, right answer */
    SKIPS_LAST_ROW = 13,
    SLOW = 14,          /* right, but beyond the slow budget */
    CLOSES_PIPES = 15,  /* closes every descriptor it can find */
    CLOSES_AND_HANGS = 16,
    ROUNDS_UP = 17,     /* leaves the rounding mode changed */
    FLUSHES = 18,       /* leaves subnormals flushed, as a fast-math library does */
    LAST = 19,          /* right: shows that the run went on */
    FLOODS = 20         /* prints 80 MiB between a first and a last line, sees whether its log is cut, and crashes */
};

static void close_all(void)
{
    for (int fd = 3; fd < 64; fd++) close(fd);
}

static void print_and_crash(void)
{
    for (int i = 1; i <= 8; i++) fprintf(stderr, "line %d\n", i);
    fprintf(stderr, "%0300d\n\n\033[31mred\tbyte \xff\r\nno end", 7);
    raise(SIGSEGV);
}

static void flood_and_crash(void)
{
    static char lines[1 << 16];
    struct stat info;
    memset(lines, '.', sizeof lines);
    for (size_t i = 63; i < sizeof lines; i += 64) lines[i] = '\n';
    fprintf(stderr, "the beginning\n");
    for (int i = 0; i < 80 << 4; i++) fwrite(lines, 1, sizeof lines, stderr);
    bool cut = false;
    for (int i = 0; i < 300 && !cut; i++) {
        usleep(10000);
        cut = fstat(STDERR_FILENO, &info) == 0 && info.st_blocks < 66 << 11;
    }
    fprintf(stderr, "%s\nthe end\n", cut ? "the log has a hole" : "the log has no hole");
    raise(SIGSEGV);
}

static void flush_subnormals(void)
{
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() | 0x8040); /* FTZ and DAZ */
#else
    fesetround(FE_UPWARD); /* no portable way to flush: another mode that must be noticed */
#endif
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    uint8_t *bytes = out[0].data, held[256];
    const size_t row = (size_t)out[0].shape[2];
    if (row > sizeof held) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "rows of more than %zu bytes", sizeof held);
    memcpy(held, bytes + out[0].bytes - row, row);
    kvg_status s = kvg_reference_run(p, in, out);
    if (s) return s;
    switch ((enum planted)p->kv_heads) {
    case GOOD: case LAST: break;
    case FLOODS: flood_and_crash(); break;
    case CRASHES: print_and_crash(); break;
    case HANGS:
        fprintf(stderr, "it hangs\n");
        for (;;) pause();
    case EXITS_0: exit(0);
    case WRITES_PAST: ((volatile uint8_t *)bytes)[out[0].bytes] ^= 0xFF; break;
    case WRITES_BEFORE: ((volatile uint8_t *)bytes)[-1] ^= 0xFF; break;
    case WRITES_INPUT: ((volatile uint8_t *)in[0].data)[3] ^= 0x10; break;
    case WRITES_FAR: ((volatile uint8_t *)bytes)[out[0].bytes + 65536] = 1; break;
    case ABORTS: abort();
    case FAILS: return kvg_fail(KVG_ERR_INVALID, "planted \xff failure");
    case REFUSES: return kvg_fail(KVG_ERR_UNIMPLEMENTED, "planted refusal");
    case PRINTS:
        printf("noise \"on\" stdout {\"type\":\"case\"}\n");
        fprintf(stderr, "noise on stderr\n");
        break;
    case SKIPS_LAST_ROW: memcpy(bytes + out[0].bytes - row, held, row); break;
    case SLOW: usleep(1200000); break;
    case CLOSES_PIPES:
        close_all();
        break;
    case CLOSES_AND_HANGS:
        close_all();
        for (;;) pause();
    case ROUNDS_UP: fesetround(FE_UPWARD); break;
    case FLUSHES: flush_subnormals(); break;
    }
    return KVG_OK;
}

static const kvg_impl impls[] = {
    {"planted_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run},
    {"planted_dequantise", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "planted",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
};

const kvg_backend *kvg_backend_export(void);
const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
