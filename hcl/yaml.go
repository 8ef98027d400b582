package hcl

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/retrace-dev/engine/sdk"
)

// Bounds of yamldecode. The parser behind it recurses without one of its own: a
// million "- " in a line end the process, 100,000 brackets take a minute, and ten
// lines of aliases make gigabytes. A megabyte takes it more than a second.
const (
	maxYAML       = 512 << 10 // bytes, with aliases written out
	maxYAMLOpen   = 1_000     // brackets open at a time; those in texts count too
	maxYAMLDashes = 100       // "- - - x" in one line
)

// An anchor or alias begins a word. What looks like one inside of a text is
// counted too, which only makes the bound tighter.
var (
	yamlAnchor = regexp.MustCompile(`(?:^|[\s\[{,:?!-])&[^\s\[\]{},]`)
	yamlAlias  = regexp.MustCompile(`(?:^|[\s\[{,:?!-])\*[^\s\[\]{},]`)
	yamlDashes = regexp.MustCompile(fmt.Sprintf(`(?:[-?:][ \t]+){%d}`, maxYAMLDashes))
)

func guardYAML(args []cty.Value) error {
	s := args[0].AsString()
	if len(s) > maxYAML {
		return fmt.Errorf("the text is larger than %d KiB; let a step read it", maxYAML>>10)
	}
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open > maxYAMLOpen {
			return fmt.Errorf("the text nests deeper than %d levels", sdk.MaxDepth)
		}
	}
	if yamlDashes.MatchString(s) {
		return fmt.Errorf("the text nests deeper than %d levels", sdk.MaxDepth)
	}
	if grownYAML(s) > maxYAML {
		return errors.New("with its aliases written out the text could be too large; write the values themselves")
	}
	return nil
}

// grownYAML is at least how many bytes a text has with its aliases written out.
func grownYAML(s string) float64 {
	anchors, aliases := len(yamlAnchor.FindAllStringIndex(s, -1)), len(yamlAlias.FindAllStringIndex(s, -1))
	if anchors == 0 || aliases == 0 {
		return float64(len(s))
	}
	// Each anchor may hold its share of the aliases to the one before.
	return float64(len(s)) * math.Pow(1+float64(aliases)/float64(anchors), float64(anchors))
}

// costYAML counts each byte, of which the guard has bounded the number, as four
// elements.
func costYAML(args []cty.Value) int { return int(4 * grownYAML(args[0].AsString())) }

var yamlDecodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type:   function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v, err := yaml.YAMLDecodeFunc.Call(args)
		if err != nil {
			return cty.NilVal, err
		}
		return v, soundYAML(v, 0)
	},
})

// soundYAML refuses what has no JSON form or nests too deep. It recurses as deep
// as the guard lets a text nest.
func soundYAML(v cty.Value, depth int) error {
	switch ty := v.Type(); {
	case depth > sdk.MaxDepth:
		return function.NewArgErrorf(0, "the text nests deeper than %d levels", sdk.MaxDepth)
	case v.IsNull():
		return nil
	case ty == cty.Number:
		if err := checkNumber(v); err != nil {
			return function.NewArgError(0, err)
		}
		return nil
	case ty.IsPrimitiveType():
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		_, elem := it.Element()
		if err := soundYAML(elem, depth+1); err != nil {
			return err
		}
	}
	return nil
}
