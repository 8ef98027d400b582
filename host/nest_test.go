package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// A random flow of loops within loops is written twice: as it is, and with every
// sub-workflow that has a for_each written out, once for each element. Both must make
// the same calls with the same inputs and fail in the same places, at first and when
// they are gone on with or edited.

// part is a step of a random flow, or with a body a sub-workflow.
type part struct {
	name string
	over string // of what it has an instance each: "", list, map, set, run, items, or a step before it
	when bool   // some of them are skipped
	skip bool   // on_failure = skip
	late bool   // it has a fallback
	refs []ref
	body []*part
}

// ref is how a part names one before it: its output, or its status.
type ref struct {
	to  *part
	how string
}

// randomParts makes what is in a set of files. gated: all of it may be skipped; then
// the instances of a sub-workflow are known before it runs, for what they depended on
// would be skipped too, and with it who asks how they have ended.
func randomParts(r *rand.Rand, depth int, prefix string, gated bool) (ps []*part) {
	for n := range 2 + r.IntN(3) {
		p := &part{name: fmt.Sprint(prefix, n), over: []string{"", "", "list", "map", "set", "run", "items"}[r.IntN(7)]}
		if n == 0 { // so that there is one, however its loops are written
			p.over = ""
		} else if depth > 0 && r.IntN(3) > 0 {
			p.when = r.IntN(4) == 0
			if p.body = randomParts(r, depth-1, p.name, gated || p.when); p.over == "items" {
				p.over = "run"
			}
			if gated && p.over == "run" {
				p.over = "map"
			}
		}
		for _, q := range ps {
			if r.IntN(2) == 0 {
				p.refs = append(p.refs, ref{q, []string{"output", "optional", "status"}[r.IntN(3)]})
			}
			if p.body == nil && q.body == nil && q.over != "" && r.IntN(3) == 0 {
				p.over = "step." + q.name
				p.refs = slices.DeleteFunc(p.refs, func(x ref) bool { return x.to == q })
			}
		}
		p.skip = r.IntN(4) == 0
		switch {
		case p.body == nil:
			p.when, p.late = r.IntN(4) == 0, r.IntN(6) == 0
		case !p.when:
			p.late = r.IntN(4) == 0
		}
		ps = append(ps, p)
	}
	return ps
}

// writer writes a random flow, unrolled or not.
type writer struct {
	files    map[string]string
	unrolled bool
	edited   string // this element is another one
}

// elements are what a collection over v holds, with their keys.
func (w *writer) elements(over, v string) (keys, values []string) {
	for i := range len(v) % 3 {
		value := fmt.Sprint(v, i)
		if over == "set" {
			keys = append(keys, value)
		} else {
			keys = append(keys, map[bool]string{true: fmt.Sprint(i), false: fmt.Sprint("k", i)}[over == "list"])
		}
		values = append(values, value)
	}
	return keys, values
}

func (w *writer) collection(over string) string {
	element := fmt.Sprintf(`"${var.v}${i}${var.v == "%s" && i == 0 ? "xyz" : ""}"`, w.edited)
	switch over {
	case "list":
		return "[for i in range(length(var.v) % 3) : " + element + "]"
	case "set":
		return "toset([for i in range(length(var.v) % 3) : \"${var.v}${i}\"])"
	}
	return "{ for i in range(length(var.v) % 3) : \"k${i}\" => " + element + " }"
}

const digest = "substr(sha256(jsonencode(%s)), 0, 8)"

