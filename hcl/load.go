package hcl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
)

// Load reads a flow: one file, or all *.hcl and *.hcl.json of a directory but
// for *.test.hcl, *.vars.hcl and *.lock.hcl. It finds every mistake that can be
// found without values and without plugins. The workflow is nil only when
// nothing could be read; with errors it is good for looking at, not for
// evaluating.
func Load(path string) (*Workflow, Diagnostics) {
	files, dir, ds := readFlow(path)
	if ds.HasErrors() {
		return nil, ds
	}
	return parse(files, dir)
}

// Parse is Load for files that are in memory. Functions that read files are
// then an error, since there is no directory to read them from.
func Parse(files []File) (*Workflow, Diagnostics) { return parse(files, "") }

func readFlow(path string) ([]File, string, Diagnostics) {
	var ds Diagnostics
	fail := func(summary, format string, args ...any) ([]File, string, Diagnostics) {
		ds.report(Error, "unreadable-file", Range{File: path}, summary, format, args...)
		return nil, "", ds
	}
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fail("There is no flow", "There is no file or directory %s.", path)
		}
		return fail("Flow cannot be read", "%s.", sentence(err))
	}
	dir, names := path, []string{}
	if !info.IsDir() {
		dir = filepath.Dir(path)
		names = append(names, filepath.Base(path))
	} else if names, err = flowFiles(path); err != nil {
		return fail("Flow cannot be read", "%s.", sentence(err))
	}
	if len(names) == 0 {
		return fail("There is no flow", "The directory %s has no *.hcl file. Give a file, or write flow.hcl there.", path)
	}
	var files []File
	for _, name := range names {
		b, err := readBelow(dir, name)
		shown := path
		if info.IsDir() {
			shown = filepath.Join(path, name)
		}
		if err != nil {
			ds.report(Error, "unreadable-file", Range{File: shown}, "File cannot be read", "%s.", sentence(err))
			continue
		}
		files = append(files, File{Path: shown, Bytes: b})
	}
	return files, dir, ds
}

// flowFiles lists the files of a flow in dir, sorted.
func flowFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		if e.IsDir() || !strings.HasSuffix(name, ".hcl") || strings.HasPrefix(name, ".") {
			continue
		}
		if slices.ContainsFunc([]string{".test.hcl", ".vars.hcl", ".lock.hcl"}, func(s string) bool { return strings.HasSuffix(name, s) }) {
			continue
		}
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

func parse(files []File, dir string) (*Workflow, Diagnostics) {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	r := &reader{
		w: &Workflow{Files: files, MaxInstances: defaultInstances},
		p: &program{
			dir: dir, maxInstances: defaultInstances, scope: newScope(),
		},
	}
	r.fileSet = &fileSet{names: r.p.scope, dir: dir, paths: paths(files)}
	r.w.impl, r.p.w = r.p, r.w
	var bodies []*hclsyntax.Body
	for i := range files {
		f := &files[i]
		f.Digest = sdk.Sum(f.Bytes)
		body, ds := parseFile(f)
		r.ds = append(r.ds, ds...)
		if body != nil {
			bodies = append(bodies, body)
		}
	}
	if len(files) == 0 {
		r.ds.report(Error, "unreadable-file", Range{}, "There is no flow", "There is no file to read.")
	}
	if len(bodies) == 0 {
		return nil, r.ds.sorted()
	}
	syntax := len(r.ds)
	r.read(bodies)
	if syntax += len(r.syntax); syntax > 0 {
		// What a broken file declares is not known, so nothing that depends
		// on names would be told truly.
		return r.w, append(r.ds[:syntax-len(r.syntax):syntax-len(r.syntax)], r.syntax...).sorted()
	}
	r.joinSubflows()
	r.link()
	r.types()
	r.p.order = r.order
	return r.w, r.ds.sorted()
}

// parseFile makes the syntax tree of one file; nil when it may not be given to
// the parser.
func parseFile(f *File) (*hclsyntax.Body, Diagnostics) {
	if strings.HasSuffix(f.Path, ".json") {
		return parseJSON(f)
	}
	return parseNative(f)
}

