package subprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/wire"
)

const (
	// workerMemory is what a worker needs beside a module's linear memory. With
	// less Go does not start.
	workerMemory = 192 << 20
	// workerHeap is how much of it the garbage collector aims at.
	workerHeap = 128 << 20
	// workerAttempts is after how many attempts a worker is replaced.
	workerAttempts = 1_000
	// workerFiles is how many descriptors a worker has for itself and its module.
	workerFiles = 256
	// stopWithin is how long after the end of an attempt's context a worker may go
	// on before it is killed.
	stopWithin = 500 * time.Millisecond
	// workerFile is how large a file may become that a worker writes. The module's
	// own limit is smaller.
	workerFile = 512 << 20
)

// workerJob is what a worker is told on descriptor 3. Its files follow.
type workerJob struct {
	Memory uint64          `json:"memory"`
	Files  int             `json:"files"`
	Read   []string        `json:"read,omitempty"`
	Write  []string        `json:"write"`
	Spec   json.RawMessage `json:"spec"`
}

// codeFailed marks the error of an attempt that left a worker whole, in the details
// of another one: on the wire it may not use the host's own classes.
const codeFailed = "failed in the worker"

// failed makes a response of how an attempt failed.
func failed(e *sdk.Error) (*sdk.Response, error) {
	details, err := sdk.Marshal(e)
	return &sdk.Response{Error: &sdk.Error{Class: sdk.ClassInternal, Code: codeFailed, Details: details}}, err
}

// failure reads the details that failed wrote; nil if these are none.
func failure(details []byte) *sdk.Error {
	var e sdk.Error
	if sdk.Unmarshal(details, &e) != nil || !e.Class.Valid() {
		return nil
	}
	return &e
}

// Isolates says why this program cannot run modules in processes of their own;
// nil if it can.
func Isolates() error { return errCgo }

// Compiles says why this program cannot compile modules in processes of its own;
// nil if it can.
func Compiles() error { return errCgo }

// isolated are the workers of one job: as many as attempts run at once.
type isolated struct {
	l        *Loader
	job      loader.Job
	dir      string // private: sockets, TMPDIR
	attempts attempts

	mu       sync.Mutex
	idle     []*worker
	live     int // idle, at work, or being started
	prepared int // attempts that are sure of a worker: at most live, unless one has died
}

var _ loader.Isolated = (*isolated)(nil)

// worker is a process with one attempt at a time.
type worker struct {
	*process
	tmp  string // private, for files of the attempt
	used int
}

// end kills the worker and removes what it has left.
func (w *worker) end() {
	w.kill()
	_ = os.RemoveAll(w.tmp) // or with the directory that it lies in
}

// Isolate returns a step whose attempts run in workers: this executable again.
func (l *Loader) Isolate(j loader.Job) (loader.Isolated, error) {
	dir, err := privateDir(l.o.TempDir)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("workers of module %s: %v", j.Path, err)}
	}
	return &isolated{l: l, job: j, dir: dir}, nil
}

// Close ends running attempts and the workers.
func (s *isolated) Close() error {
	if !s.attempts.close() {
		return nil
	}
	for _, w := range s.idle {
		w.end()
	}
	return os.RemoveAll(s.dir)
}

// Run carries one attempt to a worker, with an instance of its own there.
func (s *isolated) Run(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	ctx, _, end, err := s.attempts.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	w, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	limits := s.job.Limits
	// An error is larger than the module's by how it is wrapped and escaped.
	r, err := w.client.Run(ctx, req, host, wire.Limits{Request: limits.Request, Response: 2*limits.Response + 1<<20, Grace: stopWithin})
	var broken *wire.Broken
	if errors.As(err, &broken) {
		defer s.end(w)
		return nil, s.died(w, broken)
	}
	keep := true
	if err != nil {
		keep, err = s.judge(sdk.AsError(err))
	}
	if w.used++; w.used == workerAttempts || !keep {
		s.end(w)
	} else {
		s.give(w)
	}
	return r, err
}

// judge reads the error of a worker that lives, and says whether to keep it. One of
// our own, for which the worker was told to stop, keeps what the module said last.
func (s *isolated) judge(e *sdk.Error) (keep bool, _ error) {
	inner := failure(e.Details)
	switch {
	case e.Code != codeFailed:
		own := *e
		own.Details = nil
		if inner != nil {
			own.Stderr = inner.Stderr
		}
		return false, &own
	case inner == nil:
		return false, &sdk.Error{Class: sdk.ClassProtocol, Message: fmt.Sprintf("module %s: its worker failed without an error%s", s.job.Path, sdk.Seen(e.Details))}
	}
	return inner.Class.FromStep(), inner
}

