#include "harness/case/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kvg_result_write_separation(double least, char out[KVG_RESULT_NUMBER])
{
    int digits = 2;
    do snprintf(out, KVG_RESULT_NUMBER, "%.*g", digits, least);
    while (least != 1 && strtod(out, NULL) == 1 && digits++ < 17); /* 17 digits tell any two numbers apart */
}

void kvg_result_fail(kvg_result *r, const char *format, ...)
{
    if (r->verdict == KVG_VERDICT_FAIL) return;
    r->verdict = KVG_VERDICT_FAIL;
    va_list args;
    va_start(args, format);
    vsnprintf(r->detail, sizeof r->detail, format, args);
    va_end(args);
}

void kvg_result_add(kvg_result *r, const char *format, ...)
{
    const size_t used = strlen(r->detail);
    const int n = snprintf(r->detail + used, sizeof r->detail - used, "; ");
    if (n < 0 || used + (size_t)n >= sizeof r->detail) return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->detail + used + n, sizeof r->detail - used - (size_t)n, format, args);
    va_end(args);
}

void kvg_result_give_up(kvg_result *r, const char *what)
{
    r->verdict = KVG_VERDICT_ERROR;
    snprintf(r->detail, sizeof r->detail, "%s: %s", what, kvg_error_text());
}

bool kvg_result_is_judged(const kvg_result *r)
{
    return r->impl[0] && kvg_verdict_judges(r->verdict);
}
