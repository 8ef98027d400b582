package hcl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// hiddenValue is what no message may show, nor any part of it of this length.
const hiddenValue = "Zq9Xw7Vt5Rk3"

func told(ds Diagnostics) string { return string(ds.JSON(nil)) + ds.Error() }

func showsHidden(text string) bool {
	text = strings.ToLower(text)
	for i := 0; i+4 <= len(hiddenValue); i++ {
		if strings.Contains(text, strings.ToLower(hiddenValue[i:i+4])) {
			return true
		}
	}
	return strings.Contains(text, "3kr5tv7wx9qz")
}

// TestFunctionsHideSensitive calls every function with a sensitive argument at
// every place, of every kind and beside arguments of every kind: whatever they
// say of it, nothing shows it.
func TestFunctionsHideSensitive(t *testing.T) {
	t.Parallel()
	values := []string{"var.s", "[var.s]", "{ k = var.s }", "{ (var.s) = 1 }", "local.s", "[for x in [var.s] : x]", "\"a ${var.s}\"", "secret.s", "local.parts[0]", "var.many"}
	others := []string{`"a"`, "1", "null", "[]", "{}", "true", "[1, \"a\"]"}
	calls, failed := 0, 0
	w, e := mustEvaluator(t, `
variable "s" { sensitive = true }
variable "many" {
  type      = list(string)
  sensitive = true
  default   = ["x`+hiddenValue+`", "`+hiddenValue+`"]
}
secret "s" { env = "S" }
locals {
  s     = var.s
  parts = split("x", "${secret.s}x${var.s}")
}
step "a" { uses = plugin.p.run }
`, "s="+hiddenValue)
	e.run.Secret = func(int) (string, bool, error) { return hiddenValue, true, nil }
	for _, name := range functionNames() {
		if name == "nonsensitive" {
			continue
		}
		most := 3
		if f := functions[name]; f != nil && f.impl.VarParam() == nil {
			most = len(f.impl.Params())
		}
		for n := 1; n <= most; n++ {
			for at := range n {
				for _, v := range values {
					for _, other := range others {
						args := slices.Repeat([]string{other}, n)
						args[at] = v
						if name == "convert" {
							args = []string{v, []string{"number", "list(number)", "object({ a = string })"}[n-1]}
						}
						text := fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
						ds, fits := evaluated(t, w, e, text)
						calls++
						if !fits {
							failed++
						}
						if out := told(ds); showsHidden(out) {
							t.Errorf("%s: %s", text, out)
						}
					}
				}
			}
		}
	}
	if calls < 1000 || failed < calls/4 || failed == calls {
		t.Errorf("%d calls, of which %d failed", calls, failed)
	}
}

// evaluated compiles one expression into a program and evaluates it in every way
// there is; fits says whether it has a value.
func evaluated(t *testing.T, w *Workflow, e *Evaluator, text string) (all Diagnostics, fits bool) {
	t.Helper()
	x, ds := expressionOf(w.impl, text)
	if ds.HasErrors() {
		return ds, false
	}
	_, ds = e.frame(evaluating, Scope{}).value(x)
	fits = !ds.HasErrors()
	all = append(all, ds...)
	_, ds = e.json(x, Scope{})
	all = append(all, ds...)
	_, ds = e.object(x, "input", Scope{})
	all = append(all, ds...)
	_, ds = e.holds(rule{x, x}, Scope{})
	all = append(all, ds...)
	if got := e.complaint(rule{x, x}, Scope{}); showsHidden(got) {
		t.Errorf("%s as a message: %s", text, got)
	}
	return all, fits
}

func expressionOf(p *program, text string) (*expression, Diagnostics) {
	e, hd := hclsyntax.ParseExpression([]byte(text), "test.hcl", hclv2.InitialPos)
	if hd.HasErrors() {
		return nil, fromHCL(hd)
	}
	var ds Diagnostics
	x := p.compile(&ds, e, inInput)
	p.canonize(x)
	p.shape(x)
	return x, ds
}

