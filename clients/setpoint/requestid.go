package setpoint

import (
	"context"
	"crypto/rand"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// identifyCalls gives an id to requests without one, before the first attempt, so that all
// attempts of a call have the same id.
func identifyCalls(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	switch r := req.(type) {
	case *setpointv1.RecommendRequest:
		req = identified(r)
	case *setpointv1.BatchRecommendRequest:
		req = &setpointv1.BatchRecommendRequest{Requests: identifiedAll(r.GetRequests())}
	}
	return invoke(ctx, method, req, reply, cc, options...)
}

// identified returns the request, or a copy with an id. A dry run records nothing and
// needs none.
func identified(req *setpointv1.RecommendRequest) *setpointv1.RecommendRequest {
	if req == nil || req.GetRequestId() != "" || req.GetDryRun() {
		return req
	}
	with := &setpointv1.RecommendRequest{}
	copyFields(with, req)
	with.RequestId = newRequestID()
	return with
}

func identifiedAll(requests []*setpointv1.RecommendRequest) []*setpointv1.RecommendRequest {
	all := make([]*setpointv1.RecommendRequest, len(requests))
	for i, req := range requests {
		all[i] = identified(req)
	}
	return all
}

// newRequestID returns a random UUID.
func newRequestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// copyFields copies the fields of a message to an empty one of its type. Both share deeper
// values, such as pods, of which there may be thousands.
func copyFields(to, from proto.Message) {
	into := to.ProtoReflect()
	from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		into.Set(field, value)
		return true
	})
	into.SetUnknown(from.ProtoReflect().GetUnknown())
}
