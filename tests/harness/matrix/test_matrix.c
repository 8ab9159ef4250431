/* The producer x consumer table: engines read themselves, what is known of pairs shows, and planted faults are seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden/golden.h"
#include "harness/matrix/matrix_files.h"
#include "harness/matrix/matrix_run.h"

#define PLANTED KVG_BINARY_DIR "/bin/libkvgold_planted_pages.so"

static kvg_matrix_party parties[KVG_MATRIX_PARTIES];
static size_t party_count;

static kvg_matrix_shape shape_of(kvg_format format)
{
    return (kvg_matrix_shape){.format = format, .dtype = KVG_DTYPE_BF16, .kv_heads = 2, .head_dim = 64,
                              .block_tokens = 16, .tokens = 40, .seed = 7};
}

static void add(kvg_format format, const char *backend, const char *engine)
{
    assert_int_equal(kvg_matrix_add(format, NULL, backend, engine, parties, &party_count), KVG_OK);
}

static kvg_matrix make(const kvg_matrix_shape *shape)
{
    kvg_matrix m;
    const kvg_status s = kvg_matrix_make(shape, parties, party_count, 2, &m);
    if (s) fail_msg("%s", kvg_error_text());
    return m;
}

/* All engines of a format. */
static kvg_matrix make_all(const kvg_matrix_shape *shape)
{
    party_count = 0;
    add(shape->format, NULL, NULL);
    return make(shape);
}

static size_t index_of(const kvg_matrix *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->parties[i].name, name) == 0) return i;
    }
    fail_msg("no party %s", name);
    return 0;
}

static const kvg_matrix_cell *cell_of(const kvg_matrix *m, const char *writer, const char *reader)
{
    return kvg_matrix_at(m, index_of(m, writer), index_of(m, reader));
}

/* --- engines --- */

static void test_engines_read_themselves(void **state)
{
    (void)state;
    static const kvg_dtype dtypes[] = {KVG_DTYPE_BF16, KVG_DTYPE_F16};
    size_t engines = 0, count, formats;
    kvg_engine_table(&count);
    const kvg_format_info *table = kvg_format_table(&formats);
    for (size_t f = 0; f < formats; f++) {
        const kvg_format format = table[f].format;
        for (size_t t = 0; t < 2; t++) {
            kvg_matrix_shape shape = shape_of(format);
            shape.dtype = dtypes[t];
            party_count = 0;
            add(shape.format, NULL, NULL);
            if (party_count == 0) continue; /* no engine has the format */
            kvg_matrix m = make(&shape);
            const bool lossless = format == KVG_FORMAT_BF16 ? t == 0 : format == KVG_FORMAT_F16;
            engines += m.count;
            for (size_t i = 0; i < m.count; i++) {
                const kvg_matrix_cell *c = kvg_matrix_at(&m, i, i);
                if (c->verdict != KVG_MATRIX_READS) fail_msg("%s: %s", m.parties[i].name, c->note);
                assert_true(c->conversions == 0 && c->same_sizes && c->defect[0] == 0);
                assert_true(lossless || (c->after.ratio[KVG_K] > 0 && c->after.ratio[KVG_V] > 0));
            }
            for (size_t i = 0; i < m.count * m.count; i++) assert_true(m.cells[i].verdict != KVG_MATRIX_FAILED);
            assert_int_equal(kvg_matrix_broken(&m), 0);
            kvg_matrix_free(&m);
        }
    }
    assert_int_equal(engines, 2 * count); /* every row of the table was here */
}

