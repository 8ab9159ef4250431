#include "reference/contiguous.h"

#include <stdlib.h>
#include <string.h>

struct kvg_contiguous {
    kvg_contiguous_config config;
    uint64_t *lengths; /* [batch] tokens of finished steps */
    uint32_t *counts;  /* [batch] new tokens of this step; 0 until its first update */
    bool *updated;     /* [layers] in this step */
    uint32_t updates;  /* layers updated in this step */
};

kvg_status kvg_contiguous_create(const kvg_contiguous_config *config, kvg_contiguous **out)
{
    *out = NULL;
    if (config->batch < 1 || config->layers < 1 || config->capacity < 1 ||
        config->capacity > INT64_MAX / config->batch) {
        return kvg_fail(KVG_ERR_INVALID, "batch %u, layers %u, capacity %llu: use 1 or more each, and at most 2^63 - 1 "
                        "slots", config->batch, config->layers, (unsigned long long)config->capacity);
    }
    kvg_contiguous *cache = calloc(1, sizeof *cache);
    if (cache) {
        cache->config = *config;
        cache->lengths = calloc(config->batch, sizeof *cache->lengths);
        cache->counts = calloc(config->batch, sizeof *cache->counts);
        cache->updated = calloc(config->layers, sizeof *cache->updated);
    }
    if (!cache || !cache->lengths || !cache->counts || !cache->updated) {
        kvg_contiguous_destroy(cache);
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold the counters of %u sequences and %u layers", config->batch,
                        config->layers);
    }
    *out = cache;
    return KVG_OK;
}

void kvg_contiguous_destroy(kvg_contiguous *cache)
{
    if (!cache) return;
    free(cache->lengths);
    free(cache->counts);
    free(cache->updated);
    free(cache);
}

static void end_step(kvg_contiguous *cache)
{
    memset(cache->counts, 0, cache->config.batch * sizeof *cache->counts);
    memset(cache->updated, 0, cache->config.layers * sizeof *cache->updated);
    cache->updates = 0;
}

void kvg_contiguous_reset(kvg_contiguous *cache)
{
    memset(cache->lengths, 0, cache->config.batch * sizeof *cache->lengths);
    end_step(cache);
}

/* What is left of `end` tokens. */
static kvg_positions kept(const kvg_contiguous *cache, uint64_t end)
{
    const bool rolled = cache->config.ring && end > cache->config.capacity;
    return (kvg_positions){rolled ? end - cache->config.capacity : 0, end};
}

/* Only in a ring are there positions of `capacity` and more. */
static int64_t slot_of(const kvg_contiguous *cache, uint32_t sequence, uint64_t position)
{
    return (int64_t)(sequence * cache->config.capacity + position % cache->config.capacity);
}

/* All updates and the advance of a step have the same counts. */
static kvg_status check_counts(const kvg_contiguous *cache, const uint32_t *counts, const char *what, uint32_t layer)
{
    for (uint32_t s = 0; s < cache->config.batch; s++) {
        if (counts[s] == cache->counts[s]) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s %u gives sequence %u %u tokens, where this step's first update gave %u",
                        what, layer, s, counts[s], cache->counts[s]);
    }
    return KVG_OK;
}

static kvg_status check_room(const kvg_contiguous *cache, const uint32_t *counts)
{
    for (uint32_t s = 0; s < cache->config.batch && !cache->config.ring; s++) {
        if (counts[s] <= cache->config.capacity - cache->lengths[s]) continue;
        return kvg_fail(KVG_ERR_INVALID, "sequence %u has %llu tokens of %llu: no room for %u more", s,
                        (unsigned long long)cache->lengths[s], (unsigned long long)cache->config.capacity, counts[s]);
    }
    return KVG_OK;
}

kvg_status kvg_contiguous_update(kvg_contiguous *cache, uint32_t layer, const uint32_t *counts, int64_t *slots,
                                 kvg_positions *valid)
{
    const kvg_contiguous_config *config = &cache->config;
    if (layer >= config->layers) {
        return kvg_fail(KVG_ERR_INVALID, "layer %u is none of the cache's %u", layer, config->layers);
    }
    if (cache->updated[layer]) {
        return kvg_fail(KVG_ERR_INVALID, "layer %u was updated in this step already: advance first", layer);
    }
    kvg_status status = cache->updates ? check_counts(cache, counts, "the update of layer", layer)
                                       : check_room(cache, counts);
    if (status) return status;
    for (uint32_t s = 0; s < config->batch; s++) {
        const kvg_positions here = kept(cache, cache->lengths[s] + counts[s]);
        for (uint64_t p = cache->lengths[s]; p < here.end; p++) *slots++ = p < here.first ? -1 : slot_of(cache, s, p);
        if (valid) valid[s] = here;
    }
    memcpy(cache->counts, counts, config->batch * sizeof *counts);
    cache->updated[layer] = true;
    cache->updates++;
    return KVG_OK;
}

kvg_status kvg_contiguous_advance(kvg_contiguous *cache, const uint32_t *counts)
{
    for (uint32_t layer = 0; layer < cache->config.layers; layer++) {
        if (cache->updated[layer]) continue;
        return kvg_fail(KVG_ERR_INVALID, "layer %u was not updated in this step: %u of %u layers were", layer,
                        cache->updates, cache->config.layers);
    }
    kvg_status status = check_counts(cache, counts, "the advance after layer", cache->config.layers - 1);
    if (status) return status;
    for (uint32_t s = 0; s < cache->config.batch; s++) cache->lengths[s] += counts[s];
    end_step(cache);
    return KVG_OK;
}

uint64_t kvg_contiguous_length(const kvg_contiguous *cache, uint32_t sequence)
{
    return cache->lengths[sequence];
}

kvg_positions kvg_contiguous_valid(const kvg_contiguous *cache, uint32_t layer, uint32_t sequence)
{
    const uint32_t pending = cache->updated[layer] ? cache->counts[sequence] : 0;
    return kept(cache, cache->lengths[sequence] + pending);
}

int64_t kvg_contiguous_slot(const kvg_contiguous *cache, uint32_t layer, uint32_t sequence, uint64_t position)
{
    const kvg_positions valid = kvg_contiguous_valid(cache, layer, sequence);
    return position < valid.first || position >= valid.end ? -1 : slot_of(cache, sequence, position);
}

kvg_status kvg_contiguous_memory(const kvg_contiguous *cache, uint64_t row_bytes, uint64_t *allocated, uint64_t *used)
{
    const kvg_contiguous_config *config = &cache->config;
    uint64_t bytes;
    bool over = __builtin_mul_overflow(config->batch * config->capacity, config->layers, &bytes);
    over |= __builtin_mul_overflow(bytes, row_bytes, &bytes);
    if (over) {
        return kvg_fail(KVG_ERR_INVALID, "%u sequences of %llu positions in %u layers take 2^64 bytes or more",
                        config->batch, (unsigned long long)config->capacity, config->layers);
    }
    uint64_t held = 0;
    for (uint32_t s = 0; s < config->batch; s++) {
        const kvg_positions valid = kept(cache, cache->lengths[s]);
        held += valid.end - valid.first;
    }
    *allocated = bytes;
    *used = held * config->layers * row_bytes;
    return KVG_OK;
}
