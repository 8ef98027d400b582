package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

func newDiff(io streams) *cobra.Command {
	var state place
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff RUN RUN",
		Short: "Compare two runs: the flow's text, variables, inputs, answers and cost of each step",
		Long: `Shows what differs between two runs: the text of the flow (prompts), variables,
and of each step its state, input, answer and cost. Inputs are compared by their
digests and shown by how they begin. Of records that were collected the answers
are not known any more.`,
		Example: `  engine diff r_ab12 latest
  engine diff r_ab12 r_cd34 --json | jq 'select(.type=="step" and .answer_changed)'`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			dir := stateDir(state, ".")
			var sides [2]*side
			for i, id := range args {
				s, err := findStory(dir, id)
				if err != nil {
					return err
				}
				sides[i] = newSide(s)
			}
			store, err := recordsOf(io, dir, "runs cannot be compared")
			if err != nil {
				return err
			}
			defer store.Close()
			for _, s := range sides {
				if err := s.read(c.Context(), store); err != nil {
					return err
				}
			}
			d, err := compareRuns(c.Context(), store, sides[0], sides[1])
			if err != nil {
				return err
			}
			if asJSON {
				d.writeJSON(io.out)
			} else {
				d.write(io.out)
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// side is one of the two runs.
type side struct {
	story  *story
	record *checkpoint.RunRecord // nil: not in the store
	order  []string
	steps  map[string]*sideStep
}

// sideStep is what a step came to in one run.
type sideStep struct {
	State      string          `json:"state"`
	Checkpoint checkpoint.ID   `json:"checkpoint,omitempty"`
	Input      sdk.Digest      `json:"input,omitzero"`
	InputHead  string          `json:"input_head,omitempty"`
	Output     sdk.Digest      `json:"output,omitzero"`
	Answer     string          `json:"answer,omitempty"` // how it begins
	Attempts   int             `json:"attempts"`
	Took       time.Duration   `json:"took_ns"` // what it cost in this run; nothing if it was reused
	Tokens     int64           `json:"tokens"`
	Cost       checkpoint.Cost `json:"cost,omitzero"`
	Error      *sdk.Error      `json:"error,omitempty"`
	seq        checkpoint.Seq
	inputs     []checkpoint.AttributeDigest
}

func newSide(s *story) *side {
	x := &side{story: s, steps: map[string]*sideStep{}}
	for _, st := range s.steps() {
		one := &sideStep{State: st.stateIn(s), Checkpoint: st.Checkpoint, Error: st.Error}
		for _, a := range st.Attempts {
			one.Attempts++
			one.Took += a.Took
			for _, u := range a.Usage {
				one.Tokens += u.InputTokens + u.OutputTokens
			}
			one.Cost = one.Cost.Plus(a.Cost)
			one.Error = a.Error
		}
		x.steps[st.Step] = one
		x.order = append(x.order, st.Step)
	}
	for i := range s.Events {
		if e := &s.Events[i]; e.Seq > 0 && (e.Type == host.EventSucceeded || e.Type == host.EventReused) {
			x.steps[e.Step].seq = e.Seq
		}
	}
	return x
}

// maxAnswer is how much of an answer is shown.
const maxAnswer = 512

// read takes in what the store knows of the run.
func (x *side) read(ctx context.Context, store checkpoint.Store) (err error) {
	x.record, err = store.Run(ctx, tenant, x.story.ID)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return exit(exitStore, "%w", err)
	}
	for _, st := range x.steps {
		if st.seq == 0 {
			continue
		}
		r, err := store.Record(ctx, tenant, st.seq)
		if errors.Is(err, checkpoint.ErrNotFound) {
			continue // collected
		}
		if err != nil {
			return exit(exitStore, "%w", err)
		}
		st.Input, st.InputHead, st.Output, st.inputs = r.Context.Input, r.Context.InputHead, r.Output, r.Context.Inputs
		if r.Outcome != checkpoint.Succeeded || !r.HasData() {
			continue
		}
		data, err := store.Data(ctx, tenant, r.Data)
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, checkpoint.ErrCorrupt) {
			return exit(exitStore, "%w", err)
		}
		st.Answer = head(string(data), maxAnswer)
	}
	return nil
}

// head is the beginning of a text, cut between characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// runDiff is how two runs differ.
type runDiff struct {
	a, b      *side
	files     []fileDiff
	variables []variableDiff
	steps     []stepDiff
}

type fileDiff struct {
	Type string `json:"type"` // "file"
	Path string `json:"path"`
	Diff string `json:"diff,omitempty"` // unified; "" if a text is not kept
	Note string `json:"note,omitempty"`
}

type variableDiff struct {
	Type string          `json:"type"` // "variable"
	Name string          `json:"name"`
	A    json.RawMessage `json:"a,omitempty"`
	B    json.RawMessage `json:"b,omitempty"`
}

