package sdk

import "fmt"

// State is where a step stands in a run.
type State uint8

// The states of a step. A state after Running is final for the run.
const (
	Pending State = iota
	Running
	Succeeded
	Failed
	Skipped
	Cancelled
)

var stateNames = [...]string{"pending", "running", "succeeded", "failed", "skipped", "cancelled"}

// Ended reports whether s is final.
func (s State) Ended() bool { return s > Running }

func (s State) String() string { return enumName(stateNames[:], int(s)) }

// MarshalText returns the spelling used in JSON, HCL and the docs.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *State) UnmarshalText(b []byte) error { return enumParse(s, stateNames[:], b, "state") }

// Facet is the part of an upstream step that an expression names.
type Facet uint8

// The facets. FacetOutput is hard (or optional inside try and can), the others
// are soft: they have a value whatever became of the step.
const (
	FacetOutput Facet = iota
	FacetStatus
	FacetError
	FacetAttempts
	FacetDegraded
)

var facetNames = [...]string{"output", "status", "error", "attempts", "degraded"}

func (f Facet) String() string { return enumName(facetNames[:], int(f)) }

// MarshalText returns the spelling used in JSON, HCL and the docs.
func (f Facet) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (f *Facet) UnmarshalText(b []byte) error { return enumParse(f, facetNames[:], b, "facet") }

// FacetNames lists the facets in declaration order.
func FacetNames() []string { return append([]string(nil), facetNames[:]...) }

// Effects says what an attempt of a step type does to the world. The order
// matters: a flow may raise it, never lower it.
type Effects uint8

// The effects, weakest first. Write and Once are the "steps with effects".
const (
	EffectsNone  Effects = iota // pure: the output follows from the input
	EffectsRead                 // asks the world; asking again is harmless
	EffectsWrite                // changes the world, safe to repeat with the same idempotency key
	EffectsOnce                 // never repeated without a person
)

var effectsNames = [...]string{"none", "read", "write", "once"}

// Changes reports whether the world is changed, that is Write or Once.
func (e Effects) Changes() bool { return e >= EffectsWrite }

func (e Effects) String() string { return enumName(effectsNames[:], int(e)) }

// MarshalText returns the spelling used in JSON, HCL and the docs.
func (e Effects) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *Effects) UnmarshalText(b []byte) error { return enumParse(e, effectsNames[:], b, "effects") }

func enumName(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

func enumParse[E ~uint8](e *E, names []string, b []byte, what string) error {
	for i, n := range names {
		if n == string(b) {
			*e = E(i)
			return nil
		}
	}
	return fmt.Errorf("unknown %s %q", what, b)
}
