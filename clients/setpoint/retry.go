package setpoint

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"regexp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// Retry says when a call is retried. A field of 0 has its default.
//
// The client retries UNAVAILABLE, ABORTED, a call that a proxy cut off, an attempt that exceeded AttemptTimeout, and
// RESOURCE_EXHAUSTED if the server says when to retry: otherwise waiting does not help. It
// retries nothing else, and nothing once the call's context is done.
//
// The delay before attempt n+1 is random between 0 and min(MaxDelay, BaseDelay·2ⁿ⁻¹),
// for example at most 100, 200 and 400 ms before the second, third and fourth, plus the
// delay that the server asks for. If the delay would outlast the call's deadline the call
// ends at once, with the error it has.
type Retry struct {
	// MaxAttempts bounds the attempts of a call, including the first; 1: no retries.
	// Default: 4.
	MaxAttempts int
	// BaseDelay is the longest delay before the second attempt. Default: 100 ms.
	BaseDelay time.Duration
	// MaxDelay is the longest delay before any attempt, without what the server asks for.
	// Default: 2 s.
	MaxDelay time.Duration
	// AttemptTimeout bounds each attempt; on a stream, how long it may be silent while
	// requests are unanswered. Below 0: no bound. Default: 4 s.
	AttemptTimeout time.Duration
	// BudgetReserve is how many attempts beyond the first ones the client may make at
	// once, over all calls; each call adds BudgetRatio of one, up to the reserve. This keeps
	// retries from multiplying the load of a failing service. Defaults: 100 and 0.2.
	BudgetReserve int
	BudgetRatio   float64
}

func (r Retry) withDefaults() Retry {
	r.MaxAttempts = cmp.Or(r.MaxAttempts, 4)
	r.BaseDelay = cmp.Or(r.BaseDelay, 100*time.Millisecond)
	r.MaxDelay = cmp.Or(r.MaxDelay, 2*time.Second)
	r.AttemptTimeout = cmp.Or(r.AttemptTimeout, 4*time.Second)
	r.BudgetReserve = cmp.Or(r.BudgetReserve, 100)
	r.BudgetRatio = cmp.Or(r.BudgetRatio, 0.2)
	return r
}

// retrier retries calls.
//
// gRPC's own retries (retryPolicy of the service config) don't suffice: they know codes only,
// and would retry a request that is too large like one that came too soon; they ignore
// RetryInfo, with which this service says when to retry; they have no time limit for an
// attempt, so that a silent connection costs the whole call; and they stay on the connection
// that failed.
type retrier struct {
	policy Retry
	budget budget
	// random returns a random duration between 0 and the given one.
	random func(time.Duration) time.Duration
}

func newRetrier(policy Retry) *retrier {
	return &retrier{
		policy: policy,
		budget: budget{tokens: float64(policy.BudgetReserve), most: float64(policy.BudgetReserve), ratio: policy.BudgetRatio},
		random: func(most time.Duration) time.Duration { return rand.N(most + 1) },
	}
}

// repeatable are the methods that are safe to retry: they change nothing, or have a request
// id, or are idempotent.
var repeatable = map[string]bool{
	setpointv1.RecommendationService_Recommend_FullMethodName:         true,
	setpointv1.RecommendationService_BatchRecommend_FullMethodName:    true,
	setpointv1.RecommendationService_ReportScale_FullMethodName:       true,
	setpointv1.RecommendationService_ReportObservation_FullMethodName: true,
	setpointv1.RecommendationService_GetRecommendation_FullMethodName: true,
	setpointv1.TargetService_GetTarget_FullMethodName:                 true,
	setpointv1.TargetService_ListTargets_FullMethodName:               true,
	setpointv1.TargetService_DeleteTarget_FullMethodName:              true,
	setpointv1.TargetService_ListDecisions_FullMethodName:             true,
	setpointv1.TargetService_GetRecording_FullMethodName:              true,
	setpointv1.TargetService_GetTargetSpec_FullMethodName:             true,
	setpointv1.TargetService_ListTargetSpecs_FullMethodName:           true,
	setpointv1.OverrideService_ListOverrides_FullMethodName:           true,
	setpointv1.OverrideService_DeleteOverride_FullMethodName:          true,
	setpointv1.FleetService_GetFleet_FullMethodName:                   true,
}

