package host

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
)

// MovedModel is a name of a model that stands for another model than it did when
// answers were given that Apply would reuse. Nobody is asked: the newest answer
// tells for what the name stands.
type MovedModel struct {
	Model    string    `json:"model"` // as it is asked for
	Endpoint string    `json:"endpoint,omitempty"`
	Now      string    `json:"now"`   // the model that gave the newest answer
	Since    time.Time `json:"since"` // when that was
	Was      string    `json:"was"`   // the one that gave the answers of Steps
	Steps    []string  `json:"steps"` // and instances
}

// movedModels compares the answers that would be reused with the newest ones.
func (s *session) movedModels(ctx context.Context, reused map[string]bool) ([]MovedModel, error) {
	type name struct{ endpoint, model string }
	type answer struct {
		step, resolved string
		made           time.Time
	}
	answers := map[name][]answer{}
	for hd := range s.index.Heads() {
		if hd.Outcome != checkpoint.Succeeded || hd.Degraded || hd.Facets != nil || hd.Tokens == 0 && hd.Cost == (checkpoint.Cost{}) {
			continue
		}
		r, err := s.h.o.Store.Record(ctx, s.h.o.Tenant, hd.Seq)
		if lost(err) {
			continue
		}
		if err != nil {
			return nil, &storeError{err}
		}
		var said struct {
			Endpoint string `json:"endpoint"`
			Model    string `json:"model"`
			Resolved string `json:"resolved_model"`
		}
		if json.Unmarshal(r.Context.Reported, &said) != nil || said.Model == "" || said.Resolved == "" {
			continue
		}
		n := name{said.Endpoint, said.Model}
		answers[n] = append(answers[n], answer{hcl.InstanceAddress(hd.Step, hd.Instance), said.Resolved, hd.Created})
	}
	var moved []MovedModel
	for n, as := range answers {
		slices.SortFunc(as, func(a, b answer) int { return a.made.Compare(b.made) })
		newest := as[len(as)-1]
		for _, a := range as {
			step, _, _ := strings.Cut(a.step, "[")
			if a.resolved == newest.resolved || !reused[step] {
				continue
			}
			k := slices.IndexFunc(moved, func(m MovedModel) bool { return m.Endpoint == n.endpoint && m.Model == n.model && m.Was == a.resolved })
			if k < 0 {
				k = len(moved)
				moved = append(moved, MovedModel{Model: n.model, Endpoint: n.endpoint, Now: newest.resolved, Since: newest.made, Was: a.resolved})
			}
			moved[k].Steps = append(moved[k].Steps, a.step)
		}
	}
	for k := range moved {
		slices.Sort(moved[k].Steps)
	}
	slices.SortFunc(moved, func(a, b MovedModel) int {
		return strings.Compare(a.Endpoint+"\x00"+a.Model+"\x00"+a.Was, b.Endpoint+"\x00"+b.Model+"\x00"+b.Was)
	})
	return moved, nil
}
