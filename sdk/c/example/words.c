// A step that counts the words of a text.
#include "engine_step.h"

ENGINE_MANIFEST("step.json")

typedef struct {
  const char *text;
  size_t length;
  long long count;
} word;

static const char space[] = " \t\r\n";

// Adds a word to those that were seen, of which there are n.
static size_t add(word *words, size_t n, const char *text, size_t length) {
  for (size_t i = 0; i < n; i++) {
    if (words[i].length == length && !memcmp(words[i].text, text, length)) {
      words[i].count++;
      return n;
    }
  }
  words[n] = (word){text, length, 1};
  return n + 1;
}

void engine_run(const engine_request *request, engine_writer *output) {
  size_t length, n = 0;
  long long least = 1, total = 0;
  const char *text = engine_string(engine_get(request->input, "text"), &length);
  if (!text) {
    engine_fail_input("/text", "want a string");
    return;
  }
  engine_value wish = engine_get(request->input, "least");
  if (engine_type(wish) != ENGINE_MISSING && (!engine_integer(wish, &least) || least < 1)) {
    engine_fail_input("/least", "want a whole number from 1");
    return;
  }

  word *words = malloc((length / 2 + 1) * sizeof *words); // there are no more
  if (!words) abort();
  for (const char *at = text, *end = text + length; at < end;) {
    const char *from = at;
    while (at < end && !memchr(space, *at, sizeof space - 1)) at++;
    if (at > from) n = add(words, n, from, (size_t)(at - from)), total++;
    else at++;
  }
  engine_log("info", "the words are counted");

  engine_begin_object(output);
  engine_write_key(output, "total");
  engine_write_integer(output, total);
  engine_write_key(output, "words");
  engine_begin_array(output);
  for (size_t i = 0; i < n; i++) {
    if (words[i].count < least) continue;
    engine_begin_object(output);
    engine_write_key(output, "word");
    engine_write_string(output, words[i].text, words[i].length);
    engine_write_key(output, "count");
    engine_write_integer(output, words[i].count);
    engine_end_object(output);
  }
  engine_end_array(output);
  engine_end_object(output);
}
