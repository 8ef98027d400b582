package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/sdk/assemblyscript"
	"github.com/retrace-dev/engine/sdk/c"
	"github.com/retrace-dev/engine/sdk/examples"
	"github.com/retrace-dev/engine/sdk/rust"
	"github.com/retrace-dev/engine/sdk/wire"
)

// project is what a scaffold is made for.
type project struct {
	dir  string
	name string // the folder's
	kind string // command, reactor or native
	sdk  string // where the engine's source is, for Go; "" is the released one
}

// language is a scaffold: the example of an SDK, under another name.
type language struct {
	kinds []string // the first is the default
	files func(p project) (map[string]string, error)
}

var languages = map[string]language{
	"go":             {[]string{"command", "native"}, goFiles},
	"c":              {[]string{"reactor", "command"}, cFiles},
	"rust":           {[]string{"reactor", "command"}, rustFiles},
	"assemblyscript": {[]string{"reactor"}, assemblyscriptFiles},
	"python":         {[]string{"native"}, pythonFiles},
}

// createdLine is what new made.
type createdLine struct {
	Type  string   `json:"type"` // "created"
	Dir   string   `json:"dir"`
	Kind  string   `json:"kind"`
	Files []string `json:"files"`
}

func newPluginNew(io streams) *cobra.Command {
	var p project
	var asJSON bool
	names := slices.Sorted(maps.Keys(languages))
	cmd := &cobra.Command{
		Use:   "new LANG DIR",
		Short: "Make a project of a small step that builds, passes its tests and runs in a flow",
		Long: `LANG is ` + strings.Join(names, ", ") + `. The project is the folder DIR,
which must not exist or be empty, and is named after it: the source of a step,
its manifest step.json, a build script that finds the compiler you have, cases
for engine plugin test, and a flow that uses the step. SDKs other than Go's are
copied into it.

Kinds: a command reads stdin and writes stdout, a reactor is a function that is
called; both are sandboxed modules. A native plugin is a process with the rights
of the engine.`,
		Example: `  engine plugin new c words
  engine plugin new rust words --kind command
  engine plugin new go words --kind native`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			p.dir, p.name = args[1], filepath.Base(args[1])
			line, err := createProject(args[0], p)
			if err != nil {
				return err
			}
			if asJSON {
				writeVersion(io.out)
				writeJSON(io.out, line)
				return nil
			}
			for _, f := range line.Files {
				fmt.Fprintln(io.out, escape(filepath.Join(line.Dir, f)))
			}
			fmt.Fprintf(io.err, "\nnext:\n  cd %s\n  sh build.sh\n  engine plugin test %s cases/*.json\n  engine apply\n", escape(line.Dir), artifact(p.name, line.Kind))
			return nil
		},
	}
	cmd.Flags().StringVar(&p.kind, "kind", "", "`command`, reactor or native; default what suits the language")
	cmd.Flags().StringVar(&p.sdk, "sdk", "", "for go: a `directory` with the engine's source to build with, in place of the released module")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return cmd
}

// artifact is the file that a project builds.
func artifact(name, kind string) string {
	if kind == "native" {
		return name
	}
	return name + ".wasm"
}

var projectName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// calledLike is a name that a plugin may have, as near to name as it can be.
func calledLike(name string) string {
	like := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, strings.ToLower(name))
	if like = strings.TrimLeft(like, "_0123456789"); like == "" {
		return "my_step"
	}
	return like[:min(len(like), 63)]
}

func createProject(lang string, p project) (*createdLine, error) {
	l, ok := languages[lang]
	switch {
	case !ok:
		return nil, exit(exitUsage, "no scaffold for %q; there is %s", lang, strings.Join(slices.Sorted(maps.Keys(languages)), ", "))
	case !projectName.MatchString(p.name):
		return nil, exit(exitUsage, "a plugin cannot be called %q: want a lower-case letter, then up to 63 of a-z, 0-9, _, as in %q", p.name, calledLike(p.name))
	case p.kind == "":
		p.kind = l.kinds[0]
	case !slices.Contains(l.kinds, p.kind):
		return nil, exit(exitUsage, "%s has no scaffold of kind %q; it has %s", lang, p.kind, strings.Join(l.kinds, ", "))
	}
	if p.sdk != "" && lang != "go" {
		return nil, exit(exitUsage, "--sdk is for go; the SDK of %s is copied into the project", lang)
	}
	files, err := l.files(p)
	if err != nil {
		return nil, exit(exitInternal, "%w", err)
	}
	common(p, files)
	line := &createdLine{"created", p.dir, p.kind, slices.Sorted(maps.Keys(files))}
	return line, writeProject(p.dir, files)
}

// writeProject writes files to a folder that has none.
func writeProject(dir string, files map[string]string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return exit(exitUsage, "%s is there already; choose another name or remove it", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit(exitUsage, "%s: %w", dir, cause(err))
	}
	for name, text := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = os.WriteFile(to, []byte(text), mode)
		}
		if err != nil {
			return exit(exitStore, "%s: %w", to, cause(err))
		}
	}
	return nil
}

