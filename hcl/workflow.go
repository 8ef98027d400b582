package hcl

import (
	"encoding/json"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// Workflow is a flow as written: parsed, decoded, its names resolved, free of
// cycles. It needs no values and no plugin, is immutable and safe for
// concurrent use. Its steps are numbered in the order of their names' first
// appearance in the files, sorted by file name; nothing but messages depends on
// that order.
type Workflow struct {
	Name        string
	Description string
	Version     string
	Range       Range
	Timeout     time.Duration // live time of a run; 0 = none
	Concurrency int           // attempts at once; 0 = the host's default
	FailFast    bool
	Volatile    bool // default of the steps' checkpoint mode

	Variables []Variable
	Plugins   []Plugin
	Steps     []Step
	Outputs   []Output
	Files     []File

	// what evaluation needs; see Evaluator
	impl *program
}

// File is one file of the flow, in the form in which it was read.
type File struct {
	Path   string // as given to Load, or below the directory given to it
	Bytes  []byte
	Digest sdk.Digest
}

// Variable is a typed input of the flow.
type Variable struct {
	Name        string
	Description string
	Type        string // as a type expression, "any" when none was given
	Required    bool   // it has no default
	Range       Range
}

// Plugin is a plugin the flow names.
type Plugin struct {
	Name   string
	Source string // as written: "./x.wasm", "./bin/x", "std/text"
	Range  Range  // of the source attribute's value
}

// Step is the unit of work as written.
type Step struct {
	Name     string
	Plugin   int    // index into Workflow.Plugins
	StepType string // S of `uses = plugin.P.S`
	Range    Range  // of the block's header
	Uses     Range  // of the value of `uses`

	// Facets are the upstream facets that this step names, in the order in
	// which they appear in `when`, then `input`, then `depends_on`, with
	// repetition: the holes of its canonical form. WhenFacets is how many of
	// them belong to `when`.
	Facets     []FacetRef
	WhenFacets int
	HasWhen    bool

	Timeout  time.Duration // of one attempt; 0 = the manifest's, else the host's default
	Retry    []Retry
	Effects  sdk.Effects // at least this; EffectsNone when not written
	Volatile bool
	Reuse    Reuse
	TTL      time.Duration // 0 = for ever
}

// Address is how the step is named in messages, records and requests.
func (s *Step) Address() string { return "step." + s.Name }

// Reuse says when a stored result may be taken.
type Reuse uint8

// The values of `checkpoint { reuse = … }`.
const (
	ReuseDefault Reuse = iota // always for effects none and read, run for write and once
	ReuseAlways
	ReuseRun // only results of this run and those it follows
	ReuseNever
)

// RefKind says what happens to a step when the facet's step did not succeed.
type RefKind uint8

// The kinds of reference.
const (
	Hard     RefKind = iota // .output, depends_on: this step is skipped
	Optional                // .output inside try or can: the facet is absent
	Soft                    // the other facets: they have a value in any case
)

// FacetRef is one reference to a facet of another step.
type FacetRef struct {
	Step  int // index into Workflow.Steps
	Facet sdk.Facet
	Kind  RefKind
	Order bool // from depends_on: its value is not used, only its digest
	Range Range
}

// Retry is one retry block with its defaults filled in.
type Retry struct {
	On          []sdk.Class // never empty
	MaxAttempts int         // with the first; at least 1
	Delay       time.Duration
	Exponential bool
	MaxDelay    time.Duration // 0 = none
	Jitter      float64       // 0..1
	MaxDuration time.Duration // 0 = none
}

// Output is a result of the flow.
type Output struct {
	Name        string
	Description string
	Facets      []FacetRef
	Range       Range
}

// Scope is what the expressions of a step see besides variables and locals.
// What is not there for an argument (self before an attempt) stays zero.
type Scope struct {
	Up        Upstream
	Each      *Each           // of the instance; nil without for_each
	Attempt   int             // attempt.number; 0 counts as 1
	LastError *sdk.Error      // attempt.last_error; nil is null
	Input     json.RawMessage // self.input
	Output    json.RawMessage // self.output
	Error     *sdk.Error      // self.error
}

// Each is what an instance of a step with for_each is made for. Key is a JSON
// string (maps, objects, sets) or number (lists, tuples); of a set the value
// is the key.
type Each struct {
	Key   json.RawMessage
	Value json.RawMessage
}

// Expansion is a for_each evaluated: its instances in order.
type Expansion struct {
	List bool // the step's output is a list, else an object
	Each []Each
}

// Upstream gives the evaluator what it needs to know of one step. It is called
// only for steps that the expression at hand names, from the goroutine that
// evaluates.
type Upstream func(step int) Result

// Result is how a step ended.
type Result struct {
	State    sdk.State
	Output   json.RawMessage // sanitised; nil unless Succeeded
	Error    *sdk.Error      // nil unless it failed
	Attempts int
	Degraded bool
}

// Identity is what the keys of a step are made of, but for what comes from the
// plugin. All digests are over canonical forms: formatting, comments, order of
// blocks and attributes, names of steps, locals and `for` variables do not
// count.
type Identity struct {
	When   sdk.Digest // of `when` with the values it names; zero without it
	Input  sdk.Digest // of `input` with the values it names
	Type   sdk.Digest // of output_type; zero without it
	Salt   sdk.Digest // of the evaluated salt; zero without it
	Config sdk.Digest // of the plugin's evaluated configuration

	// Attributes has one entry per attribute of an object-literal input, so
	// that a difference can be named.
	Attributes []AttributeIdentity
	// Values has one entry per variable, file or run property that `when`
	// and `input` name: "var.topic", `file("p.txt")`, with the digest of the
	// value; sorted by name.
	Values []ValueIdentity
	// RunBound says that run.* or timestamp() is among Values: another run
	// has another identity.
	RunBound bool
}

// AttributeIdentity is the canonical expression of one input attribute.
type AttributeIdentity struct {
	Name       string
	Expression sdk.Digest
}

// ValueIdentity is one value from outside that a step names.
type ValueIdentity struct {
	Name  string
	Value sdk.Digest
}
