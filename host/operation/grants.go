package operation

import (
	"maps"
	"slices"
)

// Grants is what one attempt may reach. The zero value grants nothing.
type Grants struct {
	Hosts   []HostRule        // hosts that http may send to
	Secrets map[string]Secret // bound secrets by name
	// Redactor keeps more than Secrets out of replies; nil: them alone.
	Redactor *Redactor
}

// Secret is a value that a step may have injected without seeing it. It goes
// only to hosts that it is bound to, and into no reply.
type Secret struct {
	Value string
	Hosts []HostRule // none: it is never sent
}

// allows says whether rules let a request through to t.
func allows(rules []HostRule, t *target) bool {
	for i := range rules {
		if rules[i].matches(t) {
			return true
		}
	}
	return false
}

func (g *Grants) redactor() *Redactor {
	r := g.Redactor
	for _, name := range slices.Sorted(maps.Keys(g.Secrets)) {
		r = r.With(name, g.Secrets[name].Value)
	}
	return r
}
