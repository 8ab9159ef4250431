/* Room case: what is asked, and what came of it.
 *
 *   case                   A case: a problem, a fill, a seed and the name of an implementation. Its id.
 *   axes                   The axes of a config: names, limits, words in ids, meanings; axes.def is the table.
 *   guest                  What is judged beside ops: a table of functions.
 *   invariance             Axes of company, and what came of one (invariance.def).
 *   result                 The verdict of a case and what was measured.
 *   cells                  The cells of a run: op, storage, layout; how many of them were judged.
 *   result_fields          The table of what a result file holds of a case; records and page follow from it.
 *
 * The room reads no file and runs nothing. harness/config/ makes cases, harness/trial/judge/ and model/generate/ make
 * results, harness/report/ writes and reads them. */
/* A case: a problem, how its inputs are filled, a seed, and the implementation under test. */
#ifndef KVG_HARNESS_CASE_CASE_H
#define KVG_HARNESS_CASE_CASE_H

#include "policy/mode.h"
#include "core/problem.h"
#include "reference/reference.h"

typedef enum kvg_fill {
    KVG_FILL_EXACT,       /* every element lies on the format's grid, so the round trip must be exact */
    KVG_FILL_ADVERSARIAL, /* ties, binade edges, outliers, subnormals, zeros, NaN, Inf: harness/trial/question/fill.c */
    KVG_FILL_RANDOM,      /* nearly normal values, K with outlier channels */
    KVG_FILL_CAPTURE,     /* tensors of a real model, from a safetensors file */
    KVG_FILL_CODES,       /* op dequantise: every byte of codes and scales, also those that no encoder writes */
    KVG_FILL_ZERO,        /* all +0: cannot tell right from wrong, and gives MISTRUSTED */
    KVG_FILL_UNIFORM,     /* op decode: probes, whose answer is known (harness/trial/question/decode_probes.h): q = 0 */
    KVG_FILL_ONES,        /* V = 1 */
    KVG_FILL_NEEDLE,      /* one key has all the weight */
    KVG_FILL_COLD         /* equal logits, far below the value from which kernels start their maxima */
} kvg_fill;

/* Names as in configs, in enum order; NULL-terminated. */
extern const char *const kvg_fill_names[];

/* The class of arithmetic that an implementation of op decode claims (docs/spec/attention.md section 5). */
typedef enum kvg_operands {
#define CLASS(ENUM, ...) KVG_OPERANDS_##ENUM,
#include "harness/case/classes.def"
#undef CLASS
} kvg_operands;

/* What of op decode's answer is judged. A kernel that gives no LSE leaves it as it was. */
typedef enum kvg_answers {
    KVG_ANSWERS_ALL, /* out and lse */
    KVG_ANSWERS_OUT
} kvg_answers;

/* Lengths of the sequences that an op reads. */
typedef enum kvg_lengths {
    KVG_LENGTHS_ANY,  /* from 1 to all tokens; of three sequences one is empty, and another one has lost a block */
    KVG_LENGTHS_LIVE, /* as ANY, but none is empty and none has lost a block */
    KVG_LENGTHS_EVEN  /* every sequence has all tokens */
} kvg_lengths;

/* What lies in the bytes of the pools that no token owns. */
typedef enum kvg_unowned {
    KVG_UNOWNED_ANY,    /* noise, NaN patterns, rows of other tokens */
    KVG_UNOWNED_FINITE, /* bytes from 0 to 0x3F, which are finite numbers in every format */
    KVG_UNOWNED_ZERO
} kvg_unowned;

/* How the tensor scales of K and V are chosen. Formats without a tensor scale ignore it. */
typedef struct kvg_case_scale {
    bool given;                      /* true: `value` has them; false: by `convention` from the filled tensor */
    kvg_scale_convention convention;
    float value[2];
} kvg_case_scale;

/* The mode that a policy chose for a case (docs/spec/modes.md). All fields are zero if the config
 * names formats. */
typedef struct kvg_case_policy {
    bool given;
    kvg_mode_request request;
    kvg_mode requested, effective;
    bool fell_back;
    const char *reason;                     /* why it fell back; "" otherwise; owned by the config */
    const char *partial_kv, *prefix_cache;  /* "on"; why it is off although it was wanted; "" if it was not wanted */
} kvg_case_policy;

enum { KVG_CASE_ID_SIZE = 256, KVG_REPRO_SIZE = 3264, KVG_POLICY_TEXT_SIZE = 160, KVG_CASE_SCALE_SIZE = 64 };

