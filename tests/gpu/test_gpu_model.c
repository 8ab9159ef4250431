/* The runners of gpu/gpu.h, step by step and replayed from graphs, against the reference's: the logits of every step
 * and the pools at the end, bit for bit, for the carried model and for random ones of every family, every format, f16
 * and bf16, both profiles. Prompts in chunks, rows one by one, several sequences that join one after the other, blocks
 * copied before they are written, tables without the blocks that no window sees.
 *
 * usage: test_gpu_model [quick | few] [self]    quick: bf16 and nvfp4 alone, in plain f32
 *                                               few: three steps of random models in nvfp4
 *                                               self: the reference against itself, without a GPU */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "gpu/gpu.h"
#include "model/checkpoint/model_config.h"
#include "model/checkpoint/model_weights.h"
#include "model/model_run.h"
#include "reference/rope_table.h"
#include "tests/gpu/codecs.h"
#include "tests/gpu/random_model.h"

#define DATA KVG_SOURCE_DIR "/golden/data/"

enum {
    SEQUENCES = 3,
    BLOCK = 16,
    TOKENS = 384, /* of a sequence, at most */
    WIDTH = TOKENS / BLOCK,
    BLOCKS = 127, /* a prime: every step through them meets all */
    CHUNK = 44, /* no multiple of a block */
    DECODES = 8, /* steps after the longest prompt */
    FEW = 3, /* the first copy of a block is in them */
    RUNNERS = 3, /* the reference, eager, from graphs */
    SEED = 0x67656E
};
/* The longest one passes 256 tokens, a leaf of decode and the limit of a graph, row by row. */
static const int32_t prompts[SEQUENCES] = {250, 70, 21};
static const uint32_t joins[SEQUENCES] = {0, 1, 5}; /* step */

static void check(kvg_status s)
{
    if (s == KVG_OK) return;
    fprintf(stderr, "FAILED: %s: %s\n", kvg_status_name(s), kvg_error_text());
    exit(1);
}

static void *take(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) check(kvg_fail(KVG_ERR_MEMORY, "%zu bytes", bytes));
    return p;
}

/* --- steps --- */

typedef struct script {
    int32_t lengths[SEQUENCES], table[SEQUENCES][WIDTH];
    uint32_t next_block, number; /* of the step */
    int32_t tokens[SEQUENCES * CHUNK], positions[SEQUENCES * CHUNK], packed[SEQUENCES * WIDTH];
    int64_t slots[SEQUENCES * CHUNK];
    int32_t step_lengths[SEQUENCES], queries[SEQUENCES];
    uint32_t wanted[SEQUENCES * CHUNK], copy[1][2];
} script;

static int32_t new_block(script *s)
{
    return (int32_t)(s->next_block++ * 29 % BLOCKS); /* neither in order nor together */
}

/* Rows of a sequence in this step: a chunk of its prompt, or one, or a draft of four. */
static int32_t rows_of(const script *s, uint32_t sequence)
{
    const int32_t left = prompts[sequence] - s->lengths[sequence];
    if (s->number < joins[sequence]) return 0;
    if (left > 0) return left < CHUNK ? left : CHUNK;
    return s->number % 4 == 3 ? 4 : 1;
}

/* Every third step a sequence writes on in a copy of its last block. */
static void copy_block(script *s, kvg_model_step *step)
{
    const uint32_t of = s->number / 3 % SEQUENCES;
    const int32_t length = s->lengths[of];
    if (s->number % 3 != 2 || length % BLOCK == 0) return;
    int32_t *last = &s->table[of][length / BLOCK];
    s->copy[0][0] = (uint32_t)*last;
    s->copy[0][1] = (uint32_t)(*last = new_block(s));
    step->copies = 1;
    step->copy = (const uint32_t(*)[2])s->copy;
}

/* Logits of all rows, of each sequence's last one, or of one sequence's, by turns. */
static bool is_wanted(const script *s, uint32_t sequence, bool is_last)
{
    const uint32_t turn = s->number % 3;
    return turn == 0 || (is_last && (turn == 1 || sequence == 0));
}

static void add_rows(script *s, uint32_t sequence, uint32_t vocab, kvg_model_step *step)
{
    const int32_t rows = s->queries[step->sequences] = rows_of(s, sequence);
    for (int32_t i = 0; i < rows; i++) {
        const int32_t position = s->lengths[sequence]++, block = position / BLOCK;
        if (position % BLOCK == 0) s->table[sequence][block] = new_block(s);
        s->tokens[step->rows] = (int32_t)kvg_rng_below(SEED, sequence, (uint64_t)position, vocab);
        s->positions[step->rows] = position;
        s->slots[step->rows] = (int64_t)s->table[sequence][block] * BLOCK + position % BLOCK;
        if (is_wanted(s, sequence, i == rows - 1)) s->wanted[step->wanted++] = step->rows;
        step->rows++;
    }
    s->step_lengths[step->sequences++] = s->lengths[sequence];
    if ((uint32_t)s->lengths[sequence] > step->longest) step->longest = (uint32_t)s->lengths[sequence];
}

