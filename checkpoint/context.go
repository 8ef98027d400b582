package checkpoint

import (
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/retrace-dev/engine/sdk"
)

// appendContext appends what sdk.Marshal gives for c, byte for byte. Every step
// stores a context, and reflection takes three times as long and nine times the
// allocations (BenchmarkContext); members that few contexts have, and text
// beyond ASCII, are left to it.
func appendContext(dst []byte, c *Context) ([]byte, error) {
	w := contextWriter{b: slices.Grow(dst, 448+64*len(c.Identity)+160*len(c.Upstream)+len(c.Reported))}
	w.b = append(w.b, '{')
	w.optional("plugin", c.Plugin)
	w.optional("version", c.Version)
	if !c.Artifact.IsZero() {
		w.digest("artifact", &c.Artifact)
	}
	w.optional("step_type", c.StepType)
	w.optional("engine", c.Engine)
	if !c.Input.IsZero() {
		w.digest("input", &c.Input)
	}
	w.optional("input_head", c.InputHead)
	if len(c.Inputs) > 0 {
		w.open("inputs", '[')
		for i := range c.Inputs {
			w.element(i)
			w.text("name", c.Inputs[i].Name)
			w.text("value", c.Inputs[i].Value)
			w.text("expression", c.Inputs[i].Expression)
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
	}
	if len(c.Identity) > 0 {
		w.open("identity", '[')
		for i := range c.Identity {
			w.element(i)
			w.text("name", c.Identity[i].Name)
			w.text("digest", c.Identity[i].Digest)
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
	}
	if len(c.Upstream) > 0 {
		w.open("upstream", '[')
		for i := range c.Upstream {
			w.element(i)
			w.text("step", c.Upstream[i].Step)
			w.text("facet", c.Upstream[i].Facet.String())
			w.digest("digest", &c.Upstream[i].Digest)
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
	}
	w.open("producer", '{')
	w.text("run", string(c.Producer.Run))
	w.text("step", c.Producer.Step)
	w.number("attempt", int64(c.Producer.Attempt))
	w.name("started")
	w.take(c.Producer.Started.AppendText(append(w.b, '"')))
	w.b = append(w.b, '"', '}')
	if c.Timeout != 0 {
		w.number("timeout", int64(c.Timeout))
	}
	if len(c.Reported) > 0 {
		w.value("reported", c.Reported)
	}
	if len(c.Usage) > 0 {
		w.value("usage", c.Usage)
	}
	w.optional("reused_from", c.ReusedFrom)
	if c.Error != nil {
		w.value("error", c.Error)
	}
	if c.Instances != nil {
		w.value("instances", c.Instances)
	}
	if len(c.Undo) > 0 {
		w.value("undo", c.Undo)
	}
	if w.err != nil {
		return dst, w.err
	}
	return append(w.b, '}'), nil
}

// contextWriter appends members to the object that is open at the end of b.
type contextWriter struct {
	b   []byte
	err error // the first
}

func (w *contextWriter) take(b []byte, err error) {
	if err == nil {
		w.b = b
	} else if w.err == nil {
		w.err = err
	}
}

func (w *contextWriter) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *contextWriter) open(name string, bracket byte) {
	w.name(name)
	w.b = append(w.b, bracket)
}

func (w *contextWriter) element(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '{')
}

func (w *contextWriter) optional(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *contextWriter) text(name, s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			w.value(name, s)
			return
		}
	}
	w.name(name)
	w.b = append(append(append(w.b, '"'), s...), '"')
}

func (w *contextWriter) digest(name string, d *sdk.Digest) {
	w.name(name)
	w.b = append(w.b, '"')
	if !d.IsZero() {
		w.b = hex.AppendEncode(append(w.b, "sha256:"...), d[:])
	}
	w.b = append(w.b, '"')
}

func (w *contextWriter) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *contextWriter) value(name string, v any) {
	w.name(name)
	b, err := sdk.Marshal(v)
	w.take(append(w.b, b...), err)
}
