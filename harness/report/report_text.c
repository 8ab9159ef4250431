/* Text that cannot break the format around it, and notes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_data.h"
#include "support/whole_file.h"

typedef struct page {
    const kvg_report *report;
    void (*write)(const kvg_report *report, FILE *out);
} page;

static kvg_status write_page(void *context, FILE *out)
{
    const page *p = context;
    p->write(p->report, out);
    return KVG_OK;
}

kvg_status kvg_report_write(const kvg_report *report, const char *path,
                            void (*write)(const kvg_report *report, FILE *out))
{
    page p = {report, write};
    return kvg_whole_file_write(path, write_page, &p);
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

kvg_status kvg_report_note(kvg_report *report, const char *format, ...)
{
    enum { NOTE_SIZE = 1024 };
    char **grown = realloc(report->notes, (report->note_count + 1) * sizeof *grown);
    if (grown) report->notes = grown;
    char *text = malloc(NOTE_SIZE);
    if (!grown || !text) {
        free(text);
        return kvg_fail(KVG_ERR_MEMORY, "no memory for the report's notes");
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, NOTE_SIZE, format, args);
    va_end(args);
    grown[report->note_count++] = text;
    return KVG_OK;
}
