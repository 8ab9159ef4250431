#include "golden/json_scan.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/json.h"

enum {
    END = -1,
    MAX_NUMBER = 63 /* most cJSON releases copy a number into 64 bytes and read only the first 63 of a longer one */
};

typedef struct scan {
    const char *name;
    const char *text;
    size_t size;
    size_t at;
    size_t values;
} scan;

static int peek(const scan *s)
{
    return s->at < s->size ? (unsigned char)s->text[s->at] : END;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Columns count characters, not bytes. */
KVG_PRINTF(3, 4) static kvg_status fail_at(const scan *s, size_t at, const char *format, ...)
{
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < at; i++) {
        if (s->text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)s->text[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    char message[200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return kvg_fail(KVG_ERR_INVALID, "%s: line %zu, column %zu: %s", s->name, line, column, message);
}

static const char *hint(int c)
{
    switch (c) {
    case '/': case '#': return " (JSON has no comments)";
    case '\'': return " (strings take double quotes)";
    case '+': return " (numbers take no '+')";
    case '.': return " (a number begins with a digit)";
    case 'N': case 'I': return " (JSON has no NaN or Infinity)";
    case 'x': case 'X': return " (write hex numbers as strings)";
    case '}': case ']': return " (no comma after the last one)";
    default: return "";
    }
}

static kvg_status expected(const scan *s, const char *what)
{
    int c = peek(s);
    if (c == END) return fail_at(s, s->at, "expected %s, found the end of the text", what);
    if (c <= 0x20 || c >= 0x7f) return fail_at(s, s->at, "expected %s, found byte 0x%02x", what, (unsigned)c);
    return fail_at(s, s->at, "expected %s, found '%c'%s", what, c, hint(c));
}

static void skip_space(scan *s)
{
    for (int c = peek(s); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(s)) s->at++;
}

static bool skip(scan *s, int c)
{
    if (peek(s) != c) return false;
    s->at++;
    return true;
}

static kvg_status scan_digits(scan *s)
{
    if (!is_digit(peek(s))) return expected(s, "a digit");
    while (is_digit(peek(s))) s->at++;
    return KVG_OK;
}

static kvg_status scan_number(scan *s)
{
    size_t start = s->at;
    kvg_status status = KVG_OK;
    skip(s, '-');
    if (skip(s, '0')) {
        if (is_digit(peek(s))) return fail_at(s, start, "a number has a leading 0: leave it out");
    } else {
        status = scan_digits(s);
    }
    if (status == KVG_OK && skip(s, '.')) status = scan_digits(s);
    if (status == KVG_OK && (skip(s, 'e') || skip(s, 'E'))) {
        if (!skip(s, '+')) skip(s, '-');
        status = scan_digits(s);
    }
    if (status == KVG_OK && s->at - start > MAX_NUMBER) {
        return fail_at(s, start, "a number is longer than %d characters: write fewer digits", MAX_NUMBER);
    }
    return status;
}

static kvg_status scan_word(scan *s, const char *word)
{
    size_t length = strlen(word);
    if (s->size - s->at < length || memcmp(s->text + s->at, word, length) != 0) return expected(s, "a value");
    s->at += length;
    return KVG_OK;
}

/* Bytes of the well-formed UTF-8 sequence at `p` (Unicode 15, table 3-7), 0 if there is none. */
static size_t utf8_length(const char *p, size_t left)
{
    unsigned char lead = (unsigned char)p[0];
    size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length > left) return 0;
    for (size_t i = 1; i < length; i++) {
        unsigned char c = (unsigned char)p[i];
        unsigned low = 0x80;
        unsigned high = 0xbf;
        if (i == 1 && lead == 0xe0) low = 0xa0;  /* else overlong */
        if (i == 1 && lead == 0xed) high = 0x9f; /* else a surrogate */
        if (i == 1 && lead == 0xf0) low = 0x90;  /* else overlong */
        if (i == 1 && lead == 0xf4) high = 0x8f; /* else above U+10FFFF */
        if (c < low || c > high) return 0;
    }
    return length;
}

/* The four hex digits of a \u escape, which starts at the backslash. */
static kvg_status scan_code_unit(scan *s, unsigned *out)
{
    size_t start = s->at;
    unsigned unit = 0;
    s->at += 2;
    for (int i = 0; i < 4; i++, s->at++) {
        int c = peek(s);
        if (is_digit(c)) unit = unit * 16 + (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f') unit = unit * 16 + (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F') unit = unit * 16 + (unsigned)(c - 'A') + 10;
        else return fail_at(s, start, "\\u takes four hex digits");
    }
    *out = unit;
    return KVG_OK;
}

static kvg_status scan_escape(scan *s)
{
    size_t start = s->at;
    int c = start + 1 < s->size ? (unsigned char)s->text[start + 1] : END;
    if (c != 'u') {
        if (c <= 0 || !strchr("\"\\/bfnrt", c)) return fail_at(s, start, "unknown escape: write \\\\ for a backslash");
        s->at += 2;
        return KVG_OK;
    }
    unsigned unit = 0;
    kvg_status status = scan_code_unit(s, &unit);
    if (status != KVG_OK) return status;
    if (unit == 0) return fail_at(s, start, "\\u0000 cannot be part of a string");
    if (unit < 0xd800 || unit > 0xdfff) return KVG_OK;
    bool pair = s->size - s->at >= 2 && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u';
    if (unit >= 0xdc00 || !pair) return fail_at(s, start, "\\u%04x is half a surrogate pair", unit);
    unsigned second = 0;
    status = scan_code_unit(s, &second);
    if (status != KVG_OK) return status;
    if (second < 0xdc00 || second > 0xdfff) return fail_at(s, start, "\\u%04x is half a surrogate pair", unit);
    return KVG_OK;
}

static kvg_status scan_string(scan *s)
{
    size_t start = s->at++;
    while (!skip(s, '"')) {
        int c = peek(s);
        if (c == END) return fail_at(s, start, "a string has no end: close it with '\"'");
        if (c == 0) return fail_at(s, s->at, "byte 0x00 in a string: the file is not text");
        if (c < 0x20) return fail_at(s, s->at, "control byte 0x%02x in a string: write it as an escape", (unsigned)c);
        if (c == '\\') {
            kvg_status status = scan_escape(s);
            if (status != KVG_OK) return status;
        } else {
            size_t length = utf8_length(s->text + s->at, s->size - s->at);
            if (length == 0) return fail_at(s, s->at, "byte 0x%02x is not UTF-8: save the file as UTF-8", (unsigned)c);
            s->at += length;
        }
    }
    return KVG_OK;
}

static kvg_status scan_value(scan *s, int depth);

/* The inside of an array or object, up to its closing bracket. */
static kvg_status scan_container(scan *s, int depth, bool object)
{
    if (depth > KVG_JSON_MAX_DEPTH) return fail_at(s, s->at, "nested deeper than %d: flatten it", KVG_JSON_MAX_DEPTH);
    int close = object ? '}' : ']';
    s->at++;
    skip_space(s);
    if (skip(s, close)) return KVG_OK;
    for (;;) {
        kvg_status status = KVG_OK;
        if (object) {
            if (peek(s) != '"') return expected(s, "a key in double quotes");
            status = scan_string(s);
            if (status != KVG_OK) return status;
            skip_space(s);
            if (!skip(s, ':')) return expected(s, "':'");
            skip_space(s);
        }
        status = scan_value(s, depth);
        if (status != KVG_OK) return status;
        skip_space(s);
        if (skip(s, close)) return KVG_OK;
        if (!skip(s, ',')) return expected(s, object ? "',' or '}'" : "',' or ']'");
        skip_space(s);
    }
}

/* `depth`: how many containers are open around the value. */
static kvg_status scan_value(scan *s, int depth)
{
    if (++s->values > KVG_JSON_MAX_VALUES) {
        return fail_at(s, s->at, "more than %d values: split the file", KVG_JSON_MAX_VALUES);
    }
    int c = peek(s);
    switch (c) {
    case '{': return scan_container(s, depth + 1, true);
    case '[': return scan_container(s, depth + 1, false);
    case '"': return scan_string(s);
    case 't': return scan_word(s, "true");
    case 'f': return scan_word(s, "false");
    case 'n': return scan_word(s, "null");
    default: return c == '-' || is_digit(c) ? scan_number(s) : expected(s, "a value");
    }
}

kvg_status kvg_json_scan(const char *name, const char *text, size_t size, size_t *values)
{
    scan s = {name, text, size, 0, 0};
    if (size == 0) return kvg_fail(KVG_ERR_INVALID, "%s: is empty: write one JSON value", name);
    if (size > KVG_JSON_MAX_BYTES) {
        return kvg_fail(KVG_ERR_INVALID, "%s: %zu bytes of JSON are over the limit of %d: split it", name, size,
                        KVG_JSON_MAX_BYTES);
    }
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        return fail_at(&s, 0, "begins with a byte order mark: save the file as UTF-8 without one");
    }
    skip_space(&s);
    kvg_status status = scan_value(&s, 0);
    if (status != KVG_OK) return status;
    skip_space(&s);
    if (s.at != size) return expected(&s, "the end of the text after the value");
    *values = s.values;
    return KVG_OK;
}

const char *kvg_json_scan_space(const char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\r') text++;
    return text;
}

static const char *string_end(const char *text)
{
    for (text++; *text != '"'; text++) text += *text == '\\';
    return text + 1;
}

const char *kvg_json_scan_end(const char *text)
{
    size_t open = 0;
    if (*text == '"') return string_end(text);
    if (*text != '[' && *text != '{') return text + strcspn(text, " \t\n\r,]}");
    do {
        if (*text == '"') {
            text = string_end(text);
            continue;
        }
        open += *text == '[' || *text == '{';
        open -= *text == ']' || *text == '}';
        text++;
    } while (open);
    return text;
}

static unsigned hex4(const char *text)
{
    char digits[5] = {text[0], text[1], text[2], text[3], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* The UTF-8 bytes of a \u escape, or of a pair of them; *from moves behind it. */
static char *decode_unicode(const char **from, char *to)
{
    unsigned code = hex4(*from + 2);
    *from += 6;
    if (code >= 0xd800 && code < 0xdc00) {
        code = 0x10000 + ((code - 0xd800) << 10) + (hex4(*from + 2) - 0xdc00);
        *from += 6;
    }
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(lead[more] | code >> 6 * more);
    for (int i = more; i-- > 0;) *to++ = (char)(0x80 | (code >> 6 * i & 0x3f));
    return to;
}

char *kvg_json_scan_decode(char *text)
{
    static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    const char *from = text + 1;
    char *to = text;
    while (*from != '"') {
        if (*from != '\\') {
            *to++ = *from++;
        } else if (from[1] == 'u') {
            to = decode_unicode(&from, to);
        } else {
            const char *letter = strchr(letters, from[1]);
            *to++ = letter ? bytes[letter - letters] : from[1];
            from += 2;
        }
    }
    *to = '\0';
    return text;
}

size_t kvg_json_scan_number_length(const char *number)
{
    return strspn(number, "+-.0123456789eE");
}