// isRepeatable reports whether a call is safe to retry: of a repeatable method, or one that creates an override with
// an id. Without an id each attempt creates another one.
func isRepeatable(method string, req any) bool {
	create, ok := req.(*setpointv1.CreateOverrideRequest)
	return repeatable[method] || ok && create.GetOverrideId() != ""
}

// deleting are those that delete: after a failed attempt NOT_FOUND says that it had deleted it.
var deleting = map[string]bool{
	setpointv1.TargetService_DeleteTarget_FullMethodName:     true,
	setpointv1.OverrideService_DeleteOverride_FullMethodName: true,
}

// unary is the interceptor.
func (r *retrier) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if !isRepeatable(method, req) {
		return worded(invoke(ctx, method, req, reply, cc, options...))
	}
	r.budget.deposit()
	ctx = spread(ctx)
	var before told
	for attempt := 1; ; attempt++ {
		err := before.by(invoke(ctx, method, req, reply, cc, options...))
		if attempt > 1 && deleting[method] && status.Code(err) == codes.NotFound {
			return nil
		}
		if err == nil || !r.shouldRetry(ctx, attempt, err) {
			return err
		}
	}
}

// told is what the attempts of a call, of a request in a batch or on a stream, or of a watch were told: the error of the last one that
// did not run out of time.
type told struct{ err error }

// by notes the error of an attempt, and returns it as the call's: of an attempt that ran out of time also what an earlier one
// was told.
func (t *told) by(err error) error {
	err = worded(err)
	switch {
	case status.Code(err) != codes.DeadlineExceeded && !errors.Is(err, errSilent) && !errors.Is(err, errWatchSilent):
		t.err = err
	case t.err != nil:
		s := status.Convert(err).Proto()
		s.Message += "; an earlier attempt: " + status.Convert(t.err).Message()
		return status.ErrorProto(s)
	}
	return err
}

// worded gives words to an error that has none, as gRPC leaves that of an answer without a status.
func worded(err error) error {
	s := status.Convert(err).Proto() // nil for none
	if s == nil || s.GetMessage() != "" {
		return err
	}
	s.Message = "the server ended the call without a message; is the address that of Setpoint's gRPC, and does each proxy before it pass on trailers?"
	return status.ErrorProto(s)
}

// shouldRetry waits for the next attempt after a failed one, and reports whether to make it.
func (r *retrier) shouldRetry(ctx context.Context, attempt int, err error) bool {
	least, ok := r.mayRepeat(ctx, attempt, err)
	return ok && r.wait(ctx, attempt, least)
}

// mayRepeat reports whether another attempt is allowed, and the minimum wait before it.
func (r *retrier) mayRepeat(ctx context.Context, attempt int, err error) (least time.Duration, ok bool) {
	if ctx.Err() != nil || attempt >= r.policy.MaxAttempts {
		return 0, false
	}
	return mayPass(err)
}

// wait waits for the attempt after the one given, if there is time and budget.
func (r *retrier) wait(ctx context.Context, attempt int, least time.Duration) bool {
	delay := r.delay(attempt, least)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= delay {
		return false
	}
	return r.budget.withdraw() && deadline.Sleep(ctx, delay)
}

// delay is a random one after that attempt, and at least so long.
func (r *retrier) delay(attempt int, least time.Duration) time.Duration {
	return least + min(r.random(r.longest(attempt)), math.MaxInt64-least)
}

// longest is the longest delay after that attempt, before what the server asks for.
func (r *retrier) longest(attempt int) time.Duration {
	d := r.policy.BaseDelay
	for ; attempt > 1 && d < r.policy.MaxDelay; attempt-- {
		d *= 2
	}
	return min(d, r.policy.MaxDelay)
}

// mayPass reports whether an error is transient, and the minimum wait before a retry. It does
// not look at the call's own deadline.
func mayPass(err error) (least time.Duration, ok bool) {
	least, told := RetryDelay(err)
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded:
		return least, true
	case codes.ResourceExhausted:
		return least, told
	case codes.Canceled, codes.Unknown, codes.Internal:
		return 0, Reason(err) == "" && cutOff.MatchString(status.Convert(err).Message())
	}
	return 0, false
}

// cutOff matches gRPC's words for a call that ended without an answer, or within it, as proxies end those of an instance
// that is gone: its code then is by the number of the reset, or none.
var cutOff = regexp.MustCompile(`RST_STREAM|without sending trailers|^unexpected EOF$`)
