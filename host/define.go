package host

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// define makes the keys of every step.
func (s *session) define() error {
	n := len(s.f.steps)
	s.defs, s.bases = make([]recovery.Definition, n), make([]checkpoint.Fingerprint, n)
	s.parts = make([][]checkpoint.NamedDigest, n)
	s.expressions = make([][]checkpoint.AttributeDigest, n)
	locals := make([]checkpoint.Fingerprint, n)
	wrong := make([]hcl.Diagnostics, n)
	diags := s.checkConfigs()
	everywhere(n, func(i int) { locals[i], wrong[i] = s.defineStep(i) })
	for _, d := range wrong {
		diags = append(diags, d...)
	}
	if diags.HasErrors() {
		return diags
	}
	for i, o := range s.f.graph.Occurrences(locals) {
		s.defs[i].Local = checkpoint.Numbered(locals[i], o)
		s.defs[i].Instance = checkpoint.Numbered(s.defs[i].Instance, o)
		if o > 0 { // equal twins have equal bases, so the number goes there too
			s.bases[i] = checkpoint.Numbered(s.bases[i], o)
		}
		if d := &s.defs[i]; d.Reuse == recovery.ReuseRun {
			d.Local, s.bases[i] = s.inChain(d.Local), s.inChain(s.bases[i])
			if !d.Instance.IsZero() {
				d.Instance = s.inChain(d.Instance)
			}
		}
	}
	return nil
}

// defineStep makes what identifies step i, and returns its local key, not yet
// numbered.
func (s *session) defineStep(i int) (checkpoint.Fingerprint, hcl.Diagnostics) {
	st, def := &s.f.steps[i], &s.defs[i]
	id, diags := s.eval.Identity(i)
	if diags.HasErrors() {
		return checkpoint.Fingerprint{}, diags
	}
	world, diags := s.worldParts(&st.grant)
	s.parts[i] = identity(&id)
	for _, a := range id.Attributes {
		s.expressions[i] = append(s.expressions[i], checkpoint.AttributeDigest{Name: a.Name, Expression: checkpoint.AttributeHash(a.Expression)})
	}
	base := checkpoint.NewHasher("engine/base/1")
	base.Digest(s.f.artifacts[st.Plugin].Digest)
	base.String(st.StepType)
	base.Digest(id.Config)
	base.Digest(id.Type)
	base.Digest(id.Salt)
	if !id.Checks.IsZero() {
		base.Digest(id.Checks)
		for _, c := range st.Checks {
			base.Digest(s.f.artifacts[c.Plugin].Digest)
			own, d := s.worldParts(&s.f.ceilings[c.Plugin])
			world, diags = append(world, own...), append(diags, d...)
		}
	}
	for _, part := range world {
		base.String(part.Name)
		base.Digest(part.Value)
		s.parts[i] = append(s.parts[i], checkpoint.NamedDigest{Name: part.Name, Digest: part.Value.Short()})
	}
	s.bases[i] = base.Sum()
	key := func(each sdk.Digest, sets ...[]hcl.FacetRef) checkpoint.Fingerprint {
		local := checkpoint.NewHasher("engine/local/1")
		local.Fingerprint(s.bases[i])
		local.Digest(id.Input)
		local.Digest(id.When)
		if !each.IsZero() {
			local.Digest(each)
		}
		for _, facets := range sets {
			for _, r := range facets {
				local.Int(int(r.Facet))
				local.Int(int(r.Kind))
				local.Int(boolInt(r.Order))
			}
		}
		return local.Sum()
	}
	if st.ForEach { // what the collection is made of is no part of an instance
		def.Instance = key(sdk.Digest{}, st.Facets[:st.WhenFacets], st.Facets[st.WhenFacets+st.EachFacets:st.KeyFacets])
	}
	if !id.Judge.IsZero() {
		judge := id.Judge // by itself, so that the rest of id stays off the heap
		def.Judge = &judge
	}
	def.Reuse = st.reuse
	if st.HasWhen {
		when := checkpoint.NewHasher("engine/when/1")
		when.Digest(id.When)
		def.When = when.Sum()
	}
	return key(id.ForEach, st.Facets[:st.KeyFacets]), diags
}

// everywhere calls do for 0 to n-1 on all processors, and returns when all have
// returned.
func everywhere(n int, do func(i int)) {
	const share = 64 // at a time
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/share+1) {
		wg.Go(func() {
			for {
				to := int(next.Add(share))
				for i := to - share; i < min(to, n); i++ {
					do(i)
				}
				if to >= n {
					return
				}
			}
		})
	}
	wg.Wait()
}

// inChain is a key of a step whose results belong to the chain of runs: those of
// another chain are others and hide none of these.
func (s *session) inChain(key checkpoint.Fingerprint) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/chain/1")
	h.Fingerprint(key)
	h.String(string(s.record.Chain))
	return h.Sum()
}

// checkConfigs evaluates the plugins' configurations and checks them against
// their manifests, before anything runs.
func (s *session) checkConfigs() (diags hcl.Diagnostics) {
	s.configs = make([]json.RawMessage, len(s.f.configs))
	for p, c := range s.f.configs {
		if slices.ContainsFunc(s.f.wf.Plugins[p].Secrets, func(i int) bool { return !s.secrets.known(i) }) {
			continue
		}
		config, d := s.eval.Config(p)
		if diags = append(diags, d...); d.HasErrors() {
			continue
		}
		s.configs[p] = config
		if err := fits(c, config, sdk.ClassInvalidInput, "the config", s.f.wf.Plugins[p].Sensitive...); err != nil {
			diags = append(diags, hcl.Diagnostic{Code: "bad-config", Subject: s.f.wf.Plugins[p].Range,
				Summary: fmt.Sprintf("The config of plugin %q cannot be used", s.f.wf.Plugins[p].Name), Detail: sentence(err.Message)})
		}
	}
	return diags
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
