// A step of the engine in AssemblyScript. A step is a function from a request
// to a response:
//
//   import { Request, respond } from "./engine_step";
//
//   export function step_run(n: i32): void {
//     respond(n, (request: Request): void => {
//       const name = request.input.get("name").string();
//       if (name == null) request.fail("invalid_input", "want a string", "/name");
//       else request.output.string("Hello, " + name + "!");
//     });
//   }
//
//   asc step.ts -O --runtime incremental --use abort=engine_step/abort -o step.wasm
//
// The result is a reactor; an instance of it lives for one attempt. The host has
// checked the request: it is one JSON value without equal keys or lone
// surrogates, at most 200 levels deep. Value relies on that, so it is not for
// other JSON. Strings are UTF-16 here, so the halves of a pair need no joining.

@external("engine_v1", "read")
declare function hostRead(to: usize): void;
@external("engine_v1", "write")
declare function hostWrite(from: usize, n: i32): void;
@external("engine_v1", "call")
declare function hostCall(from: usize, n: i32): i32;

// What AssemblyScript calls when the program is wrong: a trap, with the message
// in the run's log.
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log("error", (message == null ? "abort" : message) + " at " + (file == null ? "?" : file) + ":" + line.toString() + ":" + column.toString());
  unreachable();
}

// What a step receives, and where it puts its answer: it writes one value to
// output, or calls fail.
export class Request {
  readonly stepType: string; // "run" for a module without a manifest
  readonly input: Value;
  readonly config: Value;
  readonly idempotencyKey: string;
  readonly output: Writer = new Writer();
  private error: Writer | null = null;

  // all is the whole request, with workflow, step, attempt and deadline_ms.
  constructor(readonly all: Value) {
    const type = all.get("step_type").string();
    const key = all.get("idempotency_key").string();
    this.stepType = type == null ? "" : type;
    this.idempotencyKey = key == null ? "" : key;
    this.input = all.get("input");
    this.config = all.get("config");
  }

  // Ends the attempt with an error; the output is then dropped. The class is one
  // of timeout, unavailable, rate_limited, quota, unauthorized, api_error,
  // validation, truncated, refused, invalid_input, internal; path is a JSON
  // Pointer into the input. The last call counts.
  fail(kind: string, message: string, path: string = "", code: string = "", retryAfterMS: i64 = 0): void {
    const w = new Writer();
    w.beginObject().key("class").string(kind).key("message").string(message);
    if (path != "") w.key("path").string(path);
    if (code != "") w.key("code").string(code);
    if (retryAfterMS > 0) w.key("retry_after_ms").integer(retryAfterMS);
    this.error = w.endObject();
  }

  response(): string {
    if (this.error == null && this.output.text() == "") this.fail("internal", "the step has written no output");
    const e = this.error;
    return e == null ? '{"output":' + this.output.text() + "}" : '{"error":' + e.text() + "}";
  }
}

// Runs one attempt: n is what step_run was given.
export function respond(n: i32, run: (request: Request) => void): void {
  const request = new Request(Value.parse(String.UTF8.decode(message(n))));
  run(request);
  const response = String.UTF8.encode(request.response());
  hostWrite(changetype<usize>(response), response.byteLength);
}

function message(n: i32): ArrayBuffer {
  const bytes = new ArrayBuffer(n);
  hostRead(changetype<usize>(bytes));
  return bytes;
}

// What an operation gave: ok is missing if it was refused or failed, and error
// then has class, code and message. data are raw bytes that came with it.
export class Reply {
  constructor(readonly ok: Value, readonly error: Value, readonly data: ArrayBuffer) {}
}

