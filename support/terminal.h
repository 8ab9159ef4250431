/* The terminal behind standard output and standard error. */
#ifndef KVG_SUPPORT_TERMINAL_H
#define KVG_SUPPORT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Columns of the terminal behind a descriptor; 0: it is no terminal, or does not say. */
unsigned kvg_terminal_width(int fd);

/* Colour is wanted there: a terminal that is not dumb, and no NO_COLOR in the environment (https://no-color.org). */
bool kvg_terminal_has_colour(int fd);

/* Marks in a text. What stands between a colour and KVG_TERMINAL_PLAIN has that colour. */
#define KVG_TERMINAL_RED "\001"
#define KVG_TERMINAL_GREEN "\002"
#define KVG_TERMINAL_PLAIN "\003"

/* Lines of text on a terminal of `width` columns (0: no line is broken), marks as colours or left out. A line that is
 * broken goes on below its last column. A line "    kvgold ..." is not broken: it is to be pasted. */
void kvg_terminal_lay_out(FILE *out, const char *text, unsigned width, bool colour);

#endif
