package hcl

import (
	"encoding/json"

	"github.com/retrace-dev/engine/sdk"
)

// Scope is what the expressions of a step see besides variables and locals.
// What is not there for an argument (self before an attempt) stays zero.
type Scope struct {
	Up        Upstream
	Each      []Each          // of the instance, by loop, the outermost first; nil without for_each
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

// Result is how a step ended, or an instance of one.
type Result struct {
	State    sdk.State
	Output   json.RawMessage // sanitised; nil unless Succeeded
	Error    *sdk.Error      // nil unless it failed
	Attempts int
	Degraded bool

	// Instances are those of a step with for_each, in order; where loops stand in
	// loops they have Instances themselves. It is nil for a step without for_each,
	// and for one that ended before it was expanded: its facets are then its own.
	Instances []InstanceResult
	List      bool // of Instances: the facets are lists, else objects
}

// InstanceResult is how one instance of a step with for_each ended.
type InstanceResult struct {
	Key json.RawMessage // as in Each
	Result
}

// Identity is what the keys of a step are made of, but for what comes from the
// plugin. All digests are over canonical forms: formatting, comments, order of
// blocks and attributes, names of steps, locals and `for` variables do not
// count.
type Identity struct {
	When    sdk.Digest // of `when` with the values it names; zero without it
	ForEach sdk.Digest // of `for_each` with the values it names; zero without it
	Input   sdk.Digest // of `input` with the values it names
	Type    sdk.Digest // of output_type; zero without it
	Salt    sdk.Digest // of the evaluated salt; if it names each, of its canonical form, and Evaluator.Salt has the value
	Config  sdk.Digest // of the plugin's evaluated configuration
	Checks  sdk.Digest // of step types, inputs and configurations of the checks; zero without any
	Judge   sdk.Digest // of the postconditions with the values they name; zero without any

	// Attributes has one entry per attribute of an object-literal input, so
	// that a difference can be named.
	Attributes []AttributeIdentity
	// ConfigMembers has one entry per member of the configuration, so that a difference
	// can be named: "plugin config.model", with the digest of its value. All steps of the
	// plugin share it.
	ConfigMembers []ValueIdentity
	// Values has one entry per variable, file or run property that `when`,
	// `for_each`, `input` and the checks name: "var.topic", `file("p.txt")`, with the digest of the
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
