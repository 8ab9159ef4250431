/* Separation of a case of op decode: how far its nearest known-wrong answer is from what a right implementation may
 * give. A case whose separation is too small cannot tell right from wrong, however many candidates pass it. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_SEPARATION_H
#define KVG_HARNESS_TRIAL_JUDGE_SEPARATION_H

#include "harness/trial/judge/truth.h"
#include "harness/trial/wrong/defects.h"
#include "harness/trial/wrong/flash_rows.h"

enum { KVG_SEPARATION_TEXT = 256 };

/* Over the rows of harness/trial/wrong/defects.def that apply to the case and are reached: they change its answer by
 * more than the roundings of a kernel in f32 throughout may (its bits, where it is judged by bits). */
typedef struct kvg_separation {
    bool by_bits;              /* the case is judged by bits (a profile): distances count changed bits */
    double least;              /* the smallest distance; +Inf where no row is reached */
    const kvg_defect *nearest; /* its row; NULL where none is reached */
    uint32_t reached;
} kvg_separation;

/* What the wrong answers of one case are measured against. */
typedef struct kvg_separation_scene {
    const kvg_truth *truth;
    kvg_attention_answer fine; /* the exact answer once more, with the bounds of a kernel in f32 throughout, where
                                * `known` says so; none where the case is judged by bits */
    bool *known, *asked;       /* [queries][Hq] */
    kvg_tensor_set plain;      /* such a kernel's right answer: where the defects of flash.h start */
} kvg_separation_scene;

/* `kept` is filled. On failure, and at the end, kvg_separation_close. */
kvg_status kvg_separation_open(const kvg_truth *truth, kvg_flash_kept *kept, kvg_separation_scene *out) KVG_CHECKED;
void kvg_separation_close(kvg_separation_scene *scene);

/* What the rows of a defect's answer are that it does not change: the reference's, or the plain kernel's. */
const kvg_tensor_set *kvg_separation_right(const kvg_separation_scene *scene, const kvg_defect *defect);

/* Adds the rows of `wanted`, [queries][Hq], to the distance of a defect's answer: the largest |wrong - exact| / bound
 * over out and lse, or how many bits it changes; below 0, where *distance begins: it changes nothing. NULL: all rows.
 */
kvg_status kvg_separation_measure(kvg_separation_scene *scene, const kvg_defect *defect, const kvg_tensor_set *wrong,
                                  const bool *wanted, double *distance) KVG_CHECKED;

/* Adds a distance to a separation that began empty (least +Inf). */
void kvg_separation_add(kvg_separation *separation, const kvg_defect *defect, double distance);

/* A distance at which the check says FAIL. */
bool kvg_separation_rejects(bool by_bits, double distance);

/* Some wrong answer reaches the case, and every one that does is rejected. */
bool kvg_separation_suffices(const kvg_separation *separation);

/* "3.2e+02, nearest sink_scaled" or "12 bits, nearest lse_base_2" or "no defect changes the answer". */
void kvg_separation_text(const kvg_separation *separation, char *out, size_t size);

#endif