type stepDiff struct {
	Type          string    `json:"type"` // "step"
	Step          string    `json:"step"`
	Same          bool      `json:"same"` // state, input and answer
	StateChanged  bool      `json:"state_changed"`
	InputChanged  bool      `json:"input_changed"`
	AnswerChanged bool      `json:"answer_changed"`
	Attributes    []string  `json:"attributes_changed,omitempty"` // of the input, by name
	A             *sideStep `json:"a,omitempty"`                  // absent: the run does not have the step
	B             *sideStep `json:"b,omitempty"`
}

func compareRuns(ctx context.Context, store checkpoint.Store, a, b *side) (*runDiff, error) {
	d := &runDiff{a: a, b: b}
	if a.record != nil && b.record != nil {
		if err := d.compareFiles(ctx, store); err != nil {
			return nil, err
		}
		d.compareVariables()
	}
	names := slices.Clone(a.order)
	for _, name := range b.order {
		if a.steps[name] == nil {
			names = append(names, name)
		}
	}
	inOrder(names)
	for _, name := range names {
		s := stepDiff{Type: "step", Step: name, A: a.steps[name], B: b.steps[name]}
		if s.A != nil && s.B != nil {
			s.StateChanged = succeeded(s.A) != succeeded(s.B) || !succeeded(s.A) && s.A.State != s.B.State
			s.InputChanged = s.A.Input != s.B.Input
			if s.InputChanged {
				s.Attributes = changedAttributes(s.A.inputs, s.B.inputs)
			}
			s.AnswerChanged = s.A.Output != s.B.Output
			s.Same = !s.StateChanged && !s.InputChanged && !s.AnswerChanged
		}
		d.steps = append(d.steps, s)
	}
	return d, nil
}

