// engine_step.h: a step of the engine in C or C++, in one header.
//
// A step is a function from a request to a response:
//
//   #include "engine_step.h"
//   ENGINE_MANIFEST("step.json")
//
//   void engine_run(const engine_request *request, engine_writer *output) {
//     char *name = engine_string(engine_get(request->input, "name"), NULL);
//     if (!name) {
//       engine_fail_input("/name", "want a string");
//       return;
//     }
//     engine_write_text(output, name);
//   }
//
// Built with -mexec-model=reactor it is a reactor, with -DENGINE_COMMAND a
// command; both behave alike. It is included by one source file of a step.
//
// An instance of the module lives for one attempt. So nothing has to be freed,
// and everything that is returned here is valid until the attempt ends.
//
// The host has checked the request: it is one JSON value, valid UTF-8, without
// equal keys or lone surrogates, at most 200 levels deep. The reader relies on
// that, so it is not for other JSON.
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENGINE_API static inline __attribute__((unused))

// Embeds the manifest in the module. The file is looked for in the current
// directory of the compiler and in its -I directories.
#define ENGINE_MANIFEST(file) __asm__(".section .custom_section.engine.step,\"\",@\n.incbin \"" file "\"\n");

// A JSON value: a place in the text it was read from. A zero value is missing,
// which is what engine_get gives for a member that is not there.
typedef struct {
  const char *at;
} engine_value;

typedef enum {
  ENGINE_MISSING,
  ENGINE_NULL,
  ENGINE_BOOL,
  ENGINE_NUMBER,
  ENGINE_STRING,
  ENGINE_ARRAY,
  ENGINE_OBJECT
} engine_kind;

typedef struct {
  const char *type; // the step type; "run" for a module without a manifest
  engine_value input;
  engine_value config;
  engine_value all; // the request itself, with workflow, step, attempt, deadline_ms
  const char *idempotency_key;
} engine_request;

// An error as the host acts on it. Fields that are left out are not sent.
typedef struct {
  const char *kind;    // the class: timeout unavailable rate_limited quota unauthorized
                       // api_error validation truncated refused invalid_input internal
  const char *code;    // free
  const char *message; // for people
  const char *path;    // JSON Pointer into the input
  long long retry_after_ms;
} engine_error;

// JSON that is being written. A zero value is empty.
typedef struct {
  char *text;
  size_t length, capacity;
  bool comma; // what comes next is not the first of its array or object
} engine_writer;

// What the step must define. It writes the output, one JSON value, or calls
// engine_fail.
void engine_run(const engine_request *request, engine_writer *output);

// Ends the attempt with an error once engine_run returns; the output is then
// dropped. The last call counts.
ENGINE_API void engine_fail(engine_error error);

// The same for what is wrong with the input, at a JSON Pointer into it.
ENGINE_API void engine_fail_input(const char *path, const char *message);

// --- Reading ---

ENGINE_API engine_kind engine_type(engine_value v);

// The member of an object; missing for anything else.
ENGINE_API engine_value engine_get(engine_value object, const char *name);

// A string with its escapes resolved. *length (which may be NULL) does not count
// the NUL byte that follows, but those inside. NULL for anything else.
ENGINE_API char *engine_string(engine_value v, size_t *length);

// A whole number, also one written as 3.0 or 3e0. False for anything else and
// for what does not fit.
ENGINE_API bool engine_integer(engine_value v, long long *n);

ENGINE_API bool engine_number(engine_value v, double *n);

ENGINE_API bool engine_bool(engine_value v, bool *b);

// The elements of an array or the members of an object, in their order:
//
//   for (engine_items i = engine_each(v); engine_next(&i);) use(i.name, i.value);
//
// There are none of anything else.
typedef struct {
  char *name; // of a member, with a NUL byte after it; NULL in an array
  size_t name_length;
  engine_value value;
  const char *rest;
} engine_items;

ENGINE_API engine_items engine_each(engine_value v);
ENGINE_API bool engine_next(engine_items *i);

// --- Writing. Commas come by themselves. ---

