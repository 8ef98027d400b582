package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

func set(kv ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = json.RawMessage(kv[i+1])
	}
	return m
}

// What a person gives for an effect whose outcome is unknown settles it, under
// its old name or a new one, and no later apply repeats the effect.
func TestSetSettlesAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]bool{"pay": false, "renamed": true} {
		k, store := interrupted(t, sdk.EffectsOnce)
		if rename {
			k.steps[1].name = name
		}
		k.steps = append(k.steps, fakeStep{name: "last", refs: hard(1)})
		res, err := k.apply(context.Background(), Options{Store: store}, RunOptions{Set: set(name, `"paid"`)})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded || res.Counts.Supplied != 1 || res.Counts.Ran != 1 {
			t.Fatalf("%s: %v, %+v", name, err, res)
		}
		for _, o := range []RunOptions{{}, {From: []string{"last"}}, {Rerun: []string{"w"}}} {
			if res, err := k.apply(context.Background(), Options{Store: store}, o); err != nil || res.Run.Status != checkpoint.RunSucceeded {
				t.Fatalf("%s, %+v: %v, %+v", name, o, err, res)
			}
		}
		if n := k.count("pay") + k.count("renamed"); n != 1 {
			t.Errorf("%s: the effect was started %d times", name, n)
		}
	}
}

// What a person gives counts while the run goes on, also after a failure below,
// though the step is volatile; in the next run the step runs.
func TestSetCountsInItsRun(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "a", volatile: true}, {name: "b", refs: hard(0)}}}
	fail := true
	var seen []string
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.b" {
			var in struct{ Up []json.RawMessage }
			if err := json.Unmarshal(req.Input, &in); err != nil {
				return nil, err
			}
			seen = append(seen, string(in.Up[0]))
			if fail {
				return nil, errBoom
			}
		}
		return hashAnswer(req)
	}
	o := Options{Store: checkpoint.NewMemoryStore()}
	if _, err := k.apply(context.Background(), o, RunOptions{Set: set("step.a", `{"from":"a person"}`)}); err != nil {
		t.Fatal(err)
	}
	fail = false
	if res := k.mustApply(o); res.Run.Status != checkpoint.RunSucceeded || !res.Continued {
		t.Fatalf("%+v", res)
	}
	if k.count("a") != 0 || !slices.Equal(seen, []string{`{"from":"a person"}`, `{"from":"a person"}`}) {
		t.Errorf("a ran %d times, b saw %q", k.count("a"), seen)
	}
	if k.mustApply(o); k.count("a") != 1 {
		t.Errorf("in the run that follows a ran %d times", k.count("a"))
	}
}

// A collection with an instance that a person gave is due as that is.
func TestSetOfAnInstance(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "e", each: func(hcl.Upstream) hcl.Expansion {
		return hcl.Expansion{List: true, Each: []hcl.Each{{Key: json.RawMessage("0"), Value: json.RawMessage("1")}, {Key: json.RawMessage("1"), Value: json.RawMessage("2")}}}
	}}}}
	o := Options{Store: checkpoint.NewMemoryStore()}
	res, err := k.apply(context.Background(), o, RunOptions{Set: set("e[1]", `"given"`)})
	if err != nil || res.Counts.Ran != 1 || res.Counts.Supplied != 1 {
		t.Fatalf("%v, %+v", err, res)
	}
	if res := k.mustApply(o); res.Counts.Ran != 1 || res.Counts.Reused != 1 || k.count("e") != 2 {
		t.Errorf("the next run: %+v, %d calls", res.Counts, k.count("e"))
	}
	res, err = k.apply(context.Background(), o, RunOptions{Set: set("e", `["x"]`)})
	if err != nil || res.Counts.Supplied != 1 || res.Counts.Reused != 1 {
		t.Errorf("a part of the collection: %v, %+v", err, res.Counts)
	}
	for _, bad := range []map[string]json.RawMessage{set("e", `1`), set("e", `null`), set("e", `[1,2,3]`), set("e", `[1]`, "e[0]", `1`), set("none", `1`), set("e[", `1`)} {
		var usage *UsageError
		if _, err := k.apply(context.Background(), o, RunOptions{Set: bad}); !errors.As(err, &usage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// --from takes what is below with it, of followed instances those alone, and
// names the effects among them.
func TestFrom(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{
		{name: "list", each: func(hcl.Upstream) hcl.Expansion {
			return hcl.Expansion{List: true, Each: []hcl.Each{{Key: json.RawMessage("0"), Value: json.RawMessage("1")}, {Key: json.RawMessage("1"), Value: json.RawMessage("2")}}}
		}},
		{name: "follows", pair: true, refs: hard(0), eachRefs: 1},
		{name: "mail", refs: hard(1), effects: sdk.EffectsWrite},
		{name: "beside"},
	}}
	o := Options{Store: checkpoint.NewMemoryStore()}
	k.mustApply(o)
	from := RunOptions{From: []string{"list[1]"}}
	repeats, err := k.flow().Repeats(from)
	if d := cmp.Diff([]string{"step.mail"}, repeats); err != nil || d != "" {
		t.Error(err, d)
	}
	if _, err := k.apply(context.Background(), o, from); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"list": 3, "list[0]": 1, "list[1]": 2, "follows": 3, "follows[0]": 1, "follows[1]": 2, "mail": 2, "beside": 1}
	if d := cmp.Diff(want, k.counts); d != "" {
		t.Errorf("attempts in all (-want +got):\n%s", d)
	}
	if keys := k.keys["mail"]; keys[0] == keys[1] {
		t.Error("the effect was repeated under its old key")
	}
}

// An effect that a person says has happened is taken back like any other.
func TestSetIsUndone(t *testing.T) {
	t.Parallel()
	s := newSaga(t)
	res, err := s.apply(context.Background(), Options{Store: checkpoint.NewMemoryStore()}, RunOptions{Set: set("flight", `"flight by phone"`)})
	if err != nil {
		t.Fatal(err)
	}
	s.expect(t, "failed run", res, checkpoint.RunCompensated, "hotel", "pure", "undo flight", "undo hotel")
}
