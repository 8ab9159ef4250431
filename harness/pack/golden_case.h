/* A case of a golden pack as the harness knows cases: parsed from its config line, with the data
 * that follows from it. The bytes that a pack stores are compared with the bytes that are computed
 * here. */
#ifndef KVG_HARNESS_PACK_GOLDEN_CASE_H
#define KVG_HARNESS_PACK_GOLDEN_CASE_H

#include "golden/golden.h"
#include "harness/config/config.h"
#include "harness/trial/judge/judge_decode.h"
#include "harness/trial/question/question.h"

/* A parsed case and its data, without pointers into the pack. */
typedef struct kvg_golden_case {
    kvg_config config;       /* a config with this one case; it owns what the case points to */
    const kvg_case *c;       /* config.cases[0] */
    kvg_question data;       /* inputs, and the bytes of outputs before the op */
    kvg_truth truth;         /* op decode without a profile: the reference's answer is exact, rounded */
    bool has_data;
} kvg_golden_case;

/* Parses the config line of a pack's case and computes nothing. KVG_ERR_INVALID if the line gives
 * another number of cases than one, or another id than the pack's. Call kvg_golden_case_free at the
 * end, also on failure. */
kvg_status kvg_golden_case_parse(const kvg_pack *pack, const kvg_pack_case *from, kvg_golden_case *out) KVG_CHECKED;

/* As kvg_golden_case_parse, then computes inputs and answers. KVG_ERR_INVALID if one of them
 * differs from the pack's digest: the text names the tensor and, in a stored case, the first wrong
 * byte. */
kvg_status kvg_golden_case_open(const kvg_pack *pack, const kvg_pack_case *from, kvg_golden_case *out) KVG_CHECKED;
void kvg_golden_case_free(kvg_golden_case *c);

/* The index in the op's outputs of the pack's answer ("k_data", "out"); -1 if it is no output. */
int kvg_golden_case_output(const kvg_golden_case *c, const char *short_name);

/* A kvg_dtype as safetensors writes it, and back; KVG_ERR_NOT_FOUND. */
const char *kvg_golden_dtype(kvg_dtype dtype);
kvg_status kvg_golden_dtype_find(const char *name, kvg_dtype *out) KVG_CHECKED;

#endif
