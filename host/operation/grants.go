package operation

// Grants is what one attempt may reach. The zero value grants nothing.
type Grants struct {
	Hosts   []HostRule        // hosts that http may send to
	Secrets map[string]Secret // bound secrets by name
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
	if len(g.Secrets) == 0 {
		return nil
	}
	values := make(map[string]string, len(g.Secrets))
	for name, s := range g.Secrets {
		values[name] = s.Value
	}
	return NewRedactor(values)
}
