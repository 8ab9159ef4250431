#include "harness/pack/golden_make.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/pack/golden_parts.h"
#include "harness/pack/golden_plan.h"
#include "support/clock.h"
#include "support/commit.h"
#include "support/progress.h"
#include "support/version.h"

/* --- computing the cases of a plan, one after the other --- */

typedef struct maker {
    const kvg_golden_plan *plan;
    kvg_golden_case current;
    const kvg_pack *pack; /* whose digests must come out; NULL: none yet */
    FILE *out;            /* regenerating: where differences are told; NULL: the first one is an error */
    size_t computed, failures;
} maker;

/* A case whose bytes are known to be wrong is taken as it is stored. */
static void take_stored(const kvg_pack_case *from, kvg_pack_case *c)
{
    for (size_t i = 0; i < c->prompt_count && i < from->prompt_count; i++) c->prompt[i].data = from->prompt[i].data;
    for (size_t i = 0; i < c->expected_count && i < from->expected_count; i++) {
        c->expected[i].data = from->expected[i].data;
    }
}

static kvg_status load(void *context, size_t index, kvg_pack_case *c)
{
    maker *m = context;
    if (m->pack && !m->out && !c->stored) return KVG_OK; /* expanding another case: the digests are the pack's */
    kvg_progress_at(index, KVG_PROGRESS_NOT_JUDGED, c->id, kvg_clock_seconds());
    kvg_golden_case_free(&m->current);
    if (m->pack && c->has_erratum) {
        take_stored(&m->pack->cases[index], c);
        if (m->pack->cases[index].stored || m->out) return KVG_OK;
        return kvg_fail(KVG_ERR_INVALID, "case %s has an erratum: its bytes cannot be computed any more", c->key);
    }
    kvg_status s = kvg_golden_case_make(m->plan->cases[index], &m->current);
    if (s) return s;
    kvg_golden_give_data(&m->current, c);
    m->computed++;
    if (!m->pack) return KVG_OK;
    s = kvg_golden_compare(m->pack, &m->pack->cases[index], c);
    if (!s || !m->out) return s;
    m->failures++;
    fprintf(m->out, "FAIL %s %s: %s\n", c->key, c->id, kvg_error_text());
    return KVG_OK;
}

/* Every case of the plan, into the pack's folder; fd -1: nowhere. */
static kvg_status compute(maker *m, int fd)
{
    kvg_progress_begin("golden", m->plan->pack->case_count, "cases");
    const kvg_status s = kvg_pack_write_tensors(m->plan->pack, fd, load, m);
    kvg_golden_case_free(&m->current);
    kvg_progress_end();
    return s;
}

/* --- refusing cases --- */

/* A case that cannot be computed, or that a wrong answer passes, leaves the plan with a line to `told`. Every other one
 * has its separation. */
static kvg_status refuse(kvg_golden_plan *plan, FILE *told, size_t *refused)
{
    kvg_pack *pack = plan->pack;
    bool *drop = kvg_pack_alloc(pack, pack->case_count, sizeof *drop);
    if (!drop) return KVG_ERR_MEMORY;
    kvg_status failed = KVG_OK; /* of the last case that has no separation, and why */
    char why[512] = ""; /* as long as the text of an error is */
    kvg_progress_begin("golden", pack->case_count, "cases");
    kvg_progress_at(0, KVG_PROGRESS_NOT_JUDGED, pack->cases[0].id, kvg_clock_seconds());
/* Threads that share the small loops of one case mostly wait. */
#pragma omp parallel for ordered schedule(dynamic) if (pack->case_count > 1)
    for (size_t i = 0; i < pack->case_count; i++) {
        kvg_golden_case made = {0};
        kvg_status s = kvg_golden_case_make(plan->cases[i], &made);
        if (!s) s = kvg_golden_separation(&made, &pack->cases[i].separation);
        kvg_golden_case_free(&made);
#pragma omp ordered
        {
            drop[i] = s != KVG_OK;
            *refused += drop[i];
            if (drop[i] && failed != KVG_ERR_MEMORY) {
                failed = s;
                snprintf(why, sizeof why, "%s", kvg_error_text());
                kvg_progress_pause();
                if (s != KVG_ERR_MEMORY) fprintf(told, "REFUSED %s\n", why);
            }
            const char *next = i + 1 < pack->case_count ? pack->cases[i + 1].id : "";
            kvg_progress_at(i + 1, KVG_PROGRESS_NOT_JUDGED, next, kvg_clock_seconds());
        }
    }
    kvg_progress_end();
    if (failed == KVG_ERR_MEMORY) return kvg_fail(failed, "%s", why);
    if (*refused == pack->case_count) return kvg_fail(failed, "pack %s: every case is refused: %s", pack->name, why);
    return *refused ? kvg_golden_plan_drop(plan, drop) : KVG_OK;
}

