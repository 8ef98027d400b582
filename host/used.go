package host

import (
	"slices"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// standing is what stands for a step: a record, or the reason why it has none.
type standing struct {
	state  sdk.State
	key    checkpoint.Fingerprint // plan key; zero if it was skipped with an upstream
	output sdk.Digest
}

// planned is what stands for step i before anything runs.
func (s *session) planned(i int32) standing {
	hd := s.plan.Step(i).Head
	if hd == nil {
		return standing{}
	}
	return standing{hd.Outcome.State(), hd.Plan, hd.Output}
}

// used digests what a finished run rests on: the targets, and above each step
// what decided its result. Two applies that rest on the same need no second
// run. Steps beside that are left out, since whether they have a record depends
// on what happened to be needed before.
func (s *session) used(of func(i int32) standing) sdk.Digest {
	seen := make([]bool, len(s.f.steps))
	var stack, rests []int32
	visit := func(i int32) {
		if !seen[i] {
			seen[i] = true
			stack = append(stack, i)
		}
	}
	for _, t := range s.options.Targets {
		visit(t)
	}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		rests = append(rests, i)
		for k, r := range s.f.graph.Refs(i) {
			switch st := of(i); {
			case st.state == sdk.Succeeded:
				visit(r.Step)
			case !st.key.IsZero(): // its condition was false
				if k < s.f.steps[i].WhenFacets {
					visit(r.Step)
				}
			case r.Kind == recovery.Hard && of(r.Step).state == sdk.Skipped:
				visit(r.Step)
			}
		}
	}
	slices.SortFunc(rests, func(a, b int32) int { return strings.Compare(s.f.steps[a].address, s.f.steps[b].address) })
	h := checkpoint.NewHasher("engine/used/1")
	for _, i := range rests {
		st := of(i)
		h.String(s.f.steps[i].address)
		h.Fingerprint(st.key)
		h.Digest(st.output)
	}
	return sdk.Digest(h.Sum())
}
