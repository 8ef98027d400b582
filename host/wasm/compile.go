package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/retrace-dev/engine/sdk"
)

// What Compile leaves in its directory.
const (
	fileModule = "module.wasm" // the rewritten module
	fileFacts  = "facts.json"
	dirNative  = "native" // wazero's
)

// facts are what the pre-scan knows of a module and its attempts need.
type facts struct {
	Command bool  `json:"command"`
	WASI    bool  `json:"wasi"`
	Memory  int64 `json:"memory"` // bytes it begins with
}

func (m *module) facts() facts {
	_, command := m.exports["_start"]
	return facts{Command: command, WASI: m.isWASI, Memory: int64(m.memMin) * memoryPage}
}

// Compile checks a module, rewrites it, compiles it, and leaves in dir what is
// needed to run it. It is what happens in a compile worker (loader.Workers), as
// a module can make it take much time and memory. An *sdk.Error says that the
// result could not be written; any other error is the reason to refuse the
// module.
func Compile(b []byte, dir string) error { return compileTo(context.Background(), b, dir) }

func compileTo(ctx context.Context, b []byte, dir string) (err error) {
	defer func() {
		var file *fs.PathError
		var link *os.LinkError
		if errors.As(err, &file) || errors.As(err, &link) {
			err = unwritten(err)
		}
	}()
	m, err := parseModule(b)
	if err != nil {
		return err
	}
	code, err := m.prepare(ctx)
	if err != nil {
		return err
	}
	known, err := json.Marshal(m.facts())
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{fileModule: code, fileFacts: known} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	p, err := compileIn(ctx, code, m.facts(), filepath.Join(dir, dirNative))
	if err != nil {
		return err
	}
	p.close()
	return nil
}

// compileIn compiles with wazero's files in native: it takes what is there and
// adds what is not.
func compileIn(ctx context.Context, code []byte, f facts, native string) (*program, error) {
	files, err := filesIn(native)
	if err != nil {
		return nil, err
	}
	p, err := compile(ctx, code, f, files)
	if err != nil {
		return nil, errors.Join(err, files.Close(context.WithoutCancel(ctx)))
	}
	p.files = files
	return p, nil
}

// filesIn gives wazero's files in a directory, one call at a time: wazero 1.12
// keeps its own version in a variable that its first callers write unguarded.
func filesIn(native string) (wazero.CompilationCache, error) {
	filesMu.Lock()
	defer filesMu.Unlock()
	return wazero.NewCompilationCacheWithDir(native)
}

var filesMu sync.Mutex

// readFacts reads the facts of an entry.
func (e entry) readFacts() (f facts, err error) {
	b, err := os.ReadFile(filepath.Join(e.dir, fileFacts))
	if err == nil {
		err = sdk.Unmarshal(b, &f)
	}
	return f, err
}

// load makes the program of an entry.
func (e entry) load(ctx context.Context, f facts) (*program, error) {
	code, err := os.ReadFile(filepath.Join(e.dir, fileModule))
	if err != nil {
		return nil, err
	}
	native := filepath.Join(e.dir, dirNative)
	if !compiledIn(native) {
		return nil, errors.New("it holds no compiled code")
	}
	return compileIn(ctx, code, f, native)
}

// compiledIn reports whether native holds what this build of wazero compiled;
// without it wazero would compile.
func compiledIn(native string) bool {
	files, err := os.ReadDir(filepath.Join(native, fmt.Sprintf("wazero-%s-%s-%s", wazeroVersion(), runtime.GOARCH, runtime.GOOS)))
	return err == nil && len(files) == 1
}

// codeUnwritten is the code of an error (ClassInternal) of the file system.
const codeUnwritten = "compiled_module"

func unwritten(err error) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInternal, Code: codeUnwritten, Message: fmt.Sprintf("the compiled module cannot be written: %v", err)}
}

// refusal says that the module may not be used for a reason of its own.
func refusal(path string, err error) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassSandbox, Code: "module_refused", Message: fmt.Sprintf("module %s: %v", path, err)}
}
