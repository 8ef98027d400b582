package hcl

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// jsonWriter puts the JSON of a shape together.
type jsonWriter struct {
	f   *frame
	dst []byte
	ds  Diagnostics
}

func (w *jsonWriter) shape(s *shape) {
	switch s.kind {
	case shapeRaw:
		raw, hd := s.ref.raw(w.f, &w.f.ctx)
		w.ds = append(w.ds, fromHCL(hd)...)
		w.dst = append(w.dst, raw...)
	case shapeVar:
		dst, err := w.f.e.values.appendJSON(w.dst, s.ref.index)
		w.take(s.ref, dst, err)
	case shapeFile:
		w.file(s)
	case shapeBound:
		w.bound(s)
	case shapeLocal:
		w.local(s)
	case shapePart:
		if raw, ds := w.text(s); ds.HasErrors() {
			w.ds = append(w.ds, ds...)
		} else {
			w.dst = append(w.dst, raw...)
		}
	case shapeTry:
		w.try(s)
	case shapeEach:
		w.each(s, nil)
	case shapeObject:
		w.dst = append(w.dst, '{')
		for i, it := range s.items {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.dst = append(appendString(w.dst, s.keys[i]), ':')
			w.shape(it)
		}
		w.dst = append(w.dst, '}')
	case shapeTuple:
		w.dst = append(w.dst, '[')
		for i, it := range s.items {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.shape(it)
		}
		w.dst = append(w.dst, ']')
	default:
		w.value(s)
	}
}

func (w *jsonWriter) value(s *shape) {
	w.f.prepare(s.locals)
	if raw, ok := rawPart(s.node, &w.f.ctx); ok {
		w.dst = append(w.dst, raw...)
		return
	}
	v, hd := s.node.Value(&w.f.ctx)
	if hd.HasErrors() {
		w.ds = append(w.ds, fromHCL(hd)...)
		return
	}
	if w.f.limit != "" {
		return
	}
	dst, err := appendJSON(w.dst, v)
	w.take(s.node, dst, err)
}

func (w *jsonWriter) take(e hclsyntax.Expression, dst []byte, err error) {
	if err != nil {
		detail := sentence(err) + "."
		if w.f.hides(e) {
			detail = w.f.x.hiddenDetail()
		}
		w.ds.errorf("invalid-value", e.Range(), "Value cannot be passed on", "%s", detail)
		return
	}
	w.dst = dst
}

// file writes the text of a file as it is, once the call has been judged.
func (w *jsonWriter) file(s *shape) {
	w.f.prepare(s.locals)
	call := unwrap(s.node).(*callExpr)
	_, hd := call.Value(&w.f.ctx)
	if hd.HasErrors() || w.f.limit != "" {
		w.ds = append(w.ds, fromHCL(hd)...)
		return
	}
	args, _ := call.arguments(&w.f.ctx)
	b, err := w.f.e.filesOf(call.base).get(args[0].AsString())
	w.take(call, appendString(w.dst, string(b)), err)
}

// text is what shape would write, without copying what need not be copied.
func (w *jsonWriter) text(s *shape) (json.RawMessage, Diagnostics) {
	switch s.kind {
	case shapeRaw:
		raw, hd := s.ref.raw(w.f, &w.f.ctx)
		return raw, fromHCL(hd)
	case shapePart:
		return w.part(s)
	}
	in := jsonWriter{f: w.f}
	in.shape(s)
	return in.dst, in.ds
}

// part is a part of what is inside.
func (w *jsonWriter) part(s *shape) (json.RawMessage, Diagnostics) {
	inner, path := s.items[0], s.path
	var raw json.RawMessage
	var ds Diagnostics
	if inner.kind == shapeEach { // one instance, not all
		in := jsonWriter{f: w.f}
		in.each(inner, &path[0])
		raw, ds, path = in.dst, in.ds, path[1:]
	} else {
		raw, ds = w.text(inner)
	}
	if ds.HasErrors() || w.f.limit != "" {
		return nil, ds
	}
	at, _, ok := find(raw, path)
	if !ok {
		return nil, noSuchPart()
	}
	return at, nil
}

