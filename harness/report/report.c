/* Merging the files of a run, and what follows from all of them. */
#define _POSIX_C_SOURCE 200809L
#include "harness/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report_data.h"
#include "harness/report/report_origin.h"
#include "harness/report/report_unclaimed.h"
#include "harness/report/result_line.h"
#include "support/exit_code.h"

const char *const kvg_report_control_names[KVG_REPORT_CONTROLS] = {
    [KVG_REPORT_REJECTED] = "rejected", [KVG_REPORT_UNREACHED] = "unreached", [KVG_REPORT_ACCEPTED] = "accepted",
    [KVG_REPORT_WITHIN] = "within", [KVG_REPORT_BY_BOUND] = "by_bound",
};

/* --- one run from several files --- */

static kvg_status check_same_run(const kvg_report_file *first, const kvg_report_file *f)
{
    if (strcmp(first->name, f->name) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "%s is of another config than %s: report them apart", f->path, first->path);
    }
    if (first->seed != f->seed) {
        return kvg_fail(KVG_ERR_INVALID, "%s has seed 0x%" PRIx64 ", %s has 0x%" PRIx64 ": report them apart", f->path,
                        f->seed, first->path, first->seed);
    }
    if (first->shard_count != f->shard_count) {
        return kvg_fail(KVG_ERR_INVALID, "%s is one of %" PRIu64 " shards, %s one of %" PRIu64 ": report them apart",
                        f->path, f->shard_count, first->path, first->shard_count);
    }
    return KVG_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const kvg_report_case *x = a, *y = b;
    const int order = strcmp(x->asked.id, y->asked.id);
    if (order) return order;
    if (x->finished != y->finished) return x->finished ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

/* Joins each `start` with its `case`; what then still appears twice is an error. */
static kvg_status join_cases(kvg_report *r)
{
    size_t kept = 0;
    if (r->case_count) qsort(r->cases, r->case_count, sizeof r->cases[0], compare_ids);
    for (size_t i = 0; i < r->case_count; i++) {
        kvg_report_case *c = &r->cases[i], *last = kept ? &r->cases[kept - 1] : NULL;
        const bool again = last && strcmp(last->asked.id, c->asked.id) == 0;
        if (again && last->finished && !c->finished && last->file == c->file && !last->started) {
            last->started = true;
        } else if (again) {
            return kvg_fail(KVG_ERR_INVALID, "%s: a case appears twice (first in %s): %s", r->files[c->file].path,
                            r->files[last->file].path, c->asked.id);
        } else {
            r->cases[kept++] = *c;
        }
    }
    r->case_count = kept;
    return KVG_OK;
}

/* What each file says it has against what it has. */
static kvg_status count_cases(kvg_report *r)
{
    for (size_t i = 0; i < r->case_count; i++) {
        r->files[r->cases[i].file].seen++;
        r->files[r->cases[i].file].finished += r->cases[i].finished;
    }
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < r->file_count && !s; i++) {
        kvg_report_file *f = &r->files[i];
        if (f->seen > f->cases) {
            return kvg_fail(KVG_ERR_INVALID, "%s: announces %" PRIu64 " cases but holds %" PRIu64, f->path, f->cases,
                            f->seen);
        }
        uint64_t missing = f->cases - f->seen;
        if (f->interrupted && f->finished == f->cases) missing = 1; /* merged from shards that were not all there */
        r->missing += missing;
        if (f->truncated) s = kvg_report_note(r, "%s: the last line was cut short and is left out.", f->path);
        if (!s && f->interrupted) s = kvg_report_note(r, "%s: the run was interrupted.", f->path);
        if (!s && !f->ended) s = kvg_report_note(r, "%s: no end line: the run was killed or crashed.", f->path);
        if (!s && f->cases > f->seen) {
            s = kvg_report_note(r, "%s: %" PRIu64 " of %" PRIu64 " cases are missing.", f->path, f->cases - f->seen,
                                f->cases);
        }
        if (!s && strcmp(f->version, r->files[0].version) != 0) {
            s = kvg_report_note(r, "%s is of version %s, %s of %s.", f->path, f->version, r->files[0].path,
                                r->files[0].version);
        }
    }
    return s;
}

