package prose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string
	}{
		{"Mr. Holmes met Dr. Watson. He smiled.", []string{"Mr. Holmes met Dr. Watson.", "He smiled."}},
		{`"Who?" he cried. "I! And you?" No answer`, []string{`"Who?" he cried.`, `"I!`, `And you?"`, "No answer"}},
		{"It costs 3.14 at example.com. J. H. Watson paid.", []string{"It costs 3.14 at example.com.", "J. H. Watson paid."}},
		{"So did I. Then\nwe went.\n\nA title\n\n***\n\nEnd", []string{"So did I.", "Then we went.", "A title", "End"}},
		{"玄德曰：「如此甚好。」次日，\n祭天！何如？", []string{"玄德曰：「如此甚好。」", "次日，祭天！", "何如？"}},
		{"飛曰：「甚好。同去！」皆喜。" + "雋曰：「" + strings.Repeat("彼用妖術，", 20) + "可破。其法可解。」", []string{
			"飛曰：「甚好。同去！」", "皆喜。", "雋曰：「" + strings.Repeat("彼用妖術，", 20) + "可破。", "其法可解。」"}},
		{"", nil},
	} {
		if d := cmp.Diff(c.want, Sentences(c.text)); d != "" {
			t.Errorf("%q: %s", c.text, d)
		}
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	want := []string{"don't", "red-headed", "league", "桃園", "園中", "café"}
	if d := cmp.Diff(want, terms("I don't: the Red-Headed 'League', 桃園中 café")); d != "" {
		t.Error(d)
	}
}

// The sentence that shares most with the others wins, wherever it stands.
func TestPick(t *testing.T) {
	t.Parallel()
	all := Sentences(`Green parrots sleep in tall trees near water. The red lion hunts deer on the wide plain.
A lion hunts at night and sleeps by day. Deer fear the lion of the plain at night. Nothing else happened today anywhere whatsoever.`)
	if got := Pick(all, 1); !strings.Contains(got[0], "lion") {
		t.Errorf("picked %q", got)
	}
	// A text without chapters is ranked in parts; its order stays.
	var many []string
	for i := range 2*longest + 10 {
		many = append(many, fmt.Sprintf("alpha%d beta%d gamma%d delta%d epsilon%d zeta%d eta%d theta%d.", i, i%7, i%11, i%13, i%17, i%19, i%23, i%29))
	}
	got := Pick(many, 40)
	if len(got) != 40 || !slices.IsSortedFunc(got, func(a, b string) int { return slices.Index(many, a) - slices.Index(many, b) }) {
		t.Errorf("picked %q", got)
	}
	two := Pick([]string{"b b b b b b", "b b b b b b", "a"}, 5)
	if d := cmp.Diff([]string{"b b b b b b", "a"}, two); d != "" {
		t.Errorf("repeated sentences: %s", d)
	}
	if got := Pick(nil, 3); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
}
