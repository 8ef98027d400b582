package hcl

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
)

// apart is an argument that names something sensitive, taken apart: what may be
// in a digest as it is, and what may not.
type apart struct {
	plain *expression // a literal object without the parts; nil if the whole argument is one
	parts []part
}

// part is one attribute; key is "" when it is the whole argument.
type part struct {
	key string
	x   *expression
}

// separate fills in x.apart.
func (p *program) separate(x *expression) {
	if x == nil || x.apart != nil || !x.marked.sensitive && len(x.marked.secrets) == 0 {
		return
	}
	x.apart = &apart{parts: []part{{"", x}}}
	obj, ok := unwrap(x.node).(*hclsyntax.ObjectConsExpr)
	if !ok {
		return
	}
	plain := &hclsyntax.ObjectConsExpr{SrcRange: obj.SrcRange}
	var parts []part
	for _, it := range sortedItems(obj) {
		key, literal := literalKey(it.KeyExpr)
		if !literal {
			return
		}
		if m := p.mark(it.ValueExpr, nil); !m.sensitive && len(m.secrets) == 0 {
			plain.Items = append(plain.Items, it)
			continue
		}
		at := &expression{node: it.ValueExpr, rng: it.ValueExpr.Range(), locals: x.locals}
		p.canonize(at)
		parts = append(parts, part{key, at})
	}
	rest := &expression{node: plain, rng: x.rng, locals: x.locals}
	p.canonize(rest)
	p.shape(rest)
	x.apart = &apart{rest, parts}
}

// hidden are the attributes of x of which nothing may be shown; [""] says all. x
// may be nil.
func (x *expression) hidden() (names []string) {
	if x == nil {
		return nil
	}
	if x.apart == nil { // not taken apart
		if x.marked.sensitive || len(x.marked.secrets) > 0 {
			names = []string{""}
		}
		return names
	}
	for _, p := range x.apart.parts {
		names = append(names, p.key)
	}
	return names
}

// NeedsKey reports whether evaluations need RunInfo.Key: the flow has a sensitive
// variable, or a secret with a fingerprint.
func (w *Workflow) NeedsKey() bool {
	return w.impl.keyed || slices.ContainsFunc(w.Variables, func(v Variable) bool { return v.Sensitive }) ||
		slices.ContainsFunc(w.Secrets, func(s Secret) bool { return s.Fingerprint })
}

// keyed is a digest from which nobody can tell what was hashed without the key.
func (e *Evaluator) keyed(b []byte) sdk.Digest {
	m := hmac.New(sha256.New, e.run.Key)
	m.Write(b)
	return sdk.Digest(m.Sum(nil))
}

// secretDigest is the keyed hash of a secret's value, of an absent one that of
// nothing. The value that it had first counts for the whole run.
func (e *Evaluator) secretDigest(i int) sdk.Digest {
	return e.digests.get("secret."+e.p.w.Secrets[i].Name, func() (sdk.Digest, bool) {
		if e.run.Secret == nil {
			return sdk.Digest{}, false
		}
		value, ok, err := e.run.Secret(i)
		h := begin("secret ")
		if ok {
			h = h.str(value)
		}
		return e.keyed(h), err == nil
	})
}

// KeyInput is what belongs into the content key of a step in place of its
// evaluated input: without the attributes that checkpoint.exclude names, and with
// digests in place of those that carry secrets or sensitive values. An attribute
// that carries a secret is its expression and the values of everything else that
// it names, so another value of the secret is the same input; a sensitive one is
// a keyed hash of its value. input is what Input gave; nil leaves what is
// replaced unevaluated, so that it can be asked before secrets are known.
func (e *Evaluator) KeyInput(step int, input json.RawMessage, s Scope) (json.RawMessage, Diagnostics) {
	code := &e.p.steps[step]
	x := code.identified()
	if x == nil || x.apart == nil {
		if input == nil {
			var ds Diagnostics
			if input, ds = e.Input(step, s); ds.HasErrors() {
				return nil, ds
			}
		}
		return without(input, e.p.w.Steps[step].Exclude), nil
	}
	return e.key(x, without(input, e.p.w.Steps[step].Exclude), s)
}

// KeyCheck is KeyInput for check k of a step.
func (e *Evaluator) KeyCheck(step, k int, input json.RawMessage, s Scope) (json.RawMessage, Diagnostics) {
	return e.key(e.p.steps[step].checks[k], input, s)
}

// KeyFallback is KeyInput for fallback k of a step, one of kind FallbackStep.
func (e *Evaluator) KeyFallback(step, k int, input json.RawMessage, s Scope) (json.RawMessage, Diagnostics) {
	return e.key(e.p.steps[step].fallbacks[k].input, input, s)
}

// Shown is an evaluated input of a step as it may be shown: "(sensitive)" stands
// for the attributes that carry secrets or sensitive values.
func (e *Evaluator) Shown(step int, input json.RawMessage) json.RawMessage {
	x := e.p.steps[step].input
	if x == nil || x.apart == nil || input == nil {
		return input
	}
	return veiled(input, x.apart, x.apart.parts)
}

// veiled is an input without what some parts of it gave.
func veiled(input json.RawMessage, a *apart, parts []part) json.RawMessage {
	if len(parts) > 0 && a.plain == nil {
		return json.RawMessage("{}")
	}
	out, _ := replaced(input, parts, func(part) (json.RawMessage, Diagnostics) { return appendString(nil, hiddenText), nil })
	return out
}

// Stored is an evaluated input of a step as it may be stored: "(sensitive)"
// stands for the attributes that carry secrets which are not bound.
func (e *Evaluator) Stored(step int, input json.RawMessage) json.RawMessage {
	x := e.p.steps[step].input
	if x == nil || x.apart == nil || input == nil {
		return input
	}
	var open []part
	for _, p := range x.apart.parts {
		if slices.ContainsFunc(p.x.marked.secrets, func(i int) bool { return !e.p.w.Secrets[i].Bound() }) {
			open = append(open, p)
		}
	}
	return veiled(input, x.apart, open)
}

