package hcl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apparentlymart/go-textseg/v15/textseg"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"pgregory.net/rapid"
)

func parseJSONFlow(src string) (*Workflow, Diagnostics) {
	return Parse([]File{{Path: "flow.hcl.json", Bytes: []byte(src)}})
}

var (
	anywhere = cmp.Comparer(func(a, b Range) bool { return true })
	asRead   = cmp.Options{anywhere, cmpopts.IgnoreUnexported(Workflow{}), cmpopts.IgnoreFields(Workflow{}, "Files")}
)

const everythingNative = `
workflow "daily-报告" {
  description = "d"
  timeout     = "1d12h"
  concurrency = 4
  fail_fast   = true
  checkpoint {
    mode = volatile
  }
}
variable "v" {
  type     = object({ b = list(number), a = optional(string, "x") })
  default  = { b = [1, -2.5] }
  nullable = true
  validation {
    condition     = length(var.v.b) > 1
    error_message = "too few: ${length(var.v.b)}"
  }
}
variable "w" {
  type    = string
  default = "$${no template} 100%"
}
locals {
  x = step.a.output
}
plugin "p" {
  source = "./p.wasm"
  config = { url = "https://ai.example", deep = { list = [1, true, null, "\\u"] } }
}
step "a" {
  uses        = plugin.p.summarise
  output_type = object({ text = string, n = optional(list(number)) })
  timeout     = "1m30s"
  effects     = write
  retry {
    on             = [quota, "timeout"]
    max_attempts   = 5
    delay_function = constant
    jitter         = 0.5
  }
  retry {}
  checkpoint {
    mode  = "persistent"
    reuse = never
    salt  = var.v
  }
}
step "b" {
  uses       = plugin.p.run
  depends_on = [step.a]
  when       = length(local.x.text) > 0 && step.a.status == "succeeded"
  input = {
    "//"  = "data"
    zero  = -0
    all   = local.x
    text  = "A \"${try(local.x.text, "n\n")}\" %{ if var.w == "" }é%{ else }中文 🏴%{ endif }"
    bare  = var.w
    (step.a.status) = [for k, v in { a = 1 } : "${k}=${v}"]
  }
}
output "o" {
  value       = step.b.output
  description = "the answer"
}
`

const everythingJSON = `{
  "//": "comments stand in blocks",
  "workflow": {"daily-报告": {"description": "d", "timeout": "1d12h", "concurrency": 4, "fail_fast": true, "checkpoint": {"mode": "volatile", "//": ["any", {"value": 1}]}}},
  "variable": {
    "//": "also between labels",
    "v": {
      "type": "object({ b = list(number), a = optional(string, \"x\") })", "default": {"b": [1, -2.5]}, "nullable": true,
      "validation": [{"condition": "${length(var.v.b) > 1}", "error_message": "too few: ${length(var.v.b)}"}]
    },
    "w": {"type": "string", "default": "$${no template} 100%"}
  },
  "locals": [{"x": "${step.a.output}", "//": 1}],
  "plugin": {"p": {"source": "./p.wasm", "config": {"url": "https:\/\/ai.example", "deep": {"list": [1, true, null, "\\u"]}}}},
  "step": [
    {"a": {
      "uses": "plugin.p.summarise", "output_type": "object({ text = string, n = optional(list(number)) })", "timeout": "1m30s", "effects": "write",
      "retry": [{"on": ["quota", "timeout"], "max_attempts": 5, "delay_function": "constant", "jitter": 0.5}, {}],
      "checkpoint": {"mode": "persistent", "reuse": "never", "salt": "${var.v}"}
    }},
    {"b": [{
      "uses": "${plugin.p.run}", "depends_on": ["step.a"], "retry": null, "when": "${length(local.x.text) > 0 && step.a.status == \"succeeded\"}",
      "input": {
        "//": "data", "zero": -0, "all": "${local.x}",
        "text": "A \"\u0024{try(local.x.text, \"n\\n\")}\" %{ if var.w == \"\" }\u00e9%{ else }中文 \ud83c\udff4%{ endif }",
        "bare": "${var.w}", "${step.a.status}": "${[for k, v in { a = 1 } : \"${k}=${v}\"]}"
      }
    }]}
  ],
  "output": {"o": {"value": "${step.b.output}", "description": "the answer"}}
}`