/* Cells that follow from the engines' own descriptions. */
static void test_known_pairs(void **state)
{
    (void)state;
    enum { K = 1, V = 2 };
    static const struct {
        kvg_format format;
        const char *writer, *reader;
        kvg_matrix_verdict verdict;
        unsigned conversions;
        int wrong; /* sides that are wrong as they are, if the sizes are the reader's */
        const char *defect;
    } pairs[] = {
        {KVG_FORMAT_NVFP4, "vllm", "vllm-hnd", KVG_MATRIX_CONVERTS, KVG_CONVERT_BYTES, K | V, "hnd_as_nhd"},
        {KVG_FORMAT_NVFP4, "vllm-hnd", "vllm-hnd-sm100", KVG_MATRIX_CONVERTS, KVG_CONVERT_BYTES, V, "v_scale_order"},
        {KVG_FORMAT_NVFP4, "vllm-hnd-sm100", "vllm-hnd", KVG_MATRIX_CONVERTS, KVG_CONVERT_BYTES, V, "v_scale_order"},
        {KVG_FORMAT_NVFP4, "sglang", "flashinfer-nhd", KVG_MATRIX_READS, 0, 0, ""},
        {KVG_FORMAT_NVFP4, "sglang", "sglang-sm100", KVG_MATRIX_CONVERTS, KVG_CONVERT_NUMBER, K | V,
         "tensor_scale_times_6"},
        {KVG_FORMAT_NVFP4, "sglang-sm100", "tensorrt-llm", KVG_MATRIX_CONVERTS, KVG_CONVERT_BYTES | KVG_CONVERT_NUMBER,
         0, ""},
        {KVG_FORMAT_NVFP4, "tensorrt-llm", "vllm", KVG_MATRIX_CONVERTS, KVG_CONVERT_BYTES | KVG_CONVERT_NUMBER, 0, ""},
        {KVG_FORMAT_NVFP4, "turbomind", "vllm", KVG_MATRIX_WRONG, KVG_CONVERT_BYTES, 0, ""},
        {KVG_FORMAT_MX16, "sglang", "turbomind", KVG_MATRIX_WRONG, KVG_CONVERT_BYTES, 0, ""},
        {KVG_FORMAT_INT4, "turbomind", "turbomind-simt", KVG_MATRIX_READS, 0, 0, ""},
        {KVG_FORMAT_INT4, "turbomind", "lmdeploy-pytorch", KVG_MATRIX_WRONG, KVG_CONVERT_BYTES | KVG_CONVERT_ORDER, 0,
         ""},
        {KVG_FORMAT_INT8, "lmdeploy-pytorch", "turbomind", KVG_MATRIX_WRONG, KVG_CONVERT_BYTES | KVG_CONVERT_ORDER, 0,
         ""},
        {KVG_FORMAT_E4M3, "lmdeploy-pytorch", "vllm", KVG_MATRIX_READS, 0, 0, ""},
        {KVG_FORMAT_E4M3, "vllm-flashinfer", "tensorrt-llm", KVG_MATRIX_CONVERTS,
         KVG_CONVERT_BYTES | KVG_CONVERT_NUMBER, K | V, NULL},
        {KVG_FORMAT_BF16, "turbomind", "vllm", KVG_MATRIX_CONVERTS, KVG_CONVERT_BYTES | KVG_CONVERT_ORDER, 0, ""},
        {KVG_FORMAT_BF16, "sglang", "lmdeploy-pytorch", KVG_MATRIX_READS, 0, 0, ""},
        {KVG_FORMAT_ROWFP4, "metal-marlin", "metal-marlin-python", KVG_MATRIX_WRONG, 0, K | V, ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const kvg_matrix_shape shape = shape_of(pairs[i].format);
        party_count = 0;
        add(pairs[i].format, NULL, pairs[i].writer);
        add(pairs[i].format, NULL, pairs[i].reader);
        kvg_matrix m = make(&shape);
        const kvg_matrix_cell *c = kvg_matrix_at(&m, 0, 1);
        const int wrong = (c->as_is.ratio[KVG_K] > 1 ? K : 0) | (c->as_is.ratio[KVG_V] > 1 ? V : 0);
        if (c->verdict != pairs[i].verdict || c->conversions != pairs[i].conversions || wrong != pairs[i].wrong) {
            fail_msg("%s to %s: verdict %d, conversions %u, wrong sides %d", pairs[i].writer, pairs[i].reader,
                     (int)c->verdict, c->conversions, wrong);
        }
        if (pairs[i].defect) assert_string_equal(c->defect, pairs[i].defect);
        kvg_matrix_free(&m);
    }
}

/* V of TurboMind's FP4 pages is readable after moving; K is not: its blocks hold other elements. */
static void test_sides(void **state)
{
    (void)state;
    const kvg_matrix_shape shape = shape_of(KVG_FORMAT_NVFP4);
    kvg_matrix m = make_all(&shape);
    const kvg_matrix_cell *c = cell_of(&m, "turbomind", "flashinfer-nhd");
    assert_true(c->after.ratio[KVG_K] > 1 && c->after.ratio[KVG_V] <= 1);
    kvg_matrix_free(&m);
}

/* What a geometry forbids is absent with its reason, and the rest goes on. */
static void test_geometry(void **state)
{
    (void)state;
    kvg_matrix_shape shape = shape_of(KVG_FORMAT_NVFP4);
    shape.block_tokens = 12; /* no power of two */
    kvg_matrix m = make_all(&shape);
    const kvg_matrix_cell *c = cell_of(&m, "vllm", "tensorrt-llm");
    assert_int_equal(c->verdict, KVG_MATRIX_ABSENT);
    assert_non_null(strstr(c->note, "power of two"));
    assert_int_equal(cell_of(&m, "tensorrt-llm", "vllm")->verdict, KVG_MATRIX_ABSENT);
    assert_int_equal(cell_of(&m, "vllm", "vllm")->verdict, KVG_MATRIX_READS);
    assert_int_equal(kvg_matrix_broken(&m), 0);
    kvg_matrix_free(&m);
    shape = shape_of(KVG_FORMAT_NVFP4);
    shape.head_dim = 72;
    assert_int_equal(kvg_matrix_make(&shape, parties, party_count, 2, &m), KVG_ERR_INVALID);
    kvg_matrix_free(&m);
    shape.head_dim = 65;
    assert_int_equal(kvg_matrix_make(&shape, parties, party_count, 2, &m), KVG_ERR_INVALID);
    kvg_matrix_free(&m);
}

static void test_same_again(void **state)
{
    (void)state;
    const kvg_matrix_shape shape = shape_of(KVG_FORMAT_NVFP4);
    kvg_matrix a = make_all(&shape), b = make_all(&shape);
    assert_memory_equal(a.cells, b.cells, a.count * a.count * sizeof *a.cells);
    kvg_matrix_free(&a);
    kvg_matrix_free(&b);
}

/* --- readers that are wrong in a known way are wrong here, by that name --- */

static void test_defects_are_named(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        const char *engine, *defect;
    } wrong[] = {
        {KVG_FORMAT_NVFP4, "vllm-hnd", "hnd_as_nhd"},
        {KVG_FORMAT_NVFP4, "flashinfer-nhd", "hnd_as_nhd"},
        {KVG_FORMAT_NVFP4, "vllm-hnd-sm100", "v_scale_order"},
        {KVG_FORMAT_NVFP4, "tensorrt-llm", "v_scale_order"},
        {KVG_FORMAT_NVFP4, "vllm", "tensor_scale_lost"},
        {KVG_FORMAT_NVFP4, "sglang", "tensor_scale_twice"},
        {KVG_FORMAT_NVFP4, "turbomind", "tensor_scale_inverse"},
        {KVG_FORMAT_E4M3, "tensorrt-llm", "tensor_scale_times_6"},
        {KVG_FORMAT_E4M3, "vllm", "fnuz_bias"},
        {KVG_FORMAT_NVFP4, "tensorrt-llm", "other_layer"},
        {KVG_FORMAT_BF16, "vllm", "other_sequence"},
        {KVG_FORMAT_INT8, "lmdeploy-pytorch", "stale_page"},
        {KVG_FORMAT_INT4, "turbomind", "param_base_lost"},
        {KVG_FORMAT_NVFP4, "turbomind", "layer_stride"},
        {KVG_FORMAT_NVFP4, "vllm", "records"},
        {KVG_FORMAT_BF16, "tensorrt-llm", "k_v_planes"},
        {KVG_FORMAT_NVFP4, "vllm", "k_v_scales"},
        {KVG_FORMAT_BF16, "flashinfer-hnd", "zeros"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const kvg_matrix_shape shape = shape_of(wrong[i].format);
        char backend[64];
        snprintf(backend, sizeof backend, "defect:%s", wrong[i].defect);
        party_count = 0;
        add(wrong[i].format, NULL, wrong[i].engine);
        add(wrong[i].format, backend, wrong[i].engine);
        kvg_matrix m = make(&shape);
        const kvg_matrix_cell *c = kvg_matrix_at(&m, 0, 1);
        if (c->verdict != KVG_MATRIX_WRONG) fail_msg("%s@%s is not seen: %s", backend, wrong[i].engine, c->note);
        assert_string_equal(c->defect, wrong[i].defect);
        assert_true(kvg_matrix_broken(&m) > 0);
        kvg_matrix_free(&m);
    }
}

/* --- a plug-in that does what it should not --- */

static void test_planted(void **state)
{
    (void)state;
    static const struct {
        unsigned kv_heads;
        kvg_matrix_verdict writes, reads;
        const char *note; /* of what went wrong; NULL: nothing */
    } planted[] = {
        {2, KVG_MATRIX_READS, KVG_MATRIX_READS, NULL},
        {3, KVG_MATRIX_READS, KVG_MATRIX_WRONG, NULL},
        {4, KVG_MATRIX_WRONG, KVG_MATRIX_READS, NULL},
        {5, KVG_MATRIX_READS, KVG_MATRIX_FAILED, "killed by signal 11"},
        {6, KVG_MATRIX_READS, KVG_MATRIX_FAILED, "reading: did not end within 2 s"},
        {7, KVG_MATRIX_FAILED, KVG_MATRIX_READS, "writing: killed by signal 6"},
        {8, KVG_MATRIX_READS, KVG_MATRIX_FAILED, "1 byte"},
        {9, KVG_MATRIX_READS, KVG_MATRIX_ABSENT, "planted refusal"},
        {10, KVG_MATRIX_READS, KVG_MATRIX_WRONG, NULL},
        {11, KVG_MATRIX_READS, KVG_MATRIX_FAILED, "exited with status 0"},
        {12, KVG_MATRIX_READS, KVG_MATRIX_READS, NULL},
    };
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        kvg_matrix_shape shape = shape_of(KVG_FORMAT_NVFP4);
        shape.kv_heads = planted[i].kv_heads;
        party_count = 0;
        add(KVG_FORMAT_NVFP4, NULL, "flashinfer-nhd");
        add(KVG_FORMAT_NVFP4, PLANTED, "flashinfer-nhd");
        kvg_matrix m = make(&shape);
        const kvg_matrix_cell *written = kvg_matrix_at(&m, 1, 0), *read = kvg_matrix_at(&m, 0, 1);
        if (written->verdict != planted[i].writes || read->verdict != planted[i].reads) {
            fail_msg("%u KV heads: writes %d (%s), reads %d (%s)", planted[i].kv_heads, (int)written->verdict,
                     written->note, (int)read->verdict, read->note);
        }
        const char *note = planted[i].writes == KVG_MATRIX_FAILED ? written->note : read->note;
        if (planted[i].note && !strstr(note, planted[i].note)) fail_msg("%u KV heads: %s", planted[i].kv_heads, note);
        assert_int_equal(kvg_matrix_at(&m, 0, 0)->verdict, KVG_MATRIX_READS); /* the engine itself */
        kvg_matrix_free(&m);
    }
}

