#include "harness/case/case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "harness/case/axes.h"
#include "harness/case/guest.h"

const char *const kvg_fill_names[] = {"exact", "adversarial", "random", "capture", "codes", "zero",
                                      "uniform", "ones", "needle", "cold", NULL};

/* A text that grows at the end of a fixed buffer and remembers that it did not fit. */
typedef struct id_text {
    char *at;
    size_t left;
    bool full;
} id_text;

static void append(id_text *t, const char *separator, const char *word)
{
    int n = snprintf(t->at, t->left, "%s%s", separator, word);
    if (n < 0 || (size_t)n >= t->left) {
        t->full = true;
        return;
    }
    t->at += n;
    t->left -= (size_t)n;
}

/* ":yarn-t150000-f32-o4096-bf32-bs1", then "-bf16" for entries of that type, "-untruncated". */
static void append_scaling(id_text *t, const kvg_rope_scaling *scaling)
{
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    append(t, ":", kvg_rope_kind_name(scaling->kind));
    for (size_t i = 0; i < count; i++) {
        const float value = kvg_rope_parameter_get(scaling, &parameters[i]);
        char word[32];
        snprintf(word, sizeof word, "%s%.9g", parameters[i].tag, (double)value);
        if (value != 0) append(t, "-", word);
    }
    if (scaling->entries && scaling->entries != KVG_DTYPE_F32) append(t, "-", kvg_dtype_name(scaling->entries));
    if (scaling->kind == KVG_ROPE_YARN && !scaling->truncate) append(t, "-", "untruncated");
}

static void append_number(id_text *t, const char *separator, uint64_t number)
{
    char word[24];
    snprintf(word, sizeof word, "%" PRIu64, number);
    append(t, separator, word);
}

/* ":pad3+64+32" */
static void append_padding(id_text *t, const kvg_case *c, const char *tag)
{
    const kvg_paging *g = &c->problem.paging;
    if (!g->row_padding && !g->data_padding && !g->scale_padding) return;
    append(t, ":", tag);
    append_number(t, "", g->row_padding);
    append_number(t, "+", g->data_padding);
    append_number(t, "+", g->scale_padding);
}

/* ":v512@64" */
static void append_shared_kv(id_text *t, const kvg_case *c, const char *tag)
{
    const kvg_paging *g = &c->problem.paging;
    if (!g->shared_kv) return;
    append(t, ":", tag);
    append_number(t, "", g->v_dim);
    append_number(t, "@", g->v_first);
}

/* ":layer2"; nothing where the seed chooses */
static void append_layer(id_text *t, const kvg_case *c, const char *tag)
{
    if (!c->layer) return;
    append(t, ":", tag);
    append_number(t, "", c->layer - 1);
}

/* ":rope64a256", then its scaling */
static void append_rope(id_text *t, const kvg_case *c, const char *tag)
{
    const kvg_rope *r = &c->problem.rope;
    if (!r->dims) return;
    append(t, ":", tag);
    append_number(t, "", r->dims);
    append_number(t, r->pairing == KVG_PAIRING_HALVES ? "h" : "a", r->positions);
    if (r->scaling.kind) append_scaling(t, &r->scaling);
}

/* ":G8" */
static void append_group(id_text *t, const kvg_case *c, const char *tag)
{
    append(t, ":", tag);
    append_number(t, "", c->problem.attention.query_heads / c->problem.kv_heads);
}

/* ":q3" or ":q3each" */
static void append_queries(id_text *t, const kvg_case *c, const char *tag)
{
    append(t, ":", tag);
    append_number(t, "", c->queries);
    if (c->even_queries) append(t, "", "each");
}

/* ":sm90.mma16816.v1" */
static void append_profile(id_text *t, const kvg_case *c, const char *tag)
{
    (void)tag;
    if (c->problem.profile != KVG_PROFILE_NONE) append(t, ":", kvg_profile_get(c->problem.profile)->name);
}

/* The words of axes that are not written as their kind of value is. */
static void (*const own_words[KVG_AXIS_COUNT])(id_text *t, const kvg_case *c, const char *tag) = {
    [KVG_AXIS_LAYER] = append_layer,
    [KVG_AXIS_PADDING] = append_padding, [KVG_AXIS_SHARED_KV] = append_shared_kv, [KVG_AXIS_ROPE] = append_rope,
    [KVG_AXIS_GROUP] = append_group, [KVG_AXIS_QUERIES] = append_queries, [KVG_AXIS_PROFILE] = append_profile,
};

