#define _DEFAULT_SOURCE
#include "support/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

unsigned kvg_terminal_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool kvg_terminal_has_colour(int fd)
{
    const char *refused = getenv("NO_COLOR"), *kind = getenv("TERM");
    return isatty(fd) && !(refused && refused[0]) && kind && strcmp(kind, "dumb") != 0;
}

/* --- lines --- */

static bool is_mark(char c)
{
    return c == KVG_TERMINAL_RED[0] || c == KVG_TERMINAL_GREEN[0] || c == KVG_TERMINAL_PLAIN[0];
}

/* Columns of the first `length` bytes. */
static size_t columns(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += !is_mark(text[i]) && ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static void put(FILE *out, const char *text, size_t length, bool colour)
{
    static const char *const escapes[] = {[1] = "\033[1;31m", [2] = "\033[32m", [3] = "\033[0m"};
    for (size_t i = 0; i < length; i++) {
        if (!is_mark(text[i])) putc(text[i], out);
        else if (colour) fputs(escapes[(int)text[i]], out);
    }
}

/* Where a broken line goes on: behind its last gap of two blanks or more, which begins its last column. */
static size_t hang_of(const char *line, size_t length)
{
    size_t hang = 0;
    for (size_t i = 0; i + 2 < length; i++) {
        if (line[i] == ' ' && line[i + 1] == ' ' && line[i + 2] != ' ') hang = i + 2;
    }
    return hang;
}

/* A word that no line can hold is not moved. Commands that are to be pasted are not broken. */
static void lay_line(FILE *out, const char *line, size_t length, unsigned width, bool colour)
{
    const size_t blanks = strspn(line, " "), hang = hang_of(line, length), indent = hang <= width / 2 ? hang : 4;
    if (!width || columns(line, length) <= width || strncmp(line, "    kvgold ", 11) == 0) {
        put(out, line, length, colour);
        return;
    }
    put(out, line, blanks, colour);
    size_t used = blanks;
    for (size_t at = blanks; at < length;) {
        const char *blank = memchr(line + at, ' ', length - at);
        const size_t end = blank ? (size_t)(blank - line) : length, wide = columns(line + at, end - at);
        const bool fits = used + 1 + wide <= width || indent + wide > width;
        if (at > blanks && fits) {
            putc(' ', out);
            used++;
        } else if (at > blanks) {
            fprintf(out, "\n%*s", (int)indent, "");
            used = indent;
        }
        put(out, line + at, end - at, colour);
        used += wide;
        at = end + 1;
    }
}

void kvg_terminal_lay_out(FILE *out, const char *text, unsigned width, bool colour)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        lay_line(out, text, length, width, colour);
        text += length;
        if (*text) putc(*text++, out);
    }
}
