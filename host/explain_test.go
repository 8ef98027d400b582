package host

import (
	"context"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

func (k *fake) mustExplain(store checkpoint.Store, step string) *Explanation {
	k.tb.Helper()
	h, err := New(Options{Store: store})
	if err != nil {
		k.tb.Fatal(err)
	}
	e, err := h.explain(context.Background(), k.flow(), k.inputs(), RunOptions{}, step)
	if err != nil {
		k.tb.Fatal(err)
	}
	return e
}

// TestExplain follows one step from before its first run over a success to an
// edit above it: the keys are those that its record has, and what is not known
// is zero.
func TestExplain(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}, {name: "c", refs: []hcl.FacetRef{{Step: 1}, {Step: 0, Facet: sdk.FacetStatus, Kind: hcl.Soft}}}}}
	store := checkpoint.NewMemoryStore()
	e := k.mustExplain(store, "step.c")
	if e.Action != "run" || e.Record != nil || e.Keys.Local.IsZero() || !e.Keys.Plan.IsZero() || !e.Keys.Content.IsZero() || len(e.Lineage) != 2 || !e.Lineage[0].Now.IsZero() {
		t.Fatalf("before the first run: %+v", e)
	}
	k.mustApply(Options{Store: store})
	e = k.mustExplain(store, "c")
	r := e.Record
	if e.Action != "reuse" || r == nil || !e.HasData || len(e.Changes) != 0 {
		t.Fatalf("after a success: %+v", e)
	}
	if e.Keys.Local != r.Local || e.Keys.Plan != r.Plan || e.Keys.Content != r.Content {
		t.Errorf("keys %+v, the record's are %s %s %s", e.Keys, r.Local, r.Plan, r.Content)
	}
	for _, x := range e.Lineage {
		if x.Now != x.Record || x.Now.IsZero() || x.Action != "reuse" {
			t.Errorf("lineage: %+v", x)
		}
	}
	k.steps[1].def = "b2"
	e = k.mustExplain(store, "step.b")
	if e.Action != "run" || len(e.Changes) != 1 || e.Keys.Plan.IsZero() || e.Keys.Plan == e.Record.Plan {
		t.Errorf("the step that was edited: %+v", e)
	}
	e = k.mustExplain(store, "step.c")
	if e.Action != "decide" || len(e.Changes) != 0 || !e.Keys.Plan.IsZero() || !e.Lineage[0].Now.IsZero() || e.Lineage[0].Record.IsZero() || e.Lineage[1].Step != "step.a" || e.Lineage[1].Facet != sdk.FacetStatus || e.Lineage[1].Action != "reuse" {
		t.Errorf("the step below: %+v", e)
	}
	h, _ := New(Options{Store: store})
	if _, err := h.explain(context.Background(), k.flow(), k.inputs(), RunOptions{}, "step.cc"); err == nil {
		t.Error("an unknown step is explained")
	}
}
