/* The plots: what gnuplot is told. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_plot.h"

static const char k_colour[] = "#2a7de1", v_colour[] = "#e07b00", grid_colour[] = "#9a9a9a", bad_colour[] = "#d62728";

static kvg_report_label_text label(const char *text)
{
    return kvg_report_label(text, strlen(text));
}

static void write_header(FILE *out, unsigned width, unsigned height)
{
    fprintf(out, "set terminal svg size %u,%u noenhanced font 'sans-serif,13'\n", width, height);
    fprintf(out, "set datafile missing '?'\nset tics nomirror\nset grid lc rgb '%s' lw 0.4 dt 1\n", grid_colour);
    fputs("set border 3 lw 0.8\n", out);
}

static void write_value(FILE *out, double x)
{
    if (isfinite(x)) fprintf(out, " %.6g", x);
    else fputs(" ?", out);
}

/* --- relative L2: a row per format and dialect, sorted by size --- */

static int compare_size(const void *a, const void *b)
{
    const kvg_report_group *x = *(const kvg_report_group *const *)a, *y = *(const kvg_report_group *const *)b;
    const double left = isnan(x->bits) ? 0 : x->bits, right = isnan(y->bits) ? 0 : y->bits;
    if (left != right) return left > right ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The groups that `has` something to plot, in a new array; NULL if there are none or no memory. */
static const kvg_report_group **select_groups(const kvg_report *r, bool (*has)(const kvg_report_group *g),
                                              size_t *count)
{
    const kvg_report_group **rows = malloc((r->group_count + 1) * sizeof *rows);
    *count = 0;
    for (size_t i = 0; rows && i < r->group_count; i++) {
        if (has(&r->groups[i])) rows[(*count)++] = &r->groups[i];
    }
    if (*count) return rows;
    free(rows);
    return NULL;
}

static bool has_l2(const kvg_report_group *g)
{
    return isfinite(g->relative_l2[KVG_K]) || isfinite(g->relative_l2[KVG_V]);
}

static bool write_l2(const kvg_report *r, FILE *out)
{
    size_t count;
    const kvg_report_group **rows = select_groups(r, has_l2, &count);
    if (!rows) return false;
    qsort(rows, count, sizeof rows[0], compare_size);
    write_header(out, 900, (unsigned)(90 + 21 * count));
    fprintf(out, "set yrange [%zu.6:0.4]\nset xlabel 'relative L2 error (logarithmic)'\nset key above horizontal\n",
            count);
    fputs("set ytics ()\nset grid x\nset format x '%g'\n", out);
    double low = INFINITY, high = 0;
    fputs("$data << END\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%zu", i + 1);
        for (int side = KVG_K; side <= KVG_V; side++) {
            const double x = rows[i]->relative_l2[side];
            write_value(out, x > 0 ? x : NAN);
            if (x > 0 && x < low) low = x;
            if (x > high && isfinite(x)) high = x;
        }
        putc('\n', out);
    }
    fputs("END\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "set ytics add ('%s  %.2f bits' %zu)\n", label(rows[i]->storage).text, rows[i]->bits, i + 1);
        if (!(rows[i]->relative_l2[KVG_K] > 0) && !(rows[i]->relative_l2[KVG_V] > 0)) {
            fprintf(out, "set label 'exact' at graph 0.03, first %zu tc rgb '%s'\n", i + 1, grid_colour);
        }
    }
    if (high <= 0) low = 1e-3, high = 1; /* all exact */
    fprintf(out, "set logscale x\nset xrange [%.6g:%.6g]\n", low / 1.6, high * 1.6);
    fprintf(out, "plot $data using 2:1:($3-$2):(0) with vectors nohead lc rgb '%s' lw 2 notitle, \\\n"
            "  $data using 2:1 with points pt 7 ps 0.8 lc rgb '%s' title 'K', \\\n"
            "  $data using 3:1 with points pt 12 ps 1.0 lw 2 lc rgb '%s' title 'V'\n", grid_colour, k_colour, v_colour);
    free(rows);
    return true;
}

/* --- SQNR: two bars per format --- */

