/* Texts near a layout's text (docs/spec/layouts.md section 8): what a kernel follows that reads or writes the layout
 * with one mistake. */
#ifndef KVG_HARNESS_TRIAL_WRONG_NEAR_TEXTS_H
#define KVG_HARNESS_TRIAL_WRONG_NEAR_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

enum { KVG_NEAR_TEXTS = 128, KVG_NEAR_TEXT = 512 };

typedef struct kvg_near_texts {
    char texts[KVG_NEAR_TEXTS][KVG_NEAR_TEXT];
    size_t count;
} kvg_near_texts;

/* Two axes exchanged in one pair of brackets, or two letters in all of them; two neighbours exchanged in braces; two
 * fields, or K and V, exchanged; digits of N undone, or made where scales lie. Without the text itself, none twice. Not
 * each is a text of a given cache: kvg_layout_text_read says which. A longer text has none. */
void kvg_near_texts_of(const char *text, kvg_near_texts *out);

#endif
