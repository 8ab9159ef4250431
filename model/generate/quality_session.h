/* Data that cases of op generate share, kept from one case to the next. Private to
 * model/generate/quality_*.c. */
#ifndef KVG_MODEL_GENERATE_QUALITY_SESSION_H
#define KVG_MODEL_GENERATE_QUALITY_SESSION_H

#include "model/generate/quality_check.h"
#include "model/generate/quality_run.h"

/* Room for the result of the next case, all zero. */
kvg_quality_result *kvg_quality_session_result(kvg_quality_session *session);

/* The model type as a storage format. */
kvg_storage kvg_quality_plain_storage(kvg_dtype dtype);

/* Fills in config and source of the setup. The weights are read once, and every number is
 * checked. */
kvg_status kvg_quality_session_model(kvg_quality_session *session, const char *folder,
                                     kvg_model_setup *setup) KVG_CHECKED;

/* As kvg_quality_texts_read; the session keeps the texts. */
kvg_status kvg_quality_session_texts(kvg_quality_session *session, const char *path, uint32_t windows, uint32_t length,
                                     uint32_t stride, const kvg_quality_texts **out) KVG_CHECKED;

/* Tensor scales [layers] of K and V by the case's convention. They come from a run over the
 * calibration text with a cache of the model type. Formats without a tensor scale get 1. If the
 * case quantises K before RoPE, K's scale is that of K before RoPE. */
kvg_status kvg_quality_session_scales(kvg_quality_session *session, const kvg_case *c, const kvg_model_setup *setup,
                                      float (*out)[2]) KVG_CHECKED;

/* The run with which the case is compared: the same runner, text and numbers, and a cache of the
 * model type. */
kvg_status kvg_quality_session_base(kvg_quality_session *session, const kvg_case *c, const kvg_model_runner *runner,
                                    const kvg_model_setup *setup, const kvg_quality_texts *texts,
                                    const kvg_quality_answer **out) KVG_CHECKED;

#endif
