/* Writing golden packs (docs/spec/golden-pack.md): from a kvg_pack whose cases are described and a source of their
 * bytes. */
#ifndef KVG_GOLDEN_PACK_WRITE_H
#define KVG_GOLDEN_PACK_WRITE_H

#include "golden/json.h"
#include "golden/json_write.h"
#include "golden/pack.h"

/* "low_first", "turbomind", "halves", NULL: how 4-bit codes lie in bytes (section 2). */
extern const char *const kvg_pack_packings[];

/* What a pack's name and its version must be: section 3. */
bool kvg_pack_is_name(const char *text);
bool kvg_pack_is_version(const char *text);

/* An empty pack, to be filled and closed. Memory of the functions below lives as long as it; NULL, with an error text,
 * if there is none. */
kvg_status kvg_pack_new(kvg_pack **out) KVG_CHECKED;
void *kvg_pack_alloc(kvg_pack *pack, size_t count, size_t size); /* all 0 */
const char *kvg_pack_keep(kvg_pack *pack, const char *text);
const char *kvg_pack_print(kvg_pack *pack, kvg_json value); /* a value's JSON text */

/* Gives case `index` its data, and its separation. The bytes stay until the next call. */
typedef kvg_status kvg_pack_load_fn(void *context, size_t index, kvg_pack_case *c);

/* Streams prompt and expected, one case at a time, into files of the folder `fd` (below 0: nowhere) and synchronises
 * them. Fills the digests of tensors and files, and the sizes of files. The pack's cases have all else. */
kvg_status kvg_pack_write_tensors(kvg_pack *pack, int fd, kvg_pack_load_fn *load, void *context) KVG_CHECKED;

/* The bytes of manifest.json. */
kvg_status kvg_pack_manifest_text(const kvg_pack *pack, kvg_json_text *out) KVG_CHECKED;

/* Writes NAME into the folder and synchronises it; then, if `sum` is not NULL, the file of that name with its hash. */
kvg_status kvg_pack_write_text(int fd, const char *name, const char *text, size_t size, const char *sum) KVG_CHECKED;

/* manifest.json and manifest.sha256. */
kvg_status kvg_pack_write_manifest(const kvg_pack *pack, int fd) KVG_CHECKED;

/* The bytes of an open pack's manifest.json; they live as long as it. */
void kvg_pack_manifest_bytes(const kvg_pack *pack, const char **text, size_t *size);

/* All files of an open pack but manifest.json and manifest.sha256, byte for byte. */
kvg_status kvg_pack_copy_files(const kvg_pack *pack, int fd) KVG_CHECKED;

/* provenance.json and provenance.sha256. */
kvg_status kvg_pack_write_provenance(int fd, const char *text) KVG_CHECKED;

/* A folder that appears at once or not at all. `open` makes a sibling of `path`; `commit` synchronises it and puts it
 * in the place of what is there, which it removes: only a pack or an empty folder is replaced. Without commit,
 * `abandon` removes the sibling. */
typedef struct kvg_pack_folder {
    char path[4096], temporary[2 * 4096 + 16];
    int fd, parent;
} kvg_pack_folder;
kvg_status kvg_pack_folder_open(const char *path, kvg_pack_folder *out) KVG_CHECKED;
kvg_status kvg_pack_folder_commit(kvg_pack_folder *folder) KVG_CHECKED;
void kvg_pack_folder_abandon(kvg_pack_folder *folder); /* after commit: nothing */

#endif