// Prepare starts a worker, unless there is one more than attempts are prepared.
func (s *isolated) Prepare(ctx context.Context) (release func(), err error) {
	ctx, _, end, err := s.attempts.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s.mu.Lock()
	for k := len(s.idle) - 1; k >= 0; k-- {
		if w := s.idle[k]; !w.alive() {
			s.idle = slices.Delete(s.idle, k, k+1)
			s.live--
			defer w.end()
		}
	}
	s.prepared++
	enough := s.live >= s.prepared
	s.mu.Unlock()
	release = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.prepared--
	}
	if enough {
		return release, nil
	}
	w, err := s.start(ctx)
	if err != nil {
		release()
		return nil, err
	}
	s.give(w)
	return release, nil
}

// take returns a worker that nobody uses, and starts one if there is none.
func (s *isolated) take(ctx context.Context) (*worker, error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		w := s.idle[last]
		s.idle = s.idle[:last]
		s.mu.Unlock()
		if w.alive() {
			return w, nil
		}
		s.end(w)
		return s.take(ctx)
	}
	s.mu.Unlock()
	return s.start(ctx)
}

// end ends a worker that nobody uses any more.
func (s *isolated) end(w *worker) {
	s.count(-1)
	w.end()
}

func (s *isolated) count(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live += more
}

func (s *isolated) give(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, w)
}

// died says how a worker ended, or why it was given up.
func (s *isolated) died(w *worker, b *wire.Broken) *sdk.Error {
	if !b.Gone || b.Err.Class != sdk.ClassPluginCrash && b.Err.Class != sdk.ClassProtocol {
		return b.Err
	}
	how, ended := w.awaitExit()
	if !ended {
		return b.Err
	}
	said := w.stderr.first()
	if starved(said, w.cmd.ProcessState, s.job.Limits.Memory+workerMemory) {
		return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "memory", Message: fmt.Sprintf("the step needs more than %d MiB of memory", s.job.Limits.Memory>>20)}
	}
	return &sdk.Error{Class: sdk.ClassPluginCrash, Message: fmt.Sprintf("the worker process of module %s %s during the attempt: %s", s.job.Path, how, firstLineOf([]byte(said)))}
}

// start starts a worker, in as many namespaces of its own as the system allows.
func (s *isolated) start(ctx context.Context) (w *worker, err error) {
	s.count(1)
	defer func() {
		if err != nil {
			s.count(-1)
		}
	}()
	for kind := s.l.namespaces.Load(); ; kind++ {
		w, err = s.startIn(ctx, kind)
		if err == nil {
			s.l.namespaces.Store(kind)
			s.l.tellConfinement(kind, landlockABI())
			return w, nil
		}
		if !forbidden(err) || int(kind) == len(kinds)-1 {
			return nil, s.startFailed(err)
		}
	}
}

func (s *isolated) startIn(ctx context.Context, kind int32) (*worker, error) {
	tmp, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		return nil, err
	}
	spec, err := s.spec(tmp)
	if err != nil {
		return nil, err
	}
	defer spec.Close()
	c := newChild(s.l.o, s.job.Path, s.l.self, tmp)
	c.cmd.Args = []string{workerName}
	c.cmd.Env = []string{jobEnv + "=1", "TMPDIR=" + tmp}
	c.cmd.ExtraFiles = append([]*os.File{spec}, s.job.Files...)
	c.cmd.SysProcAttr = kinds[kind].attributes()
	p, err := launch(ctx, c, s.l.o.StartTimeout, s.dir)
	if err != nil {
		_ = os.RemoveAll(tmp)
		return nil, errors.Join(err, c.startErr)
	}
	return &worker{process: p, tmp: tmp}, nil
}

