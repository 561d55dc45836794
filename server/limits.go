package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/bounded"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// admitted is the context of a call that was looked at when its headers were read, before
// it has a goroutine.
type admitted struct {
	context.Context
	ticket  *limit.Ticket
	refusal limit.Refusal
	// who makes the call, if looked is true.
	who    identified
	looked bool
}

type admittedKey struct{}

// Value implements context.Context.
func (a *admitted) Value(key any) any {
	if key == (admittedKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func admittedOf(ctx context.Context) *admitted {
	a, _ := ctx.Value(admittedKey{}).(*admitted)
	return a
}

// ticketOf returns the ticket of a call, nil if it has none.
func ticketOf(ctx context.Context) *limit.Ticket {
	if a := admittedOf(ctx); a != nil {
		return a.ticket
	}
	return nil
}

// identifiedEarly returns what was found out of a caller before the message was read.
func identifiedEarly(ctx context.Context) (who identified, early bool) {
	if a := admittedOf(ctx); a != nil {
		return a.who, a.looked
	}
	return identified{}, false
}

// enter lets calls in as their headers are read, or refuses them there, which is the
// cheapest.
func (s *Server) enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	l := s.limiter
	if limit.Exempt(info.FullMethodName) {
		return s.enterExempt(ctx, info)
	}
	a := &struct {
		admitted
		own limit.Ticket
	}{admitted: admitted{Context: ctx}}
	a.ticket = &a.own
	if reason := s.clogged(ctx); reason != 0 {
		a.refusal = l.Refuse(reason)
	} else {
		a.refusal = l.Enter(a.ticket, connectionOf(ctx).Origin())
	}
	if a.refusal.Refused() {
		if l.AnswerEarly(ctx) {
			s.observer.Calls.Of(info.FullMethodName).Refused(codes.ResourceExhausted)
			return ctx, a.refusal.Err()
		}
		return &a.admitted, nil
	}
	// A call may end before its goroutine runs.
	context.AfterFunc(ctx, a.ticket.Abandon)
	return &a.admitted, nil
}

// enterExempt lets a call in that must be answered however great the load. Of one connection
// only so many may be open: who goes on after it was told so has the connection closed.
func (s *Server) enterExempt(ctx context.Context, info *tap.Info) (context.Context, error) {
	conn := connectionOf(ctx)
	if conn == nil {
		return ctx, nil
	}
	if conn.BeginExempt() {
		context.AfterFunc(ctx, conn.EndExempt)
		return ctx, nil
	}
	if !s.limiter.AnswerEarly(ctx) {
		_ = conn.Close()
	}
	s.observer.Calls.Of(info.FullMethodName).Refused(codes.ResourceExhausted)
	return ctx, s.limiter.Refuse(limit.ExemptCalls).Err()
}

// begin begins a call that was let in. It is called before the body is read.
func begin(ctx context.Context) (*limit.Ticket, error) {
	a := admittedOf(ctx)
	if a == nil {
		return nil, nil
	}
	if a.refusal.Refused() {
		return nil, a.refusal.Err()
	}
	if !a.ticket.Begin() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // which the caller may not know yet
			return nil, apierror.OfContext(ctx)
		}
		return nil, status.FromContextError(context.Canceled).Err()
	}
	return a.ticket, nil
}

// charge charges a call to who makes it. The weight of a batch is the number of its
// requests.
func charge(ctx context.Context, weight int) error {
	a := admittedOf(ctx)
	if a == nil {
		return nil
	}
	return a.ticket.Identify(access.CallerOf(ctx).Name(), weight).Err()
}

// limited are the methods of services with limits: each call is begun, and its caller
// known, before its message is read, and its ticket given back at its end.
func (s *Server) limited(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	wrapped := *desc
	wrapped.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range wrapped.Methods {
		handler := wrapped.Methods[i].Handler
		method := "/" + desc.ServiceName + "/" + wrapped.Methods[i].MethodName
		wrapped.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			ticket, err := begin(ctx)
			if err != nil {
				return nil, err
			}
			conn := connectionOf(ctx)
			conn.Begin()
			defer conn.End()
			if ticket == nil {
				return handler(srv, ctx, s.receiving(ctx, nil, decode), interceptor)
			}
			defer ticket.Release()
			a := admittedOf(ctx)
			if a.who, a.looked = s.identify(ctx, method, ticket), true; a.who.err != nil && a.who.session == nil {
				// Nothing is read from an unknown caller; the interceptors refuse the call.
				return interceptor(ctx, nil, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, notReached)
			}
			resp, err := handler(srv, ctx, s.receiving(ctx, ticket, decode), interceptor)
			if counting := connOf(ctx); counting != nil && err == nil {
				resp = answered(counting, resp)
			}
			return resp, err
		}
	}
	return &wrapped
}

func notReached(context.Context, any) (any, error) {
	return nil, status.Error(codes.Internal, "internal error")
}

