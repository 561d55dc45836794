package encoded

import (
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/setpoint-dev/setpoint/server/apierror"
)

// parsed is a decoded message, or the error of decoding it.
type parsed struct {
	into any
	err  error
}

// codec is protobuf's codec, but leaves messages encoded.
type codec struct{ encoding.CodecV2 }

// NewCodec returns the codec of a server whose handlers use encoded messages.
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

// Decode decodes a message with the function that gRPC passes to a handler. The codec itself
// reports no error to gRPC, because gRPC would respond with INTERNAL at once, as if the
// server were at fault.
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
