package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

func newExplain(io streams) *cobra.Command {
	var f flowFlags
	c := &cobra.Command{
		Use:   "explain [FLOW] STEP",
		Short: "Say at length why a step or instance would run or be reused",
		Long: `Shows of one step what the plan decided and from what: its keys, the answers of
its upstreams, its newest record, and the differences between that record and
now. Runs nothing.`,
		Example: `  engine explain step.summarize
  engine explain flow.hcl step.summarize --json
  engine explain 'step.chapter["one"]'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			step := args[len(args)-1]
			v := newDiagView(io, f.json)
			if f.json {
				writeVersion(io.out)
			}
			l, h, done, err := f.reading(io, flowPath(args[:len(args)-1]), v)
			if err != nil {
				return err
			}
			defer done()
			e, err := h.Explain(context.WithoutCancel(c.Context()), l.flow, l.values, l.options, step)
			if err != nil {
				return failure(err, l.flow.Workflow(), v)
			}
			if f.json {
				writeJSON(io.out, struct {
					Type string `json:"type"`
					*host.Explanation
				}{"explanation", e})
				return nil
			}
			writeExplanation(io, e)
			return nil
		},
	}
	f.add(c)
	return c
}

func writeExplanation(io streams, e *host.Explanation) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(io.out, "  %-9s %s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(io.out, "%s of workflow %q: %s, %s\n", oneLine(e.Step), e.Workflow, e.Action, oneLine(e.Reason))
	switch {
	case e.Instances != nil:
		reused := ""
		if e.Reused > 0 {
			reused = fmt.Sprintf(", %d of them reused", e.Reused)
		}
		row("for_each", "%s%s; one of them: engine explain '%s'", count(*e.Instances, "instance"), reused, hcl.InstanceAddress(e.Step, "…"))
	case e.KnownAfter != "":
		row("for_each", "instances known after %s", e.KnownAfter)
	}
	row("plugin", "%s %s, step type %s, artifact %s", e.Plugin, cmp.Or(e.Version, "(no version)"), e.StepType, e.Artifact.Short())
	kept := "kept"
	if e.Volatile {
		kept = "not kept (volatile)"
	}
	row("effects", "%s; timeout %s; its output is %s", e.Effects, e.Timeout, kept)
	row("keys", "local   %s", e.Keys.Local)
	row("", "plan    %s", known(e.Keys.Plan, "its upstreams have ended"))
	if e.Instances != nil || e.KnownAfter != "" {
		row("", "content each instance has its own")
	} else {
		row("", "content %s", known(e.Keys.Content, "its input is evaluated"))
	}
	name := "upstream"
	for _, u := range e.Lineage {
		row(name, "%s of %s (%s): %s", u.Facet, u.Step, u.Action, compared(u))
		name = ""
	}
	if e.Record == nil {
		row("record", "none: it never ended")
		return
	}
	r := e.Record
	row("record", "%s, %s, by run %s on %s (%s)", r.ID, r.Outcome, r.Run, r.Created.Local().Format(time.DateTime), saved(r.Took, r.Tokens, r.Cost))
	if r.Outcome == checkpoint.Succeeded {
		have := "stored"
		if !e.HasData {
			have = "not stored or damaged"
		}
		of := "after " + count(r.Attempts, "attempt")
		if in := r.Context.Instances; in != nil {
			of = "of " + count(in.Count, "instance")
		}
		row("", "output %s, %s, %d bytes, %s", r.Output.Short(), have, r.Data.Size, of)
	}
	if p := r.Context.Producer; p.Step != "" && (p.Run != r.Run || p.Step != e.Step) {
		row("", "computed by %s in run %s", p.Step, p.Run)
	}
	if r.Operator {
		row("", "supplied by the operator")
	}
	if !r.Expires.IsZero() {
		row("", "expires %s", r.Expires.Local().Format(time.DateTime))
	}
	name = "changes"
	for _, c := range e.Changes {
		switch {
		case c.Old == "":
			row(name, "%s added (%s)", c.Part, digest12(c.New))
		case c.New == "":
			row(name, "%s removed (%s)", c.Part, digest12(c.Old))
		default:
			row(name, "%s changed (%s → %s)", c.Part, digest12(c.Old), digest12(c.New))
		}
		name = ""
	}
	if len(e.Changes) == 0 {
		row("changes", "none that is known")
	}
}

func known(f checkpoint.Fingerprint, when string) string {
	if f.IsZero() {
		return "not known before " + when
	}
	return f.String()
}

// compared says of an upstream's answer what it was and is.
func compared(u host.ExplainedFacet) string {
	none := sdk.Digest{}
	switch {
	case u.Now == none && u.Record == none:
		return "not known yet"
	case u.Now == none:
		return "not known yet, was " + u.Record.Short()
	case u.Record == none:
		return u.Now.Short() + ", not in the record"
	case u.Now == u.Record:
		return u.Now.Short() + ", as in the record"
	}
	return u.Record.Short() + " → " + u.Now.Short()
}

// digest12 is a digest given as text in its short form.
func digest12(s string) string {
	s = strings.TrimPrefix(s, "sha256:")
	return s[:min(len(s), 12)]
}
