package host

import (
	"context"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
)

// Every record tells the attributes of its input apart by value and by expression:
// that of a step and of an instance.
func TestRecordsHaveAttributes(t *testing.T) {
	t.Parallel()
	records := func(n, expression string) map[string]map[string]checkpoint.AttributeDigest {
		store := checkpoint.NewMemoryStore()
		f, v := compiled(t, `workflow "w" {}
plugin "p" { source = "./p.wasm" }
step "a" {
  uses  = plugin.p.run
  input = { n = `+n+`, same = 1 }
}
step "b" {
  for_each = ["x", "y"]
  uses     = plugin.p.run
  input    = { n = `+expression+`, each = each.value }
}
`, counting{})
		applied(t, store, f, v)
		x, err := store.Snapshot(context.Background(), "default", "w")
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]map[string]checkpoint.AttributeDigest{}
		for h := range x.Heads() {
			rec, err := store.Record(context.Background(), "default", h.Seq)
			if err != nil {
				t.Fatal(err)
			}
			byName := map[string]checkpoint.AttributeDigest{}
			for _, a := range rec.Context.Inputs {
				if len(a.Value) != 32 || len(a.Expression) != 32 {
					t.Errorf("%s %s: %+v is not 16 bytes each", h.Step, h.Instance, a)
				}
				byName[a.Name] = a
			}
			all[h.Step+h.Instance] = byName
		}
		return all
	}
	was, is := records("1", "step.a.output.n"), records("2", "step.a.output.n + 0")
	check := func(of, name string, value, expression bool) {
		t.Helper()
		a, b := was[of][name], is[of][name]
		if a.Name == "" || b.Name == "" || (a.Value != b.Value) != value || (a.Expression != b.Expression) != expression {
			t.Errorf("%s, %s: %+v and %+v; value should differ: %v, expression: %v", of, name, a, b, value, expression)
		}
	}
	check("step.a", "n", true, true)
	check("step.a", "same", false, false)
	check("step.b0", "n", true, true)
	check("step.b1", "n", true, true)
	check("step.b0", "each", false, false)
	if was["step.b0"]["each"].Value == was["step.b1"]["each"].Value {
		t.Error("two instances have the same value")
	}
}
