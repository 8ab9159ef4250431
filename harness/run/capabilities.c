#include "harness/run/backends.h"
#include "harness/run/capabilities.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden/golden.h"
#include "harness/config/config_names.h"

struct kvg_capabilities {
    kvg_json_doc *doc;
    kvg_json claims;
    char path[]; /* of the file */
};

/* What a case asks for on one axis, as words: all of them must be among a claim's. */
enum { MAX_WORDS = 16, WORD_SIZE = 640, MAX_SM = 999 };
typedef struct words {
    size_t count;
    char text[MAX_WORDS][WORD_SIZE];
} words;

static void add(words *w, const char *format, const char *name)
{
    snprintf(w->text[w->count++], WORD_SIZE, format, name);
}

static void add_number(words *w, uint32_t number)
{
    snprintf(w->text[w->count++], WORD_SIZE, "%u", number);
}

/* --- axes --- */

static void op_words(const kvg_case *c, uint32_t sm, words *w)
{
    (void)sm;
    add(w, "%s", kvg_op_get(c->problem.op)->name);
}

static void format_words(const kvg_case *c, uint32_t sm, words *w)
{
    (void)sm;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_storage *s = &c->problem.storage[side];
        snprintf(w->text[w->count++], WORD_SIZE, "%s.%s", kvg_format_get(s->format)->name, s->dialect);
    }
}

/* A layout of the user's own, whose name says nothing to those who have another text under it. */
static void text_word(const kvg_layout_text *layout, char word[WORD_SIZE])
{
    snprintf(word, WORD_SIZE, "%s %s", layout->name, layout->text);
}

static void layout_words(const kvg_case *c, uint32_t sm, words *w)
{
    (void)sm;
    if (c->problem.text) text_word(c->problem.text, w->text[w->count++]);
    else add(w, "%s", kvg_problem_layout_name(&c->problem));
}

static void dtype_words(const kvg_case *c, uint32_t sm, words *w)
{
    (void)sm;
    add(w, "%s", kvg_dtype_name(c->problem.dtype));
}

static void head_dim_words(const kvg_case *c, uint32_t sm, words *w)
{
    (void)sm;
    if (c->problem.op != KVG_OP_MMA) add_number(w, c->problem.head_dim);
}

static void profile_words(const kvg_case *c, uint32_t sm, words *w)
{
    const kvg_profile profile = c->problem.profile;
    (void)sm;
    if (c->problem.op != KVG_OP_DECODE && c->problem.op != KVG_OP_MMA) return;
    add(w, "%s", profile == KVG_PROFILE_NONE ? "exact" : kvg_profile_get(profile)->name);
}

static void sm_words(const kvg_case *c, uint32_t sm, words *w)
{
    (void)c;
    add_number(w, sm);
}

static const char *const feature_names[] = {"window", "sinks", "softcap", "score_scale", "queries", "gqa", "mla",
                                            "lse", "rope", "bias", "padding", "v_scale_swizzle", NULL};
enum { FEATURES = sizeof feature_names / sizeof feature_names[0] - 1 };

static void feature_words(const kvg_case *c, uint32_t sm, words *w)
{
    const kvg_problem *p = &c->problem;
    const kvg_attention *a = &p->attention;
    const kvg_paging *g = &p->paging;
    const bool decode = p->op == KVG_OP_DECODE, asked[FEATURES] = {
        a->window != 0, a->sinks, a->softcap > 0, a->scale > 0, c->queries > 1,
        decode && a->query_heads != p->kv_heads, g->shared_kv, decode && c->answers == KVG_ANSWERS_ALL,
        p->rope.dims != 0, p->bias, g->row_padding || g->data_padding || g->scale_padding,
        g->v_scale_swizzle,
    };
    (void)sm;
    for (size_t i = 0; i < FEATURES; i++) {
        if (asked[i]) add(w, "%s", feature_names[i]);
    }
}

/* --- values in the file --- */

static kvg_status check_op(kvg_json value)
{
    const char *name;
    kvg_op op;
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_op_find(name, &op));
}

