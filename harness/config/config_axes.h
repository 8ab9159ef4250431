/* The axes of a config's case groups, and how one value of an axis goes into a case. Private to harness/config. */
#ifndef KVG_HARNESS_CONFIG_CONFIG_AXES_H
#define KVG_HARNESS_CONFIG_CONFIG_AXES_H

#include "golden/golden.h"
#include "harness/config/config.h"

/* The axes of a case group, in the order in which they are read. */
typedef enum axis {
    AXIS_OP, AXIS_FORMAT, AXIS_POLICY, AXIS_DIALECT, AXIS_LAYOUT, AXIS_DTYPE, AXIS_MODEL, AXIS_KV_HEADS, AXIS_HEAD_DIM,
    AXIS_TOKENS, AXIS_BLOCK_TOKENS, AXIS_BLOCKS, AXIS_LAYERS, AXIS_SEQUENCES, AXIS_PADDING, AXIS_SWIZZLE,
    AXIS_SHARED_KV, AXIS_ROPE, AXIS_BIAS, AXIS_GROUP, AXIS_QUERIES, AXIS_WINDOW, AXIS_SOFTCAP, AXIS_SCORE_SCALE,
    AXIS_SINKS, AXIS_PROFILE, AXIS_OPERANDS, AXIS_RELATIONS, AXIS_FILL, AXIS_SCALE, AXIS_BACKEND, AXIS_COUNT
} axis;

extern const char *const kvg_axis_names[AXIS_COUNT];

struct kvg_config_data {
    kvg_json_doc *doc;
    const char *folder; /* of the config: relative paths start there */
    char **strings;
    size_t string_count;
    size_t capacity; /* of cases */
};

/* Copies a text that lives as long as the config. */
kvg_status kvg_config_keep(kvg_config *config, const char *text, const char **out) KVG_CHECKED;

kvg_status kvg_config_append(kvg_config *config, const kvg_case *c) KVG_CHECKED;

/* The path that a value names, kept: a relative one starts at the config's folder. */
kvg_status kvg_config_keep_path(kvg_config *config, kvg_json value, const char **out) KVG_CHECKED;

/* harness/config/config_generate.c: whether a group is of op generate, and its cases. */
bool kvg_generate_is(kvg_json group);
kvg_status kvg_generate_add(kvg_config *config, kvg_json group) KVG_CHECKED;

/* Geometry that the config leaves open, where the layout is paged: 16 tokens a block, 2 layers, 3 sequences, and two
 * blocks more than harness/data/paged_fill.h can need. The op works on layer
 * (tokens + block_tokens) mod layers. Op mma: the storage and the shape of its tiles. */
void kvg_axis_defaults(kvg_problem *problem);

/* KVG_ERR_INVALID if a paged problem has fewer blocks, or a smaller capacity, than harness/data/paged_fill.h can
 * need with any seed. */
kvg_status kvg_axis_check_blocks(const kvg_problem *problem) KVG_CHECKED;

/* Reads one value of one axis into a case. */
kvg_status kvg_axis_read(axis which, kvg_config *config, kvg_json value, kvg_case *c) KVG_CHECKED;

/* An integer from 1 to max. */
kvg_status kvg_axis_number(kvg_json value, uint64_t max, uint32_t *out) KVG_CHECKED;

/* An optional member that is one of two words; *second if it is the second. Without it *second stays. */
kvg_status kvg_axis_either(kvg_json object, const char *key, const char *const names[2], bool *second) KVG_CHECKED;

/* An optional "comment", for people; but a misplaced value must not pass for one. */
kvg_status kvg_axis_comment(kvg_json object) KVG_CHECKED;

/* harness/config/config_rope.c */
kvg_status kvg_rope_read(kvg_config *config, kvg_json value, kvg_case *c) KVG_CHECKED;

/* harness/config/config_attention.c: KVG_ERR_INVALID for an op decode whose profile has no operands for it. */
kvg_status kvg_attention_check_profile(const kvg_problem *p) KVG_CHECKED;

/* harness/config/config_policy.c: reads the request; chooses the formats of both sides for the case's type and
 * geometry. */
kvg_status kvg_policy_read(kvg_json value, kvg_case *c) KVG_CHECKED;
kvg_status kvg_policy_apply(kvg_config *config, kvg_json value, kvg_case *c) KVG_CHECKED;

/* harness/config/config_attention.c: one value of an axis of op decode. Until kvg_attention_defaults runs, the case's
 * query_heads are those of one KV head. */
typedef kvg_status kvg_axis_reader(kvg_config *config, kvg_json value, kvg_case *c);
kvg_axis_reader kvg_attention_read_group, kvg_attention_read_queries, kvg_attention_read_window,
    kvg_attention_read_softcap, kvg_attention_read_score_scale, kvg_attention_read_sinks, kvg_attention_read_profile,
    kvg_attention_read_operands, kvg_attention_read_relations;

/* What the config leaves open: one query head for a KV head, one query for a sequence. KVG_ERR_INVALID if an axis is
 * not for the case's op. After kvg_axis_defaults. */
kvg_status kvg_attention_defaults(kvg_case *c) KVG_CHECKED;

#endif
