package host

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// planted is a secret with characters that encoders treat in different ways.
const planted = "pläntet/+sec\"ret&<x>\nsecond-line-of-it"

// encodings are the forms in which programs hand a secret on.
func encodings(v string) []string {
	asJSON, _ := json.Marshal(v)
	plain, _ := sdk.Marshal(v)
	return []string{
		v, strings.ToUpper(v), "Bearer " + strings.ReplaceAll(v, "/", "_"),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte("user:" + v)),
		hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))),
		url.QueryEscape(v), url.PathEscape(v), string(asJSON[1 : len(asJSON)-1]), string(plain[1 : len(plain)-1]),
		strings.Split(v, "\n")[1],
	}
}

// leaks are the parts of the encodings that must stand nowhere: each by itself
// says what the secret is.
func leaks(v string) (out []string) {
	for _, e := range encodings(v) {
		e = strings.TrimPrefix(e, "Bearer ")
		for _, line := range strings.Split(e, "\n") {
			if len(line) > 12 && !strings.HasPrefix(line, "dXNlcj") {
				out = append(out, line)
			}
		}
	}
	return append(out, base64.RawURLEncoding.EncodeToString([]byte("user:" + v))[12:40])
}

// telltale is a plugin that says what it was given in every way there is.
type telltale struct {
	run func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error)
}

func (l *telltale) Open(string) (*loader.Artifact, error)                         { return sceneArtifact, nil }
func (l *telltale) Load(context.Context, *loader.Artifact) (loader.Plugin, error) { return l, nil }
func (l *telltale) Close() error                                                  { return nil }
func (l *telltale) Step(string, loader.Limits) (sdk.Step, error)                  { return sdk.StepFunc(l.run), nil }

