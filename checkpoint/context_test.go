package checkpoint_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// TestContextIsPlainJSON: what is written by hand is what encoding/json writes,
// for every field that a context has or gets.
func TestContextIsPlainJSON(t *testing.T) {
	t.Parallel()
	contexts := rapid.MakeCustom[checkpoint.Context](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[*checkpoint.Instances](): rapid.Custom(func(t *rapid.T) any { return drawInstances(t, 2) }),
	}})
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "step.zusammenführen", "流程 🏴", "שלום", "<&>", "\"\\\x00\x1f\x7f", "\u2028\u2029", "\xff\xc0"}))
	rapid.Check(t, func(t *rapid.T) {
		c := contexts.Draw(t, "context")
		c.Plugin, c.Producer.Step, c.ReusedFrom = texts.Draw(t, "plugin"), texts.Draw(t, "step"), texts.Draw(t, "reused from")
		c.Producer.Started = drawTime(t)
		c.Reported = rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage("{ \"a<\" : \"\u2028é\" }"), json.RawMessage("null"), json.RawMessage("{")}).Draw(t, "reported")
		for i := range c.Upstream {
			c.Upstream[i].Facet %= sdk.FacetDegraded + 1
		}
		want, wantErr := sdk.Marshal(&c)
		got, err := checkpoint.AppendPart([]byte("before"), &c)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%v, encoding/json: %v", err, wantErr)
		}
		if err != nil {
			if string(got) != "before" {
				t.Fatalf("after an error dst is %q", got)
			}
			return
		}
		if d := cmp.Diff("before\x01"+string(want), string(got)); d != "" {
			t.Fatalf("-encoding/json +ours:\n%s", d)
		}
	})
	for _, started := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", -3600))} {
		c := &checkpoint.Context{Producer: checkpoint.Producer{Started: started}}
		want, wantErr := sdk.Marshal(c)
		got, err := checkpoint.AppendPart(nil, c)
		if (err != nil) != (wantErr != nil) || err == nil && string(got[1:]) != string(want) {
			t.Errorf("started %v: %s, %v; encoding/json: %s, %v", started, got, err, want, wantErr)
		}
	}
}

// drawInstances makes instances in instances, so deep at most.
func drawInstances(t *rapid.T, depth int) *checkpoint.Instances {
	if depth == 0 || rapid.Bool().Draw(t, "none") {
		return nil
	}
	in := &checkpoint.Instances{List: rapid.Bool().Draw(t, "list"), Count: rapid.Int().Draw(t, "count")}
	for k := range rapid.IntRange(0, 3).Draw(t, "others") {
		in.Others = append(in.Others, checkpoint.Instance{Index: k, State: rapid.Map(rapid.IntRange(0, int(sdk.Cancelled)), func(s int) sdk.State { return sdk.State(s) }).Draw(t, "state"), Instances: drawInstances(t, depth-1)})
	}
	return in
}

// BenchmarkContext is what the loop of a run pays for each step.
func BenchmarkContext(b *testing.B) {
	c := sampleContext()
	c.Reported, c.Usage = nil, nil
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := checkpoint.AppendPart(nil, c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := sdk.Marshal(c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
