package wire

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// FuzzFrame: what the codec makes of any bytes, in pieces of any size, is what
// protobuf makes of them, and what it writes is what protobuf writes.
func FuzzFrame(f *testing.F) {
	big := make([]byte, 3*smallPiece)
	for _, m := range []*Frame{{}, {Kind: Kind_CANCEL}, {Kind: Kind_CALL, Id: 1 << 31, More: true, Data: []byte("data")}, {Kind: Kind_RESPONSE, Data: big}, {Kind: -1}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(7))
		f.Add(b, uint16(smallPiece))
		f.Add(b, uint16(0))
	}
	f.Add([]byte("\x22\x01x\x08\x01"), uint16(1))         // data first
	f.Add([]byte("\x08\x01\x08\x02\x22\x00"), uint16(1))  // kind twice
	f.Add([]byte("\x22\x01x\x22\x01y"), uint16(0))        // data twice
	f.Add([]byte("\x28\x01\x22\x01x"), uint16(2))         // a field of a later version
	f.Add([]byte("\x18\xff\xff\x01\x22\x05x"), uint16(2)) // cut off
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		var pieces mem.BufferSlice
		for rest := b; len(rest) > 0; {
			n := len(rest)
			if size > 0 {
				n = min(n, int(size))
			}
			pieces = append(pieces, mem.SliceBuffer(rest[:n]))
			rest = rest[n:]
		}
		var want Frame
		var got frame
		wantErr, err := proto.Unmarshal(b, &want), codec{}.Unmarshal(pieces, &got)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, protobuf says %v", err, wantErr)
		}
		if err != nil {
			return
		}
		data := bytes.Join(got.data, nil)
		if got.kind != want.Kind || got.id != want.Id || got.more != want.More || got.size != len(data) || !bytes.Equal(data, want.Data) {
			t.Fatalf("%+v, protobuf reads %+v", got, &want)
		}
		if len(got.data) > 1+got.size/smallPiece {
			t.Fatalf("%d bytes in %d pieces", got.size, len(got.data))
		}
		written, err := codec{}.Marshal(&got)
		if err != nil {
			t.Fatal(err)
		}
		want.ProtoReflect().SetUnknown(nil)
		plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(&want)
		var back Frame
		if err != nil || proto.Unmarshal(written.Materialize(), &back) != nil || !proto.Equal(&back, &want) || want.Kind != 0 && !bytes.Equal(written.Materialize(), plain) {
			t.Fatalf("%x, protobuf writes %x, %v", written.Materialize(), plain, err)
		}
	})
}

// What is no frame is protobuf's: go-plugin has services of its own on the
// connection.
func TestCodecLeavesOtherMessages(t *testing.T) {
	t.Parallel()
	m := &Frame{Kind: Kind_REPLY, Id: 7, Data: []byte(strings.Repeat("x", 100))}
	b, err := codec{}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Frame
	if err := (codec{}).Unmarshal(b, &back); err != nil || !proto.Equal(m, &back) {
		t.Errorf("%v, %v", &back, err)
	}
	if _, err := (codec{}).Marshal("text"); err == nil {
		t.Error("a text was written")
	}
	if (codec{}).Name() != encoding.GetCodecV2(protocodec.Name).Name() {
		t.Error("another codec's name: plugins in other languages refuse it")
	}
}