/* Where all layers slide, blocks that lie before what the first row of the step sees are gone. */
static void pack_table(const script *s, uint32_t sequence, int32_t queries, const kvg_model_config *c, uint32_t width,
                       int32_t *to)
{
    bool all_slide = c->window > 0;
    for (uint32_t i = 0; i < c->layers; i++) all_slide = all_slide && c->sliding[i];
    const int64_t first_seen = (int64_t)s->lengths[sequence] - queries + 1 - c->window;
    for (uint32_t i = 0; i < width; i++) {
        const bool is_gone = all_slide && (int64_t)(i + 1) * BLOCK <= first_seen;
        to[i] = is_gone || i * BLOCK >= (uint32_t)s->lengths[sequence] ? -1 : s->table[sequence][i];
    }
}

/* The next step; logits are the runner's to place. */
static kvg_model_step next_step(script *s, const kvg_model_config *c)
{
    kvg_model_step step = {.tokens = s->tokens, .positions = s->positions, .slots = s->slots,
                           .block_table = s->packed, .lengths = s->step_lengths, .query_lengths = s->queries,
                           .wanted_rows = s->wanted};
    copy_block(s, &step);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (rows_of(s, i)) add_rows(s, i, c->vocab, &step);
    }
    const uint32_t width = (step.longest + BLOCK - 1) / BLOCK;
    for (uint32_t i = 0, row = 0; i < SEQUENCES; i++) {
        if (s->number < joins[i]) continue;
        pack_table(s, i, s->queries[row], c, width, s->packed + row * width);
        row++;
    }
    s->number++;
    return step;
}

/* --- runs --- */

typedef struct tally {
    unsigned long long runs, refused, steps, numbers, wrong_numbers, bytes, wrong_bytes;
} tally;

typedef struct model {
    const char *name;
    const kvg_model_config *config;
    kvg_model_source source;
    const float *cos_sin;
    float (*scales)[2];
} model;

static const kvg_model_runner *runners[RUNNERS];
static bool quick, few;

static void compare_logits(float *const *logits, size_t count, tally *t)
{
    for (int r = 1; r < RUNNERS; r++) {
        for (size_t i = 0; i < count; i++) {
            const bool is_right = memcmp(&logits[0][i], &logits[r][i], sizeof **logits) == 0;
            t->wrong_numbers += !is_right || logits[0][i] != logits[0][i]; /* NaN never passes */
        }
        t->numbers += count;
    }
}

static void compare_pools(const kvg_model_setup *setup, void *const *opened, tally *t)
{
    const kvg_problem p = kvg_model_append(setup, 0, 1);
    for (int i = 0; i < 4; i++) {
        const kvg_role role = i / 2 ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL;
        uint64_t bytes;
        check(kvg_problem_pool_bytes(&p, role, (kvg_side)(i % 2), &bytes));
        if (bytes == 0) continue;
        uint8_t *right = take(bytes), *is = take(bytes);
        check(runners[0]->read_pool(opened[0], role, (kvg_side)(i % 2), right));
        for (int r = 1; r < RUNNERS; r++) {
            memset(is, 0xA5, bytes);
            check(runners[r]->read_pool(opened[r], role, (kvg_side)(i % 2), is));
            for (uint64_t k = 0; k < bytes; k++) t->wrong_bytes += is[k] != right[k];
            t->bytes += bytes;
        }
        free(right);
        free(is);
    }
}

static void run_steps(const kvg_model_setup *setup, void *const *opened, float *const *logits, tally *t)
{
    script s = {0};
    const uint32_t vocab = setup->config->vocab, prefill = (uint32_t)(prompts[0] + CHUNK - 1) / CHUNK;
    while (s.number < (few ? FEW : prefill + DECODES)) {
        kvg_model_step step = next_step(&s, setup->config);
        for (int r = 0; r < RUNNERS; r++) {
            step.logits = logits[r];
            memset(logits[r], 0xA5, (size_t)step.wanted * vocab * sizeof **logits);
            check(runners[r]->step(opened[r], &step));
        }
        compare_logits(logits, (size_t)step.wanted * vocab, t);
        t->steps++;
    }
}

/* By rule: rows are whole blocks of their format (head_dim 16 is half of one of mxfp4). A GPU decodes the formats that
 * have operands of plain f32; tensor cores those with operands of their own, and multiples of 16 up to 320 (gpu/ops.h).
 * The reference decodes all. */
