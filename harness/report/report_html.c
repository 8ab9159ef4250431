/* The page: one file, nothing loaded from elsewhere. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_plot.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char style[] =
    ":root{--fg:#1c2128;--dim:#5b6570;--bg:#fff;--panel:#f5f7f9;--line:#d8dee4;--good:#17803d;--bad:#c4231c;"
    "--warn:#9a6700;--hit:#2a7de1}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6e9ed;--dim:#9aa4af;--bg:#14171b;--panel:#1d2127;--line:#363c44;"
    "--good:#4cc273;--bad:#ff7b72;--warn:#d9a93b;--hit:#58a0f0}}\n"
    "body{margin:0 auto;max-width:1240px;padding:1.5rem;background:var(--bg);color:var(--fg);"
    "font:15px/1.5 system-ui,'Segoe UI',Helvetica,Arial,sans-serif}\n"
    "h1{font-size:1.35rem;margin:0 0 1rem}h2{font-size:1.15rem;margin:2.4rem 0 .6rem}"
    "h3{font-size:1rem;margin:1.4rem 0 .2rem}\n"
    "p{margin:.3rem 0 .7rem;max-width:62rem}nav a{margin-right:1rem}a{color:var(--hit)}\n"
    ".headline{max-width:none;padding:.8rem 1.1rem;border-left:6px solid;"
    "background:var(--panel);font-size:1.25rem;font-weight:600}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.dim{color:var(--dim)}\n"
    "dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem}dl.facts dt{color:var(--dim)}"
    "dl.facts dd{margin:0;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.2rem .36rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}\n"
    "th{font-weight:600;vertical-align:bottom}th:first-child,td:first-child,.left{text-align:left}\n"
    "td{white-space:nowrap}tbody tr:hover{background:var(--panel)}\n"
    "td.bad{font-weight:600}td.case{white-space:normal;overflow-wrap:anywhere}\n"
    "pre{margin:.2rem 0 0;padding:.4rem .6rem;background:var(--panel);overflow-x:auto;font-size:.82rem;"
    "white-space:pre-wrap;overflow-wrap:anywhere}\n"
    ".failure{margin:.9rem 0;padding-left:.8rem;border-left:3px solid var(--bad)}"
    ".failure.skip{border-color:var(--warn)}\n"
    ".failure div{overflow-wrap:anywhere}\n"
    ".plot svg{max-width:100%;height:auto}.plot text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif}\n"
    ".plot [fill=black]{fill:var(--fg)}.plot [color=black]{color:var(--fg)}.plot [stroke=black]{stroke:var(--fg)}\n"
    ".strip{display:block;width:23rem;height:1em;margin-top:.2em}.strip .miss{fill:var(--line)}"
    ".strip .hit{fill:var(--hit)}\n"
    "details{margin:.3rem 0}summary{cursor:pointer}\n";

static void write_text(FILE *out, const char *open, const char *text, const char *close)
{
    fputs(open, out);
    kvg_report_escape(out, text);
    fputs(close, out);
}

/* --- summary --- */

static void write_headline(const kvg_report *r, FILE *out)
{
    char counts[128];
    kvg_report_count_line(r, counts, sizeof counts);
    const bool incomplete = r->missing || r->unfinished || r->lost_shards;
    const char *class = "good", *word = "PASSED";
    switch (kvg_report_exit_code(r)) {
    case 0: break;
    case 1:
        class = "bad";
        word = r->failing ? "FAILED" : "INCOMPLETE";
        break;
    case 2:
        class = "bad";
        word = "MISTRUSTED";
        break;
    default:
        class = "warn";
        word = "NOTHING WAS CHECKED";
    }
    fprintf(out, "<p class=\"headline %s\">%s: %s%s</p>\n", class, word, counts,
            incomplete ? "; cases or shards are missing, see below" : "");
    for (size_t i = 0; i < r->note_count; i++) write_text(out, "<p class=\"warn\">", r->notes[i], "</p>\n");
}