// noSuchPart is never shown: what evaluates the reference tells it, with its names.
func noSuchPart() Diagnostics { return Diagnostics{{Code: "unsupported-attribute"}} }

// local writes what a local hands on. Where that is not possible, the value of the
// whole is what tells why, and whose fault it is.
func (w *jsonWriter) local(s *shape) {
	in := jsonWriter{f: w.f.within(s.x, w.f.scope, w.f.charged)}
	in.f.locals = w.f.locals
	raw, ds := in.text(s.items[0])
	w.f.after(in.f)
	switch {
	case w.f.limit != "":
	case ds.HasErrors():
		w.value(&shape{node: s.node, locals: s.locals})
	default:
		w.dst = append(w.dst, raw...)
	}
}

// try writes the first of several that is without an error.
func (w *jsonWriter) try(s *shape) {
	for _, it := range s.items {
		raw, ds := w.text(it)
		if w.f.limit != "" {
			return
		}
		if !ds.HasErrors() {
			w.dst = append(w.dst, raw...)
			return
		}
	}
	w.value(&shape{node: s.node, locals: s.locals})
}

// bound writes what a variable is given, if its text fits the type as it is.
func (w *jsonWriter) bound(s *shape) {
	e := unwrap(s.node).(*boundExpr)
	raw, ds := w.text(s.items[0])
	null := kindOf(raw) == "null"
	switch {
	case w.f.limit != "":
	case ds.HasErrors(), null && !e.v.nullable, !null && conform(raw, e.v.ty, "") != nil:
		w.value(&shape{node: s.node, locals: s.locals})
	default:
		if len(e.rules) > 0 {
			w.f.prepare(s.locals)
			if _, hd := s.node.Value(&w.f.ctx); hd.HasErrors() || w.f.limit != "" {
				w.ds = append(w.ds, fromHCL(hd)...)
				return
			}
		}
		w.dst = append(w.dst, raw...)
	}
}

// each writes the outputs of all instances of a sub-workflow, or of the one that
// only names.
func (w *jsonWriter) each(s *shape, only *step) {
	e := unwrap(s.node).(*eachExpr)
	all, ds := w.f.e.expansion(e.sub.loop, w.f.scope)
	if ds.HasErrors() {
		w.ds = append(w.ds, ds...)
		return
	}
	p := picker{up: w.f.scope.Up, own: e.sub.steps, seen: map[int]*picked{}}
	brackets, sep := "{}", byte('{')
	if all.List {
		brackets, sep = "[]", '['
	}
	for k := range all.Each {
		if only != nil && (only.isIndex != all.List || all.List && k != only.index || !all.List && !keyIs(all.Each[k].Key, only.name)) {
			continue
		}
		if only == nil {
			if w.dst, sep = append(w.dst, sep), ','; !all.List {
				w.dst = append(append(w.dst, all.Each[k].Key...), ':')
			}
		}
		if !w.f.spend(e.SrcRange, 1, 0) {
			return
		}
		in := jsonWriter{f: w.f.within(s.x, e.sub.scope(w.f.scope, &p, &all, k), true)}
		raw, ds := in.text(s.items[0])
		w.f.after(in.f)
		switch {
		case w.f.limit != "":
			return
		case ds.HasErrors() && (!onlyAbsent(ds) || p.ended):
			w.ds = append(w.ds, ds...)
			return
		case ds.HasErrors():
			raw = json.RawMessage("null")
		}
		if w.dst = append(w.dst, raw...); only != nil {
			return
		}
	}
	switch {
	case only != nil:
		w.ds = append(w.ds, noSuchPart()...)
	case len(all.Each) == 0:
		w.dst = append(w.dst, brackets...)
	default:
		w.dst = append(w.dst, brackets[1])
	}
}

// onlyAbsent is absent, of diagnostics of ours.
func onlyAbsent(ds Diagnostics) bool {
	for i := range ds {
		if ds[i].Severity == Error && ds[i].Code != "absent-output" {
			return false
		}
	}
	return true
}
