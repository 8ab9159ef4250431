#include "model/generate/quality_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- texts --- */

static kvg_status read_bytes(const char *path, FILE *file, kvg_quality_texts *t)
{
    uint8_t *window = malloc(t->length);
    if (!window) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for a window of %u bytes", path, t->length);
    kvg_status s = KVG_OK;
    for (uint32_t i = 0; i < t->texts && !s; i++) {
        if (fseek(file, (long)i * t->stride, SEEK_SET) != 0 || fread(window, 1, t->length, file) != t->length) {
            s = kvg_fail(KVG_ERR_IO, "%s: cannot read", path);
        }
        for (uint32_t k = 0; k < t->length && !s; k++) t->tokens[(size_t)i * t->length + k] = window[k];
    }
    free(window);
    return s;
}

kvg_status kvg_quality_texts_read(const char *path, uint32_t texts, uint32_t length, uint32_t stride,
                                  kvg_quality_texts *out)
{
    FILE *file = fopen(path, "rb");
    *out = (kvg_quality_texts){0};
    if (!file) return kvg_fail(KVG_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    long size = -1;
    kvg_status s = KVG_OK;
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    const long all = size < (long)length ? 0 : (size - (long)length) / (long)stride + 1;
    if (size < 0) {
        s = kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    } else if (all < (texts ? (long)texts : 1)) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: %ld bytes have %ld windows of %u every %u: %u are asked for", path, size,
                     all, length, stride, texts ? texts : 1);
    } else {
        *out = (kvg_quality_texts){.texts = texts ? texts : (uint32_t)all, .length = length, .stride = stride};
        out->tokens = malloc((size_t)out->texts * length * sizeof *out->tokens);
        s = out->tokens ? read_bytes(path, file, out) : kvg_fail(KVG_ERR_MEMORY, "%s: no memory for its windows", path);
    }
    fclose(file);
    if (s) kvg_quality_texts_free(out);
    return s;
}

void kvg_quality_texts_free(kvg_quality_texts *texts)
{
    free(texts->tokens);
    *texts = (kvg_quality_texts){0};
}

/* --- a run --- */

static size_t rows_of(const kvg_quality_answer *a)
{
    return (size_t)a->length + a->greedy;
}

static size_t place_of(const kvg_quality_answer *a, uint32_t text, uint32_t row)
{
    return text * rows_of(a) + row;
}

/* Request 2t reads the first half of text t, request 2t + 1 all of it. A row that is computed twice is the same. */
static kvg_status see(void *context, const kvg_generate_row *row)
{
    kvg_quality_answer *a = context;
    const uint32_t text = (uint32_t)(row->request / 2);
    const size_t place = place_of(a, text, row->position);
    if (row->drawn) a->generated[(size_t)text * a->greedy + (row->position + 1 - a->length)] = row->next;
    if (!row->logits) return KVG_OK;
    memcpy(a->logits + place * a->vocab, row->logits, a->vocab * sizeof *a->logits);
    a->seen[place] = true;
    return KVG_OK;
}

static kvg_status submit(const kvg_quality_plan *plan, const kvg_quality_texts *texts, uint32_t half,
                         kvg_generation *generation)
{
    kvg_status s = KVG_OK;
    for (uint32_t t = 0; t < plan->texts && !s; t++) {
        kvg_generate_request ask = {.id = 2 * (uint64_t)t,
                                    .prompt = texts->tokens + (size_t)t * texts->length,
                                    .prompt_tokens = half,
                                    .sampling = {.top_p = 1},
                                    .priority = t};
        if (half) s = kvg_generation_submit(generation, &ask);
        ask.id++;
        ask.prompt_tokens = texts->length;
        ask.new_tokens = plan->greedy;
        if (!s) s = kvg_generation_submit(generation, &ask);
    }
    return s;
}

static kvg_status run_texts(const kvg_quality_plan *plan, const kvg_quality_texts *texts, kvg_quality_answer *a)
{
    const uint32_t B = plan->setup->block_tokens, most = texts->length + plan->greedy;
    const uint32_t half = plan->halves ? texts->length / 2 / B * B : 0;
    kvg_generate_settings settings = {.runner = plan->runner,
                                      .setup = *plan->setup,
                                      .chunk = plan->chunk < most ? plan->chunk : most,
                                      .batch = plan->batch,
                                      .share_prefixes = half > 0};
    kvg_generation *generation = NULL;
    settings.setup.max_tokens = most;
    settings.setup.blocks = (plan->batch + 1) * ((most + B - 1) / B);
    const kvg_generate_observer observer = {.context = a, .all_rows = true, .see = see};
    kvg_status s = kvg_generation_open(&settings, &observer, &generation);
    if (!s) s = submit(plan, texts, half, generation);
    for (bool busy = true; !s && busy;) s = kvg_generation_step(generation, &busy);
    if (!s) a->shared_tokens = kvg_generation_counts(generation).shared_tokens;
    kvg_generation_close(generation);
    return s;
}

static kvg_status check_seen(const kvg_quality_answer *a)
{
    for (uint32_t t = 0; t < a->texts; t++) {
        for (uint32_t r = 0; r + 1 < rows_of(a) || r < a->length; r++) {
            if (a->seen[place_of(a, t, r)]) continue;
            return kvg_fail(KVG_ERR_INVALID, "row %u of text %u was never computed", r, t);
        }
    }
    return KVG_OK;
}

