package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
)

func newCompletion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands, flows, steps and runs in a shell",
		Example: `  engine completion bash > /etc/bash_completion.d/engine
  engine completion zsh > "${fpath[1]}/_engine"
  engine completion fish > ~/.config/fish/completions/engine.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(io.out, true)
			case "zsh":
				return c.Root().GenZshCompletion(io.out)
			}
			return c.Root().GenFishCompletion(io.out, true)
		},
	}
}

type completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completions hangs on every verb what its arguments and flags may be. Nothing
// that is asked here runs a plugin or opens a store.
func completions(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "apply", "plan", "validate", "graph":
			c.ValidArgsFunction = completeFlow
		case "explain":
			c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				steps, directive := completeStep(c, args, typed)
				if len(args) == 0 {
					directive = cobra.ShellCompDirectiveDefault // or a flow: where no step fits, files
				}
				return steps, directive
			}
		case "show", "logs":
			c.ValidArgsFunction = completeRunThenStep
		case "cancel":
			c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return completeRun(c, nil, typed)
			}
		case "diff":
			c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 1 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return completeRun(c, nil, typed)
			}
		case "output":
			c.ValidArgsFunction = completeOutput
		default:
			if len(c.ValidArgs) == 0 {
				c.ValidArgsFunction = cobra.NoFileCompletions
			}
		}
		for name, complete := range map[string]completer{
			"rerun": completeStep, "from": completeStep, "set": completeStep, "target": completeStep, "run": completeRun,
			"progress": fixed(progressModes), "format": fixed(graphFormats),
			"status":   fixed(runStatuses),
			"workflow": completeWorkflow,
			"state":    directories,
		} {
			if c.Flags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, complete) // fails only for an unknown flag or twice
			}
		}
	}
}

func fixed(values []string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeFlow(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"hcl"}, cobra.ShellCompDirectiveFilterFileExt // directories too
}

// completeStep lists the steps of the flow that the line names so far; behind
// an opening bracket, the instances that a step has had.
func completeStep(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if strings.Contains(typed, "[") { // those that it had
		for _, s := range newest(stateOf(c, flowPath(args))) {
			for _, st := range s.steps() {
				if nameIn(st.Step) != "" {
					names = append(names, st.Step)
				}
			}
			if names != nil {
				break
			}
		}
		return beginning(names, typed), cobra.ShellCompDirectiveNoFileComp
	}
	wf, _ := hcl.Load(flowPath(args))
	if wf != nil {
		for i := range wf.Steps {
			names = append(names, wf.Steps[i].Address())
		}
	}
	return beginning(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// beginning keeps the names that begin with what is typed, "a" for "step.a"
// too.
func beginning(names []string, typed string) []string {
	return slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasPrefix(n, typed) && !strings.HasPrefix(strings.TrimPrefix(n, "step."), typed)
	})
}

// stateOf is the state that the line names.
func stateOf(c *cobra.Command, flow string) place {
	dir, _ := c.Flags().GetString("state") // "" for a verb without
	keyFrom, _ := c.Flags().GetString("key-from")
	return stateDir(place{dir, keyFrom}, flowDir(flow))
}

// maxCompletions bounds how many journals are read for one key press.
const maxCompletions = 50

// newest are the newest runs of a state, without asking whether one goes on:
// that would open its store.
func newest(state place) []*story {
	entries, err := os.ReadDir(filepath.Join(state.dir, "runs"))
	if err != nil {
		return nil
	}
	sealer, err := state.sealer()
	if err != nil {
		return nil
	}
	type file struct {
		id  string
		mod int64
	}
	var files []file
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
			if info, err := e.Info(); err == nil {
				files = append(files, file{id, info.ModTime().UnixNano()})
			}
		}
	}
	slices.SortFunc(files, func(a, b file) int { return int(min(max(b.mod-a.mod, -1), 1)) })
	var ss []*story
	for _, f := range files[:min(len(files), maxCompletions)] {
		if s, err := readStory(state.dir, sealer, checkpoint.RunID(f.id), true); err == nil && len(s.Events) > 0 {
			ss = append(ss, s)
		}
	}
	return ss
}

// newestCalled is the newest run whose id begins so; "" and latest are any.
func newestCalled(state place, id string) *story {
	for _, s := range newest(state) {
		if s.called(id) {
			return s
		}
	}
	return nil
}

func completeRun(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	flow := "."
	if c.Name() == "apply" || c.Name() == "plan" || c.Name() == "explain" || c.Name() == "graph" {
		flow = flowPath(args)
	}
	var ids []string
	for _, s := range newest(stateOf(c, flow)) {
		if strings.HasPrefix(string(s.ID), typed) {
			ids = append(ids, string(s.ID)+"\t"+oneLine(s.Workflow)+", "+string(s.Status))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func completeRunThenStep(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	run, step := runAndStep(args)
	if step != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	if s := newestCalled(stateOf(c, "."), run); s != nil {
		for _, st := range s.steps() {
			if strings.Contains(typed, "[") || stepOf(st.Step) == st.Step {
				found = append(found, st.Step)
			}
		}
	}
	found = beginning(found, typed)
	if len(args) == 0 && !strings.HasPrefix(typed, "step.") {
		runs, _ := completeRun(c, nil, typed)
		found = append(runs, found...)
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func completeOutput(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var names []string
	run, name := runAndOutput(args)
	if s := newestCalled(stateOf(c, "."), run); s != nil && name == "" {
		for _, o := range s.Outputs {
			names = append(names, o.Name)
		}
	}
	return beginning(names, typed), cobra.ShellCompDirectiveNoFileComp
}

func completeWorkflow(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, s := range newest(stateOf(c, ".")) {
		if !slices.Contains(names, s.Workflow) {
			names = append(names, s.Workflow)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
