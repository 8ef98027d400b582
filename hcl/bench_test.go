package hcl

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// BenchmarkLoad defends that loading is linear: 20,000 steps in about a second.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{200, 2_000, 20_000} {
		for name, src := range map[string]string{"chain": chain(n), "fan": fan(n)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte(src)}}); ds.HasErrors() {
						b.Fatal(ds)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
			})
		}
	}
}

// BenchmarkLoadJSON defends the same for the JSON form, all on one line, and
// that places in a long line are found without counting from its beginning.
func BenchmarkLoadJSON(b *testing.B) {
	for _, n := range []int{200, 2_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var flow strings.Builder
			flow.WriteString(`{"workflow":{"w":{}},"plugin":{"p":{"source":"std/text"}},"step":{"s0":{"uses":"plugin.p.run"}`)
			for i := range n {
				fmt.Fprintf(&flow, `,"s%d":{"uses":"plugin.p.run","input":{"t":"Hello \"中\" ${step.s%d.output.text}"}}`, i+1, i)
			}
			flow.WriteString("}}")
			b.ReportAllocs()
			for b.Loop() {
				if _, ds := Parse([]File{{Path: "flow.hcl.json", Bytes: []byte(flow.String())}}); ds.HasErrors() {
					b.Fatal(ds)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
		})
	}
}

// BenchmarkInput defends that one step costs the same in a small and a large
// flow, and what a bare reference and an addition cost.
func BenchmarkInput(b *testing.B) {
	for _, n := range []int{100, 50_000} {
		var flow strings.Builder
		for i := range n {
			fmt.Fprintf(&flow, "step \"f%d\" { uses = plugin.p.run }\n", i)
		}
		for name, input := range map[string]string{
			"bare": `{ n = step.f7.output.n }`, "add": `{ n = step.f7.output.n + 1 }`, "template": `{ t = "Hello ${step.f7.output.name}, you are ${step.f7.output.n}" }`,
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				w, e := mustEvaluator(b, flow.String()+"step \"z\" {\n uses = plugin.p.run\n input = "+input+"\n}\n")
				up := answers(`{"name":"Ada","tags":["a","b"],"n":41}`)
				last := len(w.Steps) - 1
				b.ReportAllocs()
				for b.Loop() {
					if _, ds := e.Input(last, Scope{Up: up}); ds.HasErrors() {
						b.Fatal(ds)
					}
				}
			})
		}
	}
}

// BenchmarkValidate is a flow of 10,000 steps in 4.8 MB of text, prompts included:
// everything that can be told without plugins, and the memory that was asked of the
// system until then.
func BenchmarkValidate(b *testing.B) {
	var flow strings.Builder
	flow.WriteString(header)
	prompt := strings.Repeat("Say in one sentence what stands here. 用一句话说明。 ", 6)
	for i := range 10_000 {
		fmt.Fprintf(&flow, "step \"s%d\" {\n  uses  = plugin.p.run\n  input = { prompt = \"%s${%s}\" }\n}\n", i, prompt, map[bool]string{true: "run.id", false: fmt.Sprintf("step.s%d.output.text", i-1)}[i == 0])
	}
	b.ReportAllocs()
	b.SetBytes(int64(flow.Len()))
	for b.Loop() {
		w, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte(flow.String())}})
		if ds.HasErrors() {
			b.Fatal(ds)
		}
		if ds := w.CheckTypes(func(Use) Schemas { return Schemas{} }); ds.HasErrors() {
			b.Fatal(ds)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys)/1e6, "MB-heap")
}

// large is an output of 5 MB.
func large() string {
	var out strings.Builder
	out.WriteString(`{"items":[`)
	for i := range 100_000 {
		fmt.Fprintf(&out, `{"id":%d,"text":"一二三 and more of that"},`, i)
	}
	out.WriteString("null]}")
	return out.String()
}

// BenchmarkPassOn is an output of 5 MB that a bare reference passes on, and for
// comparison one that is computed with.
func BenchmarkPassOn(b *testing.B) {
	up := answers(large())
	for name, x := range map[string]string{"bare": "step.a.output.items", "decoded": "concat(step.a.output.items, [])"} {
		b.Run(name, func(b *testing.B) {
			w, e := mustEvaluator(b, "step \"a\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n input = { all = "+x+" }\n}\n")
			b.ReportAllocs()
			for b.Loop() {
				if _, ds := e.Input(len(w.Steps)-1, Scope{Up: up}); ds.HasErrors() {
					b.Fatal(ds)
				}
			}
		})
	}
}

