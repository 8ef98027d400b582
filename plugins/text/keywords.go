package main

import (
	"cmp"
	"context"
	"github.com/retrace-dev/engine/plugins/text/prose"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/retrace-dev/engine/sdk"
)

type keywordsInput struct {
	document
	Limit int `json:"limit"`
}

type keywordsOutput struct {
	Keywords []keyword        `json:"keywords"`
	Chapters []chapterPhrases `json:"chapters"`
}

type keyword struct {
	Phrase   string `json:"phrase"`
	Score    fixed  `json:"score"`
	Count    int    `json:"count"`
	Chapters []int  `json:"chapters"` // numbers
}

type chapterPhrases struct {
	Number   int      `json:"number"`
	Keywords []string `json:"keywords"`
}

// phrase is what is known of one.
type phrase struct {
	text       string
	score      float64
	count      int
	perChapter map[int]int // occurrences by index of the chapter
}

func (p *phrase) see(chapter int) {
	if p.perChapter == nil {
		p.perChapter = map[int]int{}
	}
	p.perChapter[chapter]++
}

const keywordsPerChapter = 6

// keywords finds them by RAKE (Rose et al., 2010): what stands between stop
// words and punctuation is a phrase; a word's score is its degree (the length of
// the phrases it is in) over its frequency, a phrase's the sum over its words.
// Where no spaces tell words apart, see runsThatHold.
func keywords(_ context.Context, in keywordsInput, _ sdk.Host) (*keywordsOutput, error) {
	chapters, err := in.parts()
	if err != nil {
		return nil, err
	}
	if err := atMost("/limit", &in.Limit, 15, 1000); err != nil {
		return nil, err
	}
	all := texts(chapters)
	size := 0
	for _, t := range all {
		size += len(t)
	}
	least := 1
	switch {
	case size > 50_000:
		least = 3
	case size > 1_000:
		least = 2
	}
	phrases := append(rake(all), runsThatHold(all)...)
	phrases = slices.DeleteFunc(phrases, func(p *phrase) bool { return p.count < least })

	out := &keywordsOutput{Keywords: []keyword{}}
	for _, p := range best(phrases, in.Limit, func(p *phrase) float64 { return p.score * math.Log(1+float64(p.count)) }) {
		k := keyword{Phrase: p.text, Score: fixed(p.score), Count: p.count}
		for _, c := range slices.Sorted(maps.Keys(p.perChapter)) {
			k.Chapters = append(k.Chapters, chapters[c].Number)
		}
		out.Keywords = append(out.Keywords, k)
	}
	for i, c := range chapters {
		// What is frequent here and rare elsewhere tells this chapter from the others.
		telling := func(p *phrase) float64 {
			here := float64(p.perChapter[i])
			return p.score * math.Log(1+here) * math.Log1p(float64(len(chapters))/float64(len(p.perChapter)))
		}
		cp := chapterPhrases{Number: c.Number, Keywords: []string{}}
		for _, p := range best(phrases, keywordsPerChapter, telling) {
			cp.Keywords = append(cp.Keywords, p.text)
		}
		out.Chapters = append(out.Chapters, cp)
	}
	return out, nil
}

// best are the phrases of highest worth, without those of worth 0 and without
// parts of better ones that seldom stand elsewhere; equals stand in the order of
// their characters.
func best(phrases []*phrase, n int, worth func(*phrase) float64) []*phrase {
	type entry struct {
		worth float64
		*phrase
	}
	var all []entry
	for _, p := range phrases {
		if w := worth(p); w > 0 {
			all = append(all, entry{w, p})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), strings.Compare(a.text, b.text))
	})
	var chosen []*phrase
	for _, e := range all {
		if len(chosen) == n {
			break
		}
		part := slices.ContainsFunc(chosen, func(c *phrase) bool {
			return strings.Contains(c.text, e.text) && e.count <= 2*c.count
		})
		if !part {
			chosen = append(chosen, e.phrase)
		}
	}
	return chosen
}

const longestPhrase = 3 // words

// rake finds the phrases of texts that write spaces.
func rake(texts []string) []*phrase {
	type stat struct{ frequency, degree int }
	words := map[string]stat{}
	found := map[string]*phrase{}
	for i, text := range texts {
		var run []string
		end := func() {
			for _, w := range run {
				s := words[w]
				words[w] = stat{s.frequency + 1, s.degree + len(run)}
			}
			if len(run) > 0 && len(run) <= longestPhrase {
				name := strings.Join(run, " ")
				p := found[name]
				if p == nil {
					p = &phrase{text: name}
					found[name] = p
				}
				p.count++
				p.see(i)
			}
			run = run[:0]
		}
		tokens(text, func(word string) {
			switch {
			case utf8.RuneCountInString(word) > 2 && !emptyWords[word], word == "st": // a saint or a street
				run = append(run, word)
			default: // also what separates phrases
				end()
			}
		})
		end()
	}
	phrases := make([]*phrase, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		p := found[name]
		for w := range strings.SplitSeq(name, " ") {
			p.score += float64(words[w].degree) / float64(words[w].frequency)
		}
		phrases = append(phrases, p)
	}
	return phrases
}

var unbroken = prose.WordSet("mr mrs dr st") // whose full stop ends nothing

// tokens calls yield with each word, in lower case and without a possessive 's,
// and with "" for what separates phrases: punctuation, numbers, blank lines.
func tokens(text string, yield func(word string)) {
	var word strings.Builder
	newlines := 0
	for at, r := range text {
		next, _ := utf8.DecodeRuneInString(text[at+utf8.RuneLen(r):])
		joins := (r == '\'' || r == '’' || r == '-') && word.Len() > 0 && alphabetic(next)
		if alphabetic(r) && !prose.Unspaced(r) || joins {
			word.WriteString(strings.ToLower(string(r)))
			continue
		}
		w := word.String()
		word.Reset()
		if w != "" {
			yield(bare(w))
		}
		space := unicode.IsSpace(r)
		switch {
		case r == '\n':
			newlines++
		case !space:
			newlines = 0
		}
		if newlines > 1 || !space && !(r == '.' && unbroken[w]) {
			yield("")
		}
	}
	yield(word.String())
}

// bare is a word without its possessive endings.
func bare(w string) string {
	for _, end := range []string{"'s", "’s"} {
		for strings.HasSuffix(w, end) {
			w = strings.TrimSuffix(w, end)
		}
	}
	return w
}

func alphabetic(r rune) bool {
	return unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Other_Alphabetic)
}
