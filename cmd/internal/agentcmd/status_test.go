package agentcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/status"
)

// askedService is a service that notes what it is asked, and answers with an error if there is one.
type askedService struct {
	setpointv1.TargetServiceClient
	names  []string
	err    error
	during func()
}

func (a *askedService) GetTarget(_ context.Context, req *setpointv1.GetTargetRequest, _ ...grpc.CallOption) (*setpointv1.GetTargetResponse, error) {
	a.names = append(a.names, req.GetName())
	if a.during != nil {
		a.during()
	}
	return &setpointv1.GetTargetResponse{Target: &setpointv1.Target{Outlook: &setpointv1.Outlook{Problem: "ScalingDisabled"}}}, a.err
}

func statusOf(n int) *status.Status {
	s := &status.Status{}
	for i := range n {
		name := fmt.Sprint("web", i)
		s.Objects = append(s.Objects, &status.Object{Key: agent.Key{Namespace: "shop", Name: name}, Target: "service-" + name})
	}
	return s
}

func TestWhatComesNextIsAskedOfTheNamedOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		err   error
		names []string
		want  string
		calls int
	}{
		{"nothing is named", nil, nil, "", 0},
		{"by name", nil, []string{"web1"}, "no change can come: ScalingDisabled", 1},
		{"by namespace and name", nil, []string{"shop/web1"}, "no change can come: ScalingDisabled", 1},
		{"a token without the right", grpcstatus.Error(codes.PermissionDenied, "no"), []string{"web1"}, "unknown: the agent's token has no verb read", 1},
		{"no decision yet", grpcstatus.Error(codes.NotFound, "no"), []string{"web1"}, "unknown: the service has no decision yet", 1},
		{"a member of a fleet", nil, []string{"web1", "web2"}, "no change can come: ScalingDisabled", 1},
		{"a service that is away", grpcstatus.Error(codes.Unavailable, "connection refused"), []string{"web1"}, "unknown: the service is unavailable", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			service, s := &askedService{err: tt.err}, statusOf(3)
			kept := s.Objects[1]
			s.Objects[2].Decision = &status.Decided{Fleet: "share 1 of 2 of fleet all/n/t"}
			(&ahead{targets: service, cluster: "demo"}).fill(t.Context(), s, tt.names)
			if got := strings.Join(s.Objects[1].Next, "\n"); got != tt.want || len(service.names) != tt.calls || len(s.Objects[0].Next) > 0 {
				t.Errorf("got %q after %q", got, service.names)
			}
			if tt.calls > 0 && service.names[0] != "clusters/demo/namespaces/shop/targets/service-web1" {
				t.Errorf("asked for %q", service.names)
			}
			if next := strings.Join(s.Objects[2].Next, "\n"); slices.Contains(tt.names, "web2") && !strings.HasPrefix(next, "what its fleet decides") {
				t.Errorf("of a member: %q", next)
			}
			if len(kept.Next) > 0 {
				t.Error("the agent's own status was changed, which others read")
			}
		})
	}
}

// The admin address knows no callers: what one of them makes the agent ask is bounded.
func TestWhatComesNextIsBounded(t *testing.T) {
	t.Parallel()
	s, names := statusOf(40), []string{}
	for _, o := range s.Objects {
		names = append(names, o.Name)
	}
	service := &askedService{}
	a := &ahead{targets: service, cluster: "demo"}
	second := statusOf(1)
	service.during = func() { a.fill(t.Context(), second, []string{"web0"}) }
	a.fill(t.Context(), s, names)
	if len(service.names) != mostAhead {
		t.Errorf("%d calls, want %d", len(service.names), mostAhead)
	}
	if !slices.Equal(second.Objects[0].Next, []string{"unknown: another status is asking"}) {
		t.Errorf("a second status at once has %q", second.Objects[0].Next)
	}
}
