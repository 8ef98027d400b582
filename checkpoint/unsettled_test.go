package checkpoint_test

import (
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// An attempt with effects is settled by a result of its step since, in the run or one
// that follows it, or by an error that says that nothing happened.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	runs := []*checkpoint.RunRecord{{ID: "r_2", Chain: "r_1"}, {ID: "r_1", Chain: "r_1"}, {ID: "r_9", Chain: "r_9"}}
	result := func(run, step, instance string, sec checkpoint.Seq) checkpoint.Stored {
		return checkpoint.Stored{Workflow: "flow", Head: &checkpoint.Head{Step: step, Instance: instance, Run: checkpoint.RunID(run), Created: at(sec)}}
	}
	intent := func(run, instance, key string, attempt int, sec checkpoint.Seq) *checkpoint.Intent {
		return &checkpoint.Intent{Run: checkpoint.RunID(run), Step: "step.a", Instance: instance, Attempt: attempt, IdempotencyKey: key, Started: at(sec)}
	}
	failed := func(attempt int, class sdk.Class) *checkpoint.AttemptRecord {
		return &checkpoint.AttemptRecord{Run: "r_1", Step: "step.a", Attempt: attempt, Error: &sdk.Error{Class: class}}
	}
	type (
		stored   = []checkpoint.Stored
		intents  = []*checkpoint.Intent
		attempts = []*checkpoint.AttemptRecord
	)
	for name, c := range map[string]struct {
		records  stored
		intents  intents
		attempts attempts
		want     int
	}{
		"its end was not seen":                     {nil, intents{intent("r_1", "", "k", 1, 5)}, nil, 1},
		"it succeeded":                             {stored{result("r_1", "step.a", "", 6)}, intents{intent("r_1", "", "k", 1, 5)}, nil, 0},
		"it succeeded before, and was asked for":   {stored{result("r_1", "step.a", "", 4)}, intents{intent("r_1", "", "k", 1, 5)}, nil, 1},
		"another step succeeded":                   {stored{result("r_1", "step.b", "", 6)}, intents{intent("r_1", "", "k", 1, 5)}, nil, 1},
		"another instance succeeded":               {stored{result("r_1", "step.a", "0", 6)}, intents{intent("r_1", "1", "k", 1, 5)}, nil, 1},
		"it succeeded in a run that follows":       {stored{result("r_2", "step.a", "", 9)}, intents{intent("r_1", "", "k", 1, 5)}, nil, 0},
		"it succeeded in a run of its own":         {stored{result("r_9", "step.a", "", 9)}, intents{intent("r_1", "", "k", 1, 5)}, nil, 1},
		"it said that it failed":                   {nil, intents{intent("r_1", "", "k", 1, 5)}, attempts{failed(1, sdk.ClassInvalidInput)}, 0},
		"it timed out":                             {nil, intents{intent("r_1", "", "k", 1, 5)}, attempts{failed(1, sdk.ClassTimeout)}, 1},
		"it timed out, and failed the next time":   {nil, intents{intent("r_1", "", "k", 1, 5), intent("r_1", "", "k", 2, 6)}, attempts{failed(1, sdk.ClassTimeout), failed(2, sdk.ClassInvalidInput)}, 0},
		"another one took its key and succeeded":   {stored{result("r_2", "step.a", "3", 9)}, intents{intent("r_1", "1", "k", 1, 5), intent("r_2", "3", "k", 1, 8)}, nil, 0},
		"another one took its key and was cut off": {nil, intents{intent("r_1", "1", "k", 1, 5), intent("r_2", "3", "k", 1, 8)}, nil, 2},
	} {
		if got := checkpoint.Unsettled(c.records, runs, c.intents, c.attempts); len(got) != c.want {
			t.Errorf("%s: %d are unsettled, want %d", name, len(got), c.want)
		}
	}
}
