package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/retrace-dev/engine/sdk"
)

// maxSet bounds the file of a --set: what a step's output may have.
const maxSet = 16 << 20

// readSet reads the values of --set.
func readSet(args []string) (map[string]json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	set := make(map[string]json.RawMessage, len(args))
	for _, arg := range args {
		step, value, ok := cutSet(arg)
		if !ok {
			return nil, exit(exitUsage, "--set %s: write step.NAME=@file.json or step.NAME=JSON", arg)
		}
		if _, twice := set[step]; twice {
			return nil, exit(exitUsage, "--set gives the output of %s twice", step)
		}
		text, source := []byte(value), "its value"
		if path, isFile := strings.CutPrefix(value, "@"); isFile {
			var err error
			if text, err = readBounded(path, maxSet); err != nil {
				return nil, exit(exitUsage, "--set %s: %w", step, err)
			}
			source = path
		}
		if err := sdk.CheckJSON(text); err != nil {
			return nil, exit(exitInvalid, "--set %s: %s is not JSON: %w", step, source, err)
		}
		set[step] = text
	}
	return set, nil
}

// cutSet cuts at the "=" behind the address, whose key may hold one too.
func cutSet(arg string) (step, value string, ok bool) {
	equals, open := strings.IndexByte(arg, '='), strings.Index(arg, `["`)
	if open < 0 || equals < open {
		return strings.Cut(arg, "=")
	}
	var key string
	d := json.NewDecoder(strings.NewReader(arg[open+1:]))
	if d.Decode(&key) != nil {
		return "", "", false
	}
	end := open + 1 + int(d.InputOffset())
	inside, value, ok := strings.Cut(arg[end:], "=") // of a sub-workflow, one of its steps
	return arg[:end] + inside, value, ok
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %s", path, formatSize(limit))
	}
	return b, err
}

// confirm asks before steps with effects that the command does not name are repeated.
// Without a terminal only --yes says so.
func confirm(std streams, l *loaded, yes bool) error {
	steps, err := l.flow.Repeats(l.options)
	if err != nil || len(steps) == 0 || yes {
		return err
	}
	what := fmt.Sprintf("this runs again what changes the world: %s", strings.Join(steps, ", "))
	in, isFile := std.in.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return exit(exitUsage, "%s; add --yes if that is meant", what)
	}
	fmt.Fprintf(std.err, "%s\nGo on? [y/N] ", what)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return exit(exitCancel, "nothing was run")
	}
	return nil
}
