/* Golden packs (docs/spec/golden-pack.md): cases with their inputs, their right answers and the
 * rule by which an answer is judged. golden/ knows only the container: files, hashes, manifest.
 * harness/pack/golden_case.h reads a case's meaning from its config line. */
#ifndef KVG_GOLDEN_PACK_H
#define KVG_GOLDEN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "golden/safetensors.h"
#include "golden/sha256.h"

#define KVG_PACK_VERSION "1.0.0"
#define KVG_PACK_VERSION_OF_TEXTS "1.1.0" /* a case has a layout of a text: readers of 1.0 do not know it */

enum {
    KVG_PACK_MAX_CASES = 10000,
    KVG_PACK_MAX_TENSORS = 32, /* tensors of one list of a case */
    KVG_PACK_MAX_FLAGS = 64,
    KVG_PACK_MAX_ERRATA = 64,
    KVG_PACK_MAX_RANK = 4
};

/* The files of a pack's folder. Beside them lie the files for `sha256sum -c`. */
typedef enum kvg_pack_file {
    KVG_PACK_MANIFEST, KVG_PACK_PROMPT, KVG_PACK_EXPECTED, KVG_PACK_PROVENANCE, KVG_PACK_FILES
} kvg_pack_file;
extern const char *const kvg_pack_file_names[KVG_PACK_FILES];

/* The rule by which an answer is judged: docs/spec/golden-pack.md section 3. */
typedef enum kvg_pack_compare { KVG_PACK_BITS, KVG_PACK_RULE, KVG_PACK_BOUND } kvg_pack_compare;
extern const char *const kvg_pack_compare_names[]; /* "bits", "rule", "bound", NULL */

/* Where the 4-bit codes of K and V lie in a U8 tensor: a word of section 2 for each side. NULL: the
 * tensor holds no such codes of that side. */
typedef struct kvg_pack_packing {
    const char *side[2];
} kvg_pack_packing;

/* A tensor of the prompt or of the answers. Its strings and bytes live as long as the pack. */
typedef struct kvg_pack_tensor {
    const char *name;       /* the whole name: "0003.k_data" */
    const char *short_name; /* without the key: "k_data", "out.exact" */
    const char *dtype;      /* "U8", "BF16", "F64", ... */
    uint32_t rank;
    uint64_t shape[KVG_SAFETENSORS_MAX_RANK];
    size_t bytes;
    kvg_sha256_digest sha256;
    kvg_pack_packing packing;
    const void *data; /* NULL: the case is a recipe, and no file has the bytes */
} kvg_pack_tensor;

/* An answer that an engine gives, and what it is judged by. */
typedef struct kvg_pack_answer {
    const char *name, *short_name, *dtype;
    uint32_t rank;
    uint64_t shape[KVG_SAFETENSORS_MAX_RANK];
    size_t bytes;
    kvg_pack_compare compare;
    const char *profile;              /* KVG_PACK_BOUND: NULL if the case has no profile */
    const kvg_pack_tensor *expected;  /* for BITS, RULE, and BOUND with a profile; else NULL */
    const kvg_pack_tensor *exact, *bound; /* for KVG_PACK_BOUND; else NULL */
} kvg_pack_answer;

/* From provenance.json: the distance of the nearest wrong answer that the pack's maker knew. */
typedef struct kvg_pack_separation {
    bool measured;       /* op decode */
    bool bits;           /* true: `least` counts changed bits; false: it is in units of the bound */
    double least;        /* +Inf: the wrong answer is no number */
    const char *nearest; /* a row of harness/trial/wrong/defects.def */
} kvg_pack_separation;

typedef struct kvg_pack_case {
    const char *key;  /* "0003" */
    const char *id;
    const char *text; /* its case group as JSON text: harness/pack/golden_case.h parses it */
    uint32_t layer;   /* layer of the pools on which the op works */
    bool stored;      /* true: the files hold its tensors; false: a recipe */
    const char *const *flags;
    kvg_pack_tensor *prompt, *expected;
    kvg_pack_answer *answer;
    size_t flag_count, prompt_count, expected_count, answer_count;
    kvg_pack_separation separation;
    bool has_erratum; /* an erratum of the pack names this case */
} kvg_pack_case;

typedef struct kvg_pack_erratum {
    const char *id, *date, *text;
    const char *const *cases; /* keys */
    size_t case_count;
} kvg_pack_erratum;

typedef struct kvg_pack_note {
    const char *flag, *text;
} kvg_pack_note;

typedef struct kvg_pack {
    const char *path; /* the path that was given to kvg_pack_open */
    const char *format_version, *name, *version, *licence;
    uint64_t seed;
    const char *superseded_by; /* NULL: the pack is not superseded */
    kvg_pack_case *cases;
    const char *const *profiles;
    const kvg_pack_note *notes;
    const kvg_pack_erratum *errata;
    size_t case_count, profile_count, note_count, erratum_count;
    kvg_sha256_digest manifest, prompt, expected; /* hashes of the three files */
    uint64_t prompt_bytes, expected_bytes;
    struct kvg_pack_data *data; /* owns everything above; private */
} kvg_pack;

/* Opens a folder and checks every byte of it (section 11). *out is set only if all checks pass;
 * then close it. KVG_ERR_IO: a file is missing, is a link or no regular file, or cannot be read.
 * KVG_ERR_INVALID: a file breaks the format. KVG_ERR_MEMORY. The error text is one line that names
 * pack, file, place and reason. */
kvg_status kvg_pack_open(const char *path, kvg_pack **out) KVG_CHECKED;
void kvg_pack_close(kvg_pack *pack); /* NULL is allowed */

/* Finds a case by its key ("0003") or its id. KVG_ERR_NOT_FOUND. */
kvg_status kvg_pack_find(const kvg_pack *pack, const char *key_or_id, const kvg_pack_case **out) KVG_CHECKED;

/* A tensor of a list by its short name; NULL if there is none. */
const kvg_pack_tensor *kvg_pack_tensor_find(const kvg_pack_tensor *list, size_t count, const char *short_name);

/* Calls `warn` with one line for each thing that a user of the pack must be told (section 10): that
 * the pack is superseded, and every erratum. `only` is the key of a case whose errata are wanted;
 * NULL: all errata. */
typedef void kvg_pack_warn(void *context, const char *line);
void kvg_pack_warnings(const kvg_pack *pack, const char *only, kvg_pack_warn *warn, void *context);

#endif
