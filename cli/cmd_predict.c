#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "golden/golden.h"
#include "reference/attention_profile.h"
#include "support/tensor_set.h"

/* The tensors of a question's file; those that may lack are NULL. */
typedef struct question {
    const char *path;
    kvg_safetensors *file;
    const kvg_safetensors_entry *q, *k, *v, *lengths, *sinks;
} question;

static kvg_status find_tensors(question *x)
{
    const struct {
        const char *name, *dtype; /* dtype NULL: F16 or BF16 */
        uint32_t rank;
        const kvg_safetensors_entry **to;
    } wanted[] = {{"q", NULL, 4, &x->q},          {"k", NULL, 4, &x->k}, {"v", NULL, 4, &x->v},
                  {"lengths", "I32", 1, &x->lengths}, {"sinks", "F32", 1, &x->sinks}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const kvg_safetensors_entry *e = NULL;
        for (size_t n = 0; n < kvg_safetensors_count(x->file) && !e; n++) {
            e = kvg_safetensors_at(x->file, n);
            if (strcmp(e->name, wanted[i].name) != 0) e = NULL;
        }
        *wanted[i].to = e;
        if (!e && wanted[i].dtype) continue;
        if (!e) return kvg_fail(KVG_ERR_INVALID, "%s has no tensor %s", x->path, wanted[i].name);
        const char *dtype = wanted[i].dtype ? wanted[i].dtype : strcmp(x->q->dtype, "F16") == 0 ? "F16" : "BF16";
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
static kvg_status check_shapes(const question *x)
{
    const uint64_t *q = x->q->shape, *k = x->k->shape;
    const char *wrong = NULL; /* the last one that holds is said */
    if (x->sinks && x->sinks->shape[0] != q[2]) wrong = "sinks must have one number for each query head";
    if (x->lengths && x->lengths->shape[0] != q[0]) wrong = "lengths must have one number for each sequence";
    if (k[2] == 0 || q[2] % k[2]) wrong = "the query heads of q are no multiple of the KV heads of k";
    if (q[3] != k[3]) wrong = "q and k have different numbers of dims";
    if (q[0] != k[0]) wrong = "q and k have different numbers of sequences";
    if (memcmp(k, x->v->shape, 4 * sizeof *k) != 0) wrong = "k and v have different shapes";
    return wrong ? kvg_fail(KVG_ERR_INVALID, "%s: %s", x->path, wrong) : KVG_OK;
}

/* Op decode over a cache in which every sequence is one page. */
static kvg_problem problem_of(const question *x, const kvg_arguments *a)
{
    const uint64_t *q = x->q->shape, *k = x->k->shape;
    const kvg_dtype type = strcmp(x->q->dtype, "F16") == 0 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
    const kvg_storage storage = {kvg_format_of_dtype(type), "canonical"};
    return (kvg_problem){
        .op = KVG_OP_DECODE,
        .layout = KVG_LAYOUT_NHD,
        .dtype = type,
        .storage = {storage, storage},
        .tokens = (uint32_t)k[1],
        .kv_heads = (uint32_t)k[2],
        .head_dim = (uint32_t)k[3],
        .paging = {.layers = 1, .blocks = (uint32_t)k[0], .block_tokens = (uint32_t)k[1], .sequences = (uint32_t)k[0]},
        .attention = {.query_heads = (uint32_t)q[2],
                      .queries = (uint32_t)(q[0] * q[1]),
                      .window = (uint32_t)kvg_given_number(a, KVG_OPTION_PREDICT_WINDOW, 0),
                      .scale = (float)kvg_given_real(a, KVG_OPTION_PREDICT_SCALE, 0),
                      .softcap = (float)kvg_given_real(a, KVG_OPTION_PREDICT_SOFTCAP, 0),
                      .sinks = x->sinks != NULL},
        .profile = (kvg_profile)kvg_given_number(a, KVG_OPTION_PREDICT_PROFILE, KVG_PROFILE_NONE),
    };
}

static void copy(const kvg_safetensors_entry *from, kvg_tensor_set *to, kvg_role role, kvg_side side)
{
    if (from) memcpy(kvg_set_tensor(to, role, side)->data, from->data, from->bytes);
}

static void fill(const question *x, kvg_tensor_set *in)
{
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

/* out as q, [sequences, tokens, query heads, dim]; lse without the dim. */
static kvg_status write_answer(const char *path, const question *x, const char *profile, const kvg_tensor_set *out)
{
    kvg_safetensors_writer *w;
    FILE *file = NULL;
    kvg_status s = kvg_safetensors_writer_make(&w);
    if (s) return s;
    s = kvg_safetensors_writer_note(w, "profile", profile);
    if (!s) s = kvg_safetensors_writer_declare(w, "out", x->q->dtype, 4, x->q->shape);
    if (!s) s = kvg_safetensors_writer_declare(w, "lse", "F32", 3, x->q->shape);
    if (!s && !(file = fopen(path, "wb"))) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (!s) s = kvg_safetensors_writer_begin(w, file);
    for (size_t i = 0; i < out->count && !s; i++) {
        s = kvg_safetensors_writer_put(w, out->tensors[i].data, out->tensors[i].bytes);
    }
    if (file && fclose(file) != 0 && !s) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    kvg_safetensors_writer_free(w);
    return s;
}

static kvg_status predict(question *x, const kvg_arguments *a)
{
    kvg_tensor_set in = {0}, out = {0};
    kvg_status s = find_tensors(x);
    if (!s) s = check_shapes(x);
    if (s) return s;
    const kvg_problem p = problem_of(x, a);
    s = kvg_problem_check(&p);
    if (!s) s = kvg_set_alloc(&p, kvg_op_get(p.op)->inputs, &in);
    if (!s) s = kvg_set_alloc(&p, kvg_op_get(p.op)->outputs, &out);
    if (!s) {
        fill(x, &in);
        const uint32_t splits = (uint32_t)kvg_given_number(a, KVG_OPTION_PREDICT_SPLITS, 1);
        s = kvg_attention_in_splits(&p, splits, in.tensors, out.tensors);
    }
    if (!s) {
        s = write_answer(kvg_given_text(a, KVG_OPTION_PREDICT_OUTPUT, NULL), x, kvg_profile_get(p.profile)->name, &out);
    }
    kvg_set_free(&in);
    kvg_set_free(&out);
    return s;
}

int kvg_command_predict(const kvg_arguments *a)
{
    if (a->file_count != 1) return kvg_command_usage("predict", "give one file with q, k and v");
    if (!kvg_given(a, KVG_OPTION_PREDICT_PROFILE)) return kvg_command_usage("predict", "whose bits? --profile NAME");
    if (!kvg_given(a, KVG_OPTION_PREDICT_OUTPUT)) return kvg_command_usage("predict", "where to? --output FILE");
    question x = {.path = a->files[0]};
    kvg_status s = kvg_safetensors_open(x.path, &x.file);
    if (!s) s = predict(&x, a);
    kvg_safetensors_close(x.file);
    return s ? kvg_command_fail("predict", s) : KVG_EXIT_PASS;
}
