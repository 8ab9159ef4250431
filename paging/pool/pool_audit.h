/* The model of `kvgold pool audit`: it follows the events of another program's block manager and holds each against the
 * rules of docs/spec/paging.md section 7. Where the contract leaves a choice it takes what the event says. After a
 * broken rule it goes on with what the event says, too. */
#ifndef KVG_PAGING_POOL_POOL_AUDIT_H
#define KVG_PAGING_POOL_POOL_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum kvg_audit_rule {
#define AUDIT_RULE(id, name, sentence) KVG_AUDIT_##name,
#include "paging/pool/pool_audit_rules.def"
#undef AUDIT_RULE
    KVG_AUDIT_RULES
} kvg_audit_rule;

typedef struct kvg_audit_rule_text {
    const char *id, *sentence;
} kvg_audit_rule_text;

extern const kvg_audit_rule_text kvg_audit_rules[KVG_AUDIT_RULES];

typedef enum kvg_audit_field {
#define AUDIT_FIELD(name, key, kind) KVG_AUDIT_FIELD_##name,
#include "paging/pool/pool_audit_events.def"
#undef AUDIT_FIELD
    KVG_AUDIT_FIELDS
} kvg_audit_field;

typedef enum kvg_audit_event_kind {
#define AUDIT_EVENT(name, word, needed, others) KVG_AUDIT_EVENT_##name,
#include "paging/pool/pool_audit_events.def"
#undef AUDIT_EVENT
    KVG_AUDIT_EVENTS
} kvg_audit_event_kind;

extern const char *const kvg_audit_event_words[KVG_AUDIT_EVENTS];

/* The value of a field; which members it uses follows from the field's kind. A number that no int64_t holds is the
 * nearest one. */
typedef struct kvg_audit_value {
    bool given;
    const char *text;         /* of a name; NULL: null */
    int64_t number;
    size_t count;             /* of the list */
    const int64_t *numbers;
    const char *const *texts;
} kvg_audit_value;

typedef struct kvg_audit_event {
    kvg_audit_event_kind kind;
    uint64_t line; /* of the log, from 1 */
    kvg_audit_value values[KVG_AUDIT_FIELDS];
} kvg_audit_event;

/* What the head of a log says. */
typedef struct kvg_audit_head {
    uint32_t blocks;       /* 0: the events name hashes and no blocks */
    uint32_t block_tokens;
    uint32_t host_blocks; /* whose ids follow those of the pool */
    bool evicts_on_allocate, writes, stores_before_write, window;
    bool lowest_first, free_first, oldest_first, tail_first; /* promises: rules B1 to B4 */
} kvg_audit_head;

enum { KVG_AUDIT_MAX_BLOCKS = 1 << 24, KVG_AUDIT_MAX_BLOCK_TOKENS = 1 << 16 };

typedef struct kvg_audit_violation {
    kvg_audit_rule rule;
    uint64_t line;
    const char *event;    /* its word */
    const char *sequence; /* NULL: the event names none */
    int64_t block;        /* KVG_AUDIT_NO_BLOCK: the violation is of no single block */
    char text[200];       /* what is so instead; may be empty */
} kvg_audit_violation;

#define KVG_AUDIT_NO_BLOCK INT64_MIN

typedef struct kvg_audit_report {
    void (*see)(void *context, const kvg_audit_violation *violation); /* NULL: violations are only counted */
    void *context;
} kvg_audit_report;

typedef struct kvg_audit_totals {
    uint64_t events, sequences, violations;
    uint32_t blocks; /* of the pool */
    uint64_t broken[KVG_AUDIT_RULES];
    bool ended; /* the log has the event `end` */
} kvg_audit_totals;

typedef struct kvg_audit kvg_audit;

/* Memory: about 32 bytes and a bit per token for each block, 24 more if an order of cached blocks is promised, 60 bytes
 * for each pair of a sequence and a block that it holds, and about 100 bytes and the name for each sequence and hash
 * that is alive. KVG_ERR_MEMORY. */
kvg_status kvg_audit_make(const kvg_audit_head *head, kvg_audit_report report, kvg_audit **out) KVG_CHECKED;
void kvg_audit_free(kvg_audit *a); /* NULL is allowed */

/* KVG_ERR_INVALID: the event's fields contradict each other. KVG_ERR_MEMORY. Broken rules are no errors. */
kvg_status kvg_audit_step(kvg_audit *a, const kvg_audit_event *event) KVG_CHECKED;

const kvg_audit_totals *kvg_audit_sum(const kvg_audit *a);

#endif
