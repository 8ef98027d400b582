package hcl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

const maxFileset = 10_000

// files reads what lies in the flow's directory, each file once, so that a
// file that changes during a run does not change the run. It is safe for
// concurrent use.
type files struct {
	dir, base string // base: the directory from the workflow's, as in scope

	mu        sync.Mutex
	read      map[string]fileResult
	sets      map[string]setResult
	templates map[string]*templateResult
}

type fileResult struct {
	b   []byte
	err error
}

type setResult struct {
	names []string
	err   error
}

type templateResult struct {
	node hclsyntax.Expression
	vars []string
	hd   hclv2.Diagnostics
}

func pathFunc(result cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(result),
	})
}

var filesetFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "pattern", Type: cty.String}},
	Type:   function.StaticReturnType(cty.Set(cty.String)),
})

var templateFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowDynamicType: true}},
	Type:   function.StaticReturnType(cty.String),
})

// fileCall is file, fileblob, fileexists, filesha256 and fileset.
func fileCall(f *frame, e *callExpr, args []cty.Value) (cty.Value, error) {
	ty, err := e.fn.impl.ReturnTypeForValues(args)
	if err != nil {
		return cty.NilVal, err
	}
	if ok, err := f.pathKnown(args...); !ok {
		return cty.UnknownVal(ty), err
	}
	name := args[0].AsString()
	if e.Name == "fileset" {
		names, err := f.e.filesOf(e.base).set(name, args[1].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		f.saw("fileset("+e.shown(args[0])+", "+preview(args[1])+")", []byte(strings.Join(names, "\x00")))
		if len(names) == 0 {
			return cty.SetValEmpty(cty.String), nil
		}
		vals := make([]cty.Value, len(names))
		for i, n := range names {
			vals[i] = cty.StringVal(n)
		}
		return cty.SetVal(vals), nil
	}
	b, err := f.e.filesOf(e.base).get(name)
	call := e.Name + "(" + e.shown(args[0]) + ")"
	if e.Name == "fileexists" {
		exists := err == nil
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cty.NilVal, function.NewArgError(0, err)
		}
		f.saw(call, fmt.Append(nil, exists))
		return cty.BoolVal(exists), nil
	}
	if err != nil {
		return cty.NilVal, function.NewArgError(0, err)
	}
	f.saw(call, b)
	switch e.Name {
	case "fileblob":
		return f.e.fileBlob(b), nil
	case "filesha256":
		return cty.StringVal(strings.TrimPrefix(sdk.Sum(b).String(), "sha256:")), nil
	}
	if !utf8.Valid(b) {
		return cty.NilVal, function.NewArgErrorf(0, "%s is not UTF-8 text; give it to a step with fileblob(%q)", name, name)
	}
	return cty.StringVal(string(b)), nil
}

func (f *frame) saw(call string, b []byte) {
	f.reads = append(f.reads, read{call, sdk.Sum(b)})
}

// pathKnown reports whether a file can be read now. What a step reads is part
// of its identity, which is made before anything has run.
func (f *frame) pathKnown(args ...cty.Value) (bool, error) {
	for _, a := range args {
		if a.IsKnown() {
			continue
		}
		if f.mode == planning {
			f.pathUnknown = true
			return false, function.NewArgErrorf(0, "which file is read must be known before the run, so the path cannot follow from the output of a step; read the file in a step instead")
		}
		return false, nil
	}
	return true, nil
}

