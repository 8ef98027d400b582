package llm_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTriage: the model answers nearly all tickets as people do, each for one
// request, and what was answered is not asked again.
func TestTriage(t *testing.T) {
	t.Parallel()
	tickets := evaluation(t)[:40]
	d := newDesk(t, tickets)
	events, err := d.apply(t)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i, v := range d.answers(t) {
		if v == (verdict{tickets[i].label, tickets[i].urgency}) {
			right++
		} else {
			t.Logf("%q is %v, say people: %s, %s", tickets[i].text, v, tickets[i].label, tickets[i].urgency)
		}
	}
	if right < 38 {
		t.Errorf("%d of 40 tickets are right, want at least 38", right)
	}
	started, ended := attempts(events)
	if started != 40 || ended["succeeded"] != 40 || d.requests() != 40 {
		t.Errorf("%d requests, %d attempts, ended as %v; want 40 of each", d.requests(), started, ended)
	}
	for _, e := range events {
		if e.Type == "succeeded" && strings.Contains(e.Step, "[") {
			if len(e.Usage) != 1 || e.Usage[0].Calls != 1 || e.Usage[0].Counted != 1 || e.Usage[0].Input == 0 || e.Usage[0].Output == 0 {
				t.Errorf("%s: usage %+v", e.Step, e.Usage)
			}
		}
	}
	if _, err := d.apply(t); err != nil || d.requests() != 40 {
		t.Errorf("applied again: %d requests, %v", d.requests(), err)
	}
}

// TestKilledInTheMiddle: after kill -9 no ticket whose answer is safe is asked
// again, and the answers are those of a run that nobody killed.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	tickets := evaluation(t)[:40]
	d := newDesk(t, tickets)
	c := d.command(t, "apply", "-var", "tickets=@tickets.json", "--json")
	kill := sync.OnceFunc(func() { _ = c.Process.Kill() })
	d.before = func(string) {
		if d.requests() >= 20 {
			kill()
		}
	}
	out, err := c.Output()
	if err == nil || c.ProcessState.ExitCode() != -1 {
		t.Fatalf("the engine was not killed: %v", err)
	}
	d.before = func(string) {}
	safe := persisted(t, parse(out), tickets)
	if len(safe) == 0 || len(safe) >= 40 {
		t.Fatalf("%d answers were safe when the engine was killed; the test is void", len(safe))
	}
	before := d.requests()
	events, err := d.apply(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range safe {
		if n := d.asked[prompt]; n != 1 {
			t.Errorf("%q was answered, and asked %d times", prompt, n)
		}
	}
	started, _ := attempts(events)
	if again := d.requests() - before; again != started || again > 40-len(safe) {
		t.Errorf("%d of 40 answers were safe; %d requests and %d attempts followed", len(safe), again, started)
	}
	whole := newDesk(t, tickets)
	if _, err := whole.apply(t); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole.answers(t), d.answers(t)); d != "" {
		t.Errorf("the answers (-whole +killed):\n%s", d)
	}
}

// persisted are the prompts whose answers survive.
func persisted(t *testing.T, events []event, tickets []ticket) (prompts []string) {
	t.Helper()
	for _, e := range events {
		var k int
		if e.Type != "persisted" {
			continue
		}
		if _, err := fmt.Sscanf(e.Step, "step.triage[%d]", &k); err != nil {
			t.Fatalf("%s: %v", e.Step, err)
		}
		prompts = append(prompts, "classify: "+tickets[k].text)
	}
	return prompts
}

// TestTruncated: half an answer is none, though it comes with status 200. It is
// kept for people and never for steps.
func TestTruncated(t *testing.T) {
	t.Parallel()
	d := newDesk(t, evaluation(t)[:3])
	events, err := d.apply(t, "max_tokens=8", "structured=none")
	if err == nil {
		t.Error("the run succeeded")
	}
	failures := failed(events)
	if len(failures) != 3 || d.requests() != 3 {
		t.Fatalf("%d failures after %d requests, want 3 of each", len(failures), d.requests())
	}
	for _, e := range failures {
		if e.Error.Class != "truncated" || e.Error.Details.FinishReason != "length" || e.Error.Details.Answer == nil || !strings.HasPrefix(*e.Error.Details.Answer, `{"label`) {
			t.Errorf("%s: %+v", e.Step, e.Error)
		}
	}
}

// TestHot: a model that is too hot answers nonsense, and none of it gets
// through; the model is then asked again, told what was wrong.
func TestHot(t *testing.T) {
	t.Parallel()
	d := newDesk(t, evaluation(t)[:5], "seed = 7,", "seed = 7, top_p = 1,", "on           = [timeout,", "on           = [validation, truncated, timeout,", "max_attempts = 3", "max_attempts = 2")
	events, err := d.apply(t, "temperature=2", "structured=none")
	if err == nil {
		t.Error("the run succeeded")
	}
	started, ended := attempts(events)
	if d.requests() != started || ended["attempt_failed"] == 0 {
		t.Errorf("%d requests, %d attempts, ended as %v", d.requests(), started, ended)
	}
	failures := failed(events)
	if len(failures) == 0 {
		t.Fatal("nothing failed")
	}
	for _, e := range failures {
		if e.Error.Class != "validation" && e.Error.Class != "truncated" || e.Error.Details.Answer == nil {
			t.Errorf("%s: %+v", e.Step, e.Error)
		}
	}
}

// TestTooLong: what does not fit the model is said so, and not tried twice.
func TestTooLong(t *testing.T) {
	t.Parallel()
	d := newDesk(t, []ticket{{text: strings.Repeat("the app crashes on start ", 50)}})
	events, err := d.apply(t)
	if err == nil {
		t.Error("the run succeeded")
	}
	failures := failed(events)
	if len(failures) != 1 || failures[0].Error.Class != "invalid_input" || failures[0].Error.Code != "context_length" || d.requests() != 1 {
		t.Errorf("%+v after %d requests", failures, d.requests())
	}
}

// failed are the instances that failed for good.
func failed(events []event) (es []event) {
	for _, e := range events {
		if e.Type == "failed" && e.Error != nil && strings.Contains(e.Step, "[") {
			es = append(es, e)
		}
	}
	return es
}
