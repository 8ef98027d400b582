// What is known of a name, and the table in which both languages gather it.

export class Entity {
  count: i32 = 0;
  person: i32 = 0; // signs that it is one: a title, a verb of speech
  place: i32 = 0; // likewise: a preposition, "Street"
  chapters: i32[] = []; // indices, ascending
  aliases: string[] = [];

  constructor(public name: string) {}

  see(chapter: i32): void {
    this.count++;
    if (!this.chapters.includes(chapter)) this.chapters.push(chapter);
  }

  kind(): string {
    if (this.person > 0 && this.person >= this.place) return "person";
    return this.place > 0 ? "place" : "other";
  }

  // Whether every chapter that mentions the other mentions this one.
  covers(other: Entity): bool {
    for (let i = 0; i < other.chapters.length; i++) {
      if (!this.chapters.includes(other.chapters[i])) return false;
    }
    return true;
  }

  // Takes over what is known of another name of the same thing, which this one
  // covers.
  absorb(alias: Entity): void {
    this.count += alias.count;
    this.person += alias.person;
    this.place += alias.place;
    this.aliases.push(alias.name);
  }
}

export class Table {
  private entities: Map<string, Entity> = new Map();

  // The entity of that name, made at the first mention.
  of(name: string): Entity {
    if (!this.entities.has(name)) this.entities.set(name, new Entity(name));
    return this.entities.get(name);
  }

  has(name: string): bool {
    return this.entities.has(name);
  }

  remove(name: string): void {
    this.entities.delete(name);
  }

  // The most mentioned first; equals in the order of their characters.
  sorted(): Entity[] {
    return this.entities.values().sort((a, b) => {
      if (a.count != b.count) return b.count - a.count;
      return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
    });
  }
}

// A set of the words in a text.
export function wordSet(text: string): Set<string> {
  const set = new Set<string>();
  const words = text.split(" ");
  for (let i = 0; i < words.length; i++) set.add(words[i]);
  return set;
}

// One more for a key.
export function increment(counts: Map<string, i32>, key: string): void {
  counts.set(key, (counts.has(key) ? counts.get(key) : 0) + 1);
}

// How many there are of a key.
export function countOf(counts: Map<string, i32>, key: string): i32 {
  return counts.has(key) ? counts.get(key) : 0;
}
