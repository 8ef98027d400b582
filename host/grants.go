package host

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// grant is what attempts may reach and use: what the flow allows a plugin, or
// the part of it that a step or an action leaves.
type grant struct {
	hosts  []operation.HostRule
	limits loader.Limits
	mounts []hcl.Mount // those of limits.World, one for one
}

// ceiling is the grant of plugin p.
func (f *Flow) ceiling(p int) (grant, hcl.Diagnostics) {
	var g grant
	a, plugin := f.artifacts[p], &f.wf.Plugins[p]
	if m := a.Manifest; m != nil {
		g.limits.Memory = int64(m.MemoryMB) << 20
	}
	sb := plugin.Sandbox
	if a.Kind == loader.Native {
		if what := sandboxed(sb); what != "" {
			return g, hcl.Diagnostics{{Code: "native-sandbox", Subject: sb.Range, Summary: fmt.Sprintf("Plugin %q is native and not sandboxed", plugin.Name),
				Detail: fmt.Sprintf("A native program reaches whatever the engine's user may reach. Remove %s, or build the plugin for Wasm.", what)}}
		}
		g.see(sb)
		return g, append(f.repeatedWorld(g, plugin), notGiven(&g, a, plugin)...)
	}
	g, diags := narrow(g, sb)
	if diags = append(diags, f.mount(&g, sb)...); diags.HasErrors() {
		return g, diags // what it lacks may be what is wrong
	}
	g, diags = repeated(g, plugin, diags)
	diags = append(diags, f.repeatedWorld(g, plugin)...)
	return g, append(diags, notGiven(&g, a, plugin)...)
}

// repeated is g as far as the steps around the plugin of a sub-workflow repeat it:
// who writes a sub-workflow does not decide what it may reach.
func repeated(g grant, plugin *hcl.Plugin, diags hcl.Diagnostics) (grant, hcl.Diagnostics) {
	for _, around := range plugin.Around {
		own, ds := narrow(grant{limits: g.limits}, around.Sandbox)
		diags = append(diags, ds...)
		for k := range g.hosts {
			if !covered(own.hosts, g.hosts[k]) {
				diags = append(diags, hcl.Diagnostic{Code: "grant-not-repeated", Subject: around.Range, Summary: fmt.Sprintf("Sub-workflow may not reach %q", plugin.Sandbox.AllowHosts[k]),
					Detail: fmt.Sprintf("Its plugin %q is allowed that at %s, and what a sub-workflow grants counts only where the step around it repeats it. Add %q to sandbox { allow_hosts = […] } of %s, or take it out there.", plugin.Name, plugin.Sandbox.HostRanges[k], plugin.Sandbox.AllowHosts[k], around.Step)})
			}
		}
		g.limits = own.limits
	}
	return g, diags
}

// sandboxed is the first word of sb that only a sandbox can keep; "" for none.
func sandboxed(sb *hcl.Sandbox) string {
	switch {
	case sb == nil:
		return ""
	case len(sb.AllowHosts) > 0:
		return "allow_hosts"
	case len(sb.Mounts) > 0:
		return "mount"
	case sb.Memory > 0:
		return "memory"
	case sb.OutputMax > 0:
		return "output_max"
	case sb.LogMax > 0:
		return "log_max"
	case sb.Fuel > 0:
		return "fuel"
	case sb.Isolation != "":
		return "isolation"
	}
	return ""
}

// narrow is g as sb leaves it. With hosts of its own, sb may name only what g
// allows; a plugin's own block, whose g allows none, may name any.
func narrow(g grant, sb *hcl.Sandbox) (grant, hcl.Diagnostics) {
	if sb == nil {
		return g, nil
	}
	var diags hcl.Diagnostics
	if sb.AllowHosts != nil {
		g.hosts = nil
	}
	for k, text := range sb.AllowHosts {
		rule, err := operation.ParseHostRule(text)
		if err != nil {
			diags = append(diags, hcl.Diagnostic{Code: "invalid-host", Subject: sb.HostRanges[k], Summary: "Invalid host", Detail: sentence(err.Error())})
			continue
		}
		g.hosts = append(g.hosts, rule)
	}
	least := func(what string, limit *int64, own, most int64) {
		if own > most {
			diags = append(diags, hcl.Diagnostic{Code: "limit-above-ceiling", Subject: sb.Range, Summary: fmt.Sprintf("%s is more than an attempt can have", what),
				Detail: fmt.Sprintf("%s can be at most %dMiB. Write that or less, or leave it out for the default; data that is larger goes into blobs.", what, most>>20)})
		}
		if own > 0 && (*limit == 0 || own < *limit) {
			*limit = own
		}
	}
	least("memory", &g.limits.Memory, sb.Memory, loader.MaxMemory)
	least("output_max", &g.limits.Response, sb.OutputMax, loader.MaxResponse)
	least("log_max", &g.limits.Stderr, sb.LogMax, loader.MaxStderr)
	if sb.Fuel > 0 && (g.limits.Fuel == 0 || sb.Fuel < g.limits.Fuel) {
		g.limits.Fuel = sb.Fuel
	}
	if sb.Isolation == string(loader.Process) { // the stronger level counts
		g.limits.Isolation = loader.Process
	}
	return g, diags
}

