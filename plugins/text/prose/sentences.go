package prose

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// abbreviations do not end a sentence with their full stop.
var abbreviations = WordSet("mr mrs ms dr st prof col capt lt gen rev hon jr sr no vs etc esq messrs mme mlle e.g i.e viz")

// stop holds words too common to say that two sentences are about one thing.
var stop = WordSet(`a about after again all am an and any are as at be because been before being but by came can come
could did do does down for from go had has have he her here him his how i if in into is it its just know like little
made man may me more most must my never no not now of on one only or other our out over said say see shall she should
so some such than that the their them then there these they this those though through to too two up upon us very was
we well were what when where which who will with would yes you your`)

// WordSet holds the words of a text, told apart by spaces.
func WordSet(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// Sentences cuts a text into sentences, each on one line. A blank line ends a
// sentence; so do 。！？ outside of a short quotation, and . ! ? before a space and
// what is not lower case.
func Sentences(text string) []string {
	var all []string
	add := func(s string) {
		if s = fold(s); s != "" && strings.IndexFunc(s, unicode.IsLetter) >= 0 {
			all = append(all, s)
		}
	}
	for _, paragraph := range paragraphs(text) {
		start := 0
		for at := 0; at < len(paragraph); {
			r, n := utf8.DecodeRuneInString(paragraph[at:])
			at += n
			if !strings.ContainsRune(".!?。！？…", r) {
				continue
			}
			dot := at - n
			for at < len(paragraph) { // further marks and closing quotes belong to it
				c, k := utf8.DecodeRuneInString(paragraph[at:])
				if !strings.ContainsRune(`.!?。！？…"'”’)]」』）》`, c) {
					break
				}
				at += k
			}
			wide := strings.ContainsRune("。！？", r)
			if wide && !quoting(paragraph[start:at]) || !wide && ends(paragraph, start, dot, at) {
				add(paragraph[start:at])
				start = at
			}
		}
		add(paragraph[start:])
	}
	return all
}

// longestQuotation is how far a sentence goes on for the sake of its quotation.
const longestQuotation = 240 // bytes

// quoting tells whether s ends within a quotation that it began.
func quoting(s string) bool {
	return len(s) < longestQuotation && strings.Count(s, "「") > strings.Count(s, "」")
}

// ends tells whether the mark at dot, the last of those before next, ends the
// sentence that began at start.
func ends(s string, start, dot, next int) bool {
	rest := strings.TrimLeftFunc(s[next:], unicode.IsSpace)
	if rest == "" {
		return true
	}
	if len(rest) == len(s)-next { // "3.14", "example.com"
		return false
	}
	if r, _ := utf8.DecodeRuneInString(rest); unicode.IsLower(r) {
		return false
	}
	if s[dot] != '.' {
		return true
	}
	word := s[start:dot]
	if i := strings.LastIndexFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"“(-—`, r) }); i >= 0 {
		word = strings.TrimLeft(word[i:], " \t\r\n\"“(-—")
	}
	initial := utf8.RuneCountInString(word) == 1 && word != "I"
	return !initial && !abbreviations[strings.ToLower(word)]
}

func paragraphs(text string) []string {
	var ps []string
	start := 0
	lines := strings.SplitAfter(text, "\n")
	at := 0
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			ps = append(ps, text[start:at])
			start = at
		}
		at += len(l)
	}
	return append(ps, text[start:])
}

// fold makes one line of a sentence: a space for each break, none between
// characters that are written without.
func fold(s string) string {
	var b strings.Builder
	for i, word := range strings.Fields(s) {
		if i > 0 {
			last, _ := utf8.DecodeLastRuneInString(b.String())
			if first, _ := utf8.DecodeRuneInString(word); !wide(last) || !wide(first) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(word)
	}
	return b.String()
}

// wide tells the scripts that write no spaces, with their punctuation.
func wide(r rune) bool {
	return Unspaced(r) || r >= 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFFEF
}

// Unspaced: r is of a script that writes no spaces between words.
func Unspaced(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

// terms are the words of a sentence that carry meaning, in lower case; pairs of
// neighbours where no spaces tell words apart.
func terms(s string) []string {
	var ts []string
	var word strings.Builder
	flush := func() {
		if w := strings.Trim(word.String(), "'’-"); len(w) > 1 && !stop[w] {
			ts = append(ts, w)
		}
		word.Reset()
	}
	last := rune(0)
	for _, r := range s {
		switch {
		case Unspaced(r):
			flush()
			if Unspaced(last) {
				ts = append(ts, string([]rune{last, r}))
			}
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '\'', r == '’', r == '-':
			word.WriteRune(unicode.ToLower(r))
		default:
			flush()
		}
		last = r
	}
	flush()
	return ts
}