/* ":B16", ":w128", ":cap30", ":sinks", ":e4m3"; nothing for what is left out. */
static void append_value(id_text *t, const kvg_case *c, const kvg_axis_info *axis)
{
    char word[24];
    if (kvg_value_is_zero(&axis->value, c)) return;
    append(t, ":", axis->tag);
    switch (axis->value.kind) {
    case KVG_VALUE_COUNT: append_number(t, "", kvg_value_number(&axis->value, c)); return;
    case KVG_VALUE_FACTOR:
        snprintf(word, sizeof word, "%.9g", (double)kvg_value_factor(&axis->value, c));
        append(t, "", word);
        return;
    case KVG_VALUE_CHOICE: append(t, "", kvg_value_name(&axis->value, c)); return;
    case KVG_VALUE_FLAG:
    case KVG_VALUE_WORD:
    case KVG_VALUE_SIDES:
    case KVG_VALUE_OWN: return;
    }
}

/* ":B16:N12:L2:S3" and the options that are set, of op decode ":G8:q3" and what is not as by default: the axes that
 * have a word in the id, in the order of the table. */
static void append_options(id_text *t, const kvg_case *c)
{
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        const kvg_axis_info *axis = kvg_axis_get((kvg_axis)a);
        if (!kvg_scope_holds(axis->scope, &c->problem)) continue;
        if (own_words[a]) own_words[a](t, c, axis->tag);
        else if (axis->tag) append_value(t, c, axis);
    }
}

uint32_t kvg_case_queries(const kvg_case *c, uint32_t sequence)
{
    if (c->even_queries || sequence + 1 == c->problem.paging.sequences || c->queries < 2) return c->queries;
    return (const uint32_t[]){c->queries / 2, c->queries - 1, 0}[(sequence + c->queries) % 3];
}

size_t kvg_case_asked(const kvg_case *c)
{
    return kvg_roles_tensors(kvg_op_get(c->problem.op)->outputs) - (c->answers == KVG_ANSWERS_OUT);
}

void kvg_case_policy_text(const kvg_case_policy *policy, char *out, size_t size)
{
    const kvg_mode_request *r = &policy->request;
    const struct {
        bool set;
        const char *word;
    } options[] = {
        {!r->fp4_build, "no_fp4_build"}, {!r->fp4_nv_enabled, "no_fp4_nv"}, {r->design_gating, "design"},
        {r->prefix_cache, "prefix_cache"}, {r->partial_kv, "partial_kv"}, {r->engine_kernels, "engine_kernels"},
    };
    char number[16];
    id_text t = {out, size, false};
    out[0] = 0;
    if (!policy->given) return;
    snprintf(number, sizeof number, "%u", r->policy);
    append(&t, "policy", number);
    if (r->domain != KVG_POLICY_TURBOMIND) append(&t, ".", kvg_policy_domain_name(r->domain));
    snprintf(number, sizeof number, "%u", r->sm);
    if (r->sm) append(&t, "@sm", number);
    if (policy->fell_back) append(&t, ">", kvg_mode_name(policy->effective));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (options[i].set) append(&t, ":", options[i].word);
    }
}

const char *kvg_case_op_name(const kvg_case *c)
{
    return c->guest ? c->guest->name : kvg_op_get(c->problem.op)->name;
}

const char *kvg_case_scale_text(const kvg_case *c, char *out, size_t size)
{
    const bool scaled = kvg_format_get(c->problem.storage[KVG_K].format)->tensor_scale ||
                        kvg_format_get(c->problem.storage[KVG_V].format)->tensor_scale;
    if (scaled && c->scale.given) {
        snprintf(out, size, "g%.9g,%.9g", (double)c->scale.value[KVG_K], (double)c->scale.value[KVG_V]);
    } else if (scaled) {
        snprintf(out, size, "P%d", (int)c->scale.convention);
    } else {
        out[0] = 0;
    }
    return out;
}