/* "nvfp4": all of its dialects; "nvfp4.vllm": one. */
static kvg_status check_format(kvg_json value)
{
    const char *name;
    char format_name[64];
    kvg_format format = KVG_FORMAT_NONE;
    size_t index;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    const char *dot = strchr(name, '.');
    snprintf(format_name, sizeof format_name, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
    s = kvg_json_locate(value, kvg_format_find(format_name, &format));
    return s || !dot ? s : kvg_json_locate(value, kvg_reference_dialect_find(format, dot + 1, &index));
}

static kvg_status check_layout(kvg_json value)
{
    const char *name;
    kvg_layout layout;
    kvg_layout_text own;
    if (kvg_json_is_object(value)) {
        kvg_status s = kvg_config_layout_text(value, &own);
        if (!s && strlen(own.text) > WORD_SIZE - 64) {
            s = kvg_json_fail(value, "a text of %zu characters: a claim takes %d", strlen(own.text), WORD_SIZE - 64);
        }
        return s;
    }
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_layout_find(name, &layout));
}

static kvg_status check_dtype(kvg_json value)
{
    const char *name;
    kvg_dtype dtype = KVG_DTYPE_U8;
    kvg_status s = kvg_json_string(value, &name);
    if (!s) s = kvg_json_locate(value, kvg_dtype_find(name, &dtype));
    if (s || dtype == KVG_DTYPE_F16 || dtype == KVG_DTYPE_BF16 || dtype == KVG_DTYPE_F32) return s;
    return kvg_json_fail(value, "no model type '%s': f16, bf16, f32", name);
}

static kvg_status check_head_dim(kvg_json value)
{
    uint64_t number;
    return kvg_json_u64(value, 1, KVG_MAX_HEAD_DIM, &number);
}

static kvg_status check_profile(kvg_json value)
{
    const char *name;
    kvg_profile profile;
    kvg_status s = kvg_json_string(value, &name);
    return s || strcmp(name, "exact") == 0 ? s : kvg_json_locate(value, kvg_profile_find(name, &profile));
}

static kvg_status check_sm(kvg_json value)
{
    uint64_t number;
    return kvg_json_u64(value, 1, MAX_SM, &number);
}

static kvg_status check_feature(kvg_json value)
{
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    for (size_t i = 0; i < FEATURES; i++) {
        if (strcmp(name, feature_names[i]) == 0) return KVG_OK;
    }
    return kvg_json_fail_name(value, "feature", name, feature_names, FEATURES);
}

static kvg_status check_invariant(kvg_json value)
{
    uint32_t set = 0;
    return kvg_config_invariance(value, &set);
}

/* --- an item of a list, as the schema describes it --- */

typedef struct claim_axis claim_axis;

static void add_names(const claim_axis *axis, kvg_json_text *out);
static void add_layouts(const claim_axis *axis, kvg_json_text *out);
static void add_formats(const claim_axis *axis, kvg_json_text *out);
static void add_integers(const claim_axis *axis, kvg_json_text *out);
static void add_features(const claim_axis *axis, kvg_json_text *out);
static void add_invariant(const claim_axis *axis, kvg_json_text *out);

/* In the order in which a case is compared with claims. */
struct claim_axis {
    const char *key, *word;
    bool required; /* of every claim */
    bool limits;   /* left out: no limit; else: none of them */
    void (*words)(const kvg_case *c, uint32_t sm, words *out); /* NULL: no case is left out for it */
    kvg_status (*check)(kvg_json value);
    void (*add_item)(const claim_axis *axis, kvg_json_text *out); /* for the schema */
    kvg_axis names;                                         /* of a config: whose names an item is */
    unsigned most;                                          /* of an item that is an integer */
    const char *meaning;
};

