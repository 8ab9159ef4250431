#include "harness/pack/golden_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/pack/golden_parts.h"
#include "harness/trial/judge/known_wrong.h"

/* --- dtypes --- */

static const struct {
    kvg_dtype dtype;
    const char *name;
} dtypes[] = {
    {KVG_DTYPE_U8, "U8"},   {KVG_DTYPE_F16, "F16"}, {KVG_DTYPE_BF16, "BF16"},
    {KVG_DTYPE_F32, "F32"}, {KVG_DTYPE_I32, "I32"}, {KVG_DTYPE_I64, "I64"},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *kvg_golden_dtype(kvg_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    }
    return "?";
}

kvg_status kvg_golden_dtype_find(const char *name, kvg_dtype *out)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = dtypes[i].dtype;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "kvgold has no tensors of dtype '%.16s'", name);
}

/* --- which tensors a case has --- */

/* A tensor of a pack: one of the op's, or binary64 numbers of the shape of one. */
typedef struct item {
    kvg_role role;
    kvg_side side;
    kvg_tensor tensor; /* data NULL before the case is computed */
    const char *suffix; /* "", ".exact", ".bound" */
} item;

static void add_roles(const kvg_case *c, const kvg_role *roles, const kvg_tensor_set *made, item *items, size_t *count)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        item one = {.suffix = ""};
        kvg_roles_at(roles, i, &one.role, &one.side);
        one.tensor = kvg_problem_tensor(&c->problem, one.role, one.side);
        if (one.tensor.bytes == 0 || (one.role == KVG_ROLE_LSE && c->answers == KVG_ANSWERS_OUT)) continue;
        if (made) one.tensor.data = made->tensors[i].data;
        items[(*count)++] = one;
    }
}

static size_t prompt_items(const kvg_case *c, const kvg_golden_case *made, item items[KVG_PACK_MAX_TENSORS])
{
    const kvg_op_info *op = kvg_op_get(c->problem.op);
    size_t count = 0;
    add_roles(c, op->inputs, made ? &made->data.in : NULL, items, &count);
    if (op->paged && c->problem.op != KVG_OP_DECODE) { /* decode writes all of its outputs */
        add_roles(c, op->outputs, made ? &made->data.before : NULL, items, &count);
    }
    return count;
}

static item numbers(const kvg_case *c, kvg_role role, const char *suffix, double *data)
{
    item one = {role, KVG_K, kvg_problem_tensor(&c->problem, role, KVG_K), suffix};
    one.tensor.bytes = one.tensor.bytes / kvg_dtype_bytes(one.tensor.dtype) * sizeof *data;
    one.tensor.data = data;
    return one;
}

static size_t expected_items(const kvg_case *c, const kvg_golden_case *made, item items[KVG_PACK_MAX_TENSORS])
{
    const kvg_attention_answer none = {0}, *exact = made ? &made->truth.exact : &none;
    size_t count = 0;
    if (!kvg_op_attends(c->problem.op) || c->problem.profile != KVG_PROFILE_NONE) {
        add_roles(c, kvg_op_get(c->problem.op)->outputs, made ? &made->truth.expected : NULL, items, &count);
    }
    if (kvg_op_attends(c->problem.op)) {
        items[count++] = numbers(c, KVG_ROLE_OUT, ".exact", exact->out);
        items[count++] = numbers(c, KVG_ROLE_OUT, ".bound", exact->out_bound);
        if (c->answers == KVG_ANSWERS_OUT) return count;
        items[count++] = numbers(c, KVG_ROLE_LSE, ".exact", exact->lse);
        items[count++] = numbers(c, KVG_ROLE_LSE, ".bound", exact->lse_bound);
    }
    return count;
}

/* How a side's 4-bit codes lie in their bytes: which element the high nibble of a row's first byte is. */
static const char *packing_word(const kvg_problem *p, kvg_side side)
{
    if (kvg_format_get(p->storage[side].format)->element_bits != 4) return NULL;
    const uint32_t second = kvg_reference_code_dim(p, side, 0, 1);
    return second == 1 ? "low_first" : second == p->head_dim / 2 ? "halves" : "turbomind";
}

