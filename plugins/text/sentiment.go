package main

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/retrace-dev/engine/sdk"
)

type sentimentOutput struct {
	Overall  mood        `json:"overall"`
	Chapters []moodEntry `json:"chapters"`
}

type moodEntry struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	mood
}

// mood is what is said of a text. Score is (good - bad) / (good + bad).
type mood struct {
	Score    fixed  `json:"score"`
	Label    string `json:"label"`
	Positive int    `json:"positive"` // words
	Negative int    `json:"negative"`

	good, bad int // sums of weights
}

// sentiment tells how bright or dark each chapter is: words of a lexicon count
// with their weight, turned round after a negation ("not good", 不善).
func sentiment(ctx context.Context, in document, _ sdk.Host) (*sentimentOutput, error) {
	chapters, err := in.parts()
	if err != nil {
		return nil, err
	}
	out := &sentimentOutput{}
	for _, c := range chapters {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m := measure(c.Text)
		out.Overall.good += m.good
		out.Overall.bad += m.bad
		out.Overall.Positive += m.Positive
		out.Overall.Negative += m.Negative
		m.judge()
		out.Chapters = append(out.Chapters, moodEntry{c.Number, c.Title, m})
	}
	out.Overall.judge()
	return out, nil
}

// judge makes score and label, in whole thousandths.
func (m *mood) judge() {
	milli := 0
	if both := m.good + m.bad; both > 0 {
		milli = (m.good - m.bad) * 1000 / both
	}
	m.Score = fixed(float64(milli) / 1000)
	switch {
	case milli >= 100:
		m.Label = "positive"
	case milli <= -100:
		m.Label = "negative"
	default:
		m.Label = "neutral"
	}
}

func (m *mood) count(weight int, negated bool) {
	if negated {
		weight = -weight
	}
	switch {
	case weight > 0:
		m.good += weight
		m.Positive++
	case weight < 0:
		m.bad -= weight
		m.Negative++
	}
}

// reach is how many words a negation turns round.
const reach = 3

func measure(text string) (m mood) {
	negated := 0 // words still under a negation
	var word []byte
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case han(r):
			n, weight := weighChinese(text[at:])
			m.count(weight, negated > 0)
			negated = 0
			if n <= size && negates([]byte(text[at:at+size])) {
				negated = 1
			}
			at += max(n, size)
		case inWord(r) && r != '\'' && r != '’':
			word = word[:0]
			for at < len(text) && inWord(r) {
				if r == '’' {
					r = '\''
				}
				word = utf8.AppendRune(word, lowerASCII(r))
				at += size
				r, size = utf8.DecodeRuneInString(text[at:])
			}
			for len(word) > 0 && word[len(word)-1] == '\'' { // a closing quote
				word = word[:len(word)-1]
			}
			m.count(weigh(word), negated > 0)
			if negates(word) {
				negated = reach
			} else {
				negated = max(negated-1, 0)
			}
		default:
			if strings.ContainsRune(".!?;:", r) {
				negated = 0
			}
			at += size
		}
	}
	return m
}

func han(r rune) bool { return r >= 0x3400 && r <= 0x9FFF }

// inWord: letters, and all that is not ASCII but for Chinese and general
// punctuation.
func inWord(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '\''
	case r == '’':
		return true
	}
	return !han(r) && (r < 0x2000 || r > 0x203F)
}

func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}