// changedAttributes names the attributes of an input whose values differ, or that
// one of the two lacks.
func changedAttributes(a, b []checkpoint.AttributeDigest) (names []string) {
	was := map[string]string{}
	for _, x := range a {
		was[x.Name] = x.Value
	}
	for _, x := range b {
		if was[x.Name] != x.Value {
			names = append(names, x.Name)
		}
		delete(was, x.Name)
	}
	for name := range was {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func succeeded(s *sideStep) bool { return s.State == "succeeded" || s.State == "reused" }

// compareFiles compares the texts of the flow, file by file.
func (d *runDiff) compareFiles(ctx context.Context, store checkpoint.Store) error {
	digests := func(r *checkpoint.RunRecord) map[string]sdk.Digest {
		m := map[string]sdk.Digest{}
		for _, f := range r.Files {
			m[f.Path] = f.Digest
		}
		return m
	}
	was, is := digests(d.a.record), digests(d.b.record)
	var paths []string
	for _, r := range []*checkpoint.RunRecord{d.a.record, d.b.record} {
		for _, f := range r.Files {
			if !slices.Contains(paths, f.Path) {
				paths = append(paths, f.Path)
			}
		}
	}
	for _, path := range paths {
		if was[path] == is[path] {
			continue
		}
		f := fileDiff{Type: "file", Path: path}
		var texts [2][]byte
		for i, digest := range []sdk.Digest{was[path], is[path]} {
			if digest.IsZero() {
				continue
			}
			text, err := store.File(ctx, tenant, digest)
			switch {
			case errors.Is(err, checkpoint.ErrNotFound), errors.Is(err, checkpoint.ErrCorrupt):
				f.Note = "its text is not kept"
			case err != nil:
				return exit(exitStore, "%w", err)
			}
			texts[i] = text
		}
		if f.Note == "" {
			f.Diff = string(diff.Diff(string(d.a.story.ID), texts[0], string(d.b.story.ID), texts[1]))
		}
		d.files = append(d.files, f)
	}
	return nil
}

func (d *runDiff) compareVariables() {
	was, is := d.a.record.Values, d.b.record.Values
	var names []string
	for name := range was {
		names = append(names, name)
	}
	for name := range is {
		if _, both := was[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if !bytes.Equal(was[name], is[name]) {
			d.variables = append(d.variables, variableDiff{"variable", name, was[name], is[name]})
		}
	}
}

// cost is what the steps of a run took in it.
func (x *side) cost() (took time.Duration, tokens int64, cost checkpoint.Cost) {
	for _, name := range x.order {
		st := x.steps[name]
		took += st.Took
		tokens += st.Tokens
		cost = cost.Plus(st.Cost)
	}
	return took, tokens, cost
}

func (d *runDiff) same() (n int) {
	for i := range d.steps {
		if d.steps[i].Same {
			n++
		}
	}
	return n
}

func (d *runDiff) writeJSON(w io.Writer) {
	type run struct {
		Run      checkpoint.RunID     `json:"run"`
		Workflow string               `json:"workflow"`
		Status   checkpoint.RunStatus `json:"status"`
		Started  time.Time            `json:"started"`
		Took     time.Duration        `json:"took_ns"`
		Tokens   int64                `json:"tokens"`
		Cost     checkpoint.Cost      `json:"cost,omitzero"`
	}
	sum := func(x *side) run {
		took, tokens, cost := x.cost()
		return run{x.story.ID, x.story.Workflow, x.story.Status, x.story.Started, took, tokens, cost}
	}
	writeVersion(w)
	for _, f := range d.files {
		writeJSON(w, f)
	}
	for _, v := range d.variables {
		writeJSON(w, v)
	}
	for _, s := range d.steps {
		writeJSON(w, s)
	}
	writeJSON(w, struct {
		Type  string `json:"type"` // "diff"
		A     run    `json:"a"`
		B     run    `json:"b"`
		Steps int    `json:"steps"`
		Same  int    `json:"same"`
	}{"diff", sum(d.a), sum(d.b), len(d.steps), d.same()})
}

func (d *runDiff) write(w io.Writer) {
	for i, x := range []*side{d.a, d.b} {
		fmt.Fprintf(w, "%s run %s of workflow %q: %s, started %s\n", []string{"-", "+"}[i], x.story.ID, x.story.Workflow, x.story.Status, x.story.Started.Local().Format(time.DateTime))
	}
	for _, f := range d.files {
		fmt.Fprintf(w, "  file      %s: %s\n", oneLine(f.Path), changedOr(f.Note))
		for i, line := range strings.Split(strings.TrimSuffix(f.Diff, "\n"), "\n") {
			if i > 2 { // behind the names of the files, which are the runs'
				fmt.Fprintf(w, "    %s\n", oneLineKept(line))
			}
		}
	}
	for _, v := range d.variables {
		fmt.Fprintf(w, "  variable  %s\n", oneLine(v.Name))
		d.both(w, string(v.A), string(v.B))
	}
	for i := range d.steps {
		d.writeStep(w, &d.steps[i])
	}
	fmt.Fprintf(w, "%s, %d the same; cost %s → %s\n", count(len(d.steps), "step"), d.same(), saved(d.a.cost()), saved(d.b.cost()))
}

func changedOr(note string) string {
	if note != "" {
		return "changed; " + note
	}
	return "changed"
}

// oneLineKept escapes a line of a text and keeps its indentation.
func oneLineKept(s string) string { return escape(strings.TrimRight(s, "\r")) }

func (d *runDiff) both(w io.Writer, a, b string) {
	if a != "" {
		fmt.Fprintf(w, "    - %s\n", oneLine(a))
	}
	if b != "" {
		fmt.Fprintf(w, "    + %s\n", oneLine(b))
	}
}

func (d *runDiff) writeStep(w io.Writer, s *stepDiff) {
	switch {
	case s.B == nil:
		fmt.Fprintf(w, "  only in - %s: %s\n", oneLine(s.Step), s.A.State)
		return
	case s.A == nil:
		fmt.Fprintf(w, "  only in + %s: %s\n", oneLine(s.Step), s.B.State)
		return
	case s.Same:
		fmt.Fprintf(w, "  same      %s (%s)%s\n", oneLine(s.Step), s.B.State, costOf(s))
		return
	}
	var what []string
	if s.StateChanged {
		what = append(what, s.A.State+" → "+s.B.State)
	}
	if s.InputChanged {
		input := fmt.Sprintf("input %s → %s", shortOr(s.A.Input), shortOr(s.B.Input))
		if len(s.Attributes) > 0 {
			input += " (" + oneLine(strings.Join(s.Attributes, ", ")) + ")"
		}
		what = append(what, input)
	}
	if s.AnswerChanged {
		what = append(what, fmt.Sprintf("answer %s → %s", shortOr(s.A.Output), shortOr(s.B.Output)))
	}
	fmt.Fprintf(w, "  differs   %s: %s%s\n", oneLine(s.Step), strings.Join(what, ", "), costOf(s))
	if s.InputChanged {
		d.both(w, s.A.InputHead, s.B.InputHead)
	}
	if s.AnswerChanged {
		d.both(w, s.A.Answer, s.B.Answer)
	}
	for _, x := range []struct {
		mark string
		st   *sideStep
	}{{"-", s.A}, {"+", s.B}} {
		if x.st.Error != nil && !succeeded(x.st) {
			fmt.Fprintf(w, "    %s %s\n", x.mark, oneLine(x.st.Error.Error()))
		}
	}
}

func costOf(s *stepDiff) string {
	if s.A.Took == 0 && s.B.Took == 0 {
		return ""
	}
	return fmt.Sprintf("; cost %s → %s", saved(s.A.Took, s.A.Tokens, s.A.Cost), saved(s.B.Took, s.B.Tokens, s.B.Cost))
}

func shortOr(d sdk.Digest) string {
	if d.IsZero() {
		return "(not known)"
	}
	return d.Short()
}
