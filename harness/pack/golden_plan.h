/* The plan of a golden pack: its cases before they are computed, from a pack's config or from an
 * existing pack. */
#ifndef KVG_HARNESS_PACK_GOLDEN_PLAN_H
#define KVG_HARNESS_PACK_GOLDEN_PLAN_H

#include "golden/golden.h"
#include "harness/config/config.h"

typedef struct kvg_golden_plan {
    kvg_pack *pack;        /* every case described; digests and data only for an existing pack */
    const kvg_case **cases; /* in the order of the pack's cases */
    kvg_config *configs;   /* they own the cases */
    size_t config_count;
    bool has_layer; /* a config gives one layer for all its cases; else it is (tokens + block_tokens) mod layers */
    uint64_t layer;
} kvg_golden_plan;

/* Reads a config of packs: docs/spec/golden-pack.md section 12. Call kvg_golden_plan_free at the
 * end, also on failure. */
kvg_status kvg_golden_plan_read(const char *path, kvg_golden_plan *out) KVG_CHECKED;

/* The plan of an open pack, with its digests, sizes, errata and separations. The pack must outlive
 * the plan. */
kvg_status kvg_golden_plan_of(const kvg_pack *pack, kvg_golden_plan *out) KVG_CHECKED;

/* Takes cases out, and the profiles and notes that no other case has. The others keep their order
 * and get new keys. `drop`: one for each case. */
kvg_status kvg_golden_plan_drop(kvg_golden_plan *plan, const bool *drop) KVG_CHECKED;

void kvg_golden_plan_free(kvg_golden_plan *plan);

#endif
