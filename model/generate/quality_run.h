/* A model over texts: every row's logits, by way of kvg_generation. */
#ifndef KVG_MODEL_GENERATE_QUALITY_RUN_H
#define KVG_MODEL_GENERATE_QUALITY_RUN_H

#include "model/generate/generate.h"
#include "model/generate/quality.h"

/* Windows of a long text, each `length` tokens, one every `stride`. */
typedef struct kvg_quality_texts {
    int32_t *tokens; /* [texts][length] */
    uint32_t texts, length, stride;
} kvg_quality_texts;

/* Windows of a file whose bytes are the tokens: the first `texts`, or all that fit (0). KVG_ERR_IO; KVG_ERR_INVALID if
 * the file has fewer. kvg_quality_texts_free. */
kvg_status kvg_quality_texts_read(const char *path, uint32_t texts, uint32_t length, uint32_t stride,
                                  kvg_quality_texts *out) KVG_CHECKED;
void kvg_quality_texts_free(kvg_quality_texts *texts);

/* How texts are put to a runner. */
typedef struct kvg_quality_plan {
    const kvg_model_runner *runner;
    const kvg_model_setup *setup; /* blocks, max_tokens and what follows from the batch are set here */
    uint32_t chunk, batch;
    uint32_t texts;               /* the first so many */
    uint32_t greedy;              /* tokens that are generated after each */
    bool halves;                  /* the first half of each, in whole blocks, is read by a request of its own, and the
                                     other takes it from the cache */
} kvg_quality_plan;

/* What came of it: row p < length of a text is that of its token p, the later ones those of generated tokens. */
typedef struct kvg_quality_answer {
    uint32_t texts, length, greedy, vocab;
    float *logits;       /* [texts][length + greedy][vocab] */
    bool *seen;          /* [texts][length + greedy]: the last row is seen by nobody where greedy > 0 */
    int32_t *generated;  /* [texts][greedy] */
    uint64_t shared_tokens;
} kvg_quality_answer;

/* Every row of every text is seen, or it fails. kvg_quality_answer_free. */
kvg_status kvg_quality_run(const kvg_quality_plan *plan, const kvg_quality_texts *texts,
                           kvg_quality_answer *out) KVG_CHECKED;
void kvg_quality_answer_free(kvg_quality_answer *answer);

/* The logits of a row; NULL if it was not seen. */
const float *kvg_quality_logits(const kvg_quality_answer *answer, uint32_t text, uint32_t row);

/* The measures of `own` against `base` over its texts: every token of theirs once, in the first window that holds it,
 * but for the very first. */
kvg_status kvg_quality_measure(const kvg_quality_texts *texts, const kvg_quality_answer *base,
                               const kvg_quality_answer *own, uint64_t seed, kvg_quality *out) KVG_CHECKED;

/* The rows of `own` that `base` has too, compared as bits. */
kvg_quality_bits kvg_quality_compare_bits(const kvg_quality_answer *base, const kvg_quality_answer *own);

kvg_quality_greedy kvg_quality_compare_greedy(const kvg_quality_answer *base, const kvg_quality_answer *own);

#endif