// grantOf is the grant of a step or action that uses plugin p and has the given
// sandbox.
func (f *Flow) grantOf(p int, sb *hcl.Sandbox) (grant, hcl.Diagnostics) {
	ceiling := f.ceilings[p]
	if sb == nil {
		return ceiling, nil
	}
	if f.artifacts[p].Kind == loader.Native {
		if what := sandboxed(sb); what != "" {
			return ceiling, hcl.Diagnostics{{Code: "native-sandbox", Subject: sb.Range, Summary: fmt.Sprintf("Plugin %q is native and not sandboxed", f.wf.Plugins[p].Name),
				Detail: fmt.Sprintf("Remove %s, or build the plugin for Wasm.", what)}}
		}
		g := ceiling
		g.see(sb)
		return g, f.withinWorld(ceiling, g, p, sb)
	}
	g, diags := narrow(ceiling, sb)
	diags = append(diags, f.mount(&g, sb)...)
	diags = append(diags, f.withinWorld(ceiling, g, p, sb)...)
	if diags.HasErrors() || sb.AllowHosts == nil {
		return g, diags
	}
	for k := range g.hosts {
		if !covered(ceiling.hosts, g.hosts[k]) {
			diags = append(diags, hcl.Diagnostic{Code: "grant-above-ceiling", Subject: sb.HostRanges[k], Summary: "Host is not allowed to the plugin",
				Detail: fmt.Sprintf("A step can only narrow what the plugin block allows, and plugin %q may reach %s. Add %q there first.", f.wf.Plugins[p].Name, hostList(f.wf.Plugins[p].Sandbox), sb.AllowHosts[k])})
		}
	}
	return g, diags
}

func covered(by []operation.HostRule, rule operation.HostRule) bool {
	for i := range by {
		if by[i].Covers(rule) {
			return true
		}
	}
	return false
}

func hostList(sb *hcl.Sandbox) string {
	if sb == nil || len(sb.AllowHosts) == 0 {
		return "no host"
	}
	return strings.Join(sb.AllowHosts, ", ")
}

// timeoutOf is the timeout of one attempt: what the flow says, else the
// manifest, else the default.
func timeoutOf(flow time.Duration, st *sdk.StepType) time.Duration {
	switch {
	case flow > 0:
		return flow
	case st.TimeoutMS > 0:
		return time.Duration(st.TimeoutMS) * time.Millisecond
	}
	return DefaultTimeout
}

// grant settles what every plugin, step and action may reach and use.
func (f *Flow) grant() (diags hcl.Diagnostics) {
	f.ceilings, f.steps, f.actions = make([]grant, len(f.wf.Plugins)), make([]flowStep, len(f.wf.Steps)), make([]grant, len(f.wf.Actions))
	var ds hcl.Diagnostics
	for p := range f.ceilings {
		f.ceilings[p], ds = f.ceiling(p)
		diags = append(diags, ds...)
	}
	if diags.HasErrors() {
		return diags
	}
	for i := range f.steps {
		f.steps[i].grant, ds = f.grantOf(f.wf.Steps[i].Plugin, f.wf.Steps[i].Sandbox)
		diags = append(diags, ds...)
	}
	for i := range f.actions {
		f.actions[i], ds = f.grantOf(f.wf.Actions[i].Use.Plugin, f.wf.Actions[i].Sandbox)
		diags = append(diags, ds...)
	}
	return append(diags, f.disjoint()...)
}
