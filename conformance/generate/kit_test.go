package generate_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// service is Setpoint in this process.
type service struct {
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
}

func startService(tb testing.TB) *service {
	tb.Helper()
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	if err != nil {
		tb.Fatal(err)
	}
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, listener, rest) }()
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:service", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-served; err != nil {
			tb.Error(err)
		}
		_ = engine.Close()
	})
	return &service{setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)}
}

// decided is a step with its outcomes, nil if there was no autoscaler.
type decided struct {
	step   *recording.Step
	answer *setpointv1.RecommendResponse
	report *setpointv1.ReportScaleResponse
}

// decider lets the service decide, as a caller that applies what it says.
type decider struct {
	service *service
	context context.Context
	cluster string
	explain bool
	// visit is called for every step, if set.
	visit func(decided)

	player *recording.Player
	target string
}

func (d *decider) Start(scenario *recording.Scenario) error {
	if len(scenario.Steps) > 0 {
		return errors.New("there are steps before the first one")
	}
	d.player = recording.NewPlayer(scenario)
	return nil
}

func (d *decider) Decide(step *recording.Step) (generate.Decision, error) {
	request, err := d.player.Request(step, d.cluster)
	if err != nil {
		return generate.Decision{}, err
	}
	done := decided{step: step}
	var decision generate.Decision
	if request == nil {
		if d.target != "" {
			_, err = d.service.targets.DeleteTarget(d.context, &setpointv1.DeleteTargetRequest{Name: d.target})
			d.target = ""
		}
	} else {
		d.target = request.GetTarget()
		request.Explain = d.explain
		decision, err = d.ask(request, &done)
	}
	if err == nil && d.visit != nil {
		d.visit(done)
	}
	return decision, err
}

func (d *decider) ask(request *setpointv1.RecommendRequest, done *decided) (decision generate.Decision, err error) {
	if done.answer, err = d.service.recommendations.Recommend(d.context, request); err != nil {
		return decision, err
	}
	if done.answer.GetDesiredReplicas() == done.answer.GetCurrentReplicas() {
		return decision, nil
	}
	report := &setpointv1.ReportScaleRequest{
		Target: d.target, RecommendationId: done.answer.GetRecommendationId(), Outcome: "APPLIED",
	}
	if done.step.ScaleUpdateError != "" {
		report.Outcome, report.Message = "FAILED", done.step.ScaleUpdateError
	}
	done.report, err = d.service.recommendations.ReportScale(d.context, report)
	return generate.Decision{Scaled: report.Outcome == "APPLIED", Replicas: done.answer.GetDesiredReplicas()}, err
}

// follower decides without knowledge: the count goes up and down.
type follower struct{ steps int }

func (f *follower) Start(*recording.Scenario) error { return nil }

func (f *follower) Decide(step *recording.Step) (generate.Decision, error) {
	f.steps++
	return generate.Decision{Scaled: !step.HPADeleted && f.steps%3 == 0, Replicas: int32(1 + f.steps*7%13)}, nil
}
