package hcl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/retrace-dev/engine/sdk"
	"pgregory.net/rapid"
)

// identityOf loads a flow and returns the identity and facets of its last step.
func identityOf(t testing.TB, src string, vars ...string) (Identity, []FacetRef) {
	t.Helper()
	w, e := mustEvaluator(t, src, vars...)
	i := len(w.Steps) - 1
	id, ds := e.Identity(i)
	if ds.HasErrors() {
		t.Fatalf("identity: %s\n%s", explain(ds), src)
	}
	return id, w.Steps[i].Facets
}

const twoSteps = "step \"a\" { uses = plugin.p.run }\nstep \"a2\" { uses = plugin.p.run }\n"

// inputFlow is a flow whose last step has this input.
func inputFlow(input string) string {
	return twoSteps + "variable \"v\" {\n type = any\n default = { x = 1 }\n}\nlocals {\n lit = \"hello\"\n num = 7\n obj = { k = \"v\" }\n deep = local.lit2\n lit2 = \"hello\"\n ref = step.a.output.x\n expr = \"${step.a.output.x}-${var.v.x}\"\n}\nstep \"z\" {\n uses = plugin.p.run\n input = " + input + "\n}\n"
}

// TestCanonicalEqual: each group is one expression in several spellings.
func TestCanonicalEqual(t *testing.T) {
	t.Parallel()
	groups := [][]string{
		{`{ a = 1 }`, "{\n\n a   =   1 # why\n}", `{ "a" = 1 }`, `{ a = (1) }`, `{ a = 1.0 }`, `{ a = 1e0 }`, `({ a = 1 })`, `{ "${"a"}" = 1 }`, `{ a : 1 }`},
		{`{ a = 1, b = 2 }`, `{ b = 2, a = 1 }`, `{ b = 2, "a" = 1, }`},
		{`{ a = step.a.output.x }`, `{ a = "${step.a.output.x}" }`, `{ a = (step.a.output.x) }`, `{ a = step.a.output["x"] }`, `{ a = step.a2.output.x }`, `{ a = local.ref }`, `{ a = "${(local.ref)}" }`},
		{`{ a = "hello world" }`, `{ a = "hello ${"world"}" }`, `{ a = "${"hello"} ${"wor"}${"ld"}" }`, `{ a = "${local.lit} world" }`, `{ a = "${local.deep} world" }`, `{ a = "hell${"o w"}orld" }`},
		{`{ a = "x${step.a.output.x}y" }`, `{ a = "x${"${step.a.output.x}y"}" }`, `{ a = "${"x"}${step.a.output.x}${"y"}" }`, `{ a = "${"x${step.a.output.x}"}y" }`},
		{`{ a = "n7" }`, `{ a = "n${7}" }`, `{ a = "n${local.num}" }`},
		{`{ a = local.lit }`, `{ a = "hello" }`, `{ a = local.deep }`, `{ a = local.lit2 }`},
		{`{ a = local.obj }`, `{ a = { k = "v" } }`},
		{`{ a = local.expr }`, `{ a = "${step.a.output.x}-${var.v.x}" }`},
		{`{ a = [for x in step.a.output.l : x.n if x.ok] }`, `{ a = [for y in step.a.output.l : y.n if y.ok] }`, `{ a = [ for   var in step.a.output["l"] : (var.n) if var["ok"] ] }`},
		{`{ a = [for x in step.a.output.l : [for y in x : [x, y]]] }`, `{ a = [for p in step.a.output.l : [for q in p : [p, q]]] }`},
		{`{ a = { for k, v in step.a.output.o : v => k } }`, `{ a = { for key, value in step.a.output.o : value => key } }`},
		{`{ a = -1 }`, `{ a = - 1 }`, `{ a = (-1) }`, `{ a = -(1) }`},
		{`{ a = "\u00e9" }`, `{ a = "é" }`},
		{"{ a = <<EOT\nhello\nEOT\n}", `{ a = "hello\n" }`, "{ a = <<-X\n   hello\n   X\n}"},
		{`{ a = try(step.a.output.x, "none") }`, `{ a = try(step.a2.output.x, "none") }`, `{ a = try(local.ref, ("none")) }`},
		{`{ a = step.a.output.l[*].n }`, `{ a = step.a2.output.l[*].n }`, `{ a = (step.a.output["l"])[*].n }`},
	}
	seen := map[sdk.Digest]string{}
	for _, group := range groups {
		first, facets := identityOf(t, inputFlow(group[0]))
		for _, other := range group[1:] {
			id, f := identityOf(t, inputFlow(other))
			if id.Input != first.Input {
				t.Errorf("different:\n  %s\n  %s", group[0], other)
			}
			if !slices.Equal(attributeDigests(id), attributeDigests(first)) {
				t.Errorf("different attributes:\n  %s\n  %s", group[0], other)
			}
			if diff := cmp.Diff(facetKinds(facets), facetKinds(f)); diff != "" {
				t.Errorf("different facets:\n  %s\n  %s\n%s", group[0], other, diff)
			}
		}
		if prev, ok := seen[first.Input]; ok {
			t.Errorf("equal, though the expressions differ:\n  %s\n  %s", prev, group[0])
		}
		seen[first.Input] = group[0]
	}
}