// Runs one operation: message is an object with "op", and raw bytes may follow
// it.
export function call(message_: Writer, data: ArrayBuffer | null = null): Reply {
  const head = String.UTF8.encode(message_.text());
  const size = data == null ? 0 : data.byteLength + 1; // after a zero byte
  const bytes = new ArrayBuffer(head.byteLength + size);
  memory.copy(changetype<usize>(bytes), changetype<usize>(head), head.byteLength);
  if (data != null) memory.copy(changetype<usize>(bytes) + head.byteLength + 1, changetype<usize>(data), data.byteLength);
  const reply = message(hostCall(changetype<usize>(bytes), bytes.byteLength));
  let end = 0;
  while (end < reply.byteLength && load<u8>(changetype<usize>(reply) + end) != 0) end++;
  const all = Value.parse(String.UTF8.decode(reply.slice(0, end)));
  return new Reply(all.get("ok"), all.get("error"), reply.slice(min(end + 1, reply.byteLength)));
}

function operation(op: string): Writer {
  return new Writer().beginObject().key("op").string(op);
}

// Writes a line to the run's log; level is debug, info, warn or error.
export function log(level: string, text: string): void {
  call(operation("log").key("level").string(level).key("message").string(text).endObject());
}

// Tells how far the attempt is, from 0 to 1.
export function progress(fraction: f64, text: string): void {
  call(operation("progress").key("fraction").number(fraction).key("message").string(text).endObject());
}

// Shows a piece of output while it is made; it is not stored.
export function emit(chunk: string): void {
  call(operation("emit").key("chunk").string(chunk).endObject());
}

// Reports one model call and what it consumed; it counts even if the attempt
// fails.
export function usage(model: string, inputTokens: i64, outputTokens: i64, cachedTokens: i64): void {
  call(operation("usage").key("model").string(model).key("calls").integer(1).key("counted").integer(1).key("input_tokens").integer(inputTokens)
    .key("output_tokens").integer(outputTokens).key("cached_tokens").integer(cachedTokens).endObject());
}

// A JSON value: a place in the text it was read from. Every method but type
// gives "nothing" (null, missing, an empty array) for a value of another type.
export class Value {
  constructor(private readonly text_: string, private readonly at: i32) {}

  static parse(text: string): Value {
    return new Value(text, space(text, 0));
  }

  // missing, null, bool, number, string, array or object
  type(): string {
    if (this.at < 0) return "missing";
    switch (this.text_.charCodeAt(this.at)) {
      case 0x22: return "string";
      case 0x7b: return "object";
      case 0x5b: return "array";
      case 0x6e: return "null";
      case 0x74:
      case 0x66: return "bool";
    }
    return "number";
  }

  isMissing(): bool {
    return this.at < 0;
  }

  // The text of the value as it was written; "null" for a missing one.
  text(): string {
    return this.at < 0 ? "null" : this.text_.substring(this.at, end(this.text_, this.at));
  }

  // The member of an object, or a missing value.
  get(name: string): Value {
    const names = this.names();
    const values = this.values();
    for (let i = 0; i < names.length; i++) if (names[i] == name) return values[i];
    return new Value("", -1);
  }

  // The names of an object's members, in their order.
  names(): string[] {
    const names: string[] = [];
    if (this.type() == "object") children(this.text_, this.at, names, []);
    return names;
  }

  // The elements of an array, or the values of an object's members.
  values(): Value[] {
    const places: i32[] = [];
    const t = this.type();
    if (t == "object" || t == "array") children(this.text_, this.at, [], places);
    const values: Value[] = [];
    for (let i = 0; i < places.length; i++) values.push(new Value(this.text_, places[i]));
    return values;
  }

  string(): string | null {
    return this.type() == "string" ? decode(this.text_, this.at) : null;
  }

  bool(otherwise: bool): bool {
    return this.type() == "bool" ? this.text_.charCodeAt(this.at) == 0x74 : otherwise;
  }

  // NaN for what is no number.
  number(): f64 {
    return this.type() == "number" ? parseFloat(this.text()) : NaN;
  }

  // Whether it is a whole number of at most 2^53, also one written as 3.0.
  isInteger(): bool {
    const n = this.number();
    return n == Math.floor(n) && Math.abs(n) <= 9007199254740992;
  }

  // A whole number; 0 for anything else.
  integer(): i64 {
    return this.isInteger() ? <i64>this.number() : 0;
  }
}

