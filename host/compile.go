package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/jsonschema"
)

// Flow is a workflow with the artifacts of its plugins: all that can be known
// without values. It is immutable.
type Flow struct {
	wf        *hcl.Workflow
	artifacts []*loader.Artifact   // by plugin
	loaders   []loader.Loader      // by plugin: the one that opened the artifact
	configs   []*jsonschema.Schema // by plugin: of its configuration
	steps     []flowStep
	types     map[stepTypeKey]*stepType // those that steps, fallbacks, checks, undos and actions use
	ceilings  []grant                   // by plugin
	actions   []grant                   // by action
	graph     *recovery.Graph
	targets   []int32

	dir         string                 // of the flow's files
	secretHosts [][]operation.HostRule // by secret: where it may be sent; nil for one that steps see
	keyed       bool                   // values enter its identities as keyed hashes
}

// flowStep is a step with everything that its plugin and the flow say of it.
type flowStep struct {
	*hcl.Step
	address   string
	effects   sdk.Effects
	timeout   time.Duration
	reuse     recovery.Reuse
	volatile  bool // its output is not kept
	told      bool // its answer may tell something of which nothing may be shown
	sanitizer *checkpoint.Sanitizer
	// In a sub-workflow with for_each, its instances name those of the same key of
	// the steps beside it, and some may name its own.
	beside []int32
	ahead  bool
	grant  grant
}

// UntypedStep is the only step type of a plugin without a manifest.
const UntypedStep = "run"

// Workflow is the flow as written.
func (f *Flow) Workflow() *hcl.Workflow { return f.wf }

// Graph is the shape of the flow; node i is Workflow().Steps[i].
func (f *Flow) Graph() *recovery.Graph { return f.graph }

// Artifact is the artifact of plugin p of the workflow.
func (f *Flow) Artifact(p int) *loader.Artifact { return f.artifacts[p] }

// Effects is what an attempt of step i does to the world.
func (f *Flow) Effects(i int) sdk.Effects { return f.steps[i].effects }

// Check reports what o names that the flow does not have, as a *UsageError.
func (f *Flow) Check(o RunOptions) error {
	if _, _, err := f.units(append(o.Rerun[:len(o.Rerun):len(o.Rerun)], o.From...)); err != nil {
		return err
	}
	if _, err := f.givens(o.Set); err != nil {
		return err
	}
	_, _, err := f.units(o.Targets)
	return err
}

