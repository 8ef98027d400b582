package hcl

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// mode says how much is known while an expression is evaluated.
type mode uint8

const (
	evaluating mode = iota // everything
	planning               // variables and files, nothing of any step
	checking               // types only
)

// Bounds of one evaluation: of one argument of one step. A flow is a program
// someone else may have written.
const (
	maxIterations = 100_000   // of `for`, and calls of functions
	maxWork       = 3_500_000 // elements that functions look at and make; 64 bytes of text count as one
)

// frame is one evaluation. It reaches our nodes through the EvalContext, under
// a name that no identifier can have, and belongs to one goroutine.
type frame struct {
	e      *Evaluator
	x      *expression // what is evaluated; nil for a part that names nothing
	mode   mode
	scope  Scope
	ctx    hclv2.EvalContext
	locals map[int]*cell // those that name facets, while evaluating
	reads  []read
	limit  string // which bound was hit; "" for none
	at     hclv2.Range

	iterations, work int
	depth            int  // of templates inside each other
	charged          bool // with what its locals take: it is one of many evaluations

	// pathUnknown is set while planning when a file is to be read whose path
	// follows from an output, and unplanned says where. It counts inside of
	// try too.
	pathUnknown bool
	unplanned   hclv2.Diagnostics
}

// read is a file, or a function of one, that an evaluation looked at.
type read struct {
	call   string // `file("p.txt")`
	digest sdk.Digest
}

const frameKey = " frame"

var frameType = cty.Capsule("frame", reflect.TypeFor[frame]())

func (e *Evaluator) frame(m mode, s Scope) *frame {
	f := &frame{e: e, mode: m, scope: s}
	f.ctx.Variables = map[string]cty.Value{frameKey: cty.CapsuleVal(frameType, f)}
	return f
}

// within is a frame for x, charged: on the account of f, which after settles.
func (f *frame) within(x *expression, s Scope, charged bool) *frame {
	in := f.e.frame(f.mode, s)
	if in.x, in.depth = x, f.depth; charged {
		in.charged, in.iterations, in.work = true, f.iterations, f.work
	}
	return in
}

// after takes over what an evaluation within f has come to.
func (f *frame) after(in *frame) {
	if in.charged {
		f.iterations, f.work = in.iterations, in.work
	}
	f.reads, f.unplanned = append(f.reads, in.reads...), append(f.unplanned, in.unplanned...)
	if in.limit != "" {
		f.stop(in.at, in.limit)
	}
}

// frameOf finds the frame of a context; nil without one, which happens only
// when HCL looks at an expression statically.
func frameOf(ctx *hclv2.EvalContext) *frame {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[frameKey]; ok {
			return v.EncapsulatedValue().(*frame)
		}
	}
	return nil
}

// spend counts work. It returns false once a bound was hit; nodes then return
// an unknown value at once, so that whatever encloses them ends soon.
func (f *frame) spend(at hclv2.Range, iterations, work int) bool {
	f.iterations += iterations
	f.work += work
	if f.limit == "" {
		switch {
		case f.iterations > maxIterations:
			f.stop(at, fmt.Sprintf("it loops and calls functions more than %d times", maxIterations))
		case f.work > maxWork:
			f.stop(at, "it looks at too much data")
		}
	}
	return f.limit == ""
}

func (f *frame) stop(at hclv2.Range, reason string) {
	if f.limit == "" {
		f.limit, f.at = reason, at
	}
}

// size counts the measuring of v and refuses one that is too large.
func (f *frame) size(at hclv2.Range, v cty.Value) bool {
	if v.Type().IsPrimitiveType() && v.Type() != cty.String {
		return f.limit == ""
	}
	n, text := measure(v)
	if n > maxElements {
		f.stop(at, fmt.Sprintf("it makes a value of more than %d elements", maxElements))
	}
	if text > maxText {
		f.stop(at, fmt.Sprintf("it makes a value of more than %d MiB", maxText>>20))
	}
	return f.spend(at, 0, n+text>>6)
}

// value evaluates x. With an error the value is of no use.
func (f *frame) value(x *expression) (cty.Value, Diagnostics) {
	f.x = x
	f.prepare(x.locals)
	v, hd := x.node.Value(&f.ctx)
	if f.limit != "" {
		return cty.DynamicVal, f.limitDiag()
	}
	if len(hd) == 0 {
		return v, nil
	}
	return v, fromHCL(hd)
}

// cell is the value of a local.
type cell struct {
	once  sync.Once
	done  bool // written under once; read by prepare only as a hint, under mu
	mu    sync.Mutex
	v     cty.Value
	diags hclv2.Diagnostics
	reads []read

	unplanned hclv2.Diagnostics
}

