package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// Seq is the position of a record in its store's commit order, from 1. A later
// commit has a larger Seq.
type Seq uint64

// Outcome says how a step instance ended, for steps that leave a checkpoint.
type Outcome uint8

// The outcomes. A failed step leaves attempt records and no checkpoint.
const (
	Succeeded        Outcome = iota
	SkippedCondition         // its `when` was false
	SkippedUpstream          // a hard upstream was skipped
	SkippedFailure           // it failed, and on_failure = skip
	Withdrawn                // it had succeeded and was undone
)

var outcomeNames = [...]string{"succeeded", "skipped_condition", "skipped_upstream", "skipped_failure", "withdrawn"}

func (o Outcome) String() string { return outcomeNames[o] }

// State is the step state the outcome stands for.
func (o Outcome) State() sdk.State {
	if o == Succeeded {
		return sdk.Succeeded
	}
	return sdk.Skipped
}

// Head is the part of a checkpoint that planning needs: everything but the
// context and the data. Heads are immutable once in an Index.
type Head struct {
	// What every step is compared by comes first: planning 1,000,000 steps is
	// bound by the memory it touches.
	Local    Fingerprint  `json:"local"`   // local key, Numbered; for SkippedCondition the key of `when` alone
	Output   sdk.Digest   `json:"output"`  // Merkle digest of the output; zero for skipped steps
	Lineage  []sdk.Digest `json:"lineage"` // of the upstream facets, in the order Local has its holes
	Outcome  Outcome      `json:"outcome"`
	Degraded bool         `json:"degraded,omitempty"`
	Operator bool         `json:"operator,omitempty"` // a person gave the output; of a collection, that of an instance
	Expires  time.Time    `json:"expires,omitzero"`   // zero = never
	Data     DataRef      `json:"data"`               // where the output lies; zero for a husk and for skipped steps

	ID       ID            `json:"id"`
	Step     string        `json:"step"`               // address, "step.summarize"
	Instance string        `json:"instance,omitempty"` // for_each key
	Seq      Seq           `json:"-"`                  // set by the store
	Run      RunID         `json:"run"`                // the run that committed this record
	Chain    RunID         `json:"chain"`              // the first run of the chain of following runs it was produced in
	Plan     Fingerprint   `json:"plan"`               // PlanKey of Local and Lineage
	Content  Fingerprint   `json:"content"`            // zero for skipped steps
	Attempts int           `json:"attempts,omitempty"` // attempts until success
	Created  time.Time     `json:"created"`
	Took     time.Duration `json:"took"`             // of the attempt that produced it
	Tokens   int64         `json:"tokens,omitempty"` // that it used, saved by reuse
	Cost     Cost          `json:"cost,omitzero"`    // what they cost then, saved by reuse
	Judged   sdk.Digest    `json:"judged,omitzero"`  // of the postconditions that held for the output
	// Facets holds the digests of the facets beside the output where they do
	// not follow from the fields above: of a step with for_each, whose facets
	// are collections, and of one that was skipped after a failure. Else nil.
	Facets *Facets `json:"facets,omitempty"`
	// IdempotencyKey is the one under which a step with effects gave the answer,
	// whoever stands on it now.
	IdempotencyKey Fingerprint `json:"idempotency_key,omitzero"`
}

// Facets are the digests of the facets from FacetStatus on, in their order.
type Facets [4]sdk.Digest

// DataRef says where an output lies and what it must be.
type DataRef struct {
	Seq    Seq        `json:"seq"`    // of the record that stored it; 0 = no data
	Size   int64      `json:"size"`   // bytes
	SHA256 sdk.Digest `json:"sha256"` // of the bytes
}

// LargeData is the size in bytes above which a durable store keeps an output
// apart from the records, once per tenant however many records have it.
const LargeData = 64 << 10

// HasData reports whether the output can be read back: true for every record
// that is not a husk. A skipped step has no output and lacks nothing.
func (h *Head) HasData() bool { return h.Outcome != Succeeded || h.Data.Seq != 0 }

// HasLocal reports whether Local is f.
func (h *Head) HasLocal(f *Fingerprint) bool {
	return equal((*[32]byte)(&h.Local), (*[32]byte)(f))
}

// HasFacet reports whether Facet(f) is d.
func (h *Head) HasFacet(f sdk.Facet, d *sdk.Digest) bool {
	if f == sdk.FacetOutput && h.Outcome == Succeeded {
		return equal((*[32]byte)(&h.Output), (*[32]byte)(d))
	}
	return h.Facet(f) == *d
}

