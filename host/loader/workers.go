package loader

import (
	"context"
	"os"

	"github.com/retrace-dev/engine/sdk"
)

// Isolation says where the instances of a module live. The zero value is
// InProcess.
type Isolation string

// The levels of isolation, from the weaker to the stronger.
const (
	// InProcess runs instances in the engine's own process, kept apart by Wasm.
	InProcess Isolation = "inprocess"
	// Process runs them in worker processes that the system keeps from files,
	// network and other processes, so that a fault of the Wasm runtime gives
	// nothing away.
	Process Isolation = "process"
)

// Workers are the processes that a loader of modules has for what should not
// happen in the engine's own. host/subprocess has them; what is done in them,
// and what Spec and Files mean, is the module loader's affair alone.
type Workers interface {
	// Compile compiles a module in a process that is killed beyond its limits,
	// and leaves the result in the empty directory dir. An *sdk.Error says that
	// it could not be done (ClassResourceExhausted with CodeCompileTime or
	// CodeCompileMemory beyond a limit, the end of ctx); any other error is the
	// compiler's reason to refuse the module.
	Compile(ctx context.Context, module []byte, dir string) error
	// Isolate returns a step whose attempts run in worker processes. It starts
	// none; the first attempt does. The caller closes j.Files after the step.
	Isolate(j Job) (Isolated, error)
}

// Job is what a worker process is for: one artifact under one set of limits.
type Job struct {
	Path   string     // of the artifact, for messages
	Limits Limits     // of each attempt, with defaults
	Spec   []byte     // given to the worker as it is
	Files  []*os.File // open in the worker; read them at offsets, as all workers share them
}

// Isolated is a step whose attempts run in worker processes, as many as run at
// once. Its Run is that of Plugin.Step.
type Isolated interface {
	sdk.Step
	Preparer
	// Close ends running attempts and the workers. It is idempotent.
	Close() error
}

// Codes of the errors of Load (ClassResourceExhausted) for a module that takes
// more to compile than it may.
const (
	CodeCompileTime   = "compile_time"
	CodeCompileMemory = "compile_memory"
)
