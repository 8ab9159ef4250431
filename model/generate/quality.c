#include "model/generate/quality.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "support/sort.h"

/* --- one row --- */

/* Natural logarithm of the sum of exponentials, and where the largest logit is. NAN where one is NaN, which the sum
 * takes on, or the largest is infinite. */
static double log_sum(const float *logits, uint32_t count, uint32_t *top)
{
    double sum = 0;
    *top = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (logits[i] > logits[*top]) *top = i;
    }
    if (isinf(logits[*top])) return NAN;
    for (uint32_t i = 0; i < count; i++) sum += exp((double)logits[i] - (double)logits[*top]);
    return (double)logits[*top] + log(sum);
}

void kvg_quality_compare(const float *base, const float *own, uint32_t vocab, uint32_t next, kvg_quality_row *out)
{
    const double per_bit = 1 / log(2.0);
    uint32_t base_top, own_top;
    const double base_sum = log_sum(base, vocab, &base_top), own_sum = log_sum(own, vocab, &own_top);
    double kl = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        const double p = exp((double)base[i] - base_sum);
        if (p > 0) kl += p * (((double)base[i] - base_sum) - ((double)own[i] - own_sum)); /* 0 log 0 is 0 */
    }
    if (isnan(base_sum) || isnan(own_sum)) kl = NAN;
    out->base_bits = (base_sum - (double)base[next]) * per_bit;
    out->bits = isnan(own_sum) ? NAN : (own_sum - (double)own[next]) * per_bit;
    out->kl = (kl < 0 ? 0 : kl) * per_bit; /* below 0 by rounding alone */
    out->same_top = base_top == own_top;
}

/* --- sums of rows --- */

typedef struct sums {
    double rows, base_bits, bits, kl, same;
} sums;

static void add_row(sums *s, const kvg_quality_row *r)
{
    s->rows++;
    s->base_bits += r->base_bits;
    s->bits += r->bits;
    s->kl += r->kl;
    s->same += r->same_top;
}

static void add_sums(sums *s, const sums *t)
{
    s->rows += t->rows;
    s->base_bits += t->base_bits;
    s->bits += t->bits;
    s->kl += t->kl;
    s->same += t->same;
}

static bool is_unknown(const kvg_quality_row *r)
{
    return isnan(r->base_bits) || isnan(r->bits) || isnan(r->kl);
}

/* --- by position --- */

static void fill_buckets(const kvg_quality_row *rows, size_t count, kvg_quality *out)
{
    sums all[KVG_QUALITY_BUCKETS] = {{0}};
    for (size_t i = 0; i < count; i++) {
        unsigned bucket = 0;
        while (bucket + 1 < KVG_QUALITY_BUCKETS && rows[i].position >= kvg_quality_bucket_from(bucket + 1)) bucket++;
        add_row(&all[bucket], &rows[i]);
    }
    for (unsigned b = 0; b < KVG_QUALITY_BUCKETS; b++) {
        const sums *s = &all[b];
        out->buckets[b].from = kvg_quality_bucket_from(b);
        out->buckets[b].rows = (uint64_t)s->rows;
        if (!out->buckets[b].rows) continue;
        out->buckets[b].loss = (s->bits - s->base_bits) / s->rows;
        out->buckets[b].kl = s->kl / s->rows;
        out->buckets[b].top1 = s->same / s->rows;
    }
}

/* --- the bootstrap --- */

/* The value below which a share q of the sorted ones lies: the nearest rank. */
static double quantile(const double *sorted, size_t count, double q)
{
    const double rank = ceil(q * (double)count);
    return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}

/* Rows of one text that follow each other, KVG_QUALITY_BLOCK at a time: neighbours are not independent. */
static size_t make_blocks(const kvg_quality_row *rows, size_t count, sums *blocks)
{
    size_t blocks_made = 0, in_block = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || in_block == KVG_QUALITY_BLOCK || rows[i].text != rows[i - 1].text) {
            blocks[blocks_made++] = (sums){0};
            in_block = 0;
        }
        add_row(&blocks[blocks_made - 1], &rows[i]);
        in_block++;
    }
    return blocks_made;
}

/* Replicate r draws as many blocks as there are, with replacement: element (seed, r, i) of core/rng.h. Each measure is
 * the ratio of the sums, and its interval the 2.5th to the 97.5th percentile of the replicates. */
