/* Lines of text on a terminal. */
#include "support/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_lines_fit(void **state)
{
    static const struct {
        const char *line, *laid;
    } rows[] = {
        {"", ""},
        {"short", "short"},
        {"words      one two three four five", "words      one two three four\n           five"},
        {"a  b      one two three four five six", "a  b      one two three four\n          five six"},
        {"    one two three four five six seven", "    one two three four five\n    six seven"},
        {"one two three four five six seven", "one two three four five six\nseven"},
        {"first\n    second", "first\n    second"},
        {"one wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww two", "one wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww\ntwo"},
        {"    kvgold check configs/a.json --case b", "    kvgold check configs/a.json --case b"},
        {KVG_TERMINAL_RED "FAIL" KVG_TERMINAL_PLAIN "  is twenty-four wide now", "FAIL  is twenty-four wide now"},
        {"\303\274\303\274\303\274\303\274\303\274\303\274 is 30 columns wide, yes",
         "\303\274\303\274\303\274\303\274\303\274\303\274 is 30 columns wide, yes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char laid[256] = "";
        FILE *out = fmemopen(laid, sizeof laid, "w");
        kvg_terminal_lay_out(out, rows[i].line, 30, false);
        fclose(out);
        assert_string_equal(laid, rows[i].laid);
    }
}

static void test_marks_become_colours(void **state)
{
    char coloured[64] = "";
    FILE *out = fmemopen(coloured, sizeof coloured, "w");
    (void)state;
    kvg_terminal_lay_out(out, KVG_TERMINAL_RED "FAIL" KVG_TERMINAL_PLAIN " " KVG_TERMINAL_GREEN "PASS", 0, true);
    fclose(out);
    assert_string_equal(coloured, "\033[1;31mFAIL\033[0m \033[32mPASS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_fit),
        cmocka_unit_test(test_marks_become_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
