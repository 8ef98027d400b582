// Package loader is the contract between the host and what carries third-party
// code: host/wasm for sandboxed modules, host/subprocess for native plugins. It
// holds types and no behaviour, so that a carrier can be written or replaced
// without reading the host.
//
// The words are wazero's: a module (or executable) is an Artifact, what Load
// makes of it is a Plugin, and each attempt gets an instance of its own behind
// sdk.Step.
package loader

import (
	"context"
	"errors"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// ErrForeign is what Open returns for a file that is not of the loader's kind.
// The host then asks the next loader.
var ErrForeign = errors.New("not an artifact of this kind")

// Kind says what an artifact is.
type Kind string

// The kinds of artifact.
const (
	Wasm   Kind = "wasm"
	Native Kind = "native"
)

// Artifact is a plugin before anything of it has run. It is immutable.
type Artifact struct {
	Kind   Kind
	Path   string     // where it was read, for messages
	Digest sdk.Digest // of the module's or file's bytes; with a sidecar manifest over both
	// Manifest is nil when it has none: it runs untyped, with step type "run". A
	// loader may make one for a program of another contract; it has no name then.
	Manifest *sdk.Manifest
	Bytes    []byte // the module, for Wasm; nil for native
	// Env is what a native plugin's first process gets beside its own
	// environment; set by who loads it. Steps of another World get another process.
	Env map[string]string
}

// Limits bound what one attempt may use. The zero value of a field means its
// default.
type Limits struct {
	Memory    int64         // bytes of linear memory. Defaults to 64 MiB. Wasm only
	Request   int64         // bytes of the request and of one operation message. Defaults to 16 MiB
	Response  int64         // bytes of the response, stdout included. Defaults to 16 MiB
	Stderr    int64         // bytes of stderr. Defaults to 1 MiB
	HostCalls int           // operations per attempt. Defaults to 10,000
	Fuel      uint64        // units of computing, checked every million. 0 = no bound but the deadline. Wasm only
	Grace     time.Duration // between a cancel and the kill of a native plugin. Defaults to 5 s
	Isolation Isolation     // of a module's instances; the loader may give more. Defaults to InProcess
	World     *World        // what is to be seen beside the request. nil = nothing. It is not changed
}

// World is what attempts see of the machine. Like all of Limits it is data that
// can be sent to another process.
type World struct {
	Env    map[string]string `json:"env,omitempty"`    // environment variables
	Mounts []Mount           `json:"mounts,omitempty"` // Wasm only
}

// Mount is a directory of the machine that a module sees as /Name.
type Mount struct {
	Name      string `json:"name"` // one element of a path; not engine or tmp, which are taken
	Path      string `json:"path"` // of the machine, absolute
	ReadWrite bool   `json:"read_write,omitempty"`
}

// Default limits.
const (
	DefaultMemory    = 64 << 20
	DefaultRequest   = 16 << 20
	DefaultResponse  = 16 << 20
	DefaultStderr    = 1 << 20
	DefaultHostCalls = 10_000
	DefaultGrace     = 5 * time.Second
)

// Ceilings: the most that a flow or manifest can ask for.
const (
	MaxMemory   = sdk.MaxMemoryMB << 20
	MaxResponse = 64 << 20
	MaxStderr   = 64 << 20
)

// WithDefaults fills the zero fields.
func (l Limits) WithDefaults() Limits {
	def(&l.Memory, DefaultMemory)
	def(&l.Request, DefaultRequest)
	def(&l.Response, DefaultResponse)
	def(&l.Stderr, DefaultStderr)
	def(&l.HostCalls, DefaultHostCalls)
	def(&l.Grace, DefaultGrace)
	return l
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// CodeStart is the code of the error (ClassPluginCrash) of a native plugin that
// ended before it could be asked anything.
const CodeStart = "start"

// Std begins the source of a plugin that ships with the engine, "std/text". The
// path of a file that is given to Open never begins so.
const Std = "std/"

// Loader turns artifacts of one kind into plugins. It is safe for concurrent
// use. The host calls Open at plan and Load at the first attempt of a run that
// needs the plugin.
type Loader interface {
	// Open reads the artifact at path, or named by Std and a name, and its
	// manifest. Nothing of it runs.
	// ErrForeign says that the file is of another kind; any other error names
	// the path, what was seen and what to do.
	Open(path string) (*Artifact, error)
	// Load makes the artifact ready to run: compiles a module, checks an
	// executable. It may take seconds; it obeys ctx. Errors are *sdk.Error.
	Load(ctx context.Context, a *Artifact) (Plugin, error)
}

// Preparer is a step of a Plugin whose attempts need a process. Making one is part
// of loading: no attempt's clock runs meanwhile, and a failure is not an attempt's.
type Preparer interface {
	// Prepare makes sure that one attempt more than those that are prepared
	// already finds what it needs. Without an error, release must be called when
	// that attempt has ended, or is not to be made. An attempt that was not
	// prepared makes what it needs itself. Errors are those of Load.
	Prepare(ctx context.Context) (release func(), err error)
}

// Plugin is a loaded artifact. It is safe for concurrent use.
type Plugin interface {
	// Step returns the step type under the given limits. Each Run of the
	// result is one attempt with a fresh instance. A step type the plugin does
	// not have is an error (*sdk.Error of ClassInvalidInput) here or at Run.
	//
	// Run's error is always an *sdk.Error: the step's own, or the carrier's
	// words for how the attempt ended (timeout, plugin_crash, protocol,
	// resource_exhausted, sandbox). The last lines of stderr are in
	// Error.Stderr; every complete line also went to host as a sdk.LogOp of
	// level "info". When ctx ends, Run returns only after the instance has
	// stopped.
	//
	// If the result is a Preparer too, its attempts need something that takes time
	// to make.
	Step(stepType string, limits Limits) (sdk.Step, error)
	// Close frees the plugin and returns after everything of it has stopped.
	// It is idempotent; running attempts end as cancelled.
	Close() error
}
