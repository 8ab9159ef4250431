/* gnuplot as a child process, and its SVG made fit to stand in a page. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/report/report_plot.h"
#include "support/child.h"

kvg_report_label_text kvg_report_label(const char *text, size_t length)
{
    static const char kept[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    kvg_report_label_text out = {""};
    for (size_t i = 0; i < length && i < sizeof out.text - 1; i++) out.text[i] = strchr(kept, text[i]) ? text[i] : '?';
    return out;
}

/* Runs gnuplot on files, not pipes: neither side ever waits for the other. -d keeps the user's own settings out. */
static kvg_status run_gnuplot(FILE *script, FILE *picture, FILE *messages)
{
    char name[] = "gnuplot", no_settings[] = "-d";
    char *const argv[] = {name, no_settings, NULL};
    FILE *const streams[] = {script, picture, messages};
    int status = 0;
    kvg_status s = kvg_child_program(argv, streams, &status);
    if (s) return s;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return KVG_OK;
    char said[300] = "";
    rewind(messages);
    const size_t size = fread(said, 1, sizeof said - 1, messages);
    said[size] = '\0';
    return kvg_fail(KVG_ERR_IO, "gnuplot failed: %s", said);
}

static kvg_status read_back(FILE *picture, char **text)
{
    long size = -1;
    if (fseek(picture, 0, SEEK_END) == 0) size = ftell(picture);
    rewind(picture);
    if (size < 0) return kvg_fail(KVG_ERR_IO, "gnuplot's picture cannot be read: %s", strerror(errno));
    *text = malloc((size_t)size + 1);
    if (!*text) return kvg_fail(KVG_ERR_MEMORY, "no memory for a plot of %ld bytes", size);
    const size_t got = fread(*text, 1, (size_t)size, picture);
    (*text)[got] = '\0';
    return KVG_OK;
}

/* Copies the picture's content. Its ids get a prefix: a page holds several pictures, and gnuplot names all alike. */
static void write_content(FILE *out, const char *text, int number)
{
    static const char *const marks[] = {" id='", " id=\"", "href='#", "url(#"};
    while (*text) {
        const char *mark = NULL;
        for (size_t i = 0; i < sizeof marks / sizeof marks[0] && !mark; i++) {
            if (strncmp(text, marks[i], strlen(marks[i])) == 0) mark = marks[i];
        }
        if (mark) {
            fprintf(out, "%sp%d-", mark, number);
            text += strlen(mark);
        } else {
            putc(*text++, out);
        }
    }
}

/* A header of our own instead of gnuplot's, which names other addresses. */
static kvg_status make_inline(const char *text, const char *title, int number, char **svg)
{
    unsigned width, height;
    const char *box = strstr(text, "viewBox=\"0 0 "), *content = strstr(text, "<g id=\"gnuplot_canvas\"");
    if (!box || !content || !strstr(content, "</svg>") || sscanf(box, "viewBox=\"0 0 %u %u", &width, &height) != 2) {
        return kvg_fail(KVG_ERR_IO, "gnuplot wrote no SVG picture");
    }
    size_t size;
    FILE *out = open_memstream(svg, &size);
    if (!out) return kvg_fail(KVG_ERR_MEMORY, "no memory for a plot");
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" height=\"%u\" "
            "role=\"img\" aria-label=\"%s\">\n", width, height, width, height, title);
    write_content(out, content, number);
    if (fclose(out) == 0) return KVG_OK;
    free(*svg);
    *svg = NULL;
    return kvg_fail(KVG_ERR_MEMORY, "no memory for a plot");
}

kvg_status kvg_report_draw(const kvg_report *report, const kvg_report_plot *plot, int number, char **svg)
{
    *svg = NULL;
    kvg_status s = KVG_OK;
    char *text = NULL;
    FILE *script = tmpfile(), *picture = tmpfile(), *messages = tmpfile();
    if (!script || !picture || !messages) {
        s = kvg_fail(KVG_ERR_IO, "no temporary file for gnuplot: %s", strerror(errno));
    } else if (plot->script(report, script)) {
        if (fflush(script) != 0 || fseek(script, 0, SEEK_SET) != 0) {
            s = kvg_fail(KVG_ERR_IO, "no temporary file for gnuplot: %s", strerror(errno));
        }
        if (!s) s = run_gnuplot(script, picture, messages);
        if (!s) s = read_back(picture, &text);
        if (!s) s = make_inline(text, plot->title, number, svg);
    }
    free(text);
    if (script) fclose(script);
    if (picture) fclose(picture);
    if (messages) fclose(messages);
    return s;
}