kvg_status kvg_case_name(kvg_case *c)
{
    const kvg_problem *p = &c->problem;
    char policy[KVG_POLICY_TEXT_SIZE], scale[KVG_CASE_SCALE_SIZE], filled[KVG_CASE_ID_SIZE];
    id_text t = {c->id, sizeof c->id, false};
    append(&t, "", kvg_case_op_name(c));
    for (int side = KVG_K; side <= KVG_V; side++) {
        const bool same = side == KVG_V && p->storage[KVG_V].format == p->storage[KVG_K].format &&
                          strcmp(p->storage[KVG_V].dialect, p->storage[KVG_K].dialect) == 0;
        if (same) continue;
        append(&t, side == KVG_K ? "/" : "+", kvg_format_get(p->storage[side].format)->name);
        append(&t, ".", p->storage[side].dialect);
    }
    append(&t, "/", kvg_problem_layout_name(p));
    if (c->guest) append_number(&t, ":B", p->paging.block_tokens);
    else append_options(&t, c);
    kvg_case_policy_text(&c->policy, policy, sizeof policy);
    if (c->policy.given) append(&t, ":", policy);
    append(&t, "/", kvg_dtype_name(p->dtype));
    char shape[48];
    snprintf(shape, sizeof shape, "%ux%ux%u", p->tokens, p->kv_heads, p->head_dim);
    append(&t, "/", shape);
    snprintf(filled, sizeof filled, "%s", kvg_fill_names[c->fill]);
    if (c->guest) c->guest->id(c, filled, sizeof filled);
    append(&t, "/", filled);
    if (c->fill == KVG_FILL_CAPTURE) {
        append(&t, ":", c->capture[KVG_K]);
        append(&t, ",", c->capture[KVG_V]);
    }
    append(&t, "/", kvg_case_scale_text(c, scale, sizeof scale)[0] ? scale : "-");
    append(&t, "/", c->backend);
    if (t.full)
        return kvg_fail(KVG_ERR_INVALID, "case id longer than %d characters: %s...", KVG_CASE_ID_SIZE - 1, c->id);
    return KVG_OK;
}

bool kvg_guest_is_known(const char *name)
{
    static const char *const names[] = {"generate"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

bool kvg_case_by_value(const kvg_storage *storage)
{
    size_t index;
    if (kvg_reference_dialect_find(storage->format, storage->dialect, &index)) return false;
    return kvg_reference_dialect(storage->format, index)->compare == KVG_DIALECT_VALUE;
}

uint32_t kvg_case_shard(const kvg_case *c, uint32_t shard_count)
{
    return (uint32_t)(kvg_hash64(c->id, strlen(c->id)) % shard_count);
}

/* `text` as one shell word: in single quotes, each ' of its own as '\''. Cut short if it does not
 * fit. */
static void shell_quote(const char *text, char *out, size_t size)
{
    size_t n = 0;
    if (size < 8) return;
    out[n++] = '\'';
    for (; *text && n + 6 < size; text++) {
        if (*text == '\'') n += (size_t)snprintf(out + n, size - n, "'\\''");
        else out[n++] = *text;
    }
    out[n++] = '\'';
    out[n] = 0;
}

void kvg_case_repro(const kvg_case *c, const char *config_path, const char *capabilities, const char *after, char *out,
                    size_t size)
{
    char path[600], backend[600], claims[600] = "", before[2 * KVG_CASE_ID_SIZE] = "", id[2 * KVG_CASE_ID_SIZE];
    /* -o: a folder of its own, so that the full run's results stay */
    shell_quote(config_path, path, sizeof path);
    shell_quote(c->backend, backend, sizeof backend);
    shell_quote(c->id, id, sizeof id);
    if (capabilities) shell_quote(capabilities, claims, sizeof claims);
    if (after) shell_quote(after, before, sizeof before);
    snprintf(out, size, "kvgold check %s --backend %s%s%s%s%s --case %s --seed 0x%" PRIx64 " -o kvgold-repro", path,
             backend, capabilities ? " --capabilities " : "", claims, after ? " --after " : "", before, id, c->seed);
}

uint8_t kvg_case_unowned_bits(const kvg_case *c)
{
    static const uint8_t bits[] = {[KVG_UNOWNED_ANY] = 0xFF, [KVG_UNOWNED_FINITE] = 0x3F, [KVG_UNOWNED_ZERO] = 0};
    return bits[c->unowned];
}
