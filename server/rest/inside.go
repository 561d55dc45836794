package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/waits"
)

// inside is the connection of the gateway: it calls the services in this process, through the
// interceptors of gRPC. The caller, the REST call's ticket and its deadline are values of the
// context, so that each is determined once.
type inside struct {
	options *Options
	unary   map[string]insideCall
	streams map[string]insideStream
}

type insideCall struct {
	service any
	handler grpc.MethodHandler
}

type insideStream struct {
	service any
	desc    grpc.StreamDesc
}

func newInside(options *Options) *inside {
	return &inside{options: options, unary: make(map[string]insideCall), streams: make(map[string]insideStream)}
}

// add adds the methods of a service.
func (c *inside) add(desc *grpc.ServiceDesc, service any) {
	for _, m := range desc.Methods {
		c.unary["/"+desc.ServiceName+"/"+m.MethodName] = insideCall{service, m.Handler}
	}
	for _, m := range desc.Streams {
		c.streams["/"+desc.ServiceName+"/"+m.StreamName] = insideStream{service, m}
	}
}

// insideAddr is the peer address of calls within the process.
type insideAddr struct{}

// Network implements net.Addr, as does String.
func (insideAddr) Network() string { return calls.GatewayNetwork }
func (insideAddr) String() string  { return calls.GatewayNetwork }

var insidePeer = peer.Peer{Addr: insideAddr{}}

// admittedFromREST returns the context of a call that REST makes in the process, with its peer and
// the ticket of the REST call.
func admittedFromREST(ctx context.Context) context.Context {
	ctx = peer.NewContext(ctx, &insidePeer)
	if ticket := limit.TicketOf(ctx); ticket != nil {
		ctx = admission.WithTicket(ctx, ticket)
	}
	return ctx
}

// gatewayContext returns the context of a call over the gateway, with its metadata.
func gatewayContext(ctx context.Context, meta *insideMetadata) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewIncomingContext(ctx, md)
	return grpc.NewContextWithServerTransportStream(ctx, meta)
}

// statusOf returns an error as a gRPC status.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}

// checkSize refuses a request that gRPC would refuse, by its encoded size. A message may be
// longer than the body, because names come from the path.
func (c *inside) checkSize(size int) error {
	most := c.options.MaxRequestBytes
	if size <= most {
		return nil
	}
	return apierror.OverLimit("maxRequestBytes", most, fmt.Sprintf("the body's message has %d bytes, more than %d", size, most))
}

// answerTo returns the error of a request that was not passed on. For a message that is
// too large the gateway's status, 429, would invite a retry.
func answerTo(err error) error {
	if status.Code(err) != codes.ResourceExhausted {
		return err
	}
	return &runtime.HTTPStatusError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: err}
}

func unknownMethod(method string) error {
	return status.Error(codes.Unimplemented, "unknown method "+apierror.Clip(method))
}

// Invoke implements grpc.ClientConnInterface.
func (c *inside) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	call, ok := c.unary[method]
	if !ok {
		return unknownMethod(method)
	}
	meta := &insideMetadata{method: method}
	ctx, ended := c.options.Observer.Traced(admittedFromREST(gatewayContext(ctx, meta)), method)
	var refused error
	answer, err := call.handler(call.service, ctx, func(into any) error {
		refused = c.pass(request, into)
		return refused
	}, c.reached)
	ended(err)
	if refused != nil {
		return refused
	}
	meta.tell(options)
	if err != nil {
		return statusOf(err)
	}
	return handOver(answer, reply)
}

// reached runs the interceptors.
func (c *inside) reached(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	calls.NoteRPC(ctx)
	return c.options.Unary(ctx, req, info, handler)
}

// pass passes a request to the handler as gRPC would: encoded if the handler reads encoded messages,
// else decoded after the same check.
func (c *inside) pass(request, into any) error {
	data, err := proto.Marshal(request.(proto.Message))
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := c.checkSize(len(data)); err != nil {
		return answerTo(err)
	}
	if m, ok := into.(*encoded.Message); ok {
		m.Data = data
		return nil
	}
	return encoded.Unmarshal(data, c.options.CostLimits, cost.BudgetOf(len(data)), into.(proto.Message))
}

// handOver passes a response to the gateway.
func handOver(answer, reply any) error {
	if m, ok := answer.(*encoded.Message); ok {
		defer m.Free()
		return proto.Unmarshal(m.Data, reply.(proto.Message))
	}
	proto.Merge(reply.(proto.Message), answer.(proto.Message))
	return nil
}

// insideMetadata are the headers and trailers of a call. It is the call's
// grpc.ServerTransportStream.
type insideMetadata struct {
	method string

	mu              sync.Mutex
	header, trailer metadata.MD // guarded by mu
}

// Method implements grpc.ServerTransportStream, as do those below.
func (m *insideMetadata) Method() string { return m.method }

// SetHeader adds headers.
func (m *insideMetadata) SetHeader(md metadata.MD) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.header = metadata.Join(m.header, md)
	return nil
}

// SendHeader adds headers: they go with the answer.
func (m *insideMetadata) SendHeader(md metadata.MD) error { return m.SetHeader(md) }

