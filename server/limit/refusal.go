package limit

import (
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
)

// Reason is why a call was refused. The zero value: it was not.
type Reason uint8

const (
	// GlobalInFlight means too many units in flight, of all callers.
	GlobalInFlight Reason = iota + 1
	// Overload means that the processors can't keep up.
	Overload
	// IdentityInFlight means too many units in flight of this identity.
	IdentityInFlight
	// IdentityRate means too many units per second of this identity.
	IdentityRate
	// IdentityStreams means too many open streams of this identity.
	IdentityStreams
	// Unfinished means that the call waited for its message, and others needed its memory.
	Unfinished
	// Unread means that the caller has too many unread responses.
	Unread
	// ExemptCalls means too many calls without any other limit, such as health checks, on one
	// connection.
	ExemptCalls
	// Streams means too many open streams, of all callers.
	Streams
	// ClusterTargets means that the cluster has the maximum number of stored targets.
	ClusterTargets
	// ClusterBytes means that the cluster's stored targets have the maximum size.
	ClusterBytes
	// LargeRequests means that the large messages in progress take the maximum memory.
	LargeRequests
	// Fetches means that the maximum number of metrics is being fetched for stored specs.
	Fetches

	reasonCount
)

// reasons tell of each reason its name in metrics and errors, the message, and how long callers
// are told to wait, about, unless the limit itself knows.
var reasons = [reasonCount]struct {
	name, message string
	retry         time.Duration
}{
	GlobalInFlight:   {"global_in_flight", "too many calls in flight; retry later", time.Second},
	Overload:         {"overload", "the server is overloaded; retry later", time.Second},
	IdentityInFlight: {"identity_in_flight", "this caller has too many calls in flight; wait for their responses before sending more", 200 * time.Millisecond},
	IdentityRate:     {"identity_rate", "rate limit exceeded for this caller; retry later", time.Second},
	IdentityStreams:  {"streams", "this caller has too many open streams; use the existing ones", 5 * time.Second},
	Unfinished:       {"unfinished", "too many incomplete requests; resend this one without pausing", time.Second},
	Unread:           {"unread", "too many responses on this connection are unread; read them before sending more", time.Second},
	ExemptCalls:      {"exempt_calls", "this connection has too many open health checks and reflections; use the existing ones", 5 * time.Second},
	Streams:          {"global_streams", "too many open streams; retry later", 5 * time.Second},
	ClusterTargets:   {"cluster_targets", "this cluster has its maximum number of targets; delete some, or wait until some expire", time.Minute},
	ClusterBytes:     {"cluster_bytes", "this cluster's targets have their maximum size; delete some, or wait until some expire", time.Minute},
	LargeRequests:    {"large_requests", "the large requests in progress use all their memory; retry later, or call without explain", time.Second},
	Fetches:          {"fetches", "too many metrics are being fetched from sources, for this namespace or for all; retry later", 2 * time.Second},
}

// Reasons returns all reasons, in order.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonCount-1)
	for r := GlobalInFlight; r < reasonCount; r++ {
		all = append(all, r)
	}
	return all
}

// String returns the reason's name in metrics and errors; "" for none.
func (r Reason) String() string { return reasons[r].name }

// retry returns how long to tell a caller to wait: spread, so that callers do not all retry at
// once.
func (r Reason) retry() time.Duration {
	usual := max(reasons[r].retry, time.Millisecond) // rand.N(0) panics
	return usual/2 + rand.N(usual)
}

// Refusal is why a call may not run, and when to retry. The zero value: it may.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration
}

// Refused reports whether the call was refused.
func (r Refusal) Refused() bool { return r.Reason != 0 }

// Err returns the refusal as RESOURCE_EXHAUSTED with RetryInfo and an ErrorInfo, whose
// metadata name the reason as "limit"; nil if there is none. It is created in advance,
// for RetryAfter or a slightly longer time.
func (r Refusal) Err() error {
	if !r.Refused() {
		return nil
	}
	return refusals[r.Reason][retryStep(r.RetryAfter)].err
}

// Status is Err as a status; read only.
func (r Refusal) Status() *status.Status {
	if !r.Refused() {
		return nil
	}
	return refusals[r.Reason][retryStep(r.RetryAfter)].status
}

// The retry delays of refusals are 1 ms, 1.25 ms, 1.5 ms, 1.75 ms, 2 ms,
// 2.5 ms and so on, doubling in four steps, up to some minutes.
const (
	retryFirst     = time.Millisecond
	stepsPerDouble = 4
	retryStepCount = 18*stepsPerDouble + 1
)

func retryAt(step int) time.Duration {
	return retryFirst << (step / stepsPerDouble) / stepsPerDouble * time.Duration(stepsPerDouble+step%stepsPerDouble)
}

// retryStep returns the first step that is no less than the time; the last one if all are
// less.
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
			Domain: apierror.Domain, Reason: limitExceeded, Metadata: map[string]string{"limit": reason.String()},
		}
		for step := range retryStepCount {
			s := status.New(codes.ResourceExhausted, reasons[reason].message)
			if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAt(step))}, info); err == nil {
				s = detailed
			}
			made[reason][step] = madeRefusal{s, s.Err()}
		}
	}
	return made
}

// limitExceeded is the reason of ErrorInfo, spelled as in the service's other errors.
var limitExceeded = setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED.String()[len("ERROR_REASON_"):]
