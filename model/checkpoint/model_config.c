#include "model/checkpoint/model_config.h"

#include <float.h>
#include <string.h>

#include "golden/golden.h"
#include "reference/rope_table.h"

static const char *const family_names[] = {"llama", "qwen3", "gpt_oss"};
enum { FAMILIES = sizeof family_names / sizeof family_names[0] };

/* Sets of families. */
enum { LLAMA = 1 << KVG_MODEL_LLAMA, QWEN3 = 1 << KVG_MODEL_QWEN3, GPT_OSS = 1 << KVG_MODEL_GPT_OSS };
enum { ALL = LLAMA | QWEN3 | GPT_OSS };

typedef enum key_kind {
    SIZE,    /* uint32_t at `offset`, 1 to `most` */
    FLAG,    /* bool */
    SPECIAL, /* read by a function of its own */
    UNREAD   /* changes no number of generation */
} key_kind;

typedef struct config_key {
    const char *name;
    unsigned families;
    key_kind kind;
    size_t offset;
    uint64_t most;
} config_key;

enum { MOST = 1 << 24 };
#define AT(member) offsetof(kvg_model_config, member)
static const config_key keys[] = {
    {"model_type", ALL, SPECIAL, 0, 0},
    {"hidden_size", ALL, SIZE, AT(hidden), MOST},
    {"intermediate_size", ALL, SIZE, AT(intermediate), MOST},
    {"num_hidden_layers", ALL, SIZE, AT(layers), KVG_MODEL_MAX_LAYERS},
    {"num_attention_heads", ALL, SIZE, AT(query_heads), 1 << 16},
    {"num_key_value_heads", ALL, SIZE, AT(kv_heads), 1 << 16},
    {"head_dim", ALL, SIZE, AT(head_dim), KVG_MAX_HEAD_DIM},
    {"vocab_size", ALL, SIZE, AT(vocab), MOST},
    {"max_position_embeddings", ALL, SIZE, AT(positions), MOST},
    {"tie_word_embeddings", ALL, FLAG, AT(tied), 0},
    {"attention_bias", ALL, FLAG, AT(attention_bias), 0},
    {"mlp_bias", LLAMA, FLAG, AT(mlp_bias), 0},
    {"num_local_experts", GPT_OSS, SIZE, AT(experts), 1 << 16},
    {"num_experts_per_tok", GPT_OSS, SIZE, AT(top_k), 1 << 16},
    {"experts_per_token", GPT_OSS, SIZE, AT(top_k), 1 << 16},
    {"rms_norm_eps", ALL, SPECIAL, 0, 0},
    {"hidden_act", ALL, SPECIAL, 0, 0},
    {"rope_theta", ALL, SPECIAL, 0, 0},
    {"rope_scaling", ALL, SPECIAL, 0, 0},
    {"rope_parameters", ALL, SPECIAL, 0, 0},
    {"initial_context_length", GPT_OSS, SPECIAL, 0, 0},
    {"sliding_window", QWEN3 | GPT_OSS, SPECIAL, 0, 0},
    {"use_sliding_window", QWEN3, SPECIAL, 0, 0},
    {"max_window_layers", QWEN3, SPECIAL, 0, 0},
    {"layer_types", QWEN3 | GPT_OSS, SPECIAL, 0, 0},
    {"swiglu_limit", GPT_OSS, SPECIAL, 0, 0},
    {"quantization_config", ALL, SPECIAL, 0, 0},
    {"pretraining_tp", LLAMA, SPECIAL, 0, 0},
    {"attention_dropout", ALL, UNREAD, 0, 0},
    {"initializer_range", ALL, UNREAD, 0, 0},
    {"use_cache", ALL, UNREAD, 0, 0},
    {"bos_token_id", ALL, UNREAD, 0, 0},
    {"eos_token_id", ALL, UNREAD, 0, 0},
    {"pad_token_id", ALL, UNREAD, 0, 0},
    {"architectures", ALL, UNREAD, 0, 0},
    {"dtype", ALL, UNREAD, 0, 0},
    {"torch_dtype", ALL, UNREAD, 0, 0},
    {"transformers_version", ALL, UNREAD, 0, 0},
    {"output_router_logits", GPT_OSS, UNREAD, 0, 0},
    {"router_aux_loss_coef", GPT_OSS, UNREAD, 0, 0},
    {"_name_or_path", ALL, UNREAD, 0, 0},
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

/* What Hugging Face's classes take where a key is missing; 0: it is needed, or follows from others. */
static const kvg_model_config defaults[FAMILIES] = {
    [KVG_MODEL_LLAMA] = {.positions = 2048, .rms_eps = 1e-6f, .rope.scaling.theta = 10000},
    [KVG_MODEL_QWEN3] = {.positions = 32768, .rms_eps = 1e-6f, .rope.scaling.theta = 10000, .head_dim = 128,
                         .window = 4096, .qk_norm = true},
    [KVG_MODEL_GPT_OSS] = {.positions = 131072, .rms_eps = 1e-5f, .rope.scaling.theta = 150000, .head_dim = 64,
                           .kv_heads = 8, .window = 128, .attention_bias = true, .sinks = true, .experts = 128,
                           .top_k = 4, .swiglu_limit = 7},
};

/* --- values --- */

/* The member, if it is there and not null. */
static bool find(kvg_json object, const char *key, kvg_json *out)
{
    return kvg_json_has(object, key) && kvg_json_get(object, key, out) == KVG_OK && !kvg_json_is_null(*out);
}

static kvg_status read_size(kvg_json object, const char *key, uint64_t most, uint32_t *out)
{
    kvg_json value;
    uint64_t number;
    if (!find(object, key, &value)) return KVG_OK;
    kvg_status s = kvg_json_u64(value, 1, most, &number);
    if (!s) *out = (uint32_t)number;
    return s;
}

static kvg_status read_flag(kvg_json object, const char *key, bool *out)
{
    kvg_json value;
    return find(object, key, &value) ? kvg_json_bool(value, out) : KVG_OK;
}

/* A number that f32 holds, above 0. */
static kvg_status read_positive(kvg_json object, const char *key, float *out)
{
    kvg_json value;
    double number;
    if (!find(object, key, &value)) return KVG_OK;
    kvg_status s = kvg_json_double(value, &number);
    if (s) return s;
    if (!(number <= (double)FLT_MAX && (float)number > 0)) {
        return kvg_json_fail(value, "%g is not a number above 0 in f32", number);
    }
    *out = (float)number;
    return KVG_OK;
}

/* A text that must be `wanted`. */
static kvg_status read_word(kvg_json object, const char *key, const char *wanted)
{
    kvg_json value;
    const char *text;
    if (!find(object, key, &value)) return KVG_OK;
    kvg_status s = kvg_json_string(value, &text);
    if (!s && strcmp(text, wanted) != 0) {
        s = kvg_json_fail(value, "'%.60s' is not supported: only '%s' is", text, wanted);
    }
    return s;
}

/* --- keys of the table --- */

static kvg_status read_family(kvg_json root, kvg_model_family *out)
{
    kvg_json value;
    const char *name;
    kvg_status s = kvg_json_get(root, "model_type", &value);
    if (!s) s = kvg_json_string(value, &name);
    if (s) return s;
    for (int i = 0; i < FAMILIES; i++) {
        *out = (kvg_model_family)i;
        if (strcmp(name, family_names[i]) == 0) return KVG_OK;
    }
    return kvg_json_fail(value, "model type '%.60s' is not supported: llama, qwen3 and gpt_oss are", name);
}

static kvg_status check_keys(kvg_json root, kvg_model_family family)
{
    const char *known[KEY_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].families >> family & 1) known[count++] = keys[i].name;
    }
    return kvg_json_check_keys(root, known, count);
}