func attributeDigests(id Identity) []sdk.Digest {
	var out []sdk.Digest
	for _, a := range id.Attributes {
		out = append(out, a.Expression)
	}
	return out
}

// facetKinds leaves out which step it is: that is the hole.
func facetKinds(fs []FacetRef) []string {
	var out []string
	for _, f := range fs {
		out = append(out, fmt.Sprintf("%s %d %v", f.Facet, f.Kind, f.Order))
	}
	return out
}

// TestCanonicalDifferent: expressions that could be taken for each other.
func TestCanonicalDifferent(t *testing.T) {
	t.Parallel()
	inputs := []string{
		`{}`, `{ a = 1 }`, `{ a = "1" }`, `{ a = true }`, `{ a = "true" }`, `{ a = null }`, `{ b = 1 }`, `{ a = 1, b = null }`, `{ a = [] }`, `{ a = {} }`,
		`{ a = "ab", b = "c" }`, `{ a = "a", b = "bc" }`, `{ a = ["ab", "c"] }`, `{ a = ["a", "bc"] }`, `{ a = ["abc"] }`, `{ a = { a = 1 } }`, `{ x = { a = 1 } }`,
		`{ a = step.a.output }`, `{ a = step.a.status }`, `{ a = step.a.output.x }`, `{ a = step.a.output.y }`, `{ a = step.a.output[0] }`, `{ a = step.a.output["0"] }`,
		`{ a = [step.a.output, step.a.output] }`, `{ a = "${step.a.output}${step.a.output}" }`, `{ a = "${step.a.output};${step.a.output}" }`,
		`{ a = var.v }`, `{ a = var.v.x }`, `{ a = var.v["y"] }`, `{ a = run.id }`, `{ a = path.workflow }`, `{ a = upper("x") }`, `{ a = lower("x") }`, `{ a = upper("x", []...) }`,
		`{ a = step.a.output.x + 1 }`, `{ a = 1 + step.a.output.x }`, `{ a = step.a.output.x - 1 }`, `{ a = -step.a.output.x }`, `{ a = !step.a.output.x }`,
		`{ a = [for x in step.a.output : x] }`, `{ a = [for k, x in step.a.output : k] }`, `{ a = [for x in step.a.output : x if x] }`, `{ a = { for k, x in step.a.output : k => x } }`, `{ a = { for k, x in step.a.output : k => x... } }`,
		`{ a = [for x in step.a.output : [for y in x : x]] }`, `{ a = [for x in step.a.output : [for y in x : y]] }`, `{ a = step.a.output[*] }`, `{ a = step.a.output[*].x }`, `{ a = step.a.output[*].x[*].y }`,
		`{ a = try(step.a.output, 1) }`, `{ a = can(step.a.output) }`, `{ a = step.a.output ? 1 : 2 }`, `{ a = step.a.output ? 2 : 1 }`,
		`{ a = convert(step.a.output, string) }`, `{ a = convert(step.a.output, number) }`, `{ (step.a.output) = 1 }`, `{ (step.a.output.x) = 1 }`,
		`{ a = "%{ for x in step.a.output }${x}%{ endfor }" }`, `{ a = "%{ if step.a.output }x%{ endif }" }`, `step.a.output`, `merge({}, step.a.output)`,
	}
	seen := map[sdk.Digest]string{}
	for _, in := range inputs {
		id, _ := identityOf(t, inputFlow(in))
		if prev, ok := seen[id.Input]; ok {
			t.Errorf("equal:\n  %s\n  %s", prev, in)
		}
		seen[id.Input] = in
	}
}

