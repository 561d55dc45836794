package differential

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Service is Setpoint in this process, called over gRPC on the loopback interface. It
// is safe for concurrent use.
type Service struct {
	// Overrides are the service's.
	Overrides setpointv1.OverrideServiceClient

	backend *replay.Server
	played  atomic.Int64
	stop    func() error
}

// StartService starts a service. Callers must close it.
func StartService() (*Service, error) { return StartServiceAt(nil) }

// StartServiceAt starts a service with that clock; nil: the usual one.
func StartServiceAt(clock func() time.Time) (*Service, error) {
	options := server.DefaultOptions()
	options.AllowEvaluationTime, options.Clock = true, clock
	s, err := server.New(memory.New(memory.Options{Clock: clock}), nil, options)
	if err != nil {
		return nil, fmt.Errorf("make the service: %w", err)
	}
	grpcListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	httpListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, grpcListener, httpListener) }()
	conn, err := grpc.NewClient(grpcListener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		cancel()
		return nil, errors.Join(err, <-served)
	}
	return &Service{
		Overrides: setpointv1.NewOverrideServiceClient(conn),
		backend:   replay.NewServer(conn),
		stop: func() error {
			err := conn.Close()
			cancel()
			return errors.Join(err, <-served)
		},
	}, nil
}

// Close stops the service.
func (s *Service) Close() error { return s.stop() }

// Play is a scenario played by Setpoint: it decides step by step, and keeps the
// outcomes. It implements generate.Decider.
type Play struct {
	ctx     context.Context
	backend replay.Backend
	profile string
	explain bool
	player  *recording.Player
	cluster string
	target  string

	// Asking sees each request before it is asked, and may add to it. Nil: nothing does.
	Asking func(*setpointv1.RecommendRequest) error

	// Adjusted is how many answers have adjustments.
	Adjusted int
	// Outcomes has one entry per step.
	Outcomes []recording.Outcome
	// Platform is the index of the first step whose outcome, by its explanation,
	// depends on the processor of upstream's controller, -1: none. It requires
	// explanations.
	Platform int
}

// ErrRefused means that the service refused a step.
var ErrRefused = errors.New("refused by the service")

// NewPlay returns a play with decisions of the profile. With explain the decisions are
// explained, which takes longer.
func (s *Service) NewPlay(ctx context.Context, profile string, explain bool) *Play {
	return &Play{
		ctx: ctx, backend: s.backend, cluster: "play-" + strconv.FormatInt(s.played.Add(1), 10), profile: profile, explain: explain, Platform: -1,
	}
}

// newEnginePlay returns a play of the engine without a service, which also decides specs that the
// service refuses, as recordings have them.
func newEnginePlay(ctx context.Context, profile string) *Play {
	return &Play{ctx: ctx, backend: replay.NewEngine(), cluster: "play", profile: profile, explain: true, Platform: -1}
}

// Run plays an existing scenario.
func (p *Play) Run(scenario *recording.Scenario) error {
	if err := p.Start(scenario); err != nil {
		return err
	}
	for i := range scenario.Steps {
		if _, err := p.Decide(&scenario.Steps[i]); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return p.End()
}

// Start begins a scenario, and marks it with the profile.
func (p *Play) Start(scenario *recording.Scenario) error {
	scenario.Config.Profile = p.profile
	if p.profile == reference {
		scenario.Config.Profile = ""
	}
	p.player = recording.NewPlayer(scenario)
	return nil
}

// Decide plays one step.
func (p *Play) Decide(step *recording.Step) (generate.Decision, error) {
	request, err := p.player.Request(step, p.cluster)
	if err != nil {
		return generate.Decision{}, err
	}
	if request == nil {
		p.Outcomes = append(p.Outcomes, recording.Outcome{})
		return generate.Decision{}, p.End()
	}
	request.Explain = p.explain
	p.target = request.GetTarget()
	if p.Asking != nil {
		if err := p.Asking(request); err != nil {
			return generate.Decision{}, err
		}
	}
	answer, err := p.backend.Recommend(p.ctx, request)
	if err != nil {
		return generate.Decision{}, refused(err)
	}
	if len(answer.GetAdjustments()) > 0 {
		p.Adjusted++
	}
	if p.Platform < 0 && slices.ContainsFunc(answer.GetExplanation().GetWarnings(), dependsOnPlatform) {
		p.Platform = len(p.Outcomes)
	}
	var report *setpointv1.ReportScaleResponse
	if answer.GetDesiredReplicas() != answer.GetCurrentReplicas() {
		outcome := "APPLIED"
		if step.ScaleUpdateError != "" {
			outcome = "FAILED"
		}
		report, err = p.backend.ReportScale(p.ctx, &setpointv1.ReportScaleRequest{
			Target: p.target, RecommendationId: answer.GetRecommendationId(), Outcome: outcome, Message: step.ScaleUpdateError,
		})
		if err != nil {
			return generate.Decision{}, refused(err)
		}
	}
	out := recording.OutcomeOf(answer, report, step.ScaleUpdateError == "")
	p.Outcomes = append(p.Outcomes, out)
	return generate.Decision{Scaled: out.Scaled, Replicas: out.ScaledTo}, nil
}

// End deletes the play's target.
func (p *Play) End() error {
	if p.target == "" {
		return nil
	}
	target := p.target
	p.target = ""
	return p.backend.Delete(p.ctx, target)
}

func refused(err error) error {
	if status.Code(err) == codes.InvalidArgument {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// dependsOnPlatform reports whether a warning says that the outcome depends on the
// controller's processor: numbers out of range saturate in Setpoint, as on arm64; on
// amd64 they become the least number.
func dependsOnPlatform(warning string) bool {
	return strings.Contains(warning, "depends on the processor") || strings.Contains(warning, "that of a division by 0")
}