/* --- provenance --- */

static void add_separations(kvg_json_text *t, const kvg_pack *pack)
{
    const char *comma = "";
    kvg_json_add(t, ", \"separations\": {");
    for (size_t i = 0; i < pack->case_count; i++) {
        const kvg_pack_separation *s = &pack->cases[i].separation;
        if (!s->measured) continue;
        kvg_json_add(t, "%s\"%s\": {\"unit\": \"%s\", \"least\": ", comma, pack->cases[i].key,
                     s->bits ? "bits" : "bound");
        if (isfinite(s->least)) kvg_json_add(t, "%.4g", s->least);
        else kvg_json_add(t, "null");
        kvg_json_add(t, ", \"nearest\": \"%s\"}", s->nearest);
        comma = ", ";
    }
    kvg_json_add(t, "}");
}

static kvg_status write_provenance(const kvg_pack *pack, int fd)
{
    kvg_json_text t = {0};
    kvg_json_add(&t, "{\"kvgold\": \"%s\", \"commit\": \"%s\", \"modified\": %s, \"compiler\": ", KVG_VERSION,
                 KVG_COMMIT, KVG_MODIFIED);
    kvg_json_add_string(&t, KVG_COMPILER);
    kvg_json_add(&t, ", \"flags\": ");
    kvg_json_add_string(&t, KVG_FLAGS);
    add_separations(&t, pack);
    kvg_json_add(&t, "}\n");
    kvg_status s = kvg_json_text_check(&t);
    if (!s) s = kvg_pack_write_provenance(fd, t.text);
    kvg_json_text_free(&t);
    return s;
}

/* --- packs --- */

/* What has been marked stays (docs/spec/golden-pack.md section 10): no new pack takes its place. Its manifest alone is
 * asked, so that a pack whose other files are damaged is not taken for an unmarked one. */
static kvg_status check_unmarked(const char *path)
{
    char manifest[PATH_MAX];
    kvg_json_doc *doc;
    kvg_json errata, successor;
    const int length = snprintf(manifest, sizeof manifest, "%s/%s", path, kvg_pack_file_names[KVG_PACK_MANIFEST]);
    if (length < 0 || length >= (int)sizeof manifest || kvg_json_open(manifest, &doc)) return KVG_OK; /* none there */
    const kvg_json root = kvg_json_root(doc);
    const bool marked = (kvg_json_get(root, "errata", &errata) == KVG_OK && kvg_json_count(errata) > 0) ||
                        (kvg_json_get(root, "superseded_by", &successor) == KVG_OK && !kvg_json_is_null(successor));
    kvg_json_close(doc);
    if (!marked) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s: the pack there has errata or a successor, and stays: give another folder",
                    path);
}

static kvg_status write_pack(maker *m, const char *path)
{
    kvg_pack_folder folder;
    kvg_pack *pack = m->plan->pack;
    kvg_status s = check_unmarked(path);
    if (!s) s = kvg_pack_folder_open(path, &folder);
    if (s) return s;
    s = compute(m, folder.fd);
    if (!s) s = kvg_pack_write_manifest(pack, folder.fd);
    if (!s) s = write_provenance(pack, folder.fd);
    if (!s) s = kvg_pack_folder_commit(&folder);
    if (s) kvg_pack_folder_abandon(&folder);
    return s;
}

kvg_status kvg_golden_make(const char *config, const char *path, bool measured, FILE *told, size_t *refused)
{
    kvg_golden_plan plan;
    kvg_status s = kvg_golden_plan_read(config, &plan);
    *refused = 0;
    if (!s && measured) s = refuse(&plan, told, refused);
    if (!s) s = write_pack(&(maker){.plan = &plan}, path);
    kvg_golden_plan_free(&plan);
    return s;
}

kvg_status kvg_golden_expand(const kvg_pack *pack, const kvg_pack_case *only, const char *path)
{
    kvg_golden_plan plan;
    kvg_status s = kvg_golden_plan_of(pack, &plan);
    for (size_t i = 0; i < pack->case_count && !s; i++) {
        plan.pack->cases[i].stored = !only || only == &pack->cases[i];
    }
    if (!s) s = write_pack(&(maker){.plan = &plan, .pack = pack}, path);
    kvg_golden_plan_free(&plan);
    return s;
}

/* The manifest as it would be written now, against the one that is there. */
static kvg_status compare_manifest(const kvg_pack *pack, const kvg_pack *again, FILE *out, size_t *failures)
{
    kvg_json_text t = {0};
    const char *text;
    size_t size, at = 0, line = 1;
    kvg_status s = kvg_pack_manifest_text(again, &t);
    kvg_pack_manifest_bytes(pack, &text, &size);
    while (!s && at < size && at < t.size && text[at] == t.text[at]) line += text[at++] == '\n';
    if (!s && (at < size || at < t.size)) {
        fprintf(out, "FAIL manifest.json: line %zu, byte %zu is not what the pack's cases give: '%.*s', not '%.40s'\n",
                line, at, (int)(size - at < 40 ? size - at : 40), text + at, at < t.size ? t.text + at : "");
        ++*failures;
    }
    kvg_json_text_free(&t);
    return s;
}