// TestFacetOrder: when, then input with its keys sorted, then depends_on, with
// repetition, locals where they are used; the kind follows the place.
func TestFacetOrder(t *testing.T) {
	t.Parallel()
	src := `
step "a" { uses = plugin.p.run }
step "b" { uses = plugin.p.run }
step "c" { uses = plugin.p.run }
locals {
  both = [step.b.output, step.a.status]
  more = [local.both, local.both]
}
step "z" {
  depends_on = [step.c, step.a]
  uses       = plugin.p.run
  input = {
    z = local.more
    m = try(step.a.output, local.both, step.b.output)
    b = can(step.c.output) && try(step.b.error, try(step.a.output, step.b.output), true)
    a = "${step.c.output}${step.b.degraded}"
  }
  when = step.b.attempts > 1 && step.a.output
}
`
	w := mustLoad(t, src)
	var got []string
	for _, f := range w.Steps[3].Facets {
		got = append(got, fmt.Sprintf("%s.%s %s", w.Steps[f.Step].Name, f.Facet, [...]string{"hard", "optional", "soft"}[f.Kind]))
	}
	want := []string{
		"b.attempts soft", "a.output hard", // when
		"c.output hard", "b.degraded soft", // a
		"c.output optional", "b.error soft", "a.output optional", "b.output optional", // b; the last of an inner try
		"a.output optional", "b.output optional", "a.status soft", "b.output hard", // m
		"b.output hard", "a.status soft", "b.output hard", "a.status soft", // z
		"c.output hard", "a.output hard", // depends_on
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facets (-want +got):\n%s", diff)
	}
	if s := w.Steps[3]; s.WhenFacets != 2 || !s.Facets[17].Order || s.Facets[15].Order || !s.HasWhen {
		t.Errorf("%+v", s)
	}
}