// TestJSONForm: every block and argument, written both ways, is one workflow
// with the same identities and values.
func TestJSONForm(t *testing.T) {
	t.Parallel()
	native, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte(everythingNative)}})
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	w, ds := parseJSONFlow(everythingJSON)
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	same(t, native, w)
}

func same(t rapidT, native, w *Workflow) {
	t.Helper()
	if diff := cmp.Diff(native, w, asRead); diff != "" {
		t.Errorf("workflow (-native +JSON):\n%s", diff)
	}
	v1, ds1 := native.Bind(BindOptions{})
	v2, ds2 := w.Bind(BindOptions{})
	if ds1.HasErrors() || ds2.HasErrors() {
		t.Fatalf("bind: %s %s", explain(ds1), explain(ds2))
	}
	e1, e2 := native.Evaluator(v1, testRun), w.Evaluator(v2, testRun)
	up := answers(`{"text":"t","x":{"n":[1,2]},"l":[]}`)
	for i := range native.Steps {
		id1, ds1 := e1.Identity(i)
		id2, ds2 := e2.Identity(i)
		if diff := cmp.Diff(id1, id2); diff != "" || ds1.HasErrors() != ds2.HasErrors() {
			t.Errorf("identity of %s (-native +JSON):\n%s%s%s", native.Steps[i].Address(), diff, explain(ds1), explain(ds2))
		}
		in1, ds1 := e1.Input(i, Scope{Up: up})
		in2, ds2 := e2.Input(i, Scope{Up: up})
		if !bytes.Equal(in1, in2) || ds1.HasErrors() != ds2.HasErrors() {
			t.Errorf("input of %s: native %s %s, JSON %s %s", native.Steps[i].Address(), in1, explain(ds1), in2, explain(ds2))
		}
	}
}

// rapidT is what testing.T and rapid.T have in common.
type rapidT interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// both is one value in the two forms.
type both struct{ native, json string }

