/* Reading of checkpoints: configs of every family, small checkpoints written here, the carried model; and every way in
 * which a checkpoint may be wrong, with its own line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden/golden.h"
#include "model/checkpoint/model_weights.h"
#include "reference/reference.h"

#define FOLDER KVG_BINARY_DIR "/test_model"
#define CARRIED KVG_SOURCE_DIR "/golden/data/model"

/* --- configs --- */

static const char llama[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32,"
    " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128256, \"rms_norm_eps\": 1e-05,"
    " \"max_position_embeddings\": 131072, \"rope_theta\": 500000.0, \"tie_word_embeddings\": false,"
    " \"rope_scaling\": {\"factor\": 8.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0,"
    " \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, \"hidden_act\": \"silu\","
    " \"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0,"
    " \"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008, 128009], \"initializer_range\": 0.02,"
    " \"mlp_bias\": false, \"pretraining_tp\": 1, \"torch_dtype\": \"bfloat16\","
    " \"transformers_version\": \"4.42.3\", \"use_cache\": true}";
static const char qwen3[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"intermediate_size\": 3072, \"num_hidden_layers\": 28,"
    " \"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"head_dim\": 128, \"vocab_size\": 151936,"
    " \"rms_norm_eps\": 1e-06, \"max_position_embeddings\": 40960, \"rope_theta\": 1000000,"
    " \"rope_scaling\": null, \"sliding_window\": null, \"use_sliding_window\": false, \"max_window_layers\": 28,"
    " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\", \"attention_bias\": false}";
static const char gpt_oss[] =
    "{\"model_type\": \"gpt_oss\", \"hidden_size\": 2880, \"intermediate_size\": 2880, \"num_hidden_layers\": 4,"
    " \"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": 64, \"vocab_size\": 201088,"
    " \"rms_norm_eps\": 1e-05, \"max_position_embeddings\": 131072, \"rope_theta\": 150000,"
    " \"rope_scaling\": {\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"factor\": 32.0,"
    " \"original_max_position_embeddings\": 4096, \"rope_type\": \"yarn\", \"truncate\": false},"
    " \"initial_context_length\": 4096, \"sliding_window\": 128, \"layer_types\": [\"sliding_attention\","
    " \"full_attention\", \"sliding_attention\", \"full_attention\"], \"num_local_experts\": 32,"
    " \"num_experts_per_tok\": 4, \"experts_per_token\": 4, \"swiglu_limit\": 7.0, \"attention_bias\": true,"
    " \"quantization_config\": {\"quant_method\": \"mxfp4\", \"modules_to_not_convert\": [\"model.embed_tokens\"]}}";

static kvg_model_config parse(const char *text)
{
    kvg_model_config c;
    if (kvg_model_config_parse("config.json", text, strlen(text), &c)) fail_msg("%s", kvg_error_text());
    return c;
}

static void test_families(void **state)
{
    (void)state;
    kvg_model_config c = parse(llama);
    assert_true(c.family == KVG_MODEL_LLAMA && c.layers == 32 && c.head_dim == 128 && c.kv_heads == 8 && !c.tied);
    assert_true(c.rope.scaling.kind == KVG_ROPE_LLAMA3 && c.rope.scaling.theta == 500000 && c.rope.dims == 128);
    assert_true(c.rope.scaling.original_positions == 8192 && c.rope.pairing == KVG_PAIRING_HALVES);
    assert_true(!c.attention_bias && !c.qk_norm && !c.sinks && c.window == 0 && c.experts == 0 && c.rms_eps == 1e-5f);
    c = parse(qwen3);
    assert_true(c.family == KVG_MODEL_QWEN3 && c.qk_norm && c.tied && c.head_dim == 128 && c.window == 0);
    assert_true(c.rope.scaling.kind == KVG_ROPE_DEFAULT && c.rope.scaling.theta == 1e6f && c.positions == 40960);
    c = parse(gpt_oss);
    assert_true(c.family == KVG_MODEL_GPT_OSS && c.sinks && c.attention_bias && c.mxfp4 && c.experts == 32);
    assert_true(c.top_k == 4 && c.swiglu_limit == 7 && c.window == 128 && c.sliding[0] && !c.sliding[1]);
    assert_true(c.rope.scaling.kind == KVG_ROPE_YARN && !c.rope.scaling.truncate && c.rope.scaling.factor == 32);
    if (kvg_model_config_open(CARRIED "/config.json", &c)) fail_msg("%s", kvg_error_text());
    assert_true(c.vocab == 256 && c.experts == 4 && c.top_k == 2 && !c.mxfp4 && c.sliding[4] && !c.sliding[5]);
}

/* What follows from what is not said, and the keys of transformers 5. */
static void test_defaults(void **state)
{
    (void)state;
    kvg_model_config c = parse("{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 96,"
                               " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 256}");
    assert_true(c.kv_heads == 4 && c.head_dim == 16 && c.positions == 2048 && c.rms_eps == 1e-6f);
    assert_true(c.rope.scaling.kind == KVG_ROPE_DEFAULT && c.rope.scaling.theta == 10000);
    c = parse("{\"model_type\": \"gpt_oss\", \"hidden_size\": 64, \"intermediate_size\": 96,"
              " \"num_hidden_layers\": 3, \"num_attention_heads\": 16, \"vocab_size\": 256}");
    assert_true(c.kv_heads == 8 && c.head_dim == 64 && c.experts == 128 && c.top_k == 4 && c.window == 128);
    assert_true(c.sliding[0] && !c.sliding[1] && c.sliding[2] && c.rope.scaling.kind == KVG_ROPE_YARN);
    assert_true(c.rope.scaling.original_positions == 4096 && !c.rope.scaling.truncate && !c.mxfp4);
    c = parse("{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"intermediate_size\": 96,"
              " \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"vocab_size\": 256,"
              " \"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 1,"
              " \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 5000000, \"factor\": 4.0,"
              " \"original_max_position_embeddings\": 32768}}");
    assert_true(c.window == 8 && !c.sliding[0] && c.sliding[1] && c.sliding[2] && c.head_dim == 128);
    assert_true(c.rope.scaling.theta == 5e6f && c.rope.scaling.truncate && c.rope.scaling.beta_fast == 32);
}

/* A text with its first `from` replaced. */
static void change(const char *text, const char *from, const char *to, char *out, size_t size)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void test_bad_configs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *from, *to, *says;
    } bad[] = {
        {llama, "\"llama\"", "\"mixtral\"", "model type 'mixtral' is not supported"},
        {llama, "\"model_type\": \"llama\", ", "", "model_type"},
        {llama, "\"hidden_size\": 4096, ", "", "key 'hidden_size' is missing"},
        {llama, "\"vocab_size\": 128256, ", "", "key 'vocab_size' is missing"},
        {llama, "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 513", "num_hidden_layers"},
        {llama, "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1.5", "num_hidden_layers"},
        {llama, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5", "no multiple of 5 KV heads"},
        {llama, "\"hidden_size\": 4096", "\"hidden_size\": 4100", "give head_dim"},
        {llama, "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "'gelu' is not supported"},
        {llama, "\"mlp_bias\": false", "\"mlp_bias\": \"no\"", "$.mlp_bias"},
        {llama, "\"mlp_bias\": false", "\"mlp_bias\": false, \"mlp_bias\": true", "mlp_bias"},
        {llama, "\"pretraining_tp\": 1", "\"pretraining_tp\": 2", "$.pretraining_tp"},
        {llama, "\"use_cache\": true", "\"use_cash\": true", "did you mean 'use_cache'"},
        {llama, "\"use_cache\": true", "\"sliding_window\": 4", "unknown key 'sliding_window'"},
        {llama, "\"use_cache\": true", "\"partial_rotary_factor\": 0.5", "unknown key 'partial_rotary_factor'"},
        {llama, "\"use_cache\": true", "\"quantization_config\": {\"quant_method\": \"gptq\"}", "method 'gptq'"},
        {llama, "1e-05", "0", "$.rms_norm_eps"},
        {llama, "1e-05", "1e-60", "not a number above 0 in f32"},
        {llama, "500000.0", "1", "theta"},
        {llama, "\"llama3\"", "\"dynamic\"", "rope type 'dynamic' is not supported"},
        {llama, "\"llama3\"", "\"longrope\"", "rope type 'longrope' is not supported"},
        {llama, ", \"rope_type\": \"llama3\"", "", "key 'rope_type' is missing"},
        {llama, "\"low_freq_factor\": 1.0, ", "", "low_freq_factor"},
        {llama, "\"low_freq_factor\": 1.0", "\"beta_fast\": 1.0", "unknown key 'beta_fast'"},
        {llama, "\"use_cache\": true", "\"rope_parameters\": {\"rope_type\": \"default\"}", "not both"},
        {qwen3, "\"head_dim\": 128", "\"head_dim\": 127", "head_dim 127 is not an even number"},
        {qwen3, "\"head_dim\": 128", "\"head_dim\": 2048", "$.head_dim"},
        {qwen3, "\"attention_bias\": false", "\"layer_types\": [\"sliding_attention\"]", "array of 28 layer types"},
        {gpt_oss, "\"full_attention\"", "\"linear_attention\"", "layer type 'linear_attention' is not supported"},
        {gpt_oss, "\"num_local_experts\": 32", "\"num_local_experts\": 2", "4 experts per token of 2 experts"},
        {gpt_oss, "\"experts_per_token\": 4", "\"experts_per_token\": 3", "is not the 4 of num_experts_per_tok"},
        {gpt_oss, "\"initial_context_length\": 4096", "\"initial_context_length\": 8192", "$.initial_context_length"},
        {gpt_oss, "\"mxfp4\"", "\"fp8\"", "method 'fp8'"},
        {gpt_oss, "\"hidden_size\": 2880", "\"hidden_size\": 2884", "blocks of 32"},
        {gpt_oss, "\"swiglu_limit\": 7.0", "\"swiglu_limit\": -7.0", "$.swiglu_limit"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[4096];
        kvg_model_config c;
        change(bad[i].text, bad[i].from, bad[i].to, text, sizeof text);
        const kvg_status s = kvg_model_config_parse("config.json", text, strlen(text), &c);
        if (s != KVG_ERR_INVALID || !strstr(kvg_error_text(), bad[i].says)) {
            fail_msg("'%s': status %d: %s", bad[i].to, (int)s, s ? kvg_error_text() : "");
        }
        assert_non_null(strstr(kvg_error_text(), "config.json"));
    }
    kvg_model_config c;
    assert_int_equal(kvg_model_config_open(FOLDER "/nowhere/config.json", &c), KVG_ERR_NOT_FOUND);
}

/* --- checkpoints: 2 layers, hidden 64, 4 and 2 heads of 16, MLP of 96, 2 experts, 32 tokens --- */

typedef struct tensor {
    const char *name; /* "%u" stands for the layer */
    uint32_t rank;
    uint64_t shape[4];
} tensor;

static const tensor body[] = {
    {"model.embed_tokens.weight", 2, {32, 64}},
    {"model.norm.weight", 1, {64}},
    {"model.layers.%u.input_layernorm.weight", 1, {64}},
    {"model.layers.%u.post_attention_layernorm.weight", 1, {64}},
    {"model.layers.%u.self_attn.q_proj.weight", 2, {64, 64}},
    {"model.layers.%u.self_attn.k_proj.weight", 2, {32, 64}},
    {"model.layers.%u.self_attn.v_proj.weight", 2, {32, 64}},
    {"model.layers.%u.self_attn.o_proj.weight", 2, {64, 64}},
};
static const tensor output[] = {{"lm_head.weight", 2, {32, 64}}};
static const tensor mlp[] = {
    {"model.layers.%u.mlp.gate_proj.weight", 2, {96, 64}},
    {"model.layers.%u.mlp.up_proj.weight", 2, {96, 64}},
    {"model.layers.%u.mlp.down_proj.weight", 2, {64, 96}},
};
static const tensor norms[] = {
    {"model.layers.%u.self_attn.q_norm.weight", 1, {16}},
    {"model.layers.%u.self_attn.k_norm.weight", 1, {16}},
};
static const tensor oss[] = {
    {"model.layers.%u.self_attn.q_proj.bias", 1, {64}},
    {"model.layers.%u.self_attn.k_proj.bias", 1, {32}},
    {"model.layers.%u.self_attn.v_proj.bias", 1, {32}},
    {"model.layers.%u.self_attn.o_proj.bias", 1, {64}},
    {"model.layers.%u.self_attn.sinks", 1, {4}},
    {"model.layers.%u.mlp.router.weight", 2, {2, 64}},
    {"model.layers.%u.mlp.router.bias", 1, {2}},
    {"model.layers.%u.mlp.experts.gate_up_proj_bias", 2, {2, 192}},
    {"model.layers.%u.mlp.experts.down_proj_bias", 2, {2, 64}},
};
static const tensor wide[] = {
    {"model.layers.%u.mlp.experts.gate_up_proj", 3, {2, 64, 192}},
    {"model.layers.%u.mlp.experts.down_proj", 3, {2, 96, 64}},
};
static const tensor mxfp4[] = {
    {"model.layers.%u.mlp.experts.gate_up_proj_blocks", 4, {2, 192, 2, 16}},
    {"model.layers.%u.mlp.experts.gate_up_proj_scales", 3, {2, 192, 2}},
    {"model.layers.%u.mlp.experts.down_proj_blocks", 4, {2, 64, 3, 16}},
    {"model.layers.%u.mlp.experts.down_proj_scales", 3, {2, 64, 3}},
};

enum { LAYERS = 2, GROUPS = 4, MOST_TENSORS = 64 };

typedef struct checkpoint {
    const char *name, *model_type, *more; /* of config.json */
    const tensor *groups[GROUPS];
    size_t counts[GROUPS];
} checkpoint;

#define COUNT(array) (sizeof(array) / sizeof (array)[0])
static const checkpoint checkpoints[] = {
    {"llama", "llama", "", {body, mlp, output}, {COUNT(body), COUNT(mlp), COUNT(output)}},
    {"qwen3", "qwen3", ", \"tie_word_embeddings\": true", {body, mlp, norms}, {COUNT(body), COUNT(mlp), COUNT(norms)}},
    {"gpt_oss", "gpt_oss", ", \"num_local_experts\": 2, \"num_experts_per_tok\": 1", {body, oss, wide, output},
     {COUNT(body), COUNT(oss), COUNT(wide), COUNT(output)}},
    {"gpt_oss_mxfp4", "gpt_oss", ", \"num_local_experts\": 2, \"num_experts_per_tok\": 1,"
     " \"quantization_config\": {\"quant_method\": \"mxfp4\"}", {body, oss, mxfp4, output},
     {COUNT(body), COUNT(oss), COUNT(mxfp4), COUNT(output)}},
};
enum { LLAMA, QWEN3, OSS, OSS_MXFP4, CHECKPOINTS };

/* What is wrong with a checkpoint that is written: of the tensor whose name holds `at`. */
typedef struct fault {
    const char *at;
    enum { NOTHING, LEFT_OUT, OTHER_DTYPE, OTHER_SHAPE, RENAMED, BAD_NUMBER, NUMBERS_OF } what;
    const char *text; /* the dtype; the name; the bytes of the bad number; whose numbers it has */
} fault;

static kvg_model_config config_of(const checkpoint *c)
{
    char text[512];
    snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"hidden_size\": 64, \"intermediate_size\": 96,"
             " \"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16,"
             " \"vocab_size\": 32%s}", c->model_type, LAYERS, c->more);
    return parse(text);
}

/* Number `i` of a tensor: a multiple of 1/16 that every type holds; its name and place tell it from others. */
static float number(const char *name, size_t i)
{
    size_t h = 7;
    for (const char *p = name; *p; p++) h = h * 31 + (unsigned char)*p;
    return (float)((int)((h + i * 37) % 121) - 60) / 16;
}

static uint8_t code_byte(const char *name, size_t i)
{
    const bool scale = strstr(name, "_scales") != NULL;
    return scale ? (uint8_t)(120 + i % 13) : (uint8_t)(i * 151 + 17);
}

typedef struct written {
    char name[96];
    const char *dtype;
    uint32_t rank;
    uint64_t shape[4];
    uint8_t *data;
    size_t bytes;
} written;

static void make_tensor(const tensor *t, unsigned layer, const char *dtype, const fault *f, written *out)
{
    const bool codes = strstr(t->name, "_blocks") || strstr(t->name, "_scales");
    char name[96];
    snprintf(name, sizeof name, t->name, layer);
    const bool hit = f && strstr(name, f->at);
    *out = (written){.dtype = codes ? "U8" : dtype, .rank = t->rank};
    snprintf(out->name, sizeof out->name, "%s", hit && f->what == RENAMED ? f->text : name);
    if (hit && f->what == OTHER_DTYPE) out->dtype = f->text;
    memcpy(out->shape, t->shape, sizeof out->shape);
    if (hit && f->what == OTHER_SHAPE) out->shape[0]++;
    const size_t size = kvg_safetensors_dtype_bytes(out->dtype);
    size_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) count *= (size_t)out->shape[i];
    out->bytes = count * size;
    out->data = calloc(1, out->bytes);
    assert_non_null(out->data);
    for (size_t i = 0; i < count; i++) {
        const float x = number(hit && f->what == NUMBERS_OF ? f->text : name, i);
        uint8_t *at = out->data + i * size;
        if (codes) *at = code_byte(name, i);
        else if (strcmp(out->dtype, "F32") == 0) kvg_reference_store(KVG_DTYPE_F32, &x, 1, at);
        else if (strcmp(out->dtype, "F16") == 0) kvg_reference_store(KVG_DTYPE_F16, &x, 1, at);
        else if (strcmp(out->dtype, "BF16") == 0) kvg_reference_store(KVG_DTYPE_BF16, &x, 1, at);
    }
    if (hit && f->what == BAD_NUMBER) memcpy(out->data + out->bytes - size, f->text, size);
}

static void write_shard(const char *path, const written *tensors, size_t count)
{
    kvg_safetensors_writer *w;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(kvg_safetensors_writer_make(&w), KVG_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kvg_safetensors_writer_declare(w, tensors[i].name, tensors[i].dtype, tensors[i].rank,
                                                        tensors[i].shape), KVG_OK);
    }
    assert_int_equal(kvg_safetensors_writer_begin(w, file), KVG_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kvg_safetensors_writer_put(w, tensors[i].data, tensors[i].bytes), KVG_OK);
    }
    assert_int_equal(fclose(file), 0);
    kvg_safetensors_writer_free(w);
}

