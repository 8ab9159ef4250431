/* Room report: the lines of a result file, and everything that is made of them.
 *
 *   result_line            One result as one line of results.jsonl.
 *   report, report_read    Reads result files and merges shards.
 *   report_table, _text    The table for a terminal; report_summary has its totals.
 *   report_html, _plot     The page with its plots.
 *   report_junit           JUnit XML.
 *   report_decode, _quality, _unclaimed
 *                          The parts of one op, and what no claim covers.
 *
 * A report is made from result files alone: the room runs no case. The format of the lines follows. */
/* Reports of finished runs, made from their result files alone: results.jsonl, one JSON object per line.
 *
 *   {"type":"run","kvgold":1,"version":"0.1.0","config":"configs/a.json","name":"a","seed":"0x5eed","shard":"1/2",
 *    "cases":12}
 *   {"type":"start","id":"...","repro":"kvgold check ..."}        written before a case runs
 *   {"type":"case","id":"...","status":"PASS","detail":"","repro":"...","impl":"...","ms":1.5,"slow":false,
 *    "compared":4096,"mismatched":0,"steps":0,
 *    "k":{"elements":2048,"relative_l2":0.09,"sqnr_db":20.6,"gain":0.999,"worst_ratio":0.97},"v":{...},
 *    "decode":{"elements":1040,"unpromised":0,"worst_ratio":0.21,"median_ratio":0.03,"lse_ratio":0.01,
 *              "relative_l2":0.0003,"codec_ratio":0.4,"codec_l2":0.05,"probe_ratio":0.2},
 *    "reach":{"codes":16,"codes_of":16,"scales":31,"ties":5,"saturations":0,"zero_blocks":2,"negative_zeros":3,
 *             "subnormals":0,"specials":0,"scale_underflows":0,"code_set":"<64 hex digits>",
 *             "scale_set":"<64 hex digits>"},
 *    "controls":{"rejected":["zeros"],"unreached":["copy_input"],"accepted":[],"within":[],"by_bound":["zeros"]},
 *    "quality":{"rows":510,...,"positions":[{"from":0,"rows":126,"loss":0.01,"kl":0.002,"top1":0.98}],
 *               "planted":[{"id":"window_short","applies":true,"by_bits":true,"by_limits":false,"rows":255,
 *                           "differ":127,"loss":0.0002,"kl":0.0001}]},
 *    "mode":{"requested":"fp4_nv","effective":"none","fell_back":true,"reason":"...","partial_kv":"on",
 *            "prefix_cache":"design gating: ..."}}
 *   {"type":"end","interrupted":false,"seconds":3.25,"PASS":12}
 *
 * Case ids read op/format.dialect/layout/dtype/TxHxD/fill[:k,v]/scale/backend; K and V in different formats read
 * k.dialect+v.dialect. code_set and scale_set: bit i of byte i/8 (hex, byte 0 first) is set if code i was seen. A
 * number that JSON lacks is the string "inf" or "nan". k, v, decode, reach and controls are absent where nothing was
 * judged; codec_* where K and V have no original (fill codes), probe_ratio where the fill is no probe. A
 * `start` without a `case` is a case that never finished. within: controls that
 * changed the numbers of op decode by less than the bound. by_bound: those of the rejected controls that the round-trip
 * bound alone rejects too; files of earlier runs may lack it. mode: only of cases whose storage a policy chose, judged
 * or not; partial_kv and prefix_cache only where they are wanted. quality: op generate alone; its other numbers are the
 * rows of harness/case/quality_fields.def. */
#ifndef KVG_HARNESS_REPORT_REPORT_H
#define KVG_HARNESS_REPORT_REPORT_H

#include <stdio.h>

#include "core/status.h"

typedef struct kvg_report kvg_report;

/* Reads and merges one or more result files. KVG_ERR_INVALID if a file is malformed, if two files disagree in config
 * name, seed or shard count, or if a case appears twice. A last line cut short by a crash is dropped, and said so in
 * the report. Missing shards are noted, never silent: see kvg_report_exit_code. */
kvg_status kvg_report_open(const char *const *paths, size_t count, kvg_report **out) KVG_CHECKED;
void kvg_report_close(kvg_report *report);

/* 0: every case of every shard passed; 1: a case failed, or one never finished or is missing; 77: nothing but SKIP. */
int kvg_report_exit_code(const kvg_report *report);

/* A table for people: failures first with their repro lines, then one row per format and dialect, one per
 * layout and op, then totals and the modes that policies chose. `width`
 * is the terminal's (0: 120). */
void kvg_report_table(const kvg_report *report, FILE *out, unsigned width);

/* One self-contained HTML page with inline SVG plots by gnuplot. Without gnuplot the page says so and has its
 * tables. */
kvg_status kvg_report_html(const kvg_report *report, const char *path) KVG_CHECKED;

/* JUnit XML: one testsuite per config, one testcase per case. */
kvg_status kvg_report_junit(const kvg_report *report, const char *path) KVG_CHECKED;

/* The merged result file: one run line (shard "1/1"), every case once, one end line. */
kvg_status kvg_report_merge(const kvg_report *report, const char *path) KVG_CHECKED;

#endif
