#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 512 };
static _Thread_local char text[TEXT_SIZE];

/* A failure is one line that no terminal obeys, whatever bytes a name in it has. */
static void clean(void)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
    }
}

kvg_status kvg_fail(kvg_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clean();
    return status;
}

kvg_status kvg_fail_in(kvg_status status, const char *format, ...)
{
    char inner[TEXT_SIZE];
    memcpy(inner, text, sizeof inner);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0 && length + 3 < TEXT_SIZE) {
        snprintf(text + length, sizeof text - (size_t)length, ": %.*s", TEXT_SIZE - length - 3, inner);
    }
    clean();
    return status;
}

const char *kvg_error_text(void)
{
    return text;
}

const char *kvg_status_name(kvg_status status)
{
    switch (status) {
    case KVG_OK: return "ok";
    case KVG_ERR_INVALID: return "invalid";
    case KVG_ERR_UNIMPLEMENTED: return "unimplemented";
    case KVG_ERR_MEMORY: return "out of memory";
    case KVG_ERR_IO: return "i/o error";
    case KVG_ERR_NOT_FOUND: return "not found";
    case KVG_ERR_EXHAUSTED: return "exhausted";
    case KVG_ERR_DEVICE: return "device fault";
    case KVG_ERR_DEVICE_LOST: return "device lost";
    }
    return "unknown status";
}