// SetTrailer adds trailers.
func (m *insideMetadata) SetTrailer(md metadata.MD) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trailer = metadata.Join(m.trailer, md)
	return nil
}

// get returns the current headers and trailers.
func (m *insideMetadata) get() (header, trailer metadata.MD) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.header.Copy(), m.trailer.Copy()
}

// tell sets the results of call options.
func (m *insideMetadata) tell(options []grpc.CallOption) {
	header, trailer := m.get()
	for _, o := range options {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = trailer
		}
	}
}

// NewStream implements grpc.ClientConnInterface. The handler runs until it has sent all
// responses, or until the context ends.
func (c *inside) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	call, ok := c.streams[method]
	if !ok {
		return nil, unknownMethod(method)
	}
	p := &pipe{
		inside: c, requests: make(chan any, 1), answers: make(chan any),
		begun: make(chan struct{}), ended: make(chan struct{}), meta: &insideMetadata{method: method},
	}
	var finish func(error)
	calls.NoteRPC(ctx)
	// As over gRPC, a stream holds nothing that other calls need: it is bounded as a stream.
	waits.Release(ctx)
	p.ctx, finish = c.options.Observer.Traced(peer.NewContext(gatewayContext(ctx, p.meta), &insidePeer), method)
	info := &grpc.StreamServerInfo{FullMethod: method, IsClientStream: call.desc.ClientStreams, IsServerStream: call.desc.ServerStreams}
	go func() {
		defer close(p.ended)
		p.err = c.options.Streams(call.service, pipeIn{p}, info, call.desc.Handler)
		finish(p.err)
		p.begin()
	}()
	return pipeOut{p}, nil
}

// pipe is a stream between the gateway and a handler.
type pipe struct {
	inside   *inside
	ctx      context.Context
	requests chan any
	answers  chan any
	meta     *insideMetadata
	once     sync.Once
	begun    chan struct{} // closed when the headers are complete
	ended    chan struct{} // closed when the handler has ended with err
	err      error
	refused  error // the request was not passed on; read by others when the handler has ended
}

func (p *pipe) begin() { p.once.Do(func() { close(p.begun) }) }

// pipeIn is the handler's end.
type pipeIn struct{ *pipe }

// Context implements grpc.ServerStream, as do those below.
func (p pipeIn) Context() context.Context       { return p.ctx }
func (p pipeIn) SetHeader(md metadata.MD) error { return p.meta.SetHeader(md) }
func (p pipeIn) SetTrailer(md metadata.MD)      { _ = p.meta.SetTrailer(md) }
func (p pipeIn) SendHeader(md metadata.MD) error {
	defer p.begin()
	return p.meta.SetHeader(md)
}

// RecvMsg receives a request.
func (p pipeIn) RecvMsg(into any) error {
	select {
	case request, more := <-p.requests:
		if !more {
			return io.EOF
		}
		p.refused = p.inside.pass(request, into)
		return p.refused
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}

// SendMsg sends a response, once the previous one was received. As with gRPC, the memory of an
// encoded one is no longer the sender's, who may free it while it is read.
func (p pipeIn) SendMsg(answer any) error {
	p.begin()
	m, ok := answer.(*encoded.Message)
	if !ok {
		return p.deliver(answer)
	}
	own := new(encoded.Message)
	own.Take(m)
	err := p.deliver(own)
	if err != nil {
		own.Free()
	}
	return err
}

// deliver waits until a response is received.
func (p pipeIn) deliver(answer any) error {
	select {
	case p.answers <- answer:
		return nil
	case <-p.ended: // the handler did not wait for this
		return status.FromContextError(context.Canceled).Err()
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}

// pipeOut is the gateway's end.
type pipeOut struct{ *pipe }

// Context implements grpc.ClientStream, as do those below.
func (p pipeOut) Context() context.Context { return p.ctx }

// Header waits for the headers.
func (p pipeOut) Header() (metadata.MD, error) {
	select {
	case <-p.begun:
		header, _ := p.meta.get()
		return header, nil
	case <-p.ctx.Done():
		return nil, status.FromContextError(p.ctx.Err()).Err()
	}
}

// Trailer returns the trailers received so far.
func (p pipeOut) Trailer() metadata.MD {
	_, trailer := p.meta.get()
	return trailer
}

// CloseSend ends the requests.
func (p pipeOut) CloseSend() error {
	close(p.requests)
	return nil
}

// SendMsg sends a request. The first one never blocks, so that the error of a handler that has
// already refused the call is returned by RecvMsg, as with gRPC's own streams of one request.
func (p pipeOut) SendMsg(request any) error {
	select {
	case p.requests <- request:
		return nil
	default:
	}
	select {
	case p.requests <- request:
		return nil
	case <-p.ended:
		return io.EOF
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}

// RecvMsg receives a response; io.EOF after the last. An encoded one stays so, see leaveEncoded.
func (p pipeOut) RecvMsg(into any) error {
	select {
	case answer := <-p.answers:
		if m, ok := answer.(*encoded.Message); ok {
			defer m.Free()
			leaveEncoded(into.(proto.Message), m.Data)
			return nil
		}
		return handOver(answer, into)
	case <-p.ended:
		switch {
		case p.err == nil:
			return io.EOF
		case p.refused != nil:
			return p.refused
		}
		return statusOf(p.err)
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}