// everything is all that a store holds of a workflow, and what it was asked to
// show.
func everything(t *testing.T, store checkpoint.Store, workflow string) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	put := func(v any) {
		text, err := sdk.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	runs, err := store.Runs(ctx, DefaultTenant, workflow)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		put(r)
		attempts, err := store.Attempts(ctx, DefaultTenant, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		intents, err := store.Intents(ctx, DefaultTenant, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		put(attempts)
		put(intents)
	}
	index, err := store.Snapshot(ctx, DefaultTenant, workflow)
	if err != nil {
		t.Fatal(err)
	}
	for h := range index.Heads() {
		rec, err := store.Record(ctx, DefaultTenant, h.Seq)
		if err != nil {
			t.Fatal(err)
		}
		put(rec)
		if h.Outcome == checkpoint.Succeeded {
			data, err := store.Data(ctx, DefaultTenant, h.Data)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(data)
		}
	}
	return b.String()
}

func unquoted(s string) string { return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(s) }

// TestNoSecretLeaves: a step that says its secret in twelve encodings, in every
// way a step can say something and cut at every byte, tells it to nobody.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	const flow = `
workflow "w" {
  on_failure = compensate
}
secret "key" { env = "KEY" }
variable "mail" {
  sensitive = true
  default   = "somebody@mail.example"
}
plugin "p" {
  source = "./p.wasm"
  config = { key = secret.key }
}
locals { shout = upper(secret.key) }
step "tell" {
  uses    = plugin.p.mail
  input   = { v = secret.key, shout = local.shout, header = "Bearer ${replace(secret.key, "/", "_")}", mail = var.mail, plain = "shown" }
  retry {
    on    = [unavailable]
    delay = "0s"
  }
  compensate {
    uses  = plugin.p.other
    input = { was = self.input.v, out = self.output }
  }
}
step "last" {
  uses  = plugin.p.echo
  input = { v = step.tell.output }
}
step "fail" {
  uses       = plugin.p.echo
  input      = { v = secret.key, fail = true }
  depends_on = [step.last]
}
output "all" { value = step.last.output }
`
	said := strings.Join(encodings(planted), " | ")
	var mu sync.Mutex
	var seen []string
	tell := &telltale{}
	tell.run = func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
		mu.Lock()
		seen = append(seen, string(req.Input), string(req.Config))
		mu.Unlock()
		op := func(v any) {
			msg, err := sdk.Marshal(v)
			if err == nil {
				_, err = h.Call(ctx, msg)
			}
			if err != nil {
				t.Error(err)
			}
		}
		op(map[string]any{"op": "log", "level": "warn", "message": said, "fields": map[string]any{said: []string{said}}})
		op(map[string]any{"op": "progress", "fraction": 0.5, "message": said})
		for _, r := range said {
			op(map[string]any{"op": "emit", "chunk": string(r)})
		}
		op(map[string]any{"op": "usage", "model": said, "calls": 1})
		if req.Step == "step.tell" && req.Attempt == 1 || strings.Contains(string(req.Input), `"fail":true`) {
			class := sdk.ClassUnavailable
			if req.Step == "step.fail" {
				class = sdk.ClassInvalidInput
			}
			return nil, &sdk.Error{Class: class, Code: said, Message: said, Stderr: said, Path: "/" + said}
		}
		out, err := sdk.Marshal(map[string]any{said: said, "list": encodings(planted), "plain": "shown"})
		context, _ := sdk.Marshal(map[string]any{"prompt": said})
		return &sdk.Response{Output: out, Context: context, Warnings: []sdk.Warning{{Message: said}}}, err
	}
	store := checkpoint.NewMemoryStore()
	wf, diags := hcl.Parse([]hcl.File{{Path: "flow.hcl", Bytes: []byte(flow)}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	f, diags := Compile(wf, ".", []loader.Loader{tell})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	values, diags := wf.Bind(hcl.BindOptions{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	rec := &recorder{}
	h, err := New(Options{Store: store, Observer: rec, Environ: []string{"KEY=" + planted}, Key: []byte("key")})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Apply(context.Background(), f, values, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Run.Status != checkpoint.RunCompensated {
		t.Fatalf("the run %s: %+v", res.Run.Status, res.Failures)
	}
	if given := strings.Join(seen, "\n"); !strings.Contains(given, `"Bearer pläntet_`) || !strings.Contains(given, `"key":"pläntet/`) || strings.Count(given, "somebody@mail") != 2 {
		t.Fatalf("the step did not get what it was to leak: %s", given)
	}
	result, _ := sdk.Marshal(res)
	events, _ := sdk.Marshal(rec.events)
	for where, text := range map[string]string{"the store": everything(t, store, "w"), "the result": string(result), "the events": string(events)} {
		for _, leak := range append(leaks(planted), "somebody@mail") {
			if strings.Contains(text, leak) || strings.Contains(unquoted(text), leak) {
				i := max(strings.Index(text, leak), 0)
				t.Errorf("%s holds %q: …%.300s…", where, leak, text[max(i-150, 0):])
			}
		}
		if !strings.Contains(text, "(secret key)") && where != "the result" {
			t.Errorf("%s holds nothing that was masked", where)
		}
	}
	var emitted strings.Builder
	for _, e := range rec.events {
		if e.Type == EventEmit {
			emitted.WriteString(e.Message)
		}
	}
	for _, leak := range leaks(planted) {
		if strings.Contains(emitted.String(), leak) {
			t.Errorf("the chunks make %q", leak)
		}
	}
}

// vault applies flows with secrets from an environment and files.
type vault struct {
	t       *testing.T
	store   checkpoint.Store
	environ []string
	dir     string
	network *operation.Network
	telltale

	mu    sync.Mutex
	calls []string // address and what it received
}

func newVault(t *testing.T) *vault {
	v := &vault{t: t, store: checkpoint.NewMemoryStore(), dir: t.TempDir()}
	v.run = func(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		v.called(req)
		return &sdk.Response{Output: json.RawMessage(`"done"`)}, nil
	}
	return v
}

func (v *vault) called(req *sdk.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = append(v.calls, fmt.Sprintf("%s %s %s", req.Step, req.Input, req.Config))
}

func (v *vault) apply(flow string) (*Result, error) {
	v.t.Helper()
	wf, diags := hcl.Parse([]hcl.File{{Path: "flow.hcl", Bytes: []byte("workflow \"w\" {}\n" + flow)}})
	if diags.HasErrors() {
		v.t.Fatal(diags)
	}
	f, diags := Compile(wf, v.dir, []loader.Loader{v})
	if diags.HasErrors() {
		v.t.Fatal(diags)
	}
	values, diags := wf.Bind(hcl.BindOptions{})
	if diags.HasErrors() {
		v.t.Fatal(diags)
	}
	h, err := New(Options{Store: v.store, Environ: v.environ, Key: []byte("key"), Network: v.network})
	if err != nil {
		v.t.Fatal(err)
	}
	return h.Apply(context.Background(), f, values, RunOptions{})
}

// ran applies a flow that succeeds, and compares the calls.
func (v *vault) ran(flow string, want ...string) {
	v.t.Helper()
	res, err := v.apply(flow)
	if err != nil || res.Run.Status != checkpoint.RunSucceeded {
		v.t.Fatalf("%v %+v", err, res)
	}
	got := v.calls
	v.calls = nil
	if !slices.Equal(got, want) {
		v.t.Fatalf("calls %q, want %q", got, want)
	}
}

func (v *vault) file(name, text string) {
	v.t.Helper()
	if err := os.WriteFile(filepath.Join(v.dir, name), []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// TestRotation: another value of a secret is the same computation, unless the
// flow says that it is another.
func TestRotation(t *testing.T) {
	t.Parallel()
	const flow = `
plugin "p" {
  source = "./p.wasm"
  config = { key = secret.key }
}
secret "key" { env = "KEY" }
secret "file" { file = "key.txt" }
step "a" {
  uses  = plugin.p.echo
  input = { v = "Bearer ${secret.key}", file = secret.file, n = 1 }
  check {
    uses  = plugin.p.judge
    input = { key = secret.key, answer = self.output }
  }
}
`
	v := newVault(t)
	judged := v.run
	v.run = func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
		if req.StepType == "judge" {
			return &sdk.Response{Output: json.RawMessage(`{"ok":true}`)}, nil
		}
		return judged(ctx, req, h)
	}
	v.environ = []string{"KEY=first-value"}
	v.file("key.txt", "first-file\r\n")
	v.ran(flow, `step.a {"file":"first-file","n":1,"v":"Bearer first-value"} {"key":"first-value"}`)
	v.environ = []string{"KEY=other-value"}
	v.file("key.txt", "other-file")
	v.ran(flow)
	v.ran(strings.Replace(flow, "Bearer", "Token", 1), `step.a {"file":"other-file","n":1,"v":"Token other-value"} {"key":"other-value"}`)
	v.ran(flow)

	marked := strings.Replace(flow, `file = "key.txt"`, "file = \"key.txt\"\n  fingerprint = true\n", 1)
	marked = strings.Replace(marked, `secret "file" {`, "secret \"file\" {\n", 1)
	want := `step.a {"file":"%s","n":1,"v":"Bearer other-value"} {"key":"other-value"}`
	v.ran(marked, fmt.Sprintf(want, "other-file"))
	v.ran(marked)
	v.file("key.txt", "third-file")
	v.ran(marked, fmt.Sprintf(want, "third-file"))
	v.file("key.txt", "other-file")
	v.ran(marked)
}

// TestActionGivesSecret: an action runs when its secret is first needed, once
// for all, and again before an attempt whose retry names it; config and input
// are those of the attempt. What is reused needs no secret.
func TestActionGivesSecret(t *testing.T) {
	t.Parallel()
	const flow = `
plugin "login" { source = "./p.wasm" }
plugin "p" {
  source = "./p.wasm"
  config = { token = secret.token }
}
secret "user" { env = "USER_NAME" }
secret "token" {
  action = action.login
  path   = "data.token"
}
action "login" {
  uses  = plugin.login.echo
  input = { user = secret.user }
}
step "a" {
  uses  = plugin.p.echo
  input = { v = secret.token, n = attempt.number }
  retry {
    on     = [unauthorized]
    delay  = "0s"
    before = action.login
  }
}
step "b" {
  uses       = plugin.p.echo
  input      = { v = step.a.output }
}
`
	v := newVault(t)
	v.environ = []string{"USER_NAME=somebody-else"}
	logins := 0
	v.run = func(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		v.called(req)
		switch {
		case req.Step == "action.login":
			logins++
			return &sdk.Response{Output: json.RawMessage(fmt.Sprintf(`{"data":{"token":"token-number-%d"}}`, logins))}, nil
		case req.Step == "step.a" && req.Attempt == 1:
			return nil, &sdk.Error{Class: sdk.ClassUnauthorized, Message: "token-number-1 has expired"}
		}
		return &sdk.Response{Output: json.RawMessage(`"done with token-number-2"`)}, nil
	}
	v.ran(flow,
		`action.login {"user":"somebody-else"} {}`,
		`step.a {"n":1,"v":"token-number-1"} {"token":"token-number-1"}`,
		`action.login {"user":"somebody-else"} {}`,
		`step.a {"n":2,"v":"token-number-2"} {"token":"token-number-2"}`,
		`step.b {"v":"done with (secret token)"} {"token":"token-number-2"}`)
	if text := everything(t, v.store, "w"); strings.Contains(text, "token-number") || strings.Contains(text, "somebody-else") {
		t.Errorf("a token is stored: %s", text)
	}
	v.ran(flow)
	if logins != 2 {
		t.Errorf("the action ran %d times", logins)
	}
	v.run = func(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		return &sdk.Response{Output: json.RawMessage(`{"data":{"tok":1}}`)}, nil
	}
	res, err := v.apply(strings.Replace(flow, `"data.token"`, `"data.nothing"`, 1) + "step \"c\" {\n uses = plugin.p.echo\n input = { x = 1 }\n}\n")
	if err != nil || res.Run.Status != checkpoint.RunFailed || !strings.Contains(res.Failures[0].Error.Message, `no text at "data.nothing", which secret.token is to be`) {
		t.Errorf("%v %+v", err, res)
	}
}

// TestBoundSecret: a step never sees a bound secret, and has it injected where it
// may go and nowhere else; not if it does not name it.
func TestBoundSecret(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you sent %s, and %s is not yours", r.Header.Get("Authorization"), "open-and-unbound")
	}))
	defer server.Close()
	address := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	v := newVault(t)
	v.network = operation.NewNetwork(operation.NetworkOptions{})
	defer v.network.Close()
	v.environ = []string{"KEY=bound-and-hidden", "OPEN=open-and-unbound"}
	flow := fmt.Sprintf(`
plugin "p" {
  source = "./p.wasm"
  sandbox {
    allow_hosts = [%q]
  }
}
secret "key" {
  env   = "KEY"
  hosts = [%[1]q]
}
secret "open" { env = "OPEN" }
step "names" {
  uses  = plugin.p.echo
  input = { url = %[1]q, auth = { token = secret.key }, open = [secret.open] }
}
step "guesses" {
  uses       = plugin.p.echo
  input      = { url = %[1]q }
  depends_on = [step.names]
}
`, address)
	v.run = func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
		v.called(req)
		msg, _ := sdk.Marshal(map[string]any{"op": "http", "url": address, "secrets": []any{map[string]any{"name": "key", "header": "Authorization", "prefix": "Bearer "}}})
		reply, err := h.Call(ctx, msg)
		if err != nil {
			return nil, err
		}
		return sdk.Output(string(reply))
	}
	res, err := v.apply(flow)
	if err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v %+v", err, res)
	}
	if want := []string{
		fmt.Sprintf(`step.names {"auth":{"token":{"$secret":"key"}},"open":["open-and-unbound"],"url":%q} {}`, address),
		fmt.Sprintf(`step.guesses {"url":%q} {}`, address),
	}; !slices.Equal(v.calls, want) {
		t.Errorf("calls %q, want %q", v.calls, want)
	}
	text := everything(t, v.store, "w")
	for want, there := range map[string]bool{"you sent Bearer (secret key), and (secret open) is not yours": true, "there is no bound secret": true, "bound-and-hidden": false, "open-and-unbound": false} {
		if strings.Contains(text, want) != there {
			t.Errorf("%q is there: %v\n%s", want, !there, text)
		}
	}
}

// TestMissingSecret: nothing runs without what it needs, and the message says
// what to set; what is optional is null, what nothing names is not looked for.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	const flow = `
plugin "p" { source = "./p.wasm" }
secret "a" { env = "NOT_SET" }
secret "b" { file = "nowhere.txt" }
secret "c" { env = "EMPTY" }
secret "unused" { env = "NOBODY" }
step "s" {
  uses  = plugin.p.echo
  input = { a = secret.a, b = secret.b, c = secret.c }
}
`
	v.environ = []string{"EMPTY="}
	_, err := v.apply(flow)
	var diags hcl.Diagnostics
	if !errors.As(err, &diags) || len(diags) != 3 || len(v.calls) > 0 {
		t.Fatalf("%v, %d calls", err, len(v.calls))
	}
	for i, want := range []string{"environment variable NOT_SET, which is not set or empty; set it", "no such file", "environment variable EMPTY"} {
		if d := diags[i]; d.Code != "missing-secret" || !strings.Contains(d.Detail, want) || d.Subject.IsZero() {
			t.Errorf("%+v, want %q", d, want)
		}
	}
	optional := flow
	for _, source := range []string{`env = "NOT_SET"`, `file = "nowhere.txt"`, `env = "EMPTY"`} {
		optional = strings.Replace(optional, "{ "+source+" }", "{\n  "+source+"\n  optional = true\n}", 1)
	}
	v.ran(optional, `step.s {"a":null,"b":null,"c":null} {}`)
}

// TestSchemaHidesSecrets: what a schema says of a sensitive attribute shows no
// part of it, whatever was computed.
func TestSchemaHidesSecrets(t *testing.T) {
	t.Parallel()
	s, err := compileSchema(json.RawMessage(`{"properties":{"a/b":{"pattern":"^x"},"plain":{"pattern":"^x"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	input := json.RawMessage(`{"a/b":"hidden","plain":"shown"}`)
	for _, hide := range [][]string{{"a/b"}, {""}} {
		e := fits(s, input, sdk.ClassInvalidInput, "the input", hide...)
		if strings.Contains(e.Message, "hidden") || strings.Contains(e.Message, "shown") != (hide[0] != "") || !strings.Contains(e.Message, "at /a~1b") {
			t.Errorf("%q hidden: %s", hide, e.Message)
		}
	}
}

// TestShortSecret: a secret that stands in too many texts is not looked for, and
// its owner is told once.
func TestShortSecret(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	f := &Flow{wf: &hcl.Workflow{Secrets: []hcl.Secret{{Name: "short", Env: "S", Action: -1}}, Plugins: []hcl.Plugin{{Secrets: []int{0}}}}}
	s, diags := newSecrets(f, &Options{Environ: []string{"S=8080"}, Logger: hclog.New(&hclog.LoggerOptions{Output: &told})})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if err := s.learn(0, "9090", "empty"); err != nil {
		t.Fatal(err)
	}
	if got := s.redactor().Text("port 8080 or 9090"); got != "port 8080 or 9090" || strings.Count(told.String(), "too short") != 1 || strings.Contains(told.String(), "8080") {
		t.Errorf("%q, told %q", got, told.String())
	}
	s.derived(0, "QUITE LONG")
	s.derived(0, "SHORT")
	if got := s.redactor().Text("QUITE LONG and SHORT"); got != "(secret short) and SHORT" {
		t.Errorf("%q", got)
	}
	for n := range 2 * maxDerived {
		s.derived(0, fmt.Sprintf("derived text %d", n))
	}
	if len(s.texts) != maxDerived || strings.Count(told.String(), "too many texts") != 1 {
		t.Errorf("%d texts, told %q", len(s.texts), told.String())
	}
	if err := s.learn(0, strings.Repeat("x", maxSecret+1), "empty"); err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("%v", err)
	}
	if err := s.learn(0, "\xff", "empty"); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("%v", err)
	}
}
