/* What the files of golden/pack*.c share; private to golden/. */
#ifndef KVG_GOLDEN_PACK_PARTS_H
#define KVG_GOLDEN_PACK_PARTS_H

#include "golden/input.h"
#include "golden/json.h"
#include "golden/pack.h"

/* Files that come with a line for `sha256sum -c`. */
#define KVG_PACK_MANIFEST_SUM "manifest.sha256"
#define KVG_PACK_PROVENANCE_SUM "provenance.sha256"

enum {
    KVG_PACK_NAME_BYTES = 64,
    KVG_PACK_SUM_BYTES = 128 /* holds the line of either */
};
#define KVG_PACK_MAX_FILE_BYTES (UINT64_C(1) << 36)
#define KVG_PACK_MAX_TENSOR_BYTES (UINT64_C(1) << 38)

typedef struct kvg_pack_block kvg_pack_block; /* of memory that lives as long as the pack */

struct kvg_pack_data {
    kvg_pack_block *blocks;
    kvg_json_doc *manifest;
    kvg_safetensors *files[KVG_PACK_FILES]; /* prompt and expected */
    kvg_input_bytes bytes[KVG_PACK_FILES];
};

/* The line "<64 hex>  NAME\n" of a digest. */
void kvg_pack_sum_line(const kvg_sha256_digest *digest, const char *name, char line[KVG_PACK_SUM_BYTES]);

/* golden/pack_manifest.c: fills everything of *pack but files and data from the manifest. */
kvg_status kvg_pack_read_manifest(kvg_pack *pack, kvg_json root) KVG_CHECKED;

/* golden/pack_tensors.c: holds the two safetensors files against the manifest, byte for byte, and gives tensors their
 * data. */
kvg_status kvg_pack_read_tensors(kvg_pack *pack) KVG_CHECKED;

#endif
