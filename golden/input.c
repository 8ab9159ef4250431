#define _POSIX_C_SOURCE 200809L
#include "golden/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/name.h"

enum { QUOTE_BYTES = 60, NAME_BYTES = 160 };

static kvg_status check_regular(const char *path, int fd, size_t *size)
{
    struct stat st;
    kvg_input_text shown = kvg_input_name(path);
    const char *name = shown.text;
    if (fstat(fd, &st) != 0) return kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", name, strerror(errno));
    if (S_ISDIR(st.st_mode)) return kvg_fail(KVG_ERR_IO, "%s: is a folder: give a file in it", name);
    if (!S_ISREG(st.st_mode)) {
        return kvg_fail(KVG_ERR_IO, "%s: is not a regular file: copy its contents to one", name);
    }
    if (st.st_size <= 0) return kvg_fail(KVG_ERR_INVALID, "%s: is empty: write it again", name);
    if ((uintmax_t)st.st_size > SIZE_MAX) return kvg_fail(KVG_ERR_IO, "%s: is too large for memory", name);
    *size = (size_t)st.st_size;
    return KVG_OK;
}

kvg_status kvg_input_open(const char *path, int *fd, size_t *size)
{
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO must not make us wait */
    if (opened < 0 && errno == ENOENT) return kvg_name_fail_file(path, NULL);
    if (opened < 0) {
        return kvg_fail(KVG_ERR_IO, "%s: cannot open: %s", kvg_input_name(path).text, strerror(errno));
    }
    kvg_status s = check_regular(path, opened, size);
    if (s != KVG_OK) {
        close(opened);
        return s;
    }
    *fd = opened;
    return KVG_OK;
}

static kvg_status open_at(int folder, const char *name, const char *shown, int *fd)
{
    *fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (*fd >= 0) return KVG_OK;
    if (errno == ELOOP) {
        return kvg_fail(KVG_ERR_IO, "%s: is a symbolic link: put the file itself there", kvg_input_name(shown).text);
    }
    return kvg_fail(KVG_ERR_IO, "%s: cannot open: %s", kvg_input_name(shown).text, strerror(errno));
}

kvg_status kvg_input_map_at(int folder, const char *name, const char *shown, uint64_t most, kvg_input_bytes *out)
{
    int fd;
    size_t size = 0;
    *out = (kvg_input_bytes){0};
    kvg_status s = open_at(folder, name, shown, &fd);
    if (s != KVG_OK) return s;
    s = check_regular(shown, fd, &size);
    if (s == KVG_OK && size > most) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: %zu bytes are over this reader's limit of %llu", kvg_input_name(shown).text,
                     size, (unsigned long long)most);
    }
    if (s == KVG_OK) {
        void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) *out = (kvg_input_bytes){map, size};
        else s = kvg_fail(KVG_ERR_IO, "%s: cannot be mapped: %s", kvg_input_name(shown).text, strerror(errno));
    }
    close(fd);
    return s;
}

void kvg_input_unmap(kvg_input_bytes *bytes)
{
    if (bytes->bytes) munmap((void *)(uintptr_t)bytes->bytes, bytes->size);
    *bytes = (kvg_input_bytes){0};
}

void kvg_input_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
    }
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

kvg_input_text kvg_input_quote(const char *text)
{
    kvg_input_text out = {""};
    size_t length = strnlen(text, QUOTE_BYTES + 1);
    size_t keep = length;
    if (length > QUOTE_BYTES) {
        keep = QUOTE_BYTES;
        while (keep > 0 && is_continuation(text[keep])) keep--; /* no half characters */
        memcpy(out.text + keep, "...", 3);
    }
    memcpy(out.text, text, keep);
    kvg_input_printable(out.text);
    return out;
}

kvg_input_text kvg_input_name(const char *path)
{
    kvg_input_text out = {""};
    size_t length = strlen(path);
    if (length > NAME_BYTES) {
        const char *tail = path + length - (NAME_BYTES - 3);
        while (is_continuation(*tail)) tail++;
        memcpy(out.text, "...", 3);
        memcpy(out.text + 3, tail, strlen(tail));
    } else {
        memcpy(out.text, path, length);
    }
    kvg_input_printable(out.text);
    return out;
}
