package rest

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/protofields"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/services"
	"github.com/setpoint-dev/setpoint/server/transcode"
)

// fastPath serves recommendations over REST without the gateway: it transcodes JSON to an
// encoded message, passes it through the interceptors of gRPC, and transcodes the encoded
// response to JSON. All other calls use the gateway, which defines what a REST call means.
type fastPath struct {
	options *Options
	mux     *runtime.ServeMux
	calls   map[string]*fastCall // by the method of gRPC
}

// fastCall is one of the calls that can take the fast path.
type fastCall struct {
	method string
	// named reports whether the path names the target.
	named             bool
	handle            func(*services.Recommendations, context.Context, *encoded.Message) (*encoded.Message, error)
	request, response *transcode.Message
	answer            func() proto.Message
}

func (g *Gateway) newFastPath(mux *runtime.ServeMux) *fastPath {
	recommend := newFastCall(setpointv1.RecommendationService_Recommend_FullMethodName, (*services.Recommendations).RecommendEncoded,
		&setpointv1.RecommendRequest{}, &setpointv1.RecommendResponse{})
	recommend.named = true
	batch := newFastCall(setpointv1.RecommendationService_BatchRecommend_FullMethodName, (*services.Recommendations).BatchEncoded,
		&setpointv1.BatchRecommendRequest{}, &setpointv1.BatchRecommendResponse{})
	return &fastPath{options: &g.options, mux: mux, calls: map[string]*fastCall{recommend.method: recommend, batch.method: batch}}
}

func newFastCall(method string, handle func(*services.Recommendations, context.Context, *encoded.Message) (*encoded.Message, error), request, response proto.Message) *fastCall {
	return &fastCall{
		method: method, handle: handle,
		request:  transcode.Of(request.ProtoReflect().Descriptor()),
		response: transcode.Of(response.ProtoReflect().Descriptor()),
		answer:   func() proto.Message { return response.ProtoReflect().New().Interface() },
	}
}

// target returns the name of the target in a call's path; "" for a batch. It is false for a call
// that must use the gateway: an invalid name may be an escaped one, which the gateway refuses with an
// explanation.
func (c *fastCall) target(r *http.Request) (name string, ok bool) {
	if r.URL.RawPath != "" || r.Header.Get("Grpc-Timeout") != "" {
		return "", false
	}
	if !c.named {
		return "", true
	}
	path := r.URL.Path
	name = path[len("/v1/"):strings.LastIndexByte(path, ':')]
	_, ok = target.Parse(name)
	return name, ok
}

// buffers are the buffers of requests and responses during a call.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// mostKept is the size of the largest buffer that is pooled, in bytes.
const mostKept = 1 << 20

func giveBack(buffer *[]byte) {
	if cap(*buffer) <= mostKept {
		buffers.Put(buffer)
	}
}

// answer serves a request with that body; false: the request can't take the fast path, and
// nothing was done.
func (w *fastPath) answer(call *fastCall, out http.ResponseWriter, r *http.Request, body []byte) bool {
	target, ok := call.target(r)
	if !ok {
		return false
	}
	req := new(encoded.Message)
	defer req.Free()
	if requests.IsLargeJSON(body) {
		if err := w.options.Requests.Enter(r.Context(), limit.TicketOf(r.Context()), admission.RESTNameOf(r.Context()), &req.Pass, true); err != nil {
			w.refuse(r.Context(), out, r, err)
			return true
		}
	}
	buffer := buffers.Get().(*[]byte)
	defer giveBack(buffer)
	data, ok := call.encode((*buffer)[:0], target, body)
	*buffer = data
	if !ok || len(data) > w.options.MaxRequestBytes {
		return false
	}
	req.Data = data
	ctx := metadata.NewIncomingContext(r.Context(), admission.RESTMetadata(r))
	answer, err := w.invoke(ctx, call, req)
	if err != nil {
		w.refuse(ctx, out, r, err)
		return true
	}
	defer answer.Free()
	w.write(ctx, out, r, call, req, answer.Data)
	return true
}

// encode appends the encoded request. The name of the target comes from the path; a body with a
// target is left to the gateway.
func (c *fastCall) encode(b []byte, target string, body []byte) ([]byte, bool) {
	if target == "" {
		return c.request.AppendWire(b, body)
	}
	b = protowire.AppendTag(b, targetField, protowire.BytesType)
	b = protowire.AppendString(b, target)
	begin := len(b)
	b, ok := c.request.AppendWire(b, body)
	return b, ok && !hasField(b[begin:], targetField)
}

// targetField is RecommendRequest.target.
const targetField protowire.Number = 1

// hasField reports whether an encoded message has a field, or is invalid.
func hasField(data []byte, field protowire.Number) bool {
	var invalid error
	for f := range protofields.Of(data, &invalid) {
		if f.Number == field {
			return true
		}
	}
	return invalid != nil
}

// invoke makes the call as gRPC does.
func (w *fastPath) invoke(ctx context.Context, call *fastCall, req *encoded.Message) (*encoded.Message, error) {
	calls.NoteRPC(ctx)
	info := &grpc.UnaryServerInfo{Server: w.options.Recommendations, FullMethod: call.method}
	ctx, ended := w.options.Observer.Traced(admittedFromREST(ctx), call.method)
	answer, err := w.options.Unary(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return call.handle(w.options.Recommendations, ctx, req.(*encoded.Message))
	})
	ended(err)
	if err != nil {
		return nil, err
	}
	return answer.(*encoded.Message), nil
}

// refuse sends an error as the gateway does.
func (w *fastPath) refuse(ctx context.Context, out http.ResponseWriter, r *http.Request, err error) {
	_, marshaler := runtime.MarshalerForRequest(w.mux, r)
	ctx = runtime.NewServerMetadataContext(ctx, runtime.ServerMetadata{})
	runtime.HTTPError(ctx, w.mux, marshaler, out, r, statusOf(err))
}

// write sends a message as the response.
func (w *fastPath) write(ctx context.Context, out http.ResponseWriter, r *http.Request, call *fastCall, req *encoded.Message, encoded []byte) {
	buffer := buffers.Get().(*[]byte)
	defer giveBack(buffer)
	text, ok := call.response.AppendJSON((*buffer)[:0], encoded)
	*buffer = text
	if !ok {
		answer := call.answer()
		err := proto.Unmarshal(encoded, answer)
		if err == nil {
			text, err = new(restjson.Marshaler).Marshal(answer)
		}
		if err != nil {
			w.refuse(ctx, out, r, err)
			return
		}
	}
	req.Pass.Leave() // the text is counted while it is written
	out.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(text)
}
