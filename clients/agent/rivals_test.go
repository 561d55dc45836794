package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// acting is an agent of its own cluster name on a platform that others may share.
type acting struct {
	*agent.Driver
	registry *prometheus.Registry
	lines    *observer.ObservedLogs
	stop     context.CancelFunc
	ended    chan error
}

func act(t *testing.T, p agent.Watched, s *testserver.Service, cluster string, options agent.Options) *acting {
	t.Helper()
	core, lines := observer.New(zap.InfoLevel)
	a := &acting{registry: prometheus.NewRegistry(), lines: lines, ended: make(chan error, 1)}
	options.Cluster, options.Period, options.FirstWait = cluster, agenttest.Period, -1
	options.Log, options.Registerer = zap.New(core), a.registry
	if options.Acts == nil {
		options.Acts = func(context.Context) ([]agent.Acting, error) { return []agent.Acting{{Platform: "fake 1"}}, nil }
	}
	var err error
	a.Driver, err = agent.NewDriver(p, agent.Service{Calls: agenttest.NewService(s.Recommendations), Announce: s.Announce}, options, agent.DriverOptions{})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	go func() { a.ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		t.Log("ended: ", <-a.ended)
	})
	return a
}

func (a *acting) others(t *testing.T) (n float64) {
	t.Helper()
	families, err := a.registry.Gather()
	fatal.If(t, err)
	for _, f := range families {
		if f.GetName() == "setpoint_agent_rival_agents" {
			n = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return n
}

// Two agents of one platform, under two cluster names, are told of each other within a minute, in
// the log once; when one ends the other is told no longer. Meanwhile they agree on the count.
func TestASecondAgentKnowsThatItIsTheSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &agenttest.Fake{}, testserver.Start(t)
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		first := act(t, p, s, "demo", agent.Options{})
		time.Sleep(5 * time.Minute)
		if got := first.Rival(); got != "" {
			t.Errorf("one agent alone is told %q", got)
		}
		second := act(t, p, s, "staging", agent.Options{})
		shadow := act(t, p, s, "trial", agent.Options{Shadow: true})
		elsewhere := act(t, &agenttest.Fake{}, s, "demo", agent.Options{Acts: func(context.Context) ([]agent.Acting, error) {
			return []agent.Acting{{Platform: "fake 2"}}, nil
		}})
		time.Sleep(time.Minute)
		if got := second.Rival(); !strings.Contains(got, "another agent acts on this platform (cluster name demo, since ") || !strings.Contains(got, "this one began after it") {
			t.Errorf("the second is told %q", got)
		}
		if got := first.Rival(); !strings.Contains(got, "(cluster name staging, since ") || !strings.Contains(got, "this one began before it") {
			t.Errorf("the first is told %q", got)
		}
		if a, b := first.others(t), second.others(t); a != 1 || b != 1 {
			t.Errorf("the metric is %v and %v, want 1", a, b)
		}
		for _, other := range []*acting{shadow, elsewhere} {
			if got := other.Rival(); got != "" {
				t.Errorf("a shadow, or an agent of another platform, is told %q", got)
			}
		}
		// Steady load: nobody changes the count. New load: each takes it where it belongs, and leaves
		// it there.
		changes := p.Changes()
		time.Sleep(10 * time.Minute)
		if n := p.Changes() - changes; n != 0 {
			t.Errorf("%d changes without a reason", n)
		}
		for _, replicas := range []int32{7, 3} {
			changes = p.Changes()
			p.Want("web", replicas)
			time.Sleep(10 * time.Minute)
			if got, n := p.Replicas("web"), p.Changes()-changes; got != replicas || n != 1 {
				t.Errorf("%d replicas after %d changes, want %d after one", got, n, replicas)
			}
		}
		if n := second.lines.FilterMessageSnippet("another agent acts").Len(); n != 1 {
			t.Errorf("%d lines of the other agent, want one", n)
		}
		first.stop()
		time.Sleep(time.Minute)
		if got := second.Rival(); got != "" || second.others(t) != 0 {
			t.Errorf("after the other has ended, the second is told %q", got)
		}
	})
}

