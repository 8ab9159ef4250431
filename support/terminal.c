#define _DEFAULT_SOURCE
#include "support/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/clock.h"

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

void kvg_terminal_progress(double start, size_t done, size_t of, const char *unit, const char *rest)
{
    enum { BAR = 20 };
    char line[512], speed[64] = "";
    const double seconds = kvg_clock_seconds() - start;
    const unsigned width = kvg_terminal_width(STDERR_FILENO);
    if (width < 2 || of == 0) return;
    if (done > 0 && seconds > 1) {
        const double rate = (double)done / seconds;
        snprintf(speed, sizeof speed, ", %.3g/s, %.0f s left", rate, (double)(of - done) / rate);
    }
    const int filled = (int)(done * BAR / of);
    snprintf(line, sizeof line, "[%.*s%*s] %zu of %zu %s%s  %s", filled, "####################", BAR - filled, "", done,
             of, unit, speed, rest);
    fprintf(stderr, "\r\033[K%.*s", (int)width - 1, line);
}

void kvg_terminal_clear(void)
{
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}
