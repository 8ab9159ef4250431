/* The plots of op generate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/report/report_quality.h"

enum { MOST_LINES = 8 };

static const char *const colours[MOST_LINES] = {"#2a7de1", "#e07b00", "#0f9d72", "#c2569b", "#8f7a00", "#7d6bd6",
                                                "#d62728", "#5b6570"};

/* "nvfp4_bf16_P2": without the dialect where it is the canonical one. */
static kvg_report_label_text name_of(const kvg_report_case *c)
{
    static const char canonical[] = ".canonical";
    char name[160];
    kvg_report_quality_name(c, name, sizeof name);
    for (char *at; (at = strstr(name, canonical)) != NULL;) {
        const char *rest = at + strlen(canonical);
        memmove(at, rest, strlen(rest) + 1);
    }
    for (char *at = name; *at; at++) {
        if (*at == ' ') *at = '_';
    }
    return kvg_report_label(name, strlen(name));
}

static void write_header(FILE *out, unsigned width, unsigned height)
{
    fprintf(out, "set terminal svg size %u,%u noenhanced font 'sans-serif,13'\n", width, height);
    fputs("set datafile missing '?'\nset tics nomirror\nset grid lc rgb '#9a9a9a' lw 0.4 dt 1\nset border 3 lw 0.8\n",
          out);
}

/* An axis of logarithms has no place for 0: a cache that loses nothing. */
static bool is_shown(const kvg_quality_result *q)
{
    return q->quality.kl.value > 0 && isfinite(q->quality.kl_worst);
}

/* A row per case: its mean KL divergence with its interval, and the worst row. */
static bool plot_loss(const kvg_report *report, FILE *out)
{
    size_t count, shown = 0;
    const kvg_report_case **cases = kvg_report_quality_cases(report, &count);
    if (!cases) return false;
    for (size_t i = 0; i < count; i++) shown += is_shown(&kvg_report_quality_of(cases[i])->measures);
    if (shown == 0) {
        free(cases);
        return false;
    }
    write_header(out, 900, (unsigned)(90 + 21 * shown));
    fprintf(out, "set yrange [%zu.6:0.4]\nset xlabel 'KL divergence, bits (logarithmic)'\nset key above horizontal\n",
            shown);
    fputs("set ytics ()\nset grid x\nset format x '%g'\nset logscale x\n$data << END\n", out);
    for (size_t i = 0, y = 0; i < count; i++) {
        const kvg_quality_result *q = &kvg_report_quality_of(cases[i])->measures;
        if (!is_shown(q)) continue;
        const kvg_quality_mean *kl = &q->quality.kl;
        fprintf(out, "%zu %.6g %.6g %.6g %.6g %.6g\n", ++y, kl->value, fmax(kl->low, 1e-12), kl->high,
                q->quality.kl_p99, q->quality.kl_worst);
    }
    fputs("END\n", out);
    for (size_t i = 0, y = 0; i < count; i++) {
        if (!is_shown(&kvg_report_quality_of(cases[i])->measures)) continue;
        fprintf(out, "set ytics add ('%s' %zu)\n", name_of(cases[i]).text, ++y);
    }
    fprintf(out, "plot $data using 2:1:3:4 with xerrorbars pt 7 ps 0.8 lc rgb '%s' title 'mean', \\\n"
            "  $data using 5:1 with points pt 12 ps 1.0 lw 2 lc rgb '%s' title 'p99', \\\n"
            "  $data using 6:1 with points pt 2 ps 0.8 lw 1.5 lc rgb '%s' title 'worst'\n", colours[0], colours[1],
            colours[6]);
    free(cases);
    return true;
}