function space(text: string, at: i32): i32 {
  while (true) {
    const c = text.charCodeAt(at);
    if (c != 0x20 && c != 0x09 && c != 0x0a && c != 0x0d) return at;
    at++;
  }
}

// Where a string that begins at a quote ends: after the closing quote.
function stringEnd(text: string, at: i32): i32 {
  at++;
  while (text.charCodeAt(at) != 0x22) at += text.charCodeAt(at) == 0x5c ? 2 : 1;
  return at + 1;
}

// Where a value ends.
function end(text: string, at: i32): i32 {
  let depth = 0;
  do {
    const c = text.charCodeAt(at);
    if (c == 0x22) {
      at = stringEnd(text, at);
      continue;
    }
    if (c == 0x7b || c == 0x5b) {
      depth++;
    } else if (c == 0x7d || c == 0x5d) {
      depth--;
    } else if (depth == 0) {
      while (at < text.length && !",]} \t\r\n".includes(text.charAt(at))) at++;
      return at;
    }
    at++;
  } while (depth > 0);
  return at;
}

// Collects the names and places of the children of an array or object.
function children(text: string, at: i32, names: string[], places: i32[]): void {
  const object = text.charCodeAt(at) == 0x7b;
  while (true) {
    const mark = text.charCodeAt(at); // a bracket that opens, or what follows a value
    if (places.length == 0 || mark == 0x2c) at = space(text, at + 1);
    const c = text.charCodeAt(at);
    if (c == 0x7d || c == 0x5d) return;
    if (object) {
      names.push(decode(text, at));
      at = space(text, space(text, stringEnd(text, at)) + 1); // after the colon
    }
    places.push(at);
    at = space(text, end(text, at));
  }
}

function decode(text: string, at: i32): string {
  const last = stringEnd(text, at) - 1;
  const parts: string[] = [];
  let from = ++at;
  while (at < last) {
    if (text.charCodeAt(at) != 0x5c) {
      at++;
      continue;
    }
    parts.push(text.substring(from, at));
    const c = text.charAt(at + 1);
    at += 2;
    if (c == "u") {
      parts.push(String.fromCharCode(<i32>parseInt(text.substring(at, at + 4), 16)));
      at += 4;
    } else {
      const k = "bfnrt".indexOf(c);
      parts.push(k < 0 ? c : "\b\f\n\r\t".charAt(k)); // else a quote or a slash of either kind
    }
    from = at;
  }
  parts.push(text.substring(from, last));
  return parts.join("");
}

// JSON that is being written. Commas come by themselves; every method gives the
// writer.
export class Writer {
  private parts: string[] = [];
  private comma: bool = false; // what comes next is not the first of its array or object

  text(): string {
    return this.parts.join("");
  }

  private put(text: string, comma: bool): Writer {
    if (this.comma) this.parts.push(",");
    this.parts.push(text);
    this.comma = comma;
    return this;
  }

  private close(bracket: string): Writer {
    this.parts.push(bracket);
    this.comma = true;
    return this;
  }

  beginObject(): Writer { return this.put("{", false); }
  endObject(): Writer { return this.close("}"); }
  beginArray(): Writer { return this.put("[", false); }
  endArray(): Writer { return this.close("]"); }
  key(name: string): Writer { return this.put(quote(name) + ":", false); }
  string(text: string): Writer { return this.put(quote(text), true); }
  integer(n: i64): Writer { return this.put(n.toString(), true); }
  number(n: f64): Writer { return this.put(isFinite(n) ? n.toString() : "null", true); } // JSON has no infinities
  bool(b: bool): Writer { return this.put(b ? "true" : "false", true); }
  null(): Writer { return this.put("null", true); }
  value(v: Value): Writer { return this.put(v.text(), true); } // as it was read
}

function quote(text: string): string {
  const parts: string[] = ['"'];
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
    parts.push(text.substring(from, i));
    parts.push(c < 0x20 ? "\\u" + c.toString(16).padStart(4, "0") : "\\" + text.charAt(i));
    from = i + 1;
  }
  parts.push(text.substring(from));
  parts.push('"');
  return parts.join("");
}
