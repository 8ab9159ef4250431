/* Shared by the parts of a report; private to harness/report and to guests. */
#ifndef KVG_HARNESS_REPORT_REPORT_DATA_H
#define KVG_HARNESS_REPORT_REPORT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/problem.h"
#include "core/verdict.h"
#include "harness/case/cells.h"
#include "harness/case/guest.h"
#include "harness/case/result.h"
#include "harness/report/report.h"
#include "harness/report/report_decode.h"

enum { KVG_REPORT_MAX_CONTROLS = 128 };

/* In the order of the fields of "controls". */
typedef enum kvg_report_control {
    KVG_REPORT_REJECTED,
    KVG_REPORT_UNREACHED,
    KVG_REPORT_ACCEPTED,
    KVG_REPORT_WITHIN,   /* changed the answer, but by less than the bound of op decode */
    KVG_REPORT_BY_BOUND, /* rejected by the round-trip bound alone; also counted in REJECTED */
    KVG_REPORT_CONTROLS
} kvg_report_control;

extern const char *const kvg_report_control_names[KVG_REPORT_CONTROLS];

typedef struct kvg_report_case {
    kvg_result_asked asked;
    const char *storage; /* "nvfp4.canonical"; "int8.canonical+nvfp4.p1" where K and V differ */
    const char *mode;    /* "fp4_mx", "none (fell back from fp4_nv: ...)"; "" where no policy chose it */
    bool fell_back;
    bool started;  /* the file has a `start` line of the case */
    bool finished; /* the file has a `case` line of the case; else the result is 0 */
    kvg_result result;
    size_t cause; /* id of its cause; SIZE_MAX: it passed, or the candidate does not claim it */
    void *guest; /* data that the report's guest read from the line; NULL: none */
    uint64_t controls[KVG_REPORT_CONTROLS][KVG_REPORT_MAX_CONTROLS / 64]; /* bit i: the report's control i */
    const char *line;                       /* text of its line in the file, for the merged file */
    size_t line_size, file;                 /* file: index of its file */
} kvg_report_case;

/* Memory for texts of cases, and for what a guest reads. */
typedef struct kvg_report_texts {
    struct kvg_report_texts *next;
    size_t size, used;
    char text[];
} kvg_report_texts;

typedef struct kvg_report_file {
    char *path, *text;
    char *version, *config, *name;
    uint64_t seed;
    bool public_seed;
    uint64_t shard, shard_count; /* shard counts from 1 */
    uint64_t cases;              /* number that the file announces */
    uint64_t config_cases;       /* cases of the whole config; 0: the file does not say */
    uint64_t seen, finished;     /* seen: cases that started at least; finished: cases that finished */
    size_t size;
    bool truncated, ended, interrupted;
    double seconds;
} kvg_report_file;

/* All cases of one format and dialect. A statistic without data is NAN. */
typedef struct kvg_report_group {
    const char *storage;
    const kvg_result_asked *asked; /* of its first case; all cases have the same formats */
    double bits; /* bits per stored element, scales included; NAN for unknown formats */
    bool canonical, mixed; /* mixed: K and V are stored in different ways */
    size_t first, count; /* its cases are kvg_report.cases[first] to [first + count - 1] */
    size_t passed, failed, skipped;
    uint64_t compared, mismatched;
    kvg_result_reach reach; /* of all cases together */
    const char *data;       /* the fill from which relative_l2, sqnr_db and gain_error come */
    double relative_l2[2], sqnr_db[2]; /* medians */
    double gain_error[2];              /* largest |gain - 1| */
    double worst_ratio;                /* worst ratio of K and V over all fills */
    uint64_t controls[KVG_REPORT_CONTROLS][KVG_REPORT_MAX_CONTROLS];
} kvg_report_group;

/* All cases with the same layout and op, or with the same mode. */
typedef struct kvg_report_tally {
    const kvg_report_case *first; /* one of the cases, which has layout and op, or the mode */
    size_t count, passed, failed;
    uint64_t compared, mismatched;
} kvg_report_tally;

/* Cases that did not pass for the same reason: one known-wrong answer explains all of them, or they
 * share a verdict and the start of `detail`, up to the first number or colon. */
typedef struct kvg_report_cause {
    const kvg_report_case *first; /* by format, dialect and id */
    const char *explained;        /* the known-wrong answer that explains them; NULL: none */
    size_t id, count;
} kvg_report_cause;