static bool has_sqnr(const kvg_report_group *g)
{
    return g->canonical && !g->mixed && (!isnan(g->sqnr_db[KVG_K]) || !isnan(g->sqnr_db[KVG_V]));
}

static bool write_sqnr(const kvg_report *r, FILE *out)
{
    size_t count;
    const kvg_report_group **bars = select_groups(r, has_sqnr, &count);
    if (!bars) return false;
    write_header(out, 900, 360);
    fputs("set ylabel 'SQNR (dB), more is better'\nset key above horizontal\nset style fill solid 0.85 noborder\n",
          out);
    fprintf(out, "set boxwidth 0.36\nset xrange [0.4:%zu.6]\nset yrange [0:*]\nset offsets 0,0,3,0\nset grid noxtics\n"
            "set xtics ()\nset xtics scale 0\n", count);
    fputs("$data << END\n", out);
    bool drawn = false;
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%zu", i + 1);
        for (int side = KVG_K; side <= KVG_V; side++) {
            write_value(out, bars[i]->sqnr_db[side]);
            drawn = drawn || isfinite(bars[i]->sqnr_db[side]);
        }
        putc('\n', out);
    }
    fputs("END\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "set xtics add ('%s' %zu)\n", label(bars[i]->asked->k_format).text, i + 1);
        for (int side = KVG_K; side <= KVG_V; side++) {
            if (!isinf(bars[i]->sqnr_db[side])) continue;
            fprintf(out, "set label 'exact' at first %.2f, graph 0.02 rotate left tc rgb '%s'\n",
                    (double)(i + 1) + (side == KVG_K ? -0.2 : 0.2), side == KVG_K ? k_colour : v_colour);
        }
    }
    if (!drawn) {
        fputs("set yrange [0:1]\nunset ytics\nplot NaN notitle\n", out);
    } else {
        fprintf(out, "plot $data using ($1-0.2):2 with boxes lc rgb '%s' title 'K', \\\n"
                "  $data using ($1+0.2):3 with boxes lc rgb '%s' title 'V', \\\n"
                "  $data using ($1-0.2):2:(sprintf('%%.1f',$2)) with labels offset 0,0.5 font ',10' notitle, \\\n"
                "  $data using ($1+0.2):3:(sprintf('%%.1f',$3)) with labels offset 0,0.5 font ',10' notitle\n",
                k_colour, v_colour);
    }
    free(bars);
    return true;
}

/* --- error/bound: box, whiskers and dots per format --- */

static const char *ratio_name(const kvg_report_case *c)
{
    return kvg_report_is_mixed(&c->asked) ? "mixed" : c->asked.k_format;
}

/* What the case has to say about the bound: fill exact has none, its round trip must be exact. */
static double case_ratio(const kvg_report_case *c)
{
    double ratio = NAN;
    if (!c->finished || kvg_report_has_fill(c, "exact")) return NAN;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_round_trip *t = &c->result.round_trip[side];
        if (t->measured && !(t->worst_ratio <= ratio)) ratio = t->worst_ratio;
    }
    return ratio;
}

