/* Drafts: what is proposed for the tokens after the last one that a request knows. */
#include <string.h>

#include "model/generate/generate_parts.h"

/* The place after the last earlier one of the last two tokens; 0: there is none. */
static uint32_t repeated(const int32_t *tokens, uint32_t known)
{
    for (uint32_t i = known - 1; known >= 3 && i >= 2; i--) {
        if (memcmp(tokens + i - 2, tokens + known - 2, 2 * sizeof *tokens) == 0) return i;
    }
    return 0;
}

uint32_t kvg_generate_propose(const kvg_generate_entry *e, uint32_t room, int32_t *draft)
{
    const uint32_t n = room < e->ask.drafts ? room : e->ask.drafts;
    if (e->draft) {
        memcpy(draft, e->draft + (e->known - e->ask.prompt_tokens), n * sizeof *draft);
        return n;
    }
    const uint32_t from = n ? repeated(e->tokens, e->known) : 0;
    if (from == 0) return 0;
    /* The text that is found may run into its own continuation: then the proposal repeats it. */
    for (uint32_t i = 0; i < n; i++) draft[i] = from + i < e->known ? e->tokens[from + i] : draft[from + i - e->known];
    return n;
}
