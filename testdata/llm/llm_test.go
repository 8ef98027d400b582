// Package llm_test runs the triage flow against a real model in a real
// llama.cpp. It needs what "make test-llm" installs beside it.
package llm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	engine string   // the executable
	server *url.URL // of the model
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "llm")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	var stop func()
	if err == nil {
		stop, err = start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	return m.Run()
}

func build(dir string) error {
	engine = filepath.Join(dir, "engine")
	c := exec.Command("go", "build", "-o", engine, "../../cmd/engine")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// start runs the model's server on a free port until stop is called.
func start() (stop func(), err error) {
	c := exec.Command("node", "server.mjs", "--model", "tickets.gguf", "--port", "0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		stop()
		return nil, fmt.Errorf("the model's server says %q; run make test-llm, which installs it: %w", line, err)
	}
	server = &url.URL{Scheme: "http", Host: address}
	return stop, nil
}

// ticket of the evaluation, with what a person says of it.
type ticket struct{ text, label, urgency string }

func evaluation(t *testing.T) (ts []ticket) {
	t.Helper()
	b, err := os.ReadFile("eval.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][3]string
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		ts = append(ts, ticket{r[0], r[1], r[2]})
	}
	return ts
}

// desk is a copy of the triage flow with a counted way to the model.
type desk struct {
	dir    string
	before func(prompt string) // called with each question before it is passed on

	mu    sync.Mutex
	asked map[string]int // by prompt
}

// newDesk makes one whose flow is the example's, with the given changes.
func newDesk(t *testing.T, tickets []ticket, changes ...string) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir(), asked: map[string]int{}, before: func(string) {}}
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // the engine was killed
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q struct {
			Messages []struct{ Content string } `json:"messages"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		prompt := q.Messages[0].Content
		d.mu.Lock()
		d.asked[prompt]++
		d.mu.Unlock()
		d.before(prompt)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	flow, err := os.ReadFile("../flows/triage/flow.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for k, changes := 0, append(changes, "http://127.0.0.1:8085", s.URL); k < len(changes); k += 2 {
		if !bytes.Contains(flow, []byte(changes[k])) {
			t.Fatalf("the flow does not say %q", changes[k])
		}
		flow = bytes.ReplaceAll(flow, []byte(changes[k]), []byte(changes[k+1]))
	}
	texts := make([]string, len(tickets))
	for i := range tickets {
		texts[i] = tickets[i].text
	}
	list, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"flow.hcl": flow, "tickets.json": list} {
		if err := os.WriteFile(filepath.Join(d.dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *desk) command(t *testing.T, verb string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), engine, append([]string{verb}, args...)...)
	c.Dir = d.dir
	return c
}

// apply runs the flow and gives its events.
func (d *desk) apply(t *testing.T, vars ...string) ([]event, error) {
	t.Helper()
	args := []string{"--json", "-var", "tickets=@tickets.json"}
	for _, v := range vars {
		args = append(args, "-var", v)
	}
	c := d.command(t, "apply", args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	return parse(out), err
}

func parse(out []byte) (events []event) {
	for line := range strings.Lines(string(out)) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil { // a killed engine leaves half a line
			events = append(events, e)
		}
	}
	return events
}

// event of a run, as far as these tests look.
type event struct {
	Type    string `json:"type"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Error   *struct {
		Class, Code, Message string
		Details              struct {
			Answer       *string `json:"answer"`
			FinishReason string  `json:"finish_reason"`
		} `json:"details"`
	} `json:"error"`
	Usage []struct {
		Calls, Counted int64
		Input          int64 `json:"input_tokens"`
		Output         int64 `json:"output_tokens"`
	} `json:"usage"`
}

// attempts counts those of instances, by how they ended.
func attempts(events []event) (started int, ended map[string]int) {
	ended = map[string]int{}
	for _, e := range events {
		if !strings.Contains(e.Step, "[") {
			continue
		}
		if e.Type == "started" {
			started++
			continue
		}
		ended[e.Type]++
	}
	return started, ended
}

func (d *desk) requests() (all int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.asked {
		all += n
	}
	return all
}

type verdict struct{ Label, Urgency string }

// answers reads the output of the flow.
func (d *desk) answers(t *testing.T) (vs []verdict) {
	t.Helper()
	out, err := d.command(t, "output", "answers", "--raw").Output()
	if err == nil {
		err = json.Unmarshal(out, &vs)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return vs
}
