package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// message is a message that stays encoded on its way between gRPC and a handler,
// which reads it the short way where it can (see package wire).
type message struct {
	data   []byte
	buffer mem.Buffer // of data, where it is gRPC's
	lent   *[]byte    // of the pool, where data was begun in it
	// unsent counts an answer until it is sent; nil: nothing does. counted says that it does
	// so already.
	unsent  *unfinished.Answers
	counted bool
	// pass is a request's place among those that are worked on, see readEncoded.
	pass gate.Pass
}

// EncodedLen is the length of the message, in bytes.
func (m *message) EncodedLen() int {
	if m == nil {
		return 0
	}
	return len(m.data)
}

// newAnswer returns an empty message to append an answer to. Its memory is used again
// when the answer has been sent.
func newAnswer() *message {
	lent := mem.DefaultBufferPool().Get(usualAnswer)
	return &message{data: (*lent)[:0], lent: lent}
}

// usualAnswer is what most answers fit into, in bytes.
const usualAnswer = 1 << 10

// sent returns the data as gRPC sends it, and the memory with it.
func (m *message) sent() mem.Buffer {
	lent, counted := m.lent, m.counted
	m.lent, m.counted = nil, false
	switch {
	case lent == nil:
		return countedBuffer(&m.data, nil, m.unsent, counted)
	case cap(m.data) != cap(*lent): // it has outgrown the pool's
		mem.DefaultBufferPool().Put(lent)
		return countedBuffer(&m.data, nil, m.unsent, counted)
	}
	*lent = m.data
	return countedBuffer(lent, mem.DefaultBufferPool(), m.unsent, counted)
}

// count has an answer that is complete counted from now on, before gRPC gets it.
func (m *message) count(answers *unfinished.Answers) {
	if cap(m.data) >= leastCounted {
		m.unsent, m.counted = answers, true
		answers.Begin(len(m.data))
	}
}

// free gives memory back that is another's. The data must not be used any more.
func (m *message) free() {
	m.pass.Leave()
	if m.counted {
		m.unsent.End(len(m.data))
		m.counted = false
	}
	if m.buffer != nil {
		m.buffer.Free()
		m.buffer, m.data = nil, nil
	}
	if m.lent != nil {
		mem.DefaultBufferPool().Put(m.lent)
		m.lent, m.data = nil, nil
	}
}

// parsed is a message that is decoded, or why it could not be.
type parsed struct {
	into any
	err  error
}

// codec is that of protobuf, but leaves messages as they are.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(encodingproto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return mem.BufferSlice{m.sent()}, nil
	}
	if a, ok := v.(*countedAnswer); ok {
		return a.marshal(c.CodecV2)
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*message); ok {
		m.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
		m.data = m.buffer.ReadOnlyData()
		return nil
	}
	if p, ok := v.(*parsed); ok {
		p.err = c.CodecV2.Unmarshal(data, p.into)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// encodedService is the service as gRPC serves it: its recommendations take and
// return encoded messages.
func encodedService() *grpc.ServiceDesc {
	desc := setpointv1.RecommendationService_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range desc.Methods {
		switch desc.Methods[i].MethodName {
		case "Recommend":
			desc.Methods[i].Handler = encodedHandler(setpointv1.RecommendationService_Recommend_FullMethodName, (*recommendationService).recommendEncoded)
		case "BatchRecommend":
			desc.Methods[i].Handler = encodedHandler(setpointv1.RecommendationService_BatchRecommend_FullMethodName, (*recommendationService).batchEncoded)
		case "ReportObservation":
			desc.Methods[i].Handler = encodedHandler(setpointv1.RecommendationService_ReportObservation_FullMethodName, reportObservation.answer)
		}
	}
	desc.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for i := range desc.Streams {
		if desc.Streams[i].StreamName == "StreamRecommend" {
			desc.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
				return srv.(*recommendationService).streamEncoded(stream)
			}
		}
	}
	return &desc
}

// encodedHandler is what protoc-gen-go-grpc generates, for encoded messages.
func encodedHandler[S any](method string, call func(S, context.Context, *message) (*message, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(message)
		if err := decode(in); err != nil {
			return nil, err
		}
		defer in.free()
		handle := func(ctx context.Context, req any) (any, error) {
			answer, err := call(srv.(S), ctx, req.(*message))
			if err != nil {
				return nil, err
			}
			return answer, nil
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, handle)
	}
}

func (s *recommendationService) recommendEncoded(ctx context.Context, req *message) (*message, error) {
	var j decision.Job
	s.targets.ReadEncoded(ctx, access.CallerOf(ctx), &j, req.data, ticketOf(ctx), &req.pass)
	defer j.Release()
	calls.NoteTarget(ctx, j.Target)
	s.targets.Trace(ctx, &j)
	s.targets.Recommend(ctx, &j)
	s.targets.Answered(ctx, &j)
	answer := newAnswer()
	var err error
	if answer.data, err = j.Encode(answer.data); err != nil {
		answer.free()
		return nil, err
	}
	return answer, nil
}

func (s *recommendationService) batchEncoded(ctx context.Context, req *message) (*message, error) {
	requests, ok := findRequests(req.data, s.targets.Options.MaxBatch)
	if !ok {
		return nil, apierror.Undecodable()
	}
	if err := s.checkBatch(len(requests)); err != nil {
		return nil, err
	}
	if err := charge(ctx, len(requests)); err != nil {
		return nil, err
	}
	jobs := make([]decision.Job, len(requests))
	if err := s.targets.ReadBatch(ctx, jobs, requests, len(req.data), ticketOf(ctx), &req.pass); err != nil {
		return nil, err
	}
	s.targets.TraceAll(ctx, jobs)
	s.targets.RecommendAll(ctx, jobs)
	s.targets.AnsweredAll(ctx, jobs)
	var answer []byte
	for i := range jobs {
		if answer = jobs[i].Result(answer); i == 0 {
			// Answers of one batch are of much the same size.
			answer = append(make([]byte, 0, (len(answer)+64)*len(jobs)), answer...)
		}
		jobs[i].Release()
	}
	return &message{data: answer}, nil
}