static void write_verdicts(const kvg_report *r, FILE *out)
{
    const char *separator = "";
    fputs("<dt>cases</dt><dd>", out);
    for (int v = 0; v < KVG_VERDICT_COUNT; v++) {
        if (!r->verdicts[v]) continue;
        const char *class = kvg_verdict_fails((kvg_verdict)v) ? "bad" : v == KVG_VERDICT_PASS ? "good" : "warn";
        fprintf(out, "%s<span class=\"%s\">%" PRIu64 " %s</span>", separator, class, r->verdicts[v],
                kvg_verdict_name((kvg_verdict)v));
        separator = ", ";
    }
    if (r->unfinished) fprintf(out, "%s<span class=\"bad\">%" PRIu64 " UNFINISHED</span>", separator, r->unfinished);
    if (r->missing) fprintf(out, " <span class=\"bad\">(%" PRIu64 " missing)</span>", r->missing);
    fputs("</dd>\n", out);
}

static void write_summary(const kvg_report *r, FILE *out)
{
    const kvg_report_file *f = &r->files[0];
    char bytes[32], decode[KVG_REPORT_LINE_SIZE];
    kvg_report_format_bytes(r->compared, bytes, sizeof bytes);
    write_headline(r, out);
    fputs("<dl class=\"facts\">\n", out);
    write_text(out, "<dt>config</dt><dd>", f->name, "");
    write_text(out, " <span class=\"dim\">(", f->config, ")</span></dd>\n");
    fprintf(out, "<dt>seed</dt><dd>0x%" PRIx64 "</dd>\n", f->seed);
    write_text(out, "<dt>kvgold</dt><dd>", f->version, "</dd>\n");
    fprintf(out, "<dt>shards</dt><dd>%zu of %" PRIu64 "</dd>\n", r->file_count, f->shard_count);
    write_verdicts(r, out);
    fprintf(out, "<dt>compared</dt><dd>%s (%" PRIu64 " bytes), ", bytes, r->compared);
    fprintf(out, "<span class=\"%s\">%" PRIu64 " mismatched</span></dd>\n", r->mismatched ? "bad" : "good",
            r->mismatched);
    fprintf(out, "<dt>controls</dt><dd>%" PRIu64 " rejected, %" PRIu64 " unreached, <span class=\"%s\">%" PRIu64
            " accepted</span></dd>\n", r->control_totals[KVG_REPORT_REJECTED], r->control_totals[KVG_REPORT_UNREACHED],
            r->control_totals[KVG_REPORT_ACCEPTED] ? "bad" : "good", r->control_totals[KVG_REPORT_ACCEPTED]);
    for (int bits = 0; bits < 2; bits++) {
        kvg_report_decode_line(r->cases, r->case_count, bits, decode, sizeof decode);
        if (decode[0]) write_text(out, "<dt>decode</dt><dd>", decode, "</dd>\n");
    }
    kvg_report_separation_line(r->cases, r->case_count, decode, sizeof decode);
    if (decode[0]) write_text(out, "<dt>separation</dt><dd>", decode, "</dd>\n");
    kvg_report_relations_line(r->cases, r->case_count, decode, sizeof decode);
    if (decode[0]) write_text(out, "<dt>relations</dt><dd>", decode, "</dd>\n");
    for (size_t i = 0; i < r->mode_count; i++) {
        const kvg_report_tally *t = &r->modes[i];
        fprintf(out, "<dt>mode</dt><dd>%zu case%s: <span class=\"%s\">", t->count, t->count == 1 ? "" : "s",
                t->first->fell_back ? "warn" : "good");
        write_text(out, "", t->first->mode, "</span></dd>\n");
    }
    if (r->without_mode) {
        fprintf(out, "<dt>policy</dt><dd>off: %zu case%s by name of format</dd>\n", r->without_mode,
                r->without_mode == 1 ? "" : "s");
    }
    fprintf(out, "<dt>time</dt><dd>%.1f s%s</dd>\n</dl>\n", r->seconds, r->file_count > 1 ? ", shards together" : "");
}

/* --- failures --- */

