// Names in Chinese, which has no capitals and no spaces: who speaks (玄德曰), what
// begins with a surname or ends like a place, if the text repeats it.
import { Table, countOf, increment, wordSet } from "./entity";

const surnames = "趙钱錢孫李周吳鄭王馮陳衛蔣沈韓楊朱秦許何呂張孔曹嚴華魏陶姜謝鄒竇章蘇潘葛范彭魯韋馬苗方任袁柳鮑史唐費薛雷賀湯羅郝于傅皮齊康伍余顧孟黃蕭尹姚邵汪毛禹狄明臧伏成戴宋龐熊紀舒屈項董梁杜阮藍季賈路江童郭梅盛林鍾徐邱駱高夏蔡田樊胡凌霍虞萬柯管盧莫房解丁鄧郁洪包左石崔吉龔程嵇邢裴陸榮翁荀甄曲封儲靳段侯蓬班仰秋仲伊宮甘厲戎祖武符劉景詹龍葉司黎關张孙吕吴郑冯陈卫韩杨许严华谢邹苏鲁韦马费汤罗齐顾黄萧庞项蓝贾钟骆万卢邓陆荣龚刘叶关";
const endings = "州郡縣县城山江河府國国村宮宫殿關关寨";
const common = "之者也而其於于為为以與与則则乃及且所此曰云道何如若亦皆便就自將将被把來来去上下中人吾汝公彼某已矣不在有是的了我你他於有名字姓大小使遣令引見见到太一二三四五六七八九十";
const speakers = wordSet("其人 一人 老人 二人 三人 眾人 众人 左右"); // no names

// What a character may be, by its code.
const COMMON: u8 = 1;
const SURNAME: u8 = 2;
const ENDING: u8 = 4;
const kinds = new Uint8Array(0x10000);
mark(common, COMMON);
mark(surnames, SURNAME);
mark(endings, ENDING);

function mark(characters: string, kind: u8): void {
  for (let i = 0; i < characters.length; i++) kinds[characters.charCodeAt(i)] |= kind;
}

function is(word: string, at: i32, kind: u8): bool {
  return (kinds[word.charCodeAt(at)] & kind) != 0;
}

export function namesInChinese(texts: string[], table: Table): void {
  const chapters: string[][] = [];
  const speaking = new Map<string, i32>();
  let characters = 0;
  for (let i = 0; i < texts.length; i++) {
    const clauses = clausesOf(texts[i]);
    chapters.push(clauses);
    for (let k = 0; k < clauses.length; k++) {
      const clause = clauses[k];
      characters += clause.length;
      const last = clause.charAt(clause.length - 1);
      if ((last != "曰" && last != "道") || clause.length > 4) continue;
      const who = clause.substring(0, clause.length - 1);
      if (isFree(who) && !speakers.has(who)) increment(speaking, who);
    }
  }

  const counts = new Map<string, i32>();
  for (let i = 0; i < chapters.length; i++) {
    for (let k = 0; k < chapters[i].length; k++) {
      const clause = chapters[i][k];
      for (let at = 0; at + 2 <= clause.length; at++) {
        if (is(clause, at, COMMON)) continue;
        for (let n = 2; n <= 3 && at + n <= clause.length; n++) {
          const word = clause.substr(at, n);
          const may = is(word, 0, SURNAME) || is(word, n - 1, ENDING) || speaking.has(word);
          if (may && isFree(word)) increment(counts, word);
        }
      }
    }
  }
  const least = max(2, characters / 20000); // what a long text repeats by chance
  const candidates = counts.keys();
  for (let i = 0; i < candidates.length; i++) {
    if (counts.get(candidates[i]) < least) counts.delete(candidates[i]);
  }

  addNames(counts, speaking, table);
  for (let i = 0; i < chapters.length; i++) {
    for (let k = 0; k < chapters[i].length; k++) {
      const clause = chapters[i][k];
      for (let at = 0; at + 2 <= clause.length; at++) {
        if (is(clause, at, COMMON)) continue;
        for (let n = 2; n <= 3 && at + n <= clause.length; n++) {
          const word = clause.substr(at, n);
          if (counts.has(word) && table.has(word)) table.of(word).see(i);
        }
      }
    }
  }
}

// Adds the names that are no mere part of a longer one.
function addNames(counts: Map<string, i32>, speaking: Map<string, i32>, table: Table): void {
  const all = counts.keys();
  for (let i = 0; i < all.length; i++) {
    const name = all[i];
    let part = false;
    for (let k = 0; k < all.length; k++) {
      if (i == k) continue;
      if (all[k].includes(name) && counts.get(all[k]) >= counts.get(name)) part = true;
      // A name with something behind it, seen less often: 張寶引.
      if (name.startsWith(all[k]) && counts.get(all[k]) > counts.get(name)) part = true;
    }
    if (part) continue;
    const e = table.of(name);
    if (is(name, name.length - 1, ENDING)) {
      e.place++;
      continue;
    }
    // Who has been named in full speaks under the last character: 飛曰 for 張飛.
    const given = name.substring(name.length - 1);
    e.person += 1 + countOf(speaking, name) + countOf(speaking, given);
    if (speaking.has(given)) e.aliases.push(given);
  }
}

function isFree(word: string): bool {
  for (let i = 0; i < word.length; i++) {
    if (is(word, i, COMMON)) return false;
  }
  return true;
}

// The runs of Chinese characters between others.
function clausesOf(text: string): string[] {
  const clauses: string[] = [];
  let from = -1;
  for (let i = 0; i <= text.length; i++) {
    const c = i < text.length ? text.charCodeAt(i) : 0;
    const han = c >= 0x3400 && c <= 0x9fff;
    if (han && from < 0) from = i;
    if (!han && from >= 0) {
      clauses.push(text.substring(from, i));
      from = -1;
    }
  }
  return clauses;
}