static double quantile(const double *sorted, size_t count, double q)
{
    const double at = q * (double)(count - 1);
    const size_t below = (size_t)at;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* Row y: the box into `boxes`, at most MAX_DOTS of the cases into `dots`. Past the axis' end is at its end. */
static void write_ratio_row(FILE *boxes, FILE *dots, const double *sorted, size_t count, size_t y, double end)
{
    enum { MAX_DOTS = 150, LANES = 7 };
    fprintf(boxes, "%zu", y);
    for (int q = 0; q <= 4; q++) fprintf(boxes, " %.5g", fmin(quantile(sorted, count, q / 4.0), end));
    fprintf(boxes, " %zu\n", count);
    const size_t shown = count < MAX_DOTS ? count : MAX_DOTS;
    for (size_t i = 0; i < shown; i++) {
        const double x = sorted[shown > 1 ? i * (count - 1) / (shown - 1) : 0];
        const double lane = (double)(i * 3 % LANES) / (LANES - 1) - 0.5; /* apart, so that equal ones show */
        fprintf(dots, "%.5g %.3f %d\n", fmin(x, end), (double)y + 0.5 * lane, x > 1);
    }
}

/* Copies a stream that was written, into a script as a data block. */
static void write_block(FILE *out, const char *name, FILE *from)
{
    char buffer[4096];
    size_t size;
    rewind(from);
    fprintf(out, "$%s << END\n", name);
    while ((size = fread(buffer, 1, sizeof buffer, from)) > 0) fwrite(buffer, 1, size, out);
    fputs("END\n", out);
}

/* Rows into `boxes` and `dots`, their names into `out`; returns how many. `ratios` has room for one per case. */
static size_t write_ratio_rows(const kvg_report *r, double *ratios, FILE *out, FILE *boxes, FILE *dots, double end)
{
    size_t rows = 0;
    for (size_t i = 0, next; i < r->case_count; i = next) {
        size_t count = 0;
        const char *name = ratio_name(&r->cases[i]);
        for (next = i; next < r->case_count; next++) {
            if (strcmp(ratio_name(&r->cases[next]), name) != 0) break;
            const double ratio = case_ratio(&r->cases[next]);
            if (!isnan(ratio)) ratios[count++] = ratio;
        }
        if (!count) continue;
        kvg_report_median(ratios, count); /* sorts */
        write_ratio_row(boxes, dots, ratios, count, ++rows, end);
        fprintf(out, "set ytics add ('%s' %zu)\nset label '%zu' at graph 1.01, first %zu left tc rgb '%s'\n",
                label(name).text, rows, count, rows, grid_colour);
    }
    return rows;
}

static double ratio_axis_end(const kvg_report *r)
{
    for (size_t i = 0; i < r->case_count; i++) {
        if (case_ratio(&r->cases[i]) > 1) return 1.3;
    }
    return 1.05;
}

static bool write_ratios(const kvg_report *r, FILE *out)
{
    double *ratios = malloc((r->case_count + 1) * sizeof *ratios);
    FILE *boxes = tmpfile(), *dots = tmpfile();
    size_t rows = 0;
    if (ratios && boxes && dots) {
        const double end = ratio_axis_end(r);
        fputs("set ytics ()\n", out);
        rows = write_ratio_rows(r, ratios, out, boxes, dots, end);
        write_header(out, 900, (unsigned)(80 + 34 * rows));
        fprintf(out, "set yrange [%zu.6:0.4]\nset xrange [0:%g]\nset xlabel 'largest error / bound of a case'\n", rows,
                end);
        fprintf(out, "set rmargin 9\nset label 'cases' at graph 1.01, graph 1.03 left tc rgb '%s'\n"
                "set grid noytics\n", grid_colour);
        fprintf(out, "set arrow from 1, graph 0 to 1, graph 1 nohead lc rgb '%s' lw 1.5\n", bad_colour);
        write_block(out, "boxes", boxes);
        write_block(out, "dots", dots);
        fprintf(out, "set style fill solid 0.25 noborder\nunset key\n"
                "plot $dots using 1:($3==0?$2:NaN) with points pt 7 ps 0.25 lc rgb '%s', \\\n"
                "  $boxes using 2:1:($6-$2):(0) with vectors nohead lc rgb '%s' lw 1.5, \\\n"
                "  $boxes using 4:1:3:5:($1-0.3):($1+0.3) with boxxyerror lc rgb '%s' fs solid 0.3 border, \\\n"
                "  $boxes using 4:($1-0.3):(0):(0.6) with vectors nohead lc rgb '%s' lw 3, \\\n"
                "  $dots using 1:($3==1?$2:NaN) with points pt 7 ps 0.6 lc rgb '%s'\n",
                grid_colour, k_colour, k_colour, k_colour, bad_colour);
    }
    if (boxes) fclose(boxes);
    if (dots) fclose(dots);
    free(ratios);
    return rows > 0;
}

/* --- SQNR by layer of captured tensors: a panel per kind of tensor, a line per format --- */

typedef enum panel { K_BEFORE, K_AFTER, VALUES, PANELS } panel;

typedef struct layer_point {
    size_t line; /* index of the format among those shown */
    panel panel;
    unsigned layer;
    double sqnr_db;
} layer_point;

enum { MAX_LINES = 6 };

/* "layers.3.k_post" and the like; false for other names. */
static bool read_tensor(const char *name, layer_point *p)
{
    static const struct {
        const char *suffix;
        panel panel;
    } kinds[] = {{"k_pre", K_BEFORE}, {"k_post", K_AFTER}, {"k", K_AFTER}, {"v", VALUES}};
    int used = 0;
    if (sscanf(name, "layers.%9u.%n", &p->layer, &used) != 1 || used == 0) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        p->panel = kinds[i].panel;
        if (strcmp(name + used, kinds[i].suffix) == 0) return true;
    }
    return false;
}

