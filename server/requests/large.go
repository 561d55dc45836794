package requests

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/waits"
	"github.com/setpoint-dev/setpoint/server/wire"
)

const (
	// mostSmall is the size of the largest small request, in bytes, unless it requests an
	// explanation.
	mostSmall = 16 << 10
	// mostWaiting limits the large requests that wait for memory. Each keeps its place among
	// the calls in flight, and most of these places must be left to others.
	mostWaiting = 512
	// explainedPod is the memory of a pod in an explanation beyond its budget: its part of the
	// response as a message and encoded, in bytes.
	explainedPod = 400
)

// IsLarge reports whether an encoded request waits for memory with the large ones.
func IsLarge(data []byte) bool { return len(data) > mostSmall || wire.Explains(data) }

// IsLargeJSON is IsLarge for JSON, before it is parsed: the limit is slightly higher.
func IsLargeJSON(body []byte) bool {
	// A search that begins with a rare byte is many times as fast as one that begins with a quote.
	return len(body) > 2*mostSmall || bytes.Contains(body, []byte(`xplain"`)) && bytes.Contains(body, []byte(`"explain"`))
}

// Enter waits until there is memory to read a message. Meanwhile the call holds nothing that others
// need; the ticket is its own, or that of a message of a stream.
func (r *Reader) Enter(ctx context.Context, ticket *limit.Ticket, caller string, pass *gate.Pass, large bool) error {
	if r.Gate.TryEnter(pass, large) {
		return nil
	}
	err := waits.For(limit.WithTicket(ctx, ticket), waits.Large, func() error { return r.Gate.Enter(ctx, pass, caller, large) })
	if errors.Is(err, gate.ErrFull) {
		return r.Refuse(limit.LargeRequests)
	}
	if err != nil {
		return apierror.OfContext(ctx)
	}
	return nil
}

// Refuse refuses a message because others use the memory.
func (r *Reader) Refuse(reason limit.Reason) error {
	if r.Limiter == nil {
		return limit.Refusal{Reason: reason, RetryAfter: time.Second}.Err()
	}
	return r.Limiter.Refuse(reason).Err()
}

// RefuseShare counts what is refused for its cluster's limits.
func (r *Reader) RefuseShare(reason limit.Reason) {
	if r.Limiter != nil {
		r.Limiter.Refuse(reason)
	}
}

// made is the approximate memory of a request that was read, and of its response, beyond
// its budget, in bytes.
func (j *Job) made() int {
	bytes := 0
	if j.encoded != nil {
		bytes = j.encoded.Memory()
	}
	if j.Input != nil && j.Input.Explain {
		bytes += explainedPod * max(0, j.Input.ExplainLimit)
	}
	return bytes
}
