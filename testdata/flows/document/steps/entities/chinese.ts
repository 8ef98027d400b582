// Names in Chinese, which has no capitals and no spaces: who speaks (玄德曰), what
// begins with a surname or ends like a place, if the text repeats it.
import { Table, countOf, increment, wordSet } from "./entity";

const surnames = "趙钱錢孫李周吳鄭王馮陳衛蔣沈韓楊朱秦許何呂張孔曹嚴華魏陶姜謝鄒竇章蘇潘葛范彭魯韋馬苗方任袁柳鮑史唐費薛雷賀湯羅郝于傅皮齊康伍余顧孟黃蕭尹姚邵汪毛禹狄明臧伏成戴宋龐熊紀舒屈項董梁杜阮藍季賈路江童郭梅盛林鍾徐邱駱高夏蔡田樊胡凌霍虞萬柯管盧莫房解丁鄧郁洪包左石崔吉龔程嵇邢裴陸榮翁荀甄曲封儲靳段侯蓬班仰秋仲伊宮甘厲戎祖武符劉景詹龍葉司黎關张孙吕吴郑冯陈卫韩杨许严华谢邹苏鲁韦马费汤罗齐顾黄萧庞项蓝贾钟骆万卢邓陆荣龚刘叶关";
const endings = "州郡縣县城山江河府國国村宮宫殿關关寨";
const common = "之者也而其於于為为以與与則则乃及且所此曰云道何如若亦皆便就自將将被把來来去上下中人吾汝公彼某已矣不在有是的了我你他於有名字姓大小使遣令引見见到太一二三四五六七八九十";
const speakers = wordSet("其人 一人 老人 二人 三人 眾人 众人 左右");

export function namesInChinese(texts: string[], table: Table): void {
  const counts = new Map<string, i32>();
  const chapters: string[][] = [];
  for (let i = 0; i < texts.length; i++) {
    const clauses = clausesOf(texts[i]);
    chapters.push(clauses);
    for (let k = 0; k < clauses.length; k++) {
      for (let n = 1; n <= 3; n++) {
        for (let at = 0; at + n <= clauses[k].length; at++) increment(counts, clauses[k].substr(at, n));
      }
    }
  }

  const speaking = new Map<string, i32>();
  const candidates = new Set<string>();
  const places = new Set<string>();
  for (let i = 0; i < chapters.length; i++) {
    for (let k = 0; k < chapters[i].length; k++) {
      const clause = chapters[i][k];
      const last = clause.charAt(clause.length - 1);
      if ((last == "曰" || last == "道") && clause.length >= 2 && clause.length <= 4) {
        const who = clause.substring(0, clause.length - 1);
        if (!speakers.has(who) && isFree(who)) {
          increment(speaking, who);
          if (who.length > 1 && countOf(counts, who) > 1) candidates.add(who);
        }
      }
      for (let at = 0; at + 2 <= clause.length; at++) {
        for (let n = 2; n <= 3 && at + n <= clause.length; n++) {
          const word = clause.substr(at, n);
          if (countOf(counts, word) < 2 || !isFree(word)) continue;
          if (endings.includes(word.charAt(n - 1))) places.add(word);
          else if (surnames.includes(word.charAt(0))) candidates.add(word);
        }
      }
    }
  }

  addAll(candidates, chapters, counts, table, false);
  addAll(places, chapters, counts, table, true);
  // Who speaks under the last character of the name: 飛曰 for 張飛.
  const all = table.sorted();
  for (let i = 0; i < all.length; i++) {
    const name = all[i].name;
    const given = name.substring(name.length - 1);
    if (!candidates.has(name)) continue;
    all[i].person += countOf(speaking, name) + countOf(speaking, given);
    if (countOf(speaking, given) > 0) all[i].aliases.push(given);
  }
}

// Adds the names that are no mere part of a longer one.
function addAll(names: Set<string>, chapters: string[][], counts: Map<string, i32>, table: Table, places: bool): void {
  const all = names.values();
  for (let i = 0; i < all.length; i++) {
    let part = false;
    for (let k = 0; k < all.length; k++) {
      if (i != k && all[k].includes(all[i]) && countOf(counts, all[k]) >= countOf(counts, all[i])) part = true;
      // A name with something behind it, seen less often: 張寶引.
      if (i != k && all[i].startsWith(all[k]) && countOf(counts, all[k]) > countOf(counts, all[i])) part = true;
    }
    if (part || table.has(all[i])) continue;
    const e = table.of(all[i]);
    if (places) e.place++;
    else e.person++;
    for (let c = 0; c < chapters.length; c++) {
      for (let k = 0; k < chapters[c].length; k++) {
        for (let at = chapters[c][k].indexOf(all[i]); at >= 0; at = chapters[c][k].indexOf(all[i], at + 1)) e.see(c);
      }
    }
  }
}

function isFree(word: string): bool {
  for (let i = 0; i < word.length; i++) {
    if (common.includes(word.charAt(i))) return false;
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
