// Package shares limits how much of the store each cluster takes: its targets, and their bytes.
//
//	options := shares.Options{ClusterTargets: 10_000, Clock: time.Now, Log: log}
//	s := shares.New(engine, options, refused)
//	more := store.Usage{Keys: 1, Bytes: int64(len(value))}
//	if err := s.Place(ctx, cluster, more, options.For(caller)); err != nil {
//		return err
//	}
//	// … store it …
//	s.Settle(cluster, more, stored)
package shares

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// recountAfter is how old a count may be; for a cluster at its limit, recountFull,
	// so that deletions and expiries take effect soon.
	recountAfter = 5 * time.Second
	recountFull  = time.Second
	// recountGrown is how old a count may be where records only grow, unless they have taken more
	// than 1/recountPart of the room that there was: a count is some 500 small commands, and each
	// report of a target may be a few bytes longer than the one before.
	recountGrown = time.Minute
	recountPart  = 16
	// countTimeout limits one count. See store.Patience.
	countTimeout = time.Second
	// countedClusters limits the clusters whose counts are cached.
	countedClusters = 4096
)

// Options configure Shares.
type Options struct {
	// ClusterTargets and ClusterBytes limit each cluster, unless a caller's policy has limits of
	// its own; 0: unlimited.
	ClusterTargets, ClusterBytes int
	Clock                        func() time.Time
	Log                          *zap.Logger
}

// Shares limit each cluster's part of the store. They count in the store now and then, when a new
// target arrives or a record grows, and in between add this instance's own additions. Safe for
// concurrent use.
type Shares struct {
	engine   store.Usages  // nil: there are no limits
	patience time.Duration // limits a count
	options  Options
	// refused counts refusals.
	refused func(limit.Reason)

	// all is the total of all clusters. While it is below the limit of one, no cluster needs to
	// be counted.
	all      share
	mu       sync.Mutex
	clusters *bounded.Map[string, *share] // guarded by mu
}

// share is the usage of a cluster.
type share struct {
	mu    sync.Mutex
	used  store.Usage // guarded by mu
	under store.Usage // the part of it that is being stored, which the store may not count yet; guarded by mu
	known int64       // the bytes at the count; guarded by mu
	at    time.Time   // time of the count, guarded by mu; zero: not counted yet
}

// New returns the shares of a store; without store.Usages they have no limits. refused counts
// refusals; nil: nobody does.
func New(engine store.Store, o Options, refused func(limit.Reason)) *Shares {
	if refused == nil {
		refused = func(limit.Reason) {}
	}
	s := &Shares{options: o, patience: store.Patience(engine, countTimeout), refused: refused, clusters: bounded.New[string, *share](countedClusters)}
	s.engine, _ = engine.(store.Usages)
	return s
}

// Bounds are the limits of a cluster for a caller's additions, 0: unlimited.
type Bounds struct{ keys, bytes int64 }

// Bytes is the limit of bytes.
func (b Bounds) Bytes() int64 { return b.bytes }

// For returns the limits for a caller's additions.
func (o *Options) For(c *access.Caller) Bounds {
	var own policy.Limits
	if c != nil {
		own = c.Grants.Limits()
	}
	pick := func(own, server int) int64 {
		switch own {
		case 0:
			return int64(server)
		case policy.Unlimited:
			return 0
		}
		return int64(own)
	}
	return Bounds{pick(own.ClusterTargets, o.ClusterTargets), pick(own.ClusterBytes, o.ClusterBytes)}
}

// exceeds returns the limit that an addition would exceed; 0: none. A record that only grows adds
// no target.
func (b Bounds) exceeds(used, more store.Usage) limit.Reason {
	switch {
	case b.keys > 0 && more.Keys > 0 && used.Keys >= b.keys:
		return limit.ClusterTargets
	case b.bytes > 0 && used.Bytes+more.Bytes > b.bytes:
		return limit.ClusterBytes
	}
	return 0
}

// Place reserves space for a new record of a cluster, or without Keys for the growth of an existing
// one, or refuses it. It may call the store, once or twice.
func (s *Shares) Place(ctx context.Context, cluster string, more store.Usage, b Bounds) error {
	if s.engine == nil || b == (Bounds{}) {
		return nil
	}
	own := s.of(cluster, true)
	if s.take(ctx, &s.all, "", more, b) == 0 {
		own.begin(more)
		return nil
	}
	reason := s.take(ctx, own, cluster, more, b)
	if reason == 0 {
		s.all.begin(more)
		return nil
	}
	s.refused(reason)
	return clusterFull(reason, cluster, more, b)
}

