package flight_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/agent/flight"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// targets queries a server.
type targets struct {
	setpointv1.TargetServiceClient
}

func (s targets) GetTarget(ctx context.Context, name string) (*setpointv1.Target, error) {
	answer, err := s.TargetServiceClient.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
	return answer.GetTarget(), err
}

// serve starts a service, and returns it, a connection to it, and what ends both.
func serve(t *testing.T, options server.Options) (srv *server.Server, conn *grpc.ClientConn, stop func()) {
	t.Helper()
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	calls, rest := agenttest.NewPipe(), agenttest.NewPipe()
	serving, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(serving, calls, rest) }()
	conn, err = grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) { return calls.DialContext(ctx, "tcp", name) }))
	fatal.If(t, err)
	return srv, conn, func() {
		_ = conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = engine.Close()
	}
}

// replayed replays a file, whose steps must come out as they were recorded, and returns how many of its scenarios begin
// with a history.
func replayed(t *testing.T, name string, each func(recorded *recording.Step, step *replay.Step)) (histories int) {
	t.Helper()
	runner := replay.NewRunner(replay.NewEngine(), replay.Options{})
	for scenario := range recordingtest.Scenarios(t, name) {
		if scenario.History != nil {
			histories++
		}
		fatal.If(t, runner.Run(t.Context(), scenario, func(step *replay.Step) error {
			each(&scenario.Steps[step.Index], step)
			if !step.Compared || len(step.Differences) > 0 {
				t.Errorf("%s #%d: compared %v, %v", scenario.Name, step.Index+1, step.Compared, step.Differences)
			}
			return nil
		}))
	}
	return histories
}

// inCharge is a platform with a controller in charge of its shadows, which scaled last at that time. A policy counts that.
type inCharge struct {
	*agenttest.Fake
	scaled atomic.Pointer[time.Time]
}

func (p *inCharge) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	seen, err := p.Fake.Observe(ctx, o)
	if err == nil && o.Shadow {
		if at := p.scaled.Load(); at != nil {
			seen.LastScale = *at
		}
		seen.Request.Spec.Behavior.ScaleUp.Policies = []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 120}}
	}
	return seen, err
}

// A recording of any platform's agent replays: each step has the same outcome, for a new object
// and amid a history, with failed writes, and with outages of the service.
func TestWhatAnyAgentRecordsReplays(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "flight.jsonl.gz")
	synctest.Test(t, func(t *testing.T) {
		srv, conn, stop := serve(t, server.DefaultOptions())
		defer stop()
		s, p := agenttest.NewService(srv.Recommendations()), &inCharge{Fake: &agenttest.Fake{}}
		for _, w := range []agenttest.Workload{{Name: "web", Replicas: 4}, {Name: "api", Replicas: 4, Steady: true}, {Name: "watched", Replicas: 4, Shadow: true}} {
			p.Create(w)
		}
		r, err := flight.Open(flight.Options{File: name, MaxSteps: 7, Targets: targets{setpointv1.NewTargetServiceClient(conn)}})
		fatal.If(t, err)
		d, err := agent.NewDriver(p, agent.Service{Calls: s}, agent.Options{
			Cluster: "demo", Period: agenttest.Period, FirstWait: -1, Observers: []agent.Observer{r},
		}, agent.DriverOptions{})
		fatal.If(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		wait := func() { time.Sleep(5 * agenttest.Period) }
		for _, n := range []int32{5, 9, 3, 50} {
			for _, name := range []string{"web", "api", "watched"} {
				p.Want(name, n)
			}
			wait()
		}
		p.FailWrites(errors.New("no right to do that"))
		p.Want("web", 6)
		p.Want("api", 6)
		wait()
		p.FailWrites(nil)
		wait()
		s.Away(true)
		wait()
		s.Away(false)
		p.Scale("web", 9)
		wait()
		p.Want("watched", 4)
		wait()
		p.scaled.Store(new(time.Now()))
		p.Want("watched", 8)
		p.Scale("watched", 8)
		time.Sleep(3 * agenttest.Period / 2)
		p.Want("watched", 10)
		wait()
		wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		fatal.If(t, r.Close())
	})
	steps, scaled, failed, ours := 0, 0, 0, 0
	histories := replayed(t, name, func(recorded *recording.Step, step *replay.Step) {
		steps++
		if step.Outcome.Scaled {
			scaled++
		}
		if recorded.ScaleUpdateError != "" {
			failed++
		}
		if recorded.Request.GetRequestId()+recorded.Request.GetTargetUid() != "" {
			ours++
		}
	})
	t.Logf("%d steps, %d changes, %d failed, %d scenarios begin with a history", steps, scaled, failed, histories)
	if steps < 60 || scaled < 6 || failed < 2 || histories < 4 {
		t.Error("that is too little to prove anything")
	}
	if ours > 0 {
		t.Errorf("%d requests are recorded with ids of their own", ours)
	}
}

