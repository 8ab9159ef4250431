#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/question_file.h"
#include "reference/attention_profile.h"
#include "support/whole_file.h"

enum { MOST_TRIES = 256, BASES = 3, SHOWN = 10, LEAST_LEAF = 128, MOST_LEAF = 4096, OTHER_SPLITS = 16 };

/* A profile, as it is or with one parameter changed, and how many bits of the answer it gives. */
typedef struct attempt {
    kvg_profile profile;
    uint32_t splits, piece;
    kvg_contract_info contract; /* with a changed parameter */
    char changed[64];           /* in words; "": none, and contract is not looked at */
    uint64_t out, lse;          /* numbers that are equal */
} attempt;

typedef struct search {
    kvg_question_file question;
    const uint8_t *out, *lse; /* bytes of the answer, at any address; lse may be NULL */
    uint64_t outputs, rows;
    double scale;
    attempt tries[MOST_TRIES];
    size_t count;
} search;

/* --- one attempt --- */

static bool is_nan(kvg_dtype type, uint16_t code)
{
    return (code & 0x7FFF) > (type == KVG_DTYPE_F16 ? 0x7C00 : 0x7F80);
}

static void count_equal(const search *x, attempt *t)
{
    const kvg_problem *p = &x->question.problem;
    const uint16_t *out = kvg_set_tensor(&x->question.out, KVG_ROLE_OUT, KVG_K)->data;
    const uint32_t *lse = kvg_set_tensor(&x->question.out, KVG_ROLE_LSE, KVG_K)->data;
    for (uint64_t i = 0; i < x->outputs; i++) {
        uint16_t given;
        memcpy(&given, x->out + i * sizeof given, sizeof given);
        t->out += out[i] == given || (is_nan(p->dtype, out[i]) && is_nan(p->dtype, given));
    }
    for (uint64_t i = 0; x->lse && i < x->rows; i++)
        t->lse += memcmp(&lse[i], x->lse + i * sizeof lse[i], sizeof lse[i]) == 0;
}

/* Computes and keeps it, unless the profile does not take the question. */
static kvg_status try(search *x, attempt t)
{
    if (x->count == MOST_TRIES) return KVG_OK;
    attempt *kept = &x->tries[x->count];
    *kept = t;
    const kvg_walk walk = {.splits = t.splits, .piece = t.piece, .scale = x->scale,
                           .contract = t.changed[0] ? &kept->contract : NULL};
    x->question.problem.profile = t.profile;
    kvg_status s = kvg_attention_walk(&x->question.problem, &walk, x->question.in.tensors, x->question.out.tensors);
    if (s == KVG_ERR_UNIMPLEMENTED || s == KVG_ERR_INVALID) return KVG_OK;
    if (s) return s;
    count_equal(x, kept);
    x->count++;
    return KVG_OK;
}

static int by_share(const void *a, const void *b)
{
    const attempt *x = a, *y = b;
    const uint64_t of_x = x->out + x->lse, of_y = y->out + y->lse;
    if (of_x != of_y) return of_x > of_y ? -1 : 1;
    const bool plain_x = !x->changed[0], plain_y = !y->changed[0];
    if (plain_x != plain_y) return plain_x ? -1 : 1;
    return x->profile < y->profile ? -1 : x->profile > y->profile;
}

/* --- the list of attempts --- */

/* Columns of a contract that have other values. */
static const struct change {
    size_t column;
    int value;
    const char *words;
} changes[] = {
#define CHANGE(column, value, words) {offsetof(kvg_contract_info, column), value, words},
    CHANGE(order, KVG_TILES_FIRST_UP, "with tiles from the first to the last")
    CHANGE(order, KVG_TILES_LAST_DOWN, "with tiles from the last to the first")
    CHANGE(exp2, KVG_EXP2_POLYNOMIAL, "with 2^x by the polynomial")
    CHANGE(exp2, KVG_EXP2_APPROX, "with 2^x by ex2.approx")
    CHANGE(factor, KVG_FACTOR_ROUNDED, "with a score factor of three roundings")
    CHANGE(factor, KVG_FACTOR_ONCE, "with a score factor of two roundings")
    CHANGE(factor, KVG_FACTOR_WIDE, "with a score factor of one rounding")
    CHANGE(exponent, KVG_EXPONENT_FUSED, "with sums that follow a new maximum")
    CHANGE(exponent, KVG_EXPONENT_FUSED_ALL, "with sums that follow the maximum by one fma at every tile")
    CHANGE(weights, KVG_WEIGHTS_AS_VALUES, "with l from rounded weights")
    CHANGE(weights, KVG_WEIGHTS_BY_LANE, "with l from weights by lanes")
    CHANGE(weights, KVG_WEIGHTS_BY_WARP, "with l from weights in a tree")
    CHANGE(rise, 0, "with a maximum that is raised at every tile")
#undef CHANGE
};