// TestIdentityValues: values from outside are named, and count by value.
func TestIdentityValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "prompts/a.txt", "one")
	write(t, dir, "t.tmpl", "Hi ${name}")
	write(t, dir, "flow.hcl", header+`
variable "topic" {}
variable "cfg" {
  type    = object({ model = string, other = number })
  default = { model = "m", other = 1 }
}
variable "unused" { default = 1 }
locals {
  name = "prompts/${var.topic}.txt"
  text = file(local.name)
  when = timestamp()
}
step "s" { uses = plugin.p.run }
step "z" {
  uses  = plugin.p.run
  when  = fileexists("none.txt") || var.topic != ""
  input = { text = local.text, model = var.cfg.model, out = step.s.output, t = templatefile("t.tmpl", { name = step.s.output.n }) }
}
step "r" {
  uses  = plugin.p.run
  input = { at = local.when }
}
`)
	identity := func(step int, vars ...string) Identity {
		w, ds := Load(dir)
		if ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		id, ds := w.Evaluator(mustBind(t, w, vars...), testRun).Identity(step)
		if ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		return id
	}
	names := func(id Identity) (out []string) {
		for _, v := range id.Values {
			out = append(out, v.Name)
		}
		return out
	}
	first := identity(1, "topic=a")
	if diff := cmp.Diff([]string{`file("prompts/a.txt")`, `file("t.tmpl")`, `fileexists("none.txt")`, "var.cfg.model", "var.topic"}, names(first)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if first.RunBound {
		t.Error("the step does not depend on the run")
	}
	if again := identity(1, "topic=a", "unused=2", `cfg={ model = "m", other = 2 }`); again.Input != first.Input || again.When != first.When {
		t.Error("a value that is not named changed the identity")
	}
	if other := identity(1, "topic=a", `cfg={ model = "n", other = 1 }`); other.Input == first.Input || other.When != first.When {
		t.Error("a named value does not count, or counts where it is not named")
	}
	write(t, dir, "none.txt", "")
	if other := identity(1, "topic=a"); other.When == first.When || other.Input != first.Input {
		t.Error("that a file appeared does not count")
	}
	write(t, dir, "prompts/a.txt", "two")
	if other := identity(1, "topic=a"); other.Input == first.Input {
		t.Error("the text of a file does not count")
	}
	if r := identity(2, "topic=a"); !r.RunBound || !slices.Equal(names(r), []string{"timestamp()"}) {
		t.Errorf("timestamp() in a local: %+v", r)
	}
}

func TestIdentityParts(t *testing.T) {
	t.Parallel()
	base := "variable \"s\" { default = 1 }\nplugin \"q\" {\n source = \"x\"\n config = { s = var.s }\n}\nstep \"a\" {\n uses = plugin.q.run\n%s}\n"
	id := func(args string, vars ...string) Identity {
		i, _ := identityOf(t, fmt.Sprintf(base, args), vars...)
		return i
	}
	plain := id("")
	if (plain.When != sdk.Digest{} || plain.Input != sdk.Digest{} || plain.Type != sdk.Digest{} || plain.Salt != sdk.Digest{}) {
		t.Errorf("what is not written has a digest: %+v", plain)
	}
	if id("", "s=2").Config == plain.Config {
		t.Error("the configuration does not count")
	}
	if a, b := id(" output_type = object({ a = string, b = optional(number) })\n"), id(" output_type = object({\n b=optional(number)\n a=string\n})\n"); a.Type != b.Type || a.Type.IsZero() {
		t.Error("the spelling of a type counts")
	}
	if a, b := id(" output_type = object({ a = string })\n"), id(" output_type = object({ a = optional(string) })\n"); a.Type == b.Type {
		t.Error("optional does not count")
	}
	if a, b := id(" checkpoint {\n salt = var.s\n}\n"), id(" checkpoint {\n salt = var.s\n}\n", "s=2"); a.Salt == b.Salt || a.Salt.IsZero() {
		t.Error("the salt does not count by its value")
	}
	if a, b := id(" timeout = \"1s\"\n retry {}\n effects = read\n"), plain; a.Input != b.Input || a.Type != b.Type {
		t.Error("a setting counts")
	}
}

// TestFileAfterStep: a path that follows from an output cannot be part of the
// identity.
func TestFileAfterStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "flow.hcl", header+twoSteps+"step \"z\" {\n uses = plugin.p.run\n input = { x = [for f in step.a.output.files : file(f)] }\n}\n")
	w, ds := Load(dir)
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	if _, ds := w.Evaluator(mustBind(t, w), testRun).Identity(2); !hasCode(ds, "invalid-function-argument") {
		t.Errorf("got %s", explain(ds))
	}
	write(t, dir, "flow.hcl", header+twoSteps+"variable \"m\" {\n type = map(string)\n default = {}\n}\nlocals { p = try(file(step.a.output.p), \"\") }\nstep \"z\" {\n uses = plugin.p.run\n input = { x = local.p }\n}\nstep \"y\" {\n uses = plugin.p.run\n input = { x = try(step.a.output.x, var.m.none, fileexists(\"x\")), y = try(step.a.output.x, var.m.none) }\n}\n")
	w, ds = Load(dir)
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	e := w.Evaluator(mustBind(t, w), testRun)
	if _, ds := e.Identity(2); !hasCode(ds, "invalid-function-argument") {
		t.Errorf("a path inside of try in a local: %s", explain(ds))
	}
	if id, ds := e.Identity(3); ds.HasErrors() || len(id.Values) != 2 {
		t.Errorf("an argument of try that may not be needed: %+v %s", id.Values, explain(ds))
	}
}