func (e *Evaluator) keyConfig(plugin int) (json.RawMessage, Diagnostics) {
	x := e.p.plugins[plugin]
	if x == nil || x.apart == nil {
		return e.Config(plugin)
	}
	return e.key(x, nil, Scope{})
}

// key is the JSON of x with digests in place of its parts. text is what x gave;
// nil: what is plain in it is evaluated.
func (e *Evaluator) key(x *expression, text json.RawMessage, s Scope) (json.RawMessage, Diagnostics) {
	switch {
	case x == nil || x.apart == nil:
		return text, nil
	case x.apart.plain == nil:
		d, ds := e.partDigest(x, text, s)
		return sealed(d), ds
	case text == nil:
		var ds Diagnostics
		if text, ds = e.json(x.apart.plain, s); ds.HasErrors() {
			return nil, ds
		}
		for _, p := range x.apart.parts {
			d, more := e.partDigest(p.x, nil, s)
			if ds = append(ds, more...); more.HasErrors() {
				return nil, ds
			}
			text = with(text, p.key, sealed(d))
		}
		return text, ds
	}
	return replaced(text, x.apart.parts, func(p part) (json.RawMessage, Diagnostics) {
		var own json.RawMessage
		members(text, func(k, v []byte) bool {
			if unquote(k) == p.key {
				own = v
			}
			return own == nil
		})
		d, ds := e.partDigest(p.x, own, s)
		return sealed(d), ds
	})
}

// sealed is the JSON that stands for a value of which only a digest is known.
func sealed(d sdk.Digest) json.RawMessage {
	return append(appendString([]byte(`{"$sealed":`), d.String()), '}')
}

// partDigest stands for a part in keys. text is its value; nil when it was not
// evaluated.
func (e *Evaluator) partDigest(x *expression, text json.RawMessage, s Scope) (sdk.Digest, Diagnostics) {
	if len(x.marked.secrets) > 0 {
		return e.named(x, s)
	}
	if text == nil {
		var ds Diagnostics
		if text, ds = e.json(x, s); ds.HasErrors() {
			return sdk.Digest{}, ds
		}
	}
	return e.keyed(appendCanonical(begin("value "), text)), nil
}

// named digests the canonical form of x and the values of what it names, secrets
// without fingerprint left out.
func (e *Evaluator) named(x *expression, s Scope) (sdk.Digest, Diagnostics) {
	var ds Diagnostics
	own := map[string]sdk.Digest{}
	e.outside(x, own)
	if x.clock {
		own["timestamp()"] = sdk.Sum([]byte(e.startedAt()))
	}
	f := e.frame(evaluating, s)
	f.x = x
	if x.readsFile {
		_, ds = f.value(x)
		for _, r := range f.reads {
			own[r.call] = r.digest
		}
	}
	h := begin("named ").digest(x.canon)
	for _, name := range keysOfMap(own) {
		h = h.str(name).digest(own[name])
	}
	value := func(r *refExpr) {
		var text json.RawMessage
		if r.hasSource() {
			raw, hd := r.raw(f, &f.ctx)
			if text = raw; hd.HasErrors() {
				text = nil
			}
		} else if v, hd := r.Value(&f.ctx); !hd.HasErrors() {
			text, _ = appendJSON(nil, v)
		}
		if text == nil { // inside try; elsewhere the evaluation says so
			h = h.str("absent")
			return
		}
		h = h.digest(e.keyed(appendCanonical(nil, text)))
	}
	e.p.expand(x, func(r *refExpr, _ bool) { value(r) })
	for _, r := range x.items {
		switch {
		case r.kind == refEach, r.kind == refSelf && r.name != "self.input":
			value(r)
		case r.kind == refLocal && e.p.locals[r.index].expr != nil:
			for _, part := range e.p.eachParts(e.p.locals[r.index].expr) {
				value(part)
			}
		case r.kind == refSelf:
			in, more := e.KeyInput(r.index, s.Input, s)
			ds = append(ds, more...)
			h = h.digest(sdk.Sum(appendCanonical(nil, in)))
		}
	}
	return sdk.Sum(h), ds
}

// without is a JSON object without some members.
func without(object json.RawMessage, names []string) json.RawMessage {
	if len(names) == 0 || object == nil {
		return object
	}
	out := []byte{'{'}
	members(object, func(k, v []byte) bool {
		if !slices.Contains(names, unquote(k)) {
			out = appendMember(out, k, v)
		}
		return true
	})
	return append(out, '}')
}

// replaced is a JSON object with other values for the members that parts name.
func replaced(object json.RawMessage, parts []part, by func(part) (json.RawMessage, Diagnostics)) (json.RawMessage, Diagnostics) {
	var ds Diagnostics
	out := []byte{'{'}
	members(object, func(k, v []byte) bool {
		if i := slices.IndexFunc(parts, func(p part) bool { return p.key == unquote(k) }); i >= 0 {
			var more Diagnostics
			v, more = by(parts[i])
			ds = append(ds, more...)
		}
		out = appendMember(out, k, v)
		return true
	})
	if ds.HasErrors() {
		return nil, ds
	}
	return append(out, '}'), ds
}

// with is a JSON object with one member more.
func with(object json.RawMessage, key string, v json.RawMessage) json.RawMessage {
	return append(appendMember(object[:len(object)-1:len(object)-1], appendString(nil, key), v), '}')
}

// appendMember appends a member to the object that is open at the end of dst.
func appendMember(dst, key, v []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, key...), ':'), v...)
}
