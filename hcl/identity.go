package hcl

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// digests remembers the digests of values from outside and of plugins'
// configurations: many steps name the same ones.
type digests struct {
	mu      sync.Mutex
	by      map[string]sdk.Digest
	configs map[int][]ValueIdentity // members, by plugin
}

// get returns the digest called name, which make makes; one that it could not
// make is made again.
func (d *digests) get(name string, make func() (sdk.Digest, bool)) sdk.Digest {
	d.mu.Lock()
	v, ok := d.by[name]
	d.mu.Unlock()
	if ok {
		return v
	}
	v, ok = make()
	if ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.by == nil {
			d.by = map[string]sdk.Digest{}
		}
		d.by[name] = v
	}
	return v
}

// setConfig keeps the digests of a configuration's members.
func (d *digests) setConfig(plugin int, config json.RawMessage) {
	var ms []ValueIdentity
	if kindOf(config) == "object" {
		members(config, func(k, raw []byte) bool {
			ms = append(ms, ValueIdentity{"plugin config." + unquote(k), sdk.Sum(raw)})
			return true
		})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.configs == nil {
		d.configs = map[int][]ValueIdentity{}
	}
	d.configs[plugin] = ms
}

func (d *digests) config(plugin int) []ValueIdentity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.configs[plugin]
}

// Identity returns what the keys of a step are made of. Nothing of another step
// is asked for: the digests have a hole where a facet stands, in the order of
// Step.Facets.
func (e *Evaluator) Identity(step int) (Identity, Diagnostics) {
	code := &e.p.steps[step]
	var id Identity
	var ds Diagnostics
	values := map[string]sdk.Digest{}
	id.When = e.identify(code.when, values, &ds)
	for k, l := range code.loops {
		d := e.identify(l.x, values, &ds)
		if k > 0 {
			d = begin("loops ").digest(id.ForEach).digest(d).sum()
		}
		id.ForEach = d
	}
	id.Input = e.identify(code.identified(), values, &ds)
	id.Checks = e.checksDigest(step, values, &ds)
	for name, d := range values {
		id.Values = append(id.Values, ValueIdentity{name, d})
		id.RunBound = id.RunBound || name == "timestamp()" || strings.HasPrefix(name, "run.")
	}
	slices.SortFunc(id.Values, func(a, b ValueIdentity) int { return strings.Compare(a.Name, b.Name) })
	if code.outType != cty.NilType {
		id.Type = sdk.Sum([]byte(typeText(code.outType)))
	}
	if code.salt != nil && code.salt.each > 0 {
		id.Salt = e.identify(code.salt, map[string]sdk.Digest{}, &ds)
	} else {
		salt, saltDs := e.Salt(step, nil)
		id.Salt, ds = salt, append(ds, saltDs...)
	}
	if x := code.identified(); x != nil {
		id.Attributes = e.attributes(x)
	}
	if code.plugin >= 0 {
		id.Config = e.configDigest(code.plugin, &ds)
		id.ConfigMembers = e.digests.config(code.plugin)
	}
	id.Judge = e.judgement(code.post, &ds)
	if ds.HasErrors() {
		return Identity{}, ds
	}
	return id, nil
}

func (e *Evaluator) configDigest(plugin int, ds *Diagnostics) sdk.Digest {
	return e.digests.get("plugin."+e.p.w.Plugins[plugin].Name, func() (sdk.Digest, bool) {
		config, configDs := e.keyConfig(plugin)
		*ds = append(*ds, configDs...)
		e.digests.setConfig(plugin, config)
		return sdk.Sum(config), !configDs.HasErrors()
	})
}

// identify digests an argument: its canonical form and the values from outside
// that it names, which it adds to values.
func (e *Evaluator) identify(x *expression, values map[string]sdk.Digest, ds *Diagnostics) sdk.Digest {
	if x == nil {
		return sdk.Digest{}
	}
	own := map[string]sdk.Digest{}
	e.outside(x, own)
	if x.clock {
		own["timestamp()"] = sdk.Sum([]byte(e.startedAt()))
	}
	if x.readsFile {
		// Mistakes are for the evaluation to tell: try may catch them, and
		// what is not known yet may turn out to be fine.
		f := e.frame(planning, Scope{})
		_, _ = f.value(x)
		if x.each == 0 { // else the path may follow from it: EachIdentity will see
			*ds = append(*ds, fromHCL(f.unplanned)...)
		}
		for _, r := range f.reads {
			own[r.call] = r.digest
		}
	}
	h := begin("argument ").digest(x.canon)
	for _, name := range keysOfMap(own) {
		h = h.str(name).digest(own[name])
		values[name] = own[name]
	}
	return h.sum()
}

// outside collects the values that x and the locals it names take from
// variables and from the run.
func (e *Evaluator) outside(x *expression, into map[string]sdk.Digest) {
	stack := [][]*refExpr{x.items}
	var seen map[int]bool
	for len(stack) > 0 {
		items := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, r := range items {
			switch r.kind {
			case refLocal:
				l := &e.p.locals[r.index]
				if l.expr == nil || len(l.expr.items) == 0 || seen[r.index] {
					continue
				}
				if seen == nil {
					seen = map[int]bool{}
				}
				seen[r.index] = true
				stack = append(stack, l.expr.items)
			case refVar, refRun, refPath:
				into[r.text] = e.outsideDigest(r)
			case refSecret:
				if e.p.w.Secrets[r.index].Fingerprint {
					into[r.text] = e.secretDigest(r.index)
				}
			}
		}
	}
}

func (e *Evaluator) outsideDigest(r *refExpr) sdk.Digest {
	sum := func(b []byte) sdk.Digest { return sdk.Sum(b) }
	if r.kind == refVar && e.p.vars[r.index].sensitive {
		sum = func(b []byte) sdk.Digest { return e.keyed(b) }
	}
	return e.digests.get(r.text, func() (sdk.Digest, bool) {
		if r.kind == refVar && len(r.rest) == 0 {
			b, err := e.values.appendJSON(nil, r.index)
			return sum(b), err == nil
		}
		v, hd := r.Value(&e.frame(planning, Scope{}).ctx)
		if hd.HasErrors() {
			return sdk.Sum([]byte("absent")), true // inside try; elsewhere the evaluation will say so
		}
		b, err := appendJSON(nil, v)
		return sum(b), err == nil
	})
}

func (e *Evaluator) digestOf(v cty.Value, x *expression, ds *Diagnostics) sdk.Digest {
	b, err := appendJSON(nil, v)
	if err != nil {
		ds.errorf("invalid-value", x.rng, "Value cannot be used", "%s", x.plain(sentence(err)+"."))
	}
	if x.marked.sensitive {
		return e.keyed(b)
	}
	return sdk.Sum(b)
}

// attributes is the canonical form of each attribute of a literal object.
func (e *Evaluator) attributes(x *expression) []AttributeIdentity {
	obj, ok := unwrap(x.node).(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	var out []AttributeIdentity
	for _, it := range sortedItems(obj) {
		key, ok := literalKey(it.KeyExpr)
		if !ok {
			return nil
		}
		c := canonizer{p: e.p, out: &expression{}}
		out = append(out, AttributeIdentity{key, c.digest(it.ValueExpr)})
	}
	return out
}
