package main

import (
	"github.com/retrace-dev/engine/plugins/text/prose"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	honorifics = prose.WordSet("Mr Mrs Ms Miss Messrs Dr Mme Mlle") // no part of the name
	titles     = prose.WordSet(`Lord Lady Sir Madam King Queen Prince Princess Duke Duchess Count Countess Baron Earl Colonel Captain
Major General Inspector Professor Father Mother Uncle Aunt`)
	initials = prose.WordSet("Mr Mrs Ms Messrs Dr St Prof Col Capt") // end with a full stop that ends nothing
	speech   = prose.WordSet("said says cried asked answered replied remarked whispered murmured exclaimed shouted observed laughed smiled nodded")
	inside   = prose.WordSet("in at near into through")
	places   = prose.WordSet(`Street Road Square Lane Station Court Park Hall House Avenue Bridge Yard River Lodge Farm City Island Place
Valley Terrace Gardens Inn Hotel Castle`)
	never = prose.WordSet(`I I'm I'll I've I'd God Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April
May June July August September October November December Christmas English French German American Oh Ah Sir Madam Majesty`)
)

// word is one of a text; text[from:to] without a possessive 's.
type word struct {
	text     string
	from, to int
	joined   bool // only a space, or the full stop of an abbreviation, is between it and the word before
	first    bool // its capital may be that of a sentence
}

// namesWithCapitals finds names in scripts with capital letters: runs of
// capitalized words, where the capital is not that of a sentence's first word.
func namesWithCapitals(texts []string, t table) {
	capital, small := map[string]int{}, map[string]int{} // within sentences; anywhere
	words := make([][]word, len(texts))
	for i, text := range texts {
		words[i] = wordsOf(text)
		for _, w := range words[i] {
			switch {
			case !capitalized(w.text):
				small[w.text]++
			case !w.first:
				capital[strings.ToLower(w.text)]++
			}
		}
	}
	for chapter, ws := range words {
		for i := 0; i < len(ws); i++ {
			if !capitalized(ws[i].text) || never[ws[i].text] {
				continue
			}
			key := strings.ToLower(ws[i].text)
			if capital[key] <= 2*small[key] { // a sentence's first word
				continue
			}
			end := endOfName(ws, i)
			record(texts[chapter], ws, i, end, chapter, t)
			i = end - 1
		}
	}
	joinAliases(t)
}

// endOfName is where the run of capitalized words ends that begins at i.
func endOfName(ws []word, i int) int {
	end := i + 1
	for end < len(ws) && ws[end].joined {
		switch {
		case capitalized(ws[end].text) && !ws[end].first && !never[ws[end].text]:
			end++
		case ws[end].text == "of" && end+1 < len(ws) && ws[end+1].joined && capitalized(ws[end+1].text):
			end += 2
		default:
			return end
		}
	}
	return end
}

// record notes the name that the words from begin to end make.
func record(text string, ws []word, begin, end, chapter int, t table) {
	from := begin
	for from < end && honorifics[ws[from].text] {
		from++
	}
	if from == end || end-from == 1 && titles[ws[from].text] {
		return
	}
	e := t.of(strings.ReplaceAll(text[ws[from].from:ws[end-1].to], "\n", " "))
	e.see(chapter)
	if from > begin || titles[ws[from].text] {
		e.person++
	}
	if begin > 0 && ws[begin].joined {
		if speech[ws[begin-1].text] {
			e.person++
		}
		if inside[ws[begin-1].text] {
			e.place++
		}
	}
	if end < len(ws) && ws[end].joined && speech[ws[end].text] {
		e.person++
	}
	if end-from > 1 && places[ws[end-1].text] {
		e.place += 2
	}
}

// joinAliases joins "Holmes" to "Sherlock Holmes" where one longer name that
// ends or begins so is clearly the most mentioned, and stands in every chapter
// that has the short one: elsewhere it may be somebody else's.
func joinAliases(t table) {
	all := t.sorted()
	var long []*entity
	for _, e := range all {
		if strings.Contains(e.name, " ") {
			long = append(long, e)
		}
	}
	for _, short := range all {
		if strings.Contains(short.name, " ") || places[short.name] {
			continue
		}
		var best *entity
		second := 0
		for _, l := range long {
			if !strings.HasSuffix(l.name, " "+short.name) && !strings.HasPrefix(l.name, short.name+" ") {
				continue
			}
			if short.kind() == "person" && l.kind() == "place" { // "Baker", "Baker Street"
				continue
			}
			switch {
			case best == nil:
				best = l
			case second == 0:
				second = l.count
			}
		}
		if best != nil && best.count > 2*second && best.covers(short) {
			best.absorb(short)
			delete(t, short.name)
		}
	}
}

func wordsOf(text string) []word {
	var words []word
	joined, first, newlines := false, true, 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !letter(r) {
			i += size
			switch r {
			case '\n':
				if newlines++; newlines > 1 {
					first, joined = true, false
				}
				continue
			case ' ', '\t', '\r':
				if newlines > 1 {
					joined = false
				}
				continue
			}
			if n := len(words); r == '.' && n > 0 && words[n-1].to == i-1 && (initials[words[n-1].text] || utf8.RuneCountInString(words[n-1].text) == 1) {
				continue
			}
			joined = false
			if !strings.ContainsRune(",;-()", r) {
				first = true
			}
			continue
		}
		from := i
		i = endOfWord(text, i)
		w := word{from: from, to: i, joined: joined, first: first}
		if whole := text[from:i]; strings.HasSuffix(whole, "'s") {
			w.to -= len("'s")
		} else if strings.HasSuffix(whole, "’s") {
			w.to -= len("’s")
		}
		w.text = text[from:w.to]
		words = append(words, w)
		joined, first, newlines = w.to == i, false, 0 // nothing is one name across a possessive
	}
	return words
}

func endOfWord(text string, i int) int {
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !letter(r) {
			if r != '\'' && r != '’' && r != '-' {
				return i
			}
			if next, _ := utf8.DecodeRuneInString(text[i+size:]); !letter(next) {
				return i
			}
		}
		i += size
	}
	return i
}

// letter: those of alphabets; Chinese has its own rules.
func letter(r rune) bool {
	return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= 0xC0 && r < 0x2000 && r != '×' && r != '÷'
}

// capitalized: a capital, and small letters after it: "THE" is shouting. A
// single capital is an initial.
func capitalized(w string) bool {
	head, size := utf8.DecodeRuneInString(w)
	if unicode.ToLower(head) == head {
		return false
	}
	next, _ := utf8.DecodeRuneInString(w[size:])
	return len(w) == size || unicode.ToUpper(next) != next || next == '\'' || next == '’'
}
