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

/* Length of the UTF-8 character at `text`, 0 if there is none that XML can hold. */
static size_t character_length(const unsigned char *text)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 0; n < 4; n++) {
        if ((text[0] & forms[n].mask) != forms[n].lead) continue;
        uint32_t code = text[0] & (unsigned char)~forms[n].mask;
        for (size_t i = 1; i <= n; i++) {
            if ((text[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        const bool control = (code < 0x20 && code != '\t' && code != '\n' && code != '\r') || (code >= 0x7f && code < 0xa0);
        const bool excluded = (code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff || code > 0x10ffff;
        return code < forms[n].least || control || excluded ? 0 : n + 1;
    }
    return 0;
}

void kvg_report_escape(FILE *out, const char *text)
{
    static const char special[] = "&<>\"'\n\r\t";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#10;", "&#13;", "&#9;"};
    while (*text) {
        const char *at = strchr(special, *text);
        const size_t length = character_length((const unsigned char *)text);
        if (at) fputs(entities[at - special], out);
        else if (length) fwrite(text, 1, length, out);
        else fputs("\xEF\xBF\xBD", out); /* U+FFFD */
        text += length ? length : 1;
    }
}

void kvg_report_plain(FILE *out, const char *text)
{
    while (*text) {
        const size_t length = character_length((const unsigned char *)text);
        if (length && *text != '\t' && *text != '\n' && *text != '\r') fwrite(text, 1, length, out);
        else putc(*text == '\n' || *text == '\t' ? ' ' : '?', out);
        text += length ? length : 1;
    }
}
