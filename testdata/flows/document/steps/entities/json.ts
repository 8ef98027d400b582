// As much JSON as a step needs: a cursor over the request, and quote for the
// response. The host has checked the request: it is one value without lone
// surrogates. Strings are UTF-16, so a pair of \u escapes needs no joining.

export class Reader {
  private at: i32 = 0;

  constructor(private readonly text: string) {}

  // The character code after white space.
  private peek(): i32 {
    while (true) {
      const c = this.text.charCodeAt(this.at);
      if (c != 0x20 && c != 0x09 && c != 0x0a && c != 0x0d) return c;
      this.at++;
    }
  }

  // Reads "[" or "{"; false, and nothing is read, before another value.
  open(bracket: string): bool {
    if (this.peek() != bracket.charCodeAt(0)) return false;
    this.at++;
    return true;
  }

  // Whether another element or member follows. Reads the comma before it, or
  // the closing bracket.
  more(): bool {
    const c = this.peek();
    if (c == 0x2c) this.at++; // ,
    if (c != 0x5d && c != 0x7d) return true; // ] }
    this.at++;
    return false;
  }

  // Reads the name of a member and its colon.
  name(): string {
    const name = this.string()!;
    this.peek();
    this.at++;
    return name;
  }

  // Reads a string; null, and nothing is read, before another value.
  string(): string | null {
    if (this.peek() != 0x22) return null;
    const parts: string[] = [];
    let from = ++this.at;
    while (true) {
      const c = this.text.charCodeAt(this.at);
      if (c != 0x22 && c != 0x5c) {
        this.at++;
        continue;
      }
      parts.push(this.text.substring(from, this.at));
      this.at++;
      if (c == 0x22) return parts.join("");
      parts.push(this.escape());
      from = this.at;
    }
  }

  // Reads what follows a backslash.
  private escape(): string {
    const c = this.text.charAt(this.at++);
    if (c == "b") return "\b";
    if (c == "f") return "\f";
    if (c == "n") return "\n";
    if (c == "r") return "\r";
    if (c == "t") return "\t";
    if (c != "u") return c; // a quote or a slash of either kind
    this.at += 4;
    return String.fromCharCode(<i32>parseInt(this.text.substring(this.at - 4, this.at), 16));
  }

  // Reads a whole number; -1, and nothing is read, before another value. No
  // number of this step is negative.
  integer(): i32 {
    this.peek();
    let end = this.at;
    while (isDigit(this.text.charCodeAt(end))) end++;
    const next = this.text.charAt(end);
    if (end == this.at || end - this.at > 9 || next == "." || next == "e" || next == "E") return -1;
    const n = <i32>parseInt(this.text.substring(this.at, end), 10);
    this.at = end;
    return n;
  }

  // Reads any value.
  skip(): void {
    let depth = 0;
    do {
      const c = this.peek();
      if (c == 0x22) {
        this.string();
      } else if (c == 0x5b || c == 0x7b) {
        this.at++;
        depth++;
      } else if (c == 0x5d || c == 0x7d) {
        this.at++;
        depth--;
      } else if (c == 0x2c || c == 0x3a) {
        this.at++;
      } else {
        while (!",]} \t\r\n".includes(this.text.charAt(this.at))) this.at++;
      }
    } while (depth > 0);
  }
}

function isDigit(c: i32): bool {
  return c >= 0x30 && c <= 0x39;
}

// Writes text as a JSON string.
export function quote(text: string): string {
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