static kvg_pack_packing packing_of(const kvg_problem *p, const item *one)
{
    kvg_pack_packing packing = {{NULL}};
    const bool pool = one->role == KVG_ROLE_DATA_POOL, joined = kvg_problem_joins_sides(p);
    if (!pool && one->role != KVG_ROLE_CODES) return packing;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        if (side == (int)one->side || (pool && joined)) packing.side[side] = packing_word(p, (kvg_side)side);
    }
    return packing;
}

/* --- describing --- */

static kvg_status describe_list(kvg_pack *pack, const kvg_pack_case *c, const kvg_problem *p, const item *items,
                                size_t count, kvg_pack_tensor **out)
{
    *out = kvg_pack_alloc(pack, count, sizeof **out);
    if (!*out) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const item *one = &items[i];
        kvg_pack_tensor *t = &(*out)[i];
        char name[64];
        snprintf(name, sizeof name, "%s.%s%s", c->key, kvg_tensor_name(one->role, one->side), one->suffix);
        t->name = kvg_pack_keep(pack, name);
        if (!t->name) return KVG_ERR_MEMORY;
        t->short_name = t->name + strlen(c->key) + 1;
        t->dtype = *one->suffix ? "F64" : kvg_golden_dtype(one->tensor.dtype);
        t->rank = one->tensor.rank;
        memcpy(t->shape, one->tensor.shape, one->tensor.rank * sizeof t->shape[0]);
        t->bytes = one->tensor.bytes;
        t->packing = packing_of(p, one);
    }
    return KVG_OK;
}

static kvg_pack_compare compare_of(const kvg_problem *p, kvg_side side)
{
    if (kvg_op_attends(p->op)) return KVG_PACK_BOUND;
    return p->op == KVG_OP_QUANTISE && kvg_case_by_value(&p->storage[side]) ? KVG_PACK_RULE : KVG_PACK_BITS;
}

static const kvg_pack_tensor *judge(const kvg_pack_case *c, const char *name, const char *suffix)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", name, suffix);
    return kvg_pack_tensor_find(c->expected, c->expected_count, whole);
}

static kvg_status describe_answers(kvg_pack *pack, const kvg_case *c, kvg_pack_case *out)
{
    const kvg_problem *p = &c->problem;
    item items[KVG_PACK_MAX_TENSORS];
    kvg_pack_tensor *outputs;
    size_t count = 0;
    add_roles(c, kvg_op_get(p->op)->outputs, NULL, items, &count);
    kvg_status s = describe_list(pack, out, p, items, count, &outputs);
    out->answer = kvg_pack_alloc(pack, count, sizeof *out->answer);
    if (!out->answer) return KVG_ERR_MEMORY;
    out->answer_count = count;
    for (size_t i = 0; i < count && !s; i++) {
        const kvg_pack_tensor *t = &outputs[i];
        kvg_pack_answer *a = &out->answer[i];
        *a = (kvg_pack_answer){.name = t->name, .short_name = t->short_name, .dtype = t->dtype, .rank = t->rank,
                               .bytes = t->bytes, .compare = compare_of(p, items[i].side)};
        memcpy(a->shape, t->shape, sizeof a->shape);
        if (p->profile != KVG_PROFILE_NONE) a->profile = kvg_profile_get(p->profile)->name;
        a->expected = judge(out, t->short_name, "");
        a->exact = judge(out, t->short_name, ".exact");
        a->bound = judge(out, t->short_name, ".bound");
    }
    return s;
}

