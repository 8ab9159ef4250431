#include "harness/case/result.h"

#include <assert.h>

void kvg_names_add(kvg_names *names, const char *name)
{
    assert(names->count < KVG_FIELD_NAMES_MOST);
    names->name[names->count++] = name;
}

static const kvg_field origin[] = {
    KVG_FIELD(kvg_result_origin, TEXT, "version", version, ALWAYS, "", "version of kvgold"),
    KVG_FIELD(kvg_result_origin, TEXT, "commit", commit, ALWAYS, "", "commit that kvgold was built of, `with changes` "
              "if the source had others; `unknown` without a repository"),
    KVG_FIELD(kvg_result_origin, TEXT, "date", date, ALWAYS, "", "start of the run, UTC: `2026-11-26T13:53:02Z`"),
    KVG_FIELD(kvg_result_origin, TEXT, "host", host, ALWAYS, "", "name of the machine"),
    KVG_FIELD(kvg_result_origin, TEXT, "cpu", cpu, ALWAYS, "", "model of its processor"),
    KVG_FIELD(kvg_result_origin, TEXT, "gpu", gpu, GIVEN, "", "models of its NVIDIA GPUs"),
    KVG_FIELD(kvg_result_origin, NAMES, "libraries", libraries, GIVEN, "", "SHA-256 and path of each plug-in's library "
              "when the run began, as sha256sum prints them"),
    KVG_FIELD(kvg_result_origin, NAMES, "capabilities", capabilities, GIVEN, "", "the same of capability files"),
    KVG_FIELD(kvg_result_origin, NAMES, "unasked", unasked, GIVEN, "", "what capability files claim and no case of the "
              "config asks: `feature padding (claims[0])`"),
};

static const kvg_field asked[] = {
    KVG_FIELD(kvg_result_asked, TEXT, "type", type, ALWAYS, "", "`start`, written before the case runs, or `case`"),
    KVG_FIELD(kvg_result_asked, TEXT, "id", id, ALWAYS, "", "name of the case: unique in a config, the same in every "
              "run; no reader takes it apart"),
    KVG_FIELD(kvg_result_asked, TEXT, "repro", repro, ALWAYS, "", "the command that runs this case alone, quoted for "
              "a shell"),
    KVG_FIELD(kvg_result_asked, TEXT, "op", op, ALWAYS, "", "a row of core/ops.def, or the name of a guest"),
    KVG_FIELD(kvg_result_asked, TEXT, "k_format", k_format, ALWAYS, "", "how K is stored: a row of core/formats.def"),
    KVG_FIELD(kvg_result_asked, TEXT, "k_dialect", k_dialect, ALWAYS, "", "the dialect of K's format"),
    KVG_FIELD(kvg_result_asked, TEXT, "v_format", v_format, ALWAYS, "", "how V is stored"),
    KVG_FIELD(kvg_result_asked, TEXT, "v_dialect", v_dialect, ALWAYS, "", "the dialect of V's format"),
    KVG_FIELD(kvg_result_asked, TEXT, "layout", layout, ALWAYS, "", "a row of core/layouts.def"),
    KVG_FIELD(kvg_result_asked, TEXT, "dtype", dtype, ALWAYS, "", "the model type"),
    KVG_FIELD(kvg_result_asked, COUNT, "tokens", tokens, ALWAYS, "tokens", "tokens of the problem; of op generate, "
              "of a window"),
    KVG_FIELD(kvg_result_asked, COUNT, "kv_heads", kv_heads, ALWAYS, "heads", "KV heads"),
    KVG_FIELD(kvg_result_asked, COUNT, "head_dim", head_dim, ALWAYS, "elements", "dimension of a head"),
    KVG_FIELD(kvg_result_asked, TEXT, "fill", fill, GIVEN, "", "how the inputs are filled; op generate has no fill"),
    KVG_FIELD(kvg_result_asked, TEXT, "capture_k", capture_k, GIVEN, "", "fill capture: the tensor that K is taken "
              "from"),
    KVG_FIELD(kvg_result_asked, TEXT, "capture_v", capture_v, GIVEN, "", "fill capture: the tensor that V is taken "
              "from"),
    KVG_FIELD(kvg_result_asked, TEXT, "scale", scale, GIVEN, "", "how the formats' tensor scales are chosen: P1 to "
              "P4, or `gK,V` with the two scales"),
    KVG_FIELD(kvg_result_asked, TEXT, "profile", profile, GIVEN, "", "ops decode and mma: the arithmetic whose bits "
              "are asked for, a row of core/profiles.def"),
    KVG_FIELD(kvg_result_asked, TEXT, "backend", backend, ALWAYS, "", "the implementation that was asked for"),
};

