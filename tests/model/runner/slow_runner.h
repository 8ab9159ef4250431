/* docs/spec/generate.md section 4 read a second time: one sequence, one row after the other, every product on its
 * own, a cache of one layer each. Only the ops append and decode, and the steps that unit.model_math judges, are the
 * reference's. */
#ifndef KVG_TESTS_MODEL_RUNNER_SLOW_RUNNER_H
#define KVG_TESTS_MODEL_RUNNER_SLOW_RUNNER_H

#include "core/transformer.h"

/* What a wrong runner would do; SLOW_RIGHT: nothing. */
typedef enum slow_fault {
    SLOW_RIGHT,
    SLOW_WINDOW_SHORT,    /* one key less */
    SLOW_WINDOWS_MOVED,   /* sliding layers full, full ones sliding */
    SLOW_NO_SINKS,
    SLOW_HEADS_MODULO,    /* query head h reads KV head h mod Hkv */
    SLOW_POSITION_LATE,   /* q turned as the next position */
    SLOW_Q_UNROUNDED,     /* q's product not rounded to T before its bias */
    SLOW_BIAS_UNROUNDED,  /* q's bias not rounded to T */
    SLOW_NO_Q_BIAS,
    SLOW_NO_O_BIAS,
    SLOW_NORM_BEFORE_BIAS, /* QK-norm, then the bias */
    SLOW_NORM_AFTER_ROPE,  /* of q */
    SLOW_NORM_UNROUNDED,   /* of q: not rounded to T before it turns */
    SLOW_SCALES_EXCHANGED, /* g of K for V */
    SLOW_SCALES_OF_FIRST,  /* g of layer 0 for all */
    SLOW_GATE_UP_HALVES,   /* gates first, then ups */
    SLOW_EXPERT_INDEX_ORDER, /* answers added by number of the expert */
    SLOW_EXPERT_UNFUSED,   /* p times answer rounded before it is added */
    SLOW_MLP_OF_UNNORMED,  /* the second norm left out */
    SLOW_RESIDUAL_NORMED,  /* the MLP's answer added to its norm's */
    SLOW_NO_FINAL_NORM,
    SLOW_OUTPUT_TIED,      /* the input's embedding where there is another one */
    SLOW_FAULTS
} slow_fault;

/* logits[tokens][vocab] of a sequence from its start; the setup's layout, blocks and hook are not read. */
kvg_status slow_run(const kvg_model_setup *setup, const int32_t *tokens, uint32_t count, slow_fault fault,
                    float *logits) KVG_CHECKED;

#endif
