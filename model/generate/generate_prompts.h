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

/* "NAME[:DIALECT]" for both sides, or "K,V" with one for each. A name is one of a format, of a mode, or a policy number
 * (decimal or 0x..., of TurboMind's) on a chip `sm` (0: not given, as it must be where no side is a policy number); the
 * rest of the setup is there already. */
kvg_status kvg_storage_parse(const char *text, const kvg_model_setup *setup, uint32_t sm, kvg_storage storage[2],
                             char dialects[2][64]) KVG_CHECKED;

#endif
