package main

import (
	"bytes"
	"github.com/retrace-dev/engine/plugins/text/prose"
	"strings"
	"unicode/utf8"
)

// lexicon holds words whose colour does not depend on their neighbours, with
// how good (to 3) or bad (to -3) they are.
var lexicon = weights([]weighed{
	{3, `adore bliss brilliant delight delightful ecstasy excellent exquisite glorious heavenly joy love magnificent
marvellous marvelous overjoyed paradise perfect rapture splendid superb triumph wonderful 極樂 歡喜 狂喜 完美 大喜 幸福`},
	{2, `admirable admiration admire affection amusing beautiful beauty beloved benevolent bless brave bravo bravery
bright charm charming cheer cheerful comfort congratulate courage courageous dearest delicate eager elegant
enjoy faithful fortunate friend friendly friendship generous gentle genius glad good graceful grand grateful
gratitude great handsome happy happiness heroic honest honour honor hope hopeful innocent jolly joke kindly
kindness laugh laughter lovely loyal luck lucky merry mercy noble peace pleasant pleasure praise precious
proud relief remarkable rescue reward satisfaction satisfied smile success successful sunshine sweet sympathy
tender thank thankful treasure trust truth victory virtue warm welcome wisdom wise wit 喜 樂 歡 愛 美 善 吉 福 仁 義 忠 勝
笑 喜悅 高興 快樂 英雄 豪傑 兄弟 同心 協力 寬和 忠義 太平 甚好 好 喜歡 成功 希望 感謝 朋友 和平 勇敢`},
	{1, `able accept agree agreeable aid amiable approve assure attractive calm care careful certain clean clear clever
comfortable confidence content convenient cool courteous cure decent definite dignity earnest ease easy
encourage fair famous fancy favour favor favourite fine fond free fresh gay genial gift gold gracious healthy
help helpful hearty holiday humour improve interest interesting keen lively mild neat nice patient play polite
popular prosperous protect pure quaint recover refresh respect respectable rich romantic safe safety save
serene sincere skill smart smooth soft solution solve soothe sound steady straightforward strong support
thoughtful tranquil useful valuable vigorous vivid wealth willing worthy 安 救 扶 助 富 強 威風 堂堂 從容`},
	{-1, `absence abrupt alone annoy anxious anxiety apology argue ashamed avoid bare bitter blame bleak blind bore
break broken burden careless chill cold complain conceal confuse cough crooked curse damp dark darkness deaf
debt defy delay deny deserted difficult difficulty dirty disagreeable disappear disappoint disappointment
dismal dispute disturb doubt dreary drunk dull dusty excuse exhausted expense faint fatigue fault fever feeble
fog gloom gloomy groan hard harsh hesitate hide hinder hunger hungry impatient impossible interrupt lack lame
lie limp lonely lose loss mad mistake mystery nervous obstinate odd old pale perplex plain poor problem puzzle
queer reluctant remorse restless risk rough rude scream secret serious shabby shadow sharp sigh silly slow sly
sore sorry stern stiff strange stupid suspect suspicion suspicious tear tire tired trouble ugly unable
uncomfortable uneasy unfortunate unusual vague vain vanish vex weak weary wild worn worry wrong 憂 愁 怒 驚 恐 怕 難
苦 病 貧 亂 寡 急 歎 嘆 疑 失`},
	{-2, `abandon abuse accident accuse afraid aggressive agitated anger angry attack awful bad beat beggar betray bleed
blood bloody blow brutal burglar cheat coward crash crime criminal cruel cry danger dangerous deadly deceive
defeat desperate destroy despair disaster disgrace disgust dishonest dislike distress dread enemy evil fail
failure false fatal fear fearful fierce fight fool foolish forge fraud fright frightened furious grief guilt
guilty gun harm hate hatred helpless hideous horrid hurt ill illness injure injury insane insult jealous
kidnap mean menace miserable misery misfortune pain painful panic peril pistol poison prison prisoner quarrel
rage rascal repulsive revenge revolver rob robbery ruffian ruin sad sadness savage scandal scar scoundrel
shame shock shriek sick sin sinister smash sob sorrow steal stolen suffer tears terrified theft thief threat
threaten tragedy tragic treachery tremble vicious victim vile villain violence violent weapon weep wicked
wound wreck wretch wretched 賊 盜 寇 敗 害 罪 惡 凶 哭 泣 悲 恨 怨 痛 傷 毒 妖 叛 戰 崩 災 災異 不祥 背義 忘恩 作亂 失敗 痛苦 悲傷 憤怒 仇`},
	{-3, `agony appalling assassin catastrophe corpse damnable dead death destruction devil die died dying dreadful hell
horrible horror kill killer loathsome murder murderer murderous slaughter suicide terrible terror torture 死 殺
亡 戮 屠 殺害 死亡`},
})

type weighed struct {
	weight int
	words  string
}

func weights(lists []weighed) map[string]int {
	m := map[string]int{}
	for _, l := range lists {
		for _, w := range strings.Fields(l.words) {
			m[w] = l.weight
		}
	}
	return m
}

var endings = []string{"s", "d", "es", "ed", "ing", "ly", "ness", "er", "est", "'s"}

const (
	shortestStem = 3  // bytes
	longestWord  = 30 // that has an ending
)

// weigh is how good or bad a word in lower case is, 0 when it is neither. Its
// common endings are understood.
func weigh(word []byte) int {
	if w := lexicon[string(word)]; w != 0 {
		return w
	}
	for _, e := range endings {
		stem, ok := bytes.CutSuffix(word, []byte(e))
		if !ok || len(stem) < shortestStem || len(word) > longestWord {
			continue
		}
		if w := weighStem(stem); w != 0 {
			return w
		}
	}
	return 0
}

func weighStem(stem []byte) int {
	if w := lexicon[string(stem)]; w != 0 {
		return w
	}
	if w := lexicon[string(stem)+"e"]; w != 0 { // "hoping", hope
		return w
	}
	last := len(stem) - 1
	switch {
	case stem[last] == 'i': // "happily", happy
		return lexicon[string(stem[:last])+"y"]
	case stem[last] == stem[last-1]: // "robbed", rob
		return lexicon[string(stem[:last])]
	}
	return 0
}

// longestChinese is how many characters the longest Chinese word has.
const longestChinese = 4

// weighChinese finds the longest Chinese word that text begins with: its length
// in bytes, 0 when there is none, and its weight.
func weighChinese(text string) (n, weight int) {
	ends := make([]int, 0, longestChinese)
	for at := 0; at < len(text) && len(ends) < longestChinese; {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
		ends = append(ends, at)
	}
	for i := len(ends) - 1; i >= 0; i-- {
		if w := lexicon[text[:ends[i]]]; w != 0 {
			return ends[i], w
		}
	}
	return 0, 0
}

var negations = prose.WordSet("not no never neither nor without hardly scarcely cannot 不 沒 没 無 无 非 未 莫 勿")

// negates tells whether a word turns the meaning of those after it.
func negates(word []byte) bool {
	return len(word) > 3 && bytes.HasSuffix(word, []byte("n't")) || negations[string(word)]
}
