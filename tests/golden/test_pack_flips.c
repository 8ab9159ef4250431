/* Every single-bit flip of the good pack's six files is noticed: by the single-file reader in memory, by kvgold's in a
 * folder. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden/pack.h"
#include "tests/golden/pack_files.h"

enum { FOLDERS = 4 }; /* shares of the flips */

typedef struct tally {
    size_t tried, missed;
} tally;

static void read_good(kvgold_file files[KVGOLD_FILES])
{
    for (int i = 0; i < KVGOLD_FILES; i++) files[i] = pack_files_read(PACK_GOOD, pack_file_names[i]);
}

static void free_files(kvgold_file files[KVGOLD_FILES])
{
    for (int i = 0; i < KVGOLD_FILES; i++) free((void *)files[i].data);
}

static void report(const char *who, const kvgold_file files[KVGOLD_FILES], tally t)
{
    size_t bits = 0;
    for (int i = 0; i < KVGOLD_FILES; i++) bits += 8 * files[i].size;
    print_message("%s: %zu single-bit flips, %zu noticed\n", who, t.tried, t.tried - t.missed);
    assert_int_equal(t.tried, bits);
    assert_int_equal(t.missed, 0);
}

static void test_reader(void **state)
{
    (void)state;
    kvgold_file files[KVGOLD_FILES];
    char error[KVGOLD_ERROR_SIZE];
    size_t tried = 0, missed = 0;
    read_good(files);
    kvgold_pack *good = kvgold_pack_parse(files, error);
    if (!good) fail_msg("%s", error);
    kvgold_pack_close(good);
    for (int i = 0; i < KVGOLD_FILES; i++) {
#pragma omp parallel for reduction(+ : tried, missed) schedule(dynamic, 64)
        for (size_t byte = 0; byte < files[i].size; byte++) {
            kvgold_file spoilt[KVGOLD_FILES];
            char text[KVGOLD_ERROR_SIZE];
            uint8_t *copy = malloc(files[i].size);
            if (!copy) continue; /* shows in the count */
            memcpy(spoilt, files, sizeof spoilt);
            memcpy(copy, files[i].data, files[i].size);
            spoilt[i].data = copy;
            for (int bit = 0; bit < 8; bit++, tried++) {
                copy[byte] ^= (uint8_t)(1u << bit);
                kvgold_pack *pack = kvgold_pack_parse(spoilt, text);
                missed += pack != NULL;
                kvgold_pack_close(pack);
                copy[byte] ^= (uint8_t)(1u << bit);
            }
            free(copy);
        }
    }
    report("single-file reader", files, (tally){tried, missed});
    free_files(files);
}

/* Every FOLDERS-th byte of every file, from `share` on; nothing of cmocka, which is not for several threads. */
static tally flip_in_folder(const char *folder, const kvgold_file files[KVGOLD_FILES], size_t share)
{
    tally t = {0, 0};
    char path[1024];
    for (int i = 0; i < KVGOLD_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, pack_file_names[i]);
        const int fd = open(path, O_WRONLY);
        for (size_t at = share; fd >= 0 && at < files[i].size; at += FOLDERS) {
            const uint8_t right = ((const uint8_t *)files[i].data)[at];
            for (int bit = 0; bit < 8; bit++) {
                const uint8_t wrong = right ^ (uint8_t)(1u << bit);
                kvg_pack *pack = NULL;
                if (pwrite(fd, &wrong, 1, (off_t)at) != 1) continue;
                t.missed += kvg_pack_open(folder, &pack) == KVG_OK;
                t.tried++;
                kvg_pack_close(pack);
            }
            if (pwrite(fd, &right, 1, (off_t)at) != 1) t.missed++;
        }
        close(fd);
    }
    return t;
}

static void test_kvgold(void **state)
{
    (void)state;
    kvgold_file files[KVGOLD_FILES];
    char folder[FOLDERS][1024];
    size_t tried = 0, missed = 0;
    read_good(files);
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(folder[i], sizeof folder[i], "%s/scratch_flips_%d", KVG_BINARY_DIR, i);
        pack_files_copy_good(folder[i]);
    }
#pragma omp parallel for reduction(+ : tried, missed)
    for (int i = 0; i < FOLDERS; i++) {
        const tally t = flip_in_folder(folder[i], files, (size_t)i);
        tried += t.tried;
        missed += t.missed;
    }
    for (int i = 0; i < FOLDERS; i++) { /* all flips are undone */
        kvg_pack *pack = NULL;
        if (kvg_pack_open(folder[i], &pack) != KVG_OK) fail_msg("%s", kvg_error_text());
        kvg_pack_close(pack);
    }
    report("kvgold", files, (tally){tried, missed});
    free_files(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reader), cmocka_unit_test(test_kvgold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
