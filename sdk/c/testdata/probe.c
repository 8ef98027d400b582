// What the conformance tests ask of this SDK; in every language the same.
#include "engine_step.h"

ENGINE_MANIFEST("probe.json")

// Reads a value and writes it anew.
static void echo(engine_writer *w, engine_value v) {
  long long whole;
  double number;
  bool b;
  size_t n;
  char *text;
  engine_items i;
  switch (engine_type(v)) {
  case ENGINE_MISSING:
  case ENGINE_NULL: engine_write_null(w); break;
  case ENGINE_BOOL: engine_bool(v, &b), engine_write_bool(w, b); break;
  case ENGINE_NUMBER:
    if (engine_integer(v, &whole)) engine_write_integer(w, whole);
    else engine_number(v, &number), engine_write_number(w, number);
    break;
  case ENGINE_STRING: text = engine_string(v, &n), engine_write_string(w, text, n); break;
  case ENGINE_ARRAY:
    engine_begin_array(w);
    for (i = engine_each(v); engine_next(&i);) echo(w, i.value);
    engine_end_array(w);
    break;
  case ENGINE_OBJECT:
    engine_begin_object(w);
    for (i = engine_each(v); engine_next(&i);) engine_write_name(w, i.name, i.name_length), echo(w, i.value);
    engine_end_object(w);
  }
}

static void fail(engine_value input) {
  engine_error e = {
      .kind = engine_string(engine_get(input, "class"), NULL),
      .code = engine_string(engine_get(input, "code"), NULL),
      .message = engine_string(engine_get(input, "message"), NULL),
      .path = engine_string(engine_get(input, "path"), NULL),
  };
  engine_integer(engine_get(input, "retry_after_ms"), &e.retry_after_ms);
  engine_fail(e);
}

// Calls every operation, and one that no host knows.
static void host(engine_writer *w) {
  engine_log("warn", "about to \"call\" 中文");
  engine_progress(0.5, "half");
  engine_emit("chunk", 5);
  engine_usage("m", 3, 2, 1);
  engine_writer m = {0};
  engine_begin_object(&m);
  engine_write_key(&m, "op");
  engine_write_text(&m, "nonsense");
  engine_end_object(&m);
  engine_reply r = engine_call(&m, "\0raw", 4);
  engine_begin_object(w);
  engine_write_key(w, "code");
  engine_write_value(w, engine_get(r.error, "code"));
  engine_write_key(w, "ok");
  engine_write_value(w, r.ok);
  engine_write_key(w, "size");
  engine_write_integer(w, (long long)r.size);
  engine_end_object(w);
}

void engine_run(const engine_request *request, engine_writer *output) {
  if (!strcmp(request->type, "echo")) echo(output, engine_get(request->input, "value"));
  else if (!strcmp(request->type, "fail")) fail(request->input);
  else if (!strcmp(request->type, "host")) host(output);
  else if (!strcmp(request->type, "wait")) for (volatile int i = 0;; i++);
  else if (!strcmp(request->type, "key")) engine_write_text(output, request->idempotency_key);
  else if (strcmp(request->type, "nothing")) engine_fail_input("", request->type);
}
