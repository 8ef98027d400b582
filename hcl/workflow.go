package hcl

import (
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

	MaxInstances        int    // of one for_each
	RequiredVersion     string // constraint on the engine's version, ">= 1.2"; "" for none
	CompensateOnFailure bool   // on_failure = compensate
	Budget              *Budget

	Variables []Variable
	Secrets   []Secret
	Plugins   []Plugin
	Actions   []Action
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
	Sensitive   bool   // its value is shown nowhere, and stored as a keyed hash
	Range       Range
}

// Secret is a value from outside that is stored nowhere. It comes from exactly
// one of Env, File and Action.
type Secret struct {
	Name     string
	Env      string // the environment variable that holds it
	File     string // the file that holds it, as written; relative to the flow's directory
	Action   int    // the action whose output holds it at Path, index into Workflow.Actions; -1 for none
	Path     string // "access_token", "data.token"
	Optional bool   // absent is null
	// Fingerprint says that another value is another computation. Else the value
	// is part of no identity.
	Fingerprint bool
	// Hosts are those to which the value may be sent, as written. With them the
	// secret is bound: no step sees the value, each receives
	// {"$secret": NAME}, which the host's http operation fills in.
	Hosts      []string
	HostRanges []Range // of Hosts, one for one
	Range      Range   // of the block's header
}

// Bound reports whether no step sees the secret's value.
func (s *Secret) Bound() bool { return len(s.Hosts) > 0 }

// Plugin is a plugin the flow names.
type Plugin struct {
	Name   string
	Source string // "./x.wasm", "./bin/x", "std/text"; a path is relative to the workflow's directory
	Range  Range  // of the source attribute's value
	// Sandbox is the most that its steps may do; nil is nothing.
	Sandbox *Sandbox
	Limiter *Limiter // nil: its calls wait for nothing
	Breaker Breaker
	// Around are the steps that the plugin of a sub-workflow stands in, innermost
	// first: what Sandbox grants counts only where each of them repeats it.
	Around  []Around
	Secrets []int // that its config names, sorted
	// Sensitive are the attributes of its config of which nothing may be shown;
	// [""] says all.
	Sensitive []string
}

// Around is a step whose work is another workflow, and what it lets that do.
type Around struct {
	Step    string   // its address
	Sandbox *Sandbox // nil is nothing
	Range   Range    // of the block's header
}

// Step is the unit of work as written.
type Step struct {
	Name     string
	Plugin   int    // index into Workflow.Plugins
	StepType string // S of `uses = plugin.P.S`
	Range    Range  // of the block's header
	Uses     Range  // of the value of `uses`

	// Facets are the upstream facets that this step names, with repetition, in
	// the order in which they appear in `when`, then `for_each`, `input`,
	// `depends_on`: the holes of its canonical form. The first WhenFacets of
	// them belong to `when`, the next EachFacets to `for_each`, and the first
	// KeyFacets count in keys. After these come the facets that excluded
	// attributes of the input, preconditions, postconditions, checks and
	// fallbacks name: they are waited for and are in no key.
	Facets                            []FacetRef
	WhenFacets, EachFacets, KeyFacets int

	HasWhen bool
	// WhenDepth is the number of loops of which `when` names each, or instances:
	// it is judged once for each instance of these.
	WhenDepth int
	ForEach   bool
	// Loops are those that make its instances: of the sub-workflows with for_each
	// that it stands in, the outermost first, then its own.
	Loops []Loop

	Concurrency                   int           // attempts of its instances at once, of one for_each; 0 = the run's
	Timeout                       time.Duration // of one attempt; 0 = the manifest's, else the host's default
	SkipOnFailure                 bool          // on_failure = skip, or FallsBack
	FallsBack                     string        // the sub-workflow around it whose fallback answers when it fails; "" for none
	Retry                         []Retry
	Fallbacks                     []Fallback // in the order in which they are tried
	Preconditions, Postconditions int        // how many there are
	Checks                        []Check
	Compensate                    *Compensate
	Effects                       sdk.Effects // at least this; EffectsNone when not written
	Sandbox                       *Sandbox    // narrows the plugin's; nil when not written
	Budget                        *Budget

	Volatile bool
	Reuse    Reuse
	TTL      time.Duration // 0 = for ever
	Keep     int           // newest results kept; 0 = the store's default
	Redact   []string      // globs of fields of the output that are not stored
	Exclude  []string      // attributes of the input that are in no key; see Evaluator.KeyInput

	// Sensitive are the attributes of the input of which nothing may be shown; [""]
	// says all.
	Sensitive []string
	// Secrets are those that its attempts name, sorted: in its input, those of
	// its fallbacks, checks and undo, and in the configs of their plugins.
	Secrets []int
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
	// Shared is how many sub-workflows with for_each both steps stand in: an
	// instance names that with the same first keys, and waits for no other.
	Shared int
	// Follows is the loop, from 1, whose for_each is nothing but this output,
	// directly or by way of locals: besides, the key of that loop is the one of the
	// instance that is named, in its own loop. 0 for none.
	Follows int
	Range   Range
}

