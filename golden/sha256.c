#include "golden/sha256.h"

#include <nettle/sha2.h>
#include <string.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(kvg_sha256), "kvg_sha256 holds nettle's context");

void kvg_sha256_init(kvg_sha256 *sum)
{
    struct sha256_ctx context;
    sha256_init(&context);
    memcpy(sum, &context, sizeof context);
}

void kvg_sha256_add(kvg_sha256 *sum, const void *bytes, size_t count)
{
    struct sha256_ctx context;
    if (count == 0) return;
    memcpy(&context, sum, sizeof context);
    sha256_update(&context, count, bytes);
    memcpy(sum, &context, sizeof context);
}

void kvg_sha256_end(kvg_sha256 *sum, kvg_sha256_digest *out)
{
    struct sha256_ctx context;
    memcpy(&context, sum, sizeof context);
    sha256_digest(&context, sizeof out->bytes, out->bytes);
    kvg_sha256_init(sum);
}

void kvg_sha256_of(const void *bytes, size_t count, kvg_sha256_digest *out)
{
    kvg_sha256 sum;
    kvg_sha256_init(&sum);
    kvg_sha256_add(&sum, bytes, count);
    kvg_sha256_end(&sum, out);
}

static const char digits[] = "0123456789abcdef";

void kvg_sha256_text(const kvg_sha256_digest *digest, char text[KVG_SHA256_TEXT])
{
    for (size_t i = 0; i < KVG_SHA256_BYTES; i++) {
        text[2 * i] = digits[digest->bytes[i] >> 4];
        text[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    text[2 * KVG_SHA256_BYTES] = 0;
}

bool kvg_sha256_parse(const char *text, size_t length, kvg_sha256_digest *out)
{
    if (length != 2 * KVG_SHA256_BYTES) return false;
    for (size_t i = 0; i < length; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) return false;
        const uint8_t value = (uint8_t)(digit - digits);
        out->bytes[i / 2] = (uint8_t)(i % 2 ? out->bytes[i / 2] | value : value << 4);
    }
    return true;
}

bool kvg_sha256_same(const kvg_sha256_digest *a, const kvg_sha256_digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
