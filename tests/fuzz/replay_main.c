/* Runs a fuzz target without libFuzzer: over each file given, and over seeded mutations of it. The same inputs every
 * time, so that gcc, the sanitizers and Valgrind can all replay a corpus.
 *
 *     replay_json [--mutations N] [--seed S] FILE|FOLDER...
 *
 * A folder stands for the .json and .safetensors files in it.
 * A target that aborts leaves the input in replay-crash.bin, if it could be written. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUT = 1 << 16 }; /* larger files are cut: mutations of them would only be slow */

static uint8_t original[MAX_INPUT]; /* the file */
static size_t original_size;
static uint8_t input[MAX_INPUT]; /* the file or a mutation of it */
static size_t input_size;
static uint64_t random_state;

static uint64_t next_random(void) /* splitmix64 */
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(size_t limit)
{
    return limit ? (size_t)(next_random() % limit) : 0;
}

static void keep_input(int signal_number)
{
    FILE *f = fopen("replay-crash.bin", "wb"); /* not async-signal-safe, but the process is lost anyway */
    if (f) {
        fwrite(input, 1, input_size, f);
        fclose(f);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* The target gets a block of exactly the input's size, so that a read past its end is seen. */
static void run_input(void)
{
    uint8_t *exact = malloc(input_size ? input_size : 1);
    if (!exact) return;
    memcpy(exact, input, input_size);
    LLVMFuzzerTestOneInput(exact, input_size);
    free(exact);
}

static void remove_bytes(size_t at, size_t count)
{
    memmove(input + at, input + at + count, input_size - at - count);
    input_size -= count;
}

static void insert_bytes(size_t at, const void *bytes, size_t count)
{
    uint8_t copy[64];
    if (count > sizeof copy) count = sizeof copy;
    if (input_size + count > MAX_INPUT) return;
    memcpy(copy, bytes, count); /* `bytes` may lie in the input */
    memmove(input + at + count, input + at, input_size - at);
    memcpy(input + at, copy, count);
    input_size += count;
}

static void mutate(void)
{
    static const char *const tokens[] = {
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0000", "\\ud800", "null", "true", "-", ".", "e", "0", "1e999",
        "9007199254740993", "18446744073709551616", "\xff", "\xed\xa0\x80", "{\"a\":", "[[[[[[[[", " ", "\n", "0x1",
        "\"dtype\":\"F32\"", "\"shape\":[0]", "\"data_offsets\":[0,0]", "__metadata__",
    };
    size_t at = below(input_size + 1);
    size_t left = input_size - at;
    switch (below(7)) {
    case 0: if (left) input[at] ^= (uint8_t)(1u << below(8)); break;
    case 1: if (left) input[at] = (uint8_t)next_random(); break;
    case 2: if (left) remove_bytes(at, 1 + below(left < 8 ? left : 8)); break;
    case 3: insert_bytes(at, input + at, below((left < 64 ? left : 64) + 1)); break;
    case 4: {
        const char *token = tokens[below(sizeof tokens / sizeof tokens[0])];
        insert_bytes(at, token, strlen(token));
        break;
    }
    case 5: if (left && input[at] >= '0' && input[at] <= '9') input[at] = (uint8_t)('0' + below(10)); break;
    default: if (below(8) == 0) input_size = at; break;
    }
}

static bool read_original(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    original_size = fread(original, 1, MAX_INPUT, f);
    bool good = !ferror(f);
    fclose(f);
    return good;
}

/* What one file gives does not depend on the others. The number of inputs; 0: it cannot be read. */
static unsigned long replay_file(const char *path, unsigned long mutations, uint64_t seed)
{
    if (!read_original(path)) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        return 0;
    }
    random_state = seed;
    for (unsigned long m = 0; m <= mutations; m++) {
        memcpy(input, original, original_size);
        input_size = original_size;
        for (size_t k = m ? 1 + below(4) : 0; k > 0; k--) mutate();
        run_input();
    }
    return mutations + 1;
}

static bool is_seed(const char *name)
{
    const char *suffix = strrchr(name, '.');
    return suffix && (strcmp(suffix, ".json") == 0 || strcmp(suffix, ".safetensors") == 0);
}

/* A file, or those of a folder. The number of inputs; 0: one cannot be read, or the folder has none. */
static unsigned long replay(const char *path, unsigned long mutations, uint64_t seed)
{
    unsigned long runs = 0;
    DIR *folder = opendir(path);
    if (!folder) return replay_file(path, mutations, seed);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char file[4096];
        if (!is_seed(e->d_name)) continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        const unsigned long n = replay_file(file, mutations, seed);
        runs = n ? runs + n : 0;
        if (!n) break;
    }
    closedir(folder);
    if (!runs) fprintf(stderr, "replay: no file of %s was replayed\n", path);
    return runs;
}

int main(int argc, char **argv)
{
    unsigned long mutations = 0;
    uint64_t seed = 1;
    unsigned long runs = 0;
    signal(SIGABRT, keep_input);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutations") == 0 && i + 1 < argc) {
            mutations = strtoul(argv[++i], NULL, 10);
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 0);
            continue;
        }
        const unsigned long n = replay(argv[i], mutations, seed);
        if (!n) return 2;
        runs += n;
    }
    if (runs == 0) {
        fprintf(stderr, "usage: %s [--mutations N] [--seed S] FILE|FOLDER...\n", argv[0]);
        return 2;
    }
    printf("replay: %lu inputs\n", runs);
    return 0;
}
