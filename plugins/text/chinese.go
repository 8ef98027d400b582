package main

import (
	"github.com/retrace-dev/engine/plugins/text/prose"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// What the characters of a name may be.
const (
	surnames     = "趙钱錢孫李周吳鄭王馮陳衛蔣沈韓楊朱秦許何呂張孔曹嚴華魏陶姜謝鄒竇章蘇潘葛范彭魯韋馬苗方任袁柳鮑史唐費薛雷賀湯羅郝于傅皮齊康伍余顧孟黃蕭尹姚邵汪毛禹狄明臧伏成戴宋龐熊紀舒屈項董梁杜阮藍季賈路江童郭梅盛林鍾徐邱駱高夏蔡田樊胡凌霍虞萬柯管盧莫房解丁鄧郁洪包左石崔吉龔程嵇邢裴陸榮翁荀甄曲封儲靳段侯蓬班仰秋仲伊宮甘厲戎祖武符劉景詹龍葉司黎關张孙吕吴郑冯陈卫韩杨许严华谢邹苏鲁韦马费汤罗齐顾黄萧庞项蓝贾钟骆万卢邓陆荣龚刘叶关"
	placeEndings = "州郡縣县城山江河府國国村宮宫殿關关寨"
	noName       = "之者也而其於于為为以與与則则乃及且所此曰云道何如若亦皆便就自將将被把來来去上下中人吾汝公彼某已矣不在有是的了我你他於有名字姓大小使遣令引見见到太一二三四五六七八九十"
)

var speakers = prose.WordSet("其人 一人 老人 二人 三人 眾人 众人 左右") // are no names

// mayBe says what a character may be in a name.
var mayBe = func() map[rune]struct{ nothing, surname, place bool } {
	m := map[rune]struct{ nothing, surname, place bool }{}
	for _, r := range surnames + placeEndings + noName {
		k := m[r]
		k.nothing = k.nothing || strings.ContainsRune(noName, r)
		k.surname = k.surname || strings.ContainsRune(surnames, r)
		k.place = k.place || strings.ContainsRune(placeEndings, r)
		m[r] = k
	}
	return m
}()

// longText is how many characters repeat a pair by chance.
const longText = 20_000

// namesInChinese finds names where there are no capitals and no spaces: who
// speaks (玄德曰), what begins with a surname or ends like a place, if the text
// repeats it.
func namesInChinese(texts []string, t table) {
	speaking, counts := map[string]int{}, map[string]int{}
	characters := 0
	for _, text := range texts {
		for clause := range clausesOf(text) {
			n := utf8.RuneCountInString(clause)
			characters += n
			who, ok := strings.CutSuffix(clause, "曰")
			if !ok {
				who, ok = strings.CutSuffix(clause, "道")
			}
			if ok && n <= 4 && free(who) && !speakers[who] {
				speaking[who]++
			}
		}
	}
	for _, text := range texts {
		eachWord(text, func(w string) {
			first, _ := utf8.DecodeRuneInString(w)
			last, _ := utf8.DecodeLastRuneInString(w)
			if mayBe[first].surname || mayBe[last].place || speaking[w] > 0 {
				counts[w]++
			}
		})
	}
	least := max(2, characters/longText)
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n < least })
	addNames(counts, speaking, t)
	for i, text := range texts {
		eachWord(text, func(w string) {
			if counts[w] > 0 && t[w] != nil {
				t[w].see(i)
			}
		})
	}
}

// addNames adds the names that are no mere part of a longer one.
func addNames(counts, speaking map[string]int, t table) {
	all := slices.Sorted(maps.Keys(counts))
	for _, name := range all {
		part := slices.ContainsFunc(all, func(other string) bool {
			return other != name && (strings.Contains(other, name) && counts[other] >= counts[name] ||
				strings.HasPrefix(name, other) && counts[other] > counts[name]) // a name with something behind it: 張寶引
		})
		if part {
			continue
		}
		e := t.of(name)
		last, size := utf8.DecodeLastRuneInString(name)
		if mayBe[last].place {
			e.place++
			continue
		}
		// Who has been named in full speaks under the last character: 飛曰 for 張飛.
		given := name[len(name)-size:]
		e.person += 1 + speaking[name] + speaking[given]
		if speaking[given] > 0 {
			e.aliases = append(e.aliases, given)
		}
	}
}

// free tells whether a name may have all of the characters.
func free(w string) bool {
	return strings.IndexFunc(w, func(r rune) bool { return mayBe[r].nothing }) < 0
}

// clausesOf gives the runs of Chinese characters between others.
func clausesOf(text string) func(func(string) bool) {
	return strings.FieldsFuncSeq(text, func(r rune) bool { return !han(r) })
}

// eachWord calls yield with all pairs and triples that may be a name.
func eachWord(text string, yield func(string)) {
	for clause := range clausesOf(text) {
		for at := range clause {
			end := at
			for n := 1; n <= 3 && end < len(clause); n++ {
				r, size := utf8.DecodeRuneInString(clause[end:])
				if mayBe[r].nothing {
					break
				}
				if end += size; n > 1 {
					yield(clause[at:end])
				}
			}
		}
	}
}
