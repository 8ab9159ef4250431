#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/question_file.h"
#include "reference/attention_profile.h"

/* out as q, [sequences, tokens, query heads, dim of V]; lse without the dim, if the kernel gives one. */
static kvg_status write_answer(const char *path, const kvg_question_file *x)
{
    const bool gives_lse = kvg_profile_gives_lse(kvg_profile_get(x->problem.profile));
    kvg_safetensors_writer *w;
    FILE *file = NULL;
    kvg_status s = kvg_safetensors_writer_make(&w);
    if (s) return s;
    s = kvg_safetensors_writer_note(w, "profile", kvg_profile_get(x->problem.profile)->name);
    if (!s) s = kvg_safetensors_writer_declare(w, "out", x->q->dtype, 4, x->out_shape);
    if (!s && gives_lse) s = kvg_safetensors_writer_declare(w, "lse", "F32", 3, x->q->shape);
    if (!s && !(file = fopen(path, "wb"))) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (!s) s = kvg_safetensors_writer_begin(w, file);
    const kvg_tensor *out = kvg_set_tensor(&x->out, KVG_ROLE_OUT, KVG_K);
    const kvg_tensor *lse = kvg_set_tensor(&x->out, KVG_ROLE_LSE, KVG_K);
    if (!s) s = kvg_safetensors_writer_put(w, out->data, out->bytes);
    if (!s && gives_lse) s = kvg_safetensors_writer_put(w, lse->data, lse->bytes);
    if (file && fclose(file) != 0 && !s) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    kvg_safetensors_writer_free(w);
    return s;
}

int kvg_command_predict(const kvg_arguments *a)
{
    if (a->file_count != 1) return kvg_command_usage("predict", "give one file with q, k and v");
    if (!kvg_given(a, KVG_OPTION_PREDICT_PROFILE)) return kvg_command_usage("predict", "whose bits? --profile NAME");
    if (!kvg_given(a, KVG_OPTION_PREDICT_OUTPUT)) return kvg_command_usage("predict", "where to? --output FILE");
    const kvg_argument *scales = kvg_given(a, KVG_OPTION_PREDICT_KV_SCALE);
    const kvg_question_options options = {
        .profile = (kvg_profile)kvg_given_number(a, KVG_OPTION_PREDICT_PROFILE, KVG_PROFILE_NONE),
        .window = (uint32_t)kvg_given_number(a, KVG_OPTION_PREDICT_WINDOW, 0),
        .scale = (float)kvg_given_real(a, KVG_OPTION_PREDICT_SCALE, 0),
        .softcap = (float)kvg_given_real(a, KVG_OPTION_PREDICT_SOFTCAP, 0),
        .v_dim = (uint32_t)kvg_given_number(a, KVG_OPTION_PREDICT_V_DIM, 0),
        .tensor_scale = {scales ? (float)scales->reals[KVG_K] : 1, scales ? (float)scales->reals[KVG_V] : 1},
    };
    const kvg_walk walk = {
        .splits = (uint32_t)kvg_given_number(a, KVG_OPTION_PREDICT_SPLITS, 1),
        .piece = (uint32_t)kvg_given_number(a, KVG_OPTION_PREDICT_SPLIT_SIZE, 0),
        .scale = kvg_given_real(a, KVG_OPTION_PREDICT_SCALE, 0),
    };
    kvg_question_file x;
    kvg_status s = kvg_question_file_open(a->files[0], &options, &x);
    if (!s) s = kvg_attention_walk(&x.problem, &walk, x.in.tensors, x.out.tensors);
    if (!s) s = write_answer(kvg_given_text(a, KVG_OPTION_PREDICT_OUTPUT, NULL), &x);
    kvg_question_file_close(&x);
    return s ? kvg_command_fail("predict", s) : KVG_EXIT_PASS;
}
