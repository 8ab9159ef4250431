/* SPDX-License-Identifier: Apache-2.0
 *
 * kvgold_pack.h: reads golden packs (docs/spec/golden-pack.md of kvgold) in one file without dependencies, C99 or C++11
 * on POSIX. Copy it into your tree. In one source file, before every other include:
 *
 *     #define KVGOLD_PACK_IMPLEMENTATION
 *     #include "kvgold_pack.h"
 *
 * and in a test of your engine:
 *
 *     char error[KVGOLD_ERROR_SIZE];
 *     kvgold_pack *pack = kvgold_pack_open("packs/hnd", error);
 *     if (!pack) ...                                     error: one line that names file, place and reason
 *     for (size_t i = 0; i < pack->case_count; i++) {
 *         const kvgold_case *c = &pack->cases[i];
 *         if (c->stored) ...                             give c->prompt[].data to the engine
 *         kvgold_report report;
 *         for each answer a = &c->answer[k] that it gave:
 *             if (kvgold_compare(a, data, bytes, false, &report) == KVGOLD_FAIL) puts(report.text);
 *     }
 *     kvgold_pack_close(pack);
 *
 * A pack is handed out only if every check of section 11 held; every bit of its six files is covered. This reader is
 * written from that page and shares no code with kvgold. It keeps the files in memory. No global state: packs may be
 * read by many threads at once. Bytes are taken to be in the machine's order, which must be little-endian. */
#ifndef KVG_GOLDEN_READER_KVGOLD_PACK_H
#define KVG_GOLDEN_READER_KVGOLD_PACK_H

#if defined(KVGOLD_PACK_IMPLEMENTATION) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVGOLD_ERROR_SIZE = 512, KVGOLD_MAX_RANK = 4 };

/* Strings and bytes belong to the pack and live as long as it does. */
typedef struct kvgold_tensor {
    const char *name;       /* "0003.k_data" */
    const char *short_name; /* "k_data": the name in core/roles.def, in `expected` with its suffix */
    const char *dtype;      /* "U8", "F16", "BF16", "F32", "F64", "I32", "I64" */
    uint32_t rank;
    uint64_t shape[KVGOLD_MAX_RANK];
    uint64_t bytes;
    const char *packing[2]; /* where the 4-bit codes of K and of V lie: a word of section 2; NULL: not in this tensor */
    const void *data;       /* aligned to 256 bytes; NULL: the case is a recipe, and no file has the bytes */
} kvgold_tensor;

typedef enum kvgold_rule {
    KVGOLD_BITS,   /* every byte equals that of `expected` */
    KVGOLD_BY_RULE, /* only `kvgold compare` can tell */
    KVGOLD_BOUND   /* |y - exact| <= bound for every number y */
} kvgold_rule;

/* An answer that an engine gives, and what it is judged by. */
typedef struct kvgold_answer {
    const char *name, *short_name, *dtype;
    uint32_t rank;
    uint64_t shape[KVGOLD_MAX_RANK];
    uint64_t bytes;
    kvgold_rule rule;
    const char *profile; /* NULL: none */
    const kvgold_tensor *expected, *exact, *bound; /* NULL if the rule does not use it */
} kvgold_answer;

typedef struct kvgold_case {
    const char *key;     /* "0003" */
    const char *id;
    const char *config;  /* the case, as JSON text: docs/guide/config.md section 3 */
    const char *erratum; /* text of an erratum that names the case, which you must tell the user; NULL: there is none */
    uint32_t layer;      /* layer of the pools on which the op works */
    bool stored;         /* false: a recipe without tensors; `kvgold golden expand` computes them */
    const char *const *flags;
    size_t flag_count;
    const kvgold_tensor *prompt, *expected;
    const kvgold_answer *answer;
    size_t prompt_count, expected_count, answer_count;
} kvgold_case;

typedef struct kvgold_pack {
    const char *name, *version, *licence;
    const char *superseded_by; /* a pack that replaces this one, which you must tell the user; NULL: there is none */
    uint64_t seed;
    const kvgold_case *cases;
    size_t case_count;
    struct kvgoldp_block *memory; /* private */
} kvgold_pack;

/* A file of a pack in memory. */
typedef struct kvgold_file {
    const void *data;
    size_t size;
} kvgold_file;

/* The six files of a pack, in the order of kvgold_pack_parse. */
enum {
    KVGOLD_MANIFEST,
    KVGOLD_MANIFEST_SUM,
    KVGOLD_PROMPT,
    KVGOLD_EXPECTED,
    KVGOLD_PROVENANCE,
    KVGOLD_PROVENANCE_SUM,
    KVGOLD_FILES
};

/* Opens a folder and checks every byte of it. If a check fails, returns NULL and writes one line to
 * `error`. */
kvgold_pack *kvgold_pack_open(const char *folder, char error[KVGOLD_ERROR_SIZE]);

/* As kvgold_pack_open, from files in memory. The bytes must outlive the pack. Tensors are as
 * aligned as the files are. */
kvgold_pack *kvgold_pack_parse(const kvgold_file files[KVGOLD_FILES], char error[KVGOLD_ERROR_SIZE]);
void kvgold_pack_close(kvgold_pack *pack); /* NULL is allowed */

/* A tensor of a list by its short name; NULL if there is none. */
const kvgold_tensor *kvgold_tensor_find(const kvgold_tensor *list, size_t count, const char *short_name);

typedef enum kvgold_result {
    KVGOLD_PASS,
    KVGOLD_FAIL,
    KVGOLD_SKIP /* could not be judged; this is never a pass */
} kvgold_result;

typedef struct kvgold_report {
    kvgold_result result;
    uint64_t wrong;      /* number of wrong bytes (BITS) or wrong numbers (BOUND) */
    uint64_t first;      /* index of the first wrong byte or number */
    uint64_t unpromised; /* numbers whose bound is +Inf */
    char text[KVGOLD_ERROR_SIZE]; /* one line */
} kvgold_report;

/* Judges an engine's answer: `data` is dense and row-major, of the answer's dtype and shape. With
 * `bits`, an answer that has a profile must equal `expected` bit for bit. NaN never passes, except
 * where the profile's own answer is NaN. A recipe and KVGOLD_BY_RULE give KVGOLD_SKIP. */
kvgold_result kvgold_compare(const kvgold_answer *answer, const void *data, uint64_t bytes, bool bits,
                             kvgold_report *report);

/* ================================================================================================================== */
#ifdef KVGOLD_PACK_IMPLEMENTATION

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__GNUC__)
#define KVGOLDP_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define KVGOLDP_PRINTF(text, first)
#endif

#ifndef KVGOLDP_CHUNK
#define KVGOLDP_CHUNK ((size_t)1 << 16) /* bytes that small allocations share; 0: none do, for sanitizers */
#endif

/* Limits of section 11. */
enum {
    KVGOLDP_MAX_TEXT = 16 << 20, /* bytes of a JSON text */
    KVGOLDP_MAX_DEPTH = 32,
    KVGOLDP_MAX_CASES = 10000,
    KVGOLDP_MAX_LIST = 32,
    KVGOLDP_MAX_FLAGS = 64,
    KVGOLDP_MAX_ERRATA = 64,
    KVGOLDP_MAX_NUMBER = 63,
    KVGOLDP_ALIGNMENT = 256,
    KVGOLDP_WHERE = 96
};
static const uint64_t kvgoldp_max_file = (uint64_t)64 << 30;
static const uint64_t kvgoldp_max_tensor = (uint64_t)1 << 38;
static const uint64_t kvgoldp_max_integer = (uint64_t)1 << 53;

static const char *const kvgoldp_file_names[KVGOLD_FILES] = {
    "manifest.json", "manifest.sha256", "prompt.safetensors", "expected.safetensors", "provenance.json",
    "provenance.sha256"};

/* ---- memory, errors ---- */

typedef struct kvgoldp_block {
    struct kvgoldp_block *next;
    void *data;
} kvgoldp_block;

/* A pack being read. Functions that can fail return false with the line in `error`. */
typedef struct kvgoldp_reader {
    char *error;
    const char *folder; /* for the line */
    int directory;      /* < 0: the files are in memory */
    kvgold_file files[KVGOLD_FILES];
    kvgoldp_block *memory;
    char *free; /* `left` bytes of the newest shared block */
    size_t left;
} kvgoldp_reader;

