package encoded

import (
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/setpoint-dev/setpoint/server/apierror"
)

// parsed is a message that is decoded, or why it could not be.
type parsed struct {
	into any
	err  error
}

// codec is that of protobuf, but leaves messages as they are.
type codec struct{ encoding.CodecV2 }

// NewCodec returns the codec of a server whose handlers take messages encoded.
func NewCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(encodingproto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*Message); ok {
		return mem.BufferSlice{m.sent()}, nil
	}
	if a, ok := v.(*countedAnswer); ok {
		return a.marshal(c.CodecV2)
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*Message); ok {
		m.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
		m.Data = m.buffer.ReadOnlyData()
		return nil
	}
	if p, ok := v.(*parsed); ok {
		p.err = c.CodecV2.Unmarshal(data, p.into)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Decode reads a message with what gRPC gives a handler to do so. gRPC answers a message that
// does not parse with INTERNAL, as if the server were at fault, and it does so at once; the
// codec therefore does not tell gRPC of such messages.
func Decode(v any, decode func(any) error) error {
	if _, is := v.(*Message); is {
		return decode(v)
	}
	p := &parsed{into: v}
	if err := decode(p); err != nil {
		return err
	}
	if p.err != nil {
		return apierror.Undecodable()
	}
	return nil
}
