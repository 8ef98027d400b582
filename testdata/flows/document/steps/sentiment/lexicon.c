// The words were chosen for this example: those whose colour does not depend
// on their neighbours.
#include "lexicon.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const struct {
  int weight;
  const char *words;
} lists[] = {
    {3, " adore bliss brilliant delight delightful ecstasy excellent exquisite glorious heavenly joy love magnificent"
        " marvellous marvelous overjoyed paradise perfect rapture splendid superb triumph wonderful 極樂 歡喜 狂喜 完美 大喜 幸福 "},
    {2, " admirable admiration admire affection amusing beautiful beauty beloved benevolent bless brave bravo bravery"
        " bright charm charming cheer cheerful comfort congratulate courage courageous dearest delicate eager elegant"
        " enjoy faithful fortunate friend friendly friendship generous gentle genius glad good graceful grand grateful"
        " gratitude great handsome happy happiness heroic honest honour honor hope hopeful innocent jolly joke kindly"
        " kindness laugh laughter lovely loyal luck lucky merry mercy noble peace pleasant pleasure praise precious"
        " proud relief remarkable rescue reward satisfaction satisfied smile success successful sunshine sweet"
        " sympathy tender thank thankful treasure trust truth victory virtue warm welcome wisdom wise wit"
        " 喜 樂 歡 愛 美 善 吉 福 仁 義 忠 勝 笑 喜悅 高興 快樂 英雄 豪傑 兄弟 同心 協力 寬和 忠義 太平 甚好 好 喜歡 成功 希望 感謝 朋友 和平 勇敢 "},
    {1, " able accept agree agreeable aid amiable approve assure attractive calm care careful certain clean clear"
        " clever comfortable confidence content convenient cool courteous cure decent definite dignity earnest ease"
        " easy encourage fair famous fancy favour favor favourite fine fond free fresh gay genial gift gold gracious"
        " healthy help helpful hearty holiday humour improve interest interesting keen lively mild neat nice patient"
        " play polite popular prosperous protect pure quaint recover refresh respect respectable rich romantic safe"
        " safety save serene sincere skill smart smooth soft solution solve soothe sound steady straightforward strong"
        " support thoughtful tranquil useful valuable vigorous vivid wealth willing worthy"
        " 安 救 扶 助 富 強 威風 堂堂 從容 "},
    {-1, " absence abrupt alone annoy anxious anxiety apology argue ashamed avoid bare bitter blame bleak blind"
         " bore break broken burden careless chill cold complain conceal confuse cough crooked curse damp dark"
         " darkness deaf debt defy delay deny deserted difficult difficulty dirty disagreeable disappear disappoint"
         " disappointment dismal dispute disturb doubt dreary drunk dull dusty excuse exhausted expense faint fatigue"
         " fault fever feeble fog gloom gloomy groan hard harsh hesitate hide hinder hunger hungry impatient impossible"
         " interrupt lack lame lie limp lonely lose loss mad mistake mystery nervous obstinate odd old pale perplex"
         " plain poor problem puzzle queer reluctant remorse restless risk rough rude scream secret serious shabby"
         " shadow sharp sigh silly slow sly sore sorry stern stiff strange stupid suspect suspicion"
         " suspicious tear tire tired trouble ugly unable uncomfortable uneasy unfortunate unusual vague vain vanish"
         " vex weak weary wild worn worry wrong 憂 愁 怒 驚 恐 怕 難 苦 病 貧 亂 寡 急 歎 嘆 疑 失 "},
    {-2, " abandon abuse accident accuse afraid aggressive agitated anger angry attack awful bad beat beggar betray"
         " bleed blood bloody blow brutal burglar cheat coward crash crime criminal cruel cry danger dangerous deadly"
         " deceive defeat desperate destroy despair disaster disgrace disgust dishonest dislike distress dread enemy"
         " evil fail failure false fatal fear fearful fierce fight fool foolish forge fraud fright frightened furious"
         " grief guilt guilty gun harm hate hatred helpless hideous horrid hurt ill illness injure injury insane"
         " insult jealous kidnap mean menace miserable misery misfortune pain painful panic peril pistol poison"
         " prison prisoner quarrel rage rascal repulsive revenge revolver rob robbery ruffian ruin sad sadness savage"
         " scandal scar scoundrel shame shock shriek sick sin sinister smash sob sorrow steal stolen suffer"
         " tears terrified theft thief threat threaten tragedy tragic treachery tremble vicious victim vile villain"
         " violence violent weapon weep wicked wound wreck wretch wretched"
         " 賊 盜 寇 敗 害 罪 惡 凶 哭 泣 悲 恨 怨 痛 傷 毒 妖 叛 戰 崩 災 災異 不祥 背義 忘恩 作亂 失敗 痛苦 悲傷 憤怒 仇 "},
    {-3, " agony appalling assassin catastrophe corpse damnable dead death destruction devil die died dying"
         " dreadful hell horrible horror kill killer loathsome murder murderer murderous slaughter suicide terrible"
         " terror torture 死 殺 亡 戮 屠 殺害 死亡 "},
};