static void draw(const sums *blocks, size_t count, uint64_t seed, double (*means)[KVG_QUALITY_REPLICATES],
                 kvg_quality *out)
{
    kvg_quality_mean *const measures[] = {&out->bits, &out->loss, &out->kl, &out->top1};
    for (size_t r = 0; r < KVG_QUALITY_REPLICATES; r++) {
        sums s = {0};
        for (size_t i = 0; i < count; i++) add_sums(&s, &blocks[kvg_rng_below(seed, r, i, count)]);
        means[0][r] = s.bits / s.rows;
        means[1][r] = (s.bits - s.base_bits) / s.rows;
        means[2][r] = s.kl / s.rows;
        means[3][r] = s.same / s.rows;
    }
    for (size_t m = 0; m < 4; m++) {
        kvg_sort_doubles(means[m], KVG_QUALITY_REPLICATES);
        measures[m]->low = quantile(means[m], KVG_QUALITY_REPLICATES, 0.025);
        measures[m]->high = quantile(means[m], KVG_QUALITY_REPLICATES, 0.975);
    }
}

/* --- all rows --- */

static void know_nothing(kvg_quality *out)
{
    const kvg_quality_mean none = {NAN, NAN, NAN};
    out->base_bits = out->kl_p99 = out->kl_worst = NAN;
    out->bits = out->loss = out->kl = out->top1 = none;
}

static void fill_means(const kvg_quality_row *rows, size_t count, double *kl, kvg_quality *out)
{
    sums s = {0};
    for (size_t i = 0; i < count; i++) {
        add_row(&s, &rows[i]);
        kl[i] = rows[i].kl;
    }
    kvg_sort_doubles(kl, count);
    out->base_bits = s.base_bits / s.rows;
    out->bits.value = s.bits / s.rows;
    out->loss.value = (s.bits - s.base_bits) / s.rows;
    out->kl.value = s.kl / s.rows;
    out->top1.value = s.same / s.rows;
    out->kl_p99 = quantile(kl, count, 0.99);
    out->kl_worst = kl[count - 1];
}

kvg_status kvg_quality_summarise(const kvg_quality_row *rows, size_t count, uint64_t seed, kvg_quality *out)
{
    *out = (kvg_quality){.rows = count};
    if (count == 0) return kvg_fail(KVG_ERR_INVALID, "no row to measure");
    for (size_t i = 0; i < count; i++) out->unknown += is_unknown(&rows[i]);
    if (out->unknown) {
        know_nothing(out);
        return KVG_OK;
    }
    double *kl = malloc(count * sizeof *kl);
    sums *blocks = malloc(count * sizeof *blocks);
    double(*means)[KVG_QUALITY_REPLICATES] = malloc(4 * sizeof *means);
    kvg_status s = KVG_OK;
    if (kl && blocks && means) {
        fill_means(rows, count, kl, out);
        fill_buckets(rows, count, out);
        draw(blocks, make_blocks(rows, count, blocks), seed, means, out);
    } else {
        s = kvg_fail(KVG_ERR_MEMORY, "no memory for the measures of %zu rows", count);
    }
    free(kl);
    free(blocks);
    free(means);
    return s;
}

bool kvg_quality_exceeds(const kvg_quality *q, const kvg_quality_limits *limits, char *out, size_t size)
{
    if (q->unknown) {
        snprintf(out, size, "%" PRIu64 " of %" PRIu64 " rows have no distribution: a logit is NaN or +Inf", q->unknown,
                 q->rows);
    } else if (!(q->loss.value <= limits->loss)) {
        snprintf(out, size, "loses %.4g bits per token [%.4g, %.4g], %.4g are acceptable", q->loss.value, q->loss.low,
                 q->loss.high, limits->loss);
    } else if (!(q->kl.value <= limits->kl)) {
        snprintf(out, size, "KL divergence %.4g bits [%.4g, %.4g], %.4g are acceptable", q->kl.value, q->kl.low,
                 q->kl.high, limits->kl);
    } else if (!(q->top1.value >= limits->top1)) {
        snprintf(out, size, "top-1 agreement %.4g [%.4g, %.4g], %.4g is the least acceptable", q->top1.value,
                 q->top1.low, q->top1.high, limits->top1);
    } else {
        return false;
    }
    return true;
}