/* One line: control bytes and what is not ASCII are shown as '?'. */
KVGOLDP_PRINTF(3, 4) static bool kvgoldp_fail(kvgoldp_reader *r, const char *file, const char *format, ...)
{
    char text[KVGOLD_ERROR_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(r->error, KVGOLD_ERROR_SIZE, "%.200s%s%s: %s", r->folder, file[0] ? "/" : "", file, text);
    for (char *c = r->error; *c; c++) *c = *c >= ' ' && *c <= '~' ? *c : '?';
    return false;
}

/* Zeroed bytes aligned to 256, freed with the pack; NULL with the error set. */
static char *kvgoldp_alloc_aligned(kvgoldp_reader *r, size_t bytes)
{
    kvgoldp_block *block = (kvgoldp_block *)calloc(1, sizeof *block);
    char *data = block && bytes < SIZE_MAX / 2 ? (char *)calloc(1, bytes + KVGOLDP_ALIGNMENT) : NULL;
    if (!data) {
        free(block);
        (void)kvgoldp_fail(r, "", "no memory for %zu bytes", bytes);
        return NULL;
    }
    block->data = data;
    block->next = r->memory;
    r->memory = block;
    return data + (KVGOLDP_ALIGNMENT - (uintptr_t)data % KVGOLDP_ALIGNMENT) % KVGOLDP_ALIGNMENT;
}

/* The same for `count` things of `size` bytes, more than 0; small ones share a block and are aligned to 16. */
static void *kvgoldp_alloc(kvgoldp_reader *r, size_t count, size_t size)
{
    if (count > SIZE_MAX / 4 / size) {
        (void)kvgoldp_fail(r, "", "no memory for %zu times %zu bytes", count, size);
        return NULL;
    }
    const size_t bytes = (count * size + 15) / 16 * 16;
    if (bytes > KVGOLDP_CHUNK / 4) return kvgoldp_alloc_aligned(r, bytes);
    if (bytes > r->left) {
        r->free = kvgoldp_alloc_aligned(r, KVGOLDP_CHUNK);
        r->left = r->free ? KVGOLDP_CHUNK : 0;
        if (!r->free) return NULL;
    }
    r->left -= bytes;
    r->free += bytes;
    return r->free - bytes;
}

static void kvgoldp_free(kvgoldp_block *block)
{
    while (block) {
        kvgoldp_block *next = block->next;
        free(block->data);
        free(block);
        block = next;
    }
}

/* ---- SHA-256: FIPS 180-4 section 6.2 ---- */

static const uint32_t kvgoldp_sha_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t kvgoldp_rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void kvgoldp_sha_block(uint32_t state[8], const uint8_t *bytes)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 | (uint32_t)bytes[4 * i + 2] << 8 |
               bytes[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (kvgoldp_rotate(x, 7) ^ kvgoldp_rotate(x, 18) ^ x >> 3) + w[i - 7] +
               (kvgoldp_rotate(y, 17) ^ kvgoldp_rotate(y, 19) ^ y >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t one = h + (kvgoldp_rotate(e, 6) ^ kvgoldp_rotate(e, 11) ^ kvgoldp_rotate(e, 25)) +
                             ((e & f) ^ (~e & g)) + kvgoldp_sha_constants[i] + w[i];
        const uint32_t two = (kvgoldp_rotate(a, 2) ^ kvgoldp_rotate(a, 13) ^ kvgoldp_rotate(a, 22)) +
                             ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + one;
        d = c, c = b, b = a, a = one + two;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* 64 lower-case hex digits and a NUL. */
static void kvgoldp_sha_text(const void *data, size_t size, char text[65])
{
    static const char digits[] = "0123456789abcdef";
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *bytes = (const uint8_t *)data;
    uint8_t last[128] = {0};
    const size_t whole = size / 64, rest = size % 64, tail = rest < 56 ? 64 : 128;
    for (size_t i = 0; i < whole; i++) kvgoldp_sha_block(state, bytes + 64 * i);
    if (rest) memcpy(last, bytes + 64 * whole, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++) last[tail - 1 - i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    for (size_t i = 0; i < tail; i += 64) kvgoldp_sha_block(state, last + i);
    for (int i = 0; i < 64; i++) text[i] = digits[state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    text[64] = '\0';
}

/* ---- JSON: RFC 8259, no repeated keys, no NUL in strings ---- */

typedef struct kvgoldp_json {
    char type;        /* 'o'bject, 'a'rray, 's'tring, 'n'umber, 't'rue, 'f'alse, '0' null */
    const char *key;  /* of a member */
    const char *text; /* of a string or a number, else "" */
    const char *raw;  /* what the document says, raw_size bytes of it */
    size_t raw_size;
    struct kvgoldp_json *child, *next;
    size_t count; /* of children */
} kvgoldp_json;

typedef struct kvgoldp_scan {
    kvgoldp_reader *r;
    const char *file;
    const char *at, *end, *begin;
} kvgoldp_scan;

static bool kvgoldp_bad_json(kvgoldp_scan *s, const char *what)
{
    return kvgoldp_fail(s->r, s->file, "JSON: byte %zu: %s", (size_t)(s->at - s->begin), what);
}

static int kvgoldp_peek(const kvgoldp_scan *s)
{
    return s->at < s->end ? (unsigned char)*s->at : -1;
}

static void kvgoldp_space(kvgoldp_scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r')) s->at++;
}

static bool kvgoldp_take(kvgoldp_scan *s, int c)
{
    if (kvgoldp_peek(s) != c) return false;
    s->at++;
    return true;
}

static char *kvgoldp_copy(kvgoldp_reader *r, const char *from, size_t length)
{
    char *to = (char *)kvgoldp_alloc(r, length + 1, 1);
    if (to && length) memcpy(to, from, length);
    return to;
}

/* Four hex digits; -1: they are not. */
static long kvgoldp_hex4(kvgoldp_scan *s)
{
    long value = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const int c = kvgoldp_peek(s);
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t kvgoldp_utf8(unsigned long code, char *to)
{
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[length] | code);
    return length;
}

/* After a backslash. */
static bool kvgoldp_escape(kvgoldp_scan *s, char *to, size_t *length)
{
    static const char from_to[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const int c = kvgoldp_peek(s);
    for (const char *p = from_to; *p; p += 2) {
        if (*p != c) continue;
        s->at++;
        *length = 1;
        *to = p[1];
        return true;
    }
    if (!kvgoldp_take(s, 'u')) return kvgoldp_bad_json(s, "unknown escape");
    long code = kvgoldp_hex4(s);
    if (code < 0) return kvgoldp_bad_json(s, "\\u takes four hex digits");
    if (code == 0) return kvgoldp_bad_json(s, "\\u0000 in a string");
    if (code >= 0xd800 && code < 0xe000) {
        const bool pair = code < 0xdc00 && kvgoldp_take(s, '\\') && kvgoldp_take(s, 'u');
        const long low = pair ? kvgoldp_hex4(s) : -1;
        if (low < 0xdc00 || low > 0xdfff) return kvgoldp_bad_json(s, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *length = kvgoldp_utf8((unsigned long)code, to);
    return true;
}

/* Bytes of the UTF-8 sequence here, 0: it is none (Unicode 15, table 3-7). */
static size_t kvgoldp_utf8_length(const kvgoldp_scan *s)
{
    const unsigned char *p = (const unsigned char *)s->at;
    const size_t left = (size_t)(s->end - s->at);
    const size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (length > left) return 0;
    for (size_t i = 1; i < length; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) return 0;
    }
    const bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    const bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

static bool kvgoldp_string(kvgoldp_scan *s, const char **out)
{
    if (!kvgoldp_take(s, '"')) return kvgoldp_bad_json(s, "expected a string");
    const char *close = s->at; /* not before the end: what is inside is never longer than what is written */
    while (close < s->end && *close != '"') close += *close == '\\' && close + 1 < s->end ? 2 : 1;
    char *to = (char *)kvgoldp_alloc(s->r, (size_t)(close - s->at) + 1, 1);
    if (!to) return false;
    *out = to;
    while (!kvgoldp_take(s, '"')) {
        const int c = kvgoldp_peek(s);
        size_t length = 1;
        if (c < 0) return kvgoldp_bad_json(s, "a string has no end");
        if (c < 0x20) return kvgoldp_bad_json(s, "control byte in a string");
        if (c == '\\') {
            s->at++;
            if (!kvgoldp_escape(s, to, &length)) return false;
        } else {
            length = kvgoldp_utf8_length(s);
            if (!length) return kvgoldp_bad_json(s, "not UTF-8");
            memcpy(to, s->at, length);
            s->at += length;
        }
        to += length;
    }
    return true;
}

static bool kvgoldp_digits(kvgoldp_scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') s->at++;
    return s->at > from || kvgoldp_bad_json(s, "expected a digit");
}

static bool kvgoldp_number(kvgoldp_scan *s)
{
    const char *from = s->at;
    (void)kvgoldp_take(s, '-');
    if (kvgoldp_take(s, '0')) {
        const int c = kvgoldp_peek(s);
        if (c >= '0' && c <= '9') return kvgoldp_bad_json(s, "a number has a leading 0");
    } else if (!kvgoldp_digits(s)) {
        return false;
    }
    if (kvgoldp_take(s, '.') && !kvgoldp_digits(s)) return false;
    if (kvgoldp_take(s, 'e') || kvgoldp_take(s, 'E')) {
        if (!kvgoldp_take(s, '+')) (void)kvgoldp_take(s, '-');
        if (!kvgoldp_digits(s)) return false;
    }
    return s->at - from <= KVGOLDP_MAX_NUMBER || kvgoldp_bad_json(s, "a number is too long");
}

/* strtod reads the decimal point of the locale. It sets ERANGE of subnormal numbers, too, and they fit. */
static bool kvgoldp_fits_double(kvgoldp_scan *s, const char *text)
{
    char copy[KVGOLDP_MAX_NUMBER + 1];
    memcpy(copy, text, strlen(text) + 1);
    char *point = strchr(copy, '.');
    if (point) *point = localeconv()->decimal_point[0];
    errno = 0;
    const double value = strtod(copy, NULL);
    const bool subnormal = value != 0 && value > -1 && value < 1;
    return errno != ERANGE || subnormal || kvgoldp_bad_json(s, "a number is too large or too small for a double");
}

static int kvgoldp_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first text that is there twice; NULL: none. Sorts the list. */
static const char *kvgoldp_repeated(const char **list, size_t count)
{
    if (count) qsort(list, count, sizeof *list, kvgoldp_by_text);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(list[i - 1], list[i]) == 0) return list[i];
    }
    return NULL;
}

static bool kvgoldp_unique_keys(kvgoldp_scan *s, const kvgoldp_json *object)
{
    const char **keys = (const char **)kvgoldp_alloc(s->r, object->count + 1, sizeof *keys);
    if (!keys) return false;
    size_t count = 0;
    for (const kvgoldp_json *m = object->child; m; m = m->next) keys[count++] = m->key;
    const char *repeated = kvgoldp_repeated(keys, count);
    return !repeated || kvgoldp_fail(s->r, s->file, "JSON: duplicate key '%.60s'", repeated);
}

static bool kvgoldp_value(kvgoldp_scan *s, int depth, kvgoldp_json *out);

/* Members or elements, after the bracket. */
static bool kvgoldp_children(kvgoldp_scan *s, int depth, kvgoldp_json *out)
{
    const int close = out->type == 'o' ? '}' : ']';
    kvgoldp_json **link = &out->child;
    kvgoldp_space(s);
    if (kvgoldp_take(s, close)) return true;
    do {
        kvgoldp_json *child = (kvgoldp_json *)kvgoldp_alloc(s->r, 1, sizeof *child);
        if (!child) return false;
        kvgoldp_space(s);
        if (out->type == 'o') {
            if (!kvgoldp_string(s, &child->key)) return false;
            kvgoldp_space(s);
            if (!kvgoldp_take(s, ':')) return kvgoldp_bad_json(s, "expected ':'");
            kvgoldp_space(s);
        }
        if (!kvgoldp_value(s, depth, child)) return false;
        *link = child;
        link = &child->next;
        out->count++;
        kvgoldp_space(s);
    } while (kvgoldp_take(s, ','));
    if (!kvgoldp_take(s, close)) return kvgoldp_bad_json(s, "expected ',' or the closing bracket");
    return out->type == 'a' || kvgoldp_unique_keys(s, out);
}

static bool kvgoldp_value(kvgoldp_scan *s, int depth, kvgoldp_json *out)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *from = s->at;
    const int c = kvgoldp_peek(s);
    bool good = false;
    out->text = "";
    if (c == '"') {
        out->type = 's';
        good = kvgoldp_string(s, &out->text);
    } else if (c == '{' || c == '[') {
        if (depth == KVGOLDP_MAX_DEPTH) return kvgoldp_bad_json(s, "nested deeper than 32");
        s->at++;
        out->type = c == '{' ? 'o' : 'a';
        good = kvgoldp_children(s, depth + 1, out);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        out->type = 'n';
        good = kvgoldp_number(s) && (out->text = kvgoldp_copy(s->r, from, (size_t)(s->at - from))) != NULL &&
               kvgoldp_fits_double(s, out->text);
    } else {
        for (int i = 0; i < 3 && !good; i++) {
            const size_t length = strlen(words[i]);
            good = (size_t)(s->end - s->at) >= length && memcmp(s->at, words[i], length) == 0;
            if (good) s->at += length;
            out->type = "tf0"[i];
        }
        if (!good) return kvgoldp_bad_json(s, "expected a value");
    }
    out->raw = from;
    out->raw_size = (size_t)(s->at - from);
    return good;
}

/* `size` bytes that are one JSON value. */
static bool kvgoldp_parse(kvgoldp_reader *r, const char *file, const char *text, size_t size, kvgoldp_json *out)
{
    kvgoldp_scan s = {r, file, text, text + size, text};
    memset(out, 0, sizeof *out);
    if (size > KVGOLDP_MAX_TEXT) return kvgoldp_fail(r, file, "JSON of more than 16 MiB");
    kvgoldp_space(&s);
    if (!kvgoldp_value(&s, 0, out)) return false;
    kvgoldp_space(&s);
    return s.at == s.end || kvgoldp_bad_json(&s, "text after the value");
}

/* ---- typed reads of JSON; `where` names the value for the error ---- */

static const kvgoldp_json *kvgoldp_get(const kvgoldp_json *object, const char *key)
{
    const kvgoldp_json *m = object->child;
    while (m && strcmp(m->key, key) != 0) m = m->next;
    return m;
}

/* Whether two documents say the same, numbers in the same words. */
static bool kvgoldp_same(const kvgoldp_json *a, const kvgoldp_json *b)
{
    if (a->type != b->type || a->count != b->count || strcmp(a->text, b->text) != 0) return false;
    const kvgoldp_json *other = b->child;
    for (const kvgoldp_json *m = a->child; m; m = m->next) {
        if (a->type == 'o') other = kvgoldp_get(b, m->key);
        if (!other || !kvgoldp_same(m, other)) return false;
        if (a->type == 'a') other = other->next;
    }
    return true;
}

/* `value` is an object with all of the keys, given as "a b ?c", those with '?' perhaps, and no other. */
static bool kvgoldp_keys(kvgoldp_reader *r, const char *file, const char *where, const kvgoldp_json *value,
                         const char *keys)
{
    size_t known = 0;
    if (value->type != 'o') return kvgoldp_fail(r, file, "%s: expected an object", where);
    for (const char *p = keys; *p;) {
        char key[32];
        const bool optional = *p == '?';
        const size_t length = strcspn(p + optional, " ");
        memcpy(key, p + optional, length);
        key[length] = '\0';
        p += (size_t)optional + length;
        p += *p == ' ';
        if (kvgoldp_get(value, key)) known++;
        else if (!optional) return kvgoldp_fail(r, file, "%s: missing key '%s'", where, key);
    }
    if (known == value->count) return true;
    return kvgoldp_fail(r, file, "%s: unknown key; known: %s", where, keys);
}

static bool kvgoldp_text(kvgoldp_reader *r, const char *file, const char *where, const kvgoldp_json *object,
                         const char *key, const char **out)
{
    const kvgoldp_json *value = kvgoldp_get(object, key);
    if (!value || value->type != 's') return kvgoldp_fail(r, file, "%s.%s: expected a string", where, key);
    *out = value->text;
    return true;
}

/* A number of digits alone, of at most 2^53. */
static bool kvgoldp_integer(kvgoldp_reader *r, const char *file, const char *where, const kvgoldp_json *value,
                            uint64_t most, uint64_t *out)
{
    *out = 0;
    bool good = value && value->type == 'n' && strlen(value->text) <= 16;
    for (const char *p = good ? value->text : ""; *p; p++) {
        good = good && *p >= '0' && *p <= '9';
        *out = *out * 10 + (uint64_t)(unsigned char)(*p - '0');
    }
    if (good && *out <= most) return true;
    return kvgoldp_fail(r, file, "%s: expected an integer up to %llu", where, (unsigned long long)most);
}

/* An array of at most `most`. */
static const kvgoldp_json *kvgoldp_list(kvgoldp_reader *r, const char *file, const char *where,
                                        const kvgoldp_json *object, const char *key, size_t most)
{
    const kvgoldp_json *value = kvgoldp_get(object, key);
    if (value && value->type == 'a' && value->count <= most) return value;
    (void)kvgoldp_fail(r, file, "%s.%s: expected a list of at most %zu", where, key, most);
    return NULL;
}

static bool kvgoldp_of(const char *text, const char *allowed)
{
    return text[0] && text[strspn(text, allowed)] == '\0';
}

static bool kvgoldp_is_sum(const char *text)
{
    return strlen(text) == 64 && kvgoldp_of(text, "0123456789abcdef");
}

static bool kvgoldp_is_name(const char *text)
{
    return strlen(text) <= 64 && kvgoldp_of(text, "abcdefghijklmnopqrstuvwxyz0123456789_.-") && !strchr("_.-", text[0]);
}

static bool kvgoldp_is_version(const char *text)
{
    for (int part = 0; part < 3; part++) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9 || (digits > 1 && text[0] == '0')) return false;
        text += digits;
        if (part < 2 && *text++ != '.') return false;
    }
    return *text == '\0';
}

/* ---- files ---- */

static bool kvgoldp_read(kvgoldp_reader *r, int which, int fd, uint64_t most)
{
    const char *name = kvgoldp_file_names[which];
    struct stat about;
    if (fstat(fd, &about) != 0) return kvgoldp_fail(r, name, "%s", strerror(errno));
    if (!S_ISREG(about.st_mode)) return kvgoldp_fail(r, name, "not a regular file");
    if ((uint64_t)about.st_size > most) {
        return kvgoldp_fail(r, name, "%llu bytes, expected at most %llu", (unsigned long long)about.st_size,
                            (unsigned long long)most);
    }
    const size_t size = (size_t)about.st_size;
    char *data = kvgoldp_alloc_aligned(r, size);
    if (!data) return false;
    for (size_t done = 0; done < size;) {
        const ssize_t got = read(fd, data + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return kvgoldp_fail(r, name, "cannot read it: %s", got ? strerror(errno) : "it became shorter");
        done += (size_t)got;
    }
    r->files[which].data = data;
    r->files[which].size = size;
    return true;
}

/* File `which` into r->files, if it is not there already. Not empty, and of at most `most` bytes. */
static bool kvgoldp_load(kvgoldp_reader *r, int which, uint64_t most)
{
    const char *name = kvgoldp_file_names[which];
    if (r->directory >= 0) {
        const int fd = openat(r->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == ELOOP) return kvgoldp_fail(r, name, "a symbolic link, not a file");
        if (fd < 0) return kvgoldp_fail(r, name, "%s", strerror(errno));
        const bool good = kvgoldp_read(r, which, fd, most);
        (void)close(fd);
        if (!good) return false;
    }
    if (r->files[which].size == 0) return kvgoldp_fail(r, name, "empty");
    return r->files[which].size <= most || kvgoldp_fail(r, name, "more than %llu bytes", (unsigned long long)most);
}

/* A file and the file that holds its SHA-256 as sha256sum writes it. */
static bool kvgoldp_load_summed(kvgoldp_reader *r, int which, int sum)
{
    char line[128];
    const size_t length = 64 + 2 + strlen(kvgoldp_file_names[which]) + 1;
    if (!kvgoldp_load(r, sum, length) || !kvgoldp_load(r, which, KVGOLDP_MAX_TEXT)) return false;
    const kvgold_file *file = &r->files[which];
    kvgoldp_sha_text(file->data, file->size, line);
    (void)snprintf(line + 64, sizeof line - 64, "  %s\n", kvgoldp_file_names[which]);
    if (r->files[sum].size == length && memcmp(r->files[sum].data, line, length) == 0) return true;
    return kvgoldp_fail(r, kvgoldp_file_names[sum], "not '%.64s  %s' and a newline: one of the two files was changed",
                        line, kvgoldp_file_names[which]);
}

/* ---- safetensors: section 2 ---- */

typedef struct kvgoldp_entry {
    const char *name, *dtype;
    uint32_t rank;
    uint64_t shape[KVGOLD_MAX_RANK];
    uint64_t begin, end; /* in the tensor bytes */
} kvgoldp_entry;

typedef struct kvgoldp_tensors {
    const char *file;
    kvgoldp_json metadata;
    kvgoldp_entry *entries; /* by begin */
    size_t count;
    const uint8_t *data;
    uint64_t size; /* of data */
} kvgoldp_tensors;

static bool kvgoldp_dtype(const char *name, uint64_t *bytes)
{
    static const char names[7][8] = {"U8", "F16", "BF16", "I32", "F32", "I64", "F64"};
    static const uint64_t sizes[7] = {1, 2, 2, 4, 4, 8, 8};
    for (int i = 0; i < 7; i++) {
        *bytes = sizes[i];
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

/* dtype and shape of a tensor or an answer, and the bytes that they take. */
static bool kvgoldp_extent(kvgoldp_reader *r, const char *file, const char *where, const kvgoldp_json *object,
                           const char **dtype, uint32_t *rank, uint64_t shape[KVGOLD_MAX_RANK], uint64_t *bytes)
{
    if (!kvgoldp_text(r, file, where, object, "dtype", dtype)) return false;
    if (!kvgoldp_dtype(*dtype, bytes)) return kvgoldp_fail(r, file, "%s: unknown dtype '%.20s'", where, *dtype);
    const kvgoldp_json *list = kvgoldp_list(r, file, where, object, "shape", KVGOLD_MAX_RANK);
    if (!list) return false;
    *rank = 0;
    for (const kvgoldp_json *size = list->child; size; size = size->next) {
        uint64_t *n = &shape[(*rank)++];
        if (!kvgoldp_integer(r, file, where, size, kvgoldp_max_integer, n)) return false;
        if (*n == 0) return kvgoldp_fail(r, file, "%s: a tensor without bytes", where);
        if (*bytes > kvgoldp_max_tensor / *n) return kvgoldp_fail(r, file, "%s: more than 2^38 bytes", where);
        *bytes *= *n;
    }
    return true;
}

static bool kvgoldp_read_entry(kvgoldp_reader *r, const kvgoldp_tensors *t, const kvgoldp_json *tensor,
                               kvgoldp_entry *e)
{
    char where[KVGOLDP_WHERE];
    uint64_t bytes = 0;
    (void)snprintf(where, sizeof where, "tensor '%.60s'", tensor->key);
    e->name = tensor->key;
    if (!kvgoldp_keys(r, t->file, where, tensor, "dtype shape data_offsets") ||
        !kvgoldp_extent(r, t->file, where, tensor, &e->dtype, &e->rank, e->shape, &bytes)) {
        return false;
    }
    const kvgoldp_json *offsets = kvgoldp_list(r, t->file, where, tensor, "data_offsets", 2);
    if (!offsets) return false;
    if (offsets->count != 2) return kvgoldp_fail(r, t->file, "%s: expected two offsets", where);
    if (!kvgoldp_integer(r, t->file, where, offsets->child, kvgoldp_max_file, &e->begin) ||
        !kvgoldp_integer(r, t->file, where, offsets->child->next, kvgoldp_max_file, &e->end)) {
        return false;
    }
    if (e->end < e->begin || e->end > t->size) return kvgoldp_fail(r, t->file, "%s: offsets past the data", where);
    return e->end - e->begin == bytes || kvgoldp_fail(r, t->file, "%s: offsets do not fit dtype and shape", where);
}

static int kvgoldp_by_begin(const void *a, const void *b)
{
    const kvgoldp_entry *x = (const kvgoldp_entry *)a, *y = (const kvgoldp_entry *)b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Side by side from the first byte to the last, each at a multiple of 256 of the file (whose data starts at one), by
 * `_pad.N` where the one before does not end there. */
static bool kvgoldp_check_places(kvgoldp_reader *r, const kvgoldp_tensors *t)
{
    uint64_t covered = 0;
    unsigned pads = 0;
    for (size_t i = 0; i < t->count; i++) {
        const kvgoldp_entry *e = &t->entries[i];
        if (e->begin != covered) {
            return kvgoldp_fail(r, t->file, "tensor '%.60s': %s", e->name,
                                e->begin < covered ? "overlaps the one before" : "a hole before it");
        }
        covered = e->end;
        char pad[24];
        (void)snprintf(pad, sizeof pad, "_pad.%u", pads);
        const bool aligned = e->begin % KVGOLDP_ALIGNMENT == 0;
        if (aligned && e->name[0] != '_') continue;
        if (e->name[0] != '_') return kvgoldp_fail(r, t->file, "tensor '%.60s': not at a multiple of 256", e->name);
        if (strcmp(e->name, pad) != 0) return kvgoldp_fail(r, t->file, "'%.60s': expected '%s' here", e->name, pad);
        if (aligned || e->end % KVGOLDP_ALIGNMENT || e->end - e->begin >= KVGOLDP_ALIGNMENT || i + 1 == t->count ||
            e->rank != 1 || strcmp(e->dtype, "U8") != 0) {
            return kvgoldp_fail(r, t->file, "'%s': not U8 bytes up to the next tensor", pad);
        }
        for (uint64_t k = e->begin; k < e->end; k++) {
            if (t->data[k]) return kvgoldp_fail(r, t->file, "'%s': bytes that are not 0", pad);
        }
        pads++;
    }
    return covered == t->size || kvgoldp_fail(r, t->file, "bytes after the last tensor");
}

static bool kvgoldp_read_tensors(kvgoldp_reader *r, int which, kvgoldp_tensors *t)
{
    const kvgold_file *file = &r->files[which];
    const uint8_t *bytes = (const uint8_t *)file->data;
    uint64_t length = 0;
    kvgoldp_json header;
    memset(t, 0, sizeof *t);
    t->file = kvgoldp_file_names[which];
    for (size_t i = 8; i-- > 0 && file->size >= 8;) length = length << 8 | bytes[i];
    if (file->size < 8 || length > file->size - 8 || length > KVGOLDP_MAX_TEXT || (8 + length) % KVGOLDP_ALIGNMENT) {
        return kvgoldp_fail(r, t->file, "a header of %llu bytes: not of a pack", (unsigned long long)length);
    }
    size_t trimmed = (size_t)length;
    while (trimmed > 0 && bytes[8 + trimmed - 1] == ' ') trimmed--;
    if (trimmed == 0 || bytes[8] != '{' || bytes[8 + trimmed - 1] != '}') {
        return kvgoldp_fail(r, t->file, "the header is not {...} and spaces");
    }
    if (!kvgoldp_parse(r, t->file, (const char *)bytes + 8, trimmed, &header)) return false;
    t->data = bytes + 8 + length;
    t->size = file->size - 8 - length;
    t->entries = (kvgoldp_entry *)kvgoldp_alloc(r, header.count + 1, sizeof *t->entries);
    if (!t->entries) return false;
    for (const kvgoldp_json *m = header.child; m; m = m->next) {
        if (strcmp(m->key, "__metadata__") == 0) t->metadata = *m;
        else if (!kvgoldp_read_entry(r, t, m, &t->entries[t->count++])) return false;
    }
    if (t->count) qsort(t->entries, t->count, sizeof *t->entries, kvgoldp_by_begin);
    return kvgoldp_check_places(r, t);
}

/* ---- manifest.json: section 3 ---- */

/* What the manifest says that is not in the pack's struct. */
typedef struct kvgoldp_manifest {
    kvgoldp_json root;
    const char *format;
    const char *sums[2]; /* of prompt.safetensors, expected.safetensors */
    const char **tensor_sums; /* of all tensors, in the order of the manifest */
    size_t sum_count;
    kvgold_case *cases;
    const kvgoldp_json **configs; /* of the cases */
    kvgold_pack *pack;
} kvgoldp_manifest;

static const char kvgoldp_m[] = "manifest.json";

static bool kvgoldp_same_extent(const kvgold_answer *a, const kvgold_tensor *t, const char *dtype)
{
    return t && strcmp(t->dtype, dtype) == 0 && t->rank == a->rank &&
           memcmp(t->shape, a->shape, a->rank * sizeof a->shape[0]) == 0;
}

const kvgold_tensor *kvgold_tensor_find(const kvgold_tensor *list, size_t count, const char *short_name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].short_name, short_name) == 0) return &list[i];
    }
    return NULL;
}

/* "KEY.TENSOR"; *short_name: TENSOR. */
static bool kvgoldp_read_name(kvgoldp_reader *r, const char *where, const kvgoldp_json *object, const char *key,
                              const char **name, const char **short_name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
    if (!kvgoldp_text(r, kvgoldp_m, where, object, "name", name)) return false;
    if (strncmp(*name, key, 4) != 0 || (*name)[4] != '.' || !kvgoldp_of(*name + 5, allowed) || strlen(*name) > 64) {
        return kvgoldp_fail(r, kvgoldp_m, "%s: the name '%.60s' is not '%s.' and some a-z 0-9 _ .", where, *name, key);
    }
    *short_name = *name + 5;
    return true;
}

static bool kvgoldp_read_packing(kvgoldp_reader *r, const char *where, const kvgoldp_json *tensor, kvgold_tensor *out)
{
    static const char *const words[] = {"low_first", "turbomind", "halves"};
    static const char *const sides[] = {"k", "v"};
    const kvgoldp_json *packing = kvgoldp_get(tensor, "packing");
    if (!packing) return true;
    if (!kvgoldp_keys(r, kvgoldp_m, where, packing, "?k ?v")) return false;
    if (packing->count == 0 || strcmp(out->dtype, "U8") != 0) {
        return kvgoldp_fail(r, kvgoldp_m, "%s: packing of nothing, or not of U8", where);
    }
    for (int side = 0; side < 2; side++) {
        if (!kvgoldp_get(packing, sides[side])) continue;
        if (!kvgoldp_text(r, kvgoldp_m, where, packing, sides[side], &out->packing[side])) return false;
        bool known = false;
        for (int i = 0; i < 3; i++) known = known || strcmp(words[i], out->packing[side]) == 0;
        if (!known) return kvgoldp_fail(r, kvgoldp_m, "%s: unknown packing '%.20s'", where, out->packing[side]);
    }
    return true;
}

/* The list `which` ("prompt" or "expected") of a case. */
static bool kvgoldp_read_list(kvgoldp_reader *r, kvgoldp_manifest *m, const char *key, const kvgoldp_json *c,
                              const char *which, const kvgold_tensor **out, size_t *count)
{
    char where[KVGOLDP_WHERE];
    (void)snprintf(where, sizeof where, "case %s", key);
    const kvgoldp_json *list = kvgoldp_list(r, kvgoldp_m, where, c, which, KVGOLDP_MAX_LIST);
    kvgold_tensor *tensors = list ? (kvgold_tensor *)kvgoldp_alloc(r, list->count + 1, sizeof *tensors) : NULL;
    if (!tensors) return false;
    *out = tensors;
    *count = 0;
    for (const kvgoldp_json *from = list->child; from; from = from->next) {
        kvgold_tensor *t = &tensors[*count];
        uint64_t bytes = 0;
        (void)snprintf(where, sizeof where, "case %s, %s[%zu]", key, which, *count);
        if (!kvgoldp_keys(r, kvgoldp_m, where, from, "name dtype shape bytes sha256 ?packing") ||
            !kvgoldp_read_name(r, where, from, key, &t->name, &t->short_name) ||
            !kvgoldp_extent(r, kvgoldp_m, where, from, &t->dtype, &t->rank, t->shape, &bytes) ||
            !kvgoldp_integer(r, kvgoldp_m, where, kvgoldp_get(from, "bytes"), kvgoldp_max_tensor, &t->bytes) ||
            !kvgoldp_text(r, kvgoldp_m, where, from, "sha256", &m->tensor_sums[m->sum_count]) ||
            !kvgoldp_read_packing(r, where, from, t)) {
            return false;
        }
        if (t->bytes != bytes) return kvgoldp_fail(r, kvgoldp_m, "%s: bytes do not fit dtype and shape", where);
        if (!kvgoldp_is_sum(m->tensor_sums[m->sum_count++])) {
            return kvgoldp_fail(r, kvgoldp_m, "%s: sha256 is not 64 lower-case hex digits", where);
        }
        if (kvgold_tensor_find(tensors, *count, t->short_name)) {
            return kvgoldp_fail(r, kvgoldp_m, "%s: '%.60s' is there twice", where, t->name);
        }
        ++*count;
    }
    return true;
}

/* The tensor that an answer names as its `key`, "exact" or "bound": the answer's name, a dot, the key. */
static bool kvgoldp_read_reference(kvgoldp_reader *r, const char *where, const kvgold_case *c, const kvgoldp_json *from,
                                   const char *key, const kvgold_answer *a, const kvgold_tensor **out)
{
    const char *name = NULL;
    const size_t length = strlen(a->name);
    if (!kvgoldp_text(r, kvgoldp_m, where, from, key, &name)) return false;
    if (strncmp(name, a->name, length) != 0 || name[length] != '.' || strcmp(name + length + 1, key) != 0) {
        return kvgoldp_fail(r, kvgoldp_m, "%s.%s: '%.60s' is not '%.60s.%s'", where, key, name, a->name, key);
    }
    *out = kvgold_tensor_find(c->expected, c->expected_count, name + 5);
    if (kvgoldp_same_extent(a, *out, "F64")) return true;
    return kvgoldp_fail(r, kvgoldp_m, "%s.%s: no expected tensor '%.60s' in F64 and of the answer's shape", where, key,
                        name);
}

static bool kvgoldp_read_answer(kvgoldp_reader *r, const kvgold_case *c, const kvgoldp_json *from, const char *where,
                                kvgold_answer *a)
{
    static const char *const rules[] = {"bits", "rule", "bound"};
    static const char *const keys[] = {"name dtype shape compare ?profile", "name dtype shape compare",
                                       "name dtype shape compare exact bound ?profile"};
    const char *rule = NULL;
    int kind = 0;
    if (from->type != 'o') return kvgoldp_fail(r, kvgoldp_m, "%s: expected an object", where);
    if (!kvgoldp_text(r, kvgoldp_m, where, from, "compare", &rule)) return false;
    while (kind < 3 && strcmp(rule, rules[kind]) != 0) kind++;
    if (kind == 3) return kvgoldp_fail(r, kvgoldp_m, "%s.compare: unknown '%.20s'", where, rule);
    a->rule = kind == 0 ? KVGOLD_BITS : kind == 1 ? KVGOLD_BY_RULE : KVGOLD_BOUND;
    if (!kvgoldp_keys(r, kvgoldp_m, where, from, keys[kind]) ||
        !kvgoldp_read_name(r, where, from, c->key, &a->name, &a->short_name) ||
        !kvgoldp_extent(r, kvgoldp_m, where, from, &a->dtype, &a->rank, a->shape, &a->bytes)) {
        return false;
    }
    if (kvgoldp_get(from, "profile") && !kvgoldp_text(r, kvgoldp_m, where, from, "profile", &a->profile)) return false;
    if (kind == 2) {
        if (strcmp(a->dtype, "F16") != 0 && strcmp(a->dtype, "BF16") != 0 && strcmp(a->dtype, "F32") != 0) {
            return kvgoldp_fail(r, kvgoldp_m, "%s: no bound is for %s", where, a->dtype);
        }
        if (!kvgoldp_read_reference(r, where, c, from, "exact", a, &a->exact) ||
            !kvgoldp_read_reference(r, where, c, from, "bound", a, &a->bound)) {
            return false;
        }
        if (!a->profile) return true;
    }
    a->expected = kvgold_tensor_find(c->expected, c->expected_count, a->short_name);
    return kvgoldp_same_extent(a, a->expected, a->dtype) ||
           kvgoldp_fail(r, kvgoldp_m, "%s: no expected tensor '%.60s' of its dtype and shape", where, a->name);
}

static bool kvgoldp_read_answers(kvgoldp_reader *r, const kvgoldp_json *from, kvgold_case *c)
{
    char where[KVGOLDP_WHERE];
    (void)snprintf(where, sizeof where, "case %s", c->key);
    const kvgoldp_json *list = kvgoldp_list(r, kvgoldp_m, where, from, "answer", KVGOLDP_MAX_LIST);
    kvgold_answer *answers = list ? (kvgold_answer *)kvgoldp_alloc(r, list->count + 1, sizeof *answers) : NULL;
    if (!answers) return false;
    c->answer = answers;
    for (const kvgoldp_json *a = list->child; a; a = a->next) {
        const size_t i = c->answer_count++;
        (void)snprintf(where, sizeof where, "case %s, answer[%zu]", c->key, i);
        if (!kvgoldp_read_answer(r, c, a, where, &answers[i])) return false;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(answers[k].name, answers[i].name) == 0) {
                return kvgoldp_fail(r, kvgoldp_m, "%s: '%.60s' is there twice", where, answers[i].name);
            }
        }
    }
    return c->answer_count > 0 || kvgoldp_fail(r, kvgoldp_m, "%s: nothing is to be answered", where);
}

/* Strings in ascending order, none twice. */
static bool kvgoldp_read_strings(kvgoldp_reader *r, const char *where, const kvgoldp_json *list, const char ***out)
{
    size_t count = 0;
    *out = (const char **)kvgoldp_alloc(r, list->count + 1, sizeof **out);
    if (!*out) return false;
    for (const kvgoldp_json *s = list->child; s; s = s->next, count++) {
        if (s->type != 's') return kvgoldp_fail(r, kvgoldp_m, "%s: expected strings", where);
        (*out)[count] = s->text;
        if (count && strcmp((*out)[count - 1], s->text) >= 0) {
            return kvgoldp_fail(r, kvgoldp_m, "%s: '%.40s' is not in ascending order", where, s->text);
        }
    }
    return true;
}

static bool kvgoldp_read_flags(kvgoldp_reader *r, const kvgoldp_manifest *m, const char *where,
                               const kvgoldp_json *from, kvgold_case *c)
{
    const kvgoldp_json *flags = kvgoldp_list(r, kvgoldp_m, where, from, "flags", KVGOLDP_MAX_FLAGS);
    const char **list = NULL;
    if (!flags || !kvgoldp_read_strings(r, where, flags, &list)) return false;
    c->flags = list;
    c->flag_count = flags->count;
    for (size_t i = 0; i < c->flag_count; i++) {
        if (!kvgoldp_get(kvgoldp_get(&m->root, "notes"), list[i])) {
            return kvgoldp_fail(r, kvgoldp_m, "%s: flag '%.40s' is not in notes", where, list[i]);
        }
    }
    return true;
}

static bool kvgoldp_read_case(kvgoldp_reader *r, kvgoldp_manifest *m, size_t index, const kvgoldp_json *from)
{
    kvgold_case *c = &m->cases[index];
    char where[KVGOLDP_WHERE], key[24];
    uint64_t layer = 0;
    (void)snprintf(key, sizeof key, "%04zu", index);
    (void)snprintf(where, sizeof where, "case %s", key);
    if (!kvgoldp_keys(r, kvgoldp_m, where, from, "key id case layer flags stored prompt answer expected") ||
        !kvgoldp_text(r, kvgoldp_m, where, from, "key", &c->key) ||
        !kvgoldp_text(r, kvgoldp_m, where, from, "id", &c->id) ||
        !kvgoldp_integer(r, kvgoldp_m, where, kvgoldp_get(from, "layer"), UINT32_MAX, &layer)) {
        return false;
    }
    if (strcmp(c->key, key) != 0) return kvgoldp_fail(r, kvgoldp_m, "%s: has the key '%.20s'", where, c->key);
    const kvgoldp_json *config = kvgoldp_get(from, "case"), *stored = kvgoldp_get(from, "stored");
    if (config->type != 'o') return kvgoldp_fail(r, kvgoldp_m, "%s.case: expected an object", where);
    const kvgoldp_json *layout = kvgoldp_get(config, "layout");
    if (layout && layout->type == 'o' && strncmp(m->format, "1.0.", 4) == 0) {
        return kvgoldp_fail(r, kvgoldp_m, "%s: a pack of version 1.0 has no layout of a text", where);
    }
    if (!strchr("tf", stored->type)) return kvgoldp_fail(r, kvgoldp_m, "%s.stored: expected true or false", where);
    m->configs[index] = config;
    c->config = kvgoldp_copy(r, config->raw, config->raw_size);
    if (!c->config) return false;
    c->layer = (uint32_t)layer;
    c->stored = stored->type == 't';
    return kvgoldp_read_flags(r, m, where, from, c) &&
           kvgoldp_read_list(r, m, c->key, from, "prompt", &c->prompt, &c->prompt_count) &&
           kvgoldp_read_list(r, m, c->key, from, "expected", &c->expected, &c->expected_count) &&
           kvgoldp_read_answers(r, from, c);
}

static bool kvgoldp_read_cases(kvgoldp_reader *r, kvgoldp_manifest *m)
{
    const kvgoldp_json *list = kvgoldp_list(r, kvgoldp_m, "manifest", &m->root, "cases", KVGOLDP_MAX_CASES);
    uint64_t count = 0;
    if (!list) return false;
    if (!kvgoldp_integer(r, kvgoldp_m, "case_count", kvgoldp_get(&m->root, "case_count"), KVGOLDP_MAX_CASES, &count))
        return false;
    if (count == 0 || count != list->count) {
        return kvgoldp_fail(r, kvgoldp_m, "case_count is %llu, but %zu cases follow", (unsigned long long)count,
                            list->count);
    }
    m->cases = (kvgold_case *)kvgoldp_alloc(r, list->count, sizeof *m->cases);
    m->tensor_sums = (const char **)kvgoldp_alloc(r, list->count * 2 * KVGOLDP_MAX_LIST, sizeof *m->tensor_sums);
    m->configs = (const kvgoldp_json **)kvgoldp_alloc(r, list->count, sizeof *m->configs);
    const char **ids = (const char **)kvgoldp_alloc(r, list->count, sizeof *ids);
    if (!m->cases || !m->tensor_sums || !m->configs || !ids) return false;
    m->pack->cases = m->cases;
    for (const kvgoldp_json *c = list->child; c; c = c->next) {
        if (!kvgoldp_read_case(r, m, m->pack->case_count, c)) return false;
        ids[m->pack->case_count] = m->cases[m->pack->case_count].id;
        m->pack->case_count++;
    }
    const char *repeated = kvgoldp_repeated(ids, list->count);
    return !repeated || kvgoldp_fail(r, kvgoldp_m, "two cases have the id '%.100s'", repeated);
}

/* `profiles` are those that answers name. */
static bool kvgoldp_read_profiles(kvgoldp_reader *r, const kvgoldp_manifest *m)
{
    const kvgoldp_json *list = kvgoldp_list(r, kvgoldp_m, "manifest", &m->root, "profiles", KVGOLDP_MAX_CASES);
    const char **names = NULL;
    if (!list || !kvgoldp_read_strings(r, "profiles", list, &names)) return false;
    bool *used = (bool *)kvgoldp_alloc(r, list->count + 1, sizeof *used);
    if (!used) return false;
    for (size_t i = 0; i < m->pack->case_count; i++) {
        for (size_t k = 0; k < m->cases[i].answer_count; k++) {
            const char *profile = m->cases[i].answer[k].profile;
            size_t n = 0;
            while (profile && n < list->count && strcmp(names[n], profile) != 0) n++;
            if (profile && n == list->count) return kvgoldp_fail(r, kvgoldp_m, "profiles lacks '%.60s'", profile);
            if (profile) used[n] = true;
        }
    }
    for (size_t n = 0; n < list->count; n++) {
        if (!used[n]) return kvgoldp_fail(r, kvgoldp_m, "profiles: no answer names '%.60s'", names[n]);
    }
    return true;
}

/* YYYY-MM-DD. */
static bool kvgoldp_is_date(const char *s)
{
    for (int i = 0; i < 10; i++) {
        if (i == 4 || i == 7 ? s[i] != '-' : s[i] < '0' || s[i] > '9') return false;
    }
    return s[10] == 0;
}

static bool kvgoldp_read_errata(kvgoldp_reader *r, kvgoldp_manifest *m)
{
    const kvgoldp_json *list = kvgoldp_list(r, kvgoldp_m, "manifest", &m->root, "errata", KVGOLDP_MAX_ERRATA);
    if (!list) return false;
    for (const kvgoldp_json *e = list->child; e; e = e->next) {
        const char *text[3] = {NULL, NULL, NULL};
        if (!kvgoldp_keys(r, kvgoldp_m, "errata", e, "id date text cases") ||
            !kvgoldp_text(r, kvgoldp_m, "errata", e, "id", &text[0]) ||
            !kvgoldp_text(r, kvgoldp_m, "errata", e, "date", &text[1]) ||
            !kvgoldp_text(r, kvgoldp_m, "errata", e, "text", &text[2])) {
            return false;
        }
        if (!*text[0] || !*text[2]) return kvgoldp_fail(r, kvgoldp_m, "an erratum has an empty id or text");
        if (!kvgoldp_is_date(text[1])) return kvgoldp_fail(r, kvgoldp_m, "date '%.40s' is not YYYY-MM-DD", text[1]);
        const kvgoldp_json *cases = kvgoldp_list(r, kvgoldp_m, "errata", e, "cases", KVGOLDP_MAX_CASES);
        if (!cases) return false;
        if (cases->count == 0) return kvgoldp_fail(r, kvgoldp_m, "erratum '%.40s' names no case", text[0]);
        for (const kvgoldp_json *key = cases->child; key; key = key->next) {
            size_t i = 0;
            while (i < m->pack->case_count && (key->type != 's' || strcmp(m->cases[i].key, key->text) != 0)) i++;
            if (i == m->pack->case_count) {
                return kvgoldp_fail(r, kvgoldp_m, "erratum '%.40s': no case '%.40s'", text[0], key->text);
            }
            if (!m->cases[i].erratum) m->cases[i].erratum = text[2];
        }
    }
    return true;
}

static bool kvgoldp_read_files(kvgoldp_reader *r, kvgoldp_manifest *m, uint64_t bytes[2])
{
    const kvgoldp_json *files = kvgoldp_get(&m->root, "files");
    if (!kvgoldp_keys(r, kvgoldp_m, "files", files, "prompt.safetensors expected.safetensors")) return false;
    for (int i = 0; i < 2; i++) {
        const char *name = kvgoldp_file_names[KVGOLD_PROMPT + i];
        const kvgoldp_json *file = kvgoldp_get(files, name);
        if (!kvgoldp_keys(r, kvgoldp_m, name, file, "bytes sha256") ||
            !kvgoldp_integer(r, kvgoldp_m, name, kvgoldp_get(file, "bytes"), kvgoldp_max_file, &bytes[i]) ||
            !kvgoldp_text(r, kvgoldp_m, name, file, "sha256", &m->sums[i])) {
            return false;
        }
        if (!kvgoldp_is_sum(m->sums[i])) return kvgoldp_fail(r, kvgoldp_m, "%s: sha256 is not 64 hex digits", name);
    }
    return true;
}

static bool kvgoldp_read_seed(kvgoldp_reader *r, kvgoldp_manifest *m)
{
    const char *seed = NULL;
    if (!kvgoldp_text(r, kvgoldp_m, "manifest", &m->root, "seed", &seed)) return false;
    const char *digits = strncmp(seed, "0x", 2) == 0 ? seed + 2 : "";
    if (strlen(digits) > 16 || !kvgoldp_of(digits, "0123456789abcdef"))
        return kvgoldp_fail(r, kvgoldp_m, "seed: expected 0x and 1 to 16 hex digits");
    for (; *digits; digits++)
        m->pack->seed = m->pack->seed << 4 | (uint64_t)(*digits <= '9' ? *digits - '0' : *digits - 'a' + 10);
    return true;
}

static bool kvgoldp_read_manifest(kvgoldp_reader *r, kvgoldp_manifest *m, uint64_t bytes[2])
{
    static const char keys[] = "kvgold_pack name version licence seed case_count profiles notes errata superseded_by "
                               "files cases";
    const kvgold_file *file = &r->files[KVGOLD_MANIFEST];
    kvgold_pack *pack = m->pack;
    if (!kvgoldp_parse(r, kvgoldp_m, (const char *)file->data, file->size, &m->root)) return false;
    if (m->root.type != 'o') return kvgoldp_fail(r, kvgoldp_m, "expected an object");
    if (!kvgoldp_text(r, kvgoldp_m, "manifest", &m->root, "kvgold_pack", &m->format)) return false;
    if (!kvgoldp_is_version(m->format) || (strncmp(m->format, "1.0.", 4) != 0 && strncmp(m->format, "1.1.", 4) != 0)) {
        return kvgoldp_fail(r, kvgoldp_m, "kvgold_pack is '%.20s': this reader takes 1.0.x and 1.1.x", m->format);
    }
    if (!kvgoldp_keys(r, kvgoldp_m, "manifest", &m->root, keys) ||
        !kvgoldp_text(r, kvgoldp_m, "manifest", &m->root, "name", &pack->name) ||
        !kvgoldp_text(r, kvgoldp_m, "manifest", &m->root, "version", &pack->version) ||
        !kvgoldp_text(r, kvgoldp_m, "manifest", &m->root, "licence", &pack->licence)) {
        return false;
    }
    if (!kvgoldp_is_name(pack->name)) return kvgoldp_fail(r, kvgoldp_m, "name: '%.80s' is no name", pack->name);
    if (!kvgoldp_is_version(pack->version)) return kvgoldp_fail(r, kvgoldp_m, "version: expected MAJOR.MINOR.PATCH");
    if (!pack->licence[0]) return kvgoldp_fail(r, kvgoldp_m, "licence is empty");
    const kvgoldp_json *next = kvgoldp_get(&m->root, "superseded_by"), *notes = kvgoldp_get(&m->root, "notes");
    if (next->type == 's' && kvgoldp_is_name(next->text)) pack->superseded_by = next->text;
    else if (next->type != '0') return kvgoldp_fail(r, kvgoldp_m, "superseded_by: expected null or a pack's name");
    if (notes->type != 'o' || notes->count > KVGOLDP_MAX_FLAGS)
        return kvgoldp_fail(r, kvgoldp_m, "notes: expected an object of at most %d", KVGOLDP_MAX_FLAGS);
    for (const kvgoldp_json *note = notes->child; note; note = note->next) {
        if (note->type != 's') return kvgoldp_fail(r, kvgoldp_m, "notes.%.40s: expected a string", note->key);
    }
    return kvgoldp_read_seed(r, m) && kvgoldp_read_files(r, m, bytes) && kvgoldp_read_cases(r, m) &&
           kvgoldp_read_profiles(r, m) && kvgoldp_read_errata(r, m);
}

/* ---- the files against the manifest ---- */

static double kvgoldp_f64(const void *data, uint64_t index)
{
    double x;
    memcpy(&x, (const char *)data + index * sizeof x, sizeof x);
    return x;
}

/* A bound is a number from 0 to +Inf, and where it is not +Inf the exact value is a number. */
static bool kvgoldp_check_bounds(kvgoldp_reader *r, const kvgold_case *c)
{
    for (size_t i = 0; i < c->answer_count; i++) {
        const kvgold_answer *a = &c->answer[i];
        for (uint64_t k = 0; a->rule == KVGOLD_BOUND && k < a->bound->bytes / 8; k++) {
            const double e = kvgoldp_f64(a->exact->data, k), b = kvgoldp_f64(a->bound->data, k);
            if (b >= 0 && (e == e || b > 1.7976931348623157e308)) continue;
            return kvgoldp_fail(r, "expected.safetensors", "'%.60s': number %llu is no bound of its exact value",
                                a->bound->name, (unsigned long long)k);
        }
    }
    return true;
}

/* The next tensors of a file are those of a list; gives them their bytes. *sum: of the list's first. */
static bool kvgoldp_take_list(kvgoldp_reader *r, const kvgoldp_tensors *file, size_t *at, const kvgold_tensor *list,
                              size_t count, const char **sum)
{
    for (size_t i = 0; i < count; i++) {
        kvgold_tensor *t = (kvgold_tensor *)list + i; /* the reader's own memory */
        char text[65];
        while (*at < file->count && file->entries[*at].name[0] == '_') ++*at;
        if (*at == file->count) return kvgoldp_fail(r, file->file, "no tensor '%.60s'", t->name);
        const kvgoldp_entry *e = &file->entries[(*at)++];
        if (strcmp(e->name, t->name) != 0)
            return kvgoldp_fail(r, file->file, "tensor '%.60s', where the manifest has '%.60s'", e->name, t->name);
        if (strcmp(e->dtype, t->dtype) != 0 || e->rank != t->rank ||
            memcmp(e->shape, t->shape, t->rank * sizeof t->shape[0]) != 0) {
            return kvgoldp_fail(r, file->file, "'%.60s': not of the dtype and shape of the manifest", t->name);
        }
        t->data = file->data + e->begin;
        kvgoldp_sha_text(t->data, (size_t)t->bytes, text);
        if (strcmp(text, sum[i]) != 0) return kvgoldp_fail(r, file->file, "'%.60s': its SHA-256 is another", t->name);
    }
    return true;
}

/* `text` of the prompt's metadata says of a case what the manifest says. */
static bool kvgoldp_check_card(kvgoldp_reader *r, const char *file, const kvgold_case *c, const kvgoldp_json *config,
                               const char *text)
{
    char where[KVGOLDP_WHERE];
    kvgoldp_json card;
    const char *id = NULL;
    uint64_t layer = 0;
    (void)snprintf(where, sizeof where, "__metadata__.case.%s", c->key);
    if (!kvgoldp_parse(r, file, text, strlen(text), &card) ||
        !kvgoldp_keys(r, file, where, &card, "id case layer answer") ||
        !kvgoldp_text(r, file, where, &card, "id", &id) ||
        !kvgoldp_integer(r, file, where, kvgoldp_get(&card, "layer"), UINT32_MAX, &layer)) {
        return false;
    }
    const kvgoldp_json *list = kvgoldp_list(r, file, where, &card, "answer", KVGOLDP_MAX_LIST);
    if (!list) return false;
    if (strcmp(id, c->id) != 0 || layer != c->layer || list->count != c->answer_count ||
        !kvgoldp_same(kvgoldp_get(&card, "case"), config)) {
        return kvgoldp_fail(r, file, "%s: not the case of the manifest", where);
    }
    const kvgold_answer *a = c->answer;
    for (const kvgoldp_json *from = list->child; from; from = from->next, a++) {
        kvgold_answer said;
        memset(&said, 0, sizeof said);
        if (!kvgoldp_keys(r, file, where, from, "name dtype shape") ||
            !kvgoldp_text(r, file, where, from, "name", &said.name) ||
            !kvgoldp_extent(r, file, where, from, &said.dtype, &said.rank, said.shape, &said.bytes)) {
            return false;
        }
        if (strcmp(said.name, a->name) != 0 || strcmp(said.dtype, a->dtype) != 0 || said.rank != a->rank ||
            memcmp(said.shape, a->shape, sizeof said.shape) != 0) {
            return kvgoldp_fail(r, file, "%s: answer '%.60s' is not the manifest's", where, said.name);
        }
    }
    return true;
}

static bool kvgoldp_check_metadata(kvgoldp_reader *r, const kvgoldp_manifest *m, const kvgoldp_tensors *file,
                                   bool cards)
{
    const char *format = NULL, *name = NULL;
    const size_t wanted = 2 + (cards ? m->pack->case_count : 0);
    if (file->metadata.type != 'o') return kvgoldp_fail(r, file->file, "no __metadata__");
    if (!kvgoldp_text(r, file->file, "__metadata__", &file->metadata, "kvgold_pack", &format) ||
        !kvgoldp_text(r, file->file, "__metadata__", &file->metadata, "name", &name)) {
        return false;
    }
    if (strcmp(format, m->format) != 0 || strcmp(name, m->pack->name) != 0)
        return kvgoldp_fail(r, file->file, "__metadata__: another version or name than the manifest");
    if (file->metadata.count != wanted)
        return kvgoldp_fail(r, file->file, "__metadata__: %zu keys, expected %zu", file->metadata.count, wanted);
    const kvgoldp_json *hint = file->metadata.child; /* cards are in order, as a rule */
    for (size_t i = 0; cards && i < m->pack->case_count; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "case.%s", m->cases[i].key);
        while (hint && strcmp(hint->key, key) != 0) hint = hint->next;
        if (!hint) hint = kvgoldp_get(&file->metadata, key);
        if (!hint || hint->type != 's') return kvgoldp_fail(r, file->file, "__metadata__: no case %s", m->cases[i].key);
        if (!kvgoldp_check_card(r, file->file, &m->cases[i], m->configs[i], hint->text)) return false;
    }
    return true;
}

