package hcl

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// constant evaluates an argument that must be known before any value is; ok is
// false when it is not there or after an error.
func (d *reader) constant(e hclsyntax.Expression) (cty.Value, bool) {
	if e == nil {
		return cty.NilVal, false
	}
	before := len(d.ds)
	x := d.p.compile(&d.ds, e, inConstant)
	if len(d.ds) > before {
		return cty.NilVal, false
	}
	v, ds := d.check.frame(checking, Scope{}).value(x)
	if ds.HasErrors() {
		d.ds = append(d.ds, ds...)
		return cty.NilVal, false
	}
	return v, v.IsWhollyKnown()
}

func (d *reader) text(b *block, arg string) string {
	v, ok := d.constant(b.expr(arg))
	if !ok {
		return ""
	}
	if v.IsNull() || v.Type() != cty.String {
		d.ds.errorf("wrong-type", b.expr(arg).Range(), "Wrong type", "%s must be a string, this is %s.", arg, describe(v))
		return ""
	}
	return v.AsString()
}

func (d *reader) flag(b *block, arg string, def bool) bool {
	v, ok := d.constant(b.expr(arg))
	if !ok {
		return def
	}
	if v.IsNull() || v.Type() != cty.Bool {
		d.ds.errorf("wrong-type", b.expr(arg).Range(), "Wrong type", "%s must be true or false, this is %s.", arg, describe(v))
		return def
	}
	return v.True()
}

// number reads a number from low to high.
func (d *reader) number(b *block, arg string, def, low, high float64, whole bool) float64 {
	v, ok := d.constant(b.expr(arg))
	if !ok {
		return def
	}
	kind := "a number"
	if whole {
		kind = "a whole number"
	}
	if !v.IsNull() && v.Type() == cty.Number {
		n, _ := v.AsBigFloat().Float64()
		if n >= low && n <= high && (!whole || n == math.Trunc(n)) {
			return n
		}
	}
	d.ds.errorf("invalid-value", b.expr(arg).Range(), "Invalid value", "%s must be %s from %s to %s, this is %s.", arg, kind,
		strconv.FormatFloat(low, 'f', -1, 64), strconv.FormatFloat(high, 'f', -1, 64), describe(v))
	return def
}

func (d *reader) duration(b *block, arg string) time.Duration {
	v, ok := d.constant(b.expr(arg))
	if !ok {
		return 0
	}
	at := b.expr(arg).Range()
	if v.IsNull() || v.Type() != cty.String {
		d.ds.errorf("invalid-duration", at, "Invalid duration", "%s must be a duration such as \"30s\", this is %s.", arg, describe(v))
		return 0
	}
	t, err := parseDuration(v.AsString())
	if err != nil {
		d.ds.errorf("invalid-duration", at, "Invalid duration", "%s: %s. Write a number with a unit, such as \"500ms\", \"30s\", \"10m\", \"1h30m\" or \"7d\".", arg, err)
	}
	return t
}

// positive is duration for what zero would switch off or make pointless.
func (d *reader) positive(b *block, arg string) time.Duration {
	before := len(d.ds)
	t := d.duration(b, arg)
	if e := b.expr(arg); e != nil && t == 0 && len(d.ds) == before {
		d.ds.errorf("invalid-duration", e.Range(), "Duration is zero", "%s must be longer than nothing. Leave it out for the default.", arg)
	}
	return t
}

const maxDays = 36_500

// parseDuration is time.ParseDuration with days before the rest, and nothing
// below zero.
func parseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration", s)
	var days time.Duration
	rest := s
	if head, tail, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(head, 10, 32)
		if err != nil {
			return 0, bad
		}
		if n > maxDays {
			return 0, fmt.Errorf("%q is more than %d days", s, maxDays)
		}
		days, rest = time.Duration(n)*24*time.Hour, tail
		if rest == "" {
			return days, nil
		}
	}
	t, err := time.ParseDuration(rest)
	switch {
	case err != nil:
		return 0, bad
	case t < 0 || strings.HasPrefix(rest, "-"):
		return 0, fmt.Errorf("%q is negative", s)
	}
	if days+t > maxDays*24*time.Hour {
		return 0, fmt.Errorf("%q is more than %d days", s, maxDays)
	}
	return days + t, nil
}

const (
	defaultAttempts = 3
	maxAttempts     = 1000
	defaultDelay    = time.Second
)

// retry reads a retry block.
func (d *reader) retry(b *block) Retry {
	r := Retry{
		On:          d.classes(b),
		MaxAttempts: int(d.number(b, "max_attempts", defaultAttempts, 1, maxAttempts, true)),
		Delay:       defaultDelay,
		Exponential: keyword(&d.ds, b, "delay_function", []string{"constant", "exponential"}) != "constant",
		MaxDelay:    d.positive(b, "max_delay"),
		Jitter:      d.number(b, "jitter", 0, 0, 1, false),
		MaxDuration: d.positive(b, "max_duration"),
		Before:      d.before(b),
	}
	if b.expr("delay") != nil {
		r.Delay = d.duration(b, "delay")
	}
	return r
}

func (d *reader) classes(b *block) []sdk.Class {
	e := b.expr("on")
	if e == nil {
		var on []sdk.Class
		for _, c := range sdk.Classes() {
			if c.RetriedByDefault() {
				on = append(on, c)
			}
		}
		return on
	}
	return d.classList(e, func(c sdk.Class) string {
		if c.Deterministic() {
			return fmt.Sprintf("A failure of class %s gives the same result on every attempt, so trying again only costs.", c)
		}
		return ""
	})
}

// classList reads a list of classes. unfit says why one may not stand there, ""
// if it may.
func (d *reader) classList(e hclsyntax.Expression, unfit func(sdk.Class) string) []sdk.Class {
	var all, names []string
	for _, c := range sdk.Classes() {
		all = append(all, string(c))
		if unfit(c) == "" {
			names = append(names, string(c))
		}
	}
	list, ok := e.(*hclsyntax.TupleConsExpr)
	if !ok || len(list.Exprs) == 0 {
		d.ds.errorf("invalid-value", e.Range(), "Invalid value", "on must be a list of classes, such as [timeout, rate_limited]. Possible are %s.", strings.Join(names, ", "))
		return nil
	}
	var on []sdk.Class
	seen := map[sdk.Class]bool{}
	for _, item := range list.Exprs {
		c := sdk.Class(wordOf(item))
		switch {
		case !c.Valid():
			d.ds.errorf("unknown-class", item.Range(), "Unknown class of failure", "Possible are %s.%s", strings.Join(names, ", "), DidYouMean(string(c), all))
		case unfit(c) != "":
			d.ds.errorf("deterministic-class", item.Range(), "Class of failure that cannot stand here", "%s Remove it from on.", unfit(c))
		case seen[c]:
			d.ds.warnf("duplicate-class", item.Range(), "Class is named twice", "%s is already in this list.", c)
		default:
			seen[c] = true
			on = append(on, c)
		}
	}
	return on
}