func (c *cell) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// cell returns the place where the value of a local is kept: for the whole run
// if it names no facet, no instance and no secret, which may be another at the next
// attempt, else for this evaluation.
func (f *frame) cell(i int) *cell {
	switch {
	case f.mode == checking:
		return &f.e.cells[i]
	case f.scope.Each != nil && f.e.p.locals[i].expr.each > 0:
	case f.mode == planning:
		return &f.e.planCells[i]
	case f.e.p.locals[i].expr.facets == 0 && len(f.e.p.locals[i].expr.marked.secrets) == 0:
		return &f.e.cells[i]
	}
	c := f.locals[i]
	if c == nil {
		if f.locals == nil {
			f.locals = map[int]*cell{}
		}
		c = new(cell)
		f.locals[i] = c
	}
	return c
}

// prepare evaluates locals, those they name first. It keeps its own stack,
// because a chain of locals may be as long as the file.
func (f *frame) prepare(locals []int) {
	if len(locals) == 0 {
		return
	}
	type visit struct {
		local int
		open  bool
	}
	stack := make([]visit, 0, len(locals))
	for _, l := range locals {
		stack = append(stack, visit{local: l})
	}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c := f.cell(v.local)
		if c.ready() {
			continue
		}
		l := &f.e.p.locals[v.local]
		if v.open || l.cyclic {
			f.fill(c, l)
			continue
		}
		stack = append(stack, visit{v.local, true})
		for _, n := range l.expr.locals {
			if !f.cell(n).ready() {
				stack = append(stack, visit{local: n})
			}
		}
	}
}

func (f *frame) fill(c *cell, l *local) {
	c.once.Do(func() {
		c.v = cty.DynamicVal
		if !l.cyclic && l.expr != nil {
			sub := f.e.frame(f.mode, f.scope)
			sub.locals, sub.x = f.locals, l.expr
			if f.charged {
				sub.charged, sub.iterations, sub.work = true, f.iterations, f.work
			}
			c.v, c.diags = l.expr.node.Value(&sub.ctx)
			if !c.diags.HasErrors() {
				sub.size(l.expr.rng, c.v)
			}
			if f.charged {
				f.iterations, f.work = sub.iterations, sub.work
			}
			if sub.limit != "" {
				c.v = cty.DynamicVal
				c.diags = evalDiag("evaluation-limit", nil, nil, sub.at, "Expression is too expensive", "%s.", limitText(sub.limit))
			}
			c.reads, c.unplanned = sub.reads, sub.unplanned
		}
		c.mu.Lock()
		c.done = true
		c.mu.Unlock()
	})
}

// Evaluator evaluates the expressions of a flow for one run. It is safe for
// concurrent use. What its methods take from Upstream they ask for during the
// call only; the diagnostics they return are for the person whose step then
// fails with invalid_input.
//
// Evaluating one step costs the same in a flow of a hundred steps and of fifty
// thousand: only what an expression names is looked at, and of an output only
// the part that it names is decoded.
type Evaluator struct {
	p         *program
	values    *Values // nil while checking
	run       RunInfo
	promised  []promise // by step, while CheckTypes runs
	files     *files
	below     map[string]*files // of sub-workflows in other directories, under belowMu
	belowMu   sync.Mutex
	cells     []cell
	planCells []cell
	digests   digests
	blobs     sync.Map // of files that fileblob named: sdk.Digest to []byte
}

// RunInfo is what an evaluator has from its run: what run.* and timestamp() say,
// and what secrets hold.
type RunInfo struct {
	ID        string
	StartedAt time.Time

	// Secret returns the value of a secret, an index into Workflow.Secrets, as
	// it is now; ok is false for an optional one that is absent. It is called
	// in evaluations that name the secret, from several goroutines at once, and
	// should not block. nil: no secret has a value.
	Secret func(i int) (value string, ok bool, err error)
	// Derived is told of every text that a function makes of a secret, so that it
	// can be kept out of what is stored and shown like the secret. nil: nobody
	// needs to know.
	Derived func(i int, text string)
	// Key makes the keyed hashes by which sensitive values and secrets with a
	// fingerprint enter identities. A flow without either needs none; see
	// Workflow.NeedsKey.
	Key []byte
}

// Evaluator returns an evaluator for one run. v must come from Bind of the same
// Workflow, which must have no errors. Files are read at most once in its life.
func (w *Workflow) Evaluator(v *Values, run RunInfo) *Evaluator {
	return newEvaluator(w.impl, v, run)
}

func newEvaluator(p *program, v *Values, run RunInfo) *Evaluator {
	return &Evaluator{
		p: p, values: v, run: run, files: &files{dir: p.dir},
		cells: make([]cell, len(p.locals)), planCells: make([]cell, len(p.locals)),
	}
}