// TestMessagesHideSensitive: operators, conditions, indexes, templates and what
// is around them.
func TestMessagesHideSensitive(t *testing.T) {
	t.Parallel()
	w, e := mustEvaluator(t, `
variable "s" { sensitive = true }
variable "o" {
  sensitive = true
  default   = { `+hiddenValue+` = 1, list = ["`+hiddenValue+`"] }
}
locals {
  t     = { shown = "plain", s = var.s }
  plain = { a = 1 }
}
step "a" { uses = plugin.p.run }
`, "s="+hiddenValue)
	for _, text := range []string{
		"var.s + 1", "-var.s", "!var.s", "var.s && true", "1 < var.s", "var.s ? 1 : 2", "var.o.missing", "var.o[var.s]", "var.o.list[7]", "var.o.list.x",
		"[1, 2][var.s]", "{ a = 1 }[var.s]", "[for k, v in var.o : v + 1]", "[for x in var.s : x]", "{ for x in [var.s, var.s] : x => 1 }", "[for x in [1] : x if var.s]",
		`"${var.o}"`, `"%{ if var.s }a%{ endif }"`, `"%{ for x in var.s }a%{ endfor }"`, "var.s[*].x", "var.o.list[*].x", "local.t.s.x", `sensitive("` + hiddenValue[:5] + `") + 1`,
		"try(var.s.x, var.s + 1)", "[var.s...]", "max(var.o.list...)", `{ (var.o) = 1 }`, "(var.s).x", "var.s.x.y", "[for x in var.o.list : tonumber(x)]",
		`tonumber(join("", var.o.list[*]))`, "tonumber(var.o.list[*])",
	} {
		ds, _ := evaluated(t, w, e, text)
		if out := told(ds); showsHidden(out) || !ds.HasErrors() {
			t.Errorf("%s: %s", text, out)
		}
	}
	// What is not sensitive is told all the same, beside what is.
	for text, want := range map[string]string{
		`"${var.s}${local.plain.nothing}"`:      `local.plain has no attribute \"nothing\"`,
		`nonsensitive(var.s) + 1`:               hiddenValue,
		`[var.s, tonumber("plain")]`:            `\"plain\"`,
		`"${var.s}" == tonumber(local.t.shown)`: "plain",
	} {
		ds, _ := evaluated(t, w, e, text)
		if out := told(ds); !strings.Contains(out, want) {
			t.Errorf("%s: %s", text, out)
		}
	}
}

// TestBindHidesSensitive: a value that does not fit is not shown.
func TestBindHidesSensitive(t *testing.T) {
	t.Parallel()
	w := mustLoad(t, `
variable "s" {
  type      = number
  default   = 1
  sensitive = true
}
variable "o" {
  type      = object({ a = number })
  default   = { a = 1 }
  sensitive = true
}
variable "v" {
  type      = string
  default   = "aaaaa"
  sensitive = true
  validation {
    condition     = length(var.v) == 5
    error_message = "not ${var.v}"
  }
}
step "a" { uses = plugin.p.run }
`)
	for _, arg := range []string{"s=" + hiddenValue, "o=" + hiddenValue, "o={ " + hiddenValue + " = 1 }", "o={ a = \"" + hiddenValue + "\" }", "o=[\"" + hiddenValue, "v=" + hiddenValue} {
		_, ds := w.Bind(BindOptions{Vars: []string{arg}})
		if out := told(ds); !ds.HasErrors() || showsHidden(out) {
			t.Errorf("%s: %s", arg, out)
		}
	}
}