static kvg_status read_plain_keys(kvg_json root, kvg_model_config *c)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < KEY_COUNT && !s; i++) {
        char *member = (char *)c + keys[i].offset;
        if (keys[i].kind == SIZE) s = read_size(root, keys[i].name, keys[i].most, (uint32_t *)(void *)member);
        if (keys[i].kind == FLAG) s = read_flag(root, keys[i].name, (bool *)(void *)member);
    }
    return s;
}

/* --- sizes that follow from others --- */

static kvg_status check_sizes(kvg_json root, kvg_model_config *c)
{
    const struct {
        const char *key;
        uint32_t value;
    } needed[] = {{"hidden_size", c->hidden}, {"intermediate_size", c->intermediate}, {"num_hidden_layers", c->layers},
                  {"num_attention_heads", c->query_heads}, {"vocab_size", c->vocab}};
    kvg_json value;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (needed[i].value == 0) return kvg_json_fail(root, "key '%s' is missing", needed[i].key);
    }
    if (c->kv_heads == 0) c->kv_heads = c->query_heads;
    if (c->query_heads % c->kv_heads) {
        return kvg_json_fail(root, "%u query heads are no multiple of %u KV heads", c->query_heads, c->kv_heads);
    }
    if (c->head_dim == 0 && c->hidden % c->query_heads) {
        return kvg_json_fail(root, "hidden_size %u is no multiple of %u heads: give head_dim", c->hidden,
                             c->query_heads);
    }
    if (c->head_dim == 0) c->head_dim = c->hidden / c->query_heads;
    if (c->head_dim % 2 || c->head_dim > KVG_MAX_HEAD_DIM) {
        return kvg_json_fail(root, "head_dim %u is not an even number up to %d", c->head_dim, KVG_MAX_HEAD_DIM);
    }
    if (c->experts && c->top_k > c->experts) {
        return kvg_json_fail(root, "%u experts per token of %u experts", c->top_k, c->experts);
    }
    if (find(root, "num_experts_per_tok", &value) && find(root, "experts_per_token", &value)) {
        uint32_t first = 0, second = 0; /* both were read: they must agree */
        kvg_status s = read_size(root, "num_experts_per_tok", 1 << 16, &first);
        if (!s) s = read_size(root, "experts_per_token", 1 << 16, &second);
        if (s) return s;
        if (first != second) {
            return kvg_json_fail(value, "%u is not the %u of num_experts_per_tok", second, first);
        }
    }
    return KVG_OK;
}

