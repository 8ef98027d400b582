// What the conformance tests ask of this SDK; in every language the same.
import { Request, Value, Writer, call, emit, log, progress, respond, usage } from "./engine_step";

export function step_run(n: i32): void {
  respond(n, run);
}

function run(request: Request): void {
  const type = request.stepType;
  if (type == "echo") echo(request.output, request.input.get("value"));
  else if (type == "fail") fail(request);
  else if (type == "host") host(request.output);
  else if (type == "wait") while (true) {}
  else if (type == "key") request.output.string(request.idempotencyKey);
  else if (type != "nothing") request.fail("invalid_input", type);
}

// Reads a value and writes it anew.
function echo(w: Writer, v: Value): void {
  const type = v.type();
  if (type == "object" || type == "array") {
    const names = v.names();
    const values = v.values();
    if (type == "object") w.beginObject();
    else w.beginArray();
    for (let i = 0; i < values.length; i++) {
      if (type == "object") w.key(names[i]);
      echo(w, values[i]);
    }
    if (type == "object") w.endObject();
    else w.endArray();
  } else if (type == "string") {
    w.string(v.string()!);
  } else if (type == "number") {
    if (v.isInteger()) w.integer(v.integer());
    else w.number(v.number());
  } else if (type == "bool") {
    w.bool(v.bool(false));
  } else {
    w.null();
  }
}

function text(v: Value): string {
  const s = v.string();
  return s == null ? "" : s;
}

function fail(request: Request): void {
  const i = request.input;
  request.fail(text(i.get("class")), text(i.get("message")), text(i.get("path")), text(i.get("code")), i.get("retry_after_ms").integer());
}

// Calls every operation, and one that no host knows.
function host(w: Writer): void {
  log("warn", 'about to "call" 中文');
  progress(0.5, "half");
  emit("chunk");
  usage("m", 3, 2, 1);
  const reply = call(new Writer().beginObject().key("op").string("nonsense").endObject(), String.UTF8.encode("\0raw"));
  w.beginObject().key("code").value(reply.error.get("code")).key("ok").value(reply.ok).key("size").integer(reply.data.byteLength).endObject();
}