static bool fuses(const kvg_contract_info *contract)
{
    return contract->exponent == KVG_EXPONENT_FUSED || contract->exponent == KVG_EXPONENT_FUSED_EACH ||
           contract->exponent == KVG_EXPONENT_FUSED_ALL;
}

/* The contract with the change has a meaning: powers of e, products one by one, and tiles with a maximum of their own
 * have rules of their own, m is in the units of its exponent, leaves are merged with one sum, and four lanes are added
 * at these two ends. */
static bool has_meaning(const kvg_contract_info *own, const kvg_contract_info *changed)
{
    const bool lanes = changed->weights == KVG_WEIGHTS_BY_LANE;
    const bool apart = own->weights == KVG_WEIGHTS_BY_TILE || own->weights == KVG_WEIGHTS_BY_PAIR;
    if (apart && (changed->weights != own->weights || changed->exponent != own->exponent)) return false;
    if (own->exp2 == KVG_EXP2_APPROX_E && (changed->exp2 != own->exp2 || changed->factor != own->factor)) return false;
    if (changed->exponent != own->exponent && !fuses(own)) return false;
    if (changed->weights == own->weights) return true;
    if (own->leaf || own->operands != KVG_OPERANDS_STORED) return false;
    return !lanes || own->end == KVG_END_RECIPROCAL || own->end == KVG_END_LOG2;
}

/* One attempt for each parameter that is changed; products one by one have no other tiles. */
static kvg_status try_changes(search *x, kvg_profile profile)
{
    const kvg_contract_info *own = kvg_profile_get(profile)->contract;
    const attempt base = {.profile = profile, .splits = 1, .contract = *own};
    kvg_problem asked = x->question.problem;
    asked.profile = profile;
    const int32_t *query_lengths = kvg_set_tensor(&x->question.in, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data;
    const kvg_call_shape call = kvg_problem_call_shape(&asked, query_lengths);
    const uint32_t own_tile = kvg_problem_tiling(&asked, &call).tile;
    const bool products = own->operands == KVG_OPERANDS_THREADS || own->operands == KVG_OPERANDS_ROUNDS;
    const bool sums = !products && own->operands != KVG_OPERANDS_WIDENED && own->weights != KVG_WEIGHTS_BY_PAIR;
    kvg_status s = KVG_OK;
    for (uint32_t tile = KVG_MMA_K; sums && tile <= KVG_MOST_TILE && !s; tile += KVG_MMA_K) {
        attempt t = base;
        if (own->leaf % tile || tile == own_tile) continue;
        t.contract.tile = tile;
        snprintf(t.changed, sizeof t.changed, "with tiles of %u", tile);
        s = try(x, t);
    }
    for (uint32_t leaf = LEAST_LEAF; own->leaf && leaf <= MOST_LEAF && !s; leaf *= 2) {
        attempt t = base;
        t.contract.leaf = leaf;
        snprintf(t.changed, sizeof t.changed, "with leaves of %u", leaf);
        if (leaf != own->leaf) s = try(x, t);
    }
    const bool in_splits = own->pieces == KVG_PIECES_TILES || own->pieces == KVG_PIECES_EQUAL ||
                           own->pieces == KVG_PIECES_IN_TURN;
    for (uint32_t splits = 2; in_splits && splits <= OTHER_SPLITS && !s; splits++) {
        attempt t = base;
        t.splits = splits;
        snprintf(t.changed, sizeof t.changed, "in %u splits", splits);
        s = try(x, t);
    }
    for (uint32_t piece = LEAST_LEAF; own->pieces == KVG_PIECES_SIZE && piece <= MOST_LEAF && !s; piece *= 2) {
        attempt t = base;
        t.piece = piece;
        snprintf(t.changed, sizeof t.changed, "in splits of %u positions", piece);
        s = try(x, t);
    }
    for (size_t i = 0; i < sizeof changes / sizeof changes[0] && !s; i++) {
        attempt t = base;
        int *column = (int *)((char *)&t.contract + changes[i].column);
        if (*column == changes[i].value) continue;
        *column = changes[i].value;
        snprintf(t.changed, sizeof t.changed, "%s", changes[i].words);
        if (has_meaning(own, &t.contract)) s = try(x, t);
    }
    return s;
}

static kvg_status try_all(search *x)
{
    size_t count;
    kvg_profile best[BASES];
    kvg_status s = KVG_OK;
    const kvg_profile_info *table = kvg_profile_table(&count);
    for (size_t i = 0; i < count && !s; i++) s = try(x, (attempt){.profile = table[i].profile, .splits = 1});
    if (s) return s;
    if (x->count == 0) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no profile takes this question: kvgold list profiles");
    qsort(x->tries, x->count, sizeof x->tries[0], by_share);
    const size_t bases = x->count < BASES ? x->count : BASES;
    for (size_t i = 0; i < bases; i++) best[i] = x->tries[i].profile;
    for (size_t i = 0; i < bases && !s; i++) s = try_changes(x, best[i]);
    qsort(x->tries, x->count, sizeof x->tries[0], by_share);
    return s;
}

/* --- the answer --- */

static kvg_status read_answer(search *x, const char *path, kvg_safetensors **file)
{
    const kvg_question_file *q = &x->question;
    kvg_status s = kvg_safetensors_open(path, file);
    if (s) return s;
    const kvg_safetensors_entry *out = NULL, *lse = NULL;
    if (kvg_safetensors_find(*file, "lse", &lse)) lse = NULL;
    if (kvg_safetensors_find(*file, "out", &out) || out->rank != 4 || strcmp(out->dtype, q->q->dtype) != 0 ||
        memcmp(out->shape, q->out_shape, 4 * sizeof out->shape[0]) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "%s must have out, of the type and rows of q", path);
    }
    x->outputs = out->bytes / kvg_dtype_bytes(q->problem.dtype);
    x->rows = x->outputs / q->out_shape[3];
    if (lse && (strcmp(lse->dtype, "F32") != 0 || lse->bytes != x->rows * sizeof(float))) {
        return kvg_fail(KVG_ERR_INVALID, "%s: lse must be F32 [sequences, tokens, query heads]", path);
    }
    x->out = out->data;
    x->lse = lse ? lse->data : NULL;
    return KVG_OK;
}

