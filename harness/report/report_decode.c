/* Accuracy of op decode, in words. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "harness/report/report_data.h"

typedef double decode_figure(const kvg_decode_accuracy *a);

static double worst_of(const kvg_decode_accuracy *a) { return a->worst_ratio; }
static double lse_of(const kvg_decode_accuracy *a) { return a->lse_ratio; }
static double codec_of(const kvg_decode_accuracy *a) { return a->codec_ratio; }
static double probe_of(const kvg_decode_accuracy *a) { return a->probe_ratio; }
static double median_of(const kvg_decode_accuracy *a) { return a->median_ratio; }
static double l2_of(const kvg_decode_accuracy *a) { return a->relative_l2; }
static double codec_l2_of(const kvg_decode_accuracy *a) { return a->codec_l2; }

static bool belongs(const kvg_decode_accuracy *a, bool bits)
{
    return a->measured && a->bits == bits;
}

/* The largest of the cases; NAN where none has it. */
static double largest(const kvg_report_case *cases, size_t count, bool bits, decode_figure *figure)
{
    double most = NAN;
    for (size_t i = 0; i < count; i++) {
        const kvg_decode_accuracy *a = &cases[i].result.decode;
        if (belongs(a, bits) && !(figure(a) <= most) && !isnan(figure(a))) most = figure(a);
    }
    return most;
}

static double median(const kvg_report_case *cases, size_t count, bool bits, decode_figure *figure, double *scratch)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const kvg_decode_accuracy *a = &cases[i].result.decode;
        if (belongs(a, bits) && !isnan(figure(a))) scratch[n++] = figure(a);
    }
    return kvg_report_median(scratch, n);
}

void kvg_report_decode_line(const kvg_report_case *cases, size_t count, bool bits, char *out, size_t size)
{
    uint64_t elements = 0, unpromised = 0;
    double *scratch = malloc((count + 1) * sizeof *scratch);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!belongs(&cases[i].result.decode, bits)) continue;
        elements += cases[i].result.decode.elements;
        unpromised += cases[i].result.decode.unpromised;
    }
    if (!elements || !scratch) {
        free(scratch);
        return;
    }
    const double codec = largest(cases, count, bits, codec_of), probe = largest(cases, count, bits, probe_of);
    const double worst = largest(cases, count, bits, worst_of), middle = median(cases, count, bits, median_of, scratch);
    int n = snprintf(out, size, "%s: error/bound %.3g, median %.2g, LSE %.3g, rel. L2 %.2g; %" PRIu64 " of %" PRIu64
                     " numbers without a bound", bits ? "bits of a profile" : "exact", worst, middle,
                     largest(cases, count, bits, lse_of), median(cases, count, bits, l2_of, scratch), unpromised,
                     elements);
    if (!isnan(codec) && n > 0 && (size_t)n < size) {
        n += snprintf(out + n, size - (size_t)n, "; codec %.3g of its bound, rel. L2 %.2g", codec,
                      median(cases, count, bits, codec_l2_of, scratch));
    }
    if (!isnan(probe) && n > 0 && (size_t)n < size) snprintf(out + n, size - (size_t)n, "; probes %.3g", probe);
    free(scratch);
}

void kvg_report_separation_line(const kvg_report_case *cases, size_t count, char *out, size_t size)
{
    const kvg_report_case *least = NULL;
    size_t measured = 0, by_bits = 0;
    int n = 0;
    for (size_t i = 0; i < count; i++) {
        const kvg_result_separation *s = &cases[i].result.separation;
        measured += s->measured;
        by_bits += s->measured && isnan(s->least);
        if (!s->measured || isnan(s->least) || !s->nearest[0]) continue;
        if (!least || s->least < least->result.separation.least) least = &cases[i];
    }
    out[0] = '\0';
    if (!measured) return;
    n = snprintf(out, size, "%zu case%s; %zu by bits", measured, measured == 1 ? "" : "s", by_bits);
    if (least && n > 0 && (size_t)n < size) {
        char number[KVG_RESULT_NUMBER];
        kvg_result_write_separation(least->result.separation.least, number);
        snprintf(out + n, size - (size_t)n, "; least of the others %s (%s) in %s", number,
                 least->result.separation.nearest, least->asked.id);
    }
}

void kvg_report_relations_line(const kvg_report_case *cases, size_t count, char *out, size_t size)
{
    size_t held = 0, asked = 0;
    for (size_t i = 0; i < count; i++) {
        held += cases[i].result.relations.count;
        asked += cases[i].result.relations.count > 0;
    }
    out[0] = '\0';
    if (asked) snprintf(out, size, "%zu held in %zu case%s", held, asked, asked == 1 ? "" : "s");
}