static const claim_axis axes[] = {
    {"ops", "op", true, true, op_words, check_op, add_names, KVG_AXIS_OP, 0, ""},
    {"formats", "format", true, true, format_words, check_format, add_formats, KVG_AXIS_FORMAT, 0,
     "A format with all of its dialects, or one dialect: nvfp4, nvfp4.vllm. K's and V's must both be here."},
    {"layouts", "layout", false, true, layout_words, check_layout, add_layouts, KVG_AXIS_LAYOUT, 0,
     "Names, and layouts of your own: {\"name\": \"mine\", \"text\": \"[L B N H]{ ... }\"}. Left out: all."},
    {"dtypes", "dtype", false, true, dtype_words, check_dtype, add_names, KVG_AXIS_DTYPE, 0,
     "Model types of K and V. Left out: all."},
    {"head_dims", "head_dim", false, true, head_dim_words, check_head_dim, add_integers, KVG_AXIS_COUNT,
     KVG_MAX_HEAD_DIM, "Left out: all."},
    {"profiles", "profile", false, true, profile_words, check_profile, add_names, KVG_AXIS_PROFILE, 0,
     "Whose bits ops decode and mma give: \"exact\" for an answer that is judged by its distance. Left out: all."},
    {"sms", "sm", false, true, sm_words, check_sm, add_integers, KVG_AXIS_COUNT, MAX_SM,
     "Compute capabilities, major * 10 + minor, of the GPUs that run it: compared with what kvg_backend.sm gives. "
     "Left out: any, and none."},
    {"features", "feature", false, false, feature_words, check_feature, add_features, KVG_AXIS_COUNT, 0,
     "What a case may ask beside. Left out: nothing."},
    {"invariant", "", false, false, NULL, check_invariant, add_invariant, KVG_AXIS_COUNT, 0,
     "Axes of docs/spec/invariance.md along which rows keep their bits. Along others a difference is told, and fails "
     "nothing. Left out: none."},
};
enum { AXES = sizeof axes / sizeof axes[0] };

static void add_names(const claim_axis *axis, kvg_json_text *out)
{
    kvg_json_add_enum(out, kvg_config_names(axis->names), NULL);
}

static void add_layouts(const claim_axis *axis, kvg_json_text *out)
{
    static const char own[] = KVG_JSON({
        "type": "object", "required": ["name", "text"], "additionalProperties": false,
        "properties": {"name": {"type": "string", "pattern": "^[a-z0-9_]{1,32}$"}, "text": {"type": "string"}}
    });
    kvg_json_add(out, "{\"anyOf\": [");
    add_names(axis, out);
    kvg_json_add(out, ", %s]}", own);
}

/* A format's name, and a dialect's behind a dot. */
static void add_formats(const claim_axis *axis, kvg_json_text *out)
{
    const kvg_json_names name = kvg_config_names(axis->names);
    kvg_json_add(out, "{\"type\": \"string\", \"pattern\": \"^(");
    for (size_t i = 0; name(i); i++) kvg_json_add(out, "%s%s", i ? "|" : "", name(i));
    kvg_json_add(out, ")(\\\\.[a-z0-9_-]+)?$\"}");
}

static void add_integers(const claim_axis *axis, kvg_json_text *out)
{
    kvg_json_add(out, "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": %u}", axis->most);
}

static void add_features(const claim_axis *axis, kvg_json_text *out)
{
    (void)axis;
    kvg_json_add_enum(out, NULL, feature_names);
}

static void add_invariant(const claim_axis *axis, kvg_json_text *out)
{
    (void)axis;
    kvg_json_add_enum(out, NULL, kvg_invariance_names);
}

static void add_axis(const claim_axis *axis, kvg_json_text *out)
{
    kvg_json_add(out, ", \"%s\": {\"type\": \"array\"", axis->key);
    if (axis->limits) kvg_json_add(out, ", \"minItems\": 1");
    if (*axis->meaning) {
        kvg_json_add(out, ", \"description\": ");
        kvg_json_add_string(out, axis->meaning);
    }
    kvg_json_add(out, ", \"items\": ");
    axis->add_item(axis, out);
    kvg_json_add(out, "}");
}