/* --- files in place of an implementation --- */

/* Writes an answer: the reference's pages (from the prompt to read), each byte changed by `flip`, and K and V as the
 * reading, the first number of V changed. */
static void write_answer(const kvg_matrix_world *w, const kvg_engine *e, const char *folder, unsigned flip, bool flat,
                         bool short_pool)
{
    char path[KVG_MATRIX_PATH];
    kvg_safetensors *prompt;
    kvg_safetensors_writer *out;
    const kvg_safetensors_entry *pool;
    static const char *const pools[] = {"k_data", "v_data", "k_scale_pool", "v_scale_pool"};
    const uint32_t H = w->shape.kv_heads, D = w->shape.head_dim, T = w->shape.tokens;
    const uint64_t shape[] = {KVG_MATRIX_SEQUENCES, H, T, D};
    const size_t bytes = (size_t)KVG_MATRIX_SEQUENCES * H * T * D * 2;
    assert_int_equal(kvg_matrix_file_path(folder, e, KVG_MATRIX_FILE_READ, path), KVG_OK);
    assert_int_equal(kvg_safetensors_open(path, &prompt), KVG_OK);
    assert_int_equal(kvg_safetensors_writer_make(&out), KVG_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(kvg_safetensors_find(prompt, pools[i], &pool), KVG_OK);
        const uint64_t size = pool->bytes - (short_pool && i == 0);
        assert_int_equal(kvg_safetensors_writer_declare(out, pools[i], "U8", 1, &size), KVG_OK);
    }
    for (int side = 0; side < 2 && flat; side++) {
        assert_int_equal(kvg_safetensors_writer_declare(out, side ? "v_flat" : "k_flat", "BF16", 4, shape), KVG_OK);
    }
    assert_int_equal(kvg_matrix_file_path(folder, e, KVG_MATRIX_FILE_ANSWER, path), KVG_OK);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(kvg_safetensors_writer_begin(out, file), KVG_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(kvg_safetensors_find(prompt, pools[i], &pool), KVG_OK);
        uint8_t *copy = malloc(pool->bytes);
        memcpy(copy, pool->data, pool->bytes);
        for (size_t k = 0; k < pool->bytes; k++) copy[k] ^= (uint8_t)flip;
        assert_int_equal(kvg_safetensors_writer_put(out, copy, pool->bytes - (short_pool && i == 0)), KVG_OK);
        free(copy);
    }
    for (int side = 0; side < 2 && flat; side++) {
        const uint16_t *x = kvg_set_tensor(&w->values, KVG_ROLE_VALUES, (kvg_side)side)->data;
        uint16_t *y = calloc(1, bytes);
        for (size_t i = 0; i < (size_t)w->live * H; i++) {
            const size_t row = ((size_t)w->sequence[i / H] * H + i % H) * T + w->position[i / H];
            memcpy(y + row * D, x + i * D, D * sizeof *x);
        }
        if (side) y[0] ^= (uint16_t)(flip << 8);
        assert_int_equal(kvg_safetensors_writer_put(out, y, bytes), KVG_OK);
        free(y);
    }
    assert_int_equal(fclose(file), 0);
    kvg_safetensors_writer_free(out);
    kvg_safetensors_close(prompt);
}

