#include "model/generate/generate_prompts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/mode.h"

enum { MOST_TOKENS = 1 << 24 }; /* of a prompt: positions are below 2^24 */

/* --- prompts --- */

static kvg_status add(kvg_prompts *p, kvg_prompt prompt)
{
    kvg_prompt *list = realloc(p->list, (p->count + 1) * sizeof *list);
    if (!list) {
        free(prompt.tokens);
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu prompts", p->count + 1);
    }
    p->list = list;
    p->list[p->count++] = prompt;
    return KVG_OK;
}

static kvg_status check_size(const char *what, size_t size)
{
    if (size == 0) return kvg_fail(KVG_ERR_INVALID, "%s is empty: generation starts from at least one token", what);
    if (size <= MOST_TOKENS) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s has %zu tokens; at most %d", what, size, MOST_TOKENS);
}

static kvg_status add_bytes(kvg_prompts *p, const char *file, const char *bytes, size_t size)
{
    kvg_status s = check_size(file ? file : "the prompt", size);
    if (s) return s;
    kvg_prompt prompt = {malloc(size * sizeof *prompt.tokens), (uint32_t)size, true, file};
    if (!prompt.tokens) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a prompt of %zu tokens", size);
    for (size_t i = 0; i < size; i++) prompt.tokens[i] = (unsigned char)bytes[i];
    return add(p, prompt);
}

kvg_status kvg_prompts_add_text(kvg_prompts *p, const char *text, size_t size)
{
    return add_bytes(p, NULL, text, size);
}

kvg_status kvg_prompts_add_file(kvg_prompts *p, const char *path)
{
    char *bytes = malloc(MOST_TOKENS + 1);
    if (!bytes) return kvg_fail(KVG_ERR_MEMORY, "%s: out of memory", path);
    errno = 0;
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(bytes, 1, MOST_TOKENS + 1, file) : 0;
    kvg_status s = KVG_OK;
    if (!file || ferror(file)) s = kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", path, strerror(errno ? errno : EIO));
    if (file) fclose(file);
    if (!s) s = add_bytes(p, path, bytes, size);
    free(bytes);
    return s;
}

kvg_status kvg_prompts_add_ids(kvg_prompts *p, const char *text)
{
    kvg_status s = check_size("the list of ids", strlen(text));
    if (s) return s;
    kvg_prompt prompt = {malloc((strlen(text) + 1) / 2 * sizeof *prompt.tokens), .text = false};
    if (!prompt.tokens) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the ids");
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        const unsigned long id = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || id > INT32_MAX || (*end != ',' && *end != 0)) {
            free(prompt.tokens);
            return kvg_fail(KVG_ERR_INVALID, "ids '%.40s%s': no token id at character %zu: give them as 1,2,3", text,
                            strlen(text) > 40 ? "..." : "", (size_t)(at - text) + 1);
        }
        prompt.tokens[prompt.count++] = (int32_t)id;
        at = end;
        if (*end == 0) break;
    }
    return add(p, prompt);
}

void kvg_prompts_free(kvg_prompts *p)
{
    for (size_t i = 0; i < p->count; i++) free(p->list[i].tokens);
    free(p->list);
    *p = (kvg_prompts){0};
}

/* --- storage --- */

static kvg_status policy_format(uint32_t number, const kvg_model_setup *setup, uint32_t sm, kvg_format *out)
{
    const kvg_model_config *c = setup->config;
    kvg_mode_request request = {
        .domain = KVG_POLICY_TURBOMIND, .policy = number, .sm = sm, .fp4_build = true, .fp4_nv_enabled = true,
        .dtype = setup->dtype, .layers = c->layers, .kv_heads = c->kv_heads, .head_dim = c->head_dim,
        .block_tokens = setup->block_tokens, .has_flatten = true,
    };
    kvg_mode_choice choice;
    kvg_status s = kvg_mode_select(&request, &choice);
    if (!s) *out = choice.format;
    if (!s || sm) return s;
    size_t count;
    request.sm = kvg_sm_table(&count)[0].sm; /* does the chip alone lack? */
    return kvg_mode_select(&request, &choice) ? s : kvg_fail_in(s, "give --sm N");
}

/* A policy's number, and nothing after it. */
static bool is_number(const char *name, uint32_t *out)
{
    char *end;
    errno = 0;
    const unsigned long number = strtoul(name, &end, strncmp(name, "0x", 2) == 0 ? 16 : 10);
    *out = (uint32_t)number;
    return name[0] >= '0' && name[0] <= '9' && *end == 0 && !errno && number <= UINT32_MAX;
}

static kvg_status find_format(const char *name, const kvg_model_setup *setup, uint32_t sm, bool *policy,
                              kvg_format *out)
{
    kvg_mode mode;
    uint32_t number;
    if (is_number(name, &number)) {
        *policy = true;
        return policy_format(number, setup, sm, out);
    }
    if (kvg_format_find(name, out) == KVG_OK) return KVG_OK;
    if (kvg_mode_find(name, &mode) != KVG_OK) {
        return kvg_fail(KVG_ERR_INVALID, "'%s' is no format of `kvgold list formats`, no mode and no policy number of "
                        "`kvgold mode`", name);
    }
    *out = kvg_mode_format(mode, setup->dtype);
    return KVG_OK;
}

static kvg_status parse_side(const char *text, size_t size, const kvg_model_setup *setup, uint32_t sm, bool *policy,
                             kvg_storage *out, char dialect[64])
{
    char name[64];
    const char *colon = memchr(text, ':', size);
    const size_t length = colon ? (size_t)(colon - text) : size;
    if (length >= sizeof name || (colon && size - length - 1 >= 64)) {
        return kvg_fail(KVG_ERR_INVALID, "--kv %.40s: a name is too long", text);
    }
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    snprintf(dialect, 64, "%.*s", colon ? (int)(size - length - 1) : 9, colon ? colon + 1 : "canonical");
    out->dialect = dialect;
    kvg_status s = find_format(name, setup, sm, policy, &out->format);
    if (!s) s = kvg_format_check_dim(out->format, setup->config->head_dim);
    return s ? kvg_fail_in(s, "--kv") : KVG_OK;
}

kvg_status kvg_storage_parse(const char *text, const kvg_model_setup *setup, uint32_t sm, kvg_storage storage[2],
                             char dialects[2][64])
{
    const char *comma = strchr(text, ',');
    const size_t first = comma ? (size_t)(comma - text) : strlen(text);
    const char *second = comma ? comma + 1 : text;
    bool policy = false;
    kvg_status s = parse_side(text, first, setup, sm, &policy, &storage[KVG_K], dialects[KVG_K]);
    if (!s) s = parse_side(second, strlen(second), setup, sm, &policy, &storage[KVG_V], dialects[KVG_V]);
    if (s || policy || !sm) return s;
    return kvg_fail(KVG_ERR_INVALID, "--sm goes with a policy number: --kv %s is the same on every chip", text);
}
