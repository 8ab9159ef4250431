#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "harness/config/config.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/known_wrong.h"
#include "harness/trial/question/fill.h"
#include "model/guest/generate_guest.h"
#include "support/clock.h"
#include "support/progress.h"

/* --- what the case asks --- */

static void print_storage(const kvg_case *c, kvg_side side)
{
    const kvg_storage *s = &c->problem.storage[side];
    size_t index = 0;
    const bool known = kvg_reference_dialect_find(s->format, s->dialect, &index) == KVG_OK;
    printf("%s          %s.%s: %s", side == KVG_K ? "K" : "V", kvg_format_get(s->format)->name, s->dialect,
           kvg_format_get(s->format)->summary);
    if (known && index > 0) printf("; %s", kvg_reference_dialect(s->format, index)->source);
    printf("\n");
}

static void print_pages(const kvg_case *c)
{
    const kvg_paging *g = &c->problem.paging;
    printf("pages      %u blocks of %u tokens, %u layers, asked of layer %u; %u sequences", g->blocks, g->block_tokens,
           g->layers, g->layer, g->sequences);
    if (c->shared_prefix) printf(", which begin with the same %u tokens", c->shared_prefix);
    if (g->row_padding || g->data_padding || g->scale_padding) {
        printf("; padding %u,%u,%u bytes", g->row_padding, g->data_padding, g->scale_padding);
    }
    if (g->v_scale_swizzle) printf("; V's scales in groups of 4 tokens");
    if (g->shared_kv) printf("; V is elements %u to %u of K's row", g->v_first, g->v_first + g->v_dim - 1);
    printf("\n");
}

static void print_attention(const kvg_case *c)
{
    const kvg_attention *a = &c->problem.attention;
    printf("attention  %u query heads, %u rows of q, at most %u of a sequence", a->query_heads, a->queries, c->queries);
    if (a->window) printf("; window %u", a->window);
    if (a->softcap != 0) printf("; soft-cap %g", (double)a->softcap);
    if (a->scale != 0) printf("; scale %g", (double)a->scale);
    if (a->sinks) printf("; sinks");
    printf("\n");
}

static void print_asked(const kvg_case *c, const kvg_question *q)
{
    const kvg_problem *p = &c->problem;
    printf("case       %s\n", c->id);
    printf("asks       %s: %s\n", q->op->name, q->op->summary);
    if (p->profile != KVG_PROFILE_NONE) {
        printf("bits of    %s: %s\n", kvg_profile_get(p->profile)->name, kvg_profile_get(p->profile)->summary);
    }
    if (p->storage[KVG_K].format != KVG_FORMAT_NONE) {
        for (int side = KVG_K; side <= KVG_V; side++) print_storage(c, (kvg_side)side);
        printf("layout     %s: %s\n", kvg_problem_layout_name(p), kvg_layout_get(p->layout)->summary);
    }
    printf("model      %s, %u tokens, %u KV heads of %u elements\n", kvg_dtype_name(p->dtype), p->tokens, p->kv_heads,
           p->head_dim);
    if (kvg_layout_get(p->layout)->paged) print_pages(c);
    if (p->op == KVG_OP_DECODE) print_attention(c);
    printf("data       fill %s, seed 0x%" PRIx64, kvg_fill_names[c->fill], q->seed);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_format_info *f = kvg_format_get(p->storage[side].format);
        if (f && f->tensor_scale) printf("; %c's tensor scale %.9g", "KV"[side], (double)q->tensor_scale[side]);
    }
    printf("\n");
}

static void print_tensors(const char *title, const kvg_problem *p, const kvg_role *roles)
{
    printf("\n%s\n", title);
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        const kvg_tensor t = kvg_problem_tensor(p, role, side);
        if (!t.bytes) continue;
        printf("  %-16s %-5s [", kvg_tensor_name(role, side), kvg_dtype_name(t.dtype));
        for (uint32_t d = 0; d < t.rank; d++) printf("%s%" PRIu64, d ? "x" : "", t.shape[d]);
        printf("]\n");
    }
}