ENGINE_API void engine_begin_object(engine_writer *w);
ENGINE_API void engine_end_object(engine_writer *w);
ENGINE_API void engine_begin_array(engine_writer *w);
ENGINE_API void engine_end_array(engine_writer *w);
ENGINE_API void engine_write_key(engine_writer *w, const char *name); // ends with a NUL byte
ENGINE_API void engine_write_name(engine_writer *w, const char *name, size_t length);
ENGINE_API void engine_write_string(engine_writer *w, const char *utf8, size_t length);
ENGINE_API void engine_write_text(engine_writer *w, const char *utf8); // ends with a NUL byte
ENGINE_API void engine_write_integer(engine_writer *w, long long n);
ENGINE_API void engine_write_number(engine_writer *w, double n); // null for infinities and NaN
ENGINE_API void engine_write_bool(engine_writer *w, bool b);
ENGINE_API void engine_write_null(engine_writer *w);
ENGINE_API void engine_write_value(engine_writer *w, engine_value v); // as it was read; null for missing

// --- The host ---

typedef struct {
  engine_value ok;    // missing if the operation was refused or failed
  engine_value error; // with class, code, message
  const char *data;   // raw bytes that came with the reply
  size_t size;
} engine_reply;

// Runs one operation: message is an object with "op"; raw bytes may follow it
// (data may be NULL). A refusal is a reply.
ENGINE_API engine_reply engine_call(const engine_writer *message, const void *data, size_t size);

// Writes a line to the run's log; level is debug, info, warn or error.
ENGINE_API void engine_log(const char *level, const char *message);

// Tells how far the attempt is, from 0 to 1.
ENGINE_API void engine_progress(double fraction, const char *message);

// Shows a piece of output while it is made; it is not stored.
ENGINE_API void engine_emit(const char *utf8, size_t length);

// Reports one model call and what it consumed; it counts even if the attempt fails.
ENGINE_API void engine_usage(const char *model, long long input_tokens, long long output_tokens, long long cached_tokens);

// --- Implementation ---

static engine_error engine_failure_; // kind is NULL without one

ENGINE_API void engine_fail(engine_error error) {
  if (!error.kind) error.kind = "internal";
  engine_failure_ = error;
}

ENGINE_API void engine_fail_input(const char *path, const char *message) {
  engine_error e = {"invalid_input", NULL, message, path, 0};
  engine_fail(e);
}

ENGINE_API void *engine_must_(void *memory) {
  if (!memory) abort();
  return memory;
}

ENGINE_API const char *engine_space_(const char *at) { return at + strspn(at, " \t\r\n"); }

ENGINE_API engine_kind engine_type(engine_value v) {
  if (!v.at) return ENGINE_MISSING;
  switch (*v.at) {
  case '"': return ENGINE_STRING;
  case '{': return ENGINE_OBJECT;
  case '[': return ENGINE_ARRAY;
  case 'n': return ENGINE_NULL;
  case 't':
  case 'f': return ENGINE_BOOL;
  }
  return ENGINE_NUMBER;
}

// Where a string that begins at a quote ends: after the closing quote.
ENGINE_API const char *engine_string_end_(const char *at) {
  for (at++; *at != '"'; at++)
    if (*at == '\\') at++;
  return at + 1;
}

// Where a value ends.
ENGINE_API const char *engine_end_(const char *at) {
  int depth = 0;
  do {
    switch (*at) {
    case '"': at = engine_string_end_(at); continue;
    case '{':
    case '[': depth++; break;
    case '}':
    case ']': depth--; break;
    default:
      if (!depth) return at + strcspn(at, ",]} \t\r\n");
    }
    at++;
  } while (depth);
  return at;
}

ENGINE_API unsigned engine_hex4_(const char *digits) {
  char text[5] = {digits[0], digits[1], digits[2], digits[3], 0};
  return (unsigned)strtoul(text, NULL, 16);
}

ENGINE_API char *engine_utf8_(char *out, unsigned c) {
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  *out++ = (char)(lead[more] | c >> 6 * more);
  while (more--) *out++ = (char)(0x80 | (c >> 6 * more & 0x3F));
  return out;
}

// Decodes the string between its quotes. An escape is never shorter than what it
// stands for.
ENGINE_API char *engine_decode_(const char *in, const char *end, size_t *length) {
  char *text = (char *)engine_must_(malloc((size_t)(end - in) + 1)), *out = text;
  while (in < end) {
    if (*in != '\\') {
      *out++ = *in++;
      continue;
    }
    in += 2;
    switch (in[-1]) {
    case 'b': *out++ = '\b'; break;
    case 'f': *out++ = '\f'; break;
    case 'n': *out++ = '\n'; break;
    case 'r': *out++ = '\r'; break;
    case 't': *out++ = '\t'; break;
    case 'u': {
      unsigned c = engine_hex4_(in);
      in += 4;
      if (c >= 0xD800 && c < 0xDC00) { // the first half of a pair
        c = 0x10000 + ((c - 0xD800) << 10) + (engine_hex4_(in + 2) - 0xDC00);
        in += 6;
      }
      out = engine_utf8_(out, c);
      break;
    }
    default: *out++ = in[-1]; // a quote or a slash of either kind
    }
  }
  *out = 0;
  if (length) *length = (size_t)(out - text);
  return text;
}