// What an agent observes of any input that a real controller of Kubernetes was recorded with replays without a
// difference, also when a scenario begins amid a history.
func TestWhatKubernetesAgentsRecordReplays(t *testing.T) {
	t.Parallel()
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	srv, conn, stop := serve(t, options)
	defer stop()
	name := filepath.Join(t.TempDir(), "flight.jsonl.gz")
	r, err := flight.Open(flight.Options{File: name, MaxSteps: 3, Targets: targets{setpointv1.NewTargetServiceClient(conn)}})
	fatal.If(t, err)
	given, n := 0, 0
	for scenario := range recordingtest.Scenarios(t, "../../kubernetes/recording/testdata/curated.jsonl.gz") {
		n++
		player, fresh := recording.NewPlayer(scenario), scenario.HPA.Status.Conditions == nil
		for i := range scenario.Steps {
			d, err := decided(t.Context(), srv.Recommendations(), player, &scenario.Steps[i], fmt.Sprintf("c%d", n))
			if err != nil || d == nil {
				break // the service refuses an input that the recommender accepts, or the object is gone
			}
			d.Key.Name, d.New, d.Period, fresh = fmt.Sprint("web-", n), fresh, 24*time.Hour, false
			r.Observe(d)
			r.Wait()
			given++
		}
	}
	fatal.If(t, r.Close())
	steps := 0
	histories := replayed(t, name, func(*recording.Step, *replay.Step) { steps++ })
	t.Logf("%d decisions of %d scenarios: %d recorded, %d scenarios begin with a history", given, n, steps, histories)
	if steps*10 < given*9 || histories < 50 {
		t.Error("that is too little to prove anything")
	}
}

// decided makes the decision of a step, and reports it; nil if there is no autoscaler.
func decided(ctx context.Context, service setpointv1.RecommendationServiceServer, player *recording.Player, step *recording.Step, cluster string) (*agent.Decision, error) {
	request, err := player.Request(step, cluster)
	if err != nil || request == nil {
		return nil, err
	}
	answer, err := service.Recommend(ctx, request)
	if err != nil {
		return nil, err
	}
	d := &agent.Decision{Key: agent.Key{Kind: "HorizontalPodAutoscaler"}, At: answer.GetEvaluationTime().AsTime(), Request: request, Answer: answer}
	if answer.GetDesiredReplicas() == answer.GetCurrentReplicas() {
		return d, nil
	}
	report := &setpointv1.ReportScaleRequest{Target: request.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}
	if d.Applied = step.ScaleUpdateError == ""; !d.Applied {
		d.ApplyError = errors.New(step.ScaleUpdateError)
		report.Outcome, report.Message = "FAILED", step.ScaleUpdateError
	}
	d.Report, err = service.ReportScale(ctx, report)
	return d, err
}

// An invalid recording is refused with a clear error.
func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, line, want string }{
		{"no calls", `{"name": "a", "calls": []}`, "a: calls: there are none"},
		{"calls beside steps", `{"name": "a", "calls": [{}], "steps": [{"time": "2026-01-02T03:04:05Z"}]}`, "a: calls: are in place of hpa, steps and history"},
		{"no request", `{"name": "a", "calls": [{"time": "2026-01-02T03:04:05Z"}]}`, "a: calls[0].request: must be set"},
		{"a request that is none", `{"name": "a", "calls": [{"time": "2026-01-02T03:04:05Z", "request": {"target": 3}}]}`, "a: calls[0].request: "},
		{"no time", `{"name": "a", "calls": [{"request": {}}]}`, "a: steps[0].time: must be set"},
		{"a history that is none", `{"name": "a", "before": 7, "calls": [{"time": "2026-01-02T03:04:05Z", "request": {}}]}`, "a: before: "},
		{"a history of calls without any", `{"name": "a", "before": {}}`, "a: before and state: are for a scenario with calls"},
		{"an unknown field of a call", `{"name": "a", "calls": [{"tiem": 1}]}`, `unknown field "calls[0].tiem"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := recording.NewReader("x", strings.NewReader(tt.line)).Next()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	line := fmt.Sprintf(`{"name": "a", "calls": [{"time": "2026-01-02T03:04:05Z", "request": {"target": %q}}]}`, "clusters/x/web")
	scenario, err := recording.NewReader("x", strings.NewReader(line)).Next()
	fatal.If(t, err)
	if _, err := recording.NewPlayer(scenario).Request(&scenario.Steps[0], "demo"); err == nil || !strings.Contains(err.Error(), `"clusters/x/web" is not the name of a target`) {
		t.Errorf("an invalid name: %v", err)
	}
}
