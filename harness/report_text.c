/* Files that are whole or not there, and text that cannot break the format around it. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/report_data.h"

static kvg_status fail_write(const char *path, int error)
{
    return kvg_fail(KVG_ERR_IO, "%s: cannot write: %s", path, strerror(error ? error : EIO));
}

/* Fills `out` and closes it. */
static kvg_status fill(const kvg_report *report, const char *path, FILE *out,
                       void (*write)(const kvg_report *report, FILE *out))
{
    errno = 0;
    write(report, out);
    int error = 0;
    if (ferror(out)) error = errno ? errno : EIO;
    if (fclose(out) != 0 && !error) error = errno ? errno : EIO;
    return error ? fail_write(path, error) : KVG_OK;
}

kvg_status kvg_report_write(const kvg_report *report, const char *path,
                            void (*write)(const kvg_report *report, FILE *out))
{
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a rename would replace the device or the link */
        FILE *out = fopen(path, "w");
        return out ? fill(report, path, out, write) : fail_write(path, errno);
    }
    const size_t size = strlen(path) + 32;
    char *part = malloc(size);
    if (!part) return kvg_fail(KVG_ERR_MEMORY, "no memory for the name of %s", path);
    snprintf(part, size, "%s.%ld.part", path, (long)getpid());
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    kvg_status s = out ? fill(report, path, out, write) : fail_write(path, errno);
    if (fd >= 0 && !out) close(fd);
    if (!s && rename(part, path) != 0) s = fail_write(path, errno);
    if (s && fd >= 0) unlink(part);
    free(part);
    return s;
}

/* The UTF-8 character at `text`: its length (1 for a byte that begins none), and whether XML can hold it. */
typedef struct character {
    size_t length;
    bool valid;
} character;

static character read_character(const char *from)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const unsigned char *text = (const unsigned char *)from;
    size_t more = 0;
    while (more < 4 && (text[0] & forms[more].mask) != forms[more].lead) more++;
    if (more == 4) return (character){1, false};
    uint32_t code = text[0] & (unsigned char)~forms[more].mask;
    for (size_t i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80) return (character){1, false};
        code = code << 6 | (text[i] & 0x3f);
    }
    const bool control = (code < 0x20 && code != '\t' && code != '\n' && code != '\r') || (code >= 0x7f && code < 0xa0);
    const bool excluded = (code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff || code > 0x10ffff;
    return (character){more + 1, code >= forms[more].least && !control && !excluded};
}

void kvg_report_escape(FILE *out, const char *text)
{
    static const char special[] = "&<>\"'\n\r\t";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#10;", "&#13;", "&#9;"};
    while (*text) {
        const char *at = strchr(special, *text);
        const character c = read_character(text);
        if (at) fputs(entities[at - special], out);
        else if (c.valid) fwrite(text, 1, c.length, out);
        else fputs("\xEF\xBF\xBD", out); /* U+FFFD */
        text += c.length;
    }
}

void kvg_report_plain(FILE *out, const char *text)
{
    while (*text) {
        const character c = read_character(text);
        if (*text == '\n' || *text == '\t') putc(' ', out);
        else if (c.valid && *text != '\r') fwrite(text, 1, c.length, out);
        else putc('?', out);
        text += c.length;
    }
}
