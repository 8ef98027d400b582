package hcl

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// secretPlaces ends a message about a secret where none may be.
const secretPlaces = "A secret is stored nowhere and decides nothing: it may stand in the config of a plugin and in an input, or in a local that these name."

// secret reads a secret block.
func (r *reader) secret(b *block, s *Secret) {
	s.Env, s.File, s.Path = r.text(b, "env"), r.text(b, "file"), r.text(b, "path")
	if b.expr("action") != nil {
		s.Action = r.actionNamed(b, "action", "action names the action whose output holds the secret: action.NAME, without quotes.")
	}
	s.Optional, s.Fingerprint = r.flag(b, "optional", false), r.flag(b, "fingerprint", false)
	for _, h := range r.texts(b, "hosts") {
		s.Hosts, s.HostRanges = append(s.Hosts, h.text), append(s.HostRanges, rangeOf(h.at))
	}
	var from []string
	for _, arg := range []string{"env", "file", "action"} {
		if b.expr(arg) != nil {
			from = append(from, arg)
		}
	}
	switch {
	case len(from) != 1:
		r.ds.errorf("invalid-secret", b.header(), "Secret has no single source", "A secret comes from exactly one of env = \"VARIABLE\", file = \"PATH\" and action = action.NAME with path = \"MEMBER\".")
	case from[0] == "action" && b.expr("path") == nil:
		r.ds.errorf("invalid-secret", b.header(), "Secret has no path", "Which part of the action's output is the secret? Write it as path, such as path = \"access_token\" or path = \"data.token\".")
	case from[0] != "action" && b.expr("path") != nil:
		r.ds.errorf("invalid-secret", b.expr("path").Range(), "Path without an action", "path leads into the output of an action, and this secret comes from %s. Remove it.", from[0])
	case from[0] == "action" && s.Fingerprint:
		r.ds.errorf("invalid-secret", b.expr("fingerprint").Range(), "Secret is not known before the run", "fingerprint makes the value part of the steps' identity, which is made before anything runs. Remove it: a token that an action gives is another one every time.")
	}
	if e := b.expr("hosts"); e != nil && len(s.Hosts) == 0 {
		r.ds.errorf("invalid-secret", e.Range(), "Secret is bound to no host", "hosts names where the secret may be sent, such as [\"api.example\"]. Leave it out for a secret that steps see.")
	}
}

// secretValue is what a reference to a secret stands for.
func (f *frame) secretValue(r *refExpr) (cty.Value, error) {
	s := &f.e.p.w.Secrets[r.index]
	if f.mode != evaluating {
		return cty.UnknownVal(cty.String), nil
	}
	if f.e.run.Secret == nil {
		return cty.NilVal, fmt.Errorf("secret.%s has no value before the run", r.name)
	}
	value, ok, err := f.e.run.Secret(r.index)
	switch {
	case err != nil:
		return cty.NilVal, err
	case !ok:
		return cty.NullVal(cty.String), nil
	case s.Bound():
		return cty.ObjectVal(map[string]cty.Value{"$secret": cty.StringVal(s.Name)}), nil
	}
	return cty.StringVal(value), nil
}

// secrets judges where secrets stand, once it is known what every expression
// names, and lists them.
func (r *reader) secrets() {
	p, w := r.p, r.w
	for i := range p.locals {
		r.wholeSecrets(p.locals[i].expr)
	}
	for i := range p.plugins {
		r.wholeSecrets(p.plugins[i])
		p.separate(p.plugins[i])
		w.Plugins[i].Sensitive = p.plugins[i].hidden()
		w.Plugins[i].Secrets = p.plugins[i].secrets()
	}
	for i := range p.actions {
		r.wholeSecrets(p.actions[i])
		w.Actions[i].Use.Sensitive = len(p.actions[i].hidden()) > 0
		w.Actions[i].Secrets = r.union(p.actions[i].secrets(), w.Actions[i].Use)
	}
	for i := range p.steps {
		r.stepSecrets(&w.Steps[i], &p.steps[i])
	}
	for i := range p.outputs {
		out := &w.Outputs[i]
		r.noSecrets(p.outputs[i].value, inOutput)
		r.noSecretsInRules(p.outputs[i].pre, inOutput)
		if x := p.outputs[i].value; x != nil && x.marked.sensitive && len(x.marked.secrets) == 0 && !out.Sensitive {
			r.ds.errorf("sensitive-output", x.rng, "Output shows a sensitive value", "It names %s, which is sensitive. Write sensitive = true in output %q, or nonsensitive(…) around what may be shown.", x.marked.cause, out.Name)
		}
	}
	r.secretCycles()
}

