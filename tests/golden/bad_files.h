/* golden/bad: one small file per reason to refuse it, and expect.txt with what the error text must contain. */
#ifndef KVG_TESTS_GOLDEN_BAD_FILES_H
#define KVG_TESTS_GOLDEN_BAD_FILES_H

#include "core/status.h"

#ifndef KVG_SOURCE_DIR
#define KVG_SOURCE_DIR "." /* where golden/ lies; a build elsewhere defines it */
#endif

typedef kvg_status bad_files_open(const char *path); /* opens and closes */

/* Fails the running cmocka test unless every file of the folder that ends in `suffix` is listed in expect.txt, every
 * listed one exists, `open` refuses each with its text, and there is at least one. Also fails on files of no known
 * kind, which no test would run. */
void bad_files_check(const char *suffix, bad_files_open *open);

#endif