/* The points of one case, 0 to 2 of them. */
static size_t read_points(const kvg_report_case *c, size_t line, layer_point out[2])
{
    size_t count = 0;
    const char *const names[] = {c->asked.capture_k, c->asked.capture_v};
    if (!kvg_report_has_fill(c, "capture")) return 0;
    for (int side = KVG_K; side <= KVG_V; side++) {
        out[count] = (layer_point){.line = line, .sqnr_db = c->result.round_trip[side].sqnr_db};
        if (!c->result.round_trip[side].measured || !isfinite(c->result.round_trip[side].sqnr_db)) continue;
        count += read_tensor(names[side], &out[count]);
    }
    return count;
}

static int compare_points(const void *a, const void *b)
{
    const layer_point *x = a, *y = b;
    if (x->panel != y->panel) return x->panel < y->panel ? -1 : 1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return (x->sqnr_db > y->sqnr_db) - (x->sqnr_db < y->sqnr_db);
}

static bool same_spot(const layer_point *x, const layer_point *y)
{
    return x->panel == y->panel && x->line == y->line && x->layer == y->layer;
}

/* Points of one spot (other shapes, the same V beside both kinds of K) become their median. The points are sorted. */
static size_t merge_points(layer_point *points, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && same_spot(&points[i], &points[next]); next++) { }
        layer_point p = points[i];
        p.sqnr_db = (points[i + (next - i - 1) / 2].sqnr_db + points[i + (next - i) / 2].sqnr_db) / 2;
        points[kept++] = p;
    }
    return kept;
}

/* Canonical dialects with a finite SQNR on captured data, the formats most in use first. */
static size_t choose_lines(const kvg_report *r, const kvg_report_group *lines[MAX_LINES])
{
    static const char *const preferred[] = {
        "e4m3", "int8", "int4", "mxfp4", "nvfp4", "mx16", "rowint4", "rowfp4", "e5m2", "f16", "bf16",
    };
    size_t count = 0;
    for (size_t p = 0; p < sizeof preferred / sizeof preferred[0]; p++) {
        for (size_t i = 0; i < r->group_count && count < MAX_LINES; i++) {
            const kvg_report_group *g = &r->groups[i];
            const bool named = strcmp(g->asked->k_format, preferred[p]) == 0;
            if (!named || !has_sqnr(g) || strcmp(g->data, "capture") != 0) continue;
            if (isfinite(g->sqnr_db[KVG_K]) || isfinite(g->sqnr_db[KVG_V])) lines[count++] = g;
        }
    }
    return count;
}

/* Panel `kind`, number `place` of `panel_count` from the left. */
static void write_layer_panel(FILE *out, panel kind, size_t place, size_t panel_count, const layer_point *points,
                              size_t count, size_t line_count)
{
    static const char *const titles[PANELS] = {"K before RoPE", "K after RoPE", "V"};
    const char *separator = "plot ";
    const double step = 0.92 / (double)panel_count, left = 0.075 + step * (double)place;
    fprintf(out, "set title '%s'\nset lmargin at screen %.3f\nset rmargin at screen %.3f\n", titles[kind], left,
            left + step - 0.03);
    if (place > 0) fputs("unset ylabel\nset format y ''\n", out);
    for (size_t line = 0; line < line_count; line++) {
        size_t shown = 0;
        fprintf(out, "$line%zu << END\n", line);
        for (size_t i = 0; i < count; i++) {
            if (points[i].panel != kind || points[i].line != line) continue;
            fprintf(out, "%u %.5g\n", points[i].layer, points[i].sqnr_db);
            shown++;
        }
        fputs(shown ? "END\n" : "-1 0\nEND\n", out); /* gnuplot stops at an empty block; -1 is off the axis */
    }
    for (size_t line = 0; line < line_count; line++) {
        fprintf(out, "%s$line%zu using 1:2 with linespoints ls %zu notitle", separator, line, line + 1);
        separator = ", ";
    }
    fputs(place == 0 ? "\nunset label\n" : "\n", out); /* the first panel draws the legend for all */
}