/* The cases that lines are drawn for: plain ones of canonical dialects, evenly over the order. */
static size_t choose_lines(const kvg_report_case **cases, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count && kept < MOST_LINES; i++) {
        const kvg_report_case *c = cases[i];
        const kvg_result_asked *a = &c->asked;
        const kvg_result_generate *g = &kvg_report_quality_of(c)->asked;
        const bool plain = strcmp(g->layers, "all") == 0 && strcmp(g->quantise_k, "after_rope") == 0;
        const bool canonical = !kvg_report_is_mixed(a) && strcmp(a->k_dialect, "canonical") == 0;
        if (!plain || !canonical || !(kvg_report_quality_of(c)->measures.quality.kl.value > 0)) continue;
        cases[kept++] = c;
    }
    return kept;
}

/* A line per case over the positions of the window. */
static bool plot_positions(const kvg_report *report, FILE *out)
{
    size_t count, lines = 0;
    const kvg_report_case **cases = kvg_report_quality_cases(report, &count);
    if (cases) lines = choose_lines(cases, count);
    if (lines) {
        write_header(out, 900, 400);
        fputs("set logscale xy\nset format y '%g'\nset xlabel 'position in the window (start of the bucket; 0 at 32)'\n"
              "set ylabel 'KL divergence, bits'\nset key outside right\n", out);
        for (size_t i = 0; i < lines; i++) {
            const kvg_quality_bucket *buckets = kvg_report_quality_of(cases[i])->measures.quality.buckets;
            fprintf(out, "$line%zu << END\n", i);
            for (size_t b = 0; b < KVG_QUALITY_BUCKETS && buckets[b].rows; b++) {
                fprintf(out, "%g %.6g\n", buckets[b].from ? (double)buckets[b].from : 32, buckets[b].kl);
            }
            fputs("END\n", out);
        }
        for (size_t i = 0; i < lines; i++) {
            fprintf(out, "%s$line%zu using 1:2 with linespoints lc rgb '%s' lw 1.8 pt 7 ps 0.5 title '%s'",
                    i ? ", " : "plot ", i, colours[i], name_of(cases[i]).text);
        }
        fputs("\n", out);
    }
    free(cases);
    return lines > 0;
}

/* What a token weighs against what its format loses. */
static bool plot_memory(const kvg_report *report, FILE *out)
{
    size_t count, lines = 0;
    const kvg_report_case **cases = kvg_report_quality_cases(report, &count);
    if (cases) lines = choose_lines(cases, count);
    if (lines) {
        write_header(out, 900, 400);
        fputs("set logscale y\nset format y '%g'\nset xlabel 'bytes of the cache per token, all layers'\n"
              "set ylabel 'KL divergence, bits'\nset xrange [0:*]\nset offsets 0,60,0,0\nset key outside right\n", out);
        for (size_t i = 0; i < lines; i++) {
            const kvg_quality_result *q = &kvg_report_quality_of(cases[i])->measures;
            fprintf(out, "$point%zu << END\n%g %.6g %.6g %.6g\nEND\n", i, q->memory.token_bytes, q->quality.kl.value,
                    fmax(q->quality.kl.low, 1e-12), q->quality.kl.high);
        }
        for (size_t i = 0; i < lines; i++) {
            fprintf(out, "%s$point%zu using 1:2:3:4 with yerrorbars lc rgb '%s' lw 1.8 pt 7 ps 0.9 title '%s'",
                    i ? ", " : "plot ", i, colours[i], name_of(cases[i]).text);
        }
        fputs("\n", out);
    }
    free(cases);
    return lines > 0;
}

const kvg_report_plot kvg_report_quality_plots[KVG_REPORT_QUALITY_PLOTS] = {
    {"KL divergence of generation",
     "Op generate: mean, 99th percentile and worst row, one row per case, the nearest to the unquantised cache first.",
     plot_loss},
    {"KL divergence by context",
     "Op generate: the mean over the rows of each span of positions, canonical dialects of up to eight formats.",
     plot_positions},
    {"KL divergence against memory",
     "Op generate: the same cases, by what a token weighs in the pools.",
     plot_memory},
};
