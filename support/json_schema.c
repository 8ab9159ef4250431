#include "support/json_schema.h"

#include <string.h>

enum { WIDTH = 120, STEP = 2 };

/* The first character behind the string that begins at `at`. */
static const char *string_end(const char *at)
{
    for (at++; *at != '"'; at++) {
        if (*at == '\\') at++;
    }
    return at + 1;
}

/* The first character behind the value that begins at `at`. */
static const char *value_end(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = string_end(at);
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') depth--;
        at++;
    } while (depth > 0 || (*at && !strchr(",]}", *at)));
    return at;
}

static bool is_container(const char *at)
{
    return *at == '{' || *at == '[';
}

/* No member of the list or object that begins at `at` is one itself. */
static bool is_flat(const char *at)
{
    const char *end = value_end(at);
    for (at++; at < end && !is_container(at);) at = *at == '"' ? string_end(at) : at + 1;
    return at == end;
}

/* One value; `used` columns of its line are taken, and one more may be for a comma. A list or object of plain values
 * is filled line by line; another one has a line for each member. */
static void lay_out(kvg_json_text *out, const char *at, int indent, int used)
{
    const char *end = value_end(at);
    if (!is_container(at) || used + (end - at) < WIDTH) {
        kvg_json_add(out, "%.*s", (int)(end - at), at);
        return;
    }
    const int inner = indent + STEP;
    const bool filled = is_flat(at);
    int column = inner;
    kvg_json_add(out, "%c\n%*s", *at, inner, "");
    for (const char *member = at + 1, *next; member < end; member = next + 2) { /* ", " or the closing bracket */
        const char *value = *member == '"' && *string_end(member) == ':' ? string_end(member) + 2 : member;
        next = value_end(value);
        if (member > at + 1 && filled && column + 2 + (next - member) < WIDTH) {
            kvg_json_add(out, ", ");
            column += 2;
        } else if (member > at + 1) {
            kvg_json_add(out, ",\n%*s", inner, "");
            column = inner;
        }
        kvg_json_add(out, "%.*s", (int)(value - member), member);
        lay_out(out, value, inner, inner + (int)(value - member));
        column += (int)(next - member);
    }
    kvg_json_add(out, "\n%*s%c", indent, "", end[-1]);
}

/* The text with one blank behind each comma and colon, and none elsewhere but in strings. */
static void add_spaced(kvg_json_text *out, const char *at)
{
    while (*at) {
        const char *end = *at == '"' ? string_end(at) : at + 1;
        if (*at == ',' || *at == ':') kvg_json_add(out, "%c ", *at);
        else if (*at != ' ') kvg_json_add(out, "%.*s", (int)(end - at), at);
        at = end;
    }
}

void kvg_json_lay_out(kvg_json_text *out, const char *json)
{
    kvg_json_text spaced = {0};
    add_spaced(&spaced, json);
    if (!kvg_json_text_check(&spaced)) lay_out(out, spaced.text, 0, 0);
    kvg_json_add(out, "\n");
    out->failed |= spaced.failed;
    kvg_json_text_free(&spaced);
}

void kvg_json_add_enum(kvg_json_text *out, kvg_json_names at, const char *const *names)
{
    kvg_json_add(out, "{\"enum\": [");
    for (size_t i = 0; at ? at(i) != NULL : names[i] != NULL; i++) {
        if (i) kvg_json_add(out, ", ");
        kvg_json_add_string(out, at ? at(i) : names[i]);
    }
    kvg_json_add(out, "]}");
}
