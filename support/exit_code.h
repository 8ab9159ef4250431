/* The program's exit codes: support/exit_codes.def. */
#ifndef KVG_SUPPORT_EXIT_CODE_H
#define KVG_SUPPORT_EXIT_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "core/verdict.h"

enum {
#define EXIT_CODE(id, number, in_short, meaning) KVG_EXIT_##id = number,
#include "support/exit_codes.def"
#undef EXIT_CODE
};

typedef struct kvg_exit_code {
    int number;
    const char *in_short, *meaning;
} kvg_exit_code;

/* The rows of support/exit_codes.def. */
const kvg_exit_code *kvg_exit_code_table(size_t *count);

/* Of a run whose cases came to these verdicts. Where the only ones that fail are MISTRUSTED, the config is to blame:
 * KVG_EXIT_USAGE. */
int kvg_exit_of_verdicts(const uint64_t counts[KVG_VERDICT_COUNT]);

#endif