// Loop is a for_each that a step stands in.
type Loop struct {
	Facets     int // how many of the step's facets belong to it
	Sub, Limit int // the sub-workflow with concurrency whose for_each it is, from 1, and how many of its instances may be under way; 0 for none
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
	Before      int           // action to run before each further attempt, index into Workflow.Actions; -1 for none
}

// FallbackKind says where a fallback takes its answer from.
type FallbackKind uint8

// The kinds of fallback.
const (
	FallbackOutput FallbackKind = iota // output = …: Evaluator.FallbackOutput
	FallbackStep                       // uses and input: another step type answers
	FallbackLast                       // last = true: the newest stored answer of this instance
)

// Fallback is one block of a step's chain of fallbacks.
type Fallback struct {
	On    []sdk.Class // never empty
	Kind  FallbackKind
	Use   Use // of FallbackStep
	Range Range
}

// Use is a step type outside the graph's own: of a fallback, a check, an undo or
// an action.
type Use struct {
	Plugin   int // index into Workflow.Plugins
	StepType string
	Range    Range // of the value of `uses`
	// Sensitive says that its input names something of which nothing may be
	// shown.
	Sensitive bool
}

// Check is a step type that judges a step's output. It answers {ok, reason}.
type Check struct {
	Use
}

// Compensate is how a step is undone.
type Compensate struct {
	Use
	Retry []Retry
	Range Range // of the block's header
}

// Action is work outside the graph.
type Action struct {
	Name    string
	Use     Use
	Timeout time.Duration // 0 = the manifest's, else the host's default
	Retry   []Retry       // their Before is -1
	Sandbox *Sandbox      // narrows the plugin's; nil when not written
	Secrets []int         // that its input and its plugin's config name, sorted
	Range   Range         // of the block's header
}

// Budget bounds what a run or a step may use; 0 is no bound.
type Budget struct {
	Tokens, Calls int64
	USD           float64
	Range         Range
}

// Limiter bounds the calls of a plugin, those of all its steps and runs
// together; 0 is no bound. Also without bounds, a call that is answered with
// rate_limited makes the others wait.
type Limiter struct {
	Requests, Tokens int64 // in any minute
	Concurrency      int   // calls at once
	Range            Range
}

// Breaker says when calls of a plugin go to a step's fallback without being
// made: after so many in a row that ended as timeout or unavailable, until one
// that is made after Cooldown is answered.
type Breaker struct {
	Failures int           // 0 = the host's default
	Cooldown time.Duration // 0 = the host's default
}

// Sandbox is what Wasm code may reach and use. The zero value of a field is the
// default, which of a grant is nothing. On a native plugin only Env counts.
type Sandbox struct {
	AllowHosts        []string // "[scheme://]host[:port]", as written; nil when not written
	HostRanges        []Range  // of AllowHosts, one for one
	Mounts            []Mount
	Env               map[string]string
	Memory            int64 // bytes
	OutputMax, LogMax int64 // bytes
	Fuel              uint64
	Isolation         string // "inprocess", "process" or ""
	Range             Range
}

// Mount is a directory that a step sees.
type Mount struct {
	Name      string
	Source    string // as written; relative to the flow's directory
	ReadWrite bool
	Range     Range // of the source
}

// Output is a result of the flow.
type Output struct {
	Name        string
	Description string
	Sensitive   bool       // shown nowhere but where it is asked for by name
	Facets      []FacetRef // of the value, then of the preconditions
	Range       Range
}