ENGINE_API char *engine_string(engine_value v, size_t *length) {
  if (engine_type(v) != ENGINE_STRING) return NULL;
  return engine_decode_(v.at + 1, engine_string_end_(v.at) - 1, length);
}

ENGINE_API bool engine_number(engine_value v, double *n) {
  if (engine_type(v) != ENGINE_NUMBER) return false;
  *n = strtod(v.at, NULL);
  return true;
}

ENGINE_API bool engine_integer(engine_value v, long long *n) {
  if (engine_type(v) != ENGINE_NUMBER) return false;
  char *end;
  errno = 0;
  long long whole = strtoll(v.at, &end, 10);
  if (*end != '.' && *end != 'e' && *end != 'E') {
    if (errno) return false;
    *n = whole;
    return true;
  }
  double d = strtod(v.at, NULL);
  if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || d != (double)(long long)d) return false;
  *n = (long long)d;
  return true;
}

ENGINE_API bool engine_bool(engine_value v, bool *b) {
  if (engine_type(v) != ENGINE_BOOL) return false;
  *b = *v.at == 't';
  return true;
}

ENGINE_API engine_items engine_each(engine_value v) {
  engine_kind t = engine_type(v);
  engine_items i = {0};
  if (t == ENGINE_ARRAY || t == ENGINE_OBJECT) i.rest = v.at;
  return i;
}

ENGINE_API bool engine_next(engine_items *i) {
  if (!i->rest) return false;
  const char *at = engine_space_(i->rest); // at the bracket before the first, or after a value
  bool first = !i->value.at;
  bool object = first ? *at == '{' : i->name != NULL;
  if (first || *at == ',') at = engine_space_(at + 1);
  if (*at == ']' || *at == '}') {
    i->rest = NULL;
    return false;
  }
  i->name = NULL;
  if (object) {
    const char *end = engine_string_end_(at);
    i->name = engine_decode_(at + 1, end - 1, &i->name_length);
    at = engine_space_(engine_space_(end) + 1); // after the colon
  }
  i->value.at = at;
  i->rest = engine_end_(at);
  return true;
}

ENGINE_API engine_value engine_get(engine_value object, const char *name) {
  engine_value none = {0};
  if (engine_type(object) != ENGINE_OBJECT) return none;
  for (engine_items i = engine_each(object); engine_next(&i);)
    if (i.name_length == strlen(name) && !memcmp(i.name, name, i.name_length)) return i.value;
  return none;
}

ENGINE_API void engine_raw_(engine_writer *w, const char *text, size_t n) {
  if (w->length + n > w->capacity) {
    w->capacity = 2 * w->capacity + n;
    w->text = (char *)engine_must_(realloc(w->text, w->capacity));
  }
  if (n) memcpy(w->text + w->length, text, n);
  w->length += n;
}

// Writes what stands before a value and remembers that one was written.
ENGINE_API void engine_before_(engine_writer *w) {
  if (w->comma) engine_raw_(w, ",", 1);
  w->comma = true;
}

ENGINE_API void engine_quote_(engine_writer *w, const char *text, size_t n) {
  static const char hex[] = "0123456789abcdef";
  size_t from = 0;
  engine_raw_(w, "\"", 1);
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    engine_raw_(w, text + from, i - from);
    from = i + 1;
    char escape[6] = {'\\', (char)c, '0', '0', hex[c >> 4], hex[c & 15]};
    if (c < 0x20) escape[1] = 'u';
    engine_raw_(w, escape, c < 0x20 ? 6 : 2);
  }
  engine_raw_(w, text + from, n - from);
  engine_raw_(w, "\"", 1);
}

ENGINE_API void engine_begin_object(engine_writer *w) {
  engine_before_(w);
  engine_raw_(w, "{", 1);
  w->comma = false;
}

ENGINE_API void engine_end_object(engine_writer *w) {
  engine_raw_(w, "}", 1);
  w->comma = true;
}

