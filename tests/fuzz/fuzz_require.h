/* What the fuzz targets require: a failure ends the process, which the fuzzer reports with its input. */
#ifndef KVG_TESTS_FUZZ_FUZZ_REQUIRE_H
#define KVG_TESTS_FUZZ_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stdlib.h>

static inline void require(bool condition)
{
    if (!condition) abort();
}

/* An error's text: one line, without control bytes. */
static inline void require_line(const char *text)
{
    for (; *text; text++) require((unsigned char)*text >= 0x20 && *text != 0x7f);
}

#endif
