/* A guest judges cases that ask no op: model/guest/ judges whole models (op generate of
 * docs/spec/generate.md). The judge knows a guest by this table of functions alone. cli/ hands the
 * guest to whoever reads a config or a result file; NULL stands for no guest. */
#ifndef KVG_HARNESS_CASE_GUEST_H
#define KVG_HARNESS_CASE_GUEST_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "golden/golden.h"
#include "harness/case/result_fields.h"

struct kvg_candidate;
struct kvg_case;
struct kvg_config;
struct kvg_report;
struct kvg_report_case;
struct kvg_result;

enum { KVG_GUEST_LINE_RECORDS = 2 };

typedef struct kvg_guest {
    const char *name; /* the name that takes an op's place: in configs, at the head of ids, in the field `op` */

    /* Configs. `add` appends the cases of a group, each with this guest as `guest` and with a
     * `guest_case`. `schema` writes the definition of the guest's name and the definitions that it
     * refers to, each followed by ", ". `page` writes the guest's section of
     * docs/reference/config-keys.md. */
    kvg_status (*add)(const struct kvg_guest *self, struct kvg_config *config, kvg_json group);
    void (*schema)(kvg_json_text *out);
    void (*page)(kvg_json_text *out);

    /* The part of an id that takes the place of other cases' fill. */
    void (*id)(const struct kvg_case *c, char *out, size_t size);

    /* A run. `check` never fails: every error becomes a verdict. The `guest` that it puts into the
     * result is valid until the session's next check. */
    kvg_status (*open)(void **session);
    void (*check)(void *session, const struct kvg_case *c, struct kvg_candidate *candidate, struct kvg_result *out);
    void (*close)(void *session);

    /* Lines of a result file: fields of what was asked, and parts of a judged case. The first two
     * of `records` are the fields of the line itself: asked, and parts. The other records are the
     * fields of the parts. Names of the guest's own known-wrong answers stand in the result's
     * `controls`. */
    const kvg_record *records;
    size_t record_count;
    void (*write_asked)(const struct kvg_case *c, cJSON *line);
    void (*write)(const struct kvg_result *r, cJSON *line);

    /* Reports. `read` checks the guest's fields of a line. Of a judged case it puts them into room
     * of the report; of others it gives NULL. `about` describes a judged case in a few words for
     * JUnit. */
    kvg_status (*read)(struct kvg_report *report, kvg_json line, void **out);
    void (*about)(const struct kvg_report_case *c, char *out, size_t size);
    void (*print)(const struct kvg_report *report, FILE *out);
} kvg_guest;

/* Whether a name is that of a known guest, even if this program has none. A reader without guests
 * refuses such a group by its name. */
bool kvg_guest_is_known(const char *name);

#endif