// A hash table of slices of the lists, made at the first look-up.
enum { slots = 4096 };
static struct {
  const char *word;
  size_t length;
  int weight;
} table[slots];

static unsigned slot(const char *word, size_t n) {
  uint32_t hash = 2166136261u; // FNV-1a
  for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)word[i]) * 16777619u;
  unsigned s = hash % slots;
  while (table[s].word && !(table[s].length == n && !memcmp(table[s].word, word, n))) s = (s + 1) % slots;
  return s;
}

static int exact(const char *word, size_t n) {
  static bool filled;
  if (!filled) {
    filled = true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
      for (const char *w = lists[i].words; *(w += strspn(w, " ")); w += strcspn(w, " ")) {
        size_t length = strcspn(w, " ");
        unsigned s = slot(w, length);
        table[s].word = w, table[s].length = length, table[s].weight = lists[i].weight;
      }
  }
  return table[slot(word, n)].weight;
}

int lexicon_weight(const char *word, size_t n) {
  static const char *const endings[] = {"s", "d", "es", "ed", "ing", "ly", "ness", "er", "est", "'s"};
  int weight = exact(word, n);
  for (size_t i = 0; !weight && i < sizeof endings / sizeof *endings; i++) {
    size_t e = strlen(endings[i]);
    if (n < e + 3 || n > 30 || memcmp(word + n - e, endings[i], e)) continue;
    char stem[32];
    size_t k = n - e;
    memcpy(stem, word, k);
    if (!(weight = exact(stem, k))) {
      stem[k] = 'e'; // "hoping", hope
      weight = exact(stem, k + 1);
    }
    if (!weight && stem[k - 1] == 'i') {
      stem[k - 1] = 'y'; // "happily", happy
      weight = exact(stem, k);
    }
    if (!weight && stem[k - 1] == stem[k - 2]) weight = exact(stem, k - 1); // "robbed", rob
  }
  return weight;
}

size_t lexicon_chinese(const char *text, size_t n, int *weight) {
  for (size_t bytes = n < 12 ? n / 3 * 3 : 12; bytes > 0; bytes -= 3) // these characters have three bytes
    if ((*weight = exact(text, bytes))) return bytes;
  return 0;
}

int lexicon_negates(const char *word, size_t n) {
  static const char negations[] = " not no never neither nor without hardly scarcely cannot 不 沒 没 無 无 非 未 莫 勿 ";
  if (n > 3 && !memcmp(word + n - 3, "n't", 3)) return true;
  if (n == 0 || n > 8) return false;
  char padded[11] = " ";
  memcpy(padded + 1, word, n);
  padded[n + 1] = ' ';
  return strstr(negations, padded) != NULL;
}