// A bare reference passes on an output of 5 MB without decoding it, by whatever way
// it leads there: its 300,000 values would each need memory. Not parallel: what
// others ask for would be counted.
func TestPassingOnDecodesNothing(t *testing.T) {
	w, ds := loadTree(t, `
step "a" { uses = plugin.p.run }
step "sub" {
  workflow = "./sub.hcl"
  input    = { doc = step.a.output }
}
step "each" {
  workflow = "./sub.hcl"
  for_each = ["one"]
  input    = { doc = step.a.output }
}
locals {
  whole = step.a.output
  parts = { items = local.whole.items }
}
step "z" {
  uses = plugin.p.run
  input = {
    all   = step.a.output
    items = step.a.output.items
    local = local.parts.items
    sub   = step.sub.output
    part  = step.sub.output.doc.items
    each  = step.each.output[0].doc.items
    try   = try(step.a.output.items, [])
    small = length(step.a.output.items[0].text)
  }
}
`, map[string]string{"sub.hcl": childHeader + `
variable "doc" { type = any }
step "b" {
  uses  = plugin.c.run
  input = { items = var.doc.items }
}
output "doc" { value = step.b.output }
`})
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	e := w.Evaluator(mustBind(t, w), testRun)
	one, list := large(), "["+large()+"]"
	up := func(i int) Result {
		res := Result{State: sdk.Succeeded, Output: json.RawMessage(one), Attempts: 1}
		if w.Steps[i].ForEach {
			res.Output, res.List = json.RawMessage(list), true
			res.Instances = []InstanceResult{{json.RawMessage("0"), Result{State: sdk.Succeeded, Attempts: 1}}}
		}
		return res
	}
	for _, name := range []string{"step.z", "step.sub/step.b"} {
		step := stepNamed(t, w, name)
		n := testing.AllocsPerRun(3, func() {
			if _, ds := e.Input(step, Scope{Up: up}); ds.HasErrors() {
				t.Fatal(explain(ds))
			}
		})
		if n > 1000 {
			t.Errorf("the input of %s took %v allocations", name, n)
		}
	}
}

// BenchmarkFanOut defends that what an instance costs does not grow with the
// number of the others where it takes its own part: the for_each, and then its
// identity and input.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, `,{"id":%d,"text":"a text of some length, as it is"}`, i)
		}
		up := answers("[" + list.String()[1:] + "]")
		w, e := mustEvaluator(b, "step \"a\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n for_each = step.a.output\n input = { id = each.value.id, t = \"${each.value.text}!\" }\n}\n")
		z := len(w.Steps) - 1
		x, ds := e.ForEach(z, 0, Scope{Up: up})
		if ds.HasErrors() || len(x.Each) != n {
			b.Fatal(explain(ds))
		}
		b.Run(fmt.Sprintf("for_each/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = e.ForEach(z, 0, Scope{Up: up})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/instance")
		})
		b.Run(fmt.Sprintf("identity/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = e.EachIdentity(z, x.Each[n-1:])
			}
		})
		b.Run(fmt.Sprintf("input/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = e.Input(z, Scope{Up: up, Each: x.Each[n-1:]})
			}
		})
	}
}

// BenchmarkIdentity is what a plan pays for each step.
func BenchmarkIdentity(b *testing.B) {
	w, e := mustEvaluator(b, "variable \"v\" { default = \"x\" }\nstep \"a\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n input = { text = step.a.output.text, v = var.v, t = \"Hi ${var.v}\" }\n}\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, ds := e.Identity(len(w.Steps) - 1); ds.HasErrors() {
			b.Fatal(ds)
		}
	}
}

// BenchmarkHostile is how soon each hostile file is refused, and what memory
// it takes.
func BenchmarkHostile(b *testing.B) {
	paths, _ := filepath.Glob("testdata/hostile/*")
	for _, path := range paths {
		b.Run(filepath.Base(path), func(b *testing.B) {
			dir := hostileDir(b, path)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Load(dir)
			}
		})
	}
}

// BenchmarkBombs is how soon each of them is defused in each form, and what memory
// it asks for on the way: within a second of CPU and 256 MiB.
func BenchmarkBombs(b *testing.B) {
	for name, c := range bombs() {
		for form, dir := range c.forms(b) {
			b.Run(name+"/"+form, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if ds := defuse(dir); !hasCode(ds, c.code) {
						b.Fatal(c.code)
					}
				}
			})
		}
	}
}
