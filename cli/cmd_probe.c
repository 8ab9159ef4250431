#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "harness/config/config.h"
#include "harness/run/backends.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/question/question.h"

typedef struct probe_options {
    const char *only_case, *backend;
    bool has_seed, has_layer;
    uint64_t seed;
    uint32_t sequence, token, head, layer;
} probe_options;

/* A cache and a row of it. */
typedef struct probed_row {
    kvg_problem problem; /* op probe of one slot */
    int64_t slot;
    uint32_t head;
    kvg_tensor in[KVG_MAX_TENSORS];
} probed_row;

static kvg_status find_case(const kvg_config *config, const probe_options *o, const kvg_case **out)
{
    if (o->only_case) return kvg_config_find(config, o->only_case, out);
    for (size_t i = 0; i < config->case_count; i++) {
        *out = &config->cases[i];
        if (kvg_layout_get((*out)->problem.layout)->paged) return KVG_OK;
    }
    return kvg_fail(KVG_ERR_INVALID, "%s has no case on a paged layout", config->path);
}

/* --- the row --- */

static kvg_status find_row(const kvg_question *d, const probe_options *o, probed_row *row)
{
    const kvg_problem *p = &d->c->problem;
    if (!kvg_layout_get(p->layout)->paged) return kvg_fail(KVG_ERR_INVALID, "layout rows has no pools to probe");
    const bool sequences = kvg_op_reads_sequences(p->op);
    const size_t source = sequences ? (size_t)o->sequence * p->tokens + o->token : o->token;
    row->problem = kvg_question_other_op(p, KVG_OP_PROBE, 1);
    row->head = o->head;
    row->slot = -1;
    if (o->has_layer) row->problem.paging.layer = o->layer;
    if (o->head >= p->kv_heads || row->problem.paging.layer >= p->paging.layers) {
        return kvg_fail(KVG_ERR_INVALID, "head %u, layer %u: the case has %u KV heads and %u layers", o->head,
                        row->problem.paging.layer, p->kv_heads, p->paging.layers);
    }
    if (o->sequence && !sequences) {
        return kvg_fail(KVG_ERR_INVALID, "op %s has tokens, not sequences: leave out --sequence",
                        kvg_op_get(p->op)->name);
    }
    for (size_t i = 0; i < d->rows.tokens; i++) {
        if (d->source[i] == source) row->slot = d->slots[i];
    }
    if (row->slot >= 0 && o->token < p->tokens) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "token %u of sequence %u has no place in the cache: skipped, or past the end",
                    o->token, o->sequence);
}

/* The pools that hold the row: the case's own, or what the implementation appends. *written holds the latter. */
static kvg_status make_cache(const kvg_question *d, kvg_candidate *candidate, kvg_tensor_set *written)
{
    if (d->c->problem.op != KVG_OP_APPEND) return KVG_OK;
    kvg_status s = kvg_set_alloc(&d->c->problem, d->op->outputs, written);
    if (s) return s;
    kvg_question_prefill(d, written);
    return kvg_candidate_answer(candidate, &d->c->problem, d->in.tensors, written->tensors);
}

/* --- printing --- */

/* Bytes that follow each other in the pool, at most 32 in a line, each line after the place of its first. */
static void print_bytes(const probed_row *row, const kvg_row_map *map, const char *what, const uint8_t *bytes)
{
    enum { LINE = 32 };
    const kvg_paging *g = &row->problem.paging;
    const uint32_t block = (uint32_t)(row->slot / g->block_tokens), offset = (uint32_t)(row->slot % g->block_tokens);
    uint64_t next = 0;
    for (uint32_t i = 0, used = 0; i < map->bytes; i++, used++) {
        const uint64_t at = kvg_rows_place(map, g->layer, block, row->head, offset, i);
        if (i == 0 || at != next || used == LINE) {
            printf("%s%-8s  %-14s byte %12" PRIu64 ":", i ? "\n" : "", i ? "" : what,
                   i ? "" : kvg_tensor_name(map->pool, map->side), at);
            used = 0;
        }
        printf(" %02x", bytes[i]);
        next = at + 1;
    }
    printf("\n");
}

