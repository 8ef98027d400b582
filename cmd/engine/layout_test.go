package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const (
	boxHeight = 40
	slack     = 1e-6 // of sums of floats
)

// checkLayout: what layOut promises.
func checkLayout(widths []float64, edges [][2]int, l layout) error {
	type box struct{ left, right, top, bottom float64 }
	boxes := make([]box, len(widths))
	for i, c := range l.nodes {
		boxes[i] = box{c.x - widths[i]/2, c.x + widths[i]/2, c.y - boxHeight/2, c.y + boxHeight/2}
		if b := boxes[i]; b.left < -slack || b.top < -slack || b.right > l.width+slack || b.bottom > l.height+slack {
			return fmt.Errorf("node %d is outside", i)
		}
	}
	byPlace := make([]int, len(boxes))
	for i := range byPlace {
		byPlace[i] = i
	}
	slices.SortFunc(byPlace, func(a, b int) int {
		if boxes[a].top != boxes[b].top {
			return int(boxes[a].top - boxes[b].top)
		}
		if boxes[a].left < boxes[b].left {
			return -1
		}
		return 1
	})
	for k := 1; k < len(byPlace); k++ {
		a, b := boxes[byPlace[k-1]], boxes[byPlace[k]]
		if a.top == b.top && a.right > b.left+slack || a.top != b.top && a.bottom > b.top {
			return fmt.Errorf("nodes %d and %d overlap", byPlace[k-1], byPlace[k])
		}
	}
	cyclic := inCycle(len(widths), edges)
	for k, e := range edges {
		ps := l.edges[k]
		up := ps[0].y > ps[len(ps)-1].y
		if up && !cyclic[k] {
			return fmt.Errorf("edge %v points up", e)
		}
		if e[0] == e[1] {
			continue
		}
		if up {
			ps = slices.Clone(ps)
			slices.Reverse(ps)
		}
		for j := 1; j < len(ps); j++ {
			a, b := ps[j-1], ps[j]
			if a.y >= b.y {
				return fmt.Errorf("edge %v turns back", e)
			}
			for i, x := range boxes { // an upright line beside, or one between layers
				if a.y < x.bottom-slack && b.y > x.top+slack && (a.x != b.x || a.x > x.left+slack && a.x < x.right-slack) {
					return fmt.Errorf("edge %v crosses node %d", e, i)
				}
			}
		}
	}
	return nil
}

// TestLayout: boxes do not overlap, edges outside cycles point down, no line
// crosses a box, and the same graph is drawn the same.
func TestLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		widths := rapid.SliceOfN(rapid.Float64Range(10, 400), n, n).Draw(t, "widths")
		var edges [][2]int
		if n > 0 {
			node := rapid.IntRange(0, n-1)
			for range rapid.IntRange(0, 3*n).Draw(t, "m") {
				edges = append(edges, [2]int{node.Draw(t, "from"), node.Draw(t, "to")})
			}
			if rapid.Bool().Draw(t, "acyclic") {
				for k, e := range edges {
					edges[k] = [2]int{min(e[0], e[1]), max(e[0], e[1])}
				}
				edges = slices.DeleteFunc(edges, func(e [2]int) bool { return e[0] == e[1] })
			}
		}
		l := layOut(widths, boxHeight, edges)
		if err := checkLayout(widths, edges, l); err != nil {
			t.Fatal(err)
		}
		if again := layOut(widths, boxHeight, edges); !slices.Equal(again.nodes, l.nodes) {
			t.Fatal("the same graph is drawn in two ways")
		}
	})
}

// TestLayoutFewCrossings: a tree can be drawn without crossings, and is.
func TestLayoutFewCrossings(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	names := r.Perm(31)
	var edges [][2]int
	for i := 1; i < 31; i++ {
		edges = append(edges, [2]int{names[(i-1)/2], names[i]})
	}
	widths := make([]float64, 31)
	for i := range widths {
		widths[i] = 50
	}
	l := layOut(widths, boxHeight, edges)
	for a, e := range edges {
		for b, f := range edges[:a] {
			p, q := l.edges[a], l.edges[b]
			if p[0].y == q[0].y && (p[0].x-q[0].x)*(p[1].x-q[1].x) < 0 {
				t.Errorf("edges %v and %v cross", e, f)
			}
		}
	}
}

func layered(n, perLayer int) (widths []float64, edges [][2]int) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		widths = append(widths, 60+100*r.Float64())
		for range 3 {
			if i >= perLayer {
				edges = append(edges, [2]int{max(0, i-1-r.IntN(3*perLayer)), i})
			}
		}
	}
	return widths, edges
}

func BenchmarkLayout(b *testing.B) {
	for _, perLayer := range []int{10, 100} {
		widths, edges := layered(1200, perLayer)
		b.Run(fmt.Sprintf("1200-%d", perLayer), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				layOut(widths, boxHeight, edges)
			}
		})
	}
}
