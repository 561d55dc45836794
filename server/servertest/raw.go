package servertest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Unusual makes an encoded message take the slow path: by a field that is not
// known, as a newer caller's would have.
func Unusual(data []byte) []byte {
	return protowire.AppendVarint(protowire.AppendTag(data[:len(data):len(data)], 1000, protowire.VarintType), 1)
}

// RawCodec sends and receives bytes as they are.
type RawCodec struct{}

// Marshal implements encoding.CodecV2, as do the others.
func (RawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal takes a *[]byte.
func (RawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name is that of the usual codec.
func (RawCodec) Name() string { return "proto" }

// SendRaw calls a method with an encoded message.
func (s *Service) SendRaw(ctx context.Context, method string, data []byte) (answer []byte, err error) {
	err = s.Conn.Invoke(ctx, method, &data, &answer, grpc.ForceCodecV2(RawCodec{}), grpc.MaxCallRecvMsgSize(256<<20))
	return answer, err
}

// StreamRaw sends one encoded message on a stream and takes the answer.
func (s *Service) StreamRaw(ctx context.Context, data []byte) (answer []byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Conn.NewStream(ctx, &setpointv1.RecommendationService_ServiceDesc.Streams[0],
		setpointv1.RecommendationService_StreamRecommend_FullMethodName, grpc.ForceCodecV2(RawCodec{}), grpc.MaxCallRecvMsgSize(256<<20))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&data); err != nil {
		return nil, err
	}
	return answer, stream.RecvMsg(&answer)
}

// UnaryMethod and BatchedMethod are those of gRPC.
const (
	UnaryMethod   = setpointv1.RecommendationService_Recommend_FullMethodName
	BatchedMethod = setpointv1.RecommendationService_BatchRecommend_FullMethodName
)
