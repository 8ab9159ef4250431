/* What the two readers of logs share; private to pool_log.c and pool_kv_events.c. */
#ifndef KVG_PAGING_POOL_POOL_LOG_READER_H
#define KVG_PAGING_POOL_POOL_LOG_READER_H

#include <stdio.h>

#include "golden/golden.h"
#include "paging/pool/pool_audit.h"

/* The reader, and room for what the lists and names of one line hold: no line has more values or digits than bytes. */
typedef struct pool_reader {
    FILE *in;
    const char *name;
    char *line;
    size_t line_room;
    uint64_t number; /* of the line */
    bool kv_events;  /* what the log is of */
    int64_t rank;    /* of KV events: their data parallel rank + 1; 0: none was named */
    size_t room;
    int64_t *numbers;
    const char **texts;
    char *digits;
    size_t used_numbers, used_texts, used_digits;
} pool_reader;

/* Makes room for a line of `size` bytes, and forgets the line before. KVG_ERR_MEMORY. */
kvg_status pool_reader_room(pool_reader *r, size_t size) KVG_CHECKED;
void pool_reader_free(pool_reader *r);

/* A string, or an integer as its digits. */
kvg_status pool_read_name(pool_reader *r, kvg_json value, const char **out) KVG_CHECKED;

/* What is too large for 64 bits is the nearest number. */
kvg_status pool_read_integer(kvg_json value, int64_t *out) KVG_CHECKED;

/* A list of names or of integers. */
kvg_status pool_read_list(pool_reader *r, kvg_json list, bool names, kvg_audit_value *out) KVG_CHECKED;

/* KV events of vLLM and SGLang: docs/spec/paging.md section 7.1. A line is a batch or an event. */
extern const kvg_audit_head pool_kv_events_head;
bool pool_is_kv_events(kvg_json line);
kvg_status pool_kv_events(pool_reader *r, kvg_json line, kvg_audit *a) KVG_CHECKED;

#endif
