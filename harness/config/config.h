/* Room config: it turns a JSON file into cases, and refuses what makes none.
 *
 *   config                 The file, its groups and the product of their axes.
 *   config_group           A group: the product of its axes, less what it excludes.
 *   config_cover           What the rows of a group cover of the values that they are made of.
 *   config_axes            Values of axes into a case; harness/case/axes.def is the table.
 *   config_value           Values whose kind says all; config_words: names of tables; config_list: lists and "all".
 *   config_names           Those names for other rooms.
 *   config_keys            The objects that axes take; config_keys.def is the table.
 *   config_rope, _policy, _attention  What these axes need besides.
 *   config_text            What a case says of its axes.
 *   model                  The geometry of a named model: configs/models/<name>.json.
 *   config_schema, _page   The tables as configs/schema.json and as docs/reference/config-keys.md.
 *
 * The room stands below data and wrong, because a config is refused for a fill or a defect that does not exist for
 * its problem. */
/* Configs: a JSON file to a list of cases. docs/guide/config.md is the manual, configs/schema.json the published
 * schema. */
#ifndef KVG_HARNESS_CONFIG_CONFIG_H
#define KVG_HARNESS_CONFIG_CONFIG_H

#include "golden/golden.h"
#include "harness/case/case.h"
#include "harness/case/guest.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer's word: a fuzzer would spend its time on long products */
enum { KVG_CONFIG_MAX_CASES = 64 };
#else
enum { KVG_CONFIG_MAX_CASES = 100000 };
#endif
enum { KVG_COVER_TOLD = 10 };

typedef struct kvg_config {
    const char *path;
    const char *name;
    uint64_t seed;
    bool public_seed; /* true: the run uses the file's seed, so answers may have been prepared */
    double slow_seconds, hang_seconds; /* watchdog budgets of one case */
    kvg_case *cases;                   /* unique ids, in file order */
    size_t case_count;
    struct kvg_config_data *data;      /* owns strings and the document */
} kvg_config;

/* Reads a config. Everything is checked before anything runs. KVG_ERR_INVALID names file, JSON path
 * and remedy. A selection without cases is an error. `seed`, unless NULL, overrides the file's
 * seed. Without a guest (NULL) a guest's group is refused. Close *out after success. */
kvg_status kvg_config_open(const char *path, const uint64_t *seed, const kvg_guest *guest, kvg_config *out) KVG_CHECKED;

/* Parses a config from memory. Relative paths in it start at `folder`. */
kvg_status kvg_config_parse(const char *name, const char *text, size_t size, const char *folder,
                            const kvg_guest *guest, kvg_config *out) KVG_CHECKED;

/* Coverage of one group that has "covers" (docs/guide/config.md section 3). Counts tuples of
 * values: `covered` stand in some row; `missing` stand in no row, although a case has them;
 * `dearer` stand in no row because every case that has them is more work than "most_work". Tuples
 * that no case has are not counted. `text` names the first missing tuples. */
typedef struct kvg_cover {
    size_t group; /* index of the group in "cases" */
    unsigned strength;
    size_t rows, covered, missing, dearer;
    kvg_json_text text;
} kvg_cover;

/* Calls `tell` for each group that has "covers". */
kvg_status kvg_config_cover(const kvg_config *config, void (*tell)(const kvg_cover *cover, void *context),
                            void *context) KVG_CHECKED;

/* Makes the config judge another implementation. Every case gets this backend and a new id; cases
 * that become equal are merged. `backend` must outlive the config. */
kvg_status kvg_config_use_backend(kvg_config *config, const char *backend) KVG_CHECKED;
/* Finds a case by its id. KVG_ERR_NOT_FOUND names the id that was most likely meant. */
kvg_status kvg_config_find(const kvg_config *config, const char *id, const kvg_case **out) KVG_CHECKED;

void kvg_config_close(kvg_config *config);

/* Writes the case group, on one line, that gives this case again. KVG_ERR_INVALID: the case is a
 * capture. */
kvg_status kvg_config_line(const kvg_case *c, kvg_json_text *out) KVG_CHECKED;

/* kvg_config_schema writes configs/schema.json, kvg_config_page the tables of
 * docs/reference/config-keys.md. Both include the guest's part unless `guest` is NULL. */
kvg_status kvg_config_schema(const kvg_guest *guest, kvg_json_text *out) KVG_CHECKED;
kvg_status kvg_config_page(const kvg_guest *guest, kvg_json_text *out) KVG_CHECKED;

#endif
