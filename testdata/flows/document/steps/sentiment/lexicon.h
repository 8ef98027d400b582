#ifndef LEXICON_H
#define LEXICON_H

#include <stddef.h>

// How good (1 to 3) or bad (-1 to -3) a word is, 0 when it is neither. The word
// is in lower case; its common endings are understood.
int lexicon_weight(const char *word, size_t n);

// The longest Chinese word at the start of text, which has n bytes: its length
// in bytes, 0 when there is none, and its weight.
size_t lexicon_chinese(const char *text, size_t n, int *weight);

// Whether the word turns the meaning of those after it: "not", "never".
int lexicon_negates(const char *word, size_t n);

#endif
