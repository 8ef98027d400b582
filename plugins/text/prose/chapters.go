package prose

import (
	"regexp"
	"strings"
	"unicode"
)

// Chapter is a part of a text.
type Chapter struct {
	Number  int    `json:"number"` // counts from 1
	Title   string `json:"title"`  // the heading on one line; empty when the text has no headings
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// line is one line of the text; text[start:end] includes its line break.
type line struct {
	start, end int
	text       string // without surrounding space
}

func scan(text string) []line {
	var lines []line
	for at := 0; at < len(text); {
		end := len(text)
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		lines = append(lines, line{at, end, trim(text[at:end])})
		at = end
	}
	return lines
}

var (
	// The kinds of heading, with the number in figures, Roman numerals or words.
	named   = regexp.MustCompile(`(?i)^(?:chapter|book|part|adventure|letter|stave|canto|act|section|kapitel|chapitre|capítulo|capitolo|глава|часть)\s+(?:the\s+)?(?:\d+|[ivxlcdm]+|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last))(?:[\s.:,—–-].*)?$`)
	titled  = regexp.MustCompile(`^[IVXLC]+\.\s+\p{Lu}`)
	chinese = regexp.MustCompile(`^第\s*[〇零一二三四五六七八九十百千兩两\d０-９]+\s*[章回卷節节部篇幕話话折集]`)
	hashes  = regexp.MustCompile(`^#{1,3}\s+\S`)
	digits  = regexp.MustCompile(`^(?:[IVXLC]+|\d{1,3})\.?$`)
)

const (
	longestHeading        = 90 // runes
	longestChineseHeading = 40
)

// span is a heading: lines[from:to].
type span struct{ from, to int }

// headings finds the lines that are headings. Numbers alone count only in a
// text that has nothing better, since they also mark sections of a chapter.
func headings(lines []line) []span {
	var good, numbers []span
	for i := 0; i < len(lines); i++ {
		switch n := headingAt(lines, i); {
		case n > 0:
			good = append(good, span{i, i + n})
			i += n - 1
		case digits.MatchString(lines[i].text) && blank(lines, i-1) && blank(lines, i+1):
			numbers = append(numbers, span{i, i + 1})
		}
	}
	if len(good) == 0 {
		return numbers
	}
	return good
}

// headingAt returns how many lines the heading at line i has, 0 when there is
// none. A heading stands alone, on one line or two, so that tables of contents
// and sentences that begin with "Chapter IV" are none; a Chinese one needs no
// blank lines around it but has no full stop.
func headingAt(lines []line, i int) int {
	t := lines[i].text
	runes := len([]rune(t))
	switch {
	case t == "" || runes > longestHeading:
		return 0
	case chinese.MatchString(t):
		if runes > longestChineseHeading || strings.ContainsAny(t, "。！？，") {
			return 0
		}
		return 1
	case hashes.MatchString(t):
		return 1
	case !named.MatchString(t) && !titled.MatchString(t), !blank(lines, i-1):
		return 0
	case blank(lines, i+1):
		return 1
	case blank(lines, i+2) && !named.MatchString(lines[i+1].text) && !titled.MatchString(lines[i+1].text):
		return 2
	}
	return 0
}

func blank(lines []line, i int) bool { return i < 0 || i >= len(lines) || lines[i].text == "" }

// Chapters cuts a text at its headings. A heading with nothing below it, as in a table
// of contents, belongs to what is before it. Nothing is lost: front followed by each
// chapter's Heading and Text is the text, byte for byte.
func Chapters(text string) (front string, chapters []Chapter) {
	lines := scan(text)
	heads := headings(lines)
	end, next := len(text), len(text) // of the chapter, and of the part below this heading
	for i := len(heads) - 1; i >= 0; i-- {
		from, to := lines[heads[i].from].start, lines[heads[i].to-1].end
		if CountWords(text[to:next]) > 0 {
			heading := text[from:to]
			title := strings.TrimSpace(strings.TrimLeft(strings.Join(strings.Fields(trim(heading)), " "), "#"))
			chapters = append(chapters, Chapter{Title: title, Heading: heading, Text: text[to:end]})
			end = from
		}
		next = from
	}
	if len(chapters) == 0 {
		return "", []Chapter{{Number: 1, Text: text}}
	}
	for i, j := 0, len(chapters)-1; i < j; i, j = i+1, j-1 {
		chapters[i], chapters[j] = chapters[j], chapters[i]
	}
	for i := range chapters {
		chapters[i].Number = i + 1
	}
	return text[:end], chapters
}

// CountWords counts words; in scripts that write no spaces, characters.
func CountWords(s string) int {
	n, in := 0, false
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			n, in = n+1, false
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if !in {
				n, in = n+1, true
			}
		case r != '\'' && r != '’' && r != '-' && !unicode.IsMark(r):
			in = false
		}
	}
	return n
}

// FirstLine is the first line that is not blank, without the marks of a heading; a long
// one is cut.
func FirstLine(text string) string {
	for _, l := range scan(text) {
		if r := []rune(l.text); len(r) > longestHeading {
			return string(r[:longestHeading-1]) + "…"
		} else if len(r) > 0 {
			return strings.TrimSpace(strings.TrimLeft(l.text, "#"))
		}
	}
	return ""
}

// trim also removes a byte order mark.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' })
}