kvg_status kvg_golden_regenerate(const kvg_pack *pack, FILE *out, size_t *computed, size_t *failures)
{
    kvg_golden_plan plan;
    maker m = {.plan = &plan, .pack = pack, .out = out};
    kvg_status s = kvg_golden_plan_of(pack, &plan);
    if (!s) s = compute(&m, -1);
    if (!s) s = compare_manifest(pack, plan.pack, out, &m.failures);
    kvg_golden_plan_free(&plan);
    *computed = m.computed;
    *failures = m.failures;
    return s;
}

/* --- errata --- */

/* The pack's other files, byte for byte, with a new manifest. */
static kvg_status rewrite(const kvg_pack *old, const kvg_pack *pack)
{
    kvg_pack_folder folder;
    kvg_status s = kvg_pack_folder_open(old->path, &folder);
    if (s) return s;
    s = kvg_pack_copy_files(old, folder.fd);
    if (!s) s = kvg_pack_write_manifest(pack, folder.fd);
    if (!s) s = kvg_pack_folder_commit(&folder);
    if (s) kvg_pack_folder_abandon(&folder);
    return s;
}

/* YYYY-MM-DD of a day that the calendar has. Readers ask for the form alone. */
static bool is_day(const char *date)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const char digits[] = "0123456789";
    unsigned year, month, day;
    if (strlen(date) != 10 || strspn(date, digits) != 4 || strspn(date + 5, digits) != 2) return false;
    if (strspn(date + 8, digits) != 2 || sscanf(date, "%u-%u-%u", &year, &month, &day) != 3) return false;
    if (month < 1 || month > 12 || day < 1) return false;
    const bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + leap;
}

static kvg_status check_erratum(const kvg_pack *pack, const kvg_pack_erratum *e)
{
    if (!is_day(e->date)) {
        return kvg_fail(KVG_ERR_INVALID, "date '%.40s' is not YYYY-MM-DD of a day that there is", e->date);
    }
    if (pack->erratum_count == KVG_PACK_MAX_ERRATA) {
        return kvg_fail(KVG_ERR_INVALID, "pack %s has %d errata already", pack->name, KVG_PACK_MAX_ERRATA);
    }
    for (size_t i = 0; i < pack->erratum_count; i++) {
        if (strcmp(pack->errata[i].id, e->id) != 0) continue;
        return kvg_fail(KVG_ERR_INVALID, "pack %s has an erratum %s already", pack->name, e->id);
    }
    for (size_t i = 0; i < e->case_count; i++) {
        const kvg_pack_case *found;
        kvg_status s = kvg_pack_find(pack, e->cases[i], &found);
        if (s) return s;
        if (strcmp(found->key, e->cases[i]) != 0 || (i && strcmp(e->cases[i - 1], e->cases[i]) >= 0)) {
            return kvg_fail(KVG_ERR_INVALID, "'%.40s': give keys, as 0003, each greater than the one before",
                            e->cases[i]);
        }
    }
    return KVG_OK;
}

kvg_status kvg_golden_add_erratum(const kvg_pack *pack, const kvg_pack_erratum *erratum, const char *superseded_by)
{
    kvg_golden_plan plan = {0};
    kvg_status s = check_erratum(pack, erratum);
    if (!s && superseded_by && !kvg_pack_is_name(superseded_by)) {
        s = kvg_fail(KVG_ERR_INVALID, "'%.80s' is no pack's name", superseded_by);
    }
    if (!s && superseded_by && strcmp(superseded_by, pack->name) == 0) {
        s = kvg_fail(KVG_ERR_INVALID, "pack %s cannot be superseded by itself", pack->name);
    }
    if (!s) s = kvg_golden_plan_of(pack, &plan);
    if (!s) {
        kvg_pack_erratum *errata = kvg_pack_alloc(plan.pack, pack->erratum_count + 1, sizeof *errata);
        if (!errata) s = KVG_ERR_MEMORY;
        if (!s && pack->erratum_count) memcpy(errata, pack->errata, pack->erratum_count * sizeof *errata);
        if (!s) errata[plan.pack->erratum_count++] = *erratum;
        plan.pack->errata = errata;
        if (superseded_by) plan.pack->superseded_by = superseded_by;
    }
    if (!s) s = rewrite(pack, plan.pack);
    kvg_golden_plan_free(&plan);
    return s;
}
