package hcl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

func TestYAML(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, output, want string }{
		{`yamldecode("a: 1\nb: [x, 2.5, null, true]\n")`, `null`, `{"a":1,"b":["x",2.5,null,true]}`},
		{`yamldecode(step.a.output.y).a.b[1]`, `{"y":"a:\n  b:\n  - 1\n  - 报告 👍\n"}`, `"报告 👍"`},
		{`yamldecode("base: &b {x: 1}\nmore:\n  <<: *b\n  z: 2\n")`, `null`, `{"base":{"x":1},"more":{"x":1,"z":2}}`},
		{`yamldecode(step.a.output)`, `"- &a [1, 2]\n- *a\n- **bold**\n"`, ``},
		{`yamldecode(step.a.output)`, `"a: ["`, ``},
		{`yamldecode(step.a.output)`, `"a: .inf"`, ``},
		{`yamldecode(step.a.output)`, `"a: 1e400"`, ``},
		{`yamldecode(step.a.output)`, `"!foo x"`, ``},
		{`yamldecode(yamlencode({ b = [1, "x", null, { c = "y: z" }], a = "é\n" }))`, `null`, `{"a":"é\n","b":[1,"x",null,{"c":"y: z"}]}`},
		{`yamlencode({ a = 1, l = ["x"] })`, `null`, `"\"a\": 1\n\"l\":\n- \"x\"\n"`},
		{`urldecode("a+b%26c%E4%B8%AD")`, `null`, `"a b&c中"`},
		{`urldecode(urlencode("100% é/?"))`, `null`, `"100% é/?"`},
		{`urldecode(step.a.output)`, `"%zz"`, ``},
		{`urldecode(step.a.output)`, `"%ff"`, ``},
		{`uuidv5("dns", "www.example.com")`, `null`, `"2ed6657d-e927-568b-95e1-2665a8aea6a2"`}, // RFC 9562, A.4
		{`uuidv5("6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "www.example.com")`, `null`, `"2ed6657d-e927-568b-95e1-2665a8aea6a2"`},
		{`uuidv5(step.a.output, "x")`, `"nope"`, ``},
	} {
		got, ds := value(t, c.expr, c.output)
		if c.want == "" && !ds.HasErrors() || c.want != "" && got != c.want {
			t.Errorf("%s: got %s, want %s%s", c.expr, got, c.want, explain(ds))
		}
	}
}

// TestYAMLBombs: each of these ends the process, or takes a minute or gigabytes,
// without the guard.
func TestYAMLBombs(t *testing.T) {
	t.Parallel()
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("a%d: &a%[1]d [%s*a%d]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
	}
	stairs := ""
	for i := range 300 {
		stairs += strings.Repeat(" ", i) + "-\n"
	}
	bombs := map[string]string{
		"dashes": strings.Repeat("- ", 400_000) + "x", "questions": strings.Repeat("? ", 400_000) + "x", "mixed": strings.Repeat("- ? ", 200_000), "tabs": strings.Repeat("-\t", 400_000),
		"keys": strings.Repeat("a: - ", 50_000), "brackets": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "braces": strings.Repeat("{a: ", 100_000) + strings.Repeat("}", 100_000),
		"laughs": laughs, "stairs": stairs, "large": strings.Repeat("- x\n", 300_000),
	}
	for name, text := range bombs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if guardYAML([]cty.Value{cty.StringVal(text)}) != nil {
				return
			}
			if v, err := yamlDecodeFunc.Call([]cty.Value{cty.StringVal(text)}); err == nil {
				t.Errorf("decoded to a %s", v.Type().FriendlyName())
			}
		})
	}
	// Many texts, each of which is not too large.
	if _, ds := value(t, `[for i in range(1000) : length(yamldecode(step.a.output))]`, `"`+strings.Repeat(`- x\n`, 20_000)+`"`); !hasCode(ds, "evaluation-limit") {
		t.Errorf("a thousand times: %s", explain(ds))
	}
	for _, fine := range []string{"a: R & D\nb: '*'\nc: **bold** &c\n", "x: &a [1]\ny: [*a, *a, *a, *a, *a, *a, *a, *a]\n", strings.Repeat("- [\"(\", \"[\"]\n", 500)} {
		if err := guardYAML([]cty.Value{cty.StringVal(fine)}); err != nil {
			t.Errorf("%.40q: %v", fine, err)
		}
	}
}