// limitStreams bounds how many streams a caller has open.
func (s *Server) limitStreams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if s.limiter == nil || limit.Exempt(info.FullMethod) {
		return handler(srv, stream)
	}
	var open limit.Stream
	if err := s.limiter.Open(&open, access.CallerOf(stream.Context()).Name()).Err(); err != nil {
		return err
	}
	defer open.Close()
	conn := connectionOf(stream.Context())
	conn.Begin()
	defer conn.End()
	return handler(srv, counting(stream))
}

// limitCalls charges calls that weigh as much as any.
func (s *Server) limitCalls(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if info.FullMethod != setpointv1.RecommendationService_BatchRecommend_FullMethodName {
		if err := charge(ctx, 1); err != nil {
			return nil, err
		}
	}
	return handler(ctx, req)
}

// limitREST lets REST calls in, before their bodies are read.
func (s *Server) limitREST(mux *runtime.ServeMux, next http.Handler) http.Handler {
	if s.limiter == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ticket := new(limit.Ticket)
		if refusal := s.limiter.Enter(ticket, restConnectionOf(r).Origin()); refusal.Refused() {
			answerRefusal(mux, w, r, refusal)
			return
		}
		ticket.Begin()
		defer ticket.Release()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), restTicketKey{}, ticket)))
	})
}

type restTicketKey struct{}

// restTicketOf returns the ticket of a REST call, nil if it has none.
func restTicketOf(ctx context.Context) *limit.Ticket {
	ticket, _ := ctx.Value(restTicketKey{}).(*limit.Ticket)
	return ticket
}

func answerRefusal(mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request, refusal limit.Refusal) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	answerStatus(mux, w, r, refusal.Status())
}

// limitsOf are the limits that the policy sets for a caller.
func (s *Server) limitsOf(identity string) (limit.Limits, bool) { return s.callerLimits.Get(identity) }

// noteLimits remembers the limits that the policy sets for a caller, so that the limiter
// can ask for them.
func (s *Server) noteLimits(c *access.Caller) {
	if s.limiter == nil {
		return
	}
	own := c.Grants.Limits()
	limits := s.options.Limits.Identity
	replace := func(into *int, value int) {
		switch value {
		case 0:
		case policy.Unlimited:
			*into = 0
		default:
			*into = value
		}
	}
	replace(&limits.InFlight, own.InFlight)
	replace(&limits.Streams, own.Streams)
	switch {
	case math.IsInf(own.RequestsPerSecond, 1):
		limits.Rate, limits.Burst = 0, 0
	case own.RequestsPerSecond > 0:
		limits.Rate, limits.Burst = own.RequestsPerSecond, own.Burst
	case own.Burst > 0 && limits.Rate > 0:
		limits.Burst = own.Burst
	}
	before, known := s.callerLimits.Get(c.Identity.Name)
	if limits == s.options.Limits.Identity && !known || known && before == limits {
		return
	}
	s.callerLimits.Put(c.Identity.Name, limits)
	s.limiter.Reload()
}

// limitMetrics shows what the limiter does.
type limitMetrics struct{ limiter *limit.Limiter }

var (
	limitRefused = prometheus.NewDesc("setpoint_calls_refused_total", "Calls refused by a limit.", []string{"limit"}, nil)
	limitGauges  = []struct {
		desc  *prometheus.Desc
		value func(*limit.Limiter) int
	}{
		{prometheus.NewDesc("setpoint_calls_in_flight", "Calls in flight; a batch counts as its requests.", nil, nil), (*limit.Limiter).InFlight},
		{prometheus.NewDesc("setpoint_calls_waiting", "Calls whose message has not arrived completely.", nil, nil), (*limit.Limiter).Waiting},
		{prometheus.NewDesc("setpoint_concurrency_limit", "Current concurrency limit; below --max-in-flight while the CPUs are saturated.", nil, nil), (*limit.Limiter).MayRun},
		{prometheus.NewDesc("setpoint_identities", "Callers with rate limiter state.", nil, nil), (*limit.Limiter).Identities},
	}
)

// Describe implements prometheus.Collector.
func (limitMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- limitRefused
	for _, g := range limitGauges {
		descs <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m limitMetrics) Collect(metrics chan<- prometheus.Metric) {
	for _, reason := range limit.Reasons() {
		metrics <- prometheus.MustNewConstMetric(limitRefused, prometheus.CounterValue, float64(m.limiter.Refused(reason)), reason.String())
	}
	for _, g := range limitGauges {
		metrics <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(m.limiter)))
	}
}

// newLimiter makes the limiter that the options ask for.
func (s *Server) newLimiter() error {
	if s.options.Limits.InFlight == 0 {
		return nil
	}
	options := s.options.Limits
	options.Limits = s.limitsOf
	s.callerLimits = bounded.New[string, limit.Limits](options.MaxIdentities)
	var err error
	if s.limiter, err = limit.New(options); err != nil {
		return err
	}
	if s.options.Registerer != nil {
		if err := s.options.Registerer.Register(limitMetrics{s.limiter}); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
