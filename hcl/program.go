package hcl

import (
	"math/bits"

	goversion "github.com/hashicorp/go-version"
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// program is the part of a Workflow that evaluation needs. Its slices run
// beside those of the Workflow. It does not change after Load.
type program struct {
	w            *Workflow     // whose impl it is
	required     []requirement // on the engine's version, of the flow and of those inside it
	maxInstances int
	dir          string //  of the flow's files; "" when parsed from bytes
	vars         []variable
	locals       []local
	folded       int // bytes of literals that canonize has joined
	steps        []stepCode
	plugins      []*expression // config; nil when not written
	outputs      []outputCode
	actions      []*expression // input; nil when not written

	// scope holds the names of the files that are being read; once all are, those
	// of the workflow itself.
	*scope
	order []int      // of steps, then locals, each after those it names
	subs  []*subflow // each after the one that it stands in
	rules []rule     // of the variables of sub-workflows
	keyed bool       // a variable of a sub-workflow is sensitive
}

// scope is what the names in one set of files stand for: those of the workflow
// itself, or of a sub-workflow.
type scope struct {
	varIndex, localIndex, stepIndex, pluginIndex, actionIndex, secretIndex map[string]int

	// Names in the order of declaration, for suggestions.
	varNames, localNames, stepNames, pluginNames, actionNames, secretNames []string

	// What follows is of a sub-workflow. Its variables are locals, which the
	// input of its step gives a value; valid is, of those with validations, the
	// local that has passed them.
	prefix string // before the names of what is declared in it: "sub/"
	base   string // its directory, from the workflow's; "" for the same
	depth  int    // how many sub-workflows with for_each it stands in: its steps name those of the same instance of them
	bound  bool
	valid  map[int]int

	// Of a test: the locals that stand for the workflow's outputs.
	outputIndex map[string]int
	outputNames []string
}

func newScope() *scope {
	return &scope{
		varIndex: map[string]int{}, localIndex: map[string]int{}, stepIndex: map[string]int{},
		pluginIndex: map[string]int{}, actionIndex: map[string]int{}, secretIndex: map[string]int{},
	}
}

// outputCode is a result of the flow.
type outputCode struct {
	value *expression // nil after an error
	pre   []rule
}

type variable struct {
	name        string
	ty          cty.Type // optional attributes still marked as such
	typed       bool     // a type was written
	defaults    *typeexpr.Defaults
	def         cty.Value // converted; NilVal when required
	nullable    bool
	sensitive   bool
	rng         hclv2.Range
	validations []rule
}

type local struct {
	name   string // as messages show it: "local.x", "step.sub/var.x"
	expr   *expression
	rng    hclv2.Range
	cyclic bool // part of a cycle; the flow has an error then
}

type stepCode struct {
	set               *fileSet    // in which it is written
	parts             []*refExpr  // the different parts of each that `when`, `input` and salt name, in canonical order
	plugin            int         // -1 after an error
	loops             []*loop     // of the sub-workflows around it, outermost first, then its own
	when, input, salt *expression // nil when not written
	pre, post         []rule
	keyed, loose      *expression // input without what checkpoint.exclude names, and that; nil without it
	compensate        *expression // its input; nil when not written
	fallbacks         []fallbackCode
	checks            []*expression // their inputs; nil when not written
	inType            cty.Type      // of input, as far as types are known; NilType when they are not
	outType           cty.Type      // of one instance; NilType when not written
}

// expressions are those whose facets the step waits for.
func (c *stepCode) expressions() []*expression {
	xs := []*expression{c.when, c.input}
	for _, l := range c.loops {
		xs = append(xs, l.x)
	}
	return append(xs, c.extra()...)
}

// extra are the expressions whose facets are in no key.
func (c *stepCode) extra() []*expression {
	xs := []*expression{c.loose}
	for _, rules := range [][]rule{c.pre, c.post} {
		for _, x := range rules {
			xs = append(xs, x.condition, x.message)
		}
	}
	xs = append(xs, c.checks...)
	for _, f := range c.fallbacks {
		xs = append(xs, f.output, f.input)
	}
	return xs
}

// own is the for_each that is written in the step itself; nil without one.
func (c *stepCode) own() *loop {
	if d := c.set.names.depth; d < len(c.loops) {
		return c.loops[d]
	}
	return nil
}

// identified is the part of the input that is in keys.
func (c *stepCode) identified() *expression {
	if c.keyed != nil {
		return c.keyed
	}
	return c.input
}

// expression is one argument's value, ready to be evaluated.
type expression struct {
	node hclsyntax.Expression
	rng  hclv2.Range

	// uses are the references in the order of the text, and locals the locals
	// among them, each once.
	uses   []*refExpr
	locals []int
	free   []string // of a template file: the roots it names

	// What follows is filled in by canonize, once locals are in order.
	items     []*refExpr // in the order of the canonical form
	canon     sdk.Digest
	literal   cty.Value // what the expression is, if it is a literal; else NilVal
	facets    int       // named here and in locals, with repetition; at most maxFacets+1
	each      loopSet   // the loops whose each is named, here or in a local
	readsFile bool      // here or in a local
	clock     bool      // timestamp() is called here or in a local
	bound     *runBound // where something of the run is named, here or in a local; nil if nowhere
	shape     *shape    // for input: how the JSON is put together
	marked    marked    // what it names of secrets and sensitive values
	apart     *apart    // of an argument that names some, what is in keys; else nil
}

// loopSet is a set of loops that something stands in, the outermost is bit 0.
type loopSet uint32

// depth is how many loops an instance must be in to have all of these.
func (s loopSet) depth() int { return bits.Len32(uint32(s)) }

// around is what a sub-workflow with for_each leaves of a set: the loops around it.
func (s loopSet) around(level int) loopSet { return s & (1<<level - 1) }

// runBound is a part of an expression that has another value in every run.
type runBound struct {
	text string
	at   hclv2.Range
}

// maxFacets bounds the facets one argument may name. Locals are expanded where
// they are used, and a chain of locals can name one facet 2^64 times.
const maxFacets = 100_000

// refKind is what a reference names.
type refKind uint8

const (
	refVar refKind = iota
	refLocal
	refFacet
	refRun
	refPath
	refEach
	refSelf
	refAttempt
	refSecret
)

// The parts of each.
const (
	eachKey = iota
	eachValue
)

// refExpr is a reference to something outside the expression. It replaces
// HCL's node so that evaluation finds the one value it needs, instead of being
// handed every step of the flow.
type refExpr struct {
	*hclsyntax.ScopeTraversalExpr
	kind     refKind
	index    int // into the program's slice, of each, self and attempt the step's own; -1 when unknown
	part     int // of run, path, each, self and attempt
	facet    sdk.Facet
	optional bool // in an argument of try or can
	whole    bool // what encloses it passes the value on as it is: objects, lists, parentheses
	shown    bool // in an argument of nonsensitive
	shared   int  // of a facet: how many keys an instance and what it names have in common
	level    int  // of each: the loop that is meant
	order    bool // it is evaluated after what it names, whose value it does not use
	name     string
	text     string          // as written, normalised
	rest     hclv2.Traversal // after what kind and index stand for
	path     []step          // rest again, for JSON; nil when it cannot be followed there
}

// requirement is a required_version.
type requirement struct {
	of   goversion.Constraints
	text string
	rng  hclv2.Range
}
