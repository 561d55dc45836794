package limit

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"
)

// Limits are the limits of one identity. Zero means unlimited.
type Limits struct {
	// InFlight limits the units of its calls in flight.
	InFlight int
	// Rate limits its units per second in the long run, Burst how many may come at
	// once. Burst 0 with a rate: a second's worth, at least 1.
	Rate  float64
	Burst int
	// Streams limits its open streams.
	Streams int
}

func (l Limits) withDefaults() Limits {
	if l.Rate > 0 && l.Burst == 0 {
		l.Burst = max(1, int(math.Ceil(min(l.Rate, math.MaxInt32))))
	}
	return l
}

// Validate returns all errors of the limits.
func (l Limits) Validate() error {
	var problems []error
	if l.InFlight < 0 || l.Burst < 0 || l.Streams < 0 {
		problems = append(problems, errors.New("units in flight, burst and streams must not be negative"))
	}
	if l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0) {
		problems = append(problems, fmt.Errorf("rate %v: must be a number of units a second, 0 or above", l.Rate))
	}
	if l.Burst > 0 && l.Rate == 0 {
		problems = append(problems, fmt.Errorf("burst %d without a rate: nothing would ever refill it", l.Burst))
	}
	return errors.Join(problems...)
}

// Shedding configures how calls are refused when the processors can't keep up. Zero
// values are defaults.
type Shedding struct {
	// Off disables shedding; the other limits remain.
	Off bool
	// Processors is how many calls can run in parallel. Zero: GOMAXPROCS.
	Processors int
	// MinRunning is the minimum limit of running calls, so that no processor idles.
	// Zero: 2 per processor.
	MinRunning int
	// TargetWait is the mean time that a call may wait for processors while others are
	// refused. Calls with more work may wait longer, up to twice their work. Zero: 500
	// µs.
	TargetWait time.Duration
	// MaxBacklog is how much work may queue up before bursts and lasting overload can
	// be told apart, as its processing time. Zero: 150 ms.
	MaxBacklog time.Duration
	// Waited returns the total time that goroutines have waited for a processor so far.
	// Nil: from Go's scheduler.
	Waited func() time.Duration
}

func (s Shedding) withDefaults() Shedding {
	if s.Processors == 0 {
		s.Processors = runtime.GOMAXPROCS(0)
	}
	if s.MinRunning == 0 {
		s.MinRunning = 2 * s.Processors
	}
	if s.TargetWait == 0 {
		s.TargetWait = 500 * time.Microsecond
	}
	if s.MaxBacklog == 0 {
		s.MaxBacklog = 150 * time.Millisecond
	}
	return s
}

// Options are the settings of a Limiter. Start from DefaultOptions.
type Options struct {
	// InFlight limits the units in flight of all callers together. While more than three
	// quarters are in use, each known caller has at most an equal part, where the next
	// caller counts as one.
	InFlight int
	// Identity has the limits of identities without their own.
	Identity Limits
	// Limits returns an identity's own limits; nil: none has any. It is called when an
	// identity calls first, and again after Reload; it must not block. Identity
	// replaces invalid limits.
	Limits func(identity string) (Limits, bool)
	// Streams limits the open streams of all callers together. A known caller gets three
	// quarters at most. 0: unlimited.
	Streams int
	// MaxIdentities limits the known identities, some 250 bytes and the name each.
	// Beyond it the one that was idle longest (of a few) is dropped. If all are busy,
	// new ones share the limits of one.
	MaxIdentities int
	// Shedding configures how calls are refused when the processors can't keep up.
	Shedding Shedding
	// EarlyMemory limits the bytes that gRPC keeps for calls refused early; see
	// AnswerEarly.
	EarlyMemory int
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
}

// DefaultOptions returns the defaults of all settings: no limits of identities except their
// parts.
func DefaultOptions() Options {
	return Options{InFlight: 4096, Streams: 4096, MaxIdentities: 10000, EarlyMemory: 32 << 20}
}

// Validate returns all errors of the options.
func (o Options) Validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.InFlight < 1 || o.InFlight > math.MaxInt32 {
		refuse("in flight %d: must be 1 to %d", o.InFlight, math.MaxInt32)
	}
	if o.Streams < 0 {
		refuse("streams %d: must not be negative", o.Streams)
	}
	if o.MaxIdentities < 1 {
		refuse("identities %d: must be 1 or above", o.MaxIdentities)
	}
	if err := o.Identity.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("limits of an identity: %w", err))
	}
	if o.EarlyMemory < 0 {
		refuse("memory of calls answered early %d: must not be negative", o.EarlyMemory)
	}
	s := o.Shedding
	if s.Processors < 0 || s.MinRunning < 0 || s.TargetWait < 0 || s.MaxBacklog < 0 {
		refuse("shedding: processors, least running calls, target wait and backlog must not be negative")
	}
	return errors.Join(problems...)
}

// Exempt reports whether a gRPC method must be served under any load: health checks,
// and methods to debug a server in trouble. Such calls do not enter.
func Exempt(fullMethod string) bool {
	return strings.HasPrefix(fullMethod, "/grpc.health.v1.") ||
		strings.HasPrefix(fullMethod, "/grpc.reflection.") ||
		strings.HasPrefix(fullMethod, "/grpc.channelz.v1.")
}
