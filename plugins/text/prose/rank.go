package prose

import (
	"cmp"
	"math"
	"slices"
)

// Shorter sentences say too little and longer ones too much to be a summary.
const (
	minTerms = 8
	maxTerms = 40
)

// longest is how many sentences are ranked together. The graph grows with their
// square; a text without chapters is ranked in parts, whose scores all average 1.
const longest = 800

// Pick returns the n most telling of the sentences of a text in their order, without
// repetitions: LexRank, that is PageRank over a graph of sentences whose edges are
// weighted by how much they have in common (Erkan and Radev, 2004).
func Pick(all []string, n int) []string {
	var score []float64
	var good []bool // of a good length
	for part := range slices.Chunk(all, longest) {
		bags := make([][]string, len(part))
		for i, s := range part {
			bags[i] = terms(s)
			good = append(good, len(bags[i]) >= minTerms && len(bags[i]) <= maxTerms)
		}
		score = append(score, rank(bags)...)
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if good[a] != good[b] {
			if good[a] {
				return -1
			}
			return 1
		}
		return cmp.Compare(score[b], score[a])
	})
	var chosen []int
	seen := map[string]bool{}
	for _, i := range order {
		if len(chosen) < n && !seen[all[i]] {
			seen[all[i]] = true
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	picked := make([]string, 0, len(chosen))
	for _, i := range chosen {
		picked = append(picked, all[i])
	}
	return picked
}

// edge leads to a sentence that shares words.
type edge struct {
	to     int
	weight float64
}

// rank gives every sentence its LexRank. The arithmetic uses only operations
// that IEEE 754 rounds in one way (the conversions forbid fusing), so that a
// module and a native build agree to the last bit.
func rank(bags [][]string) []float64 {
	edges := similar(bags)
	total := make([]float64, len(bags)) // of the weights that leave a sentence
	for i, es := range edges {
		for _, e := range es {
			total[i] += e.weight
		}
	}
	const damping, rounds = 0.85, 30
	score := make([]float64, len(bags))
	for i := range score {
		score[i] = 1
	}
	for range rounds {
		next := make([]float64, len(bags))
		for i, es := range edges {
			for _, e := range es {
				next[e.to] += float64(score[i] * e.weight / total[i])
			}
		}
		for i := range next {
			score[i] = 1 - damping + float64(damping*next[i])
		}
	}
	return score
}

// similar links sentences by the cosine of their word vectors; rare words
// weigh more. Both directions are there.
func similar(bags [][]string) [][]edge {
	sentencesOf := map[string][]int{} // by term, ascending
	for i, bag := range bags {
		for _, t := range bag {
			if l := sentencesOf[t]; len(l) == 0 || l[len(l)-1] != i {
				sentencesOf[t] = append(l, i)
			}
		}
	}
	edges := make([][]edge, len(bags))
	norm := make([]float64, len(bags))
	weight := func(t string) float64 { return float64(len(bags)) / float64(len(sentencesOf[t])) }
	distinct := make([][]string, len(bags))
	for i, bag := range bags {
		distinct[i] = slices.Compact(slices.Sorted(slices.Values(bag)))
		for _, t := range distinct[i] {
			norm[i] += weight(t)
		}
		norm[i] = math.Sqrt(norm[i])
	}
	common := make([]float64, len(bags)) // with sentence i
	for i := range bags {
		var met []int
		for _, t := range distinct[i] {
			for _, j := range sentencesOf[t] {
				if j == i {
					continue
				}
				if common[j] == 0 {
					met = append(met, j)
				}
				common[j] += weight(t)
			}
		}
		for _, j := range met {
			edges[i] = append(edges[i], edge{j, common[j] / float64(norm[i]*norm[j])})
			common[j] = 0
		}
	}
	return edges
}