static void write_failure(FILE *out, const kvg_report_case *c)
{
    const bool fails = kvg_report_case_fails(c);
    fprintf(out, "<div class=\"failure%s\"><div><strong class=\"%s\">%s</strong> ", fails ? "" : " skip",
            fails ? "bad" : "warn", kvg_report_status_name(c));
    write_text(out, "<code>", c->asked.id, "</code></div>\n");
    if (c->result.detail[0]) write_text(out, "<div>", c->result.detail, "</div>\n");
    if (c->mode[0]) write_text(out, "<div class=\"dim\">mode: ", c->mode, "</div>\n");
    if (c->asked.repro[0]) write_text(out, "<pre>", c->asked.repro, "</pre>");
    fputs("</div>\n", out);
}

static void write_failures(const kvg_report *r, FILE *out)
{
    enum { LIMIT = 200 };
    size_t count = 0;
    for (int fails = 1; fails >= 0; fails--) {
        for (size_t i = 0; i < r->case_count; i++) {
            const kvg_report_case *c = &r->cases[i];
            if (kvg_report_case_fails(c) != (fails == 1) || kvg_report_case_passes(c)) continue;
            if (count++ < LIMIT) write_failure(out, c);
        }
    }
    if (count == 0) fputs("<p>Every case passed.</p>\n", out);
    if (count > LIMIT) fprintf(out, "<p>and %zu more: see all cases.</p>\n", count - LIMIT);
}

/* --- plots --- */

static void write_plots(const kvg_report *r, FILE *out)
{
    const size_t own = kvg_report_plot_count, of_guest = r->guest ? r->guest->plot_count : 0;
    for (size_t i = 0; i < own + of_guest; i++) {
        const kvg_report_plot *plot = i < own ? &kvg_report_plots[i] : &r->guest->plots[i - own];
        char *svg;
        fprintf(out, "<h3>%s</h3>\n<p class=\"dim\">%s</p>\n", plot->title, plot->caption);
        if (kvg_report_draw(r, plot, (int)i + 1, &svg) != KVG_OK) {
            write_text(out, "<p class=\"warn\">No plot: ", kvg_error_text(), ". The tables have the numbers.</p>\n");
        } else if (svg) {
            fprintf(out, "<div class=\"plot wide\">%s</div>\n", svg);
        } else {
            fputs("<p class=\"dim\">This run has no data for it.</p>\n", out);
        }
        free(svg);
    }
}

/* --- formats --- */