static const kvg_field outcome[] = {
    KVG_FIELD(kvg_result, VERDICT, "status", verdict, ALWAYS, "", "the verdict; docs/guide/config.md explains the "
              "words"),
    KVG_FIELD_TEXT_IN(kvg_result, "detail", detail, ALWAYS, "why the verdict is no PASS; empty text for a PASS"),
    KVG_FIELD_TEXT_IN(kvg_result, "unclaimed", unclaimed, GIVEN, "a SKIP: the first thing that no claim of the "
                      "implementation's capability file covers"),
    KVG_FIELD_TEXT_IN(kvg_result, "impl", impl, ALWAYS, "the implementation that ran; empty text if none did"),
    KVG_FIELD_TEXT_IN(kvg_result, "engine", engine, GIVEN, "the name that its library gives itself"),
    KVG_FIELD_TEXT_IN(kvg_result, "confinement", confinement, GIVEN, "what the implementation's process had given up: "
                      "`namespaces`, `rights` and why no namespaces, or `none` (docs/guide/plugin.md section 5); a "
                      "case without an answer may have no such text"),
    KVG_FIELD_TEXT_IN(kvg_result, "reference_in", reference_in, GIVEN, "a library in the implementation's process that "
                      "exports kvgold's reference or is another plug-in: the answer may be that library's"),
    KVG_FIELD(kvg_result, NAMES, "printed", printed, GIVEN, "", "a CRASH, a HANG, a lost device: the last lines that "
              "the implementation printed in this case, on stdout and stderr; at most ten, each cut to 200 bytes"),
    KVG_FIELD(kvg_result, NAMES, "broken", broken, GIVEN, "", "the first relation that did not hold; the answer to the "
              "question itself was right"),
    KVG_FIELD_TEXT_IN(kvg_result, "fitted", fitted, GIVEN, "a FAIL that no known-wrong answer explains: what its wrong "
                      "rows, numbers or codes are, such as `each row is that of keys first to last - 1` or `at places "
                      "as defect X`"),
    KVG_FIELD(kvg_result, NUMBER, "ms", milliseconds, ALWAYS, "ms", "time of the implementation's run"),
    KVG_FIELD_TEXT_IN(kvg_result, "suspect", suspect, GIVEN, "the time that the implementation's process gave, if it "
                      "is below 0 or above that of the call; `ms` is that of the call"),
    KVG_FIELD(kvg_result, COUNT, "redraws", redraws, GIVEN, "draws", "how often the case was asked before with other "
              "data that could not tell right from wrong; the seed of these data stands in `repro`"),
    KVG_FIELD(kvg_result, NUMBER, "seconds", seconds, GIVEN, "s", "time of the case: the implementation's, the "
              "reference's and the judge's"),
    KVG_FIELD(kvg_result, FLAG, "slow", slow, ALWAYS, "", "`seconds` is above `slow_seconds` of the config"),
};