// genExpr draws an expression over step.a and step.b, the variable v and the
// `for` variables in scope.
func genExpr(t *rapid.T, depth int, scope []string) string {
	leaves := []string{"1", "2.5", `"x"`, "true", "null", "step.a.output.x", "step.b.output", "step.a.status", "var.v"}
	leaves = append(leaves, scope...)
	if depth == 0 {
		return rapid.SampledFrom(leaves).Draw(t, "leaf")
	}
	sub := func() string { return genExpr(t, depth-1, scope) }
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return "[" + sub() + ", " + sub() + "]"
	case 1:
		return "{ p = " + sub() + ", q = " + sub() + " }"
	case 2:
		return `"l${jsonencode(` + sub() + `)}r"`
	case 3:
		return "try(" + sub() + ", " + sub() + ")"
	case 4:
		return "(" + sub() + " == " + sub() + ")"
	case 5:
		v := fmt.Sprintf("v%d", len(scope))
		return "[for " + v + " in [" + sub() + "] : " + genExpr(t, depth-1, append(scope, v)) + "]"
	case 6:
		return "jsonencode(" + sub() + ")"
	}
	return rapid.SampledFrom(leaves).Draw(t, "leaf")
}

// TestMetamorphic: on random expressions, spellings that mean the same have the
// same identity and the same facets.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := genExpr(rt, 3, nil)
		flow := func(locals, input string) string {
			return "step \"a\" { uses = plugin.p.run }\nstep \"b\" { uses = plugin.p.run }\nvariable \"v\" { default = 3 }\n" + locals + "step \"z\" {\n uses = plugin.p.run\n input = " + input + "\n}\n"
		}
		want, facets := identityOf(t, flow("", "{ k = "+e+", l = 1 }"))
		renamed := e
		for i := range 6 {
			renamed = strings.ReplaceAll(renamed, fmt.Sprintf("v%d", i), fmt.Sprintf("名%d", i))
		}
		swapped := strings.NewReplacer("step.a", "step.b", "step.b", "step.a").Replace(e)
		for name, src := range map[string]string{
			"parentheses":    flow("", "{ k = ("+e+"), l = (1) }"),
			"wrapped":        flow("", `{ k = "${`+e+`}", l = 1 }`),
			"order":          flow("", "{ l = 1, k = "+e+" }"),
			"comments":       flow("# a\n", "{\n // b\n k = /* c */ "+e+" # d\n l = 1\n}"),
			"local":          flow("locals { x = "+e+" }\n", "{ k = local.x, l = 1 }"),
			"local of local": flow("locals {\n y = local.x\n x = ("+e+")\n}\n", "{ k = local.y, l = 1 }"),
			"for variables":  flow("", "{ k = "+renamed+", l = 1 }"),
			"step names":     flow("", "{ k = "+swapped+", l = 1 }"),
		} {
			got, f := identityOf(t, src)
			if got.Input != want.Input || !slices.Equal(attributeDigests(got), attributeDigests(want)) {
				rt.Errorf("%s: the identity of %s differs", name, e)
			}
			if diff := cmp.Diff(facetKinds(facets), facetKinds(f)); diff != "" {
				rt.Errorf("%s: the facets of %s differ:\n%s", name, e, diff)
			}
		}
		if other, _ := identityOf(t, flow("", "{ k = ["+e+"], l = 1 }")); other.Input == want.Input {
			rt.Errorf("%s and [%[1]s] are equal", e)
		}
	})
}