// TestSecretIdentity: a secret's value is in no identity but as a keyed hash
// where the flow says so, a sensitive variable's only as a keyed hash; what stands
// beside them counts as it does elsewhere.
func TestSecretIdentity(t *testing.T) {
	t.Parallel()
	const flow = `
secret "key" {
  env         = "KEY"
  fingerprint = %v
}
secret "bound" {
  env   = "BOUND"
  hosts = ["a.example"]
}
variable "tok" { sensitive = true }
variable "plain" { default = "p" }
plugin "q" {
  source = "std/text"
  config = { key = secret.key, plain = var.plain, tok = var.tok }
}
step "up" { uses = plugin.p.run }
step "a" {
  uses  = plugin.q.run
  input = {
    auth  = "Bearer ${secret.key} ${var.plain} ${step.up.output.x}"
    bound = { t = secret.bound }
    tok   = upper(var.tok)
    text  = step.up.output.y
  }
  checkpoint { salt = var.tok }
  check {
    uses  = plugin.p.judge
    input = { k = secret.key }
  }
}
`
	type world struct {
		secret, bound, tok, plain, output, key string
		fingerprint                            bool
	}
	base := world{"secret-1", "bound-1", "tok-1", "p", `{"x":1,"y":2}`, "k1", false}
	identities := func(x world) (local, content string) {
		w := mustLoad(t, fmt.Sprintf(flow, x.fingerprint))
		e := w.Evaluator(mustBind(t, w, "tok="+x.tok, "plain="+x.plain), RunInfo{ID: "r", Key: []byte(x.key), Secret: func(i int) (string, bool, error) {
			return []string{x.secret, x.bound}[i], true, nil
		}})
		id, ds := e.Identity(1)
		s := Scope{Up: answers(x.output)}
		in, more := e.Input(1, s)
		ds = append(ds, more...)
		key, more := e.KeyInput(1, in, s)
		ds = append(ds, more...)
		early, more := e.KeyInput(1, nil, s)
		if ds = append(ds, more...); ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		if a, b := appendCanonical(nil, key), appendCanonical(nil, early); !slices.Equal(a, b) {
			t.Errorf("before and after the evaluation: %s, %s", early, key)
		}
		if want := fmt.Sprintf(`{"auth":"Bearer %s %s 1","bound":{"t":{"$secret":"bound"}},"text":2,"tok":%q}`, x.secret, x.plain, strings.ToUpper(x.tok)); string(in) != want && x.output == base.output {
			t.Errorf("the input is %s, want %s", in, want)
		}
		for what, text := range map[string]string{"key": string(key), "shown": string(e.Shown(1, in)), "stored": string(e.Stored(1, in))} {
			if strings.Contains(text, x.secret) || what != "stored" && strings.Contains(text, strings.ToUpper(x.tok)) {
				t.Errorf("%s: %s", what, text)
			}
		}
		b, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		return string(b), string(appendCanonical(nil, key))
	}
	local, content := identities(base)
	for name, c := range map[string]struct {
		change         func(*world)
		local, content bool // it makes another
	}{
		"nothing":             {func(*world) {}, false, false},
		"secret":              {func(x *world) { x.secret = "secret-2" }, false, false},
		"bound":               {func(x *world) { x.bound = "bound-2" }, false, false},
		"sensitive":           {func(x *world) { x.tok = "tok-2" }, true, true},
		"plain beside it":     {func(x *world) { x.plain = "q" }, true, true},
		"output beside it":    {func(x *world) { x.output = `{"x":7,"y":2}` }, false, true},
		"output elsewhere":    {func(x *world) { x.output = `{"x":1,"y":3}` }, false, true},
		"output nobody names": {func(x *world) { x.output = `{"x":1,"y":2,"z":3}` }, false, false},
		"key of the hashes":   {func(x *world) { x.key = "k2" }, true, true},
		"fingerprint":         {func(x *world) { x.fingerprint = true }, true, true},
	} {
		x := base
		c.change(&x)
		l, k := identities(x)
		if (l != local) != c.local || (k != content) != c.content {
			t.Errorf("%s: local changed %v, content changed %v; want %v, %v", name, l != local, k != content, c.local, c.content)
		}
	}
	marked := base
	marked.fingerprint = true
	l1, k1 := identities(marked)
	marked.secret = "secret-2"
	if l2, k2 := identities(marked); l1 == l2 || k1 == k2 {
		t.Error("a secret with a fingerprint does not count")
	}
}