// common adds what a project has in every language.
func common(p project, files map[string]string) {
	files["flow.hcl"] = fmt.Sprintf(`workflow "%[1]s_demo" {}

plugin "%[1]s" { source = "./%[2]s" }

step "count" {
  uses  = plugin.%[1]s.count
  input = { text = "to be or not to be", least = 2 }
}

output "words" { value = step.count.output.words }
`, p.name, artifact(p.name, p.kind))
	files["cases/least.json"] = `{
  "request": {"step_type": "count", "input": {"text": "to be or not to be", "least": 2}},
  "response": {"output": {"total": 6, "words": [{"word": "to", "count": 2}, {"word": "be", "count": 2}]}}
}
`
	files["cases/no_text.json"] = `{
  "request": {"step_type": "count", "input": {}},
  "response": {"error": {"class": "invalid_input", "path": "/text"}}
}
`
	ignored := []string{"/" + artifact(p.name, p.kind), "/.engine/", "/node_modules/", "/target/"}
	if p.kind == "native" {
		ignored = append(ignored, "/"+p.name+".step.json")
	}
	files[".gitignore"] = strings.Join(ignored, "\n") + "\n"
}

// take reads the files of a tree whose names begin with from, and names them
// anew: what follows from comes after to.
func take(tree fs.FS, from, to string, files map[string]string) error {
	return fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasPrefix(name, from) {
			return err
		}
		b, err := fs.ReadFile(tree, name)
		files[path.Join(to, strings.TrimPrefix(name, from))] = string(b)
		return err
	})
}

// edit replaces a text that must be there once in a file.
func edit(files map[string]string, name, old, text string) error {
	if strings.Count(files[name], old) != 1 {
		return fmt.Errorf("the scaffold's %s has not one %q", name, old)
	}
	files[name] = strings.Replace(files[name], old, text, 1)
	return nil
}

// rename puts the project's name and kind in place of the example's.
func rename(p project, files map[string]string, kind string) error {
	err := errors.Join(
		edit(files, "step.json", `"name": "words"`, `"name": "`+p.name+`"`),
		edit(files, "build.sh", "\nname=words\n", "\nname="+p.name+"\n"))
	if kind != "" {
		err = errors.Join(err, edit(files, "build.sh", "\nkind="+kind+"\n", "\nkind="+p.kind+"\n"))
	}
	return err
}

func move(files map[string]string, from, to string) {
	text := files[from]
	delete(files, from)
	files[to] = text
}

func cFiles(p project) (map[string]string, error) {
	files := map[string]string{}
	err := errors.Join(take(c.Files, "engine_step.h", "engine_step.h", files), take(c.Files, "example/", "", files), rename(p, files, "reactor"))
	move(files, "words.c", p.name+".c")
	return files, err
}

func rustFiles(p project) (map[string]string, error) {
	files := map[string]string{}
	err := errors.Join(
		take(rust.Files, "src/", "engine_step/src", files), take(rust.Files, "Cargo.toml", "engine_step/Cargo.toml", files),
		take(rust.Files, "example/", "", files), rename(p, files, ""),
		edit(files, "Cargo.toml", `name = "words"`, `name = "`+p.name+`"`))
	if p.kind == "command" {
		err = errors.Join(err,
			edit(files, "Cargo.toml", "[lib]\ncrate-type = [\"cdylib\"]\n\n", ""),
			edit(files, "src/lib.rs", "engine_step::reactor!(run);\n", "\nfn main() {\n    engine_step::command(run)\n}\n"))
		move(files, "src/lib.rs", "src/main.rs")
	}
	return files, err
}

func assemblyscriptFiles(p project) (map[string]string, error) {
	files := map[string]string{}
	err := errors.Join(take(assemblyscript.Files, "engine_step.ts", "engine_step.ts", files), take(assemblyscript.Files, "example/", "", files), rename(p, files, ""),
		edit(files, "package.json", `"name": "words"`, `"name": "`+p.name+`"`))
	move(files, "words.ts", p.name+".ts")
	return files, err
}

func pythonFiles(p project) (map[string]string, error) {
	files := map[string]string{"step.proto": wire.Proto}
	return files, errors.Join(take(examples.Files, "python/", "", files), rename(p, files, ""))
}

func goFiles(p project) (map[string]string, error) {
	files := map[string]string{}
	err := errors.Join(take(examples.Files, "go/", "", files), rename(p, files, "command"))
	files["go.mod"] = fmt.Sprintf("module %s\n\ngo 1.26\n", p.name)
	if p.sdk != "" {
		abs, absErr := filepath.Abs(p.sdk)
		err = errors.Join(err, absErr)
		files["go.mod"] += fmt.Sprintf("\nrequire github.com/retrace-dev/engine v0.0.0\n\nreplace github.com/retrace-dev/engine => %q\n", abs)
	}
	return files, err
}
