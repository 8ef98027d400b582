// The step that finds who and what a text is about, by the capitals of its
// names, or, in Chinese, by who speaks and by surnames and endings of places.
import { namesWithCapitals } from "./capitals";
import { namesInChinese } from "./chinese";
import { Table } from "./entity";
import { Reader, quote } from "./json";

@external("engine_v1", "read")
declare function hostRead(to: usize): void;
@external("engine_v1", "write")
declare function hostWrite(from: usize, n: i32): void;

// What AssemblyScript calls when the program is wrong: a trap.
export function abort(message: usize, file: usize, line: i32, column: i32): void {
  unreachable();
}

export function step_run(n: i32): void {
  const request = new ArrayBuffer(n);
  hostRead(changetype<usize>(request));
  const response = String.UTF8.encode(step(new Reader(String.UTF8.decode(request))));
  hostWrite(changetype<usize>(response), response.byteLength);
}

class Input {
  numbers: i32[] = [];
  texts: string[] = [];
  limit: i32 = 0;
  wrong: string = ""; // the JSON Pointer to what is not as it should be
  want: string = ""; // and what was wanted there

  refuse(path: string, want: string): void {
    if (this.wrong != "") return;
    this.wrong = path;
    this.want = want;
  }
}

function step(r: Reader): string {
  const input = new Input();
  r.open("{");
  while (r.more()) {
    if (r.name() == "input") readInput(r, input);
    else r.skip();
  }
  if (input.texts.length == 0) input.refuse("/chapters", "an array of at least one chapter");
  if (input.limit < 1 || input.limit > 1000) input.refuse("/limit", "a whole number from 1 to 1000");
  if (input.wrong != "") {
    return '{"error":{"class":"invalid_input","message":' + quote("want " + input.want) + ',"path":' + quote(input.wrong) + "}}";
  }
  const table = new Table();
  namesWithCapitals(input.texts, table);
  namesInChinese(input.texts, table);
  return '{"output":{"entities":' + write(table, input) + "}}";
}

function readInput(r: Reader, input: Input): void {
  if (!r.open("{")) {
    r.skip();
    return;
  }
  while (r.more()) {
    const name = r.name();
    if (name == "limit") {
      input.limit = r.integer();
      if (input.limit < 0) r.skip();
    } else if (name == "chapters" && r.open("[")) {
      while (r.more()) readChapter(r, input);
    } else {
      r.skip();
    }
  }
}

function readChapter(r: Reader, input: Input): void {
  const path = "/chapters/" + input.texts.length.toString();
  let number = -1;
  let text: string | null = null;
  if (!r.open("{")) {
    r.skip();
    input.refuse(path, "an object");
    return;
  }
  while (r.more()) {
    const name = r.name();
    if (name == "number") {
      number = r.integer();
      if (number < 0) r.skip();
    } else if (name == "text") {
      text = r.string();
      if (text == null) r.skip();
    } else {
      r.skip();
    }
  }
  if (number < 0) input.refuse(path + "/number", "a whole number that is not negative");
  if (text == null) input.refuse(path + "/text", "a string");
  input.numbers.push(number);
  input.texts.push(text == null ? "" : text);
}

function write(table: Table, input: Input): string {
  const out: string[] = [];
  const all = table.sorted();
  for (let i = 0; i < all.length && out.length < input.limit; i++) {
    const e = all[i];
    const aliases: string[] = [];
    for (let k = 0; k < e.aliases.length; k++) aliases.push(quote(e.aliases[k]));
    const chapters: string[] = [];
    for (let k = 0; k < e.chapters.length; k++) chapters.push(input.numbers[e.chapters[k]].toString());
    out.push('{"name":' + quote(e.name) + ',"kind":"' + e.kind() + '","count":' + e.count.toString() +
      ',"chapters":[' + chapters.join(",") + '],"aliases":[' + aliases.join(",") + "]}");
  }
  return "[" + out.join(",") + "]";
}
