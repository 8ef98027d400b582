package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// Defaults of Options and of steps that say nothing.
const (
	DefaultTenant      = "default"
	DefaultConcurrency = 10
	DefaultTimeout     = 10 * time.Minute // of one attempt
)

// Options of New.
type Options struct {
	Store       checkpoint.Store // owned by the caller
	Tenant      string           // Defaults to "default"
	Observer    Observer         // nil sees nothing
	Logger      hclog.Logger     // Defaults to a logger that writes nothing
	Concurrency int              // attempts at once; a workflow's own setting wins. Defaults to 10
	Version     string           // of the engine, recorded with what it makes
	// Behind says that the store may have lost the newest records that were
	// known to be durable. Steps with effects that would run then stop as
	// "outcome unknown" instead.
	Behind bool
	// Network carries the http operations of steps. nil: steps have no network.
	Network *operation.Network
	// Environ is where secrets with env come from, as os.Environ gives it.
	Environ []string
	// Secrets are the values of secrets by name, for tests. Where it is not nil,
	// nothing is read from the environment or files, and an action gives only what
	// is not in it.
	Secrets map[string]string
	// Key makes the keyed hashes by which sensitive values are known, the same for
	// as long as the store lasts. A flow that needs none runs without; see
	// hcl.Workflow.NeedsKey.
	Key    []byte
	Prices *Prices // of the models' tokens; nil: all are unknown
	NoWait bool    // neither delays of retries nor limiters are waited for, as in a test
	// Isolation is the least level that modules have, for plans to say. It is the
	// loaders that give it. Defaults to in process.
	Isolation loader.Isolation
	Cache     int64 // bytes of reused outputs kept in memory. Defaults to 32 MiB
}

func (o *Options) setDefaults() {
	if o.Tenant == "" {
		o.Tenant = DefaultTenant
	}
	if o.Observer == nil {
		o.Observer = observers(nil)
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Cache == 0 {
		o.Cache = 32 << 20
	}
}

// delay is how long a retry waits.
func (o *Options) delay(d time.Duration) time.Duration {
	if o.NoWait {
		return 0
	}
	return d
}

func (o *Options) validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("options: no store"))
	}
	if o.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("options: concurrency %d is negative", o.Concurrency))
	}
	return errors.Join(errs...)
}

// Host plans and runs workflows for one tenant on one store. One Apply at a
// time: the store tells one receiver what has become durable.
type Host struct {
	o      Options
	shared shared
}

// New makes a Host. The error names every option that cannot be used.
func New(o Options) (*Host, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Host{o: o}, nil
}

// storeError says that the store failed; the run cannot be trusted to be
// recorded and stops.
type storeError struct{ err error }

func (e *storeError) Error() string { return "checkpoint store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// IsStoreError reports whether err says that the store failed.
func IsStoreError(err error) bool {
	var e *storeError
	return errors.As(err, &e)
}

// effectsOf is what an attempt of a step type does to the world: what the
// manifest says, raised by the flow. A native plugin without a manifest may do
// anything.
func effectsOf(a *loader.Artifact, stepType string, atLeast sdk.Effects) sdk.Effects {
	e := sdk.EffectsNone
	if a.Manifest != nil {
		e = a.Manifest.Steps[stepType].Effects
	} else if a.Kind == loader.Native {
		e = sdk.EffectsWrite
	}
	return max(e, atLeast)
}
