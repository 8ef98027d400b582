package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkBinary reports the size of the engine as it is shipped, what starting it
// costs, and for each dependency in go.mod what of the program is there for its sake
// alone: its own code and data and that of the packages that only it needs.
func BenchmarkBinary(b *testing.B) {
	dir := b.TempDir()
	shipped, named := filepath.Join(dir, "engine"), filepath.Join(dir, "named")
	run := func(name string, args ...string) []byte {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("%s %q: %v", name, args, err)
		}
		return out
	}
	run("go", "build", "-trimpath", "-ldflags=-s -w", "-o", shipped, ".") // as the Makefile does
	run("go", "build", "-o", named, ".")
	info, err := os.Stat(shipped)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		run(shipped, "version")
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
	packages, sizes := dependencies(b, run("go", "list", "-deps", "-json=ImportPath,Imports,Module", ".")), symbols(run("go", "tool", "nm", "-size", named))
	all := reachable(packages, "")
	direct := strings.Fields(string(run("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all")))
	for _, module := range direct {
		without := reachable(packages, module)
		bytes := 0
		for path := range all {
			if !without[path] {
				bytes += sizes[path]
			}
		}
		if bytes > 0 { // else it is there for tests
			b.ReportMetric(float64(bytes)/1e6, "MB-"+module)
		}
	}
}

type listedPackage struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

func dependencies(b *testing.B, list []byte) map[string]*listedPackage {
	packages := map[string]*listedPackage{}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		p := &listedPackage{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			b.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// reachable are the packages that the engine has without a module.
func reachable(packages map[string]*listedPackage, without string) map[string]bool {
	found := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		p := packages[path]
		if p == nil || found[path] || without != "" && p.Module != nil && p.Module.Path == without {
			return
		}
		found[path] = true
		for _, i := range p.Imports {
			visit(i)
		}
	}
	visit("github.com/retrace-dev/engine/cmd/engine")
	return found
}

// symbols sums what nm lists by package.
func symbols(nm []byte) map[string]int {
	sizes := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(nm)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[2] == "B" || f[2] == "b" { // what is zero is not in the file
			continue
		}
		size, err := strconv.Atoi(f[1])
		if err != nil {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(f[3], "type:"), "*")
		slash := strings.LastIndexByte(strings.SplitN(strings.SplitN(name, "[", 2)[0], "(", 2)[0], '/')
		if dot := strings.IndexByte(name[slash+1:], '.'); dot > 0 {
			sizes[strings.ReplaceAll(name[:slash+1+dot], "%2e", ".")] += size
		}
	}
	return sizes
}