// scope writes what is in a set of files where var.v is v.
func (w *writer) scope(ps []*part, v, path string) string {
	var b strings.Builder
	facets := map[string][2]string{} // of each part, as it is named: output and status
	step := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "step %q {\n"+format+"}\n", append([]any{name}, args...)...)
	}
	items := ""
	var lists []string
	for _, p := range ps {
		var named []string
		for _, x := range p.refs {
			f := facets[x.to.name]
			named = append(named, map[string]string{"output": f[0], "optional": "try(" + f[0] + ", \"-\")", "status": f[1]}[x.how])
		}
		over := w.collection(p.over)
		switch {
		case p.over == "run":
			step("list"+p.name, "uses = plugin.p.echo\ninput = { v = %s }\n", over)
			over = "step.list" + p.name + ".output"
			lists = append(lists, "try("+over+", \"-\")")
		case p.over == "items":
			over = "var.items"
		case strings.HasPrefix(p.over, "step."):
			over = p.over + ".output"
		}
		facets[p.name] = [2]string{"step." + p.name + ".output", "step." + p.name + ".status"}
		more := ""
		if p.skip {
			more += "on_failure = \"skip\"\n"
		}
		if p.body == nil {
			if p.late {
				more += "fallback { output = \"instead\" }\n"
			}
			own, condition := "\"-\"", "length(var.v)"
			if p.over != "" {
				more += "for_each = " + over + "\n"
				own, condition = "[each.key, each.value]", "length(jsonencode([var.v, each.value]))"
			}
			if p.when {
				more += "when = " + condition + " % 2 == 0\n"
			}
			step(p.name, "uses = plugin.p.echo\ninput = { v = "+digest+" }\n%s", "[var.v, "+own+", ["+strings.Join(named, ", ")+"]]", more)
			if p.over != "" {
				items = "step." + p.name + ".output"
			}
			continue
		}
		if p.late {
			more += "fallback { output = { o = \"instead\" } }\n"
		}
		below := "items = " + map[bool]string{true: "{ x = \"y\" }", false: items}[items == ""]
		refs := "named = " + fmt.Sprintf(digest, "["+strings.Join(named, ", ")+"]")
		instance := func(name, value, loop, in, at string) {
			if p.when {
				loop += "when = length(" + value + ") % 2 == 0\n"
			}
			step(name, "workflow = \"./%s.hcl\"\ninput = {\n v = %s\n %s\n %s\n}\n%s%s", w.file(p, in, at), value, refs, below, loop, more)
		}
		at := path + "_" + p.name
		switch {
		case p.over == "":
			instance(p.name, "var.v", "", v, at)
			facets[p.name] = [2]string{"step." + p.name + ".output.o", "step." + p.name + ".status"}
		case !w.unrolled:
			instance(p.name, "each.value", "for_each = "+over+"\n", "", at)
		default:
			var f [2][]string
			keys, values := w.elements(p.over, v)
			for i, key := range keys {
				name, value := p.name+"_"+key, fmt.Sprintf("%q", values[i])
				if w.edited == v && i == 0 && p.over != "set" {
					value = fmt.Sprintf("%q", values[i]+"xyz")
				}
				if p.over == "run" {
					value = "step.list" + p.name + ".output[\"" + key + "\"]"
				}
				inner := values[i]
				if w.edited == v && i == 0 && p.over != "set" {
					inner += "xyz"
				}
				instance(name, value, "", inner, at+"_"+key)
				k := ""
				if p.over != "list" {
					k = fmt.Sprintf("%q = ", key)
				}
				f[0], f[1] = append(f[0], k+"step."+name+".output"), append(f[1], k+"step."+name+".status")
			}
			brackets := "{}"
			if p.over == "list" {
				brackets = "[]"
			}
			for i, of := range f {
				x := facets[p.name]
				x[i] = brackets[:1] + strings.Join(of, ", ") + brackets[1:]
				facets[p.name] = x
			}
		}
	}
	// What is known while it runs is no end of the flow, also where nothing follows it.
	step("z", "uses = plugin.p.echo\nwhen = length(var.v) %% 2 == 0\ninput = { v = "+digest+" }\n", "["+strings.Join(append(lists, "var.v"), ", ")+"]")
	var all []string
	for _, p := range ps {
		all = append(all, "try("+facets[p.name][0]+", \"-\"), "+facets[p.name][1])
	}
	fmt.Fprintf(&b, "output \"o\" { value = "+digest+" }\n", "["+strings.Join(all, ", ")+"]")
	return b.String()
}

// file writes the files of a sub-workflow and gives their name.
func (w *writer) file(p *part, v, path string) string {
	name := p.name
	if w.unrolled {
		name = path
	}
	head := "variable \"v\" { type = string }\nvariable \"items\" {}\nvariable \"named\" {}\n"
	if w.files[name+".hcl"] == "" {
		w.files[name+".hcl"] = head + w.scope(p.body, v, path)
	}
	return name
}

// nested is a scene in which a random flow is applied, written in one way.
type nested struct {
	*scene
	mu     sync.Mutex
	parts  []*part
	out    bool              // unrolled
	inputs map[string]string // of the calls since the last look, by address
	fails  func(address string) bool
	stop   context.CancelFunc // ends the run after so many calls; nil: it is not ended
	left   int
	end    string // the output
}

// plain is an address as it is in both ways of writing.
var plain = strings.NewReplacer("[\"", "_", "\"]", "", "[", "_", "]", "")

