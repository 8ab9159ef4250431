/* The packs that the repository carries, good and bad, and copies of them to be spoilt. */
#ifndef KVG_TESTS_GOLDEN_PACK_FILES_H
#define KVG_TESTS_GOLDEN_PACK_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "golden/reader/kvgold_pack.h"
#include "tests/made/made_files.h"

#define PACK_GOOD KVG_SOURCE_DIR "/golden/bad/packs/good"
#define PACKS_BAD MADE_FILES "/golden/bad/packs"
#define PACKS_CARRIED KVG_SOURCE_DIR "/golden/data/packs"

extern const char *const pack_file_names[KVGOLD_FILES]; /* in the order of the reader's enumeration */

typedef void pack_visit(const char *path, const char *name, void *context);

/* Calls `visit` for every pack of the folder, by name; the number of them. Fails the running test if it cannot be
 * read. */
size_t pack_files_each(const char *folder, pack_visit *visit, void *context);

/* Both readers' verdicts: whether kvgold's takes the folder, and the single-file one. Each that refuses must say so in
 * one line of printable characters that names the folder. */
typedef struct pack_verdict {
    bool kvgold, reader;
    char kvgold_text[1024], reader_text[KVGOLD_ERROR_SIZE];
} pack_verdict;

pack_verdict pack_files_judge(const char *path);

/* A file whole, in memory that the caller frees. */
kvgold_file pack_files_read(const char *folder, const char *name);
void pack_files_write(const char *folder, const char *name, const void *data, size_t size);

/* A fresh copy of the good pack in `folder`, of which only these six files are touched. */
void pack_files_copy_good(const char *folder);

#endif
