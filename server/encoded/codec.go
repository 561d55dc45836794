package encoded

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// codec is protobuf's codec, but leaves received messages encoded.
type codec struct{ encoding.CodecV2 }

// NewCodec returns the codec of a server. It decodes no message: whoever receives one gets its bytes,
// and decodes them with Unmarshal, which knows what that may cost.
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

// Unmarshal implements encoding.CodecV2. A service whose messages are not received by package
// admission can't be served.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return fmt.Errorf("%T is to be decoded without a check of its cost", v)
	}
	m.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	m.Data = m.buffer.ReadOnlyData()
	return nil
}

// Unmarshal decodes a message that a caller has sent, if its lists are no longer than allowed and the
// budget, which is that of its bytes or what is left of it, suffices. The error is one of the API.
func Unmarshal(data []byte, limits cost.Limits, budget *cost.Budget, into proto.Message) error {
	if excess := cost.Of(into.ProtoReflect().Descriptor()).Wire(data, limits, budget); excess != nil {
		return apierror.Excessive(excess)
	}
	if err := proto.Unmarshal(data, into); err != nil {
		return apierror.Undecodable()
	}
	return nil
}