kvg_status kvg_capabilities_schema(kvg_json_text *out)
{
    static const char file[] = KVG_JSON(
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvgold capability file", "description": );
    static const char about[] =
        "What an implementation claims to do: libengine.json beside libengine.so, or `kvgold check --capabilities "
        "FILE`. docs/guide/plugin.md section 4 is the manual. The program checks more than this schema can: that a "
        "format has the dialect.";
    static const char rest[] = KVG_JSON(
        "type": "object",
        "required": ["kvgold_capabilities", "claims"],
        "additionalProperties": false,
        "properties": {
            "$schema": {"type": "string", "description": "For editors: this file."},
            "kvgold_capabilities": {"const": 1, "description": "Version of this layout."},
            "engine": {"type": "string", "description": "Name and version, for people."},
            "comment": {"type": "string", "description": "For people."},
            "claims": {"type": "array",
                       "description": "A case is claimed if one of these covers all of it. None: nothing is claimed.",
                       "items": {"$ref": "#/$defs/claim"}}
        });
    kvg_json_text t = {0};
    kvg_json_add(&t, "{%s", file);
    kvg_json_add_string(&t, about);
    kvg_json_add(&t, ", %s, \"$defs\": {\"claim\": {\"type\": \"object\", \"required\": [", rest);
    const char *separator = "";
    for (size_t i = 0; i < AXES; i++) {
        if (!axes[i].required) continue;
        kvg_json_add(&t, "%s\"%s\"", separator, axes[i].key);
        separator = ", ";
    }
    kvg_json_add(&t, "], \"additionalProperties\": false, \"properties\": {\"comment\": {\"type\": \"string\", "
                 "\"description\": \"For people.\"}");
    for (size_t i = 0; i < AXES; i++) add_axis(&axes[i], &t);
    kvg_json_add(&t, "}}}}");
    kvg_status s = kvg_json_text_check(&t);
    if (!s) kvg_json_lay_out(out, t.text);
    kvg_json_text_free(&t);
    return s ? s : kvg_json_text_check(out);
}

/* --- reading --- */

static kvg_status check_list(kvg_json claim, const claim_axis *axis)
{
    kvg_json list;
    if (!axis->required && !kvg_json_has(claim, axis->key)) return KVG_OK;
    kvg_status s = kvg_json_get(claim, axis->key, &list);
    if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected a list");
    if (!s && axis->limits && kvg_json_count(list) == 0) s = kvg_json_fail(list, "an empty list claims nothing");
    for (size_t i = 0; !s && i < kvg_json_count(list); i++) s = axis->check(kvg_json_at(list, i));
    return s;
}

static kvg_status check_claim(kvg_json claim)
{
    const char *keys[AXES + 1] = {"comment"};
    for (size_t i = 0; i < AXES; i++) keys[i + 1] = axes[i].key;
    kvg_status s = kvg_json_check_keys(claim, keys, AXES + 1);
    if (!s) s = kvg_json_check_notes(claim);
    for (size_t i = 0; !s && i < AXES; i++) s = check_list(claim, &axes[i]);
    return s;
}

static kvg_status check_file(kvg_capabilities *c)
{
    static const char *const keys[] = {"$schema", "kvgold_capabilities", "engine", "comment", "claims"};
    const kvg_json root = kvg_json_root(c->doc);
    const char *engine;
    uint64_t number;
    kvg_status s = kvg_json_check_keys(root, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = kvg_json_get_u64(root, "kvgold_capabilities", 1, 1, &number);
    if (!s) s = kvg_json_check_notes(root);
    if (!s && kvg_json_has(root, "engine")) s = kvg_json_get_string(root, "engine", &engine);
    if (!s) s = kvg_json_get(root, "claims", &c->claims);
    if (!s && !kvg_json_is_array(c->claims)) s = kvg_json_fail(c->claims, "expected a list of claims");
    for (size_t i = 0; !s && i < kvg_json_count(c->claims); i++) s = check_claim(kvg_json_at(c->claims, i));
    return s;
}

kvg_status kvg_capabilities_open(const char *path, kvg_capabilities **out)
{
    const size_t size = strlen(path) + 1;
    kvg_capabilities *c = calloc(1, sizeof *c + size);
    *out = NULL;
    if (!c) return kvg_fail(KVG_ERR_MEMORY, "no memory for %s", path);
    memcpy(c->path, path, size);
    kvg_status s = kvg_json_open(path, &c->doc);
    if (!s) s = check_file(c);
    if (s) kvg_capabilities_close(c);
    else *out = c;
    return s;
}

kvg_status kvg_capabilities_find(const char *backend, const char *given, kvg_capabilities **out)
{
    char path[KVG_BACKEND_PATH_SIZE];
    *out = NULL;
    if (given) return kvg_capabilities_open(given, out);
    if (kvg_check_backend_path(backend, path)) return KVG_OK; /* built in, or missing: opening it says so */
    const size_t length = strlen(path);
    const bool library = length > 3 && strcmp(path + length - 3, ".so") == 0;
    if (length + 6 > sizeof path) return KVG_OK;
    strcpy(path + length - (library ? 3 : 0), ".json");
    return access(path, F_OK) == 0 ? kvg_capabilities_open(path, out) : KVG_OK;
}

void kvg_capabilities_close(kvg_capabilities *c)
{
    if (c) kvg_json_close(c->doc);
    free(c);
}

const char *kvg_capabilities_path(const kvg_capabilities *c)
{
    return c->path;
}

kvg_json kvg_capabilities_claims(const kvg_capabilities *c)
{
    return c->claims;
}

/* --- asking --- */

static bool is_word(kvg_json value, const char *word, bool format)
{
    const char *text;
    uint64_t number;
    char digits[24], own[WORD_SIZE];
    kvg_layout_text layout;
    if (kvg_json_is_object(value)) {
        if (kvg_config_layout_text(value, &layout)) return false;
        text_word(&layout, own);
        return strcmp(own, word) == 0;
    }
    if (kvg_json_is_number(value)) {
        if (kvg_json_u64(value, 0, UINT32_MAX, &number)) return false;
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
        return strcmp(digits, word) == 0;
    }
    if (kvg_json_string(value, &text)) return false;
    const size_t length = strlen(text);
    return strcmp(text, word) == 0 || (format && strncmp(text, word, length) == 0 && word[length] == '.');
}

/* The first of the words that the claim lacks; NULL: none. */
static const char *lacks(kvg_json claim, const claim_axis *axis, const words *w)
{
    kvg_json list = {0};
    const bool given = kvg_json_has(claim, axis->key) && kvg_json_get(claim, axis->key, &list) == KVG_OK;
    if (!given && axis->limits) return NULL;
    for (size_t i = 0; i < w->count; i++) {
        bool found = false;
        for (size_t k = 0; given && !found && k < kvg_json_count(list); k++) {
            found = is_word(kvg_json_at(list, k), w->text[i], axis->check == check_format);
        }
        if (!found) return w->text[i];
    }
    return NULL;
}

/* The claim lacks nothing on axis `a`, or says what in `missing`. */
static bool covers(kvg_json claim, size_t a, const kvg_case *c, uint32_t sm, char *missing, size_t size)
{
    words w = {0};
    if (!axes[a].words) return true;
    axes[a].words(c, sm, &w);
    const char *word = lacks(claim, &axes[a], &w);
    if (word) snprintf(missing, size, "%s %s", axes[a].word, word);
    return !word;
}

bool kvg_capabilities_claim(const kvg_capabilities *capabilities, const kvg_case *c, uint32_t sm, kvg_result *r)
{
    const size_t count = capabilities ? kvg_json_count(capabilities->claims) : 0;
    size_t best = 0; /* axes that the best claim covers */
    char why[KVG_UNCLAIMED_TEXT] = "there is no claim";
    if (!capabilities) return true;
    for (size_t i = 0; i < count; i++) {
        char missing[KVG_UNCLAIMED_TEXT];
        const kvg_json claim = kvg_json_at(capabilities->claims, i);
        size_t a = 0;
        while (a < AXES && covers(claim, a, c, sm, missing, sizeof missing)) a++;
        if (a == AXES) return true;
        if (a > best || i == 0) memcpy(why, missing, strlen(missing) + 1);
        if (a > best) best = a;
    }
    r->verdict = KVG_VERDICT_SKIP;
    memcpy(r->unclaimed, why, sizeof why);
    snprintf(r->detail, sizeof r->detail, "unclaimed: %s", r->unclaimed);
    return false;
}

uint32_t kvg_capabilities_invariant(const kvg_capabilities *capabilities, const kvg_case *c, uint32_t sm)
{
    uint32_t set = 0;
    for (size_t i = 0; i < kvg_json_count(capabilities->claims); i++) {
        char missing[KVG_UNCLAIMED_TEXT];
        const kvg_json claim = kvg_json_at(capabilities->claims, i);
        kvg_json list;
        size_t a = 0;
        while (a < AXES && covers(claim, a, c, sm, missing, sizeof missing)) a++;
        if (a < AXES || !kvg_json_has(claim, "invariant") || kvg_json_get(claim, "invariant", &list)) continue;
        for (size_t k = 0; k < kvg_json_count(list); k++) {
            if (kvg_config_invariance(kvg_json_at(list, k), &set)) return set; /* no: it has been checked */
        }
    }
    return set;
}

/* --- what nobody asks --- */

/* The claim covers the case on some GPU, and the case has that value. */
static bool asks(kvg_json claim, const claim_axis *axis, kvg_json value, const kvg_case *c)
{
    char missing[KVG_UNCLAIMED_TEXT];
    words w = {0};
    bool found = false;
    for (size_t a = 0; a < AXES; a++) {
        if (axes[a].words != sm_words && !covers(claim, a, c, 0, missing, sizeof missing)) return false;
    }
    axis->words(c, 0, &w);
    for (size_t i = 0; i < w.count; i++) found |= is_word(value, w.text[i], axis->check == check_format);
    return found;
}

/* A guest asks what it likes. */
static bool is_asked(kvg_json claim, const claim_axis *axis, kvg_json value, const kvg_config *config,
                     const char *backend)
{
    for (size_t i = 0; i < config->case_count; i++) {
        const kvg_case *c = &config->cases[i];
        if (strcmp(c->backend, backend) == 0 && (c->guest || asks(claim, axis, value, c))) return true;
    }
    return false;
}

/* "feature padding (claims[0])" */
static void name_value(size_t claim, const claim_axis *axis, kvg_json value, char *out, size_t size)
{
    const char *text = "";
    uint64_t number = 0;
    kvg_layout_text layout;
    kvg_status s = KVG_OK;
    if (kvg_json_is_object(value)) {
        s = kvg_config_layout_text(value, &layout);
        text = s ? text : layout.name;
    } else {
        s = kvg_json_is_number(value) ? kvg_json_u64(value, 0, UINT32_MAX, &number) : kvg_json_string(value, &text);
    }
    if (s) return;
    if (number) snprintf(out, size, "%s %llu (claims[%zu])", axis->word, (unsigned long long)number, claim);
    else snprintf(out, size, "%s %s (claims[%zu])", axis->word, text, claim);
}

kvg_status kvg_capabilities_unasked(const kvg_capabilities *capabilities, const kvg_config *config, const char *backend,
                                    kvg_status (*put)(void *context, const char *text), void *context)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_json_count(capabilities->claims); i++) {
        const kvg_json claim = kvg_json_at(capabilities->claims, i);
        for (const claim_axis *axis = axes; axis < axes + AXES; axis++) {
            kvg_json list;
            if (!axis->words || axis->words == sm_words || !kvg_json_has(claim, axis->key)) continue;
            if (!s) s = kvg_json_get(claim, axis->key, &list);
            for (size_t k = 0; !s && k < kvg_json_count(list); k++) {
                char text[KVG_UNCLAIMED_TEXT] = "";
                const kvg_json value = kvg_json_at(list, k);
                if (is_asked(claim, axis, value, config, backend)) continue;
                name_value(i, axis, value, text, sizeof text);
                s = put(context, text);
            }
        }
    }
    return s;
}
