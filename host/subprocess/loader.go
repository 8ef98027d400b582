package subprocess

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// Options of New. The zero value runs plugins directly under this process.
type Options struct {
	// Self is the path of an executable that links this package and whose main
	// function calls Worker first, usually os.Executable(). It becomes each plugin's parent and outlives this
	// process for as long as it takes to kill what the plugin has started. "" runs
	// plugins directly; what they start may then be left behind when this process
	// is killed. Linux only; elsewhere it is ignored.
	Self string
	// TempDir is where private copies, sockets and the plugins' own temporary
	// directories go, each plugin in a directory of mode 0700. Its path must be
	// short (a socket's path has at most 104 bytes) and files in it must be
	// allowed to run. Defaults to os.TempDir.
	TempDir string
	// StartTimeout is how long a plugin may take to its handshake. Defaults to
	// 30 s.
	StartTimeout time.Duration
	// CompileTime and CompileMemory bound what compiling one module may take: the
	// processor's time, where the system counts it, and bytes. Default to 10 s and
	// 1 GiB.
	CompileTime   time.Duration
	CompileMemory int64
	Logger        hclog.Logger // Defaults to none
}

func (o *Options) setDefaults() {
	if runtime.GOOS != "linux" {
		o.Self = ""
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 30 * time.Second
	}
	if o.CompileTime <= 0 {
		o.CompileTime = 10 * time.Second
	}
	if o.CompileMemory <= 0 {
		o.CompileMemory = 1 << 30
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
}

// Loader loads native plugins. It is safe for concurrent use; there is nothing
// to close but the plugins it has loaded.
type Loader struct {
	o    Options
	self string // as given: o.Self is empty where there is no runner

	namespaces atomic.Int32 // the most that the system has allowed a worker so far
	told       sync.Once    // what holds workers
}

var _ loader.Loader = (*Loader)(nil)

// New makes a Loader.
func New(o Options) *Loader {
	self := o.Self
	o.setDefaults()
	o.Logger = o.Logger.Named("subprocess")
	return &Loader{o: o, self: self}
}

// Load copies the executable to a private directory, verifies its digest and
// starts it. If the process dies, the next attempt starts another.
func (l *Loader) Load(ctx context.Context, a *loader.Artifact) (loader.Plugin, error) {
	if a.Kind != loader.Native {
		return nil, &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("artifact %s is %s, not native", a.Path, a.Kind)}
	}
	p, err := l.newCopy(a)
	if err != nil {
		return nil, err
	}
	return p.started(ctx, a.Env)
}

// newCopy makes a plugin of a private copy of its executable.
func (l *Loader) newCopy(a *loader.Artifact) (*plugin, error) {
	p, err := l.newPlugin(a)
	if err != nil {
		return nil, err
	}
	p.exe = filepath.Join(p.dir, "plugin"+exeSuffix(a.Path))
	if err := privateCopy(a.Path, p.exe, a.Digest); err != nil {
		_ = os.RemoveAll(p.dir)
		return nil, &sdk.Error{Class: sdk.ClassSandbox, Code: "plugin_refused", Message: fmt.Sprintf("plugin %s: %v", a.Path, err)}
	}
	return p, nil
}

// LoadSelf starts this engine's own executable, Options.Self, as the plugin: it
// finds a.Path in its os.Args[0], and its main function must serve the plugin
// of that name. a.Digest stands for the steps and not for the executable, which
// is not copied: it is what runs already.
func (l *Loader) LoadSelf(ctx context.Context, a *loader.Artifact) (loader.Plugin, error) {
	p, err := l.newPlugin(a)
	if err != nil {
		return nil, err
	}
	p.exe = l.self
	return p.started(ctx, a.Env)
}

// newPlugin makes a plugin's private directory.
func (l *Loader) newPlugin(a *loader.Artifact) (*plugin, error) {
	dir, err := privateDir(l.o.TempDir)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("plugin %s: %v", a.Path, err)}
	}
	p := &plugin{o: l.o, path: a.Path, manifest: a.Manifest, dir: dir}
	if a.Manifest == nil || !a.Manifest.Concurrent {
		p.turn = make(chan struct{}, 1)
	}
	return p, nil
}

// started starts the first process, or closes the plugin.
func (p *plugin) started(ctx context.Context, env map[string]string) (loader.Plugin, error) {
	if _, err := p.running(ctx, env); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// dirPrefix begins the name of a plugin's private directory; the engine's pid
// and something random follow.
const dirPrefix = "engine-"

// maxSocketDir bounds the path of a plugin's private directory, where its socket
// lies: the address of a socket has 104 bytes on some systems, and go-plugin adds
// a directory "/plugin-dir" and the socket "/plugin", each with up to ten digits.
const maxSocketDir = 104 - 1 - len("/plugin-dir") - 10 - len("/plugin") - 10

// shortTemp is where a private directory goes when the path of the temporary
// directory is too long.
const shortTemp = "/tmp"

// privateDir makes a directory that only this user reads.
func privateDir(tempDir string) (string, error) {
	fresh := func(in string) (string, error) {
		sweep(in)
		return os.MkdirTemp(in, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	}
	dir, err := fresh(tempDir)
	if err != nil || len(dir) <= maxSocketDir || runtime.GOOS == "windows" {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	if dir, err = fresh(shortTemp); err != nil {
		return "", fmt.Errorf("the path of the temporary directory %s is too long for a socket, and %w; set TMPDIR to a shorter one", tempDir, err)
	}
	return dir, nil
}

// sweep removes the private directories of engines that were killed. What
// cannot be removed is somebody else's, or in use.
func sweep(tempDir string) {
	dirs, err := filepath.Glob(filepath.Join(tempDir, dirPrefix+"*-*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && n > 1 && gone(n) {
			_ = os.RemoveAll(dir)
		}
	}
}

// exeSuffix keeps ".exe", without which Windows runs nothing.
func exeSuffix(path string) string {
	if runtime.GOOS == "windows" {
		return filepath.Ext(path)
	}
	return ""
}