static bool must_refuse(const kvg_model_setup *setup)
{
    const uint32_t dim = setup->config->head_dim;
    const bool on_gpu = runners[1] != runners[0];
    const bool on_tensor_cores = setup->profile != KVG_PROFILE_SIMT_FMA_V1 && on_gpu;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint32_t block = kvg_format_get(setup->storage[side].format)->block;
        if (block && dim % block) return true;
        if (on_gpu && !gpu_decodes(setup->storage[side].format)) return true;
        if (on_tensor_cores && !has_operands(setup->storage[side].format)) return true;
    }
    return on_tensor_cores && (dim % 16 || dim > 320);
}

/* Opens the runner that may refuse; it must do so where a rule says it, and nowhere else. */
static bool open_first(const kvg_model_setup *setup, const char *name, void **opened)
{
    const kvg_problem append = kvg_model_append(setup, 0, 1);
    kvg_status s = kvg_problem_check(&append);
    const bool has_rows = s == KVG_OK;
    if (has_rows) s = runners[1]->open(setup, opened);
    const bool is_refused = !has_rows || s == KVG_ERR_UNIMPLEMENTED;
    if (!is_refused) check(s);
    if (is_refused == must_refuse(setup)) return !is_refused;
    fprintf(stderr, "FAILED: %s, K %s, V %s, %s, %s: %s\n", name, kvg_format_get(setup->storage[KVG_K].format)->name,
            kvg_format_get(setup->storage[KVG_V].format)->name, kvg_dtype_name(setup->dtype),
            kvg_profile_get(setup->profile)->name, is_refused ? kvg_error_text() : "must be refused");
    exit(1);
}

static void run(const model *m, const kvg_storage *storage, kvg_dtype dtype, kvg_layout layout, kvg_profile profile,
                tally *t)
{
    const kvg_model_setup setup = {
        .config = m->config, .source = m->source, .dtype = dtype, .layout = layout,
        .storage = {storage[KVG_K], storage[KVG_V]}, .blocks = BLOCKS, .block_tokens = BLOCK,
        .tensor_scale = (const float(*)[2])m->scales, .profile = profile, .max_tokens = TOKENS, .cos_sin = m->cos_sin,
        .max_rows = SEQUENCES * CHUNK, .max_sequences = SEQUENCES, .max_wanted = SEQUENCES * CHUNK};
    void *opened[RUNNERS] = {0};
    float *logits[RUNNERS];
    if (!open_first(&setup, m->name, &opened[1])) {
        t->refused++;
        return;
    }
    const unsigned long long wrong = t->wrong_numbers + t->wrong_bytes;
    for (int r = 0; r < RUNNERS; r++) {
        if (r != 1) check(runners[r]->open(&setup, &opened[r]));
        logits[r] = take((size_t)setup.max_wanted * m->config->vocab * sizeof(float));
    }
    run_steps(&setup, opened, logits, t);
    compare_pools(&setup, opened, t);
    for (int r = 0; r < RUNNERS; r++) {
        runners[r]->close(opened[r]);
        free(logits[r]);
    }
    t->runs++;
    if (t->wrong_numbers + t->wrong_bytes == wrong) return;
    printf("WRONG: %s, K %s, V %s, %s, %s, %s: %llu numbers and bytes\n", m->name,
           kvg_format_get(storage[KVG_K].format)->name, kvg_format_get(storage[KVG_V].format)->name,
           kvg_dtype_name(dtype), kvg_layout_get(layout)->name, kvg_profile_get(profile)->name,
           t->wrong_numbers + t->wrong_bytes - wrong);
}

/* --- what is run --- */

/* How much of what there is: types of the model, and formats, of which every one or one in three. The reference takes
 * its time over tensor cores. */
typedef struct extent {
    uint32_t types, one_in;
} extent;

/* Every format, and K in e4m3 with V in nvfp4, but for those that `turn` leaves out; layouts take turns. */
static void run_formats(const model *m, kvg_profile profile, uint32_t turn, extent most, tally *t)
{
    static const kvg_layout layouts[] = {KVG_LAYOUT_HND, KVG_LAYOUT_NHD, KVG_LAYOUT_VLLM, KVG_LAYOUT_TRTLLM,
                                         KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_VLLM_HND, KVG_LAYOUT_SLOT};
    for (uint32_t f = 0; f < KVG_FORMAT_END; f++) {
        if (quick && f != KVG_FORMAT_BF16 && f != KVG_FORMAT_NVFP4) continue;
        if (few ? f != KVG_FORMAT_NVFP4 : !quick && (f + turn) % most.one_in) continue;
        kvg_storage storage[2] = {{(kvg_format)f, "canonical"}, {(kvg_format)f, "canonical"}};
        if (f == KVG_FORMAT_NONE) storage[KVG_K].format = KVG_FORMAT_E4M3, storage[KVG_V].format = KVG_FORMAT_NVFP4;
        for (uint32_t type = 0; type < 2; type++) {
            const uint32_t layout = most.types == 2 ? 0 : (f + turn) % (sizeof layouts / sizeof *layouts);
            if (most.types == 1 && type != (f + turn) % 2) continue;
            run(m, storage, type ? KVG_DTYPE_BF16 : KVG_DTYPE_F16, layouts[layout], profile, t);
        }
    }
}