static bool kvgoldp_check_tensors(kvgoldp_reader *r, const kvgoldp_manifest *m)
{
    kvgoldp_tensors prompt, expected;
    size_t p = 0, e = 0;
    const char **sum = m->tensor_sums;
    if (!kvgoldp_read_tensors(r, KVGOLD_PROMPT, &prompt) || !kvgoldp_read_tensors(r, KVGOLD_EXPECTED, &expected) ||
        !kvgoldp_check_metadata(r, m, &prompt, true) || !kvgoldp_check_metadata(r, m, &expected, false)) {
        return false;
    }
    for (size_t i = 0; i < m->pack->case_count; i++) {
        const kvgold_case *c = &m->cases[i];
        if (c->stored && (!kvgoldp_take_list(r, &prompt, &p, c->prompt, c->prompt_count, sum) ||
                          !kvgoldp_take_list(r, &expected, &e, c->expected, c->expected_count, sum + c->prompt_count) ||
                          !kvgoldp_check_bounds(r, c))) {
            return false;
        }
        sum += c->prompt_count + c->expected_count;
    }
    if (p == prompt.count && e == expected.count) return true;
    return kvgoldp_fail(r, p == prompt.count ? expected.file : prompt.file, "a tensor that the manifest does not list");
}

static bool kvgoldp_read_pack(kvgoldp_reader *r, kvgold_pack *pack)
{
    kvgoldp_manifest m;
    kvgoldp_json provenance;
    uint64_t bytes[2] = {0, 0};
    const uint16_t one = 1;
    memset(&m, 0, sizeof m);
    m.pack = pack;
    if (*(const uint8_t *)&one != 1) return kvgoldp_fail(r, "", "this machine is not little-endian");
    if (!kvgoldp_load_summed(r, KVGOLD_MANIFEST, KVGOLD_MANIFEST_SUM)) return false;
    if (!kvgoldp_read_manifest(r, &m, bytes)) return false;
    for (int i = 0; i < 2; i++) {
        const int which = KVGOLD_PROMPT + i;
        const char *name = kvgoldp_file_names[which];
        char text[65];
        if (!kvgoldp_load(r, which, bytes[i])) return false;
        if (r->files[which].size != bytes[i]) return kvgoldp_fail(r, name, "another size than the manifest says");
        kvgoldp_sha_text(r->files[which].data, r->files[which].size, text);
        if (strcmp(text, m.sums[i]) != 0) return kvgoldp_fail(r, name, "its SHA-256 is not the manifest's");
    }
    if (!kvgoldp_check_tensors(r, &m)) return false;
    if (!kvgoldp_load_summed(r, KVGOLD_PROVENANCE, KVGOLD_PROVENANCE_SUM)) return false;
    const kvgold_file *file = &r->files[KVGOLD_PROVENANCE];
    const char *name = kvgoldp_file_names[KVGOLD_PROVENANCE];
    if (!kvgoldp_parse(r, name, (const char *)file->data, file->size, &provenance)) return false;
    return provenance.type == 'o' || kvgoldp_fail(r, name, "expected an object");
}

