package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/hcl"
)

func newFmt(io streams) *cobra.Command {
	f := &formatter{io: io}
	c := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Lay out *.hcl files in the canonical way; prints the names of those that changed",
		Long: `Fmt changes nothing but the space within lines: comments, texts and line ends
stay, and so does what a flow means. It formats the files it is given, or all
*.hcl files in a directory, and not those in directories below; files with
mistakes in their syntax are left alone. The path - stands for stdin, whose
formatted text goes to stdout.`,
		Example: `  engine fmt
  engine fmt --check --diff flow.hcl
  engine fmt - < flow.hcl`,
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args) },
	}
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; exit 1 if something would change")
	c.Flags().BoolVar(&f.diff, "diff", false, "print what changes as a unified diff")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON to stdout, one object a line")
	return c
}

// formatter formats files one after the other.
type formatter struct {
	io          streams
	check, diff bool
	json        bool

	changed, invalid bool
}

func (f *formatter) run(args []string) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	if slices.Contains(args, "-") {
		if len(args) > 1 {
			return exit(exitUsage, "- stands for stdin and cannot be given with other paths")
		}
		if f.json {
			return exit(exitUsage, "the formatted text of stdin goes to stdout; --json is for files")
		}
		return f.stdin()
	}
	var paths []string
	for _, arg := range args {
		found, err := formattable(arg)
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	if f.json {
		writeVersion(f.io.out)
	}
	for _, path := range paths {
		if err := f.file(path); err != nil {
			return err
		}
	}
	return f.result()
}

func (f *formatter) result() error {
	switch {
	case f.invalid:
		return &exitError{code: exitInvalid}
	case f.check && f.changed:
		return &exitError{code: exitFailed}
	}
	return nil
}

// formattable lists the files that a path stands for. In a directory that is
// every kind of file that people write, and not the lock file.
func formattable(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, exit(exitInvalid, "%s: %w", path, cause(err))
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() || !strings.HasSuffix(path, ".hcl") {
			return nil, exit(exitUsage, "%s is not a *.hcl file; fmt formats those only", path)
		}
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, exit(exitInvalid, "%s: %w", path, cause(err))
	}
	var paths []string
	for _, e := range entries { // sorted by name
		name := e.Name()
		if !strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".lock.hcl") || strings.HasPrefix(name, ".") {
			continue
		}
		full := filepath.Join(path, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() {
			paths = append(paths, full)
		}
	}
	return paths, nil
}

// cause is what went wrong with a file, without the operation and the path.
func cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func (f *formatter) stdin() error {
	src, err := io.ReadAll(f.io.in)
	if err != nil {
		return exit(exitInvalid, "stdin: %w", cause(err))
	}
	out, ok := f.format("stdin", src)
	if ok && !f.check && !f.diff {
		_, _ = f.io.out.Write(out)
	}
	return f.result()
}

func (f *formatter) file(path string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return exit(exitInvalid, "%s: %w", path, cause(err))
	}
	out, ok := f.format(path, src)
	if !ok || bytes.Equal(out, src) {
		return nil
	}
	if !f.diff && !f.json {
		fmt.Fprintln(f.io.out, escape(path))
	}
	if f.check {
		return nil
	}
	if err := replaceFile(path, out); err != nil {
		return exit(exitStore, "%s: %w; the file is unchanged", path, cause(err))
	}
	return nil
}

// format lays out one text, and prints the diff if that is wanted; ok is false
// when it has mistakes, which are reported.
func (f *formatter) format(name string, src []byte) (out []byte, ok bool) {
	out, diags := hcl.Format(name, src)
	if diags.HasErrors() {
		f.invalid = true
		_ = newDiagView(f.io, f.json).report(&hcl.Workflow{Files: []hcl.File{{Path: name, Bytes: src}}}, diags) // the exit is that of all files
		return nil, false
	}
	if !bytes.Equal(out, src) {
		f.changed = true
		switch {
		case f.json:
			var diff strings.Builder
			writeDiff(&diff, name, src, out)
			writeJSON(f.io.out, formattedLine{"formatted", name, diff.String()})
		case f.diff:
			writeDiff(f.io.out, name, src, out)
		}
	}
	return out, true
}

// formattedLine is a file that fmt changes, in JSON.
type formattedLine struct {
	Type string `json:"type"` // "formatted"
	File string `json:"file"`
	Diff string `json:"diff"` // unified: how the text differs from the formatted one
}

// replaceFile writes a file beside the old one and puts it in its place: there
// is never half a file. Of a symbolic link the file it names is replaced.
func replaceFile(path string, text []byte) (err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".fmt-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// diffContext is how many equal lines a diff shows around those that differ.
const diffContext = 3

// writeDiff writes a unified diff. Formatting keeps the lines, so the n-th line
// of one text became the n-th of the other; only a last one of nothing but
// space is gone.
func writeDiff(w io.Writer, name string, before, after []byte) {
	a, b := lines(before), lines(after)
	differ := func(i int) bool { return i >= len(b) || a[i] != b[i] }
	fmt.Fprintf(w, "--- %s\n+++ %s\n", name, name)
	for i := 0; i < len(a); {
		if !differ(i) {
			i++
			continue
		}
		last := i // line that differs and belongs to this hunk
		for j := i; j < len(a) && j <= last+2*diffContext+1; j++ {
			if differ(j) {
				last = j
			}
		}
		from, to := max(0, i-diffContext), min(len(a), last+1+diffContext)
		fmt.Fprintf(w, "@@ -%d,%d +%[1]d,%[3]d @@\n", from+1, to-from, min(to, len(b))-from)
		for j := from; j < to; {
			if !differ(j) {
				writeLine(w, ' ', a[j])
				j++
				continue
			}
			run := j
			for ; j < to && differ(j); j++ {
				writeLine(w, '-', a[j])
			}
			for ; run < min(j, len(b)); run++ {
				writeLine(w, '+', b[run])
			}
		}
		i = to
	}
}

// lines are the lines of a text, each with its end.
func lines(text []byte) []string {
	out := strings.SplitAfter(string(text), "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

func writeLine(w io.Writer, sign byte, line string) {
	fmt.Fprintf(w, "%c%s", sign, line)
	if !strings.HasSuffix(line, "\n") {
		fmt.Fprint(w, "\n\\ No newline at end of file\n")
	}
}