func newNested(t *testing.T, parts []*part, unrolled bool) *nested {
	n := &nested{scene: newScene(t), parts: parts, out: unrolled, inputs: map[string]string{}}
	n.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		address := plain.Replace(hcl.InstanceAddress(req.Step, req.Instance))
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.left--; n.left < 0 && n.stop != nil {
			n.stop()
			<-ctx.Done()
			return nil, sdk.Ended(ctx)
		}
		if n.fails != nil && n.fails(address) {
			return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "no"}
		}
		n.inputs[address] = string(req.Input)
		return nil, nil
	}
	return n
}

// apply gives the failures, and what was called with which input.
func (n *nested) apply(concurrency int, edited string, ro RunOptions) (failed []string, called map[string]string, res *Result) {
	n.t.Helper()
	w := &writer{files: map[string]string{}, unrolled: n.out, edited: edited}
	text := "locals { items = { i = \"j\" } }\nvariable \"v\" { default = \"v\" }\nvariable \"items\" { default = { x = \"y\" } }\n" + w.scope(n.parts, "v", "f")
	dir := n.t.TempDir()
	plugin := "\nplugin \"p\" { source = \"./p.wasm\" }\n"
	for name, body := range w.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("workflow \"child\" {}"+plugin+body), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	flow := filepath.Join(dir, "flow.hcl")
	if err := os.WriteFile(flow, []byte("workflow \"w\" {}"+plugin+text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	wf, diags := hcl.Load(flow)
	if diags.HasErrors() {
		n.t.Fatalf("%v\n%s", diags, text)
	}
	f, diags := Compile(wf, dir, []loader.Loader{n})
	if diags.HasErrors() {
		n.t.Fatal(diags)
	}
	v, diags := wf.Bind(hcl.BindOptions{})
	if diags.HasErrors() {
		n.t.Fatal(diags)
	}
	h, err := New(Options{Store: n.store, Concurrency: concurrency})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n.stop != nil {
		n.stop = cancel
	}
	if res, err = h.Apply(ctx, f, v, ro); err != nil {
		n.t.Fatal(err)
	}
	for _, x := range res.Failures {
		failed = append(failed, plain.Replace(x.Step))
	}
	slices.Sort(failed)
	called, n.inputs = n.inputs, map[string]string{}
	n.end = string(res.Outputs[0].Value) + res.Outputs[0].Unavailable
	return failed, called, res
}

func TestLoopsInLoopsAreWrittenOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		parts := randomParts(r, 1+int(seed%3), "s", false)
		loops, out := newNested(t, parts, false), newNested(t, parts, true)
		rate := byte(2 + r.IntN(20))
		fails := func(address string) bool {
			return !strings.Contains(address, "/step.list") && !strings.HasPrefix(address, "step.list") && sdk.Sum(fmt.Append(nil, seed, address))[0]%rate == 0
		}
		compare := func(what, edited string, fails func(string) bool) {
			t.Helper()
			loops.fails, out.fails = fails, fails
			failed, called, res := loops.apply(1+r.IntN(5), edited, RunOptions{})
			failedOut, calledOut, resOut := out.apply(3, edited, RunOptions{})
			if d := cmp.Diff(calledOut, called); d != "" {
				t.Fatalf("seed %d, %s: calls (-written out +loops):\n%s", seed, what, d)
			}
			if d := cmp.Diff(failedOut, failed); d != "" {
				t.Fatalf("seed %d, %s: failures (-written out +loops):\n%s", seed, what, d)
			}
			if res.Run.Status != resOut.Run.Status || loops.end != out.end {
				t.Fatalf("seed %d, %s: %s %s, written out %s %s", seed, what, res.Run.Status, loops.end, resOut.Run.Status, out.end)
			}
		}
		compare("first", "-", fails)
		compare("gone on with", "-", nil)
		compare("nothing to do", "-", nil)
		compare("edited", []string{"v", "v0", "v00"}[r.IntN(3)], nil)

		// A run that ends after any of its calls is gone on with.
		whole := newNested(t, parts, false)
		_, all, _ := whole.apply(2, "-", RunOptions{})
		if len(all) == 0 {
			continue
		}
		cut := newNested(t, parts, false)
		cut.stop, cut.left = func() {}, r.IntN(len(all))
		_, answered, _ := cut.apply(2, "-", RunOptions{})
		cut.stop = nil
		_, again, res := cut.apply(3, "-", RunOptions{})
		if res.Run.Status != checkpoint.RunSucceeded || cut.end != whole.end {
			t.Fatalf("seed %d: %s %s, undisturbed %s", seed, res.Run.Status, cut.end, whole.end)
		}
		for address := range again {
			if _, twice := answered[address]; twice {
				t.Fatalf("seed %d: %s was answered and ran again", seed, address)
			}
		}
	}
}