/* --- RoPE --- */

static kvg_status read_rope_kind(kvg_json object, kvg_rope_scaling *scaling)
{
    kvg_json value;
    const char *name;
    if (!find(object, "rope_type", &value) && !find(object, "type", &value)) {
        return kvg_json_fail(object, "key 'rope_type' is missing");
    }
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    if (kvg_rope_kind_find(name, &scaling->kind)) {
        return kvg_json_fail(value, "rope type '%.60s' is not supported: default, linear, llama3 and yarn are", name);
    }
    if (scaling->kind != KVG_ROPE_DYNAMIC) return KVG_OK;
    return kvg_json_fail(value, "rope type 'dynamic' is not supported: its table depends on one sequence's length");
}

/* rope_scaling or rope_parameters: an object with a kind and its parameters, under Hugging Face's names. */
static kvg_status read_scaling(kvg_json object, bool with_theta, uint32_t positions, kvg_rope_scaling *scaling)
{
    static const char *const plain[] = {"rope_type", "type", "rope_theta"};
    static const struct {
        const char *key;
        unsigned kinds;
        size_t offset;
        float missing;
    } parameters[] = {
#define IN(member) offsetof(kvg_rope_scaling, member)
        {"factor", 1 << KVG_ROPE_LINEAR | 1 << KVG_ROPE_LLAMA3 | 1 << KVG_ROPE_YARN, IN(factor), 0},
        {"original_max_position_embeddings", 1 << KVG_ROPE_LLAMA3 | 1 << KVG_ROPE_YARN, IN(original_positions), 0},
        {"low_freq_factor", 1 << KVG_ROPE_LLAMA3, IN(low_freq_factor), 0},
        {"high_freq_factor", 1 << KVG_ROPE_LLAMA3, IN(high_freq_factor), 0},
        {"beta_fast", 1 << KVG_ROPE_YARN, IN(beta_fast), 32},
        {"beta_slow", 1 << KVG_ROPE_YARN, IN(beta_slow), 1},
        {"attention_factor", 1 << KVG_ROPE_YARN, IN(attention_factor), 0},
        {"mscale", 1 << KVG_ROPE_YARN, IN(mscale), 0},
        {"mscale_all_dim", 1 << KVG_ROPE_YARN, IN(mscale_all_dim), 0},
#undef IN
    };
    enum { COUNT = sizeof parameters / sizeof parameters[0] };
    const char *known[COUNT + 4];
    size_t known_count = with_theta ? 3 : 2;
    const float theta = scaling->theta;
    *scaling = (kvg_rope_scaling){.theta = theta};
    kvg_status s = read_rope_kind(object, scaling);
    if (s) return s;
    memcpy(known, plain, sizeof plain);
    for (size_t i = 0; i < COUNT; i++) {
        if (parameters[i].kinds >> scaling->kind & 1) known[known_count++] = parameters[i].key;
    }
    if (scaling->kind == KVG_ROPE_YARN) known[known_count++] = "truncate";
    s = kvg_json_check_keys(object, known, known_count);
    for (size_t i = 0; i < COUNT && !s; i++) {
        float *member = (float *)(void *)((char *)scaling + parameters[i].offset);
        if (!(parameters[i].kinds >> scaling->kind & 1)) continue;
        *member = parameters[i].missing;
        s = read_positive(object, parameters[i].key, member);
    }
    if (!s && with_theta) s = read_positive(object, "rope_theta", &scaling->theta);
    if (scaling->kind == KVG_ROPE_YARN) {
        scaling->truncate = true;
        if (!s) s = read_flag(object, "truncate", &scaling->truncate);
        if (scaling->original_positions == 0) scaling->original_positions = (float)positions;
    }
    return s;
}

