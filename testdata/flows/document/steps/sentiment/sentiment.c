// The step that tells how bright or dark each chapter is. Words of a lexicon
// count with their weight, turned round after a negation ("not good", 不善).
// A score is (good - bad) / (good + bad), from -1 to 1.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lexicon.h"

#define IMPORT(name) __attribute__((import_module("engine_v1"), import_name(name)))
IMPORT("read") void host_read(char *to);
IMPORT("write") void host_write(const char *from, size_t n);

// The manifest, for the host.
__asm__(".section .custom_section.engine.step,\"\",@\n"
        ".incbin \"step.json\"\n");

typedef struct {
  long good, bad;          // sums of weights
  long positive, negative; // numbers of words
} mood;

static void count(mood *m, int weight, bool negated) {
  if (negated) weight = -weight;
  if (weight > 0) m->good += weight, m->positive++;
  if (weight < 0) m->bad -= weight, m->negative++;
}

// The length of the UTF-8 sequence that begins with c.
static size_t width(unsigned char c) { return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4; }

// Han characters of three bytes: U+3400 to U+9FFF.
static bool han(const char *at) {
  unsigned char a = at[0], b = at[1];
  return (a == 0xE3 && b >= 0x90) || (a >= 0xE4 && a <= 0xE9);
}

// The general punctuation U+2010 to U+203F: dashes and quotes, and the
// apostrophe U+2019.
static bool punctuation(const char *at) { return !strncmp(at, "\xE2\x80", 2); }

enum { reach = 3 }; // words that a negation turns round

static mood measure(const char *at, size_t length) {
  mood m = {0};
  int negated = 0; // words still under a negation
  for (const char *end = at + length; at < end;) {
    unsigned char c = *at;
    if (c >= 0x80 && han(at)) {
      int weight = 0;
      size_t n = lexicon_chinese(at, end - at, &weight);
      bool negation = lexicon_negates(at, 3);
      count(&m, weight, negated > 0);
      negated = negation && n <= 3 ? 1 : 0;
      at += n ? n : 3;
    } else if (isalpha(c) || (c >= 0x80 && !punctuation(at))) {
      char word[64];
      size_t n = 0;
      while (at < end && (isalpha((unsigned char)*at) || *at == '\'' || !strncmp(at, "\xE2\x80\x99", 3) ||
                          ((*at & 0x80) && !punctuation(at) && !han(at)))) {
        size_t w = width(*at);
        if (w == 3 && punctuation(at)) { // the typographic apostrophe
          if (n < sizeof word) word[n++] = '\'';
        } else {
          for (size_t i = 0; i < w; i++)
            if (n < sizeof word) word[n++] = tolower((unsigned char)at[i]);
        }
        at += w;
      }
      while (n > 0 && word[n - 1] == '\'') n--; // a closing quote
      count(&m, lexicon_weight(word, n), negated > 0);
      negated = lexicon_negates(word, n) ? reach : negated - (negated > 0);
    } else {
      if (strchr(".!?;:", c)) negated = 0;
      at += width(c);
    }
  }
  return m;
}

static void print_mood(buffer *out, mood m) {
  long both = m.good + m.bad, milli = both ? (m.good - m.bad) * 1000 / both : 0;
  const char *label = milli >= 100 ? "positive" : milli <= -100 ? "negative" : "neutral";
  buffer_print(out, "\"score\":%s%ld.%03ld,\"label\":\"%s\",\"positive\":%ld,\"negative\":%ld}", milli < 0 ? "-" : "",
               labs(milli) / 1000, labs(milli) % 1000, label, m.positive, m.negative);
}

typedef struct {
  long number;
  char *title, *text;
  size_t title_length, text_length;
  bool numbered;
} chapter;

static chapter read_chapter(json *j) {
  chapter c = {0};
  if (!json_open(j, '{')) {
    json_skip(j);
    return c;
  }
  while (json_more(j)) {
    char *name = json_name(j), **field = NULL;
    size_t *length = NULL;
    if (!strcmp(name, "title")) field = &c.title, length = &c.title_length;
    if (!strcmp(name, "text")) field = &c.text, length = &c.text_length;
    if (!strcmp(name, "number") && json_integer(j, &c.number)) {
      c.numbered = true;
    } else if (!field || !(*field = json_string(j, length))) {
      json_skip(j);
    }
    free(name);
  }
  return c;
}

static void fail(buffer *out, const char *message, const char *format, long i) {
  out->length = 0;
  buffer_print(out, "{\"error\":{\"class\":\"invalid_input\",\"message\":\"%s\",\"path\":\"", message);
  buffer_print(out, format, i);
  buffer_print(out, "\"}}");
}

// Moves to the value of a member of the object that follows; false when there
// is none.
static bool find(json *j, const char *wanted) {
  if (!json_open(j, '{')) return false;
  while (json_more(j)) {
    char *name = json_name(j);
    bool found = !strcmp(name, wanted);
    free(name);
    if (found) return true;
    json_skip(j);
  }
  return false;
}

static void step(json *j, buffer *out) {
  if (!find(j, "input") || !find(j, "chapters") || !json_open(j, '[')) {
    fail(out, "want an array of chapters", "/chapters", 0);
    return;
  }
  mood overall = {0};
  long n = 0;
  buffer_print(out, "{\"output\":{\"chapters\":[");
  for (; json_more(j); n++) {
    chapter c = read_chapter(j);
    if (!c.numbered) {
      fail(out, "want a whole number", "/chapters/%ld/number", n);
      return;
    }
    if (!c.text) {
      fail(out, "want a string", "/chapters/%ld/text", n);
      return;
    }
    mood m = measure(c.text, c.text_length);
    overall.good += m.good, overall.bad += m.bad, overall.positive += m.positive, overall.negative += m.negative;
    buffer_print(out, "%s{\"number\":%ld,\"title\":", n ? "," : "", c.number);
    buffer_quote(out, c.title, c.title_length);
    buffer_print(out, ",");
    print_mood(out, m);
    free(c.title);
    free(c.text);
  }
  if (n == 0) {
    fail(out, "there are no chapters", "/chapters", 0);
    return;
  }
  buffer_print(out, "],\"overall\":{");
  print_mood(out, overall);
  buffer_print(out, "}}");
}

__attribute__((export_name("step_run"))) void step_run(size_t n) {
  char *request = must(malloc(n + 1));
  host_read(request);
  request[n] = 0;
  buffer response = {0};
  step(&(json){request}, &response);
  host_write(response.data, response.length);
}
