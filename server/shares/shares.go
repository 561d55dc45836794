// Package shares limits how much of the store each cluster takes: its targets, and their bytes.
//
//	s := shares.New(engine, shares.Options{ClusterTargets: 10_000, Clock: time.Now, Log: log}, refused)
//	if err := s.Place(ctx, cluster, len(value), caller); err != nil {
//		return err
//	}
//	// … store it …
//	s.Settle(cluster, len(value), stored)
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
	"github.com/setpoint-dev/setpoint/server/auth/bounded"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// recountAfter is how old a count may be; for a cluster at its limit, recountFull,
	// so that deletions and expiries take effect soon.
	recountAfter = 5 * time.Second
	recountFull  = time.Second
	// countTimeout limits one count.
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
// target arrives, and in between add this instance's own additions. Safe for concurrent use.
type Shares struct {
	engine  store.Usages // nil: there are no limits
	options Options
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
	at    time.Time   // time of the count, guarded by mu; zero: not counted yet
}

// New returns the shares of a store; without store.Usages they have no limits. refused counts
// refusals.
func New(engine store.Store, o Options, refused func(limit.Reason)) *Shares {
	s := &Shares{options: o, refused: refused, clusters: bounded.New[string, *share](countedClusters)}
	s.engine, _ = engine.(store.Usages)
	return s
}

// bounds are the limits of a cluster, 0: unlimited.
type bounds struct{ keys, bytes int64 }

// boundsFor returns the limits for a caller's additions.
func (s *Shares) boundsFor(c *access.Caller) bounds {
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
	return bounds{pick(own.ClusterTargets, s.options.ClusterTargets), pick(own.ClusterBytes, s.options.ClusterBytes)}
}

// exceeds returns the limit that one more target would exceed; 0: none.
func (b bounds) exceeds(used store.Usage, bytes int) limit.Reason {
	switch {
	case b.keys > 0 && used.Keys >= b.keys:
		return limit.ClusterTargets
	case b.bytes > 0 && used.Bytes+int64(bytes) > b.bytes:
		return limit.ClusterBytes
	}
	return 0
}

// Place reserves space for one more target of a cluster, with that many bytes of
// history, or refuses it. It may call the store, once or twice.
func (s *Shares) Place(ctx context.Context, cluster string, bytes int, c *access.Caller) error {
	b := s.boundsFor(c)
	if s.engine == nil || b == (bounds{}) {
		return nil
	}
	own := s.of(cluster, true)
	if s.take(ctx, &s.all, "", bytes, b) == 0 {
		own.begin(bytes)
		return nil
	}
	reason := s.take(ctx, own, cluster, bytes, b)
	if reason == 0 {
		s.all.begin(bytes)
		return nil
	}
	s.refused(reason)
	return clusterFull(reason, cluster, b)
}

// Settle ends Place: the target's first history was stored, or was not.
func (s *Shares) Settle(cluster string, bytes int, stored bool) {
	s.all.end(bytes, stored)
	s.of(cluster, false).end(bytes, stored)
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

func (h *share) begin(bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.place(bytes)
}

// place counts a target that is being stored. The caller has locked h.mu.
func (h *share) place(bytes int) {
	h.used = plus(h.used, 1, bytes)
	h.under = plus(h.under, 1, bytes)
}

func (h *share) end(bytes int, stored bool) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under = plus(h.under, -1, -bytes)
	if !stored {
		h.used = plus(h.used, -1, -bytes)
	}
}

func (h *share) leave() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = plus(h.used, -1, 0)
}

func plus(u store.Usage, keys, bytes int) store.Usage {
	return store.Usage{Keys: max(0, u.Keys+int64(keys)), Bytes: max(0, u.Bytes+int64(bytes))}
}

// take reserves space in the share, or returns the limit that forbids it. Other
// additions to the cluster wait meanwhile, so that together they do not exceed it.
func (s *Shares) take(ctx context.Context, h *share, cluster string, bytes int, b bounds) limit.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := s.options.Clock()
	age := now.Sub(h.at)
	reason := b.exceeds(h.used, bytes)
	if h.at.IsZero() || age < 0 || age >= recountAfter || reason != 0 && age >= recountFull {
		s.count(ctx, h, cluster, now)
		reason = b.exceeds(h.used, bytes)
	}
	if reason == 0 {
		h.place(bytes)
	}
	return reason
}

// count counts in the store. If the store does not respond, the last count remains: no
// target is refused because the number is unknown. The caller has locked h.mu.
func (s *Shares) count(ctx context.Context, h *share, cluster string, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	h.at = now
	used, err := s.engine.Usage(ctx, cluster)
	if err != nil {
		s.options.Log.Warn("counting a cluster's targets failed", zap.String("cluster", cluster), zap.Error(err))
		return
	}
	h.used = store.Usage{Keys: used.Keys + h.under.Keys, Bytes: used.Bytes + h.under.Bytes}
}

// clusterFull returns the error for a new target beyond a limit.
func clusterFull(reason limit.Reason, cluster string, b bounds) error {
	value, kept := b.keys, fmt.Sprintf("cluster %s has %d targets", cluster, b.keys)
	if reason == limit.ClusterBytes {
		value, kept = b.bytes, fmt.Sprintf("the targets of cluster %s take %d bytes", cluster, b.bytes)
	}
	return apierror.New(codes.ResourceExhausted, setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED,
		kept+", the maximum: new targets are refused, existing ones continue; delete some, wait until some expire, or have the limit raised",
		"limit", reason.String(), "value", strconv.FormatInt(value, 10), "cluster", cluster)
}