static void test_files(void **state)
{
    (void)state;
    static const struct {
        unsigned flip;
        bool flat, short_pool;
        kvg_matrix_verdict writes, reads;
        const char *note;
    } files[] = {
        {0, true, false, KVG_MATRIX_READS, KVG_MATRIX_READS, ""},
        {0x40, true, false, KVG_MATRIX_WRONG, KVG_MATRIX_WRONG, ""},
        {0, false, false, KVG_MATRIX_READS, KVG_MATRIX_ABSENT, "has no tensor"},
        {0, true, true, KVG_MATRIX_FAILED, KVG_MATRIX_READS, "tensor k_data is U8"},
    };
    static const char folder[] = KVG_BINARY_DIR "/matrix_files";
    kvg_matrix_shape shape = shape_of(KVG_FORMAT_NVFP4);
    kvg_matrix_world world;
    const kvg_engine *engine;
    char path[KVG_MATRIX_PATH];
    mkdir(folder, 0777);
    assert_int_equal(kvg_engine_find(shape.format, "flashinfer-hnd", &engine), KVG_OK);
    assert_int_equal(kvg_matrix_world_make(&shape, &world), KVG_OK);
    assert_int_equal(kvg_matrix_file_path(folder, engine, KVG_MATRIX_FILE_ANSWER, path), KVG_OK);
    const pid_t child = fork(); /* the reference runs parallel regions: not here, where tables are made later */
    int status;
    if (child == 0) _exit(kvg_matrix_prompt(&world, engine, folder) != KVG_OK);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_answer(&world, engine, folder, files[i].flip, files[i].flat, files[i].short_pool);
        party_count = 0;
        add(shape.format, NULL, "flashinfer-hnd");
        assert_int_equal(kvg_matrix_add_answer(engine, path, parties, &party_count), KVG_OK);
        kvg_matrix m = make(&shape);
        const kvg_matrix_cell *written = kvg_matrix_at(&m, 1, 0), *read = kvg_matrix_at(&m, 0, 1);
        if (written->verdict != files[i].writes || read->verdict != files[i].reads) {
            fail_msg("file %zu: writes %d (%s), reads %d (%s)", i, (int)written->verdict, written->note,
                     (int)read->verdict, read->note);
        }
        assert_non_null(strstr(written->verdict == KVG_MATRIX_FAILED ? written->note : read->note, files[i].note));
        kvg_matrix_free(&m);
    }
    kvg_matrix_world_free(&world);
}

