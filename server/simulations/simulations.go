// Package simulations serves SimulationService: it reads a request (read.go), bounds what it costs, waits for its turn,
// and sends the steps of each spec in virtual time (package simulation) for as long as the caller reads them.
package simulations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/streams"
	"github.com/setpoint-dev/setpoint/server/waits"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Options limit simulations.
type Options struct {
	// AtOnce is how many run concurrently on this instance, one processor each. 0: none
	// are allowed.
	AtOnce int
	// Work limits one request, all of its specs together, in evaluations of a pod; see
	// simulation.MaxWork, the default for 0.
	Work int64
	// Time limits how long one request may run, besides waiting for its turn, for its caller and
	// for other calls. 0: what that much work takes at most.
	Time time.Duration
	// Defaults are the options of decisions if the request has none.
	Defaults recommender.Options
	// UnreadTimeout is how long a response may wait for a caller that reads nothing. 0: a minute.
	UnreadTimeout time.Duration
	// Guard reports when the processors can't keep up, and Draining is closed when the server
	// begins to stop.
	Guard    *admission.Guard
	Draining <-chan struct{}
}

// Limits of a simulation besides its work.
const (
	// mostSimulatedSteps limits the evaluations of a request, all of its specs together: two
	// specs over half a year, or ten over a month.
	mostSimulatedSteps = 2_200_000
	// mostSimulatedBytes limits the response.
	mostSimulatedBytes = 64 << 20
	// mostKept limits what a run keeps of its pods, in the unit of simulation.MaxKept: 64
	// MiB.
	mostKept = 8_000_000
	// mostWaiting is how many requests may wait for their turn, and mostOfCaller how many of one
	// known caller may wait or run.
	mostWaiting, mostOfCaller = 16, 2
	// longestTurn is how long a request waits for its turn.
	longestTurn = 10 * time.Second
	// longestLook and longestReading are how long a unit of work may take, and the reading of a
	// request, so that whatever an estimate of work forgets ends soon: usual are some 100 ns, and
	// at most 2 s.
	longestLook    = 500 * time.Nanosecond
	longestReading = 5 * time.Second
	// slowestReader is how many bytes per second a caller reads at least, beyond the time for
	// which it may read nothing.
	slowestReader = 256 << 10
)

// errTooLong ends a simulation that took longer than its work may take.
var errTooLong = errors.New("it takes too long")

// Service serves SimulationService.
type Service struct {
	setpointv1.UnimplementedSimulationServiceServer
	options Options
	places  chan struct{}
	turns   chan struct{} // one for each waiting or running request
	callers streams.PerCaller
}

// New returns the service.
func New(options Options) *Service {
	return &Service{
		options: options, places: make(chan struct{}, options.AtOnce), turns: make(chan struct{}, options.AtOnce+mostWaiting),
	}
}

