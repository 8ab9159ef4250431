/* Plants a row of harness/trial/wrong/defects.def under a whole model: ops append and decode are
 * wrong in one way, and everything else is right. docs/spec/generate.md section 8 lists the defects
 * that configs plant. */
#ifndef KVG_MODEL_GENERATE_DEFECT_PLANTED_H
#define KVG_MODEL_GENERATE_DEFECT_PLANTED_H

#include "harness/trial/wrong/defect_run.h"

/* A defect in one of the two ops: in decode if the row applies there, else in append. A defect in
 * both would agree with itself: if writer and reader share a wrong scale, the answer is right. */
typedef struct kvg_planted {
    const kvg_defect *defect;
    unsigned sides; /* bits of KVG_BOTH_SIDES */
} kvg_planted;

/* Finds a defect by its name: "stale_tail_page", or "scales_shifted:k" and "scales_shifted:v" for
 * one side. KVG_ERR_NOT_FOUND. */
kvg_status kvg_planted_find(const char *name, kvg_planted *out) KVG_CHECKED;

/* True if the defect changes some layer of a model with these two problems. */
bool kvg_planted_applies(const kvg_planted *planted, const kvg_problem *problem);

/* A `run` function for kvg_model_setup; `planted` is a kvg_planted. Three rows run here in the
 * arithmetic of the problem's profile, not in that of the harness's plain kernel, so that their
 * bits can be compared: window_short, sink_per_split (two splits) and prefix_scales_lost (rows of
 * one side, in a chunk that has earlier keys). */
kvg_status kvg_planted_run(void *planted, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);

#endif
