#include "cli/question_file.h"

#include <string.h>

/* K and V in e4m3, as the file names the type. */
static const char BYTES[] = "F8_E4M3";

static kvg_status find_tensors(kvg_question_file *x, uint32_t v_dim)
{
    const struct {
        const char *name, *dtype; /* dtype NULL: F16 or BF16 */
        uint32_t rank;
        bool optional;
        const kvg_safetensors_entry **to;
    } wanted[] = {{"q", NULL, 4, false, &x->q},
                  {"k", NULL, 4, false, &x->k},
                  {"v", NULL, 4, v_dim > 0, &x->v},
                  {"lengths", "I32", 1, true, &x->lengths},
                  {"sinks", "F32", 1, true, &x->sinks}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const kvg_safetensors_entry *e = NULL;
        const kvg_status found = kvg_safetensors_find(x->file, wanted[i].name, &e);
        *wanted[i].to = e;
        if (!e && wanted[i].optional) continue;
        if (!e) return found;
        const char *model = strcmp(x->q->dtype, "F16") == 0 ? "F16" : "BF16";
        const bool bytes = e != x->q && !wanted[i].dtype && strcmp(x->k ? x->k->dtype : e->dtype, BYTES) == 0;
        const char *dtype = wanted[i].dtype ? wanted[i].dtype : bytes ? BYTES : model;
        if (e->rank != wanted[i].rank || strcmp(e->dtype, dtype) != 0) {
            return kvg_fail(KVG_ERR_INVALID, "%s: %s is %s with %u dimensions, not %s with %u", x->path, e->name,
                            e->dtype, e->rank, dtype, wanted[i].rank);
        }
        for (uint32_t d = 0; d < e->rank; d++) {
            if (e->shape[d] > INT32_MAX) return kvg_fail(KVG_ERR_INVALID, "%s: %s is too large", x->path, e->name);
        }
    }
    return KVG_OK;
}

/* [sequences, tokens, query heads, dim], [sequences, positions, KV heads, dim], [sequences], [query heads] */
static kvg_status check_shapes(const kvg_question_file *x, uint32_t v_dim)
{
    const uint64_t *q = x->q->shape, *k = x->k->shape;
    const char *wrong = NULL; /* the last one that holds is said */
    if (x->sinks && x->sinks->shape[0] != q[2]) wrong = "sinks must have one number for each query head";
    if (x->lengths && x->lengths->shape[0] != q[0]) wrong = "lengths must have one number for each sequence";
    if (k[2] == 0 || q[2] % k[2]) wrong = "the query heads of q are no multiple of the KV heads of k";
    if (q[3] != k[3]) wrong = "q and k have different numbers of dims";
    if (q[0] != k[0]) wrong = "q and k have different numbers of sequences";
    if (x->v && v_dim) wrong = "has v, and a v_dim says that k's rows hold V";
    if (x->v && memcmp(k, x->v->shape, 4 * sizeof *k) != 0) wrong = "k and v have different shapes";
    return wrong ? kvg_fail(KVG_ERR_INVALID, "%s: %s", x->path, wrong) : KVG_OK;
}

/* Op decode over a cache in which every sequence is one page. */
static kvg_status make_problem(kvg_question_file *x, const kvg_question_options *o)
{
    const uint64_t *q = x->q->shape, *k = x->k->shape;
    const kvg_dtype type = strcmp(x->q->dtype, "F16") == 0 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
    kvg_storage storage = {kvg_format_of_dtype(type), "canonical"};
    kvg_status s = strcmp(x->k->dtype, BYTES) == 0 ? kvg_format_find("e4m3", &storage.format) : KVG_OK;
    if (s) return s;
    memcpy(x->out_shape, q, sizeof x->out_shape);
    if (o->v_dim) x->out_shape[3] = o->v_dim;
    x->problem = (kvg_problem){
        .op = KVG_OP_DECODE,
        .layout = o->v_dim ? KVG_LAYOUT_MLA : KVG_LAYOUT_NHD,
        .dtype = type,
        .storage = {storage, storage},
        .tokens = (uint32_t)k[1],
        .kv_heads = (uint32_t)k[2],
        .head_dim = (uint32_t)k[3],
        .paging = {.layers = 1, .blocks = (uint32_t)k[0], .block_tokens = (uint32_t)k[1], .sequences = (uint32_t)k[0],
                   .shared_kv = o->v_dim > 0, .v_dim = o->v_dim},
        .attention = {.query_heads = (uint32_t)q[2],
                      .queries = (uint32_t)(q[0] * q[1]),
                      .window = o->window,
                      .scale = o->scale,
                      .softcap = o->softcap,
                      .sinks = x->sinks != NULL},
        .profile = o->profile,
    };
    return kvg_problem_check(&x->problem);
}

static void copy(const kvg_safetensors_entry *from, const kvg_tensor_set *to, kvg_role role, kvg_side side)
{
    if (from) memcpy(kvg_set_tensor(to, role, side)->data, from->data, from->bytes);
}

static void fill(const kvg_question_file *x, const kvg_question_options *o, const kvg_tensor_set *in)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *scale = kvg_set_tensor(in, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        if (scale && scale->bytes) memcpy(scale->data, &o->tensor_scale[side], sizeof o->tensor_scale[side]);
    }
    int32_t *table = kvg_set_tensor(in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    int32_t *lengths = kvg_set_tensor(in, KVG_ROLE_LENGTHS, KVG_K)->data;
    int32_t *tokens = kvg_set_tensor(in, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data;
    for (int32_t s = 0; s < (int32_t)x->q->shape[0]; s++) {
        table[s] = s;
        lengths[s] = (int32_t)x->k->shape[1];
        tokens[s] = (int32_t)x->q->shape[1];
    }
    copy(x->q, in, KVG_ROLE_Q, KVG_K);
    copy(x->k, in, KVG_ROLE_DATA_POOL, KVG_K);
    copy(x->v, in, KVG_ROLE_DATA_POOL, KVG_V);
    copy(x->lengths, in, KVG_ROLE_LENGTHS, KVG_K);
    copy(x->sinks, in, KVG_ROLE_SINKS, KVG_K);
}

kvg_status kvg_question_file_open(const char *path, const kvg_question_options *options, kvg_question_file *out)
{
    *out = (kvg_question_file){.path = path};
    kvg_status s = kvg_safetensors_open(path, &out->file);
    if (!s) s = find_tensors(out, options->v_dim);
    if (!s) s = check_shapes(out, options->v_dim);
    if (!s) s = make_problem(out, options);
    if (!s) s = kvg_set_alloc(&out->problem, kvg_op_get(KVG_OP_DECODE)->inputs, &out->in);
    if (!s) s = kvg_set_alloc(&out->problem, kvg_op_get(KVG_OP_DECODE)->outputs, &out->out);
    if (!s) fill(out, options, &out->in);
    return s;
}

void kvg_question_file_close(kvg_question_file *x)
{
    kvg_safetensors_close(x->file);
    kvg_set_free(&x->in);
    kvg_set_free(&x->out);
}
