package host

import (
	"strconv"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// info is how the instances have ended, in the stored form.
func (f *fanout) info() *checkpoint.Instances {
	info := &checkpoint.Instances{List: f.list, Count: len(f.results)}
	for k := range f.results {
		res := &f.results[k]
		in := checkpoint.Instance{Index: k, State: res.state, Attempts: int(res.attempts), Degraded: res.degraded, Error: res.err}
		inner := f.inner(k)
		if inner != nil {
			in.Instances = inner.info()
		}
		if inner != nil || res.state != sdk.Succeeded || res.attempts != 1 || res.degraded {
			info.Others = append(info.Others, in)
		}
	}
	return info
}

// inner is the instances of instance k that expressions see; nil if it has none.
func (f *fanout) inner(k int) *fanout {
	if f.below == nil {
		return nil
	}
	return f.below[k].seen(f.results[k].state)
}

// seen is f, if a collection that has ended as state is seen by its instances. One that
// was skipped is seen as itself, unless something of it was not: whether its instances
// were made before its upstream was known to be skipped is a matter of chance.
func (f *fanout) seen(state sdk.State) *fanout {
	if f == nil || state != sdk.Skipped {
		return f
	}
	all := true
	f.every(func(in *fanout) {
		for k := range in.results {
			all = all && in.results[k].state == sdk.Skipped
		}
	})
	if all {
		return nil
	}
	return f
}

// instances is how they have ended, as expressions see it.
func (f *fanout) instances() []hcl.InstanceResult {
	rs := make([]hcl.InstanceResult, len(f.results))
	for k := range rs {
		res := &f.results[k]
		rs[k].Key = f.each[k].Key
		rs[k].State, rs[k].Error, rs[k].Attempts, rs[k].Degraded = res.state, res.err, int(res.attempts), res.degraded
		if in := f.inner(k); in != nil {
			rs[k].Instances, rs[k].List = in.instances(), in.list
		}
	}
	return rs
}

// facets digests the facets of a collection beside its output: each is a
// collection itself.
func (f *fanout) facets() *checkpoint.Facets {
	rs := f.instances()
	fs := new(checkpoint.Facets)
	for i := range fs {
		facet := sdk.FacetStatus + sdk.Facet(i)
		h := checkpoint.NewHasher("engine/facets/1")
		h.Int(boolInt(f.list))
		for k := range rs {
			if !f.list {
				h.Bytes(rs[k].Key)
			}
			switch facet {
			case sdk.FacetDegraded:
				h.Int(boolInt(rs[k].Degraded))
			default:
				h.Digest(checkpoint.FacetDigest(facet, rs[k].State, rs[k].Error, rs[k].Attempts))
			}
			if in := f.inner(k); in != nil {
				h.Digest(in.facets()[i])
			}
		}
		fs[i] = sdk.Digest(h.Sum())
	}
	return fs
}

// failedFacets are the facets of a step that was skipped after a failure.
func failedFacets(err *sdk.Error, attempts int) *checkpoint.Facets {
	fs := new(checkpoint.Facets)
	for f := range fs {
		fs[f] = checkpoint.FacetDigest(sdk.FacetStatus+sdk.Facet(f), sdk.Skipped, err, attempts)
	}
	return fs
}

// codeNoInstance is the code of the error of a collection that has not the instance
// that a person named.
const codeNoInstance = "no_such_instance"

// CodeInstancesFailed is the code of the error of a step of whose instances some
// failed. Each of them has failed under its own name.
const CodeInstancesFailed = "instances_failed"

// instancesFailed is the error of a collection of whose instances some failed.
func (r *run) instancesFailed(u unit) *sdk.Error {
	f := r.fan(u)
	failed, first := 0, -1
	for k := range f.results {
		if f.results[k].state == sdk.Failed {
			if failed++; first < 0 {
				first = k
			}
		}
	}
	if first < 0 {
		return nil
	}
	e := *f.results[first].err
	which := ": "
	if failed > 1 {
		which = ", the first is "
	}
	e.Code = CodeInstancesFailed
	e.Message = strconv.Itoa(failed) + " of " + strconv.Itoa(len(f.results)) + " instances failed" + which + r.address(f.unit(first)) + ": " + e.Message
	return &e
}