static size_t make_tensors(const checkpoint *c, const char *dtype, const fault *f, written *out)
{
    size_t count = 0;
    for (size_t g = 0; g < GROUPS; g++) {
        for (size_t i = 0; i < c->counts[g]; i++) {
            const tensor *t = &c->groups[g][i];
            const unsigned layers = strstr(t->name, "%u") ? LAYERS : 1;
            for (unsigned layer = 0; layer < layers; layer++) {
                assert_true(count < MOST_TENSORS);
                make_tensor(t, layer, dtype, f, &out[count]);
                if (f && f->what == LEFT_OUT && strstr(out[count].name, f->at)) free(out[count].data);
                else count++;
            }
        }
    }
    return count;
}

/* model.safetensors, or with `shards` two files and their index, in an empty folder. */
static void write_checkpoint(const checkpoint *c, const char *dtype, const fault *f, bool shards)
{
    static const char *const files[] = {"model.safetensors", "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
    char path[512];
    written tensors[MOST_TENSORS];
    mkdir(FOLDER, 0777);
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", FOLDER, files[i]);
        unlink(path);
    }
    const size_t count = make_tensors(c, dtype, f, tensors), half = shards ? count / 2 : count;
    snprintf(path, sizeof path, "%s/%s", FOLDER, files[shards]);
    write_shard(path, tensors, half);
    if (shards) {
        snprintf(path, sizeof path, "%s/%s", FOLDER, files[2]);
        write_shard(path, tensors + half, count - half);
        snprintf(path, sizeof path, "%s/%s", FOLDER, files[3]);
        FILE *index = fopen(path, "w");
        assert_non_null(index);
        fprintf(index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
        for (size_t i = 0; i < count; i++) {
            fprintf(index, "%s\"%s\": \"%s\"", i ? ", " : "", tensors[i].name, files[i < half ? 1 : 2]);
        }
        fprintf(index, "}}\n");
        assert_int_equal(fclose(index), 0);
    }
    for (size_t i = 0; i < count; i++) free(tensors[i].data);
}

/* The numbers of a row are those that were written: `first` and `step` say where in the tensor `name`. */
static void expect_row(const kvg_model_weights *w, kvg_weight weight, uint32_t layer, size_t row, size_t length,
                       const char *name, size_t first, size_t step)
{
    float x[256];
    assert_int_equal(kvg_model_weights_row(w, weight, layer, row, x), length);
    for (size_t i = 0; i < length; i++) assert_true(x[i] == number(name, first + i * step));
}

static void expect_mxfp4(const kvg_model_weights *w)
{
    static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    static const char codes[] = "model.layers.1.mlp.experts.gate_up_proj_blocks";
    float x[64];
    const size_t row = 192 + 5; /* expert 1, output 5 */
    assert_int_equal(kvg_model_weights_row(w, KVG_WEIGHT_EXPERT_GATE_UP, 1, row, x), 64);
    for (size_t i = 0; i < 64; i++) {
        const uint8_t pair = code_byte(codes, row * 32 + i / 2);
        const unsigned code = i % 2 ? pair >> 4 : pair & 15u;
        const uint8_t scale = code_byte("_scales", row * 2 + i / 32);
        float want = e2m1[code & 7];
        for (int e = 127; e < scale; e++) want *= 2;
        for (int e = 127; e > scale; e--) want /= 2;
        assert_true(x[i] == (code & 8 ? -want : want));
    }
}

static void test_checkpoints(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"BF16", "F16", "F32"};
    for (size_t n = 0; n < CHECKPOINTS * COUNT(dtypes) * 2; n++) {
        const checkpoint *c = &checkpoints[n % CHECKPOINTS];
        const kvg_model_config config = config_of(c);
        kvg_model_weights *w;
        write_checkpoint(c, dtypes[n / CHECKPOINTS % 3], NULL, n / CHECKPOINTS / 3);
        if (kvg_model_weights_open(FOLDER, &config, &w)) fail_msg("%s: %s", c->name, kvg_error_text());
        if (kvg_model_weights_check(w)) fail_msg("%s: %s", c->name, kvg_error_text());
        expect_row(w, KVG_WEIGHT_EMBED, 0, 31, 64, "model.embed_tokens.weight", 31 * 64, 1);
        expect_row(w, KVG_WEIGHT_K, 1, 3, 64, "model.layers.1.self_attn.k_proj.weight", 3 * 64, 1);
        expect_row(w, KVG_WEIGHT_O, 0, 63, 64, "model.layers.0.self_attn.o_proj.weight", 63 * 64, 1);
        expect_row(w, KVG_WEIGHT_FINAL_NORM, 0, 0, 64, "model.norm.weight", 0, 1);
        if (config.experts == 0) {
            expect_row(w, KVG_WEIGHT_DOWN, 1, 63, 96, "model.layers.1.mlp.down_proj.weight", 63 * 96, 1);
        } else {
            expect_row(w, KVG_WEIGHT_SINKS, 1, 0, 4, "model.layers.1.self_attn.sinks", 0, 1);
            expect_row(w, KVG_WEIGHT_EXPERT_DOWN_BIAS, 1, 1, 64, "model.layers.1.mlp.experts.down_proj_bias", 64, 1);
        }
        if (config.qk_norm) expect_row(w, KVG_WEIGHT_K_NORM, 0, 0, 16, "model.layers.0.self_attn.k_norm.weight", 0, 1);
        if (n % CHECKPOINTS == OSS) { /* expert 1, output 7: a column */
            expect_row(w, KVG_WEIGHT_EXPERT_GATE_UP, 0, 192 + 7, 64, "model.layers.0.mlp.experts.gate_up_proj",
                       64 * 192 + 7, 192);
            expect_row(w, KVG_WEIGHT_EXPERT_DOWN, 1, 64 + 3, 96, "model.layers.1.mlp.experts.down_proj", 96 * 64 + 3,
                       64);
        }
        if (n % CHECKPOINTS == OSS_MXFP4) expect_mxfp4(w);
        assert_null(kvg_model_weights_view(w, config.tied ? KVG_WEIGHT_OUTPUT : KVG_WEIGHT_GATE_BIAS, 0).data);
        kvg_model_weights_close(w);
    }
}

