package host

import (
	"fmt"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// notGiven are the capabilities that a plugin's manifest asks for and that its
// grant does not have. A native plugin is asked about its environment alone, for
// nothing keeps the rest from it.
func notGiven(g *grant, a *loader.Artifact, plugin *hcl.Plugin) (diags hcl.Diagnostics) {
	if a.Manifest == nil {
		return nil
	}
	for _, c := range a.Manifest.Capabilities {
		var what, how string
		switch {
		case c.HTTP != "" && a.Kind == loader.Wasm:
			given, err := g.gives(c.HTTP)
			if err != nil {
				diags = append(diags, hcl.Diagnostic{Code: "invalid-host", Subject: plugin.Range, Summary: fmt.Sprintf("Plugin %q asks for no host that there can be", plugin.Name),
					Detail: sentence("in the capabilities of its manifest: " + err.Error())})
			}
			if given || err != nil {
				continue
			}
			what, how = "the host "+c.HTTP, fmt.Sprintf("Allow it with sandbox { allow_hosts = [%q] } in the plugin block,", c.HTTP)
			if c.HTTP == "*" {
				what, how = "the network", `Allow the hosts it may reach with sandbox { allow_hosts = ["HOST"] } in the plugin block,`
			}
		case c.Mount != "" && a.Kind == loader.Wasm:
			if g.mounted(c) {
				continue
			}
			with := "source"
			if c.Mode == "rw" {
				with = `source and mode = "rw"`
			}
			what, how = "the "+c.String(), fmt.Sprintf("Choose a directory for it, a block mount %q with %s in the plugin's sandbox block,", c.Mount, with)
		case c.Env != "":
			if _, ok := g.world().Env[c.Env]; ok {
				continue
			}
			what, how = "the environment variable "+c.Env, fmt.Sprintf(`Give it with sandbox { env = { %s = "VALUE" } } in the plugin block,`, c.Env)
		default:
			continue
		}
		diags = append(diags, hcl.Diagnostic{Code: "missing-grant", Subject: plugin.Range, Summary: fmt.Sprintf("Plugin %q asks for %s", plugin.Name, what),
			Detail: fmt.Sprintf("It says: %q. %s or leave the plugin out.", c.Reason, how)})
	}
	return diags
}

// gives reports whether g allows host, or a part of what host stands for; "*" is
// any.
func (g *grant) gives(host string) (bool, error) {
	if host == "*" {
		return len(g.hosts) > 0, nil
	}
	asked, err := operation.ParseHostRule(host)
	if err != nil {
		return false, err
	}
	for _, rule := range g.hosts {
		if rule.Covers(asked) || asked.Covers(rule) {
			return true, nil
		}
	}
	return false, nil
}

// mounted reports whether g has the mount that c asks for, with its mode or more.
func (g *grant) mounted(c sdk.Capability) bool {
	for _, m := range g.world().Mounts {
		if m.Name == c.Mount && (m.ReadWrite || c.Mode != "rw") {
			return true
		}
	}
	return false
}