// Shards of one platform that serve many namespaces are rivals exactly if they share one, and each is one agent.
func TestShardsOfManyNamespaces(t *testing.T) {
	t.Parallel()
	names := func(from, to int, format string) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf(format, i))
		}
		return names
	}
	long := "%d-" + strings.Repeat("long-", 12)
	for name, tt := range map[string]struct {
		first, second []string
		want          float64
	}{
		"disjoint":                {names(0, 250, "n%03d"), names(250, 501, "n%03d"), 0},
		"disjoint and long":       {names(0, 90, long), names(90, 180, long), 0},
		"the same":                {names(0, 250, "n%03d"), names(0, 250, "n%03d"), 1},
		"the same and long":       {names(0, 90, long), names(0, 90, long), 1},
		"shifted":                 {names(0, 250, "n%03d"), names(1, 300, "n%03d"), 1},
		"one, in another order":   {names(0, 250, "n%03d"), append(names(250, 500, "n%03d"), "n100"), 1},
		"many beside all":         {names(0, 250, "n%03d"), nil, 1},
		"one beside many":         {names(0, 250, "n%03d"), []string{"n249"}, 1},
		"named twice, beside one": {append(names(0, 100, "n%03d"), "n000"), []string{"n249"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := testserver.Start(t)
				shard := func(namespaces []string) (*acting, []agent.Acting) {
					acts := []agent.Acting{{Platform: "fake 1", Namespaces: namespaces}}
					return act(t, &agenttest.Fake{}, s, "demo", agent.Options{Acts: func(context.Context) ([]agent.Acting, error) { return acts, nil }}), acts
				}
				first, _ := shard(tt.first)
				time.Sleep(time.Second)
				second, acts := shard(tt.second)
				time.Sleep(time.Minute)
				if a, b := first.others(t), second.others(t); a != tt.want || b != tt.want {
					t.Errorf("others: %v and %v, want %v: %s", a, b, tt.want, first.Rival())
				}
				others, _, err := agent.Others(t.Context(), s.Announce, "demo", acts)
				if err != nil || len(others) != 1+int(tt.want) {
					t.Errorf("who looks is told of %v, %v; want %v others beside the second", others, err, tt.want)
				}
				first.stop()
				synctest.Wait()
				time.Sleep(21 * time.Second)
				if got := second.others(t); got != 0 {
					t.Errorf("%v others after the first has ended", got)
				}
			})
		})
	}
}

// While the platform does not say what it is, nobody knows whether another agent still acts on it.
func TestARivalOfAPlatformThatIsAwayIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testserver.Start(t)
		other, away := act(t, &agenttest.Fake{}, s, "demo", agent.Options{}), time.Now().Add(45*time.Second)
		one := act(t, &agenttest.Fake{}, s, "staging", agent.Options{Acts: func(context.Context) ([]agent.Acting, error) {
			if time.Now().After(away) {
				return nil, errors.New("the engine does not answer")
			}
			return []agent.Acting{{Platform: "fake 1"}}, nil
		}})
		time.Sleep(50 * time.Second)
		if got := one.Rival(); got == "" {
			t.Error("it is not told of the other")
		}
		other.stop()
		time.Sleep(3 * time.Minute)
		if got := one.Rival(); got != "" || one.others(t) != 0 {
			t.Errorf("it is told %q", got)
		}
	})
}

// An agent is not told of one that died before it began: as after a failover, or a crash.
func TestADeadAgentIsNoRival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testserver.Start(t)
		dead := *s
		dead.Announce = func(ctx context.Context, req *setpointv1.AnnounceAgentRequest, options ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error) {
			if req.GetStopping() {
				return nil, status.Error(codes.Unavailable, "it was killed")
			}
			return s.Announce(ctx, req, options...)
		}
		before := act(t, &agenttest.Fake{}, &dead, "demo", agent.Options{})
		time.Sleep(50 * time.Second)
		before.stop()
		synctest.Wait()
		next := act(t, &agenttest.Fake{}, s, "demo", agent.Options{})
		for range 20 {
			time.Sleep(5 * time.Second)
			if got := next.Rival(); got != "" {
				t.Fatalf("it is told %q", got)
			}
		}
	})
}

// An agent that was granted its right late is told of others like any other, and says meanwhile that it knows none.
func TestAnAgentThatWasRefusedAnnouncesItselfLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testserver.Start(t)
		act(t, &agenttest.Fake{}, s, "demo", agent.Options{})
		late, granted := *s, time.Now().Add(2*time.Minute)
		late.Announce = func(ctx context.Context, req *setpointv1.AnnounceAgentRequest, options ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error) {
			if time.Now().Before(granted) {
				return nil, status.Error(codes.PermissionDenied, "the policy grants no recommend")
			}
			return s.Announce(ctx, req, options...)
		}
		second := act(t, &agenttest.Fake{}, &late, "other", agent.Options{})
		time.Sleep(3 * time.Minute)
		if got := second.Rival(); !strings.Contains(got, "cluster name demo") {
			t.Errorf("it is told %q", got)
		}
		if n := second.lines.FilterMessageSnippet("takes no announcement").Len(); n != 1 {
			t.Errorf("%d lines of the refusal, want one", n)
		}
	})
}

// An older service, which knows no announcements, is asked seldom and in silence.
func TestAnOlderServiceTellsOfNoAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, asked := testserver.Start(t), 0
		s.Announce = func(context.Context, *setpointv1.AnnounceAgentRequest, ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error) {
			asked++
			return nil, status.Error(codes.Unimplemented, "unknown method")
		}
		a := act(t, &agenttest.Fake{}, s, "demo", agent.Options{})
		time.Sleep(time.Hour)
		a.stop()
		synctest.Wait() // a sleep would order nothing for the race detector
		if asked < 2 || asked > 8 || a.Rival() != "" || a.lines.Len() > 0 {
			t.Errorf("asked %d times in an hour, told %q, in the log %v", asked, a.Rival(), a.lines.All())
		}
	})
}