static int compare_shards(const void *a, const void *b)
{
    const kvg_report_file *x = *(const kvg_report_file *const *)a, *y = *(const kvg_report_file *const *)b;
    return (x->shard > y->shard) - (x->shard < y->shard);
}

/* Adds "2, 5-9" for the shards from `first` to `last`, if there are any. */
static void list_shards(char *list, size_t size, uint64_t first, uint64_t last)
{
    const size_t used = strlen(list);
    const char *comma = used ? ", " : "";
    if (first == last) snprintf(list + used, size - used, "%s%" PRIu64, comma, first);
    if (first < last) snprintf(list + used, size - used, "%s%" PRIu64 "-%" PRIu64, comma, first, last);
}

static kvg_status check_shards(kvg_report *r)
{
    const kvg_report_file **sorted = malloc(r->file_count * sizeof *sorted);
    if (!sorted) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu shards", r->file_count);
    for (size_t i = 0; i < r->file_count; i++) sorted[i] = &r->files[i];
    qsort(sorted, r->file_count, sizeof sorted[0], compare_shards);
    const uint64_t shard_count = r->files[0].shard_count;
    kvg_status s = KVG_OK;
    char list[160] = "";
    uint64_t next = 1;
    for (size_t i = 0; i < r->file_count && !s; i++) {
        if (sorted[i]->shard < next) {
            s = kvg_fail(KVG_ERR_INVALID, "%s and %s are both shard %" PRIu64 "/%" PRIu64 ": cases would appear twice",
                         sorted[i - 1]->path, sorted[i]->path, sorted[i]->shard, shard_count);
        }
        list_shards(list, sizeof list, next, sorted[i]->shard - 1);
        next = sorted[i]->shard + 1;
    }
    list_shards(list, sizeof list, next, shard_count);
    free(sorted);
    r->lost_shards = s ? 0 : shard_count - r->file_count;
    if (!r->lost_shards) return s;
    const bool one = r->lost_shards == 1;
    return kvg_report_note(r, "%s %s of %" PRIu64 " %s not in this report.", one ? "Shard" : "Shards", list,
                           shard_count, one ? "is" : "are");
}

static kvg_status open_report(kvg_report *r, const char *const *paths, const kvg_sha256_digest *digests, size_t count)
{
    kvg_status s = count ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "a report needs at least one result file");
    for (size_t i = 0; i < count && !s; i++) {
        s = kvg_report_read(r, paths[i], digests ? &digests[i] : NULL);
        if (!s) s = check_same_run(&r->files[0], &r->files[i]);
    }
    if (!s) s = check_shards(r);
    if (!s) s = kvg_report_compare_origins(r);
    if (!s) s = join_cases(r);
    if (!s) s = count_cases(r);
    if (!s) s = kvg_report_summarise(r);
    return s ? s : kvg_report_find_causes(r);
}

kvg_status kvg_report_open(const char *const *paths, const kvg_sha256_digest *digests, size_t count,
                           const kvg_guest *guest, kvg_report **out)
{
    *out = NULL;
    kvg_report *r = calloc(1, sizeof *r);
    if (!r) return kvg_fail(KVG_ERR_MEMORY, "no memory for a report");
    r->guest = guest;
    kvg_status s = open_report(r, paths, digests, count);
    if (s) kvg_report_close(r);
    else *out = r;
    return s;
}