kvg_status kvg_quality_run(const kvg_quality_plan *plan, const kvg_quality_texts *texts, kvg_quality_answer *out)
{
    const size_t rows = (size_t)plan->texts * (texts->length + plan->greedy);
    *out = (kvg_quality_answer){.texts = plan->texts,
                                .length = texts->length,
                                .greedy = plan->greedy,
                                .vocab = plan->setup->config->vocab};
    out->logits = malloc(rows * out->vocab * sizeof *out->logits);
    out->seen = calloc(rows, sizeof *out->seen);
    out->generated = calloc((size_t)plan->texts * plan->greedy + 1, sizeof *out->generated);
    kvg_status s = KVG_OK;
    if (!out->logits || !out->seen || !out->generated) {
        s = kvg_fail(KVG_ERR_MEMORY, "no memory for %zu rows of %u logits", rows, out->vocab);
    }
    if (!s) s = run_texts(plan, texts, out);
    if (!s) s = check_seen(out);
    if (s) kvg_quality_answer_free(out);
    return s;
}

void kvg_quality_answer_free(kvg_quality_answer *answer)
{
    free(answer->logits);
    free(answer->seen);
    free(answer->generated);
    *answer = (kvg_quality_answer){0};
}

const float *kvg_quality_logits(const kvg_quality_answer *a, uint32_t text, uint32_t row)
{
    if (text >= a->texts || row >= rows_of(a)) return NULL;
    const size_t place = place_of(a, text, row);
    return a->seen[place] ? a->logits + place * a->vocab : NULL;
}

/* --- two runs --- */

/* Row r tells of token r + 1. A window after the first holds `length - stride` tokens that the one before it scored. */
static uint32_t first_row(const kvg_quality_texts *t, uint32_t text)
{
    const uint32_t known = text && t->stride < t->length ? t->length - t->stride : 1;
    return known - 1;
}

kvg_status kvg_quality_measure(const kvg_quality_texts *texts, const kvg_quality_answer *base,
                               const kvg_quality_answer *own, uint64_t seed, kvg_quality *out)
{
    kvg_quality_row *rows = malloc(((size_t)own->texts * own->length + 1) * sizeof *rows);
    size_t count = 0;
    if (!rows) return kvg_fail(KVG_ERR_MEMORY, "no memory for the rows of %u texts", own->texts);
    for (uint32_t t = 0; t < own->texts; t++) {
        for (uint32_t r = first_row(texts, t); r + 1 < own->length; r++) {
            kvg_quality_row *row = &rows[count++];
            row->text = t;
            row->position = r;
            kvg_quality_compare(kvg_quality_logits(base, t, r), kvg_quality_logits(own, t, r), own->vocab,
                                (uint32_t)texts->tokens[(size_t)t * texts->length + r + 1], row);
        }
    }
    kvg_status s = kvg_quality_summarise(rows, count, seed, out);
    free(rows);
    return s;
}

static void note_difference(kvg_quality_bits *bits, uint32_t text, uint32_t row, const float *expected,
                            const float *got, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) bits->bytes += ((const uint8_t *)expected)[i] != ((const uint8_t *)got)[i];
    if (bits->differ++) return;
    bits->text = text;
    bits->row = row;
    while (memcmp(&expected[bits->token], &got[bits->token], sizeof *got) == 0) bits->token++;
    bits->expected = expected[bits->token];
    bits->got = got[bits->token];
}

kvg_quality_bits kvg_quality_compare_bits(const kvg_quality_answer *base, const kvg_quality_answer *own)
{
    kvg_quality_bits bits = {0};
    for (uint32_t t = 0; t < own->texts; t++) {
        for (uint32_t r = 0; r < rows_of(own); r++) {
            const float *expected = kvg_quality_logits(base, t, r), *got = kvg_quality_logits(own, t, r);
            if (!expected || !got) continue;
            const size_t bytes = own->vocab * sizeof *got;
            bits.rows++;
            bits.compared_bytes += bytes;
            if (memcmp(expected, got, bytes) != 0) note_difference(&bits, t, r, expected, got, bytes);
        }
    }
    return bits;
}

static int compare_counts(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

kvg_quality_greedy kvg_quality_compare_greedy(const kvg_quality_answer *base, const kvg_quality_answer *own)
{
    enum { MOST = 4096 }; /* texts that are looked at */
    uint32_t first[MOST], n = own->texts < MOST ? own->texts : MOST;
    kvg_quality_greedy out = {.texts = n, .tokens = own->greedy, .first = own->greedy};
    for (uint32_t t = 0; t < n; t++) {
        const int32_t *x = base->generated + (size_t)t * base->greedy, *y = own->generated + (size_t)t * own->greedy;
        for (first[t] = 0; first[t] < own->greedy && x[first[t]] == y[first[t]];) first[t]++;
        out.same += first[t] == own->greedy;
        if (first[t] < out.first) out.first = first[t];
    }
    qsort(first, n, sizeof first[0], compare_counts);
    if (n) out.median = ((double)first[(n - 1) / 2] + first[n / 2]) / 2;
    return out;
}