// TestSecretsListed: who names which secret, and where nothing may be shown.
func TestSecretsListed(t *testing.T) {
	t.Parallel()
	w := mustLoad(t, `
secret "a" { env = "A" }
secret "b" { env = "B" }
secret "c" {
  file  = "c"
  hosts = ["c.example:8443"]
}
secret "late" {
  action = action.login
  path   = "t"
}
variable "v" { sensitive = true }
plugin "q" {
  source = "std/text"
  config = { x = secret.b, y = 1, z = var.v }
}
action "login" {
  uses  = plugin.p.run
  input = { a = secret.a }
}
locals { deep = { x = secret.a, y = "shown" } }
step "one" {
  uses  = plugin.p.run
  input = { y = local.deep.y, c = { t = secret.c } }
}
step "two" {
  uses  = plugin.q.run
  input = merge({ a = local.deep.x }, { b = 1 })
  check {
    uses  = plugin.p.judge
    input = { late = secret.late }
  }
}
`)
	if diff := cmp.Diff([][]int{{2}, {0, 1, 3}}, [][]int{w.Steps[0].Secrets, w.Steps[1].Secrets}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"c"}, {""}, {"x", "z"}}, [][]string{w.Steps[0].Sensitive, w.Steps[1].Sensitive, w.Plugins[1].Sensitive}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]int{{0}, {1}}, [][]int{w.Actions[0].Secrets, w.Plugins[1].Secrets}); diff != "" {
		t.Error(diff)
	}
	if !w.Steps[1].Checks[0].Sensitive || !w.Actions[0].Use.Sensitive || w.Secrets[2].Hosts[0] != "c.example:8443" || w.Secrets[3].Action != 0 || !w.NeedsKey() {
		t.Errorf("%+v %+v", w.Steps[1].Checks, w.Secrets)
	}
}

// TestDerivedTexts: every text that a function makes of a secret is told.
func TestDerivedTexts(t *testing.T) {
	t.Parallel()
	w := mustLoad(t, `
secret "k" { env = "K" }
locals { up = upper(secret.k) }
step "a" {
  uses  = plugin.p.run
  input = { a = "x ${local.up} ${trimspace(" plain ")}", b = [for x in split("-", secret.k) : x], c = { d = base64encode(lower(secret.k)) }, e = length(secret.k) }
}
`)
	got := map[string]bool{}
	e := w.Evaluator(mustBind(t, w), RunInfo{Secret: func(int) (string, bool, error) { return "One-Two", true, nil }, Derived: func(i int, text string) { got[text] = i == 0 }})
	if _, ds := e.Input(0, Scope{}); ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	if diff := cmp.Diff([]string{"ONE-TWO", "One", "Two", "b25lLXR3bw==", "one-two"}, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Error(diff)
	}
	e.run.Secret = func(int) (string, bool, error) { return "", false, errors.New("gone") }
	if _, ds := e.Input(0, Scope{}); !hasCode(ds, "missing-secret") {
		t.Error(explain(ds))
	}
}

// TestSecretForms: both forms of a secret mean the same.
func TestSecretForms(t *testing.T) {
	t.Parallel()
	native, ds := Parse([]File{{Path: "a.hcl", Bytes: []byte(`
workflow "w" {}
plugin "p" { source = "std/text" }
variable "v" { sensitive = true }
action "login" { uses = plugin.p.run }
secret "a" {
  action   = action.login
  path     = "data.token"
  optional = true
}
secret "b" {
  file  = "/run/secrets/b"
  hosts = ["b.example", "http://localhost:8080"]
}
secret "c" {
  env         = "C"
  fingerprint = true
}
step "s" {
  uses  = plugin.p.run
  input = { a = secret.a, b = secret.b, c = "x ${secret.c}" }
}
`)}})
	form, more := Parse([]File{{Path: "a.hcl.json", Bytes: []byte(`{
"workflow": { "w": {} },
"plugin": { "p": { "source": "std/text" } },
"variable": { "v": { "sensitive": true } },
"action": { "login": { "uses": "plugin.p.run" } },
"secret": {
  "a": { "action": "action.login", "path": "data.token", "optional": true },
  "b": { "file": "/run/secrets/b", "hosts": ["b.example", "http://localhost:8080"] },
  "c": { "env": "C", "fingerprint": true }
},
"step": { "s": { "uses": "plugin.p.run", "input": { "a": "${secret.a}", "b": "${secret.b}", "c": "x ${secret.c}" } } }
}`)}})
	if len(ds)+len(more) > 0 || !cmp.Equal(native, form, asRead) {
		t.Errorf("%s%s%s", explain(ds), explain(more), cmp.Diff(native, form, asRead))
	}
}