static kvgold_pack *kvgoldp_open(kvgoldp_reader *r)
{
    kvgold_pack *pack = (kvgold_pack *)kvgoldp_alloc(r, 1, sizeof *pack);
    if (pack && kvgoldp_read_pack(r, pack)) {
        pack->memory = r->memory;
        return pack;
    }
    kvgoldp_free(r->memory);
    return NULL;
}

kvgold_pack *kvgold_pack_parse(const kvgold_file files[KVGOLD_FILES], char error[KVGOLD_ERROR_SIZE])
{
    kvgoldp_reader r;
    memset(&r, 0, sizeof r);
    r.error = error;
    r.folder = "pack";
    r.directory = -1;
    memcpy(r.files, files, sizeof r.files);
    return kvgoldp_open(&r);
}

kvgold_pack *kvgold_pack_open(const char *folder, char error[KVGOLD_ERROR_SIZE])
{
    kvgoldp_reader r;
    memset(&r, 0, sizeof r);
    r.error = error;
    r.folder = folder;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--; /* "link/" would follow the link */
    char *path = (char *)calloc(1, length + 1);
    if (path) memcpy(path, folder, length);
    r.directory = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct stat about;
    const bool link = path && r.directory < 0 && lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
    if (r.directory < 0) (void)kvgoldp_fail(&r, "", "%s", link ? "a symbolic link, not a folder" : strerror(errno));
    free(path);
    if (r.directory < 0) return NULL;
    kvgold_pack *pack = kvgoldp_open(&r);
    (void)close(r.directory);
    return pack;
}

