#include <math.h>

#include <cJSON.h>

#include "harness/pack/compare_print.h"
#include "support/whole_file.h"

/* Memory that lacks shows when the whole is printed: cJSON then leaves members out and returns NULL. */
static void add_ratio(cJSON *object, const char *key, double x)
{
    if (isnan(x)) return;
    if (isinf(x)) cJSON_AddStringToObject(object, key, "inf");
    else cJSON_AddNumberToObject(object, key, x);
}

static cJSON *extent_of(const kvg_extent *e)
{
    cJSON *axis = cJSON_CreateObject();
    cJSON_AddStringToObject(axis, "axis", e->axis.name);
    cJSON_AddNumberToObject(axis, "first", e->first);
    cJSON_AddNumberToObject(axis, "last", e->last);
    cJSON_AddNumberToObject(axis, "count", e->count);
    cJSON_AddNumberToObject(axis, "step", e->step);
    cJSON_AddNumberToObject(axis, "of", e->axis.of);
    return axis;
}

static cJSON *where_of(const kvg_where *w)
{
    cJSON *where = cJSON_CreateObject();
    cJSON_AddNumberToObject(where, "first", (double)w->first);
    cJSON_AddStringToObject(where, "at", w->at);
    cJSON_AddStringToObject(where, "extent", w->extent);
    cJSON_AddStringToObject(where, "pattern", w->pattern);
    cJSON_AddBoolToObject(where, "tail_pages", w->tail_pages);
    cJSON_AddNumberToObject(where, "in_padding", (double)w->placeless);
    cJSON *axes = cJSON_AddArrayToObject(where, "axes");
    for (size_t i = 0; i < w->extent_count; i++) cJSON_AddItemToArray(axes, extent_of(&w->extents[i]));
    return where;
}

static cJSON *tensor_of(const kvg_compared_tensor *t)
{
    cJSON *tensor = cJSON_CreateObject();
    cJSON_AddStringToObject(tensor, "name", t->asked->name);
    cJSON_AddStringToObject(tensor, "verdict", kvg_verdict_name(t->verdict));
    cJSON_AddStringToObject(tensor, "compare", kvg_pack_compare_names[t->asked->compare]);
    if (t->reason[0]) cJSON_AddStringToObject(tensor, "reason", t->reason);
    cJSON_AddNumberToObject(tensor, "all", (double)t->all);
    cJSON_AddNumberToObject(tensor, "wrong", (double)t->wrong);
    if (t->unpromised) cJSON_AddNumberToObject(tensor, "unpromised", (double)t->unpromised);
    if (t->steps) cJSON_AddNumberToObject(tensor, "steps", (double)t->steps);
    add_ratio(tensor, "worst_ratio", t->worst_ratio);
    if (t->where.wrong) cJSON_AddItemToObject(tensor, "where", where_of(&t->where));
    return tensor;
}

static cJSON *explanation_of(const kvg_diagnosis *d, const kvg_explanation *e)
{
    static const char *const sides[] = {"", "k", "v", "both"};
    char name[KVG_EXPLANATION_NAME], text[512];
    cJSON *explanation = cJSON_CreateObject();
    kvg_explanation_name(e, name, sizeof name);
    kvg_explanation_text(e, text, sizeof text);
    cJSON_AddStringToObject(explanation, "name", name);
    cJSON_AddStringToObject(explanation, "text", text);
    cJSON *defects = cJSON_AddArrayToObject(explanation, "defects");
    for (size_t i = 0; i < e->count; i++) {
        cJSON *defect = cJSON_CreateObject();
        cJSON_AddStringToObject(defect, "id", e->wrong[i].defect->id);
        cJSON_AddStringToObject(defect, "sides", sides[e->wrong[i].sides & KVG_BOTH_SIDES]);
        cJSON_AddItemToArray(defects, defect);
    }
    cJSON_AddBoolToObject(explanation, "exact", e->exact);
    cJSON_AddBoolToObject(explanation, "same_bits", e->same_bits);
    cJSON_AddNumberToObject(explanation, "explained", (double)e->explained);
    cJSON_AddNumberToObject(explanation, "introduced", (double)e->introduced);
    cJSON_AddNumberToObject(explanation, "share_of_wrong", (double)e->explained / (double)d->wrong_bits);
    cJSON_AddNumberToObject(explanation, "share_of_all", (double)e->agreeing / (double)d->all_bits);
    return explanation;
}