kvg_status kvg_golden_describe(kvg_pack *pack, size_t index, const kvg_case *c, kvg_pack_case *out)
{
    item items[KVG_PACK_MAX_TENSORS];
    kvg_json_text text = {0};
    char key[24];
    snprintf(key, sizeof key, "%04zu", index);
    out->key = kvg_pack_keep(pack, key);
    out->id = kvg_pack_keep(pack, c->id);
    kvg_status s = kvg_config_line(c, &text);
    if (!s) out->text = kvg_pack_keep(pack, text.text);
    kvg_json_text_free(&text);
    if (!s && !(out->key && out->id && out->text)) s = KVG_ERR_MEMORY;
    if (s) return s;
    out->layer = c->problem.paging.layer;
    out->prompt_count = prompt_items(c, NULL, items);
    s = describe_list(pack, out, &c->problem, items, out->prompt_count, &out->prompt);
    if (s) return s;
    out->expected_count = expected_items(c, NULL, items);
    s = describe_list(pack, out, &c->problem, items, out->expected_count, &out->expected);
    return s ? s : describe_answers(pack, c, out);
}

void kvg_golden_give_data(const kvg_golden_case *made, kvg_pack_case *out)
{
    item items[KVG_PACK_MAX_TENSORS];
    for (size_t i = 0, n = prompt_items(made->c, made, items); i < n; i++) out->prompt[i].data = items[i].tensor.data;
    for (size_t i = 0, n = expected_items(made->c, made, items); i < n; i++) {
        out->expected[i].data = items[i].tensor.data;
    }
}

/* --- computing --- */

kvg_status kvg_golden_case_make(const kvg_case *c, kvg_golden_case *out)
{
    out->c = c;
    out->has_data = true;
    kvg_status s = kvg_question_make(c, &out->data);
    if (!s) s = kvg_know(&out->data, &out->truth);
    return s ? kvg_fail_in(s, "%s", c->id) : KVG_OK;
}

kvg_status kvg_golden_separation(const kvg_golden_case *made, kvg_pack_separation *out)
{
    kvg_known_wrong known;
    const kvg_separation *separation = &known.separation;
    char doubt[KVG_DOUBT_TEXT];
    kvg_status s = kvg_known_wrong_try(&made->truth, NULL, KVG_OFFER_CONTROLS, NULL, &known);
    if (s) return kvg_fail_in(s, "%s", made->c->id);
    if (!kvg_known_wrong_tells(&known, doubt)) {
        return kvg_fail(KVG_ERR_INVALID, "%s: a pack takes no case that a wrong answer passes: %s", made->c->id,
                        doubt);
    }
    *out = (kvg_pack_separation){0};
    if (separation->nearest) {
        *out = (kvg_pack_separation){true, separation->by_bits, separation->least, separation->nearest->id};
    }
    return KVG_OK;
}

void kvg_golden_case_free(kvg_golden_case *c)
{
    if (c->has_data) {
        kvg_truth_free(&c->truth);
        kvg_question_free(&c->data);
    }
    kvg_config_close(&c->config);
    *c = (kvg_golden_case){0};
}

/* --- from a pack --- */

/* What a line of a pack may say: no file of this machine, and one case. */
static kvg_status check_line(const kvg_pack *pack, const kvg_pack_case *from)
{
    static const char *const keys[] = {
        "op", "format", "policy", "dialect", "layout", "dtype", "kv_heads", "head_dim", "tokens", "block_tokens",
        "blocks", "layers", "sequences", "lengths", "shared_prefix", "unowned", "padding", "v_scale_swizzle",
        "shared_kv", "rope", "bias", "group", "queries", "window", "softcap", "score_scale", "sinks", "profile",
        "operands", "answers", "fill", "scale",
    };
    char name[128];
    kvg_json_doc *doc = NULL;
    snprintf(name, sizeof name, "pack %s, case %s", pack->name, from->key);
    kvg_status s = kvg_json_parse(name, from->text, strlen(from->text), &doc);
    if (!s) s = kvg_json_check_keys(kvg_json_root(doc), keys, sizeof keys / sizeof keys[0]);
    if (!s) {
        const char *word;
        s = kvg_json_get_string(kvg_json_root(doc), "fill", &word);
    }
    kvg_json_close(doc);
    return s;
}