/* *differ: the reference reads something else. */
static void print_row(const probed_row *row, const kvg_tensor_set *bytes, const kvg_tensor_set *expected, bool *differ)
{
    static const char *const words[2][2] = {{"K codes", "K scales"}, {"V codes", "V scales"}};
    const kvg_paging *g = &row->problem.paging;
    kvg_layout_map map;
    kvg_rows_map(&row->problem, &map);
    printf("slot %" PRId64 ": block %" PRId64 ", offset %" PRId64 ", layer %u, head %u\n", row->slot,
           row->slot / g->block_tokens, row->slot % g->block_tokens, g->layer, row->head);
    for (int i = 0; i < 2 * kvg_problem_sides(&row->problem); i++) {
        const kvg_side side = (kvg_side)(i / 2);
        const kvg_role role = i % 2 ? KVG_ROLE_SCALES : KVG_ROLE_CODES;
        const kvg_row_map *m = i % 2 ? &map.scales[side] : &map.codes[side];
        const size_t first = row->head * (size_t)m->bytes;
        const uint8_t *got = (const uint8_t *)kvg_set_tensor(bytes, role, side)->data + first;
        const uint8_t *want = (const uint8_t *)kvg_set_tensor(expected, role, side)->data + first;
        if (m->bytes == 0) continue;
        print_bytes(row, m, words[side][i % 2], got);
        if (memcmp(got, want, m->bytes) == 0) continue;
        print_bytes(row, m, "but", want);
        *differ = true;
    }
}

static kvg_status probe_case(const kvg_case *c, const probe_options *o, bool *differ)
{
    kvg_candidate *candidate = NULL;
    kvg_candidate_facts facts;
    kvg_question data = {0};
    kvg_tensor_set cache = {0}, bytes = {0}, expected = {0};
    probed_row row;
    kvg_status s = kvg_candidate_start(KVG_CONFINE_NAMESPACES, NULL, kvg_check_backend, &candidate);
    if (!s) s = kvg_candidate_open(candidate, c->backend, &facts);
    if (!s) s = kvg_question_make(c, &data);
    if (!s) s = find_row(&data, o, &row);
    if (!s) s = make_cache(&data, candidate, &cache);
    if (!s) {
        const kvg_role *inputs = kvg_op_get(KVG_OP_PROBE)->inputs;
        const kvg_source sources[] = {{.set = cache.count ? &cache : &data.in},
                                      {.role = KVG_ROLE_SLOTS, .data = {&row.slot}}};
        kvg_gather(&row.problem, inputs, sources, 2, row.in);
        s = kvg_set_alloc(&row.problem, kvg_op_get(KVG_OP_PROBE)->outputs, &bytes);
    }
    if (!s) s = kvg_candidate_answer(candidate, &row.problem, row.in, bytes.tensors);
    if (!s) s = kvg_set_alloc(&row.problem, bytes.roles, &expected);
    if (!s) s = kvg_reference_run(&row.problem, row.in, expected.tensors);
    if (!s) {
        printf("%s\n", c->id);
        print_row(&row, &bytes, &expected, differ);
        if (*differ) printf("the reference reads the bytes after 'but' there\n");
    }
    kvg_set_free(&expected);
    kvg_set_free(&bytes);
    kvg_set_free(&cache);
    kvg_question_free(&data);
    kvg_candidate_end(candidate);
    return s;
}

int kvg_command_probe(const kvg_arguments *a)
{
    const probe_options o = {
        .only_case = kvg_given_text(a, KVG_OPTION_PROBE_CASE, NULL),
        .backend = kvg_given_text(a, KVG_OPTION_PROBE_BACKEND, NULL),
        .has_seed = kvg_given(a, KVG_OPTION_PROBE_SEED),
        .has_layer = kvg_given(a, KVG_OPTION_PROBE_LAYER),
        .seed = kvg_given_number(a, KVG_OPTION_PROBE_SEED, 0),
        .sequence = (uint32_t)kvg_given_number(a, KVG_OPTION_PROBE_SEQUENCE, 0),
        .token = (uint32_t)kvg_given_number(a, KVG_OPTION_PROBE_TOKEN, 0),
        .head = (uint32_t)kvg_given_number(a, KVG_OPTION_PROBE_HEAD, 0),
        .layer = (uint32_t)kvg_given_number(a, KVG_OPTION_PROBE_LAYER, 0),
    };
    bool differ = false;
    kvg_config config;
    const kvg_case *c = NULL;
    if (a->file_count != 1) return kvg_command_usage("probe", "give one config");
    kvg_status s = kvg_config_open(a->files[0], o.has_seed ? &o.seed : NULL, NULL, &config);
    if (s) return kvg_command_fail("probe", s);
    if (o.backend) s = kvg_config_use_backend(&config, o.backend);
    if (!s) s = find_case(&config, &o, &c);
    if (!s) kvg_command_note_confinement("probe");
    if (!s) s = probe_case(c, &o, &differ);
    kvg_config_close(&config);
    if (s) return kvg_command_fail("probe", s);
    return differ ? KVG_EXIT_FAIL : KVG_EXIT_PASS;
}