var textParts = []string{"", "x", "e\u0301", "中文", "🏴\U000E0067", "a\nb", "\t", `"`, `\`, "$", "%", "${", "%{", "\u2028", "<&>", "עברית", "//"}

// genText draws a string with templates in it. Signs that begin a template are
// doubled, which is how both forms write them.
func genText(t *rapid.T) both {
	text := rapid.SliceOfN(rapid.SampledFrom(textParts), 0, 4).Draw(t, "text")
	expr := ""
	if rapid.Bool().Draw(t, "template") {
		expr = "${jsonencode(" + genExpr(t, 2, nil) + ")}"
	}
	plain := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strings.Join(text, "|"))
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(plain)
	return both{`"` + quoted + "|" + expr + `"`, genQuoted(t, plain+"|"+expr)}
}

// genQuoted writes a JSON string, some of its characters as escapes.
func genQuoted(t *rapid.T, s string) string {
	return quoteEscaping(s, rapid.SampledFrom([]string{"", "$", "${", "se中", "\"\\"}).Draw(t, "escaped"))
}

func quoteEscaping(s, escaped string) string {
	var out strings.Builder
	for _, r := range s {
		if strings.ContainsRune(escaped, r) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		b, _ := json.Marshal(string(r))
		out.Write(b[1 : len(b)-1])
	}
	return `"` + out.String() + `"`
}

func genBoth(t *rapid.T, depth int) both {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		n := rapid.SampledFrom([]string{"0", "-0", "7", "-1", "2.50", "1e3", "-1.5E-7", "9007199254740993", "123456789012345678901234567890.25"}).Draw(t, "number")
		return both{n, n}
	case 1:
		w := rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
		return both{w, w}
	case 2, 3:
		return genText(t)
	case 4, 5:
		e := genExpr(t, 3, nil)
		return both{e, genQuoted(t, "${"+e+"}")}
	case 6:
		var list, jsonList []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			x := genBoth(t, depth-1)
			list, jsonList = append(list, x.native), append(jsonList, x.json)
		}
		return both{"[" + strings.Join(list, ", ") + "]", "[" + strings.Join(jsonList, ",\n ") + "]"}
	}
	var items, jsonItems []string
	for i := range rapid.IntRange(0, 3).Draw(t, "size") {
		x := genBoth(t, depth-1)
		key := fmt.Sprintf(`"%s%d"`, rapid.SampledFrom([]string{"k", "中", "//", "null"}).Draw(t, "key"), i)
		if rapid.Bool().Draw(t, "computed") {
			key = fmt.Sprintf(`"${step.a.status}%d"`, i)
		}
		items, jsonItems = append(items, key+" = "+x.native), append(jsonItems, key+": "+x.json)
	}
	return both{"{ " + strings.Join(items, ", ") + " }", "{" + strings.Join(jsonItems, ",\n ") + "}"}
}

// TestBothForms: on random flows the two forms have the same facets, identities
// and values, and each facet of the JSON form is where its reference is written.
func TestBothForms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in, when := genBoth(rt, 3), both{"step.a.status == \"é\"", `"${step.a.status == \"\u00e9\"}"`}
		src := "workflow \"w\" {}\nplugin \"p\" { source = \"std/text\" }\nstep \"a\" { uses = plugin.p.run }\nstep \"b\" { uses = plugin.p.run }\nvariable \"v\" { default = 3 }\nstep \"z\" {\n uses = plugin.p.run\n depends_on = [step.b]\n when = " + when.native + "\n input = { k = " + in.native + " }\n}\n"
		js := `{"workflow":{"w":{}},"plugin":{"p":{"source":"std/text"}},"step":{"a":{"uses":"plugin.p.run"},"b":{"uses":"plugin.p.run"},"z":{"uses":"plugin.p.run","depends_on":["step.b"],"when":` + when.json + `,"input":{"k":` + in.json + `}}},"variable":{"v":{"default":3}}}`
		native, ds1 := Parse([]File{{Path: "flow.hcl", Bytes: []byte(src)}})
		w, ds2 := parseJSONFlow(js)
		if w == nil || native == nil || ds1.HasErrors() != ds2.HasErrors() {
			rt.Fatalf("%s\n%s\n%s%s", src, js, explain(ds1), explain(ds2))
		}
		if ds1.HasErrors() {
			if diff := cmp.Diff(codes(ds1), codes(ds2)); diff != "" {
				rt.Errorf("diagnostics (-native +JSON):\n%s\n%s%s", diff, src, js)
			}
			return
		}
		same(rt, native, w)
		for _, f := range w.Steps[2].Facets {
			written := js[f.Range.Start.Byte:f.Range.End.Byte]
			var text string
			if err := json.Unmarshal([]byte(`"`+written+`"`), &text); err != nil || !strings.HasPrefix(text, "step.") || strings.Trim(text, "abepstuoxr.") != "" {
				rt.Errorf("%s is at %q", f.Facet, written)
			}
			checkPos(rt, js, f.Range.Start)
			checkPos(rt, js, f.Range.End)
		}
	})
}

func codes(ds Diagnostics) (out []string) {
	for i := range ds {
		out = append(out, ds[i].Code+": "+ds[i].Detail)
	}
	return out
}

// checkPos counts line and column in another way.
func checkPos(t rapidT, src string, p Pos) {
	t.Helper()
	before := src[:p.Byte]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	n, err := textseg.TokenCount([]byte(line), textseg.ScanGraphemeClusters)
	if want := (Pos{strings.Count(before, "\n") + 1, n + 1, p.Byte}); err != nil || p != want {
		t.Errorf("position %+v, want %+v", p, want)
	}
}

// TestJSONPlaces: the same mistakes have the same codes, and their places are
// in the JSON text, behind escapes and wide characters too.
func TestJSONPlaces(t *testing.T) {
	t.Parallel()
	w, ds := parseJSONFlow(`{
  "workflow": {"w": {}},
  "plugin": {"p": {"source": "std/text"}},
  "step": {
    "a": {"uses": "plugin.q.run", "timeot": "1s"},
    "b": {"uses": "plugin.p.run", "depends_on": ["step.c", "a"], "input": {
      "\u4e2d": "é\n\"中文\" \u00e9 ${step.aa.output}",
      "n": "${1 + nope}"
    }}
  },
  "stepp": {},
  "output": {"o": {"value": "${upper(1, 2)}", "rety": {}}}
}`)
	if w == nil {
		t.Fatal(explain(ds))
	}
	var got []string
	for i := range ds {
		r := ds[i].Subject
		got = append(got, fmt.Sprintf("%s %s %s", r, ds[i].Code, w.Files[0].Bytes[r.Start.Byte:r.End.Byte]))
		checkPos(t, string(w.Files[0].Bytes), r.Start)
	}
	want := []string{
		`flow.hcl.json:5:26 unknown-plugin .q`,
		`flow.hcl.json:5:35 unsupported-argument "timeot"`,
		`flow.hcl.json:6:55 unknown-step .c`,
		`flow.hcl.json:6:61 invalid-depends-on a`,
		`flow.hcl.json:7:37 unknown-step step.aa.output`,
		`flow.hcl.json:8:19 unknown-reference nope`,
		`flow.hcl.json:11:3 unsupported-block "stepp"`,
		`flow.hcl.json:12:32 wrong-number-of-arguments upper(1, 2)`,
		`flow.hcl.json:12:47 unsupported-argument "rety"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// TestJSONRefuses: what is not strictly JSON, or not a flow, is told with its
// place and a remedy.
func TestJSONRefuses(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		``:                                    "1:1 invalid-json: The file ends where a value is expected",
		`[]`:                                  "1:1 invalid-json: A flow in JSON form is one object",
		`{"a": 1,}`:                           "1:9 invalid-json: Here stands \"}\" where a key in double quotes is expected. There is no comma after the last",
		`{"locals": {"a": [1,]}}`:             "1:21 invalid-json: Here stands \"]\" where a value is expected. There is no comma",
		`{"a": 1 "b": 2}`:                     "1:9 invalid-json: Here stands \"\\\"\" where \",\" or \"}\" is expected. A comma may be missing",
		`{'a': 1}`:                            "1:2 invalid-json: Here stands \"'\" where a key in double quotes is expected. Strings stand in double",
		`{a: 1}`:                              "1:2 invalid-json: Here stands \"a\" where a key in double quotes is expected. Text and names",
		`{"a" = 1}`:                           "1:6 invalid-json: Here stands \"=\" where \":\" after a key is expected. In JSON form",
		"{\n// x\n}":                          "2:1 invalid-json: Here stands \"/\" where a key in double quotes is expected. JSON has no comments",
		`{"a": nil}`:                          "1:7 invalid-json: Here stands \"n\" where a value",
		`{"a": 中}`:                            "1:7 invalid-json: Here stands \"中\" where a value",
		`{"a": 01}`:                           "1:7 invalid-json: This is not a number",
		`{"a": +1}`:                           "1:7 invalid-json: Here stands \"+\"",
		`{"a": 1.}`:                           "1:7 invalid-json: This is not a number",
		`{"a": -}`:                            "1:7 invalid-json: This is not a number",
		`{"a": "x`:                            "1:7 invalid-json: The string that begins here does not end",
		`{"a": "\`:                            "1:8 invalid-json: There is no such escape",
		`{"a": "\x41"}`:                       "1:8 invalid-json: There is no such escape",
		`{"a": "\u12g4"}`:                     "1:8 invalid-json: There is no such escape",
		"{\"a\": \"x\ny\"}":                   "1:9 invalid-json: A string holds the control character 0x0a",
		`{"中": "\ud800x"}`:                    "1:8 invalid-json: \\ud800 is half of a surrogate pair",
		`{"中": 1, "\u4e2d": 2}`:               "1:10 duplicate-key: The key \"中\" is already in this object, at flow.hcl.json:1:2.",
		"{\"a\": \"\xff\"}":                   "1:8 invalid-utf8",
		`{"a": ` + deep(201):                  "1:206 nesting-too-deep",
		`{"step": 1}`:                         "1:10 invalid-block: In JSON form a step is written",
		`{"step": {"uses": "p"}}`:             "1:19 invalid-block: In JSON form a step is written",
		`{"step": [null]}`:                    "1:11 invalid-block",
		`{"locals": [[]]}`:                    "1:13 invalid-block: locals is a block.",
		`{"locals": {"a": "${"}}`:             "1:21 missing-expression",
		`{"locals": {"a": "${1 +}"}}`:         "1:24 invalid-expression",
		`{"locals": {"a": "\n\n${ ]"}}`:       "1:26 invalid-expression",
		`{}`:                                  "flow.hcl.json missing-workflow: A flow has exactly one workflow block, which names it: \"workflow\": { \"NAME\": {} }.",
		`{"workflow": {"w": {}, "v": {}}}`:    "1:24 duplicate-name",
		`{"workflow": {"w": {"timeout": 5}}}`: "1:32 invalid-duration",
		`{"workflow": {"w": {"timeout": "${local.x}"}}}`:                      "1:35 not-constant",
		`{"workflow": {"w": {}}, "step": {"a": {}}}`:                          "1:34 missing-argument",
		`{"workflow": {"w": {}}, "step": {"a b": {}}}`:                        "1:34 invalid-name",
		`{"workflow": {"w": {}}, "variable": {"a": {"type": "list(strin)"}}}`: "1:58 invalid-type-specification",
		`{"workflow": {"w": {}}, "step": {"a": {"uses": "", "rety": {}}}}`:    "1:49 missing-expression: Expected the start of an expression, but found the end of the string.",
		`{"workflow": {"w": {}}, "step": {"a": {"uses": 7}}}`:                 "1:48 invalid-uses: uses names a plugin and one of its step types: plugin.PLUGIN.TYPE.",
		`{"workflow": {"w": {}}, "locals": {"a": {"k": 1, "${": 2}}}`:         "1:53 missing-expression",
	} {
		files := []File{{Path: "flow.hcl.json", Bytes: []byte(src)}}
		_, ds := Parse(files)
		if len(ds) == 0 {
			t.Errorf("%.60s has no mistakes", src)
			continue
		}
		got := strings.TrimPrefix(ds[0].Subject.String(), "flow.hcl.json:") + " " + ds[0].Code + ": " + ds[0].Detail
		if !strings.HasPrefix(got, want) {
			t.Errorf("%.60s\nwant %s\ngot  %s", src, want, got)
		}
	}
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestJSONTreePlaces: every node of a tree that came from a string is where it
// is written, whatever the escapes.
func TestJSONTreePlaces(t *testing.T) {
	t.Parallel()
	text := "é\n${[for k, v in step.a.output[0][\"x\"].*.y : \"${k}\\n\" if !v][*].b[1].c}%{ for x in [1] ~} ${ x == -(2) ? f(a.b...) : { c = null, (d) : <<E\nq\nE\n} } %{ endfor }%{ if true }\"%{ endif }"
	native, hd := hclsyntax.ParseTemplate([]byte(text), "", hclv2.InitialPos)
	if hd.HasErrors() {
		t.Fatal(hd)
	}
	var want []string
	nodes(native, func(at hclv2.Range) { want = append(want, text[at.Start.Byte:at.End.Byte]) })
	for _, escaped := range []string{"", "e\n\"", "[]${}%: \"", text} {
		src := `{"locals": {"中": ` + quoteEscaping(text, escaped) + `}}`
		body, ds := parseJSON(&File{Path: "flow.hcl.json", Bytes: []byte(src)})
		if len(ds) > 0 {
			t.Fatal(explain(ds))
		}
		var got []string
		nodes(body.Blocks[0].Body.Attributes["中"].Expr, func(at hclv2.Range) {
			written := src[at.Start.Byte:at.End.Byte]
			if len(got) > 0 { // the whole has its quotes
				written = `"` + written + `"`
			}
			got = append(got, unquote([]byte(written)))
			checkPos(t, src, rangeOf(at).Start)
			checkPos(t, src, rangeOf(at).End)
		})
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 40 {
			t.Errorf("escaping %q (-native +JSON):\n%s", escaped, diff)
		}
	}
}

// nodes calls yield with the places of a tree's nodes and of the steps of its
// references.
func nodes(e hclsyntax.Expression, yield func(hclv2.Range)) {
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hclv2.Diagnostics {
		yield(n.Range())
		var steps hclv2.Traversal
		switch n := n.(type) {
		case *hclsyntax.ScopeTraversalExpr:
			steps = n.Traversal
		case *hclsyntax.RelativeTraversalExpr:
			steps = n.Traversal
		case *hclsyntax.FunctionCallExpr:
			yield(n.NameRange)
		}
		for i := range steps {
			yield(steps[i : i+1].SourceRange())
		}
		return nil
	})
}