struct kvg_report {
    const kvg_guest *guest; /* NULL: none */
    kvg_report_file *files; /* by shard */
    size_t file_count;
    kvg_result_origin *origins; /* of all files, in the order in which they were given */
    size_t origin_count;
    kvg_report_case *cases; /* by format, dialect and id */
    size_t case_count, case_capacity;
    kvg_report_group *groups;
    size_t group_count;
    kvg_report_tally *layouts; /* by layout and op, in the order of their tables */
    size_t layout_count;
    kvg_report_tally *modes; /* by mode, without cases that have no mode */
    kvg_cell *cells;
    size_t cell_count;
    kvg_report_cause *causes; /* FAIL first, SKIP last, frequent causes first */
    size_t cause_count;
    size_t mode_count, without_mode; /* without_mode: cases that name their formats, not a policy */
    kvg_report_texts *texts;                       /* of all cases */
    const char *controls[KVG_REPORT_MAX_CONTROLS]; /* names in the order in which they came */
    char **notes; /* facts about the files that the reader must know, one sentence each */
    size_t control_count, note_count;
    uint64_t verdicts[KVG_VERDICT_COUNT];
    /* failing: finished cases with a failing verdict. unfinished: cases that only started. missing:
     * cases without any line. lost_shards: files that were not given. */
    uint64_t failing, unfinished, missing, lost_shards;
    uint64_t compared, mismatched;
    uint64_t control_totals[KVG_REPORT_CONTROLS];
    double seconds; /* of all shards together */
};

/* Appends a file's run and cases to the report, unsorted. */
kvg_status kvg_report_read(kvg_report *report, const char *path, const kvg_sha256_digest *digest) KVG_CHECKED;

kvg_status kvg_report_note(kvg_report *report, const char *format, ...) KVG_CHECKED KVG_PRINTF(2, 3);

/* Memory of the report: `size` bytes, aligned for pointers and doubles; NULL: out of memory. */
void *kvg_report_room(kvg_report *report, size_t size);

/* A copy of the text that lasts as long as the report (a kvg_report *). NULL: out of memory. */
const char *kvg_report_keep(void *report, const char *text);

/* Sorts the cases and fills groups and totals. */
kvg_status kvg_report_summarise(kvg_report *report) KVG_CHECKED;

/* Fills the report's causes, and the cause of each case. */
kvg_status kvg_report_find_causes(kvg_report *report) KVG_CHECKED;

/* "PASS", ..., or "UNFINISHED". */
const char *kvg_report_status_name(const kvg_report_case *c);
bool kvg_report_case_passes(const kvg_report_case *c);
bool kvg_report_case_fails(const kvg_report_case *c); /* also true for unfinished ones */

bool kvg_report_has_fill(const kvg_report_case *c, const char *fill);

/* K and V are stored in different ways. */
bool kvg_report_is_mixed(const kvg_result_asked *asked);

/* Sorts `values` and returns their median; NAN for none. */
double kvg_report_median(double *values, size_t count);
unsigned kvg_report_bits_set(const uint8_t set[KVG_FIELD_CODES / 8]);
bool kvg_report_bit(const uint8_t set[KVG_FIELD_CODES / 8], unsigned code);
void kvg_report_format_bytes(uint64_t bytes, char *out, size_t size); /* "73.7 kB" */

/* Writes one line: "540 passed, 0 failed, 2 skipped; 12 of 13 cells judged". Cases that never finished or never ran are
 * missing: "443 passed, 3 failed, 492 missing; ...; 1 of 3 shards missing". It ends with "; public seed" if the seed is
 * the config's, and with "; of 2 different libraries". */
void kvg_report_count_line(const kvg_report *report, char *out, size_t size);

/* Writes what the run does not prove, and the remedy: "1 of 1303 cases was judged: this proves almost
 * nothing" if less than half were judged, of the config's cases, selected or not; the config that asks
 * what the implementation claims, unless cases were selected; and that the reference judged itself. */
void kvg_report_proof_line(const kvg_report *report, char *out, size_t size);

/* Calls `tell` for each statement about all cases together: tell(context, "compared", "1.5 kB
 * (...)"). The text may come from the files. */
void kvg_report_tell_totals(const kvg_report *report, void (*tell)(void *context, const char *what, const char *text),
                            void *context);

/* The columns of the summary, the same in every output. */
typedef struct kvg_report_column {
    const char *title;   /* short, for the terminal */
    const char *heading; /* for the page */
    unsigned importance; /* where there is no room, the least important columns are left out first */
    void (*cell)(const kvg_report_group *group, char *out, size_t size);
    bool (*is_bad)(const kvg_report_group *group); /* NULL: never */
} kvg_report_column;

extern const kvg_report_column kvg_report_columns[];
extern const size_t kvg_report_column_count;

/* Writes a file whole or not at all: `write` fills a temporary file beside it, which is then
 * renamed. A path that is no regular file (/dev/stdout) is written in place. */
kvg_status kvg_report_write(const kvg_report *report, const char *path,
                            void (*write)(const kvg_report *report, FILE *out)) KVG_CHECKED;

/* Writes text for XML, for elements and attributes alike. Markup is escaped. Characters that XML
 * cannot hold become U+FFFD. */
void kvg_report_escape(FILE *out, const char *text);

#endif
