/* Plots of the page; private to harness/report and to guests. */
#ifndef KVG_HARNESS_REPORT_REPORT_PLOT_H
#define KVG_HARNESS_REPORT_REPORT_PLOT_H

#include "harness/report/report_data.h"

/* A plot of the page: `script` writes gnuplot's commands; false: the report has nothing to plot. Text from result files
 * reaches gnuplot as kvg_report_label alone, in single quotes. */
typedef struct kvg_report_plot {
    const char *title, *caption;
    bool (*script)(const kvg_report *report, FILE *out);
} kvg_report_plot;

/* Text that is harmless in a gnuplot script: letters, digits and ._+- are kept, the rest becomes '?'. */
typedef struct kvg_report_label_text {
    char text[64];
} kvg_report_label_text;

kvg_report_label_text kvg_report_label(const char *text, size_t length);

extern const kvg_report_plot kvg_report_plots[]; /* the judge's; a guest has its own */
extern const size_t kvg_report_plot_count;

/* The plot as an <svg> element that can stand in a page beside others (`number` makes its ids unique), to be freed;
 * NULL if there is nothing to plot. KVG_ERR_IO says why gnuplot did not draw it. */
kvg_status kvg_report_draw(const kvg_report *report, const kvg_report_plot *plot, int number, char **svg) KVG_CHECKED;

#endif
