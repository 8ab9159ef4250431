#define _POSIX_C_SOURCE 200809L
#include "tests/golden/bad_files.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/made/made_files.h"

#define FOLDER MADE_FILES "/golden/bad"

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name);
    return length >= strlen(suffix) && strcmp(name + length - strlen(suffix), suffix) == 0;
}

/* The text that expect.txt gives for a file, in `text`; false if it is not listed. */
static bool is_listed(const char *file, char *text, size_t size)
{
    FILE *list = fopen(FOLDER "/expect.txt", "r");
    if (!list) fail_msg("cannot read %s/expect.txt", FOLDER);
    bool found = false;
    char line[512];
    while (!found && fgets(line, sizeof line, list)) {
        char *tab = strchr(line, '\t');
        if (!tab) fail_msg("no tab in a line of expect.txt: %s", line);
        line[strcspn(line, "\n")] = '\0';
        *tab = '\0';
        found = strcmp(line, file) == 0;
        if (found) snprintf(text, size, "%s", tab + 1);
    }
    fclose(list);
    return found;
}

static size_t count_listed(const char *suffix)
{
    FILE *list = fopen(FOLDER "/expect.txt", "r");
    if (!list) fail_msg("cannot read %s/expect.txt", FOLDER);
    size_t count = 0;
    char line[512];
    while (fgets(line, sizeof line, list)) {
        line[strcspn(line, "\t")] = '\0';
        count += ends_in(line, suffix);
    }
    fclose(list);
    return count;
}

static void check_file(const char *file, bad_files_open *open)
{
    char path[1024];
    char text[512] = "";
    snprintf(path, sizeof path, "%s/%s", FOLDER, file);
    if (!is_listed(file, text, sizeof text)) fail_msg("%s is not listed in expect.txt", path);
    if (text[0] == '\0') fail_msg("%s: expect.txt gives no text", path);
    if (open(path) == KVG_OK) fail_msg("%s: was read without an error", path);
    if (!strstr(kvg_error_text(), text)) fail_msg("%s: '%s' is not in '%s'", file, text, kvg_error_text());
    if (!strstr(kvg_error_text(), file)) fail_msg("%s: the error does not name the file: %s", file, kvg_error_text());
}

void bad_files_check(const char *suffix, bad_files_open *open)
{
    MADE_FILES_NEEDED();
    DIR *folder = opendir(FOLDER);
    if (!folder) fail_msg("cannot read %s", FOLDER);
    size_t count = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        const char *file = entry->d_name;
        if (ends_in(file, suffix)) {
            check_file(file, open);
            count++;
        } else if (file[0] != '.' && !ends_in(file, ".json") && !ends_in(file, ".safetensors") &&
                   strcmp(file, "expect.txt") != 0 && strcmp(file, "packs") != 0) {
            fail_msg("%s/%s is of no kind that a test runs", FOLDER, file);
        }
    }
    closedir(folder);
    if (count == 0) fail_msg("no %s file in %s", suffix, FOLDER);
    assert_int_equal(count, count_listed(suffix));
    print_message("%zu bad %s files refused\n", count, suffix);
}
