package wire

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// frame is a Frame whose data lies in pieces, so that a message is copied when it
// has arrived and not at every hand that it goes through.
type frame struct {
	kind Kind
	id   uint32
	more bool
	size int
	data [][]byte        // of size bytes together
	held mem.BufferSlice // what data of a frame that was received lies in; nil if it is its own
}

// codec is what protobuf makes of a Frame, for frames; everything else is left to
// protobuf.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// Name is that of gRPC's own codec: the bytes are the same.
func (codec) Name() string { return proto.Name }

// The fields of Frame in step.proto.
const (
	fieldKind protowire.Number = iota + 1
	fieldID
	fieldMore
	fieldData
)

// maxHead is what goes before the data of a frame at most.
const maxHead = 4*1 + 5 + 5 + 1 + 4

// smallPiece is the size of pieces that are not worth their keep: each holds a
// buffer that may be twice as large, and some words to find it.
const smallPiece = 8 << 10

// Marshal copies the data of a CALL, which is the step's again when the attempt
// has ended, and no other data: that must not change any more.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Marshal(v)
	}
	head := make([]byte, 0, maxHead)
	head = protowire.AppendTag(head, fieldKind, protowire.VarintType)
	head = protowire.AppendVarint(head, uint64(f.kind))
	if f.id != 0 {
		head = protowire.AppendTag(head, fieldID, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(f.id))
	}
	if f.more {
		head = protowire.AppendTag(head, fieldMore, protowire.VarintType)
		head = protowire.AppendVarint(head, 1)
	}
	out := append(make(mem.BufferSlice, 0, 1+len(f.data)), nil)
	if f.size > 0 {
		head = protowire.AppendTag(head, fieldData, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(f.size))
		for _, d := range f.data {
			if f.kind == Kind_CALL {
				out = append(out, mem.Copy(d, mem.DefaultBufferPool()))
			} else {
				out = append(out, mem.SliceBuffer(d))
			}
		}
	}
	out[0] = mem.SliceBuffer(head)
	return out, nil
}

// Unmarshal keeps the data where it is, unless it came in many small pieces. A
// frame that lies otherwise than Marshal writes it is read by protobuf.
func (codec) Unmarshal(b mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(b, v)
	}
	*f = frame{}
	at, ok := f.head(b)
	if !ok {
		var plain Frame
		if err := encoding.GetCodecV2(proto.Name).Unmarshal(b, &plain); err != nil {
			return err
		}
		*f = frame{kind: plain.Kind, id: plain.Id, more: plain.More, size: len(plain.Data)}
		if f.size > 0 {
			f.data = [][]byte{plain.Data}
		}
		return nil
	}
	for _, piece := range b {
		d := piece.ReadOnlyData()
		skip := min(at, len(d))
		at -= skip
		if d = d[skip:]; len(d) > 0 {
			f.data = append(f.data, d)
		}
	}
	if f.size < smallPiece*len(f.data) {
		f.data = [][]byte{bytes.Join(f.data, nil)}
		return nil
	}
	b.Ref()
	f.held = b
	return nil
}

// head reads what goes before the data and says where that begins. It is not ok
// if the fields are others, or in another order.
func (f *frame) head(b mem.BufferSlice) (at int, ok bool) {
	var buf [maxHead]byte
	head := buf[:b.CopyTo(buf[:])]
	last := protowire.Number(0)
	for at < b.Len() {
		number, kind, n := protowire.ConsumeTag(head[at:])
		if n < 0 || number <= last || number > fieldData || (number == fieldData) != (kind == protowire.BytesType) || number != fieldData && kind != protowire.VarintType {
			return 0, false
		}
		last = number
		at += n
		value, n := protowire.ConsumeVarint(head[at:])
		if n < 0 {
			return 0, false
		}
		at += n
		switch number {
		case fieldKind:
			f.kind = Kind(int32(value))
		case fieldID:
			f.id = uint32(value)
		case fieldMore:
			f.more = value != 0
		case fieldData:
			if value != uint64(b.Len()-at) {
				return 0, false
			}
			f.size = int(value)
			return at, true
		}
	}
	return at, at == b.Len()
}
