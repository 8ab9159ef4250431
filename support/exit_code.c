#include "support/exit_code.h"

const kvg_exit_code *kvg_exit_code_table(size_t *count)
{
    static const kvg_exit_code codes[] = {
#define EXIT_CODE(id, number, in_short, meaning) {number, in_short, meaning},
#include "support/exit_codes.def"
#undef EXIT_CODE
    };
    *count = sizeof codes / sizeof codes[0];
    return codes;
}

int kvg_exit_of_verdicts(const uint64_t counts[KVG_VERDICT_COUNT])
{
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (i != KVG_VERDICT_MISTRUSTED && kvg_verdict_fails((kvg_verdict)i) && counts[i]) return KVG_EXIT_FAIL;
    }
    if (counts[KVG_VERDICT_MISTRUSTED]) return KVG_EXIT_USAGE;
    return counts[KVG_VERDICT_PASS] ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
}