static void write_layer_axes(FILE *out, const layer_point *points, size_t count)
{
    double low = points[0].sqnr_db, high = low;
    unsigned last = 0;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, points[i].sqnr_db);
        high = fmax(high, points[i].sqnr_db);
        if (points[i].layer > last) last = points[i].layer;
    }
    fprintf(out, "set yrange [%.4g:%.4g]\nset xrange [-0.5:%u.5]\nset xlabel 'layer'\nset ylabel 'SQNR (dB)'\n",
            floor(low / 2) * 2 - 2, ceil(high / 2) * 2 + 2, last);
    fprintf(out, "set xtics %u\nset tmargin at screen 0.80\nset bmargin at screen 0.15\nset multiplot\n", last / 6 + 1);
}

static void write_layer_plots(FILE *out, const layer_point *points, size_t count, const kvg_report_group **lines,
                              size_t line_count)
{
    static const char *const colours[MAX_LINES] = {"#2a7de1", "#e07b00", "#0f9d72", "#c2569b", "#8f7a00", "#7d6bd6"};
    panel shown[PANELS];
    size_t panel_count = 0;
    for (size_t i = 0; i < count; i++) { /* sorted by panel */
        if (i == 0 || points[i - 1].panel != points[i].panel) shown[panel_count++] = points[i].panel;
    }
    write_header(out, 900, 360);
    write_layer_axes(out, points, count);
    for (size_t line = 0; line < line_count; line++) {
        fprintf(out, "set style line %zu lc rgb '%s' lw 1.8 pt 7 ps 0.5\n", line + 1, colours[line]);
        fprintf(out, "set label %zu '%s' at screen %.3f, screen 0.95 left point pt 7 ps 1 lc rgb '%s' offset 1,0\n",
                line + 1, label(lines[line]->asked->k_format).text, 0.085 + 0.13 * (double)line,
                colours[line]);
    }
    for (size_t p = 0; p < panel_count; p++) {
        write_layer_panel(out, shown[p], p, panel_count, points, count, line_count);
    }
    fputs("unset multiplot\n", out);
}

static bool write_layers(const kvg_report *r, FILE *out)
{
    const kvg_report_group *lines[MAX_LINES];
    const size_t line_count = choose_lines(r, lines);
    layer_point *points = malloc((2 * r->case_count + 2) * sizeof *points);
    size_t count = 0;
    for (size_t line = 0; points && line < line_count; line++) {
        const kvg_report_case *cases = &r->cases[lines[line]->first];
        for (size_t i = 0; i < lines[line]->count; i++) count += read_points(&cases[i], line, &points[count]);
    }
    if (count) {
        qsort(points, count, sizeof points[0], compare_points);
        count = merge_points(points, count);
        write_layer_plots(out, points, count, lines, line_count);
    }
    free(points);
    return count > 0;
}

const kvg_report_plot kvg_report_plots[] = {
    {"Relative L2 error",
     "Median over the cases on captured data (random data where there is none), one row per format and dialect, "
     "largest storage first. Left is better.",
     write_l2},
    {"SQNR of K and V",
     "Median over the same cases, canonical dialects. Six dB are half the error.",
     write_sqnr},
    {"Error against its bound",
     "The largest error of each case as a share of what the format allows: every dot is a case (at most 150 per "
     "format, evenly drawn), the box the middle half, its bar the median. Right of the red line is a wrong answer. "
     "Cases of fill 'exact' are left out: they must be exact.",
     write_ratios},
    {"SQNR by layer",
     "Captured tensors of a real model, canonical dialects of up to six formats.",
     write_layers},
};
const size_t kvg_report_plot_count = sizeof kvg_report_plots / sizeof kvg_report_plots[0];
