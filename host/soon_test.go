package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// batches is a store that notes what is committed.
type batches struct {
	*checkpoint.MemoryStore
	mu  sync.Mutex
	all []string
}

func (s *batches) Commit(ctx context.Context, b *checkpoint.Batch) (checkpoint.Seq, error) {
	text := ""
	for i := range b.Items {
		switch it := &b.Items[i]; it.Kind() {
		case checkpoint.KindCheckpoint:
			text += "result of " + it.Checkpoint.Step
		case checkpoint.KindIntent:
			text += "intent of " + it.Intent.Step
		case checkpoint.KindAttempt:
			text += "attempt of " + it.Attempt.Step
		case checkpoint.KindRun:
			text += "run"
		case checkpoint.KindFile:
		}
	}
	if b.Soon {
		text += ", soon"
	}
	s.mu.Lock()
	s.all = append(s.all, text)
	s.mu.Unlock()
	return s.MemoryStore.Commit(ctx, b)
}

// The result of a step with effects and the intents of those below it are one
// sync, and nothing waits for an intent that does not come.
func TestIntentsJoinTheResultAbove(t *testing.T) {
	t.Parallel()
	write := sdk.EffectsWrite
	for _, c := range []struct {
		name  string
		steps []fakeStep
		want  []string
	}{
		{"chain", []fakeStep{{name: "a", effects: write}, {name: "b", refs: hard(0), effects: write}, {name: "c", refs: hard(1), effects: write}},
			[]string{"run", "intent of step.a", "result of step.a, soon", "intent of step.b", "result of step.b, soon", "intent of step.c", "result of step.c, soon", "", "run"}},
		{"a pure one below waits for the sync alone", []fakeStep{{name: "a", effects: write}, {name: "b", refs: hard(0)}},
			[]string{"run", "intent of step.a", "result of step.a, soon", "", "result of step.b", "run"}},
		{"a pure one above", []fakeStep{{name: "a"}, {name: "b", refs: hard(0), effects: write}},
			[]string{"run", "result of step.a", "intent of step.b", "result of step.b, soon", "", "run"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := &batches{MemoryStore: checkpoint.NewMemoryStore()}
			k := &fake{tb: t, steps: c.steps, run: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) { return hashAnswer(req) }}
			k.mustApply(Options{Store: store})
			if !slices.Equal(store.all, c.want) {
				t.Errorf("committed %s\nwant      %s", fmt.Sprintf("%q", store.all), fmt.Sprintf("%q", c.want))
			}
		})
	}
}