ENGINE_API void engine_begin_array(engine_writer *w) {
  engine_before_(w);
  engine_raw_(w, "[", 1);
  w->comma = false;
}

ENGINE_API void engine_end_array(engine_writer *w) {
  engine_raw_(w, "]", 1);
  w->comma = true;
}

ENGINE_API void engine_write_name(engine_writer *w, const char *name, size_t length) {
  engine_before_(w);
  engine_quote_(w, name, length);
  engine_raw_(w, ":", 1);
  w->comma = false;
}

ENGINE_API void engine_write_key(engine_writer *w, const char *name) { engine_write_name(w, name, strlen(name)); }

ENGINE_API void engine_write_string(engine_writer *w, const char *utf8, size_t length) {
  engine_before_(w);
  engine_quote_(w, utf8, length);
}

ENGINE_API void engine_write_text(engine_writer *w, const char *utf8) { engine_write_string(w, utf8, strlen(utf8)); }

ENGINE_API void engine_write_integer(engine_writer *w, long long n) {
  char text[24];
  engine_before_(w);
  engine_raw_(w, text, (size_t)snprintf(text, sizeof text, "%lld", n));
}

ENGINE_API void engine_write_number(engine_writer *w, double n) {
  char text[32];
  if (n - n != 0) { // an infinity or NaN
    engine_write_null(w);
    return;
  }
  int length = snprintf(text, sizeof text, "%.15g", n);
  if (strtod(text, NULL) != n) length = snprintf(text, sizeof text, "%.17g", n);
  engine_before_(w);
  engine_raw_(w, text, (size_t)length);
}

ENGINE_API void engine_write_bool(engine_writer *w, bool b) {
  engine_before_(w);
  engine_raw_(w, b ? "true" : "false", b ? 4 : 5);
}

ENGINE_API void engine_write_null(engine_writer *w) {
  engine_before_(w);
  engine_raw_(w, "null", 4);
}

ENGINE_API void engine_write_value(engine_writer *w, engine_value v) {
  if (!v.at) {
    engine_write_null(w);
    return;
  }
  engine_before_(w);
  engine_raw_(w, v.at, (size_t)(engine_end_(v.at) - v.at));
}

ENGINE_API char *engine_exchange_(const char *message, size_t n, size_t *reply);

ENGINE_API engine_reply engine_call(const engine_writer *message, const void *data, size_t size) {
  engine_writer m = {0};
  engine_raw_(&m, message->text, message->length);
  if (data) {
    engine_raw_(&m, "", 1);
    engine_raw_(&m, (const char *)data, size);
  }
  size_t n;
  char *text = engine_exchange_(m.text, m.length, &n);
  engine_value all = {engine_space_(text)};
  engine_reply r = {engine_get(all, "ok"), engine_get(all, "error"), NULL, 0};
  size_t head = strlen(text);
  if (head < n) r.data = text + head + 1, r.size = n - head - 1;
  return r;
}

ENGINE_API void engine_begin_op_(engine_writer *w, const char *op) {
  engine_begin_object(w);
  engine_write_key(w, "op");
  engine_write_text(w, op);
}

ENGINE_API void engine_log(const char *level, const char *message) {
  engine_writer w = {0};
  engine_begin_op_(&w, "log");
  engine_write_key(&w, "level");
  engine_write_text(&w, level);
  engine_write_key(&w, "message");
  engine_write_text(&w, message);
  engine_end_object(&w);
  engine_call(&w, NULL, 0);
}

ENGINE_API void engine_progress(double fraction, const char *message) {
  engine_writer w = {0};
  engine_begin_op_(&w, "progress");
  engine_write_key(&w, "fraction");
  engine_write_number(&w, fraction);
  engine_write_key(&w, "message");
  engine_write_text(&w, message);
  engine_end_object(&w);
  engine_call(&w, NULL, 0);
}

ENGINE_API void engine_emit(const char *utf8, size_t length) {
  engine_writer w = {0};
  engine_begin_op_(&w, "emit");
  engine_write_key(&w, "chunk");
  engine_write_string(&w, utf8, length);
  engine_end_object(&w);
  engine_call(&w, NULL, 0);
}