static void expect_refused(const checkpoint *c, const char *says)
{
    const kvg_model_config config = config_of(c);
    kvg_model_weights *w = NULL;
    kvg_status s = kvg_model_weights_open(FOLDER, &config, &w);
    if (!s) s = kvg_model_weights_check(w);
    if (s == KVG_OK || !strstr(kvg_error_text(), says)) fail_msg("%s: %s", says, s ? kvg_error_text() : "accepted");
    kvg_model_weights_close(w);
}

static void test_bad_checkpoints(void **state)
{
    (void)state;
    static const struct {
        int checkpoint;
        fault fault;
        const char *says;
    } bad[] = {
        {LLAMA, {"1.self_attn.k_proj", LEFT_OUT, NULL}, "tensor model.layers.1.self_attn.k_proj.weight is missing"},
        {LLAMA, {"lm_head", LEFT_OUT, NULL}, "tensor lm_head.weight is missing"},
        {QWEN3, {"0.self_attn.q_norm", LEFT_OUT, NULL}, "tensor model.layers.0.self_attn.q_norm.weight is missing"},
        {OSS, {"0.self_attn.sinks", LEFT_OUT, NULL}, "tensor model.layers.0.self_attn.sinks is missing"},
        {OSS_MXFP4, {"1.mlp.experts.down_proj_scales", LEFT_OUT, NULL}, "down_proj_scales is missing"},
        {LLAMA, {"0.mlp.up_proj", OTHER_SHAPE, NULL}, "up_proj.weight has shape [97, 64], not [96, 64]"},
        {OSS, {"1.mlp.experts.gate_up_proj_bias", OTHER_SHAPE, NULL}, "has shape [3, 192], not [2, 192]"},
        {LLAMA, {"model.norm", OTHER_DTYPE, "I8"}, "tensor model.norm.weight is I8, not BF16, F16 or F32"},
        {LLAMA, {"0.self_attn.q_proj", OTHER_DTYPE, "F8_E4M3"}, "is F8_E4M3, not BF16"},
        {OSS_MXFP4, {"0.mlp.experts.down_proj_blocks", OTHER_DTYPE, "I8"}, "is I8, not U8"},
        {LLAMA, {"1.mlp.up_proj", RENAMED, "model.layers.1.mlp.up_proj.bias"}, "up_proj.bias belongs to no part"},
        {LLAMA, {"1.mlp.up_proj", RENAMED, "model.layers.2.mlp.up_proj.weight"}, "layers.2.mlp.up_proj.weight belongs"},
        {LLAMA, {"1.mlp.up_proj", RENAMED, "model.layers.01.mlp.up_proj.weight"}, "belongs to no part"},
        {OSS, {"1.self_attn.sinks", RENAMED, "model.layers.1.self_attn.q_norm.weight"}, "belongs to no part"},
        {LLAMA, {"1.mlp.down_proj", BAD_NUMBER, "\x80\x7f"}, "1.mlp.down_proj.weight, number 6143 is NaN or Inf"},
        {LLAMA, {"model.embed_tokens", BAD_NUMBER, "\xc0\xff"}, "model.embed_tokens.weight, number 2047 is NaN"},
        {OSS_MXFP4, {"0.mlp.experts.gate_up_proj_scales", BAD_NUMBER, "\xff"}, "number 767 is a scale beyond f32"},
        {OSS_MXFP4, {"0.mlp.experts.gate_up_proj_scales", BAD_NUMBER, "\xfd"}, "number 767 is a scale beyond f32"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        write_checkpoint(&checkpoints[bad[i].checkpoint], "BF16", &bad[i].fault, i % 2);
        expect_refused(&checkpoints[bad[i].checkpoint], bad[i].says);
    }
}

/* What nobody takes does not disturb; an output embedding beside tied ones must be theirs. */
static void test_idle_tensors(void **state)
{
    (void)state;
    checkpoint c = checkpoints[QWEN3];
    static const tensor idle[] = {{"model.layers.%u.self_attn.rotary_emb.inv_freq", 1, {8}},
                                  {"lm_head.weight", 2, {32, 64}}};
    const fault tied = {"lm_head", NUMBERS_OF, "model.embed_tokens.weight"};
    const kvg_model_config config = config_of(&c);
    kvg_model_weights *w;
    c.groups[3] = idle;
    c.counts[3] = COUNT(idle);
    write_checkpoint(&c, "F32", &tied, true);
    if (kvg_model_weights_open(FOLDER, &config, &w)) fail_msg("%s", kvg_error_text());
    if (kvg_model_weights_check(w)) fail_msg("%s", kvg_error_text());
    kvg_model_weights_close(w);
    write_checkpoint(&c, "F32", NULL, true);
    expect_refused(&c, "lm_head.weight is not the tied model.embed_tokens.weight");
}

/* --- files --- */

static void rewrite(const char *name, const char *from, const char *to)
{
    char path[512], text[16384], changed[16384];
    snprintf(path, sizeof path, "%s/%s", FOLDER, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    change(text, from, to, changed, sizeof changed);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(changed, file);
    fclose(file);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const char index[] = "model.safetensors.index.json";
    static const struct {
        const char *from, *to, *says;
    } bad[] = {
        {"\"model-00001-of-00002.safetensors\"", "\"../model-00001-of-00002.safetensors\"", "no plain file name"},
        {"\"model-00001-of-00002.safetensors\"", "\"/etc/passwd\"", "no plain file name"},
        {"\"model-00001-of-00002.safetensors\"", "\"..\"", "no plain file name"},
        {"\"model-00001-of-00002.safetensors\"", "\"\"", "no plain file name"},
        {"\"model-00001-of-00002.safetensors\"", "7", "weight_map"},
        {"\"model-00001-of-00002.safetensors\"", "\"model-00003.safetensors\"", "model-00003.safetensors"},
        {"\"model-00001-of-00002.safetensors\"", "\"model-00002-of-00002.safetensors\"", "but the index says"},
        {"\"model.embed_tokens.weight\": \"model-00001-of-00002.safetensors\", ", "", "nothing of it"},
        {"\"weight_map\"", "\"weight_nap\"", "did you mean 'weight_map'"},
        {"}}", "}", "index.json"},
    };
    const checkpoint *c = &checkpoints[LLAMA];
    const kvg_model_config config = config_of(c);
    kvg_model_weights *w;
    for (size_t i = 0; i < COUNT(bad); i++) {
        write_checkpoint(c, "BF16", NULL, true);
        rewrite(index, bad[i].from, bad[i].to);
        expect_refused(c, bad[i].says);
    }
    write_checkpoint(c, "BF16", NULL, true);
    assert_int_equal(truncate(FOLDER "/model-00002-of-00002.safetensors", 20000), 0);
    expect_refused(c, "model-00002-of-00002.safetensors");
    write_checkpoint(c, "BF16", NULL, false);
    assert_int_equal(truncate(FOLDER "/model.safetensors", 5), 0);
    expect_refused(c, "model.safetensors");
    assert_int_equal(unlink(FOLDER "/model.safetensors"), 0);
    assert_int_equal(kvg_model_weights_open(FOLDER, &config, &w), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "neither model.safetensors nor"));
    assert_null(w);
    write_checkpoint(&checkpoints[QWEN3], "BF16", NULL, false); /* another model than the config's */
    expect_refused(c, "belongs to no part of this model");
}

/* The carried model, its numbers as another reader has them. */
static void test_carried(void **state)
{
    (void)state;
    kvg_model_config config;
    kvg_model_weights *w;
    kvg_safetensors *file;
    const kvg_safetensors_entry *e;
    float x[256];
    if (kvg_model_config_open(CARRIED "/config.json", &config)) fail_msg("%s", kvg_error_text());
    if (kvg_model_weights_open(CARRIED, &config, &w)) fail_msg("%s", kvg_error_text());
    if (kvg_model_weights_check(w)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_safetensors_open(CARRIED "/model.safetensors", &file), KVG_OK);
    assert_int_equal(kvg_safetensors_find(file, "model.layers.5.mlp.experts.down_proj", &e), KVG_OK);
    assert_int_equal(kvg_model_weights_row(w, KVG_WEIGHT_EXPERT_DOWN, 5, 3 * 256 + 200, x), 96);
    for (size_t i = 0; i < 96; i++) {
        float want;
        kvg_reference_load(KVG_DTYPE_BF16, (const uint8_t *)e->data + 2 * ((3 * 96 + i) * 256 + 200), 1, &want);
        assert_true(x[i] == want);
    }
    assert_int_equal(kvg_model_weights_row(w, KVG_WEIGHT_OUTPUT, 0, 255, x), 256);
    kvg_safetensors_close(file);
    kvg_model_weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_bad_configs),     cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_bad_checkpoints), cmocka_unit_test(test_idle_tensors),
        cmocka_unit_test(test_bad_files),       cmocka_unit_test(test_carried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
