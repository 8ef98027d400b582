package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// hostile makes values that are made to be taken for each other: few names and
// texts, digits as texts, absent and null, the same pieces cut elsewhere. It gives
// a JSON text and a spelling that only equal values share.
func hostile(r *rand.Rand, depth int) (text, spelling string) {
	kind := r.IntN(7)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return "null", "n"
	case 1:
		b := strconv.FormatBool(r.IntN(2) == 0)
		return b, b
	case 2:
		n := r.IntN(20) - 5
		spelt := []string{"%d", "%d.0", "%de0", "%d0e-1"}[r.IntN(4)]
		if n == 0 {
			spelt = []string{"%d", "%d.0", "-%d"}[r.IntN(3)]
		}
		return fmt.Sprintf(spelt, n), fmt.Sprint("i", n)
	case 3:
		n := 1 + 10*r.IntN(5) // tenths that are no integer
		return fmt.Sprintf("%d.%d", n/10, n%10), fmt.Sprint("t", n)
	case 4:
		var b strings.Builder
		for range r.IntN(4) {
			b.WriteString([]string{"a", "b", "1", "null", "[", ":", "é", "é", "\x01"}[r.IntN(9)])
		}
		return quoted(b.String()), fmt.Sprintf("s%q", b.String())
	case 5:
		var texts, spellings []string
		for range r.IntN(4) {
			t, s := hostile(r, depth-1)
			texts, spellings = append(texts, t), append(spellings, s)
		}
		return "[" + strings.Join(texts, ",") + "]", "[" + strings.Join(spellings, " ") + "]"
	}
	var names, texts, spellings []string
	for range r.IntN(4) {
		name := []string{"a", "b", "ab", "1", ""}[r.IntN(5)]
		if slices.Contains(names, name) {
			continue
		}
		t, s := hostile(r, depth-1)
		names = append(names, name)
		texts, spellings = append(texts, quoted(name)+": "+t), append(spellings, fmt.Sprintf("%q=%s", name, s))
	}
	slices.Sort(spellings)
	return "{" + strings.Join(texts, ", ") + "}", "{" + strings.Join(spellings, " ") + "}"
}

func quoted(s string) string {
	b, err := sdk.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestDigestsAreInjective: of many values, in which equal ones occur too, those
// with one digest are those that are equal. $INJECTIVE_VALUES says how many.
func TestDigestsAreInjective(t *testing.T) {
	t.Parallel()
	n := 100_000
	if s := os.Getenv("INJECTIVE_VALUES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(uint64(n), 7))
	byDigest, bySpelling := map[sdk.Digest]string{}, map[string]sdk.Digest{}
	again := 0
	for range n {
		text, spelling := hostile(r, 3)
		if r.IntN(8) > 0 {
			t1, s1 := hostile(r, 3)
			t2, s2 := hostile(r, 3)
			text, spelling = "["+text+","+t1+","+t2+"]", "["+spelling+" "+s1+" "+s2+"]"
		}
		d, err := ValueDigest([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if old, seen := byDigest[d]; seen && old != spelling {
			t.Fatalf("one digest of two values: %s and %s, as %s", old, spelling, text)
		}
		if old, seen := bySpelling[spelling]; seen {
			again++
			if old != d {
				t.Fatalf("two digests of one value: %s, as %s", spelling, text)
			}
		}
		byDigest[d], bySpelling[spelling] = spelling, d
	}
	if different := len(bySpelling); different < n/4 || again < n/20 {
		t.Errorf("of %d values %d are different and %d came again: too few", n, different, again)
	}
}
