package host

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// see gives g the environment of sb, if that has one, in place of its own.
func (g *grant) see(sb *hcl.Sandbox) {
	if sb == nil || sb.Env == nil {
		return
	}
	g.limits.World = &loader.World{Env: sb.Env, Mounts: g.world().Mounts}
}

// world is what attempts under g see of the machine.
func (g *grant) world() loader.World {
	if g.limits.World == nil {
		return loader.World{}
	}
	return *g.limits.World
}

// mount gives g what sb says of the environment and of mounts, each in place of
// its own.
func (f *Flow) mount(g *grant, sb *hcl.Sandbox) (diags hcl.Diagnostics) {
	g.see(sb)
	if sb == nil || sb.Mounts == nil {
		return nil
	}
	w := g.world()
	w.Mounts, g.mounts = nil, sb.Mounts
	for _, m := range sb.Mounts {
		path := m.Source
		if !filepath.IsAbs(path) {
			path = filepath.Join(f.dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			diags = append(diags, unusableMount(&m, err))
		}
		w.Mounts = append(w.Mounts, loader.Mount{Name: m.Name, Path: path, ReadWrite: m.ReadWrite})
	}
	g.limits.World = &w
	return diags
}

func unusableMount(m *hcl.Mount, err error) hcl.Diagnostic {
	return hcl.Diagnostic{Code: "mount-unusable", Subject: m.Range, Summary: fmt.Sprintf("The directory of mount %q cannot be used", m.Name),
		Detail: sentence(err.Error())}
}

// changes reports whether attempts under g can change files.
func (g *grant) changes() bool {
	return slices.ContainsFunc(g.mounts, func(m hcl.Mount) bool { return m.ReadWrite })
}

// above names what of g is not in by: a variable that by does not give, a
// directory that it does not mount, or mounts for reading only.
func (g *grant) above(by *grant) (what string, at hcl.Range) {
	own, most := g.world(), by.world()
	for _, name := range slices.Sorted(maps.Keys(own.Env)) {
		if _, ok := most.Env[name]; !ok {
			return "environment variable " + name, hcl.Range{}
		}
	}
	for k, m := range own.Mounts {
		within := func(x loader.Mount) bool {
			return x.Name == m.Name && (x.ReadWrite || !m.ReadWrite) && contains(x.Path, m.Path)
		}
		if !slices.ContainsFunc(most.Mounts, within) {
			mode := "ro"
			if m.ReadWrite {
				mode = "rw"
			}
			return fmt.Sprintf("mount %q of %s (%s)", m.Name, g.mounts[k].Source, mode), g.mounts[k].Range
		}
	}
	return "", hcl.Range{}
}

// contains reports whether path is dir or lies below it.
func contains(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// withinWorld checks that a step sees no more than its plugin may.
func (f *Flow) withinWorld(ceiling, g grant, p int, sb *hcl.Sandbox) hcl.Diagnostics {
	what, at := g.above(&ceiling)
	if what == "" {
		return nil
	}
	return hcl.Diagnostics{{Code: "grant-above-ceiling", Subject: orRange(at, sb.Range), Summary: "The plugin is not given this",
		Detail: fmt.Sprintf("A step can only narrow what the plugin block gives, and plugin %q gets no %s. Add it to the sandbox there first.", f.wf.Plugins[p].Name, what)}}
}

// repeatedWorld checks that the steps around a sub-workflow's plugin repeat what
// it is to see.
func (f *Flow) repeatedWorld(g grant, plugin *hcl.Plugin) (diags hcl.Diagnostics) {
	for _, around := range plugin.Around {
		own := grant{}
		f.mount(&own, around.Sandbox)
		if what, _ := g.above(&own); what != "" {
			diags = append(diags, hcl.Diagnostic{Code: "grant-not-repeated", Subject: around.Range, Summary: "Sub-workflow may not use " + what,
				Detail: fmt.Sprintf("Its plugin %q is given that at %s, and what a sub-workflow grants counts only where the step around it repeats it. Add it to the sandbox of %s, or take it out there.", plugin.Name, plugin.Sandbox.Range, around.Step)})
		}
	}
	return diags
}

func orRange(a, b hcl.Range) hcl.Range {
	if a == (hcl.Range{}) {
		return b
	}
	return a
}

// disjoint checks that no directory is mounted for reading by one step and
// changed by another: what it holds would not be known when the keys are made.
func (f *Flow) disjoint() (diags hcl.Diagnostics) {
	type use struct {
		mount *hcl.Mount
		path  string
		who   string
	}
	var reads, writes []use
	seen := map[*hcl.Mount]bool{}
	add := func(g *grant, who string) {
		for k := range g.mounts {
			m := &g.mounts[k]
			if seen[m] {
				continue
			}
			seen[m] = true
			u := use{m, g.limits.World.Mounts[k].Path, who}
			if m.ReadWrite {
				writes = append(writes, u)
			} else {
				reads = append(reads, u)
			}
		}
	}
	for i := range f.steps {
		add(&f.steps[i].grant, f.wf.Steps[i].Address())
		for _, use := range others(&f.wf.Steps[i]) {
			add(&f.ceilings[use.Plugin], f.wf.Steps[i].Address())
		}
	}
	for i := range f.actions {
		add(&f.actions[i], "action."+f.wf.Actions[i].Name)
	}
	for _, r := range reads {
		for _, w := range writes {
			if contains(r.path, w.path) || contains(w.path, r.path) {
				diags = append(diags, hcl.Diagnostic{Code: "mount-overlap", Subject: r.mount.Range, Summary: fmt.Sprintf("Mount %q is changed by another step", r.mount.Name),
					Detail: fmt.Sprintf("%s can change what lies in %s (%s), so what %s would read there is not known before the run. Pass it as an output, or mount it rw there too.", w.who, w.mount.Source, w.mount.Range, r.who)})
				break
			}
		}
	}
	return diags
}

// worldParts are what of the world is part of a step's identity: its
// environment, and its mounts with what lies in those it can only read.
func (s *session) worldParts(g *grant) (parts []hcl.ValueIdentity, diags hcl.Diagnostics) {
	w := g.world()
	if len(w.Env) > 0 {
		h := checkpoint.NewHasher("engine/env/1")
		for _, name := range slices.Sorted(maps.Keys(w.Env)) {
			h.String(name)
			h.String(w.Env[name])
		}
		parts = append(parts, hcl.ValueIdentity{Name: "sandbox.env", Value: sdk.Digest(h.Sum())})
	}
	for k, m := range w.Mounts {
		h := checkpoint.NewHasher("engine/mount/1")
		h.String(m.Name)
		if m.ReadWrite {
			h.String(g.mounts[k].Source)
		} else {
			d, err := s.trees.digest(m.Path)
			if err != nil {
				diags = append(diags, unusableMount(&g.mounts[k], err))
				continue
			}
			h.Digest(d)
		}
		parts = append(parts, hcl.ValueIdentity{Name: "mount " + m.Name, Value: sdk.Digest(h.Sum())})
	}
	slices.SortFunc(parts, func(a, b hcl.ValueIdentity) int { return cmp.Compare(a.Name, b.Name) })
	return parts, diags
}

// PlannedGrant is what a plugin or, where it is narrower, a step is given.
type PlannedGrant struct {
	Who    string   `json:"who"`              // "plugin.ai", "step.x"
	Hosts  []string `json:"hosts,omitempty"`  // empty and not nil takes all away
	Mounts []string `json:"mounts,omitempty"` // "data: ./data (ro)"
	Env    []string `json:"env,omitempty"`    // names
}

// grants lists what is given, for plans.
func (f *Flow) grants() (gs []PlannedGrant) {
	add := func(who string, sb *hcl.Sandbox) {
		if sb == nil {
			return
		}
		g := PlannedGrant{Who: who, Hosts: sb.AllowHosts, Env: slices.Sorted(maps.Keys(sb.Env))}
		for _, m := range sb.Mounts {
			mode := "ro"
			if m.ReadWrite {
				mode = "rw"
			}
			g.Mounts = append(g.Mounts, fmt.Sprintf("%s: %s (%s)", m.Name, m.Source, mode))
		}
		if g.Hosts != nil || len(g.Mounts)+len(g.Env) > 0 {
			gs = append(gs, g)
		}
	}
	for i := range f.wf.Plugins {
		add("plugin."+f.wf.Plugins[i].Name, f.wf.Plugins[i].Sandbox)
	}
	for i := range f.wf.Steps {
		add(f.wf.Steps[i].Address(), f.wf.Steps[i].Sandbox)
	}
	for i := range f.wf.Actions {
		add("action."+f.wf.Actions[i].Name, f.wf.Actions[i].Sandbox)
	}
	return gs
}

// String is the grant in one line.
func (g PlannedGrant) String() string {
	var parts []string
	if g.Hosts != nil && len(g.Hosts) == 0 {
		parts = append(parts, "no hosts")
	}
	for _, p := range []struct {
		word string
		list []string
	}{{"hosts", g.Hosts}, {"mounts", g.Mounts}, {"env", g.Env}} {
		if len(p.list) > 0 {
			parts = append(parts, p.word+" "+strings.Join(p.list, ", "))
		}
	}
	return g.Who + ": " + strings.Join(parts, "; ")
}
