/* Cases of op generate: a model over a text through a cache, judged by the bits of its logits and by what it loses
 * against the same run with the model type for a cache (docs/generate.md section 8). */
#ifndef KVG_HARNESS_QUALITY_CHECK_H
#define KVG_HARNESS_QUALITY_CHECK_H

#include "core/verdict.h"
#include "harness/candidate.h"
#include "harness/case.h"
#include "harness/generate_memory.h"
#include "harness/quality_run.h"

/* What became of one planted defect. */
typedef struct kvg_quality_defect {
    const char *id;   /* as the config names it */
    bool applies;     /* to some layer of this model under this storage */
    bool by_bits;     /* the bit check rejects it */
    bool by_limits;   /* the limits alone reject it */
    uint64_t rows, differ; /* of the bit check */
    double loss, kl;  /* of the rows that it had */
} kvg_quality_defect;

typedef struct kvg_quality_result {
    bool measured;
    kvg_quality quality;
    kvg_quality_limits limits;
    kvg_quality_bits bits;
    kvg_quality_greedy greedy;
    kvg_generate_memory memory; /* of a window */
    uint64_t window, budget, shared_tokens;
    kvg_quality_defect defects[KVG_GENERATE_DEFECTS];
    size_t defect_count;
} kvg_quality_result;

/* Models, texts and unquantised runs, kept from case to case. */
typedef struct kvg_quality_session kvg_quality_session;

kvg_status kvg_quality_session_open(kvg_quality_session **out) KVG_CHECKED;
void kvg_quality_session_close(kvg_quality_session *session); /* NULL is allowed */

struct kvg_result;

/* Judges a case of op generate. `candidate` answers append and decode where the case's backend is neither the
 * reference, a defect nor cuda, whose runner is opened in this process. Never fails: what goes wrong is a verdict. */
void kvg_quality_check_case(kvg_quality_session *session, const kvg_case *c, kvg_candidate *candidate,
                            struct kvg_result *out);

#endif