static kvg_status read_rope(kvg_json root, kvg_model_config *c)
{
    kvg_json value = root;
    kvg_rope_numbers numbers;
    uint32_t initial = 0;
    c->rope.dims = c->head_dim;
    c->rope.positions = c->positions;
    c->rope.pairing = KVG_PAIRING_HALVES;
    c->rope.scaling.kind = KVG_ROPE_DEFAULT;
    kvg_status s = KVG_OK;
    if (find(root, "rope_parameters", &value)) {
        if (kvg_json_has(root, "rope_theta") || kvg_json_has(root, "rope_scaling")) {
            return kvg_json_fail(value, "give rope_parameters, or rope_theta and rope_scaling, not both");
        }
        s = read_scaling(value, true, c->positions, &c->rope.scaling);
    } else {
        s = read_positive(root, "rope_theta", &c->rope.scaling.theta);
        if (!s && find(root, "rope_scaling", &value)) {
            s = read_scaling(value, false, c->positions, &c->rope.scaling);
        } else if (!s && c->family == KVG_MODEL_GPT_OSS && !kvg_json_has(root, "rope_scaling")) {
            const float theta = c->rope.scaling.theta;
            c->rope.scaling = (kvg_rope_scaling){.kind = KVG_ROPE_YARN, .theta = theta, .factor = 32,
                                                 .original_positions = 4096, .beta_fast = 32, .beta_slow = 1};
        }
    }
    if (s) return s;
    s = kvg_json_locate(value, kvg_reference_rope_numbers(&c->rope, &numbers));
    if (s) return s;
    s = read_size(root, "initial_context_length", MOST, &initial);
    if (!s && initial && (float)initial != c->rope.scaling.original_positions) {
        kvg_json at;
        s = kvg_json_get(root, "initial_context_length", &at);
        if (!s) s = kvg_json_fail(at, "%u is not the rope's original_max_position_embeddings, %g", initial,
                                  (double)c->rope.scaling.original_positions);
    }
    return s;
}

/* --- windows --- */

static kvg_status read_layer_types(kvg_json list, kvg_model_config *c)
{
    if (!kvg_json_is_array(list) || kvg_json_count(list) != c->layers) {
        return kvg_json_fail(list, "expected an array of %u layer types", c->layers);
    }
    for (uint32_t i = 0; i < c->layers; i++) {
        const kvg_json value = kvg_json_at(list, i);
        const char *name;
        kvg_status s = kvg_json_string(value, &name);
        if (s) return s;
        c->sliding[i] = strcmp(name, "sliding_attention") == 0;
        if (c->sliding[i] || strcmp(name, "full_attention") == 0) continue;
        return kvg_json_fail(value, "layer type '%.60s' is not supported: full_attention and sliding_attention are",
                             name);
    }
    return KVG_OK;
}

