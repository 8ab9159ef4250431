/* The file of `kvgold predict` and `kvgold which`: q, k and v as safetensors, and op decode over them. */
#ifndef KVG_CLI_QUESTION_FILE_H
#define KVG_CLI_QUESTION_FILE_H

#include "golden/golden.h"
#include "support/tensor_set.h"

/* How the rows of the file are asked for. */
typedef struct kvg_question_options {
    kvg_profile profile;
    uint32_t window; /* 0: all keys */
    uint32_t v_dim;  /* 0: the file has v; else V is so many numbers at the front of k's rows */
    float scale, softcap;
    float tensor_scale[2]; /* of K and V in e4m3 */
} kvg_question_options;

typedef struct kvg_question_file {
    const char *path;
    kvg_safetensors *file;
    const kvg_safetensors_entry *q, *k, *v, *lengths, *sinks; /* v, lengths and sinks may be NULL */
    uint64_t out_shape[4];
    kvg_problem problem;                                      /* every sequence is one page */
    kvg_tensor_set in, out;                                   /* the tensors of op decode */
} kvg_question_file;

/* Reads the file, which must have tensors as `kvgold predict --help` says. KVG_ERR_INVALID names what is wrong. At the
 * end, and on an error, kvg_question_file_close. */
kvg_status kvg_question_file_open(const char *path, const kvg_question_options *options,
                                  kvg_question_file *out) KVG_CHECKED;
void kvg_question_file_close(kvg_question_file *x);

#endif