// enter waits for a request's turn.
func (s *Service) enter(ctx context.Context) (leave func(), err error) {
	left, taken := s.callers.Take(access.CallerOf(ctx).Name(), mostOfCaller)
	if !taken {
		return nil, apierror.OverLimitNow("simulationsPerCaller", mostOfCaller, "this caller has the maximum number of simulations running or waiting; wait for them")
	}
	busy := func() error {
		left()
		return apierror.OverLimitNow("maxSimulations", s.options.AtOnce, "this instance runs its maximum number of simulations; retry later, or elsewhere")
	}
	select {
	case s.turns <- struct{}{}:
	default:
		return nil, busy()
	}
	turn := time.NewTimer(longestTurn)
	defer turn.Stop()
	defer waits.Begin(ctx, waits.Simulation)()
	select {
	case s.places <- struct{}{}:
		return func() { <-s.places; <-s.turns; left() }, nil
	case <-turn.C:
		<-s.turns
		return nil, busy()
	case <-s.options.Draining:
		<-s.turns
		left()
		return nil, apierror.ShuttingDown()
	case <-ctx.Done():
		<-s.turns
		left()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Simulate runs each spec, until the caller goes or the server stops.
func (s *Service) Simulate(req *setpointv1.SimulateRequest, stream grpc.ServerStreamingServer[setpointv1.SimulateResponse]) error {
	if err := apierror.OfStructure(req); err != nil {
		return err
	}
	if s.options.AtOnce == 0 {
		return apierror.OverLimit("maxSimulations", 0, "this server runs no simulations (--max-simulations=0)")
	}
	// Parsing a scenario may take some fifty times its bytes, so it waits for its turn,
	// too.
	leave, err := s.enter(stream.Context())
	if err != nil {
		return err
	}
	defer leave()
	p := &played{service: s, req: req, work: cmp.Or(s.options.Work, simulation.MaxWork)}
	longest := cmp.Or(s.options.Time, longestReading+time.Duration(p.work)*longestLook)
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	p.ctx, p.time = ctx, newStopwatch(longest, func() { cancel(errTooLong) })
	defer p.time.end()
	defer s.endWhenDraining(ctx, func() { cancel(nil) })()
	asked, violations := readSimulation(ctx, req, s.options.Defaults)
	if ctx.Err() != nil {
		return s.failed(ctx, stream.Context(), longest, "scenario", context.Cause(ctx))
	}
	if err := apierror.Invalid(violations); err != nil {
		return err
	}
	runs, fewer := fmt.Sprintf("%d specs", len(asked.runs)), "specs"
	steps := int64(asked.world.Duration/asked.world.Loop.SyncPeriod) * int64(len(asked.runs))
	if f := asked.world.Fleet; f != nil {
		runs, fewer = fmt.Sprintf("%d rules for %d members", len(asked.runs), len(f.Members)), "rules or members"
		steps *= int64(len(f.Members))
	}
	if steps > mostSimulatedSteps {
		return apierror.OverLimit("simulatedSteps", mostSimulatedSteps, fmt.Sprintf("%s over %s in steps of %s are %d evaluations, more than %d: shorten the time, or try fewer %s",
			runs, asked.world.Duration, asked.world.Loop.SyncPeriod, steps, mostSimulatedSteps, fewer))
	}
	p.world = asked.world
	return streams.Attend(stream, s.options.UnreadTimeout, s.options.Draining, func(stream grpc.ServerStream) error {
		p.stream = stream
		for i := range asked.runs {
			if err := p.run(&asked.runs[i]); err != nil {
				return s.failed(ctx, stream.Context(), longest, asked.runs[i].Name, err)
			}
		}
		return nil
	})
}

// endWhenDraining cancels the run when the server begins to stop.
func (s *Service) endWhenDraining(ctx context.Context, cancel context.CancelFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.options.Draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return func() { cancel(); <-done }
}

// failed returns why a run ended early.
func (s *Service) failed(ctx, caller context.Context, longest time.Duration, name string, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if name != "" {
		name += ": "
	}
	switch {
	case caller.Err() != nil:
		return status.FromContextError(caller.Err()).Err()
	case errors.Is(err, errTooLong):
		return apierror.OverLimit("simulationSeconds", int(longest.Seconds()), fmt.Sprintf("%s%v: a simulation runs for at most %s here; shorten the time, lengthen loop.syncPeriod, or try fewer specs, metrics or pods",
			name, err, longest))
	case ctx.Err() != nil:
		return apierror.ShuttingDown()
	case errors.Is(err, simulation.ErrTooMuch):
		return apierror.OverLimit("simulationWork", int(min(cmp.Or(s.options.Work, simulation.MaxWork), math.MaxInt32)), name+err.Error())
	}
	return apierror.InvalidField("scenario", err.Error())
}

// played is the state of a running request.
type played struct {
	ctx     context.Context
	service *Service
	req     *setpointv1.SimulateRequest
	stream  grpc.ServerStream
	world   *simulation.Scenario
	work    int64 // the rest
	time    *stopwatch
	bytes   int           // of the response so far
	unread  time.Duration // waited for the caller to read
	sent    time.Duration
	any     bool
	steps   int
}

// run runs one spec, or one rule of a fleet, and sends its responses.
func (p *played) run(column *simulation.Column) error {
	p.any, p.steps = false, 0
	limits := simulation.Limits{Work: p.work, Kept: mostKept}
	result, err := column.Run(p.ctx, p.world, limits, func(step *simulation.Step) error {
		if err := p.step(column.Name, step); err != nil {
			return err
		}
		return p.giveWay()
	})
	if err != nil {
		return err
	}
	// Each step counts as at least one evaluation of a pod, so that many specs stay within the
	// limit together.
	if p.work -= result.Work; p.work <= 0 {
		p.work = 1
	}
	return p.send(&setpointv1.SimulateResponse{SpecName: column.Name, Figures: figuresOf(result)})
}

// step sends an evaluation, if the caller wants it.
func (p *played) step(name string, step *simulation.Step) error {
	changes := step.Decision.Changes()
	interval := p.req.GetStepInterval().AsDuration()
	if p.req.GetFiguresOnly() || !changes && p.any && step.At-p.sent < interval {
		return context.Cause(p.ctx)
	}
	if !changes {
		p.sent, p.any = step.At, true
	}
	r := &setpointv1.SimulateResponse{
		SpecName: name, Time: timestamppb.New(step.Time), Load: step.Load,
		CurrentReplicas: step.Replicas, ReadyReplicas: step.Ready, DesiredReplicas: step.Decision.Desired,
		RunningReplicas: step.Running, NeededReplicas: step.Needed, Cause: string(step.Cause),
		Queued: step.Queued, Served: step.Served, Lost: step.Lost,
	}
	for i := range step.Members {
		m := &step.Members[i]
		r.Members = append(r.Members, &setpointv1.SimulatedMember{Name: m.Name, Share: m.Share, CurrentReplicas: m.Replicas, ReadyReplicas: m.Ready})
	}
	if changes {
		r.Reason = simulation.ReasonOf(step.Decision)
	}
	if step.Proposal >= 0 {
		r.ProposedReplicas = &step.Proposal
	}
	if !math.IsInf(step.Capacity, 1) {
		r.Capacity = &step.Capacity
	}
	if p.req.GetExplain() {
		answer := conversion.Response(step.Decision)
		r.Status, r.Explanation = answer.GetStatus(), answer.GetExplanation()
	}
	return p.send(r)
}

// send sends a response while the total is not too large.
func (p *played) send(r *setpointv1.SimulateResponse) error {
	if p.bytes += proto.Size(r); p.bytes > mostSimulatedBytes {
		at := p.world.Start.Add(p.world.Duration)
		if t := r.GetTime(); t != nil {
			at = t.AsTime()
		}
		return apierror.OverLimit("simulatedBytes", mostSimulatedBytes, fmt.Sprintf("at %s the response has more than %d bytes: set stepInterval or figuresOnly, leave out explain, or shorten the time",
			at.Format(time.RFC3339), mostSimulatedBytes))
	}
	return p.waiting(func() error {
		began := time.Now()
		err := p.stream.SendMsg(r)
		patience := cmp.Or(p.service.options.UnreadTimeout, streams.UnreadTimeout)
		if p.unread += time.Since(began); err == nil && p.unread > patience+time.Duration(p.bytes)*time.Second/slowestReader {
			return status.Errorf(codes.Aborted, "the caller reads less than %d bytes a second, and others wait for its place; set stepInterval or figuresOnly, or read faster", slowestReader)
		}
		return err
	})
}

// waiting waits for something, which is not the simulation's time.
func (p *played) waiting(wait func() error) error {
	p.time.pause()
	defer p.time.resume()
	return wait()
}

// stopwatch ends something that ran for too long, without its pauses.
type stopwatch struct {
	timer *time.Timer
	left  time.Duration
	since time.Time
}

// newStopwatch returns a running stopwatch.
func newStopwatch(longest time.Duration, end func()) *stopwatch {
	return &stopwatch{timer: time.AfterFunc(longest, end), left: longest, since: time.Now()}
}

// end may be called while the stopwatch is in use.
func (w *stopwatch) end() { w.timer.Stop() }

func (w *stopwatch) pause() {
	w.timer.Stop()
	w.left -= time.Since(w.since)
}

func (w *stopwatch) resume() {
	w.since = time.Now()
	w.timer.Reset(max(0, w.left))
}

const (
	// givesWayEvery is the number of steps between the points where a run yields the processor,
	// and pause how long it waits while calls are refused for overload.
	givesWayEvery = 16
	pause         = 20 * time.Millisecond
)

// giveWay lets other calls run first: their callers wait, whereas simulations are for people.
func (p *played) giveWay() error {
	if p.steps++; p.steps%givesWayEvery != 0 {
		return nil
	}
	return p.waiting(func() error {
		runtime.Gosched()
		limiter := p.service.options.Guard.Limiter
		for limiter != nil && limiter.Shedding() {
			select {
			case <-time.After(pause):
			case <-p.ctx.Done():
				return context.Cause(p.ctx)
			}
		}
		return context.Cause(p.ctx)
	})
}

// mostCauses limits the causes in the figures.
const mostCauses = 100

// figuresOf converts the figures of a run.
func figuresOf(result *simulation.Result) *setpointv1.SimulationFigures {
	f := &result.Figures
	out := &setpointv1.SimulationFigures{
		Steps:     int32(result.Steps),
		ShortTime: durationpb.New(f.ShortTime), OverTargetTime: durationpb.New(f.OverTarget),
		Offered: f.Offered, Served: f.Served, Lost: f.Lost, Late: f.Late, Queued: f.Queued, Returning: f.Returning,
		ReplicaHours: f.ReplicaHours, RunningHours: f.RunningHours, Cost: f.Cost,
		ScaleUps: int32(f.Ups), ScaleDowns: int32(f.Downs), Reversals: int32(f.Reversals), FailedWrites: int32(f.FailedWrites),
		LeastReplicas: f.Least, MostReplicas: f.Most,
	}
	for i := range f.Members {
		m := &f.Members[i].Figures
		out.MovedReplicas = new(int32(f.Moved))
		out.Members = append(out.Members, &setpointv1.SimulatedMemberFigures{
			Name: f.Members[i].Name, ShortTime: durationpb.New(m.ShortTime), ReplicaHours: m.ReplicaHours, LeastReplicas: m.Least, MostReplicas: m.Most,
		})
	}
	if !math.IsNaN(f.Efficiency) {
		out.Efficiency = &f.Efficiency
	}
	for _, c := range f.Causes[:min(len(f.Causes), mostCauses)] {
		out.Causes = append(out.Causes, &setpointv1.CauseTime{Cause: string(c.Cause), Time: durationpb.New(c.Time)})
	}
	if r := &f.Rises; r.Count > 0 {
		out.Reactions = &setpointv1.SimulatedReactions{
			Count: int32(r.Count), Median: durationpb.New(r.Median), P95: durationpb.New(r.P95), Worst: durationpb.New(r.Worst), Unfinished: r.Unfinished,
		}
	}
	return out
}