static kvg_status read_windows(kvg_json root, kvg_model_config *c)
{
    kvg_json value;
    uint32_t first = 28;
    bool used = c->family == KVG_MODEL_GPT_OSS, any = false;
    kvg_status s = read_size(root, "sliding_window", MOST, &c->window);
    if (!s) s = read_flag(root, "use_sliding_window", &used);
    if (!s && find(root, "max_window_layers", &value)) {
        uint64_t number = 0;
        s = kvg_json_u64(value, 0, KVG_MODEL_MAX_LAYERS, &number);
        first = (uint32_t)number;
    }
    if (!used) c->window = 0;
    for (uint32_t i = 0; i < c->layers; i++) {
        c->sliding[i] = used && (c->family == KVG_MODEL_GPT_OSS ? i % 2 == 0 : i >= first);
    }
    if (!s && find(root, "layer_types", &value)) s = read_layer_types(value, c);
    for (uint32_t i = 0; i < c->layers; i++) any = any || c->sliding[i];
    if (!s && any && !used) s = kvg_json_fail(value, "a layer slides, but use_sliding_window is false");
    if (!any) c->window = 0;
    return s;
}

/* --- what is left --- */

static kvg_status read_quantisation(kvg_json root, kvg_model_config *c)
{
    static const char *const known[] = {"quant_method", "modules_to_not_convert"};
    kvg_json value, method;
    const char *name;
    if (!find(root, "quantization_config", &value)) return KVG_OK;
    kvg_status s = kvg_json_get(value, "quant_method", &method);
    if (!s) s = kvg_json_string(method, &name);
    if (s) return s;
    if (c->family != KVG_MODEL_GPT_OSS || strcmp(name, "mxfp4") != 0) {
        return kvg_json_fail(method, "weights of method '%.60s' are not supported: 16 and 32 bits are, and mxfp4 for "
                             "gpt_oss", name);
    }
    c->mxfp4 = true;
    if (c->hidden % 32 || c->intermediate % 32) {
        return kvg_json_fail(value, "mxfp4 has blocks of 32: hidden_size %u and intermediate_size %u are no multiples",
                             c->hidden, c->intermediate);
    }
    return kvg_json_check_keys(value, known, 2);
}

static kvg_status read_pretraining_tp(kvg_json root)
{
    kvg_json value;
    uint64_t number;
    return find(root, "pretraining_tp", &value) ? kvg_json_u64(value, 1, 1, &number) : KVG_OK;
}

static kvg_status read_root(kvg_json root, kvg_model_config *c)
{
    kvg_model_family family;
    kvg_status s = read_family(root, &family);
    if (!s) s = check_keys(root, family);
    if (s) return s;
    *c = defaults[family];
    c->family = family;
    s = read_plain_keys(root, c);
    if (!s) s = check_sizes(root, c);
    if (!s) s = read_positive(root, "rms_norm_eps", &c->rms_eps);
    if (!s) s = read_word(root, "hidden_act", "silu");
    if (!s) s = read_positive(root, "swiglu_limit", &c->swiglu_limit);
    if (!s) s = read_rope(root, c);
    if (!s) s = read_windows(root, c);
    if (!s) s = read_quantisation(root, c);
    return s ? s : read_pretraining_tp(root);
}

static kvg_status read_document(kvg_json_doc *doc, kvg_model_config *out)
{
    kvg_status s = read_root(kvg_json_root(doc), out);
    kvg_json_close(doc);
    return s;
}

kvg_status kvg_model_config_parse(const char *name, const char *text, size_t size, kvg_model_config *out)
{
    kvg_json_doc *doc;
    kvg_status s = kvg_json_parse(name, text, size, &doc);
    return s ? s : read_document(doc, out);
}

kvg_status kvg_model_config_open(const char *path, kvg_model_config *out)
{
    kvg_json_doc *doc;
    kvg_status s = kvg_json_open(path, &doc);
    return s ? s : read_document(doc, out);
}
