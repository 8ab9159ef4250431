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

enum { KVG_CONFIG_MAX_CASES = 100000, KVG_COVER_TOLD = 10 };

typedef struct kvg_config {
    const char *path;
    const char *name;
    uint64_t seed;
    bool public_seed; /* it stands in the file: answers may have been prepared */
    double slow_seconds, hang_seconds; /* watchdog budgets of one case */
    kvg_case *cases;                   /* unique ids, in file order */
    size_t case_count;
    struct kvg_config_data *data;      /* owns strings and the document */
} kvg_config;

/* Reads a config. Everything is checked before anything runs: KVG_ERR_INVALID names file, JSON path and remedy; an
 * empty selection is an error. `seed` overrides the file's if not NULL. Without a guest (NULL) a group of a guest is
 * refused. On success close it. */
kvg_status kvg_config_open(const char *path, const uint64_t *seed, const kvg_guest *guest, kvg_config *out) KVG_CHECKED;

/* The same from memory; relative paths in it are taken from `folder`. */
kvg_status kvg_config_parse(const char *name, const char *text, size_t size, const char *folder,
                            const kvg_guest *guest, kvg_config *out) KVG_CHECKED;

/* What the rows of one group cover of its "covers" (docs/guide/config.md section 3): how many tuples of values stand
 * in some row; in none though a case has them; in none because every case that has them is more work than "most_work".
 * Tuples that no case has are not counted. `text` names the first missing ones. */
typedef struct kvg_cover {
    size_t group; /* its place in "cases" */
    unsigned strength;
    size_t rows, covered, missing, dearer;
    kvg_json_text text;
} kvg_cover;

/* Tells each group that has "covers". */
kvg_status kvg_config_cover(const kvg_config *config, void (*tell)(const kvg_cover *cover, void *context),
                            void *context) KVG_CHECKED;

/* Judges another implementation: every case gets this backend and a new id; cases that become equal are one.
 * `backend` must outlive the config. */
kvg_status kvg_config_use_backend(kvg_config *config, const char *backend) KVG_CHECKED;
/* The case of an id. KVG_ERR_NOT_FOUND names the id that was most likely meant. */
kvg_status kvg_config_find(const kvg_config *config, const char *id, const kvg_case **out) KVG_CHECKED;

void kvg_config_close(kvg_config *config);

/* The case group that gives the case back, on one line. KVG_ERR_INVALID: a capture. */
kvg_status kvg_config_line(const kvg_case *c, kvg_json_text *out) KVG_CHECKED;

/* configs/schema.json, and the tables of docs/reference/config-keys.md, with the guest's unless it is NULL. */
kvg_status kvg_config_schema(const kvg_guest *guest, kvg_json_text *out) KVG_CHECKED;
kvg_status kvg_config_page(const kvg_guest *guest, kvg_json_text *out) KVG_CHECKED;

/* An optional "comment" of an object, for people; but a misplaced value must not pass for one. */
kvg_status kvg_axis_comment(kvg_json object) KVG_CHECKED;

#endif