// Settle ends Place: the record was stored, or was not.
func (s *Shares) Settle(cluster string, more store.Usage, stored bool) {
	s.all.end(more, stored)
	s.of(cluster, false).end(more, stored)
}

// Room is Place for store.Change, which gets Settle.
func (s *Shares) Room(ctx context.Context, cluster string, b Bounds) func(more store.Usage) (settled func(stored bool), err error) {
	return func(more store.Usage) (func(bool), error) {
		err := s.Place(ctx, cluster, more, b)
		return func(stored bool) { s.Settle(cluster, more, stored) }, err
	}
}

// Leave records the deletion of a target of the cluster.
func (s *Shares) Leave(cluster string) {
	s.all.leave()
	s.of(cluster, false).leave()
}

// of returns the share of a cluster; nil if it is unknown and must not be created.
func (s *Shares) of(cluster string, create bool) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.clusters.Get(cluster)
	if !ok && create {
		own = &share{}
		s.clusters.Put(cluster, own)
	}
	return own
}

func (h *share) begin(more store.Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.place(more)
}

// place counts what is being stored. The caller has locked h.mu.
func (h *share) place(more store.Usage) {
	h.used = plus(h.used, more, 1)
	h.under = plus(h.under, more, 1)
}

func (h *share) end(more store.Usage, stored bool) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under = plus(h.under, more, -1)
	if !stored {
		h.used = plus(h.used, more, -1)
	}
}

func (h *share) leave() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = plus(h.used, store.Usage{Keys: 1}, -1)
}

func plus(u, more store.Usage, times int64) store.Usage {
	return store.Usage{Keys: max(0, u.Keys+times*more.Keys), Bytes: max(0, u.Bytes+times*more.Bytes)}
}

// isStale reports whether the count is too old for an addition. The caller has locked h.mu.
func (h *share) isStale(age time.Duration, more store.Usage, b Bounds) bool {
	switch {
	case more.Keys == 0 && b.bytes == 0:
		return false // whatever it is
	case h.at.IsZero() || age < 0:
		return true
	case more.Keys == 0 && (h.used.Bytes-h.known)*recountPart <= b.bytes-h.known:
		return age >= recountGrown
	}
	return age >= recountAfter
}

// take reserves space in the share, or returns the limit that forbids it. Other
// additions to the cluster wait meanwhile, so that together they do not exceed it.
func (s *Shares) take(ctx context.Context, h *share, cluster string, more store.Usage, b Bounds) limit.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := s.options.Clock()
	age := now.Sub(h.at)
	reason := b.exceeds(h.used, more)
	if h.isStale(age, more, b) || reason != 0 && age >= recountFull {
		s.count(ctx, h, cluster, now)
		reason = b.exceeds(h.used, more)
	}
	if reason == 0 {
		h.place(more)
	}
	return reason
}

// count counts in the store, for all who add to the share: a caller that leaves does not end it. If the store does not
// respond, the last count remains: no target is refused because the number is unknown. The caller has locked h.mu.
func (s *Shares) count(ctx context.Context, h *share, cluster string, now time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	h.at = now
	used, err := s.engine.Usage(ctx, cluster)
	if err != nil {
		s.options.Log.Warn("counting a cluster's targets failed", zap.String("cluster", cluster), zap.Error(err))
		return
	}
	h.used = store.Usage{Keys: used.Keys + h.under.Keys, Bytes: used.Bytes + h.under.Bytes}
	h.known = h.used.Bytes
}

// clusterFull returns the error for a new target beyond a limit, or for a record that grows.
func clusterFull(reason limit.Reason, cluster string, more store.Usage, b Bounds) error {
	value, kept := b.keys, fmt.Sprintf("cluster %s has %d targets", cluster, b.keys)
	if reason == limit.ClusterBytes {
		value, kept = b.bytes, fmt.Sprintf("the targets of cluster %s take %d bytes", cluster, b.bytes)
	}
	refused := "new targets are refused, existing ones continue"
	if more.Keys == 0 {
		refused = "a larger spec or observation of a target is refused, one that is no larger is not, and decisions continue"
	}
	return apierror.New(codes.ResourceExhausted, setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED,
		kept+", the maximum: "+refused+"; delete some, wait until some expire, or have the limit raised",
		"limit", reason.String(), "value", strconv.FormatInt(value, 10), "cluster", cluster)
}