func parseNative(f *File) (*hclsyntax.Body, Diagnostics) {
	src, start := f.Bytes, hclv2.InitialPos
	if bytes.HasPrefix(src, bom) { // some editors write one
		src = src[len(bom):]
		start.Byte = len(bom)
	}
	cuts, ds := guardFile(f.Path, src, start)
	if ds.HasErrors() {
		return nil, ds
	}
	body, wrong := parsePieces(src, f.Path, start, cuts)
	if body != nil {
		return body, nil
	}
	file, hd := hclsyntax.ParseConfig(src[:wrong], f.Path, start)
	ds = fromHCL(hd[:min(len(hd), maxListed)])
	if n := len(hd) - maxListed; n > 0 {
		ds = append(ds, moreDiagnostics(Error, n))
	}
	for i := range ds {
		explainSyntax(&ds[i], f.Bytes)
	}
	body, _ = file.Body.(*hclsyntax.Body)
	return body, unclosed(ds, f, start.Byte)
}

// unclosed says of a text or comment that goes on to the end of the file where it
// begins. HCL tells where the file ends, or what it takes the beginning for; what
// it says of the places behind is not true.
func unclosed(ds Diagnostics, f *File, skip int) Diagnostics {
	if !ds.HasErrors() {
		return ds
	}
	s := newScanner(f.Bytes[skip:], scanBody)
	s.run()
	var code, summary, detail string
	at, width := 0, len("/*")
	switch t := s.top(); {
	case t.kind == '<':
		width = bytes.IndexByte(s.b[t.at:], '\n')
		at, code, summary = t.at, "text-not-closed", "Text is not closed"
		detail = fmt.Sprintf("The text goes on to the end of the file: no line behind it consists of %s alone. Indent that line as you like, and put nothing else on it.", t.marker)
	case s.openEnded:
		at, code, summary, detail = s.comment, "comment-not-closed", "Comment is not closed", "The comment goes on to the end of the file. End it with */."
	default:
		return ds
	}
	text := newTextIndex(f.Bytes, skip)
	begin, end := text.pos(skip+at), text.pos(skip+at+width)
	ds = slices.DeleteFunc(ds, func(d Diagnostic) bool { return d.Subject.Start.Byte >= begin.Byte })
	ds.errorf(code, hclv2.Range{Filename: f.Path, Start: begin, End: end}, summary, "%s", detail)
	return ds
}

const operatorBytes = "+-*/%&|<>=!?:"

// explainSyntax says what an operator at the end or at the beginning of a line
// means, which HCL's own messages do not.
func explainSyntax(d *Diagnostic, src []byte) {
	at := d.Subject.Start.Byte
	if d.Subject.IsZero() || at > len(src) {
		return
	}
	if r, _ := utf8.DecodeRune(src[at:]); d.Code == "invalid-character" && !unicode.IsGraphic(r) {
		d.Detail += fmt.Sprintf(" It is U+%04X, which cannot be seen.", r)
	}
	before := bytes.TrimRight(src[:at], " \t\r\n")
	after := bytes.TrimLeft(src[at:], " \t")
	// Only the text between the end of the line and the mistake may be blank.
	lineBroken := bytes.ContainsAny(src[len(before):at], "\n") || len(after) == 0 || after[0] == '\n' || after[0] == '\r'
	if !lineBroken || len(before) == 0 {
		return
	}
	last := before[len(before)-1]
	atEnd := strings.IndexByte(operatorBytes, last) >= 0 && !bytes.HasSuffix(before, []byte("*/"))
	atStart := len(after) > 0 && strings.IndexByte("+*/%&|<>=!?:", after[0]) >= 0 && !bytes.HasPrefix(after, []byte("//")) && !bytes.HasPrefix(after, []byte("/*"))
	if !atEnd && !atStart {
		return
	}
	op := leadingOperator(after)
	if atEnd {
		op = before[len(bytes.TrimRight(before, operatorBytes)):]
	}
	d.Code, d.Summary = "operator-at-line-end", "Expression is broken across lines"
	d.Detail = fmt.Sprintf("An expression ends where its line ends, and %s is left without one of its sides. Put the expression in parentheses to go on in the next line.", op)
}

func leadingOperator(b []byte) []byte {
	return b[:len(b)-len(bytes.TrimLeft(b, operatorBytes))]
}

// readLimited reads a file the user named on the command line.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, readError(path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, readError(path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
	}
	return b, nil
}
