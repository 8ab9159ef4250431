/* Files that a script makes with the tests (tests/made/make_files.py): bad files, bad packs, bad configs. */
#ifndef KVG_TESTS_MADE_MADE_FILES_H
#define KVG_TESTS_MADE_MADE_FILES_H

#include <unistd.h>

#define MADE_FILES KVG_BINARY_DIR "/made"

/* Skips the running test of cmocka where the build had no Python to make them. */
#define MADE_FILES_NEEDED()                                                                              \
    do {                                                                                                 \
        if (access(MADE_FILES, R_OK) != 0) {                                                             \
            print_message("skipped: there is no " MADE_FILES ": a build without Python makes no bad files\n"); \
            skip();                                                                                      \
        }                                                                                                \
    } while (0)

#endif
