package hcl

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const bindFlow = `
variable "s" {}
variable "n" {
  type    = number
  default = 1
}
variable "o" {
  type    = object({ name = string, temperature = optional(number, 0.5), tags = optional(list(string), []) })
  default = { name = "d" }
}
variable "any" {
  type     = any
  default  = null
  nullable = true
}
variable "标题" { default = "x" }
`

func bound(t *testing.T, o BindOptions) (map[string]string, Diagnostics) {
	t.Helper()
	v, ds := mustLoad(t, bindFlow).Bind(o)
	if (v == nil) != ds.HasErrors() {
		t.Fatalf("values %v with %s", v, explain(ds))
	}
	out := map[string]string{}
	if v != nil {
		for name, b := range v.JSON() {
			out[name] = string(b)
		}
	}
	return out, ds
}

func TestBindPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.auto.vars.hcl", "s = \"auto a\"\nn = 10\no = { name = \"auto\" }")
	write(t, dir, "b.auto.vars.hcl.json", `{"//": "comment", "s": "auto b", "any": {"x": [1, null]}}`)
	write(t, dir, "one.hcl", "s = \"file 1\"\nn = 20")
	write(t, dir, "two.json", "\xef\xbb\xbf"+`{"s": "file 2"}`)
	write(t, dir, "text.txt", "from a file\n")
	file := func(n string) string { return filepath.Join(dir, n) }
	env := []string{"ENGINE_VAR_s=env", "ENGINE_VAR_标题=环境", "ENGINE_VAR_undeclared=x", "HOME=/", "ENGINE_VAR_any={ y = 2 }"}
	for _, c := range []struct {
		name string
		o    BindOptions
		want map[string]string
	}{
		{"defaults", BindOptions{Vars: []string{"s=a=b"}}, map[string]string{"s": `"a=b"`, "n": "1", "any": "null", "标题": `"x"`, "o": `{"name":"d","tags":[],"temperature":0.5}`}},
		{"environment", BindOptions{Environ: env}, map[string]string{"s": `"env"`, "标题": `"环境"`, "any": `{"y":2}`}},
		{"automatic", BindOptions{Environ: env, Dir: dir}, map[string]string{"s": `"auto b"`, "n": "10", "any": `{"x":[1,null]}`, "o": `{"name":"auto","tags":[],"temperature":0.5}`}},
		{"files", BindOptions{Environ: env, Dir: dir, VarFiles: []string{file("one.hcl"), file("two.json")}}, map[string]string{"s": `"file 2"`, "n": "20"}},
		{"flags", BindOptions{Dir: dir, VarFiles: []string{file("one.hcl")}, Vars: []string{"s=1", "s=flag", "n=3e1"}}, map[string]string{"s": `"flag"`, "n": "30"}},
		{"text of a file", BindOptions{Vars: []string{"s=@" + file("text.txt")}}, map[string]string{"s": `"from a file\n"`}},
		{"literal at", BindOptions{Vars: []string{"s=@@x"}}, map[string]string{"s": `"@x"`}},
		{"empty", BindOptions{Vars: []string{"s="}}, map[string]string{"s": `""`}},
		{"expression", BindOptions{Vars: []string{"s=${var.x}", `o={"name": "j", "temperature": 1}`}}, map[string]string{"s": `"${var.x}"`, "o": `{"name":"j","tags":[],"temperature":1}`}},
		{"decomposed name", BindOptions{Vars: []string{"s=x", "标题=y"}}, map[string]string{"标题": `"y"`}},
	} {
		got, ds := bound(t, c.o)
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s is %s, want %s %s", c.name, name, got[name], want, explain(ds))
			}
		}
	}
}

func TestBindMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "undeclared.hcl", "s = \"x\"\nsss = 1")
	write(t, dir, "undeclared.json", `{"s": "x", "sss": 1}`)
	write(t, dir, "block.hcl", "s = \"x\"\nstep \"a\" {}")
	write(t, dir, "ref.hcl", "s = upper(var.n)")
	write(t, dir, "list.json", `["s"]`)
	write(t, dir, "dup.json", `{"s": "x", "s": "y"}`)
	write(t, dir, "syntax.hcl", "s = ")
	file := func(n string) []string { return []string{filepath.Join(dir, n)} }
	for name, c := range map[string]struct {
		o          BindOptions
		code, text string
	}{
		"nothing":           {BindOptions{}, "missing-variable", "--var s=VALUE"},
		"undeclared flag":   {BindOptions{Vars: []string{"s=x", "m=2"}}, "unknown-variable", "The workflow has any, n, o, s"},
		"undeclared file":   {BindOptions{VarFiles: file("undeclared.hcl")}, "unknown-variable", "undeclared.hcl:2:1"},
		"undeclared json":   {BindOptions{VarFiles: file("undeclared.json")}, "unknown-variable", `"sss"`},
		"no value":          {BindOptions{Vars: []string{"s"}}, "invalid-var", "--var NAME=VALUE"},
		"wrong type":        {BindOptions{Vars: []string{"s=x", "n=one"}}, "wrong-type", "a number is required"},
		"missing attribute": {BindOptions{Vars: []string{"s=x", "o={}"}}, "wrong-type", `the attribute "name" is missing`},
		"unknown attribute": {BindOptions{Vars: []string{"s=x", `o={ name = "n", temprature = 1 }`}}, "wrong-type", `(did you mean "temperature"?)`},
		"deep":              {BindOptions{Vars: []string{"s=x", `o={ name = "n", tags = ["a", {}] }`}}, "wrong-type", "at tags[1]: "},
		"no expression":     {BindOptions{Vars: []string{"s=x", `o={ name`}}, "unterminated-object-constructor-expression", "written as in HCL or JSON"},
		"reference":         {BindOptions{Vars: []string{"s=x", `o={ name = var.s }`}}, "not-constant", ""},
		"null":              {BindOptions{VarFiles: nil, Vars: []string{"s=x", "o=null", "any=null"}}, "", ""},
		"no file":           {BindOptions{Vars: []string{"s=@none"}}, "unreadable-file", "--var s=@@none"},
		"no var file":       {BindOptions{VarFiles: file("none.hcl")}, "unreadable-file", "none.hcl"},
		"block":             {BindOptions{VarFiles: file("block.hcl")}, "unsupported-block", ""},
		"reference in file": {BindOptions{VarFiles: file("ref.hcl")}, "not-constant", ""},
		"list":              {BindOptions{VarFiles: file("list.json")}, "invalid-json", "it is a list"},
		"twice":             {BindOptions{VarFiles: file("dup.json")}, "invalid-json", "duplicate key"},
		"syntax":            {BindOptions{VarFiles: file("syntax.hcl")}, "missing-expression", "syntax.hcl:1"},
		"no directory":      {BindOptions{Dir: filepath.Join(dir, "none")}, "unreadable-file", ""},
		"not text":          {BindOptions{Vars: []string{"s=\xff"}}, "invalid-utf8", ""},
		"large number":      {BindOptions{Vars: []string{"s=x", "n=1e999"}}, "wrong-type", "1.8e308"},
	} {
		got, ds := bound(t, c.o)
		if c.code == "" {
			if got["o"] != `{"name":"d","tags":[],"temperature":0.5}` || got["any"] != "null" {
				t.Errorf("%s: %v %s", name, got, explain(ds))
			}
			continue
		}
		if !hasCode(ds, c.code) || !strings.Contains(explain(ds), c.text) {
			t.Errorf("%s: want %s %q, got %s", name, c.code, c.text, explain(ds))
		}
		if given := len(c.o.Vars) > 0 && strings.HasPrefix(c.o.Vars[0], "s="); given && hasCode(ds, "missing-variable") {
			t.Errorf("%s: told twice: %s", name, explain(ds))
		}
	}
}

// TestJSONValues: what is JSON is read as JSON, whose escapes HCL does not have, and
// nothing in it is a template.
func TestJSONValues(t *testing.T) {
	t.Parallel()
	got, ds := bound(t, BindOptions{Vars: []string{"s=x", `any={"a":"\ud83d\ude00","b":"c\/d","c":"${var.s} %{if}","d":[1.50,null]}`}})
	if ds.HasErrors() || got["any"] != `{"a":"😀","b":"c/d","c":"${var.s} %{if}","d":[1.50,null]}` && got["any"] != `{"a":"😀","b":"c/d","c":"${var.s} %{if}","d":[1.5,null]}` {
		t.Errorf("%s %s", got["any"], explain(ds))
	}
}

// TestLargeList: conversions are linear; cty's own would compare every pair.
func TestLargeList(t *testing.T) {
	t.Parallel()
	list, err := json.Marshal(make([]int, 50_000))
	if err != nil {
		t.Fatal(err)
	}
	for _, ty := range []string{"list(string)", "list(any)", "set(any)", "any"} {
		v := mustBind(t, mustLoad(t, "variable \"l\" { type = "+ty+" }\n"), "l="+string(list))
		if n := len(v.JSON()["l"]); ty != "set(any)" && n < 100_000 || n == 0 {
			t.Errorf("%s: %d bytes", ty, n)
		}
	}
}

