package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestWriteDiff: hunks at the ends of a text, far from each other and next to
// each other, and lines without an end.
func TestWriteDiff(t *testing.T) {
	t.Parallel()
	six := strings.Repeat("same\n", 6)
	for _, c := range []struct{ before, after, want string }{
		{"a=1\n   ", "a = 1\n", "@@ -1,2 +1,1 @@\n-a=1\n-   \n\\ No newline at end of file\n+a = 1\n"},
		{"a=1", "a = 1", "@@ -1,1 +1,1 @@\n-a=1\n\\ No newline at end of file\n+a = 1\n\\ No newline at end of file\n"},
		{"a=1\n" + six + "b=1\n", "a = 1\n" + six + "b = 1\n", "@@ -1,8 +1,8 @@\n-a=1\n+a = 1\n same\n same\n same\n same\n same\n same\n-b=1\n+b = 1\n"},
		{"a=1\n" + six + "same\nb=1\n", "a = 1\n" + six + "same\nb = 1\n", "@@ -1,4 +1,4 @@\n-a=1\n+a = 1\n same\n same\n same\n@@ -6,4 +6,4 @@\n same\n same\n same\n-b=1\n+b = 1\n"},
	} {
		var got bytes.Buffer
		writeDiff(&got, "x", []byte(c.before), []byte(c.after))
		if want := "--- x\n+++ x\n" + c.want; got.String() != want {
			t.Errorf("got\n%swant\n%s", &got, want)
		}
	}
}
