/* Judges cases of op generate: a model reads a text through a cache. The case is judged by the bits
 * of its logits, and by its loss against the same run with a cache of the model type
 * (docs/spec/generate.md section 8). */
#ifndef KVG_MODEL_GENERATE_QUALITY_CHECK_H
#define KVG_MODEL_GENERATE_QUALITY_CHECK_H

#include "harness/candidate/candidate.h"
#include "harness/case/case.h"
#include "harness/case/result.h"

/* Models, texts and unquantised runs, kept from case to case. */
typedef struct kvg_quality_session kvg_quality_session;

kvg_status kvg_quality_session_open(kvg_quality_session **out) KVG_CHECKED;
void kvg_quality_session_close(kvg_quality_session *session); /* NULL is allowed */

/* Judges a case of op generate. `candidate` answers append and decode, unless the case's backend is
 * the reference, a defect or cuda. The runner of cuda is opened in this process. Never fails: every
 * error becomes a verdict. */
void kvg_quality_check_case(kvg_quality_session *session, const kvg_case *c, kvg_candidate *candidate,
                            kvg_result *out);

#endif
