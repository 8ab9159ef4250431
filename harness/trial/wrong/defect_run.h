/* The reference under known-wrong changes: one row of harness/trial/wrong/defects.def, or several at once. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECT_RUN_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECT_RUN_H

#include "harness/trial/wrong/defects.h"

enum { KVG_SIDE_K = 1 << KVG_K, KVG_SIDE_V = 1 << KVG_V, KVG_BOTH_SIDES = KVG_SIDE_K | KVG_SIDE_V };

/* A defect on some of the sides that it applies to. */
typedef struct kvg_wrong {
    const kvg_defect *defect;
    unsigned sides;
    uint32_t tile, splits; /* of the plain kernel, for its defects; 0: as kvg_flash_init has them */
} kvg_wrong;

/* What the reference runs on instead: a problem and inputs. `same`: neither differs. */
typedef struct kvg_wrong_inputs {
    kvg_problem problem;
    kvg_tensor in[KVG_MAX_TENSORS];
    bool copied[KVG_MAX_TENSORS]; /* in[i] is a copy; else it is the problem's own tensor, which no defect changes */
    size_t inputs;
    bool same;
} kvg_wrong_inputs;

/* `count` defects, each of which applies, in the order given. KVG_ERR_UNIMPLEMENTED: they make no problem together. On
 * success kvg_wrong_inputs_free. */
kvg_status kvg_wrong_apply(const kvg_wrong *wrongs, size_t count, const kvg_problem *problem, const kvg_tensor *in,
                           kvg_wrong_inputs *out) KVG_CHECKED;
void kvg_wrong_inputs_free(kvg_wrong_inputs *inputs);

/* What comes out of such inputs, before the defects change it: of op decode `wanted` says for which rows, as
 * kvg_attention_answer has it; NULL: all. `kept` as kvg_flash has it, for inputs that are the same. */
kvg_status kvg_wrong_answer(const kvg_wrong *wrongs, size_t count, const kvg_wrong_inputs *inputs, const bool *wanted,
                            struct kvg_flash_kept *kept, kvg_tensor *out) KVG_CHECKED;

/* The defects change what came out of `inputs`, which were made from `problem` and `in`. */
kvg_status kvg_wrong_change(const kvg_wrong *wrongs, size_t count, const kvg_problem *problem, const kvg_tensor *in,
                            kvg_wrong_inputs *inputs, kvg_tensor *out) KVG_CHECKED;

/* Runs the reference under them. Inputs stay as they are; `out` must be allocated, and hold what an op that updates in
 * place starts from. */
kvg_status kvg_wrong_run(const kvg_wrong *wrongs, size_t count, const kvg_problem *problem, const kvg_tensor *in,
                         kvg_tensor *out) KVG_CHECKED;

/* The same of op decode, by a plain kernel whatever the defects: `kernel` with those of harness/trial/wrong/flash.h
 * added. */
kvg_status kvg_wrong_run_on(const kvg_flash *kernel, const kvg_wrong *wrongs, size_t count, const kvg_problem *problem,
                            const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

/* Whether some of them is a variant of the plain kernel of harness/trial/wrong/flash.h. */
bool kvg_wrong_is_flash(const kvg_wrong *wrongs, size_t count);

/* Whether some of them changes what comes out, whatever went in. */
bool kvg_wrong_changes_outputs(const kvg_wrong *wrongs, size_t count, kvg_op op);

#endif
