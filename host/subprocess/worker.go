package subprocess

import (
	"os"

	"github.com/retrace-dev/engine/sdk"
)

// Modules is what a program can do with modules in processes of their own. The
// zero value is for a program that loads none; its Loader must not be used as
// loader.Workers.
type Modules struct {
	// Compile does what loader.Workers.Compile asks for. An *sdk.Error says that
	// it could not be done, any other error is a reason to refuse the module.
	Compile func(module []byte, dir string) error
	// Serve makes the step of a worker out of the Spec and Files of a loader.Job.
	Serve func(spec []byte, files []*os.File) (sdk.Step, error)
}

// Worker must be called first in main. In a process that was started as a compile
// worker or a module's worker it does that work and exits; in any other it returns
// at once.
func Worker(m Modules) {
	if os.Getenv(jobEnv) == "" {
		return
	}
	switch os.Args[0] {
	case compilerName:
		compilerMain(m.Compile)
	case workerName:
		workerMain(m.Serve)
	}
}

const (
	compilerName = "engine-compiler" // argv[0] of a compile worker
	workerName   = "engine-worker"   // argv[0] of a module's worker
	jobEnv       = "ENGINE_SUBPROCESS_JOB"
)