typedef struct kvg_case {
    kvg_problem problem;        /* in a guest's case: the problem that the candidate is asked most often */
    const struct kvg_guest *guest; /* harness/case/guest.h; NULL: the case asks an op */
    const void *guest_case;        /* the guest's own data of the case; owned by the config */
    kvg_case_policy policy;
    kvg_fill fill;
    const char *capture_file;   /* KVG_FILL_CAPTURE: the file's path, and two tensor names below; owned by the config */
    const char *capture[2];
    kvg_case_scale scale;
    const char *model;          /* the config's name for the model that gives kv_heads and head_dim; NULL: the config
                                 * gives them */
    uint32_t layer;             /* paged ops: 1 + the layer that the config names; 0: the layer follows from the seed */
    bool shuffled;              /* true: the seed decides which sequence is empty and which is longest; false (golden
                                 * packs): the first and the last */
    uint32_t queries;           /* op decode: most query tokens of a sequence; 0 for other ops */
    bool even_queries;          /* op decode: every sequence has `queries` query tokens */
    kvg_operands operands;      /* op decode: the class that judges the answer; a profile has its own */
    kvg_answers answers;        /* op decode: what is judged */
    kvg_lengths lengths;        /* ops that read sequences */
    uint32_t shared_prefix;     /* the same: tokens with which every sequence begins; 0: they share none */
    kvg_unowned unowned;        /* paged ops, op merge */
    uint32_t far_blocks;        /* paged ops: the question is asked again in pools of this many blocks; 0: it is not */
    bool relations;             /* op decode: the question is also asked in other ways (relations.def) */
    uint32_t invariant;         /* op decode: a set of axes (invariance.def) along which bits are compared */
    uint32_t findings;          /* axes of these whose rows may differ: nothing fails */
    bool unseen;                /* the data need not show what the case asks for (harness/trial/judge/witnesses.def) */
    const char *backend;        /* "reference", "defect:<id>", a plug-in's name or path; owned by the config */
    uint64_t seed;              /* seed of the whole config; the fill mixes the case's id into it */
    char id[KVG_CASE_ID_SIZE];  /* unique in a config, and stable: it names every axis and never a position in a list */
} kvg_case;

/* Writes the policy as the id has it: "policy16@sm90"; ".lmdeploy_2026" before the '@' in that
 * domain; ">none" at the end if the policy fell back; then every setting that differs from its
 * default: ":no_fp4_build", ":no_fp4_nv", ":design", ":prefix_cache", ":partial_kv",
 * ":engine_kernels". "" if no policy is given. */
void kvg_case_policy_text(const kvg_case_policy *policy, char *out, size_t size);

/* The first word of the id: the op's name, or the guest's. */
const char *kvg_case_op_name(const kvg_case *c);

/* How the tensor scales are chosen: "P2", "g0.5,0.25"; "" if no format has one. Returns `out`. */
const char *kvg_case_scale_text(const kvg_case *c, char *out, size_t size);

/* Writes case->id from the other fields. KVG_ERR_INVALID if it would not fit. */
kvg_status kvg_case_name(kvg_case *c) KVG_CHECKED;

/* Number of query tokens of a sequence in op decode, where cases are not shuffled. With
 * `even_queries` every sequence has `queries`. Else the last one has them, and the others have, in
 * turn, half of it, one less, and zero. Example: 6 query tokens, 5 sequences: 3, 5, 0, 3, 6. If
 * `queries` is 1, every sequence has one. */
uint32_t kvg_case_queries(const kvg_case *c, uint32_t sequence);

/* How many tensors of the answer are judged: the first ones of the op's outputs. */
size_t kvg_case_asked(const kvg_case *c);

/* True for a known dialect whose bytes may be judged by the value rule (KVG_DIALECT_VALUE). */
bool kvg_case_by_value(const kvg_storage *storage);

/* The shard, of `shard_count` shards, that runs the case. It depends on the id alone. */
uint32_t kvg_case_shard(const kvg_case *c, uint32_t shard_count);

/* Writes the command that runs this case alone, or behind the case whose id is `after`, unless that is NULL: "kvgold
 * check CONFIG --backend NAME --after ID --case ID --seed 0x...", with --capabilities FILE unless `capabilities` is
 * NULL. */
void kvg_case_repro(const kvg_case *c, const char *config_path, const char *capabilities, const char *after, char *out,
                    size_t size);

/* Bits that may be set in bytes that nobody owns. With bits 6 and 7 clear no number is special: 0x3F3F
 * is 0.746 in bf16 and 1.81 in f16, 0x3F is 1.875 in e4m3, 1.75 in e5m2, and 2^-64 as a scale of E8M0. */
uint8_t kvg_case_unowned_bits(const kvg_case *c);

#endif
