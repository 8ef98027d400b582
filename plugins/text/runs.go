package main

import (
	"github.com/retrace-dev/engine/plugins/text/prose"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const longestRun = 4 // characters

// run is a piece of a text between two of its characters, with the neighbours;
// 0 stands for the border of a clause.
type run struct {
	chapter       int
	text          string
	before, after rune
}

// runsThatHold finds the phrases of texts that write no spaces: runs of two to
// four characters that stand in various places, and more often than their parts
// would meet by chance.
func runsThatHold(texts []string) []*phrase {
	counts := countRuns(texts)
	total := 0
	for r, n := range counts {
		if utf8.RuneCountInString(r) == 1 {
			total += n
		}
	}
	// How much more often the parts meet than by chance, at the weakest seam.
	bond := func(text string, count int) float64 {
		weakest := math.Inf(1)
		for i := range text {
			if i > 0 {
				weakest = min(weakest, float64(count*total)/float64(counts[text[:i]]*counts[text[i:]]))
			}
		}
		return weakest
	}
	found, sides := map[string]*phrase{}, map[string]*[2]neighbours{}
	for n := 2; n <= longestRun; n++ {
		eachRun(texts, n, func(r run) {
			count := counts[r.text]
			if count < 2 || strings.ContainsAny(r.text, emptyCharacters) {
				return
			}
			b := bond(r.text, count)
			// Short texts have no large bonds; there, parts that stand nowhere else do.
			if b < 8 && b*float64(count) < float64(total) {
				return
			}
			p := found[r.text]
			if p == nil {
				seldom := 1 - 1/float64(count) // chance makes rare meetings look like bonds
				p = &phrase{text: r.text, count: count, score: float64(n) * math.Log(b) * seldom}
				found[r.text], sides[r.text] = p, &[2]neighbours{}
			}
			p.see(r.chapter)
			sides[r.text][0].meet(r.before)
			sides[r.text][1].meet(r.after)
		})
	}
	var phrases []*phrase
	for _, text := range slices.Sorted(maps.Keys(found)) {
		if s := sides[text]; s[0].various && s[1].various { // otherwise it is a part of something longer
			phrases = append(phrases, found[text])
		}
	}
	return phrases
}

// neighbours are various if there are two, or a border.
type neighbours struct {
	first   rune
	various bool
}

func (n *neighbours) meet(r rune) {
	switch {
	case r == 0 || n.first != 0 && n.first != r:
		n.various = true
	default:
		n.first = r
	}
}

// countRuns counts level by level: what occurs twice consists of parts that do,
// so that only those are looked at and a long novel fits into memory.
func countRuns(texts []string) map[string]int {
	counts := map[string]int{}
	for n := 1; n <= longestRun; n++ {
		level := map[string]int{}
		eachRun(texts, n, func(r run) {
			if n > 1 {
				_, first := utf8.DecodeRuneInString(r.text)
				_, last := utf8.DecodeLastRuneInString(r.text)
				if counts[r.text[first:]] < 2 || counts[r.text[:len(r.text)-last]] < 2 {
					return
				}
			}
			level[r.text]++
		})
		maps.Copy(counts, level)
	}
	return counts
}

// eachRun calls yield with all runs of n characters that lie between others.
func eachRun(texts []string, n int, yield func(run)) {
	for chapter, text := range texts {
		clauses := strings.FieldsFuncSeq(text, func(r rune) bool { return !prose.Unspaced(r) })
		for clause := range clauses {
			at := make([]int, 0, len(clause)/3+1) // where characters begin, and the end
			for i := range clause {
				at = append(at, i)
			}
			at = append(at, len(clause))
			for i := 0; i+n < len(at); i++ {
				before, _ := utf8.DecodeLastRuneInString(clause[:at[i]])
				after, _ := utf8.DecodeRuneInString(clause[at[i+n]:])
				r := run{chapter: chapter, text: clause[at[i]:at[i+n]]}
				if i > 0 {
					r.before = before
				}
				if i+n+1 < len(at) {
					r.after = after
				}
				yield(r)
			}
		}
	}
}