static void run_model(const char *name, const kvg_model_config *config, kvg_model_source source, kvg_profile chip,
                      uint32_t turn, bool all, tally *sum)
{
    kvg_rope rope = config->rope;
    rope.positions = TOKENS;
    float *cos_sin = take((size_t)TOKENS * config->head_dim * sizeof *cos_sin);
    float(*scales)[2] = take(config->layers * sizeof *scales);
    const model m = {name, config, source, cos_sin, scales};
    check(kvg_reference_rope_table(&rope, cos_sin));
    for (uint32_t i = 0; i < config->layers; i++) scales[i][0] = 0.011f + 0.001f * (float)i, scales[i][1] = 0.017f;
    for (int which = 0; which < (quick || few ? 1 : 2); which++) {
        tally t = {0};
        const kvg_profile profile = which ? chip : KVG_PROFILE_SIMT_FMA_V1;
        run_formats(&m, profile, turn, (extent){all && !which ? 2 : 1, all || !which ? 1 : 3}, &t);
        printf("%-14s %-12s %3llu runs %2llu refused %5llu steps %9llu logits %6llu wrong %10llu bytes %6llu wrong\n",
               name, kvg_profile_get(profile)->name, t.runs, t.refused, t.steps, t.numbers, t.wrong_numbers, t.bytes,
               t.wrong_bytes);
        fflush(stdout);
        sum->runs += t.runs;
        sum->refused += t.refused;
        sum->steps += t.steps;
        sum->numbers += t.numbers;
        sum->bytes += t.bytes;
        sum->wrong_numbers += t.wrong_numbers;
        sum->wrong_bytes += t.wrong_bytes;
    }
    free(scales);
    free(cos_sin);
}

static void run_folder(const char *folder, kvg_profile chip, bool all, tally *sum)
{
    char path[512];
    kvg_model_config config;
    kvg_model_weights *weights;
    snprintf(path, sizeof path, "%s/config.json", folder);
    check(kvg_model_config_open(path, &config));
    check(kvg_model_weights_open(folder, &config, &weights));
    run_model(strrchr(folder, '/') + 1, &config, kvg_model_weights_source(weights), chip, 0, all, sum);
    kvg_model_weights_close(weights);
}

static bool find_runners(bool self, kvg_profile *chip)
{
    kvg_gpu_device device;
    size_t found;
    runners[0] = kvg_reference_model_runner();
    runners[1] = self ? runners[0] : kvg_gpu_model_runner();
    runners[2] = self ? runners[0] : kvg_gpu_model_runner_graph();
    check(kvg_profile_of_sm(90, chip));
    if (self) return true;
    check(kvg_gpu_devices(&device, 1, &found));
    if (found) check(kvg_profile_of_sm(device.sm, chip));
    return found > 0;
}

int main(int argc, char **argv)
{
    static const char *const folders[] = {DATA "model", DATA "checkpoints/llama_tied", DATA "checkpoints/qwen3_shards",
                                          DATA "checkpoints/gpt_oss_mxfp4"};
    bool self = false;
    kvg_profile chip;
    tally sum = {0};
    for (int i = 1; i < argc; i++) {
        self = self || strcmp(argv[i], "self") == 0;
        quick = quick || strcmp(argv[i], "quick") == 0;
        few = few || strcmp(argv[i], "few") == 0;
    }
    if (!find_runners(self, &chip)) {
        printf("skipped: there is no GPU\n");
        return 77;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !few; i++) run_folder(folders[i], chip, i == 0, &sum);
    for (uint32_t i = 0; i < RANDOM_MODELS; i++) {
        random_model m;
        random_model_make(i, &m);
        run_model(m.name, &m.config, random_model_source(&m), chip, i, false, &sum);
        random_model_free(&m);
    }
    printf("%llu runs, %llu refused, %llu steps, ", sum.runs, sum.refused, sum.steps);
    printf("%llu logits compared, %llu wrong, %llu bytes of pools compared, %llu wrong\n", sum.numbers,
           sum.wrong_numbers, sum.bytes, sum.wrong_bytes);
    return sum.runs > 0 && sum.wrong_numbers + sum.wrong_bytes == 0 ? 0 : 1;
}
