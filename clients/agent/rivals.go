package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/deadline"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Announce announces an agent at the service, as the generated client of OperationsService does.
type Announce func(ctx context.Context, req *setpointv1.AnnounceAgentRequest, options ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error)

// Acting is what an agent scales: workloads of a platform. By it the service tells agents of one
// another, whatever the names of their clusters.
type Acting struct {
	// Platform is a text that all agents of the platform know, and strangers can't guess. The
	// service gets its hash.
	Platform string
	// Namespaces are those of the workloads. Empty: all.
	Namespaces []string
}

// requests returns the announcements for a cluster by the agent of that id, or without one: several if there are
// more namespaces than one announcement takes, which the service knows as one agent by their ids.
func (a Acting) requests(cluster, id string) (all []*setpointv1.AnnounceAgentRequest) {
	platform := sha256.Sum256([]byte("setpoint agent\n" + a.Platform))
	left := slices.Compact(slices.Sorted(slices.Values(a.Namespaces)))
	for more := true; more; more = len(left) > 0 {
		n, bytes := 0, 0
		for ; n < min(len(left), maxNamespaces) && (n == 0 || bytes+len(left[n]) <= maxNamespaceBytes); n++ {
			bytes += len(left[n])
		}
		all = append(all, &setpointv1.AnnounceAgentRequest{
			Parent: "clusters/" + cluster, Platform: hex.EncodeToString(platform[:]), AgentId: id, Namespaces: left[:n:n],
		})
		left = left[n:]
	}
	for i := range all[1:] {
		if id != "" {
			all[i+1].AgentId = fmt.Sprintf("%s.%d", id, i+1)
		}
	}
	return all
}

// Bounds of the namespaces of an announcement that the service takes.
const (
	maxNamespaces     = 100
	maxNamespaceBytes = 4 << 10
)

const (
	// announceEvery is the time between two announcements, which count for a minute.
	announceEvery = 20 * time.Second
	// refusedPause is the time until the next one when the service takes none, as an older one.
	refusedPause = 10 * time.Minute
	// stoppingTimeout bounds the last one.
	stoppingTimeout = time.Second
	// forgetAfter is how long others are told of without an answer of the service.
	forgetAfter = 3 * announceEvery
)

// Other is another agent that acts on the same platform.
type Other struct {
	// Cluster is the name of its cluster. Empty: this agent may not know it.
	Cluster string
	// Since is when it announced itself first.
	Since time.Time
}

func (o Other) String() string {
	name := "whose cluster name this token may not see"
	if o.Cluster != "" {
		name = "cluster name " + o.Cluster
	}
	return name + ", since " + o.Since.UTC().Format(time.RFC3339)
}

// Others returns the agents that act now, without announcing this one. supported is false if the
// service does not know.
func Others(ctx context.Context, announce Announce, cluster string, acts []Acting) (others []Other, supported bool, err error) {
	others, err = announceAll(ctx, announce, cluster, "", acts)
	if status.Code(err) == codes.Unimplemented {
		return nil, false, nil
	}
	return others, true, err
}

// announceAll announces an agent, with an id, once, and returns the others.
func announceAll(ctx context.Context, announce Announce, cluster, id string, acts []Acting) (others []Other, err error) {
	for _, acting := range acts {
		var here []Other
		for _, req := range acting.requests(cluster, id) {
			answer, err := announce(ctx, req)
			if err != nil {
				return nil, err
			}
			for _, other := range othersOf(answer) {
				if !slices.Contains(here, other) { // as several announcements meet one agent
					here = append(here, other)
				}
			}
		}
		if len(here) > len(others) { // the same agents act on several parts of a platform
			others = here
		}
	}
	return others, nil
}

// othersOf reads an answer, which may have anything.
func othersOf(answer *setpointv1.AnnounceAgentResponse) (others []Other) {
	for _, o := range answer.GetOthers()[:min(len(answer.GetOthers()), maxOthers)] {
		other := Other{Since: o.GetStartTime().AsTime()}
		if target.IsSegment(o.GetCluster()) {
			other.Cluster = o.GetCluster()
		}
		others = append(others, other)
	}
	return others
}