void kvgold_pack_close(kvgold_pack *pack)
{
    if (pack) kvgoldp_free(pack->memory); /* holds the pack, too */
}

/* ---- judging ---- */

/* Number `index` of F16, BF16 or F32, exactly. */
static double kvgoldp_widen(const char *dtype, const void *data, uint64_t index)
{
    uint32_t bits = 0;
    float x;
    if (dtype[1] == '3') {
        memcpy(&bits, (const char *)data + index * 4, 4);
    } else {
        uint16_t half;
        memcpy(&half, (const char *)data + index * 2, 2);
        const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, rest = half & 0x3ffu;
        if (dtype[0] == 'B') bits = (uint32_t)half << 16;
        else if (exponent == 0) return (sign ? -1.0 : 1.0) * rest / 16777216.0; /* 2^24: f16's smallest is 2^-24 */
        else bits = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | rest << 13;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void kvgoldp_judge_bound(const kvgold_answer *a, const void *data, kvgold_report *report)
{
    double got = 0, exact = 0, bound = 0;
    const uint64_t count = a->exact->bytes / 8;
    for (uint64_t i = 0; i < count; i++) {
        const double y = kvgoldp_widen(a->dtype, data, i), e = kvgoldp_f64(a->exact->data, i);
        const double b = kvgoldp_f64(a->bound->data, i), distance = y > e ? y - e : e - y;
        if (y == e) continue;
        if (b > 1.7976931348623157e308) { /* +Inf: nothing is promised */
            report->unpromised++;
            continue;
        }
        if (distance <= b) continue;
        if (report->wrong++ == 0) {
            report->first = i;
            got = y;
            exact = e;
            bound = b;
        }
    }
    if (report->wrong) {
        (void)snprintf(report->text, sizeof report->text,
                       "%.60s: %llu of %llu numbers are outside their bound, first number %llu: %.9g, exact %.9g +- "
                       "%.3g",
                       a->name, (unsigned long long)report->wrong, (unsigned long long)count,
                       (unsigned long long)report->first, got, exact, bound);
        report->result = KVGOLD_FAIL;
    } else if (report->unpromised == count) {
        (void)snprintf(report->text, sizeof report->text, "%.60s: skipped: nothing is promised of it", a->name);
        report->result = KVGOLD_SKIP;
    }
}

/* Bytes; of an answer that also has a bound numbers, of which a NaN is any NaN. */
static void kvgoldp_judge_bits(const kvgold_answer *a, const void *data, kvgold_report *report)
{
    const uint8_t *got = (const uint8_t *)data, *expected = (const uint8_t *)a->expected->data;
    const bool floats = a->rule == KVGOLD_BOUND;
    const unsigned width = !floats ? 1 : strcmp(a->dtype, "F32") == 0 ? 4 : 2;
    for (uint64_t i = 0; i < a->bytes; i += width) {
        if (memcmp(got + i, expected + i, width) == 0) continue;
        if (floats) {
            const double y = kvgoldp_widen(a->dtype, data, i / width), e = kvgoldp_widen(a->dtype, expected, i / width);
            if (y != y && e != e) continue;
        }
        for (unsigned k = 0; k < width; k++) {
            if (got[i + k] != expected[i + k] && report->wrong++ == 0) report->first = i + k;
        }
    }
    if (report->wrong == 0) return;
    (void)snprintf(report->text, sizeof report->text,
                   "%.60s: %llu of %llu bytes differ, first byte %llu: 0x%02x, expected 0x%02x", a->name,
                   (unsigned long long)report->wrong, (unsigned long long)a->bytes,
                   (unsigned long long)report->first, (unsigned)got[report->first], (unsigned)expected[report->first]);
    report->result = KVGOLD_FAIL;
}

kvgold_result kvgold_compare(const kvgold_answer *a, const void *data, uint64_t bytes, bool bits, kvgold_report *report)
{
    memset(report, 0, sizeof *report);
    (void)snprintf(report->text, sizeof report->text, "%.60s: right", a->name);
    const kvgold_tensor *by = a->rule == KVGOLD_BOUND && !bits ? a->exact : a->expected;
    const char *why = a->rule == KVGOLD_BY_RULE      ? "only `kvgold compare` knows its rule"
                      : !by                          ? "it has no profile to be judged by"
                      : !by->data                    ? "a recipe: expand it with `kvgold golden expand`"
                                                     : NULL;
    report->result = why ? KVGOLD_SKIP : KVGOLD_PASS;
    if (bytes != a->bytes || !data) {
        (void)snprintf(report->text, sizeof report->text, "%.60s: %llu bytes, expected %llu", a->name,
                       (unsigned long long)(data ? bytes : 0), (unsigned long long)a->bytes);
        report->result = KVGOLD_FAIL;
    } else if (why) {
        (void)snprintf(report->text, sizeof report->text, "%.60s: skipped: %s", a->name, why);
    } else if (a->rule == KVGOLD_BOUND && !bits) {
        kvgoldp_judge_bound(a, data, report);
    } else {
        kvgoldp_judge_bits(a, data, report);
    }
    return report->result;
}

#endif /* KVGOLD_PACK_IMPLEMENTATION */

#ifdef __cplusplus
}
#endif
#endif
