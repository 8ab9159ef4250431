/* Reads prompts and storage formats from the command line. */
#ifndef KVG_MODEL_GENERATE_GENERATE_PROMPTS_H
#define KVG_MODEL_GENERATE_GENERATE_PROMPTS_H

#include "core/transformer.h"

typedef struct kvg_prompt {
    int32_t *tokens;
    uint32_t count;
    bool text; /* its tokens are bytes */
    const char *file; /* the file it is from; NULL: the command line */
} kvg_prompt;

typedef struct kvg_prompts {
    kvg_prompt *list;
    size_t count;
} kvg_prompts;

/* Add one prompt: the bytes of a text, the bytes of a file, or ids as "1,2,3". KVG_ERR_INVALID for
 * an empty prompt and for a wrong id. KVG_ERR_IO names the file. */
kvg_status kvg_prompts_add_text(kvg_prompts *p, const char *text, size_t size) KVG_CHECKED;
kvg_status kvg_prompts_add_file(kvg_prompts *p, const char *path) KVG_CHECKED;
kvg_status kvg_prompts_add_ids(kvg_prompts *p, const char *text) KVG_CHECKED;
void kvg_prompts_free(kvg_prompts *p);

/* Parses "NAME[:DIALECT]" for both sides, or "K,V" with one such word for each. NAME is a format, a
 * mode, or one of TurboMind's policy numbers (decimal or 0x...) on chip `sm`. sm is 0 if it was not
 * given, and must be 0 if no side is a policy number (KVG_ERR_INVALID). The other fields of the
 * setup are set before the call. */
kvg_status kvg_storage_parse(const char *text, const kvg_model_setup *setup, uint32_t sm, kvg_storage storage[2],
                             char dialects[2][64]) KVG_CHECKED;

#endif
