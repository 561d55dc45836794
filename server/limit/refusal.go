package limit

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Reason says what refused a call. The zero value: nothing did.
type Reason uint8

const (
	// GlobalInFlight says: too many units in flight, of all callers.
	GlobalInFlight Reason = iota + 1
	// Overload says: the processors can't keep up.
	Overload
	// IdentityInFlight says: too many units in flight of this identity.
	IdentityInFlight
	// IdentityRate says: too many units a second of this identity.
	IdentityRate
	// IdentityStreams says: too many open streams of this identity.
	IdentityStreams
	// Unfinished says: the call waited for its message, and others need what it took.
	Unfinished
	// Unread says: the caller has too many answers that it does not read.
	Unread
	// ExemptCalls says: too many calls that no other limit bounds, such as health checks, on one
	// connection.
	ExemptCalls
	// Streams says: too many open streams, of all callers.
	Streams
	// ClusterTargets says: as many targets are kept of the cluster as may be.
	ClusterTargets
	// ClusterBytes says: what is kept of the cluster's targets takes as much as it may.
	ClusterBytes
	// LargeRequests says: the large messages that are worked on take as much memory as they may.
	LargeRequests
	// Fetches says: as many metrics are being fetched for stored specs as may be.
	Fetches

	reasonCount
)

var reasonNames = [reasonCount]string{"", "global_in_flight", "overload", "identity_in_flight", "identity_rate", "streams", "unfinished", "unread", "exempt_calls", "global_streams", "cluster_targets", "cluster_bytes", "large_requests", "fetches"}

// Reasons returns all reasons, in order.
func Reasons() []Reason {
	return []Reason{GlobalInFlight, Overload, IdentityInFlight, IdentityRate, IdentityStreams, Unfinished, Unread, ExemptCalls, Streams, ClusterTargets, ClusterBytes, LargeRequests, Fetches}
}

// String returns the reason's name in metrics and errors; "" for none.
func (r Reason) String() string { return reasonNames[r] }

var reasonMessages = [reasonCount]string{
	GlobalInFlight:   "too many calls in flight; retry later",
	Overload:         "the server is overloaded; retry later",
	IdentityInFlight: "this caller has too many calls in flight; wait for their answers before sending more",
	IdentityRate:     "rate limit exceeded for this caller; retry later",
	IdentityStreams:  "this caller has too many open streams; use those it has",
	Unfinished:       "too many incomplete requests; resend this one without pausing",
	Unread:           "too many answers of this connection are unread; read them before sending more",
	ExemptCalls:      "this connection has too many open health checks and reflections; use those it has",
	Streams:          "too many open streams; retry later",
	ClusterTargets:   "as many targets are kept of this cluster as may be; delete some, or wait until some expire",
	LargeRequests:    "as many large requests are worked on as there is memory for; retry later, or ask without explain",
	Fetches:          "as many metrics are being fetched from sources as may be, for this namespace or for all; retry later",
	ClusterBytes:     "what is kept of this cluster's targets takes as much as it may; delete some, or wait until some expire",
}

// Refusal says why a call may not run, and when to try again. The zero value: it may.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration
}

// Refused reports whether the call was refused.
func (r Refusal) Refused() bool { return r.Reason != 0 }

// Err returns the refusal as RESOURCE_EXHAUSTED with RetryInfo and an ErrorInfo, whose
// metadata name the reason as "limit"; nil if there is none. It is made beforehand, for
// a time that is RetryAfter or somewhat more.
func (r Refusal) Err() error {
	if !r.Refused() {
		return nil
	}
	return refusals[r.Reason][retryStep(r.RetryAfter)].err
}

// Status is Err as a status, to be read only.
func (r Refusal) Status() *status.Status {
	if !r.Refused() {
		return nil
	}
	return refusals[r.Reason][retryStep(r.RetryAfter)].status
}

// retrySteps are the retry delays of refusals: 1 ms, 1.25 ms, 1.5 ms, 1.75 ms, 2 ms,
// 2.5 ms and so on, doubling in four steps, up to some minutes.
const (
	retryFirst     = time.Millisecond
	stepsPerDouble = 4
	retryStepCount = 18*stepsPerDouble + 1
)

func retryAt(step int) time.Duration {
	return retryFirst << (step / stepsPerDouble) / stepsPerDouble * time.Duration(stepsPerDouble+step%stepsPerDouble)
}

// retryStep returns the first step that is no less than the time; the last one if none is.
func retryStep(d time.Duration) int {
	step := 0
	for step < retryStepCount-1 && retryAt(step) < d {
		if retryAt(min(step+stepsPerDouble, retryStepCount-1)) < d {
			step += stepsPerDouble
			continue
		}
		step++
	}
	return min(step, retryStepCount-1)
}

type madeRefusal struct {
	status *status.Status
	err    error
}

var refusals = makeRefusals()

func makeRefusals() (made [reasonCount][retryStepCount]madeRefusal) {
	for _, reason := range Reasons() {
		info := &errdetails.ErrorInfo{
			Domain: "setpoint.dev", Reason: limitExceeded, Metadata: map[string]string{"limit": reason.String()},
		}
		for step := range retryStepCount {
			s := status.New(codes.ResourceExhausted, reasonMessages[reason])
			if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAt(step))}, info); err == nil {
				s = detailed
			}
			made[reason][step] = madeRefusal{s, s.Err()}
		}
	}
	return made
}

// limitExceeded is the reason of ErrorInfo, as the service's other errors spell theirs.
var limitExceeded = setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED.String()[len("ERROR_REASON_"):]