void kvg_report_close(kvg_report *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->file_count; i++) {
        free(r->files[i].path);
        free(r->files[i].text);
        free(r->files[i].version);
        free(r->files[i].config);
        free(r->files[i].name);
    }
    for (kvg_report_texts *next; r->texts; r->texts = next) {
        next = r->texts->next;
        free(r->texts);
    }
    for (size_t i = 0; i < r->note_count; i++) free(r->notes[i]);
    free(r->files);
    free(r->cases);
    free(r->groups);
    free(r->layouts);
    free(r->modes);
    free(r->cells);
    free(r->origins);
    free(r->notes);
    free(r);
}

bool kvg_report_is_incomplete(const kvg_report *r)
{
    return r->unfinished || r->missing || r->lost_shards || kvg_report_unasked_count(r);
}

int kvg_report_exit_code(const kvg_report *r)
{
    return kvg_report_is_incomplete(r) ? KVG_EXIT_FAIL : kvg_exit_of_verdicts(r->verdicts);
}

static bool has_public_seed(const kvg_report *r)
{
    for (size_t i = 0; i < r->file_count; i++) {
        if (r->files[i].public_seed) return true;
    }
    return false;
}

void kvg_report_count_line(const kvg_report *r, char *out, size_t size)
{
    const uint64_t skipped = r->verdicts[KVG_VERDICT_SKIP], missing = r->unfinished + r->missing;
    int n = snprintf(out, size, "%" PRIu64 " passed, %" PRIu64 " failed", r->verdicts[KVG_VERDICT_PASS], r->failing);
    if (skipped) n += snprintf(out + n, size - (size_t)n, ", %" PRIu64 " skipped", skipped);
    if (missing) n += snprintf(out + n, size - (size_t)n, ", %" PRIu64 " missing", missing);
    n += snprintf(out + n, size - (size_t)n, "; %zu of %zu cell%s judged", kvg_cells_judged(r->cells, r->cell_count),
                  r->cell_count, r->cell_count == 1 ? "" : "s");
    if (r->lost_shards) {
        n += snprintf(out + n, size - (size_t)n, "; %" PRIu64 " of %" PRIu64 " shards missing", r->lost_shards,
                      r->files[0].shard_count);
    }
    const size_t unasked = kvg_report_unasked_count(r);
    if (unasked) n += snprintf(out + n, size - (size_t)n, "; %zu claimed value%s unasked", unasked,
                               unasked == 1 ? "" : "s");
    if (has_public_seed(r)) n += snprintf(out + n, size - (size_t)n, "; public seed");
    const size_t libraries = kvg_report_library_count(r);
    if (libraries > 1) snprintf(out + n, size - (size_t)n, "; of %zu different libraries", libraries);
}

/* --- the merged file --- */

/* Without memory the file lacks the line, and no report reads it. */
static void put_line(FILE *out, char *line)
{
    if (line) fprintf(out, "%s\n", line);
    free(line);
}

/* Unfinished cases keep their start line, and a run with holes ends as interrupted: a merged file never looks better
 * than its parts. */
static void write_merged(const kvg_report *r, FILE *out)
{
    const kvg_report_file *f = &r->files[0];
    kvg_result_run run = {f->version, f->config, f->name, "1/1", .seed = f->seed, .public_seed = has_public_seed(r),
                          .origins = r->origins, .origin_count = r->origin_count};
    for (size_t i = 0; i < r->file_count; i++) {
        run.cases += r->files[i].cases;
        if (r->files[i].config_cases > run.config_cases) run.config_cases = r->files[i].config_cases;
    }
    put_line(out, kvg_result_run_line(&run));
    for (size_t i = 0; i < r->case_count; i++) {
        fwrite(r->cases[i].line, 1, r->cases[i].line_size, out);
        putc('\n', out);
    }
    put_line(out, kvg_result_end_line(r->missing || r->lost_shards, r->seconds, r->verdicts, r->cells, r->cell_count));
}

kvg_status kvg_report_merge(const kvg_report *report, const char *path)
{
    return kvg_report_write(report, path, write_merged);
}
