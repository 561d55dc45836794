package operations

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	mathrand "math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// heartbeatEvery is the interval of an instance's heartbeats.
	heartbeatEvery = 5 * time.Second
	// heartbeatTTL is how long a heartbeat counts.
	heartbeatTTL = 4 * heartbeatEvery
	// heartbeatTimeout limits one attempt: the next one follows soon. See store.Patience.
	heartbeatTimeout = 2 * time.Second
)

// Options are what an Instance reports. Fields may be nil if their comment says so.
type Options struct {
	// Engine is the store; it may implement store.Announcements and store.Usages.
	Engine store.Store
	// StoreKind is memory or redis.
	StoreKind string
	// Version of the program.
	Version string
	// Calls are the counters of calls.
	Calls *telemetry.Calls
	// Limiter limits them; nil: there is none.
	Limiter *limit.Limiter
	// MaxInFlight is the limiter's limit of units in flight.
	MaxInFlight int
	// Away reports whether the store is unreachable.
	Away func() bool
	// Draining is closed when the instance begins to stop.
	Draining <-chan struct{}
}

// Instance is this process, as other instances see it.
type Instance struct {
	options Options
	id      string
	started time.Time
	others  store.Announcements // nil: there are none
	// patience limits an attempt.
	patience time.Duration

	mu sync.Mutex
	// Guarded by mu: the last heartbeat, and the totals at that time.
	said   []byte
	last   *setpointv1.Instance
	lastAt time.Time
	totals telemetry.Totals
}

// NewInstance returns an instance that has not sent a heartbeat yet.
func NewInstance(o Options) *Instance {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	now := time.Now()
	i := &Instance{options: o, patience: store.Patience(o.Engine, heartbeatTimeout), id: hex.EncodeToString(id[:]), started: now, lastAt: now}
	i.others, _ = o.Engine.(store.Announcements)
	return i
}

// Run sends heartbeats until the context ends, and then withdraws the last one.
func (i *Instance) Run(ctx context.Context) {
	// Instances that are started together should not always write at the same time.
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			i.tell(ctx, i.snapshot(time.Now()))
			next.Reset(heartbeatEvery - heartbeatEvery/20 + mathrand.N(heartbeatEvery/10))
		case <-ctx.Done():
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.patience)
			defer cancel()
			i.tell(leaving, nil)
			return
		}
	}
}

// tell sends a heartbeat, or withdraws the last one. A failed one is repeated a few
// seconds later; an unreachable store is logged elsewhere.
func (i *Instance) tell(ctx context.Context, what *setpointv1.Instance) {
	if i.others == nil {
		return
	}
	var value []byte
	if what != nil {
		var err error
		if value, err = proto.Marshal(what); err != nil {
			return
		}
	}
	i.mu.Lock()
	before := i.said
	i.said = value
	i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, i.patience)
	defer cancel()
	_ = i.others.Announce(ctx, store.InstancesList, before, value, heartbeatTTL)
}

// snapshot returns the current state of the instance. Rates are those since the previous
// one.
func (i *Instance) snapshot(now time.Time) *setpointv1.Instance {
	totals := i.options.Calls.Totals()
	i.mu.Lock()
	defer i.mu.Unlock()
	since := totals.Since(i.totals)
	seconds := max(now.Sub(i.lastAt).Seconds(), 1e-3)
	seen := &setpointv1.Instance{
		Id: i.id, Version: i.options.Version, State: i.state(),
		StartTime: timestamppb.New(i.started), HeartbeatTime: timestamppb.New(now),
		CallsPerSecond: since.Calls / seconds, RefusedPerSecond: since.Refused / seconds,
		MemoryBytes: memory(), Processors: count(runtime.GOMAXPROCS(0)),
	}
	if l := i.options.Limiter; l != nil {
		seen.InFlight, seen.MaxInFlight = count(l.InFlight()), count(i.options.MaxInFlight)
		seen.ConcurrencyLimit, seen.Shedding, seen.Streams = count(l.MayRun()), l.Shedding(), count(l.Streams())
	}
	if took, ok := since.Quantile(.5); ok {
		seen.LatencyP50 = durationpb.New(took)
	}
	if took, ok := since.Quantile(.99); ok {
		seen.LatencyP99 = durationpb.New(took)
	}
	i.last, i.lastAt, i.totals = seen, now, totals
	return seen
}

// States of an instance, in the contract's words.
const (
	serving   = "SERVING"
	draining  = "DRAINING"
	storeAway = "STORE_AWAY"
)

func (i *Instance) state() string {
	select {
	case <-i.options.Draining:
		return draining
	default:
	}
	if i.options.Away() {
		return storeAway
	}
	return serving
}

// now returns the last heartbeat with the current state.
func (i *Instance) now() *setpointv1.Instance {
	i.mu.Lock()
	last := i.last
	i.mu.Unlock()
	if last == nil {
		last = i.snapshot(time.Now())
	}
	seen := proto.CloneOf(last)
	seen.State, seen.Self = i.state(), true
	return seen
}

// memory returns the memory that the process has from the system, without what it has
// returned.
func memory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() != metrics.KindUint64 {
			return 0
		}
	}
	return int64(min(samples[0].Value.Uint64()-samples[1].Value.Uint64(), math.MaxInt64)) //nolint:gosec // it is bounded
}

func count(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) } //nolint:gosec // it is bounded
