/* Runs a model over texts with kvg_generation, and keeps every row's logits. */
#ifndef KVG_MODEL_GENERATE_QUALITY_RUN_H
#define KVG_MODEL_GENERATE_QUALITY_RUN_H

#include "model/generate/generate.h"
#include "model/generate/quality.h"

/* Windows of a long text: each has `length` tokens, and one starts every `stride` tokens. */
typedef struct kvg_quality_texts {
    int32_t *tokens; /* [texts][length] */
    uint32_t texts, length, stride;
} kvg_quality_texts;

/* Reads windows of a file whose bytes are the tokens: the first `texts`, or all that fit (0).
 * KVG_ERR_IO. KVG_ERR_INVALID if the file has fewer. Free with kvg_quality_texts_free. */
kvg_status kvg_quality_texts_read(const char *path, uint32_t texts, uint32_t length, uint32_t stride,
                                  kvg_quality_texts *out) KVG_CHECKED;
void kvg_quality_texts_free(kvg_quality_texts *texts);

/* How texts are given to a runner. */
typedef struct kvg_quality_plan {
    const kvg_model_runner *runner;
    const kvg_model_setup *setup; /* kvg_quality_run sets blocks, max_tokens and what follows from the batch */
    uint32_t chunk, batch;
    uint32_t texts;               /* number of texts to run, from the first on */
    uint32_t greedy;              /* tokens to generate after each text */
    bool halves;                  /* the first half of each text, in whole blocks, is read by a request of its own; the
                                   * text's request takes it from the cache */
} kvg_quality_plan;

/* The answer. Row p < length of a text is that of its token p. Later rows are those of generated
 * tokens. */
typedef struct kvg_quality_answer {
    uint32_t texts, length, greedy, vocab;
    float *logits;       /* [texts][length + greedy][vocab] */
    bool *seen;          /* [texts][length + greedy]; with greedy > 0 the last row of a text is never seen */
    int32_t *generated;  /* [texts][greedy] */
    uint64_t shared_tokens;
} kvg_quality_answer;

/* Runs the plan. Fails unless every row of every text is seen. Free with
 * kvg_quality_answer_free. */
kvg_status kvg_quality_run(const kvg_quality_plan *plan, const kvg_quality_texts *texts,
                           kvg_quality_answer *out) KVG_CHECKED;
void kvg_quality_answer_free(kvg_quality_answer *answer);

/* The logits of a row; NULL if it was not seen. */
const float *kvg_quality_logits(const kvg_quality_answer *answer, uint32_t text, uint32_t row);

/* Measures `own` against `base` over its texts. Every token counts once, in the first window that
 * holds it. The very first token does not count. */
kvg_status kvg_quality_measure(const kvg_quality_texts *texts, const kvg_quality_answer *base,
                               const kvg_quality_answer *own, uint64_t seed, kvg_quality *out) KVG_CHECKED;

/* Compares, as bits, the rows of `own` that `base` has, too. */
kvg_quality_bits kvg_quality_compare_bits(const kvg_quality_answer *base, const kvg_quality_answer *own);

kvg_quality_greedy kvg_quality_compare_greedy(const kvg_quality_answer *base, const kvg_quality_answer *own);

#endif
