/* How one value of an axis of a config's case group goes into a case. Private to harness/config and
 * to guests. */
#ifndef KVG_HARNESS_CONFIG_CONFIG_AXES_H
#define KVG_HARNESS_CONFIG_CONFIG_AXES_H

#include "golden/golden.h"
#include "harness/case/axes.h"
#include "harness/config/config.h"

struct kvg_config_data {
    kvg_json_doc *doc;
    struct { const void *group; kvg_json_doc *doc; } *rows; /* of groups whose rows are words */
    size_t row_docs;
    const char *folder; /* the config's folder, where relative paths start */
    char **strings;
    size_t string_count;
    size_t capacity; /* of cases */
};

/* Copy a text, or any bytes. The copy lives as long as the config. */
kvg_status kvg_config_keep(kvg_config *config, const char *text, const char **out) KVG_CHECKED;
kvg_status kvg_config_keep_bytes(kvg_config *config, const void *bytes, size_t size, const void **out) KVG_CHECKED;

kvg_status kvg_config_append(kvg_config *config, const kvg_case *c) KVG_CHECKED;

/* Keeps the path that a value names. A relative path starts at the config's folder. */
kvg_status kvg_config_keep_path(kvg_config *config, kvg_json value, const char **out) KVG_CHECKED;

/* One value of an axis: a value of the file, or a name that "all" stands for. */
typedef struct config_choice {
    bool has; /* false: the object does not give the axis */
    kvg_json value;
    const char *word; /* the name, for an "all"; else NULL */
} config_choice;

/* --- config_rows.c: objects of axes, and the rows of a group --- */

/* The names of all axes, then `count` of `more`; how many there are. */
size_t config_axis_names(const char **names, const char *const *more, size_t count);

/* KVG_ERR_INVALID unless the value is an object of axes, or a list of such objects, none of them empty. */
kvg_status config_check_axis_object(kvg_json object) KVG_CHECKED;
kvg_status config_check_axis_objects(kvg_json list) KVG_CHECKED;

/* The member of the object, if it has one, as a list of objects of axes. */
kvg_status config_get_axis_objects(kvg_json object, const char *key, kvg_json *out, size_t *count) KVG_CHECKED;

/* The rows of a group beside itself, the objects of "include" and then the words of "rows" in "covers", as objects of
 * axes. `work` gets one after the other, until one fails. The config keeps them: words are read once. */
kvg_status config_each_row(const kvg_config *config, kvg_json group, kvg_status (*work)(void *context, kvg_json row),
                           void *context) KVG_CHECKED;

/* --- config_group.c: the cases of a group --- */

kvg_status config_group_add(kvg_config *config, kvg_json group) KVG_CHECKED;

/* Value `index` of an axis in an object of a group. If the object does not give the axis, the first
 * value that the group gives. */
config_choice config_group_choice(kvg_json object, kvg_json group, kvg_axis axis, size_t index);

/* Makes the case of one value per axis, in a group without "exclude". The config keeps its
 * cases. */
kvg_status config_group_case(kvg_config *config, kvg_json group, const config_choice given[KVG_AXIS_COUNT],
                             kvg_case *out) KVG_CHECKED;

/* config_cover.c: refuses a "covers" of a group that cannot be counted. */
kvg_status config_cover_check(const kvg_config *config, kvg_json group) KVG_CHECKED;

/* --- config_words.c: the names that keys of kind WORD and SIDES take --- */

typedef struct config_words {
    const char *(*at)(size_t index); /* every name in turn; NULL after the last */
    const char *(*get)(const kvg_case *c, kvg_side side);
    kvg_status (*set)(kvg_case *c, kvg_side side, const char *name); /* a failure lists the known names */
} config_words;

const config_words *config_words_of(kvg_axis axis); /* NULL: the axis takes no names of a table */

/* Reads the string `value` into the case, for one side. */
kvg_status config_read_word(const config_words *words, kvg_side side, kvg_json value, kvg_case *c) KVG_CHECKED;

/* --- config_value.c: values whose kind says all --- */

/* Reads a COUNT, FACTOR, FLAG or CHOICE into its member of the object; `name` is the key's. */
kvg_status config_read_value(const kvg_value *value, const char *name, kvg_json json, void *object) KVG_CHECKED;

/* Gives the member the fallback that a table has for a key that is left out. Does nothing for other
 * kinds, for "required" and for "". */
void config_take_fallback(const kvg_value *value, const char *fallback, void *object);

/* A string for both sides, or {"k": ..., "v": ...}. */
kvg_status config_read_sides(kvg_json value, kvg_json out[2]) KVG_CHECKED;

/* --- config_keys.c: the keys of the objects that axes take, rows of config_keys.def --- */

typedef enum config_object {
    CONFIG_OF_GUEST, CONFIG_PADDING, CONFIG_SHARED_KV, CONFIG_ROPE, CONFIG_SCALING, CONFIG_POLICY
} config_object;