/* --- what is right, and what is not --- */

static void print_bounds(const kvg_truth *t)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < t->outputs; i++) {
        const double bound = t->exact.out_bound[i];
        if (!isfinite(bound)) continue;
        least = bound < least ? bound : least;
        most = bound > most ? bound : most;
    }
    if (t->outputs) printf("  bounds of out: %.3g to %.3g\n", least, most);
}

static void print_known_wrong(const kvg_known_wrong *known)
{
    static const char *const outcomes[] = {
        [KVG_CONTROL_UNREACHED] = "changes nothing", [KVG_CONTROL_REJECTED] = "rejected",
        [KVG_CONTROL_REJECTED_BY_BOUND] = "rejected", [KVG_CONTROL_WITHIN] = "within bound",
        [KVG_CONTROL_ACCEPTED] = "PASSES",
    };
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    printf("\nknown-wrong answers\n");
    for (size_t i = 0; i < count; i++) {
        char distance[32] = "";
        if (known->outcome[i] == KVG_CONTROL_ABSENT) continue;
        if (known->distance[i] > 0) {
            snprintf(distance, sizeof distance, "%s%.3g %s", &defects[i] == known->separation.nearest ? "" : ">= ",
                     known->distance[i], known->separation.by_bits ? "bits" : "bounds");
        }
        printf("  %-22s %-16s %-18s %s\n", defects[i].id, outcomes[known->outcome[i]], distance, defects[i].summary);
    }
}

static kvg_status explain(const kvg_case *c, const char *path)
{
    char repro[KVG_REPRO_SIZE];
    kvg_question question;
    kvg_truth truth = {0};
    kvg_known_wrong known = {0};
    if (c->guest) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s asks no op: `kvgold generate` runs what it asks", c->id);
    }
    kvg_progress_begin("explain", 1, "cases");
    kvg_progress_at(0, KVG_PROGRESS_NOT_JUDGED, c->id, kvg_clock_seconds());
    kvg_status s = kvg_question_make(c, &question);
    if (!s) {
        print_asked(c, &question);
        kvg_case_repro(c, path, NULL, NULL, repro, sizeof repro);
        printf("repro      %s\n", repro);
        print_tensors("gets", &c->problem, question.op->inputs);
        print_tensors("gives", &c->problem, question.op->outputs);
        printf("\nis right\n  %s\n", kvg_judge_right(&c->problem));
        s = kvg_know(&question, &truth);
    }
    if (!s) {
        print_bounds(&truth);
        s = kvg_known_wrong_try(&truth, NULL, KVG_OFFER_ALL, NULL, &known);
    }
    kvg_progress_end();
    if (!s) print_known_wrong(&known);
    kvg_truth_free(&truth);
    kvg_question_free(&question);
    return s;
}

static int run_explain(const kvg_arguments *a)
{
    const bool has_seed = kvg_given(a, KVG_OPTION_EXPLAIN_SEED);
    const uint64_t seed = kvg_given_number(a, KVG_OPTION_EXPLAIN_SEED, 0);
    const char *backend = kvg_given_text(a, KVG_OPTION_EXPLAIN_BACKEND, NULL);
    kvg_config config;
    const kvg_case *c;
    if (a->file_count != 2) return kvg_command_usage("explain", "give a config and a case");
    kvg_status s = kvg_config_open(a->files[0], has_seed ? &seed : NULL, &kvg_generate_guest, &config);
    if (s) return kvg_command_fail("explain", s);
    if (backend) s = kvg_config_use_backend(&config, backend);
    if (!s) s = kvg_config_find(&config, a->files[1], &c);
    if (!s) s = explain(c, a->files[0]);
    kvg_config_close(&config);
    return s ? kvg_command_fail("explain", s) : KVG_EXIT_PASS;
}

int kvg_command_explain(const kvg_arguments *a)
{
    return kvg_command_lay_out(run_explain, a);
}
