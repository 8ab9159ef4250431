/* What a golden pack is to hold, before anything of it is computed: from a pack's config, or from a pack that is
 * there. */
#ifndef KVG_HARNESS_PACK_GOLDEN_PLAN_H
#define KVG_HARNESS_PACK_GOLDEN_PLAN_H

#include "golden/golden.h"
#include "harness/config/config.h"

typedef struct kvg_golden_plan {
    kvg_pack *pack;        /* every case described; without digests and data, but for those of a pack that is there */
    const kvg_case **cases; /* in the order of the pack's */
    kvg_config *configs;   /* own the cases */
    size_t config_count;
    bool has_layer; /* a config gives one for all its cases; else it is (tokens + block_tokens) mod layers */
    uint64_t layer;
} kvg_golden_plan;

/* Reads a config of packs: docs/spec/golden-pack.md section 12. On failure, and at the end, kvg_golden_plan_free. */
kvg_status kvg_golden_plan_read(const char *path, kvg_golden_plan *out) KVG_CHECKED;

/* The plan that an open pack follows from, with its digests, sizes, errata and separations. It must live as long as the
 * plan. */
kvg_status kvg_golden_plan_of(const kvg_pack *pack, kvg_golden_plan *out) KVG_CHECKED;

void kvg_golden_plan_free(kvg_golden_plan *plan);

#endif
