package hcl

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// sandbox reads the sandbox block of a plugin, a step or an action; nil without
// one.
func (r *reader) sandbox(b *block, t *blockType) *Sandbox {
	blocks := b.inner(&r.ds, "sandbox", t)
	if len(blocks) == 0 {
		return nil
	}
	b = blocks[0]
	s := &Sandbox{
		Memory:    r.size(b, "memory"),
		OutputMax: r.size(b, "output_max"),
		LogMax:    r.size(b, "log_max"),
		Fuel:      uint64(r.number(b, "fuel", 0, 1, maxCount, true)),
		Isolation: keyword(&r.ds, b, "isolation", []string{"inprocess", "process"}),
		Range:     rangeOf(b.header()),
	}
	if b.expr("allow_hosts") != nil {
		s.AllowHosts = []string{} // an empty list takes all away
	}
	for _, x := range r.texts(b, "allow_hosts") {
		s.AllowHosts, s.HostRanges = append(s.AllowHosts, x.text), append(s.HostRanges, rangeOf(x.at))
	}
	r.env(b, s)
	first := map[string]hclv2.Range{}
	for _, in := range b.inner(&r.ds, "mount", sandboxBlock) {
		if prev, dup := first[in.name]; dup {
			r.duplicate("mount", in.name, in.header(), prev)
			continue
		}
		first[in.name] = in.header()
		if in.name == "engine" || in.name == "tmp" {
			r.ds.errorf("invalid-name", in.header(), "Name is taken", "A mount is seen as the directory of its name, and /%s is the engine's own. Give it another name.", in.name)
		}
		before := len(r.ds)
		m := Mount{Name: in.name, Source: r.p.rebased(r.text(in, "source")), Range: rangeOf(in.header())}
		m.ReadWrite = keyword(&r.ds, in, "mode", []string{"ro", "rw"}) == "rw"
		if e := in.expr("source"); e != nil {
			m.Range = rangeOf(e.Range())
			if m.Source == "" && len(r.ds) == before {
				r.ds.errorf("invalid-value", e.Range(), "Source is empty", "source is the path of a directory, such as \"./data\".")
			}
		}
		s.Mounts = append(s.Mounts, m)
	}
	return s
}

// maxCount is the largest whole number that every reader of JSON keeps.
const maxCount = 1 << 53

// env reads environment variables. They are part of the identity, so their
// values are known before anything is.
func (r *reader) env(b *block, s *Sandbox) {
	v, ok := r.constant(b.expr("env"))
	if !ok {
		return
	}
	at := b.expr("env").Range()
	if !isObject(v) {
		r.ds.errorf("wrong-type", at, "Wrong type", "env must be an object of strings, such as { LANG = \"C.UTF-8\" }; this is %s.", describe(v))
		return
	}
	s.Env = map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		name := k.AsString()
		switch {
		case !envName.MatchString(name):
			r.ds.errorf("invalid-name", at, "Invalid name", "%q cannot be the name of an environment variable: it has ASCII letters, digits and _, and does not begin with a digit.", name)
		case e.IsNull() || e.Type() != cty.String:
			r.ds.errorf("wrong-type", at, "Wrong type", "The environment variable %s must be a string, this is %s.", name, describe(e))
		case strings.ContainsRune(e.AsString(), 0):
			r.ds.errorf("invalid-value", at, "Invalid value", "The environment variable %s has a zero byte, which no environment can hold.", name)
		default:
			s.Env[name] = e.AsString()
		}
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// placedText is a constant string of a list.
type placedText struct {
	text string
	at   hclv2.Range
}

// texts reads an argument that is a list of strings that are not empty.
func (r *reader) texts(b *block, arg string) []placedText {
	e := b.expr(arg)
	if e == nil {
		return nil
	}
	list, ok := unwrap(e).(*hclsyntax.TupleConsExpr)
	if !ok {
		r.ds.errorf("wrong-type", e.Range(), "Wrong type", "%s must be a list of strings, such as [\"…\"].", arg)
		return nil
	}
	var out []placedText
	for _, item := range list.Exprs {
		v, ok := r.constant(item)
		switch {
		case !ok:
		case v.IsNull() || v.Type() != cty.String || v.AsString() == "":
			r.ds.errorf("wrong-type", item.Range(), "Wrong type", "%s must be a list of strings that are not empty, this is %s.", arg, describe(v))
		default:
			out = append(out, placedText{v.AsString(), item.Range()})
		}
	}
	return out
}

var (
	sizeRE    = regexp.MustCompile(`^([0-9]{1,13}) ?(B|KiB|MiB|GiB)$`)
	sizeUnits = map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)

const maxSize = 1 << 40

func (r *reader) size(b *block, arg string) int64 {
	v, ok := r.constant(b.expr(arg))
	if !ok {
		return 0
	}
	is := describe(v)
	if !v.IsNull() && v.Type() == cty.String {
		n, err := parseSize(v.AsString())
		if err == nil {
			return n
		}
		is = err.Error()
	} else {
		is = "this is " + is
	}
	r.ds.errorf("invalid-size", b.expr(arg).Range(), "Invalid size", "%s must be a size such as \"64MiB\", with B, KiB, MiB or GiB: %s.", arg, is)
	return 0
}

func parseSize(s string) (int64, error) {
	m := sizeRE.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is none", s)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	switch unit := sizeUnits[m[2]]; {
	case err != nil || n > maxSize/unit:
		return 0, fmt.Errorf("%q is more than 1024GiB", s)
	case n == 0:
		return 0, fmt.Errorf("%q is nothing; leave it out for the default", s)
	default:
		return n * unit, nil
	}
}