static void write_formats(const kvg_report *r, FILE *out)
{
    char cell[512];
    fputs("<div class=\"wide\"><table><thead><tr>", out);
    for (size_t i = 0; i < kvg_report_column_count; i++) fprintf(out, "<th>%s</th>", kvg_report_columns[i].heading);
    fputs("</tr></thead><tbody>\n", out);
    for (size_t g = 0; g < r->group_count; g++) {
        fputs("<tr>", out);
        for (size_t i = 0; i < kvg_report_column_count; i++) {
            const kvg_report_column *column = &kvg_report_columns[i];
            column->cell(&r->groups[g], cell, sizeof cell);
            fputs(column->is_bad && column->is_bad(&r->groups[g]) ? "<td class=\"bad\">" : "<td>", out);
            write_text(out, "", cell, "</td>");
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* --- layouts and ops --- */

static void write_layouts(const kvg_report *r, FILE *out)
{
    fputs("<div class=\"wide\"><table><thead><tr><th>layout</th><th class=\"left\">op</th><th>cases</th><th>passed</th>"
          "<th>bytes compared</th><th>bytes wrong</th></tr></thead><tbody>\n", out);
    for (size_t i = 0; i < r->layout_count; i++) {
        const kvg_report_tally *t = &r->layouts[i];
        char bytes[32];
        kvg_report_format_bytes(t->compared, bytes, sizeof bytes);
        write_text(out, "<tr><td>", t->first->asked.layout, "</td>");
        write_text(out, "<td class=\"left\">", t->first->asked.op, "</td>");
        fprintf(out, "<td>%zu</td><td%s>%zu</td><td>%s</td><td%s>%" PRIu64 "</td></tr>\n", t->count,
                t->failed ? " class=\"bad\"" : "", t->passed, bytes, t->mismatched ? " class=\"bad\"" : "",
                t->mismatched);
    }
    fputs("</tbody></table></div>\n", out);
}

/* --- coverage --- */

/* A strip of `codes` cells; where they are many, one rectangle per run of equal ones. */
static void write_strip(FILE *out, const uint8_t *set, unsigned codes)
{
    const bool apart = codes <= 16;
    fprintf(out, "<svg class=\"strip\" viewBox=\"0 0 %u 1\" preserveAspectRatio=\"none\" role=\"img\">", codes);
    for (unsigned first = 0, next; first < codes; first = next) {
        const bool hit = kvg_report_bit(set, first);
        for (next = first + 1; !apart && next < codes && kvg_report_bit(set, next) == hit; next++) { }
        fprintf(out, "<rect class=\"%s\" x=\"%u\" width=\"%g\" height=\"1\"><title>", hit ? "hit" : "miss", first,
                next - first - (apart ? 0.06 : 0));
        if (next - first > 1) fprintf(out, "%02X to %02X", first, next - 1);
        else fprintf(out, "%02X", first);
        fprintf(out, ": %s</title></rect>", hit ? "seen" : "never seen");
    }
    fputs("</svg>", out);
}

static void write_coverage(const kvg_report *r, FILE *out)
{
    static const char *const headings[KVG_MET_KINDS] = {
        [KVG_MET_TIES] = "ties", [KVG_MET_SATURATIONS] = "saturations", [KVG_MET_ZERO_BLOCKS] = "zero blocks",
        [KVG_MET_NEGATIVE_ZEROS] = "negative zeros", [KVG_MET_SUBNORMALS] = "subnormals",
        [KVG_MET_SPECIALS] = "NaN or Inf", [KVG_MET_SCALE_UNDERFLOWS] = "scales that became 0",
    };
    fputs("<div class=\"wide\"><table><thead><tr><th>format.dialect</th>"
          "<th class=\"left\">element codes, 0 at the left</th><th>seen</th>"
          "<th class=\"left\">scale bytes, 00 to FF</th><th>seen</th></tr></thead><tbody>\n", out);
    for (size_t i = 0; i < r->group_count; i++) {
        const kvg_result_reach *reach = &r->groups[i].reach;
        const unsigned scales = kvg_report_bits_set(reach->scale_set);
        if (!reach->codes_of) continue;
        write_text(out, "<tr><td>", r->groups[i].storage, "</td><td>");
        write_strip(out, reach->code_set, reach->codes_of <= 16 ? (unsigned)reach->codes_of : KVG_FIELD_CODES);
        fprintf(out, "</td><td>%u/%" PRIu64 "</td><td>", kvg_report_bits_set(reach->code_set), reach->codes_of);
        if (scales) write_strip(out, reach->scale_set, KVG_FIELD_CODES);
        if (scales) fprintf(out, "</td><td>%u</td></tr>\n", scales);
        else fputs("</td><td></td></tr>\n", out);
    }
    fputs("</tbody></table></div>\n<h3>Situations met</h3>\n"
          "<div class=\"wide\"><table><thead><tr><th>format.dialect</th>", out);
    for (int i = 0; i < KVG_MET_KINDS; i++) fprintf(out, "<th>%s</th>", headings[i]);
    fputs("</tr></thead><tbody>\n", out);
    for (size_t i = 0; i < r->group_count; i++) {
        const kvg_result_reach *reach = &r->groups[i].reach;
        if (!reach->codes_of) continue;
        write_text(out, "<tr><td>", r->groups[i].storage, "</td>");
        for (int k = 0; k < KVG_MET_KINDS; k++) {
            fprintf(out, reach->met[k] ? "<td>%" PRIu64 "</td>" : "<td class=\"dim\">%" PRIu64 "</td>", reach->met[k]);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* --- controls --- */

static void write_control_cell(FILE *out, const kvg_report_group *g, size_t control)
{
    const uint64_t rejected = g->controls[KVG_REPORT_REJECTED][control];
    const uint64_t unreached = g->controls[KVG_REPORT_UNREACHED][control];
    const uint64_t accepted = g->controls[KVG_REPORT_ACCEPTED][control];
    if (accepted) {
        fprintf(out, "<td class=\"bad\">%" PRIu64 " accepted</td>", accepted);
    } else if (rejected) {
        fprintf(out, "<td><span class=\"good\">%" PRIu64 "</span>", rejected);
        if (unreached) fprintf(out, " <span class=\"dim\">+ %" PRIu64 "</span>", unreached);
        fputs("</td>", out);
    } else if (unreached) {
        fprintf(out, "<td class=\"warn\">0 + %" PRIu64 "</td>", unreached);
    } else {
        fputs("<td class=\"dim\">-</td>", out);
    }
}

static void write_controls(const kvg_report *r, FILE *out)
{
    fputs("<p>Every judged case is also given known-wrong answers. Cells: in how many cases the answer was rejected, "
          "<span class=\"dim\">+ in how many it was unreached (it would not have changed the right answer, so the case "
          "says nothing about it)</span>. An accepted one makes its case MISTRUSTED; <span class=\"warn\">0 + N</span> "
          "means that no case of the format could tell this wrong answer from the right one; - that it does not "
          "apply.</p>\n"
          "<div class=\"wide\"><table><thead><tr><th>format.dialect</th>", out);
    for (size_t i = 0; i < r->control_count; i++) write_text(out, "<th>", r->controls[i], "</th>");
    fputs("</tr></thead><tbody>\n", out);
    for (size_t g = 0; g < r->group_count; g++) {
        write_text(out, "<tr><td>", r->groups[g].storage, "</td>");
        for (size_t i = 0; i < r->control_count; i++) write_control_cell(out, &r->groups[g], i);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* --- all cases --- */

static void write_trip(FILE *out, const kvg_round_trip *t)
{
    if (t->elements) fprintf(out, "<td>%.3g</td><td>%.3f</td>", t->relative_l2, t->worst_ratio);
    else fputs("<td></td><td></td>", out);
}

static void write_case(FILE *out, const kvg_report_case *c)
{
    const bool passed = kvg_report_case_passes(c);
    const char *class = passed ? "good" : kvg_report_case_fails(c) ? "bad" : "warn";
    fprintf(out, "<tr><td class=\"%s\">%s</td>", class, kvg_report_status_name(c));
    write_text(out, "<td class=\"left case\">", c->asked.id, "");
    if (c->result.detail[0]) write_text(out, "<br><span class=\"dim\">", c->result.detail, "</span>");
    if (c->mode[0]) {
        fprintf(out, "<br><span class=\"%s\">mode: ", c->fell_back ? "warn" : "dim");
        write_text(out, "", c->mode, "</span>");
    }
    write_text(out, "</td><td class=\"left\">", c->result.impl, "</td>");
    fprintf(out, "<td>%.1f%s</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td>", c->result.milliseconds,
            c->result.slow ? " slow" : "", c->result.bytes.compared, c->result.bytes.mismatched, c->result.bytes.steps);
    write_trip(out, &c->result.round_trip[KVG_K]);
    write_trip(out, &c->result.round_trip[KVG_V]);
    fputs("</tr>\n", out);
}

static void write_cases(const kvg_report *r, FILE *out)
{
    for (size_t g = 0; g < r->group_count; g++) {
        const kvg_report_group *group = &r->groups[g];
        write_text(out, "<details><summary>", group->storage, "");
        fprintf(out, ": %zu cases, <span class=\"%s\">%zu passed</span></summary>\n"
                "<div class=\"wide\"><table><thead><tr><th>status</th><th class=\"left\">case</th>"
                "<th class=\"left\">implementation</th><th>ms</th><th>bytes</th><th>wrong</th><th>steps</th>"
                "<th>rel. L2 K</th><th>err/bound K</th><th>rel. L2 V</th><th>err/bound V</th>"
                "</tr></thead><tbody>\n", group->count, group->failed ? "bad" : "good", group->passed);
        for (size_t i = 0; i < group->count; i++) write_case(out, &r->cases[group->first + i]);
        fputs("</tbody></table></div></details>\n", out);
    }
}

/* --- glossary --- */

static void write_glossary(const kvg_report *r, FILE *out)
{
    (void)r;
    static const char *const terms[][2] = {
        {"relative L2",
         "The size of the round trip's error, |decoded - original| / |original|, both as Euclidean norms over all "
         "finite elements. 0 is exact; 4-bit formats come to about 0.1."},
        {"SQNR",
         "Signal to quantisation noise, the same number in decibels: 10 log10(|original|&sup2; / |error|&sup2;). "
         "Six dB more is half the error; inf is an exact round trip."},
        {"gain, gain error",
         "The gain is the factor that fits decoded = gain &times; original best; its error is the largest |gain - 1|. "
         "Rounding leaves the gain near 1; a wrong scale (lost, applied twice, of another convention) does not, even "
         "where bytes look plausible."},
        {"error/bound",
         "The largest error of any element as a share of what its format and dialect permit for that element "
         "(docs/spec/numerics.md). At most 1 for every right implementation; well below 1 means slack, above 1 a wrong "
         "answer."},
        {"codes, scale bytes",
         "How many of the format's element codes, and of the 256 values of a block-scale byte, the cases made a "
         "right encoder write. What was never written was never checked."},
        {"loss, KL divergence, top-1, greedy",
         "Of op generate: bits per token of held-out text beyond those with an unquantised cache; the divergence of "
         "the next token's distribution from that run's, in bits; how often both have the same most likely token; how "
         "many tokens of greedy text are the same before the first that is not."},
        {"ties",
         "Elements exactly between two codes: where rounding rules show."},
        {"steps",
         "Bytes that differ from the reference within the rule of a dialect that is compared by value; they are "
         "not mismatches."},
        {"MISTRUSTED",
         "The answer was not found wrong, but a known-wrong answer would have passed too, or there was nothing to "
         "tell it apart by: the case proves nothing and counts as failed. Change its data, not the implementation."},
        {"mode, fell back",
         "Where a policy number chose the storage: the cache mode that was judged. Fell back: another one was asked "
         "for, and an unquantised cache was judged instead."},
        {"UNFINISHED",
         "The case was started and never ended: the run was killed, or crashed, while it ran."},
    };
    fputs("<dl>\n", out);
    for (size_t i = 0; i < COUNT(terms); i++) {
        fprintf(out, "<dt><strong>%s</strong></dt><dd><p>%s</p></dd>\n", terms[i][0], terms[i][1]);
    }
    fputs("</dl>\n", out);
}

/* --- the page --- */

static void write_page(const kvg_report *r, FILE *out)
{
    const kvg_guest none = {0}, *guest = r->guest ? r->guest : &none;
    const struct {
        const char *anchor, *title; /* no anchor: no section */
        void (*write)(const kvg_report *r, FILE *out);
    } sections[] = {
        {"failures", "Cases that did not pass", write_failures},
        {"plots", "Plots", write_plots},
        {"formats", "Formats and dialects", write_formats},
        {guest->section, guest->title, guest->html},
        {"layouts", "Layouts and ops", write_layouts},
        {"coverage", "Coverage", write_coverage},
        {"controls", "Known-wrong answers", write_controls},
        {"cases", "All cases", write_cases},
        {"glossary", "What the words mean", write_glossary},
    };
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n", out);
    write_text(out, "<title>kvgold: ", r->files[0].name, "</title>\n");
    fprintf(out, "<style>\n%s</style></head><body>\n", style);
    write_text(out, "<h1>kvgold report: ", r->files[0].name, "</h1>\n");
    write_summary(r, out);
    fputs("<nav>", out);
    for (size_t i = 0; i < COUNT(sections); i++) {
        if (!sections[i].anchor) continue;
        fprintf(out, "<a href=\"#%s\">%s</a>", sections[i].anchor, sections[i].title);
    }
    fputs("</nav>\n", out);
    for (size_t i = 0; i < COUNT(sections); i++) {
        if (!sections[i].anchor) continue;
        fprintf(out, "<section id=\"%s\"><h2>%s</h2>\n", sections[i].anchor, sections[i].title);
        sections[i].write(r, out);
        fputs("</section>\n", out);
    }
    fputs("</body></html>\n", out);
}

kvg_status kvg_report_html(const kvg_report *report, const char *path)
{
    return kvg_report_write(report, path, write_page);
}
