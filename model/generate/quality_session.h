/* What cases of op generate have in common, kept from one to the next; private to model/generate/quality_*.c. */
#ifndef KVG_MODEL_GENERATE_QUALITY_SESSION_H
#define KVG_MODEL_GENERATE_QUALITY_SESSION_H

#include "model/generate/quality_check.h"
#include "model/generate/quality_run.h"

/* Room for the result of the next case, all zero. */
kvg_quality_result *kvg_quality_session_result(kvg_quality_session *session);

/* The model type as a storage format. */
kvg_storage kvg_quality_plain_storage(kvg_dtype dtype);

/* Fills in config and source of the setup. The weights are read once, and every number of them checked. */
kvg_status kvg_quality_session_model(kvg_quality_session *session, const char *folder,
                                     kvg_model_setup *setup) KVG_CHECKED;

/* kvg_quality_texts_read. */
kvg_status kvg_quality_session_texts(kvg_quality_session *session, const char *path, uint32_t windows, uint32_t length,
                                     uint32_t stride, const kvg_quality_texts **out) KVG_CHECKED;

/* Tensor scales [layers] of K and V by the case's convention, from a run over the calibration text with the model type
 * for a cache; 1 for formats without. K's is that of K before RoPE where the case quantises it there. */
kvg_status kvg_quality_session_scales(kvg_quality_session *session, const kvg_case *c, const kvg_model_setup *setup,
                                      float (*out)[2]) KVG_CHECKED;

/* The run that the case is compared with: the same runner, text and numbers, the model type for a cache. */
kvg_status kvg_quality_session_base(kvg_quality_session *session, const kvg_case *c, const kvg_model_runner *runner,
                                    const kvg_model_setup *setup, const kvg_quality_texts *texts,
                                    const kvg_quality_answer **out) KVG_CHECKED;

#endif