// clean turns a path of the flow into one for os.Root, or says why not.
func (fl *files) clean(name string) (string, error) {
	slashed := strings.ReplaceAll(name, `\`, "/")
	switch {
	case fl.dir == "":
		return "", errors.New("the flow was not read from a directory, so it can read no files")
	case name == "":
		return "", errors.New("the path is empty")
	case strings.ContainsRune(name, 0):
		return "", errors.New("the path has a zero byte")
	case path.IsAbs(slashed) || len(slashed) > 1 && slashed[1] == ':':
		return "", fmt.Errorf("%s is an absolute path; paths are relative to the flow's directory", name)
	case slices.Contains(strings.Split(slashed, "/"), ".."):
		return "", fmt.Errorf("%s leaves the flow's directory; put the file below it", name)
	}
	return path.Clean(name), nil
}

func (fl *files) get(name string) ([]byte, error) {
	clean, err := fl.clean(name)
	if err != nil {
		return nil, err
	}
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if r, ok := fl.read[clean]; ok {
		return r.b, r.err
	}
	b, err := readBelow(fl.dir, clean)
	if fl.read == nil {
		fl.read = map[string]fileResult{}
	}
	fl.read[clean] = fileResult{b, err}
	return b, err
}

// readBelow reads a regular file below dir. A symbolic link may point to
// another place below dir, not out of it.
func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Opening a FIFO would block, so what it is comes first.
	info, err := root.Stat(name)
	if err != nil {
		return nil, readError(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, not a regular file", name, modeName(info.Mode()))
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, readError(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, readError(name, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB; let a step read it", name, maxFile>>20)
	}
	return b, nil
}

// pathError is an operating system's error without its operation, so that the
// message says what is wrong with which file and no more.
type pathError struct {
	name string
	err  error
}

func (e *pathError) Error() string {
	if errors.Is(e.err, fs.ErrNotExist) {
		return fmt.Sprintf("there is no file %s below the flow's directory", e.name)
	}
	return fmt.Sprintf("%s: %s", e.name, e.err)
}

func (e *pathError) Unwrap() error { return e.err }

func readError(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &pathError{name, err}
}

func modeName(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// set lists the regular files below name that match pattern, sorted, as paths
// relative to name. ** stands for any number of directories.
func (fl *files) set(name, pattern string) ([]string, error) {
	clean, err := fl.clean(name)
	if err != nil {
		return nil, function.NewArgError(0, err)
	}
	if _, err := path.Match(strings.ReplaceAll(pattern, "**", "*"), ""); err != nil || pattern == "" {
		return nil, function.NewArgErrorf(1, "%q is not a pattern such as \"*.txt\" or \"prompts/**/*.md\"", pattern)
	}
	fl.mu.Lock()
	defer fl.mu.Unlock()
	key := clean + "\x00" + pattern
	if r, ok := fl.sets[key]; ok {
		return r.names, r.err
	}
	names, err := listBelow(fl.dir, clean, strings.Split(pattern, "/"))
	if fl.sets == nil {
		fl.sets = map[string]setResult{}
	}
	fl.sets[key] = setResult{names, err}
	return names, err
}

func listBelow(dir, name string, pattern []string) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var names []string
	visited := 0
	err = fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return readError(p, err)
		}
		if visited++; visited > 10*maxFileset {
			return fmt.Errorf("there are more than %d files below %s", 10*maxFileset, name)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(p, name), "/")
		if name == "." {
			rel = p
		}
		if matchPath(pattern, strings.Split(rel, "/")) {
			if names = append(names, rel); len(names) > maxFileset {
				return fmt.Errorf("more than %d files match", maxFileset)
			}
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// matchPath matches element by element; ** stands for any number of them.
func matchPath(pattern, name []string) bool {
	// possible[j] says that the pattern so far matches the first j elements.
	possible := make([]bool, len(name)+1)
	possible[0] = true
	for _, p := range pattern {
		next := make([]bool, len(name)+1)
		for j := range possible {
			if p == "**" {
				next[j] = possible[j] || j > 0 && next[j-1]
			} else if j > 0 && possible[j-1] {
				next[j], _ = path.Match(p, name[j-1])
			}
		}
		possible = next
	}
	return possible[len(name)]
}

// template is templatefile: the file's text with the attributes of vars in
// place of its references.
func (f *frame) template(e *callExpr, ctx *hclv2.EvalContext, args []cty.Value) (cty.Value, error) {
	if ok, err := f.pathKnown(args[0]); !ok {
		return cty.UnknownVal(cty.String), err
	}
	name := args[0].AsString()
	b, err := f.e.filesOf(e.base).get(name)
	if err != nil {
		return cty.NilVal, function.NewArgError(0, err)
	}
	f.saw("file("+e.shown(args[0])+")", b)
	t := f.e.filesOf(e.base).template(name, b)
	if t.hd.HasErrors() {
		return cty.NilVal, diagError{t.hd}
	}
	vars := args[1]
	switch ty := vars.Type(); {
	case ty == cty.DynamicPseudoType, ty.IsMapType() && !vars.IsKnown():
		return cty.UnknownVal(cty.String), nil
	case !ty.IsObjectType() && !ty.IsMapType():
		return cty.NilVal, function.NewArgErrorf(1, "an object is required, this is %s", describe(vars))
	}
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{}
	if vars.IsKnown() {
		for it := vars.ElementIterator(); it.Next(); {
			k, v := it.Element()
			child.Variables[k.AsString()] = v
		}
	} else {
		for k, ty := range vars.Type().AttributeTypes() {
			child.Variables[k] = cty.UnknownVal(ty)
		}
	}
	for _, v := range t.vars {
		if _, ok := child.Variables[v]; !ok {
			given := attributeNames(vars)
			return cty.NilVal, function.NewArgErrorf(1, "%s uses %q, which is not among the given %s.%s", name, v, listOf(given), DidYouMean(v, given))
		}
	}
	if f.depth++; f.depth > 16 {
		return cty.NilVal, function.NewArgErrorf(0, "templates include each other more than 16 levels deep")
	}
	v, hd := t.node.Value(child)
	f.depth--
	if hd.HasErrors() {
		return cty.NilVal, diagError{hd}
	}
	if !v.IsKnown() {
		return cty.UnknownVal(cty.String), nil
	}
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return cty.NilVal, fmt.Errorf("the template gives %s, not a text", describe(v))
	}
	return stringOf(v), nil
}

func (fl *files) template(name string, b []byte) *templateResult {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if t, ok := fl.templates[name]; ok {
		return t
	}
	if fl.templates == nil {
		fl.templates = map[string]*templateResult{}
	}
	t := &templateResult{}
	fl.templates[name] = t
	at := hclv2.Range{Filename: name, Start: hclv2.InitialPos, End: hclv2.InitialPos}
	var ds Diagnostics
	if i := invalidUTF8(b); i >= 0 {
		ds.errorf("invalid-utf8", at, "File is not UTF-8 text", "Byte %d is %#02x, which UTF-8 does not allow there.", i, b[i])
	} else if ds = guardTemplate(name, b, hclv2.InitialPos); !ds.HasErrors() {
		node, hd := hclsyntax.ParseTemplate(b, name, hclv2.InitialPos)
		if hd.HasErrors() {
			t.hd = hd
			return t
		}
		x := (&program{scope: &scope{base: fl.base}}).compileTemplate(&ds, node)
		t.node, t.vars = x.node, x.free
	}
	for _, d := range ds {
		t.hd = append(t.hd, evalDiag(d.Code, nil, nil, hclRange(d.Subject), d.Summary, "%s", d.Detail)...)
	}
	return t
}