func TestConvert(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ty, text, want string }{
		{"list(string)", `[1, "b", true]`, `["1","b","true"]`},
		{"set(number)", `[2, "1", 2]`, `[1,2]`},
		{"map(string)", `{ b = 1, a = null }`, `{"a":null,"b":"1"}`},
		{"map(any)", `{ b = 1, a = 2 }`, `{"a":2,"b":1}`},
		{"list(any)", `[1, "x"]`, `["1","x"]`},
		{"list(any)", `[]`, `[]`},
		{"tuple([string, number])", `[1, "2"]`, `["1",2]`},
		{"list(object({ a = number, b = optional(string) }))", `[{ a = "1" }, { a = 2, b = "x" }]`, `[{"a":1,"b":null},{"a":2,"b":"x"}]`},
		{"any", `{ a = [1, "x", null] }`, `{"a":[1,"x",null]}`},
		{"list(any)", `[1, {}]`, "the elements have no common type"},
		{"tuple([string])", `[]`, "want 1 elements, found 0"},
		{"list(number)", `{}`, "a list(number) is required"},
		{"object({ a = map(list(number)) })", `{ a = { k = [1, "x"] } }`, "at a.k[1]: a number is required"},
	} {
		v, ds := mustLoad(t, "variable \"v\" { type = "+c.ty+" }\n").Bind(BindOptions{Vars: []string{"v=" + c.text}})
		got := explain(ds)
		if v != nil {
			got = string(v.JSON()["v"])
		}
		if got != c.want && (v != nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s as %s gives %s, want %s", c.text, c.ty, got, c.want)
		}
	}
}

func TestCheckOutput(t *testing.T) {
	t.Parallel()
	check := func(ty, out string) string {
		_, e := mustEvaluator(t, "step \"a\" {\n uses = plugin.p.run\n output_type = "+ty+"\n}\n")
		if err := e.CheckOutput(0, json.RawMessage(out)); err != nil {
			return strings.TrimPrefix(err.Error(), "output does not fit output_type: ")
		}
		return ""
	}
	const object = "object({ title = string, tags = optional(list(string)), n = optional(number) })"
	for _, c := range []struct{ ty, out, want string }{
		{"string", `"x"`, ""},
		{"string", ` 1 `, "want string, found number 1 "},
		{"number", `"1"`, `want number, found string "1"`},
		{"bool", `null`, "want bool, found null"},
		{"any", `null`, ""},
		{object, `{"title":"t"}`, ""},
		{object, `{"title":"t","tags":null,"n":1.5}`, ""},
		{object, `{"tags":[]}`, `the attribute "title" is missing, want string`},
		{object, `{"title":"t","tag":[]}`, `at /tag: the type has no such attribute; it has n, tags, title. Did you mean "tags"?`},
		{object, `{"title":"t","tags":["a",2]}`, "at /tags/1: want string, found number 2"},
		{object, `[]`, "want object({ n = optional(number), tags = optional(list(string)), title = string }), found list"},
		{"map(object({ ok = bool }))", `{"a/b~c":{"ok":1}}`, "at /a~1b~0c/ok: want bool, found number 1"},
		{"tuple([string, number])", `["a",1]`, ""},
		{"tuple([string, number])", `["a"]`, "want 2 elements, found 1"},
		{"list(any)", `[1,"x",null]`, ""},
		{"object({ é = string })", `{"e\u0301":"x"}`, ""},
		{"string", `{`, "output: expected a key at byte 1"},
		{"string", `"a" "b"`, "output: more data after the JSON value at byte 4"},
	} {
		if got := check(c.ty, c.out); strings.TrimSpace(got) != strings.TrimSpace(c.want) {
			t.Errorf("%s as %s: got %q, want %q", c.out, c.ty, got, c.want)
		}
	}
	_, e := mustEvaluator(t, "step \"a\" { uses = plugin.p.run }\n")
	if err := e.CheckOutput(0, json.RawMessage(`1`)); err != nil {
		t.Errorf("without a type: %v", err)
	}
}

// TestTypedOutputs: with output_type an output is of that type in expressions,
// while checking and while running.
func TestTypedOutputs(t *testing.T) {
	t.Parallel()
	src := "step \"a\" {\n uses = plugin.p.run\n output_type = object({ m = map(number), l = list(string), o = optional(string) })\n}\nstep \"b\" {\n uses = plugin.p.run\n input = { m = merge(step.a.output.m, { z = 1 }), l = concat(step.a.output.l, [\"x\"]), o = step.a.output.o == null, k = [for k, v in step.a.output.m : k], first = step.a.output.l[0] }\n}\n"
	got, ds := inputOf(t, src, answers(`{"m":{"b":2,"a":1},"l":["y"],"o":null}`))
	if want := `{"first":"y","k":["a","b"],"l":["y","x"],"m":{"a":1,"b":2,"z":1},"o":true}`; got != want || ds.HasErrors() {
		t.Errorf("got %s %s", got, explain(ds))
	}
}
