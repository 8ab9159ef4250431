/* SHA-256 (FIPS 180-4), by libnettle. */
#ifndef KVG_GOLDEN_SHA256_H
#define KVG_GOLDEN_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KVG_SHA256_BYTES = 32, KVG_SHA256_TEXT = 65 };

typedef struct kvg_sha256_digest {
    uint8_t bytes[KVG_SHA256_BYTES];
} kvg_sha256_digest;

typedef struct kvg_sha256 { /* a sum in progress; big enough for nettle's context, which stays out of this header */
    uint64_t state[16];
} kvg_sha256;

void kvg_sha256_init(kvg_sha256 *sum);
void kvg_sha256_add(kvg_sha256 *sum, const void *bytes, size_t count);
void kvg_sha256_end(kvg_sha256 *sum, kvg_sha256_digest *out); /* sum is as after init */
void kvg_sha256_of(const void *bytes, size_t count, kvg_sha256_digest *out);

/* 64 lower-case hex digits and a NUL; the other way round false for anything else than exactly 64 of them. */
void kvg_sha256_text(const kvg_sha256_digest *digest, char text[KVG_SHA256_TEXT]);
bool kvg_sha256_parse(const char *text, size_t length, kvg_sha256_digest *out);
bool kvg_sha256_same(const kvg_sha256_digest *a, const kvg_sha256_digest *b);

#endif
