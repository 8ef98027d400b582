package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
)

// A line of the journal of an encrypted state is sealedBegin, the sealed event
// in base64, and sealedEnd; so a line that a kill has cut is told from one that
// was changed. It is bound to its run and to where it begins in the file.
const (
	sealedBegin = `{"sealed":"`
	sealedEnd   = "\"}\n"
)

// errSealed is in the chain of an error about a journal that cannot be read.
var errSealed = errors.New("the journal does not verify")

func linePlace(run checkpoint.RunID, at int64) []byte {
	return append(binary.BigEndian.AppendUint64([]byte("journal\x00"), uint64(at)), run...)
}

// appendSealed appends the sealed form of the lines of text, the first of which
// is to begin at this offset of the journal.
func appendSealed(dst, text []byte, s *checkpoint.Sealer, run checkpoint.RunID, at int64) []byte {
	begin := len(dst)
	for line := range bytes.Lines(text) {
		sealed := s.Seal(nil, line, linePlace(run, at+int64(len(dst)-begin)))
		dst = append(dst, sealedBegin...)
		dst = base64.StdEncoding.AppendEncode(dst, sealed)
		dst = append(dst, sealedEnd...)
	}
	return dst
}

// lineReader decodes a journal line by line.
type lineReader struct {
	sealer *checkpoint.Sealer // nil if the journal is kept as it is
	run    checkpoint.RunID
	at     int64 // where the next line begins
}

// decode decodes the next line, which ends in a line break unless its writer has
// not ended it; ok is false for one that a kill has cut, or that holds no event.
func (r *lineReader) decode(line []byte) (e host.Event, ok bool, err error) {
	at := r.at
	r.at += int64(len(line))
	body, sealed := bytes.CutPrefix(line, []byte(sealedBegin))
	if sealed {
		var whole bool
		if body, whole = bytes.CutSuffix(body, []byte(sealedEnd)); !whole {
			return e, false, nil
		}
		if r.sealer == nil {
			return e, false, fmt.Errorf("%w: the line at byte %d is encrypted, and the keyring of the store is gone", errSealed, at)
		}
		text, err := base64.StdEncoding.AppendDecode(nil, body)
		if err == nil {
			line, err = r.sealer.Open(nil, text, linePlace(r.run, at))
		}
		if err != nil {
			return e, false, fmt.Errorf("%w: the line at byte %d was changed, or belongs in another place", errSealed, at)
		}
	}
	e, err = host.DecodeEvent(line)
	ok = err == nil && e.Type != ""
	if ok && !sealed && r.sealer != nil {
		return e, false, fmt.Errorf("%w: the state is encrypted, and the line at byte %d is not", errSealed, at)
	}
	return e, ok, nil
}