/* An engine of the caller's, with vLLM's page as a text: its very bytes; with K's parts and V's exchanged, others. */
static void test_own_engine(void **state)
{
    (void)state;
    static const char *const pages[] = {"[L B]{ [N H] K.codes [N H] K.scales [N H] V.codes [N H] V.scales }",
                                        "[L B]{ [N H] V.codes [N H] V.scales [N H] K.codes [N H] K.scales }"};
    const kvg_matrix_shape shape = shape_of(KVG_FORMAT_NVFP4);
    for (int i = 0; i < 2; i++) {
        const kvg_layout_text text = {"mine", pages[i]};
        const kvg_engine *vllm;
        assert_int_equal(kvg_engine_find(shape.format, "vllm", &vllm), KVG_OK);
        kvg_engine mine = *vllm;
        mine.name = "mine";
        mine.layout = KVG_LAYOUT_TEXT;
        mine.text = &text;
        party_count = 0;
        add(shape.format, NULL, "vllm");
        assert_int_equal(kvg_matrix_add(shape.format, &mine, NULL, "mine", parties, &party_count), KVG_OK);
        assert_int_equal(kvg_matrix_add(shape.format, &mine, "slowref", "mine", parties, &party_count), KVG_OK);
        kvg_matrix m = make(&shape);
        assert_int_equal(m.count, 3);
        assert_int_equal(kvg_matrix_broken(&m), 0);
        for (size_t k = 0; k < 4; k++) {
            const char *const names[] = {"vllm", "mine"}, *writer = names[k / 2], *reader = names[k % 2];
            const kvg_matrix_cell *c = cell_of(&m, writer, reader);
            const bool same = i == 0 || writer == reader;
            assert_int_equal(c->verdict, same ? KVG_MATRIX_READS : KVG_MATRIX_CONVERTS);
            assert_int_equal(c->conversions, same ? 0 : KVG_CONVERT_BYTES);
            assert_true(c->same_sizes);
        }
        kvg_matrix_free(&m);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    party_count = 0;
    assert_int_equal(kvg_matrix_add(KVG_FORMAT_NVFP4, NULL, NULL, "vlm", parties, &party_count), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "no nvfp4 engine 'vlm' (did you mean"));
    kvg_status s;
    do s = kvg_matrix_add(KVG_FORMAT_NVFP4, NULL, NULL, NULL, parties, &party_count);
    while (!s);
    assert_int_equal(s, KVG_ERR_INVALID); /* more than there is room for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engines_read_themselves),
        cmocka_unit_test(test_known_pairs),
        cmocka_unit_test(test_sides),
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_defects_are_named),
        cmocka_unit_test(test_own_engine),
        cmocka_unit_test(test_planted),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
