package hcl

import "bytes"

// lineAt returns the line that holds byte at, without its end, and where it
// begins.
func lineAt(src []byte, at int) (line []byte, start int) {
	at = max(0, min(at, len(src)))
	start = bytes.LastIndexByte(src[:at], '\n') + 1
	end := len(src)
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		end = at + i
	}
	return bytes.TrimSuffix(src[start:end], []byte("\r")), start
}
