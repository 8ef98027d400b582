// A step that counts the words of a text.
import { Request, log, respond } from "./engine_step";

export function step_run(n: i32): void {
  respond(n, run);
}

function run(request: Request): void {
  const text = request.input.get("text").string();
  if (text == null) {
    request.fail("invalid_input", "want a string", "/text");
    return;
  }
  const wish = request.input.get("least");
  if (!wish.isMissing() && wish.integer() < 1) {
    request.fail("invalid_input", "want a whole number from 1", "/least");
    return;
  }
  const least: i64 = wish.isMissing() ? 1 : wish.integer();

  let total: i64 = 0;
  const counts = new Map<string, i64>(); // keeps the order in which they were set
  let from = 0;
  for (let i = 0; i <= text.length; i++) {
    if (i < text.length && !" \t\r\n".includes(text.charAt(i))) continue;
    const word = text.substring(from, i);
    from = i + 1;
    if (word == "") continue;
    total++;
    counts.set(word, counts.has(word) ? counts.get(word) + 1 : 1);
  }
  log("info", "the words are counted");

  const output = request.output;
  output.beginObject().key("total").integer(total).key("words").beginArray();
  const words = counts.keys();
  for (let i = 0; i < words.length; i++) {
    const count = counts.get(words[i]);
    if (count >= least) output.beginObject().key("word").string(words[i]).key("count").integer(count).endObject();
  }
  output.endArray().endObject();
}