ENGINE_API void engine_usage(const char *model, long long input_tokens, long long output_tokens, long long cached_tokens) {
  engine_writer w = {0};
  engine_begin_op_(&w, "usage");
  engine_write_key(&w, "model");
  engine_write_text(&w, model);
  engine_write_key(&w, "calls");
  engine_write_integer(&w, 1);
  engine_write_key(&w, "counted"); // of the calls, those whose tokens are told
  engine_write_integer(&w, 1);
  engine_write_key(&w, "input_tokens");
  engine_write_integer(&w, input_tokens);
  engine_write_key(&w, "output_tokens");
  engine_write_integer(&w, output_tokens);
  engine_write_key(&w, "cached_tokens");
  engine_write_integer(&w, cached_tokens);
  engine_end_object(&w);
  engine_call(&w, NULL, 0);
}

ENGINE_API void engine_write_member_(engine_writer *w, const char *name, const char *text) {
  if (!text) return;
  engine_write_key(w, name);
  engine_write_text(w, text);
}

// Runs the step on the text of a request, which ends with a NUL byte, and
// returns the response.
ENGINE_API engine_writer engine_respond_(const char *text) {
  engine_value all = {engine_space_(text)};
  engine_request r = {engine_string(engine_get(all, "step_type"), NULL), engine_get(all, "input"), engine_get(all, "config"), all,
                      engine_string(engine_get(all, "idempotency_key"), NULL)};
  engine_writer output = {0};
  engine_run(&r, &output);
  if (!output.length && !engine_failure_.kind) {
    engine_error nothing = {"internal", NULL, "the step has written no output", NULL, 0};
    engine_fail(nothing);
  }
  engine_writer w = {0};
  engine_begin_object(&w);
  if (!engine_failure_.kind) {
    engine_write_key(&w, "output");
    engine_raw_(&w, output.text, output.length);
  } else {
    engine_error e = engine_failure_;
    engine_write_key(&w, "error");
    engine_begin_object(&w);
    engine_write_member_(&w, "class", e.kind);
    engine_write_member_(&w, "code", e.code);
    engine_write_member_(&w, "message", e.message);
    engine_write_member_(&w, "path", e.path);
    if (e.retry_after_ms > 0) {
      engine_write_key(&w, "retry_after_ms");
      engine_write_integer(&w, e.retry_after_ms);
    }
    engine_end_object(&w);
  }
  engine_end_object(&w);
  return w;
}

#ifdef ENGINE_COMMAND

// Reads a descriptor to its end; a NUL byte follows what was read.
ENGINE_API char *engine_read_(int fd, size_t *length) {
  size_t capacity = 4096, n = 0;
  char *text = (char *)engine_must_(malloc(capacity));
  for (ssize_t got; (got = read(fd, text + n, capacity - n - 1)) != 0;) {
    if (got < 0) abort();
    n += (size_t)got;
    if (capacity - n < 2) text = (char *)engine_must_(realloc(text, capacity *= 2));
  }
  text[n] = 0;
  *length = n;
  return text;
}

ENGINE_API void engine_send_(int fd, const char *text, size_t n) {
  for (ssize_t sent; n; text += sent, n -= (size_t)sent)
    if ((sent = write(fd, text, n)) < 0) abort();
}

ENGINE_API char *engine_exchange_(const char *message, size_t n, size_t *reply) {
  static int fd = -1;
  if (fd < 0 && (fd = open("/engine/call", O_RDWR)) < 0) abort();
  engine_send_(fd, message, n);
  return engine_read_(fd, reply);
}

int main(void) {
  size_t n;
  engine_writer w = engine_respond_(engine_read_(STDIN_FILENO, &n));
  engine_send_(STDOUT_FILENO, w.text, w.length);
  return 0;
}

#else

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((import_module("engine_v1"), import_name("read"))) void engine_v1_read(char *to);
__attribute__((import_module("engine_v1"), import_name("write"))) void engine_v1_write(const char *from, size_t n);
__attribute__((import_module("engine_v1"), import_name("call"))) size_t engine_v1_call(const char *from, size_t n);

ENGINE_API char *engine_message_(size_t n) {
  char *text = (char *)engine_must_(malloc(n + 1));
  engine_v1_read(text);
  text[n] = 0;
  return text;
}

ENGINE_API char *engine_exchange_(const char *message, size_t n, size_t *reply) {
  *reply = engine_v1_call(message, n);
  return engine_message_(*reply);
}

__attribute__((export_name("step_run"))) void step_run(size_t n) {
  engine_writer w = engine_respond_(engine_message_(n));
  engine_v1_write(w.text, w.length);
}

#ifdef __cplusplus
}
#endif

#endif
#endif
