package hcl

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// textSchemas are those of a step type that answers with a summary.
func textSchemas(Use) Schemas {
	return Schemas{
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["text"],"properties":{
			"text":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"opts":{"type":"object","properties":{"n":{"type":"integer"}}},"any":{"type":["string","null"]}}}`),
		Output: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"summary":{"type":"string"},"score":{"type":"number"},"list":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"}}}},
			"open":{"type":"object"},"counts":{"type":"object","additionalProperties":{"type":"integer"}},"kind":{"enum":["a","b"]},"more":{"type":"object","properties":{"a":{}},"additionalProperties":true}}}`),
	}
}

func TestCheckTypes(t *testing.T) {
	t.Parallel()
	ref := func(expr string) string {
		return "step \"a\" {\n uses = plugin.p.run\n input = { text = \"x\" }\n}\noutput \"o\" { value = " + expr + " }\n"
	}
	input := func(in string) string {
		return "step \"a\" {\n uses = plugin.p.run\n input = " + in + "\n}\n"
	}
	each := "step \"a\" {\n for_each = { x = 1 }\n uses = plugin.p.run\n input = { text = \"x\" }\n}\noutput \"o\" { value = "
	cases := map[string]struct{ flow, says string }{
		"misspelt":           {ref("step.a.output.sumary"), `Did you mean "summary"?`},
		"inside a primitive": {ref("step.a.output.summary.x"), "is a string and has no attribute"},
		"in a list":          {ref("step.a.output.list[0].ib"), `has no attribute "ib"`},
		"of all":             {ref("step.a.output.list[*].ib"), `"ib"`},
		"by way of a local":  {"locals { s = step.a.output }\n" + ref("local.s.sumary"), `Did you mean "summary"?`},
		"of an instance":     {each + "step.a.output[\"x\"].sumary }", `Did you mean "summary"?`},
		"of each": {each + "0 }\nstep \"b\" {\n for_each = step.a.output\n uses = plugin.p.run\n input = { text = each.value.sumary }\n}\n",
			`Did you mean "summary"?`},
		"input misspelt":  {input(`{ text = "x", tgas = [] }`), `at /tgas: there is no such attribute. Did you mean "tags"?`},
		"input missing":   {input(`{ tags = [] }`), `the attribute "text" is missing`},
		"no input":        {"step \"a\" { uses = plugin.p.run }", `the attribute "text" is missing`},
		"input type":      {input(`{ text = 5 }`), "at /text: want string, found a number (5)"},
		"input in a list": {input(`{ text = "x", tags = ["a", 1] }`), "at /tags/1: want string"},
		"input deep":      {input(`{ text = "x", opts = { n = "1" } }`), "at /opts/n: want number"},
		"input null":      {input(`{ text = null }`), "want string, found null"},
		"input from step": {ref("1") + "step \"b\" {\n uses = plugin.p.run\n input = { text = step.a.output.score }\n}\n", "at /text: want string, found a number"},
		"input of check":  {"step \"a\" {\n uses = plugin.p.run\n input = { text = \"x\" }\n check {\n uses = plugin.p.judge\n input = {}\n }\n}\n", "a check of step.a"},

		"right":             {ref(`"${step.a.output.summary} ${step.a.output.list[0].id} ${step.a.output.counts.x}"`), ""},
		"caught":            {ref("try(step.a.output.sumary, 1)"), ""},
		"open object":       {ref("step.a.output.open.x.y"), ""},
		"more may be there": {ref("step.a.output.more.x"), ""},
		"an enumeration":    {ref("step.a.output.kind"), ""},
		"input open":        {input(`{ text = "x", opts = { n = 1, x = 2 }, any = null }`), ""},
		"the flow's type":   {strings.Replace(ref("step.a.output.sumary"), "uses = plugin.p.run", "uses = plugin.p.run\n output_type = object({ sumary = string })", 1), ""},
		"another answers":   {strings.Replace(ref("step.a.output.sumary"), "uses = plugin.p.run", "uses = plugin.p.run\n fallback {\n uses = plugin.p.run\n input = { text = \"\" }\n }", 1), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ds := mustLoad(t, c.flow).CheckTypes(textSchemas)
			if c.says == "" && len(ds) > 0 || c.says != "" && !slices.ContainsFunc(ds, func(d Diagnostic) bool {
				return strings.Contains(d.Detail, c.says) && !d.Subject.IsZero() && d.Severity == Error
			}) {
				t.Errorf("want %q, got%s", c.says, explain(ds))
			}
		})
	}
}

// What is more than a type, and what is no schema, says nothing.
func TestSchemaTypeOfOther(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `true`, `[]`, `{`, `{"$ref":"#/$defs/x"}`, `{"type":"object","patternProperties":{}}`, `{"type":"array","prefixItems":[{}]}`, `{"type":["string","null"]}`, `{"type":7}`, `{"properties":{"a":{}}}`} {
		if s := parseSchema(json.RawMessage(text)); s != nil {
			t.Errorf("%s is taken for %+v", text, s)
		}
	}
}

// What stands beside a type does not make it another one, but may make an object
// larger.
func TestSchemaTypeBesideOthers(t *testing.T) {
	t.Parallel()
	if named := parseSchema(json.RawMessage(`{"type":"object","required":["b"],"properties":{"a":{}}}`)); !named.promised().HasAttribute("b") {
		t.Error("what is required may not be named")
	}
	closed := parseSchema(json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"a":{}},"oneOf":[{"required":["a"]}]}`))
	if !closed.closed || !closed.promised().IsObjectType() {
		t.Errorf("a closed object is %+v", closed)
	}
	open := parseSchema(json.RawMessage(`{"type":"object","properties":{"a":{}},"allOf":[{"properties":{"b":{}}}]}`))
	if !open.open || open.promised().IsObjectType() {
		t.Errorf("an object of which allOf says more is %+v", open)
	}
}

func TestCheckTypesHidesSensitiveValues(t *testing.T) {
	t.Parallel()
	w := mustLoad(t, "variable \"key\" {\n sensitive = true\n default = 12345\n}\nlocals { k = sensitive(12345) }\nstep \"a\" {\n uses = plugin.p.run\n input = { text = local.k }\n}\n")
	ds := w.CheckTypes(textSchemas)
	if !hasCode(ds, "input-type") || strings.Contains(explain(ds), "12345") {
		t.Errorf("got%s", explain(ds))
	}
}