static cJSON *diagnosis_of(const kvg_diagnosis *d)
{
    cJSON *diagnosis = cJSON_CreateObject();
    cJSON_AddNumberToObject(diagnosis, "wrong", (double)d->wrong_bits);
    cJSON_AddNumberToObject(diagnosis, "all", (double)d->all_bits);
    cJSON_AddNumberToObject(diagnosis, "tried", (double)d->tried);
    cJSON_AddNumberToObject(diagnosis, "reached", (double)d->reached);
    cJSON_AddNumberToObject(diagnosis, "pairs", (double)d->pairs);
    cJSON_AddBoolToObject(diagnosis, "all_pairs", d->pairs == d->all_pairs);
    cJSON *list = cJSON_AddArrayToObject(diagnosis, "explanations");
    for (size_t i = 0; i < d->count; i++) cJSON_AddItemToArray(list, explanation_of(d, &d->explanations[i]));
    return diagnosis;
}

static cJSON *case_of(const kvg_compared_case *c)
{
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "key", c->from->key);
    cJSON_AddStringToObject(one, "id", c->from->id);
    cJSON_AddStringToObject(one, "verdict", kvg_verdict_name(c->verdict));
    if (c->reason[0]) cJSON_AddStringToObject(one, "reason", c->reason);
    cJSON_AddBoolToObject(one, "erratum", c->from->has_erratum);
    cJSON *tensors = cJSON_AddArrayToObject(one, "tensors");
    for (size_t i = 0; i < c->tensor_count; i++) cJSON_AddItemToArray(tensors, tensor_of(&c->tensors[i]));
    if (c->diagnosed && c->diagnosis.wrong_bits) cJSON_AddItemToObject(one, "diagnosis", diagnosis_of(&c->diagnosis));
    if (c->no_diagnosis[0]) cJSON_AddStringToObject(one, "not_diagnosed", c->no_diagnosis);
    return one;
}

static cJSON *errata_of(const kvg_pack *pack)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < pack->erratum_count; i++) {
        cJSON *erratum = cJSON_CreateObject();
        cJSON_AddStringToObject(erratum, "id", pack->errata[i].id);
        cJSON_AddStringToObject(erratum, "text", pack->errata[i].text);
        cJSON *keys = cJSON_AddArrayToObject(erratum, "cases");
        for (size_t k = 0; k < pack->errata[i].case_count; k++)
            cJSON_AddItemToArray(keys, cJSON_CreateString(pack->errata[i].cases[k]));
        cJSON_AddItemToArray(list, erratum);
    }
    return list;
}

static cJSON *report_of(const kvg_comparison *c, int exit_code)
{
    cJSON *report = cJSON_CreateObject();
    cJSON_AddStringToObject(report, "kvgold_compare", "1.0.0");
    cJSON *pack = cJSON_AddObjectToObject(report, "pack");
    cJSON_AddStringToObject(pack, "name", c->pack->name);
    cJSON_AddStringToObject(pack, "version", c->pack->version);
    if (c->pack->superseded_by) cJSON_AddStringToObject(pack, "superseded_by", c->pack->superseded_by);
    cJSON_AddItemToObject(pack, "errata", errata_of(c->pack));
    cJSON_AddBoolToObject(report, "bits", c->bits);
    cJSON *cases = cJSON_AddArrayToObject(report, "cases");
    for (size_t i = 0; i < c->case_count; i++) cJSON_AddItemToArray(cases, case_of(&c->cases[i]));
    cJSON *counts = cJSON_AddObjectToObject(report, "counts");
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (c->counts[i]) cJSON_AddNumberToObject(counts, kvg_verdict_name((kvg_verdict)i), (double)c->counts[i]);
    }
    cJSON_AddNumberToObject(report, "unanswered", (double)c->unanswered);
    cJSON_AddNumberToObject(report, "exit_code", exit_code);
    return report;
}

kvg_status kvg_compare_write_json(const kvg_comparison *c, const char *path, int exit_code)
{
    cJSON *report = report_of(c, exit_code);
    kvg_status s = kvg_whole_file_write_json(path, report);
    cJSON_Delete(report);
    return s;
}
