package hcl

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/apparentlymart/go-textseg/v15/textseg"
	"golang.org/x/text/width"
)

const tabWidth = 4

// visible makes text safe for a terminal: control characters and those that
// reorder a line are written as escapes, tabs become spaces.
func visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString(strings.Repeat(" ", tabWidth))
		case hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// cells is how many columns of a terminal visible text takes.
func cells(s string) int {
	n := 0
	for b := []byte(s); len(b) > 0; {
		adv, cluster, err := textseg.ScanGraphemeClusters(b, true)
		if err != nil || adv == 0 {
			return n + len(b)
		}
		n += clusterWidth(string(cluster))
		b = b[adv:]
	}
	return n
}

// clusterWidth is the width of one character as a reader sees it: that of its
// widest rune, two for an emoji, none for a lone combining mark.
func clusterWidth(cluster string) int {
	w, emoji := 0, false
	for _, r := range cluster {
		switch {
		case r == 0xFE0F: // asks for the emoji form
			emoji = true
		case unicode.Is(unicode.Mn, r), unicode.Is(unicode.Me, r), unicode.Is(unicode.Cf, r):
		case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
			w = 2
		case r >= 0x1F1E6 && r <= 0x1F1FF: // a pair of these is a flag
			w = 2
		default:
			w = max(w, 1)
		}
	}
	if emoji && w > 0 {
		return 2
	}
	return w
}

// wrap breaks the paragraphs of s so that no line is wider than n; 0 is no
// limit. Lines that begin with a space are left as they are.
func wrap(s string, n int) []string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		if n <= 0 || strings.HasPrefix(line, " ") || cells(line) <= n {
			out = append(out, line)
			continue
		}
		var cur strings.Builder
		used := 0
		for word := range strings.FieldsSeq(line) {
			w := cells(word)
			if used > 0 && used+1+w > n {
				out = append(out, cur.String())
				cur.Reset()
				used = 0
			}
			if used > 0 {
				cur.WriteByte(' ')
				used++
			}
			cur.WriteString(word)
			used += w
		}
		out = append(out, cur.String())
	}
	return out
}