// maxOthers bounds the others that are told of.
const maxOthers = 10

// rivals are the other agents that act on the same platform, as the service knows them. A loop
// announces itself while it acts; no reconcile waits for that.
type rivals struct {
	announce Announce
	cluster  string
	timeout  time.Duration
	log      *zap.Logger
	gauge    prometheus.Gauge
	id       string

	mu     sync.Mutex
	others []Other   // guarded by mu
	since  time.Time // when this agent began to act; guarded by mu
	told   bool      // a refusal was logged; guarded by mu
	// answered is when the service answered last. Guarded by mu.
	answered time.Time
}

func newRivals(announce Announce, o *Options, m *metrics) *rivals {
	return &rivals{announce: announce, cluster: o.Cluster, timeout: o.RequestTimeout, log: o.Log, gauge: m.rivalAgents, id: rand.Text()}
}

// Announce announces at the service that this agent acts, and learns of others that do, until the
// context ends. It must run while Reconcile is called.
func (l *Loop) Announce(ctx context.Context) {
	if l.options.Acts == nil || l.rivals.announce == nil || l.options.Shadow {
		return
	}
	l.rivals.run(ctx, l.options.Acts)
}

func (r *rivals) run(ctx context.Context, acts func(context.Context) ([]Acting, error)) {
	r.mu.Lock()
	r.since = time.Now()
	r.mu.Unlock()
	var announced []Acting
	for {
		pause := announceEvery
		asking, cancel := context.WithTimeout(ctx, r.timeout)
		acting, err := acts(asking)
		if err == nil {
			announced = acting
			pause, err = r.tell(asking, acting)
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log.Debug("not announced at the recommender", zap.Error(err))
			if time.Since(r.lastAnswer()) > forgetAfter {
				r.know(nil)
			}
		}
		if !deadline.Sleep(ctx, pause) {
			break
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stoppingTimeout)
	defer cancel()
	for _, acting := range announced {
		for _, req := range acting.requests(r.cluster, r.id) {
			req.Stopping = true
			_, _ = r.announce(ending, req) // else it ends by itself
		}
	}
	r.know(nil)
}

// tell announces the agent once, and returns when to do so again.
func (r *rivals) tell(ctx context.Context, acts []Acting) (pause time.Duration, err error) {
	others, err := announceAll(ctx, r.announce, r.cluster, r.id, acts)
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented, codes.InvalidArgument:
		r.know(nil)
		return refusedPause, err
	case codes.ResourceExhausted, codes.PermissionDenied:
		r.refused(err) // until an operator raises the limit, or grants the right
		return announceEvery, err
	default:
		return announceEvery, err
	}
	r.mu.Lock()
	r.answered, r.told = time.Now(), false
	r.mu.Unlock()
	r.know(others)
	return announceEvery, nil
}

// refused logs once that the service takes no announcement: other agents are not known then.
func (r *rivals) refused(err error) {
	r.mu.Lock()
	told := r.told
	r.told = true
	r.mu.Unlock()
	if !told {
		r.log.Warn("the service takes no announcement, so other agents on this platform are not known", zap.Error(err))
	}
}

func (r *rivals) lastAnswer() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}

// know stores the others, and logs when there are some, and when there are none any more.
func (r *rivals) know(others []Other) {
	r.mu.Lock()
	had := len(r.others) > 0
	r.others = others
	r.mu.Unlock()
	r.gauge.Set(float64(len(others)))
	switch {
	case !had && len(others) > 0:
		r.log.Warn(r.problem())
	case had && len(others) == 0:
		r.log.Info("no other agent is known to act on this platform any more")
	}
}

// problem says that others act; empty: none is known.
func (r *rivals) problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.others) == 0 {
		return ""
	}
	first := r.others[0]
	subject := "another agent acts"
	if n := len(r.others); n > 1 {
		subject = fmt.Sprintf("%d other agents act", n)
	}
	which := "this one began before it"
	if first.Since.Before(r.since) {
		which = "this one began after it"
	}
	return fmt.Sprintf("%s on this platform (%s); %s. Each changes the counts of the other: keep one, or make one a shadow (--shadow)", subject, first, which)
}
