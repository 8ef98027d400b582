package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// hashing is a plugin whose answer depends on its whole input.
type hashing struct{ counting }

func (h hashing) Load(context.Context, *loader.Artifact) (loader.Plugin, error) { return h, nil }
func (hashing) Step(string, loader.Limits) (sdk.Step, error) {
	return sdk.StepFunc(func(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		return hashAnswer(req)
	}), nil
}

// sketch is a random flow that can be written down in many ways that mean the
// same.
type sketch struct {
	words []string // the literal of each step
	ups   [][]int
}

func newSketch(r *rand.Rand) *sketch {
	s := &sketch{}
	for i := range 3 + r.IntN(8) {
		var ups []int
		for u := range i {
			if r.IntN(3) == 0 {
				ups = append(ups, u)
			}
		}
		s.words, s.ups = append(s.words, fmt.Sprintf("prompt %d 提示", i)), append(s.ups, ups)
	}
	return s
}

// write writes the flow; with a source of variation in another order, layout
// and with other settings that are no part of a computation.
func (s *sketch) write(vary *rand.Rand) string {
	chance := func() bool { return vary != nil && vary.IntN(2) == 0 }
	blocks := []string{"workflow \"m\" {\n}\n", "plugin \"p\" { source = \"./p.wasm\" }\n"}
	for i := range s.words {
		attrs := []string{fmt.Sprintf("word = %q", s.words[i])}
		if chance() {
			attrs[0] = fmt.Sprintf("word = (%q)", s.words[i])
		}
		if chance() {
			attrs[0] = fmt.Sprintf("\"word\" : local.w%d", i)
			blocks = append(blocks, fmt.Sprintf("locals { w%d = %q }\n", i, s.words[i]))
		}
		for _, u := range s.ups[i] {
			ref := fmt.Sprintf("step.s%d.output.h", u)
			if chance() {
				ref = "(" + ref + ")"
			}
			if chance() {
				ref = "\"${" + ref + "}\""
			}
			attrs = append(attrs, fmt.Sprintf("u%02d = %s", u, ref))
		}
		lines := []string{"uses = plugin.p.run"}
		if vary != nil {
			vary.Shuffle(len(attrs), func(a, b int) { attrs[a], attrs[b] = attrs[b], attrs[a] })
		}
		lines = append(lines, "input = {\n    "+strings.Join(attrs, "\n    ")+"\n  }")
		if chance() {
			lines = append(lines, "timeout = \"7m\"")
		}
		if chance() {
			lines = append(lines, "retry {\n    max_attempts = 4\n    delay = \"2s\"\n  }")
		}
		if chance() {
			lines = append(lines, "# a comment")
		}
		if vary != nil {
			vary.Shuffle(len(lines), func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
		}
		blocks = append(blocks, fmt.Sprintf("step \"s%d\" {\n  %s\n}\n", i, strings.Join(lines, "\n  ")))
	}
	if vary != nil {
		vary.Shuffle(len(blocks), func(a, b int) { blocks[a], blocks[b] = blocks[b], blocks[a] })
	}
	return strings.Join(blocks, "\n")
}

// below is i and everything downstream of it.
func (s *sketch) below(i int) []string {
	hit := map[int]bool{i: true}
	names := []string{fmt.Sprint("s", i)}
	for k := i + 1; k < len(s.ups); k++ {
		if slices.ContainsFunc(s.ups[k], func(u int) bool { return hit[u] }) {
			hit[k] = true
			names = append(names, fmt.Sprint("s", k))
		}
	}
	slices.Sort(names)
	return names
}

// TestEdits: whatever is no part of a computation re-runs nothing, on random
// flows; editing a prompt re-runs exactly that step and what changes below.
func TestEdits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := newRand(seed)
		s := newSketch(r)
		store := checkpoint.NewMemoryStore()
		f, v := compiled(t, s.write(nil), hashing{})
		applied(t, store, f, v)
		for range 4 {
			text := s.write(r)
			f, v := compiled(t, text, hashing{})
			if res := applied(t, store, f, v); res.Opened {
				t.Fatalf("seed %d: another way to write it ran %d steps:\n%s\n--- was\n%s", seed, res.Counts.Ran, text, s.write(nil))
			}
		}
		for n := range 3 {
			i := r.IntN(len(s.words))
			s.words[i] = fmt.Sprintf("edited %d", n)
			f, v := compiled(t, s.write(r), hashing{})
			rec := &recorder{}
			observed(t, store, f, v, rec)
			if d := cmp.Diff(s.below(i), rec.steps(EventSucceeded)); d != "" {
				t.Fatalf("seed %d: editing s%d (-want +ran):\n%s", seed, i, d)
			}
		}
	}
}