static void print_attempts(const search *x)
{
    printf("%" PRIu64 " outputs%s\n", x->outputs, x->lse ? " and their LSE" : "");
    printf("%8s %8s\n", "out", x->lse ? "lse" : "");
    for (size_t i = 0; i < x->count && i < SHOWN; i++) {
        const attempt *t = &x->tries[i];
        printf("%6.2f %% ", 100 * (double)t->out / (double)x->outputs);
        if (x->lse) printf("%6.2f %%", 100 * (double)t->lse / (double)x->rows);
        printf("  %s%s%s\n", kvg_profile_get(t->profile)->name, t->changed[0] ? " " : "", t->changed);
    }
}

static kvg_status write_list(const char *path, const search *x)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < x->count; i++) {
        const attempt *t = &x->tries[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "profile", kvg_profile_get(t->profile)->name);
        cJSON_AddStringToObject(one, "changed", t->changed);
        cJSON_AddNumberToObject(one, "out", (double)t->out);
        cJSON_AddNumberToObject(one, "lse", (double)t->lse);
        cJSON_AddItemToArray(list, one);
    }
    const kvg_status s = kvg_whole_file_write_json(path, list);
    cJSON_Delete(list);
    return s;
}

int kvg_command_which(const kvg_arguments *a)
{
    if (a->file_count != 2) return kvg_command_usage("which", "give a file with q, k and v, and a file with out");
    const kvg_argument *scales = kvg_given(a, KVG_OPTION_WHICH_KV_SCALE);
    const kvg_question_options options = {
        .profile = KVG_PROFILE_SIMT_FMA_V1,
        .window = (uint32_t)kvg_given_number(a, KVG_OPTION_WHICH_WINDOW, 0),
        .scale = (float)kvg_given_real(a, KVG_OPTION_WHICH_SCALE, 0),
        .softcap = (float)kvg_given_real(a, KVG_OPTION_WHICH_SOFTCAP, 0),
        .v_dim = (uint32_t)kvg_given_number(a, KVG_OPTION_WHICH_V_DIM, 0),
        .tensor_scale = {scales ? (float)scales->reals[KVG_K] : 1, scales ? (float)scales->reals[KVG_V] : 1},
    };
    kvg_safetensors *answer = NULL;
    search *x = calloc(1, sizeof *x);
    kvg_status s = x ? kvg_question_file_open(a->files[0], &options, &x->question)
                     : kvg_fail(KVG_ERR_MEMORY, "no memory for attempts");
    if (x) x->scale = kvg_given_real(a, KVG_OPTION_WHICH_SCALE, 0);
    if (!s) s = read_answer(x, a->files[1], &answer);
    if (!s) s = try_all(x);
    if (!s) print_attempts(x);
    if (!s && kvg_given(a, KVG_OPTION_WHICH_JSON)) s = write_list(kvg_given_text(a, KVG_OPTION_WHICH_JSON, NULL), x);
    const bool found = !s && x->tries[0].out == x->outputs && (!x->lse || x->tries[0].lse == x->rows);
    kvg_safetensors_close(answer);
    if (x) kvg_question_file_close(&x->question);
    free(x);
    if (s) return kvg_command_fail("which", s);
    return found ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
}