// Compile finds the workflow's plugins (sources are relative to dir), reads
// their manifests without running anything, and checks the steps against them.
// The loaders are asked in their order what each artifact is. All mistakes are
// gathered.
func Compile(wf *hcl.Workflow, dir string, loaders []loader.Loader) (*Flow, hcl.Diagnostics) {
	f := &Flow{wf: wf, dir: dir, keyed: wf.NeedsKey(), artifacts: make([]*loader.Artifact, len(wf.Plugins)), loaders: make([]loader.Loader, len(wf.Plugins))}
	var diags hcl.Diagnostics
	first := map[string]int{} // of the plugins with a source
	for i := range wf.Plugins {
		p := &wf.Plugins[i]
		if k, again := first[p.Source]; again && f.artifacts[k] != nil { // another place of one sub-workflow
			f.artifacts[i], f.loaders[i] = f.artifacts[k], f.loaders[k]
			continue
		}
		first[p.Source] = i
		a, l, err := open(loaders, p.Source, dir)
		if err != nil {
			d := hcl.Diagnostic{Code: "plugin-unusable", Summary: fmt.Sprintf("Plugin %q cannot be used", p.Name), Detail: sentence(err.Error()), Subject: p.Range}
			if errors.Is(err, fs.ErrNotExist) {
				d.Code, d.Summary = "plugin-not-found", fmt.Sprintf("Plugin %q was not found", p.Name)
				file := filepath.Join(dir, p.Source)
				d.Detail = fmt.Sprintf("There is no file %s. The source of a plugin is a path relative to the flow's directory.", file)
				if script := filepath.Join(filepath.Dir(file), "build.sh"); isFile(script) { // as "engine init" and "engine plugin new" leave it
					d.Detail += fmt.Sprintf(" Beside it is a build.sh, which may not have been run: sh %s", script)
				}
			}
			diags = append(diags, d)
			continue
		}
		f.artifacts[i], f.loaders[i] = a, l
	}
	f.types = map[stepTypeKey]*stepType{}
	for i := range wf.Steps {
		s := &wf.Steps[i]
		diags = append(diags, f.checkStepType(hcl.Use{Plugin: s.Plugin, StepType: s.StepType, Range: s.Uses}, s.Effects, s.Range)...)
		for _, use := range others(s) {
			diags = append(diags, f.checkStepType(use, sdk.EffectsNone, use.Range)...)
		}
	}
	for i := range wf.Actions {
		diags = append(diags, f.checkStepType(wf.Actions[i].Use, sdk.EffectsNone, wf.Actions[i].Range)...)
	}
	f.configs = make([]*jsonschema.Schema, len(wf.Plugins))
	for i, a := range f.artifacts {
		if a == nil || a.Manifest == nil {
			continue
		}
		var err error
		if f.configs[i], err = compileSchema(a.Manifest.Config); err != nil {
			diags = append(diags, badManifest(wf.Plugins[i].Name, wf.Plugins[i].Range, fmt.Errorf("config schema: %w", err)))
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	diags = append(diags, wf.CheckTypes(f.schemas)...)
	if diags = append(diags, f.grant()...); diags.HasErrors() {
		return nil, diags
	}
	diags = append(diags, f.bind()...)
	var unfit hcl.Diagnostics
	if err := f.link(); errors.As(err, &unfit) {
		diags = append(diags, unfit...)
	} else if err != nil {
		diags = append(diags, hcl.Diagnostic{Code: "graph", Summary: "The steps cannot be put in order", Detail: err.Error(), Subject: wf.Range})
	}
	return f, diags
}

// open asks each loader whether the file is of its kind.
func open(loaders []loader.Loader, source, dir string) (*loader.Artifact, loader.Loader, error) {
	path := source
	std := strings.HasPrefix(source, loader.Std)
	switch {
	case std:
	case !filepath.IsAbs(path):
		if path = filepath.Join(dir, path); strings.HasPrefix(path, loader.Std) {
			path = "./" + path // a file, whatever the name of its folder
		}
	}
	for _, l := range loaders {
		a, err := l.Open(path)
		if errors.Is(err, loader.ErrForeign) {
			continue
		}
		return a, l, err
	}
	if std {
		return nil, nil, fmt.Errorf("this build of the engine ships no plugin %q; give the path of a module or executable", source)
	}
	return nil, nil, fmt.Errorf("%s is neither a WebAssembly module nor an executable that this engine can run", path)
}

// stepType is what the manifest says of one step type, ready to be used.
type stepType struct {
	sdk.StepType
	schemas   schemas
	sanitizer *checkpoint.Sanitizer
}

type stepTypeKey struct {
	plugin int
	name   string
}

// others are the step types that s uses beside its own.
func others(s *hcl.Step) (us []hcl.Use) {
	for k := range s.Fallbacks {
		if s.Fallbacks[k].Kind == hcl.FallbackStep {
			us = append(us, s.Fallbacks[k].Use)
		}
	}
	for k := range s.Checks {
		us = append(us, s.Checks[k].Use)
	}
	if s.Compensate != nil {
		us = append(us, s.Compensate.Use)
	}
	return us
}

func (s *flowStep) use() hcl.Use {
	return hcl.Use{Plugin: s.Plugin, StepType: s.StepType, Range: s.Uses}
}

// checkStepType checks the use of a step type against its plugin's manifest and
// adds it to f.types. effects are what the flow says that it does, at.
func (f *Flow) checkStepType(s hcl.Use, effects sdk.Effects, at hcl.Range) hcl.Diagnostics {
	a := f.artifacts[s.Plugin]
	if a == nil {
		return nil // reported
	}
	wf, types := f.wf, f.types
	name := wf.Plugins[s.Plugin].Name
	st := &stepType{}
	if a.Manifest == nil || a.Manifest.Name == "" { // none, or the one that raw programs have
		if s.StepType != UntypedStep {
			return hcl.Diagnostics{{Code: "unknown-step-type", Subject: s.Range,
				Summary: fmt.Sprintf("Plugin %q has no step type %q", name, s.StepType),
				Detail:  fmt.Sprintf("%s has no manifest, so its only step type is %q. Put one beside it as %s.step.json to name others, or into it: engine plugin pack %s", a.Path, UntypedStep, strings.TrimSuffix(a.Path, filepath.Ext(a.Path)), a.Path)}}
		}
	}
	if a.Manifest != nil {
		var ok bool
		if st.StepType, ok = a.Manifest.Steps[s.StepType]; !ok {
			return hcl.Diagnostics{{Code: "unknown-step-type", Subject: s.Range,
				Summary: fmt.Sprintf("Plugin %q has no step type %q", name, s.StepType),
				Detail:  fmt.Sprintf("It has %s.%s", strings.Join(a.Manifest.StepNames(), ", "), hcl.DidYouMean(s.StepType, a.Manifest.StepNames()))}}
		}
	}
	if effects != sdk.EffectsNone && effects < st.Effects {
		return hcl.Diagnostics{{Code: "effects-lowered", Subject: at,
			Summary: fmt.Sprintf("The effects of step type %q cannot be lowered", s.StepType),
			Detail:  fmt.Sprintf("The plugin %q says %q; a step may raise it, not lower it to %q.", name, st.Effects, effects)}}
	}
	key := stepTypeKey{s.Plugin, s.StepType}
	if types[key] != nil {
		return nil
	}
	types[key] = st
	var err error
	if st.sanitizer, err = checkpoint.NewSanitizer(checkpoint.SanitizerOptions{Transient: st.Transient}); err != nil {
		return hcl.Diagnostics{badManifest(name, s.Range, err)}
	}
	if st.schemas, err = compileSchemas(st.StepType); err != nil {
		return hcl.Diagnostics{badManifest(name, s.Range, fmt.Errorf("step type %q: %w", s.StepType, err))}
	}
	return nil
}

// schemas are those of a step type that the flow uses.
func (f *Flow) schemas(use hcl.Use) hcl.Schemas {
	st := f.types[stepTypeKey{use.Plugin, use.StepType}]
	s := hcl.Schemas{Input: st.Input, Output: st.Output}
	if m := f.artifacts[use.Plugin].Manifest; m != nil && m.Name == "" {
		s.Note = "Its module has no manifest, so it runs as a raw program, and that is what one leaves. A program that answers by itself says so by a manifest: engine plugin pack adds one."
	}
	return s
}

func badManifest(plugin string, at hcl.Range, err error) hcl.Diagnostic {
	return hcl.Diagnostic{Code: "bad-manifest", Subject: at, Summary: fmt.Sprintf("The manifest of plugin %q cannot be used", plugin), Detail: sentence(err.Error())}
}

// link builds the graph and the steps' policies.
func (f *Flow) link() (err error) {
	nodes := make([]recovery.Node, len(f.wf.Steps))
	var keep []int32
	for i := range f.wf.Steps {
		s := &f.wf.Steps[i]
		st := f.types[stepTypeKey{s.Plugin, s.StepType}]
		rs := refs(s)
		nodes[i] = recovery.Node{Address: s.Address(), When: s.WhenFacets, Each: s.EachFacets, Refs: rs[:s.KeyFacets], Extra: rs[s.KeyFacets:]}
		own := st.sanitizer
		if len(s.Redact) > 0 {
			if own, err = checkpoint.NewSanitizer(checkpoint.SanitizerOptions{Transient: st.Transient, Redact: s.Redact}); err != nil {
				return hcl.Diagnostics{{Code: "invalid-redact", Subject: s.Range, Summary: "Invalid pattern in redact", Detail: sentence(err.Error())}}
			}
		}
		fs := flowStep{Step: s, address: nodes[i].Address, effects: effectsOf(f.artifacts[s.Plugin], s.StepType, s.Effects), timeout: timeoutOf(s.Timeout, &st.StepType), grant: f.steps[i].grant, volatile: s.Volatile, sanitizer: own}
		for _, use := range others(s) { // they act for the step
			if s.Compensate != nil && use == s.Compensate.Use {
				continue
			}
			fs.effects = max(fs.effects, effectsOf(f.artifacts[use.Plugin], use.StepType, sdk.EffectsNone))
			if f.ceilings[use.Plugin].changes() {
				fs.effects = max(fs.effects, sdk.EffectsWrite)
			}
		}
		if fs.grant.changes() {
			fs.effects = max(fs.effects, sdk.EffectsWrite)
		}
		for k := range rs {
			if rs[k].Shared > 0 {
				fs.beside = append(fs.beside, rs[k].Step)
				f.steps[rs[k].Step].ahead = true
			}
		}
		switch s.Reuse {
		case hcl.ReuseDefault:
			if fs.effects.Changes() {
				fs.reuse = recovery.ReuseRun
			}
		case hcl.ReuseRun:
			fs.reuse = recovery.ReuseRun
		case hcl.ReuseNever:
			fs.reuse = recovery.ReuseNever
		}
		if fs.effects.Changes() {
			keep = append(keep, int32(i))
		}
		fs.ahead = f.steps[i].ahead
		f.steps[i] = fs
	}
	if f.graph, err = recovery.NewGraph(nodes); err != nil {
		return err
	}
	for i := range f.wf.Outputs {
		for _, r := range f.wf.Outputs[i].Facets {
			keep = append(keep, int32(r.Step))
		}
	}
	for _, i := range f.graph.Order() {
		f.steps[i].told = f.hears(i) || f.isTold(i)
	}
	f.targets = recovery.Targets(f.graph, keep)
	f.persist()
	return nil
}

// isTold: step i itself is given something of which nothing may be shown.
func (f *Flow) isTold(i int32) bool {
	st := &f.steps[i]
	if len(st.Sensitive)+len(st.Secrets)+len(f.wf.Plugins[st.Plugin].Sensitive) > 0 {
		return true
	}
	return slices.ContainsFunc(others(st.Step), func(u hcl.Use) bool { return u.Sensitive || len(f.wf.Plugins[u.Plugin].Sensitive) > 0 })
}

// hears: step i is given answers that may tell such a thing. No answer is searched for
// what its step was given.
func (f *Flow) hears(i int32) bool {
	return slices.ContainsFunc(f.graph.Upstream(i), func(u int32) bool { return f.steps[u].told })
}

// persist makes targets and everything above a step with effects persistent,
// whatever their mode says.
func (f *Flow) persist() {
	for _, t := range f.targets {
		f.steps[t].volatile = false
	}
	order := f.graph.Order()
	above := make([]bool, len(f.steps))
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		if above[i] {
			f.steps[i].volatile = false
		}
		if above[i] || f.steps[i].effects.Changes() {
			for _, u := range f.graph.Upstream(i) {
				above[u] = true
			}
		}
	}
}

// refs are the facets that s names.
func refs(s *hcl.Step) []recovery.Ref {
	kinds := [...]recovery.RefKind{hcl.Hard: recovery.Hard, hcl.Optional: recovery.Optional, hcl.Soft: recovery.Soft}
	rs := make([]recovery.Ref, len(s.Facets))
	for k, r := range s.Facets {
		rs[k] = recovery.Ref{Step: int32(r.Step), Facet: r.Facet, Kind: kinds[r.Kind], Order: r.Order, Shared: int32(r.Shared), Follows: int32(r.Follows)}
	}
	return rs
}

// sentence makes a sentence of an error's text.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if first, _, _ := strings.Cut(s, " "); strings.ContainsAny(first, "./\\") {
		return s + "." // it begins with the name of a file
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