typedef struct config_key {
    config_object object;
    const char *name;
    kvg_value value;
    const char *fallback, *meaning; /* as in harness/case/axes.def */
    const char *schema, *values;    /* OWN: the values of the key as JSON Schema and in words; else NULL */
} config_key;

/* The keys of an object. */
typedef struct config_keys {
    const config_key *key;
    size_t count;
} config_keys;

config_keys config_keys_of(config_object object);

/* Appends the names of the keys to the `count` names in `names`. Returns the new number of
 * names. */
size_t kvg_config_key_names(config_keys keys, const char **names, size_t count);

/* The names that a key of kind WORD takes; NULL for any other key. */
const config_words *config_key_words(const config_key *key);

/* Reads the keys of a config's object into the members of `object`. Leaves unknown keys and keys of
 * kind OWN to the caller. */
kvg_status kvg_config_read_keys(config_keys keys, kvg_json value, void *object) KVG_CHECKED;

/* Reads an object into a case, and refuses unknown keys. */
kvg_status config_read_object(config_object object, kvg_json value, kvg_case *c) KVG_CHECKED;

/* --- config_schema.c, config_page.c: what a guest's schema and page are made of --- */

/* Write the members of "properties", each followed by ", ": keys, or an axis that the guest's group
 * has, too. kvg_config_schema_required writes the names of the required keys, each after ", ". */
void kvg_config_schema_keys(kvg_json_text *t, config_keys keys);
void kvg_config_schema_required(kvg_json_text *t, config_keys keys);
void kvg_config_schema_axis(kvg_json_text *t, kvg_axis which);

/* A heading and a table of keys. */
void kvg_config_page_keys(kvg_json_text *t, const char *title, config_keys keys);

/* --- config_axes.c --- */

/* Reads one value of one axis into a case. */
kvg_status kvg_axis_read(kvg_axis which, kvg_config *config, kvg_json value, kvg_case *c) KVG_CHECKED;

/* Gives an axis that the group does not have its fallback, if the case has the axis. An axis of
 * kind SIDES or OWN stays as it is. */
kvg_status kvg_axis_default(kvg_axis which, kvg_case *c) KVG_CHECKED;

/* Derives fields from the rest of the case. The layer of a golden pack is (tokens + block_tokens)
 * mod layers. A pool has two blocks more than harness/trial/question/paged_fill.h can need. Op mma:
 * the storage and the shape of its tiles. */
void kvg_axis_derive(kvg_case *c);

/* KVG_ERR_INVALID if a paged case has fewer blocks, or a smaller capacity, than harness/trial/question/paged_fill.h can
 * need with any seed, fewer far blocks than blocks, or a shared prefix that it cannot have. */
kvg_status kvg_axis_check_blocks(const kvg_case *c) KVG_CHECKED;

/* --- config_list.c: the values of an axis in an object --- */

/* KVG_ERR_INVALID if "all" stands in a wrong place or has a wrong form, or if there is no value. */
kvg_status kvg_config_list_check(kvg_json object, kvg_axis axis) KVG_CHECKED;

/* Number of values, where a scalar is a list of one; value `index` of them. */
size_t kvg_config_list_count(kvg_json object, kvg_axis axis);
config_choice kvg_config_list_at(kvg_json object, kvg_axis axis, size_t index);

/* Reads a choice into a case. */
kvg_status kvg_config_list_read(kvg_axis axis, kvg_config *config, const config_choice *choice,
                                kvg_case *c) KVG_CHECKED;

/* kvg_config_is_all: a checked value is "all" or {"all_but": [...]}. kvg_config_all_has: such a
 * value stands for `name`. */
bool kvg_config_is_all(kvg_json value);
bool kvg_config_all_has(kvg_json value, const char *name);

/* --- config_text.c --- */

/* Writes the text of an axis as "exclude" compares it: a name, a number, or true or false for
 * whether the case has one. */
void config_axis_text(const kvg_case *c, kvg_axis which, char *out, size_t size);

/* --- axes of their own --- */

/* config_rope.c. kvg_rope_read reads the axis. config_add_kinds adds the names of a set of kinds of
 * scaling, one bit each: "llama3, yarn". */
kvg_status kvg_rope_read(kvg_json value, kvg_case *c) KVG_CHECKED;
void config_add_kinds(kvg_json_text *out, uint32_t kinds);

/* config_policy.c: sets the formats of both sides that a policy chooses for the case's type and
 * geometry. */
kvg_status kvg_policy_apply(kvg_config *config, kvg_json value, kvg_case *c) KVG_CHECKED;

/* config_attention.c: derives fields from the axes of op decode. Before the call the case's
 * query_heads are those of one KV head. KVG_ERR_INVALID: the case has operands and a profile, or a
 * profile that lacks operands for it. */
kvg_status kvg_attention_derive(kvg_case *c) KVG_CHECKED;
kvg_status kvg_attention_check_profile(const kvg_problem *p) KVG_CHECKED;

#endif