// equal compares word by word, in place: a plan asks this for every step and
// every edge, and a call to compare memory costs more than the loads.
func equal(a, b *[32]byte) bool {
	le := binary.LittleEndian
	return (le.Uint64(a[:])^le.Uint64(b[:]))|(le.Uint64(a[8:])^le.Uint64(b[8:]))|
		(le.Uint64(a[16:])^le.Uint64(b[16:]))|(le.Uint64(a[24:])^le.Uint64(b[24:])) == 0
}

// Facet returns the digest of one facet of the step, as it stands in the
// lineage of the steps below.
func (h *Head) Facet(f sdk.Facet) sdk.Digest {
	switch {
	case f == sdk.FacetOutput && h.Outcome != Succeeded:
		return absentDigest
	case f == sdk.FacetOutput:
		return h.Output
	case h.Facets != nil:
		return h.Facets[f-sdk.FacetStatus]
	}
	switch f {
	case sdk.FacetStatus:
		return statusDigests[h.Outcome.State()]
	case sdk.FacetAttempts:
		return mustDigest(strconv.Itoa(h.Attempts))
	case sdk.FacetDegraded:
		if h.Degraded {
			return boolDigests[1]
		}
		return boolDigests[0]
	}
	return absentDigest // FacetError of a step that did not fail
}

// Record is a whole checkpoint but for its data.
type Record struct {
	Head
	Context Context `json:"context"`
}

// Context explains a checkpoint; it never configures anything.
type Context struct {
	Plugin     string            `json:"plugin,omitempty"`  // local name in the flow
	Version    string            `json:"version,omitempty"` // from the manifest
	Artifact   sdk.Digest        `json:"artifact,omitzero"` // digest of the plugin's artifact
	StepType   string            `json:"step_type,omitempty"`
	Engine     string            `json:"engine,omitempty"`
	Input      sdk.Digest        `json:"input,omitzero"`       // Merkle digest of the evaluated input
	InputHead  string            `json:"input_head,omitempty"` // how the evaluated input begins
	Inputs     []AttributeDigest `json:"inputs,omitempty"`
	Identity   []NamedDigest     `json:"identity,omitempty"` // parts of the local key, so that a difference can be named
	Upstream   []UpstreamDigest  `json:"upstream,omitempty"` // the lineage, with names
	Producer   Producer          `json:"producer"`           // who computed it
	Timeout    time.Duration     `json:"timeout,omitempty"`
	Reported   json.RawMessage   `json:"reported,omitempty"` // the step's own context, after the allow-list
	Usage      []sdk.Usage       `json:"usage,omitempty"`
	ReusedFrom string            `json:"reused_from,omitempty"` // "step.old" when another step's result was taken
	Error      *sdk.Error        `json:"error,omitempty"`       // of a step that was skipped after a failure; sanitised
	Instances  *Instances        `json:"instances,omitempty"`   // of a step with for_each
	Undo       json.RawMessage   `json:"undo,omitempty"`        // the input of its undo, evaluated when it had succeeded
}

// Instances says how the instances of a collection ended.
type Instances struct {
	List   bool       `json:"list,omitempty"` // the output is a list, else an object
	Count  int        `json:"count"`
	Others []Instance `json:"others,omitempty"` // those that did not succeed at the first attempt, or have instances themselves, in order
}

// Total is how many instances ran: of loops in loops, those of the innermost.
func (i *Instances) Total() int {
	n := i.Count
	for _, o := range i.Others {
		if o.Instances != nil {
			n += o.Instances.Total() - 1
		}
	}
	return n
}

// Instance is how one instance ended.
type Instance struct {
	Index    int        `json:"index"`
	State    sdk.State  `json:"state"`
	Attempts int        `json:"attempts"`
	Degraded bool       `json:"degraded,omitempty"`
	Error    *sdk.Error `json:"error,omitempty"`
	// Instances are its own, of a step in loops within loops.
	Instances *Instances `json:"instances,omitempty"`
}

// Producer is the attempt that computed an output.
type Producer struct {
	Run     RunID     `json:"run"`
	Step    string    `json:"step"`
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
}

// AttributeDigest tells one input attribute apart from its earlier self.
type AttributeDigest struct {
	Name       string `json:"name"`
	Value      string `json:"value"`      // 32 hex digits over the value
	Expression string `json:"expression"` // 32 hex digits over the canonical expression
}

// AttributeHash is a digest as an AttributeDigest has it.
func AttributeHash(d sdk.Digest) string { return hex.EncodeToString(d[:16]) }

// NamedDigest is one named part of a local key: "var.topic", "config", "when".
type NamedDigest struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // its short form
}

// UpstreamDigest is one entry of a lineage.
type UpstreamDigest struct {
	Step   string     `json:"step"`
	Facet  sdk.Facet  `json:"facet"`
	Digest sdk.Digest `json:"digest"`
}

