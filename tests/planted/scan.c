#define _GNU_SOURCE /* memmem */
#include "tests/planted/scan.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reference/reference.h"

enum { PIECE = 64, MAX_ANSWER = 1 << 16 };
static const size_t LARGEST = (size_t)1 << 32; /* a sanitizer maps terabytes that nobody has touched */

/* The answer that is looked for, all bits inverted, so that the search does not find what it knows itself. */
static uint8_t inverted[MAX_ANSWER];

static void invert(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)~from[i];
}

/* The first place in [begin, end) that holds bytes 64 to 127 of the answer. The process's own memory is read through a
 * file: pages that cannot be read are an error there, not a signal. */
static const void *search(int memory, uintptr_t begin, uintptr_t end)
{
    static uint8_t window[1 << 20]; /* holds what it searched last: itself is passed over below */
    uint8_t wanted[PIECE];
    for (uintptr_t at = begin; at < end; at += sizeof window - PIECE) {
        const size_t left = end - at, most = left < sizeof window ? left : sizeof window;
        if (at < (uintptr_t)(window + sizeof window) && at + most > (uintptr_t)window) continue;
        const ssize_t n = pread(memory, window, most, (off_t)at);
        if (n <= 0) continue;
        invert(wanted, inverted + PIECE, PIECE);
        const uint8_t *found = memmem(window, (size_t)n, wanted, PIECE);
        memset(wanted, 0, sizeof wanted);
        __asm__ volatile("" : : "r"(wanted) : "memory"); /* the piece must really go */
        if (found) return (const void *)(at + (uintptr_t)(found - window));
    }
    return NULL;
}

static const void *search_all(void)
{
    char line[512];
    const void *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r"), *memory = fopen("/proc/self/mem", "r");
    while (maps && memory && !found && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char rights[8];
        if (strstr(line, "[v") || sscanf(line, "%lx-%lx %7s", &begin, &end, rights) != 3 || rights[0] != 'r') continue;
        if (end - begin > LARGEST) continue;
        found = search(fileno(memory), begin, end);
    }
    if (maps) fclose(maps);
    if (memory) fclose(memory);
    return found;
}

kvg_status scan_for_answer(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    if (out[0].bytes < 2 * PIECE || out[0].bytes > MAX_ANSWER) return kvg_fail(KVG_ERR_INVALID, "nothing to look for");
    uint8_t *codes = out[0].data;
    kvg_status s = kvg_reference_run(p, in, out);
    if (s) return s;
    invert(inverted, codes, out[0].bytes);
    memset(codes, 0, out[0].bytes); /* its own copy is not to be found */
    const void *found = search_all();
    invert(codes, inverted, out[0].bytes);
    return found ? kvg_fail(KVG_ERR_INVALID, "found the answer at %p", found) : KVG_OK;
}
