/* A case of a golden pack, as the harness knows cases: parsed from its config line, with the data that follows from it.
 * What a pack stores is held against what is computed here. */
#ifndef KVG_HARNESS_PACK_GOLDEN_CASE_H
#define KVG_HARNESS_PACK_GOLDEN_CASE_H

#include "golden/golden.h"
#include "harness/config/config.h"
#include "harness/trial/judge/judge_decode.h"
#include "harness/trial/question/question.h"

/* A parsed case and its data. Nothing of it points into the pack. */
typedef struct kvg_golden_case {
    kvg_config config;       /* of this one case: owns what it points to */
    const kvg_case *c;       /* config.cases[0] */
    kvg_question data;       /* inputs, and what outputs hold before */
    kvg_truth truth;         /* op decode without a profile: the reference's answer is exact, rounded */
    bool has_data;
} kvg_golden_case;

/* Parses the config line of a pack's case; nothing is computed. KVG_ERR_INVALID if it is not exactly one case, or not
 * of the id that the pack says. On failure, and at the end, kvg_golden_case_free. */
kvg_status kvg_golden_case_parse(const kvg_pack *pack, const kvg_pack_case *from, kvg_golden_case *out) KVG_CHECKED;

/* The same, then computes its inputs and answers. KVG_ERR_INVALID if any of them differs from the pack's digests:
 * names the tensor and, of a stored case, the first byte. */
kvg_status kvg_golden_case_open(const kvg_pack *pack, const kvg_pack_case *from, kvg_golden_case *out) KVG_CHECKED;
void kvg_golden_case_free(kvg_golden_case *c);

/* The index of an answer of the pack ("k_data", "out") in the op's outputs; -1 if it is none. */
int kvg_golden_case_output(const kvg_golden_case *c, const char *short_name);

/* A kvg_dtype as safetensors writes it, and back; KVG_ERR_NOT_FOUND. */
const char *kvg_golden_dtype(kvg_dtype dtype);
kvg_status kvg_golden_dtype_find(const char *name, kvg_dtype *out) KVG_CHECKED;

#endif
