// Names in scripts with capital letters: runs of capitalized words, where the
// capital is not that of a sentence's first word.
import { Entity, Table, countOf, increment, wordSet } from "./entity";

const honorifics = wordSet("Mr Mrs Ms Miss Messrs Dr Mme Mlle"); // no part of the name
const titles = wordSet("Lord Lady Sir Madam King Queen Prince Princess Duke Duchess Count Countess Baron Earl Colonel Captain Major General Inspector Professor Father Mother Uncle Aunt");
const abbreviations = wordSet("Mr Mrs Ms Messrs Dr St Prof Col Capt");
const speech = wordSet("said says cried asked answered replied remarked whispered murmured exclaimed shouted observed laughed smiled nodded");
const inside = wordSet("in at near into through");
const places = wordSet("Street Road Square Lane Station Court Park Hall House Avenue Bridge Yard River Lodge Farm City Island Place Valley Terrace Gardens Inn Hotel Castle");
const never = wordSet("I I'm I'll I've I'd God Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August September October November December Christmas English French German American Oh Ah Sir Madam Majesty");

class Word {
  constructor(
    public text: string,
    public from: i32,
    public to: i32,
    public joined: bool, // only a space, or the full stop of an abbreviation, is between it and the word before
    public first: bool, // its capital may be that of a sentence
  ) {}
}

export function namesWithCapitals(texts: string[], table: Table): void {
  const capital = new Map<string, i32>(); // within sentences
  const small = new Map<string, i32>();
  const words: Word[][] = [];
  for (let i = 0; i < texts.length; i++) {
    const ws = wordsOf(texts[i]);
    words.push(ws);
    for (let k = 0; k < ws.length; k++) {
      if (!isCapitalized(ws[k].text)) increment(small, ws[k].text);
      else if (!ws[k].first) increment(capital, ws[k].text.toLowerCase());
    }
  }
  for (let chapter = 0; chapter < texts.length; chapter++) {
    const ws = words[chapter];
    for (let i = 0; i < ws.length; i++) {
      if (!isCapitalized(ws[i].text) || never.has(ws[i].text)) continue;
      const key = ws[i].text.toLowerCase();
      if (countOf(capital, key) <= 2 * countOf(small, key)) continue; // a sentence's first word
      let end = i + 1; // of the run of words
      while (end < ws.length && ws[end].joined) {
        if (isCapitalized(ws[end].text) && !ws[end].first && !never.has(ws[end].text)) end++;
        else if (ws[end].text == "of" && end + 1 < ws.length && ws[end + 1].joined && isCapitalized(ws[end + 1].text)) end += 2;
        else break;
      }
      record(texts[chapter], ws, i, end, chapter, table);
      i = end - 1;
    }
  }
  joinAliases(table);
}

// Records the name that the words from begin to end make.
function record(text: string, ws: Word[], begin: i32, end: i32, chapter: i32, table: Table): void {
  let from = begin;
  while (from < end && honorifics.has(ws[from].text)) from++;
  if (from == end || (end - from == 1 && titles.has(ws[from].text))) return;
  const e = table.of(text.substring(ws[from].from, ws[end - 1].to).split("\n").join(" "));
  e.see(chapter);
  if (from > begin || titles.has(ws[from].text)) e.person++;
  if (begin > 0 && ws[begin].joined) {
    if (speech.has(ws[begin - 1].text)) e.person++;
    if (inside.has(ws[begin - 1].text)) e.place++;
  }
  if (end < ws.length && ws[end].joined && speech.has(ws[end].text)) e.person++;
  if (end - from > 1 && places.has(ws[end - 1].text)) e.place += 2;
}

// Joins "Holmes" to "Sherlock Holmes" where one longer name that ends or begins
// so is clearly the most mentioned, and stands in every chapter that has the
// short one: elsewhere it may be somebody else's.
function joinAliases(table: Table): void {
  const all = table.sorted();
  const long = all.filter((e) => e.name.includes(" "));
  for (let i = 0; i < all.length; i++) {
    const short = all[i];
    if (short.name.includes(" ") || places.has(short.name)) continue;
    const head = short.name + " ";
    const tail = " " + short.name;
    let best: Entity | null = null;
    let second = 0;
    for (let k = 0; k < long.length; k++) {
      if (!long[k].name.endsWith(tail) && !long[k].name.startsWith(head)) continue;
      if (short.kind() == "person" && long[k].kind() == "place") continue; // "Baker", "Baker Street"
      if (best == null) best = long[k];
      else if (second == 0) second = long[k].count;
    }
    if (best != null && best.count > 2 * second && best.covers(short)) {
      best.absorb(short);
      table.remove(short.name);
    }
  }
}

function wordsOf(text: string): Word[] {
  const words: Word[] = [];
  let joined = false;
  let first = true;
  let newlines = 0;
  for (let i = 0; i < text.length; ) {
    if (!isLetter(text, i)) {
      const c = text.charAt(i++);
      if (c == " " || c == "\t" || c == "\r" || c == "\n") {
        if (c == "\n" && ++newlines > 1) first = true;
        if (newlines > 1) joined = false;
        continue;
      }
      const last = words.length > 0 ? words[words.length - 1] : null;
      if (c == "." && last != null && last.to == i - 1 && (abbreviations.has(last.text) || last.text.length == 1)) continue;
      joined = false;
      if (!",;-()".includes(c)) first = true;
      continue;
    }
    const from = i;
    while (isLetter(text, i) || (isJoint(text, i) && isLetter(text, i + 1))) i++;
    let to = i;
    const end = text.substring(from, to);
    if (end.endsWith("'s") || end.endsWith("’s")) to -= 2;
    words.push(new Word(text.substring(from, to), from, to, joined && to - from > 0, first));
    joined = to == i; // nothing is one name across a possessive
    first = false;
    newlines = 0;
  }
  return words;
}

function isLetter(text: string, i: i32): bool {
  const c = text.charCodeAt(i); // -1 past the end
  return (c >= 0x41 && c <= 0x5a) || (c >= 0x61 && c <= 0x7a) || (c >= 0xc0 && c < 0x2000 && c != 0xd7 && c != 0xf7);
}

function isJoint(text: string, i: i32): bool {
  const c = text.charCodeAt(i);
  return c == 0x27 || c == 0x2019 || c == 0x2d;
}

// A capital, and small letters after it: "THE" is shouting. A single capital is
// an initial.
function isCapitalized(word: string): bool {
  const code = word.charCodeAt(0);
  if (code >= 0x61 && code <= 0x7a) return false; // most words; the rest of this is slow
  const head = word.charAt(0);
  if (head == head.toLowerCase()) return false;
  return word.length == 1 || word.charAt(1) != word.charAt(1).toUpperCase() || word.charAt(1) == "'" || word.charAt(1) == "’";
}
