/* Rows of harness/trial/wrong/defects.def under a whole model: who answers ops append and decode wrongly in one way,
 * all else as the reference does. docs/spec/generate.md section 8 lists those that configs plant. */
#ifndef KVG_MODEL_GENERATE_DEFECT_PLANTED_H
#define KVG_MODEL_GENERATE_DEFECT_PLANTED_H

#include "harness/trial/wrong/defect_run.h"

/* A defect in one of the two ops: in decode where the row applies there, else in append. Both at once would agree with
 * each other, as a wrong scale does that writer and reader share. */
typedef struct kvg_planted {
    const kvg_defect *defect;
    unsigned sides; /* bits of KVG_BOTH_SIDES */
} kvg_planted;

/* "stale_tail_page", or "scales_shifted:k" and ":v" for one side. KVG_ERR_NOT_FOUND. */
kvg_status kvg_planted_find(const char *name, kvg_planted *out) KVG_CHECKED;

/* Whether it changes some layer of a model with these two problems. */
bool kvg_planted_applies(const kvg_planted *planted, const kvg_problem *problem);

/* A `run` of kvg_model_setup; `planted` is a kvg_planted. Three rows of the harness's plain kernel are done in the
 * arithmetic of the problem's profile here, so that their bits can be compared: window_short, sink_per_split (two
 * splits) and prefix_scales_lost (of one side's rows, in a chunk that has earlier keys). */
kvg_status kvg_planted_run(void *planted, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);

#endif