// spec is a file that tells a worker what it is for.
func (s *isolated) spec(tmp string) (*os.File, error) {
	job := workerJob{Memory: uint64(s.job.Limits.Memory) + workerMemory, Files: len(s.job.Files), Write: []string{tmp}, Spec: s.job.Spec}
	if world := s.job.Limits.World; world != nil {
		for _, m := range world.Mounts {
			if m.ReadWrite {
				job.Write = append(job.Write, m.Path)
			} else {
				job.Read = append(job.Read, m.Path)
			}
		}
	}
	b, err := sdk.Marshal(job)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("worker", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "worker")
	if _, err := f.WriteAt(b, 0); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (s *isolated) startFailed(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) || e.Class == sdk.ClassCancelled || e.Class == sdk.ClassTimeout && e.Code == "" {
		return err
	}
	return &sdk.Error{Class: sdk.ClassInternal, Code: loader.CodeStart, Message: fmt.Sprintf("module %s: its worker process did not start: %s", s.job.Path, firstLineOf([]byte(e.Stderr+"\n"+e.Message)))}
}

// limitsTime says that confine limits the time of the processor.
const limitsTime = true

// dieWithUs makes a process end when the thread that starts it does.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// kinds are the namespaces a worker may have of its own, from most to least.
var kinds = []namespaces{
	{"user, pid, net and ipc namespaces", unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC},
	{"pid, net and ipc namespaces", unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC},
	{"no namespaces", 0},
}

type namespaces struct {
	name  string
	flags uintptr
}

// nobody is who root is in a worker's user namespace, so that it has no
// capabilities even there.
const nobody = 65534

func (n namespaces) attributes() *syscall.SysProcAttr {
	a := dieWithUs()
	a.Cloneflags = n.flags
	if n.flags&unix.CLONE_NEWUSER != 0 {
		as := func(id int) []syscall.SysProcIDMap {
			inside := id
			if inside == 0 {
				inside = nobody
			}
			return []syscall.SysProcIDMap{{ContainerID: inside, HostID: id, Size: 1}}
		}
		a.UidMappings, a.GidMappings = as(os.Getuid()), as(os.Getgid())
	}
	return a
}

// forbidden reports whether a process did not start because the system allows no
// such namespaces.
func forbidden(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSPC, unix.EUSERS, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// tellConfinement logs, once, what holds the workers.
func (l *Loader) tellConfinement(kind int32, abi int) {
	l.told.Do(func() {
		log := l.o.Logger.Debug
		if abi == 0 || int(kind) == len(kinds)-1 {
			log = l.o.Logger.Warn
		}
		log("modules run in worker processes", "landlock_abi", abi, "seccomp", true, "namespaces", kinds[kind].name)
	})
}

// workerMain serves attempts until the engine shuts the process down.
func workerMain(serve func([]byte, []*os.File) (sdk.Step, error)) {
	if errCgo != nil {
		die(errCgo)
	}
	var job workerJob
	in := os.NewFile(3, "job")
	st, err := in.Stat()
	if err != nil {
		die(err)
	}
	b := make([]byte, st.Size())
	if _, err := in.ReadAt(b, 0); err != nil {
		die(err)
	}
	if err := json.Unmarshal(b, &job); err != nil {
		die(err)
	}
	files := make([]*os.File, job.Files)
	for i := range files {
		files[i] = os.NewFile(uintptr(4+i), fmt.Sprintf("file %d", i))
	}
	step, err := serve(job.Spec, files)
	if err != nil {
		die(err)
	}
	for _, f := range append(files, in) {
		_ = f.Close() // read
	}
	debug.SetMemoryLimit(workerHeap)
	stderr := os.Stderr
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: wire.Handshake(),
		Plugins:         goplugin.PluginSet{wire.PluginName: &servedStep{step: wrapped(step)}},
		Logger:          hclog.NewNullLogger(),
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server { // called once the socket listens
			if err := confine(confinement{memory: job.Memory, files: workerFiles, fileSize: workerFile, read: job.Read, write: job.Write}); err != nil {
				fmt.Fprintln(stderr, err)
				os.Exit(1)
			}
			return wire.NewServer(o)
		},
	})
}

// wrapped lets the errors of step pass the wire.
func wrapped(step sdk.Step) sdk.Step {
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		r, err := step.Run(ctx, req, host)
		if err != nil {
			return failed(sdk.AsError(err))
		}
		return r, nil
	})
}

// servedStep is what go-plugin wants of the worker's end.
type servedStep struct {
	goplugin.NetRPCUnsupportedPlugin
	step sdk.Step
}

var _ goplugin.GRPCPlugin = (*servedStep)(nil)

// GRPCServer registers the step.
func (p *servedStep) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	wire.Register(s, p.step)
	return nil
}

// GRPCClient is of the other end.
func (p *servedStep) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the worker's end")
}
