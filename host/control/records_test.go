package control_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/control"
	"github.com/retrace-dev/engine/sdk"
)

// What is read at the socket is what the store says, its errors too.
func TestRecords(t *testing.T) {
	t.Parallel()
	state, store, ctx := t.TempDir(), checkpoint.NewMemoryStore(), t.Context()
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	fp := func(name string) checkpoint.Fingerprint { return checkpoint.NewHasher(name).Sum() }
	var last *checkpoint.Record
	for _, c := range []struct{ text, instance, plan, content string }{{`{"文":"🏴"}`, "", "p", "c"}, {`[1]`, `"k"`, "p2", "c"}, {`2`, "", "p3", "c3"}} {
		out, err := san.Sanitize(json.RawMessage(c.text), json.RawMessage(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		last = &checkpoint.Record{
			Head: checkpoint.Head{Step: "step.a", Instance: c.instance, Run: "r_1", Chain: "r_1", Local: fp("l"), Plan: fp(c.plan), Content: fp(c.content), Lineage: []sdk.Digest{sdk.Sum([]byte("u"))},
				Attempts: 2, Created: at, Expires: at.Add(time.Hour), Took: time.Second, Tokens: 7, Degraded: true, Facets: &checkpoint.Facets{sdk.Sum([]byte("f"))}},
			Context: checkpoint.Context{Plugin: "p", Error: &sdk.Error{Class: sdk.ClassTimeout, Message: "late", Details: json.RawMessage(`{"x":1}`)}, Usage: []sdk.Usage{{Model: "m", InputTokens: 3}},
				Upstream: []checkpoint.UpstreamDigest{{Step: "step.u", Digest: sdk.Sum([]byte("u"))}}, Producer: checkpoint.Producer{Run: "r_1", Started: at}},
		}
		b := checkpoint.NewBatch("default", "flow")
		b.PutCheckpoint(last, out)
		if _, err := store.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	text := []byte("workflow")
	b := checkpoint.NewBatch("default", "flow")
	b.PutFile(text)
	b.PutRun(&checkpoint.RunRecord{ID: "r_1", Workflow: "flow", Status: checkpoint.RunRunning, Created: at, Values: map[string]json.RawMessage{"v": json.RawMessage(`"x"`)}, Counts: map[string]int{"ran": 2}})
	b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1", Step: "step.a", Attempt: 1, Error: &sdk.Error{Class: sdk.ClassTimeout}, Started: at})
	b.PutIntent(&checkpoint.Intent{Run: "r_1", Step: "step.a", Attempt: 1, IdempotencyKey: "k", Effects: sdk.EffectsOnce, Started: at})
	if _, err := store.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	s, err := control.Listen(state, newRun(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	remote, err := control.Open(ctx, state)
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	read := func(s interface {
		checkpoint.Store
		control.Records
	}) (all []any) {
		add := func(v any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		x, err := s.Snapshot(ctx, "default", "flow")
		add(x, err)
		var heads []checkpoint.Stored
		add(nil, s.Heads(ctx, "default", func(st checkpoint.Stored) error {
			heads = append(heads, st)
			return nil
		}))
		add(heads, nil)
		add(s.Data(ctx, "default", last.Data))
		add(s.Record(ctx, "default", last.Seq))
		add(s.Run(ctx, "default", "r_1"))
		add(s.Runs(ctx, "default", ""))
		add(s.Attempts(ctx, "default", "r_1"))
		add(s.Intents(ctx, "default", "r_1"))
		add(s.File(ctx, "default", sdk.Sum(text)))
		add(s.HasBlob(ctx, "default", sdk.Sum(text)))
		return all
	}
	if d := cmp.Diff(read(store), read(remote), cmp.AllowUnexported(checkpoint.Index{}), cmpopts.EquateEmpty(), cmp.Exporter(func(t reflect.Type) bool { return t.PkgPath() == "github.com/retrace-dev/engine/checkpoint" })); d != "" {
		t.Error(d)
	}
	if _, err := remote.Record(ctx, "default", 99); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a record that is not there: %v", err)
	}
	enough := errors.New("enough")
	if err := remote.Heads(ctx, "default", func(checkpoint.Stored) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Heads: %v", err)
	}
	if _, err := remote.Commit(ctx, checkpoint.NewBatch("default", "flow")); !errors.Is(err, control.ErrReadOnly) {
		t.Errorf("Commit: %v", err)
	}
	s.Stop() // the run ends
	if _, err := remote.Runs(ctx, "default", ""); !errors.Is(err, control.ErrGone) {
		t.Errorf("after the run: %v", err)
	}
}
