// A step in C++ that counts the words of a text, with the header of sdk/c.
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "engine_step.h"

ENGINE_MANIFEST("step.json")

void engine_run(const engine_request *request, engine_writer *output) {
  size_t length;
  const char *text = engine_string(engine_get(request->input, "text"), &length);
  if (!text) return engine_fail_input("/text", "want a string");
  long long least = 1, total = 0;
  const engine_value wish = engine_get(request->input, "least");
  if (engine_type(wish) != ENGINE_MISSING && (!engine_integer(wish, &least) || least < 1))
    return engine_fail_input("/least", "want a whole number from 1");

  std::vector<std::string> order;
  std::map<std::string, long long> counts;
  std::istringstream words(std::string(text, length));
  for (std::string word; words >> word; total++)
    if (!counts[word]++) order.push_back(word);
  engine_log("info", "the words are counted");

  engine_begin_object(output);
  engine_write_key(output, "total");
  engine_write_integer(output, total);
  engine_write_key(output, "words");
  engine_begin_array(output);
  for (const auto &word : order) {
    if (counts[word] < least) continue;
    engine_begin_object(output);
    engine_write_key(output, "word");
    engine_write_string(output, word.data(), word.size());
    engine_write_key(output, "count");
    engine_write_integer(output, counts[word]);
    engine_end_object(output);
  }
  engine_end_array(output);
  engine_end_object(output);
}