// RunStatus is where a run stands.
type RunStatus string

// The statuses of a run. A run found RunRunning without a live owner was
// interrupted.
const (
	RunRunning     RunStatus = "running"
	RunSucceeded   RunStatus = "succeeded"
	RunFailed      RunStatus = "failed"
	RunCancelled   RunStatus = "cancelled"
	RunInterrupted RunStatus = "interrupted"
	// A failed run whose workflow says on_failure = compensate is sealed as
	// RunCompensating and becomes RunCompensated when everything is undone.
	RunCompensating RunStatus = "compensating"
	RunCompensated  RunStatus = "compensated"
)

// RunRecord is one run. It is written when the run opens, when it is continued
// and when it ends; the newest one counts.
type RunRecord struct {
	ID        RunID                      `json:"id"`
	Workflow  string                     `json:"workflow"`
	Version   string                     `json:"version,omitempty"` // of the workflow
	Follows   RunID                      `json:"follows,omitempty"` // the run it follows
	Chain     RunID                      `json:"chain"`             // the first run of that chain
	Variables sdk.Digest                 `json:"variables"`         // Merkle digest over all variable values
	Values    map[string]json.RawMessage `json:"values,omitempty"`  // the values, those above 4 KiB as {"$digest":..,"size":..}
	Files     []FileDigest               `json:"files,omitempty"`
	Artifacts []NamedDigest              `json:"artifacts,omitempty"`
	Status    RunStatus                  `json:"status"`
	Error     *sdk.Error                 `json:"error,omitempty"` // why it failed or was cancelled
	Created   time.Time                  `json:"created"`
	Since     time.Time                  `json:"since,omitzero"` // when this process opened or continued it
	Ended     time.Time                  `json:"ended,omitzero"`
	Live      time.Duration              `json:"live"` // summed over continuations
	Continued int                        `json:"continued,omitempty"`
	Engine    string                     `json:"engine"`
	Outputs   sdk.Digest                 `json:"outputs,omitzero"` // over the values of the outputs it ended with
	Used      sdk.Digest                 `json:"used,omitzero"`    // over the records a succeeded run ended with
	Reused    []Seq                      `json:"reused,omitempty"` // records of earlier runs that it used; retention keeps them
	Counts    map[string]int             `json:"counts,omitempty"`
	Reruns    map[string]int             `json:"reruns,omitempty"`     // how often a step was asked to run again, in the chain
	NotUndone []string                   `json:"not_undone,omitempty"` // of a run that is being compensated: what is left, by address
}

// Undoing says that effects of the run are still to be undone.
func (r *RunRecord) Undoing() bool { return r.Status == RunCompensating || len(r.NotUndone) > 0 }

// FileDigest is one file of the flow.
type FileDigest struct {
	Path   string     `json:"path"`
	Digest sdk.Digest `json:"digest"`
}

// AttemptRecord is one failed attempt of one step instance. The attempt that
// succeeded is in the checkpoint's context.
type AttemptRecord struct {
	Run      RunID         `json:"run"`
	Step     string        `json:"step"`
	Instance string        `json:"instance,omitempty"`
	Attempt  int           `json:"attempt"`          // counts from 1 over all continuations of the run
	Content  Fingerprint   `json:"content,omitzero"` // of what was asked
	Error    *sdk.Error    `json:"error,omitempty"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took"`
	Usage    []sdk.Usage   `json:"usage,omitempty"`
	Cost     Cost          `json:"cost,omitzero"` // of Usage, then
}

// Intent says that an attempt of a step with effects was about to start. It is
// durable before the attempt begins, so that after a crash the engine knows
// that the effect may have happened.
type Intent struct {
	Run            RunID       `json:"run"`
	Step           string      `json:"step"`
	Instance       string      `json:"instance,omitempty"`
	Twin           Fingerprint `json:"twin,omitzero"` // of an instance: which one it is by what it is given, whatever its place
	Attempt        int         `json:"attempt"`
	IdempotencyKey string      `json:"idempotency_key"`
	Reruns         int         `json:"reruns,omitempty"` // how often a person had asked for it to be done anew
	Effects        sdk.Effects `json:"effects"`
	Effect         Fingerprint `json:"effect,omitzero"`  // of the step type and its evaluated input
	Content        Fingerprint `json:"content,omitzero"` // the content key, of the first of equal instances
	Local          Fingerprint `json:"local,omitzero"`   // as a Head has it: whether the step of this name is still the one that it was
	Started        time.Time   `json:"started"`
	// Undo is the input of the step's undo as far as it is known before there is
	// an output; nil without one.
	Undo json.RawMessage `json:"undo,omitempty"`
}