kvg_status kvg_golden_case_parse(const kvg_pack *pack, const kvg_pack_case *from, kvg_golden_case *out)
{
    kvg_json_text t = {0};
    char name[128];
    *out = (kvg_golden_case){0};
    kvg_status s = check_line(pack, from);
    if (s) return s;
    kvg_json_add(&t, "{\"kvgold\": 1, \"name\": \"%s\", \"seed\": \"0x%" PRIx64 "\", \"cases\": [%s]}", pack->name,
                 pack->seed, from->text);
    s = kvg_json_text_check(&t);
    snprintf(name, sizeof name, "pack %s, case %s", pack->name, from->key);
    if (!s) s = kvg_config_parse(name, t.text, t.size, ".", NULL, &out->config);
    kvg_json_text_free(&t);
    if (s) return s;
    out->c = out->config.cases;
    if (out->config.case_count != 1 || strcmp(out->c->id, from->id) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "%s: its config line gives %zu cases, the first %s, not %s", name,
                        out->config.case_count, out->c->id, from->id);
    }
    kvg_paging *g = &out->config.cases[0].problem.paging;
    const uint32_t layers = kvg_layout_get(out->c->problem.layout)->paged ? g->layers : 1;
    if (from->layer >= layers) {
        return kvg_fail(KVG_ERR_INVALID, "%s: layer %u is none of its %u, which count from 0", name, from->layer,
                        layers);
    }
    g->layer = from->layer;
    return KVG_OK;
}

static kvg_status compare_list(const kvg_pack *pack, const kvg_pack_tensor *stored, size_t stored_count,
                               const kvg_pack_tensor *made, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const kvg_pack_tensor *a = i < stored_count ? &stored[i] : NULL, *b = &made[i];
        if (!a || strcmp(a->name, b->name) != 0 || strcmp(a->dtype, b->dtype) != 0 || a->bytes != b->bytes) {
            return kvg_fail(KVG_ERR_INVALID, "pack %s: %s stands where its case has %s", pack->name,
                            a ? a->name : "nothing", b->name);
        }
        kvg_sha256_digest digest;
        kvg_sha256_of(b->data, b->bytes, &digest);
        if (kvg_sha256_same(&digest, &a->sha256)) continue;
        const uint8_t *was = a->data, *is = b->data;
        size_t at = 0;
        while (was && at < a->bytes && was[at] == is[at]) at++;
        if (!was || at == a->bytes) {
            return kvg_fail(KVG_ERR_INVALID, "pack %s: %s has another SHA-256 when computed", pack->name, b->name);
        }
        return kvg_fail(KVG_ERR_INVALID, "pack %s: %s differs when computed: byte %zu is 0x%02x, stored 0x%02x",
                        pack->name, b->name, at, is[at], was[at]);
    }
    return count == stored_count ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "pack %s: has tensor %s, which its case has not",
                                                     pack->name, stored[count].name);
}

kvg_status kvg_golden_compare(const kvg_pack *pack, const kvg_pack_case *stored, const kvg_pack_case *made)
{
    kvg_status s = compare_list(pack, stored->prompt, stored->prompt_count, made->prompt, made->prompt_count);
    return s ? s : compare_list(pack, stored->expected, stored->expected_count, made->expected, made->expected_count);
}

kvg_status kvg_golden_case_open(const kvg_pack *pack, const kvg_pack_case *from, kvg_golden_case *out)
{
    kvg_pack *scratch = NULL;
    kvg_pack_case made = {0};
    kvg_status s = kvg_golden_case_parse(pack, from, out);
    if (!s) s = kvg_golden_case_make(out->c, out);
    if (!s) s = kvg_pack_new(&scratch);
    if (!s) s = kvg_golden_describe(scratch, (size_t)(from - pack->cases), out->c, &made);
    if (!s) {
        kvg_golden_give_data(out, &made);
        s = kvg_golden_compare(pack, from, &made);
    }
    kvg_pack_close(scratch);
    return s;
}

int kvg_golden_case_output(const kvg_golden_case *c, const char *short_name)
{
    const kvg_role *roles = kvg_op_get(c->c->problem.op)->outputs;
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        if (strcmp(kvg_tensor_name(role, side), short_name) == 0) return (int)i;
    }
    return -1;
}
