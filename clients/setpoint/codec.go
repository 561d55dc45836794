package setpoint

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// streamCodec is gRPC's codec, except that an answer of a stream that can't be decoded is an error
// of its own request: as an error of the stream it would be one of all requests in flight.
type streamCodec struct{ encoding.CodecV2 }

func newStreamCodec() streamCodec { return streamCodec{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c streamCodec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	response, ok := v.(*setpointv1.StreamRecommendResponse)
	if err == nil || !ok {
		return err
	}
	proto.Reset(response)
	response.Id = streamID(data.Materialize())
	response.Result = &setpointv1.StreamRecommendResponse_Error{
		Error: status.Newf(codes.Internal, "the answer can't be decoded: %v", err).Proto(),
	}
	return nil
}

// streamID returns the id of an answer whose rest may not be readable. Empty: that isn't, either;
// then nobody gets the answer, and its caller's time runs out.
func streamID(data []byte) string {
	const field = 1 // StreamRecommendResponse.id
	number, kind, n := protowire.ConsumeTag(data)
	if n < 0 || number != field || kind != protowire.BytesType {
		return ""
	}
	id, n := protowire.ConsumeBytes(data[n:])
	if n < 0 {
		return ""
	}
	return string(id)
}
