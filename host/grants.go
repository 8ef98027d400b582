package host

import "github.com/retrace-dev/engine/host/operation"

// grants is what an attempt of step i may reach: the hosts that the flow allows
// its plugin and that the step does not narrow away, and the secrets bound to
// hosts. A flow in which nothing is allowed grants nothing.
func (f *Flow) grants(i int32) operation.Grants { return f.steps[i].granted }
