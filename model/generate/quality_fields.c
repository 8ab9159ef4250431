#include "model/generate/quality_result.h"

static const kvg_field generate[] = {
    KVG_FIELD(kvg_result_generate, TEXT, "layers", layers, ALWAYS, "", "the layers that are stored in the formats of "
              "the case"),
    KVG_FIELD(kvg_result_generate, TEXT, "quantise_k", quantise_k, ALWAYS, "", "whether K is quantised after_rope or "
              "before_rope"),
};

static const kvg_field parts[] = {
    KVG_FIELD_OBJECT("quality", GIVEN, "what the model loses"),
};

static const kvg_field quality[] = {
    KVG_FIELD(kvg_quality_result, COUNT, "rows", quality.rows, ALWAYS, "rows", "rows of logits"),
    KVG_FIELD(kvg_quality_result, COUNT, "unknown", quality.unknown, ALWAYS, "rows", "rows of these with a NaN: then "
              "every measure is nan"),
    KVG_FIELD(kvg_quality_result, NUMBER, "base_bits", quality.base_bits, ALWAYS, "bits per token", "bits per token "
              "of the base"),
    KVG_FIELD(kvg_quality_result, NUMBER, "bits", quality.bits.value, ALWAYS, "bits per token", "bits per token"),
    KVG_FIELD(kvg_quality_result, NUMBER, "bits_low", quality.bits.low, ALWAYS, "bits per token", "lower end of its "
              "interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "bits_high", quality.bits.high, ALWAYS, "bits per token", "upper end of "
              "its interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "loss", quality.loss.value, ALWAYS, "bits per token", "bits per token more "
              "than the base's"),
    KVG_FIELD(kvg_quality_result, NUMBER, "loss_low", quality.loss.low, ALWAYS, "bits per token", "lower end of its "
              "interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "loss_high", quality.loss.high, ALWAYS, "bits per token", "upper end of "
              "its interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "kl", quality.kl.value, ALWAYS, "bits", "mean KL divergence from the base"),
    KVG_FIELD(kvg_quality_result, NUMBER, "kl_low", quality.kl.low, ALWAYS, "bits", "lower end of its interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "kl_high", quality.kl.high, ALWAYS, "bits", "upper end of its interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "kl_p99", quality.kl_p99, ALWAYS, "bits", "KL divergence that 99% of the "
              "rows do not exceed"),
    KVG_FIELD(kvg_quality_result, NUMBER, "kl_worst", quality.kl_worst, ALWAYS, "bits", "largest KL divergence of a "
              "row"),
    KVG_FIELD(kvg_quality_result, NUMBER, "top1", quality.top1.value, ALWAYS, "", "share of the rows with the base's "
              "top token"),
    KVG_FIELD(kvg_quality_result, NUMBER, "top1_low", quality.top1.low, ALWAYS, "", "lower end of its interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "top1_high", quality.top1.high, ALWAYS, "", "upper end of its interval"),
    KVG_FIELD(kvg_quality_result, NUMBER, "max_loss", limits.loss, ALWAYS, "bits per token", "limit of loss; inf if "
              "there is none"),
    KVG_FIELD(kvg_quality_result, NUMBER, "max_kl", limits.kl, ALWAYS, "bits", "limit of kl; inf if there is none"),
    KVG_FIELD(kvg_quality_result, NUMBER, "min_top1", limits.top1, ALWAYS, "", "limit of top1; 0 if there is none"),
    KVG_FIELD(kvg_quality_result, COUNT, "compared_rows", bits.rows, ALWAYS, "rows", "rows that were compared bit "
              "for bit"),
    KVG_FIELD(kvg_quality_result, COUNT, "differing_rows", bits.differ, ALWAYS, "rows", "rows of these with other "
              "bits"),
    KVG_FIELD(kvg_quality_result, COUNT, "shared_tokens", shared_tokens, ALWAYS, "tokens", "tokens that were read "
              "from blocks of another window"),
    KVG_FIELD(kvg_quality_result, COUNT, "greedy_texts", greedy.texts, ALWAYS, "texts", "texts that were generated"),
    KVG_FIELD(kvg_quality_result, COUNT, "greedy_tokens", greedy.tokens, ALWAYS, "tokens", "tokens of each generated "
              "text"),
    KVG_FIELD(kvg_quality_result, COUNT, "greedy_same", greedy.same, ALWAYS, "texts", "texts that never leave the "
              "base's"),
    KVG_FIELD(kvg_quality_result, COUNT, "greedy_first", greedy.first, ALWAYS, "tokens", "the earliest difference "
              "from the base's text"),
    KVG_FIELD(kvg_quality_result, NUMBER, "greedy_median", greedy.median, ALWAYS, "tokens", "median of the first "
              "differences"),
    KVG_FIELD(kvg_quality_result, COUNT, "window", window, ALWAYS, "tokens", "tokens of a request"),
    KVG_FIELD(kvg_quality_result, NUMBER, "token_bytes", memory.token_bytes, ALWAYS, "bytes", "bytes of the cache "
              "per token, all layers"),
    KVG_FIELD(kvg_quality_result, COUNT, "request_bytes", memory.request_bytes, ALWAYS, "bytes", "bytes that one "
              "request holds"),
    KVG_FIELD(kvg_quality_result, COUNT, "budget", budget, ALWAYS, "bytes", "bytes that requests are counted into; 0 "
              "if none are"),
    KVG_FIELD(kvg_quality_result, COUNT, "requests", memory.requests, ALWAYS, "requests", "requests that fit into "
              "the budget"),
    KVG_FIELD_OBJECT("positions", ALWAYS, "the measures by position in the window, a list"),
    KVG_FIELD_OBJECT("planted", ALWAYS, "what became of each planted defect, a list"),
};

static const kvg_field positions[] = {
    KVG_FIELD(kvg_quality_bucket, COUNT, "from", from, ALWAYS, "tokens", "the first position; the next entry's ends "
              "the range"),
    KVG_FIELD(kvg_quality_bucket, COUNT, "rows", rows, ALWAYS, "rows", "rows of the range"),
    KVG_FIELD(kvg_quality_bucket, NUMBER, "loss", loss, ALWAYS, "bits per token", "bits per token more than the "
              "base's"),
    KVG_FIELD(kvg_quality_bucket, NUMBER, "kl", kl, ALWAYS, "bits", "mean KL divergence from the base"),
    KVG_FIELD(kvg_quality_bucket, NUMBER, "top1", top1, ALWAYS, "", "share of the rows with the base's top token"),
};

static const kvg_field planted[] = {
    KVG_FIELD(kvg_quality_defect, TEXT, "id", id, ALWAYS, "", "the defect, as the config names it"),
    KVG_FIELD(kvg_quality_defect, FLAG, "applies", applies, ALWAYS, "", "it changes an op of some layer of this "
              "model under this storage"),
    KVG_FIELD(kvg_quality_defect, FLAG, "by_bits", by_bits, ALWAYS, "", "the comparison of bits rejects it"),
    KVG_FIELD(kvg_quality_defect, FLAG, "by_limits", by_limits, ALWAYS, "", "the limits alone reject it"),
    KVG_FIELD(kvg_quality_defect, COUNT, "rows", rows, ALWAYS, "rows", "rows that were compared bit for bit"),
    KVG_FIELD(kvg_quality_defect, COUNT, "differ", differ, ALWAYS, "rows", "rows of these with other bits"),
    KVG_FIELD(kvg_quality_defect, NUMBER, "loss", loss, ALWAYS, "bits per token", "bits per token more than the "
              "base's"),
    KVG_FIELD(kvg_quality_defect, NUMBER, "kl", kl, ALWAYS, "bits", "mean KL divergence from the base"),
};

#define RECORD(ID, title, meaning, fields) \
    [KVG_QUALITY_##ID] = {title, meaning, fields, sizeof fields / sizeof fields[0]}

const kvg_record kvg_quality_records[KVG_QUALITY_RECORDS] = {
    RECORD(GENERATE, "What op generate is asked", "Lines of op generate have these fields.", generate),
    RECORD(PARTS, "Parts of a case of op generate", "A judged line of op generate has this object.", parts),
    RECORD(QUALITY, "quality", "Measures of op generate against the same run with the model type for a cache "
           "(docs/spec/generate.md section 8). The ends of an interval are those of the bootstrap's middle 95%.",
           quality),
    RECORD(POSITIONS, "positions", "The rows of a range of positions.", positions),
    RECORD(PLANTED, "planted", "One defect that was planted in the reference.", planted),
};
