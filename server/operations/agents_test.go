package operations_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// announce announces an agent, and returns the clusters of the others.
func announce(ctx context.Context, t *testing.T, s *servertest.Service, req *setpointv1.AnnounceAgentRequest) (clusters []string) {
	t.Helper()
	req.Platform = cmp.Or(req.Platform, servertest.Platform)
	answer, err := operations(s).AnnounceAgent(ctx, req)
	fatal.If(t, err)
	for _, other := range answer.GetOthers() {
		if other.GetStartTime().AsTime().IsZero() || other.GetAnnounceTime().AsTime().Before(other.GetStartTime().AsTime()) {
			t.Errorf("an agent without its times: %v", other)
		}
		clusters = append(clusters, other.GetCluster())
	}
	return clusters
}

func agentOf(cluster string, namespaces ...string) *setpointv1.AnnounceAgentRequest {
	return &setpointv1.AnnounceAgentRequest{Parent: "clusters/" + cluster, AgentId: "agent-of-" + cluster + "-0123", Namespaces: namespaces}
}

func TestAgentsOfOnePlatformAreToldOfEachOther(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	admin, scaler := servertest.As(t.Context(), servertest.AdminToken), servertest.As(t.Context(), servertest.ScalerToken)
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is told of %q, want %q", what, got, want)
		}
	}
	want("the first", announce(admin, t, s, agentOf("prod")))
	want("the second, which began after the first was seen", announce(scaler, t, s, agentOf("demo")))
	want("the first again", announce(admin, t, s, agentOf("prod")), "demo")
	want("the second, which may not know the first's name", announce(scaler, t, s, agentOf("demo")), "")
	want("who only looks", announce(admin, t, s, &setpointv1.AnnounceAgentRequest{Parent: "clusters/demo"}), "prod", "demo")
	elsewhere := agentOf("prod")
	elsewhere.Platform = strings.Repeat("0b", 32)
	want("an agent of another platform", announce(admin, t, s, elsewhere))
	// Agents of other namespaces don't meet.
	announce(admin, t, s, agentOf("prod", "bank"))
	want("an agent of the shop", announce(scaler, t, s, agentOf("demo", "shop")))
	want("an agent of both", announce(scaler, t, s, agentOf("demo", "shop", "bank")), "")
	// Only who has the agent's id ends its announcement.
	ending := agentOf("prod")
	ending.AgentId, ending.Stopping = "another-agent-0123", true
	announce(admin, t, s, ending)
	want("the second still", announce(scaler, t, s, agentOf("demo")), "")
	ending.AgentId = agentOf("prod").AgentId
	announce(admin, t, s, ending)
	want("the second after the first has ended", announce(scaler, t, s, agentOf("demo")))
}

// An agent of many namespaces makes several announcements, and is one agent.
func TestTheAnnouncementsOfOneAgentAreOne(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	part := func(id string, namespaces ...string) *setpointv1.AnnounceAgentRequest {
		return &setpointv1.AnnounceAgentRequest{Parent: "clusters/demo", AgentId: id, Namespaces: namespaces}
	}
	others := func(what string, req *setpointv1.AnnounceAgentRequest, want int) {
		t.Helper()
		if got := announce(t.Context(), t, s, req); len(got) != want {
			t.Errorf("%s is told of %d others, want %d", what, len(got), want)
		}
	}
	others("the first", part("first-0123456789", "a", "b"), 0)
	others("its second part", part("first-0123456789.1", "c", "d"), 0)
	others("an agent of other namespaces", part("second-0123456789", "e"), 0)
	others("one whose parts meet both of the first", part("third-0123456789", "b", "c"), 0) // it has said nothing since
	others("the first again", part("first-0123456789", "a", "b"), 1)
	others("its second part again", part("first-0123456789.1", "c", "d"), 1)
	others("the third again", part("third-0123456789", "b", "c"), 1)
	others("who looks", part("", "a", "c"), 2)
	others("the first's namesake, whose id does not end in a number", part("first-0123456789.x", "a"), 0)
	others("the third, beside both", part("third-0123456789", "a"), 2)
}

func TestInvalidAnnouncements(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for name, spoil := range map[string]func(*setpointv1.AnnounceAgentRequest){
		"no cluster":          func(r *setpointv1.AnnounceAgentRequest) { r.Parent = "clusters/-" },
		"no platform":         func(r *setpointv1.AnnounceAgentRequest) { r.Platform = "" },
		"no hash":             func(r *setpointv1.AnnounceAgentRequest) { r.Platform = strings.Repeat("x", 64) },
		"an id to guess":      func(r *setpointv1.AnnounceAgentRequest) { r.AgentId = "1" },
		"a namespace without": func(r *setpointv1.AnnounceAgentRequest) { r.Namespaces = []string{""} },
		"too many namespaces": func(r *setpointv1.AnnounceAgentRequest) { r.Namespaces = strings.Split(strings.Repeat("a,", 101), ",") },
		"namespaces of megabyte": func(r *setpointv1.AnnounceAgentRequest) {
			r.Namespaces = strings.Split(strings.Repeat(strings.Repeat("a", 99)+",", 99)+"b", ",")
		},
	} {
		req := agentOf("demo")
		req.Platform = servertest.Platform
		spoil(req)
		_, err := operations(s).AnnounceAgent(t.Context(), req)
		wantCode(t, name, err, codes.InvalidArgument)
	}
}

// A caller that invents agents is refused; others are not.
func TestInventedAgentsAreBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	admin := servertest.As(t.Context(), servertest.AdminToken)
	var err error
	taken := 0
	for ; err == nil && taken < 1000; taken++ {
		_, err = operations(s).AnnounceAgent(admin, &setpointv1.AnnounceAgentRequest{
			Parent: "clusters/prod", Platform: fmt.Sprintf("%064x", taken), AgentId: "agent-0123456789",
		})
	}
	if status.Code(err) != codes.ResourceExhausted || taken != 257 {
		t.Errorf("%d taken, then %v", taken, err)
	}
	announce(servertest.As(t.Context(), servertest.ScalerToken), t, s, agentOf("demo"))
}

// What a call reads is bounded: a platform has few agents.
func TestThePlatformsAgentsAreBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	var err error
	taken := 0
	for ; err == nil && taken < 1000; taken++ {
		_, err = operations(s).AnnounceAgent(t.Context(), &setpointv1.AnnounceAgentRequest{
			Parent: "clusters/prod", Platform: servertest.Platform, AgentId: fmt.Sprintf("agent-0123456789-%d", taken),
		})
	}
	if status.Code(err) != codes.ResourceExhausted || taken != 33 {
		t.Errorf("%d taken, then %v", taken, err)
	}
	// Those that are known announce themselves again.
	announce(t.Context(), t, s, &setpointv1.AnnounceAgentRequest{Parent: "clusters/prod", AgentId: "agent-0123456789-0"})
}
