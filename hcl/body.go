package hcl

import (
	"slices"
	"strings"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// blockType says what a block may hold. The zero value is a block without
// anything in it.
type blockType struct {
	label   string   // what its label names; "" for a block without one
	args    []string // arguments
	req     []string // those of args that must be there
	code    []string // those of args that are references or types, whose strings in JSON form are their text
	free    bool     // any argument (locals)
	address bool     // its label is the address of a step, not a name
	once    bool     // at most one in the block around it
	inner   map[string]*blockType
}

// The blocks of the language. A feature adds its words here and its reader in
// decode.go.
var (
	ruleBlock       = &blockType{args: []string{"condition", "error_message"}, req: []string{"condition", "error_message"}}
	retryArgs       = []string{"on", "max_attempts", "delay", "delay_function", "max_delay", "jitter", "max_duration"}
	retryBlock      = &blockType{args: append(slices.Clip(retryArgs), "before"), code: []string{"before"}}
	checkpointBlock = &blockType{once: true, args: []string{"mode", "reuse", "ttl", "keep", "exclude", "salt", "redact"}}
	budgetBlock     = &blockType{once: true, args: []string{"tokens", "calls", "usd"}}
	sandboxBlock    = &blockType{
		once: true, args: []string{"allow_hosts", "env", "memory", "fuel", "output_max", "log_max", "isolation"},
		inner: map[string]*blockType{"mount": {label: "mount", args: []string{"source", "mode"}, req: []string{"source"}}},
	}
	compensateBlock = &blockType{
		once: true, args: []string{"uses", "input"}, req: []string{"uses"}, code: []string{"uses"},
		inner: map[string]*blockType{"retry": retryBlock},
	}
	topBlocks = map[string]*blockType{
		"workflow": {
			label: "workflow", args: []string{"description", "version", "required_version", "timeout", "concurrency", "fail_fast", "on_failure", "max_instances"},
			inner: map[string]*blockType{"checkpoint": {once: true, args: []string{"mode"}}, "budget": budgetBlock},
		},
		"variable": {
			label: "variable", args: []string{"type", "default", "description", "nullable", "sensitive"}, code: []string{"type"},
			inner: map[string]*blockType{"validation": ruleBlock},
		},
		"locals": {free: true},
		"secret": {label: "secret", args: []string{"env", "file", "action", "path", "optional", "hosts", "fingerprint"}, code: []string{"action"}},
		"plugin": {
			label: "plugin", args: []string{"source", "config"}, req: []string{"source"},
			inner: map[string]*blockType{
				"sandbox": sandboxBlock,
				"limiter": {once: true, args: []string{"requests_per_minute", "tokens_per_minute", "concurrency"}},
				"breaker": {once: true, args: []string{"failures", "cooldown"}},
			},
		},
		"step": {
			label: "step", args: []string{"uses", "workflow", "input", "depends_on", "for_each", "when", "concurrency", "timeout", "output_type", "on_failure", "effects"},
			code: []string{"uses", "depends_on", "output_type"},
			inner: map[string]*blockType{
				"retry":         retryBlock,
				"fallback":      {args: []string{"on", "output", "uses", "input", "last"}, code: []string{"uses"}},
				"precondition":  ruleBlock,
				"postcondition": ruleBlock,
				"check":         {args: []string{"uses", "input"}, req: []string{"uses"}, code: []string{"uses"}},
				"checkpoint":    checkpointBlock,
				"compensate":    compensateBlock,
				"sandbox":       sandboxBlock,
				"budget":        budgetBlock,
			},
		},
		"action": {
			label: "action", args: []string{"uses", "input", "timeout"}, req: []string{"uses"}, code: []string{"uses"},
			inner: map[string]*blockType{"retry": {args: retryArgs}, "sandbox": sandboxBlock},
		},
		"output": {
			label: "output", args: []string{"value", "description", "sensitive"}, req: []string{"value"},
			inner: map[string]*blockType{"precondition": ruleBlock},
		},
	}
)

// block is a block whose contents have been checked against its type.
type block struct {
	*hclsyntax.Block
	name  string // the label, normalised; "" without one
	attrs map[string]*hclsyntax.Attribute
}

func (b *block) header() hclv2.Range { return b.DefRange() }

// expr returns the value of an argument, nil when it is not there.
func (b *block) expr(name string) hclsyntax.Expression {
	if a := b.attrs[name]; a != nil {
		return a.Expr
	}
	return nil
}

// inner lists the blocks of one kind.
func (b *block) inner(ds *Diagnostics, kind string, t *blockType) []*block {
	var out []*block
	for _, in := range b.Body.Blocks {
		if in.Type == kind {
			out = append(out, checkBlock(ds, in, t.inner[kind]))
		}
	}
	return out
}

// checkBlock reports what is in the block and should not be, and what is
// missing.
func checkBlock(ds *Diagnostics, b *hclsyntax.Block, t *blockType) *block {
	out := &block{Block: b, attrs: map[string]*hclsyntax.Attribute{}}
	where := article(b.Type) + " block"
	switch {
	case t.label == "" && len(b.Labels) > 0:
		ds.errorf("extraneous-label", b.LabelRanges[0], "Label is not allowed", "A %s block has no label. Write %[1]s { … }.", b.Type)
	case t.label != "" && len(b.Labels) != 1:
		ds.errorf("missing-label", b.DefRange(), "Block needs one label", "Write %s \"NAME\" { … }.", b.Type)
	case t.address:
		out.name = normal(b.Labels[0])
	case t.label != "":
		out.name = checkName(ds, b.Labels[0], t.label, b.LabelRanges[0])
	}
	for _, name := range keysOfMap(b.Body.Attributes) {
		a, norm := b.Body.Attributes[name], normal(name)
		if other := out.attrs[norm]; other != nil {
			ds.errorf("duplicate-name", a.NameRange, "Duplicate name", "There is already an argument %q at %s. Names are compared in Unicode normal form C, so two that look alike are equal. Remove one of the two.", norm, rangeOf(other.NameRange))
			continue
		}
		out.attrs[norm] = a
		if !t.free && !slices.Contains(t.args, norm) {
			detail := "There is no argument %q in %s.%s"
			hint := DidYouMean(norm, t.args)
			if t.inner[norm] != nil {
				hint = " It is a block: write " + norm + " { … } without the equals sign."
			}
			ds.errorf("unsupported-argument", a.NameRange, "Unsupported argument", detail, norm, where, orPossible(hint, t.args))
		}
	}
	for _, name := range t.req {
		if out.attrs[name] == nil {
			ds.errorf("missing-argument", b.DefRange(), "Missing argument", "%s needs the argument %q.", capital(where), name)
		}
	}
	kinds := keysOfMap(t.inner)
	first := map[string]hclv2.Range{}
	for _, in := range b.Body.Blocks {
		switch it := t.inner[in.Type]; {
		case it == nil:
			hint := DidYouMean(in.Type, kinds)
			if slices.Contains(t.args, in.Type) {
				hint = " It is an argument: write " + in.Type + " = … with an equals sign."
			}
			ds.errorf("unsupported-block", in.TypeRange, "Unsupported block", "There is no block %q in %s.%s", in.Type, where, orPossible(hint, kinds))
		case it.once:
			if prev, dup := first[in.Type]; dup {
				ds.errorf("duplicate-block", in.DefRange(), "Duplicate block", "There is already a %s block at %s; one is allowed.", in.Type, rangeOf(prev))
			}
			first[in.Type] = in.DefRange()
		}
	}
	return out
}

func orPossible(hint string, names []string) string {
	switch {
	case hint != "":
		return hint
	case len(names) == 0:
		return " None is allowed there."
	}
	return " Possible are " + listOf(names) + "."
}

// checkName normalises a name and reports one that cannot be written in a
// reference.
func checkName(ds *Diagnostics, raw, what string, at hclv2.Range) string {
	name := normal(raw)
	switch n := utf8.RuneCountInString(name); {
	case n > maxName:
		ds.errorf("invalid-name", at, "Name is too long", "The name of %s may have at most %d characters, this one has %d.", article(what), maxName, n)
	case !hclsyntax.ValidIdentifier(name):
		ds.errorf("invalid-name", at, "Invalid name", "%q cannot be the name of %s: a name begins with a letter of any script and goes on with letters, digits, _ and -.", name, article(what))
	}
	return name
}

// keyword reads an argument that is one of a few words, written bare or in
// quotes. It returns "" after an error or when the argument is not there.
func keyword(ds *Diagnostics, b *block, arg string, words []string) string {
	e := b.expr(arg)
	if e == nil {
		return ""
	}
	word := wordOf(e)
	if slices.Contains(words, word) {
		return word
	}
	ds.errorf("invalid-value", e.Range(), "Invalid value", "%s must be %s.%s", arg, alternatives(words), DidYouMean(word, words))
	return ""
}

func wordOf(e hclsyntax.Expression) string {
	if kw := hclv2.ExprAsKeyword(e); kw != "" {
		return kw
	}
	if v, ok := literalOf(e); ok && v.Type() == cty.String && !v.IsNull() {
		return v.AsString()
	}
	return ""
}

func keysOfMap[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}