static const kvg_field parts[] = {
    KVG_FIELD_OBJECT("mode", GIVEN, "what a policy chose; only where a policy chose the formats"),
    KVG_FIELD_OBJECT("k", GIVEN, "round trip of K; only where its values were judged"),
    KVG_FIELD_OBJECT("v", GIVEN, "round trip of V, likewise"),
    KVG_FIELD_OBJECT("decode", GIVEN, "ops decode and merge: the answer against the exact one"),
    KVG_FIELD_OBJECT("separation", GIVEN, "op decode: how far known-wrong answers are from right ones"),
    KVG_FIELD_OBJECT("page", GIVEN, "where in a page bytes are wrong; only where bytes are"),
    KVG_FIELD_OBJECT("reach", GIVEN, "what the inputs met in the codec; only where rows were encoded or read"),
    KVG_FIELD_OBJECT("controls", GIVEN, "the known-wrong answers that this check was offered; every judged case has "
                     "it"),
#define INVARIANCE(id, summary) \
    KVG_FIELD_OBJECT("along_" #id, GIVEN, "what came of axis `" #id "` of invariance: " summary),
#include "harness/case/invariance.def"
#undef INVARIANCE
};

static const kvg_field compared[] = {
    KVG_FIELD(kvg_result_compared, COUNT, "compared", compared, ALWAYS, "bytes", "bytes of the answer that were "
              "compared"),
    KVG_FIELD(kvg_result_compared, COUNT, "mismatched", mismatched, ALWAYS, "bytes", "bytes of these that are wrong; "
              "by the value rule of a dialect, rows"),
    KVG_FIELD(kvg_result_compared, COUNT, "steps", steps, ALWAYS, "bytes", "bytes that differ within the value rule "
              "of a dialect"),
};

static const kvg_field lists[] = {
    KVG_FIELD(kvg_result, NAMES, "relations", relations, GIVEN, "", "relations that were asked and held: of op decode "
              "those of harness/trial/judge/relations.def; with far_blocks `far`"),
    KVG_FIELD(kvg_result, NAMES, "invariant", invariant, GIVEN, "", "axes of docs/spec/invariance.md along which no "
              "row changed its bits"),
    KVG_FIELD(kvg_result, NAMES, "varies", varies, GIVEN, "", "axes along which a row did"),
    KVG_FIELD(kvg_result, NAMES, "explained", explained, GIVEN, "", "a FAIL: known-wrong answers that this answer "
              "equals; of op decode without a profile, is near to"),
};

static const kvg_field mode[] = {
    KVG_FIELD(kvg_result_mode, TEXT, "requested", requested, ALWAYS, "", "the mode that the policy number asks for"),
    KVG_FIELD(kvg_result_mode, TEXT, "effective", effective, ALWAYS, "", "the mode that the case runs in"),
    KVG_FIELD(kvg_result_mode, FLAG, "fell_back", fell_back, ALWAYS, "", "the effective mode is another than the "
              "requested one"),
    KVG_FIELD(kvg_result_mode, TEXT, "reason", reason, ALWAYS, "", "why it fell back; empty text if it did not"),
    KVG_FIELD(kvg_result_mode, TEXT, "partial_kv", partial_kv, GIVEN, "", "`on`, or why partial KV is off though it "
              "is wanted"),
    KVG_FIELD(kvg_result_mode, TEXT, "prefix_cache", prefix_cache, GIVEN, "", "`on`, or why the prefix cache is off "
              "though it is wanted"),
};

static const kvg_field trip[] = {
    KVG_FIELD(kvg_round_trip, COUNT, "elements", elements, ALWAYS, "elements", "judged elements: finite ones for "
              "which the bound promises something"),
    KVG_FIELD(kvg_round_trip, NUMBER, "relative_l2", relative_l2, ALWAYS, "", "norm of y - x over norm of x, both "
              "Euclidean"),
    KVG_FIELD(kvg_round_trip, NUMBER, "sqnr_db", sqnr_db, ALWAYS, "dB", "10 log10 of the squared norm of x over that "
              "of y - x; inf if exact"),
    KVG_FIELD(kvg_round_trip, NUMBER, "gain", gain, ALWAYS, "", "least-squares factor a of y = a x: 1 but for codec "
              "noise"),
    KVG_FIELD(kvg_round_trip, NUMBER, "worst_ratio", worst_ratio, ALWAYS, "bounds", "largest error, in units of its "
              "bound"),
};

static const kvg_field decode[] = {
    KVG_FIELD(kvg_decode_accuracy, COUNT, "elements", elements, ALWAYS, "numbers", "numbers of out and lse"),
    KVG_FIELD(kvg_decode_accuracy, COUNT, "unpromised", unpromised, ALWAYS, "numbers", "numbers of these without a "
              "bound"),
    KVG_FIELD(kvg_decode_accuracy, FLAG, "bits", bits, ALWAYS, "", "judged by the bits of a profile: distances from "
              "the exact answer are for information"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "worst_ratio", worst_ratio, ALWAYS, "bounds", "largest error of out"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "median_ratio", median_ratio, ALWAYS, "bounds", "median error of out"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "lse_ratio", lse_ratio, ALWAYS, "bounds", "largest error of lse"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "relative_l2", relative_l2, ALWAYS, "", "norm of out - exact over norm of "
              "exact"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "codec_ratio", codec_ratio, GIVEN, "bounds", "largest distance of the "
              "exact answer over the cache from that over K and V before, of the first rows; none for fill codes"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "codec_l2", codec_l2, GIVEN, "", "the same distance as a relative norm"),
    KVG_FIELD(kvg_decode_accuracy, NUMBER, "probe_ratio", probe_ratio, GIVEN, "bounds", "largest error of out and "
              "lse against what a probe must give; none for other fills"),
};

static const kvg_field separation[] = {
    KVG_FIELD(kvg_result_separation, NUMBER, "least", least, GIVEN, "bounds", "the smallest distance; inf if no "
              "defect changes the answer. A case that is judged by bits has `bits` instead"),
    KVG_FIELD(kvg_result_separation, NUMBER, "bits", bits, GIVEN, "bits", "the smallest number of changed bits"),
    KVG_FIELD(kvg_result_separation, TEXT, "nearest", nearest, GIVEN, "", "the defect at that distance"),
    KVG_FIELD(kvg_result_separation, COUNT, "reached", reached, ALWAYS, "defects", "defects that change the answer "
              "by more than rounding may"),
    KVG_FIELD(kvg_result_separation, NAMES, "unreached", unreached, ALWAYS, "", "defects that apply to the case and "
              "do not"),
};

static const kvg_field page[] = {
    KVG_FIELD(kvg_result_page, TEXT, "tensor", tensor, ALWAYS, "", "the first tensor of the answer with wrong bytes"),
    KVG_FIELD(kvg_result_page, COUNT, "bytes", bytes, ALWAYS, "bytes", "size of a page of the tensor: all bytes of a "
              "block in a layer, padding too. A tensor that is no pool is one page"),
    KVG_FIELD(kvg_result_page, COUNT, "wrong", wrong, ALWAYS, "bytes", "wrong bytes of the tensor"),
    KVG_FIELD(kvg_result_page, SET, "cells", cells, ALWAYS, "", "the cells with a wrong byte in any page. A page has "
              "256 cells of equal size; a page of fewer bytes has a cell for each byte"),
};

static const kvg_field reach[] = {
    KVG_FIELD(kvg_result_reach, COUNT, "codes", codes, ALWAYS, "codes", "different element codes that were seen"),
    KVG_FIELD(kvg_result_reach, COUNT, "codes_of", codes_of, ALWAYS, "codes", "element codes that K's format has"),
    KVG_FIELD(kvg_result_reach, COUNT, "scales", scales, ALWAYS, "codes", "different scale bytes that were seen"),
    KVG_FIELD(kvg_result_reach, COUNT, "ties", met[KVG_MET_TIES], ALWAYS, "elements", "elements exactly between two "
              "codes"),
    KVG_FIELD(kvg_result_reach, COUNT, "saturations", met[KVG_MET_SATURATIONS], ALWAYS, "elements", "finite elements "
              "beyond the largest code"),
    KVG_FIELD(kvg_result_reach, COUNT, "zero_blocks", met[KVG_MET_ZERO_BLOCKS], ALWAYS, "blocks", "blocks, or rows "
              "of formats without blocks, that are all zero"),
    KVG_FIELD(kvg_result_reach, COUNT, "negative_zeros", met[KVG_MET_NEGATIVE_ZEROS], ALWAYS, "elements", "elements "
              "that are -0"),
    KVG_FIELD(kvg_result_reach, COUNT, "subnormals", met[KVG_MET_SUBNORMALS], ALWAYS, "elements", "elements that are "
              "subnormal in the model type"),
    KVG_FIELD(kvg_result_reach, COUNT, "specials", met[KVG_MET_SPECIALS], ALWAYS, "elements", "elements that are NaN "
              "or infinite"),
    KVG_FIELD(kvg_result_reach, COUNT, "scale_underflows", met[KVG_MET_SCALE_UNDERFLOWS], ALWAYS, "blocks", "blocks "
              "that are not zero and whose scale became 0"),
    KVG_FIELD(kvg_result_reach, SET, "code_set", code_set, ALWAYS, "", "the element codes that were seen"),
    KVG_FIELD(kvg_result_reach, SET, "scale_set", scale_set, ALWAYS, "", "the scale bytes that were seen"),
};

static const kvg_field controls[] = {
    KVG_FIELD(kvg_result_controls, NAMES, "rejected", rejected, ALWAYS, "", "changed the answer, and the check said "
              "FAIL"),
    KVG_FIELD(kvg_result_controls, NAMES, "unreached", unreached, ALWAYS, "", "do not change the answer of this case"),
    KVG_FIELD(kvg_result_controls, NAMES, "accepted", accepted, ALWAYS, "", "changed the answer, and the check "
              "passed it: the case is MISTRUSTED"),
    KVG_FIELD(kvg_result_controls, NAMES, "within", within, ALWAYS, "", "op decode: changed the answer by less than "
              "a right one may be off"),
    KVG_FIELD(kvg_result_controls, NAMES, "by_bound", by_bound, ALWAYS, "", "rejected ones that the round-trip bound "
              "alone rejects too"),
};

static const kvg_field along[] = {
    KVG_FIELD(kvg_variance, COUNT, "rows", rows, ALWAYS, "rows", "rows that were compared; 0: the axis has no answer"),
    KVG_FIELD(kvg_variance, COUNT, "differ", differ, ALWAYS, "rows", "rows of these that have other bits"),
    KVG_FIELD(kvg_variance, COUNT, "from", from, GIVEN, "keys", "the fewest keys that a differing row sees"),
    KVG_FIELD(kvg_variance, NUMBER, "agree", agree, GIVEN, "keys", "the most keys of a row that does not differ, fewer "
              "than `from`"),
    KVG_FIELD(kvg_variance, NUMBER, "largest", largest, GIVEN, "", "largest difference of two numbers"),
    KVG_FIELD(kvg_variance, NUMBER, "ulps", ulps, GIVEN, "ulp", "the same in units in the last place of the largest "
              "number of the row's head"),
    KVG_FIELD(kvg_variance, COUNT, "nans", nans, GIVEN, "pairs", "pairs of a number and a NaN"),
    KVG_FIELD(kvg_variance, TEXT, "relation", relation, GIVEN, "", "the first relation that did not hold, or had no "
              "answer"),
    KVG_FIELD_TEXT_IN(kvg_variance, "text", text, GIVEN, "the same in words, or why the axis has no answer"),
};

#define RECORD(ID, title, meaning, fields) \
    [KVG_RECORD_##ID] = {title, meaning, fields, sizeof fields / sizeof fields[0]}

const kvg_record *kvg_record_get(kvg_record_id id)
{
    static const kvg_record records[KVG_RECORDS] = {
        RECORD(ORIGIN, "origins", "Where the results come from: a line of type `run` has a list of these objects, one "
               "for each run that was merged into the file.", origin),
        RECORD(ASKED, "What is asked", "Lines of type `start` and `case` have these fields.", asked),
        RECORD(OUTCOME, "What came of it", "Every line of type `case` has these fields.", outcome),
        RECORD(PARTS, "Parts of a case", "A line of type `case` may have these objects; if no answer was judged, "
               "`mode` alone.", parts),
        RECORD(COMPARED, "What was compared", "A line of type `case` has these fields if an answer was judged.",
               compared),
        RECORD(LISTS, "Lists of a case", "A judged line of type `case` may have these lists.", lists),
        RECORD(MODE, "mode", "What a policy chose (docs/spec/modes.md).", mode),
        RECORD(TRIP, "k, v", "Decoded values y of one side against its inputs x, finite elements only.", trip),
        RECORD(DECODE, "decode", "The answer of op decode or merge against the exact one, in units of the bound of the "
               "case's class; then what quantisation itself did, which is nobody's fault.", decode),
        RECORD(SEPARATION, "separation", "Distances of known-wrong answers of op decode (rows of "
               "harness/trial/wrong/defects.def) from what is right.", separation),
        RECORD(PAGE, "page", "Where in a page the bytes of an answer are wrong.", page),
        RECORD(REACH, "reach", "What the rows of K and V together met in the codec.", reach),
        RECORD(CONTROLS, "controls", "Known-wrong answers by name: rows of harness/trial/wrong/defects.def, or those "
               "of a guest.", controls),
        RECORD(ALONG, "along_...", "Op decode: rows asked in other company, compared with the first answer bit for bit "
               "(docs/spec/invariance.md section 3).", along),
    };
    return &records[id];
}
