package limit

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"
)

// Limits are the bounds of one identity. Zero means no bound.
type Limits struct {
	// InFlight bounds the units of its calls in flight.
	InFlight int
	// Rate bounds its units a second in the long run, Burst how many may come at
	// once. Burst 0 with a rate: a second's worth, at least 1.
	Rate  float64
	Burst int
	// Streams bounds its open streams.
	Streams int
}

func (l Limits) withDefaults() Limits {
	if l.Rate > 0 && l.Burst == 0 {
		l.Burst = max(1, int(math.Ceil(min(l.Rate, math.MaxInt32))))
	}
	return l
}

// Validate returns all that is wrong with the limits.
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

// Shedding says how calls are refused when the processors can't keep up. Zero values
// are defaults.
type Shedding struct {
	// Off leaves it to the other bounds.
	Off bool
	// Processors is how many calls can run at once. Zero: GOMAXPROCS.
	Processors int
	// MinRunning is the least number of calls that may run at once, so that no
	// processor idles. Zero: 2 a processor.
	MinRunning int
	// TargetWait is how long calls may wait for processors altogether, in the mean, while
	// others are refused. Calls that are more work may wait longer, up to twice as long
	// as it takes. Zero: 500 µs.
	TargetWait time.Duration
	// MaxBacklog is how much work may queue up before it is known whether a burst has
	// come or lasting overload, as the time it takes to do. Zero: 150 ms.
	MaxBacklog time.Duration
	// Waited returns for how long goroutines have waited for a processor so far, all
	// together. Nil: Go's scheduler is asked.
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
	// InFlight bounds the units in flight of all callers together. While more than three
	// quarters are taken, callers who are known have an equal part of it at most, one part
	// being kept for the next caller.
	InFlight int
	// Identity holds the limits of identities that have none of their own.
	Identity Limits
	// Limits returns the limits that an identity has of its own; nil: none has. It is
	// called when an identity is met, and again after Reload; it must not block. In the
	// place of limits that are not valid stand those of Identity.
	Limits func(identity string) (Limits, bool)
	// Streams bounds the open streams of all callers together. A known caller gets three
	// quarters at most. 0: no bound.
	Streams int
	// MaxIdentities bounds how many identities are remembered, some 250 bytes and the
	// name each. Beyond them the one that was idle longest (of a few) is forgotten. If
	// all are busy, those that come share the limits of one.
	MaxIdentities int
	// Shedding says how calls are refused when the processors can't keep up.
	Shedding Shedding
	// EarlyMemory bounds the bytes that gRPC keeps of calls answered early; see
	// AnswerEarly.
	EarlyMemory int
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
}

// DefaultOptions returns the defaults of all settings: no limits of identities but their parts.
func DefaultOptions() Options {
	return Options{InFlight: 4096, Streams: 4096, MaxIdentities: 10000, EarlyMemory: 32 << 20}
}

// Validate returns all that is wrong with the options.
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

// Exempt reports whether a gRPC method must answer however great the load: health
// checks, and what looks into a server that is in trouble. Such calls do not enter.
func Exempt(fullMethod string) bool {
	return strings.HasPrefix(fullMethod, "/grpc.health.v1.") ||
		strings.HasPrefix(fullMethod, "/grpc.reflection.") ||
		strings.HasPrefix(fullMethod, "/grpc.channelz.v1.")
}
