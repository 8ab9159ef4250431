#include "golden/json_write.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for `more` bytes and a NUL. */
static bool make_room(kvg_json_text *t, size_t more)
{
    if (t->failed) return false;
    if (t->size + more < t->capacity) return true;
    const size_t capacity = 2 * (t->size + more) + 256;
    char *grown = cJSON_malloc(capacity);
    if (!grown) {
        t->failed = true;
        return false;
    }
    if (t->size) memcpy(grown, t->text, t->size);
    cJSON_free(t->text);
    t->text = grown;
    t->capacity = capacity;
    return true;
}

void kvg_json_add(kvg_json_text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    if (n < 0) t->failed = true;
    else if (make_room(t, (size_t)n)) {
        vsnprintf(t->text + t->size, (size_t)n + 1, format, again);
        t->size += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void kvg_json_add_string(kvg_json_text *t, const char *string)
{
    kvg_json_add(t, "\"");
    for (; *string; string++) {
        const unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\') kvg_json_add(t, "\\%c", c);
        else if (c < 0x20) kvg_json_add(t, "\\u%04x", c);
        else kvg_json_add(t, "%c", c);
    }
    kvg_json_add(t, "\"");
}

kvg_status kvg_json_text_check(const kvg_json_text *t)
{
    return t->failed ? kvg_fail(KVG_ERR_MEMORY, "no memory for a JSON text of more than %zu bytes", t->size) : KVG_OK;
}

void kvg_json_text_free(kvg_json_text *t)
{
    cJSON_free(t->text);
    *t = (kvg_json_text){0};
}