func (r *reader) stepSecrets(s *Step, code *stepCode) {
	r.noSecrets(code.when, inWhen)
	r.noSecrets(code.salt, inSalt)
	for _, l := range code.loops {
		r.noSecrets(l.x, inForEach)
	}
	r.noSecretsInRules(code.pre, inPrecondition)
	r.noSecretsInRules(code.post, inPostcondition)
	inputs := append([]*expression{code.input, code.compensate}, code.checks...)
	uses := []Use{{Plugin: s.Plugin}}
	for k := range code.fallbacks {
		r.noSecrets(code.fallbacks[k].output, inAnswer)
		inputs = append(inputs, code.fallbacks[k].input)
		uses = append(uses, s.Fallbacks[k].Use)
	}
	for k := range s.Checks {
		uses = append(uses, s.Checks[k].Use)
	}
	if s.Compensate != nil {
		uses = append(uses, s.Compensate.Use)
	}
	var named []int
	for _, x := range inputs {
		r.wholeSecrets(x)
		named = append(named, x.secrets()...)
	}
	s.Secrets = r.union(named, uses...)
	r.storedSecrets(code)
	for _, x := range append(inputs, code.keyed) {
		r.p.separate(x)
	}
	s.Sensitive = code.input.hidden()
	for k := range code.fallbacks {
		s.Fallbacks[k].Use.Sensitive = len(code.fallbacks[k].input.hidden()) > 0
	}
	for k := range s.Checks {
		s.Checks[k].Sensitive = len(code.checks[k].hidden()) > 0
	}
	if s.Compensate != nil {
		s.Compensate.Sensitive = len(code.compensate.hidden()) > 0
	}
}

// union adds what the configs of plugins name, and sorts.
func (r *reader) union(named []int, uses ...Use) []int {
	named = slices.Clone(named)
	for _, u := range uses {
		if u.Plugin >= 0 {
			named = append(named, r.w.Plugins[u.Plugin].Secrets...)
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// noSecrets reports what brings secrets to where none may be.
func (r *reader) noSecrets(x *expression, at place) {
	if x == nil || len(x.marked.secrets) == 0 {
		return
	}
	for _, ref := range x.items {
		if ref.kind != refLocal {
			continue // reported where it was resolved
		}
		if m := r.p.carried(ref); len(m.secrets) > 0 {
			s := &r.w.Secrets[m.secrets[0]]
			r.ds.errorf("secret-not-allowed", ref.SrcRange, "Secret is not allowed here", "%s holds secret.%s, named at %s, and cannot be used in %s. %s", ref.text, s.Name, rangeOf(m.at), at.what, secretPlaces)
		}
	}
}

func (r *reader) noSecretsInRules(rules []rule, at place) {
	for _, x := range rules {
		r.noSecrets(x.condition, at)
		r.noSecrets(x.message, at)
	}
}

// wholeSecrets reports bound secrets that something computes with.
func (r *reader) wholeSecrets(x *expression) {
	if x == nil {
		return
	}
	for _, ref := range x.items {
		if ref.whole {
			continue
		}
		m := r.p.carried(ref)
		for _, i := range m.secrets {
			s := &r.w.Secrets[i]
			if !s.Bound() {
				continue
			}
			what := "secret." + s.Name
			if ref.kind == refLocal {
				what = fmt.Sprintf("%s holds secret.%s, which", ref.text, s.Name)
			}
			r.ds.errorf("bound-secret", ref.SrcRange, "Bound secret is not whole", "%s is bound to hosts, at %s: its value never enters the flow, and nothing can be computed with it. It stands whole, as the value of an attribute: token = secret.%[3]s. What belongs before it in a header is the step's to add. Or remove hosts, and the steps that name it see the value.", what, s.HostRanges[0], s.Name)
			break
		}
	}
}

// storedSecrets reports secrets in the input of an undo, which is stored until
// it is needed.
func (r *reader) storedSecrets(code *stepCode) {
	if code.compensate == nil {
		return
	}
	for _, ref := range code.compensate.items {
		m := r.p.carried(ref)
		for _, i := range m.secrets {
			s := &r.w.Secrets[i]
			if s.Bound() {
				continue
			}
			if ref.kind == refSelf {
				r.ds.warnf("secret-not-stored", ref.SrcRange, "Undo does not receive a secret", "%s holds secret.%s. The input of an undo is stored until it is needed, and a secret is not: it receives \"(sensitive)\" in its place. Give the undo its secrets in its plugin's config.", ref.text, s.Name)
				break
			}
			r.ds.errorf("secret-not-allowed", ref.SrcRange, "Secret is not allowed here", "The input of an undo is stored until it is needed, and secret.%s, declared at %s, must not be. Name it in the config of the undo's plugin, or bind it with hosts.", s.Name, s.Range)
			break
		}
	}
}

// secretCycles reports secrets that an action gives which needs them itself.
func (r *reader) secretCycles() {
	for i := range r.w.Secrets {
		s := &r.w.Secrets[i]
		if s.Action < 0 {
			continue
		}
		seen := make([]bool, len(r.w.Actions))
		stack := []int{s.Action}
		for len(stack) > 0 {
			a := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[a] {
				continue
			}
			seen[a] = true
			for _, k := range r.w.Actions[a].Secrets {
				if k == i {
					r.ds.report(Error, "secret-cycle", s.Range, "Secret needs itself", "secret.%s comes from action.%s, and action.%s or its plugin's config names it. Give that action a plugin and an input without it.", s.Name, r.w.Actions[s.Action].Name, r.w.Actions[a].Name)
					stack = nil
					break
				}
				if next := r.w.Secrets[k].Action; next >= 0 {
					stack = append(stack, next)
				}
			}
		}
	}
}
